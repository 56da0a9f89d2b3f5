"""What is particular to a policy: subsets that adapt, rounds of the best question, and what devices get."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp import AdaptiveSubset, Collection, Utility, sample, select_subset, simulate_adaptive
from adobest_pp.design import UTILITIES
from adobest_pp.design import optimal as rounds_module
from adobest_pp.intervals import summary
from tests.collect.policies import LABELS, POLICIES, RRRR, answer_all, assert_same, new, people
from tests.refusals import refuses


# ---------------------------------------------------------------- adaptive subsets
def test_some_people_at_a_time_get_one_subset():
    collection = new(AdaptiveSubset(RRRR, adapt_every=10))
    published = answer_all(collection, people(40), 1)
    for start in range(0, 40, 10):
        assert published[start : start + 10] == [published[start]] * 10
    assert collection._chooser.state()["rounds"] == 3
    collection.next_question()
    assert collection._chooser.state()["rounds"] == 4


def test_the_answers_are_under_the_subsets_that_were_published():
    collection = new(AdaptiveSubset(RRRR))
    published = answer_all(collection, people(30), 1)
    responses = collection.responses
    masks = responses.subsets[responses.subset_index]
    assert [tuple(np.flatnonzero(mask).tolist()) for mask in masks] == [question.subset for question in published]


def test_the_interval_has_the_probability_that_was_asked_for():
    # Before anyone answered, θ of two categories with a flat prior is uniform: any interval of length 0.8 will do.
    collection = Collection.create(policy=AdaptiveSubset(ad.RRRR(2, 1.0)), random_seed=1)
    estimate = collection.estimate(probability=0.8, prior="own")
    assert (estimate["upper"] - estimate["lower"]).values == pytest.approx([0.8, 0.8], abs=0.03)
    assert estimate.attrs["probability"] == 0.8


def test_estimate_is_that_of_the_exact_posterior():
    collection = Collection.create(policy=AdaptiveSubset(ad.RRRR(5, 5.0)), categories=LABELS, random_seed=0)
    answer_all(collection, people(1500), 0)
    estimate = collection.estimate(500)
    found = estimate.attrs
    tree = sample(
        collection.responses, "nuts", "learned", draws=500, random_seed=found["random_seed"], progressbar=False
    )
    theta = tree["posterior/theta"].values.reshape(-1, 5)
    np.testing.assert_allclose(estimate["mean"], theta.mean(axis=0))
    shown = summary(tree)
    np.testing.assert_array_equal([estimate["lower"], estimate["upper"]], [shown["lower"], shown["upper"]])
    settings = {
        "sampler": "nuts",
        "prior_concentration": "learned",
        "interval": "covering",
        "probability": 0.95,
        "draws": 500,
    }
    assert {name: found[name] for name in settings} == settings
    assert found["fit_p_value"] > 0.005
    np.testing.assert_array_equal(collection.estimate(100, prior="own").attrs["prior_concentration"], np.ones(5))


def test_intervals_hold_the_truth_where_sgld_has_not_mixed():
    # Six polls at ε = 1. Of 30 shares, fewer than 24 are within right 95 % intervals with a probability below 0.1 %.
    theta = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    held = 0
    for seed in range(6):
        responses = simulate_adaptive(theta, AdaptiveSubset(RRRR), n_people=1500, random_seed=seed).responses
        estimate = summary(sample(responses, "nuts", "learned", draws=250, random_seed=seed, progressbar=False))
        held += int(((estimate["lower"].values <= theta) & (theta <= estimate["upper"].values)).sum())
    assert held >= 24


def moving(theta, coefficients):
    """A utility whose best size depends on θ."""
    mass = np.concatenate([[0.0], np.cumsum(theta)[:-1]])
    return mass * (coefficients.inner + coefficients.inner_own)


OWN = Utility("moving", "θ(S)·P(Y = X | X ∈ S)", moving)


@pytest.mark.parametrize("sampler", ["sgld", "gibbs", "exact"])
@pytest.mark.parametrize("utility", ["honest", OWN], ids=["honest", "moving"])
def test_collection_and_simulation_choose_what_select_subset_chooses(utility, sampler):
    policy = AdaptiveSubset(RRRR, utility, sampler=sampler, adapt_every=3)
    collection, sizes = new(policy), set()
    for i, person in enumerate(people(60)):
        question = collection.next_question()
        if i % 3 == 0:
            phi = np.array(collection._chooser.state()["phi"])
            assert sorted(question.subset) == sorted(select_subset(phi / phi.sum(), RRRR, utility).tolist())
            sizes.add(len(question.subset))
        collection.record(question.privatize(person), question)
    run = simulate_adaptive(None, policy, people=people(60), path_length=60, random_seed=4)
    masks = run.responses.subsets[run.responses.subset_index]
    for theta, mask, size in zip(run.path[:-1], masks[3::3], run.sizes[3::3], strict=True):
        assert np.flatnonzero(mask).tolist() == sorted(select_subset(theta, RRRR, utility).tolist())
        assert size == mask.sum()
        sizes.add(int(size))
    assert len(sizes) > 1  # or the choice would not be tested
    assert run.settings["utility"] == getattr(utility, "name", utility)


def test_a_compiled_utility_given_as_ones_own_makes_the_same_run():
    own = Utility("mine", "U6", UTILITIES["honest"].function)
    settings = {"people": people(100), "random_seed": 1}
    first, second = (simulate_adaptive(None, AdaptiveSubset(RRRR, each), **settings) for each in ("honest", own))
    np.testing.assert_array_equal(first.path, second.path)
    np.testing.assert_array_equal(first.responses.answers, second.responses.answers)
    taken = AdaptiveSubset(RRRR, Utility("honest", "", moving))
    for make in (new, lambda policy: simulate_adaptive(None, policy, **settings)):
        with refuses("utility"):
            make(taken)


def test_a_collection_by_a_utility_of_ones_own_goes_on_with_it(tmp_path):
    path = tmp_path / "poll.db"
    twin = new(AdaptiveSubset(RRRR, OWN))
    answer_all(twin, people(10), 0)
    twin.copy(path)
    for wrong in (None, Utility("other", "", moving), "moving"):
        with refuses("utility"):
            Collection.open(path, wrong)
    with Collection.open(path, OWN) as resumed:
        assert answer_all(resumed, people(10, 1), 2) == answer_all(twin, people(10, 1), 2)
    new(POLICIES["same"]).copy(tmp_path / "same.db")
    with refuses("utility"):
        Collection.open(tmp_path / "same.db", OWN)


def test_a_schedule_of_ones_own_cannot_be_kept(tmp_path):
    policy = AdaptiveSubset(RRRR, schedule=lambda update, n: ad.ConstantSteps(0.1)(update, n))
    collection = new(policy)
    answer_all(collection, people(3), 1)
    for attempt in (lambda: new(policy, tmp_path / "poll.db"), lambda: collection.copy(tmp_path / "poll.db")):
        with refuses("schedule"):
            attempt()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"utility": "best"}, "utility"),
        ({"alpha": 0.5}, "alpha"),
        ({"utility": "semi_adaptive"}, "alpha"),
        ({"utility": "semi_adaptive", "alpha": 2}, "alpha"),
        ({"prior": 0}, "prior"),
        ({"prior": [1, 1]}, "prior"),
        ({"updates": 0}, "updates"),
        ({"batch_size": 0}, "batch_size"),
        ({"adapt_every": 0}, "adapt_every"),
        ({"step_size": -1}, "step_size"),
        ({"step_size": 0.1, "schedule": ad.ConstantSteps(0.1)}, "step_size"),
        ({"sampler": "nuts"}, "sampler"),
        ({"smallest_size": 5}, "smallest_size"),
    ],
)
def test_bad_settings_of_an_adaptive_policy_are_named(settings, name):
    with pytest.raises(ValueError, match=f"{name} must "):
        new(AdaptiveSubset(RRRR, **settings))


# ---------------------------------------------------------------- rounds
FIRST = ad.SubsetSelection(5, epsilon=2.0)
UNEVEN = [0.8, 0.1, 0.05, 0.03, 0.02]


def in_rounds(collection, n, seed):
    """Ask people, 20 at a time."""
    rng, published = np.random.default_rng(seed), []
    for _ in range(n // 20):
        question = collection.next_question()
        published.append(question)
        collection.record(question.privatize(rng.choice(5, size=20, p=UNEVEN), rng=rng), question)
    return published


@pytest.fixture
def always(monkeypatch):
    """A design is asked, however little it gains: so that there are several questions to test with."""
    monkeypatch.setattr(rounds_module, "LEAST_GAIN", -1.0)


def test_rounds_begin_when_their_answers_are_in(always, tmp_path):
    collection = new(ad.Rounds(FIRST, n_people=600, rounds=3))
    published = in_rounds(collection, 600, 1)
    numbers = [question.number for question in published]
    # Looked at every 20 answers, a round begins at the first look at or after the end of the one before.
    ends = rounds_module.round_ends(600, 3)
    starts = [20 * -(-end // 20) for end in ends[:-1]]
    assert numbers == [sum(start <= 20 * i for start in starts) for i in range(30)]
    assert [record["answers"] for record in collection.records] == [0, *starts]
    assert len(collection) == 600
    assert collection.responses.mechanism.parts[0] == FIRST
    assert ad.audit(collection.responses.mechanism).holds
    assert collection.next_question().number == numbers[-1]  # for more people than were expected
    for record in collection.records[1:]:
        assert record["predicted_variance"] < record["variance"]
    collection.copy(tmp_path / "poll.db")
    with Collection.open(tmp_path / "poll.db") as resumed:
        assert_same(resumed, collection)
    # An answer to an older question may come late, and a foreign question is refused.
    collection.record(published[0].privatize(1), published[0])
    other = new(ad.Rounds(FIRST, n_people=600, rounds=3), random_seed=4)
    foreign = in_rounds(other, 420, 2)[-1]
    with refuses("question"):
        collection.record(0, foreign)


def test_subset_selection_stays_where_a_design_is_not_worth_it(monkeypatch):
    monkeypatch.setattr(rounds_module, "LEAST_GAIN", 1.0)
    collection = new(ad.Rounds(FIRST, n_people=600, rounds=3))
    assert {question.number for question in in_rounds(collection, 600, 1)} == {0}
    assert len(collection.records) == 3
    assert collection.responses.mechanism == FIRST
    for record in collection.records[1:]:  # what is predicted is for the 600 people in all
        expected = ad.asymptotic_variance(FIRST, record["mean"]) / 600
        assert record["predicted_variance"] == pytest.approx(expected, rel=0.25)


def test_an_interrupt_while_a_question_is_chosen_changes_nothing(monkeypatch):
    collection = new(ad.Rounds(FIRST, n_people=600, rounds=3))
    in_rounds(collection, 200, 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("adobest_pp.collect.policies.next_question", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collection.next_question()
    assert len(collection.records) == 1
    collection.next_question()
    assert len(collection.records) == 2


def test_devices_get_a_text():
    collection = new(ad.Rounds(FIRST, n_people=600))
    question = ad.read_question(collection.next_question().to_json(), epsilon=2.0)
    collection.record(question.privatize(1), question)
    assert len(collection) == 1
    collection = new(AdaptiveSubset(RRRR))
    question = ad.read_question(collection.next_question().to_json(), epsilon=2.0)
    assert question == collection.next_question()
    collection.record(question.privatize(1), question)
    assert len(collection) == 1
