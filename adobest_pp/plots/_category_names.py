"""Labels on figures: names of categories and of samplers are data, and are shown as they are."""

from typing import Any

from adobest_pp._text import visible
from adobest_pp.plots._fonts import readable

__all__ = ["legend_entry", "plain", "shorten"]

LONGEST = 24


def plain(label: Any) -> str:
    """Return a label as matplotlib shows it unchanged: a dollar sign would begin a formula.

    A character that no installed font has becomes its code point.
    """
    return readable(visible(label)).replace("$", r"\$")


def shorten(label: Any, longest: int = LONGEST) -> str:
    """Return a label that fits beside an axis: a long one loses its middle, since names often differ at the end."""
    text = visible(label)
    return plain(text if len(text) <= longest else f"{text[: longest // 2]}…{text[1 - longest // 2 :]}")


def legend_entry(label: Any) -> str:
    """Return a label for a legend, which leaves out what begins with an underscore."""
    text = plain(label)
    return f" {text}" if text.startswith("_") else text
