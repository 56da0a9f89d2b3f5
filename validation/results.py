"""Results as data: a program writes one JSON file, and every page is rendered from these files.

A `Result` has findings, tables with values and their types, figures, and the lines of text between the tables, in the
order in which the program showed them. `Result.write` and `read` are inverse to each other. The benchmarks use it, too.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("adobest_pp", "numpy", "scipy", "numba", "pymc", "pytensor", "nutpie", "arviz", "xarray")
WIDTH = 120


@dataclass(frozen=True)
class Finding:
    """One statement that a program puts to the test.

    Attributes
    ----------
    name : str
        Names the statement within its program.
    passed : bool
        Whether it holds.
    figures : mapping of str to float
        The numbers that decide it.
    text : str
        The statement.
    interval : tuple of float, optional
        The 95 % interval of the first figure.
    """

    name: str
    passed: bool
    figures: Mapping[str, float] = field(hash=False)
    text: str
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        shown = [f"{name.replace('_', ' ')} {value:.3g}" for name, value in self.figures.items()]
        if self.interval is not None:
            shown.insert(1, "95 % interval {:.3g} to {:.3g}".format(*self.interval))
        return f"{pass_or_fail(self.passed)}  {self.text}{f' ({", ".join(shown)})' if shown else ''}"


@dataclass(frozen=True)
class Shown:
    """Numbers in one cell, and how a table shows them: ``shown("{:.2f} [{:.2f}, {:.2f}]", 0.74, 0.64, 0.84)``."""

    form: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.form.format(*self.values)


def shown(form: str, *values: Any) -> Shown:
    """Return a cell of plain values, in the form of `str.format`."""
    return Shown(form, tuple(map(_plain, values)))


@dataclass(frozen=True)
class Table:
    """A table: numbers are kept as they are, and shown with `digits` significant digits.

    Attributes
    ----------
    headers : tuple of str
        The names of the columns.
    rows : tuple of tuple
        Cells: str, int, float or `Shown`.
    digits : int
        Significant digits of a float.
    name : str
        Names the table, together with `setting`, within its program.
    setting : mapping
        What the table is about, where several tables have one name, and other values that its readers need.
    title : str
        The text above it.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    digits: int = 3
    name: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""

    def texts(self) -> list[list[str]]:
        """Return the cells as they are shown."""
        return [[f"{v:.{self.digits}g}" if isinstance(v, float) else str(v) for v in row] for row in self.rows]

    def column(self, header: str) -> list[Any]:
        """Return the values of a column: of a cell with one number the number, of one with several a tuple."""
        if header not in self.headers:
            raise LookupError(f"header must be one of {', '.join(self.headers)}, got {header!r}")
        at = self.headers.index(header)
        return [value_of(row[at]) for row in self.rows]

    def lines(self) -> Iterator[str]:
        """Return the table in columns of fixed width: text to the left, numbers to the right."""
        cells = self.texts()
        widths = [max(map(len, column)) for column in zip(self.headers, *cells, strict=True)]
        is_text = [all(isinstance(row[j], str | Shown) for row in self.rows) for j in range(len(widths))]
        for line in [self.headers, *cells]:
            padded = (c.ljust(w) if text else c.rjust(w) for c, w, text in zip(line, widths, is_text, strict=True))
            yield "  ".join(padded).rstrip()

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.headers, *self.texts()]
        shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([shown[0], "|" + "---|" * len(self.headers), *shown[1:]])


@dataclass(frozen=True)
class Result:
    """One run of a program.

    Attributes
    ----------
    name, command : str
        The program, and the command that ran it.
    findings : tuple of Finding
        Empty if the program raised an error, and for benchmarks.
    blocks : tuple of str or Table
        What it showed, in order; text is in paragraphs.
    figures : mapping of str to float
        Numbers that pages quote, and that are in no table or finding.
    heading : str
        The heading of its section; its name if it has none.
    seed : int, optional
        The seed of all random numbers.
    quick : bool
        Whether it was the smaller version.
    seconds : float, optional
        How long it took.
    date : str
        The day.
    versions : mapping of str to str
        The versions of Python and of the packages that the numbers depend on.
    """

    name: str
    command: str
    findings: tuple[Finding, ...] = ()
    blocks: tuple[str | Table, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    heading: str = ""
    seed: int | None = None
    quick: bool = False
    seconds: float | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    versions: Mapping[str, str] = field(default_factory=lambda: versions_here())

    @property
    def passed(self) -> bool:
        """Whether there are findings, and all of them passed."""
        return all_passed(self.findings)

    @property
    def count(self) -> str:
        """How many findings passed, of how many."""
        return f"{sum(one.passed for one in self.findings)} of {len(self.findings)}"

    def tables(self, name: str | None = None) -> list[Table]:
        """Return the tables, or those with this name."""
        return [one for one in self.blocks if isinstance(one, Table) and name in (None, one.name)]

    def table(self, name: str, **setting: Any) -> Table:
        """Return the only table with this name and setting."""
        found = [one for one in self.tables(name) if setting.items() <= one.setting.items()]
        if len(found) != 1:
            known = sorted({one.name for one in self.tables()})
            raise LookupError(f"{self.name} must have one table {name!r} of {setting}, got {len(found)}, and {known}")
        return found[0]

    def finding(self, name: str) -> Finding:
        """Return the finding with this name."""
        found = {one.name: one for one in self.findings}
        if name not in found:
            raise LookupError(f"{self.name} must have a finding {name!r}, got {sorted(found)}")
        return found[name]

    def __str__(self) -> str:
        parts = []
        for block in self.blocks:
            if isinstance(block, Table):
                parts += [block.title, "\n".join(block.lines())]
            else:
                parts.append(block)
        return "\n\n".join(filter(None, [*parts, "\n".join(map(str, self.findings))]))

    def markdown(self) -> str:
        """Return a section with its tables in Markdown, for text that is in Markdown."""
        parts = [f"## {self.heading or self.name}"]
        for block in self.blocks:
            parts += [block.title, block.markdown()] if isinstance(block, Table) else [block]
        return "\n\n".join(filter(None, parts))

    def with_tables(self, tables: Sequence[Table]) -> "Result":
        """Return the same with these tables in place of those with their names, or at the end."""
        blocks = list(self.blocks)
        for new in tables:
            places = [i for i, old in enumerate(blocks) if isinstance(old, Table) and old.name == new.name]
            if places:
                blocks[places[0]] = new
            else:
                blocks.append(new)
        return replace(self, blocks=tuple(blocks))

    def write(self, folder: Path = FOLDER) -> Path:
        """Write the JSON file of the program and return its path."""
        data = {key: value for key, value in vars(self).items() if key not in ("findings", "blocks")}
        data["figures"] = _finite(self.figures)
        data["findings"] = [
            {key: _finite(value) for key, value in vars(one).items() if value is not None} for one in self.findings
        ]
        data["blocks"] = [_table_data(one) if isinstance(one, Table) else one.split("\n") for one in self.blocks]
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(_json(data) + "\n", encoding="utf-8")
        return path


def read(name: str, folder: Path = FOLDER) -> Result:
    """Return the result that a program wrote."""
    path = folder / f"{name}.json"
    if not path.is_file():
        raise LookupError(f"{folder} must have the results of {name!r}")
    data = json.loads(path.read_text(encoding="utf-8"))
    findings = []
    for one in data.pop("findings"):
        interval = one.pop("interval", None)
        figures = _floats(one.pop("figures"))
        ends = interval and tuple(map(_number, interval))
        findings.append(Finding(**one, figures=figures, interval=ends))
    blocks = ["\n".join(one) if isinstance(one, list) else _table_of(one) for one in data.pop("blocks")]
    figures = _floats(data.pop("figures"))
    return Result(findings=tuple(findings), blocks=tuple(blocks), figures=figures, **data)


def read_all(folder: Path = FOLDER) -> list[Result]:
    """Return all results, by name."""
    return [read(path.stem, folder) for path in sorted(folder.glob("*.json"))]


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of the packages."""
    return {"Python": ".".join(python_version().split(".")[:2])} | {name: version(name) for name in PACKAGES}


def versions_of(results: Sequence[Result]) -> dict[str, str]:
    """Return the versions that most results have."""
    known = Counter(tuple(one.versions.items()) for one in results)
    return dict(known.most_common(1)[0][0]) if known else {}


def value_of(cell: Any) -> Any:
    """Return the number of a cell, a tuple if there are several, or its text."""
    if isinstance(cell, Shown):
        return cell.values[0] if len(cell.values) == 1 else cell.values
    return cell


def pass_or_fail(passed: bool) -> str:
    """Return the word that is shown."""
    return "PASS" if passed else "FAIL"


def all_passed(found: Sequence[Finding]) -> bool:
    """Tell whether there are findings, and all of them passed."""
    return bool(found) and all(one.passed for one in found)


def make_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    digits: int = 3,
    name: str = "",
    setting: Mapping[str, Any] | None = None,
) -> Table:
    """Return a table with plain values in place of those of NumPy."""
    plain = tuple(tuple(cell if isinstance(cell, Shown) else _plain(cell) for cell in row) for row in rows)
    return Table(tuple(headers), plain, digits, name, _plain(setting or {}))


# JSON has no NaN and no infinities: a missing number is null, an infinite one its text.


def _plain(value: Any) -> Any:
    """Return a value of NumPy, or a collection of them, as plain Python."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _floats(figures: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(_number(value)) for name, value in figures.items()}


def _table_data(table: Table) -> dict[str, Any]:
    """Return a table for JSON. The form that most cells of a column share is written once, for the column."""
    forms = []
    for j in range(len(table.headers)):
        known = Counter(row[j].form for row in table.rows if isinstance(row[j], Shown))
        forms.append(known.most_common(1)[0][0] if known else None)
    rows = [_Row(_cell_data(cell, form) for cell, form in zip(row, forms, strict=True)) for row in table.rows]
    data: dict[str, Any] = {"table": table.name, "title": table.title.split("\n"), "setting": dict(table.setting)}
    data |= {"digits": table.digits, "headers": list(table.headers), "forms": forms, "rows": rows}
    return {key: value for key, value in data.items() if value not in ({}, [""]) and (key != "forms" or any(forms))}


def _cell_data(cell: Any, form: str | None) -> Any:
    if not isinstance(cell, Shown):
        return _finite(cell) if form is None or isinstance(cell, str) else str(cell)
    values = _finite(cell.values)
    if cell.form != form:
        return {"form": cell.form, "values": values}
    return values[0] if len(values) == 1 else values


def _table_of(data: dict[str, Any]) -> Table:
    forms = data.get("forms") or [None] * len(data["headers"])
    rows = tuple(tuple(_cell_of(cell, form) for cell, form in zip(row, forms, strict=True)) for row in data["rows"])
    title = "\n".join(data.get("title", [""]))
    return Table(tuple(data["headers"]), rows, data["digits"], data["table"], data.get("setting", {}), title)


def _cell_of(cell: Any, form: str | None) -> Any:
    if isinstance(cell, dict):
        return Shown(cell["form"], tuple(map(_number, cell["values"])))
    if form is None or isinstance(cell, str):
        return _number(cell)
    return Shown(form, tuple(map(_number, cell if isinstance(cell, list) else [cell])))


def _number(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    return math.nan if value is None else value


class _Row(list[Any]):
    """Cells that are written on one line, so that a change of a figure is a change of one line."""


def _json(value: Any, indent: int = 0) -> str:
    """Return JSON in which a row of a table is one line, and so is everything else that fits into one."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(value, _Row) or not isinstance(value, dict | list) or (indent and indent + len(line) < WIDTH):
        return line
    inner = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        pieces = [f"{json.dumps(key, ensure_ascii=False)}: {_json(one, indent + 1)}" for key, one in value.items()]
        return "{" + inner + f",{inner}".join(pieces) + "\n" + " " * indent + "}"
    return "[" + inner + f",{inner}".join(_json(one, indent + 1) for one in value) + "\n" + " " * indent + "]"
