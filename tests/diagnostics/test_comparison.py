"""Planted faults are found and named; draws of the reference's own distribution pass."""

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from adobest_pp import RRRR, SRR, Responses, SubsetSelection, diagnostics, sample
from adobest_pp.diagnostics import comparison as _comparison
from adobest_pp.diagnostics import draws as _draws
from adobest_pp.diagnostics import references
from adobest_pp.intervals import shortest_intervals
from adobest_pp.likelihood.marginal import log_likelihood
from tests.diagnostics import samplers
from tests.refusals import refuses
from tests.strategies import simulated

PRIOR = np.array([4.0, 3.0, 2.0, 6.0])
LABELS = ("yes", "no", "unsure", "never")


def tree(theta, labels=LABELS, prior=PRIOR, responses=None, **attributes):
    """Draws as `sample` returns them, of the prior of no responses unless there are some."""
    observed = responses if responses is not None else Responses(SRR(len(labels), 1.0), categories=labels)
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": list(labels)})
    result = xr.DataTree.from_dict({"posterior": posterior, "responses": observed.to_xarray()})
    result.attrs = {"prior_concentration": prior, "sampling_time": 2.0, **attributes}
    return result


def exact(seed, chains=4, draws=1000, prior=PRIOR):
    return np.random.default_rng(seed).dirichlet(prior, size=(chains, draws))


def on_simplex(theta):
    return theta / theta.sum(axis=-1, keepdims=True)


def stretched(theta, factor):
    middle = theta.mean(axis=(0, 1))
    return on_simplex(np.abs(middle + factor * (theta - middle)))


def graded(theta, **options):
    """What is found of draws that are held against exact ones, as values and in words."""
    row = diagnostics.compare({"it": tree(theta), "nuts": tree(exact(0))}, **options).sel(sampler="it")
    return row, diagnostics.verdict_in_words(row)


def values(row):
    return row.verdict.item(), row.fault.item()


def test_draws_of_the_same_distribution_pass():
    # At most 1 % of right samplers are called biased (validation/error_rates.py). The seeds here are fixed.
    rows = [graded(exact(seed), resamples=399, max_points=200)[0] for seed in range(1, 7)]
    assert {values(row) for row in rows} == {("indistinguishable", "")}


def test_blocks_of_categories_change_nothing(monkeypatch):
    draws = {"it": tree(stretched(exact(1), 1.2)), "nuts": tree(exact(0))}
    whole = diagnostics.compare(draws, resamples=99, max_points=100)
    monkeypatch.setattr(_comparison, "TOGETHER", 3)
    # Sums of one column and of several differ in their last bits.
    xr.testing.assert_allclose(diagnostics.compare(draws, resamples=99, max_points=100), whole, rtol=1e-12)


def test_an_inflated_sd_is_found():
    row, words = graded(stretched(exact(1), 1.26))
    assert values(row) == ("biased", "marginal")
    assert row.scale_measure == "sd_ratio"
    assert row.scale_size == row.sd_ratio.sel(category=row.scale_category.item())
    assert f"sd {row.scale_size.item():.2f}× in {row.scale_category.item()}" in words
    assert np.all(row.sd_ratio > 1.15)
    assert row.energy_p_value <= _comparison.FAMILY_LEVEL
    assert row.stein_p_value <= _comparison.FAMILY_LEVEL
    assert row.stein_discrepancy > row.stein_threshold


def test_a_shifted_mean_is_found_and_its_category_named():
    theta = exact(1)
    sd = theta.std(axis=(0, 1))
    shift = np.array([0.0, 0.4 * sd[1], -0.4 * sd[1], 0.0])
    row, words = graded(on_simplex(np.abs(theta + shift)))
    assert values(row) == ("biased", "marginal")
    # Of the two, "unsure" has the smaller sd.
    assert (row.location_category.item(), row.location_measure.item()) == ("unsure", "mean_shift")
    assert row.location_size == row.mean_shift.sel(category="unsure")
    assert words.startswith(f"biased: mean off by {-row.location_size.item():.2g} sd in unsure")
    assert row.mean_shift.sel(category="no") == pytest.approx(0.4, abs=0.08)
    assert row.location_error.sel(category="no") > row.error_limit
    assert abs(row.location_error.sel(category="yes")) < row.error_limit
    assert row.location_p_value < _comparison.FAMILY_LEVEL


def test_a_stuck_chain_is_found():
    theta = exact(1)
    theta[2] = theta[2, 17]
    for stuck in (theta, np.broadcast_to(theta[:, :1], theta.shape)):
        row, words = graded(stuck)
        assert values(row) == ("not_mixed", "r_hat")
        assert words == f"not mixed: R-hat {row.r_hat.item():.2f}"


def test_a_category_whose_draws_do_not_move_is_never_fine():
    theta = exact(1)
    theta[..., 2] = 0.0
    theta = on_simplex(theta)
    row, words = graded(theta)
    assert words == "not mixed: the draws of a category are all equal"
    assert np.isnan([row.r_hat, row.ess_bulk, row.ess_tail]).all()
    result = diagnostics.compare({"nuts": tree(theta), "it": tree(theta)})
    assert result.verdict.values.tolist() == ["reference_not_converged", "not_mixed"]
    assert result.fault.values.tolist() == ["stuck", "stuck"]
    assert values(graded(exact(1, chains=1))[0]) == ("not_mixed", "single_chain")


def test_slow_chains_are_found():
    rng = np.random.default_rng(3)
    slow = np.repeat(rng.dirichlet(PRIOR, size=(4, 10)), 100, axis=1)
    assert graded(slow)[0].verdict == "not_mixed"


def test_a_swapped_category_is_found():
    row, _ = graded(exact(1)[..., [1, 0, 2, 3]])
    assert values(row) == ("biased", "marginal")
    assert row.location_category.item() in ("yes", "no")
    assert row.stein_p_value <= _comparison.FAMILY_LEVEL
    assert row.tv_reference > 0.05


def test_wrong_dependence_with_right_margins_is_found():
    # Uniform on the square against the same margins on its diagonal: no mean or sd differs, and it is only seen in
    # categories that are a thousand times smaller than the others.
    rng = np.random.default_rng(2)
    u, v, w, x = 0.5 * rng.random((4, 4, 1000))
    apart = np.stack([u / 1000, v / 1000, w, 1 - w - (u + v) / 1000], axis=-1)
    tied = np.stack([u / 1000, u / 1000, x, 1 - x - u / 500], axis=-1)
    bare = {name: tree(theta).copy() for name, theta in (("apart", apart), ("tied", tied))}
    for one in bare.values():
        del one.attrs["prior_concentration"]
    result = diagnostics.compare(bare, reference="apart")
    tied = result.sel(sampler="tied")
    assert values(tied) == ("biased", "energy")
    assert diagnostics.verdict_in_words(tied).startswith("biased: joint distribution differs (energy distance, p = ")
    assert np.isnan(result.stein_discrepancy).all()


def test_stein_finds_a_wrong_posterior_without_another_reference():
    right = diagnostics.compare({"it": tree(exact(5))}, reference="it")
    assert right.verdict.item() == "reference"
    wrong = diagnostics.compare({"it": tree(exact(5), prior=PRIOR + np.array([0, 1, 0, 0]))}, reference="it")
    assert values(wrong) == ("reference_not_converged", "stein")
    assert wrong.stein_discrepancy > wrong.stein_threshold


def test_draws_off_the_simplex_are_refused():
    """Columns that are shuffled against each other have the right margins, and were called indistinguishable."""
    rng = np.random.default_rng(1)
    shuffled = rng.permuted(exact(1).reshape(-1, 4), axis=0).reshape(4, 1000, 4)
    with pytest.raises(ValueError, match=r"draws\['it'\] must have draws that sum to 1 over the categories, got a sum"):
        graded(shuffled)
    negative = exact(1) + 0.3 * np.array([1, -1, 0, 0])
    with pytest.raises(ValueError, match=r"draws\['it'\] must have draws of at least 0, got -0\."):
        graded(negative)
    assert graded(exact(1).astype(np.float32))[0].verdict == "indistinguishable"


def without(theta, *parts):
    """A tree of somebody's own sampler, which has draws but not all that `sample` leaves with them."""
    one = tree(theta)
    for part in parts:
        del (one if part == "responses" else one.attrs)[part]
    return one


@pytest.mark.parametrize("parts", [("responses", "prior_concentration"), ("responses",), ("prior_concentration",)])
def test_responses_and_prior_are_those_of_the_reference(parts):
    wrong = exact(1, prior=PRIOR + np.array([0, 1, 0, 0]))
    compared = [
        diagnostics.compare({"nuts": tree(exact(0)), "it": one}, resamples=399)
        for one in (tree(wrong), without(wrong, *parts))
    ]
    own, shown = (each.stein_discrepancy.sel(sampler="it").item() for each in compared)
    assert shown == own > compared[1].stein_threshold.sel(sampler="it")
    assert compared[1].stein_missing.values.tolist() == ["", ""]
    # Where the reference has neither, those of another sampler do.
    other = diagnostics.compare({"nuts": without(exact(0), *parts), "it": tree(wrong)}, resamples=399)
    assert other.stein_discrepancy.sel(sampler="it").item() == own


def test_what_could_not_be_computed_is_said():
    bare = {name: without(exact(seed), "responses", "prior_concentration") for name, seed in (("nuts", 0), ("it", 1))}
    result = diagnostics.compare(bare)
    assert result.stein_missing.values.tolist() == ["no responses or no prior with the draws"] * 2
    words = diagnostics.verdict_in_words(result.sel(sampler="it"))
    assert words == (
        "indistinguishable from the reference (Stein discrepancy not computed: no responses or no prior with the draws)"
    )
    few = diagnostics.compare({"nuts": tree(exact(0)), "it": tree(exact(1, chains=2, draws=15))}).sel(sampler="it")
    assert few.energy_missing == few.stein_missing == "fewer than 20 independent draws"
    tiny = np.array([1.0, 1.0, 1.0, 0.0]) * exact(1) + 1e-320 * np.array([0, 0, 0, 1.0])
    tiny[:, ::2] = exact(1)[:, ::2]
    assert graded(on_simplex(tiny))[0].stein_missing == "draws too small to have a logarithm"
    computed = diagnostics.compare({"nuts": tree(exact(0)), "it": tree(exact(1))})
    assert computed.stein_missing.values.tolist() == computed.energy_missing.values.tolist() == ["", ""]


def test_responses_in_another_order_are_compared_too():
    """They were passed over, whatever they were."""
    answers, order = np.array([0, 0, 0, 1, 2, 3]), [2, 0, 3, 1]
    labels = [LABELS[i] for i in order]
    mechanism = SRR(4, 1.0)
    first = Responses.from_arrays(mechanism, answers, categories=LABELS)
    same = Responses.from_arrays(mechanism, np.argsort(order)[answers], categories=labels)
    other = Responses.from_arrays(mechanism, answers, categories=labels)
    base = tree(exact(0, draws=50), responses=first)
    moved = {"labels": labels, "prior": PRIOR[order]}
    diagnostics.compare({"nuts": base, "it": tree(exact(1, draws=50)[..., order], responses=same, **moved)})
    with pytest.raises(ValueError, match="same responses, got different ones for 'it'"):
        diagnostics.compare({"nuts": base, "it": tree(exact(1, draws=50)[..., order], responses=other, **moved)})
    moved["prior"] = PRIOR
    with pytest.raises(ValueError, match="same prior"):
        diagnostics.compare({"nuts": base, "it": tree(exact(1, draws=50)[..., order], responses=same, **moved)})


def test_gibbs_passes_stein_given_responses():
    responses = simulated(RRRR(3, 3.0), 150, seed=4)
    draws = sample(responses, "gibbs", draws=3000, random_seed=1, progressbar=False)
    other = sample(responses, "gibbs", draws=3000, random_seed=2, progressbar=False)
    result = diagnostics.compare({"a": draws, "b": other}, reference="a", truth=[0.2, 0.3, 0.5])
    assert result.verdict.values.tolist() == ["reference", "indistinguishable"]
    assert np.all(result.stein_discrepancy < result.stein_threshold)


def test_draws_under_a_learned_concentration_are_compared_without_stein():
    responses = simulated(RRRR(4, 2.0), 300, seed=1)
    trees = {
        f"seed {seed}": sample(responses, "nuts", "learned", chains=2, random_seed=seed, progressbar=False)
        for seed in (1, 2)
    }
    result = diagnostics.compare(trees, reference="seed 1")
    assert result.verdict.values.tolist() == ["reference", "indistinguishable"]
    assert np.isnan(result.stein_p_value).all()
    assert set(result.stein_missing.values) == {"no closed form under a learned prior"}
    fixed = sample(responses, "gibbs", random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="same prior"):
        diagnostics.compare(trees | {"gibbs": fixed}, reference="seed 1")


def test_an_unconverged_reference_gives_no_verdict():
    short = tree(exact(0)[:, :60])
    result = diagnostics.compare({"nuts": short, "gibbs": tree(exact(1))})
    assert result.verdict.values.tolist() == ["reference_not_converged", "no_verdict"]
    assert result.fault.values.tolist() == ["ess", ""]


def test_figures_are_what_they_say():
    first, second, truth = exact(1), exact(2) * 1.0, np.array([0.1, 0.2, 0.3, 0.4])
    result = diagnostics.compare({"it": tree(first), "nuts": tree(second)}, truth=truth)
    row = result.sel(sampler="it")
    x, y = first.reshape(-1, 4), second.reshape(-1, 4)
    assert row.wasserstein.values == pytest.approx([wasserstein_distance(x[:, i], y[:, i]) for i in range(4)])
    assert row.sd_ratio.values == pytest.approx(x.std(axis=0) / y.std(axis=0))
    assert row.tv_reference.item() == pytest.approx(0.5 * np.abs(x.mean(axis=0) - y.mean(axis=0)).sum())
    assert row.tv_truth.item() == pytest.approx(0.5 * np.abs(x.mean(axis=0) - truth).sum())
    low, high = shortest_intervals(x)
    assert row.coverage.item() == np.mean((low < truth) & (truth < high))
    assert row.ess_per_second.item() == pytest.approx(row.ess_bulk.item() / 2.0)
    assert row.mean_shift.values == pytest.approx((x.mean(axis=0) - y.mean(axis=0)) / y.std(axis=0))
    squares = [(z - z.mean(axis=0)) ** 2 for z in (x, y)]
    relative = [square.var(axis=0) / square.mean(axis=0) ** 2 / 4 / 4000 for square in squares]
    assert row.sd_ratio_mcse.values == pytest.approx(np.sqrt(sum(relative)), rel=0.2)
    quantiles = [np.quantile(z, [0.05, 0.95], axis=0) for z in (x, y)]
    assert row.tail_error.values == pytest.approx(np.abs(quantiles[0] - quantiles[1]).max(axis=0) / y.std(axis=0))
    for name in ("location", "scale"):
        assert (row[f"{name}_p_value"] <= _comparison.FAMILY_LEVEL) == (
            np.abs(row[f"{name}_error"]).max() > row.error_limit
        )
    assert result.sel(sampler="nuts").wasserstein.values.tolist() == [0.0] * 4
    assert all("long_name" in result[name].attrs for name in result)


def test_categories_in_another_order_are_the_same_categories():
    theta = exact(1)
    order = [2, 0, 3, 1]
    moved = tree(theta[..., order], labels=[LABELS[i] for i in order], prior=PRIOR[order])
    one = diagnostics.compare({"nuts": tree(exact(0)), "it": tree(theta)}).sel(sampler="it")
    other = diagnostics.compare({"nuts": tree(exact(0)), "it": moved}).sel(sampler="it")
    for name in ("location_error", "stein_discrepancy", "energy_p_value"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6)


def test_seed_repeats():
    trees = {"nuts": tree(exact(0)), "it": tree(exact(1))}
    options = {"max_points": 100, "resamples": 99}
    one, same, other = (diagnostics.compare(trees, random_seed=seed, **options) for seed in (3, 3, 4))
    xr.testing.assert_identical(one, same)
    assert np.any(one.stein_threshold != other.stein_threshold)


@pytest.mark.parametrize(
    ("draws", "options", "message"),
    [
        ({}, {}, "draws must be a mapping"),
        ({"a": 3}, {}, r"draws\['a'\] must be a tree of draws or a sampler"),
        ({"a": "tree"}, {}, "reference must be one of 'a', got 'nuts'"),
        ({"nuts": "tree", "b": "other labels"}, {}, r"draws\['b'\] must have the categories \['yes', .*got \['a', "),
        ({"nuts": "tree", "b": "other answers"}, {}, "same responses, got different ones for 'b'"),
        ({"nuts": "tree", "b": "other prior"}, {}, "same prior"),
        ({"nuts": "short"}, {}, r"draws\['nuts'\] must have at least 4 draws in each chain, got 3"),
        ({"nuts": "missing"}, {}, r"draws\['nuts'\] contains missing or non-finite draws"),
        ({"nuts": "bare"}, {}, "must hold posterior/theta by chain, draw and category, got DataTree without it"),
        ({"nuts": "unlabelled"}, {}, "got theta by chain, draw, thing"),
        ({"nuts": "tree"}, {"truth": [0.5, 0.5]}, "truth must be 4"),
        ({"nuts": "tree"}, {"max_points": 2}, "max_points must be an integer of at least 20"),
    ],
)
def test_refusals(draws, options, message):
    answered = Responses.from_arrays(SRR(4, 1.0), [0, 1], categories=LABELS)
    known = {
        "tree": tree(exact(0, draws=50)),
        "short": tree(exact(0, draws=3)),
        "missing": tree(np.where(np.arange(50)[:, None] == 7, np.nan, exact(0, chains=1, draws=50))),
        "bare": xr.DataTree(),
        "unlabelled": xr.DataTree.from_dict(
            {"posterior": xr.Dataset({"theta": (("chain", "draw", "thing"), exact(0, draws=50))})}
        ),
        "other labels": tree(exact(0, draws=50), labels=("a", "b", "c", "d")),
        "other answers": tree(exact(0, draws=50), responses=answered),
        "other prior": tree(exact(0, draws=50), prior=PRIOR + 1),
    }
    trees = {name: known.get(value, value) for name, value in draws.items()}
    with pytest.raises(ValueError, match=message):
        diagnostics.compare(trees, **options)


@pytest.mark.parametrize("mechanism", [SRR(4, 1.0), RRRR(4, 1.0, 0.8), SubsetSelection(4, 1.0, 2)])
def test_scores_are_the_gradient_of_the_log_posterior(mechanism):
    evidence = simulated(mechanism, 60, seed=3).evidence()
    theta = np.random.default_rng(1).dirichlet(np.ones(4))

    def log_posterior(z):
        weights = np.exp(_draws.basis(4) @ z)
        point = weights / weights.sum()
        return log_likelihood(point, evidence) + PRIOR @ np.log(point)

    z = _draws.log_ratios(theta[None])[0]
    slope = _draws.scores(theta[None], evidence, PRIOR)[0]
    np.testing.assert_allclose(slope, approx_fprime(z, log_posterior, 1e-7), rtol=1e-4, atol=1e-4)


def test_the_stein_kernel_has_mean_zero_under_its_density():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    kernel = _draws.stein_kernel(x, -x)
    np.testing.assert_allclose(kernel, kernel.T)
    off = kernel.sum() - kernel.trace()
    assert abs(off / (1500 * 1499)) < 0.003
    shifted = _draws.stein_kernel(x, 0.3 - x)
    assert (shifted.sum() - shifted.trace()) / (1500 * 1499) > 0.03


def test_energy_distance_is_its_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(40, 2)) + 0.2
    distance, p_value = _draws.energy_test(x, y, 300, rng)
    across, first, second = cdist(x, y).mean(), cdist(x, x).sum() / (30 * 29), cdist(y, y).sum() / (40 * 39)
    assert distance == pytest.approx((2 * across - first - second) / (2 * across))
    assert 0 < p_value <= 1
    assert _draws.energy_test(x, y + 3, 300, rng)[1] == pytest.approx(1 / 301)


def test_no_p_value_is_zero():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    assert _draws.energy_test(x, x + 9, 99, rng)[1] == 0.01
    discrepancy, threshold, p_value = _draws.stein_test(_draws.stein_kernel(x, 3 - x), 99, 0.05, rng)
    assert p_value == 0.01
    assert discrepancy > threshold


def test_the_stein_discrepancy_is_that_of_scaled_log_ratios():
    """Pair by pair from the definition: the kernel's Stein operator in both arguments, by numerical derivatives."""
    theta = exact(1, chains=1, draws=6)[0] ** [1, 1, 1, 9]  # one direction far wider than the others
    theta /= theta.sum(axis=1, keepdims=True)
    scale = np.linalg.cholesky(np.cov(np.log(theta) @ _draws.basis(4), rowvar=False, bias=True))
    points = np.linalg.solve(scale, (np.log(theta) @ _draws.basis(4)).T).T

    def log_density(z):
        weights = np.exp(_draws.basis(4) @ (scale @ z))
        return PRIOR @ np.log(weights / weights.sum())

    def kernel(x, y):
        return (1 + np.sum((x - y) ** 2) / 3) ** -0.5

    def both(x, y):
        sx, sy = (approx_fprime(z, log_density, 1e-6) for z in (x, y))
        dx, dy = approx_fprime(x, lambda z: kernel(z, y), 1e-6), approx_fprime(y, lambda z: kernel(x, z), 1e-6)
        steps = 1e-4 * np.eye(3)
        cross = [
            kernel(x + e, y + e) - kernel(x + e, y - e) - kernel(x - e, y + e) + kernel(x - e, y - e) for e in steps
        ]
        return sx @ sy * kernel(x, y) + sx @ dy + sy @ dx + sum(cross) / 4e-8

    expected = np.sqrt(np.mean([both(x, y) for x in points for y in points]))
    long = np.tile(theta, (4, 41, 1))
    result = diagnostics.compare({"nuts": tree(long)}, max_points=24, resamples=9)
    # The 24 draws have each point four times. The covariance is over n − 1 = 983 instead of n.
    assert result.stein_discrepancy.item() == pytest.approx(expected, rel=0.005)


def test_tests_keep_their_level():
    rng = np.random.default_rng(1)
    pairs = [rng.normal(size=(2, 40, 2)) for _ in range(300)]
    p_values = np.array([_draws.energy_test(x, y, 99, rng)[1] for x, y in pairs])
    assert 0.02 < np.mean(p_values <= 0.05) < 0.085
    kernels = [_draws.stein_kernel(x, -x) for x, _ in pairs]
    found = np.array([_draws.stein_test(kernel, 99, 0.05, rng) for kernel in kernels])
    assert 0.015 < np.mean(found[:, 2] <= 0.05) < 0.1
    assert 0.015 < np.mean(found[:, 0] > found[:, 1]) < 0.1


def test_flips_that_change_nothing_are_no_evidence_in_any_batch():
    """All ties count against the observed discrepancy, and each of the resamples counts once."""
    p_value = _draws.stein_test(np.zeros((5, 5)), 2 * _draws.BATCH + 10, 0.01, np.random.default_rng(1))[2]
    assert p_value == 1.0


def test_samplers_are_run_on_the_posterior_of_the_reference(caplog):
    known = references.load("srr_two")
    result = diagnostics.compare({"mine": samplers.exact, "wide": samplers.half, "bad": samplers.missing}, known)
    assert result.verdict.to_series().to_dict() == {
        "mine": "indistinguishable",
        "wide": "biased",
        "reference": "reference",
    }
    (record,) = caplog.records
    assert "'bad': sampler 'missing' must return finite draws" in record.getMessage()
    with refuses("draws"):
        diagnostics.compare({"mine": 3}, known)
    with refuses("draws"):
        diagnostics.compare({"mine": "gibbs", "nuts": tree(exact(0), prior=None)})
