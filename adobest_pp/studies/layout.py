"""How the dataset of a study is laid out in Zarr; how it comes into being and grows: whole, or not at all.

The root, ``zarr.json``, has the study, the description of every array, and a checksum of all that. What it says can be
made again from it: the descriptions beside the arrays, and the labels of the cells. `adobest_pp.studies.runs` guards
the rest.
"""

import ast
import glob
import hashlib
import json
import math
import os
import platform
import secrets
import shutil
import stat
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

import adobest_pp
from adobest_pp._files import json_digest
from adobest_pp._text import brief
from adobest_pp.studies.grid import Study, axes_of, cells_of
from adobest_pp.studies.locks import is_locked, lock_folder
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Measure, declared_measures, find_run

# A chunk is a few kilobytes, a block of the disk: a batch rewrites the chunks that it is in.
RUNS_IN_A_CHUNK = 500
# Not compressed: a chunk is smaller than what reading it takes. Zarr refuses one that does not match its checksum.
_CODECS = Crc32cCodec()
# What is the same in the description of every array, the types that arrays may have, and cells that any store may have.
_PLAIN = {"zarr_format": 3, "node_type": "array", "storage_transformers": []}
_TYPES = ("float64", "int64", "uint64", "int8", "bool", "string")
_FEW_CELLS = 10_000


def run_variables(study: Study) -> dict[str, dict[str, Any]]:
    """Return dtype, value where nothing is written, and attributes of every variable with a place for each run."""
    declared = declared_measures(find_run(study.run))
    numbers = {name: declared.get(name, Measure(name)) for name in study.measures}
    numbers |= {"seconds": Measure("time that the run took", "s")}
    numbers |= {"finished_at": Measure("when the run was committed", "seconds since 1970-01-01")}
    variables: dict[str, dict[str, Any]] = {
        name: {"dtype": "float64", "fill_value": math.nan, "attributes": {"long_name": meaning, "units": unit}}
        for name, (meaning, unit) in numbers.items()
    }
    variables["error"] = {"dtype": "string", "fill_value": "", "attributes": {"long_name": "error of a failed run"}}
    meaning = {"long_name": "checksum of the run"}
    variables["checksum"] = {"dtype": "uint64", "fill_value": 0, "attributes": meaning}
    flags = {"flag_values": [NOT_RUN, DONE, FAILED], "flag_meanings": "not_run done failed"}
    variables["status"] = {
        "dtype": "int8",
        "fill_value": NOT_RUN,
        "attributes": {"long_name": "what became of the run", **flags},
    }
    return variables


def create(path: Path, study: Study, sources: Mapping[str, str]) -> None:
    """Make the store of a study in which nothing has been run, unless another process has just made it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"store must be in a folder that exists, got {str(path)!r}")
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    temporary.mkdir()
    lock = lock_folder(temporary)  # what nobody has locked is left over
    try:
        _fill(temporary, study, sources)
        temporary.rename(path)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_leftovers(path: Path) -> None:
    """Remove half-made stores of processes that were killed."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if leftover.is_dir() and not leftover.is_symlink() and not is_locked(leftover):
            shutil.rmtree(leftover, ignore_errors=True)


def grow(path: Path, study: Study) -> None:
    """Make room for more runs of each cell; until the last write, all readers see the store as it was."""
    root = read_root(path)
    stored = root["consolidated_metadata"]["metadata"]
    for name in (*run_variables(study), "run"):
        stored[name]["shape"][-1] = study.runs
        write_json(path / name / "zarr.json", stored[name])
    zarr.open_array(path / "run", mode="r+")[:] = np.arange(study.runs)
    root["attributes"]["study"] = json.dumps(study.to_dict())
    _write_root(path, root)


def record_sources(path: Path, sources: Mapping[str, str]) -> None:
    """Note that the runs from now on are made by other files, which somebody accepted."""
    root = read_root(path)
    attributes = root["attributes"]
    changed = differing(json.loads(attributes["sources"]), sources)
    accepted = [*json.loads(attributes["accepted_sources"]), {"at": _now(), "changed": changed}]
    attributes |= {"sources": json.dumps(sources), "accepted_sources": json.dumps(accepted)}
    _write_root(path, root)


def read_root(path: Path) -> dict[str, Any]:
    """Return what a store says of itself, or raise ValueError for what is not one, or is damaged."""
    size = _size_of(path)
    try:
        content = (path / "zarr.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        content = b"{}"
    try:
        root = json.loads(content)
        attributes = root.get("attributes", {})
        known = {"study_hash", "sources"} <= attributes.keys()
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ValueError(f"store must be whole, got {str(path)!r}, whose zarr.json is damaged") from None
    if not known:
        raise ValueError(f"store must be a folder made by `adobest study run`, got {brief(str(path))}")
    if attributes.get("checksum") != json_digest(_unsealed(root)):
        raise ValueError(
            f"store must be whole, got {str(path)!r}, whose zarr.json does not match its checksum: it is damaged, "
            "or of a version that wrote none"
        )
    try:
        _check_described(root, size)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        raise ValueError(
            f"store must be a folder made by `adobest study run`, got {str(path)!r}, whose zarr.json does not describe "
            f"a study ({brief(str(problem))})"
        ) from None
    return dict(root)


def _size_of(path: Path) -> int:
    """Return the bytes of all files of a store, or raise ValueError if not all are ordinary files.

    A link would lead out of the store, and a device or a pipe may have no end.
    """
    size = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            try:
                found = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:  # written meanwhile by another process, and renamed
                continue
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                raise ValueError(f"store must have ordinary files only, got {str(path)!r}, in which {name!a} is none")
            size += found.st_size
    return size


def _check_described(root: Mapping[str, Any], size: int) -> None:
    """Raise an error unless a root describes a study and its arrays as we write them.

    Zarr decodes what the description of an array asks for: it unpacks a few bytes to gigabytes, and some versions
    unpickle. So only our own descriptions reach it, and not more cells than the files of the store can hold.
    """
    study = Study.from_dict(json.loads(root["attributes"]["study"]))
    if sum(math.prod(map(len, block.values())) for block in study.grid) > _FEW_CELLS + len(study.grid) * size:
        raise ValueError("it has more cells than its files can hold")
    described = root["consolidated_metadata"]["metadata"]
    of_runs = {*study.measures, "seconds", "finished_at", "error", "checksum", "status"}
    if described.keys() != {*of_runs, "run", *axes_of(study)}:
        raise ValueError("it has other arrays than those of the study")
    for name, each in described.items():
        plain = {key: each[key] for key in _PLAIN}
        chunks = each["chunk_grid"]["configuration"]["chunk_shape"] if each["chunk_grid"]["name"] == "regular" else []
        codecs = [codec["name"] for codec in each["codecs"]]
        kind = "vlen-utf8" if each["data_type"] == "string" else "bytes"
        is_ours = plain == _PLAIN and codecs == [kind, "crc32c"] and each["data_type"] in _TYPES
        if not is_ours or (name in of_runs and chunks != [1, RUNS_IN_A_CHUNK]) or len(chunks) != len(each["shape"]):
            raise ValueError(f"{name} is described otherwise than we write it")


def coordinates_of(study: Study) -> dict[str, NDArray[Any]]:
    """Return the labels of the cells, by axis."""
    cells = cells_of(study)
    return {name: _coordinate([cell.get(name) for cell in cells]) for name in axes_of(study)}


def mend(path: Path) -> None:
    """Write once more what follows from the root: the descriptions of the arrays, and the labels of the cells."""
    root = read_root(path)
    study = Study.from_dict(json.loads(root["attributes"]["study"]))
    for name, description in root["consolidated_metadata"]["metadata"].items():
        (path / name).mkdir(exist_ok=True)
        write_json(path / name / "zarr.json", description)
    for name, values in {**coordinates_of(study), "run": np.arange(study.runs)}.items():
        shutil.rmtree(path / name / "c", ignore_errors=True)
        zarr.open_array(path / name, mode="r+")[:] = values


def check_same(attributes: Mapping[str, Any], study: Study, path: Path) -> None:
    """Raise ValueError for the store of another study, with what differs; the number of runs may have been raised."""
    stored = json.loads(attributes["study"])
    if attributes["study_hash"] != study.digest():
        there, here = (_flat(settings) for settings in (stored, study.to_dict()))
        keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        differences = "; ".join(f"{key} is {there.get(key)} there and {here.get(key)} here" for key in keys)
        raise ValueError(f"store must be of this study: {str(path)!r} was made for another ({differences})")
    if study.runs < stored["runs"]:
        raise ValueError(
            f"runs must be at least {stored['runs']}, as many as {str(path)!r} has of each cell, got {study.runs}: "
            "a store never loses runs"
        )


def _fill(path: Path, study: Study, sources: Mapping[str, str]) -> None:
    cells = cells_of(study)
    group = zarr.create_group(path, zarr_format=3, attributes=_attributes(study, sources))
    for name, settings in run_variables(study).items():
        group.create_array(
            name,
            shape=(len(cells), study.runs),
            chunks=(1, RUNS_IN_A_CHUNK),
            dimension_names=("cell", "run"),
            compressors=_CODECS,
            **settings,
        )
    numbers = np.arange(study.runs)
    described: dict[str, Any] = {"attributes": {"long_name": "number of the run"}, "dimension_names": ("run",)}
    group.create_array("run", data=numbers, chunks=(RUNS_IN_A_CHUNK,), compressors=_CODECS, **described)
    for name, values in coordinates_of(study).items():
        dtype: Any = "string" if values.dtype == object else values.dtype
        settings = {"shape": values.shape, "dtype": dtype, "dimension_names": ("cell",)}
        array: Any = group.create_array(name, compressors=_CODECS, **settings)
        array[:] = values
    with warnings.catch_warnings():
        # Zarr 3 does not yet have it in its specification; plain xr.open_zarr looks for it all the same.
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part", UserWarning)
        zarr.consolidate_metadata(path)
    _write_root(path, json.loads((path / "zarr.json").read_bytes()))


def _coordinate(values: Sequence[Any]) -> NDArray[Any]:
    """Return one axis along the cells; NaN or an empty text where a cell does not have it."""
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    if numbers and None not in values:
        return np.array(values)
    if numbers:
        return np.array([math.nan if value is None else float(value) for value in values])
    texts = ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    return np.array(texts, dtype=object)


def _attributes(study: Study, sources: Mapping[str, str]) -> dict[str, Any]:
    libraries = {name: version(name) for name in LIBRARIES}
    made_with = {"adobest_pp": adobest_pp.__version__, "python": platform.python_version(), **libraries}
    return {
        "title": f"study {study.name!r}",
        "study": json.dumps(study.to_dict()),
        "study_hash": study.digest(),
        "sources": json.dumps(sources),
        "accepted_sources": "[]",
        "created_at": _now(),
        "created_with": json.dumps(made_with),
        "coordinates": " ".join(axes_of(study)),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_root(path: Path, root: dict[str, Any]) -> None:
    root["attributes"]["checksum"] = json_digest(_unsealed(root))
    write_json(path / "zarr.json", root)


def _unsealed(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the checksum of a root is of: everything but itself."""
    return {**root, "attributes": {name: value for name, value in root["attributes"].items() if name != "checksum"}}


def write_json(path: Path, content: Any) -> None:
    """Replace a file of a store whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a study by name; axes by name too where there is one block of them."""
    plain = {key: value for key, value in settings.items() if key not in ("grid", "settings", "runs")}
    grid = settings["grid"][0] if len(settings["grid"]) == 1 else {"grid": settings["grid"]}
    return {**plain, **settings["settings"], **grid}


# What makes a run: the file of its function and all that it imports, each with a hash, and versions of libraries.
#
# Imports are read from the text of the files, also where they wait within a function, and followed into adobest_pp and
# into whatever else is neither of Python's own library nor in site-packages, such as a module of one's own.


_LIBRARY = Path(sysconfig.get_path("stdlib"))
LIBRARIES = ("numba", "numpy", "nutpie")
# Of this folder, what makes a run; the rest starts runs, keeps them and shows them.
_RUN_MAKERS = ("__init__.py", "frequency_run.py", "run_function.py")


def sources_of(study: Study) -> dict[str, str]:
    """Return the hash of every file that a run of the study may execute, by module, and the versions of libraries.

    Settings that name something as ``"module:name"``, such as a mechanism of one's own, count as imports.
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
    """Return what `sources_of` would say here of these modules and libraries, where they are here."""
    paths = {name: _file(name) for name in names}
    found = {name: _digest(path.read_bytes()) for name, path in paths.items() if path is not None}
    return found | {name: version(name) for name in LIBRARIES if name in paths}


def differing(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return the modules and libraries that are not the same, in words; nothing where all are."""
    names = [name for name in sorted({*there, *here}) if there.get(name) != here.get(name)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _file(name: str) -> Path | None:
    """Return the file of a module of ours; None for anything else."""
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
    """Return the hash of a file, and what may be modules of all that it imports."""
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
