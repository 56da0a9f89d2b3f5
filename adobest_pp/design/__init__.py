"""Choosing the next question.

- `utility`: one of the paper's six utilities, in closed form, for every size of the published subset; `UTILITIES` has
  them by name, and a `Utility` is one of your own.
- `select_subset`: the subset that a utility chooses; `semi_adaptive_subset` chooses by mass alone.
- `optimal_mechanism`: the best ε-LDP question for a given θ, with a bound that no mechanism goes below;
  `asymptotic_variance` and `efficiency`: how far from it a mechanism is.
- `mechanism_table` and `efficiency_table`: all mechanisms side by side.
- `plan`: how many people, which ε and which mechanism a collection takes.
- `UTILITY_CODES` has the names that the online loop takes.
"""

from adobest_pp.design.optimal import Design, asymptotic_variance, efficiency, optimal_mechanism
from adobest_pp.design.overview import efficiency_table, mechanism_table
from adobest_pp.design.plan import Plan, plan
from adobest_pp.design.subsets import UTILITY_CODES, select_subset, semi_adaptive_subset
from adobest_pp.design.utilities import UTILITIES, Utility, utility

__all__ = [
    "UTILITIES",
    "UTILITY_CODES",
    "Design",
    "Plan",
    "Utility",
    "asymptotic_variance",
    "efficiency",
    "efficiency_table",
    "mechanism_table",
    "optimal_mechanism",
    "plan",
    "select_subset",
    "semi_adaptive_subset",
    "utility",
]
