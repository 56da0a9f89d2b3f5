"""A collector in use: rounds, late answers, estimates, and what is refused."""

import numpy as np
import pytest
import xarray as xr

from adobest_pp import RRRR, AdaptiveCollector, ConstantSteps, Utility, sample, select_subset, simulate
from adobest_pp.design import UTILITIES
from adobest_pp.intervals import summary
from tests.collect.saved import LABELS, MECHANISM, answer_all, assert_same, people


def test_responses_that_were_changed_otherwise_are_noticed():
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    answer_all(collector, people(5), 1)
    collector.responses.append(0, [1])
    with pytest.raises(ValueError, match=r"responses must be added to by record\(\) only"):
        collector.record(0)


def test_the_interval_has_the_probability_that_was_asked_for():
    # Before anyone answered, θ of two categories with a flat prior is uniform: any interval of length 0.8 will do.
    collector = AdaptiveCollector(RRRR(2, 1.0), random_seed=1)
    estimate = collector.estimate(probability=0.8, prior="own")
    assert (estimate["upper"] - estimate["lower"]).values == pytest.approx([0.8, 0.8], abs=0.03)
    assert estimate.attrs["probability"] == 0.8


def test_rounds_publish_one_subset_to_all():
    collector = AdaptiveCollector(MECHANISM, adapt_every=10, random_seed=0)
    published = answer_all(collector, people(40), 1)
    for start in range(0, 40, 10):
        assert published[start : start + 10] == [published[start]] * 10
    assert collector._rounds == 3
    collector.next_subset()
    assert collector._rounds == 4


def test_a_round_may_be_recorded_at_once():
    one_by_one, at_once = (AdaptiveCollector(MECHANISM, adapt_every=50, random_seed=0) for _ in range(2))
    rng = np.random.default_rng(1)
    for _ in range(4):
        subset = at_once.next_subset()
        assert np.array_equal(one_by_one.next_subset(), subset)
        answers = MECHANISM.privatize(people(50), subset=subset, rng=rng)
        at_once.record(answers)
        for answer in answers:
            one_by_one.record(answer)
    assert_same(one_by_one, at_once)


def test_answers_may_come_late_and_in_any_order():
    collector = AdaptiveCollector(MECHANISM, random_seed=0)
    first = collector.next_subset()
    collector.record(0)
    second = collector.next_subset()
    collector.record([1, 2], subset=first)
    collector.record(3, subset=np.isin(np.arange(5), second))
    responses = collector.responses
    assert responses.answers.tolist() == [0, 1, 2, 3]
    subsets = [np.flatnonzero(mask).tolist() for mask in responses.subsets[responses.subset_index]]
    assert subsets == [first.tolist(), first.tolist(), first.tolist(), second.tolist()]


def test_asking_twice_gives_the_same_subset():
    collector = AdaptiveCollector(MECHANISM, random_seed=0)
    answer_all(collector, people(10), 0)
    assert np.array_equal(collector.next_subset(), collector.next_subset())
    collector.next_subset()[:] = 0
    assert np.array_equal(collector.next_subset(), np.unique(collector.next_subset()))


def test_estimate_is_that_of_the_exact_posterior_and_leaves_the_chain_alone():
    collectors = [AdaptiveCollector(RRRR(5, 5.0), categories=LABELS, random_seed=0) for _ in range(2)]
    for collector in collectors:
        answer_all(collector, people(1500), 0)
    collector = collectors[0]
    before = collector._state()
    estimate = collector.estimate(500)
    assert collector._state() == before
    assert estimate["category"].values.tolist() == LABELS
    told = estimate.attrs
    tree = sample(collector.responses, "nuts", "learned", draws=500, random_seed=told["random_seed"], progressbar=False)
    theta = tree["posterior/theta"].values.reshape(-1, 5)
    np.testing.assert_allclose(estimate["mean"], theta.mean(axis=0))
    shown = summary(tree)
    np.testing.assert_array_equal([estimate["lower"], estimate["upper"]], [shown["lower"], shown["upper"]])
    settings = {"sampler": "nuts", "prior": "learned", "interval": "covering", "probability": 0.95, "draws": 500}
    assert {name: told[name] for name in settings} == settings
    assert told["n_responses"] == 1500
    assert told["fit_p_value"] > 0.005
    # Another collection of the same seed and answers gives the same; its own prior gives something else.
    xr.testing.assert_identical(collectors[1].estimate(500), estimate)
    own = collector.estimate(100, prior="own")
    np.testing.assert_array_equal(own.attrs["prior"], np.ones(5))


def test_intervals_hold_the_truth_where_sgld_has_not_mixed():
    # Six polls at ε = 1. Of 30 shares, fewer than 24 are within right 95 % intervals with a probability below 0.1 %.
    theta = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    held = 0
    for seed in range(6):
        run = simulate(theta, MECHANISM, n_people=1500, random_seed=seed)
        collector = AdaptiveCollector(MECHANISM, random_seed=seed)
        for v, subset in enumerate(run.responses.subsets):
            collector.record(run.responses.answers[run.responses.subset_index == v], subset)
        estimate = collector.estimate(250)
        held += int(((estimate["lower"].values <= theta) & (theta <= estimate["upper"].values)).sum())
    assert held >= 24


def test_estimate_before_anyone_answered_is_the_prior():
    estimate = AdaptiveCollector(MECHANISM, random_seed=0).estimate(prior="own")
    assert estimate["mean"].values == pytest.approx(np.full(5, 0.2), abs=0.03)
    # Of Beta(1, 4), the shortest interval of 95 % ends where (1 − x)⁴ is 0.05.
    assert estimate["lower"].values.tolist() == [0] * 5
    assert estimate["upper"].values == pytest.approx(np.full(5, 1 - 0.05**0.25), abs=0.04)
    assert np.isnan(estimate.attrs["fit_p_value"])


def test_a_utility_of_ones_own():
    tiny = Utility("tiny", "smallest subset but none", lambda theta, coefficients: -np.abs(np.arange(theta.size) - 1.0))
    collector = AdaptiveCollector(MECHANISM, utility=tiny, random_seed=0)
    published = answer_all(collector, people(10), 0)
    assert [len(subset) for subset in published] == [1] * 10
    pairs = Utility("pairs", "always two", lambda theta, coefficients: -np.abs(np.arange(theta.size) - 2.0))
    for subset in answer_all(AdaptiveCollector(MECHANISM, utility=pairs, random_seed=0), people(10), 0):
        assert subset == sorted(subset)


def moving(theta, coefficients):
    """A utility whose best size depends on θ."""
    mass = np.concatenate([[0.0], np.cumsum(theta)[:-1]])
    return mass * (coefficients.inner + coefficients.inner_own)


@pytest.mark.parametrize("sampler", ["sgld", "gibbs", "exact"])
@pytest.mark.parametrize(
    "utility", ["honest", Utility("moving", "θ(S)·P(Y = X | X ∈ S)", moving)], ids=["honest", "moving"]
)
def test_collector_and_simulation_choose_what_select_subset_chooses(utility, sampler):
    collector = AdaptiveCollector(MECHANISM, utility, sampler=sampler, adapt_every=3, random_seed=0)
    sizes = set()
    for person in people(60):
        subset = collector.next_subset()
        if collector._waiting == 0:
            theta = collector._chain.phi / collector._chain.phi.sum()
            assert subset.tolist() == sorted(select_subset(theta, MECHANISM, utility).tolist())
            sizes.add(subset.size)
        collector.record(MECHANISM.privatize(person, subset=subset))
    run = simulate(
        None, MECHANISM, utility, people=people(60), sampler=sampler, adapt_every=3, path_length=60, random_seed=4
    )
    masks = run.responses.subsets[run.responses.subset_index]
    for theta, mask, size in zip(run.path[:-1], masks[3::3], run.sizes[3::3], strict=True):
        assert np.flatnonzero(mask).tolist() == sorted(select_subset(theta, MECHANISM, utility).tolist())
        assert size == mask.sum()
        sizes.add(int(size))
    assert len(sizes) > 1  # or the choice would not be tested
    assert run.settings["utility"] == getattr(utility, "name", utility)


def test_a_compiled_utility_given_as_ones_own_makes_the_same_run():
    own = Utility("mine", "U6", UTILITIES["honest"].function)
    settings = {"people": people(100), "random_seed": 1}
    first, second = (simulate(None, MECHANISM, utility, **settings) for utility in ("honest", own))
    np.testing.assert_array_equal(first.path, second.path)
    np.testing.assert_array_equal(first.responses.answers, second.responses.answers)
    assert repr(AdaptiveCollector(MECHANISM, UTILITIES["honest"])) == repr(AdaptiveCollector(MECHANISM))
    for make in (AdaptiveCollector, lambda mechanism, utility: simulate(None, mechanism, utility, **settings)):
        with pytest.raises(ValueError, match="utility must have a name of its own, got 'honest', which is taken"):
            make(MECHANISM, Utility("honest", "", moving))


def test_a_collection_by_a_utility_of_ones_own_goes_on_with_it(tmp_path):
    own = Utility("moving", "θ(S)·P(Y = X | X ∈ S)", moving)
    collector = AdaptiveCollector(MECHANISM, own, random_seed=0)
    answer_all(collector, people(10), 0)
    collector.save(tmp_path / "poll.nc")
    collector.close()
    for wrong, told in [(None, "'moving', got None"), (Utility("other", "", moving), "'moving', got 'other'")]:
        with pytest.raises(ValueError, match=rf"utility must be the one that .*poll\.nc' was made with, {told}"):
            AdaptiveCollector.load(tmp_path / "poll.nc", wrong)
    with pytest.raises(ValueError, match="utility must be a Utility or None, got 'moving'"):
        AdaptiveCollector.load(tmp_path / "poll.nc", "moving")
    loaded = AdaptiveCollector.load(tmp_path / "poll.nc", own)
    assert answer_all(loaded, people(10, 1), 2) == answer_all(collector, people(10, 1), 2)
    loaded.close()


def test_a_schedule_of_ones_own_cannot_be_saved(tmp_path):
    collector = AdaptiveCollector(MECHANISM, schedule=lambda update, n: ConstantSteps(0.1)(update, n), random_seed=0)
    with pytest.raises(ValueError, match="schedule must be one of"):
        collector.save(tmp_path / "poll.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("y", [5, -1, 0.0, "a", [[0]], None, np.nan, [0, 7]])
def test_an_impossible_answer_changes_nothing(y, tmp_path):
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    answer_all(collector, people(5), 1)
    collector.save(tmp_path / "poll.nc")
    before, content = collector._state(), (tmp_path / "poll.nc").read_bytes()
    with pytest.raises(ValueError, match="answers must "):
        collector.record(y)
    with pytest.raises(ValueError, match="subset must "):
        collector.record(0, subset=[9])
    assert collector._state() == before
    assert len(collector.responses) == 5
    assert (tmp_path / "poll.nc").read_bytes() == content


def test_an_answer_before_any_subset_is_refused():
    with pytest.raises(ValueError, match="none has been published yet"):
        AdaptiveCollector(MECHANISM).record(0)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"utility": "best"}, "utility"),
        ({"utility": "honest", "alpha": 0.5}, "alpha"),
        ({"utility": "semi_adaptive"}, "alpha"),
        ({"utility": "semi_adaptive", "alpha": 2}, "alpha"),
        ({"prior": 0}, "prior"),
        ({"prior": [1, 1]}, "prior"),
        ({"updates": 0}, "updates"),
        ({"batch_size": 0}, "batch_size"),
        ({"adapt_every": 0}, "adapt_every"),
        ({"step_size": -1}, "step_size"),
        ({"step_size": 0.1, "schedule": ConstantSteps(0.1)}, "step_size"),
        ({"sampler": "nuts"}, "sampler"),
        ({"categories": ["a"]}, "categories"),
        ({"random_seed": -1}, "random_seed"),
        ({"random_seed": 1.5}, "random_seed"),
    ],
)
def test_bad_settings_are_refused(settings, name):
    with pytest.raises(ValueError, match=f"{name} must "):
        AdaptiveCollector(MECHANISM, **settings)


def test_only_rrrr_adapts():
    with pytest.raises(ValueError, match="mechanism must be an RRRR"):
        AdaptiveCollector("RRRR")
