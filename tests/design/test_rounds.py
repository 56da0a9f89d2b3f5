"""Collections in rounds of the best question: what is chosen, what is predicted, and what is simulated."""

import json

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.design.optimal import next_question, posterior_draws, round_ends

UNEVEN = np.array([0.85, 0.05, 0.04, 0.03, 0.02, 0.01])
FIRST = ad.SubsetSelection(6, epsilon=2.0)


def answered(mechanism, theta, n, seed):
    rng = np.random.default_rng(seed)
    x = rng.choice(mechanism.n_categories, size=n, p=theta)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))


@pytest.mark.parametrize(("n", "rounds"), [(1, 1), (5, 5), (8, 3), (5000, 8), (100_000, 20)])
def test_rounds_of_equal_size_take_everybody_once(n, rounds):
    ends = round_ends(n, rounds)
    sizes = np.diff(ends, prepend=0)
    assert ends[-1] == n
    assert len(ends) == rounds
    assert sizes.min() > 0
    assert np.ptp(sizes) <= 1


def test_an_uneven_truth_is_asked_by_a_design_that_is_predicted_better():
    question = next_question(answered(FIRST, UNEVEN, 2000, 1), FIRST, 2000, seed=1)
    assert isinstance(question.mechanism, ad.SetFamily)
    assert question.mechanism.epsilon == FIRST.epsilon
    assert ad.audit(question.mechanism).holds
    assert question.predicted < 0.98 * question.of_selection < question.variance
    assert "lower the summed error" in question.reason


def test_an_even_truth_keeps_subset_selection():
    first = ad.SubsetSelection(4, epsilon=0.5)
    question = next_question(answered(first, np.full(4, 0.25), 20_000, 2), first, 1000, prior=np.ones(4), seed=1)
    assert question.mechanism is first
    assert question.predicted == question.of_selection
    assert "not worth it" in question.reason


def test_the_prediction_is_what_its_definition_says():
    """From the definition: information over all answers, one by one, and a generalized inverse."""
    responses = answered(FIRST, UNEVEN, 500, 3)
    question = next_question(responses, FIRST, 700, seed=5)
    theta = posterior_draws(responses, "learned", 5, 250)
    mean, covariance = theta.mean(axis=0), np.cov(theta.T)
    for mechanism, predicted in ((question.mechanism, question.predicted), (FIRST, question.of_selection)):
        information = np.zeros((6, 6))
        for row in mechanism.transition_matrix():
            information += np.outer(row, row) / (row @ mean)
        # On vectors whose sum is zero: remove what is along the ones, before and after.
        center = np.eye(6) - 1 / 6
        precision = np.linalg.pinv(covariance) + 700 * center @ information @ center
        assert np.trace(np.linalg.pinv(precision)) == pytest.approx(predicted, rel=1e-6)


def test_equal_seeds_give_equal_questions():
    responses = answered(FIRST, UNEVEN, 500, 3)
    first, second, other = (next_question(responses, FIRST, 700, seed=seed) for seed in (5, 5, 6))
    assert first.describe() == second.describe() != other.describe()


def test_answers_of_several_mechanisms_count():
    responses = ad.concat([answered(FIRST, UNEVEN, 500, 1), answered(ad.UnaryEncoding(6, 1.0), UNEVEN, 500, 2)])
    question = next_question(responses, FIRST, 1000, seed=1)
    assert question.mean.sum() == pytest.approx(1)
    assert question.mean[0] == pytest.approx(0.85, abs=0.1)


def test_small_concentrations_are_sampled_by_nuts():
    theta = posterior_draws(answered(FIRST, UNEVEN, 300, 1), np.full(6, 0.005), 1, 50)
    assert theta.shape == (100, 6)
    assert np.isfinite(theta).all()


@pytest.fixture(scope="module")
def run():
    return ad.simulate_rounds(UNEVEN, FIRST, n_people=2000, rounds=4, categories=list("abcdef"), random_seed=7)


def test_a_simulation_has_what_a_run_has(run):
    assert len(run.responses) == 2000
    assert run.responses.categories == tuple("abcdef")
    assert run.path_people.tolist() == round_ends(2000, 4).tolist()
    assert run.path.shape == (4, 6)
    np.testing.assert_array_equal(run.path[-1], run.chain_mean)
    assert run.sizes.shape == (2000,)
    mechanism = run.responses.mechanism
    assert mechanism.parts[0] == FIRST
    assert all(part.epsilon == 2.0 for part in mechanism.parts)
    assert ad.audit(mechanism).holds
    assert dict(run.to_xarray().sizes) == {"category": 6, "response": 2000, "people": 4}


def test_the_record_says_what_was_asked_predicted_and_achieved(run):
    settings = json.loads(json.dumps(run.settings))
    questions = settings["questions"]
    assert [each["first_person"] for each in questions] == run.path_people[:-1].tolist()
    asked = [ad.mechanisms.mechanism_from_settings(each["question"]) for each in questions]
    assert set(asked) <= set(run.responses.mechanism.parts)
    # One seed; the draws alone leave an error of some per cent.
    assert questions[-1]["predicted_variance"] == pytest.approx(settings["variance"], rel=0.5)


def test_a_simulation_is_repeated_by_its_settings(run):
    recorded = run.settings
    seed = np.random.SeedSequence(recorded["random_seed"]["entropy"], spawn_key=recorded["random_seed"]["spawn_key"])
    names = ("prior", "rounds", "n_people")
    again = ad.simulate_rounds(
        recorded["theta"],
        ad.mechanisms.mechanism_from_settings(recorded),
        random_seed=seed,
        categories=list("abcdef"),
        **{name: recorded[name] for name in names},
    )
    np.testing.assert_array_equal(again.responses.answers, run.responses.answers)
    np.testing.assert_array_equal(again.chain_mean, run.chain_mean)
    assert again.settings == recorded


def test_the_chain_mean_is_the_exact_posterior_mean(run):
    """Against NUTS. At 5 standard errors of both, a false alarm in one of some hundred thousand seeds."""
    tree = ad.sample(run.responses, "nuts", "learned", draws=1000, random_seed=1, progressbar=False)
    theta = tree["posterior"]["theta"]
    error = theta.std(("chain", "draw")).values * np.sqrt(1 / 1000 + 1 / 1000)
    assert (np.abs(theta.mean(("chain", "draw")).values - run.chain_mean) < 5 * error).all()


def test_every_person_answers_what_they_were_asked():
    """Answers hold their person's truth as often as the question says: 5 sds, a false alarm in a million seeds."""
    x = np.random.default_rng(1).choice(6, size=3000, p=UNEVEN)
    run = ad.simulate_rounds(None, ad.SubsetSelection(6, 3.0), people=x, rounds=3, random_seed=1)
    mechanism = run.responses.mechanism
    assert len(mechanism.parts) > 1
    for i, part in enumerate(mechanism.parts):
        mine = run.responses.answers[:, 0] == i
        own = run.responses.answers[mine, 1:]
        masks = part.support(own[:, 0] if isinstance(part, ad.SetFamily) else own)
        all_masks = part.support(part.outputs())
        expected = (part.transition_matrix() * all_masks).sum(axis=0)[x[mine]]
        held = masks[np.arange(len(own)), x[mine]]
        assert abs(held.sum() - expected.sum()) < 5 * np.sqrt((expected * (1 - expected)).sum())
        # The truth of one's neighbor is in the set less often.
        assert masks[np.arange(len(own)), np.roll(x[mine], 1)].sum() < held.sum()
        np.testing.assert_array_equal(run.sizes[mine], masks.sum(axis=1))


def test_fewer_people_than_rounds():
    run = ad.simulate_rounds(UNEVEN, FIRST, n_people=3, random_seed=1)
    assert len(run.responses) == 3


BAD = [
    ({"mechanism": ad.RRRR(6, 1.0)}, "mechanism must be a SubsetSelection to ask in rounds, got RRRR"),
    ({"mechanism": ad.SubsetSelection(6, 1e-4)}, "epsilon of a design must be a number from 0.001 to 30, got 0.0001"),
    ({"rounds": 0}, "rounds must be an integer of at least 1, got 0"),
    ({"rounds": 51}, "rounds must be at most the number of people, 50, got 51"),
    ({"prior": "flat"}, "prior must be"),
    ({"prior": -1.0}, "prior must be"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_input_is_named(settings, message):
    given = {"theta": UNEVEN, "mechanism": FIRST, "n_people": 50} | settings
    with pytest.raises(ValueError, match=message):
        ad.simulate_rounds(**given)
