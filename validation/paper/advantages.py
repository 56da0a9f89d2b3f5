"""Errors of the utilities over those of SRR, run by run: as published, as proved, and with the exact posterior mean."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from validation.paper.comparisons import Grid, Runs, Setting, paired, paper_part, published_part, with_srr
from validation.sign_test import Interval, median_interval

__all__ = ["Key", "Source", "by_epsilon_and_rho", "common_keys", "interpolation_factors", "pooled", "same_runs"]
__all__ += ["semi_adaptive_sources", "sources", "trimmed"]

PUBLISHED = "as published, label ε"
AT_TRUE = "as published, SRR at the true ε"
PROVED = "as proved, SGLD"
EXACT = "as proved, exact posterior mean"

Key = tuple[Setting, str]


@dataclass(frozen=True)
class Source:
    """Errors of the utilities over those of SRR, run by run.

    Attributes
    ----------
    name : str
        Which comparison it is.
    ratios : dict
        Logarithms of the ratios by setting and utility.
    """

    name: str
    ratios: dict[Key, Runs]


def sources(dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None) -> list[Source]:
    """Return the comparisons with SRR that the studies allow; a study that is not paired with the first has none.

    Parameters
    ----------
    dataset : xarray.Dataset
        The study with the budgets of Theorem 1, and with non-adaptive SRR.
    as_published : xarray.Dataset, optional
        The study with the published budgets; its SRR is that of `with_srr`.
    equal_privacy : xarray.Dataset, optional
        A study with the budgets of Theorem 1 and the measure ``exact_tv``.
    """
    found = []
    if as_published is not None and paired(as_published, dataset):
        published = Grid(with_srr(as_published, dataset), "tv", log=True)
        found.append(Source(PUBLISHED, _ratios(published)))
        if "true_epsilon" in as_published:
            losses = Grid(published_part(as_published), "true_epsilon")
            found.append(Source(AT_TRUE, _ratios_at_true_loss(published, losses)))
    if "tv" in dataset:
        found.append(Source(PROVED, _ratios(Grid(paper_part(dataset), "tv", log=True))))
    if equal_privacy is not None and paired(equal_privacy, dataset):
        found.append(Source(EXACT, _ratios(Grid(paper_part(equal_privacy), "exact_tv", log=True))))
    return [source for source in found if source.ratios]


def semi_adaptive_sources(
    dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None
) -> list[Source]:
    """Return the comparisons of the semi-adaptive methods with SRR, by setting without κ; as of `sources`."""
    found = []
    if as_published is not None and paired(as_published, dataset):
        found.append((PUBLISHED, Grid(with_srr(as_published, dataset), "tv", log=True)))
    if "tv" in dataset:
        found.append((PROVED, Grid(paper_part(dataset), "tv", log=True)))
    if equal_privacy is not None and paired(equal_privacy, dataset):
        found.append((EXACT, Grid(paper_part(equal_privacy), "exact_tv", log=True)))
    all_ = [
        Source(
            name,
            {
                (setting._replace(kappa=np.nan), method): runs - grid.methods(setting)["nonadaptive"]
                for setting in grid.without_kappa
                if "nonadaptive" in grid.methods(setting)
                for method, runs in grid.semi_adaptive(setting).items()
            },
        )
        for name, grid in found
    ]
    return [source for source in all_ if source.ratios]


def common_keys(found: Iterable[Source]) -> set[Key]:
    """Return the settings and utilities that all sources have, leaving out the source that is not known everywhere."""
    kept = [set(source.ratios) for source in found if source.name != AT_TRUE]
    return set.intersection(*kept) if kept else set()


def trimmed(found: list[Source]) -> list[Source]:
    """Keep the first runs, as many as every source has: run i is of the same θ* in all of them."""
    n = min((runs.size for source in found for runs in source.ratios.values()), default=0)
    return [Source(source.name, {key: runs[:n] for key, runs in source.ratios.items()}) for source in found]


def pooled(source: Source, keys: set[Key]) -> Interval:
    """Return the logarithm of the ratio, averaged over settings and utilities within each run; its median over runs."""
    return median_interval(_averages(source, keys))


def same_runs(found: list[Source], keys: set[Key]) -> dict[str, Runs]:
    """Return for each source the averages of `pooled`, in the runs in which every source has all of its parts."""
    averages = {source.name: _averages(source, keys) for source in found if source.name != AT_TRUE}
    n = min((runs.size for runs in averages.values()), default=0)
    whole = np.all([np.isfinite(runs[:n]) for runs in averages.values()], axis=0) if averages else slice(0)
    return {name: runs[:n][whole] for name, runs in averages.items()}


def by_epsilon_and_rho(keys: set[Key]) -> dict[tuple[float, float], set[Key]]:
    """Return the keys of each (ε, ρ), in order."""
    groups: dict[tuple[float, float], set[Key]] = {}
    for key in sorted(keys, key=lambda key: (key[0].epsilon, key[0].rho)):
        groups.setdefault((key[0].epsilon, key[0].rho), set()).add(key)
    return groups


def interpolation_factors(as_published: xr.Dataset, dataset: xr.Dataset) -> dict[float, tuple[float, float]]:
    """Return, by label ε, the least and greatest factor by which interpolation misses SRR's error at the runs' losses.

    Notes
    -----
    For even θ, the standard error of a frequency that SRR estimates is proportional to (e^ε + K − 1)/(e^ε − 1). This
    is interpolated as the errors are, and divided by what it is.
    """
    grid = Grid(with_srr(as_published, dataset), "tv")
    losses = Grid(published_part(as_published), "true_epsilon")
    factors: dict[float, list[Runs]] = {}
    for setting in losses.settings:
        ladder = np.array([epsilon for epsilon, _ in _ladder(grid, setting)])
        for true in losses.utilities(setting).values() if ladder.size > 1 else ():
            inside = true[(true >= ladder[0]) & (true <= ladder[-1])]
            known, between = (1 + setting.K / np.expm1(at) for at in (ladder, inside))
            interpolated = np.exp(np.interp(np.log(inside), np.log(ladder), np.log(known)))
            factors.setdefault(setting.epsilon, []).append(interpolated / between)
    joined = {epsilon: np.concatenate(parts) for epsilon, parts in sorted(factors.items())}
    return {epsilon: (float(all_.min()), float(all_.max())) for epsilon, all_ in joined.items() if all_.size}


def _averages(source: Source, keys: set[Key]) -> Runs:
    chosen = [source.ratios[key] for key in sorted(keys)]
    n = min((len(runs) for runs in chosen), default=0)
    # A run counts where all of its parts are done: with some missing, it would average something else.
    return np.asarray(np.mean([runs[:n] for runs in chosen], axis=0)) if chosen else np.empty(0)


def _ratios(grid: Grid) -> dict[Key, Runs]:
    return {
        (setting, name): runs - grid.methods(setting)["nonadaptive"]
        for setting in grid.settings
        if "nonadaptive" in grid.methods(setting)
        for name, runs in grid.utilities(setting).items()
    }


def _ladder(grid: Grid, setting: Setting) -> list[tuple[float, Runs]]:
    """Return the ε at which SRR was run in a setting, with its runs."""
    found = [(e, grid.methods(setting._replace(epsilon=e)).get("nonadaptive")) for e in grid.levels("epsilon")]
    return [(epsilon, runs) for epsilon, runs in found if runs is not None]


def _ratios_at_true_loss(grid: Grid, losses: Grid) -> dict[Key, Runs]:
    """Compare with SRR's error at the loss of each run, interpolated between its ε; NaN where it is beyond them."""
    result = {}
    for setting in grid.settings:
        known = _ladder(grid, setting)
        for name, runs in grid.utilities(setting).items():
            true = losses.methods(setting).get(name)
            if true is not None and len(known) > 1:
                errors = np.array([srr for _, srr in known])
                at = [
                    np.interp(np.log(true[i]), np.log([e for e, _ in known]), errors[:, i], left=np.nan, right=np.nan)
                    for i in range(runs.size)
                ]
                result[setting, name] = runs - np.array(at)
    return {key: runs for key, runs in result.items() if np.isfinite(runs).any()}
