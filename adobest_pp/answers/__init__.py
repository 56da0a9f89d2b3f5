"""The answers that a collector holds, and their files. NumPy suffices, but for files, which need xarray.

- `Responses`: the answers, with the mechanism, the labels and the published subsets; in netCDF files, or from arrays.
- `concat`: answers of several collections, of different mechanisms or budgets, as one.
- `gather`: the answers of any number of Parquet, Arrow and CSV files, counted. It returns a `Gathered`, and raises
  `DamagedAnswers`.
- `read_tree`: draws in a netCDF file, whose checksum is checked.
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
