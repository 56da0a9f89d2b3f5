"""Answers of several collections as one."""

import hashlib
import logging
import math
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_flag
from adobest_pp._text import brief
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import unique_rows
from adobest_pp.mechanisms import Mechanism
from adobest_pp.mechanisms.mixed import Mixed


def concat(responses: Sequence[Responses], *, allow_copies: bool = False) -> Responses:
    """Return the answers of several collections as one, in their order, whatever their mechanisms and budgets.

    Parameters
    ----------
    responses : sequence of Responses
        At least one, of different people, all with the same categories in the same order, which gives the answers their
        meaning.
    allow_copies : bool, default False
        Whether to accept the same object twice, or equal answers that cannot be chance: independent answers would all
        agree with a probability below 10⁻⁹.

    Returns
    -------
    Responses
        Of the one mechanism if all have the same, otherwise of a `mechanisms.Mixed`, which works everywhere: files,
        audit, likelihood, models and samplers. `Responses.epsilons` has the budget of each person.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> first = ad.Responses.from_arrays(ad.SRR(3, epsilon=1.0), [0, 0, 2])
    >>> second = ad.Responses.from_arrays(ad.UnaryEncoding(3, epsilon=2.0), [[0, 1, 1]])
    >>> both = ad.concat([first, second])
    >>> both.epsilons
    array([1., 1., 1., 2.])
    >>> round(ad.likelihood.log_likelihood([0.5, 0.2, 0.3], both.evidence()), 4)
    -6.5116
    """
    given = [*responses] if isinstance(responses, list | tuple) else []
    if not given or not all(isinstance(each, Responses) for each in given):
        raise ValueError(f"responses must be a list of at least one Responses, got {brief(responses)}")
    categories = given[0].categories
    for i, each in enumerate(given):
        if each.categories != categories:
            raise ValueError(
                f"responses must have the same categories in the same order, got {brief(list(categories))} "
                f"and, in responses[{i}], {brief(list(each.categories))}"
            )
    if not check_flag(allow_copies, "allow_copies"):
        _refuse_copies(given)
    parts = list(dict.fromkeys(part for each in given for part in each.mechanism.components()))
    if len(parts) == 1:
        return _joined(parts[0], given, [each.answers for each in given])
    mixed = Mixed(parts)
    return _joined(mixed, given, [_in_parts(each, mixed) for each in given])


def _refuse_copies(given: list[Responses]) -> None:
    for first, second, *_ in repeats(range(len(given)), lambda i: id(given[i]) if len(given[i]) else None):
        raise ValueError(
            f"responses must hold answers of different people, got the same object as responses[{first}] and "
            f"responses[{second}]: leave one out"
        )
    for first, *others in repeats(range(len(given)), lambda i: _content(given[i])):
        names = f"responses[{first}]", f"responses[{others[0]}]"
        refuse_copy("responses", names, len(given[first]), log_orders(_counts(given[first])), len(given))


def _content(responses: Responses) -> Hashable:
    """Return a fingerprint, equal for equal answers in equal order; None without answers."""
    if not len(responses):
        return None
    index, sets = responses.subset_index, np.packbits(responses.subsets, axis=1)
    tables = (responses.answers, index, sets)
    return responses.mechanism, *(hashlib.sha256(np.ascontiguousarray(each)).digest() for each in tables)


def _counts(responses: Responses) -> NDArray[np.int64]:
    """Return how often each distinct answer occurs, together with its published subset."""
    answers = responses.answers.reshape(len(responses), -1)
    index = responses.subset_index.reshape(-1, 1) if responses.mechanism.publishes_subset else answers[:, :0]
    rows = np.ascontiguousarray(np.hstack([answers, index]).astype(np.int64))
    return np.bincount(unique_rows(rows.view(np.uint8))[1])


def _in_parts(responses: Responses, mixed: Mixed) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the answers of one collection as answers of the mixture."""
    mechanism, answers = responses.mechanism, responses.answers
    places = [mixed.parts.index(part) for part in mechanism.components()]
    if len(places) == 1:
        return mixed.answers_of(places[0], answers)
    rows = np.zeros((len(answers), *mixed.answer_dims.values()), dtype=np.int64)
    rows[:, : answers.shape[1]] = answers
    rows[:, 0] = np.array(places)[answers[:, 0]]
    return rows


def _joined(mechanism: Mechanism, given: list[Responses], answers: list[Any]) -> Responses:
    tables: dict[str, Any] = {}
    if mechanism.publishes_subset:
        # Row 0 is the empty subset, for people to whom none was published.
        masks, index = [np.zeros((1, mechanism.n_categories), dtype=bool)], []
        for each in given:
            published = each.mechanism.publishes_subset
            start = sum(map(len, masks))
            index.append(start + each.subset_index if published else np.zeros(len(each), dtype=np.int64))
            masks.append(each.subsets if published else masks[0][:0])
        tables = {"subsets": np.concatenate(masks), "subset_index": np.concatenate(index)}
    return Responses.from_arrays(mechanism, np.concatenate(answers), categories=given[0].categories, **tables)


# Answers that would be counted twice: the same file, the same object, or the same content under two names.
#
# The same file is always refused, and the same object unless ``allow_copies`` is given. Equal content is refused if it
# cannot be chance. Given how often each answer occurs, all orders of n independent answers are equally likely, so two
# collections agree in every answer with probability at most 1/orders, where ``orders = n!/∏ count!``. With few answers,
# or answers that are all the same, equal content may be that of different people: it is counted, with a warning from
# `NOTABLE` answers on.
#
# Sorted answers may agree by chance although this rule refuses them: ``allow_copies`` accepts them. A copy in another
# format, or with its rows in another order, goes unnoticed.

logger = logging.getLogger("adobest_pp")

# The largest probability of a false alarm, over all pairs, and the fewest answers whose copy is worth a warning.
CHANCE = 1e-9
NOTABLE = 20
_START = 1 << 16


def log_orders(count: NDArray[np.int64]) -> float:
    """Return the logarithm of the number of orders of answers with these counts."""
    from scipy.special import gammaln

    return float(gammaln(count.sum() + 1.0) - gammaln(count + 1.0).sum())


def refuse_copy(argument: str, names: tuple[str, str], n: int, orders: float, n_parts: int) -> None:
    """Raise ValueError if two parts of an argument are equal and that cannot be chance; otherwise warn.

    `orders` is `log_orders` of their `n` answers, or a lower bound. The more parts there are (`n_parts`), the likelier
    two are equal by chance.
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
    """Return groups of places with equal content, where None never equals anything."""
    groups: dict[Hashable, list[int]] = {}
    for place in places:
        groups.setdefault(content_of(place), []).append(place)
    return [group for content, group in groups.items() if content is not None and len(group) > 1]


def equal_files(paths: Sequence[str]) -> dict[int, int]:
    """Return, for each file with the same bytes as an earlier one, the first such file. Skip unreadable files."""
    groups = [[*range(len(paths))]]
    # Few files are read whole, which takes about a second for each GB.
    for limit in (0, _START, None):
        groups = [part for group in groups for part in repeats(group, lambda i: _fingerprint(paths[i], limit))]  # noqa: B023
    return {place: group[0] for group in groups for place in group[1:]}


def _fingerprint(path: str, limit: int | None) -> Hashable:
    """Return the size of a file and the SHA-256 of its first `limit` bytes (None: all); None if unreadable."""
    try:
        with open(path, "rb") as handle:
            if limit is None:
                return hashlib.file_digest(handle, "sha256").digest()
            return os.fstat(handle.fileno()).st_size, hashlib.sha256(handle.read(limit)).digest()
    except OSError:
        return None
