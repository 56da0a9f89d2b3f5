"""Local hashing: randomized response on a public hash of the category.

The hash is xxHash32 [1]_ of the category's decimal digits in ASCII, as in `pure-ldp` and `multi-freq-ldpy`
(``xxhash.xxh32(str(x), seed=seed).intdigest()``), so that their answers can be read here.

References
----------
.. [1] Y. Collet, xxHash: fast digest algorithm, specification of XXH32.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_epsilon, check_integer, check_n_categories
from adobest_pp._types import Answers, Bits, Floats, Integers, Masks
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, ExtremalMechanism, Published, rows_of
from adobest_pp.mechanisms.exact import UNIT, Source, randomized_response
from adobest_pp.mechanisms.guessing import guess_from_sets
from adobest_pp.mechanisms.information import from_independent_sets

_PRIME1, _PRIME2, _PRIME3, _PRIME4, _PRIME5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)


def hash_categories(seeds: NDArray[np.uint32], n_categories: int) -> NDArray[np.uint32]:
    """Return the hash of every category under every seed, of shape (n, K)."""
    hashes = np.empty((len(seeds), n_categories), dtype=np.uint32)
    for length in range(1, len(str(n_categories - 1)) + 1):
        categories = np.arange(10 ** (length - 1) if length > 1 else 0, min(10**length, n_categories))
        digits = categories[:, None] // 10 ** np.arange(length - 1, -1, -1) % 10
        hashes[:, categories] = _xxh32(digits.astype(np.uint32) + np.uint32(ord("0")), seeds[:, None])
    return hashes


def xxh32(text: bytes, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return XXH32 of a text of fewer than 16 bytes under each seed."""
    return _xxh32(np.frombuffer(text, dtype=np.uint8).astype(np.uint32), np.asarray(seeds, dtype=np.uint32))


def _xxh32(characters: NDArray[np.uint32], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return XXH32 of texts of one length, whose bytes are along the last axis."""
    length = characters.shape[-1]
    with np.errstate(over="ignore"):
        state = seeds + _PRIME5 + np.uint32(length)
        whole = length // 4 * 4
        for start in range(0, whole, 4):
            word = sum(characters[..., start + i] << np.uint32(8 * i) for i in range(4))
            state = _rotated(state + word * _PRIME3, 17) * _PRIME4
        for i in range(whole, length):
            state = _rotated(state + characters[..., i] * _PRIME5, 11) * _PRIME1
        state = (state ^ (state >> np.uint32(15))) * _PRIME2
        state = (state ^ (state >> np.uint32(13))) * _PRIME3
        return np.asarray(state ^ (state >> np.uint32(16)), dtype=np.uint32)


def _rotated(state: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return np.asarray((state << np.uint32(bits)) | (state >> np.uint32(32 - bits)))


N_SEEDS = 1 << 32
MAX_VALUES = 1 << 31
_NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True, init=False)
class LocalHashing(ExtremalMechanism):
    """Local hashing: a public seed picks a hash into g values, and the hash of the truth is randomized [1]_.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    g : int, optional
        Number of values that categories are hashed into, at least 2. The default, the nearest integer to e^ε + 1, has
        the smallest variance (OLH).

    Notes
    -----
    An answer is the pair (seed, value). The seed is drawn independently of the truth and may be public. The hash is
    xxHash32 of the category's decimal digits, modulo g, as in other libraries and on every platform. So
    `Responses.from_arrays` takes answers of those libraries as ``np.column_stack([seeds, values])``.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li and S. Jha (2017), Locally differentially private protocols for frequency
       estimation, USENIX Security.

    Examples
    --------
    >>> from adobest_pp import LocalHashing
    >>> LocalHashing(100, epsilon=1.0).g
    4
    """

    n_categories: int
    epsilon: float
    g: int
    answer_columns = ("seed", "value")
    answer_type = np.dtype(np.uint32)

    def __init__(self, n_categories: int, epsilon: float, g: int | None = None) -> None:
        self._set(n_categories=check_n_categories(n_categories), epsilon=check_epsilon(epsilon))
        best = min(round(math.exp(self.epsilon)) + 1, MAX_VALUES)
        self._set(g=best if g is None else check_integer(g, "g", 2, MAX_VALUES))

    def transition_matrix(self, seed: int) -> Floats:  # type: ignore[override]
        """Return ``G[v, x] = P(value v | X=x)`` under one seed, of shape (g, K)."""
        seeds = np.array([check_integer(seed, "seed", 0, N_SEEDS - 1)])
        answers = np.column_stack([np.repeat(seeds, self.g), np.arange(self.g)])
        return np.where(self.support(answers), math.exp(self.epsilon), 1.0) * math.exp(self._log_weight)

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        """Average over random hashes."""
        odds = math.expm1(self.epsilon)
        return from_independent_sets(theta, odds, 1 / self.g, self.g / (odds + self.g))

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        """Average over random hashes, which put each category into the set with probability 1/g."""
        first = (1 - 1 / self.g) ** np.arange(self.n_categories) / self.g
        weight = self.g * math.exp(self._log_weight)
        return guess_from_sets(np.sort(theta)[::-1], math.exp(self.epsilon), first, weight)

    @property
    def answer_dims(self) -> dict[str, int]:
        """An answer is a seed and a value."""
        return {"seed_and_value": 2}

    @property
    def n_outputs(self) -> int:
        """The number of pairs of a seed and a value."""
        return N_SEEDS * self.g

    def outputs(self) -> Integers:
        """Raise ValueError: there are too many."""
        self._check_few_outputs()
        return super().outputs()

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return rows of a seed and a value, or raise ValueError."""
        allowed = f"rows of a seed from 0 to {N_SEEDS - 1} and a value from 0 to {self.g - 1}"
        rows = rows_of(answers, 2, allowed)
        if rows.dtype == bool or (
            rows.size and (rows.min() < 0 or rows[:, 0].max() >= N_SEEDS or rows[:, 1].max() >= self.g)
        ):
            raise ValueError(f"answers must be {allowed}, got values out of range")
        return rows.astype(np.int64)

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw a seed, and apply randomized response to the hash of the truth."""
        seeds = source.below(N_SEEDS, x.size)
        # Every category is hashed, so that the work does not depend on x.
        own = self._hashes(seeds)[np.arange(x.size), x].astype(np.int64)
        return np.column_stack([seeds, randomized_response(source, own, self.g, self._keep)])

    @property
    def _people_at_once(self) -> int:
        return max(1, _NUMBERS_AT_ONCE // self.n_categories)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: a seed that hashes two categories to different values, and one of these values."""
        seeds = np.arange(1000)
        hashes = hash_categories(seeds.astype(np.uint32), 2) % np.uint32(self.g)
        seed = int(seeds[hashes[:, 0] != hashes[:, 1]][0])
        output = (seed, int(hashes[seed, 0]))
        yield AuditCase(self.g, [output], [0, 1], np.array([[self._keep, UNIT]], dtype=object))

    def support(self, answers: Answers) -> Masks:
        """Return the categories whose hash is the value."""
        return np.asarray(self._hashes(answers[:, 0]) == answers[:, 1:].astype(np.uint32))

    def _hashes(self, seeds: Integers) -> NDArray[np.uint32]:
        return hash_categories(seeds.astype(np.uint32), self.n_categories) % np.uint32(self.g)

    def log_weight(self, answers: Answers) -> Floats:
        """Return ln w, the same for all answers: w is the probability of a value, given the seed."""
        return np.full(len(answers), self._log_weight)

    def log_weight_of_size(self, sizes: Integers) -> Floats:
        """Return ln w, the same for all answers."""
        return np.full(len(sizes), self._log_weight)

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count the answers whose value is the hash of a category; hashes are random."""
        seeds, values = answers.astype(np.uint32).T
        observed = [np.sum(xxh32(str(x).encode(), seeds) % np.uint32(self.g) == values) for x in listed.tolist()]
        return self._named_counts(len(answers), np.array(observed, dtype=np.float64), theta, listed)

    def support_counts(self, masks: Bits, theta: Floats, listed: Integers) -> Counts:
        """Return `answer_counts` of support sets, which do not determine seeds and values."""
        return self._named_counts(len(masks), masks[:, listed].sum(axis=0, dtype=np.float64), theta, listed)

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category, over random hashes."""
        return math.exp(self.epsilon + self._log_weight), 1 / self.g

    def drawing(self) -> Drawing:
        """Draw a seed, and randomize the hash of the truth."""
        return self._drawing("draw_hashed", [[math.exp(self.epsilon + self._log_weight), self.g]])

    @property
    def _log_weight(self) -> float:
        return -math.log(math.exp(self.epsilon) + self.g - 1)
