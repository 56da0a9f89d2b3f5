"""Words for results. Terminal, report, JSON and figures all take them from here, and nothing reads them back."""

from typing import TYPE_CHECKING, Any

from adobest_pp._text import brief

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["fault_in_words", "interval_in_words", "prior_in_words", "range_in_words", "verdict_in_words"]

VERDICTS = {
    "reference": "reference",
    "reference_not_converged": "reference not converged: {fault}",
    "indistinguishable": "indistinguishable from the reference",
    "biased": "biased: {fault}",
    "not_mixed": "not mixed: {fault}",
    "no_verdict": "no verdict: the reference has not converged",
}
FAULTS = {
    "": "",
    "stuck": "the draws of a category are all equal",
    "single_chain": "a single chain has no R-hat",
    "r_hat": "R-hat {r_hat:.{digits}f}",
    "ess": "ESS {ess_bulk:.0f}",
    "energy": "joint distribution differs (energy distance, p = {energy_p_value:.2g})",
    "stein": "not the posterior (Stein discrepancy, p = {stein_p_value:.2g})",
}
DIFFERENCES = {
    "mean_shift": "mean off by {size:.2g} sd in {category}",
    "location": "normal scores off by {size:.2g} in {category}",
    "sd_ratio": "sd {size:.2f}× in {category}",
    "scale": "sd of normal scores {size:.2f}× in {category}",
}


def verdict_in_words(row: "xr.Dataset") -> str:
    """Return the verdict on one sampler in words.

    Parameters
    ----------
    row : xarray.Dataset
        One sampler of what `diagnostics.compare` returned: ``comparison.sel(sampler="sgld")``.

    Examples
    --------
    >>> import xarray as xr
    >>> from adobest_pp.diagnostics import verdict_in_words
    >>> verdict_in_words(xr.Dataset({"verdict": "not_mixed", "fault": "ess", "ess_bulk": 80.0}))
    'not mixed: ESS 80'
    """
    import xarray as xr

    is_row = isinstance(row, xr.Dataset) and all(name in row and not row[name].ndim for name in ("verdict", "fault"))
    if not is_row or row["verdict"].item() not in VERDICTS:
        raise ValueError(f"row must be one sampler of a result of diagnostics.compare, got {brief(row)}")
    return VERDICTS[row["verdict"].item()].format(fault=fault_in_words(row))


def fault_in_words(row: "xr.Dataset") -> str:
    """Return what the verdict on one sampler rests on in words; nothing where there is no fault."""
    fault = row["fault"].item()
    if fault == "marginal":
        return ", ".join(filter(None, (_difference(row, "location"), _difference(row, "scale"))))
    figures: dict[str, Any] = {str(name): value.item() for name, value in row.items() if value.ndim == 0}
    # The limits are 1.01 and 1.05: a value just beyond one must not be rounded to it.
    figures["digits"] = 3 if figures.get("r_hat", 0.0) < 1.06 else 2
    return FAULTS[fault].format(**figures)


def _difference(row: "xr.Dataset", test: str) -> str:
    category, measure, size = (row[f"{test}_{part}"].item() for part in ("category", "measure", "size"))
    return DIFFERENCES[measure].format(category=category, size=abs(size)) if measure else ""


def prior_in_words(prior: float | str) -> str:
    """Return a prior as a part of a sentence."""
    if isinstance(prior, str):
        return "a prior that learns how uneven the shares are"
    return f"the prior Dirichlet({prior:g})"


def interval_in_words(lower: float, upper: float) -> str:
    """Return an interval as a table shows it: ``12.1 – 15.0 %``, ``up to 1.3 %`` or ``at least 97.2 %``."""
    low, high = (f"{100 * end:.1f}" for end in (lower, upper))
    if lower <= 0 < 1 <= upper:
        return "0 – 100 %"
    if lower <= 0:
        return f"up to {high} %" if upper >= 0.0005 else "below 0.1 %"
    if upper >= 1:
        return f"at least {low} %" if lower < 0.9995 else "above 99.9 %"
    return f"{low} – {high} %"


def range_in_words(lower: float, upper: float) -> str:
    """Return an interval as a sentence shows it: ``12.1 % to 15.0 %``, or as in a table where it has one end."""
    return interval_in_words(lower, upper).replace(" – ", " % to ")
