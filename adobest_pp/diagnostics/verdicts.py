"""The limits of `compare`, in one place, and the verdicts that follow from them.

A comparison of one sampler makes many tests. Four families share its probability of a false alarm, `FALSE_ALARM`,
equally: the location of all categories, their scale, the energy distance and the Stein discrepancy. Within the first
two the K categories share it equally (Bonferroni), so the level holds whatever the dependence between them.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from adobest_pp.samplers.checks import CONVERGED, MIXED, Level

# The probability that right, well-mixed draws are called biased, per sampler (`python -m validation.error_rates`).
FALSE_ALARM = 0.01
FAMILIES = 4

# A Monte-Carlo standard error is itself an estimate: errors in its units follow Student's t rather than the normal
# distribution, with one degree of freedom for about this many effective draws (measured on autoregressive chains).
ESS_PER_FREEDOM = 8.0

# A ratio of standard deviations with a larger relative error than this is not shown.
MAX_SD_MCSE = 0.15

# A test of the joint distribution needs at least this many independent points.
FEWEST_POINTS = 20


class Verdict(StrEnum):
    """What `compare` finds of a sampler: the values of its variable ``verdict``."""

    REFERENCE = "reference"
    REFERENCE_NOT_CONVERGED = "reference_not_converged"
    INDISTINGUISHABLE = "indistinguishable"
    BIASED = "biased"
    NOT_MIXED = "not_mixed"
    NO_VERDICT = "no_verdict"  # the sampler has mixed, but the reference has not converged


class Fault(StrEnum):
    """What a verdict rests on: the values of the variable ``fault``."""

    NONE = ""
    STUCK = "stuck"  # the draws of a category are all equal
    SINGLE_CHAIN = "single_chain"  # which has no R-hat
    R_HAT = "r_hat"
    ESS = "ess"
    MARGINAL = "marginal"  # the location or the scale of a category
    ENERGY = "energy"
    STEIN = "stein"


# The figures of the worst location and scale, if none is beyond its limit.
NO_DIFFERENCE = {
    f"{test}_{part}": none
    for test in ("location", "scale")
    for part, none in (("category", ""), ("measure", ""), ("size", np.nan))
}


def family_level() -> float:
    """Return the level of each family of tests."""
    return FALSE_ALARM / FAMILIES


def error_limit(n_categories: int, ess: float) -> float:
    """Return the largest error of one of K locations or scales that passes, in Monte-Carlo standard errors.

    Parameters
    ----------
    n_categories : int
        Number of categories K, each of which is tested.
    ess : float
        The smallest effective sample size that the errors rest on.
    """
    return float(student.isf(family_level() / n_categories / 2, _freedom(ess)))


def p_value(errors: NDArray[np.float64], ess: float) -> float:
    """Return the p-value of the largest of K errors, in Monte-Carlo standard errors: the level at which it passes."""
    worst = float(np.max(np.abs(errors)))
    return float(np.minimum(1.0, 2 * len(errors) * student.sf(worst, _freedom(ess))))


def _freedom(ess: float) -> float:
    return max(ess / ESS_PER_FREEDOM, 1.0)


def mixing_fault(row: Mapping[str, Any], level: Level = MIXED) -> Fault:
    """Return what keeps ``r_hat`` and ``ess_bulk`` below a level of convergence."""
    if np.isnan(row["ess_bulk"]):
        return Fault.STUCK
    if np.isnan(row["r_hat"]):
        return Fault.SINGLE_CHAIN
    if row["r_hat"] > level.max_r_hat:
        return Fault.R_HAT
    return Fault.ESS if row["ess_bulk"] < level.min_ess else Fault.NONE


def judge_reference(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on the reference, as `judge` does."""
    fault = mixing_fault(row, CONVERGED)
    if not fault and row["stein_p_value"] <= family_level():
        fault = Fault.STEIN
    verdict = Verdict.REFERENCE_NOT_CONVERGED if fault else Verdict.REFERENCE
    return {"verdict": verdict, "fault": fault, **NO_DIFFERENCE}


def judge(row: Mapping[str, Any], categories: Sequence[str], converged: bool) -> dict[str, Any]:
    """Return the verdict on a sampler, its fault, and the category and size of the worst location and scale.

    Parameters
    ----------
    row : mapping of str to float or array of shape (K,)
        What `compare` measured of the sampler.
    categories : sequence of str
        The labels of the arrays.
    converged : bool
        Whether the reference has converged. Otherwise nothing but the mixing can be judged.
    """
    if fault := mixing_fault(row):
        return {"verdict": Verdict.NOT_MIXED, "fault": fault, **NO_DIFFERENCE}
    if not converged:
        return {"verdict": Verdict.NO_VERDICT, "fault": Fault.NONE, **NO_DIFFERENCE}
    differences = _farthest(row, "location", "mean_shift", np.asarray, categories)
    differences |= _farthest(row, "scale", "sd_ratio", np.log, categories)
    if differences:
        fault = Fault.MARGINAL
    elif row["energy_p_value"] <= family_level():
        fault = Fault.ENERGY
    elif row["stein_p_value"] <= family_level():
        fault = Fault.STEIN
    verdict = Verdict.BIASED if fault else Verdict.INDISTINGUISHABLE
    return {"verdict": verdict, "fault": fault, **NO_DIFFERENCE, **differences}


def _farthest(
    row: Mapping[str, Any], test: str, moment: str, distance: Callable[[Any], Any], categories: Sequence[str]
) -> dict[str, Any]:
    """Return the category that is farthest beyond the limit of a test, and how far it is; nothing if none is.

    The size is the moment of θ where that is known and on the same side as the test, and the test's own otherwise.
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
