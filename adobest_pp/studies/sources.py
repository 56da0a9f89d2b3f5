"""What makes a run: the file of its function and all that it imports, each with a hash, and versions of libraries.

Imports are read from the text of the files, also where they wait within a function. They are followed into adobest_pp
and into your own modules: whatever is neither in Python's library nor in site-packages.
"""

import ast
import hashlib
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from adobest_pp.studies.grid import Study, cells_of

_LIBRARY = Path(sysconfig.get_path("stdlib"))
LIBRARIES = ("numba", "numpy", "nutpie")
# The files of this folder that make a run. The others start, keep and show runs.
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
    """Return the hash of a file, and all names in its imports that may be modules."""
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
