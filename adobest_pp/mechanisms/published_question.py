"""A question as it is published to devices: a small JSON text that a device checks before it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_epsilon, check_integer, check_subset
from adobest_pp._text import LONGEST, brief, check_labels, visible
from adobest_pp._types import Integers
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.privacy import audit
from adobest_pp.mechanisms.registry import loads, mechanism_from_settings

# Within these bounds a device reads, audits and answers a question within a second and 100 MB.
MAX_TEXT = 1_000_000  # bytes
MAX_ASKED = 20_000  # categories
MAX_WITH_SUBSET = 5_000  # categories, where a subset is published: the budgets of every size are audited
MAX_TABLE = 300_000  # sets times categories: the weights that an answer is drawn from
# The mechanisms that may be published. A text never makes a device import anything else.
ASKABLE = (
    "CountMeanSketch",
    "Crosswise",
    "ForcedResponse",
    "HadamardResponse",
    "Kuk",
    "ProjectiveGeometryResponse",
    "RRRR",
    "SetFamily",
    "SRR",
    "SubsetSelection",
    "UnrelatedQuestion",
    "Warner",
)


@dataclass(frozen=True)
class PublishedQuestion:
    """What a collection asks. `Collection.next_question` makes it and `read_question` reads it.

    Attributes
    ----------
    number : int
        Returned to the collector with the answer.
    mechanism : Mechanism
        What the device runs.
    categories : tuple of str
        What the numbers 0 … K−1 stand for.
    subset : tuple of int or None
        The published subset in increasing order, if the mechanism publishes one.
    """

    number: int
    mechanism: Mechanism
    categories: tuple[str, ...]
    subset: tuple[int, ...] | None = None

    def privatize(self, x: ArrayLike, *, rng: np.random.Generator | None = None) -> int | Integers:
        """Randomize private categories on the device; see `Mechanism.privatize`."""
        options: dict[str, Any] = {} if rng is None else {"rng": rng}
        if self.subset is not None:
            options["subset"] = list(self.subset)
        return self.mechanism.privatize(x, **options)

    def to_json(self) -> str:
        """Return the text to publish: number, settings of the mechanism, labels, subset if there is one, and odds.

        The odds are the integers, in units of 2⁻⁶⁴, that stand for e^ε in the weights that a device draws from. Devices
        that are not written in Python (`adobest_pp.device`) audit these integers and draw with them.

        Raise ValueError if devices cannot read the mechanism from a text, or if the question is too large for them (see
        `read_question`).
        """
        settings = self.mechanism.settings()
        _check_kind(settings)
        _check_size(settings, self.categories)
        content: dict[str, Any] = {"number": self.number, "question": settings, "categories": list(self.categories)}
        if self.subset is not None:
            content["subset"] = list(self.subset)
        content["odds"] = list(self.mechanism.published_odds(self.subset))
        text = json.dumps(content, separators=(",", ":"))
        if len(text) > MAX_TEXT:  # all characters are ASCII
            raise ValueError(f"question must take at most {MAX_TEXT:,} bytes, got {len(text):,}")
        return text


def read_question(text: str | bytes, epsilon: float) -> PublishedQuestion:
    """Read a published question on a device. If this raises ValueError, the device must not answer.

    Whatever the text, reading takes less than a second and 100 MB: a question has at most 1,000,000 bytes, 20,000
    categories (5,000 with a subset), and 300,000 sets times categories.

    Parameters
    ----------
    text : str or bytes
        The text that the collector published.
    epsilon : float
        The budget that the person has agreed to. The device itself makes sure that the question keeps it.

    Returns
    -------
    PublishedQuestion
        A question that has passed the exact audit. Answer with ``question.privatize(x)``.

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
    _check_kind(settings)
    _check_size(settings, categories)
    number = check_integer(content["number"], "number", 0)
    try:
        mechanism = mechanism_from_settings(settings)
    except ValueError as reason:
        raise ValueError(f"question must have a mechanism that keeps its ε: {reason}") from None
    if mechanism.epsilon > budget:
        raise ValueError(f"question must have an epsilon of at most {budget:g}, got {mechanism.epsilon:g}")
    labels = check_labels(categories, mechanism.n_categories)
    subset = _check_subset(content.get("subset"), mechanism)
    if "odds" in content and content["odds"] != list(mechanism.published_odds(subset)):
        raise ValueError(f"odds must be the integers of the mechanism that is asked, got {brief(content['odds'])}")
    found = audit(mechanism)
    if not found.holds:
        worst = found.worst
        raise ValueError(
            f"question must keep ε = {mechanism.epsilon:g}, got a privacy loss of {found.loss:.6g} between categories "
            f"{worst.x} and {worst.x_prime}"
        )
    return PublishedQuestion(number, mechanism, labels, subset)


def _parsed(text: Any) -> dict[str, Any]:
    names = ("number", "question", "categories")
    allowed = f"text must be a JSON object with {', '.join(names)}"
    if not isinstance(text, str | bytes | bytearray):
        raise ValueError(f"{allowed}, got {brief(text)}")
    if len(text) > MAX_TEXT or (isinstance(text, str) and len(text.encode(errors="surrogatepass")) > MAX_TEXT):
        raise ValueError(f"text must have at most {MAX_TEXT:,} bytes, got more")
    try:
        content = loads(text)
    except ValueError as reason:
        raise ValueError(f"{allowed}, got {brief(text[:LONGEST])}: {visible(reason)}") from None
    if not isinstance(content, dict) or any(name not in content for name in names):
        raise ValueError(f"{allowed}, got {brief(text[:LONGEST])}")
    return content


def _check_kind(settings: Any) -> None:
    """Raise ValueError for a mechanism that cannot be published as a text."""
    kind = settings.get("mechanism") if isinstance(settings, dict) else None
    if kind not in ASKABLE:
        raise ValueError(f"question must use {', '.join(ASKABLE[:-1])} or {ASKABLE[-1]}, got {brief(kind)}")


def _check_subset(subset: Any, mechanism: Mechanism) -> tuple[int, ...] | None:
    """Return the subset of a text in increasing order, None if there is none, or raise ValueError."""
    if not mechanism.publishes_subset and subset is None:
        return None
    if not mechanism.publishes_subset or not isinstance(subset, list) or any(type(each) is not int for each in subset):
        allowed = "a list of category indices" if mechanism.publishes_subset else "left out"
        raise ValueError(f"subset must be {allowed} for {type(mechanism).__name__}, got {brief(subset)}")
    return tuple(np.flatnonzero(check_subset(subset, mechanism.n_categories)).tolist())


def _check_size(settings: Mapping[str, Any], categories: Any) -> None:
    """Raise ValueError if a question is too large for a device, before anything is built."""
    if not isinstance(categories, list | tuple) or not 2 <= len(categories) <= MAX_ASKED:
        got = f"{len(categories):,}" if isinstance(categories, list | tuple) else brief(categories)
        raise ValueError(f"categories must be a list of 2 to {MAX_ASKED:,} labels, got {got}")
    k, sets = len(categories), settings.get("sets")
    if settings.get("n_categories", k) != k:
        raise ValueError(f"categories must be {brief(settings['n_categories'])} distinct labels, got {k:,}")
    n_sets = len(sets) if isinstance(sets, list | tuple) else 0
    if settings["mechanism"] == "RRRR" and k > MAX_WITH_SUBSET:
        raise ValueError(f"categories must be at most {MAX_WITH_SUBSET:,} labels for RRRR, got {k:,}")
    if settings["mechanism"] == "SetFamily" and n_sets * k > MAX_TABLE:
        raise ValueError(
            f"question must have at most {MAX_TABLE // k:,} sets of {k:,} categories ({MAX_TABLE:,} in all), "
            f"got {n_sets:,}"
        )
