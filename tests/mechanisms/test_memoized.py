"""Memoized answers against the definition: a permanent answer, and every wave drawn from it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import adobest_pp as ad
from adobest_pp.mechanisms import audit, guess_bound, registry
from adobest_pp.mechanisms.memoized import NO_ANSWER
from oracles.mechanisms import best_guess, srr_probability
from tests.mechanisms.harness import (
    check_collector,
    check_fit_counts,
    check_simulation,
    production_matrix,
)
from tests.refusals import refuses


def definition(first, again, k):
    """P(waves | x) by the steps of a device: z₀ by SRR(first), each wave of it by SRR(again)."""

    def probability(waves, x):
        members = range(k)
        return sum(
            srr_probability(z, x, members, first) * math.prod(srr_probability(y, z, members, again) for y in waves)
            for z in members
        )

    return probability


@pytest.mark.parametrize("n_waves", [1, 2, 3])
def test_it_is_what_a_device_does(n_waves):
    mechanism = ad.Memoized(ad.SRR(3, 1.7), ad.SRR(3, 0.9), n_waves)
    answers, matrix = production_matrix(mechanism)
    expected = [[definition(1.7, 0.9, 3)(waves, x) for x in range(3)] for waves in answers]
    np.testing.assert_allclose(matrix.astype(float), expected, rtol=1e-12)
    assert all(sum(matrix[:, x]) == 1 for x in range(3))
    np.testing.assert_allclose(mechanism.transition_matrix(), expected, rtol=1e-12)
    check_collector(mechanism, answers, matrix)
    check_fit_counts(mechanism, answers, matrix)
    check_simulation(mechanism, answers, matrix)
    worst = max(Fraction(max(row)) / Fraction(min(row)) for row in matrix)
    result = audit(mechanism)
    assert result.holds
    assert result.loss == pytest.approx(math.log(worst), rel=1e-12)
    assert registry.mechanism_from_settings(mechanism.settings()) == mechanism


def test_of_other_mechanisms():
    """A classical design of yes and no, whose columns have different sums, again by a matrix."""
    mechanism = ad.Memoized(ad.UnrelatedQuestion("1/2", "1/4"), ad.Channel([[0.7, 0.2], [0.2, 0.2], [0.1, 0.6]]), 2)
    first, again = mechanism.permanent.transition_matrix(), mechanism.instantaneous.transition_matrix()
    expected = [
        [sum(first[z, x] * again[a, z] * again[b, z] for z in range(2)) for x in range(2)]
        for a, b in itertools.product(range(3), repeat=2)
    ]
    np.testing.assert_allclose(mechanism.transition_matrix(), expected, rtol=1e-12)
    assert audit(mechanism).holds
    assert audit(mechanism).loss == pytest.approx(ad.privacy_loss(np.array(expected)), rel=1e-12)
    assert mechanism.wave_epsilon == pytest.approx(ad.privacy_loss(again @ first), rel=1e-12)


@pytest.mark.parametrize(
    ("k", "epsilon", "wave"),
    [
        (2, 1.0, 0.4),
        (6, 2.0, 1.0),
        (20, 5.0, 4.9),
        (3, 0.1, 0.05),
        (6, 2.0, 2 - 1e-9),
        (3, 25.0, 24.0),
        (2, 30.0, 29.0),
    ],
)
def test_both_budgets_are_kept_exactly(k, epsilon, wave):
    mechanism = ad.Memoized.from_budgets(k, epsilon, wave, n_waves=3)
    assert mechanism.epsilon == epsilon
    assert wave * (1 - 1e-9) <= mechanism.wave_epsilon <= wave
    one = ad.Memoized(mechanism.permanent, mechanism.instantaneous, 1)
    assert audit(one, wave).holds
    assert audit(one).loss == pytest.approx(wave, rel=1e-9)
    assert audit(mechanism).holds
    assert audit(mechanism.permanent).holds


def test_more_waves_tell_more_but_never_more_than_the_permanent_answer():
    mechanism = ad.Memoized.from_budgets(3, 2.0, 1.0, 1)
    losses = [
        audit(ad.Memoized(mechanism.permanent, mechanism.instantaneous, waves)).loss for waves in (1, 2, 4, 8, 16, 32)
    ]
    assert all(before < after for before, after in itertools.pairwise(losses))
    assert losses[0] == pytest.approx(1.0)
    assert losses[-1] <= audit(mechanism.permanent).loss
    assert losses[-1] > 2.0 - 1e-6
    many = ad.Memoized.from_budgets(40, 2.0, 1.0, 30)  # too many bags to list: the bound is audited
    assert audit(many).loss == audit(many.permanent).loss


@pytest.mark.parametrize("n_waves", [1, 2, 3])
def test_the_best_guess_sums_over_all_waves(n_waves):
    theta, mechanism = [0.5, 0.3, 0.2], ad.Memoized.from_budgets(3, 2.0, 1.0, n_waves)
    expected = best_guess(mechanism.transition_matrix().tolist(), theta)
    assert mechanism.best_guess(theta) == pytest.approx(expected, rel=1e-12)
    assert mechanism.best_guess(theta) <= mechanism.permanent.best_guess(theta) <= guess_bound(2.0, theta) * (1 + 1e-12)


def history_matrix(mechanism):
    """P(waves | history of x) of a device that draws a permanent answer for every category at the start."""
    k, waves = mechanism.n_categories, mechanism.n_waves
    first, again = (
        [[Fraction(int(w), int(sum(column))) for w in column] for column in np.array(part.exact_weights()).T]
        for part in (mechanism.permanent, mechanism.instantaneous)
    )
    table = {}
    for history in itertools.product(range(k), repeat=waves):
        table[history] = [
            sum(
                math.prod(first[x][kept[x]] for x in range(k))
                * math.prod(again[kept[x]][y] for x, y in zip(history, answers, strict=True))
                for kept in itertools.product(range(mechanism.permanent.n_outputs), repeat=k)
            )
            for answers in itertools.product(range(mechanism.instantaneous.n_outputs), repeat=waves)
        ]
    return table


@pytest.mark.parametrize(("first", "again"), [(1.0, 0.5), (0.3, 2.0)])
def test_the_bound_for_people_who_change_holds_for_every_history(first, again):
    """And ε of people who stay the same does not hold for them: that somebody changed can be noticed."""
    mechanism = ad.Memoized(ad.SRR(2, first), ad.SRR(2, again), 4)
    table = history_matrix(mechanism)
    changes = {history: min(sum(x != stay for x in history) for stay in range(2)) for history in table}
    for most in range(3):
        allowed = [history for history in table if changes[history] <= most]
        worst = max(
            math.log(max(a / b for a, b in zip(table[one], table[two], strict=True)))
            for one, two in itertools.permutations(allowed, 2)
        )
        assert worst <= mechanism.epsilon_of_changes(most) * (1 + 1e-12)
        if most and first < again:
            assert worst > mechanism.epsilon
    assert mechanism.epsilon_of_changes(0) == first
    # Two histories that each differ from a constant one in a wave may differ in two.
    assert mechanism.epsilon_of_changes(1) == pytest.approx(min(first + 2 * again, 4 * again))


def test_what_a_device_remembers_does_not_depend_on_x():
    """One permanent answer for every category, with the probabilities of the definition; false alarm 6e-5 in each."""
    mechanism = ad.Memoized.from_budgets(3, 2.0, 1.0, 2)
    kept = np.array([mechanism.permanent_answers(np.random.default_rng(seed)) for seed in range(4000)])
    own = math.e**2 / (math.e**2 + 2)
    error = math.sqrt(own * (1 - own) / 4000)
    assert np.abs((kept == np.arange(3)).mean(axis=0) - own).max() < 4 * error


def test_a_wave_without_an_answer_says_nothing():
    mechanism = ad.Memoized.from_budgets(3, 2.0, 1.0, 3)
    two = ad.Memoized(mechanism.permanent, mechanism.instantaneous, 2)
    some = ad.Responses.from_arrays(mechanism, [[0, NO_ANSWER, 1], [2, 2, NO_ANSWER]])
    all_ = ad.Responses.from_arrays(two, [[0, 1], [2, 2]])
    theta = [0.5, 0.3, 0.2]
    value = ad.likelihood.log_likelihood(theta, some.evidence())
    assert value == pytest.approx(ad.likelihood.log_likelihood(theta, all_.evidence()))


def test_waves_of_a_panel_are_estimated_together(tmp_path):
    """Three waves narrow the interval, though never as far as three times as many people would."""
    rng = np.random.default_rng(3)
    truth = np.array([0.6, 0.3, 0.1])
    mechanism = ad.Memoized.from_budgets(3, 2.0, 1.0, 3)
    answers = mechanism.privatize(rng.choice(3, size=3000, p=truth), rng=rng)
    widths = []
    for n_waves in (1, 3):
        part = ad.Memoized(mechanism.permanent, mechanism.instantaneous, n_waves)
        responses = ad.Responses.from_arrays(part, answers[:, :n_waves], categories=["a", "b", "c"])
        responses.to_netcdf(tmp_path / f"{n_waves}.nc")
        again = ad.Responses.from_netcdf(tmp_path / f"{n_waves}.nc")
        assert again.mechanism == part
        table = ad.intervals.summary(ad.sample(again, draws=500, random_seed=1, progressbar=False))
        assert ((table["lower"] < truth) & (truth < table["upper"])).all()
        widths.append(float((table["upper"] - table["lower"]).mean()))
    assert 1 / math.sqrt(3) < widths[1] / widths[0] < 0.85


def panel(mechanism, before, after, rng):
    """Simulate devices: a permanent answer for each category, and a wave before and after the change of x."""
    n, k = before.size, mechanism.n_categories
    kept = np.asarray(mechanism.permanent.privatize(np.tile(np.arange(k), (n, 1)), rng=rng))
    waves = [np.asarray(mechanism.instantaneous.privatize(kept[np.arange(n), x], rng=rng)) for x in (before, after)]
    return ad.Responses.from_arrays(mechanism, np.column_stack(waves))


def test_intervals_of_a_change_cover_it():
    """The change of one share in 400 panels; a false alarm in one of 1,000."""
    rng = np.random.default_rng(8)
    mechanism = ad.Memoized.from_budgets(3, 3.0, 1.5, 2)
    covered = 0
    for _ in range(400):
        before = rng.choice(3, size=400, p=[0.5, 0.3, 0.2])
        after = np.where(rng.random(400) < 0.25, 2, before)
        found = ad.intervals.change(panel(mechanism, before, after, rng)).sel(category="2")
        covered += bool(found["lower"] <= 0.25 * 0.8 <= found["upper"])
    assert binom.ppf(0.0005, 400, 0.95) <= covered <= binom.ppf(0.9995, 400, 0.95)


def test_answers_that_share_a_permanent_answer_tell_a_change_better():
    rng = np.random.default_rng(9)
    mechanism = ad.Memoized.from_budgets(3, 3.0, 2.0, 2)
    before = rng.integers(3, size=5000)
    shared = ad.intervals.change(panel(mechanism, before, before, rng))
    matrix = mechanism.wave_matrix()
    fresh = ad.Channel(matrix)
    answers = np.column_stack([fresh.privatize(before, rng=rng), fresh.privatize(before, rng=rng)])
    apart = ad.intervals.change(ad.Responses.from_arrays(mechanism, answers))
    assert float((shared["standard_error"] / apart["standard_error"]).max()) < 0.9
    missing = np.array([[0, 1], [1, NO_ANSWER], [2, 2], [NO_ANSWER, 0]])
    assert ad.intervals.change(ad.Responses.from_arrays(mechanism, missing)).attrs["people"] == 2


def test_what_cannot_be_is_refused():
    srr = ad.SRR(3, 1.0)
    for make, name in (
        (lambda: ad.Memoized(srr, ad.SRR(4, 1.0), 2), "instantaneous"),
        (lambda: ad.Memoized(ad.SubsetSelection(3, 1.0), srr, 2), "permanent"),
        (lambda: ad.Memoized(ad.RRRR(3, 1.0), srr, 2), "permanent"),
        (lambda: ad.Memoized("srr", srr, 2), "permanent"),
        (lambda: ad.Memoized(ad.SRR(1000, 1.0), ad.SRR(1000, 1.0), 2), "permanent"),
        (lambda: ad.Memoized(srr, srr, 0), "n_waves"),
        (lambda: ad.Memoized(srr, srr, 61), "n_waves"),
        *((lambda x=x: ad.Memoized.from_budgets(3, x, np.nextafter(x, 0.0), 2), "wave_epsilon") for x in (1.0, 30.0)),
        (lambda: ad.Memoized.from_budgets(3, 1.0, 1.0, 2), "wave_epsilon"),
        (lambda: ad.Memoized(srr, srr, 2).epsilon_of_changes(3), "changes"),
        (lambda: ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0, 3]]), "answers"),
        (lambda: ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0, -2]]), "answers"),
        (lambda: ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0]]), "answers"),
        (lambda: ad.intervals.change(ad.Responses.from_arrays(srr, [0, 1])), "responses"),
        (lambda: ad.intervals.change(ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0, -1]])), "responses"),
        (lambda: ad.intervals.change(ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0, 1]] * 3), 1, 1), "after"),
        (lambda: ad.intervals.change(ad.Responses.from_arrays(ad.Memoized(srr, srr, 2), [[0, 1]] * 3), 2), "before"),
    ):
        with refuses(name):
            make()


def test_the_information_of_missing_waves_is_the_observed_one():
    mechanism, theta = ad.Memoized(ad.SRR(3, 1.7), ad.SRR(3, 0.9), 2), np.array([0.5, 0.3, 0.2])
    whole = ad.Responses.from_arrays(mechanism, [[0, 0], [2, 1]])
    found = mechanism.total_information(whole.answers, whole.published(), theta)
    np.testing.assert_allclose(found, 2 * mechanism.information(theta), rtol=1e-12)
    some = ad.Responses.from_arrays(mechanism, [[0, NO_ANSWER], [2, 1]])
    rows = mechanism.chances(some.answers)
    rows = rows / (rows @ theta)[:, None]
    found = mechanism.total_information(some.answers, some.published(), theta)
    np.testing.assert_allclose(found, rows.T @ rows, rtol=1e-12)
