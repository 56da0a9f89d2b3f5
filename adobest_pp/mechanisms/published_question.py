"""A question as it is published to devices: a small JSON text, which a device checks before it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_epsilon, check_integer
from adobest_pp._labels import check_labels
from adobest_pp._text import LONGEST, brief, visible
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.privacy import audit
from adobest_pp.mechanisms.reading import MAX_ASKED, MAX_TABLE, MAX_TEXT, loads
from adobest_pp.mechanisms.registry import mechanism_from_settings

# What may be published. A text never makes a device import anything else.
ASKABLE = ("SetFamily", "SubsetSelection")


@dataclass(frozen=True)
class PublishedQuestion:
    """What a collection asks: `Collection.next_question` makes it, `read_question` reads it.

    Attributes
    ----------
    number : int
        Goes back to the collector with the answer.
    mechanism : Mechanism
        What the device runs.
    categories : tuple of str
        What the numbers 0 … K−1 stand for.
    subset : tuple of int or None
        The subset that is published with it, in increasing order, if the mechanism publishes one.
    """

    number: int
    mechanism: Mechanism
    categories: tuple[str, ...]
    subset: tuple[int, ...] | None = None

    def privatize(self, x: ArrayLike, *, rng: np.random.Generator | None = None) -> int | NDArray[np.int64]:
        """Randomize private categories on the device; see `Mechanism.privatize`."""
        options: dict[str, Any] = {} if rng is None else {"rng": rng}
        if self.subset is not None:
            options["subset"] = list(self.subset)
        return self.mechanism.privatize(x, **options)

    def to_json(self) -> str:
        """Return the text to publish: for a `SetFamily` its sets and integer weights, ε, and the labels.

        Raise ValueError if there is a subset to publish, which a text does not hold, or if devices would refuse it for
        its size (see `read_question`).
        """
        if self.subset is not None:
            raise ValueError("question must publish no subset to be a text: publish its `subset` to the devices")
        settings = self.mechanism.settings()
        _check_size(settings, self.categories)
        content = {"number": self.number, "question": settings, "categories": list(self.categories)}
        text = json.dumps(content, separators=(",", ":"))
        if len(text) > MAX_TEXT:  # of ASCII characters
            raise ValueError(f"question must take at most {MAX_TEXT:,} bytes, got {len(text):,}")
        return text


def read_question(text: str | bytes, epsilon: float) -> PublishedQuestion:
    """Read a published question on a device, or raise ValueError: then the device must not answer.

    Whatever the text, that takes less than a second and 100 MB: a question has at most 1,000,000 bytes, 20,000
    categories, and 300,000 sets times categories.

    Parameters
    ----------
    text : str or bytes
        What the collector published.
    epsilon : float
        The budget that the person has agreed to. It is the device that holds the question to it.

    Returns
    -------
    PublishedQuestion
        Whose exact audit holds. Answer by ``question.mechanism.privatize(x)``.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> collection = ad.Collection.create(policy=ad.Rounds(ad.SubsetSelection(3, epsilon=1.0), n_people=100))
    >>> question = ad.read_question(collection.next_question().to_json(), epsilon=1.0)
    >>> collection.record(question.privatize(2), question)
    """
    budget = check_epsilon(epsilon)
    content = _parsed(text)
    settings, categories = content["question"], content["categories"]
    kind = settings.get("mechanism") if isinstance(settings, dict) else None
    if kind not in ASKABLE:
        raise ValueError(f"question must be of {' or '.join(ASKABLE)}, got {brief(kind)}")
    _check_size(settings, categories)
    number = check_integer(content["number"], "number", 0)
    try:
        mechanism = mechanism_from_settings(settings)
    except ValueError as reason:
        raise ValueError(f"question must be one that keeps its ε: {reason}") from None
    if mechanism.epsilon > budget:
        raise ValueError(f"question must have an epsilon of at most {budget:g}, got {mechanism.epsilon:g}")
    labels = check_labels(categories, mechanism.n_categories)
    found = audit(mechanism)
    if not found.holds:
        worst = found.worst
        raise ValueError(
            f"question must keep ε = {mechanism.epsilon:g}, got a privacy loss of {found.loss:.6g} between categories "
            f"{worst.x} and {worst.x_prime}"
        )
    return PublishedQuestion(number, mechanism, labels)


def _parsed(text: Any) -> dict[str, Any]:
    """Return the object in a text, or raise ValueError."""
    names = ("number", "question", "categories")
    allowed = f"text must be a JSON object with {', '.join(names)}"
    if not isinstance(text, str | bytes | bytearray):
        raise ValueError(f"{allowed}, got {brief(text)}")
    if len(text) > MAX_TEXT or (isinstance(text, str) and len(text.encode(errors="surrogatepass")) > MAX_TEXT):
        raise ValueError(f"text must be at most {MAX_TEXT:,} bytes long, got more")
    try:
        content = loads(text)
    except ValueError as reason:
        raise ValueError(f"{allowed}, got {brief(text[:LONGEST])}: {visible(reason)}") from None
    if not isinstance(content, dict) or any(name not in content for name in names):
        raise ValueError(f"{allowed}, got {brief(text[:LONGEST])}")
    return content


def _check_size(settings: Mapping[str, Any], categories: Any) -> None:
    """Raise ValueError for a question that a device could not answer within a second, before anything is built."""
    if not isinstance(categories, list | tuple) or not 2 <= len(categories) <= MAX_ASKED:
        got = f"{len(categories):,} of them" if isinstance(categories, list | tuple) else brief(categories)
        raise ValueError(f"categories must be a list of 2 to {MAX_ASKED:,} labels, got {got}")
    k, sets = len(categories), settings.get("sets")
    if settings.get("n_categories", k) != k:
        raise ValueError(f"categories must be {brief(settings['n_categories'])} distinct labels, got {k:,} of them")
    n_sets = len(sets) if isinstance(sets, list | tuple) else 0
    if settings["mechanism"] == "SetFamily" and n_sets * k > MAX_TABLE:
        raise ValueError(
            f"question must have at most {MAX_TABLE // k:,} sets of {k:,} categories ({MAX_TABLE:,} in all), "
            f"got {n_sets:,}"
        )
