"""The limits of `compare`, in one place, and the words that it finds.

A comparison of one sampler makes many tests. Its chance of a false alarm, `FALSE_ALARM`, is shared equally by four
families: the location of all categories, their scale, the energy distance and the Stein discrepancy; and within the
first two equally by the K categories (Bonferroni), whatever the dependence between them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

# The probability that right, well-mixed draws are called biased, per sampler (`python -m validation.error_rates`).
FALSE_ALARM = 0.01
FAMILIES = 4

# A sampler beyond these has not mixed, and nothing else can be said of it. Rank-normalized split R-hat and bulk ESS.
MAX_R_HAT = 1.05
MIN_ESS = 100.0

# A reference is held to what Vehtari et al. (2021) ask of draws that one reports from.
MAX_REFERENCE_R_HAT = 1.01
MIN_REFERENCE_ESS = 400.0

# A Monte-Carlo standard error is itself an estimate: errors in its units follow Student's t rather than the normal
# distribution, with about one degree of freedom for so many effective draws (measured on autoregressive chains).
ESS_PER_FREEDOM = 8.0

# A ratio of standard deviations with a larger relative error than this describes nothing.
MAX_SD_MCSE = 0.15

# With fewer independent points a test of the joint distribution says nothing.
FEWEST_POINTS = 20

SAME = "indistinguishable from the reference"
UNKNOWN = "no verdict: the reference has not converged"


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


@dataclass(frozen=True, eq=False)
class Findings:
    """What the verdict on one sampler rests on; arrays by category."""

    categories: tuple[str, ...]
    location: NDArray[np.float64]  # of normal scores
    location_error: NDArray[np.float64]  # in Monte-Carlo standard errors
    scale: NDArray[np.float64]  # of normal scores
    scale_error: NDArray[np.float64]  # of its logarithm, in Monte-Carlo standard errors
    mean_shift: NDArray[np.float64]  # in units of the reference sd
    sd_ratio: NDArray[np.float64]
    sd_ratio_mcse: NDArray[np.float64]  # of its logarithm
    energy_p_value: float
    stein_p_value: float
    r_hat: float
    ess_bulk: float
    error_limit: float


def mixing_fault(r_hat: float, ess: float, max_r_hat: float = MAX_R_HAT, min_ess: float = MIN_ESS) -> str:
    """Return what is wrong with the mixing in words, or nothing."""
    if np.isnan(ess):
        return "draws that do not move"
    if np.isnan(r_hat):
        return "R-hat unknown of a single chain"
    if r_hat > max_r_hat:
        return f"R-hat {r_hat:.2f}" if r_hat >= max_r_hat + 0.005 else f"R-hat {r_hat:.3f}"
    return f"ESS {ess:.0f}" if ess < min_ess else ""


def verdict(found: Findings) -> str:
    """Return the verdict on a sampler against a reference that has converged."""
    fault = mixing_fault(found.r_hat, found.ess_bulk)
    if fault:
        return f"not mixed: {fault}"
    faults = list(_marginal_faults(found))
    if not faults and found.energy_p_value <= family_level():
        faults = [f"joint distribution differs (energy distance, p = {found.energy_p_value:.2g})"]
    if not faults and found.stein_p_value <= family_level():
        faults = [f"not the posterior (Stein discrepancy, p = {found.stein_p_value:.2g})"]
    return f"biased: {', '.join(faults)}" if faults else SAME


def reference_verdict(r_hat: float, ess: float, stein_p_value: float) -> str:
    """Return the verdict on the reference itself."""
    fault = mixing_fault(r_hat, ess, MAX_REFERENCE_R_HAT, MIN_REFERENCE_ESS)
    if not fault and stein_p_value <= family_level():
        fault = f"Stein discrepancy, p = {stein_p_value:.2g}"
    return f"reference not converged: {fault}" if fault else "reference"


def _marginal_faults(found: Findings) -> list[str]:
    """Return the worst location and the worst scale in words, of θ where its moments are known and say the same."""
    known = found.sd_ratio_mcse <= MAX_SD_MCSE
    faults = []
    worst = _largest(np.abs(found.location), np.abs(found.location_error) > found.error_limit)
    if worst is not None:
        shift, label = found.mean_shift[worst], found.categories[worst]
        if known[worst] and shift * found.location[worst] > 0:
            faults.append(f"mean off by {abs(shift):.2g} sd in {label}")
        else:
            faults.append(f"normal scores off by {abs(found.location[worst]):.2g} in {label}")
    worst = _largest(np.abs(np.log(found.scale)), np.abs(found.scale_error) > found.error_limit)
    if worst is not None:
        ratio, label = found.sd_ratio[worst], found.categories[worst]
        if known[worst] and np.log(ratio) * np.log(found.scale[worst]) > 0:
            faults.append(f"sd {ratio:.2f}× in {label}")
        else:
            faults.append(f"sd of normal scores {found.scale[worst]:.2f}× in {label}")
    return faults


def _largest(sizes: NDArray[np.float64], eligible: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(np.where(eligible, sizes, -np.inf))) if eligible.any() else None
