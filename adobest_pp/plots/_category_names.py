"""Names of categories on figures."""

from typing import Any

from adobest_pp._text import visible
from adobest_pp.plots._fonts import readable

__all__ = ["plain", "shorten"]

LONGEST = 24


def plain(label: Any) -> str:
    """Return a label as it is: a dollar sign would be read as mathematics, and labels are data.

    Characters that no installed font has are told by their code points.
    """
    return readable(visible(label)).replace("$", r"\$")


def shorten(label: Any) -> str:
    """Return a label that fits beside an axis: as it is, or without its middle, since names often differ at the end."""
    text = visible(label)
    shown = readable(text)  # code points are longer than the characters that they stand for
    return plain(shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]}…{shown[1 - LONGEST // 2 :]}")
