"""The answers that a collector holds, and their files. Files need xarray or pyarrow; the rest needs only NumPy.

- `Responses`: the answers, with the mechanism, the labels and the published subsets; from arrays or netCDF files.
- `concat`: the answers of several collections, of different mechanisms or budgets, as one.
- `gather`: the answers of any number of Parquet, Arrow and CSV files, counted. It returns a `Gathered`, or raises
  `DamagedAnswers`.
- `read_tree`: the draws in a netCDF file, after a check of its checksum.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.answers.gather.gather import DamagedAnswers as DamagedAnswers
    from adobest_pp.answers.gather.gathered import Gathered as Gathered
    from adobest_pp.answers.netcdf import read_tree as read_tree
    from adobest_pp.answers.responses import Responses as Responses

_HOMES = {
    "DamagedAnswers": "gather.gather",
    "Gathered": "gather.gathered",
    "Responses": "responses",
    "read_tree": "netcdf",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
