"""Sample the posterior of a poll with every sampler, and grade them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import xarray as xr

from adobest_pp._checks import check_integer, is_learned
from adobest_pp._dirichlet import ESTIMATE_PRIOR
from adobest_pp._text import brief
from adobest_pp.answers.draws import theta_of
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics import Verdict, checkpoints, compare, contraction, explain
from adobest_pp.intervals import summary
from adobest_pp.report.answer_sources import Poll
from adobest_pp.samplers.checks import BIASED, DIVERGED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.choice import left_out, quick_sample
from adobest_pp.samplers.sampling import sample
from adobest_pp.samplers.sgld_cv.sampler import LEAST_TUNE

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
        The draws of the estimate, given all answers, under `prior`: by NUTS, or by SGLD with control variates where
        NUTS would take too long. The attribute ``sampler`` tells.
    estimated : xarray.Dataset
        Of `adobest_pp.diagnostics.compare` for `posterior` alone: whether it converged, and its distance to the truth.
    draws : dict of str to DataTree
        The draws of each graded sampler, given all answers, under Dirichlet(`sampler_prior`). Where NUTS would take too
        long, nothing is graded, and they are those of the estimate alone.
    comparison : xarray.Dataset
        Of `adobest_pp.diagnostics.compare` for `draws`.
    explanations : dict of str to xarray.Dataset
        Of `adobest_pp.diagnostics.explain`, for SGLD where it does not sample the posterior.
    contraction : xarray.Dataset or None
        Of `adobest_pp.diagnostics.contraction`, around the truth, or around the final estimate if it is not known; None
        for gathered answers, of which nobody knows which came first, and where NUTS would take too long.
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
    contraction: xr.Dataset | None
    prior: float | str
    random_seed: int

    @property
    def reference(self) -> str:
        """The sampler that the others are graded against, or the only one."""
        return REFERENCE if REFERENCE in self.draws else next(iter(self.draws))

    @property
    def is_graded(self) -> bool:
        """Whether there are other samplers than the one of the estimate."""
        return len(self.draws) > 1

    @property
    def left_out(self) -> dict[str, str]:
        """The samplers that were left out, and why; see `adobest_pp.samplers.choice.left_out`."""
        return left_out(self.poll.responses, self.prior)

    @property
    def sampler_prior(self) -> float | str:
        """The concentration of the prior of `draws`, or "learned"."""
        return FLAT if isinstance(self.prior, str) and self.is_graded else self.prior

    @property
    def is_biased(self) -> bool:
        """Whether the sampler of the estimate says of itself that its draws are biased."""
        return bool(json.loads(self.posterior.attrs.get("sampler_choices", "{}")).get("biased", False))

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
    prior: float | Literal["learned"] = ESTIMATE_PRIOR,
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
        Concentration of the Dirichlet prior. By default the estimate learns it, because the mean under a flat prior
        is far from the truth where most categories are empty. The samplers are then graded under the flat prior.
        Below 0.01, SGLD with control variates is left out: its coordinates do not reach that far. Where answers hardly
        ever repeat, and there are more than 2,000,000 over the number of categories, nothing is graded: NUTS would take
        too long, and SGLD with control variates estimates alone.
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
    if not isinstance(poll, Poll):
        raise ValueError(f"poll must be a Poll, such as of simulated_poll, got {brief(poll)}")
    seed = check_integer(random_seed, "random_seed", 0)
    if REFERENCE in left_out(poll.responses, prior):
        return _ungraded(poll, prior, draws, seed, on_stage, progressbar)
    options: dict[str, Any] = {"random_seed": seed, "progressbar": progressbar}
    fixed = options | {"prior": FLAT if is_learned(prior) else prior}
    samplers = _samplers(poll, prior)
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
        closing = None
        if isinstance(poll.responses, Responses):
            posteriors = {name: {len(poll.responses): trees[name]} for name in samplers}
            for n, first in checkpoints(poll.responses, _sizes(len(poll.responses))[:-1]).items():
                on_stage(f"looking back at {n:,} answers")
                for name in samplers:
                    posteriors[name][n] = sample(first, name, draws=min(draws, CHECKPOINT_DRAWS), **fixed)
            center = poll.truth if poll.truth is not None else graded["mean"].sel(sampler=REFERENCE).values
            closing = contraction(posteriors, center / center.sum())
    return Findings(poll, posterior, estimated, trees, graded, why, closing, prior, seed)


def _ungraded(
    poll: Poll,
    prior: float | Literal["learned"],
    draws: int,
    seed: int,
    on_stage: Callable[[str], None],
    progressbar: bool,
) -> Findings:
    """Estimate θ of so many different answers that nothing can be graded."""
    on_stage("estimating the shares")
    with without_warnings_of(NOT_CONVERGED, DIVERGED, BIASED):
        posterior = quick_sample(poll.responses, prior, draws, seed, progressbar)
    name = posterior.attrs["sampler"]
    estimated = compare({name: posterior}, name, poll.truth, random_seed=seed)
    return Findings(poll, posterior, estimated, {name: posterior}, estimated, {}, None, prior, seed)


def n_stages(poll: Poll, prior: float | str = ESTIMATE_PRIOR) -> int:
    """Return how many stages `grade_samplers` has."""
    samplers = _samplers(poll, prior)
    if REFERENCE not in samplers:
        return 1
    looks_back = len(_sizes(len(poll.responses))) - 1 if isinstance(poll.responses, Responses) else 0
    return 3 + len(samplers) + is_learned(prior) + looks_back


def _samplers(poll: Poll, prior: float | str) -> tuple[str, ...]:
    """Return the samplers that have draws of the posterior given these answers, under this prior."""
    without = left_out(poll.responses, prior)
    return tuple(name for name in SAMPLERS if name not in without)


def _explanations(poll: Poll, trees: dict[str, xr.DataTree], graded: xr.Dataset, seed: int) -> dict[str, xr.Dataset]:
    """Explain SGLD, unless it samples the posterior or nobody knows."""
    verdicts = dict(zip(graded["sampler"].values.tolist(), graded["verdict"].values.tolist(), strict=True))
    if verdicts[REFERENCE] != Verdict.REFERENCE or verdicts.get("sgld", Verdict.INDISTINGUISHABLE) == (
        Verdict.INDISTINGUISHABLE
    ):
        return {}
    return {"sgld": explain(trees["sgld"], poll.responses, trees[REFERENCE], seed, progressbar=False)}


def _sizes(n: int) -> list[int]:
    """Return the numbers of answers at which the posterior is sampled; the last is n."""
    sizes = [n >> halvings for halvings in range(HALVINGS, 0, -1)]
    return [size for size in sizes if size >= FEWEST_ANSWERS] + [n]
