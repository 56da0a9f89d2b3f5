"""Answers that would be counted twice: the same file, the same object, or the same content under two names.

The same file is always refused, and the same object unless ``allow_copies`` is given: it holds the answers of the same
people. Equal content is refused where it cannot be chance. Given how often each answer occurs, all orders of n
independent answers are equally likely, so two collections agree in every answer with probability at most 1/orders,
where ``orders = n!/∏ count!``. With few answers, or with answers that are all the same, equal content may well be of
different people, and is counted; from `NOTABLE` answers on a warning names it.

Answers that somebody has sorted have lost their order, and may be equal by chance where this rule refuses them: that is
what ``allow_copies`` is for. A copy in another format or with its rows in another order is not noticed.
"""

import hashlib
import logging
import math
import os
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["equal_files", "log_orders", "refuse_copy", "repeats"]

logger = logging.getLogger("adobest_pp")

# The largest probability of a false alarm, of all pairs together, and the fewest answers whose copy is worth a warning.
CHANCE = 1e-9
NOTABLE = 20
_START = 1 << 16


def log_orders(count: NDArray[np.int64]) -> float:
    """Return the logarithm of the number of orders of answers that occur so often."""
    from scipy.special import gammaln

    return float(gammaln(count.sum() + 1.0) - gammaln(count + 1.0).sum())


def refuse_copy(argument: str, names: tuple[str, str], n: int, orders: float, n_parts: int) -> None:
    """Raise ValueError if two of the parts of an argument have equal content that cannot be chance, or else warn of it.

    Parameters
    ----------
    argument : str
        As errors name it.
    names : (str, str)
        Those of the two parts.
    n : int
        How many answers each has.
    orders : float
        `log_orders` of these answers, or a lower bound.
    n_parts : int
        How many parts there are: the more there are, the likelier two are equal by chance.
    """
    same = f"{names[0]} and {names[1]}, which hold the same {n:,} answers in the same order"
    if orders > math.log(max(1, n_parts * (n_parts - 1) / 2) / CHANCE):
        raise ValueError(
            f"{argument} must hold answers of different people, got {same}: leave one out, or pass allow_copies=True "
            "if they are different people's"
        )
    if n >= NOTABLE:
        logger.warning("Check that you have not counted people twice: %s.", same)


def repeats(places: Iterable[int], content_of: Callable[[int], Hashable]) -> list[list[int]]:
    """Return the places with equal content, where there are several; None is equal to nothing."""
    groups: dict[Hashable, list[int]] = {}
    for place in places:
        groups.setdefault(content_of(place), []).append(place)
    return [group for content, group in groups.items() if content is not None and len(group) > 1]


def equal_files(paths: Sequence[str]) -> dict[int, int]:
    """Return, for each file with the same bytes as one before it, the first of these. Unreadable files have none."""
    groups = [[*range(len(paths))]]
    # Few files get as far as their whole content, which takes a second for each GB or so.
    for limit in (0, _START, None):
        groups = [part for group in groups for part in repeats(group, lambda i: _fingerprint(paths[i], limit))]  # noqa: B023
    return {place: group[0] for group in groups for place in group[1:]}


def _fingerprint(path: str, limit: int | None) -> Hashable:
    """Return the size of a file and the SHA-256 of its first `limit` bytes, of all with None; None if unreadable."""
    try:
        with open(path, "rb") as handle:
            if limit is None:
                return hashlib.file_digest(handle, "sha256").digest()
            return os.fstat(handle.fileno()).st_size, hashlib.sha256(handle.read(limit)).digest()
    except OSError:
        return None
