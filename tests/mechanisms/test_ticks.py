"""Several ticks: exact privacy over all pairs of sets, and shares of the options."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import adobest_pp as ad
from adobest_pp.likelihood.without_prior import direct_estimate
from adobest_pp.mechanisms import ticks as module
from tests.mechanisms.harness import EveryBranch
from tests.refusals import refuses


def production(ticks, monkeypatch):
    """P(answer | set) of every set, by running through every branch of the production path."""
    source = EveryBranch()
    monkeypatch.setattr(module, "source_of", lambda rng: source)
    sets = list(itertools.product((0, 1), repeat=ticks.n_options))
    found = {each: source.distribution(lambda each=each: ticks.privatize(each)) for each in sets}
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("n_asked", [1, 2, 3])
def test_all_pairs_of_sets_keep_the_budget_exactly(n_asked, monkeypatch):
    ticks = ad.Ticks(3, 1.3, n_asked)
    found = production(ticks, monkeypatch)
    answers = {answer for each in found.values() for answer in each}
    assert len(answers) == math.comb(3, n_asked) * 2**n_asked
    worst = max(found[a][y] / found[b][y] for a, b in itertools.permutations(found, 2) for y in answers)
    result = ticks.audit()
    assert result.holds
    assert math.log(worst) == pytest.approx(result.loss, rel=1e-14)
    assert 0 <= result.slack < 1e-12
    # The definition: options drawn at random, each of them by randomized response with a share of ε.
    keep = math.exp(1.3 / n_asked) / (math.exp(1.3 / n_asked) + 1)
    for ticked, column in found.items():
        assert sum(column.values()) == 1
        for answer, chance in column.items():
            right = [given == true for given, true in zip(answer, ticked, strict=True) if given >= 0]
            expected = math.prod(keep if each else 1 - keep for each in right) / math.comb(3, n_asked)
            assert float(chance) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 4.0, 30.0])
def test_shares_of_the_budget_are_rounded_to_the_safe_side(epsilon):
    for n_asked in (1, 3, 7, 10):
        result = ad.Ticks(10, epsilon, n_asked).audit()
        assert result.holds
        assert result.slack < 1e-9 * epsilon


@pytest.mark.parametrize(("k", "epsilon"), [(5, 0.2), (5, 2.0), (5, 4.0), (5, 9.0), (8, 20.0)])
def test_the_number_of_options_to_ask_has_the_least_variance(k, epsilon):
    """Simulated in closed form: the variance of a share of one half from n people is K/a·λ(1−λ)/(2p−1)²/n."""

    def variance(asked):
        p = math.exp(epsilon / asked) / (math.exp(epsilon / asked) + 1)
        return k / asked * 0.25 / (2 * p - 1) ** 2

    assert ad.Ticks(k, epsilon).n_asked == min(range(1, k + 1), key=variance)
    assert ad.Ticks(k, 0.01).n_asked == ad.Ticks(k, 1e-300).n_asked == 1
    assert ad.Ticks(k, 30.0).n_asked == k


@pytest.mark.long
def test_shares_of_options_are_estimated_with_intervals_that_cover():
    """400 surveys of 600 people, one option each; a false alarm in one of 1,000."""
    ticks, truth = ad.Ticks(4, 2.0), np.array([0.7, 0.4, 0.2, 0.05])
    rng = np.random.default_rng(4)
    covered = 0
    for i in range(400):
        share = truth[i % 4]
        column = ticks.by_option(ticks.privatize(rng.random((600, 4)) < truth, rng=rng))[i % 4]
        responses = ad.Responses.from_arrays(ticks.tick, column, categories=["no", "yes"])
        lower, upper = ad.intervals.covering_intervals(direct_estimate(responses, np.array([1 - share, share])))
        covered += bool(lower[1] <= share <= upper[1])
    assert stats.binom.ppf(0.001, 400, 0.95) <= covered


def test_options_are_asked_equally_often_and_whatever_is_ticked():
    ticks, rng = ad.Ticks(5, 1.0, 2), np.random.default_rng(2)
    for x in (np.zeros((4000, 5)), np.ones((4000, 5))):
        asked = (ticks.privatize(x.astype(int), rng=rng) >= 0).sum(axis=0)
        assert stats.chisquare(asked).pvalue > 1e-4
    assert Fraction(ticks.n_asked, ticks.n_options) == Fraction(2, 5)


def test_settings_and_equality():
    ticks = ad.Ticks(6, 1.0)
    assert ad.Ticks(**ticks.settings()) == ticks
    assert hash(ad.Ticks(**ticks.settings())) == hash(ticks)
    assert ad.Ticks(6, 1.0, 2) != ticks


@pytest.mark.parametrize("x", [[1, 0], [[1, 0]], [1, 0, 2], [1, 0, -1], [1.0, 0.0, 1.0], "101", None, [[[1, 0, 1]]]])
def test_other_ticks_are_refused_and_not_shown(x):
    with refuses("x"):
        ad.Ticks(3, 1.0).privatize(x)


def test_bad_arguments():
    for make, name in (
        (lambda: ad.Ticks(0, 1.0), "n_options"),
        (lambda: ad.Ticks(3, 0.0), "epsilon"),
        (lambda: ad.Ticks(3, 1.0, 4), "n_asked"),
        (lambda: ad.Ticks(3, 1.0, 0), "n_asked"),
        (lambda: ad.Ticks(3, 1.0, 1).check_answers([[0, 1, -1]]), "answers"),
        (lambda: ad.Ticks(3, 1.0, 1).by_option([[2, -1, -1]]), "answers"),
        (lambda: ad.Ticks(3, 1.0, 1).by_option([[0, -1]]), "answers"),
    ):
        with refuses(name):
            make()
