"""Text from outside: make it safe to display, and check category labels."""

import html
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Characters of a value that an error shows.
LONGEST = 80
# How formulas begin, also with the wide characters of East Asian keyboards.
_FORMULAS = tuple("=+-@＝＋－＠")

# Format characters that are not hidden: visible ones, such as the Arabic number sign, and zero-width joiners, which
# scripts and emoji need.
_FORMATS = {0x200C, 0x200D, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
# Fillers and blanks: invisible, though Unicode counts them as letters, marks and symbols.
_BLANKS = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}


def is_hidden(character: str) -> bool:
    """Return whether a character could deceive a reader: it is invisible, controls a terminal or reorders the text."""
    code, category = ord(character), unicodedata.category(character)
    return category in ("Cc", "Cs") or (category == "Cf" and code not in _FORMATS) or code in _BLANKS


def visible(text: object) -> str:
    """Return a text on one line, with a replacement character for each hidden one; see `is_hidden`."""
    line = " ".join(str(text).split())
    return line.translate({ord(c): "\ufffd" for c in set(line) if is_hidden(c)})


def brief(value: object) -> str:
    """Return the repr of a value on one line, shortened, for the end of an error."""
    try:
        text = visible(repr(value)[: 10 * LONGEST])
    except Exception:  # an integer of thousands of digits, or an object whose repr fails
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def csv_cell[T](value: T) -> T | str:
    """Return the content of a cell of a CSV file. Text that a spreadsheet would run as a formula begins with ``'``.

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
    """Return a text for one line of Markdown, escaped so that it has no HTML, no link and no end of a table cell."""
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


# Category labels: check them, and put labeled values in their order.
#
# Labels that look the same raise ValueError, and so does a labeled vector whose labels are not the categories: no value
# silently goes to another category. Labels that are easily confused give a warning.

# The longest label, in characters, and the most marks on one character (as in Unicode's stream-safe text): the time to
# sort a run of marks grows with the square of its length.
MAX_LABEL, MAX_MARKS = 500, 30
# Variation selectors: they choose a form of the previous character, and are invisible themselves.
_SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
# Embeddings, overrides and isolates: a terminal shows the text after them in another order.
_REORDERING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
# Cyrillic and Greek letters, each above the Latin letter that it looks like.
_LATIN = str.maketrans(
    "АВЕКМНОРСТУХЅІЈԚԜасеорхуѕіјһԁԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυχϲϳ",
    "ABEKMHOPCTYXSIJQWaceopxysijhdqwlABEZHIKMNOPTYXaivopuxcj",
)


def appearance(label: str) -> str:
    """Return a label as a reader sees it: equal for two labels that look alike.

    Characters are composed (NFC), white space becomes a single space and is stripped at the ends, and invisible
    characters, such as a zero-width space, are left out.
    """
    composed = unicodedata.normalize("NFC", label)
    return visible(composed.translate({ord(c): None for c in set(composed) if _shows_nothing(c)}))


def _shows_nothing(c: str) -> bool:
    category = unicodedata.category(c)
    return category == "Cf" or ord(c) in _SELECTORS or (is_hidden(c) and category not in ("Cc", "Cs"))


def resemblance(label: str) -> str:
    """Return a text that is equal for labels that are easily confused.

    Such labels differ only in capitals, in the form of characters (a full-width or a raised digit), or in Latin,
    Cyrillic and Greek letters that look the same.
    """
    if label.isascii():
        return label.casefold()
    letters = unicodedata.normalize("NFKC", label).translate(_LATIN)
    return unicodedata.normalize("NFKC", letters.casefold())


def flaw_of(label: str) -> str | None:
    """Return what is wrong with a label by itself, without the label, or None."""
    characters = set(label)
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in characters):
        return "one with a control character or an unpaired surrogate"
    if any(ord(c) in _REORDERING for c in characters):
        return "one with a character that changes the direction of the text"
    if not appearance(label):
        return "one without visible characters"
    if label != label.strip():
        return "one with white space at its ends"
    return None


def check_labels(categories: Sequence[Any] | None, n_categories: int) -> tuple[str, ...]:
    """Return K distinct category labels as strings (``"0"``, ``"1"``, … when none are given), or raise ValueError."""
    if categories is None:
        return tuple(str(i) for i in range(n_categories))
    allowed = f"categories must be {n_categories} distinct labels in a fixed order"
    is_list = isinstance(categories, Iterable) and getattr(categories, "ndim", 1) > 0
    if isinstance(categories, str | bytes | dict | set | frozenset | np.ma.MaskedArray) or not is_list:
        raise ValueError(f"{allowed}, got {brief(categories)}")
    labels = tuple(_label(each, allowed) for each in categories)
    if len(labels) != n_categories:
        raise ValueError(f"{allowed}, got {len(labels)}")
    seen: dict[str, str] = {}
    for label in labels:
        flaw = flaw_of(label)
        if flaw is not None:
            raise ValueError(f"{allowed}, got {flaw}: {label!a}")
        look = appearance(label)
        if look in seen:
            raise ValueError(f"{allowed}, got {seen[look]!a} and {label!a}, which look alike")
        seen[look] = label
    _warn_of_resemblance(labels)
    return labels


def check_stored_labels(categories: Any, n_categories: int) -> tuple[str, ...]:
    """Return the K labels of a file, which must be a list of text as we write it, or raise ValueError."""
    if not isinstance(categories, list) or not all(isinstance(each, str) for each in categories):
        raise ValueError(f"categories must be a list of {n_categories} texts, got {brief(categories)}")
    return check_labels(categories, n_categories)


def _warn_of_resemblance(labels: Sequence[str]) -> None:
    """Warn about the first pair of labels that are easily confused."""
    seen: dict[str, str] = {}
    for label in labels:
        other = seen.setdefault(resemblance(label), label)
        if other is not label:
            warnings.warn(
                f"categories {other!r} and {label!r}{_alphabets(other, label)} are easily mistaken for each other: "
                "check that they are really different",
                UserWarning,
                stacklevel=1,
            )
            return


def _alphabets(*labels: str) -> str:
    """Return the alphabets of two labels, such as " (Latin and Cyrillic)", if they differ."""
    found = [{unicodedata.name(c, "").partition(" ")[0].capitalize() for c in label} for label in labels]
    named = [" + ".join(sorted(each & {"Cyrillic", "Greek", "Latin"})) or "other" for each in found]
    return f" ({' and '.join(named)})" if len({*named}) > 1 else ""


def _label(value: Any, allowed: str) -> str:
    """Return a label, which must be text or a number, as text."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a NumPy scalar
    if not isinstance(value, str | int | float) or value != value:
        raise ValueError(f"{allowed}, got {brief(value)} among them")
    label = str(value)
    if len(label) > MAX_LABEL:
        raise ValueError(f"{allowed}, of at most {MAX_LABEL} characters each, got one of {len(label):,}")
    # One byte for each character, 0 for a mark.
    if not label.isascii() and bytes(MAX_MARKS + 1) in bytes(unicodedata.combining(c) == 0 for c in label):
        raise ValueError(f"{allowed}, got one with more than {MAX_MARKS} marks on a character")
    return label


def labels_of(values: Any) -> tuple[str, ...] | None:
    """Return the labels of an xarray or pandas vector, or None if it has none."""
    xarray, pandas = sys.modules.get("xarray"), sys.modules.get("pandas")
    if xarray is not None and isinstance(values, xarray.DataArray) and values.ndim == 1:
        (dim,) = values.dims
        return tuple(map(str, values[dim].values.tolist())) if dim in values.coords else None
    if pandas is not None and isinstance(values, pandas.Series):
        counted = isinstance(values.index, pandas.RangeIndex) and values.index.equals(pandas.RangeIndex(len(values)))
        return None if counted else tuple(map(str, values.index.tolist()))
    return None


def labels_as_codes(categories: Sequence[str]) -> dict[str, int]:
    """Return the code of each label, in composed form (NFC), for comparison with text that is stripped and composed."""
    return {unicodedata.normalize("NFC", label): code for code, label in enumerate(categories)}


def number_among(categories: Sequence[str]) -> str | None:
    """Return a label that is a whole number and could be taken for a code, or None. 0, 1, … in order are codes."""
    if list(categories) == [str(i) for i in range(len(categories))]:
        return None
    return next((label for label in categories if label.lstrip("-").isdecimal()), None)


def by_label(values: Any, categories: Sequence[str] | None, name: str) -> Any:
    """Return a vector in the order of the categories; one without labels is returned as it is.

    The labels of a DataArray or Series must be exactly the categories. Without categories they raise ValueError.
    """
    labels = labels_of(values)
    return values if labels is None else np.asarray(values)[_order(labels, categories, name)]


def by_column(table: Any, categories: Sequence[str] | None, name: str) -> Any:
    """Return a table (n, K) with its columns in the order of the categories, as `by_label` does for a vector.

    The columns of a DataArray are its dimension ``category``, or otherwise the last one.
    """
    xarray, pandas = sys.modules.get("xarray"), sys.modules.get("pandas")
    if xarray is not None and isinstance(table, xarray.DataArray) and table.ndim == 2:
        table = table.transpose(..., "category", missing_dims="ignore")
        labels = labels_of(table[table.dims[1]]) if table.dims[1] in table.coords else None
    elif pandas is not None and isinstance(table, pandas.DataFrame):
        labels = labels_of(table.columns.to_series(index=table.columns))
    else:
        labels = None
    return table if labels is None else np.asarray(table)[:, _order(labels, categories, name)]


def _order(labels: Sequence[str], categories: Sequence[str] | None, name: str) -> list[int]:
    """Return the place of each category among the labels, or raise ValueError if these are not the categories."""
    if categories is None:
        raise ValueError(
            f"{name} must have no labels here, because there are no categories to compare them with, got "
            f"{brief(list(labels))}: put it in the order of the categories and pass its values"
        )
    if not same_labels(labels, categories):
        raise ValueError(f"{name} must have the labels {brief(list(categories))}, got {brief(list(labels))}")
    places = {label: i for i, label in enumerate(labels)}
    return [places[label] for label in categories]


def same_labels(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two lists have the same distinct labels, in any order."""
    return len(one) == len(other) == len(set(one)) and set(one) == set(other)
