"""Figures, with matplotlib. Each function takes what to draw and returns the axes it drew on.

Names are imported on first use: a picture of a matrix does not wait for ArviZ.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.plots.best_subset_plot import plot_best_subset as plot_best_subset
    from adobest_pp.plots.channel_plot import plot_belief as plot_belief
    from adobest_pp.plots.channel_plot import plot_channel as plot_channel
    from adobest_pp.plots.comparison_plot import plot_calibration as plot_calibration
    from adobest_pp.plots.comparison_plot import plot_comparison as plot_comparison
    from adobest_pp.plots.contraction_plot import plot_contraction as plot_contraction
    from adobest_pp.plots.draws_plot import plot_estimates as plot_estimates
    from adobest_pp.plots.draws_plot import plot_ranks as plot_ranks
    from adobest_pp.plots.draws_plot import plot_traces as plot_traces
    from adobest_pp.plots.frontier_plot import plot_frontier as plot_frontier
    from adobest_pp.plots.honest_response_plot import plot_honest_response as plot_honest_response
    from adobest_pp.plots.plan_plot import plot_efficiency as plot_efficiency
    from adobest_pp.plots.plan_plot import plot_plan as plot_plan
    from adobest_pp.plots.simplex_plot import plot_simplex as plot_simplex
    from adobest_pp.plots.step_sizes_plot import plot_step_sizes as plot_step_sizes
    from adobest_pp.plots.study_plot import plot_study as plot_study

_HOMES = {
    "plot_belief": "channel_plot",
    "plot_best_subset": "best_subset_plot",
    "plot_calibration": "comparison_plot",
    "plot_channel": "channel_plot",
    "plot_comparison": "comparison_plot",
    "plot_contraction": "contraction_plot",
    "plot_efficiency": "plan_plot",
    "plot_estimates": "draws_plot",
    "plot_frontier": "frontier_plot",
    "plot_honest_response": "honest_response_plot",
    "plot_plan": "plan_plot",
    "plot_ranks": "draws_plot",
    "plot_simplex": "simplex_plot",
    "plot_step_sizes": "step_sizes_plot",
    "plot_study": "study_plot",
    "plot_traces": "draws_plot",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
