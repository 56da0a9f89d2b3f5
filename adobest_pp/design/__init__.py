"""Choosing the next question: the six utilities in closed form, and the subset that they choose."""

from adobest_pp.design.subset_choice import UTILITY_CODES, choose_size
from adobest_pp.design.subsets import select_subset, semi_adaptive_subset
from adobest_pp.design.utilities import UTILITIES, Utility, utility

__all__ = ["UTILITIES", "UTILITY_CODES", "Utility", "choose_size", "select_subset", "semi_adaptive_subset", "utility"]
