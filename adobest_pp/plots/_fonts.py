"""Fonts for labels in any script: an installed one that has the characters, or else their code points to read."""

import logging
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

__all__ = ["fallbacks", "legible", "readable"]

logger = logging.getLogger("adobest_pp")

# This font has a box for every character, which tells nothing: never choose it.
LAST_RESORT = "Last Resort"
NORMAL = 400


def readable(text: str) -> str:
    """Return a text with the code point, as U+4E2D, in place of each character that no installed font has."""
    missing = _missing(text) - set().union(*(glyphs(path) for _, path in fallbacks(text)))
    if not missing:
        return text
    _warn(tuple(sorted(missing)))
    shown = "".join(f" U+{ord(c):04X} " if ord(c) in missing else c for c in text)
    return " ".join(shown.split())


def legible(axes: Any) -> Any:
    """Give every text of the figure the fonts that its characters need, and return the axes."""
    for axis in np.asarray(axes, dtype=object).ravel()[:1]:
        for text in axis.figure.findobj(Text):
            families = [name for name, _ in fallbacks(text.get_text())]
            if families:
                text.set_fontfamily([*text.get_fontfamily(), *families])
    return axes


def fallbacks(text: str) -> list[tuple[str, str]]:
    """Return names and files of as few installed fonts as cover the characters that the usual one does not have."""
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
    """Return the code points that a font file has; none if it cannot be read."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def _missing(text: str) -> set[int]:
    """Return the code points of a text that show something and that the usual font does not have."""
    if text.isascii():
        return set()
    usual = glyphs(font_manager.findfont(font_manager.FontProperties()))
    return {ord(c) for c in _shown(text)} - usual


def _shown(text: str) -> Iterable[str]:
    selectors = range(0xFE00, 0xFE10)
    return (c for c in text if not c.isspace() and unicodedata.category(c) != "Cf" and ord(c) not in selectors)


@lru_cache(maxsize=100)
def _warn(missing: tuple[int, ...]) -> None:
    """Log, once for the same characters, that figures show code points."""
    codes = ", ".join(f"U+{code:04X}" for code in missing[:10])
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    logger.warning(
        "No installed font has %s%s: figures show code points in their place. Install a font that has them, such as "
        "Noto Sans CJK.",
        codes,
        more,
    )
