"""Figures, with matplotlib. Each function takes what to draw and returns the axes it drew on."""

from adobest_pp.plots.accuracy import calibration, comparison
from adobest_pp.plots.contraction import contraction
from adobest_pp.plots.draws import estimates, ranks, traces
from adobest_pp.plots.honest import family as family
from adobest_pp.plots.honest import honest_response
from adobest_pp.plots.regret import regret
from adobest_pp.plots.step_sizes import step_sizes
from adobest_pp.plots.studies import subset_sizes, tv_boxes

__all__ = [
    "calibration",
    "comparison",
    "contraction",
    "estimates",
    "honest_response",
    "ranks",
    "regret",
    "step_sizes",
    "subset_sizes",
    "traces",
    "tv_boxes",
]
