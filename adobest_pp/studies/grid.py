"""What a study is: a grid of settings, each run a number of times, read from a small TOML file."""

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

from adobest_pp._checks import (
    check_alpha,
    check_epsilon,
    check_integer,
    check_kappa,
    check_n_categories,
    check_path,
    check_rho,
)
from adobest_pp.studies.measures import MEASURES
from adobest_pp.studies.methods import KAPPA_FREE, METHOD_LABELS, SEMI, UTILITIES

__all__ = ["Cell", "Study", "cells_of", "read_study"]

# Of each cell: a store has a place for every one of them from the start.
_MAX_RUNS = 1_000_000
_CHOICES = {
    "mechanism": ("rrrr", "subset_selection"),
    "prior": ("flat", "learned"),
    "sampler": ("sgld", "exact"),
    "budgets": ("theorem1", "published"),
}


@dataclass(frozen=True)
class Cell:
    """One point of the grid: all that a run depends on, but for the seed and the number of the run.

    Attributes
    ----------
    n_categories : int
        K.
    epsilon : float
        The privacy budget (with ``budgets="published"`` the claimed one).
    kappa : float or None
        Share of the budget inside the subset; None where the method does not depend on it.
    rho : float
        The truth is drawn from Dirichlet(ρ).
    mechanism : {"rrrr", "subset_selection"}
        What the devices run; SRR is method ``"nonadaptive"`` of ``"rrrr"``.
    method : str
        ``"nonadaptive"``, ``"semi_adaptive_0.95"`` (with any α), one of the six utilities, or ``"fixed"``.
    prior : {"flat", "learned"}
        The prior of exact inference.
    sampler : {"sgld", "exact"}
        What drives the collection and gives the estimate.
    budgets : {"theorem1", "published"}
        ε₂ by Theorem 1, or as the authors' program has it, which is not ε-LDP; then with the program's constant step,
        which its SRR (``"nonadaptive"``, where there is no ε₂) has too.
    people_per_category : int
        T = `people_per_category`·K.
    """

    n_categories: int
    epsilon: float
    kappa: float | None
    rho: float
    mechanism: str
    method: str
    prior: str
    sampler: str
    budgets: str
    people_per_category: int = 500

    def __post_init__(self) -> None:
        """Check the numbers, and give each its type: cells that are equal have the same key, 1 or 1.0."""
        checked = {
            "n_categories": check_n_categories(self.n_categories),
            "epsilon": check_epsilon(self.epsilon),
            "kappa": None if self.kappa is None else check_kappa(self.kappa),
            "rho": check_rho(self.rho),
            "people_per_category": check_integer(self.people_per_category, "people_per_category", 1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def key(self) -> str:
        """Return a string that is the same for equal settings, on every machine."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def n_people(self) -> int:
        """How many people are asked, T."""
        return self.people_per_category * self.n_categories

    @property
    def alpha(self) -> float | None:
        """The mass that a semi-adaptive method asks of its subset; None for the others."""
        return float(self.method.removeprefix(SEMI)) if self.method.startswith(SEMI) else None


@dataclass(frozen=True)
class Study:
    """A grid of cells, how often to run each, from which seed, and what to measure.

    The attributes are the keys of a study file: see `Cell` for those of the grid, each a tuple of values here, and
    `MEASURES` for what can be measured. Build with `read_study` or `Study.from_dict`.
    """

    name: str
    runs: int
    seed: int
    measures: tuple[str, ...]
    people_per_category: int
    n_categories: tuple[int, ...]
    epsilon: tuple[float, ...]
    kappa: tuple[float, ...]
    rho: tuple[float, ...]
    mechanism: tuple[str, ...]
    method: tuple[str, ...]
    prior: tuple[str, ...]
    sampler: tuple[str, ...]
    budgets: tuple[str, ...]

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "Study":
        """Check the keys and values of a study file, or refuse with the key and what is allowed."""
        _check_keys(settings, _KEYS, "", needed=("name", "runs", "seed", "measures", "grid"))
        grid: dict[str, Any] = settings["grid"]
        if not isinstance(grid, dict):
            raise ValueError(f"grid must be a table of lists, got {grid!r}")
        _check_keys(grid, _GRID, "grid.", needed=("K", "epsilon", "rho", "method"))
        name = settings["name"]
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"name must be a string of printable characters that is not empty, got {name!r}")
        axes: dict[str, Any] = {"kappa": ()} | {key: values[:1] for key, values in _CHOICES.items()}
        for key, values in grid.items():
            axes[_FIELDS.get(key, key)] = _check_list(values, f"grid.{key}", _GRID[key])
        study = cls(
            name=name,
            runs=check_integer(settings["runs"], "runs", 1, _MAX_RUNS),
            seed=check_integer(settings["seed"], "seed", 0),
            measures=_check_list(settings["measures"], "measures", _choice(MEASURES)),
            people_per_category=check_integer(settings.get("people_per_category", 500), "people_per_category", 1),
            **axes,
        )
        _check_use(study)
        return study

    def to_dict(self) -> dict[str, Any]:
        """Return what a study file would say, every default included."""
        names = {field: key for key, field in _FIELDS.items()}
        values = {names.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
        grid = {key: plain.pop(key) for key in _GRID}
        if not grid["kappa"]:
            del grid["kappa"]
        return plain | {"grid": grid}

    def digest(self) -> str:
        """Return a short string that is the same for equal studies, however their files are written."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def read_study(path: str | os.PathLike[str]) -> Study:
    """Read a study file.

    Parameters
    ----------
    path : path
        A TOML file with ``name``, ``runs``, ``seed``, ``measures``, perhaps ``people_per_category``, and a table
        ``[grid]`` of lists: ``K``, ``epsilon``, ``rho``, ``method``, ``kappa`` where a method depends on it, and
        perhaps ``mechanism``, ``prior``, ``sampler`` and ``budgets``.

    Returns
    -------
    Study
        Checked: a key or value that is not known is refused with the nearest that is.
    """
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path must name a study file, got {str(source)!r}, which does not exist")
    try:
        return Study.from_dict(tomllib.loads(source.read_text(encoding="utf-8")))
    except ValueError as problem:  # tomllib and UnicodeDecodeError raise subclasses of it
        raise ValueError(f"{source}: {problem}") from None


def cells_of(study: Study) -> tuple[Cell, ...]:
    """Return the cells of the grid, those that do not depend on κ once."""
    return tuple(dict.fromkeys(_possible_cells(study)))


def _possible_cells(study: Study) -> Iterator[Cell]:
    for k, epsilon, kappa, rho, mechanism, method, prior, sampler, budgets in product(
        study.n_categories,
        study.epsilon,
        study.kappa or (None,),
        study.rho,
        study.mechanism,
        study.method,
        study.prior,
        study.sampler,
        study.budgets,
    ):
        needed = None if method in KAPPA_FREE else kappa
        cell = Cell(k, epsilon, needed, rho, mechanism, method, prior, sampler, budgets, study.people_per_category)
        if _is_possible(cell):
            yield cell


def _is_possible(cell: Cell) -> bool:
    """Tell whether the settings go together: what is chosen once and for all is `fixed`, and has no SGLD."""
    if (cell.mechanism == "subset_selection") != (cell.method == "fixed"):
        return False
    if cell.mechanism == "subset_selection" and cell.sampler != "exact":
        return False
    return cell.budgets != "published" or cell.method in ("nonadaptive", *UTILITIES)


def _check_use(study: Study) -> None:
    """Refuse a grid with a value that no cell has: it would silently not be run."""
    cells = cells_of(study)
    if not study.kappa and any(cell.method not in KAPPA_FREE for cell in cells):
        raise ValueError("grid.kappa must be given: only the methods 'nonadaptive' and 'fixed' do without")
    for key in _GRID:
        field = _FIELDS.get(key, key)
        for value in getattr(study, field):
            if not any(getattr(cell, field) == value for cell in cells):
                raise ValueError(
                    f"grid.{key} must have values that go with the others, got {value!r}, which goes with none "
                    "('subset_selection' goes with method 'fixed' and sampler 'exact' only, 'published' with "
                    "'nonadaptive' and the six utilities only, and kappa with methods that depend on it)"
                )


def _check_keys(table: dict[str, Any], known: Collection[str], prefix: str, needed: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{prefix}{key} must be a known key ({_listed(known)}){_nearest(key, known)}")
    for key in needed:
        if key not in table:
            raise ValueError(f"{prefix}{key} must be given")


def _check_list(values: Any, name: str, check: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"{name} must be a list that is not empty, got {values!r}")
    try:
        checked = tuple(check(value) for value in values)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    if len(set(checked)) < len(checked):
        raise ValueError(f"{name} must have each value once, got {values!r}")
    return checked


def _choice(allowed: Collection[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"a value must be one of {_listed(allowed)}, got {value!r}{_nearest(value, allowed)}")
        return value

    return check


def _check_method(value: Any) -> str:
    if isinstance(value, str) and value.startswith(SEMI):
        try:
            alpha = check_alpha(float(value.removeprefix(SEMI)))
        except ValueError:
            raise ValueError(f"the mass after 'semi_adaptive_' must be a number from 0 to 1, got {value!r}") from None
        shortest = f"{SEMI}{repr(alpha + 0.0).removesuffix('.0')}"  # with −0 as 0
        if value != shortest:
            raise ValueError(f"the mass must be written shortest, {shortest!r}, got {value!r}")
        return value
    return _choice((*METHOD_LABELS, f"{SEMI}0.95"))(value)


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))


def _nearest(name: Any, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5) if isinstance(name, str) else []
    return f": did you mean {close[0]!r}?" if close else ""


_KEYS = ("name", "runs", "seed", "measures", "people_per_category", "grid")
_FIELDS = {"K": "n_categories"}
_GRID: dict[str, Callable[[Any], Any]] = {
    "K": check_n_categories,
    "epsilon": check_epsilon,
    "kappa": check_kappa,
    "rho": check_rho,
    "mechanism": _choice(_CHOICES["mechanism"]),
    "method": _check_method,
    "prior": _choice(_CHOICES["prior"]),
    "sampler": _choice(_CHOICES["sampler"]),
    "budgets": _choice(_CHOICES["budgets"]),
}
