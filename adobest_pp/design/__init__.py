"""Choosing the next question.

- `utility`: one of the paper's six utilities, in closed form, for every size of the published subset; `UTILITIES` has
  them by name, and a `Utility` is one of your own.
- `select_subset`: the subset that a utility chooses; `semi_adaptive_subset` chooses by mass alone.
- `choose_size`: the same choice compiled, for the online loop; `UTILITY_CODES` has the names that the loop takes.
"""

from adobest_pp.design.subset_choice import UTILITY_CODES, choose_size
from adobest_pp.design.subsets import select_subset, semi_adaptive_subset
from adobest_pp.design.utilities import UTILITIES, Utility, utility

__all__ = ["UTILITIES", "UTILITY_CODES", "Utility", "choose_size", "select_subset", "semi_adaptive_subset", "utility"]
