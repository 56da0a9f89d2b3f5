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
import oracles
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.samplers import nuts
from oracles import rows_of
from tests.strategies import simulated

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


@pytest.mark.parametrize(("k", "n"), [(2, 0), (2, 5), (2, 1000), (3, 5), (3, 200)])
@pytest.mark.parametrize("name", MECHANISMS)
def test_moments_with_a_learned_concentration_are_exact(name, k, n):
    responses = simulated(MECHANISMS[name](k), n, seed=2)
    tree = nuts.sample_nuts(responses, prior="learned", **SETTINGS)
    mean, sd, *of_scale = oracles.posterior_moments_learned(rows_of(responses), k)
    assert_moments(draws_of(tree), mean, sd)
    # Of ln a, not of a, whose tails leave an sd without a reliable Monte Carlo error.
    logs = np.log(tree["posterior"]["concentration"].values[..., None])
    assert_moments(logs, *([value] for value in of_scale))
    assert float(tree["sample_stats"]["diverging"].mean()) < 0.01


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


def test_a_learned_concentration_is_in_the_tree():
    responses = simulated(ad.SubsetSelection(4, 1.0), 30, seed=5)
    tree = nuts.sample_nuts(responses, prior="learned", **SETTINGS | {"draws": 20, "tune": 50, "chains": 2})
    assert set(tree["posterior"].data_vars) == {"theta", "concentration"}
    assert tree["posterior"]["concentration"].dims == ("chain", "draw")
    assert (tree["posterior"]["concentration"] > 0).all()
    np.testing.assert_allclose(tree["posterior"]["theta"].sum("category"), 1)


def test_few_of_many_categories_do_not_diverge():
    """As in a study: 20 categories, of which two are held, 10 000 answers at ε = 0.5; and at ε = 1, half are held."""
    rng = np.random.default_rng(1)
    for epsilon, truth in ((0.5, [0.7, 0.3] + [0.0] * 18), (1.0, [0.1] * 10 + [0.0] * 10)):
        mechanism = ad.SRR(20, epsilon)
        answers = mechanism.privatize(rng.choice(20, size=10_000, p=truth), rng=rng)
        responses = ad.Responses.from_arrays(mechanism, answers)
        tree = nuts.sample_nuts(responses, prior="learned", **SETTINGS)
        assert float(tree["sample_stats"]["diverging"].mean()) < 0.01
        assert array_stats.rhat(draws_of(tree), 0, 1).max() < 1.02


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
            nuts.sample_nuts(responses, prior="learned", **few)
        seconds = time.perf_counter() - start
    assert compilations.names == []
    assert seconds < 5


FRESH = """
import numba
from numba.core import event
class Count(event.Listener):
    compiled = 0
    def on_start(self, event):
        self.compiled += 1
    def on_end(self, event):
        pass
count = Count()
event.register("numba:compile", count)
numba.njit(lambda x: x)(1)
print(count.compiled)
from adobest_pp.samplers import nuts
nuts.compiled_functions()
print(count.compiled - 1)
"""


@pytest.mark.long
def test_a_second_process_reads_the_compiled_functions_from_disk():
    """What this process has compiled, or found in the cache of the tests; a function that is not kept is counted."""
    nuts.compiled_functions()
    command = [sys.executable, "-W", "ignore", "-c", FRESH]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "0"]


def nats_against_empty(responses, i, points=2000):
    """By how much the log-likelihood falls, at least, if category i of two or three is empty: on a grid."""
    k = responses.n_categories
    return max_on_grid(responses, np.ones(k, dtype=bool), points) - max_on_grid(responses, np.arange(k) != i, points)


def max_on_grid(responses, allowed, points):
    shares = np.linspace(0, 1, points + 1)[:, None]
    if allowed.sum() == 3:
        thetas = ad.likelihood.maximum_likelihood(responses.evidence())[None]
    else:
        first, last = np.flatnonzero(allowed)[[0, -1]]
        thetas = (1 - shares) * np.eye(allowed.size)[first] + shares * np.eye(allowed.size)[last]
    rows, counts = np.unique(rows_of(responses), axis=0, return_counts=True)
    return (np.log(thetas @ rows.T) @ counts).max()


def test_a_category_is_held_for_certain_if_answers_are_e_to_the_10_less_likely_without():
    """Answers of two categories, from 61 : 61 to 110 : 12: the second is certain in the first of them only."""
    found = []
    for n in range(61, 111):
        responses = ad.Responses.from_arrays(ad.SRR(2, 1.0), np.repeat([0, 1], [n, 122 - n]))
        evidence, nats = responses.evidence(), nats_against_empty(responses, 1)
        found.append(nats)
        for rho in (1.0, 0.05):
            assert nuts.held_for_certain(evidence, np.full(2, rho)).tolist() == [True, nats > 10]
        # An empty category has 1/ρ times the weight.
        assert nuts.held_for_certain(evidence, np.array([1.0, 1e-3]))[1] == (nats > 7 + np.log(1e3))
    assert sum(10 < nats < 7 + np.log(1e3) for nats in found) >= 2
    assert sum(1 < nats < 10 for nats in found) >= 5


def test_a_category_is_not_certain_if_the_others_can_stand_in_for_it():
    """The best θ without it is looked for, not what the others had with it."""
    rng, borderline = np.random.default_rng(1), 0
    for seed in range(20):
        responses = simulated(ad.RRRR(3, 1.0), int(rng.integers(100, 400)), seed=seed)
        evidence = responses.evidence()
        held = nuts.held_for_certain(evidence, np.ones(3))
        for i in range(3):
            nats = nats_against_empty(responses, i, 200)
            if abs(nats - 10) > 0.05:
                assert held[i] == (nats > 10)
            borderline += 3 < nats < 20
    assert borderline > 5


def dirichlet(rng):
    """A fixed prior: its concentrations, and θ from it."""
    prior = np.array([0.7, 1.0, 1.5, 2.0])
    return prior, rng.dirichlet(prior)


def learned(rng):
    """The prior with a learned concentration, and θ from it."""
    return "learned", draw_dirichlet(rng, np.full(4, np.exp(rng.normal(-2, 2))))


def calibration_p_values(draw_prior, replications, n=40, k=4, draws=99, thin=5):
    """The p-value, for each category, that ranks of the truth among posterior draws are uniform (SBC)."""
    rng = np.random.default_rng(7)
    mechanism = ad.RRRR(k, 1.5, 0.8)
    pool = [np.array(subset) for subset in ([], [0], [1, 2], [0, 1, 3])]
    ranks = np.empty((replications, k), dtype=int)
    for r in range(replications):
        prior, truth = draw_prior(rng)
        responses = ad.Responses(mechanism)
        for subset in pool:
            x = rng.choice(k, size=n // 4, p=truth)
            responses.append(mechanism.privatize(x, subset=subset.astype(int), rng=rng), subset.astype(int))
        sizes = {"draws": draws * thin, "tune": 300, "chains": 1, "random_seed": r}
        tree = nuts.sample_nuts(responses, prior=prior, **SETTINGS | sizes)
        ranks[r] = (draws_of(tree)[0, ::thin] < truth).sum(axis=0)
    bins = (draws + 1) // 10
    counts = [np.bincount(ranks[:, i] // bins, minlength=10) for i in range(k)]
    return [stats.chisquare(count).pvalue for count in counts]


@pytest.mark.long
@pytest.mark.parametrize("prior", [dirichlet, learned])
def test_calibration(prior):
    """Four tests at one in ten thousand each, on a fixed seed.

    Draws of half the spread put 26 % of ranks into each outer tenth: χ² of 9 degrees has a noncentrality of 45 with 70
    replications, against a bound of 34, so each of the four tests would notice with a chance of nine in ten.
    """
    assert min(calibration_p_values(prior, 70)) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("prior", [dirichlet, learned])
def test_calibration_in_full(prior):
    assert min(calibration_p_values(prior, 2000)) > 1e-4


@pytest.mark.long
@pytest.mark.parametrize("prior", [pytest.param("flat", marks=pytest.mark.slow), "learned"])
def test_another_nutpie_gets_the_posterior_by_its_public_way(prior, monkeypatch):
    """The class that takes our C functions is private to nutpie; where it has changed, the model is compiled by nutpie.

    Four Monte Carlo errors of the difference are allowed: a false alarm in less than one of a thousand.
    """
    responses = simulated(ad.SRR(3, 2.0), 300, seed=5)
    concentration = np.ones(3) if prior == "flat" else "learned"
    settings = {"prior": concentration, "draws": 1000, "tune": 500, "chains": 2, "random_seed": 1, "progressbar": False}
    ours = nuts.sample_nuts(responses, **settings)["posterior"].to_dataset()
    monkeypatch.setattr(nuts, "KNOWN_FIELDS", nuts.KNOWN_FIELDS | {"new_in_another_version"})
    assert not nuts.is_known()
    theirs = nuts.sample_nuts(responses, **settings)["posterior"].to_dataset()
    assert set(ours.data_vars) == set(theirs.data_vars)
    assert ours["theta"].dims == theirs["theta"].dims
    assert ours["category"].values.tolist() == theirs["category"].values.tolist()
    for i in range(3):
        one, other = (tree["theta"].values[..., i] for tree in (ours, theirs))
        error = np.hypot(*(array_stats.mcse(values, chain_axis=0, draw_axis=1) for values in (one, other)))
        assert abs(one.mean() - other.mean()) < 4 * error


def test_a_regression_whose_covariates_changed_in_place_is_compiled_again(monkeypatch):
    models = []
    monkeypatch.setattr(nuts.nutpie, "compile_pymc_model", lambda model: models.append(model) or len(models))
    responses, covariates, memory = simulated(ad.SRR(3, 1.0), 4, seed=1), np.arange(4.0)[:, None], nuts._Regression()
    assert memory.compiled(responses, covariates, 1.5) == memory.compiled(responses, covariates.copy(), 1.5) == 1
    covariates *= 2
    assert memory.compiled(responses, covariates, 1.5) == 2


def test_this_nutpie_is_the_one_that_is_known():
    assert nuts.is_known()
