"""Where settings are at their ends: every number stays a number, and what a run returns fits together."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import adobest_pp as ad
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.design import UTILITY_CODES
from adobest_pp.simulate import simulate_adaptive
from tests.refusals import refuses
from tests.simulate import simulated

# Decades, so that hypothesis goes far out.
decades = st.integers(-300, 300).map(lambda power: 10.0**power)
moderate_decades = st.integers(-12, 12).map(lambda power: 10.0**power)
concentrations = st.integers(-100, 100).map(lambda power: 10.0**power)


@st.composite
def populations(draw):
    """θ with any number of zeros, down to all mass on one category."""
    k = draw(st.integers(2, 8))
    weights = draw(st.lists(st.sampled_from([0.0, 1e-12, 0.1, 1.0]), min_size=k, max_size=k))
    weights[draw(st.integers(0, k - 1))] = 1.0
    return np.array(weights) / np.sum(weights)


# Utility and sampler know nothing of each other, and each pair is compiled for seconds: three utilities and every
# sampler are in some quick test, every utility in a long one, and all pairs in slow ones.
SAMPLERS = ["sgld", "gibbs", "exact"]
ALL = [(utility, sampler) for utility in UTILITY_CODES for sampler in SAMPLERS]
QUICK = [*((utility, "sgld") for utility in ("fisher", "semi_adaptive")), *(("honest", each) for each in SAMPLERS)]
PAIRS = [
    pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.long if pair[1] == "sgld" else pytest.mark.slow)
    for pair in ALL
]


@st.composite
def arguments(draw, pairs):
    """Anything that `simulate` accepts, with few people."""
    theta = draw(populations())
    sampler = draw(st.sampled_from(SAMPLERS))
    utility = draw(st.sampled_from([utility for utility, its in pairs if its == sampler]))
    options = {
        "n_people": draw(st.sampled_from([1, 2, 3, 30])),
        "updates": draw(st.sampled_from([1, 2, 20])),
        "batch_size": draw(st.sampled_from([1, 3, 50, 2**31 - 1])),
        "final_updates": draw(st.sampled_from([2, 3, 20])),
        "adapt_every": draw(st.sampled_from([1, 4, 10**9])),
        "smallest_size": draw(st.integers(0, theta.size - 1)),
        "prior": draw(st.one_of(st.just(1.0), moderate_decades, concentrations)),
        "sampler": sampler,
        "step_size": draw(st.one_of(st.none(), moderate_decades, decades)),
        "random_seed": draw(st.integers(0, 2**32)),
    }
    if utility == "semi_adaptive":
        options["alpha"] = draw(st.sampled_from([0.0, 0.5, 0.95, 1.0]))
    epsilon = draw(st.one_of(st.floats(0.01, 30.0), st.sampled_from([0.01, 1.0, 30.0])))
    mechanism = ad.RRRR(theta.size, epsilon, draw(st.sampled_from([0.01, 0.8, 1.0])))
    return theta, mechanism, utility, options


def check_consistent(run, n_people, smallest_size=0):
    k = run.chain_mean.size
    assert np.isfinite(run.chain_mean).all()
    assert (run.chain_mean >= 0).all()
    assert run.chain_mean.sum() == pytest.approx(1, abs=1e-9)
    assert np.isfinite(run.path).all()
    np.testing.assert_allclose(run.path.sum(axis=1), 1, atol=1e-9)
    assert len(run.responses) == len(run.sizes) == n_people
    assert run.path_people[-1] <= n_people
    assert ((run.responses.answers >= 0) & (run.responses.answers < k)).all()
    np.testing.assert_array_equal(run.responses.subsets.sum(axis=1)[run.responses.subset_index], run.sizes)
    if run.settings["utility"] == "nonadaptive":
        assert (run.sizes == 0).all()
    else:
        assert ((run.sizes >= smallest_size) & (run.sizes < k)).all()


def check_run(theta, mechanism, utility, options):
    run = simulated(theta, mechanism, utility, **options)
    check_consistent(run, options["n_people"], options["smallest_size"])


@pytest.mark.long
@settings(max_examples=400)
@given(arguments(QUICK))
def test_any_settings_give_numbers_that_fit_together(drawn):
    check_run(*drawn)


@pytest.mark.slow
@settings(max_examples=400)
@given(arguments(ALL))
def test_any_settings_of_all_pairs_give_numbers_that_fit_together(drawn):
    check_run(*drawn)


@pytest.mark.parametrize(("utility", "sampler"), PAIRS)
def test_two_categories_one_person(utility, sampler):
    alpha = 0.9 if utility == "semi_adaptive" else None
    for x in (0, 1):
        check_consistent(
            simulate_adaptive(
                None, AdaptiveSubset(ad.RRRR(2, 1.0), utility, alpha=alpha, sampler=sampler), people=[x], random_seed=x
            ),
            1,
        )


@pytest.mark.parametrize(("utility", "sampler"), PAIRS)
def test_everyone_is_of_one_category(utility, sampler):
    """With ε = 5 two hundred of the same answers leave little doubt."""
    alpha = 0.9 if utility == "semi_adaptive" else None
    x = np.full(200, 3)
    run = simulate_adaptive(
        None, AdaptiveSubset(ad.RRRR(5, 5.0), utility, alpha=alpha, sampler=sampler), people=x, random_seed=1
    )
    check_consistent(run, 200)
    assert run.chain_mean[3] > 0.8


@pytest.mark.parametrize("final_updates", [2, 3, 5, 17])
def test_few_final_updates_of_the_exact_sampler_give_an_estimate(final_updates):
    """A trajectory may take more gradients than there are: the one that is begun counts."""
    for seed in range(20):
        run = simulate_adaptive(
            None,
            AdaptiveSubset(ad.RRRR(3, 1.0), sampler="exact"),
            people=[0, 1],
            final_updates=final_updates,
            random_seed=seed,
        )
        check_consistent(run, 2)


def test_a_batch_that_is_larger_than_any_memory():
    x = np.zeros(20, dtype=int)
    whole, some = (
        simulate_adaptive(None, AdaptiveSubset(ad.RRRR(3, 1.0), batch_size=m), people=x, random_seed=1)
        for m in (2**31 - 1, 20)
    )
    np.testing.assert_array_equal(whole.chain_mean, some.chain_mean)


def test_a_theta_of_integers_is_a_theta():
    """It was taken for four people."""
    run = simulate_adaptive([1, 0, 0, 0], AdaptiveSubset(ad.RRRR(4, 1.0)), random_seed=1)
    assert len(run.responses) == 2000
    assert run.settings["theta"] == [1, 0, 0, 0]
    np.testing.assert_array_equal(
        run.chain_mean, simulate_adaptive([1.0, 0, 0, 0], AdaptiveSubset(ad.RRRR(4, 1.0)), random_seed=1).chain_mean
    )


def test_a_labelled_theta_is_brought_to_the_order_of_the_categories():
    labels = ["a", "b", "c"]
    theta = xr.DataArray([0.1, 0.6, 0.3], coords={"category": ["c", "a", "b"]}, dims="category")
    run = simulate_adaptive(theta, AdaptiveSubset(ad.RRRR(3, 1.0)), n_people=50, categories=labels, random_seed=1)
    assert run.settings["theta"] == [0.6, 0.3, 0.1]
    with refuses("theta"):
        simulate_adaptive(theta, AdaptiveSubset(ad.RRRR(3, 1.0)))


PEOPLE = {"theta": None, "n_people": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": ad.SRR(3, 1.0)}, "mechanism must be an RRRR"),
        ({"utility": "best"}, "utility must be one of 'nonadaptive'"),
        ({"alpha": 0.5}, "alpha must be given for 'semi_adaptive' and for no other"),
        ({"utility": "semi_adaptive"}, "alpha must be given for 'semi_adaptive' and for no other"),
        ({"utility": "semi_adaptive", "alpha": 1.5}, "alpha must be a number from 0 to 1"),
        ({"sampler": "nuts"}, "sampler must be one of 'sgld', 'gibbs', 'exact'"),
        ({"theta": [0.5, 0.5, 0.5]}, "theta must sum to 1"),
        ({"theta": [0.5, 0.5]}, "theta must be 3 finite"),
        ({"theta": [0, 1, 1]}, "theta must sum to 1"),
        ({"theta": None}, "theta or people must be given"),
        ({"people": [0, 1]}, "theta or people must be given"),
        (PEOPLE | {"people": [0, 3]}, "people must be at least one integer category from 0 to 2, got a cat"),
        (PEOPLE | {"people": [0, -1]}, "people must be at least one integer category from 0 to 2, got a cat"),
        (PEOPLE | {"people": ["a"]}, "people must be at least one integer category"),
        (PEOPLE | {"people": [0.5, 0.3, 0.2]}, "people must be at least one integer category"),
        (PEOPLE | {"people": np.zeros((2, 2), int)}, "people must be at least one integer category"),
        (PEOPLE | {"people": np.zeros(0, int)}, "people must be at least one integer category"),
        (PEOPLE | {"people": [0, 1], "n_people": 2}, "n_people must be left out"),
        ({"n_people": 0}, "n_people must be an integer of at least 1"),
        ({"prior": 0.0}, "prior must be a positive number"),
        ({"prior": [1.0, 1.0]}, "prior must be a positive number, or 3 of them"),
        ({"updates": 0}, "updates must be an integer of at least 1"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"batch_size": None}, "batch_size must be an integer of at least 1"),
        ({"adapt_every": 0}, "adapt_every must be an integer of at least 1"),
        ({"final_updates": 1}, "final_updates must be an integer of at least 2"),
        ({"smallest_size": 3}, "smallest_size must be an integer from 0 to 2"),
        ({"path_length": 0}, "path_length must be an integer of at least 1"),
        ({"step_size": 0.0}, "step_size must be a positive number"),
        ({"step_size": 0.1, "schedule": ad.PaperSteps()}, "step_size must be left out"),
        ({"categories": ["a", "b"]}, "categories must be 3 distinct labels"),
        ({"random_seed": -1}, "random_seed must be"),
        ({"random_seed": "a"}, "random_seed must be"),
    ],
)
def test_bad_input(changes, message):
    good = {"theta": [0.5, 0.3, 0.2], "mechanism": ad.RRRR(3, 1.0), "n_people": 5}
    with pytest.raises(ValueError, match=f"^{message}"):
        simulated(**(good | changes))
