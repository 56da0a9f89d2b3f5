"""Words for results. Terminal, report, JSON and figures use them, and no code parses them."""

import math
from typing import TYPE_CHECKING, Any

from adobest_pp._text import brief

if TYPE_CHECKING:
    import xarray as xr

SAMPLERS = {
    "nuts": "NUTS",
    "gibbs": "Gibbs sampling",
    "sgld": "SGLD with the paper's steps",
    "sgld_cv": "SGLD with control variates",
    "blocks": "moves of blocks",
}
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

# For commands that read everybody's true answers from a file.
CENTRAL = (
    "A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or "
    "for data that you hold anyway."
)

# What the words for intervals that begin at zero mean.
UP_TO = "“Up to” and “below”: the answers cannot tell the share from zero; with “up to”, zero fits them best."

# For each cause of an error: its name, the counterfactual without it, and the name and verb of that counterfactual.
CAUSES = {
    "not_mixed": ("chains that have not mixed", "longer", "{times_longer} times as many updates", "repair"),
    "gradient_noise": ("the noise of its gradients", "control_variates", "control variates", "repair"),
    "discretization": ("the length of its steps", "halved_steps", "steps half as long", "repair"),
    "boundary": ("reflection at zero", "preconditioned", "the preconditioned diffusion", "repairs"),
    "rest": ("what the counterfactuals do not explain", "", "", ""),
}
# Shares of the error below this are not mentioned.
LEAST_SHARE = 0.05
# A counterfactual within this distance, in sds of the reference, is said to repair a run.
REPAIRED = 0.15


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
    verdict = row["verdict"].item()
    text = VERDICTS[verdict].format(fault=fault_in_words(row))
    return text + (_missing_in_words(row) if verdict in ("reference", "indistinguishable") else "")


def _missing_in_words(row: "xr.Dataset") -> str:
    """Return which tests are missing from a good verdict, and why."""
    tests = {"energy distance": "energy_missing", "Stein discrepancy": "stein_missing"}
    reasons = {test: str(row[name].item()) if name in row else "" for test, name in tests.items()}
    parts = [f"{test} not computed: {why}" for test, why in reasons.items() if why]
    return f" ({'; '.join(parts)})" if parts else ""


def explanation_in_words(explanation: "xr.Dataset", name: str = "SGLD") -> str:
    """Return why a run does not sample the posterior, in one sentence.

    Parameters
    ----------
    explanation : xarray.Dataset
        The result of `diagnostics.explain`.
    name : str
        What to call the sampler.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=3.0), [0] * 300 + [1] * 200)
    >>> tree = ad.sample(responses, "nuts", random_seed=1)
    >>> ad.diagnostics.explanation_in_words(ad.diagnostics.explain(tree, responses), "NUTS")
    'NUTS samples the posterior.'
    """
    import xarray as xr

    if not isinstance(explanation, xr.Dataset) or "main_cause" not in explanation:
        raise ValueError(f"explanation must be a result of diagnostics.explain, got {brief(explanation)}")
    cause = explanation["main_cause"].item()
    if cause not in CAUSES:
        return f"{name} samples the posterior."
    _, other, called, repairs = CAUSES[cause]
    text = f"{name} does not sample the posterior: it is {_distance(explanation.sel(counterfactual='run'))}"
    text += _shares(explanation)
    tried = [other] if other and explanation["squared_error"].sel(counterfactual=other) < float("inf") else []
    for run in (explanation.sel(counterfactual=one) for one in tried):
        means = called.format(times_longer=explanation["times_longer"].item())
        repaired = run["squared_error"] <= REPAIRED**2
        text += f"; {means} {repairs} it" if repaired else f"; with {means} it is {_distance(run)}"
    return f"{text}."


def _shares(explanation: "xr.Dataset") -> str:
    """Return the causes of the squared error, the largest share first."""
    shares = explanation["share"].to_series().reindex([*CAUSES])
    large = shares[shares >= LEAST_SHARE].sort_values(ascending=False)
    causes = {CAUSES[str(cause)][0]: float(share) for cause, share in large.items()}
    if len(causes) > 1:
        parts = [f"{100 * share:.0f} % from {cause}" for cause, share in causes.items()]
        parts[0] = parts[0].replace("from", "comes from", 1)
        return f"; of its squared error, {', '.join(parts[:-1])} and {parts[-1]}"
    main = explanation["main_cause"].item()
    if main == "rest" and not explanation.attrs.get("is_recorded", True):
        return ", and as its settings are not recorded, no other run can tell why"
    return ", and the counterfactuals do not explain it" if main == "rest" else f" because of {CAUSES[main][0]}"


def _distance(run: "xr.Dataset") -> str:
    """Return how far a run is from the reference, by its width or its mean, whichever is farther off."""
    excess, shift = run["sd_ratio"] - 1, run["mean_shift"]
    if (excess**2).mean() >= (shift**2).mean():
        ratio = float((run["sd_ratio"] ** 2).mean() ** 0.5)
        return f"{ratio:.2g} times too wide" if ratio >= 1 else f"{ratio:.2g} times as wide as it should be"
    return f"{float((shift**2).mean() ** 0.5):.2g} sd off"


def fault_in_words(row: "xr.Dataset") -> str:
    """Return the reason for the verdict on one sampler in words; empty if there is no fault."""
    fault = row["fault"].item()
    if fault == "marginal":
        return ", ".join(filter(None, (_difference(row, "location"), _difference(row, "scale"))))
    figures: dict[str, Any] = {str(name): value.item() for name, value in row.items() if value.ndim == 0}
    # The limits are 1.01 and 1.05. A value just beyond a limit must not be rounded to it.
    figures["digits"] = 3 if figures.get("r_hat", 0.0) < 1.06 else 2
    return FAULTS[fault].format(**figures)


def _difference(row: "xr.Dataset", test: str) -> str:
    category, measure, size = (row[f"{test}_{part}"].item() for part in ("category", "measure", "size"))
    return DIFFERENCES[measure].format(category=category, size=abs(size)) if measure else ""


def budget_in_words(epsilon: float) -> list[str]:
    """Return a sentence on what ε means for one person, and one on what asking twice costs."""
    factor, twice = math.exp(epsilon), math.exp(2 * epsilon)
    chance = 100 * factor / (1 + factor)
    return [
        f"ε = {epsilon:.3g} for one person: whoever sees the answer, and whatever they knew before, the odds of any "
        f"guess about the person rise or fall by a factor of at most e^ε = {factor:.3g}; from 1:1 to at most "
        f"{factor:.3g}:1, or {_below_one(chance)} %.",
        f"Asking the same person twice costs 2ε = {2 * epsilon:.3g}: a factor of at most {twice:.3g}.",
    ]


def guess_in_words(with_answer: float, without: float, most: float) -> str:
    """Return a sentence on how well a person's category can be guessed from one answer.

    Parameters
    ----------
    with_answer, without, most : float
        Probabilities that the guess is right: `Mechanism.best_guess`, the largest share, and `guess_bound`.
    """
    return (
        "Whoever knows these shares and sees one answer guesses the person's category right with a probability of "
        f"{_below_one(100 * with_answer)} %; without the answer it is {_below_one(100 * without)} %, and no mechanism "
        f"of this ε allows more than {_below_one(100 * most)} %."
    )


def _below_one(percent: float) -> str:
    """Return a share below 100 % with enough digits that it is not rounded to 100 %."""
    return next((text for text in (f"{percent:.{i}f}" for i in range(14)) if float(text) < 100), f"{percent:.13f}")


def sampler_in_words(name: str) -> str:
    """Return the name of a sampler of `sample` for a sentence. Other names are returned as they are."""
    return SAMPLERS.get(name, name)


def prior_in_words(prior: float | str) -> str:
    """Return a prior for a sentence."""
    if isinstance(prior, str):
        return "a prior that learns how uneven the shares are"
    return f"the prior Dirichlet({prior:g})"


def intervals_in_words(estimate: "xr.Dataset") -> list[str]:
    """Return the intervals of a result of `intervals.summary`, as a table shows them.

    An interval that begins at zero is ``up to 1.3 %`` if an empty category fits the answers better than any share, and
    ``below 1.3 %`` otherwise.
    """
    ends = zip(estimate["lower"].values, estimate["upper"].values, strict=True)
    empty = estimate["may_be_empty"].values if "may_be_empty" in estimate else [False] * estimate["lower"].size
    return [interval_in_words(low, high, may_be_empty=is_) for (low, high), is_ in zip(ends, empty, strict=True)]


def percent(share: Any) -> str:
    """Return a share as all tables and pages show it: ``12.1 %``, or ``0.012 %`` where one decimal would show zero."""
    return f"{_digits(share)} %"


def _digits(share: Any) -> str:
    value = 100 * float(share)
    decimals = 1 - math.floor(math.log10(value)) if 1e-5 <= value < 0.05 else 1
    return f"{value:.{decimals}f}"


def interval_in_words(lower: float, upper: float, *, may_be_empty: bool = False) -> str:
    """Return an interval as a table shows it: ``12.1 – 15.0 %``, ``below 1.3 %`` or ``at least 97.2 %``.

    An interval that begins at zero is ``up to 1.3 %`` if the category may be empty; see `intervals_in_words`.
    """
    low, high = _digits(lower), _digits(upper)
    if lower <= 0 < 1 <= upper:
        return "0 – 100 %"
    if lower <= 0:
        if upper < 0.0005:
            return "below 0.1 %"
        return f"up to {high} %" if may_be_empty else f"below {high} %"
    if upper >= 1:
        return f"at least {low} %" if lower < 0.9995 else "above 99.9 %"
    return f"{low} – {high} %"


def share_in_words(share: float, lower: float, upper: float) -> str:
    """Return a share and its interval for readers who are not statisticians, as people out of 100 or 1,000.

    The interval is rounded outward, so the words never claim more than is known.
    """
    of = 100 if upper >= 0.05 else 1000
    low, about, high = math.floor(of * lower + 1e-9), round(of * share), math.ceil(of * upper - 1e-9)
    people = f"of {of:,} people"
    if lower <= 0 and upper >= 1:
        return "the answers do not tell"
    if lower <= 0:
        return f"at most {high} {people}"
    if upper >= 1:
        return f"at least {low} {people}"
    return f"about {about} {people} ({low} to {high})"


def range_in_words(lower: float, upper: float) -> str:
    """Return an interval for a sentence: ``12.1 % to 15.0 %``, or as in a table if it has only one end."""
    return interval_in_words(lower, upper).replace(" – ", " % to ")


# The columns of the table of verdicts after the sampler and its verdict: the variable, its heading and its format.
FIGURES = {
    "tv_reference": ("TV to {reference}", ".3f"),
    "tv_truth": ("TV to truth", ".3f"),
    "coverage": ("coverage", ".0%"),
    "r_hat": ("R-hat", ".2f"),
    "ess_bulk": ("ESS", ".0f"),
    "ess_per_second": ("ESS/s", ".0f"),
    "wall_time": ("seconds", ".2f"),
}


def verdict_columns(reference: str = "nuts") -> list[str]:
    """Return the headings of the table of verdicts, given the sampler that the others are compared with."""
    title = "NUTS" if reference == "nuts" else reference
    return ["sampler", "verdict", *(heading.format(reference=title) for heading, _ in FIGURES.values())]


def verdict_cells(comparison: "xr.Dataset", name: str) -> list[str]:
    """Return the figures of one sampler in the order of `verdict_columns`, with a dash for each unknown one."""
    row = comparison.sel(sampler=name)
    alone = comparison.sizes["sampler"] == 1 and row["verdict"].item() == "reference"
    values = ((float(row[name]), form) for name, (_, form) in FIGURES.items())
    figures = [format(value, form) if abs(value) < float("inf") else "–" for value, form in values]
    return [str(row["sampler"].item()), "converged" if alone else verdict_in_words(row), *figures]


def most_sure(epsilon: float) -> str:
    """Return how sure one can be of one of two answers that were equally likely before, rounded up."""
    percent = 100 / (1 + math.exp(-epsilon))
    rounded = [math.ceil(percent * 10**digits - 1e-9) / 10**digits for digits in range(14)]
    return next((f"{each:.{i}f} %" for i, each in enumerate(rounded) if each < 100), "100 %")
