"""The compiled loop takes the same steps as a plain transcription of Algorithm 1, given the same random numbers."""

import numpy as np
import pytest

import adobest_pp as ad
import oracles
from adobest_pp._numerics import integer, normal, seed_state, uniform
from adobest_pp.adaptive.loop import LoopSettings, new_chain
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.design import UTILITY_CODES
from adobest_pp.design.utilities import TIE
from adobest_pp.simulate import _ask_everyone, simulate_adaptive
from tests.simulate import simulated

DEFAULTS = {"alpha": None, "prior": 1.0, "updates": 4, "batch_size": 5, "adapt_every": 1, "smallest_size": 0}


def transcribed(
    x, mechanism, utility, schedule, seed, *, alpha, prior, updates, batch_size, adapt_every, smallest_size
):
    """The oracle with the draws of `fast_random` from the state that the run starts from, and its final estimate."""
    k = mechanism.n_categories
    state = seed_state(chain_seed(seed))
    draws = (lambda: uniform(state), lambda bound: integer(state, bound), lambda: normal(state))
    concentration = np.full(k, prior, dtype=float)
    answers, subsets, phis, rows = oracles.algorithm_1(
        x,
        concentration,
        lambda theta: chosen(theta, mechanism, utility, alpha, smallest_size),
        lambda subset: oracles.rrrr_matrix(k, subset, mechanism.epsilon1, mechanism.epsilon2(len(subset))),
        lambda n: float(schedule(1, n)),
        updates,
        batch_size,
        adapt_every,
        draws,
    )
    phi, kept = phis[-1], []
    for _ in range(10):
        phi = oracles.langevin_update(phi, rows, concentration, float(schedule(1, len(x))), batch_size, draws)
        kept.append(phi / phi.sum())
    return answers, subsets, phis, np.mean(kept[5:], axis=0)


def chosen(theta, mechanism, utility, alpha, smallest_size):
    """The categories in order and the size, by the public functions of `adaptation`."""
    order = np.argsort(-theta, kind="stable")
    if utility == "nonadaptive":
        return np.arange(theta.size), 0
    if utility == "semi_adaptive":
        return order, max(smallest_size, len(ad.semi_adaptive_subset(theta, alpha)))
    if smallest_size == 0:
        subset = ad.select_subset(theta, mechanism, utility)
        np.testing.assert_array_equal(subset, order[: subset.size])
        return order, subset.size
    values = ad.utility(theta, mechanism, utility)[smallest_size:]
    return order, smallest_size + int(np.argmax(values >= values.max() - TIE * abs(values.max())))


def chain_seed(seed):
    return np.random.SeedSequence(seed).spawn(2)[1]


def check_the_same(mechanism, utility, n, seed, schedule=None, **changes):
    schedule = schedule or ad.PaperSteps()
    options = DEFAULTS | changes
    k = mechanism.n_categories
    x = np.random.default_rng(seed).choice(k, size=n, p=np.random.default_rng(seed + 1).dirichlet(np.ones(k)))
    answers, subsets, phis, estimate = transcribed(x, mechanism, utility, schedule, seed, **options)

    fixed = {"people": x, "schedule": schedule, "final_updates": 10, "path_length": n, "random_seed": seed}
    run = simulated(None, mechanism, utility, **fixed, **options)
    masks = run.responses.subsets[run.responses.subset_index]
    np.testing.assert_array_equal(run.responses.answers, answers)
    assert [frozenset(np.flatnonzero(mask).tolist()) for mask in masks] == subsets
    np.testing.assert_array_equal(run.sizes, [len(subset) for subset in subsets])
    np.testing.assert_allclose(run.path, phis / phis.sum(axis=1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(run.chain_mean, estimate, atol=1e-10)
    np.testing.assert_allclose(
        last_phi(x, mechanism, utility, schedule, seed, options), phis[-1], rtol=1e-10, atol=1e-10
    )
    return run


def last_phi(x, mechanism, utility, schedule, seed, options):
    """φ itself after the last round, which a run does not show."""
    settings = LoopSettings.of(mechanism, utility, step_size=None, schedule=schedule, sampler="sgld", **options)
    chain = new_chain(settings.prior, settings.plan.batch_size, chain_seed(seed))
    _ask_everyone(settings, chain, x, x.size, False)
    return chain.phi


@pytest.mark.parametrize("utility", UTILITY_CODES)
@pytest.mark.parametrize(("k", "epsilon", "kappa"), [(3, 0.5, 0.9), (6, 1.0, 0.8), (10, 5.0, 1.0)])
def test_every_method(utility, k, epsilon, kappa):
    alpha = 0.7 if utility == "semi_adaptive" else None
    run = check_the_same(ad.RRRR(k, epsilon, kappa), utility, 60, seed=k, alpha=alpha)
    if utility in ("honest", "semi_adaptive"):
        assert len(np.unique(run.sizes)) > 1  # or the choice would not be tested


@pytest.mark.parametrize("utility", ["nonadaptive", "semi_adaptive", "fisher", "honest"])
@pytest.mark.parametrize("prior", [0.1, 3.0, [0.5, 1.0, 2.0, 0.9, 1.5]])
def test_priors_whose_slope_is_taken_no_closer_than_the_noise(utility, prior):
    """Short, since for ρ < 1 an update near zero spreads neighbouring φ apart, and what was rounded with them."""
    alpha = 0.5 if utility == "semi_adaptive" else None
    check_the_same(ad.RRRR(5, 1.0), utility, 20, seed=8, alpha=alpha, prior=prior)


@pytest.mark.parametrize("adapt_every", [2, 7, 100])
@pytest.mark.parametrize("utility", ["nonadaptive", "tv1", "honest"])
def test_rounds(utility, adapt_every):
    """The last of the rounds is not full; with 100 there is one round only."""
    check_the_same(ad.RRRR(5, 1.0), utility, 60, seed=9, adapt_every=adapt_every)


@pytest.mark.parametrize("batch_size", [1, 1000])
def test_batches_of_one_and_batches_greater_than_the_data(batch_size):
    check_the_same(ad.RRRR(4, 1.0), "honest", 40, seed=10, batch_size=batch_size)


@pytest.mark.parametrize("utility", ["semi_adaptive", "entropy", "mse", "honest"])
def test_without_the_empty_subset(utility):
    alpha = 0.0 if utility == "semi_adaptive" else None
    run = check_the_same(ad.RRRR(5, 0.5), utility, 40, seed=11, alpha=alpha, smallest_size=1)
    assert run.sizes.min() == 1


@pytest.mark.parametrize("utility", ["fisher", "mse", "honest"])
def test_any_two_budgets(utility):
    check_the_same(ad.RRRR.from_budgets(6, 0.7, [1.0, 0.2, 0.5, 2.0, 0.0, 1.0]), utility, 50, seed=12)


@pytest.mark.parametrize("schedule", [ad.ConstantSteps(0.01), ad.PaperSteps(0.1)])
def test_schedules(schedule):
    check_the_same(ad.RRRR(4, 1.0), "honest", 50, seed=13, schedule=schedule)


def test_steps_that_depend_on_the_update_are_counted_on_through_rounds_and_final_updates():
    seen = []

    class Noted(ad.DecayingSteps):
        def __call__(self, update, n_responses):
            seen.append(np.broadcast_arrays(update, n_responses))
            return super().__call__(update, n_responses)

    options = {"updates": 3, "adapt_every": 2, "final_updates": 4, "schedule": Noted(0.1), "random_seed": 1}
    simulated(None, ad.RRRR(3, 1.0), people=np.zeros(7, int), **options)
    updates, at_hand = (np.concatenate([np.ravel(part) for part in parts]) for parts in zip(*seen, strict=True))
    np.testing.assert_array_equal(updates, np.arange(1, 4 * 3 + 4 + 1))
    np.testing.assert_array_equal(at_hand, np.repeat([2, 4, 6, 7], [3, 3, 3, 3 + 4]))


def test_a_run_that_outgrows_its_tables_of_subsets_goes_on_as_if_it_had_not():
    """New records have room for 16 sets; a noisy start over ten categories publishes many more."""
    run = check_the_same(ad.RRRR(10, 1.0), "honest", 150, seed=14)
    assert len(run.responses.subsets) > 32


def test_the_path_is_thinned_evenly():
    run = simulate_adaptive(
        [0.5, 0.3, 0.2], AdaptiveSubset(ad.RRRR(3, 1.0), adapt_every=10), n_people=95, path_length=4, random_seed=1
    )
    np.testing.assert_array_equal(run.path_people, [30, 60, 90])
    everything = simulate_adaptive(
        [0.5, 0.3, 0.2], AdaptiveSubset(ad.RRRR(3, 1.0), adapt_every=10), n_people=95, random_seed=1
    )
    np.testing.assert_array_equal(everything.path_people, [10, 20, 30, 40, 50, 60, 70, 80, 90, 95])
    np.testing.assert_array_equal(run.path, everything.path[2::3])
