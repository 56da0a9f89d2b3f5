"""One column of a CSV file of people, as category indices. No value of a person is ever shown, not even in an error.

The rules: the file is UTF-8 with a header. Every row has as many cells as the header; in a file of one column, a blank
line is an empty value. The column's name occurs once. White space at the ends of names and values is dropped and
characters are composed (Unicode NFC); otherwise they must be equal, capitals included. An empty value is that of a
person who did not answer. A value that holds a control character or that only looks like another one raises ValueError,
which names the number of the person.

Parquet and Arrow files are read by column, too (`table_column`), under the same rules for values.
"""

import csv
import os
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_path
from adobest_pp._labels import appearance, check_labels, flaw_of
from adobest_pp._text import brief
from adobest_pp.online.table_column import TABLES, table_values

__all__ = ["NO_VALUE", "read_column"]

# The index of somebody who did not answer.
NO_VALUE = -1


def read_column(
    path: str | os.PathLike[str], column: str, categories: Sequence[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the column as category indices, −1 for an empty value, and the labels.

    Parameters
    ----------
    path : path
        The file: CSV, or Parquet or Arrow by its ending.
    column : str
        Its column with the private values.
    categories : sequence of str or None
        The possible values; with None, the distinct values in the file, sorted.
    """
    name = os.fspath(check_path(path))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"path must name a CSV file, got {name!r}, which does not exist")
    is_table = name.lower().endswith(TABLES)
    values = [_as_text(each) for each in table_values(path, column)] if is_table else _values(path, column)
    for person, value in enumerate(values, start=1):
        if value and flaw_of(value) is not None:
            raise ValueError(
                f"column must have values that can be seen, without control characters, got another for person "
                f"{person} (it is not shown)"
            )
    labels = _found(values) if categories is None else _listed(categories)
    if len(labels) < 2:
        raise ValueError(f"categories must be at least two, got {len(labels)}: name the possible values")
    places = {label: i for i, label in enumerate(labels)} | {"": NO_VALUE}
    unknown = next((i for i, value in enumerate(values) if value not in places), None)
    if unknown is not None:
        raise ValueError(f"categories must include every value, but not that of person {unknown + 1} (it is not shown)")
    return np.array([places[value] for value in values], dtype=np.int64), labels


def _values(path: str | os.PathLike[str], column: str) -> list[str]:
    """Return the cells of the column as text, or raise ValueError."""
    name = os.fspath(path)
    wanted = _as_text(column) if isinstance(column, str) else None
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            rows = csv.reader(handle, strict=True)
            header = [_as_text(cell) for cell in next(rows, [])]
            if any("\0" in cell for cell in header):
                raise csv.Error("UTF-16")
            # The first row is not shown: without a header it would be that of a person.
            if wanted not in header:
                raise ValueError(f"column must be named in the first row of {name!r}, got {brief(column)}")
            if header.count(wanted) > 1:
                times = header.count(wanted)
                raise ValueError(
                    f"column must be named once in the first row of {name!r}, got {brief(column)} {times} times"
                )
            place, values = header.index(wanted), []
            for person, row in enumerate(rows, start=1):
                if not row and len(header) == 1:
                    row = [""]
                if len(row) != len(header):
                    raise ValueError(
                        f"path must name a CSV file with as many cells in every row as in the first ({len(header)}), "
                        f"got {len(row)} for person {person} in {name!r}"
                    )
                values.append(_as_text(row[place]))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(
            f"path must name a CSV file in UTF-8, got {name!r}, which is not one: save it as UTF-8"
        ) from None
    return values


def _as_text(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())


def _found(values: list[str]) -> list[str]:
    """Return the distinct values, or raise ValueError if two look alike."""
    looks: dict[str, str] = {}
    for person, value in enumerate(values, start=1):
        if looks.setdefault(appearance(value), value) != value:
            raise ValueError(
                f"column must have values that can be told apart, got one for person {person} that only looks like "
                "that of someone before (neither is shown)"
            )
    return sorted(set(values) - {""})


def _listed(categories: Sequence[str]) -> list[str]:
    """Return the categories that were named, as the values are read."""
    n = len(categories) if hasattr(categories, "__len__") else 0
    return [unicodedata.normalize("NFC", label) for label in check_labels(categories, n)]
