"""Shared by all figures: colors and markers for color-blind readers, axes, labels in any script, and files."""

import logging
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter
from numpy.typing import NDArray

from adobest_pp._files import replacing
from adobest_pp._text import brief, visible

# The colors of Okabe and Ito (2008) without yellow, which is too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# The numbers to show in each decade of a logarithmic axis, by the largest ratio of its ends; () for evenly spaced ones.
NUMBERED: tuple[tuple[float, tuple[float, ...]], ...] = ((3, ()), (10, (1, 1.5, 2, 3, 4, 5, 7)), (1e4, (1, 2, 5)))


def look(i: int) -> dict[str, Any]:
    """Return the color and marker of the i-th item. No two of the first 49 share both."""
    return {"color": COLORS[i % len(COLORS)], "marker": MARKERS[(i + i // len(COLORS)) % len(MARKERS)]}


def widths(i: int, n: int) -> dict[str, float]:
    """Return the widths of the i-th of n lines: they fall with i, so that a line below an equal one can be seen."""
    return {"linewidth": 1.5 + 0.6 * (n - 1 - i), "markersize": 5 + 0.9 * (n - 1 - i)}


def number_log_axis(*axes: Any) -> None:
    """Label logarithmic axes with 0.1, 0.2, 0.5, 1, …, with as many numbers as there is room for."""
    for axis in axes:
        low, high = axis.get_view_interval()
        subs = next((subs for ratio, subs in NUMBERED if high <= ratio * low), (1,))
        axis.set_major_locator(LogLocator(subs=subs, numticks=9) if subs else AutoLocator())
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


def legend_beside(panel: Any, *entries: Any) -> None:
    """Put the legend to the right of a panel."""
    panel.legend(*entries, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)


# Checks of arguments.


def check_result(result: Any, name: str, maker: str, needed: Sequence[str], attributes: Sequence[str] = ()) -> None:
    """Raise ValueError unless `result` is a dataset with the variables and attributes that a figure needs."""
    allowed = f"{name} must be a result of {maker}"
    if not isinstance(result, xr.Dataset):
        raise ValueError(f"{allowed}, got {type(result).__name__}")
    missing = [each for each in needed if each not in result.variables]
    missing += [each for each in attributes if each not in result.attrs]
    if missing:
        raise ValueError(f"{allowed}, got a dataset without {', '.join(missing)}")


def check_axes(
    axes: Any, n: int, allowed: str, figsize: tuple[float, float] | None = None, **options: Any
) -> NDArray[np.object_]:
    """Return n matplotlib axes as an array of shape (n,), or raise ValueError.

    If axes is None and `figsize` is given, they are a row of a new figure, with these options of `plt.subplots`.
    """
    if axes is None and figsize is not None:
        axes = plt.subplots(1, n, figsize=figsize, layout="constrained", **options)[1]
    try:
        panels = np.asarray(axes, dtype=object).ravel()
    except Exception:  # whatever an object of another library raises
        raise ValueError(f"axes must be {allowed}, got {brief(axes)}") from None
    if panels.shape != (n,):
        raise ValueError(f"axes must be {allowed}, got {panels.size}")
    for panel in panels:
        if not hasattr(panel, "plot"):
            raise ValueError(f"axes must be matplotlib axes, got {brief(panel)}")
    return panels


def check_categories(categories: Any, known: Sequence[str]) -> list[str]:
    """Return the labels to draw, at least one of the known ones, or raise ValueError."""
    is_list = isinstance(categories, Sequence | np.ndarray) and getattr(categories, "ndim", 1) == 1
    if isinstance(categories, str) or not is_list or not len(categories):
        raise ValueError(f"categories must be at least one label, got {brief(categories)}")
    labels = [str(label) for label in categories]
    for label in labels:
        if label not in known:
            raise ValueError(f"categories must be among {brief(list(known))}, got {brief(label)}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"categories must be distinct, got {brief(labels)}")
    return labels


# Labels: names of categories and samplers are data, and are shown unchanged.

LONGEST = 24


def plain(label: Any) -> str:
    """Return a label that matplotlib shows unchanged: a dollar sign would start a formula.

    A character that no installed font has becomes its code point.
    """
    return readable(visible(label)).replace("$", r"\$")


def shorten(label: Any, longest: int = LONGEST) -> str:
    """Return a label that fits beside an axis. A long one loses its middle, since names often differ at the end."""
    text = readable(visible(label))  # code points are longer than the characters that they stand for
    return plain(text if len(text) <= longest else f"{text[: longest // 2]}…{text[1 - longest // 2 :]}")


def legend_entry(label: Any) -> str:
    """Return a label for a legend. Matplotlib would leave out one that starts with an underscore."""
    text = plain(label)
    return f" {text}" if text.startswith("_") else text


# Fonts for labels in any script: an installed font that has the characters, or else their code points.

logger = logging.getLogger("adobest_pp")

# This font has only a box for every character.
LAST_RESORT = "Last Resort"
NORMAL = 400


def readable(text: str) -> str:
    """Replace each character that no installed font has by its code point, such as U+4E2D."""
    missing = _missing(text) - set().union(*(glyphs(path) for _, path in fallbacks(text)))
    if not missing:
        return text
    _warn(tuple(sorted(missing)))
    shown = "".join(f" U+{ord(c):04X} " if ord(c) in missing else c for c in text)
    return " ".join(shown.split())


def legible[T](axes: T) -> T:
    """Give every text of the figure the fonts that it needs, and return the axes."""
    for axis in np.asarray(axes, dtype=object).ravel()[:1]:
        for text in axis.figure.findobj(Text):
            families = [name for name, _ in fallbacks(text.get_text())]
            if families:
                text.set_fontfamily([*text.get_fontfamily(), *families])
    return axes


def fallbacks(text: str) -> list[tuple[str, str]]:
    """Return names and files of the fewest installed fonts that cover the characters missing from the usual font."""
    missing, chosen = _missing(text), []
    while missing:
        name, path = max(installed(), key=lambda font: len(missing & glyphs(font[1])), default=("", ""))
        found = missing & glyphs(path) if path else set()
        if not found:
            break
        chosen.append((name, path))
        missing -= found
    return chosen


def installed() -> list[tuple[str, str]]:
    """Return names and files of the upright fonts of normal weight that matplotlib can draw with."""
    fonts = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if font.style == "normal" and font.weight == NORMAL and not font.name.startswith(LAST_RESORT)
    }
    return sorted(fonts.items())


@cache
def glyphs(path: str) -> frozenset[int]:
    """Return the code points of a font file; none if it cannot be read."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def _missing(text: str) -> set[int]:
    """Return the visible code points of a text that the usual font lacks."""
    if text.isascii():
        return set()
    usual, selectors = glyphs(font_manager.findfont(font_manager.FontProperties())), range(0xFE00, 0xFE10)
    shown = {ord(c) for c in text if not c.isspace() and unicodedata.category(c) != "Cf"}
    return shown.difference(usual, selectors)


@lru_cache(maxsize=100)
def _warn(missing: tuple[int, ...]) -> None:
    """Log that figures show code points, once for the same characters."""
    codes = ", ".join(f"U+{code:04X}" for code in missing[:10])
    codes += f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    text = "No installed font has %s: figures show code points instead. Install a font that has them, such as %s."
    logger.warning(text, codes, "Noto Sans CJK")


# Files: the same figure gives the same bytes, so they contain no dates and no random names.

METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}


def save_figure(figure: Any, folder: Path, name: str, dpi: int) -> tuple[Path, Path]:
    """Save a figure as PNG and SVG, each whole or not at all; close it and return both paths."""
    png, svg = (folder / f"{name}.{suffix}" for suffix in METADATA)
    salt: Any = {"svg.hashsalt": name}
    try:
        with plt.rc_context(salt):
            for path in (png, svg):
                kind = path.suffix.removeprefix(".")
                with replacing(path) as temporary:
                    figure.savefig(temporary, format=kind, dpi=dpi, metadata=METADATA[kind])
                figure.set_layout_engine("none")  # keep the layout, which takes most of the time
    finally:
        plt.close(figure)
    return png, svg
