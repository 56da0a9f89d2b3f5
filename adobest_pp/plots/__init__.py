"""Figures, with matplotlib. Each function takes data and returns the axes that it drew on.

Names are imported on first use, so that a heat map of a matrix does not wait for ArviZ.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.plots.comparison import plot_best_subset as plot_best_subset
    from adobest_pp.plots.comparison import plot_calibration as plot_calibration
    from adobest_pp.plots.comparison import plot_comparison as plot_comparison
    from adobest_pp.plots.comparison import plot_contraction as plot_contraction
    from adobest_pp.plots.comparison import plot_frontier as plot_frontier
    from adobest_pp.plots.comparison import plot_grades as plot_grades
    from adobest_pp.plots.draws import plot_estimates as plot_estimates
    from adobest_pp.plots.draws import plot_ranked as plot_ranked
    from adobest_pp.plots.draws import plot_ranks as plot_ranks
    from adobest_pp.plots.draws import plot_shares as plot_shares
    from adobest_pp.plots.draws import plot_traces as plot_traces
    from adobest_pp.plots.mechanisms import plot_belief as plot_belief
    from adobest_pp.plots.mechanisms import plot_channel as plot_channel
    from adobest_pp.plots.mechanisms import plot_efficiency as plot_efficiency
    from adobest_pp.plots.mechanisms import plot_honest_response as plot_honest_response
    from adobest_pp.plots.mechanisms import plot_plan as plot_plan
    from adobest_pp.plots.simplex import plot_simplex as plot_simplex

_HOMES = {
    "plot_belief": "mechanisms",
    "plot_best_subset": "comparison",
    "plot_calibration": "comparison",
    "plot_channel": "mechanisms",
    "plot_comparison": "comparison",
    "plot_contraction": "comparison",
    "plot_efficiency": "mechanisms",
    "plot_estimates": "draws",
    "plot_frontier": "comparison",
    "plot_grades": "comparison",
    "plot_honest_response": "mechanisms",
    "plot_plan": "mechanisms",
    "plot_ranked": "draws",
    "plot_ranks": "draws",
    "plot_shares": "draws",
    "plot_simplex": "simplex",
    "plot_traces": "draws",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
