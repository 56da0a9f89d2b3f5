"""Choosing the next question: the six utilities in closed form, and the subset that they choose."""

from adobest_pp.adaptation.choice import METHODS, choose_size
from adobest_pp.adaptation.selection import select_subset, semi_adaptive_subset
from adobest_pp.adaptation.utilities import UTILITIES, Utility, utility

__all__ = ["METHODS", "UTILITIES", "Utility", "choose_size", "select_subset", "semi_adaptive_subset", "utility"]
