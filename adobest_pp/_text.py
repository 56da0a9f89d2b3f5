"""Make text from outside safe to show."""

import html
import unicodedata
from typing import Any

LONGEST = 80
# Also the wide characters of East Asian keyboards.
_FORMULAS = tuple("=+-@＝＋－＠")

# Visible format characters, such as the Arabic number sign, and zero-width joiners, which scripts and emoji need.
_FORMATS = {0x200C, 0x200D, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
# Fillers and blanks that show nothing, though Unicode counts them as letters, marks and symbols.
_BLANKS = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}


def is_hidden(character: str) -> bool:
    """Return whether a character could deceive a reader: it shows nothing, controls a terminal or reorders the text."""
    code, category = ord(character), unicodedata.category(character)
    return category in ("Cc", "Cs") or (category == "Cf" and code not in _FORMATS) or code in _BLANKS


def visible(text: object) -> str:
    """Return a text on one line, with a replacement character in place of each one that `is_hidden`."""
    line = " ".join(str(text).split())
    return line if line.isascii() and line.isprintable() else "".join("\ufffd" if is_hidden(c) else c for c in line)


def brief(value: object) -> str:
    """Return the repr of a value on one line, shortened, for the end of an error."""
    try:
        text = visible(repr(value)[: 10 * LONGEST])
    except Exception:  # an integer of thousands of digits, or an object whose repr fails
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def csv_cell[T](value: T) -> T | str:
    """Return the content of a cell of a CSV file: text that a spreadsheet would run as a formula gets a ``'`` in front.

    Examples
    --------
    >>> from adobest_pp._text import csv_cell
    >>> csv_cell("=1+1"), csv_cell("-1"), csv_cell("yes"), csv_cell(-1.5)
    ("'=1+1", '-1', 'yes', -1.5)
    """
    if not isinstance(value, str) or not value.lstrip().startswith(_FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def markdown(text: object) -> str:
    """Return a text for one line of Markdown, escaped so that it is neither HTML nor a link nor ends a table cell."""
    return html.escape(visible(text), quote=False).replace("](", "]\\(").replace("|", "\\|")


def listed(text: str | None, option: str = "--categories") -> list[str] | None:
    """Return the labels in a comma-separated option of the command line, or raise ValueError."""
    if text is None:
        return None
    labels = [label.strip() for label in text.split(",")]
    if not all(labels):
        raise ValueError(f"{option} must be labels separated by single commas, got an empty one in {brief(text)}")
    return labels


def render(package: str, name: str, **values: Any) -> str:
    """Return a page from a Jinja template in the folder ``templates`` of a package; text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else visible(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(name).render(values)
