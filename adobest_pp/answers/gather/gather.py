"""Any number of answers: files read in pieces of bounded memory, on this machine's cores or on a Dask cluster."""

import glob
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adobest_pp._checks import check_flag, check_path
from adobest_pp._labels import check_labels
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp.answers.concat import equal_files, log_orders, refuse_copy
from adobest_pp.answers.gather.executors import Tasks, cluster, threads
from adobest_pp.answers.gather.gathered import FileCounts, Gathered, SetStore, StoreWriter, notes_of
from adobest_pp.answers.gather.pieces import FORMATS, Piece, PieceResult, SplitFile, split_file
from adobest_pp.answers.gather.tables import SUBSET, Described, described
from adobest_pp.answers.gather.tallies import TableFormat, Tally, add_up, collapses
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import unique_rows
from adobest_pp.mechanisms import Mechanism

logger = logging.getLogger("adobest_pp")

Source = str | os.PathLike[str]


class DamagedAnswers(ValueError):
    """Some files could not be read. All others were, and nothing of the damaged ones is counted.

    Attributes
    ----------
    gathered : Gathered
        The answers of the other files: go on with it if you can do without the rest.
    damaged : dict
        The reason for each damaged file.
    """

    def __init__(self, gathered: Gathered, damaged: dict[str, str]) -> None:
        first, reason = next(iter(damaged.items()))
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        super().__init__(
            f"paths must name whole files, got {first!r} ({reason}){more}: the {len(gathered)} answers of the other "
            f"{len(gathered.files)} are in the attribute `gathered` of this error"
        )
        self.gathered, self.damaged = gathered, damaged


class UnnamedMechanism(ValueError):
    """No mechanism was given, and the files do not name it."""


@raising_interrupts()
def gather(
    paths: Source | Sequence[Source],
    mechanism: Mechanism | None = None,
    *,
    column: str | Sequence[str] | None = None,
    categories: Sequence[Any] | None = None,
    scheduler: str | None = None,
    store: Source | None = None,
    progressbar: bool = True,
    allow_copies: bool = False,
) -> Gathered:
    """Count the randomized answers of any number of files, in pieces that fit into memory.

    Parameters
    ----------
    paths : path, pattern, or list of them
        Parquet (``.parquet``, ``.pq``), Arrow (``.arrow``, ``.feather``, ``.ipc``) and CSV (``.csv``) files, a folder
        of them, or a pattern such as ``"answers/*.parquet"``. `adobest_pp.answers.gather.tables` tells what their
        columns hold; `Responses.to_parquet` writes such files.
    mechanism : Mechanism, optional
        What the devices ran; by default what the files say, if they were written by `Responses.to_parquet`.
    column : str or list of str, optional
        The column of the answers, or the columns, where an answer is several numbers; ``"answer"`` by default, and
        ``["seed", "value"]`` for local hashing.
    categories : sequence of K labels, optional
        Category names; by default what the files say, or else ``"0"``, ``"1"``, ….
    scheduler : str, optional
        Address of a Dask scheduler of your own, ``tls://host:port`` or ``tcp://host:port``, whose workers see the same
        files. Whoever reaches it can run code on its workers and here. By default this machine's cores read.
    store : path, optional
        A new folder for answers that hardly ever repeat, such as unary encoding of 100 categories: their bits are kept
        on disk, from where ``"sgld_cv"`` reads them. By default it is a temporary folder, removed with the result.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.
    allow_copies : bool, default False
        Whether to count files with identical content, where that cannot be chance (see Notes). One file under two
        names, such as a link, is never counted twice.

    Returns
    -------
    Gathered
        The answers, counted: the same to the last bit whatever the pieces, the workers and the order. Rows without an
        answer are counted in ``n_empty`` and a warning is logged.

    Raises
    ------
    DamagedAnswers
        If files are damaged: it names them, and has the answers of all others.

    Notes
    -----
    What a piece holds does not depend on who reads it. Where a worker dies, another reads its piece again, and that
    result takes the place of the lost one: nothing is counted twice. A file counts whole or not at all.

    A copy of a file would count its people twice. Two files with identical bytes raise ValueError if independent
    answers would agree in every row with a probability below 10⁻⁹; where they are so few that this may be chance, they
    are counted, from 20 answers on with a warning. A copy in another format is not noticed.

    See Also
    --------
    Evidence.merge : The same for evidence that is in memory already.

    Examples
    --------
    >>> import tempfile
    >>> import adobest_pp as ad
    >>> folder = tempfile.mkdtemp()
    >>> for day, answers in {"monday": [0, 2, 2], "tuesday": [1, 2]}.items():
    ...     ad.Responses.from_arrays(ad.SRR(3, epsilon=1.0), answers).to_parquet(f"{folder}/{day}.parquet")
    >>> gathered = ad.gather(f"{folder}/*.parquet")
    >>> gathered
    <Gathered: 5 answers of 2 files, SRR(n_categories=3, epsilon=1.0)>
    >>> tree = ad.sample(gathered, "gibbs", draws=200)
    """
    files = _files_of(paths)
    copies = {} if check_flag(allow_copies, "allow_copies") else equal_files(list(files))
    if mechanism is not None and not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, such as SRR(4, epsilon=1.0), got {brief(mechanism)}")
    if scheduler is not None:
        from adobest_pp._dask import check_address

        check_address(scheduler)
    splits = [split_file(i, path, form) for i, (path, form) in enumerate(files.items())]
    known, has_labels = _described_by(splits, list(files), mechanism, categories)
    columns = _columns_of(known.mechanism, column)
    formats = [
        _table_format(split, path, form, known, columns, has_labels)
        for split, (path, form) in zip(splits, files.items(), strict=True)
    ]
    return _Gathering(list(files), splits, known, formats, store, copies).run(scheduler, progressbar)


class _Gathering:
    """Adds up what pieces give, file by file."""

    def __init__(
        self,
        paths: list[str],
        splits: list[SplitFile],
        known: Described,
        formats: list[TableFormat],
        store: Source | None,
        copies: dict[int, int],
    ) -> None:
        self._paths, self._splits, self._known, self._formats = paths, splits, known, formats
        self._damaged = {i: split.damaged for i, split in enumerate(splits) if split.damaged is not None}
        self._left = {i: len(split.pieces) for i, split in enumerate(splits) if split.damaged is None}
        self._counts = {i: FileCounts(0, 0) for i in self._left}
        self._parts: dict[int, list[Tally]] = {i: [] for i in self._left}
        k, n_columns = known.mechanism.n_categories, len(formats[0].columns)
        packed = -(-k // 8)
        width = (
            packed
            if known.mechanism.as_sets() is not None
            else packed * known.mechanism.publishes_subset + 8 * n_columns
        )
        self._total = Tally(np.zeros((0, width), dtype=np.uint8), np.zeros(0, dtype=np.int64))
        self._store = store
        # The file that each copy has the bytes of, and the orders of its answers so far (see
        # `adobest_pp.answers.concat`).
        self._copies = copies
        self._orders = dict.fromkeys(copies, 0.0)
        self._writer: StoreWriter | None = None

    def run(self, scheduler: str | None, progressbar: bool) -> Gathered:
        pieces = [piece for split in self._splits for piece in split.pieces]
        workers = threads() if scheduler is None else cluster(scheduler)
        if not collapses(self._known.mechanism):
            self._writer = StoreWriter(self._store, self._total.keys.shape[1])
        try:
            with SlowProgress(len(pieces), "Gathering", progressbar) as bar, workers as results:
                for piece, result in results(self._tasks(pieces)):
                    self._take(piece, result)
                    bar.advance(1)
            gathered = self._finish()
        except BaseException:
            if self._writer is not None:
                self._writer.discard()
            raise
        _tell_empty(gathered)
        if self._damaged:
            raise DamagedAnswers(gathered, {self._paths[i]: reason for i, reason in sorted(self._damaged.items())})
        return gathered

    def _tasks(self, pieces: list[Piece]) -> Tasks:
        for piece in pieces:
            if piece.file not in self._damaged:
                yield piece, self._formats[piece.file]

    def _take(self, piece: Piece, result: PieceResult) -> None:
        file = piece.file
        if result.refused is not None:
            raise ValueError(f"{result.refused}, in {piece.path!r}")
        if result.damaged is not None:
            self._damaged.setdefault(file, result.damaged)
        if file in self._damaged:
            self._parts.pop(file, None)
            return
        self._left[file] -= 1
        answers = 0 if result.tally is None else int(result.tally.count.sum())
        before = self._counts[file]
        self._counts[file] = FileCounts(before.answers + answers, before.empty + result.empty)
        if file in self._copies and result.tally is not None:
            self._refuse_copy(file, result.tally)
        if result.tally is not None and self._writer is not None:
            self._writer.write(file, result.tally.keys)
        elif result.tally is not None:
            self._parts[file] = [add_up([*self._parts[file], result.tally])]
        if self._left[file] == 0 and self._writer is None:
            self._total = add_up([self._total, *self._parts.pop(file)])

    def _refuse_copy(self, file: int, tally: Tally) -> None:
        """Add the orders of a piece; once the file is complete, raise ValueError if it must be a copy."""
        # Where answers hardly ever repeat, a tally lists each as often as it was given.
        count = tally.count if self._writer is None else np.bincount(unique_rows(tally.keys)[1])
        self._orders[file] += log_orders(count)
        if self._left[file] == 0:
            names = repr(self._paths[self._copies[file]]), repr(self._paths[file])
            refuse_copy("paths", names, self._counts[file].answers, self._orders[file], len(self._paths))

    def _finish(self) -> Gathered:
        good = [i for i in range(len(self._paths)) if i not in self._damaged]
        files = {self._paths[i]: self._counts[i] for i in good}
        content: Tally | SetStore = self._total
        if self._writer is not None:
            content = self._writer.finish(good, notes_of(*self._known, files))
        return Gathered(*self._known, content, files)


def _tell_empty(gathered: Gathered) -> None:
    """Warn of rows without an answer."""
    if gathered.n_empty:
        where = [f"{each.empty} in {path!r}" for path, each in gathered.files.items() if each.empty]
        more = f" and {len(where) - 3} more files" if len(where) > 3 else ""
        logger.warning(
            "%d of %d rows have no answer and are left out: %s%s.",
            gathered.n_empty,
            len(gathered) + gathered.n_empty,
            ", ".join(where[:3]),
            more,
        )


def _files_of(paths: Any) -> dict[str, str]:
    """Return the files, sorted, with their formats, or raise an error."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"paths must be a path, a pattern or a list of them, got {brief(paths)}")
    found: dict[str, str] = {}
    seen: dict[Any, str] = {}
    for each in given:
        for path in _matching(str(check_path(each, "paths"))):
            form = FORMATS.get(Path(path).suffix.lower())
            if form is None:
                raise ValueError(f"paths must name files that end in {', '.join(FORMATS)}, got {path!r}")
            for real in _identities(path):
                other = seen.setdefault(real, path)
                if other is not path:
                    raise ValueError(f"paths must name each file once, got {other!r} and {path!r}, which are one file")
            found[path] = form
    return dict(sorted(found.items()))


def _identities(path: str) -> list[Any]:
    """Return what two names of one file share: the path without links, and the number of the file on its disk."""
    status = os.stat(path)
    return [os.path.realpath(path), *([(status.st_dev, status.st_ino)] if status.st_ino else [])]


def _matching(path: str) -> list[str]:
    if os.path.isdir(path):
        inside = [each.path for each in os.scandir(path) if Path(each.name).suffix.lower() in FORMATS]
        if not inside:
            raise FileNotFoundError(
                f"paths must name a folder with files that end in {', '.join(FORMATS)}, got {path!r}, which has none"
            )
        return inside
    if os.path.isfile(path):
        return [path]
    inside = [each for each in glob.glob(path, recursive=True) if os.path.isfile(each)]
    if not inside:
        raise FileNotFoundError(f"paths must match at least one file, got {path!r}, which matches none")
    return inside


def _described_by(
    splits: list[SplitFile], paths: list[str], mechanism: Mechanism | None, categories: Any
) -> tuple[Described, bool]:
    """Return the one mechanism and the labels, and whether labels were given at all; or raise ValueError."""
    found = None if mechanism is None else mechanism
    labels = None if categories is None or found is None else check_labels(categories, found.n_categories)
    for split, path in zip(splits, paths, strict=True):
        try:
            stated = None if split.schema is None else described(split.schema.metadata)
        except ValueError as problem:
            raise ValueError(f"{problem} in {path!r}") from None
        if stated is None:
            continue
        if found is None:
            found = stated.mechanism
            labels = None if categories is None else check_labels(categories, found.n_categories)
        if stated.mechanism != found:
            raise ValueError(
                f"paths must name answers of one mechanism, {found!r}, got {stated.mechanism!r} in {path!r}"
            )
        labels = labels or stated.categories
        if stated.categories != labels:
            raise ValueError(
                f"paths must name answers with the categories {brief(list(labels))} in this order, "
                f"got {brief(list(stated.categories))} in {path!r}"
            )
    for split, path in zip(splits, paths, strict=True):
        if found is None and split.damaged is not None:
            raise ValueError(f"paths must name whole files, got {path!r} ({split.damaged})")
    if found is None:
        raise UnnamedMechanism(f"mechanism must be given for files that do not name it, such as {paths[0]!r}, got None")
    return Described(found, labels or check_labels(None, found.n_categories)), labels is not None


def _columns_of(mechanism: Mechanism, column: Any) -> tuple[str, ...]:
    """Return the names of the columns of the answers, or raise ValueError."""
    default = mechanism.answer_columns
    if column is None:
        return default
    given = (column,) if isinstance(column, str) else tuple(column) if isinstance(column, list | tuple) else ()
    if len(given) != len(default) or not all(isinstance(name, str) for name in given) or len({*given}) < len(given):
        wanted = "the name of one column" if len(default) == 1 else f"the names of {len(default)} columns"
        raise ValueError(f"column must be {wanted} for {type(mechanism).__name__}, got {brief(column)}")
    return given


def _table_format(
    split: SplitFile, path: str, form: str, known: Described, columns: tuple[str, ...], has_labels: bool
) -> TableFormat:
    """Return how a file is to be read, or raise ValueError if it lacks a column."""
    mechanism = known.mechanism
    as_code = form == "csv" and not (has_labels and mechanism.answers_are_categories)
    table_format = TableFormat(mechanism, known.categories, columns, as_code)
    if split.schema is None:
        return table_format
    names = split.schema.names
    for name in table_format.needed:
        if names.count(name) != 1:
            hint = f" ({SUBSET!r} has the published subset)" if name == SUBSET and SUBSET not in columns else ""
            raise ValueError(
                f"column must be there once, got {brief(name)}{hint}, which {path!r} has {names.count(name)} times: "
                f"it has {brief(names)}"
            )
    if has_labels and mechanism.answers_are_categories and form != "csv" and described(split.schema.metadata) is None:
        _refuse_numbers(split, path, known.categories, columns[0])
    return table_format


def _refuse_numbers(split: SplitFile, path: str, categories: tuple[str, ...], name: str) -> None:
    """Raise ValueError if a column of numbers could be codes or labels."""
    import pyarrow as pa

    kind = split.schema.field(name).type  # type: ignore[union-attr]
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    others = [label for label in categories if label.lstrip("-").isdecimal()]
    if numeric and others and list(categories) != [str(i) for i in range(len(categories))]:
        raise ValueError(
            f"column must hold text where categories are numbers themselves, such as {others[0]!r}: in {path!r} "
            f"{name!r} holds numbers, which could be codes 0, 1, … or labels"
        )


# Randomized answers from files of either kind: responses or a collection in netCDF, or tables that are gathered.


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
    """Return the answers of a collection, of a netCDF file or of tables, or raise ValueError if there are none.

    Parameters
    ----------
    path : path or pattern
        The file of a collection or of `Responses.to_netcdf`; or what `gather` takes.
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
        found = Responses.read(path)
    if len(found) == 0:
        raise ValueError(f"path must name answers of at least one person, got none in {os.fspath(path)!r}")
    return found
