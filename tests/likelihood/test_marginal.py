"""Evidence and likelihood against the dense n×K evaluation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles
from adobest_pp import RRRR, SRR, Evidence, HadamardResponse, Responses, SubsetSelection
from adobest_pp.likelihood import gradient, grid_posterior, log_likelihood, maximum_likelihood, phi_gradient
from adobest_pp.likelihood.core import value_and_gradient
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import data_sets, simulated

seeds = st.integers(0, 2**32)


def random_theta(seed, k):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.7))


@given(data_sets(), seeds)
def test_log_likelihood_is_the_dense_one(responses, seed):
    theta = random_theta(seed, responses.n_categories)
    value = log_likelihood(theta, responses.evidence())
    assert value == pytest.approx(oracles.log_likelihood(theta, rows_of(responses)), rel=1e-12, abs=1e-12)


@given(data_sets(max_epsilon=20), seeds)
def test_with_large_budgets_digits_are_lost_no_faster_than_the_cancellation_in_the_three_numbers(responses, seed):
    # base + inside·θ(S) may cancel down to e^-ε of its parts, so h is good to about e^ε·2^-52.
    theta = random_theta(seed, responses.n_categories)
    tolerance = max(1e-12, np.exp(responses.mechanism.epsilon) * 1e-15)
    value = log_likelihood(theta, responses.evidence())
    assert value == pytest.approx(oracles.log_likelihood(theta, rows_of(responses)), rel=1e-12, abs=tolerance * 40)


@given(data_sets(), seeds)
def test_gradient_is_the_dense_one(responses, seed):
    theta = random_theta(seed, responses.n_categories)
    expected = oracles.gradient(theta, rows_of(responses))
    np.testing.assert_allclose(gradient(theta, responses.evidence()), expected, rtol=1e-10, atol=1e-12)


@given(data_sets(), seeds)
def test_gradient_is_the_slope_of_the_value(responses, seed):
    evidence, k = responses.evidence(), responses.n_categories
    theta = (random_theta(seed, k) + 0.1) / (1 + 0.1 * k)
    step = 1e-5
    values = [[value_and_gradient(theta + sign * step * e, evidence)[0] for sign in (1, -1)] for e in np.eye(k)]
    slopes = [(above - below) / (2 * step) for above, below in values]
    np.testing.assert_allclose(gradient(theta, evidence), slopes, rtol=1e-5, atol=1e-4)


@given(data_sets(), seeds)
def test_gradient_by_phi_is_the_jacobian_formula_of_the_paper(responses, seed):
    phi = np.random.default_rng(seed).gamma(1.0, size=responses.n_categories) + 0.01
    expected = np.zeros(phi.size) + oracles.phi_gradient_of_the_paper(phi, rows_of(responses))
    np.testing.assert_allclose(phi_gradient(phi, responses.evidence()), expected, rtol=1e-9, atol=1e-9)


@given(data_sets(), seeds)
def test_the_order_of_responses_does_not_matter(responses, seed):
    order = np.random.default_rng(seed).permutation(len(responses))
    tables = {}
    if responses.mechanism.publishes_subset:
        tables = {"subsets": responses.subsets[responses.subset_index[order]]}
    shuffled = Responses.from_arrays(responses.mechanism, responses.answers[order], **tables)
    assert shuffled.evidence() == responses.evidence()
    assert np.array_equal(shuffled.evidence_index(), responses.evidence_index()[order])


@given(data_sets())
def test_each_response_finds_its_row(responses):
    evidence, index = responses.evidence(), responses.evidence_index()
    assert np.array_equal(np.bincount(index, minlength=evidence.n_rows), evidence.count)
    expanded = dense_rows(evidence)[index]
    np.testing.assert_allclose(expanded, rows_of(responses), rtol=1e-12)


def dense_rows(evidence):
    rows = np.repeat(evidence.base[:, None], evidence.n_categories, axis=1)
    rows[np.arange(evidence.n_rows), evidence.category] += evidence.own
    for u, v in enumerate(evidence.set_index):
        if v >= 0:
            rows[u, evidence.members[evidence.offsets[v] : evidence.offsets[v + 1]]] += evidence.inside[u]
    return rows * np.exp(evidence.log_scale)[:, None]


def test_answers_inside_the_subset_merge_by_size_whatever_the_subset():
    responses = Responses(RRRR(6, 1.0))
    for subset in ([0, 1], [0, 2], [0, 5]):
        responses.append([0, 0], subset)
    evidence = responses.evidence()
    assert (evidence.n_rows, evidence.n_sets, evidence.n_responses) == (1, 0, 6)
    responses.append(4, [0, 1])
    responses.append(4, [0, 2])
    assert (responses.evidence().n_rows, responses.evidence().n_sets) == (3, 2)


def test_evidence_does_not_grow_with_the_number_of_responses():
    small, large = (simulated(SRR(5, 1.0), n, 1).evidence() for n in (500, 50_000))
    assert small.n_rows == large.n_rows == 5


@pytest.mark.parametrize("mechanism", [SRR(4, 1.0), RRRR(4, 1.0), SubsetSelection(4, 1.0)])
def test_no_responses_say_nothing(mechanism):
    evidence = Responses(mechanism).evidence()
    assert evidence.n_rows == 0
    assert log_likelihood(np.full(4, 0.25), evidence) == 0
    assert np.array_equal(gradient(np.full(4, 0.25), evidence), np.zeros(4))
    with pytest.raises(ValueError, match="at least one response"):
        maximum_likelihood(evidence)


def test_an_impossible_answer_has_log_likelihood_minus_infinity():
    # A mechanism of ours makes every answer possible, so the zero is planted.
    evidence = Evidence(
        base=np.zeros(1),
        own=np.ones(1),
        inside=np.zeros(1),
        log_scale=np.zeros(1),
        category=np.zeros(1, dtype=np.int64),
        set_index=np.full(1, -1),
        count=np.ones(1, dtype=np.int64),
        members=np.zeros(0, dtype=np.int32),
        offsets=np.zeros(1, dtype=np.int64),
        patterns=np.zeros((0, 2)),
        codes=np.zeros((0, 0), dtype=np.uint16),
    )
    assert log_likelihood([0.0, 1.0], evidence) == -np.inf
    assert log_likelihood([0.25, 0.75], evidence) == pytest.approx(np.log(0.25))


@pytest.mark.parametrize("mechanism", [SRR(4, 2.0), RRRR(4, 2.0), SubsetSelection(4, 2.0)])
def test_the_maximum_is_a_stationary_point_on_the_simplex(mechanism):
    responses = simulated(mechanism, 4000, 3)
    theta = maximum_likelihood(responses.evidence())
    slope = gradient(theta, responses.evidence())
    assert theta.sum() == pytest.approx(1)
    # Karush–Kuhn–Tucker: slope n on the support, at most n elsewhere.
    assert slope.max() <= 4000 * (1 + 1e-5)
    np.testing.assert_allclose(slope[theta > 1e-4], 4000, rtol=1e-4)


@pytest.mark.parametrize("epsilon", [2.0, 0.2, 0.1])
def test_the_maximum_of_srr_has_a_solution_to_compare_with(epsilon):
    """Σ c ln(b + oθ) is greatest at θ = max(c/λ − b/o, 0), with λ such that Σθ = 1."""
    rng = np.random.default_rng(5)
    mechanism = SRR(20, epsilon)
    responses = Responses.from_arrays(mechanism, mechanism.privatize(rng.integers(8, size=100_000), rng=rng))
    counts = np.bincount(responses.answers, minlength=20)
    matrix = mechanism.transition_matrix()
    base, own = matrix[1, 0], matrix[0, 0] - matrix[1, 0]
    low, high = 1e-9, 1e12
    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if np.maximum(counts / middle - base / own, 0).sum() > 1 else (low, middle)
    theta = maximum_likelihood(responses.evidence(), tolerance=1e-7)
    np.testing.assert_allclose(theta, np.maximum(counts / middle - base / own, 0), atol=1e-4)


@pytest.mark.parametrize("mechanism", [HadamardResponse(10_000, 1.0), SRR(10_000, 1.0)], ids=repr)
def test_the_maximum_of_ten_thousand_shares_takes_tens_of_steps(mechanism):
    """Expectation-maximization needs more than 100,000 of them, because most of these shares are zero."""
    rng = np.random.default_rng(2)
    shares = 1 / np.arange(1, 10_001)
    answers = mechanism.privatize(rng.choice(10_000, size=200_000, p=shares / shares.sum()), rng=rng)
    evidence = Responses.from_arrays(mechanism, answers).evidence()
    theta = maximum_likelihood(evidence, max_iterations=50)
    assert (theta == 0).mean() > 0.3
    assert gradient(theta, evidence).max() - 200_000 <= 1e-5


def test_a_maximum_that_is_out_of_reach_is_said_to_be():
    responses = simulated(SRR(20, 2.0), 10_000, 1)
    with pytest.warns(UserWarning, match="may still be .* below its maximum after 3 iterations"):
        maximum_likelihood(responses.evidence(), max_iterations=3)
    for tolerance in (0, -1.0, np.nan, "a", True):
        with refuses("tolerance"):
            maximum_likelihood(responses.evidence(), tolerance)


def test_only_evidence_has_a_likelihood():
    for call in (log_likelihood, gradient, phi_gradient):
        with refuses("evidence"):
            call([0.5, 0.5], Responses(SRR(2, 1.0)))


@pytest.mark.parametrize(
    "theta",
    [
        [0.5, 0.5],
        np.ones((1, 3)),
        [0.5, np.nan, 0.5],
        [-0.1, 0.6, 0.5],
        ["a", "b", "c"],
        ["0.5", "0.3", "0.2"],
        [True, False, False],
        [0, 0, 0],
        [np.inf, 1, 1],
    ],
)
def test_bad_theta_is_refused(theta):
    evidence = Responses(SRR(3, 1.0)).evidence()
    for call in (log_likelihood, gradient):
        with refuses("theta"):
            call(theta, evidence)
    with refuses("phi"):
        phi_gradient(theta, evidence)


@pytest.mark.parametrize("theta", [[1, 1, 1], [0.4, 0.3, 0.2], [0.5, 0.3, 0.2 + 2e-6], [1e-300, 0, 0]])
def test_what_does_not_sum_to_one_has_no_likelihood(theta):
    evidence = simulated(SRR(3, 1.0), 50, 1).evidence()
    for call in (log_likelihood, gradient):
        with refuses("theta"):
            call(theta, evidence)


def test_theta_in_single_precision_has_the_likelihood_of_what_it_stands_for():
    evidence = simulated(SRR(7, 1.0), 20_000, 1).evidence()
    theta = random_theta(1, 7)
    rounded = theta.astype(np.float32)
    exact = rounded.astype(np.float64) / rounded.astype(np.float64).sum()
    assert log_likelihood(rounded, evidence) == pytest.approx(log_likelihood(exact, evidence), abs=1e-9)


def test_evidence_shows_what_it_is():
    evidence = simulated(SRR(3, 1.0), 10, 0).evidence()
    assert repr(evidence).startswith("<Evidence: 10 responses in ")
    assert evidence != 3


def test_the_grid_has_the_intervals_of_a_beta_distribution():
    grid = grid_posterior(Responses(SRR(2, 1.0)), 2.0, 1000)
    expected = stats.beta(2, 2).ppf([0.05, 0.95])
    np.testing.assert_allclose(grid.interval(0.9)[:, 0], expected, atol=1e-3)
