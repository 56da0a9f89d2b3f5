"""Figures, with matplotlib. Each function takes what to draw and returns the axes it drew on."""

from adobest_pp.plots.honest import family as family
from adobest_pp.plots.honest import honest_response

__all__ = ["honest_response"]
