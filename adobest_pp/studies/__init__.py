"""Grids of experiments: what a study is, the engine that runs it (here or on a Dask cluster), and its store.

Names are imported on first use: Dask comes with the extra ``studies``.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.studies.engine import run_study as run_study
    from adobest_pp.studies.frequency_run import collect as collect
    from adobest_pp.studies.grid import Study as Study
    from adobest_pp.studies.grid import cells_of as cells_of
    from adobest_pp.studies.grid import read_study as read_study
    from adobest_pp.studies.grid import run_once as run_once
    from adobest_pp.studies.page import plot_study as plot_study
    from adobest_pp.studies.run_function import Measure as Measure
    from adobest_pp.studies.run_function import Run as Run
    from adobest_pp.studies.run_function import declares as declares
    from adobest_pp.studies.summary import StudyStatus as StudyStatus
    from adobest_pp.studies.summary import open_study as open_study
    from adobest_pp.studies.summary import study_status as study_status

_HOMES = {
    "Measure": "run_function",
    "Run": "run_function",
    "Study": "grid",
    "StudyStatus": "summary",
    "cells_of": "grid",
    "collect": "frequency_run",
    "declares": "run_function",
    "open_study": "summary",
    "plot_study": "page",
    "read_study": "grid",
    "run_once": "grid",
    "run_study": "engine",
    "study_status": "summary",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
