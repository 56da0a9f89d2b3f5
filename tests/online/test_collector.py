"""A collector in use: rounds, late answers, estimates, and what is refused."""

import numpy as np
import pytest
import xarray as xr

from adobest_pp import RRRR, AdaptiveCollector, ConstantSteps, Utility, select_subset
from tests.online.saved import LABELS, MECHANISM, answer_all, assert_same, people


def test_responses_that_were_changed_otherwise_are_noticed():
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    answer_all(collector, people(5), 1)
    collector.responses.append(0, [1])
    with pytest.raises(ValueError, match=r"responses must be added to by record\(\) only"):
        collector.record(0)


def test_the_interval_has_the_probability_that_was_asked_for():
    # Before anyone answered, θ of two categories with a flat prior is uniform; the exact sampler's quantiles show it.
    collector = AdaptiveCollector(RRRR(2, 1.0), sampler="exact", random_seed=1)
    estimate = collector.estimate(4000, probability=0.8)
    assert estimate["lower"].values == pytest.approx([0.1, 0.1], abs=0.03)
    assert estimate["upper"].values == pytest.approx([0.9, 0.9], abs=0.03)


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
        answers = MECHANISM.privatize(people(50), subset, rng=rng)
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


def test_estimate_is_labelled_and_leaves_the_chain_alone():
    collector = AdaptiveCollector(RRRR(5, 5.0), categories=LABELS, random_seed=0, sampler="exact")
    answer_all(collector, people(1500), 0)
    before = collector._state()
    estimate = collector.estimate()
    assert collector._state() == before
    assert estimate["category"].values.tolist() == LABELS
    assert estimate["mean"].sum() == pytest.approx(1)
    assert bool((estimate["lower"] <= estimate["mean"]).all() and (estimate["mean"] <= estimate["upper"]).all())
    # Four standard errors of a share of 0.5 among 1500 people.
    assert estimate["mean"].values[0] == pytest.approx(0.5, abs=0.06)
    xr.testing.assert_identical(collector.estimate(), estimate)


def test_estimate_before_anyone_answered_is_the_prior():
    for sampler in ("sgld", "exact"):
        collector = AdaptiveCollector(MECHANISM, random_seed=0, sampler=sampler, step_size=0.05)
        estimate = collector.estimate(4000)
        assert estimate["mean"].values == pytest.approx(np.full(5, 0.2), abs=0.1)
        assert (estimate["upper"] > 0.4).all()


def test_a_utility_of_ones_own():
    tiny = Utility("tiny", "smallest subset but none", lambda theta, coefficients: -np.abs(np.arange(theta.size) - 1.0))
    collector = AdaptiveCollector(MECHANISM, utility=tiny, random_seed=0)
    published = answer_all(collector, people(10), 0)
    assert [len(subset) for subset in published] == [1] * 10
    pairs = Utility("pairs", "always two", lambda theta, coefficients: -np.abs(np.arange(theta.size) - 2.0))
    for subset in answer_all(AdaptiveCollector(MECHANISM, utility=pairs, random_seed=0), people(10), 0):
        assert subset == sorted(subset)
    theta = collector._chain.phi / collector._chain.phi.sum()
    assert collector.next_subset().size == select_subset(theta, MECHANISM, tiny).size
    with pytest.raises(ValueError, match="utility must be one of the built-in ones to be saved"):
        collector.save("nowhere.nc")


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
        ({"utility": "best"}, "method"),
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
        ({"sampler": "gibbs"}, "sampler"),
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
