"""Errors and subset sizes of a study (Figures 3 to 6 of the paper)."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp.plots._inputs import check_result
from adobest_pp.studies.methods import KAPPA_FREE, SEMI
from adobest_pp.studies.summary import done, labels, number, shown

__all__ = ["plot_subset_sizes", "plot_tv_boxes"]

BOXES: dict[str, Any] = {
    "widths": 0.8,
    "manage_ticks": False,
    "patch_artist": True,
    "boxprops": {"linewidth": 0.7},
    "medianprops": {"color": "black", "linewidth": 1.4},
    "flierprops": {"marker": ".", "markersize": 2.5, "markeredgecolor": "0.4"},
}


def plot_tv_boxes(dataset: xr.Dataset, K: int, measure: str = "tv", axes: Any = None) -> NDArray[np.object_]:
    """Draw box plots of the error by ε and method, a row of panels for each ρ and a column for each κ.

    The panels of κ are the paper's Figures 3 and 4 [1]_. A box spans the quartiles and is cut at the median; whiskers
    reach to the furthest run within 1.5 times the quartiles' distance, and dots are the runs beyond. Methods that do
    not depend on κ are drawn for every κ.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).
    K : int
        Number of categories.
    measure : str
        What to draw: ``"tv"``, or another positive measure of the study.
    axes : array of matplotlib axes, of shape (number of ρ, number of κ), optional
        A new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (number of ρ, number of κ)

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.
    """
    study = _of_size(dataset, K, measure)
    values, names = done(study, measure), labels(study)
    epsilons, kappas, rhos = (_levels(study, name) for name in ("epsilon", "kappa", "rho"))
    looks = _colors(study, names)
    panels = _panels(axes, (len(rhos), len(kappas)), _box_size(len(epsilons) * len(looks), len(rhos), len(kappas)))
    for row, rho in enumerate(rhos):
        for column, kappa in enumerate(kappas):
            panel = panels[row, column]
            here = np.flatnonzero(_equal(study, "rho", rho) & _equal(study, "kappa", kappa))
            _draw_boxes(panel, {int(i): values[i] for i in here}, study, names, looks, epsilons)
            panel.set_title(f"ρ = {number(rho)}" + _kappa_text(kappa))
            if row == len(rhos) - 1:
                panel.set_xlabel("privacy ε")
            if column == 0:
                panel.set_ylabel(_meaning(dataset, measure))
    _share_limits(panels)
    handles = [Patch(facecolor=color, edgecolor="0.2", label=name) for name, color in looks.items()]
    panels[0, -1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    panels[0, 0].figure.suptitle(f"{_meaning(dataset, measure)}, K = {K}")
    return panels


def plot_subset_sizes(dataset: xr.Dataset, K: int, axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Draw heat maps of the average |S| by method (rows), ρ and ε (columns), one panel for each κ.

    The panels are the paper's Figures 5 and 6. Non-adaptive methods choose no subset and are left out; a size of 0 is
    SRR on all categories.

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
    study = _of_size(dataset, K, "mean_size")
    study = study.isel(cell=np.flatnonzero(adaptive(study)))
    if study.sizes["cell"] == 0:
        raise ValueError(f"dataset must have a method that chooses subsets for K = {K}, got none")
    values, names = done(study, "mean_size"), labels(study)
    epsilons, kappas, rhos = (_levels(study, name) for name in ("epsilon", "kappa", "rho"))
    order = list(_colors(study, names))
    n_columns = len(epsilons) * len(rhos)
    size = (len(kappas) * (0.62 * n_columns + 1) + 3.0, 0.36 * len(order) + 1.8)
    panels = _panels(axes, (1, len(kappas)), size).ravel()
    for panel, kappa in zip(panels, kappas, strict=True):
        image = np.full((len(order), n_columns), np.nan)
        for i in np.flatnonzero(_equal(study, "kappa", kappa) & np.isfinite(values).any(axis=1)):
            column = _place(rhos, study["rho"].values[i]) * len(epsilons) + _place(epsilons, study["epsilon"].values[i])
            image[order.index(names[i]), column] = np.nanmean(values[i])
        drawn = _draw_heat_map(panel, image, K - 1)
        _name_columns(panel, epsilons, rhos)
        panel.set_yticks(range(len(order)), order if panel is panels[0] else [""] * len(order))
        # Above the names of the ρ.
        panel.set_title(f"K = {K}" + _kappa_text(kappa), pad=20)
    panels[0].figure.colorbar(drawn, ax=list(panels), label="average |S|", pad=0.02)
    return panels


def adaptive(dataset: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells choose their subsets."""
    return ~np.isin(dataset["method"].values.astype(str), KAPPA_FREE)


def _of_size(dataset: xr.Dataset, K: int, measure: Any) -> xr.Dataset:
    needed = ("K", "method", "epsilon", "kappa", "rho")
    check_result(dataset, "dataset", "studies.open_study", needed)
    measures = [name for name, variable in dataset.data_vars.items() if {"cell", "run"} <= set(variable.dims)]
    if not isinstance(measure, str) or measure not in measures:
        raise ValueError(f"measure must be one of the study's {', '.join(map(str, measures))}, got {brief(measure)}")
    sizes = np.unique(dataset["K"].values).tolist()
    if isinstance(K, bool) or not isinstance(K, int | np.integer) or K not in sizes:
        raise ValueError(f"K must be one of the study's {', '.join(map(str, sizes))}, got {brief(K)}")
    return shown(dataset.isel(cell=np.flatnonzero(dataset["K"].values == K)))


def _levels(study: xr.Dataset, name: str) -> list[float]:
    values: list[float] = np.unique(study[name].values.astype(np.float64)).tolist()
    return values


def _equal(study: xr.Dataset, name: str, value: float) -> NDArray[np.bool_]:
    # A study without any κ has NaN for it, which is equal to itself here.
    return np.isclose(study[name].values.astype(np.float64), value, rtol=0, atol=0, equal_nan=True)


def _place(levels: list[float], value: float) -> int:
    return levels.index(float(value))


def _kappa_text(kappa: float) -> str:
    return "" if np.isnan(kappa) else f", κ = {number(kappa)}"


def _meaning(dataset: xr.Dataset, measure: str) -> str:
    fallback = "TV error ½Σ|θ̂ − θ*|" if measure == "tv" else measure
    return fallback if measure == "tv" else str(dataset[measure].attrs.get("long_name", fallback))


def _colors(study: xr.Dataset, names: list[str]) -> dict[str, Any]:
    """Give each method a color: grey without subsets, greens for semi-adaptive ones, the usual cycle for the rest."""
    methods = dict(zip(names, study["method"].values.astype(str).tolist(), strict=True))
    plain = [name for name in methods if methods[name] in KAPPA_FREE]
    semi = sorted(name for name in methods if methods[name].startswith(SEMI))
    rest = sorted(name for name in methods if name not in plain and name not in semi)
    greys = plt.get_cmap("Greys")(np.linspace(0.55, 0.2, len(plain)))
    greens = plt.get_cmap("YlGn")(np.linspace(0.25, 0.95, len(semi)))
    others = [plt.get_cmap("tab10")(i) for i in (3, 0, 1, 4, 5, 9, 6, 8)]
    cycle = [others[i % len(others)] for i in range(len(rest))]
    return dict(zip([*plain, *semi, *rest], [*greys, *greens, *cycle], strict=True))


def _panels(axes: Any, shape: tuple[int, int], size: tuple[float, float]) -> NDArray[np.object_]:
    if axes is None:
        _, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    panels = np.asarray(axes, dtype=object)
    if panels.size != shape[0] * shape[1]:
        raise ValueError(f"axes must be {shape[0]} × {shape[1]} of them, got {panels.size}")
    return panels.reshape(shape)


def _box_size(n_boxes: int, n_rows: int, n_columns: int) -> tuple[float, float]:
    return n_columns * float(np.clip(0.19 * n_boxes, 3.5, 9)) + 3.0, 2.9 * n_rows + 0.6


def _draw_boxes(
    panel: Any,
    runs: dict[int, NDArray[np.float64]],
    study: xr.Dataset,
    names: list[str],
    looks: dict[str, Any],
    epsilons: list[float],
) -> None:
    width = len(looks) + 2
    order = list(looks)
    drawn = [i for i, values in runs.items() if np.isfinite(values).any()]
    if drawn:  # matplotlib takes no boxes for one
        positions = [_place(epsilons, study["epsilon"].values[i]) * width + order.index(names[i]) for i in drawn]
        boxes = panel.boxplot([runs[i][np.isfinite(runs[i])] for i in drawn], positions=positions, **BOXES)
        for i, box in zip(drawn, boxes["boxes"], strict=True):
            box.set_facecolor(looks[names[i]])
    middles = np.arange(len(epsilons)) * width + (len(looks) - 1) / 2
    panel.set_xticks(middles, [number(epsilon) for epsilon in epsilons])
    panel.set_xlim(-1.2, len(epsilons) * width - 1.8)
    for edge in np.arange(1, len(epsilons)) * width - 1.5:
        panel.add_line(Line2D([edge, edge], [0, 1], transform=panel.get_xaxis_transform(), color="0.7", linewidth=0.8))
    panel.set_yscale("log")
    panel.grid(axis="y", alpha=0.3, which="both")


def _share_limits(panels: NDArray[np.object_]) -> None:
    limits = np.array([panel.get_ylim() for panel in panels.ravel() if panel.patches])
    if limits.size:
        for panel in panels.ravel():
            panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())


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
