"""A question as it is published to devices: a small JSON text, which a device checks before it answers."""

import json
from dataclasses import dataclass
from typing import Any

from adobest_pp._checks import check_epsilon, check_integer
from adobest_pp._labels import check_labels
from adobest_pp._text import brief
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.privacy import audit
from adobest_pp.mechanisms.registry import mechanism_from_settings

__all__ = ["PublishedQuestion", "read_question"]

# What may be published. A text never makes a device import anything else.
KINDS = ("SetFamily", "SubsetSelection")


@dataclass(frozen=True)
class PublishedQuestion:
    """What a collection in rounds asks: `AdaptiveCollector.next_question` makes it, `read_question` reads it.

    Attributes
    ----------
    number : int
        Goes back to the collector with the answer.
    mechanism : Mechanism
        What the device runs.
    categories : tuple of str
        What the numbers 0 … K−1 stand for.
    """

    number: int
    mechanism: Mechanism
    categories: tuple[str, ...]

    def to_json(self) -> str:
        """Return the text to publish: for a `SetFamily` its sets and integer weights, ε, and the labels."""
        content = {"number": self.number, "question": self.mechanism.settings(), "categories": list(self.categories)}
        return json.dumps(content, separators=(",", ":"))


def read_question(text: str | bytes, epsilon: float) -> PublishedQuestion:
    """Read a published question on a device, or raise ValueError: then the device must not answer.

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
    >>> collector = ad.AdaptiveCollector(ad.SubsetSelection(3, epsilon=1.0), method="design", n_people=100)
    >>> question = ad.read_question(collector.next_question().to_json(), epsilon=1.0)
    >>> collector.record(question.mechanism.privatize(2), question.number)
    """
    budget = check_epsilon(epsilon)
    content = _parsed(text)
    settings: Any = content["question"]
    kind = settings.get("mechanism") if isinstance(settings, dict) else None
    if kind not in KINDS:
        raise ValueError(f"question must be of {' or '.join(KINDS)}, got {brief(kind)}")
    try:
        mechanism = mechanism_from_settings(settings)
    except ValueError as reason:
        raise ValueError(f"question must be one that keeps its ε: {reason}") from None
    if mechanism.epsilon > budget:
        raise ValueError(f"question must have an epsilon of at most {budget:g}, got {mechanism.epsilon:g}")
    found = audit(mechanism)
    if not found.holds:
        worst = found.worst
        raise ValueError(
            f"question must keep ε = {mechanism.epsilon:g}, got a privacy loss of {found.loss:.6g} between categories "
            f"{worst.x} and {worst.x_prime}"
        )
    number = check_integer(content["number"], "number", 0)
    return PublishedQuestion(number, mechanism, check_labels(content["categories"], mechanism.n_categories))


def _parsed(text: Any) -> dict[str, Any]:
    """Return the object in a text, or raise ValueError."""
    names = ("number", "question", "categories")
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or any(name not in content for name in names):
        raise ValueError(f"text must be a JSON object with {', '.join(names)}, got {brief(text)}")
    return content
