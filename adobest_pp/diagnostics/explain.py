"""Why do draws of SGLD differ from the posterior? Split their error with counterfactual runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp._wording import verdict_in_words
from adobest_pp.answers.draws import responses_of, shares_of, theta_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics.comparison import Verdict, compare, mixing_fault
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.evidence import Evidence
from adobest_pp.intervals import shortest_intervals
from adobest_pp.samplers.checks import BIASED, CONVERGED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sampling import recorded_arguments, sample

# Names of the result.

RUNS = ("run", "longer", "full_gradient", "halved_steps", "preconditioned", "control_variates")

MEANINGS = {
    "main_cause": "what most of the error comes from",
    "part": "part of the squared error of the run",
    "part_mcse": "Monte-Carlo standard error of the part, at most",
    "share": "part over the squared error of the run",
    "squared_error": "mean of mean_shift² + (sd_ratio − 1)², without what Monte-Carlo error adds (with it for the run)",
    "squared_error_mcse": "Monte-Carlo standard error of squared_error, at most",
    "mean_shift": "difference of means to the reference, in standard deviations of the reference",
    "sd_ratio": "standard deviation over that of the reference",
    "r_hat": "largest rank-normalized split R-hat of a category",
    "ess_bulk": "smallest bulk effective sample size of a category",
    "may_be_empty": "whether the 95 % interval of the reference begins at zero",
    "times_longer": "updates of a counterfactual over those of the run",
    "noise_free": "gradient of the counterfactual full_gradient: full or control_variates",
    "verdict": "verdict of compare",
    "fault": "fault of compare",
}


class Cause(StrEnum):
    """Why draws are not from the posterior: the values of ``main_cause`` and of the coordinate ``cause``."""

    NONE = "at_the_posterior"
    NOT_MIXED = "not_mixed"
    GRADIENT_NOISE = "gradient_noise"
    DISCRETIZATION = "discretization"
    BOUNDARY = "boundary"
    REST = "rest"


# The error of draws.


@dataclass(frozen=True, eq=False)
class Errors:
    """How far the means and standard deviations of draws are from those of the reference, by category."""

    mean_shift: NDArray[np.float64]  # in standard deviations of the reference
    sd_ratio: NDArray[np.float64]
    noise: NDArray[np.float64]  # what the Monte-Carlo errors of both samples add to `squared` on average
    mcse: NDArray[np.float64]  # the Monte-Carlo standard error of `squared`
    r_hat: float  # the largest of a category
    ess_bulk: float  # the smallest of a category

    @property
    def raw(self) -> NDArray[np.float64]:
        """The squared 2-Wasserstein distance of two normal distributions, in sds of the reference."""
        return np.asarray(self.mean_shift**2 + (self.sd_ratio - 1) ** 2)

    @property
    def squared(self) -> NDArray[np.float64]:
        """The same without what Monte-Carlo error adds: zero on average for correct draws, so it may be negative."""
        return np.asarray(self.raw - self.noise)


def errors_of(theta: NDArray[np.float64], reference: NDArray[np.float64]) -> Errors:
    """Compare draws (chain, draw, K) with those of a reference."""
    sd, right_sd = (part.std(axis=(0, 1)) for part in (theta, reference))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = [array_stats.mcse(part, 0, 1, method="mean") / right_sd for part in (theta, reference)]
        spread = [array_stats.mcse(part, 0, 1, method="sd") / right_sd for part in (theta, reference)]
        shift = (theta.mean(axis=(0, 1)) - reference.mean(axis=(0, 1))) / right_sd
        ratio = sd / right_sd
    # An error in the reference's sd changes the ratio `ratio` times as much.
    spread[1] = spread[1] * ratio
    of_mean, of_ratio = (np.hypot(*parts) ** 2 for parts in (mean, spread))
    # The variance of (d + e)², e normal with variance v, is 4 d² v + 2 v².
    variance = 4 * shift**2 * of_mean + 2 * of_mean**2 + 4 * (ratio - 1) ** 2 * of_ratio + 2 * of_ratio**2
    mixed = mixing(theta)
    worst = {"r_hat": float(np.max(mixed["r_hat"])), "ess_bulk": float(np.min(mixed["ess_bulk"]))}
    return Errors(shift, ratio, of_mean + of_ratio, np.sqrt(variance), **worst)


# Counterfactuals: the settings of a run with one difference.

# The effective draws that every counterfactual should have; at most how many times the updates of the run it may make
# for that; and the most updates over all chains, which take a second or two. A run that has not mixed is made at least
# `LEAST_LONGER` times as long at any cost.
ENOUGH_ESS = CONVERGED.min_ess
MOST_LONGER, LEAST_LONGER = 16, 4
MOST_UPDATES = 1_000_000

# The most rows, members of sets and entries of patterns that a run on all evidence may visit, which takes seconds.
MOST_VISITS = 2_000_000_000


def longer(settings: Mapping[str, Any], ess: float, mixed: bool) -> tuple[dict[str, Any], int]:
    """Return the settings with more updates per draw, and by which factor."""
    updates = _updates(settings)
    wanted = MOST_LONGER if not ess >= ENOUGH_ESS / MOST_LONGER else int(np.ceil(ENOUGH_ESS / ess))
    times = max(min(wanted, MOST_UPDATES // updates), 1 if mixed else LEAST_LONGER)
    chains = max(settings["chains"], 2)  # one chain has no R-hat
    return dict(settings) | {"chains": chains, "updates_per_draw": times * settings["updates_per_draw"]}, times


def is_costly(settings: Mapping[str, Any], evidence: Evidence) -> bool:
    """Tell whether gradients of all evidence would take too long."""
    visits = evidence.n_rows + evidence.n_masses + evidence.members.size + evidence.patterns.size
    return _updates(settings) * visits > MOST_VISITS


def _updates(settings: Mapping[str, Any]) -> int:
    return int(settings["chains"] * (settings["draws"] + settings["tune"]) * settings["updates_per_draw"])


def with_half_steps(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with twice as many steps of half the length, for the same time of the diffusion."""
    steps = settings["schedule"]
    size = "step_size" if hasattr(steps, "step_size") else "scale"
    # For falling steps a/t^b, updates 2t − 1 and 2t together replace update t: each step is ½ a/(t/2)^b.
    factor = 0.5 * 2 ** getattr(steps, "power", 0.0)
    halved = replace(steps, **{size: factor * getattr(steps, size)})
    return dict(settings) | {"schedule": halved, "updates_per_draw": 2 * settings["updates_per_draw"]}


# The parts of the error, and the main cause.

# A part is a cause if it exceeds this many Monte-Carlo standard errors.
CLEARLY = 2.0

# Half the step has half the bias and a quarter of the squared error, so three quarters are removed.
BY_HALVING = 4 / 3


class Part(NamedTuple):
    """A part of the error, and its Monte-Carlo standard error."""

    size: float
    mcse: float


@dataclass(eq=False)
class Split:
    """The errors of a run and of its counterfactuals, and the parts of the error of the run."""

    errors: dict[str, Errors]
    parts: dict[Cause, Part] = field(default_factory=dict)
    times_longer: int = 1
    noise_free: str = "full"


def split_error(
    run: Errors,
    settings: dict[str, Any],
    again: Callable[[dict[str, Any]], Errors],
    evidence: Evidence,
    may_be_empty: NDArray[np.bool_],
) -> Split:
    """Split the error of a run of SGLD. `again` samples with other settings and returns the error."""
    found = Split({"run": run})
    errors, parts = found.errors, found.parts
    settings, found.times_longer = longer(settings, run.ess_bulk, mixed=not mixing_fault(vars(run)))
    at_length = errors["longer"] = run if found.times_longer == 1 else again(settings)
    # The error of the run itself keeps its Monte-Carlo part.
    parts[Cause.NOT_MIXED] = Part(float(np.mean(run.raw - at_length.squared)), float(np.mean(at_length.mcse)))
    if mixing_fault(vars(at_length)):
        return found
    if not _is_clear(at_length):  # nothing is left to split
        parts |= dict.fromkeys((Cause.GRADIENT_NOISE, Cause.DISCRETIZATION, Cause.BOUNDARY), Part(0.0, 0.0))
        return found

    full, anchored = at_length, settings | {"gradient": "control_variates"}
    if settings["batch_size"] is not None:
        if is_costly(settings, evidence):
            settings, found.noise_free = anchored, "control_variates"
        else:
            settings = settings | {"batch_size": None}
        full = again(settings)
    errors["full_gradient"] = full
    noise = parts[Cause.GRADIENT_NOISE] = _difference(at_length, full)
    if found.noise_free == "control_variates":
        errors["control_variates"] = full
    elif noise.size > CLEARLY * noise.mcse:
        errors["control_variates"] = again(anchored)

    halved = smooth = full
    factor = BY_HALVING
    if _is_clear(full):
        halved = smooth = errors["halved_steps"] = again(with_half_steps(settings))
        if may_be_empty.any() and settings["diffusion"] == "reflected":
            smooth = errors["preconditioned"] = again(settings | {"diffusion": "preconditioned"})
            factor = 1.0
    parts[Cause.DISCRETIZATION] = _difference(full, halved, ~may_be_empty, BY_HALVING)
    parts[Cause.BOUNDARY] = _difference(full, smooth, may_be_empty, factor)
    return found


def _is_clear(errors: Errors) -> bool:
    """Tell whether an error exceeds what Monte-Carlo error explains."""
    return bool(np.mean(errors.squared) > CLEARLY * np.mean(errors.mcse))


def _difference(first: Errors, second: Errors, where: NDArray[np.bool_] | None = None, factor: float = 1.0) -> Part:
    """Return by how much the second error is smaller, in some categories, times a factor."""
    if first is second:
        return Part(0.0, 0.0)
    some = np.ones(first.raw.size) if where is None else where
    size = np.mean(some * (first.squared - second.squared))
    return Part(factor * float(size), factor * float(np.mean(some * np.hypot(first.mcse, second.mcse))))


def _main_cause(parts: Mapping[Cause, Part], verdict: str) -> Cause:
    if verdict == Verdict.INDISTINGUISHABLE:
        return Cause.NONE
    clear = {cause: part.size for cause, part in parts.items() if part.size > CLEARLY * part.mcse}
    clear.pop(Cause.REST, None)
    if clear:
        return max(clear, key=lambda cause: clear[cause])
    return Cause.NOT_MIXED if verdict == Verdict.NOT_MIXED else Cause.REST


def explain(
    draws: xr.DataTree,
    responses: Responses | Gathered,
    reference: xr.DataTree | None = None,
    random_seed: int = 0,
    progressbar: bool = True,
    prior: ArrayLike | Literal["learned"] | None = None,
    var_name: str | None = None,
) -> xr.Dataset:
    """Split the error of a run of SGLD into not mixed, gradient noise, discretization and boundary.

    Parameters
    ----------
    draws : DataTree
        From ``sample(responses, "sgld", …)``, with the settings in the attributes. Draws of other samplers, and draws
        without recorded settings, such as those of `pymc.sample`, are only graded: the result has ``verdict``,
        ``fault`` and the error of the run, and ``main_cause`` is ``at_the_posterior``, ``not_mixed`` or ``rest``.
        Without recorded settings, `prior` or `reference` is required.
    responses : Responses or Gathered
        The responses that the draws were sampled from.
    reference : DataTree, optional
        Draws of the posterior under the same prior; by default NUTS is run. If your prior is not a Dirichlet, sample
        your model with ``pymc.sample`` for long enough, and pass that.
    random_seed : int, default 0
        Seed of the counterfactuals.
    progressbar : bool, default True
        Whether to show progress after two seconds.
    prior : float, array of shape (K,), dict by category or "learned", optional
        The Dirichlet prior, as in `sample`, of draws that do not record it.
    var_name : str, optional
        The variable with the shares, in such draws and in a reference that is not from `sample`; by default ``theta``,
        or the only one that sums to one along a dimension.

    Returns
    -------
    xarray.Dataset
        ``main_cause``, a value of `diagnostics.Cause`: ``at_the_posterior`` if the draws are indistinguishable from the
        reference; otherwise the largest part that is clearly above zero (two standard errors); ``rest`` if none is.
        ``verdict`` and ``fault``, as in `compare`.

        By cause: ``part``, its Monte-Carlo standard error ``part_mcse``, and ``share``, the part of the whole error.
        By counterfactual (``run`` is the run itself): ``squared_error`` and ``squared_error_mcse``, ``r_hat`` and
        ``ess_bulk``; also by category, ``mean_shift`` and ``sd_ratio``. A counterfactual that was not needed is NaN.
        By category: ``may_be_empty``. ``times_longer``: the updates of the counterfactuals over those of the run. The
        attribute ``is_recorded`` is 1 if the draws record their settings, else 0 (netCDF has no booleans).
        `diagnostics.explanation_in_words` makes a sentence of it.

    Notes
    -----
    **The error** of draws is the mean over categories of (difference of means)² + (ratio of sds − 1)², in standard
    deviations of the reference: the squared 2-Wasserstein distance of normal distributions. What Monte-Carlo error adds
    on average is subtracted (but not from the run, where it counts as not mixed), so correct draws have an error of
    zero on average. Standard errors assume that categories are perfectly correlated, which is the worst case.

    **The parts** are differences of this error, in this order:

    ``not_mixed``
        The run, less the same settings with more updates (up to 16 times as many). If that run has not mixed either,
        the other parts are unknown: NaN. If its error is within its Monte-Carlo error, nothing is left to split, and
        the other parts are zero.
    ``gradient_noise``
        This longer run, less the same with the gradient of all responses (or, if that takes too long, with control
        variates: ``noise_free`` says which).
    ``boundary``
        In the categories that may be empty (the 95 % interval of the reference begins at zero): the run with the full
        gradient, less the same with the preconditioned diffusion, which needs no slope at zero and whose steps shrink
        there. Halving the steps is not enough: reflection at zero, and the slope of the prior, which is evaluated no
        closer to zero than a step, leave an error that hardly falls as steps get shorter (by a fifth to a third of it
        for ρ = 0.1). For a run that is not reflected, 4/3 of what halving the step removes.
    ``discretization``
        In the other categories: 4/3 of the run with the full gradient, less the same with half the step and twice the
        updates. The bias of Euler's method is proportional to the step [1]_, so half the step has a quarter of the
        squared error.
    ``rest``
        The error of the run less all of these: interactions, errors of empty categories that move the others because
        shares sum to one, and a bias that is not proportional to the step.

    A part may be negative: one error can hide another. Parts depend on the order above; gradient noise is measured at
    the run's own step.

    References
    ----------
    .. [1] D. Talay and L. Tubaro, Expansion of the global error for numerical schemes solving stochastic differential
       equations, Stochastic Analysis and Applications 8 (1990).

    See Also
    --------
    compare : Whether the draws are right.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=3.0), [0] * 300 + [1] * 200)
    >>> tree = ad.sample(responses, "sgld", step_size=0.05, batch_size=None, random_seed=1)
    >>> explanation = ad.diagnostics.explain(tree, responses)
    >>> explanation.part.sel(cause="gradient_noise").item()  # every step used all answers
    0.0
    """
    if not isinstance(responses, Responses | Gathered) or len(responses) == 0:
        raise ValueError(f"responses must be a Responses with at least one answer, got {brief(responses)}")
    is_recorded = not isinstance(draws, xr.DataTree) or "posterior" not in draws.children or "sampler" in draws.attrs
    if is_recorded and not (prior is None and var_name is None):
        raise ValueError("prior and var_name must be left out for draws of `adobest_pp.sample`, which record theirs")
    if not is_recorded:
        if prior is None and reference is None:
            raise ValueError(
                "prior must be given, or reference, for draws that do not record theirs, as those of pymc.sample"
            )
        draws = _one_theta(draws, "draws", var_name, responses)
        reference = None if reference is None else _one_theta(reference, "reference", var_name, responses)
    theta_of(draws, "draws", responses.categories)
    known = responses_of(draws)
    if known is not None and known.categories == responses.categories and known.evidence() != responses.evidence():
        raise ValueError(f"responses must be those that the draws were sampled from, got {len(responses)} others")
    settings: dict[str, Any] = {"sampler": "", "prior": prior}
    if is_recorded:
        settings = recorded_arguments({str(name): value for name, value in draws.attrs.items()})
    settings["progressbar"] = False
    seeds = iter(np.random.SeedSequence(check_integer(random_seed, "random_seed", 0)).generate_state(8).tolist())
    with SlowProgress(len(RUNS), "Explaining", progressbar) as progress:

        def run(settings: dict[str, Any]) -> xr.DataTree:
            with without_warnings_of(NOT_CONVERGED, BIASED):  # the result reports both
                tree = sample(responses, **settings | {"random_seed": next(seeds)})
            progress.advance(1)
            return tree

        if reference is None:
            reference = run({"sampler": "nuts", "prior": settings["prior"], "draws": 2000, "progressbar": False})
        graded = compare({"run": draws, "reference": reference}, "reference")
        if graded["verdict"].sel(sampler="reference") != Verdict.REFERENCE:
            reason = verdict_in_words(graded.sel(sampler="reference"))
            raise ValueError(f"reference has not converged: {reason}")
        right = theta_of(reference, "reference", responses.categories).values
        may_be_empty = shortest_intervals(right.reshape(-1, right.shape[-1]))[0] == 0

        def errors(tree: xr.DataTree) -> Errors:
            return errors_of(theta_of(tree, "draws", responses.categories).values, right)

        found, row = Split({"run": errors(draws)}), graded.sel(sampler="run")
        if row["verdict"] != Verdict.INDISTINGUISHABLE:
            if settings["sampler"] == "sgld":
                found = split_error(
                    found.errors["run"], settings, lambda other: errors(run(other)), responses.evidence(), may_be_empty
                )
            rest = float(np.mean(found.errors["run"].raw)) - sum(part.size for part in found.parts.values())
            found.parts[Cause.REST] = Part(rest, sum(part.mcse for part in found.parts.values()))
    return _dataset(found, may_be_empty, row, responses).assign_attrs(is_recorded=int(is_recorded))


def _one_theta(tree: Any, name: str, var_name: str | None, responses: Responses | Gathered) -> xr.DataTree:
    """Return a tree of any model with its shares as ``posterior/theta``, or raise ValueError."""
    is_ours = isinstance(tree, xr.DataTree) and "sampler" in tree.attrs  # a reference may be
    shares = shares_of(tree, name, None if is_ours else var_name, responses.categories).draws
    further = [str(dim) for dim in shares.dims if dim not in ("chain", "draw", "category")]
    if further:
        one = ", ".join(f"{dim}=…" for dim in further)
        raise ValueError(
            f"{name} must have one vector of shares, got one for each {' and '.join(further)}: select one, as with "
            f"tree.sel({one}), and pass the responses of its people"
        )
    groups = {key: tree[key].to_dataset() for key in tree.children if key in ("responses", "sample_stats")}
    made = xr.DataTree.from_dict({"posterior": shares.to_dataset(name="theta"), **groups})
    made.attrs = dict(tree.attrs)
    return made


def _dataset(
    found: Split, may_be_empty: NDArray[np.bool_], row: xr.Dataset, responses: Responses | Gathered
) -> xr.Dataset:
    causes = [cause for cause in Cause if cause != Cause.NONE]
    parts = np.array([found.parts.get(cause, Part(np.nan, np.nan)) for cause in causes])
    whole = float(np.mean(found.errors["run"].raw))
    unknown = np.full(responses.n_categories, np.nan)
    missing = Errors(*(unknown,) * 4, np.nan, np.nan)
    runs = [found.errors.get(name, missing) for name in RUNS]
    squared = [np.mean(one.raw if name == "run" else one.squared) for name, one in zip(RUNS, runs, strict=True)]
    values: dict[str, tuple[Any, ...]] = {
        "main_cause": ((), str(_main_cause(found.parts, row["verdict"].item()))),
        "part": ("cause", parts[:, 0]),
        "part_mcse": ("cause", parts[:, 1]),
        "share": ("cause", parts[:, 0] / whole),
        "squared_error": ("counterfactual", squared),
        "squared_error_mcse": ("counterfactual", [np.mean(one.mcse) for one in runs]),
        "mean_shift": (("counterfactual", "category"), [one.mean_shift for one in runs]),
        "sd_ratio": (("counterfactual", "category"), [one.sd_ratio for one in runs]),
        "r_hat": ("counterfactual", [one.r_hat for one in runs]),
        "ess_bulk": ("counterfactual", [one.ess_bulk for one in runs]),
        "may_be_empty": ("category", may_be_empty),
        "times_longer": ((), found.times_longer),
        "noise_free": ((), found.noise_free),
        "verdict": ((), row["verdict"].item()),
        "fault": ((), row["fault"].item()),
    }
    named = {name: (*value, {"long_name": MEANINGS[name]}) for name, value in values.items()}
    coords = {"cause": [str(cause) for cause in causes], "counterfactual": list(RUNS)}
    return xr.Dataset(named, coords | {"category": list(responses.categories)})
