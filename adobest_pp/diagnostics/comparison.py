"""Are the draws right? Compare samplers with a reference, with the truth, and with the posterior density.

A comparison of one sampler makes many tests. Four families share its probability of a false alarm, `FALSE_ALARM`,
equally: the location of all categories, their scale, the energy distance and the Stein discrepancy. Within the first
two the K categories share it equally (Bonferroni), so the level holds whatever the dependence between them.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from adobest_pp._checks import check_integer, check_probabilities
from adobest_pp._text import brief
from adobest_pp.answers.draws import responses_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics.draws import (
    TAILS,
    Draws,
    check_on_simplex,
    coefficient_scores,
    energy_test,
    in_order,
    independent,
    is_regression,
    log_ratios,
    normal_scores,
    rank_tests,
    read,
    read_coefficients,
    scale_of,
    scores,
    stein_holds_for,
    stein_kernel,
    stein_test,
    wasserstein,
)
from adobest_pp.diagnostics.references import Reference
from adobest_pp.intervals import shortest_intervals
from adobest_pp.likelihood.marginal import log_likelihood
from adobest_pp.samplers.checks import MIXED, Level, converged_level, logger
from adobest_pp.samplers.registry import resolve
from adobest_pp.samplers.sampling import sample

# The probability that correct, well-mixed draws are called biased, per sampler (`python -m validation.error_rates`).
FALSE_ALARM, FAMILIES = 0.01, 4
FAMILY_LEVEL = FALSE_ALARM / FAMILIES

# A Monte-Carlo standard error is itself an estimate: errors in its units follow Student's t rather than the normal
# distribution, with one degree of freedom for about this many effective draws (measured on autoregressive chains).
ESS_PER_FREEDOM = 8.0

# A ratio of standard deviations with a larger relative error than this is not shown.
MAX_SD_MCSE = 0.15

# A test of the joint distribution needs at least this many independent points.
FEWEST_POINTS = 20
# Categories whose draws are ranked at a time.
TOGETHER = 256


class Verdict(StrEnum):
    """The verdict of `compare` on a sampler: the values of its variable ``verdict``."""

    REFERENCE = "reference"
    REFERENCE_NOT_CONVERGED = "reference_not_converged"
    INDISTINGUISHABLE = "indistinguishable"
    BIASED = "biased"
    NOT_MIXED = "not_mixed"
    NO_VERDICT = "no_verdict"  # the sampler has mixed, but the reference has not converged


class Fault(StrEnum):
    """The reason for a verdict: the values of the variable ``fault``."""

    NONE = ""
    STUCK = "stuck"  # the draws of a category are all equal
    SINGLE_CHAIN = "single_chain"  # a single chain has no R-hat
    R_HAT = "r_hat"
    ESS = "ess"
    MARGINAL = "marginal"  # the location or the scale of a category
    ENERGY = "energy"
    STEIN = "stein"


# The values of the worst location and scale if none is beyond its limit.
NO_DIFFERENCE = {
    f"{test}_{part}": none
    for test in ("location", "scale")
    for part, none in (("category", ""), ("measure", ""), ("size", np.nan))
}


def error_limit(n_categories: int, ess: float) -> float:
    """Return the largest error of one of K locations or scales that passes, in Monte-Carlo standard errors."""
    return float(student.isf(FAMILY_LEVEL / n_categories / 2, _freedom(ess)))


def p_value(errors: NDArray[np.float64], ess: float) -> float:
    """Return the p-value of the largest of K errors, which are in Monte-Carlo standard errors."""
    worst = float(np.max(np.abs(errors)))
    return float(np.minimum(1.0, 2 * len(errors) * student.sf(worst, _freedom(ess))))


def _freedom(ess: float) -> float:
    return max(ess / ESS_PER_FREEDOM, 1.0)


def mixing_fault(row: Mapping[str, Any], level: Level = MIXED) -> Fault:
    """Return why ``r_hat`` and ``ess_bulk`` do not reach a level of convergence."""
    if np.isnan(row["ess_bulk"]):
        return Fault.STUCK
    if np.isnan(row["r_hat"]):
        return Fault.SINGLE_CHAIN
    if row["r_hat"] > level.max_r_hat:
        return Fault.R_HAT
    return Fault.ESS if row["ess_bulk"] < level.min_ess else Fault.NONE


def judge_reference(row: Mapping[str, Any], n_categories: int) -> dict[str, Any]:
    """Return the verdict on the reference, as `judge` does."""
    fault = mixing_fault(row, converged_level(n_categories))
    if not fault and row["stein_p_value"] <= FAMILY_LEVEL:
        fault = Fault.STEIN
    verdict = Verdict.REFERENCE_NOT_CONVERGED if fault else Verdict.REFERENCE
    return {"verdict": verdict, "fault": fault, **NO_DIFFERENCE}


def judge(row: Mapping[str, Any], categories: Sequence[str], converged: bool) -> dict[str, Any]:
    """Return the verdict on a sampler, its fault, and the category and size of the worst location and scale.

    Unless the reference has converged, only the mixing can be judged.
    """
    if fault := mixing_fault(row):
        return {"verdict": Verdict.NOT_MIXED, "fault": fault, **NO_DIFFERENCE}
    if not converged:
        return {"verdict": Verdict.NO_VERDICT, "fault": Fault.NONE, **NO_DIFFERENCE}
    differences = _farthest(row, "location", "mean_shift", np.asarray, categories)
    differences |= _farthest(row, "scale", "sd_ratio", np.log, categories)
    if differences:
        fault = Fault.MARGINAL
    elif row["energy_p_value"] <= FAMILY_LEVEL:
        fault = Fault.ENERGY
    elif row["stein_p_value"] <= FAMILY_LEVEL:
        fault = Fault.STEIN
    verdict = Verdict.BIASED if fault else Verdict.INDISTINGUISHABLE
    return {"verdict": verdict, "fault": fault, **NO_DIFFERENCE, **differences}


def _farthest(
    row: Mapping[str, Any], test: str, moment: str, distance: Callable[[Any], Any], categories: Sequence[str]
) -> dict[str, Any]:
    """Return the category that is farthest beyond the limit of a test, and how far it is; nothing if none is.

    The size is that of the moment of θ if this is known well enough and has the same sign as the test; otherwise it is
    the test's own.
    """
    beyond = np.abs(row[f"{test}_error"]) > row["error_limit"]
    if not beyond.any():
        return {}
    sizes = distance(row[test])
    worst = int(np.argmax(np.where(beyond, np.abs(sizes), -np.inf)))
    known = row["sd_ratio_mcse"][worst] <= MAX_SD_MCSE and distance(row[moment][worst]) * sizes[worst] > 0
    measure = moment if known else test
    return {
        f"{test}_category": categories[worst],
        f"{test}_measure": measure,
        f"{test}_size": float(row[measure][worst]),
    }


MOST_RESAMPLES = 1_000_000
TOO_FEW = f"fewer than {FEWEST_POINTS} independent draws"

# Long name and units of each variable of the result.
MEANINGS = {
    "mean": ("posterior mean", "probability"),
    "sd": ("posterior standard deviation", "probability"),
    "mean_shift": ("difference of means to the reference", "standard deviations of the reference"),
    "sd_ratio": ("standard deviation over that of the reference", "1"),
    "sd_ratio_mcse": ("Monte-Carlo standard error of ln sd_ratio", "1"),
    "location": ("difference of the means of normal scores to the reference", "1"),
    "location_error": ("location", "Monte-Carlo standard errors"),
    "scale": ("standard deviation of normal scores over that of the reference", "1"),
    "scale_error": ("ln scale", "Monte-Carlo standard errors"),
    "location_p_value": ("p-value of the largest location_error of K categories", "1"),
    "scale_p_value": ("p-value of the largest scale_error of K categories", "1"),
    "error_limit": ("largest location_error and scale_error that passes", "Monte-Carlo standard errors"),
    "wasserstein": ("Wasserstein-1 distance to the reference", "probability"),
    "tail_error": ("largest difference of the 5 % and 95 % quantiles", "standard deviations of the reference"),
    "tv_reference": ("total variation of the posterior mean to that of the reference", "probability"),
    "tv_truth": ("total variation of the posterior mean to the truth", "probability"),
    "coverage": ("share of true frequencies within the shortest 95 % intervals of the draws", "1"),
    "energy_distance": ("energy distance to the reference, as a share of the mean distance", "1"),
    "energy_p_value": ("permutation p-value of the energy distance", "1"),
    "stein_discrepancy": ("kernel Stein discrepancy to the posterior density", "1"),
    "stein_threshold": ("Stein discrepancy that correct draws exceed with the probability stein_level", "1"),
    "stein_p_value": ("wild-bootstrap p-value of the Stein discrepancy", "1"),
    "energy_missing": ("why the energy distance was not computed; empty where it was", ""),
    "stein_missing": ("why the Stein discrepancy was not computed; empty where it was", ""),
    "ess_bulk": ("smallest bulk effective sample size of a category", "draws"),
    "ess_tail": ("smallest tail effective sample size of a category", "draws"),
    "r_hat": ("largest rank-normalized split R-hat of a category", "1"),
    "ess_per_second": ("smallest bulk effective sample size per second", "1/s"),
    "wall_time": ("sampling time", "s"),
    "verdict": (f"one of {', '.join(Verdict)}", ""),
    "fault": (f"what the verdict rests on: one of {', '.join(filter(None, Fault))}, or nothing", ""),
    "location_category": ("category of the largest location beyond its limit", ""),
    "location_measure": ("variable of location_size: mean_shift, or location where mean_shift is uncertain", ""),
    "location_size": ("difference of location_category to the reference", "of location_measure"),
    "scale_category": ("category of the largest scale beyond its limit", ""),
    "scale_measure": ("variable of scale_size: sd_ratio, or scale where sd_ratio is uncertain", ""),
    "scale_size": ("ratio of scale_category to the reference", "1"),
}
BY_CATEGORY = (
    *("mean", "sd", "mean_shift", "sd_ratio", "sd_ratio_mcse", "location", "location_error", "scale", "scale_error"),
    *("wasserstein", "tail_error"),
)


def compare(
    draws: Mapping[str, Any],
    reference: str | Reference | xr.DataTree = "nuts",
    truth: ArrayLike | None = None,
    max_points: int = 500,
    resamples: int = 1999,
    random_seed: int = 0,
) -> xr.Dataset:
    """Grade samplers of one posterior against a reference sampler, the truth, and the posterior density.

    Parameters
    ----------
    draws : mapping of str to DataTree or sampler
        Draws of `sample`, or any tree with ``posterior/theta`` by chain, draw and category: probabilities that sum to
        1 over the categories. The Stein discrepancy needs the responses (the group ``responses``) and the attribute
        ``prior_concentration`` of the reference, or of another of the trees; `sample` stores both. Trees that have
        their own must agree. Times need the attribute ``sampling_time`` of each tree. In place of a tree, a sampler, as
        `sample` takes it, makes 4 chains of 1000 draws of the posterior of the reference; one that fails is left out,
        with a warning that says why.
    reference : str or Reference or DataTree, default "nuts"
        The name of the sampler that the others are compared with; or what `references.load` returns, or another tree.
        The result calls these ``"reference"``.
    truth : array of shape (K,), optional
        The true frequencies, by label (of xarray or pandas) or in the order of the categories of the first draws.
    max_points : int, default 500
        The most draws of each sampler that the tests of the joint distribution use; their cost grows with the square.
    resamples : int, default 1999
        Permutations and random sign flips in these tests. No p-value is below 1/(1 + resamples).
    random_seed : int, default 0
        Seed of the permutations and signs.

    Returns
    -------
    xarray.Dataset
        By sampler and category: ``mean``, ``sd``, ``mean_shift``, ``sd_ratio`` and its error, ``location`` and
        ``scale`` by ranks and their errors, ``wasserstein``, ``tail_error``. By sampler: ``tv_reference``,
        ``tv_truth``, ``coverage`` (of `intervals.shortest_intervals`; NaN without truth), p-values of location and
        scale with their ``error_limit``, ``energy_distance`` and its p-value, ``stein_discrepancy`` with threshold and
        p-value, ``ess_bulk``, ``ess_tail``, ``r_hat``, ``ess_per_second`` and ``wall_time``. Where a discrepancy or
        distance could not be computed its values are NaN, and ``stein_missing`` or ``energy_missing`` says why.

        Also by sampler, the ``verdict`` (a value of `diagnostics.Verdict`), the ``fault`` that it rests on (a value of
        `diagnostics.Fault`), and for a marginal fault the worst location and scale: ``location_category``,
        ``location_measure`` and ``location_size``, ``scale_category``, ``scale_measure`` and ``scale_size``.
        `diagnostics.verdict_in_words` makes a sentence of them. The attributes of each variable give its meaning and
        units; those of the dataset give the settings and limits.

    Notes
    -----
    **Verdicts.** A sampler is ``not_mixed`` if its R-hat is above 1.05 or its bulk ESS below 100; a reference has not
    converged if its R-hat is above 1.01 or its bulk ESS below 400. Correct draws of well-mixed chains are called
    ``biased`` with a probability of about 1 % at most. Location, scale, the energy distance and the Stein discrepancy
    share this probability equally, and the categories share the parts of location and of scale. ``biased`` is about
    significance, not size: many draws reveal a bias of 0.02 sd, so look at the size, too.
    `python -m validation.error_rates` measures false alarms and power.

    **Location and scale** are tested on normal scores. The draws are ranked together with those of the reference, and
    the ranks are mapped to normal quantiles. Their errors are known even for categories that may be empty, where the
    errors of moments are not. The verdict gives the size as the difference of means and the ratio of standard
    deviations of θ where ``sd_ratio_mcse`` is small and both point the same way, and that of normal scores otherwise.

    **A regression** is compared by its coefficients. If the reference has ``posterior/coefficient`` by chain, draw,
    term and contrast, as from `regression_model`, the others must have it, too, and the result has the dimension
    ``coefficient`` in place of ``category``. The Stein discrepancy needs the responses, ``constant_data/covariates``
    and the attribute ``prior_sd`` of the reference.

    **Joint distribution.** The energy distance (of normal scores) and the Stein discrepancy use half as many draws as
    are effective, at most `max_points`, evenly spaced, because their tests need independent draws. The Stein kernel
    acts on isometric log-ratios, scaled by the covariance of the reference. The discrepancy is not computed without
    responses or prior, under the prior ``"learned"`` (the density of θ has no closed form), and where more than 1 % of
    the draws of a category are too small to have a logarithm. Neither is computed from fewer than 20 independent draws.

    See Also
    --------
    calibration : The same question over many data sets.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> trees = {seed: ad.sample(responses, "gibbs", random_seed=seed) for seed in (1, 2)}
    >>> result = ad.diagnostics.compare({"one": trees[1], "two": trees[2]}, reference="one")
    >>> result.verdict.values.tolist()
    ['reference', 'indistinguishable']
    """
    draws, reference = _named_reference(draws, reference)
    draws = _sampled(draws, reference, random_seed)
    tree = draws.get(reference) if isinstance(draws, Mapping) and isinstance(reference, str) else None
    of_coefficients = isinstance(tree, xr.DataTree) and is_regression(tree)
    if of_coefficients and truth is not None:
        raise ValueError("truth must be left out for a regression, got one: it is for shares")
    samplers = read_coefficients(draws, tree) if tree is not None and of_coefficients else read(draws)
    if not isinstance(reference, str) or reference not in samplers:
        raise ValueError(f"reference must be one of {', '.join(map(repr, samplers))}, got {brief(reference)}")
    if not of_coefficients:
        for one in samplers.values():
            check_on_simplex(one)
    most = check_integer(max_points, "max_points", FEWEST_POINTS)
    repeats = check_integer(resamples, "resamples", 1, MOST_RESAMPLES)
    seed = check_integer(random_seed, "random_seed", 0)
    base = samplers[reference]
    posterior = _one_posterior(samplers, base)
    theta_star = None if truth is None else check_probabilities(truth, len(base.categories), "truth", base.categories)

    rows = {}
    for (name, one), rng in zip(samplers.items(), np.random.default_rng(seed).spawn(len(samplers)), strict=True):
        rows[name] = _mixing(one) | _against_truth(one, theta_star)
        rows[name] |= _against_reference(one, base, most, repeats, rng)
        rows[name] |= _stein(one, base, posterior, most, repeats, rng)
    judged = judge_reference(rows[reference], len(base.categories))
    for name, row in rows.items():
        row |= judged if name == reference else judge(row, base.categories, judged["verdict"] is Verdict.REFERENCE)
    settings = {"reference": reference, "max_points": most, "resamples": repeats, "random_seed": seed}
    result = _dataset(rows, base.categories, settings)
    if not of_coefficients:
        return result
    result["tv_reference"][:] = np.nan  # coefficients are no probabilities
    return result.rename(category="coefficient")


def _named_reference(draws: Any, reference: Any) -> tuple[Any, Any]:
    """Return the draws, with a separate reference among them, and the name of the reference."""
    tree = reference.draws if isinstance(reference, Reference) else reference
    if not isinstance(tree, xr.DataTree) or not isinstance(draws, Mapping):
        return draws, reference
    if "reference" in draws:
        raise ValueError("draws must not use the name 'reference' if reference is not one of them, got 'reference'")
    return {**draws, "reference": tree}, "reference"


def _sampled(draws: Any, reference: Any, seed: int) -> Any:
    """Return the draws, with each sampler replaced by its draws from the posterior of the reference."""
    if not isinstance(draws, Mapping) or all(isinstance(each, xr.DataTree) for each in draws.values()):
        return draws
    base = draws.get(reference)
    responses = responses_of(base) if isinstance(base, xr.DataTree) else None
    prior = base.attrs.get("prior_concentration") if isinstance(base, xr.DataTree) else None
    made = {}
    for name, each in draws.items():
        if isinstance(each, xr.DataTree):
            made[name] = each
            continue
        try:
            sampler = resolve(each)
        except ValueError as problem:
            raise ValueError(f"draws[{name!r}] must be a tree of draws or a sampler: {problem}") from None
        if responses is None or prior is None:
            raise ValueError(
                f"draws[{name!r}] must be a tree, got the sampler {sampler.name!r}: the reference does not have the "
                "responses and the prior of shares that it would sample"
            )
        try:
            made[name] = sample(responses, sampler, prior, random_seed=seed, progressbar=False)
        except Exception as problem:
            logger.warning("compare leaves out %r: %s", name, problem)
    return made


class _Posterior(NamedTuple):
    """The posterior of all samplers: the responses, and the prior in the order of their categories.

    For a regression, the prior is its sd, and there are covariates.
    """

    responses: Responses | Gathered
    prior: NDArray[np.float64] | str
    covariates: NDArray[np.float64] | None = None

    def coordinates(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points without a boundary, in which the density is known: coefficients, or log-ratios of θ."""
        return theta if self.covariates is not None else log_ratios(theta)

    def slopes(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient of the log-density with respect to the coordinates."""
        assert not isinstance(self.prior, str)
        if self.covariates is None:
            return scores(theta, self.responses.evidence(), self.prior)
        assert isinstance(self.responses, Responses)
        return coefficient_scores(theta, self.responses, self.covariates, self.prior.item())


def _one_posterior(samplers: Mapping[str, Draws], base: Draws) -> _Posterior | None:
    """Return the posterior of the reference, or else of other draws; raise ValueError if two of them differ."""
    draws = [base, *(one for one in samplers.values() if one is not base)]
    responses = next((one.responses for one in draws if one.responses is not None), None)
    prior = next((one.prior for one in draws if one.prior is not None), None)
    for one in draws:
        if responses is not None and one.responses is not None and not _same_evidence(one.responses, responses):
            raise ValueError(f"draws must all have the same responses, got different ones for {one.name!r}")
        if prior is not None and one.prior is not None and not np.array_equal(prior, one.prior):
            raise ValueError(f"draws must all be under the same prior, got {one.prior} for {one.name!r}")
    if responses is None or prior is None:
        return None
    if base.covariates is not None:
        return _Posterior(responses, prior, base.covariates)
    return _Posterior(
        responses, prior if isinstance(prior, str) else in_order(prior, base.categories, responses.categories)
    )


def _same_evidence(one: Responses | Gathered, other: Responses | Gathered) -> bool:
    """Tell whether two sets of responses are equal; if the order of categories differs, by their likelihoods."""
    if one.categories == other.categories:
        return one.evidence() == other.evidence()
    theta = np.random.default_rng(0).dirichlet(np.ones(one.n_categories), size=8)
    values = [
        [log_likelihood(row, each.evidence()) for row in in_order(theta, one.categories, each.categories)]
        for each in (one, other)
    ]
    # Equal log-likelihoods may differ by a constant.
    first, second = (np.subtract(each, each[0]) for each in values)
    return len(one) == len(other) and bool(np.allclose(first, second, rtol=1e-9, atol=1e-9))


def _by_blocks(one: Draws, base: Draws, most: int) -> tuple[dict[str, Any], list[NDArray[np.float64]]]:
    """Return the measures by category, and normal scores of both samplers that are nearly independent.

    Blocks of categories bound the memory, which would be ten times that of the draws.
    """
    rows, points = [], []
    for start in range(0, len(base.categories), TOGETHER):
        block = (..., slice(start, start + TOGETHER))
        theta = one.theta[block]
        right = theta if one is base else base.theta[block]
        first, second = normal_scores(np.clip(theta, *one.resolved), np.clip(right, *one.resolved))
        if one is base:
            second = first  # so that it is not measured twice
        else:
            points.append([independent(first, one.effective, most), independent(second, base.effective, most)])
        rows.append(_marginals(theta, right) | rank_tests(first, second)._asdict())
    found = {name: np.concatenate([np.atleast_1d(row[name]) for row in rows]) for name in rows[0]}
    found["ess"] = found["ess"].min()
    return found, [np.concatenate(parts, axis=1) for parts in zip(*points, strict=True)]


def _marginals(theta: NDArray[np.float64], right: NDArray[np.float64]) -> dict[str, Any]:
    """Return the measures of draws (chain, draw, category) against others, on which no verdict depends."""
    known = [_moments(theta)]
    known.append(known[0] if right is theta else _moments(right))
    (flat, mean, sd, tails, mcse), (right_flat, right_mean, right_sd, right_tails, right_mcse) = known
    shift = mean - right_mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "mean": mean,
            "sd": sd,
            "shift": shift,
            "mean_shift": shift / right_sd,
            "sd_ratio": sd / right_sd,
            "sd_ratio_mcse": np.hypot(mcse, right_mcse),
            "wasserstein": wasserstein(flat, right_flat),
            "tail_error": np.abs(tails - right_tails).max(axis=0) / right_sd,
        }


def _moments(theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return the draws in one row, their mean, sd and quantiles, and the error of the sd relative to it."""
    flat = theta.reshape(-1, theta.shape[-1])
    sd = flat.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mcse = array_stats.mcse(theta, 0, 1, method="sd") / sd
    return flat, flat.mean(axis=0), sd, np.quantile(flat, TAILS, axis=0), mcse


def _against_reference(one: Draws, base: Draws, most: int, repeats: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the measures by category, tests of location and scale, and the energy distance of all together."""
    row, points = _by_blocks(one, base, most)
    row["tv_reference"] = 0.5 * np.abs(row.pop("shift")).sum()
    ess = row.pop("ess")
    row |= {f"{name}_p_value": p_value(row[f"{name}_error"], ess) for name in ("location", "scale")}
    row["error_limit"] = error_limit(len(base.categories), ess)
    if one is base:
        return row | {"energy_distance": 0.0, "energy_p_value": np.nan, "energy_missing": ""}
    if min(map(len, points)) < FEWEST_POINTS:
        return row | {"energy_distance": np.nan, "energy_p_value": np.nan, "energy_missing": TOO_FEW}
    distance, chance = energy_test(points[0], points[1], repeats, rng)
    return row | {"energy_distance": distance, "energy_p_value": chance, "energy_missing": ""}


def _mixing(one: Draws) -> dict[str, float]:
    mixed = one.mixing
    ess = float(mixed["ess_bulk"].min())
    return {
        "ess_bulk": ess,
        "ess_tail": float(mixed["ess_tail"].min()),
        "r_hat": float(mixed["r_hat"].max()),
        "ess_per_second": ess / one.wall_time if one.wall_time > 0 else np.nan,
        "wall_time": one.wall_time,
    }


def _against_truth(one: Draws, truth: NDArray[np.float64] | None) -> dict[str, float]:
    if truth is None:
        return {"tv_truth": np.nan, "coverage": np.nan}
    low, high = shortest_intervals(one.flat)
    return {
        "tv_truth": float(0.5 * np.abs(one.flat.mean(axis=0) - truth).sum()),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
    }


def _stein(
    one: Draws, base: Draws, posterior: _Posterior | None, most: int, repeats: int, rng: np.random.Generator
) -> dict[str, Any]:
    names = ("stein_discrepancy", "stein_threshold", "stein_p_value")
    theta = independent(one.theta, one.effective, most)
    if posterior is None:
        missing = "no responses or no prior with the draws"
    elif isinstance(posterior.prior, str):
        missing = "no closed form under a learned prior"
    elif len(theta) < FEWEST_POINTS:
        missing = TOO_FEW
    elif posterior.covariates is None and not stein_holds_for(one.flat):
        missing = "draws too small to have a logarithm"
    else:
        order = base.categories if posterior.covariates is not None else posterior.responses.categories
        scaling = base if base.effective >= MIXED.min_ess else one
        theta, spread = (in_order(part, base.categories, order) for part in (theta, scaling.flat))
        scale = scale_of(posterior.coordinates(spread))
        points = np.linalg.solve(scale, posterior.coordinates(theta).T).T
        slopes = posterior.slopes(theta) @ scale
        tested = stein_test(stein_kernel(points, slopes), repeats, FAMILY_LEVEL, rng)
        return dict(zip(names, tested, strict=True)) | {"stein_missing": ""}
    return dict.fromkeys(names, np.nan) | {"stein_missing": missing}


def _dataset(rows: Mapping[str, dict[str, Any]], categories: Sequence[str], settings: dict[str, Any]) -> xr.Dataset:
    variables = {}
    for name, (meaning, units) in MEANINGS.items():
        dims = ("sampler", "category") if name in BY_CATEGORY else ("sampler",)
        attributes = {"long_name": meaning, "units": units}
        variables[name] = (dims, np.array([row[name] for row in rows.values()]), attributes)
    attributes = settings | {
        "false_alarm": FALSE_ALARM,
        "energy_level": FAMILY_LEVEL,
        "stein_level": FAMILY_LEVEL,
        "max_r_hat": MIXED.max_r_hat,
        "min_ess": MIXED.min_ess,
        "max_reference_r_hat": converged_level(len(categories)).max_r_hat,
        "min_reference_ess": converged_level(len(categories)).min_ess,
    }
    return xr.Dataset(variables, {"sampler": list(rows), "category": list(categories)}, attributes)
