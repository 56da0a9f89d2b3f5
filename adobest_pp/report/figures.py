"""The figures of a report, as files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from adobest_pp import plots
from adobest_pp.answers.draws import thetas_of
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.plots._common import save_figure
from adobest_pp.report.findings import Findings

MOST_LISTED = 30
MOST_TRACED = 4
RESOLUTION = 150


@dataclass(frozen=True)
class Figure:
    """One figure: its name, and the files it is in."""

    name: str
    png: Path
    svg: Path


def save_figures(findings: Findings, folder: Path) -> dict[str, Figure]:
    """Draw all figures that there is something for into a folder, each as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    restless = least_mixed(findings)
    listed = most_probable(findings)
    drawings: dict[str, Callable[[], Any]] = {
        "estimate": lambda: plots.plot_estimates(
            {"estimate": findings.posterior}, findings.poll.truth, categories=listed
        ),
        "traces": lambda: plots.plot_traces(findings.draws, restless),
        "ranks": lambda: plots.plot_ranks(findings.draws, restless),
    }
    if findings.is_graded:
        drawings["comparison"] = lambda: plots.plot_comparison(findings.comparison.sel(category=listed))
    if (closing := findings.contraction) is not None:
        drawings["contraction"] = lambda: plots.plot_contraction(closing)
    return {name: _save(name, draw, folder) for name, draw in drawings.items()}


def most_probable(findings: Findings) -> list[Any]:
    """Return the categories to list, in their own order: all, or the most probable if there are too many."""
    mean = findings.estimate()["mean"]
    chosen = np.sort(np.argsort(-mean.values, kind="stable")[:MOST_LISTED])
    return list(mean["category"].values[chosen].tolist())


def least_mixed(findings: Findings) -> list[Any]:
    """Return the categories whose chains disagree most, in any sampler."""
    thetas = list(thetas_of(findings.draws).values())
    worst = np.array([mixing(theta.values)["r_hat"] for theta in thetas]).max(axis=0)
    chosen = np.sort(np.argsort(-np.nan_to_num(worst, nan=np.inf), kind="stable")[:MOST_TRACED])
    return list(thetas[0]["category"].values[chosen].tolist())


def _save(name: str, draw: Callable[[], Any], folder: Path) -> Figure:
    with plt.style.context("default"):
        figure = np.asarray(draw(), dtype=object).ravel()[0].figure
        return Figure(name, *save_figure(figure, folder, name, RESOLUTION))
