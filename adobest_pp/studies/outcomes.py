"""What became of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DONE", "FAILED", "NOT_RUN", "Outcome"]

NOT_RUN, DONE, FAILED = 0, 1, 2


@dataclass(frozen=True)
class Outcome:
    """What became of one run: its measures, or the text of its error; and how long it took."""

    run: int
    measures: Mapping[str, float]
    seconds: float
    error: str = ""
