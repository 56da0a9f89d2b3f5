"""The gradient of the log-likelihood, on all evidence or with control variates that leave little to a batch.

At an anchor θ̂ the gradient and the information are summed over all n answers once. With δ = θ − θ̂ and r = g·δ/ĥ the
relative change of an answer's probability, g/h = (g/ĥ)·(1 − r + r²/(1+r)) exactly, so

    Σ g/h = ∇(θ̂) − I(θ̂)·δ + Σ (g/ĥ)·r²/(1+r),

and only the last sum is estimated, as n/m times that of m rows, drawn with probability proportional to their counts.
The estimate is unbiased whatever the anchor, and its error is of second order in r. First-order control variates [1]_
leave (g/ĥ)·r/(1+r) to the batch, whose error is larger by 1/r; the expansion to second order is that of [2]_.

Rows here leave out their `base`: it adds the same to every category, which does not matter on the simplex.

References
----------
.. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2019), Control variates for stochastic gradient MCMC,
   Statistics and Computing 29.
.. [2] R. Bardenet, A. Doucet and C. Holmes (2017), On Markov chain Monte Carlo methods for tall data, JMLR 18.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, log_ndtr, ndtr, ndtri

from adobest_pp._numerics import alias_table, next_word, uniform, zero_sum_basis
from adobest_pp._types import Floats, Integers
from adobest_pp.evidence import NO_STRUCTURE, Evidence, support_rows
from adobest_pp.likelihood.core import information_diagonal, row_probabilities, value_and_gradient
from adobest_pp.likelihood.marginal import climb
from adobest_pp.transforms import add_structured, blocks, structured_masses

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)

# Sums may be taken in any order, so that loops of products are vectorized.
REORDER = {"reassoc", "contract", "nsz"}

# The most entries of rows that are written out.
MOST_ENTRIES = 1 << 24


# Answers, as the compiled functions read them.


class PackedSets(NamedTuple):
    """Answers with probability ∝ 1 + inside·θ(S): the sets as packed bits (n, ⌈K/8⌉)."""

    packed: NDArray[np.uint8]
    inside: float
    n_categories: int

    @property
    def n_responses(self) -> int:
        """The number n of answers."""
        return len(self.packed)


class Rows(NamedTuple):
    """Evidence as the kernels read it; arrays by row, of shape (U, ·).

    Attributes
    ----------
    numbers : array of shape (U, 4)
        base, own, inside and count.
    places : array of int, shape (U, 4)
        The category, the set (for none, the number after the last), and where its members begin and end.
    members, offsets, patterns, structure
        As in `Evidence`. The numbers of patterns follow those of the sets, and those of structured sets come last.
    threshold, alias : array of shape (U,)
        The alias table for drawing rows by their counts: below its threshold, row u stays u; above, it is its alias.
    n_responses : float
        n.
    packed : array of shape (n, ⌈K/8⌉)
        If answers are too many to lay out (`PackedSets`), the packed bits of each; what they share is in a single row
        above. Otherwise empty.
    """

    numbers: Floats
    places: NDArray[np.int32]
    members: NDArray[np.int32]
    offsets: Integers
    patterns: Floats
    structure: NDArray[np.integer]
    threshold: Floats
    alias: NDArray[np.int32]
    n_responses: float
    packed: NDArray[np.uint8]


class Anchor(NamedTuple):
    """θ̂ and the sums over all answers there.

    Attributes
    ----------
    theta, gradient, information : array of shape (K,), (K,) and (K, K)
        θ̂, and the sums.
    relative : array of shape (U, 2)
        own/ĥ and inside/ĥ of each row.
    """

    theta: Floats
    gradient: Floats
    information: Floats
    relative: Floats


def rows_of(evidence: Evidence | PackedSets) -> Rows:
    """Return evidence laid out for the kernels."""
    if isinstance(evidence, PackedSets):
        return _rows_of_packed(evidence)
    n_sets = evidence.n_sets
    index = np.where(evidence.set_index < 0, evidence.n_masses, evidence.set_index)
    is_set = index < n_sets
    begin, end = (np.where(is_set, evidence.offsets[np.minimum(index + i, n_sets)], 0) for i in (0, 1))
    threshold, alias = alias_table(evidence.count.astype(np.float64))
    return Rows(
        np.stack([evidence.base, evidence.own, evidence.inside, evidence.count.astype(np.float64)], axis=1),
        np.stack([evidence.category, index, begin, end], axis=1).astype(np.int32),
        evidence.members,
        evidence.offsets,
        evidence.patterns,
        evidence.structure,
        threshold,
        alias,
        float(evidence.n_responses),
        np.empty((0, 0), dtype=np.uint8),
    )


def _rows_of_packed(sets: PackedSets) -> Rows:
    """Return rows whose sets stay packed, in memory or in a file."""
    n = float(len(sets.packed))
    return Rows(
        np.array([[1.0, 0.0, sets.inside, n]]),
        np.zeros((1, 4), dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        np.zeros((0, sets.n_categories)),
        NO_STRUCTURE,
        np.ones(1),
        np.zeros(1, dtype=np.int32),
        n,
        sets.packed,
    )


def anchor_at(theta: Floats, evidence: Evidence | PackedSets, rows: Rows) -> Anchor:
    """Return the anchor at θ: one pass over all rows, O(|S|²) for each, or O(K²) if sets are only numbered."""
    if isinstance(evidence, PackedSets):
        return Anchor(theta.copy(), *packed_moments(theta, evidence), np.zeros((1, 2)))
    relative = rows.numbers[:, 1:3] / row_probabilities(theta, evidence)[:, None]
    if evidence.structure.size:
        return Anchor(theta.copy(), *_structured_moments(theta, evidence), relative)
    gradient, information = _moments(theta.size, relative, rows)
    return Anchor(theta.copy(), gradient, information, relative)


def no_anchor(theta: Floats, rows: Rows) -> Anchor:
    """Return θ as an anchor without sums, for gradients on all evidence."""
    return Anchor(theta.copy(), np.zeros(theta.size), np.zeros((0, 0)), np.zeros((len(rows.numbers), 2)))


def _structured_moments(theta: Floats, evidence: Evidence) -> tuple[Floats, Floats]:
    """Return Σ count·g/h and Σ count·g·gᵀ/h² from the rows written out without their base."""
    if evidence.n_rows * theta.size > MOST_ENTRIES:
        raise ValueError(
            f"the information matrix of {theta.size:,} categories is too much to compute: use 'sgld_cv' or 'nuts', "
            "which do not need it"
        )
    h = row_probabilities(theta, evidence)
    scaled = evidence._replace(base=np.zeros_like(evidence.base)).matrix() / h[:, None]
    return evidence.count @ scaled, (scaled * evidence.count[:, None]).T @ scaled


# How many standard deviations of χ² beyond its mean a chain may be from its anchor.
FAR = 5.0


def has_left(theta: Floats, anchor: Anchor) -> bool:
    """Tell whether θ is so far from the anchor that another is better.

    With δ = θ − θ̂ and the information I at the anchor, δᵀIδ follows χ² with K − 1 degrees of freedom if the posterior
    is normal with its mean there. The chain has left if that exceeds its mean by `FAR` standard deviations.
    """
    delta = theta - anchor.theta
    freedom = theta.size - 1
    return bool(delta @ anchor.information @ delta > freedom + FAR * math.sqrt(2 * freedom))


@njit(cache=True, error_model="numpy")
def _moments(k, relative, rows):  # type: ignore[no-untyped-def]
    """Return Σ count·g/h and Σ count·g·gᵀ/h², of rows without their base; the latter is summed above its diagonal."""
    numbers, places, members, patterns = rows.numbers, rows.places, rows.members, rows.patterns
    first_pattern = rows.offsets.size - 1
    gradient, upper = np.zeros(k), np.zeros((k, k))
    for u in range(len(relative)):
        weight, own, inside = numbers[u, 3], relative[u, 0], relative[u, 1]
        y, v, begin, end = places[u, 0], places[u, 1], places[u, 2], places[u, 3]
        gradient[y] += weight * own
        upper[y, y] += weight * own * own
        square, cross = weight * inside * inside, weight * own * inside
        for a in range(begin, end):
            i = members[a]
            gradient[i] += weight * inside
            if own != 0.0:
                upper[min(i, y), max(i, y)] += cross * (2.0 if i == y else 1.0)
            row = upper[i]
            for b in range(a, end):
                row[members[b]] += square
        if first_pattern <= v < first_pattern + len(patterns):
            pattern = patterns[v - first_pattern]
            for i in range(k):
                gradient[i] += weight * inside * pattern[i]
                upper[min(i, y), max(i, y)] += weight * own * inside * pattern[i] * (2.0 if i == y else 1.0)
                for j in range(i, k):
                    upper[i, j] += weight * inside * inside * pattern[i] * pattern[j]
    for i in range(k):
        for j in range(i):
            upper[i, j] = upper[j, i]
    return gradient, upper


# The gradient.


@njit(cache=True, error_model="numpy")
def full_gradient(  # type: ignore[no-untyped-def]
    theta, numbers, places, members, offsets, patterns, structure, masses, pull, slope
):
    """Write Σ count·g/h over all rows into `slope`; `masses` and `pull` have one place more than there are sets."""
    n_sets, k = offsets.size - 1, theta.size
    for v in range(n_sets):
        mass = 0.0
        for j in range(offsets[v], offsets[v + 1]):
            mass += theta[members[j]]
        masses[v] = mass
        pull[v] = 0.0
    for d in range(len(patterns)):
        masses[n_sets + d] = (patterns[d] * theta).sum()
        pull[n_sets + d] = 0.0
    first = n_sets + len(patterns)
    structured_masses(theta, blocks(structure), masses[first:])
    pull[first:] = 0.0
    masses[masses.size - 1] = 0.0
    slope[:] = 0.0
    for u in range(len(numbers)):
        y, v = places[u, 0], places[u, 1]
        own, inside = numbers[u, 1], numbers[u, 2]
        weight = numbers[u, 3] / (numbers[u, 0] + own * theta[y] + inside * masses[v])
        slope[y] += weight * own
        pull[v] += weight * inside
    for v in range(n_sets):
        for j in range(offsets[v], offsets[v + 1]):
            slope[members[j]] += pull[v]
    for d in range(len(patterns)):
        for i in range(k):
            slope[i] += pull[n_sets + d] * patterns[d, i]
    add_structured(pull[first:], blocks(structure), slope)


@njit(cache=True, error_model="numpy", fastmath=REORDER)
def taylor_gradient(theta, center, gradient, information, delta, slope):  # type: ignore[no-untyped-def]
    """Write ∇(θ̂) − I(θ̂)·δ into `slope`, and δ = θ − θ̂."""
    for i in range(theta.size):
        delta[i] = theta[i] - center[i]
    for i in range(theta.size):
        total = 0.0
        for j in range(theta.size):
            total += information[i, j] * delta[j]
        slope[i] = gradient[i] - total


@njit(cache=True, inline="always")
def draw_row(state, threshold, alias):  # type: ignore[no-untyped-def]
    """Return a row, drawn by its count. There is no branch, which would be mispredicted."""
    word = next_word(state)
    u = np.int64(((word >> _HALF) * np.uint64(alias.size)) >> _HALF)
    other = np.int64(alias[u])
    return other if np.float64(np.int64(word & _LOW_HALF)) * 2.0**-32 >= threshold[u] else u


@njit(cache=True, error_model="numpy")
def add_batch(state, batch, n, delta, relative, places, members, threshold, alias, slope):  # type: ignore[no-untyped-def]
    """Add n/m·Σ (g/ĥ)·r²/(1+r) of `batch` rows, drawn by their counts, to `slope`. Rows have no patterns here."""
    share = n / batch
    for _ in range(batch):
        u = draw_row(state, threshold, alias)
        y, begin, end = places[u, 0], places[u, 2], places[u, 3]
        own, inside = relative[u, 0], relative[u, 1]
        if begin == end:
            r = own * delta[y]
            slope[y] += share * own * r * r / (1.0 + r)
            continue
        mass = 0.0
        for j in range(begin, end):
            mass += delta[members[j]]
        r = own * delta[y] + inside * mass
        weight = share * r * r / (1.0 + r)
        slope[y] += weight * own
        pull = weight * inside
        for j in range(begin, end):
            slope[members[j]] += pull


# The same for answers that are support sets, kept as packed bits.
#
# An answer takes ⌈K/8⌉ bytes, which may be in a memory-mapped file. A batch reads only its own answers. The anchor
# takes one pass over all answers, in parts that do not depend on the machine, so that sums are the same everywhere, to
# the last bit.

# The parts of a pass over all sets.
_PARTS = 64


def some_sets(sets: PackedSets, count: int, rng: np.random.Generator) -> Evidence:
    """Return the evidence of `count` answers, drawn with replacement."""
    chosen = sets.packed[np.sort(rng.integers(len(sets.packed), size=count))]
    return support_rows(chosen, sets.inside, np.zeros(count), np.arange(count), sets.n_categories)


def packed_moments(theta: Floats, sets: PackedSets) -> tuple[Floats, Floats]:
    """Return Σ g/h and Σ g·gᵀ/h² over all answers, of rows g without their base."""
    bounds = np.linspace(0, len(sets.packed), _PARTS + 1).astype(np.int64)

    def part(i: int) -> tuple[Floats, Floats]:
        found: tuple[Floats, Floats]
        found = _packed_moments(theta, sets.inside, sets.packed[bounds[i] : bounds[i + 1]])
        return found

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        parts = list(pool.map(part, range(_PARTS)))
    gradient, upper = sum(each[0] for each in parts), sum(each[1] for each in parts)
    return np.asarray(gradient), np.asarray(np.triu(upper) + np.triu(upper, 1).T)


@njit(cache=True, inline="always")
def _members(row, k, members):  # type: ignore[no-untyped-def]
    """Write the members of a packed set, and return their number. There are no branches, as bits are random."""
    count = 0
    for i in range(k):
        members[count] = i
        count += (row[i >> 3] >> np.uint8(7 - (i & 7))) & np.uint8(1)
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _packed_moments(theta, inside, packed):  # type: ignore[no-untyped-def]
    k = theta.size
    gradient, upper, members = np.zeros(k), np.zeros((k, k)), np.empty(k + 1, np.int64)
    for u in range(len(packed)):
        size = _members(packed[u], k, members)
        mass = 0.0
        for a in range(size):
            mass += theta[members[a]]
        weight = inside / (1.0 + inside * mass)
        square = weight * weight
        for a in range(size):
            i = members[a]
            gradient[i] += weight
            row = upper[i]
            for b in range(a, size):
                row[members[b]] += square
    return gradient, upper


@njit(cache=True, error_model="numpy")
def add_packed_batch(state, batch, inside, hat, delta, packed, slope):  # type: ignore[no-untyped-def]
    """Add n/m·Σ (g/ĥ)·r²/(1+r) of `batch` answers, drawn with replacement, to `slope`, as `add_batch` does."""
    n, k = len(packed), delta.size
    share, members = n / batch, np.empty(k + 1, np.int64)
    for _ in range(batch):
        u = min(np.int64(uniform(state) * n), n - 1)
        size = _members(packed[u], k, members)
        there, change = 0.0, 0.0
        for a in range(size):
            there += hat[members[a]]
            change += delta[members[a]]
        relative = inside / (1.0 + inside * there)
        r = relative * change
        pull = share * relative * r * r / (1.0 + r)
        for a in range(size):
            slope[members[a]] += pull


# Roughly where a posterior is: a θ near its mode, and draws of θ to start pilots from.

# Rows and iterations for the estimate of θ. Pilots correct it.
ROWS, ITERATIONS = 20_000, 100
NEWTON_STEPS = 3
# Newton steps towards a prior that outweighs the answers, and the relative change of a share at which they end.
MOST_STEPS, SMALL_CHANGE = 20, 0.01
# If the sum of folded draws is larger on average, folding has moved them too far. Then there are moves, in rounds.
MOST_SUM, SWEEPS = 2.0, 10


def initial_draws(
    evidence: Evidence | PackedSets,
    rows: Rows,
    prior: Floats,
    n_draws: int,
    rng: np.random.Generator,
    iterations: int = ITERATIONS,
) -> tuple[Floats, Floats]:
    """Return draws (N, K) of the normal approximation at an estimate of θ, folded to be positive, and its sds (K,).

    If only sums of many shares are known, folding each share makes their sum far too large. Then draws are made by
    moves between two shares at a time.
    """
    k = prior.size
    theta = _towards_prior(near_mode(evidence, prior, rng, iterations), evidence, rows, prior)
    information = anchor_at(theta, evidence, rows).information + np.diag(np.maximum(prior - 1, 0) / theta**2)
    basis = zero_sum_basis(k)
    precision = basis @ information @ basis.T + (prior.sum() + 1) * np.eye(k - 1)
    covariance = basis.T @ np.linalg.inv(precision) @ basis
    sd = np.sqrt(np.diag(covariance))
    draws = np.abs(
        theta + rng.standard_normal((n_draws, k - 1)) @ np.linalg.cholesky(np.linalg.inv(precision)).T @ basis
    )
    if draws.sum(axis=1).mean() > MOST_SUM:
        draws = _moved(theta, basis.T @ precision @ basis, n_draws, rng)
        sd = draws.std(axis=0)
    draws += 1e-3 * sd
    return draws / draws.sum(axis=1, keepdims=True), sd


def _moved(theta: Floats, precision: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return draws (N, K) of the normal law around θ on positive shares that sum to one, by Gibbs moves of pairs."""
    draws, slopes = np.tile(theta, (n_draws, 1)), np.zeros((n_draws, theta.size))
    for _ in range(SWEEPS):
        order = rng.permutation(theta.size)
        for i, j in zip(order, np.roll(order, 1), strict=True):
            weight = precision[i, i] + precision[j, j] - 2 * precision[i, j]
            both = draws[:, i] + draws[:, j]
            center = draws[:, i] - (slopes[:, i] - slopes[:, j]) / weight
            share = _truncated(center, 1 / np.sqrt(weight), both, rng)
            slopes += (share - draws[:, i])[:, None] * (precision[i] - precision[j])
            draws[:, i], draws[:, j] = share, both - share
    return draws


def _truncated(center: Floats, sd: float, highest: Floats, rng: np.random.Generator) -> Floats:
    """Return normal draws that are from 0 to `highest`."""
    # The farther tail is made the lower one, where doubles resolve small probabilities.
    flipped = center < highest / 2
    mean = np.where(flipped, highest - center, center)
    low, high = ndtr(-mean / sd), ndtr((highest - mean) / sd)
    # Probabilities more than 37 sds out underflow: there the draw is the nearest end.
    found = np.where(high > 0, mean + sd * ndtri(low + rng.random(len(mean)) * (high - low)), highest)
    found = np.clip(found, 0, highest)
    return np.where(flipped, highest - found, found)


def near_mode(
    evidence: Evidence | PackedSets, prior: Floats, rng: np.random.Generator, iterations: int = ITERATIONS
) -> Floats:
    """Return θ near the mode of its posterior: nearly the maximum of the likelihood, drawn towards the prior mean."""
    n = evidence.n_responses
    if n == 0:
        return prior / prior.sum()
    some = some_sets(evidence, ROWS, rng) if isinstance(evidence, PackedSets) else some_rows(evidence, rng)
    estimate, _ = climb(some, tolerance=0.01, max_iterations=iterations)
    near = np.asarray((n * estimate + prior) / (n + prior.sum()))
    return _nearer(near, evidence, prior) if isinstance(evidence, PackedSets) else near


def _nearer(theta: Floats, sets: PackedSets, prior: Floats) -> Floats:
    """Return θ after steps of Newton's method on all answers: an estimate from a few may be many sds from the mode."""
    basis = zero_sum_basis(theta.size)
    for _ in range(NEWTON_STEPS):
        gradient, information = packed_moments(theta, sets)
        precision = basis @ information @ basis.T + (prior.sum() + 1) * np.eye(theta.size - 1)
        moved = theta + basis.T @ np.linalg.solve(precision, basis @ gradient)
        theta = np.maximum(moved, theta / 10)
        theta = theta / theta.sum()
    return theta


def _towards_prior(theta: Floats, evidence: Evidence | PackedSets, rows: Rows, prior: Floats) -> Floats:
    """Return θ after steps of Newton's method, with the part of the prior that pulls shares away from zero."""
    pull = np.maximum(prior - 1, 0)
    if not pull.any():
        return theta
    basis = zero_sum_basis(theta.size)
    for _ in range(MOST_STEPS):
        anchor = anchor_at(theta, evidence, rows)
        precision = basis @ (anchor.information + np.diag(pull / theta**2)) @ basis.T + np.eye(len(basis))
        change = basis.T @ np.linalg.solve(precision, basis @ (anchor.gradient + pull / theta))
        # No share changes by more than half of itself, as the linear approximation of the pull 1/θ holds only nearby.
        length = min(1.0, 0.5 / np.abs(change / theta).max()) if change.any() else 1.0
        theta = theta + length * change
        if length == 1.0 and np.abs(change / theta).max() < SMALL_CHANGE:
            break
    return theta / theta.sum()


# First draws if K² numbers are too many: each share by itself, as answers say little about any two together.
#
# One step of Fisher scoring from near the maximum of the likelihood, with the diagonal of the information, gives each
# share an estimate d with an sd. Under a Dirichlet(ρ) prior shares are Gamma(ρ_i) variables with a given sum. If there
# are many, they are nearly independent, with the scale 1/Σρ. So the draws have the density
# Gamma(θ; ρ_i, 1/Σρ)·N(d; θ, sd²), on the quantiles of the Gamma law.

# Quantiles, as normal scores.
_NODES = np.linspace(-8.0, 8.0, 641)
# A share is held if its estimate is this many sds above zero.
_FAR_OUT = 4.0


def separate_draws(evidence: Evidence, prior: Floats, n_draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return draws (N, K) of each share by itself, and a small size of each share."""
    k, n = prior.size, evidence.n_responses
    theta = near_mode(evidence, prior, rng)
    information = information_diagonal(theta, evidence) if n else np.zeros(k)
    sd = 1 / np.sqrt(information + prior.sum() + 1)
    slope = value_and_gradient(theta, evidence)[1] if n else np.zeros(k)
    # Estimates sum to one, as unbiased ones do.
    estimate = theta + (slope - (slope * sd**2).sum() / (sd**2).sum()) * sd**2
    draws = np.empty((n_draws, k))
    for rho in np.unique(prior):
        places = np.flatnonzero(prior == rho)
        law, uniforms = _quantiles(float(rho), float(prior.sum())), rng.random((n_draws, places.size))
        draws[:, places] = _draw_separately(estimate[places], sd[places], *law, uniforms)
    # For a share that is held the quantiles are too far apart, and the prior hardly matters.
    held = estimate > _FAR_OUT * sd
    draws[:, held] = np.abs(estimate[held] + sd[held] * rng.standard_normal((n_draws, int(held.sum()))))
    draws /= draws.sum(axis=1, keepdims=True)
    # The size of a share that stands out is at least half of its sd, or of its mean under the prior.
    return draws, np.minimum(sd, (1 + prior) / prior.sum()) / 2


def _quantiles(rho: float, total: float) -> tuple[Floats, Floats]:
    """Return quantiles of Gamma(ρ) with the scale 1/total at the nodes, and their weights."""
    power_law = np.exp(np.maximum((log_ndtr(_NODES) + gammaln(1 + rho)) / rho, -700.0))
    exact = gammaincinv(rho, ndtr(_NODES))
    weights = np.exp(-0.5 * _NODES**2)
    return np.maximum(np.where(exact > 1e-15, exact, power_law), 1e-300) / total, weights / weights.sum()


@njit(cache=True, error_model="numpy")
def _draw_separately(estimate, sd, values, weights, uniforms):  # type: ignore[no-untyped-def]
    """Turn uniform numbers (N, K) into draws of each share, by its distribution function on the quantiles."""
    n_draws, k = uniforms.shape
    draws, sums = np.empty((n_draws, k)), np.empty(values.size)
    for i in range(k):
        nearest, mass = np.inf, 0.0
        for j in range(values.size):
            nearest = min(nearest, ((estimate[i] - values[j]) / sd[i]) ** 2)
        for j in range(values.size):
            mass += weights[j] * np.exp(-0.5 * (((estimate[i] - values[j]) / sd[i]) ** 2 - nearest))
            sums[j] = mass
        for t in range(n_draws):
            level = uniforms[t, i] * mass
            j = np.searchsorted(sums, level)
            below, low = (sums[j - 1], values[j - 1]) if j > 0 else (0.0, 0.0)
            draws[t, i] = low + (level - below) / (sums[j] - below) * (values[j] - low)
    return draws


def some_rows(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    """Return a random part of evidence with many rows, which are drawn by their counts."""
    if evidence.n_rows <= ROWS or len(evidence.patterns) or evidence.structure.size:
        return evidence
    places = np.searchsorted(np.cumsum(evidence.count), rng.integers(evidence.n_responses, size=ROWS), side="right")
    sets = np.unique(evidence.set_index[places])
    sets = sets[sets >= 0]
    sizes = np.diff(evidence.offsets)[sets]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = evidence.members[np.arange(offsets[-1]) + np.repeat(evidence.offsets[sets] - offsets[:-1], sizes)]
    old = evidence.set_index[places]
    numbers = {name: getattr(evidence, name)[places] for name in ("base", "own", "inside", "log_scale", "category")}
    return evidence._replace(
        **numbers,
        set_index=np.where(old < 0, -1, np.searchsorted(sets, old)),
        count=np.ones(ROWS, dtype=np.int64),
        members=members,
        offsets=offsets,
        codes=evidence.codes[:0, :0],
    )
