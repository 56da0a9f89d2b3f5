"""Choosing the next question.

- `utility`: one of the paper's six utilities, in closed form, for every size of the published subset. `UTILITIES` has
  them by name; a `Utility` is your own.
- `select_subset`: the subset that a utility chooses; `semi_adaptive_subset` chooses by mass alone.
- `optimal_mechanism`: the best ε-LDP question for a given θ, with a lower bound for all mechanisms;
  `asymptotic_variance` and `efficiency`: how close a mechanism comes to it.
- `mechanism_table` and `efficiency_table`: all mechanisms side by side.
- `plan`: how many people, which ε and which mechanism a collection needs.
- `UTILITY_CODES` has the names of the utilities that Algorithm 1 takes.
"""

from adobest_pp.design.optimal import Design, asymptotic_variance, efficiency, optimal_mechanism
from adobest_pp.design.overview import efficiency_table, mechanism_table
from adobest_pp.design.plan import Plan, plan
from adobest_pp.design.utilities import (
    UTILITIES,
    UTILITY_CODES,
    Utility,
    select_subset,
    semi_adaptive_subset,
    utility,
)

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
