"""The intervals that people see: they contain a share with a probability of 95 %, whatever the shares are.

A posterior interval contains the truth in 95 % of collections if truths come from its prior. For a given truth it may
do so much less often: the learned prior mistakes rare categories for empty ones, the flat prior mistakes noise for
rare categories, and no prior that was tried is right for all truths (``python -m validation.fixed_truths``). So if the
answers are known, the interval of a category uses its own evidence (`covering_intervals`), and the prior serves only
the estimate, which it makes more accurate.

For draws alone, such as those of your own model, intervals are the shortest that contain a share of the draws
(`shortest_intervals`). If a category may be empty, its posterior piles up at zero, and the shortest interval begins
there.

Of many categories, people want the `largest`, those `above` a threshold, and `sums` over groups. Their error rates hold
whatever the shares are, although the same answers choose what is listed.

Read `shares` (the two kinds of intervals, and tables of draws and answers), then `many`.
"""

from adobest_pp.intervals.many import above, largest, sums
from adobest_pp.intervals.shares import (
    COVERING,
    PROBABILITY,
    SHORTEST,
    change,
    covering_intervals,
    privacy_share,
    shortest_intervals,
    summary,
)

__all__ = [
    "COVERING",
    "PROBABILITY",
    "SHORTEST",
    "above",
    "change",
    "covering_intervals",
    "largest",
    "privacy_share",
    "shortest_intervals",
    "summary",
    "sums",
]
