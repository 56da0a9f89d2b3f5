"""Figures, with matplotlib. Each function takes what to draw and returns the axes it drew on."""

from adobest_pp.plots.best_subset_plot import plot_best_subset
from adobest_pp.plots.channel_plot import plot_belief, plot_channel
from adobest_pp.plots.comparison_plot import plot_calibration, plot_comparison
from adobest_pp.plots.contraction_plot import plot_contraction
from adobest_pp.plots.draws_plot import plot_estimates, plot_ranks, plot_traces
from adobest_pp.plots.honest_response_plot import plot_honest_response
from adobest_pp.plots.simplex_plot import plot_simplex
from adobest_pp.plots.step_sizes_plot import plot_step_sizes
from adobest_pp.plots.study_plot import plot_study

__all__ = [
    "plot_belief",
    "plot_best_subset",
    "plot_calibration",
    "plot_channel",
    "plot_comparison",
    "plot_contraction",
    "plot_estimates",
    "plot_honest_response",
    "plot_ranks",
    "plot_simplex",
    "plot_step_sizes",
    "plot_study",
    "plot_traces",
]
