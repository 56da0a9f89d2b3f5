"""What every sampler of θ must pass: exact moments and a small distance to exact draws.

Draws have the shape (chain, draw, K). A new sampler is tested by adding it to `SAMPLERS` of test_samplers.py.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from arviz_stats.base import array_stats
from scipy.spatial import distance

import oracles
from adobest_pp import RRRR, SRR, Responses, SubsetSelection
from oracles import rows_of
from tests.strategies import simulated

# One in 16 000 for one check of a normal error; a run of all of them is on fixed seeds.
MAX_MCSE = 4.0

# Of the mean distance between two exact draws. Thousand independent draws have 0.002; a mean that is off by a quarter
# of a standard deviation has 0.03.
MAX_ENERGY = 0.02

MECHANISMS = {
    "srr": lambda k: SRR(k, 1.0),
    "rrrr": lambda k: RRRR(k, 1.5, 0.8),
    "subset_selection": lambda k: SubsetSelection(k, 1.0, size=k - 1),
}


@dataclass(frozen=True)
class Case:
    """A posterior whose moments are known exactly: K = 2 or 3 categories, n responses."""

    mechanism: str
    n_categories: int
    n_responses: int

    @property
    def prior(self):
        return np.array([2.0, 3.0, 1.5])[: self.n_categories]

    def responses(self):
        mechanism = MECHANISMS[self.mechanism](self.n_categories)
        return simulated(mechanism, self.n_responses, seed=11) if self.n_responses else Responses(mechanism)

    def moments(self):
        return _moments(self)

    def reference(self):
        return _reference(self)


@cache
def _moments(case):
    exact = {2: oracles.posterior_moments_k2, 3: oracles.posterior_moments_k3}[case.n_categories]
    return exact(rows_of(case.responses()), case.prior)


@cache
def _reference(case, size=1000):
    """Draws of the posterior: the prior's, resampled by their likelihood."""
    rng = np.random.default_rng(5)
    pool = rng.dirichlet(case.prior, size=200_000)
    rows, counts = np.unique(rows_of(case.responses()), axis=0, return_counts=True)
    log_likelihood = np.log(pool @ rows.T) @ counts
    weights = np.exp(log_likelihood - log_likelihood.max())
    return pool[rng.choice(len(pool), size=size, p=weights / weights.sum())]


CASES = [Case(name, k, n) for name in MECHANISMS for k in (2, 3) for n in (0, 7, 2000)]


def check_posterior(draws, case, bias=0.0):
    """Hold draws to the exact mean and sd, up to four Monte Carlo errors and a stated bias in units of the sd."""
    mean, sd = case.moments()
    for i in range(case.n_categories):
        check_moment(draws[..., i], "mean", mean[i], bias * sd[i])
        check_moment(draws[..., i], "sd", sd[i], bias * sd[i])
    flat = draws.reshape(-1, case.n_categories)
    thinned = flat[:: max(1, len(flat) // 1000)]
    found = energy_distance(thinned, case.reference())
    assert found < MAX_ENERGY, f"energy distance {found:.4f}"


def check_moment(draws, kind, exact, tolerance=0.0):
    """Hold draws (chain, draw) of a quantity to its exact mean or sd."""
    error = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method=kind)
    value = draws.mean() if kind == "mean" else draws.std()
    off = abs(value - exact)
    assert off <= MAX_MCSE * error + tolerance, f"{kind} {value:.5f}, exactly {exact:.5f}, MCSE {error:.5f}"


def energy_distance(first, second):
    """2E|X−Y| − E|X−X'| − E|Y−Y'|, as a share of E|Y−Y'| (Székely & Rizzo 2013)."""
    across, within, reference = (_mean_distance(*pair) for pair in ((first, second), (first, first), (second, second)))
    return (2 * across - within - reference) / reference


def _mean_distance(x, y):
    return distance.cdist(x, y).mean()
