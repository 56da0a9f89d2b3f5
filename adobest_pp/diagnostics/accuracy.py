"""Are the draws right? Samplers against a reference, against the truth, and against the posterior density itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_probabilities
from adobest_pp.diagnostics import _verdicts as verdicts
from adobest_pp.diagnostics._distances import energy_test, wasserstein
from adobest_pp.diagnostics._draws import TAILS, Draws, independent, read
from adobest_pp.diagnostics._stein import log_ratios, scale_of, scores, stein_kernel, stein_test
from adobest_pp.intervals import shortest_intervals

__all__ = ["compare"]

# Dimensions and units of the results: (long name, units).
MEANINGS = {
    "mean": ("posterior mean", "probability"),
    "sd": ("posterior standard deviation", "probability"),
    "mean_error": ("difference of means to the reference", "Monte-Carlo standard errors"),
    "mean_shift": ("difference of means to the reference", "standard deviations of the reference"),
    "sd_ratio": ("standard deviation over that of the reference", "1"),
    "sd_error": ("difference of ln sd to the reference", "Monte-Carlo standard errors"),
    "error_limit": ("largest mean_error and sd_error that passes", "Monte-Carlo standard errors"),
    "wasserstein": ("Wasserstein-1 distance to the reference", "probability"),
    "tail_error": ("largest difference of the 5 % and 95 % quantiles", "standard deviations of the reference"),
    "tv_reference": ("total variation of the posterior mean to that of the reference", "probability"),
    "tv_truth": ("total variation of the posterior mean to the truth", "probability"),
    "coverage": ("share of true frequencies within their 95 % intervals, as they are shown", "1"),
    "energy_distance": ("energy distance to the reference, as a share of the mean distance", "1"),
    "energy_p_value": ("permutation p-value of the energy distance", "1"),
    "stein_discrepancy": ("kernel Stein discrepancy to the posterior density", "1"),
    "stein_threshold": ("Stein discrepancy that right draws exceed with the probability stein_level", "1"),
    "stein_p_value": ("wild-bootstrap p-value of the Stein discrepancy", "1"),
    "ess_bulk": ("smallest bulk effective sample size of a category", "draws"),
    "ess_tail": ("smallest tail effective sample size of a category", "draws"),
    "r_hat": ("largest rank-normalized split R-hat of a category", "1"),
    "ess_per_second": ("smallest bulk effective sample size per second", "1/s"),
    "wall_time": ("sampling time", "s"),
    "verdict": ("verdict", ""),
}
BY_CATEGORY = ("mean", "sd", "mean_error", "mean_shift", "sd_ratio", "sd_error", "wasserstein", "tail_error")


def compare(
    draws: Mapping[str, xr.DataTree],
    reference: str = "nuts",
    truth: ArrayLike | None = None,
    max_points: int = 500,
    resamples: int = 1999,
    random_seed: int = 0,
) -> xr.Dataset:
    """Grade samplers of one posterior against a reference, against the truth and against the density itself.

    Parameters
    ----------
    draws : mapping of str to DataTree
        Draws of `sample`, or any tree with ``posterior/theta`` by chain, draw and category. The Stein discrepancy
        needs the responses (``observed_data``) and the attribute ``prior``, as `sample` leaves them there, and times
        the attribute ``sampling_time``; without them they are NaN, and so is the discrepancy under the prior
        ``"learned"``, whose density of θ has no closed form.
    reference : str, default "nuts"
        The name of those to hold the others to.
    truth : array of shape (K,), optional
        The true frequencies, in the order of the categories of the first draws.
    max_points : int, default 500
        The most draws of each sampler that the tests of the joint distribution use, at the cost of their square.
    resamples : int, default 1999
        Permutations and random signs of these tests: no p-value is below 1/(1 + resamples).
    random_seed : int, default 0
        Chooses them.

    Returns
    -------
    xarray.Dataset
        By sampler and category: ``mean``, ``sd``, ``mean_error``, ``mean_shift``, ``sd_ratio``, ``sd_error``,
        ``wasserstein``, ``tail_error``. By sampler: ``tv_reference``, ``tv_truth``, ``coverage`` (of
        `adobest_pp.intervals`; NaN without truth), ``error_limit``, ``energy_distance`` and its p-value,
        ``stein_discrepancy`` with threshold and p-value, ``ess_bulk``, ``ess_tail``, ``r_hat``, ``ess_per_second``,
        ``wall_time`` and a ``verdict`` in words.
        Every variable tells its meaning and units in its attributes; settings and limits are in those of the dataset.

    Notes
    -----
    Right draws of well-mixed chains are called biased with a probability of about 1 %, shared equally by the means,
    the standard deviations, the energy distance and the Stein discrepancy, and within the first two by the
    categories. A verdict is one of significance, not of size: with many draws a bias of 0.02 sd is found, and its
    size is told. Chains beyond R-hat 1.05 or with a bulk ESS below 100 are "not mixed" and no more is said; a
    reference is held to 1.01 and 400.

    The energy distance and the Stein discrepancy take half as many draws as are effective (at most `max_points`),
    evenly spaced, so that they are independent as their tests require. Distances are between frequencies in units
    of the reference's standard deviations; the Stein kernel acts on isometric log-ratios, scaled by the covariance
    of the reference.

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
    ['reference', 'indistinguishable from the reference']
    """
    samplers = read(draws)
    if reference not in samplers:
        raise ValueError(f"reference must be one of {', '.join(map(repr, samplers))}, got {reference!r}")
    most = check_integer(max_points, "max_points", verdicts.FEWEST_POINTS)
    repeats = check_integer(resamples, "resamples", 1)
    seed = check_integer(random_seed, "random_seed", 0)
    base = samplers[reference]
    _check_one_posterior(samplers, base)
    theta_star = None if truth is None else check_probabilities(truth, len(base.categories))

    rows = []
    for one, rng in zip(samplers.values(), np.random.default_rng(seed).spawn(len(samplers)), strict=True):
        row = _marginals(one, base) | _mixing(one) | _against_truth(one, theta_star)
        row["tv_reference"] = 0.5 * np.abs(row["mean"] - base.flat.mean(axis=0)).sum()
        row["error_limit"] = verdicts.error_limit(len(base.categories), min(one.effective, base.effective))
        row |= _energy(one, base, most, repeats, rng) | _stein(one, base, most, repeats, rng)
        rows.append(row)
    _judge(rows, list(samplers), base)
    return _dataset(
        rows, samplers, base, {"reference": reference, "max_points": most, "resamples": repeats, "random_seed": seed}
    )


def _check_one_posterior(samplers: Mapping[str, Draws], base: Draws) -> None:
    for one in samplers.values():
        if base.responses is None or one.responses is None or base.responses.categories != one.responses.categories:
            continue
        if one.responses.evidence() != base.responses.evidence():
            raise ValueError(f"draws must all be given the same responses, got others for {one.name!r}")
        if base.prior is not None and one.prior is not None and not np.array_equal(base.prior, one.prior):
            raise ValueError(f"draws must all be under the same prior, got {one.prior} for {one.name!r}")


def _marginals(one: Draws, base: Draws) -> dict[str, Any]:
    """Return what is compared category by category."""
    flat, right = one.flat, base.flat
    sd, right_sd = flat.std(axis=0), right.std(axis=0)
    shift = flat.mean(axis=0) - right.mean(axis=0)
    quantiles = np.quantile(flat, TAILS, axis=0) - np.quantile(right, TAILS, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_mcse, sd_mcse = (_combined_mcse(one, base, kind) for kind in ("mean", "sd"))
        return {
            "mean": flat.mean(axis=0),
            "sd": sd,
            "mean_error": np.where(shift == 0, 0.0, shift / mean_mcse),
            "mean_shift": shift / right_sd,
            "sd_ratio": sd / right_sd,
            "sd_error": np.where(sd == right_sd, 0.0, np.log(sd / right_sd) / sd_mcse),
            "wasserstein": wasserstein(flat, right),
            "tail_error": np.abs(quantiles).max(axis=0) / right_sd,
        }


def _combined_mcse(one: Draws, base: Draws, kind: str) -> NDArray[np.float64]:
    """Return the standard error of the difference of means, or of the logarithms of sds."""
    squares = []
    for part in (one, base):
        error = array_stats.mcse(part.theta, 0, 1, method=kind)
        squares.append((error / part.flat.std(axis=0) if kind == "sd" else error) ** 2)
    return np.asarray(np.sqrt(squares[0] + squares[1]))


def _mixing(one: Draws) -> dict[str, float]:
    ess = float(one.ess_bulk.min())
    return {
        "ess_bulk": ess,
        "ess_tail": float(one.ess_tail.min()),
        "r_hat": float(one.r_hat.max()),
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


def _energy(one: Draws, base: Draws, most: int, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    if one is base:
        return {"energy_distance": 0.0, "energy_p_value": np.nan}
    unit = base.flat.std(axis=0)
    first, second = (independent(part, most) / np.where(unit > 0, unit, 1.0) for part in (one, base))
    if min(len(first), len(second)) < verdicts.FEWEST_POINTS:
        return {"energy_distance": np.nan, "energy_p_value": np.nan}
    distance, p_value = energy_test(first, second, repeats, rng)
    return {"energy_distance": distance, "energy_p_value": p_value}


def _stein(one: Draws, base: Draws, most: int, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the Stein discrepancy, where the draws come with what defines their posterior."""
    names = ("stein_discrepancy", "stein_threshold", "stein_p_value")
    theta = independent(one, most)
    if one.responses is None or not isinstance(one.prior, np.ndarray) or len(theta) < verdicts.FEWEST_POINTS:
        return dict.fromkeys(names, np.nan)
    scaling = base if base.effective >= verdicts.MIN_ESS else one
    theta, spread = one.by_response_order(theta), one.by_response_order(scaling.flat)
    scale = scale_of(spread)
    points = np.linalg.solve(scale, log_ratios(theta).T).T
    slopes = scores(theta, one.responses.evidence(), one.prior) @ scale
    return dict(
        zip(names, stein_test(stein_kernel(points, slopes), repeats, verdicts.family_level(), rng), strict=True)
    )


def _judge(rows: list[dict[str, Any]], names: list[str], base: Draws) -> None:
    """Add the verdicts."""
    of_base = rows[names.index(base.name)]
    word = verdicts.reference_verdict(of_base["r_hat"], of_base["ess_bulk"], of_base["stein_p_value"])
    for row in rows:
        fault = verdicts.mixing_fault(row["r_hat"], row["ess_bulk"])
        if row is of_base:
            row["verdict"] = word
        elif word != "reference":
            row["verdict"] = f"not mixed: {fault}" if fault else verdicts.UNKNOWN
        else:
            parts = {name: row[name] for name in verdicts.Findings.__dataclass_fields__ if name in row}
            row["verdict"] = verdicts.verdict(verdicts.Findings(categories=base.categories, **parts))


def _dataset(
    rows: list[dict[str, Any]], samplers: Mapping[str, Draws], base: Draws, settings: dict[str, Any]
) -> xr.Dataset:
    variables = {}
    for name, (meaning, units) in MEANINGS.items():
        dims = ("sampler", "category") if name in BY_CATEGORY else ("sampler",)
        attributes = {"long_name": meaning, "units": units}
        variables[name] = (dims, np.array([row[name] for row in rows]), attributes)
    attributes = settings | {
        "false_alarm": verdicts.FALSE_ALARM,
        "energy_level": verdicts.family_level(),
        "stein_level": verdicts.family_level(),
        "max_r_hat": verdicts.MAX_R_HAT,
        "min_ess": verdicts.MIN_ESS,
        "max_reference_r_hat": verdicts.MAX_REFERENCE_R_HAT,
        "min_reference_ess": verdicts.MIN_REFERENCE_ESS,
    }
    return xr.Dataset(variables, {"sampler": list(samplers), "category": list(base.categories)}, attributes)
