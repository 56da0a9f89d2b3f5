"""Sample the posterior of a poll with every sampler, and grade them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import xarray as xr

from adobest_pp._checks import check_integer, is_learned
from adobest_pp.diagnostics import checkpoints, compare, contraction
from adobest_pp.intervals import summary
from adobest_pp.report.answer_sources import Poll
from adobest_pp.samplers.problems import logger
from adobest_pp.samplers.sampling import sample

__all__ = ["REFERENCE", "SAMPLERS", "Findings", "grade_samplers"]

REFERENCE = "nuts"
SAMPLERS = ("nuts", "gibbs", "sgld")

# The prior that samplers are graded under where the estimate learns its own: Gibbs sampling and SGLD need a fixed one.
FLAT = 1.0

# The posterior is also looked at after a half, a quarter, … of the answers, but not after fewer than this.
HALVINGS = 4
FEWEST_ANSWERS = 50
CHECKPOINT_DRAWS = 500


@dataclass(frozen=True)
class Findings:
    """What the main job found out.

    Attributes
    ----------
    poll : Poll
        What it was about.
    posterior : DataTree
        What is estimated: draws of NUTS given all answers, under `prior`.
    estimated : xarray.Dataset
        Of `adobest_pp.diagnostics.compare`, for `posterior` alone: whether it converged, and how near the truth it is.
    draws : dict of str to DataTree
        Of each sampler that is graded, given all answers, under Dirichlet(`sampler_prior`).
    comparison : xarray.Dataset
        Of `adobest_pp.diagnostics.compare`.
    contraction : xarray.Dataset
        Of `adobest_pp.diagnostics.contraction`; without a known truth, around the final estimate.
    prior : float or "learned"
        Concentration of the Dirichlet prior of the estimate.
    random_seed : int
        Repeats the job.
    """

    poll: Poll
    posterior: xr.DataTree
    estimated: xr.Dataset
    draws: dict[str, xr.DataTree]
    comparison: xr.Dataset
    contraction: xr.Dataset
    prior: float | str
    random_seed: int

    @property
    def sampler_prior(self) -> float:
        """The concentration of the prior that the samplers are graded under."""
        return FLAT if isinstance(self.prior, str) else self.prior

    @property
    def fit_p_value(self) -> float:
        """The p-value of `adobest_pp.diagnostics.goodness_of_fit`; NaN where nothing could be checked."""
        return float(self.posterior.attrs.get("fit_p_value", float("nan")))

    def theta(self, sampler: str | None = None) -> xr.DataArray:
        """Return draws by chain, draw and category: of the estimate, or of a sampler that is graded."""
        tree = self.posterior if sampler is None else self.draws[sampler]
        return tree["posterior"].to_dataset()["theta"].transpose("chain", "draw", "category")

    def estimate(self) -> xr.Dataset:
        """Return mean and 95 % interval of each category, as they are shown (see `adobest_pp.intervals`)."""
        return summary(self.theta())


def grade_samplers(
    poll: Poll,
    prior: float | Literal["learned"] = "learned",
    draws: int = 2000,
    random_seed: int = 1,
    on_stage: Callable[[str], None] = lambda stage: None,
    progressbar: bool = False,
) -> Findings:
    """Estimate θ by NUTS; sample with NUTS, Gibbs and SGLD at the paper's settings, and hold the others to NUTS.

    Parameters
    ----------
    poll : Poll
        Of `simulated_poll`, `poll_of_people` or `poll_of_responses`.
    prior : float or "learned"
        Concentration of the Dirichlet prior. The default learns it for the estimate, whose intervals would not hold
        the truth under a flat prior where most categories are empty; samplers are then graded under the flat one.
    draws : int
        Draws kept of each of four chains.
    random_seed : int
        The same seed gives the same findings.
    on_stage : callable
        Told the name of each of the `n_stages(poll, prior)` stages as it begins.
    progressbar : bool
        Whether a sampler shows its progress once it takes longer than two seconds.

    Examples
    --------
    >>> from adobest_pp.report.answer_sources import simulated_poll
    >>> from adobest_pp.report import grade_samplers
    >>> findings = grade_samplers(simulated_poll(n_people=500), draws=200)
    >>> list(findings.draws)
    ['nuts', 'gibbs', 'sgld']
    """
    seed = check_integer(random_seed, "random_seed", 0)
    options: dict[str, Any] = {"random_seed": seed, "progressbar": progressbar}
    fixed = options | {"prior": FLAT if is_learned(prior) else prior}
    with _verdicts_instead_of_warnings():
        on_stage("compiling")
        for name in SAMPLERS:  # so that no sampler's time has compilation in it
            sample(poll.responses, name, draws=1, tune=1, chains=1, **fixed)
        trees = {}
        for name in SAMPLERS:
            on_stage(f"sampling with {name}")
            trees[name] = sample(poll.responses, name, draws=draws, **fixed)
        on_stage("comparing the draws")
        graded = compare(trees, REFERENCE, poll.truth, random_seed=seed)
        posterior, estimated = trees[REFERENCE], graded.sel(sampler=[REFERENCE])
        if is_learned(prior):
            on_stage("estimating the shares")
            posterior = sample(poll.responses, REFERENCE, prior, draws=draws, **options)
            estimated = compare({REFERENCE: posterior}, REFERENCE, poll.truth, random_seed=seed)
        posteriors: dict[str, dict[int, xr.DataTree]] = {name: {len(poll.responses): trees[name]} for name in SAMPLERS}
        for n, first in checkpoints(poll.responses, _sizes(len(poll.responses))[:-1]).items():
            on_stage(f"looking back at {n:,} answers")
            for name in SAMPLERS:
                posteriors[name][n] = sample(first, name, draws=min(draws, CHECKPOINT_DRAWS), **fixed)
    center = poll.truth if poll.truth is not None else graded["mean"].sel(sampler=REFERENCE).values
    closing = contraction(posteriors, center / center.sum())
    return Findings(poll, posterior, estimated, trees, graded, closing, prior, seed)


def n_stages(poll: Poll, prior: float | str = "learned") -> int:
    """Return how many stages `grade_samplers` has."""
    return 1 + len(SAMPLERS) + is_learned(prior) + len(_sizes(len(poll.responses)))


def _sizes(n: int) -> list[int]:
    """Return the numbers of answers at which the posterior is looked at, all of them last."""
    sizes = [n >> halvings for halvings in range(HALVINGS, 0, -1)]
    return [size for size in sizes if size >= FEWEST_ANSWERS] + [n]


@contextmanager
def _verdicts_instead_of_warnings() -> Iterator[None]:
    """Keep `sample` from warning of chains that differ and of divergences: verdicts and conclusions tell of both."""

    def other(record: logging.LogRecord) -> bool:
        return not any(words in record.getMessage() for words in ("not converged", "draws diverged"))

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)
