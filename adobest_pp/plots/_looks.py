"""How figures look: colors and markers that color-blind readers can tell apart, and numbers on logarithmic axes."""

from typing import Any

from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter

__all__ = ["COLORS", "MARKERS", "look", "number_log_axis"]

# The colors of Okabe and Ito (2008), without yellow, which is too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Up to which ratio of its ends a logarithmic axis has which numbers in each decade, or evenly spaced ones.
NUMBERED: tuple[tuple[float, tuple[float, ...]], ...] = (
    (3, ()),
    (10, (1, 1.5, 2, 3, 4, 5, 7)),
    (1e4, (1, 2, 5)),
)


def look(i: int) -> dict[str, Any]:
    """Return the color and the marker of the i-th of several things; no two of the first 49 share both."""
    return {"color": COLORS[i % len(COLORS)], "marker": MARKERS[(i + i // len(COLORS)) % len(MARKERS)]}


def number_log_axis(axis: Any) -> None:
    """Write the numbers of a logarithmic axis as 0.1, 0.2, 0.5, 1, …, as many as it has room for."""
    low, high = axis.get_view_interval()
    subs = next((subs for ratio, subs in NUMBERED if high <= ratio * low), (1,))
    axis.set_major_locator(LogLocator(subs=subs, numticks=9) if subs else AutoLocator())
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(NullFormatter())
