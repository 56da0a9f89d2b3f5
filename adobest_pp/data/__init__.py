"""What the collector holds. NumPy suffices, but for files, which need xarray.

- `Responses`: the answers, with the mechanism, the labels and the published subsets; in netCDF files, or from arrays.
- `concat.py`, for `adobest_pp.concat`: answers of several collections, of different mechanisms or budgets, as one.
- `gather.py`, for `adobest_pp.gather`: the answers of any number of Parquet, Arrow and CSV files, counted. `Gathered`
  is what it gives, and `DamagedAnswers` what it raises.
- `Evidence`: the answers collapsed to distinct rows with counts, which likelihood and samplers read.
- `read_tree`: draws in a netCDF file, whose checksum is checked.
- `journal`: how the file of a collection keeps every acknowledged answer.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.data.evidence import Evidence as Evidence
    from adobest_pp.data.gather import DamagedAnswers as DamagedAnswers
    from adobest_pp.data.gathered import Gathered as Gathered
    from adobest_pp.data.netcdf import read_tree as read_tree
    from adobest_pp.data.responses import Responses as Responses

_HOMES = {
    "DamagedAnswers": "gather",
    "Evidence": "evidence",
    "Gathered": "gathered",
    "Responses": "responses",
    "read_tree": "netcdf",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
