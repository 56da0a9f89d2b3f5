"""What every mechanism has in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class AuditCase(NamedTuple):
    """Exact weights of one published mechanism, enough of them to find its worst probability ratio.

    ``weights[i, j]`` is proportional to P(Y = outputs[i] | X = inputs[j]), with one factor for all of them.
    """

    size: int
    outputs: list[Any]
    inputs: list[int]
    weights: NDArray[np.object_]


class Mechanism(ABC):
    """A randomized mechanism on K categories that runs on a person's device."""

    n_categories: int
    epsilon: float

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return plain values from which `mechanism_from_settings` builds an equal mechanism."""

    @abstractmethod
    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the exact weights of the production path, one case per mechanism that can be published."""
