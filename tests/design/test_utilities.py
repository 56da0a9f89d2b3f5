"""The six closed forms against dense matrices, Monte Carlo and the slips that they must not reproduce."""

import decimal
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adobest_pp as ad
import oracles
from adobest_pp.design import UTILITIES

NAMES = list(UTILITIES)
EXACT = decimal.Context(prec=90, Emin=-10_000, Emax=10_000)


@st.composite
def weights(draw, least=2, most=12):
    """Probabilities of every temper: ordinary, tiny, zero, equal, nearly one-hot."""
    ordinary = st.floats(0.01, 1)
    tiny = st.floats(-30, 0).map(lambda power: 10.0**power)
    n = draw(st.integers(least, most))
    values = draw(st.lists(st.one_of(ordinary, tiny, st.sampled_from([0.0, 0.5])), min_size=n, max_size=n))
    values[draw(st.integers(0, n - 1))] = 1.0
    return np.array(values) / np.sum(values)


epsilons = st.floats(math.log(0.01), math.log(20)).map(math.exp)
kappas = st.one_of(st.floats(0.05, 1), st.floats(-12, -1).map(lambda power: 1 - 10.0**power), st.just(1.0))


def exact_utilities(theta, mechanism, size):
    """All six by the definitions with 90 digits, θ sorted; fisher is -inf where F is singular."""
    with decimal.localcontext(EXACT):
        sorted_theta = oracles.precise(-np.sort(-theta))
        budgets = mechanism.epsilon1, mechanism.epsilon2(size)
        matrix = oracles.precise_rrrr_matrix(theta.size, size, *budgets)
        singular = budgets[1] == 0 and size < theta.size - 1
        return {
            name: -math.inf if name == "fisher" and singular else float(dense(matrix, sorted_theta))
            for name, dense in oracles.DENSE_UTILITIES.items()
        }


def assert_agree(name, value, exact, scale=0.0):
    # 1e-80 is the rounding of the oracle's own 90 digits, where the exact value is zero.
    tolerance = 1e-10 * abs(exact) + 1e-14 * scale + 1e-80
    assert value == exact or abs(value - exact) <= tolerance, (name, value, exact)


@settings(max_examples=200)
@given(weights(), epsilons, kappas)
def test_the_closed_forms_agree_with_dense_matrices_of_90_digits_to_1e_10(theta, epsilon, kappa):
    mechanism = ad.RRRR(theta.size, epsilon, kappa)
    values = {name: ad.utility(theta, mechanism, name) for name in NAMES}
    for size in range(theta.size):
        exact = exact_utilities(theta, mechanism, size)
        for name in NAMES:
            # tv2 alone can be arbitrarily close to 0 without being 0: θ − h is a difference of terms whose sum
            # is 1 − P(Y = X), and rounding θ itself moves it by that much times 1e-16.
            scale = 1 - exact["honest"] if name == "tv2" else 0.0
            assert_agree(name, values[name][size], exact[name], scale)


@pytest.mark.parametrize("n_categories", [2, 3, 7, 12])
def test_the_closed_forms_agree_with_algorithm_2_run_through_in_double_precision(n_categories):
    rng = np.random.default_rng(n_categories)
    for epsilon, kappa in [(0.5, 0.8), (1.0, 0.9), (5.0, 0.9), (2.0, 0.3)]:
        theta = rng.dirichlet(np.ones(n_categories))
        order = np.argsort(-theta)
        mechanism = ad.RRRR(n_categories, epsilon, kappa)
        for size in range(n_categories):
            second = oracles.theorem_epsilon2(n_categories, size, epsilon, kappa)
            matrix = oracles.rrrr_matrix(n_categories, order[:size], kappa * epsilon, second)
            for name, dense in oracles.DENSE_UTILITIES.items():
                expected = dense(matrix, theta, order[-1]) if name == "fisher" else dense(matrix, theta)
                assert_agree(name, ad.utility(theta, mechanism, name)[size], expected)


def test_many_categories_agree_too():
    theta = -np.sort(-np.random.default_rng(5).dirichlet(np.full(300, 0.5)))
    mechanism = ad.RRRR(300, 2.0, 0.8)
    for size in (0, 1, 40, 298, 299):
        matrix = mechanism.transition_matrix(range(size))
        for name, dense in oracles.DENSE_UTILITIES.items():
            assert_agree(name, ad.utility(theta, mechanism, name)[size], dense(matrix, theta))


def test_any_two_budgets_agree_too():
    theta = np.array([0.45, 0.25, 0.2, 0.06, 0.04])
    for first, second in [(0.4, 3.0), (3.0, 0.4), (1e-3, 8.0), (2.0, [1.0, 0.5, 2.0, 0.1, 4.0])]:
        mechanism = ad.RRRR.from_budgets(5, first, second)
        for size in range(5):
            exact = exact_utilities(theta, mechanism, size)
            for name in NAMES:
                assert_agree(name, ad.utility(theta, mechanism, name)[size], exact[name])


def test_honest_and_mse_agree_with_simulated_answers():
    """Two utilities × three sizes, each beyond 5 standard errors by chance with probability 6e-7: 3.5e-6 in all."""
    theta = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    mechanism = ad.RRRR(5, 1.5, 0.8)
    rng = np.random.default_rng(20250)
    for size in (0, 2, 4):
        x = rng.choice(5, size=200_000, p=theta)
        y = np.asarray(mechanism.privatize(x, subset=range(size), rng=rng))
        second = oracles.theorem_epsilon2(5, size, 1.5, 0.8)
        joint = oracles.rrrr_matrix(5, range(size), 1.2, second) * theta
        guess = joint / joint.sum(axis=1, keepdims=True)
        loss = ((guess[y] - np.eye(5)[x]) ** 2).sum(axis=1)
        for name, sample in (("honest", x == y), ("mse", -loss)):
            error = sample.std() / math.sqrt(x.size)
            assert abs(sample.mean() - ad.utility(theta, mechanism, name)[size]) < 5 * error


@settings(max_examples=40)
@given(weights(), epsilons, kappas, st.randoms(use_true_random=False))
def test_labels_change_no_utility_by_a_single_bit(theta, epsilon, kappa, random):
    shuffled = theta.copy()
    random.shuffle(shuffled)
    mechanism = ad.RRRR(theta.size, epsilon, kappa)
    for name in NAMES:
        np.testing.assert_array_equal(ad.utility(theta, mechanism, name), ad.utility(shuffled, mechanism, name))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("kappa", [0.01, 0.9, np.nextafter(1, 0), 1.0])
@pytest.mark.parametrize("n_categories", [2, 3, 20])
def test_edges_give_numbers_or_minus_infinity_and_agree(n_categories, kappa, epsilon):
    mechanism = ad.RRRR(n_categories, epsilon, kappa)
    one_hot = np.eye(n_categories)[-1]
    half = np.where(np.arange(n_categories) < 2, 0.5, 0.0)
    for theta in (one_hot, half, np.full(n_categories, 1 / n_categories)):
        for name in NAMES:
            values = ad.utility(theta, mechanism, name)
            assert np.all(np.isfinite(values) | (values == -np.inf))
            assert np.isfinite(values[[0, -1]]).all()
            assert len(ad.select_subset(theta, mechanism, name)) < n_categories
            if name != "fisher":
                assert np.isfinite(values).all()
    for size in {0, n_categories // 2, n_categories - 1}:
        exact = exact_utilities(one_hot, mechanism, size)
        for name in NAMES:
            assert_agree(name, ad.utility(one_hot, mechanism, name)[size], exact[name])


def test_fisher_is_minus_infinity_exactly_where_the_answers_do_not_identify_theta():
    theta = [0.4, 0.3, 0.2, 0.1]
    no_second = ad.utility(theta, ad.RRRR(4, 1.0, kappa=1.0), "fisher")
    np.testing.assert_array_equal(np.isneginf(no_second), [False, True, True, False])
    no_first = ad.utility(theta, ad.RRRR.from_budgets(4, 0.0, 1.0), "fisher")
    np.testing.assert_array_equal(np.isneginf(no_first), [False, True, True, True])
    nothing = ad.RRRR.from_budgets(4, 0.0, 0.0)
    assert np.isneginf(ad.utility(theta, nothing, "fisher")).all()
    assert ad.select_subset(theta, nothing, "fisher").size == 0


def test_fisher_falls_to_minus_infinity_as_kappa_approaches_one():
    values = [ad.utility([0.5, 0.3, 0.2], ad.RRRR(3, 1.0, 1 - gap), "fisher")[1] for gap in 10.0 ** -np.arange(1, 16)]
    assert np.all(np.diff(values) < 0)
    assert values[-1] < -1e28


# ---- slips named in docs/explanation/slips.md
def test_slip_u1_does_not_depend_on_which_category_is_labelled_last():
    theta, mechanism = np.array([0.1, 0.2, 0.7]), ad.RRRR(3, 1.0, 0.8)
    matrix = mechanism.transition_matrix([2])
    as_printed = [oracles.fisher_utility(matrix, theta, last) for last in range(3)]
    assert np.ptp(as_printed) > 0.1
    assert_agree("fisher", ad.utility(theta, mechanism, "fisher")[1], as_printed[0])


def test_slip_u3_and_u4_have_the_papers_numbering_and_its_half():
    theta, mechanism = np.array([0.7, 0.2, 0.1]), ad.RRRR(3, 1.0, 0.8)
    matrix = mechanism.transition_matrix([0])
    h = matrix @ theta
    within = sum(theta[x] * np.abs(matrix[:, x] - h).sum() for x in range(3))
    between = np.abs(h - theta).sum()
    assert UTILITIES["tv1"].reference.startswith("U3")
    assert UTILITIES["tv2"].reference.startswith("U4")
    assert_agree("tv1", ad.utility(theta, mechanism, "tv1")[1], within / 2)
    assert_agree("tv2", ad.utility(theta, mechanism, "tv2")[1], -between / 2)


def test_slip_u5_is_minus_the_least_squared_error():
    theta, mechanism = np.array([0.7, 0.2, 0.1]), ad.RRRR(3, 1.0, 0.8)
    matrix = mechanism.transition_matrix([0])
    joint = matrix * theta
    posterior = joint / joint.sum(axis=1, keepdims=True)
    value = ad.utility(theta, mechanism, "mse")[1]
    assert_agree("mse", value, -oracles.squared_error(matrix, theta, posterior))
    for other in (np.eye(3), np.tile(theta, (3, 1)), 0.9 * posterior + 0.1 * theta):
        assert -oracles.squared_error(matrix, theta, other) < value


# ---- what users pass
def test_a_users_own_utility_is_called_with_sorted_theta_and_checked():
    mechanism, theta = ad.RRRR(3, 1.0), [0.2, 0.5, 0.3]
    copy = ad.Utility("copy", "θ itself", lambda ranked, coefficients: ranked)
    np.testing.assert_allclose(ad.utility(theta, mechanism, copy), [0.5, 0.3, 0.2])
    compiled = ad.Utility("again", "U6", UTILITIES["honest"].function)
    np.testing.assert_array_equal(ad.utility(theta, mechanism, compiled), ad.utility(theta, mechanism, "honest"))
    for wrong in ([0.0, 1.0], [0.0, np.nan, 1.0], [0.0, np.inf, 1.0]):
        bad = ad.Utility("bad", "", lambda ranked, coefficients, wrong=wrong: np.array(wrong))
        with pytest.raises(ValueError, match="'bad' must return 3 values"):
            ad.utility(theta, mechanism, bad)


def test_theta_is_divided_by_its_sum_when_that_is_almost_one():
    mechanism = ad.RRRR(3, 1.0)
    theta = np.array([0.5, 0.3, 0.2])
    values = ad.utility(theta * (1 + 4e-7), mechanism, "entropy")
    np.testing.assert_allclose(values, ad.utility(theta, mechanism, "entropy"), rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.4, 0.2], ad.RRRR(3, 1.0), "fisher"), "theta must sum to 1"),
        (([1.2, -0.2, 0.0], ad.RRRR(3, 1.0), "fisher"), "theta must be 3 finite"),
        (([0.5, 0.5], ad.RRRR(3, 1.0), "fisher"), "theta must be 3 finite"),
        (([0.5, np.nan, 0.5], ad.RRRR(3, 1.0), "fisher"), "theta must be 3 finite"),
        (([0.5, 0.5], ad.RRRR(2, 1.0), "best"), "utility must be one of 'fisher', .* got 'best'"),
        (([0.5, 0.5], ad.SRR(2, 1.0), "honest"), "mechanism must be an RRRR"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        ad.utility(*arguments)
