"""A study: a grid of settings, with a number of runs of each, read from a small TOML file."""

import ast
import hashlib
import math
import os
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from adobest_pp._checks import check_integer, check_path
from adobest_pp._text import brief
from adobest_pp.studies.run_function import Run, canonical, check_call, find_run, make_run

DEFAULT_RUN = "adobest_pp.studies.frequency_run:frequency_run"
# Limits for the cells of a study, the runs of a cell, and all runs: a reader of the store holds all of them in memory.
_MAX_CELLS, _MAX_RUNS, _MAX_PLACES = 100_000, 1_000_000, 100_000_000
_NEEDED = ("name", "runs", "seed", "measures", "grid")
# Names that a store reserves.
_TAKEN = ("cell", "run", "runs", "label", "seconds", "finished_at", "error", "status", "checksum", "seed", "measures")

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """A grid of cells, the runs of each, the seed, the function that makes a run, and the measures.

    Build with `read_study` or `Study.from_dict`.

    Attributes
    ----------
    name : str
        The name in tables and pages.
    runs : int
        Runs of each cell. If it is raised later, only the new ones are made.
    seed : int
        Every number is a function of it, of the cell's settings and of the number of the run.
    measures : tuple of str
        The measures to keep, of those that a run returns.
    grid : tuple of mappings
        Each maps axes to tuples of values, and stands for all their combinations.
    settings : mapping
        The settings that all cells share.
    run : str
        The function that makes one run, ``"module:function"``.
    """

    name: str
    runs: int
    seed: int
    measures: tuple[str, ...]
    grid: tuple[Mapping[str, tuple[Any, ...]], ...]
    settings: Settings = field(default_factory=dict)
    run: str = DEFAULT_RUN

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Study":
        """Check the keys and values of a study file, or raise ValueError with the key and what is allowed."""
        known = (*_NEEDED, "settings", "run")
        for key in content:
            if key not in known:
                raise ValueError(f"{key} must be one of {', '.join(known)}; settings of the runs go under [settings]")
        for key in _NEEDED:
            if key not in content:
                raise ValueError(f"{key} must be given")
        settings = content.get("settings", {})
        blocks = [content["grid"]] if isinstance(content["grid"], dict) else content["grid"]
        if not isinstance(settings, dict):
            raise ValueError(f"settings must be a table, got {brief(settings)}")
        if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
            raise ValueError(f"grid must be a table of lists, or several, got {brief(content['grid'])}")
        study = cls(
            name=_text(content["name"], "name"),
            runs=check_integer(content["runs"], "runs", 1, _MAX_RUNS),
            seed=check_integer(content["seed"], "seed", 0),
            measures=_list(content["measures"], "measures", text=True),
            grid=tuple({name: _list(values, f"grid.{name}") for name, values in block.items()} for block in blocks),
            settings={name: _value(value, f"settings.{name}") for name, value in settings.items()},
            run=_text(content.get("run", DEFAULT_RUN), "run"),
        )
        _check_names(study)
        if (n_cells := sum(math.prod(map(len, block.values())) for block in study.grid)) > _MAX_CELLS:
            raise ValueError(f"grid must give at most {_MAX_CELLS} cells, got {n_cells}")
        if n_cells * study.runs > _MAX_PLACES:
            raise ValueError(f"grid and runs must give at most {_MAX_PLACES} runs in all, got {n_cells * study.runs}")
        return study

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a study file, with all defaults."""
        grid = [{name: list(values) for name, values in block.items()} for block in self.grid]
        plain = {"name": self.name, "run": self.run, "runs": self.runs, "seed": self.seed}
        return plain | {"measures": list(self.measures), "settings": dict(self.settings), "grid": grid}

    def digest(self) -> str:
        """Return a short hash of everything but the number of runs."""
        plain = self.to_dict()
        del plain["runs"]
        return hashlib.sha256(canonical(plain).encode()).hexdigest()[:16]

    def check(self) -> None:
        """Import the run function, and raise ValueError if it cannot be called with the settings of every cell."""
        check_call(self.run, self.measures, cells_of(self))


def read_study(path: str | os.PathLike[str]) -> Study:
    """Read a study file.

    Parameters
    ----------
    path : path
        A TOML file with ``name``, ``runs``, ``seed``, ``measures`` and a table ``[grid]`` of lists. The cells are all
        combinations of their values; several tables, ``[[grid]]``, give the cells of each. Optional are ``[settings]``,
        which all cells share, and ``run = "module:function"``.

    Returns
    -------
    Study
        Only its form is checked here; whether the function takes these settings is checked when the study is run.
    """
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path must name a study file, got {str(source)!r}, which does not exist")
    try:
        return Study.from_dict(tomllib.loads(source.read_text(encoding="utf-8")))
    except ValueError as problem:  # tomllib and UnicodeDecodeError raise subclasses of it
        raise ValueError(f"{source}: {problem}") from None


def axes_of(study: Study) -> tuple[str, ...]:
    """Return the names of the axes, in the order of the file."""
    return tuple(dict.fromkeys(name for block in study.grid for name in block))


def cells_of(study: Study) -> tuple[dict[str, Any], ...]:
    """Return the settings of each cell; a cell that is in several blocks of the grid counts once."""
    places = ((block, values) for block in study.grid for values in product(*block.values()))
    cells = ({**study.settings, **dict(zip(block, values, strict=True))} for block, values in places)
    return tuple({canonical(cell): cell for cell in cells}.values())


def run_once(study: Study, cell: Settings, number: int) -> dict[str, float]:
    """Make one run of one cell in this process, and return its measures, which are the same on every machine."""
    return make_run(find_run(study.run), Run(study.seed, number, cell, study.measures))


def _check_names(study: Study) -> None:
    if ":" not in study.run:
        raise ValueError(f"run must name a function as 'module:function', got {study.run!r}")
    axes = axes_of(study)
    for name in (*axes, *study.settings, *study.measures):
        if not name.isidentifier():
            raise ValueError(f"names of settings and measures must be Python names, got {name!r}")
        if name in _TAKEN:
            raise ValueError(f"names of settings and measures must be your own, got {name!r}, which is reserved")
    twice = [name for name in axes if name in study.settings] + [name for name in axes if name in study.measures]
    if twice:
        raise ValueError(f"{twice[0]} must be in only one of grid, settings and measures, got it in two of them")


def _list(values: Any, name: str, *, text: bool = False) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"{name} must be a list that is not empty, got {brief(values)}")
    checked = [_text(value, name) if text else _value(value, name) for value in values]
    if len({canonical(value) for value in checked}) < len(checked):
        raise ValueError(f"{name} must have each value once, got {brief(values)}")
    # A TOML file may have 1 for 1.0, but an axis has numbers of one type.
    if {type(value) for value in checked} == {int, float}:
        return tuple(map(float, checked))
    return tuple(checked)


def _value(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, list):
        return [_value(part, name) for part in value]
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be finite numbers, text, true or false, or lists of these, got {value!r}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{name} must be a text of printable characters that is not empty, got {value!r}")
    return value


# The sources of a run: the file of its function and all files that it imports, each with a hash, and library versions.
#
# Imports are read from the text of the files, including those within functions. They are followed into adobest_pp and
# into your own modules: those neither in Python's library nor in site-packages.

_LIBRARY = Path(sysconfig.get_path("stdlib"))
LIBRARIES = ("numba", "numpy", "nutpie")
# The files of this folder that make a run. The others start, keep and show runs.
_RUN_MAKERS = ("__init__.py", "frequency_run.py", "run_function.py")


def sources_of(study: Study) -> dict[str, str]:
    """Return the hash of every file that a run of the study may execute, by module, and the versions of libraries.

    Settings such as ``"module:name"``, which may name your own mechanism, count as imports.
    """
    values = [study.run, *(value for cell in cells_of(study) for value in cell.values())]
    waiting = {value.partition(":")[0] for value in values if isinstance(value, str) and ":" in value}
    files: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        path = None if name in files else _file(name)
        if path is not None:
            files[name], imported = _read(path, path.stat().st_mtime_ns, name)
            waiting |= imported
    return dict(sorted(files.items())) | {name: version(name) for name in LIBRARIES}


def hashes_of(names: Iterable[str]) -> dict[str, str]:
    """Return the hashes and versions of these modules and libraries on this machine, if it has them."""
    paths = {name: _file(name) for name in names}
    found = {name: _digest(path.read_bytes()) for name, path in paths.items() if path is not None}
    return found | {name: version(name) for name in LIBRARIES if name in paths}


def differing(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return the names of modules and libraries that differ, as text; an empty one if all are the same."""
    names = [name for name in sorted({*there, *here}) if there.get(name) != here.get(name)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _file(name: str) -> Path | None:
    """Return the file of a module that counts as a source; None for any other."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return None
    folders = spec.submodule_search_locations
    base = Path(next(iter(folders))) if folders else Path(spec.origin or "").with_suffix("")
    place = base.joinpath(*rest)
    if top != "adobest_pp" and _is_installed(place):
        return None
    found = next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)
    return None if found is None or (found.parent == Path(__file__).parent and found.name not in _RUN_MAKERS) else found


def _is_installed(path: Path) -> bool:
    return path.is_relative_to(_LIBRARY) or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


@lru_cache(maxsize=1024)
def _read(path: Path, changed_at: int, name: str) -> tuple[str, frozenset[str]]:
    """Return the hash of a file, and all imported names that may be modules."""
    content = path.read_bytes()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    dotted = {*_imports(ast.parse(content), package), name}
    parts = [target.split(".") for target in dotted]
    return _digest(content), frozenset(".".join(part[:i]) for part in parts for i in range(1, len(part) + 1))


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
