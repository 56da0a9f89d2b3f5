"""The trade-off of SGLD: at the same cost in gradients, large steps are biased and small steps do not mix."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_count, check_integer, check_prior
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp.answers.draws import theta_of
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.samplers.checks import BIASED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sgld.loop import DIFFUSIONS

__all__ = ["step_size_study"]

# In units of the paper's 0.5/n.
RELATIVE_STEPS = (0.1, 1.0, 10.0, 100.0)
BATCHES = (10, 50, 250)

# A chain keeps half of its updates. R-hat means nothing with fewer draws than this.
FEWEST_DRAWS = 10


def step_size_study(
    responses: Responses,
    reference: xr.DataTree,
    *,
    step_sizes: Sequence[float] | None = None,
    batch_sizes: Sequence[int | None] | None = None,
    diffusions: Sequence[str] = ("reflected", "preconditioned"),
    budget: int = 4_000_000,
    draws: int = 500,
    chains: int = 4,
    prior: ArrayLike | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Run SGLD over a grid of settings at equal cost, and grade each against reference draws.

    Parameters
    ----------
    responses : Responses
        What was collected.
    reference : xarray.DataTree
        Draws of the true posterior of the same responses: those of ``sample(responses, "nuts")``.
    step_sizes : sequence of float, optional
        Constant steps γ; by default 0.1, 1, 10 and 100 times the paper's 0.5/n.
    batch_sizes : sequence of int or None, optional
        Responses in a batch, drawn with replacement. None or n stands for all n responses: the exact gradient. By
        default those of 10, 50 and 250 that are below n.
    diffusions : sequence of {"reflected", "preconditioned"}
        Diffusions of `SGLD`.
    budget : int
        What each setting may spend, in gradients of single responses: updates × batch size, over all chains and
        including the first half of each chain, which is discarded.
    draws, chains : int
        Draws kept of each chain (fewer if the budget has fewer updates), and chains.
    prior : float or array of shape (K,), optional
        Concentration of the Dirichlet prior; by default the one of `reference`.
    random_seed : int, optional
        The same seed gives the same results, apart from the seconds.
    progressbar : bool
        Whether to show a progress bar after two seconds.

    Returns
    -------
    xarray.Dataset
        By diffusion, batch_size and step_size: ``mean_error``, the root mean square over categories of the error of
        the posterior mean in reference standard deviations, and ``mean_error_mcse``, the part of it that is Monte
        Carlo error; ``sd_ratio``, the root of the summed variances over that of the reference; ``tv``, ½Σ|mean −
        reference mean|; ``r_hat`` (the largest) and ``ess`` (the smallest bulk ESS), which are NaN where the draws of a
        category are all equal; ``seconds``; and ``gradients``, the budget that was spent.

    Notes
    -----
    The seconds are those of the compiled sampler, for which a gradient of collapsed responses is cheap at any batch
    size. The cost in gradients is that of a sampler that visits each response. Errors beyond Monte Carlo error come
    from chains that have not converged, as R-hat shows, where steps are small, and from bias where steps are large.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import step_size_study
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=2.0), [0] * 30 + [1] * 10)
    >>> reference = ad.sample(responses, "gibbs", random_seed=1)
    >>> study = step_size_study(responses, reference, step_sizes=[0.01, 0.1], batch_sizes=[10], budget=100_000)
    >>> dict(study.sizes)
    {'diffusion': 2, 'batch_size': 1, 'step_size': 2}
    """
    if not isinstance(responses, Responses) or len(responses) == 0:
        raise ValueError(f"responses must be a Responses with at least one answer, got {brief(responses)}")
    mean, sd = _moments(reference, responses)
    concentration = _prior(prior, reference, responses.categories)
    axes = _axes(step_sizes, batch_sizes, diffusions, len(responses))
    cells = [_Cell(*values) for values in product(*axes.values())]
    plan = {name: check_integer(value, name, 2) for name, value in (("draws", draws), ("chains", chains))}
    spend = check_count(budget, "budget", 4 * FEWEST_DRAWS * plan["chains"] * max(axes["batch_size"]))
    seed = None if random_seed is None else check_integer(random_seed, "random_seed", 0)
    seeds = np.random.SeedSequence(seed).generate_state(len(cells), dtype=np.uint32)
    rows = []
    # Some settings must not converge: R-hat is in the result.
    with without_warnings_of(NOT_CONVERGED, BIASED), SlowProgress(len(cells), "Step sizes", progressbar) as progress:
        _compile(responses, concentration)
        for cell, cell_seed in zip(cells, seeds.tolist(), strict=True):
            tree = _run(responses, concentration, cell, spend, cell_seed, **plan)
            rows.append(_grade(tree, mean, sd, cell.batch_size))
            progress.advance(1)
    shape = tuple(map(len, axes.values()))
    variables = {
        name: (tuple(axes), np.array([row[name] for row in rows]).reshape(shape), {"long_name": text})
        for name, text in LONG_NAMES.items()
    }
    return xr.Dataset(variables, axes, plan | {"budget": spend, "prior": concentration.tolist()})


class _Cell(NamedTuple):
    diffusion: str
    batch_size: int
    step_size: float


def _axes(steps: Any, batches: Any, diffusions: Any, n: int) -> dict[str, list[Any]]:
    """Return the settings to run, by dimension of the result, or raise ValueError."""
    sizes = [0.5 * factor / n for factor in RELATIVE_STEPS] if steps is None else _positive(steps, "step_sizes")
    given = ([m for m in BATCHES if m < n] or [n]) if batches is None else batches
    for name, sequence in (("batch_sizes", given), ("diffusions", diffusions)):
        if not isinstance(sequence, Sequence) or isinstance(sequence, str):
            raise ValueError(f"{name} must be a sequence, got {brief(sequence)}")
    counts = [n if size is None else check_integer(size, "batch_sizes", 1, n) for size in given]
    for name in diffusions:
        if not isinstance(name, str) or name not in DIFFUSIONS:
            raise ValueError(f"diffusions must be among {', '.join(map(repr, DIFFUSIONS))}, got {brief(name)}")
    axes: dict[str, list[Any]] = {
        "diffusion": list(diffusions),
        "batch_size": sorted(counts),
        "step_size": sorted(sizes),
    }
    for name, values in axes.items():
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{name}s must be at least one value, each given once, got {values!r}")
    return axes


def _positive(values: Any, name: str) -> list[float]:
    try:
        numbers = as_numbers(values, "fiu").astype(np.float64)
    except TypeError:
        raise ValueError(f"{name} must be positive numbers, got {brief(values)}") from None
    if numbers.ndim != 1 or not np.all((numbers > 0) & (numbers < np.inf)):
        raise ValueError(f"{name} must be positive numbers, got {brief(values)}")
    return list(numbers.tolist())


def _moments(reference: xr.DataTree, responses: Responses) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of the true posterior, each of shape (K,)."""
    draws = theta_of(reference, "reference", responses.categories).values
    sd = draws.std(axis=(0, 1))
    if not sd.min() > 0:
        raise ValueError(f"reference must have draws that vary in every category, got standard deviations {sd!r}")
    return draws.mean(axis=(0, 1)), sd


def _prior(prior: ArrayLike | None, reference: xr.DataTree, categories: Sequence[str]) -> NDArray[np.float64]:
    if prior is None:
        if "prior" not in reference.attrs:
            raise ValueError("prior must be given for a reference without the attribute 'prior', got None")
        prior = reference.attrs["prior"]
    return check_prior(prior, len(categories), categories)


def _compile(responses: Responses, prior: NDArray[np.float64]) -> None:
    """Make one draw, so that the seconds of the first setting do not include compilation."""
    from adobest_pp.samplers.sampling import sample

    sample(responses, "sgld", prior, draws=1, tune=0, chains=1, random_seed=0, progressbar=False)


def _run(
    responses: Responses, prior: NDArray[np.float64], cell: _Cell, budget: int, seed: int, *, draws: int, chains: int
) -> xr.DataTree:
    """Spend the budget on one setting: as many updates per draw as it allows, with the first half discarded."""
    from adobest_pp.samplers.sampling import sample

    updates = budget // (cell.batch_size * chains)
    batch = None if cell.batch_size == len(responses) else cell.batch_size
    kept = min(draws, updates // 2)
    return sample(
        responses,
        "sgld",
        prior,
        draws=kept,
        tune=kept,
        chains=chains,
        random_seed=seed,
        progressbar=False,
        updates_per_draw=updates // (2 * kept),
        **cell._asdict() | {"batch_size": batch},
    )


def _grade(tree: xr.DataTree, mean: NDArray[np.float64], sd: NDArray[np.float64], batch_size: int) -> dict[str, float]:
    theta = theta_of(tree, "sample").values
    chains, draws, _ = theta.shape
    error = theta.mean(axis=(0, 1)) - mean
    with np.errstate(invalid="ignore", divide="ignore"):
        mcse = array_stats.mcse(theta, chain_axis=0, draw_axis=1)
    mixed = mixing(theta)
    updates = 2 * draws * int(json.loads(tree.attrs["sampler_settings"])["updates_per_draw"])
    return {
        "mean_error": float(np.sqrt(np.mean((error / sd) ** 2))),
        "mean_error_mcse": float(np.sqrt(np.mean((mcse / sd) ** 2))),
        "sd_ratio": float(np.sqrt(theta.var(axis=(0, 1)).sum() / (sd**2).sum())),
        "tv": float(0.5 * np.abs(error).sum()),
        "r_hat": float(np.max(mixed["r_hat"])),
        "ess": float(np.min(mixed["ess_bulk"])),
        "seconds": float(tree.attrs["sampling_time"]),
        "gradients": float(chains * updates * batch_size),
    }


LONG_NAMES = {
    "mean_error": "error of the posterior mean, in reference standard deviations",
    "mean_error_mcse": "Monte Carlo error of the posterior mean, in reference standard deviations",
    "sd_ratio": "standard deviation over that of the reference",
    "tv": "total variation between posterior means",
    "r_hat": "largest rank-normalized split R-hat",
    "ess": "smallest bulk effective sample size",
    "seconds": "wall time in seconds",
    "gradients": "gradients of responses computed",
}
