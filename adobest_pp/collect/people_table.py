"""A file of people: its private columns as categories, its public columns as text or numbers.

The rules: the file is CSV with commas, semicolons or tabs in UTF-8 (or UTF-16 with a byte order mark), Parquet, Arrow,
or the first sheet of an Excel workbook (``.xlsx``, with openpyxl). The first row names the columns, and every row has
as many cells. A blank line is skipped; in a file of one column, it is an empty value. A column's name occurs once.
White space at the ends of names and values is dropped and characters are composed (Unicode NFC); otherwise values must
be equal, capitals included, unless `ignore_case` is given. An empty value, or one of `missing`, means that the person
did not answer.

No private value is ever shown, not even in an error, with two exceptions that reveal nothing new: a spelling that
differs from a category only in capitals, spaces or the form of characters, and a word such as "n/a" that means no
answer. An error never says how many people have a value: a count of odd spellings would reveal how many people are in a
category. Other values are not shown, because a column that was named by mistake may hold anything about a person.
"""

import math
import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_flag, check_path
from adobest_pp._text import appearance, brief, check_labels, flaw_of, resemblance
from adobest_pp.answers.gather.pieces import FORMATS
from adobest_pp.answers.gather.tables import csv_batches, csv_encoding, csv_schema, csv_separator

# The code of somebody who did not answer.
NO_VALUE = -1
EXCEL = (".xlsx", ".xlsm")
# The most bytes that the parts of a workbook may unpack to.
MOST_UNPACKED = 1 << 30
# Words that often stand for no answer, as they are compared: without capitals and spaces.
NO_ANSWER = {"n/a", "#n/a", "na", "nan", "null", ".", "-", "--", "–", "?", "missing", "noanswer", "notanswered", "k.a."}
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
# How many odd spellings an error lists.
MOST_LISTED = 8


def as_categories(
    texts: Sequence[str],
    column: str,
    categories: Sequence[str] | None,
    ignore_case: bool = False,
    missing: Sequence[str] = (),
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the texts of a private column as category indices, −1 for no answer, and the labels.

    Without `categories`, the labels are the distinct values, sorted. With `ignore_case`, values that differ from a
    category only in capitals, spaces or the form of characters are that category. `missing` are values that mean that
    the person did not answer.
    """
    check_flag(ignore_case, "ignore_case")
    if isinstance(missing, str) or not all(isinstance(each, str) for each in missing):
        raise ValueError(f"missing must be values that mean no answer, got {brief(missing)}")
    if ignore_case and categories is None:
        raise ValueError("ignore_case must come with categories: they say which spelling is meant")
    silent = {_as_text(each) for each in missing}
    values = ["" if text in silent else text for text in texts]
    if categories is None:
        labels = _found_labels(values)
    else:
        n = len(categories) if hasattr(categories, "__len__") else 0
        labels = [_as_text(label) for label in check_labels(categories, n)]
        if both := [label for label in labels if label in silent]:
            raise ValueError(f"missing must be values that are no categories, got {brief(both)}")
    if len(labels) < 2:
        raise ValueError(f"categories must be at least two, got {len(labels)}: name the possible values")
    places = {label: i for i, label in enumerate(labels)} | {"": NO_VALUE}
    odd = dict.fromkeys(value for value in values if value not in places)
    likely = {_likeness(label): label for label in labels}
    if ignore_case and len(likely) < len(labels):
        raise ValueError(f"ignore_case must be left out if labels of {column!r} differ only in capitals or spaces")
    meant = {value: likely[_likeness(value)] for value in odd if _likeness(value) in likely}
    if ignore_case:
        places |= {value: places[label] for value, label in meant.items()}
        odd = {value: None for value in odd if value not in meant}
        meant = {}
    if odd:
        raise ValueError(_odd_in_words(odd, meant, values))
    return np.array([places[value] for value in values], dtype=np.int64), labels


def _found_labels(values: list[str]) -> list[str]:
    """Return the distinct values, sorted, or raise ValueError if they cannot be categories without being named."""
    looks: dict[str, str] = {}
    likely: dict[str, str] = {}
    for person, value in enumerate(values, start=1):
        if not value:
            continue
        _check_visible(value, person)
        if looks.setdefault(appearance(value), value) != value:
            raise ValueError(
                f"column must have values that look different, got one for person {person} that only looks like an "
                "earlier one (neither is shown)"
            )
        if likely.setdefault(_likeness(value), value) != value:
            raise ValueError(
                f"column must have values that differ by more than capitals or spaces, got one for person {person} "
                "that does not (neither is shown): name the categories (--categories), and give ignore_case "
                "(--ignore-case) if such values mean the same"
            )
        if _likeness(value) in NO_ANSWER:
            raise ValueError(
                f"categories must be named if a value may mean no answer, got {brief(value)} for a person: name the "
                f"categories (--categories), or give missing (--missing {value!r}) if it is not a category"
            )
    return sorted(set(values) - {""})


def _check_visible(value: str, person: int) -> None:
    if flaw_of(value) is not None:
        raise ValueError(
            f"column must have visible values without control characters, got another for person {person} "
            "(it is not shown)"
        )


def _odd_in_words(odd: Mapping[str, Any], meant: dict[str, str], values: list[str]) -> str:
    """Return which values are not categories, as far as that may be shown, and what to do."""
    for value in odd:
        _check_visible(value, values.index(value) + 1)
    silent = [value for value in odd if value not in meant and _likeness(value) in NO_ANSWER]
    others = [value for value in odd if value not in meant and value not in silent]
    parts, todo = [], []
    if meant:
        shown = [f"{brief(value)} for {brief(label)}" for value, label in [*meant.items()][:MOST_LISTED]]
        more = f" and {len(meant) - MOST_LISTED} more" if len(meant) > MOST_LISTED else ""
        parts.append(
            f"some differ from a category in capitals or spaces ({', '.join(shown)}{more}; how many people wrote them "
            "is not shown, because that would reveal something about x)"
        )
        todo.append("give ignore_case (--ignore-case) to read them as these categories")
    if silent:
        parts.append(f"some may mean no answer ({', '.join(map(brief, silent))})")
        todo.append(f"name what means no answer as missing (--missing {silent[0]!r})")
    if others:
        first = values.index(others[0]) + 1
        more = f", nor {len(others) - 1} other values" if len(others) > 1 else ""
        parts.append(f"not that of person {first} (it is not shown){more}")
        commas = any("," in value for value in others)
        todo += ["name labels with a comma in a file, one a line (--categories @file)"] if commas else []
    advice = f": {'; '.join(todo)}" if todo else ""
    return f"categories must include every value, but {'; '.join(parts)}{advice}"


def _likeness(value: str) -> str:
    """Return a value without differences in capitals, white space and forms of characters."""
    return re.sub(r"\s+", "", resemblance(value))


def as_numbers(texts: Sequence[str], column: str) -> NDArray[np.float64]:
    """Return the texts of a public column as numbers, NaN for an empty one; a comma may be the decimal point.

    Raise ValueError if one is not a number, or if it could be read in two ways, such as 1,234.5 or 1.234,5.
    """
    numbers = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if not text:
            continue
        if not NUMBER.fullmatch(text):
            raise ValueError(
                f"column {column!r} must hold numbers such as 0.8 or 0,8, got {brief(text)} in row {i + 1}"
            )
        numbers[i] = float(text.replace(",", "."))
    return numbers


def as_bins(
    texts: Sequence[str], column: str, edges: Sequence[float], missing: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Return the numbers of a private column as the indices of their bins, −1 for no answer, or raise ValueError.

    A number at an edge is in the bin that begins there, and the last edge is in the last bin. Numbers are written as
    for `as_numbers`. The error about a value that is not a number, or in no bin, does not show it.
    """
    silent = {"", *(_as_text(each) for each in missing)}
    codes = np.full(len(texts), NO_VALUE, dtype=np.int64)
    for i, text in enumerate(texts):
        if text in silent:
            continue
        number = float(text.replace(",", ".")) if NUMBER.fullmatch(text) else math.nan
        if not edges[0] <= number <= edges[-1]:
            raise ValueError(
                f"column {column!r} must hold numbers from {edges[0]:g} to {edges[-1]:g}, but not that of person "
                f"{i + 1} (it is not shown): change the bins, or name what means no answer as missing"
            )
        codes[i] = min(bisect_right(edges, number), len(edges) - 1) - 1
    return codes


def read_texts(
    path: str | os.PathLike[str], private: Sequence[str], public: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return columns of a file of people as texts, empty if missing, or raise ValueError.

    Private columns hold text, integers or booleans; public ones may also hold other numbers and dates. Private numbers
    for `as_bins` are named among the public columns: no error shows a value of either.
    """
    name = os.fspath(check_path(path))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"path must name a file of people, got {name!r}, which does not exist")
    wanted = [*private, *public]
    twice = next((column for i, column in enumerate(wanted) if column in wanted[:i]), None)
    if twice is not None:
        raise ValueError(f"columns must be different, got {brief(twice)} twice")
    suffix = Path(path).suffix.lower()
    form = "excel" if suffix in EXCEL else FORMATS.get(suffix, "csv")
    read = {"excel": _excel_columns, "csv": _csv_columns}.get(form, _arrow_columns)
    try:
        return {column: [_as_text(text) for text in texts] for column, texts in read(path, private, public).items()}
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None


def _csv_columns(path: str | os.PathLike[str], private: Sequence[str], public: Sequence[str]) -> dict[str, list[str]]:
    import pyarrow as pa

    name = os.fspath(path)
    allowed, wanted = f"path must name a CSV file in UTF-8, got {name!r}", [*private, *public]
    try:
        _check_quotes(path, allowed)
        separator = csv_separator(path, [each for each in wanted if isinstance(each, str)])
        names = csv_schema(path, separator, newlines_in_values=True).names
        found = [_found(column, names, name) for column in wanted]
        schema = pa.schema([(each, pa.string()) for each in found])
        how = {"newlines_in_values": True, "ignore_empty_lines": len(names) > 1}
        table = pa.Table.from_batches(csv_batches(path, found, separator, **how), schema)
    except UnicodeError:
        raise ValueError(f"{allowed}, which has another encoding: save it as UTF-8") from None
    except (pa.ArrowException, OSError) as problem:
        raise ValueError(f"{allowed}, which is damaged or not one: {problem}") from None
    return {column: table.column(i).fill_null("").to_pylist() for i, column in enumerate(wanted)}


def _arrow_columns(path: str | os.PathLike[str], private: Sequence[str], public: Sequence[str]) -> dict[str, list[str]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    name, texts = os.fspath(path), {}
    form = FORMATS[Path(path).suffix.lower()]
    try:
        people = ds.dataset(name, format="ipc" if form == "arrow" else form, filesystem=LocalFileSystem())
        wanted = [_found(column, people.schema.names, name) for column in (*private, *public)]
        table = people.to_table(columns=wanted)
        for i, column in enumerate((*private, *public)):
            values = table.column(i).combine_chunks()
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            kind = values.type
            is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
            is_number = pa.types.is_floating(kind) or pa.types.is_date(kind)
            is_code = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
            if not (is_text or is_code or (is_number and i >= len(private))):
                raise KeyError(f"column must hold text, integers or booleans, got values of type {kind} in {name!r}")
            if pa.types.is_floating(kind):
                values = pc.if_else(pc.is_nan(values), None, values)
            texts[column] = pc.fill_null(values.cast(pa.large_string()), "").to_pylist()
    except UnicodeError:
        raise ValueError(f"path must name a Parquet or Arrow file in UTF-8, got {name!r}") from None
    except (pa.ArrowException, OSError):
        raise ValueError(f"path must name a Parquet or Arrow file, got {name!r}, which is damaged or not one") from None
    return texts


def _excel_columns(path: str | os.PathLike[str], private: Sequence[str], public: Sequence[str]) -> dict[str, list[str]]:
    from zipfile import BadZipFile, ZipFile

    name = os.fspath(path)
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(
            f"path must name a CSV, Parquet or Arrow file unless openpyxl is installed, got {name!r}: install "
            "adobest-pp[xlsx], or save the sheet as CSV"
        ) from None
    allowed = f"path must name an Excel workbook, got {name!r}"
    try:
        with ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > MOST_UNPACKED:
                raise KeyError(f"{allowed}, which unpacks to more than {MOST_UNPACKED >> 30} GB")
        book = load_workbook(path, read_only=True, data_only=True)
        try:
            rows = book.worksheets[0].iter_rows(values_only=True)
            names = ["" if each is None else str(each) for each in next(rows, ())]
            places = {each: names.index(_found(each, names, name)) for each in (*private, *public)}
            people = [row for row in rows if any(cell not in (None, "") for cell in row)]
        finally:
            book.close()
    except (BadZipFile, ValueError, IndexError, TypeError, AttributeError, OSError, SyntaxError) as problem:
        reason = "" if not isinstance(problem, OSError) else f" ({problem.strerror})"
        raise ValueError(f"{allowed}, which is damaged or not one{reason}") from None
    return {
        column: [_cell(row[place] if place < len(row) else None, column in private, name) for row in people]
        for column, place in places.items()
    }


def _cell(value: Any, is_private: bool, path: str) -> str:
    """Return the text of a cell of a workbook, or raise KeyError. Excel keeps whole numbers as fractions."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int) or (not is_private and isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, date) and not is_private:
        return value.isoformat()[:10]
    kind = type(value).__name__
    raise KeyError(f"column must hold text, integers or booleans, got values of type {kind} in {path!r}")


def _found(column: Any, names: Sequence[str], path: str) -> str:
    """Return the column's name as the file has it, or raise KeyError.

    The error does not show the names of the file: without a header, they are the values of a person.
    """
    if any("\0" in each for each in names):
        raise UnicodeError
    same = [each for each in names if isinstance(column, str) and _as_text(each) == _as_text(column)]
    if len(same) != 1:
        raise KeyError(f"column must be named once in {path!r}, got {brief(column)}, which it has {len(same)} times")
    return same[0]


def _check_quotes(path: str | os.PathLike[str], allowed: str) -> None:
    """Raise KeyError if a quotation mark is not closed: Arrow would read the rest of the file as one cell."""
    with open(path, encoding=csv_encoding(path), newline="") as file:
        if sum(block.count('"') for block in iter(lambda: file.read(1 << 20), "")) % 2:
            raise KeyError(f"{allowed}, in which a quotation mark is not closed")


def _as_text(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())
