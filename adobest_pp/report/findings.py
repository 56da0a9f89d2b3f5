"""Sample the posterior of a poll with every sampler, and grade them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import xarray as xr

from adobest_pp._checks import check_integer, is_learned
from adobest_pp.data.draws import theta_of
from adobest_pp.diagnostics import Verdict, checkpoints, compare, contraction, explain
from adobest_pp.intervals import summary
from adobest_pp.report.answer_sources import Poll
from adobest_pp.samplers.problems import DIVERGED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sampling import sample
from adobest_pp.samplers.sgld_cv import LEAST_PRIOR, LEAST_TUNE

__all__ = ["REFERENCE", "SAMPLERS", "Findings", "grade_samplers"]

REFERENCE = "nuts"
SAMPLERS = ("nuts", "gibbs", "sgld", "sgld_cv")

# The prior of the samplers if the estimate learns its own: Gibbs sampling and SGLD need a fixed prior.
FLAT = 1.0

# The posterior is also sampled after a half, a quarter, … of the answers, but not after fewer than this.
HALVINGS = 4
FEWEST_ANSWERS = 50
CHECKPOINT_DRAWS = 500


@dataclass(frozen=True)
class Findings:
    """What the main job found.

    Attributes
    ----------
    poll : Poll
        The question and the answers.
    posterior : DataTree
        The draws of the estimate: by NUTS, given all answers, under `prior`.
    estimated : xarray.Dataset
        Of `adobest_pp.diagnostics.compare` for `posterior` alone: whether it converged, and its distance to the truth.
    draws : dict of str to DataTree
        The draws of each graded sampler, given all answers, under Dirichlet(`sampler_prior`).
    comparison : xarray.Dataset
        Of `adobest_pp.diagnostics.compare` for `draws`.
    explanations : dict of str to xarray.Dataset
        Of `adobest_pp.diagnostics.explain`, for SGLD where it is not at the posterior.
    contraction : xarray.Dataset
        Of `adobest_pp.diagnostics.contraction`, around the truth, or around the final estimate if it is not known.
    prior : float or "learned"
        Concentration of the Dirichlet prior of the estimate.
    random_seed : int
        The seed of the job.
    """

    poll: Poll
    posterior: xr.DataTree
    estimated: xr.Dataset
    draws: dict[str, xr.DataTree]
    comparison: xr.Dataset
    explanations: dict[str, xr.Dataset]
    contraction: xr.Dataset
    prior: float | str
    random_seed: int

    @property
    def sampler_prior(self) -> float:
        """The concentration of the prior that the samplers are graded under."""
        return FLAT if isinstance(self.prior, str) else self.prior

    @property
    def fit_p_value(self) -> float:
        """The p-value of `adobest_pp.diagnostics.goodness_of_fit`; NaN if nothing could be checked."""
        return float(self.posterior.attrs.get("fit_p_value", float("nan")))

    def theta(self, sampler: str | None = None) -> xr.DataArray:
        """Return draws by chain, draw and category: of the estimate, or of a sampler that is graded."""
        return theta_of(self.posterior if sampler is None else self.draws[sampler])

    def estimate(self) -> xr.Dataset:
        """Return mean and 95 % interval of each category, as they are shown, and the two sources of its width.

        See `adobest_pp.intervals.summary`.
        """
        return self._estimate

    @cached_property
    def _estimate(self) -> xr.Dataset:
        return summary(self.posterior)


def grade_samplers(
    poll: Poll,
    prior: float | Literal["learned"] = "learned",
    draws: int = 2000,
    random_seed: int = 1,
    on_stage: Callable[[str], None] = lambda stage: None,
    progressbar: bool = False,
) -> Findings:
    """Estimate θ by NUTS, and compare Gibbs, SGLD at the paper's settings, and SGLD with control variates with NUTS.

    Parameters
    ----------
    poll : Poll
        Of `simulated_poll`, `poll_of_people` or `poll_of_responses`.
    prior : float or "learned"
        Concentration of the Dirichlet prior. By default the estimate learns it, because intervals under a flat prior
        do not hold the truth where most categories are empty. The samplers are then graded under the flat prior.
        Below 0.01, SGLD with control variates is left out: its coordinates do not reach that far.
    draws : int
        Draws kept of each of four chains.
    random_seed : int
        The same seed gives the same findings.
    on_stage : callable
        Called with the name of each of the `n_stages(poll, prior)` stages as it begins.
    progressbar : bool
        Whether a sampler shows a progress bar after two seconds.

    Examples
    --------
    >>> from adobest_pp.report.answer_sources import simulated_poll
    >>> from adobest_pp.report import grade_samplers
    >>> findings = grade_samplers(simulated_poll(n_people=500), draws=200)
    >>> list(findings.draws)
    ['nuts', 'gibbs', 'sgld', 'sgld_cv']
    """
    seed = check_integer(random_seed, "random_seed", 0)
    options: dict[str, Any] = {"random_seed": seed, "progressbar": progressbar}
    fixed = options | {"prior": FLAT if is_learned(prior) else prior}
    samplers = _samplers(prior)
    # The verdicts and conclusions report both.
    with without_warnings_of(NOT_CONVERGED, DIVERGED):
        on_stage("compiling")
        for name in samplers:  # so that the time of no sampler includes compilation
            sample(poll.responses, name, draws=1, tune=LEAST_TUNE, chains=1, **fixed)
        trees = {}
        for name in samplers:
            on_stage(f"sampling with {name}")
            trees[name] = sample(poll.responses, name, draws=draws, **fixed)
        on_stage("comparing the draws")
        graded = compare(trees, REFERENCE, poll.truth, random_seed=seed)
        on_stage("explaining the differences")
        why = _explanations(poll, trees, graded, seed)
        posterior, estimated = trees[REFERENCE], graded.sel(sampler=[REFERENCE])
        if is_learned(prior):
            on_stage("estimating the shares")
            posterior = sample(poll.responses, REFERENCE, prior, draws=draws, **options)
            estimated = compare({REFERENCE: posterior}, REFERENCE, poll.truth, random_seed=seed)
        posteriors: dict[str, dict[int, xr.DataTree]] = {name: {len(poll.responses): trees[name]} for name in samplers}
        for n, first in checkpoints(poll.responses, _sizes(len(poll.responses))[:-1]).items():
            on_stage(f"looking back at {n:,} answers")
            for name in samplers:
                posteriors[name][n] = sample(first, name, draws=min(draws, CHECKPOINT_DRAWS), **fixed)
    center = poll.truth if poll.truth is not None else graded["mean"].sel(sampler=REFERENCE).values
    closing = contraction(posteriors, center / center.sum())
    return Findings(poll, posterior, estimated, trees, graded, why, closing, prior, seed)


def n_stages(poll: Poll, prior: float | str = "learned") -> int:
    """Return how many stages `grade_samplers` has."""
    return 2 + len(_samplers(prior)) + is_learned(prior) + len(_sizes(len(poll.responses)))


def _samplers(prior: float | str) -> tuple[str, ...]:
    """Return the samplers that have draws of the posterior under this prior."""
    below = not isinstance(prior, str) and prior < LEAST_PRIOR
    return tuple(name for name in SAMPLERS if name != "sgld_cv" or not below)


def _explanations(poll: Poll, trees: dict[str, xr.DataTree], graded: xr.Dataset, seed: int) -> dict[str, xr.Dataset]:
    """Explain SGLD, unless it is at the posterior or nobody knows."""
    verdicts = dict(zip(graded["sampler"].values.tolist(), graded["verdict"].values.tolist(), strict=True))
    if verdicts[REFERENCE] != Verdict.REFERENCE or verdicts["sgld"] == Verdict.INDISTINGUISHABLE:
        return {}
    return {"sgld": explain(trees["sgld"], poll.responses, trees[REFERENCE], seed, progressbar=False)}


def _sizes(n: int) -> list[int]:
    """Return the numbers of answers at which the posterior is sampled; the last is n."""
    sizes = [n >> halvings for halvings in range(HALVINGS, 0, -1)]
    return [size for size in sizes if size >= FEWEST_ANSWERS] + [n]
