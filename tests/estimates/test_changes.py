"""The change between two surveys of a question: its interval against the definition, and against simulated people."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.estimates.changes import Measured, change_between
from adobest_pp.estimates.direct import (
    cautious_people,
    direct_of_group,
    effective_people,
    efficient_scores,
    heaviest_people,
    weighted_estimate,
)
from adobest_pp.estimates.estimate import terms_of_people


def measured(answers, people, mechanism):
    """One survey with normal intervals, from the definition: a share is the mean of L[:, y], L inverts the channel."""
    responses = ad.Responses.from_arrays(mechanism, answers)
    each = np.linalg.inv(mechanism.transition_matrix()).T[answers]
    share = each.mean(axis=0)
    terms = terms_of_people(responses, np.ones(len(answers)), None)
    np.testing.assert_allclose(terms, (each - share) / len(answers), atol=1e-12)
    half = 1.96 * np.sqrt(np.sum(terms**2, axis=0))
    return Measured(share, share - half, share + half, terms, people), each


@pytest.mark.parametrize("shared", [0, 150, 400])
def test_the_interval_of_a_change_adds_the_errors_of_every_person(shared):
    rng, n = np.random.default_rng(1), 400
    mechanism = ad.SRR(3, epsilon=1.5)
    first = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    second = np.where(np.arange(n) < shared, first, rng.choice(3, size=n))
    answers = [np.asarray(mechanism.privatize(x, rng=rng)) for x in (first, second)]
    before, one = measured(answers[0], range(n), mechanism)
    after, two = measured(answers[1], [i if i < shared else n + i for i in range(n)], mechanism)
    found = change_between(before, after)
    assert found.people == shared
    np.testing.assert_allclose(found.change, two.mean(axis=0) - one.mean(axis=0))
    # Who answered both times has one error, the difference; the others have one in each survey.
    one, two = (each - each.mean(axis=0) for each in (one, two))
    both = slice(0, shared)
    errors = np.concatenate([two[both] - one[both], one[shared:], two[shared:]])
    variance = np.sum(errors**2, axis=0) / n**2 + (2 / n**2 if shared else 0)
    for end, sign in ((found.lower, -1), (found.upper, 1)):
        np.testing.assert_allclose(end, found.change + sign * 1.96 * np.sqrt(variance), atol=1e-9)


def test_each_end_of_a_change_rests_on_the_ends_that_lead_there():
    """Skewed intervals of different people: the lower end on the least share after and the largest before."""
    nobody = np.empty((0, 1))
    before, after = (
        Measured(*(np.array([value]) for value in values), nobody, []) for values in ((0.2, 0.1, 0.5), (0.6, 0.55, 0.9))
    )
    found = change_between(before, after)
    assert found.lower == pytest.approx(0.4 - np.hypot(0.05, 0.3))
    assert found.upper == pytest.approx(0.4 + np.hypot(0.3, 0.1))


def test_the_same_people_who_do_not_change_have_a_narrow_interval_that_is_not_empty():
    mechanism, n = ad.SRR(2, epsilon=20.0), 100
    answers = np.arange(n) % 2
    wave, _ = measured(answers, range(n), mechanism)
    found = change_between(wave, wave)
    # Nobody changed: three in n may, by the rule of three.
    assert found.change == pytest.approx(0)
    assert np.all((found.upper > 0.02) & (found.upper < 0.04))
    other = change_between(wave, wave._replace(people=range(n, 2 * n)))
    assert np.all(other.upper > 0.1)


def test_the_marginals_of_the_joint_likelihood_of_two_memoized_waves_are_those_of_each_wave():
    # P(y₁, y₂ | x₁, x₂) from the definition; with every kind of change allowed, the joint fit inverts it.
    mechanism, k = ad.Memoized.from_budgets(3, epsilon=2.0, wave_epsilon=1.0, n_waves=2), 3
    permanent, again = mechanism.permanent.transition_matrix(), mechanism.instantaneous.transition_matrix()
    alone = again @ permanent
    joint = np.empty((k, k, k, k))
    for one in range(k):
        for two in range(k):
            same = np.einsum("az,bz,z->ab", again, again, permanent[:, one])
            joint[:, :, one, two] = same if one == two else np.outer(alone[:, one], alone[:, two])
    seen = np.random.default_rng(3).dirichlet(np.full(k * k, 9.0)).reshape(k, k)
    shares = np.linalg.solve(joint.reshape(k * k, k * k), seen.ravel()).reshape(k, k)
    for axis in (0, 1):
        np.testing.assert_allclose(shares.sum(axis=1 - axis), np.linalg.solve(alone, seen.sum(axis=1 - axis)))


def test_few_people_are_counted_by_the_largest_weight():
    weights = np.array([1.0] * 20 + [5.0])
    assert heaviest_people(weights) == 5
    assert cautious_people(weights) == 5 < effective_people(weights)
    assert cautious_people(np.ones(7)) == 7
    many = np.array([1.0] * 200 + [5.0])
    assert cautious_people(many) == effective_people(many)


def test_a_few_heavy_weights_do_not_claim_to_vary_little():
    """Twelve people have most of the weight and the same answer: their variance is taken as that of few people."""
    mechanism, weights, near = ad.RRRR(3, 2.0, 0.8), np.repeat([6.0, 1.0], [12, 48]), np.array([0.5, 0.3, 0.2])
    answers = np.repeat([0, 1, 2], [30, 20, 10])
    responses = ad.Responses.from_arrays(mechanism, answers, [[True, False, False]], np.zeros(60, dtype=int))
    scores = efficient_scores(responses, near)
    found = weighted_estimate(scores, weights)
    equal = np.diag(found.inverse) * weights.sum() / cautious_people(weights)
    assert (found.variance < equal).all()
    direct = direct_of_group(scores, weights, None, mechanism)
    np.testing.assert_allclose(direct.sd(near) ** 2, equal, rtol=1e-9)


@pytest.mark.long
def test_intervals_of_small_groups_whose_weights_depend_on_the_answer_are_rarely_wrong():
    # Answers of a twentieth of the people, with eight times the weight of the commonest: often none of them is asked.
    rng, mechanism = np.random.default_rng(7), ad.SubsetSelection(4, epsilon=4.0)
    shares, weight = np.array([0.5, 0.3, 0.15, 0.05]), np.exp(0.7 * np.arange(4))
    truth = shares * weight / (shares * weight).sum()
    wrong, n = np.zeros(4), 400
    for seed in range(n):
        x = rng.choice(4, size=30, p=shares)
        responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
        found = ad.estimate(
            responses, groups=["a"] * 30, weights=weight[x] * rng.uniform(0.8, 1.25, size=30), random_seed=seed
        )
        lower, upper = (found[name].values[-1] for name in ("lower", "upper"))
        wrong += ~((lower <= truth) & (truth <= upper))
    # 5 % wrong in 400; a false alarm in fewer than one in 10,000 for each of four shares.
    assert wrong.max() <= 38, wrong / n
