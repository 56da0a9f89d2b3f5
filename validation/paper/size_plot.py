"""Heat maps of the average |S| (Figures 5 and 6 of the paper)."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp.plots._common import check_axes
from adobest_pp.studies.summary import done, number, shown

__all__ = ["adaptive", "plot_subset_sizes"]


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
