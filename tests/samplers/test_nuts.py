import os
import subprocess
import sys
import time

import numba
import numpy as np
import nutpie
import pytest
from arviz_stats.base import array_stats
from numba.core import event
from scipy import stats

import adobest_pp as ad
from adobest_pp import _simplex
from adobest_pp.samplers import nuts
from tests import oracles
from tests.strategies import rows_of, simulated

SETTINGS = {"draws": 1000, "tune": 500, "chains": 4, "random_seed": 3, "progressbar": False}
MECHANISMS = {
    "srr": lambda k: ad.SRR(k, 1.0),
    "rrrr": lambda k: ad.RRRR(k, 1.5, 0.8),
    "subset_selection": lambda k: ad.SubsetSelection(k, 1.0, size=1),
}
EXACT = {2: oracles.posterior_moments_k2, 3: oracles.posterior_moments_k3}


def draws_of(tree):
    return tree["posterior"]["theta"].values


def assert_moments(draws, mean, sd):
    """Means and sds within 4 MCSE: one false alarm in 16 000 a piece, on fixed seeds."""
    for i in range(len(mean)):
        chains = draws[..., i]
        assert abs(chains.mean() - mean[i]) < 4 * array_stats.mcse(chains, method="mean")
        assert abs(chains.std() - sd[i]) < 4 * array_stats.mcse(chains, method="sd")


@pytest.mark.parametrize("n", [0, 5, 3000])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", MECHANISMS)
def test_moments_are_exact(name, k, n):
    responses = simulated(MECHANISMS[name](k), n, seed=2)
    prior = np.array([1.0, 0.5, 2.0])[:k]
    tree = nuts.sample_nuts(responses, prior=prior, **SETTINGS)
    assert_moments(draws_of(tree), *EXACT[k](rows_of(responses), prior))


@pytest.mark.parametrize("concentration", [1.0, 0.5, 0.1])
def test_a_posterior_against_the_boundary(concentration):
    # Nobody holds the second and third category.
    responses = ad.Responses.from_arrays(ad.SRR(3, 8.0), np.zeros(400, dtype=int))
    prior = np.full(3, concentration)
    tree = nuts.sample_nuts(responses, prior=prior, **SETTINGS)
    assert_moments(draws_of(tree), *oracles.posterior_moments_k3(rows_of(responses), prior))


def test_ordinary_data_do_not_diverge():
    """An adaptive collection of 20 000 answers at ε = 1 with a share close to zero."""
    mechanism, rng = ad.RRRR(5, 1.0), np.random.default_rng(1)
    responses = ad.Responses(mechanism)
    for subset in ([], [0, 1], [0, 1, 2], [0, 1]):
        x = rng.choice(5, size=5000, p=[0.5, 0.3, 0.15, 0.04, 0.01])
        responses.append(mechanism.privatize(x, subset=subset, rng=rng), subset=subset)
    tree = nuts.sample_nuts(responses, prior=np.ones(5), **SETTINGS)
    assert int(tree["sample_stats"]["diverging"].sum()) == 0


def test_the_density_has_its_gradient_and_the_posterior_behind_it():
    rng = np.random.default_rng(1)
    responses = simulated(ad.RRRR(5, 1.0), 100, seed=4)
    prior = np.array([1.0, 0.3, 2.5, 0.8, 1.4])
    data = (prior, prior < 1, *ad.likelihood.kernel_arguments(responses.evidence()))

    def expected(free):
        # By hand: ψ from its coordinates, θ ∝ ψ·U^(1/ρ), and the densities of ψ and of ln(−ln U).
        log_psi = _simplex.log_theta(free[:4])
        exponents, theta = prior.copy(), np.exp(log_psi)
        gaps = np.exp(free[4:])
        exponents[[1, 3]] += 1
        theta[[1, 3]] *= np.exp(-gaps / prior[[1, 3]])
        log_prior = (exponents * log_psi).sum() + (free[4:] - gaps).sum()
        return oracles.log_likelihood(theta / theta.sum(), rows_of(responses)) + log_prior

    for free in rng.normal(size=(5, 6)):
        value, slope = nuts.log_density(free, *data)
        assert value == pytest.approx(expected(free))
        steps = 1e-6 * np.eye(6)
        numeric = [(expected(free + step) - expected(free - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)


def test_the_tree_is_labelled():
    responses = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1, 1], categories=["a", "b", "c"])
    tree = nuts.sample_nuts(responses, prior=np.ones(3), **SETTINGS | {"draws": 20, "tune": 50, "chains": 2})
    theta = tree["posterior"]["theta"]
    assert theta.dims == ("chain", "draw", "category")
    assert theta.shape == (2, 20, 3)
    assert theta["category"].values.tolist() == ["a", "b", "c"]
    assert list(tree["posterior"].data_vars) == ["theta"]
    assert set(tree.children) == {"posterior", "sample_stats"}
    np.testing.assert_allclose(theta.sum("category"), 1)


def test_equal_seeds_give_equal_draws():
    responses = simulated(ad.RRRR(4, 1.0), 30, seed=5)
    few = SETTINGS | {"draws": 50, "tune": 100, "chains": 2}
    first, again = (draws_of(nuts.sample_nuts(responses, prior=np.ones(4), **few)) for _ in range(2))
    other = draws_of(nuts.sample_nuts(responses, prior=np.ones(4), **few | {"random_seed": 4}))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])


class _Compilations(event.Listener):
    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass


def test_nothing_is_compiled_for_a_second_fit_whatever_its_data(monkeypatch):
    few = SETTINGS | {"draws": 50, "tune": 50, "chains": 1}
    nuts.sample_nuts(simulated(ad.SRR(3, 1.0), 20, seed=0), prior=np.ones(3), **few)
    monkeypatch.setattr(nutpie, "compile_pymc_model", None)
    monkeypatch.setattr(numba, "cfunc", None)
    compilations = _Compilations()
    with event.install_listener("numba:compile", compilations):
        start = time.perf_counter()
        for k, n in ((3, 500), (7, 100), (12, 0)):
            responses = simulated(ad.RRRR(k, 1.0), n, seed=k)
            nuts.sample_nuts(responses, prior=np.full(k, 0.5), **few)
        seconds = time.perf_counter() - start
    assert compilations.names == []
    assert seconds < 5


FRESH = """
import time
import numpy as np
import adobest_pp as ad
from adobest_pp.samplers import nuts
responses = ad.Responses.from_arrays(ad.SRR(5, 1.0), np.arange(100) % 5)
start = time.process_time()
nuts.compiled_functions()
print(time.process_time() - start)
"""


def test_a_second_process_reads_the_compiled_functions_from_disk(tmp_path):
    def seconds():
        caches = {"NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-W", "ignore", "-c", FRESH]
        run = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=True)
        return float(run.stdout)

    cold, warm = seconds(), seconds()
    assert warm < cold / 3


def calibration_p_values(replications, n=40, k=4, draws=99, thin=5):
    """The p-value, for each category, that ranks of the truth among posterior draws are uniform (SBC)."""
    rng = np.random.default_rng(7)
    mechanism = ad.RRRR(k, 1.5, 0.8)
    prior = np.array([0.7, 1.0, 1.5, 2.0])
    pool = [np.array(subset) for subset in ([], [0], [1, 2], [0, 1, 3])]
    ranks = np.empty((replications, k), dtype=int)
    for r in range(replications):
        truth = rng.dirichlet(prior)
        responses = ad.Responses(mechanism)
        for subset in pool:
            x = rng.choice(k, size=n // 4, p=truth)
            responses.append(mechanism.privatize(x, subset.astype(int), rng=rng), subset.astype(int))
        sizes = {"draws": draws * thin, "tune": 300, "chains": 1, "random_seed": r}
        tree = nuts.sample_nuts(responses, prior=prior, **SETTINGS | sizes)
        ranks[r] = (draws_of(tree)[0, ::thin] < truth).sum(axis=0)
    bins = (draws + 1) // 10
    counts = [np.bincount(ranks[:, i] // bins, minlength=10) for i in range(k)]
    return [stats.chisquare(count).pvalue for count in counts]


def test_calibration():
    # Four tests at one in ten thousand each, on a fixed seed.
    assert min(calibration_p_values(200)) > 1e-4


@pytest.mark.slow
def test_calibration_in_full():
    assert min(calibration_p_values(2000)) > 1e-4
