"""Figures 3 to 6 of the paper: errors as boxes and average |S| as heat maps, as published beside as proved."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp.plots._common import check_axes
from adobest_pp.studies import plot_study
from adobest_pp.studies.summary import done, number, shown
from validation.paper.methods import method_label
from validation.paper.reference import ReferenceRow

__all__ = ["adaptive", "plot_errors", "plot_sizes", "plot_subset_sizes"]


def plot_errors(studies: Mapping[str, xr.Dataset], kappa: float, measure: str, rows: list[ReferenceRow]) -> Any:
    """Draw boxes of the errors by ε and method: ρ as columns, K and the studies as rows.

    Parameters
    ----------
    studies : mapping of str to xarray.Dataset
        Studies of the same settings, with the coordinate ``label``. The first is the one beside `rows`.
    kappa : float
        Cells without κ are drawn, too.
    measure : str
        ``"tv"`` or ``"exact_tv"``.
    rows : list of ReferenceRow
        Medians of runs of the authors' program, drawn as diamonds.

    Returns
    -------
    matplotlib figure
    """
    parts = _parts(studies, kappa, measure)
    # The axis with most values is within the panels.
    levels = [np.unique(next(iter(parts.values()))[name].values).size for name in ("epsilon", "rho")]
    n_columns = min(levels)
    size = (5.2 * n_columns + 3.0, 2.9 * len(parts) + 0.4)
    figure, axes = plt.subplots(len(parts), n_columns, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for place, ((k, name), part) in enumerate(parts.items()):
        panels = axes[place]
        plot_study(part, measure, panels)
        for panel in panels:
            title = f"K = {k}, {panel.get_title()}" if panel.get_title() else f"K = {k}"
            panel.set_title(f"{title}: {name}", fontsize=10)
            if place and panel.get_legend():
                panel.get_legend().remove()
        if name == next(iter(studies)) and 1 < levels[1] <= levels[0]:
            _draw_reference(panels, part, [row for row in rows if (row.setting.K, row.setting.kappa) == (k, kappa)])
    figure.suptitle(f"TV error, κ = {number(kappa)}")
    return figure


def plot_sizes(studies: Mapping[str, xr.Dataset], kappa: float) -> Any:
    """Draw heat maps of the average |S|: the studies as columns, K as rows; see `plot_errors` for the parameters."""
    parts = _parts(studies, kappa, "mean_size")
    sizes = sorted({k for k, _ in parts})
    shape = len(sizes), len(studies)
    figure, axes = plt.subplots(*shape, figsize=(9.5 * shape[1], 6 * shape[0]), squeeze=False, layout="constrained")
    for (k, name), part in parts.items():
        (panel,) = plot_subset_sizes(part, k, axes[sizes.index(k), [*studies].index(name)])
        panel.set_title(f"{panel.get_title()}: {name}", pad=20)
    return figure


def _parts(studies: Mapping[str, xr.Dataset], kappa: float, measure: str) -> dict[tuple[int, str], xr.Dataset]:
    """Return the cells of each K and study that have runs; those without κ count as of this one."""
    whole = {name: shown(study) for name, study in studies.items() if measure in study}
    chosen = {name: study.isel(cell=np.flatnonzero(study["kappa"].values == kappa)) for name, study in whole.items()}
    return {
        (int(k), name): study.isel(cell=np.flatnonzero(study["K"].values == k))
        for k in sorted({k for study in chosen.values() for k in study["K"].values.tolist()})
        for name, study in chosen.items()
        if k in study["K"].values
    }


def _draw_reference(panels: NDArray[np.object_], part: xr.Dataset, rows: list[ReferenceRow]) -> None:
    """Draw the medians of the authors' program over our boxes, at the places that `plot_study` gives them."""
    order = list(dict.fromkeys(part["label"].values.tolist()))
    epsilons, rhos = (np.unique(part[name].values).tolist() for name in ("epsilon", "rho"))
    for row in rows:
        if row.setting.rho in rhos and row.setting.epsilon in epsilons and method_label(row.method) in order:
            place = epsilons.index(row.setting.epsilon) * (len(order) + 2) + order.index(method_label(row.method))
            panel: Any = panels[rhos.index(row.setting.rho)]
            panel.plot(place, row.median, "D", markersize=4, color="white", markeredgecolor="black", zorder=5)


def plot_subset_sizes(dataset: xr.Dataset, K: int, axes: Any = None) -> NDArray[np.object_]:
    """Draw heat maps of the average |S| by method (rows), ρ and ε (columns), one panel for each κ.

    Non-adaptive SRR chooses no subset and is left out; a size of 0 is SRR on all categories.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study with the measure ``mean_size``.
    K : int
        Number of categories.
    axes : sequence of matplotlib axes, one for each κ, optional
        A new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (number of κ,)
    """
    study = shown(dataset.isel(cell=np.flatnonzero(adaptive(dataset) & (dataset["K"].values == K))))
    if study.sizes["cell"] == 0:
        raise ValueError(f"dataset must have a method that chooses subsets for K = {K}, got none")
    values, names = done(study, "mean_size"), study["label"].values.tolist()
    epsilons, kappas, rhos = (np.unique(study[name].values).tolist() for name in ("epsilon", "kappa", "rho"))
    order = sorted(set(names))
    n_columns = len(epsilons) * len(rhos)
    size = (len(kappas) * (0.62 * n_columns + 1) + 3.0, 0.36 * len(order) + 1.8)
    if axes is None:
        _, axes = plt.subplots(1, len(kappas), figsize=size, squeeze=False, layout="constrained")
    panels = check_axes(axes, len(kappas), f"1 × {len(kappas)} of them")
    for panel, kappa in zip(panels, kappas, strict=True):
        image = np.full((len(order), n_columns), np.nan)
        for i in np.flatnonzero((study["kappa"].values == kappa) & np.isfinite(values).any(axis=1)):
            rho, epsilon = (float(study[name].values[i]) for name in ("rho", "epsilon"))
            column = rhos.index(rho) * len(epsilons) + epsilons.index(epsilon)
            image[order.index(names[i]), column] = np.nanmean(values[i])
        drawn = _draw_heat_map(panel, image, K - 1)
        _name_columns(panel, epsilons, rhos)
        panel.set_yticks(range(len(order)), order if panel is panels[0] else [""] * len(order))
        # Above the names of the ρ.
        panel.set_title(f"K = {K}, κ = {number(kappa)}", pad=20)
    panels[0].figure.colorbar(drawn, ax=list(panels), label="average |S|", pad=0.02)
    return panels


def adaptive(dataset: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells choose their subsets."""
    return np.asarray(dataset["method"].values.astype(str) != "nonadaptive")


def _draw_heat_map(panel: Any, image: NDArray[np.float64], largest: int) -> Any:
    drawn = panel.imshow(image, cmap="viridis", vmin=0, vmax=largest, aspect="auto")
    for row, column in np.argwhere(np.isfinite(image)):
        color = "white" if image[row, column] < 0.6 * largest else "black"
        panel.text(column, row, f"{image[row, column]:.1f}", ha="center", va="center", color=color, fontsize=8)
    return drawn


def _name_columns(panel: Any, epsilons: list[float], rhos: list[float]) -> None:
    n = len(epsilons)
    panel.set_xticks(range(n * len(rhos)), [number(epsilon) for _ in rhos for epsilon in epsilons])
    panel.set_xlabel("ε, within each ρ")
    for place, rho in enumerate(rhos):
        panel.annotate(
            f"ρ = {number(rho)}",
            ((place + 0.5) / len(rhos), 1.0),
            xytext=(0, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
        )
        if place:
            panel.axvline(place * n - 0.5, color="white", linewidth=3)
