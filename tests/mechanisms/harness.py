"""What every mechanism must pass, given its definition: a new mechanism's test is a few lines.

The definition is a matrix of exact fractions, P(answer | x) for every possible answer; it comes from the test, not from
the mechanism.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from adobest_pp import Responses, audit, likelihood
from adobest_pp.mechanisms import base, mechanism_from_settings, registry
from tests.refusals import refuses

# Chance of a false alarm of one statistical check; the seeds are fixed.
FALSE_ALARM = 1e-4


class EveryBranch:
    """A source of randomness that runs through all outcomes, one after the other, and keeps their probabilities."""

    on_device = True

    def __init__(self):
        self.path, self.depth, self.probability = [], 0, Fraction(1)

    def pick(self, probabilities):
        if self.depth == len(self.path):
            self.path.append([0, len(probabilities)])
        chosen = self.path[self.depth][0]
        self.depth += 1
        self.probability *= probabilities[chosen]
        return chosen

    def bernoulli(self, weight, total, n):
        return np.array([self.pick([Fraction(weight, total), 1 - Fraction(weight, total)]) == 0 for _ in range(n)])

    def below(self, bound, n):
        return np.array([self.pick([Fraction(1, bound)] * bound) for _ in range(n)], dtype=np.int64)

    def choose(self, columns, x):
        parts = [np.diff([0, *columns.ends[truth]]) for truth in x]
        return np.array([self.pick([Fraction(int(part), int(sum(each))) for part in each]) for each in parts])

    def distribution(self, answer):
        probabilities = {}
        while True:
            self.depth, self.probability = 0, Fraction(1)
            outcome = tuple(np.ravel(answer()).tolist())
            probabilities[outcome] = probabilities.get(outcome, 0) + self.probability
            while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
                self.path.pop()
            if not self.path:
                return probabilities
            self.path[-1][0] += 1


def production_column(mechanism, x, subset=()):
    """Return P(answer | x) by running through every branch of `randomize`, which `privatize` calls."""
    assert type(mechanism).privatize is base.Mechanism.privatize
    source = EveryBranch()
    mask = np.isin(np.arange(mechanism.n_categories if mechanism.publishes_subset else 0), subset)
    return source.distribution(lambda: mechanism.randomize(np.array([x]), source, mask))


def production_matrix(mechanism):
    """Return the answers and P(answer | x), both by running through every branch of the production path."""
    columns = [production_column(mechanism, x) for x in range(mechanism.n_categories)]
    answers = sorted({answer for column in columns for answer in column})
    return answers, np.array([[column.get(answer, 0) for column in columns] for answer in answers], dtype=object)


def check_privacy(mechanism, matrix, smallest=1e-12):
    """The production path is ε-LDP in exact arithmetic, uses nearly all of ε, and the audit finds just that."""
    worst = max(Fraction(max(row)) / Fraction(min(row)) for row in matrix)
    result = audit(mechanism)
    assert result.holds
    assert result.loss == pytest.approx(math.log(worst), rel=1e-12)
    assert 0 <= result.slack <= smallest
    assert worst <= Fraction(math.exp(mechanism.epsilon)) * (1 + Fraction(1, 10**12))


def check_collector(mechanism, answers, matrix):
    """The collector's side: evidence, likelihood, files and settings agree with the definition."""
    given = np.array(answers).reshape(len(answers), *mechanism.answer_dims.values())
    responses = Responses.from_arrays(mechanism, np.repeat(given, 2, axis=0))
    evidence, row_of = responses.evidence_and_index()
    rows = (evidence.matrix() * np.exp(evidence.log_scale)[:, None])[row_of]
    np.testing.assert_allclose(rows, np.repeat(matrix.astype(float), 2, axis=0), rtol=1e-9)
    theta = np.random.default_rng(1).dirichlet(np.ones(mechanism.n_categories))
    expected = 2 * np.log(matrix.astype(float) @ theta).sum()
    assert likelihood.log_likelihood(theta, evidence) == pytest.approx(expected, rel=1e-9)
    again = Responses.from_xarray(responses.to_xarray())
    assert again.mechanism == mechanism
    np.testing.assert_array_equal(again.answers, responses.answers)
    built = mechanism_from_settings(mechanism.settings())
    assert built == mechanism
    assert hash(built) == hash(mechanism)
    assert Responses(mechanism).evidence().n_rows == 0


def check_fit_counts(mechanism, answers, matrix):
    """The counts that the check of fit rests on have the mean and the covariance of the definition, for one answer."""
    theta = np.random.default_rng(3).dirichlet(np.ones(mechanism.n_categories))
    listed = np.arange(mechanism.n_categories)
    given = np.array(answers).reshape(len(answers), *mechanism.answer_dims.values())
    each = [Responses.from_arrays(mechanism, given[i : i + 1]).answer_counts(theta, listed) for i in range(len(given))]
    observed, chance = np.array([one.observed for one in each]), matrix.astype(float) @ theta
    mean = chance @ observed
    np.testing.assert_allclose(each[0].constant + each[0].slope @ theta, mean, rtol=1e-9, atol=1e-12)
    covariance = (observed * chance[:, None]).T @ observed - np.outer(mean, mean)
    np.testing.assert_allclose(each[0].covariance, covariance, rtol=1e-9, atol=1e-12)


def check_simulation(mechanism, answers, matrix, draws=20_000):
    """The simulation path and the compiled predictive draws have the probabilities of the definition."""
    place = {answer: i for i, answer in enumerate(answers)}
    rng = np.random.default_rng(2)
    theta = rng.dirichlet(np.ones(mechanism.n_categories))
    for x in range(mechanism.n_categories):
        drawn = np.asarray(mechanism.privatize(np.full(draws, x), rng=rng)).reshape(draws, -1)
        check_counts(drawn, place, matrix[:, x].astype(float))
    kernel, table = mechanism.drawing()
    nothing = np.zeros((1, mechanism.n_categories), dtype=bool)
    drawn = [kernel(rng, theta, 0, nothing, table) for _ in range(draws)]
    check_counts(np.reshape(drawn, (draws, -1)), place, matrix.astype(float) @ theta)


def check_counts(drawn, place, probabilities):
    counts = np.bincount([place[tuple(answer)] for answer in drawn.tolist()], minlength=len(place))
    assert stats.chisquare(counts, len(drawn) * probabilities / probabilities.sum()).pvalue > FALSE_ALARM


def check_mechanism(mechanism, definition):
    """Run all of them, for a definition that is a function of (answer, x)."""
    answers, matrix = production_matrix(mechanism)
    expected = [[definition(answer, x) for x in range(mechanism.n_categories)] for answer in answers]
    np.testing.assert_allclose(matrix.astype(float), np.array(expected, dtype=float), rtol=1e-12)
    assert all(sum(matrix[:, x]) == 1 for x in range(mechanism.n_categories))
    check_privacy(mechanism, matrix)
    check_collector(mechanism, answers, matrix)
    check_fit_counts(mechanism, answers, matrix)
    check_simulation(mechanism, answers, matrix)
    assert registry.find_mechanism(type(mechanism).__name__) is type(mechanism)
    with refuses("subset"):
        mechanism.privatize(0, subset=[0])
    assert isinstance(mechanism, base.Mechanism)
