"""Estimates to hand on: shares of everybody and of groups, with weights and intervals that cover.

`estimate` makes a table from answers. It rests on `direct` (unbiased estimates of people with weights) and `pooling`
(groups that borrow from each other). `association` is for two private questions of the same people,
`ordered_quantiles` and `numbers_in_bins` are for categories with an order and for numbers.
"""

from adobest_pp.estimates.estimate import estimate
from adobest_pp.estimates.pairs import association, people_for_association
from adobest_pp.estimates.scales import numbers_in_bins, ordered_quantiles

__all__ = ["association", "estimate", "numbers_in_bins", "ordered_quantiles", "people_for_association"]
