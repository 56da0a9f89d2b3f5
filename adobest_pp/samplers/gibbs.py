"""Gibbs sampling by data augmentation [1]_, compiled: allocate the people behind the answers, then draw θ.

Given θ, the person behind an answer with row g has category x with probability ∝ θ_x g(x). The three-number form makes
g a mixture of three patterns: anywhere (g constant), its own category, and a set or its complement. So binomials split
the count of each row among the patterns, the parts are pooled over rows, and one multinomial per pattern allocates each
pool. This is exact, costs O(U + K) and O(K) per set for any number of people, and never forms U × K probabilities. For
sets that are only numbered (`Evidence.structure`), each person is drawn from θ until a member of the set comes. Given
the allocation, θ is Dirichlet (docs/math.md, section 4).

References
----------
.. [1] M. A. Tanner and W. H. Wong, The Calculation of Posterior Distributions by Data Augmentation, Journal of the
   American Statistical Association, 1987.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._numerics import TINY, alias_table, normalize_logs
from adobest_pp._progress import SlowProgress
from adobest_pp._types import Floats
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import row_parts, set_masses
from adobest_pp.samplers.registry import Drawn, register_sampler
from adobest_pp.transforms import blocks, is_member

# Up to this many people are allocated one by one, which is cheaper than a binomial for each category.
FEW = 8
# From this mass on, people of a set that is only numbered are drawn from θ until a member comes. The members of a
# smaller set are listed first.
LIKELY = 0.03


# The people given θ.


@njit(cache=True)
def allocate(rng, theta, evidence, allocation):  # type: ignore[no-untyped-def]
    """Draw how many people are in each category given θ and all answers, into `allocation` of shape (K,)."""
    total = theta.sum()
    masses = set_masses(theta, evidence)
    inner = np.zeros(masses.size - 1, dtype=np.int64)
    outer = np.zeros(masses.size - 1, dtype=np.int64)
    anywhere = np.int64(0)
    allocation[:] = 0
    for u in range(evidence.count.size):
        v, y, n = evidence.set_index[u], evidence.category[u], evidence.count[u]
        spread, itself, rest = row_parts(u, theta, total, masses[v], evidence)
        if v < 0:
            part = binomial(rng, n, spread, itself)
            anywhere += part
            allocation[y] += n - part
            continue
        # If a set makes an answer less likely, the mixture has a lower constant, and the complement of the set.
        inside = evidence.inside[u]
        if inside < 0.0:
            spread, rest = max(evidence.base[u] + inside, 0.0) * total, -inside * max(total - masses[v], 0.0)
        part = binomial(rng, n, spread, itself + rest)
        kept = binomial(rng, n - part, itself, rest)
        anywhere += part
        allocation[y] += kept
        if inside < 0.0:
            outer[v] += n - part - kept
        else:
            inner[v] += n - part - kept
    _scatter_pools(rng, theta, anywhere, inner, outer, evidence, allocation)
    first = evidence.offsets.size - 1 + len(evidence.patterns)
    _scatter_structured(rng, theta, masses, total, inner, outer, first, blocks(evidence.structure), allocation)


@njit(cache=True)
def binomial(rng, n, weight, other):  # type: ignore[no-untyped-def]
    """Draw how many of n go to the first of two places, given their weights."""
    if n == 0 or weight <= 0.0:
        return np.int64(0)
    if other <= 0.0:
        return n
    share = weight / (weight + other)
    if n > FEW:
        return rng.binomial(n, share)
    hits = 0
    for _ in range(n):
        hits += rng.random() < share
    return hits


@njit(cache=True)
def _scatter_pools(rng, theta, anywhere, inner, outer, evidence, allocation):  # type: ignore[no-untyped-def]
    everything, others = np.empty(theta.size, dtype=np.int32), np.empty(theta.size, dtype=np.int32)
    for x in range(theta.size):
        everything[x] = x
    _scatter(rng, anywhere, theta, everything, allocation)
    n_sets = evidence.offsets.size - 1
    for v in range(n_sets):
        members_of_set = evidence.members[evidence.offsets[v] : evidence.offsets[v + 1]]
        if inner[v] > 0:
            _scatter(rng, inner[v], theta, members_of_set, allocation)
        if outer[v] > 0:
            size = 0
            next_member = 0
            for x in range(theta.size):
                if next_member < members_of_set.size and members_of_set[next_member] == x:
                    next_member += 1
                else:
                    others[size] = x
                    size += 1
            _scatter(rng, outer[v], theta, others[:size], allocation)
    for v in range(n_sets, n_sets + len(evidence.patterns)):
        if inner[v] > 0:
            _scatter(rng, inner[v], theta * evidence.patterns[v - n_sets], everything, allocation)


@njit(cache=True)
def _scatter_structured(rng, theta, masses, total, inner, outer, first, structure, allocation):  # type: ignore[no-untyped-def]
    """Allocate the people of sets that are only numbered: by rejection from θ, or from the members of small sets."""
    if structure is None:
        return
    shares = masses / total
    threshold, alias = alias_table(theta)
    listed = np.empty(theta.size, dtype=np.int32)
    for v in range(first, inner.size):
        for inside in (True, False):
            n = inner[v] if inside else outer[v]
            if n == 0:
                continue
            if (shares[v] if inside else 1.0 - shares[v]) < LIKELY:
                size = 0
                for x in range(theta.size):
                    if is_member(x, v - first, structure) == inside:
                        listed[size] = x
                        size += 1
                _scatter(rng, n, theta, listed[:size], allocation)
                continue
            while n > 0:
                place = rng.integers(0, theta.size)
                x = place if rng.random() < threshold[place] else alias[place]
                if is_member(x, v - first, structure) == inside:
                    allocation[x] += 1
                    n -= 1


@njit(cache=True)
def _scatter(rng, n, theta, categories, allocation):  # type: ignore[no-untyped-def]
    """Add a multinomial of n with weights θ on the given categories to the allocation."""
    mass = 0.0
    for x in categories:
        mass += theta[x]
    if n <= FEW:
        for _ in range(n):
            left = rng.random() * mass
            j = 0
            while j < categories.size - 1 and left >= theta[categories[j]]:
                left -= theta[categories[j]]
                j += 1
            allocation[categories[j]] += 1
        return
    for j in range(categories.size - 1):
        x = categories[j]
        mass -= theta[x]
        part = binomial(rng, n, theta[x], mass)
        allocation[x] += part
        n -= part
        if n == 0:
            return
    allocation[categories[-1]] += n


# θ given the people.


@njit(cache=True)
def dirichlet(rng, concentration, out):  # type: ignore[no-untyped-def]
    """Draw from a Dirichlet into `out`: positive everywhere, however small the concentration.

    Gamma variates of small shape a underflow, so they are drawn as ln Gamma(a + 1) + ln(uniform)/a and
    normalized before they leave the logarithm.
    """
    for i in range(concentration.size):
        shape = concentration[i]
        if shape < 1.0:
            out[i] = math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape
        else:
            out[i] = math.log(rng.standard_gamma(shape))
    normalize_logs(out, TINY)


# The chain.


@njit(cache=True)
def gibbs_draws(rng, theta, prior, evidence, draws):  # type: ignore[no-untyped-def]
    """Run one sweep for each row of `draws` (T, K) and write θ there; `theta` is moved in place."""
    allocation, concentration = np.empty(theta.size, dtype=np.int64), np.empty(theta.size)
    for t in range(draws.shape[0]):
        allocate(rng, theta, evidence, allocation)
        for i in range(theta.size):
            concentration[i] = prior[i] + allocation[i]
        dirichlet(rng, concentration, theta)
        for i in range(theta.size):
            draws[t, i] = theta[i]


# The most draws in a block, and rows of evidence that it visits. It takes a second or two: Ctrl-C is handled only
# between blocks.
BLOCK = 200
MAX_ROWS = 100_000_000

Block = tuple[Floats, dict[str, NDArray[np.generic]]]


def gibbs_chain(
    evidence: Evidence, prior: Floats, n_draws: int, rng: np.random.Generator, first: Floats | None = None
) -> Iterator[Block]:
    """Yield blocks of θ and of stats, from `first` or a draw of the prior, so the caller can show progress or stop."""
    theta = np.empty(prior.size)
    if first is None:
        dirichlet(rng, prior, theta)
    else:
        theta[:] = first
    block = max(1, min(BLOCK, MAX_ROWS // (10 * (evidence.n_rows + prior.size * (evidence.n_sets + 1)))))
    if evidence.structure.size:
        block = max(1, min(block, MAX_ROWS // (4 * max(evidence.n_responses, 1))))
    for start in range(0, n_draws, block):
        draws = np.empty((min(block, n_draws - start), prior.size))
        before = theta.copy()
        gibbs_draws(rng, theta, prior, evidence, draws)
        distance = 0.5 * np.abs(np.diff(draws, axis=0, prepend=before[None])).sum(axis=1)
        yield draws, {"gibbs_distance": distance}


def run_chains(
    chain: Callable[[np.random.Generator], Iterator[Block]],
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    progressbar: bool,
) -> Block:
    """Run chains one after the other; return θ (chain, draw, K) and stats (chain, draw) without the tuning draws."""
    found = []
    with SlowProgress(chains * (tune + draws), "Sampling", progressbar) as progress:
        for rng in np.random.default_rng(seed).spawn(chains):
            blocks = []
            for block in chain(rng):
                blocks.append(block)
                progress.advance(len(block[0]))
            found.append(blocks)
    theta = np.stack([np.concatenate([block[0] for block in blocks])[tune:] for blocks in found])
    names = found[0][0][1]
    return theta, {
        name: np.stack([np.concatenate([block[1][name] for block in blocks])[tune:] for blocks in found])
        for name in names
    }


@register_sampler("gibbs")
def sample_gibbs(
    responses: Responses | Gathered,
    prior: Floats,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    *,
    progressbar: bool = False,
) -> Drawn:
    """Draw θ by data augmentation."""
    evidence = responses.evidence()
    theta, stats = run_chains(
        lambda rng: gibbs_chain(evidence, prior, tune + draws, rng), draws, tune, chains, seed, progressbar
    )
    return Drawn({"theta": theta}, stats)
