"""Sample the posterior of a poll with every sampler, and grade them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import xarray as xr

from adobest_pp._checks import check_integer
from adobest_pp.diagnostics import checkpoints, compare, contraction
from adobest_pp.polls import Poll
from adobest_pp.samplers.api import sample
from adobest_pp.samplers.problems import logger

__all__ = ["REFERENCE", "SAMPLERS", "Findings", "grade_samplers"]

REFERENCE = "nuts"
SAMPLERS = ("nuts", "gibbs", "sgld")

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
    draws : dict of str to DataTree
        Of each sampler, given all answers.
    comparison : xarray.Dataset
        Of `adobest_pp.diagnostics.compare`.
    contraction : xarray.Dataset
        Of `adobest_pp.diagnostics.contraction`; without a known truth, around the final estimate.
    prior : float
        Concentration of the Dirichlet prior.
    random_seed : int
        Repeats the job.
    """

    poll: Poll
    draws: dict[str, xr.DataTree]
    comparison: xr.Dataset
    contraction: xr.Dataset
    prior: float
    random_seed: int

    def theta(self, sampler: str = REFERENCE) -> xr.DataArray:
        """Return the draws of one sampler by chain, draw and category."""
        return self.draws[sampler]["posterior"].to_dataset()["theta"].transpose("chain", "draw", "category")

    def estimate(self) -> xr.Dataset:
        """Return mean and central 95 % interval of each category, of the reference's draws."""
        theta = self.theta()
        ends = theta.quantile([0.025, 0.975], dim=("chain", "draw"))
        mean, (lower, upper) = theta.mean(("chain", "draw")), (ends.isel(quantile=i, drop=True) for i in (0, 1))
        return xr.Dataset({"mean": mean, "lower": lower, "upper": upper})


def grade_samplers(
    poll: Poll,
    prior: float = 1.0,
    draws: int = 2000,
    random_seed: int = 1,
    on_stage: Callable[[str], None] = lambda stage: None,
    progressbar: bool = False,
) -> Findings:
    """Sample with NUTS, Gibbs and SGLD at the paper's settings, and hold the others to NUTS.

    Parameters
    ----------
    poll : Poll
        Of `simulated_poll`, `poll_of_people` or `poll_of_responses`.
    prior : float
        Concentration of the Dirichlet prior.
    draws : int
        Draws kept of each of four chains.
    random_seed : int
        The same seed gives the same findings.
    on_stage : callable
        Told the name of each of the `n_stages(poll)` stages as it begins.
    progressbar : bool
        Whether a sampler shows its progress once it takes longer than two seconds.

    Examples
    --------
    >>> from adobest_pp.polls import simulated_poll
    >>> from adobest_pp.report import grade_samplers
    >>> findings = grade_samplers(simulated_poll(n_people=500), draws=200)
    >>> list(findings.draws)
    ['nuts', 'gibbs', 'sgld']
    """
    seed = check_integer(random_seed, "random_seed", 0)
    options: dict[str, Any] = {"prior": prior, "random_seed": seed, "progressbar": progressbar}
    with _verdicts_instead_of_warnings():
        on_stage("compiling")
        for name in SAMPLERS:  # so that no sampler's time has compilation in it
            sample(poll.responses, name, draws=1, tune=1, chains=1, **options)
        trees = {}
        for name in SAMPLERS:
            on_stage(f"sampling with {name}")
            trees[name] = sample(poll.responses, name, draws=draws, **options)
        on_stage("comparing the draws")
        graded = compare(trees, REFERENCE, poll.truth, random_seed=seed)
        posteriors: dict[str, dict[int, xr.DataTree]] = {name: {len(poll.responses): trees[name]} for name in SAMPLERS}
        for n, first in checkpoints(poll.responses, _sizes(len(poll.responses))[:-1]).items():
            on_stage(f"looking back at {n:,} answers")
            for name in SAMPLERS:
                posteriors[name][n] = sample(first, name, draws=min(draws, CHECKPOINT_DRAWS), **options)
    center = poll.truth if poll.truth is not None else graded["mean"].sel(sampler=REFERENCE).values
    return Findings(poll, trees, graded, contraction(posteriors, center / center.sum()), prior, seed)


def n_stages(poll: Poll) -> int:
    """Return how many stages `grade_samplers` has."""
    return 1 + len(SAMPLERS) + len(_sizes(len(poll.responses)))


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
