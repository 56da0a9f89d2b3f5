"""Privacy loss and audit, and the slips in print that they catch."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from adobest_pp import RRRR, SRR, Responses, SubsetSelection, audit, privacy_loss
from adobest_pp.mechanisms import privacy
from adobest_pp.mechanisms.base import AuditCase, FiniteMechanism
from adobest_pp.mechanisms.exact import exp_bounds
from adobest_pp.mechanisms.privacy import _bounds, worst_ratio
from tests.refusals import refuses
from tests.strategies import epsilons, kappas


@given(st.integers(2, 6), epsilons, kappas)
@settings(max_examples=20)
def test_audit_holds_for_every_subset(k, epsilon, kappa):
    result = audit(RRRR(k, epsilon, kappa))
    assert result.holds
    assert [row.checked for row in result.rows] == [math.comb(k, size) for size in range(k)]
    assert 0 <= result.slack < 1e-15
    for row in result.rows:
        matrix = RRRR(k, epsilon, kappa).transition_matrix(range(row.size))
        assert row.loss == pytest.approx(privacy_loss(matrix), abs=1e-12)


@given(st.integers(11, 200), epsilons, kappas)
@settings(max_examples=10)
def test_beyond_ten_categories_one_subset_of_each_size_is_audited(k, epsilon, kappa):
    result = audit(RRRR(k, epsilon, kappa))
    assert result.holds
    assert [row.checked for row in result.rows] == [1] * k


def test_the_representatives_find_the_same_loss_as_every_subset():
    for mechanism in (RRRR(6, 1.0, 0.8), RRRR(5, 3.0, 0.2), RRRR.from_budgets(6, 0.7, 1.4)):
        every = {}
        for case in mechanism.audit_cases():
            every[case.size] = max(every.get(case.size, 0), max(max(row) / min(row) for row in case.weights))
        for case in mechanism._size_cases():
            assert max(max(row) / min(row) for row in case.weights) == pytest.approx(every[case.size], rel=1e-15)


@given(st.integers(2, 8), st.floats(0, 5), st.data())
@settings(max_examples=30)
def test_the_loss_of_two_budgets_is_that_of_all_tables(k, first, data):
    second = data.draw(st.lists(st.floats(0, 5), min_size=k, max_size=k))
    mechanism = RRRR.from_budgets(k, first, second)
    expected = max(Fraction(max(row), min(row)) for case in mechanism._size_cases() for row in case.weights.tolist())
    assert mechanism._worst_ratio() == expected


@pytest.mark.parametrize(
    "mechanism", [SRR(2, 0.7), SRR(5, 0.7), SubsetSelection(5, 1.0, 2), SubsetSelection(3, 1.0, 2)]
)
def test_what_is_audited_is_part_of_the_weights_that_are_drawn_against(mechanism):
    weights = mechanism.exact_weights()
    places = mechanism.outputs().tolist()
    (case,) = mechanism.audit_cases()
    rows = [places.index(list(output) if isinstance(output, tuple) else output) for output in case.outputs]
    assert np.array_equal(case.weights, weights[np.ix_(rows, case.inputs)])
    worst = audit(mechanism).worst
    assert math.log(max(map(max, weights)) / min(map(min, weights))) == pytest.approx(worst.loss, rel=1e-12)
    assert worst.size == getattr(mechanism, "size", 0)


def test_the_worst_pair_has_the_loss_that_is_reported():
    mechanism = RRRR.from_budgets(8, 0.9, 1.0)
    for row in audit(mechanism).rows:
        matrix = mechanism.transition_matrix(range(row.size))
        for subset in combinations(range(8), row.size):
            matrix = mechanism.transition_matrix(subset)
            if math.isclose(math.log(matrix[row.y, row.x] / matrix[row.y, row.x_prime]), row.loss, rel_tol=1e-12):
                break
        else:
            pytest.fail(f"no subset of size {row.size} shows the reported loss")


def test_a_broken_promise_is_found():
    result = audit(RRRR.from_budgets(10, 0.4, 0.5), epsilon=0.5)
    assert not result.holds
    assert result.loss == pytest.approx(0.8304, abs=1e-4)
    assert result.slack == pytest.approx(0.5 - result.loss)
    assert audit(SubsetSelection(12, 1.0)).holds
    assert not audit(SRR(4, 1.0), epsilon=np.nextafter(1.0, 0)).holds


def test_a_matrix_is_audited_up_to_its_own_rounding():
    for subset in ([], [0], [0, 3, 4]):
        assert audit(RRRR(7, 1.3, 0.9).transition_matrix(subset), epsilon=1.3).holds
    assert not audit(SRR(4, 1.0).transition_matrix(), epsilon=1 - 1e-9).holds
    impossible = audit(np.array([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]]), epsilon=1.0)
    assert not impossible.holds
    assert impossible.loss == math.inf
    assert (impossible.worst.x, impossible.worst.x_prime, impossible.worst.y) == (1, 0, 1)


@pytest.mark.parametrize(
    "matrix",
    [
        [0.5, 0.5],
        [[0.5], [0.5]],
        [[0.5, 0.6], [0.5, 0.5]],
        [[1.5, 0.5], [-0.5, 0.5]],
        [["a", "b"]],
        [[np.nan, 1]],
        [["0.5", "0.5"]] * 2,
        [[0.5 + 1j, 0.5]] * 2,
        [[True, True]],
    ],
)
def test_what_is_not_a_matrix_of_probabilities_is_refused(matrix):
    with refuses("matrix"):
        privacy_loss(matrix)
    with refuses("matrix"):
        audit(matrix, epsilon=1.0)


def test_a_matrix_needs_a_promise():
    with refuses("epsilon"):
        audit(np.eye(2))


def test_one_output_that_rules_a_category_out_loses_everything():
    assert privacy_loss([[0.5, 0.4, 0.5], [0.5, 0.6, 0.0], [0.0, 0.0, 0.5]]) == math.inf
    assert privacy_loss([[1.0, 0.5], [0.0, 0.5]]) == math.inf


def test_an_output_that_never_occurs_loses_nothing():
    assert privacy_loss([[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]) == 0
    result = audit([[0.0, 0.0], [0.5, 0.5], [0.5, 0.5]], epsilon=1.0)
    assert (result.loss, result.slack, result.worst.y) == (0, 1, 1)


# ---------------------------------------------------------------- slips in the paper and in its program
@pytest.mark.parametrize("k", [10, 20])
@pytest.mark.parametrize(
    ("epsilon", "low", "high", "digits"), [(0.5, 0.83, 0.92, 2), (1.0, 1.6, 1.8, 1), (5.0, 6.1, 7.3, 1)]
)
@pytest.mark.parametrize("kappa", [0.8, 0.9])
def test_slip_epsilon2_without_a_logarithm_and_by_the_wrong_size_breaks_the_promise(
    k, epsilon, low, high, digits, kappa
):
    epsilon2 = [oracles.program_epsilon2(size, epsilon, kappa) for size in range(k)]
    mechanism = RRRR.from_budgets(k, kappa * epsilon, epsilon2)
    losses = [privacy_loss(mechanism.transition_matrix(range(size))) for size in range(1, k)]
    assert max(losses) > epsilon + 0.3
    assert low <= round(max(losses), digits) <= high
    assert mechanism.epsilon == pytest.approx(max(losses), abs=1e-9)
    assert not audit(mechanism, epsilon=epsilon).holds


def test_slip_candidate_k_equal_to_all_categories_is_refused():
    for subset in (range(5), np.ones(5, dtype=bool)):
        with pytest.raises(ValueError, match="leave at least one"):
            RRRR(5, 1.0).transition_matrix(subset)


@pytest.mark.parametrize(("k", "epsilon"), [(10, 0.5), (10, 5.0), (20, 1.0)])
def test_kappa_of_one_is_the_semi_adaptive_mechanism_of_the_authors_program(k, epsilon):
    """The program has ε₁ = ε and ε₂ = 0 (AdOBEst_LDP.m, lines 32 to 34); a subset of all K is SRR, as is one of K−1."""
    mechanism = RRRR(k, epsilon, kappa=1.0)
    for size in range(1, k):
        matrix = mechanism.transition_matrix(range(size))
        np.testing.assert_allclose(matrix, oracles.rrrr_matrix(k, range(size), epsilon, 0.0), rtol=1e-12)
        assert privacy_loss(matrix) == pytest.approx(epsilon, rel=1e-12)
    np.testing.assert_allclose(matrix, SRR(k, epsilon).transition_matrix(), rtol=1e-12)
    found = audit(mechanism)
    assert found.holds
    assert found.loss == pytest.approx(epsilon, rel=1e-12)


def test_epsilon2_of_zero_teaches_nothing_outside_the_subset():
    matrix = RRRR.from_budgets(5, 1.0, 0.0).transition_matrix([0, 1])
    assert np.ptp(matrix[2:, 2:]) == 0
    assert np.linalg.matrix_rank(matrix) < 5


def test_slip_an_answer_with_the_truth_first_loses_everything():
    """Subset selection that lists the true category first, as a matrix over ordered answers."""
    k, d, epsilon = 4, 2, 1.0
    sets = SubsetSelection(k, epsilon, d)
    outputs = list(permutations(range(k), d))
    place = {tuple(z): i for i, z in enumerate(sets.outputs())}
    by_set = sets.transition_matrix()
    leaky, sorted_answers = np.zeros((len(outputs), k)), np.zeros((len(outputs), k))
    for i, z in enumerate(outputs):
        for x in range(k):
            probability = by_set[place[tuple(sorted(z))], x]
            truth_first = (z[0] == x) if x in z else 0.5
            leaky[i, x] = probability * truth_first
            sorted_answers[i, x] = probability * (list(z) == sorted(z))
    assert privacy_loss(leaky) == math.inf
    assert privacy_loss(sorted_answers) == pytest.approx(epsilon)


def test_slip_an_answer_with_the_truth_first_is_caught_on_its_way_in():
    responses = Responses(SubsetSelection(5, 1.0, 3))
    with pytest.raises(ValueError, match="increasing order"):
        responses.append([4, 0, 2])
    assert len(responses) == 0


def test_the_order_of_an_answer_is_always_increasing():
    for rng in (None, np.random.default_rng(0)):
        answers = SubsetSelection(9, 1.0, 4).privatize(np.arange(9).repeat(300), rng=rng)
        assert np.all(np.diff(answers, axis=1) > 0)


@pytest.mark.parametrize(("excess", "holds"), [(0.9 * 2.0**-40, True), (1.1 * 2.0**-40, False)])
def test_the_rounding_granted_to_matrices_is_two_to_the_minus_forty(excess, holds):
    first = np.array([0.2 * (1 + excess), 0.1])
    result = audit([first, 1 - first], epsilon=math.log(2.0))
    assert result.rounded
    assert result.holds == holds


def test_columns_must_sum_to_one_closely():
    with pytest.raises(ValueError, match="columns that sum to one"):
        privacy_loss(np.array([[0.5, 0.5], [0.5, 0.5 + 1e-6]]))


# ---------------------------------------------------------------- the bound itself
def test_a_ratio_between_the_bounds_of_e_to_the_epsilon_does_not_hold():
    """What is not known to be at most e^ε is not said to be: the lower bound decides, and only just."""
    lower, upper = exp_bounds(1.0)
    assert lower < upper

    class Planted(SRR):
        ratio = lower

        def audit_cases(self):
            weights = np.array([[self.ratio.numerator, self.ratio.denominator]], dtype=object)
            yield AuditCase(0, [0], [0, 1], weights)

    assert audit(Planted(2, 1.0)).holds
    for ratio in ((lower + upper) / 2, upper):
        Planted.ratio = ratio
        assert not audit(Planted(2, 1.0)).holds


# ---------------------------------------------------------------- stated rounding
def channels_within(matrix, rounding, rng, n):
    """Random channels within the rounding of a matrix, many of them at the corners, by rejection."""
    found = []
    while len(found) < n:
        moved = matrix + rounding * rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)], size=matrix.shape)
        free = rng.integers(len(matrix), size=matrix.shape[1])
        columns = np.arange(matrix.shape[1])
        moved[free, columns] += 1 - moved.sum(axis=0)
        if np.abs(moved - matrix).max() <= rounding + 1e-12 and moved.min() >= 0:
            found.append(moved)
    return found


@given(st.integers(2, 4), st.floats(0.1, 3), st.sampled_from([1e-6, 1e-3, 0.02]), st.integers(0, 2**32))
@settings(max_examples=20)
def test_every_channel_within_the_rounding_has_a_loss_between_the_bounds(k, epsilon, rounding, seed):
    rng = np.random.default_rng(seed)
    digits = round(-math.log10(rounding))
    written = SRR(k, epsilon).transition_matrix().round(digits)
    result = audit(written, epsilon, rounding=rounding)
    losses = [privacy_loss(channel) for channel in channels_within(written, rounding, rng, 50)]
    assert result.least - 1e-9 <= min(losses)
    assert max(losses) <= result.loss + 1e-9
    # The bound is no looser than it must be: one channel has this loss, up to the width of a float.
    low, high = written.min() - rounding, written.max() + rounding
    assert result.loss <= math.log(high / low) + 1e-9 if low > 0 else result.loss == math.inf


def test_six_digits_can_be_audited():
    written = RRRR(5, 1.0).transition_matrix([0, 1]).round(6)
    written[0, 0] += 1e-6
    with pytest.raises(ValueError, match="rounding"):
        audit(written, epsilon=1.0)
    unclear = audit(written, epsilon=1.0, rounding=1e-6)
    assert not unclear.holds
    assert not unclear.broken
    assert unclear.least < 1 < unclear.loss < 1 + 1e-4
    assert audit(written, epsilon=1.001, rounding=1e-6).holds
    broken = audit(written, epsilon=0.999, rounding=1e-6)
    assert broken.broken
    assert not broken.holds


def test_the_loss_within_a_rounding_by_hand():
    """Entries 0.6 and 0.4 ± 0.1: the worst channel has 0.7 against 0.3."""
    result = audit([[0.6, 0.4], [0.4, 0.6]], epsilon=1.0, rounding=0.1)
    assert result.loss == pytest.approx(math.log(7 / 3), abs=1e-12)
    assert result.least == pytest.approx(0.0, abs=1e-12)
    # One entry is known from the other: 1 − 0.85 ± 0.01, not 0.1 ± 0.1.
    low, high = _bounds(np.array([[0.85, 0.5], [0.1, 0.5]]), 0.1)
    assert [float(v) for v in (low[1][0], high[1][0], low[0][0], high[0][0])] == pytest.approx([0.05, 0.2, 0.8, 0.95])


@pytest.mark.parametrize("rounding", [0, -1e-6, 0.2, math.nan, math.inf, "1e-6", True, [1e-6]])
def test_a_rounding_that_is_none_is_refused(rounding):
    with refuses("rounding"):
        audit([[0.5, 0.5], [0.5, 0.5]], epsilon=1.0, rounding=rounding)


def test_a_matrix_that_no_channel_rounds_to_is_refused():
    with pytest.raises(ValueError, match="sum to one within the rounding 1e-06 of their entries"):
        audit([[0.5, 0.5], [0.5, 0.50001]], epsilon=1.0, rounding=1e-6)
    with refuses("rounding"):
        audit(SRR(3, 1.0), rounding=1e-6)


@pytest.mark.parametrize("rounding", [None, 1e-9])
def test_a_loss_between_the_bounds_of_e_to_the_epsilon_does_not_hold(rounding, monkeypatch):
    """What is certain counts: with bounds far apart, a ratio between them is not shown to keep the promise."""
    matrix = np.array([[0.6, 0.3], [0.4, 0.7]])  # a loss of ln 2
    for lower, upper, holds in ((1.9, 2.1, False), (2.1, 2.3, True)):
        monkeypatch.setattr(privacy, "exp_bounds", lambda _, ends=(lower, upper): tuple(map(Fraction, ends)))
        assert audit(matrix, 0.7, rounding=rounding).holds == holds


# ---------------------------------------------------------------- what is no mechanism
@dataclass(frozen=True)
class Given(FiniteMechanism):
    """Whatever table it is given."""

    n_categories: int
    epsilon: float
    table: object = None

    def exact_weights(self):
        return self.table


@dataclass(frozen=True)
class Claimed(SRR):
    """Whatever cases it is given."""

    cases: object = ()

    def audit_cases(self):
        return iter(self.cases)


TABLES = {
    "negative": [[3, -1], [1, 2]],
    "not whole": [[2.9, 1], [1, 2.9]],
    "floats": np.array([[2.0, 1.0], [1.0, 2.0]]),
    "no number": [[math.nan, 1], [1, 2]],
    "infinite": [[math.inf, 1], [1, 2]],
    "text": [["3", 1], [1, 2]],
    "nothing": None,
    "one row": [1, 2],
    "ragged": [[1, 2], [1]],
    "a column too many": [[1, 2, 3], [1, 2, 3]],
    "no rows": np.empty((0, 2)),
    "a column of zeros": [[0, 1], [0, 2]],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_that_is_no_mechanism_is_refused(table):
    for use in (audit, lambda mechanism: mechanism.privatize(0), lambda mechanism: mechanism.transition_matrix()):
        with refuses("exact_weights of Given"):
            use(Given(2, 1.0, table))


@pytest.mark.parametrize("epsilon", [-1, -1e-9, math.nan, math.inf, 1e300, "1", None, True, 1j])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon):
    table = [[2, 1], [1, 2]]
    with refuses("epsilon of Given"):
        audit(Given(2, epsilon, table))
    planted = SRR(2, 1.0)
    object.__setattr__(planted, "epsilon", epsilon)
    with refuses("epsilon of SRR"):
        audit(planted)
    assert audit(Given(2, 1.0, table)).holds


def case(weights, outputs=(0,), inputs=(0, 1), totals=None):
    return AuditCase(0, list(outputs), list(inputs), weights, totals)


CASES = {
    "none": [],
    "not a case": [(0, [0], [0, 1], [[2, 1]])],
    "negative": [case([[2, -1]])],
    "floats": [case([[2.9, 1]])],
    "no number": [case([[math.nan, 1]])],
    "a row too many": [case([[2, 1], [1, 2]])],
    "a column too few": [case([[2]])],
    "one category": [case([[2]], inputs=[0])],
    "a category twice": [case([[2, 1]], inputs=[1, 1])],
    "a category that is none": [case([[2, 1]], inputs=[0, 3])],
    "zeros": [case([[0, 0]])],
    "a total of zero": [case([[2, 1]], totals=[0, 1])],
    "totals too few": [case([[2, 1]], totals=[1])],
    "columns of different totals": [case([[2, 1], [1, 1], [1, 3]], outputs=range(3))],
    "the second": [case([[2, 1]]), case([[2, -1]])],
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_cases_that_are_no_mechanism_are_refused(cases):
    with refuses("audit_cases of Claimed"):
        audit(Claimed(3, 1.0, cases))


def test_rows_and_totals_of_any_kind_have_the_ratio_of_the_definition():
    """Against all ratios of a row, in fractions: equal and unequal totals, zeros, repeated weights, fractions."""
    rng = np.random.default_rng(5)
    for trial in range(300):
        rows = rng.integers(trial % 2, 6, size=(3, 4)).tolist()
        rows[0][0] += 1
        if trial % 5 == 0:
            rows = [[Fraction(weight, 7) for weight in row] for row in rows]
        totals = [None, [3] * 4, rng.integers(1, 9, size=4).tolist()][trial % 3]
        shares = [[Fraction(w) / t for w, t in zip(row, totals or [1] * 4, strict=True)] for row in rows]
        ratios = [max(row) / min(row) if min(row) else math.inf for row in shares if any(row)]
        ratio, x, other, y = worst_ratio(rows, totals)
        assert ratio == max(ratios)
        assert (shares[y][x] / shares[y][other] if shares[y][other] else math.inf) == ratio


@pytest.mark.parametrize("parts", [(), (SRR(3, epsilon=0.1),)])
def test_a_mechanism_is_audited_itself_whatever_it_calls_its_parts(parts):
    own = type("Own", (SRR,), {"parts": parts})(3, epsilon=1.0)
    assert audit(own).loss == pytest.approx(1.0)
    assert not audit(own, 0.5).holds
