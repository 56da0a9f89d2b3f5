"""Randomized answers from files of either kind: responses or a collection in netCDF, or tables that are gathered."""

import glob
import os
from collections.abc import Sequence
from typing import Any

from adobest_pp._checks import check_path
from adobest_pp.data.gather import gather
from adobest_pp.data.gathered import Gathered
from adobest_pp.data.pieces import FORMATS
from adobest_pp.data.responses import Responses
from adobest_pp.mechanisms import Mechanism

__all__ = ["is_table", "read_answers"]


def is_table(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path names tables of answers: a Parquet, Arrow or CSV file, a folder or a pattern of them."""
    name = os.fspath(check_path(path))
    is_pattern = glob.has_magic(name) and not os.path.exists(name)
    return os.path.isdir(name) or is_pattern or os.path.splitext(name)[1].lower() in FORMATS


def read_answers(
    path: str | os.PathLike[str],
    mechanism: Mechanism | None = None,
    categories: Sequence[Any] | None = None,
    column: str | None = None,
    progressbar: bool = True,
    allow_copies: bool = False,
) -> Responses | Gathered:
    """Return the randomized answers of a netCDF file, or of tables, or raise ValueError if there are none.

    Parameters
    ----------
    path : path or pattern
        A netCDF file of `Responses.to_netcdf` or of a collection; or what `gather` takes.
    mechanism, categories, column, progressbar, allow_copies
        As of `gather`; for tables alone.
    """
    if is_table(path):
        found: Responses | Gathered = gather(
            path,
            mechanism,
            categories=categories,
            column=column,
            progressbar=progressbar,
            allow_copies=allow_copies,
        )
    else:
        found = Responses.from_netcdf(path)
    if len(found) == 0:
        raise ValueError(f"path must name answers of at least one person, got none in {os.fspath(path)!r}")
    return found
