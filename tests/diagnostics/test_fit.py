"""Answers of another mechanism than the stated one are found, and right ones pass."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from adobest_pp import RRRR, SRR, Responses, SubsetSelection, sample
from adobest_pp.diagnostics import goodness_of_fit
from adobest_pp.likelihood.answer_fit import FALSE_ALARM, LEVEL, check_fit
from validation import goodness_of_fit as program
from validation.answers import ask

MECHANISMS = [SRR(5, 2.0), RRRR(5, 2.0, 0.8), SubsetSelection(5, 1.0, 2), SubsetSelection(6, 0.5, 4)]
FAST = {"draws": 200, "tune": 200, "chains": 2, "random_seed": 1, "progressbar": False}


def some(mechanism, seed, n=4000):
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(mechanism.n_categories, 0.7))
    return theta, ask(mechanism, theta, n, rng)


def enumerated(responses, theta, features):
    """Means and covariance of summed features, from the definitions: subset by subset, answer by answer."""
    mechanism = responses.mechanism
    if mechanism.publishes_subset:
        cases = [(mask, np.sum(responses.subset_index == v)) for v, mask in enumerate(responses.subsets)]
    else:
        cases = [(None, len(responses))]
    mean, covariance = 0, 0
    for subset, n in cases:
        matrix = mechanism.transition_matrix(*([] if subset is None else [subset]))
        table = np.array([features(answer, subset) for answer in mechanism.outputs()], dtype=float)
        p = matrix @ theta
        mean = mean + n * (p @ table)
        covariance = covariance + n * ((table.T * p) @ table - np.outer(p @ table, p @ table))
    return mean, covariance


def features_of(responses, theta):
    k = responses.n_categories
    if responses.mechanism.publishes_subset:
        sizes = np.unique(responses.subsets.sum(axis=1))
        return lambda y, s: np.concatenate([np.eye(k)[y] * s[y], np.eye(k)[y] * ~s[y], (sizes == s.sum()) & s[y]])
    if not responses.mechanism.answer_dims:
        return lambda y, _: np.eye(k)[y]
    top = int(theta.argmax())
    sets = {frozenset([i]) for i in range(k)} | {frozenset({i, (i + 1) % k}) for i in range(k)}
    sets |= {frozenset({top, j}) for j in range(k) if j != top}
    rows = np.unique([[i in one for i in range(k)] for one in sets], axis=0)
    return lambda z, _: [set(np.flatnonzero(row)) <= set(z.tolist()) for row in rows]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_counts_have_the_moments_of_the_definitions(mechanism):
    theta, responses = some(mechanism, 1, n=600)
    counts = responses.answer_counts(theta, np.arange(mechanism.n_categories))
    features = features_of(responses, theta)
    mean, covariance = enumerated(responses, theta, features)
    np.testing.assert_allclose(counts.constant + counts.slope @ theta, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(counts.covariance, covariance, rtol=1e-8, atol=1e-8)
    masks = responses.subsets[responses.subset_index] if mechanism.publishes_subset else [None] * len(responses)
    observed = np.sum([features(y, s) for y, s in zip(responses.answers, masks, strict=True)], axis=0)
    np.testing.assert_array_equal(counts.observed, observed)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_at_the_truth_the_p_value_is_uniform(mechanism):
    # Without a posterior to average over, this is a test of the χ² distance alone. False alarm: 0.1 % each.
    p_values = []
    for seed in range(150):
        theta, responses = some(mechanism, seed, n=1000)
        p_values.append(check_fit(theta[None], responses).p_value)
    assert kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.parametrize("mechanism", program.mechanisms(2.0).values(), ids=repr)
def test_right_answers_pass(mechanism):
    alarms = 0
    for seed in range(5):
        tree = sample(program.right(mechanism, 0.3, np.random.default_rng(seed)), **FAST)
        alarms += not goodness_of_fit(tree)["fits"]
    assert alarms <= binom.isf(0.001, 5, FALSE_ALARM)


@pytest.mark.parametrize("fault", ["SRR, ε = 3 read as ε = 1", "RRRR, shuffled subsets", "subset selection, neighbors"])
def test_a_wrong_mechanism_is_found_and_warned_of(fault, caplog):
    responses = program.FAULTS[fault](np.random.default_rng(1))
    tree = sample(responses, **FAST)
    assert tree.attrs["fit_p_value"] <= LEVEL
    assert not goodness_of_fit(tree)["fits"]
    assert any("do not fit the mechanism" in record.message for record in caplog.records)


def test_right_answers_are_not_warned_of(caplog):
    tree = sample(some(RRRR(5, 2.0, 0.8), 3)[1], **FAST)
    assert tree.attrs["fit_p_value"] == pytest.approx(goodness_of_fit(tree)["p_value"].item(), rel=1e-9)
    assert goodness_of_fit(tree).attrs["false_alarm"] == 0.01
    assert not any("do not fit" in record.message for record in caplog.records)


def test_sgld_is_not_asked():
    tree = sample(some(SRR(3, 1.0), 1)[1], "sgld", draws=100, random_seed=1)
    assert "fit_p_value" not in tree.attrs


def test_draws_that_miss_a_part_of_the_posterior_are_not_asked(caplog):
    """All draws of the first category are 1, where quadrature has a mean of 0.82: it is not the mechanism's fault."""
    responses = Responses.from_arrays(SRR(2, 1.0), np.repeat([0, 1], [70, 52]))
    tree = sample(responses, "nuts", prior=1e-3, random_seed=1, progressbar=False)
    assert (tree["posterior"]["theta"].values[..., 0] == 1).all()
    assert any("missed a part of the posterior" in record.message for record in caplog.records)
    assert not any("do not fit" in record.message for record in caplog.records)
    assert "fit_p_value" not in tree.attrs


def test_what_theta_takes_up_is_told():
    rng = np.random.default_rng(1)
    draws = np.full((1, 5), 0.2)
    assert check_fit(draws, ask(SRR(5, 1.0), draws[0], 500, rng)).spare == 0
    one_subset = Responses.from_arrays(RRRR(5, 1.0), rng.integers(0, 5, 500), [0, 1])
    found = check_fit(draws, one_subset)
    assert (found.freedom, found.spare) == (4, 0)
    several = ask(RRRR(5, 1.0), draws[0], 2000, rng)
    assert check_fit(draws, several).spare > 0
    assert check_fit(draws, ask(SubsetSelection(5, 1.0, 2), draws[0], 500, rng)).spare > 0


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_without_enough_answers_nothing_is_said(mechanism):
    k = mechanism.n_categories
    for responses in (Responses(mechanism), ask(mechanism, np.full(k, 1 / k), 2, np.random.default_rng(1))):
        found = check_fit(np.full((1, k), 1 / k), responses)
        assert np.isnan(found.p_value)
        assert found.freedom == 0


def test_the_order_of_categories_in_the_draws_does_not_matter():
    tree = sample(some(RRRR(5, 2.0, 0.8), 4)[1], **FAST)
    p_value = goodness_of_fit(tree)["p_value"].item()
    turned = tree.copy()
    turned["posterior"] = tree["posterior"].to_dataset().isel(category=[3, 1, 4, 0, 2])
    assert goodness_of_fit(turned)["p_value"].item() == pytest.approx(p_value)
    renamed = tree.copy()
    renamed["posterior"] = tree["posterior"].to_dataset().assign_coords(category=list("vwxyz"))
    with pytest.raises(ValueError, match="tree must have the categories"):
        goodness_of_fit(renamed)
    with pytest.raises(ValueError, match="responses must be a Responses"):
        goodness_of_fit(tree, [0, 1])


def test_many_categories_are_counted_by_the_most_probable():
    rng = np.random.default_rng(2)
    theta = rng.dirichlet(np.ones(300))
    for mechanism in (SRR(300, 5.0), RRRR(300, 5.0), SubsetSelection(300, 2.0)):
        found = check_fit(theta[None], ask(mechanism, theta, 5000, rng))
        assert found.freedom <= 3 * 40
        assert found.p_value > 0.001
