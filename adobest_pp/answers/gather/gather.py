"""Count any number of answers: read files in pieces of bounded memory, on this machine or on a Dask cluster."""

import glob
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from adobest_pp._checks import check_flag, check_path
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief, check_labels, number_among
from adobest_pp.answers.concat import equal_files, log_orders, refuse_copy
from adobest_pp.answers.gather.gathered import FileCounts, Gathered, StoreWriter, notes_of
from adobest_pp.answers.gather.pieces import (
    FORMATS,
    Piece,
    PieceResult,
    SplitFile,
    Unreadable,
    batches,
    read_piece,
    reading,
    split_file,
)
from adobest_pp.answers.gather.tables import SUBSET, Described, described
from adobest_pp.answers.gather.tallies import TableFormat, Tally, add_up, collapses, empty_tally, in_order
from adobest_pp.answers.responses import Responses, check_mechanism
from adobest_pp.evidence import unique_rows
from adobest_pp.mechanisms import Mechanism

logger = logging.getLogger("adobest_pp")

Source = str | os.PathLike[str]


class DamagedAnswers(ValueError):
    """Some files could not be read. All others were read, and nothing of the damaged ones is counted.

    Attributes
    ----------
    gathered : Gathered
        The answers of the other files: continue with it if you can do without the rest.
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
        of them, or a pattern such as ``"answers/*.parquet"``. `adobest_pp.answers.gather.tables` describes their
        columns; `Responses.to_parquet` writes such files.
    mechanism : Mechanism, optional
        What the devices ran; by default what files of `Responses.to_parquet` name.
    column : str or list of str, optional
        The column of the answers, or the columns if an answer is several numbers; by default ``"answer"``, or
        ``["seed", "value"]`` for local hashing.
    categories : sequence of K labels, optional
        Category names; by default those that the files name, or else ``"0"``, ``"1"``, ….
    scheduler : str, optional
        Address of your own Dask scheduler, ``tls://host:port`` or ``tcp://host:port``, whose workers see the same
        files. Anybody who can reach it can run code on its workers and here. By default this machine reads the files.
    store : path, optional
        A new folder for answers that hardly ever repeat, such as unary encoding of 100 categories: their bits are kept
        on disk, and ``"sgld_cv"`` reads them from there. By default a temporary folder, removed with the result.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.
    allow_copies : bool, default False
        Whether to count files with identical content even if that cannot be chance (see Notes). One file under two
        names, such as a link, is never counted twice.

    Returns
    -------
    Gathered
        The answers, counted: the same to the last bit whatever the pieces, the workers and the order. ``n_empty``
        counts the rows without an answer, and a warning is logged.

    Raises
    ------
    DamagedAnswers
        If files are damaged: it names them, and has the answers of all others.

    Notes
    -----
    If a worker dies, another reads its piece again, and nothing is counted twice. A file counts whole or not at all.

    A copy of a file would count its people twice. Two files with identical bytes raise ValueError if independent
    answers would agree in every row with a probability below 10⁻⁹. With so few answers that this may be chance, they
    are counted, with a warning from 20 answers on. A copy in another format goes unnoticed.

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
    given = _files_of(paths)
    copies = {} if check_flag(allow_copies, "allow_copies") else equal_files(list(given))
    if mechanism is not None:
        check_mechanism(mechanism)
    if scheduler is not None:
        from adobest_pp._dask import check_address

        check_address(scheduler)
    files = [_File(path, form, split_file(i, path, form)) for i, (path, form) in enumerate(given.items())]
    for copy, original in copies.items():
        files[copy].copy_of = files[original].path
    known, has_labels = _described_by(files, mechanism, categories)
    columns = _columns_of(known.mechanism, column)
    formats = [_table_format(file, known, columns, has_labels) for file in files]
    gathered = _count(files, known, formats, store, scheduler, progressbar)
    if gathered.n_empty:
        where = [f"{each.empty} in {path!r}" for path, each in gathered.files.items() if each.empty]
        more = f" and {len(where) - 3} more files" if len(where) > 3 else ""
        rows, listed = len(gathered) + gathered.n_empty, ", ".join(where[:3])
        logger.warning("%d of %d rows have no answer and are left out: %s%s.", gathered.n_empty, rows, listed, more)
    if damaged := {file.path: file.damaged for file in files if file.damaged is not None}:
        raise DamagedAnswers(gathered, damaged)
    return gathered


@dataclass
class _File:
    """A file, and what its pieces have given so far."""

    path: str
    form: str
    split: SplitFile
    # Another file with the same bytes, and the logarithm of the number of orders of the answers so far (see
    # `adobest_pp.answers.concat`).
    copy_of: str | None = None
    log_orders: float = 0.0
    answers: int = 0
    empty: int = 0
    tally: Tally | None = None

    def __post_init__(self) -> None:
        self.damaged, self.left = self.split.damaged, len(self.split.pieces)


def _count(
    files: list[_File],
    known: Described,
    formats: list[TableFormat],
    store: Source | None,
    scheduler: str | None,
    progressbar: bool,
) -> Gathered:
    """Read all pieces and add up what they give. A file counts whole or not at all."""
    total = empty_tally(known.mechanism)
    writer = None if collapses(known.mechanism) else StoreWriter(store, total.keys.shape[1])
    pieces = [piece for file in files for piece in file.split.pieces]
    tasks = ((piece, formats[piece.file]) for piece in pieces if files[piece.file].damaged is None)
    try:
        with SlowProgress(len(pieces), "Gathering", progressbar) as bar, _workers(scheduler) as results:
            for piece, result in results(tasks):
                file = files[piece.file]
                _take(file, result, writer)
                if writer is not None and result.tally is not None and file.damaged is None:
                    writer.write(piece.file, result.tally.keys)
                if file.left == 0 and file.copy_of is not None:
                    names = repr(file.copy_of), repr(file.path)
                    refuse_copy("paths", names, file.answers, file.log_orders, len(files))
                if file.left == 0 and file.tally is not None:
                    total, file.tally = add_up([total, file.tally]), None
                bar.advance(1)
        good = [i for i, file in enumerate(files) if file.damaged is None]
        counts = {files[i].path: FileCounts(files[i].answers, files[i].empty) for i in good}
        content = total if writer is None else writer.finish(good, notes_of(*known, counts))
        return Gathered(*known, content, counts)
    except BaseException:
        if writer is not None:
            writer.discard()
        raise


def _take(file: _File, result: PieceResult, writer: StoreWriter | None) -> None:
    """Add what a piece gives to its file, or raise ValueError for what it holds."""
    if result.refused is not None:
        raise ValueError(f"{result.refused}, in {file.path!r}")
    file.damaged = file.damaged or result.damaged
    if file.damaged is not None:
        file.tally = None
        return
    file.left -= 1
    file.empty += result.empty
    tally = result.tally
    if tally is None:
        return
    file.answers += int(tally.count.sum())
    if file.copy_of is not None:
        # If answers hardly ever repeat, a tally lists each as often as it was given.
        file.log_orders += log_orders(tally.count if writer is None else np.bincount(unique_rows(tally.keys)[1]))
    if writer is None:
        file.tally = tally if file.tally is None else add_up([file.tally, tally])


# Who reads the pieces: the cores of this machine, or the workers of a Dask cluster.

# Pieces that wait for each core.
_PER_CORE = 2

Tasks = Iterator[tuple[Piece, TableFormat]]
Results = Iterator[tuple[Piece, PieceResult]]


@contextmanager
def _workers(scheduler: str | None) -> Iterator[Callable[[Tasks], Results]]:
    """Yield a function that reads pieces and yields their results as they come."""
    if scheduler is not None:
        from adobest_pp._dask import Cluster, connect

        with connect(scheduler) as client:
            yield lambda tasks: _read_by_cluster(Cluster(client, read_piece), tasks)
        return
    affinity: Any = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    pool = ThreadPoolExecutor(cores)  # reading and counting run outside of Python's lock
    try:
        yield lambda tasks: _read_by_threads(pool, _PER_CORE * cores, tasks)
    finally:
        pool.shutdown(cancel_futures=True)


def _read_by_threads(pool: ThreadPoolExecutor, most: int, tasks: Tasks) -> Results:
    running: dict[Any, Piece] = {}
    for task in chain(tasks, [None]):
        if task is not None:
            running[pool.submit(read_piece, task)] = task[0]
        while len(running) >= (1 if task is None else most):
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()


def _read_by_cluster(workers: Any, tasks: Tasks) -> Results:
    """Read on a cluster. A piece whose worker died is read once more at the end, by itself."""
    suspects: list[Any] = []
    in_flight = 0
    for task in chain(tasks, [None]):
        if task is not None:
            workers.submit(task)
            in_flight += 1
        while in_flight >= (1 if task is None else max(2, _PER_CORE * workers.slots())):
            done, result = workers.next()
            in_flight -= 1
            if result is None:
                suspects.append(done)
            else:
                yield done[0], result
    for task in suspects:
        workers.submit(task)
        (piece, _), result = workers.next()
        yield piece, result or PieceResult(None, damaged="every worker that was given it died")


# Which files there are, and what they hold.


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
            status = os.stat(path)
            # Two names of one file share its path without links, or the number of its inode.
            for real in [os.path.realpath(path), *([(status.st_dev, status.st_ino)] if status.st_ino else [])]:
                other = seen.setdefault(real, path)
                if other is not path:
                    raise ValueError(f"paths must name each file once, got {other!r} and {path!r}, which are one file")
            found[path] = form
    return dict(sorted(found.items()))


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


def _described_by(files: list[_File], mechanism: Mechanism | None, categories: Any) -> tuple[Described, bool]:
    """Return the one mechanism and the labels, and whether labels were given at all; or raise ValueError."""
    stated: dict[str, Described] = {}
    for file in files:
        try:
            about = None if file.split.schema is None else described(file.split.schema.metadata)
        except ValueError as problem:
            raise ValueError(f"{problem} in {file.path!r}") from None
        if about is not None:
            stated[file.path] = about
    first = next(iter(stated.values()), None)
    found = mechanism or (first and first.mechanism)
    if found is None:
        for file in files:
            if file.damaged is not None:
                raise ValueError(f"paths must name whole files, got {file.path!r} ({file.damaged})")
        raise UnnamedMechanism(
            f"mechanism must be given for files that do not name it, such as {files[0].path!r}, got None"
        )
    labels = first and first.categories if categories is None else check_labels(categories, found.n_categories)
    for path, about in stated.items():
        if about.mechanism != found:
            raise ValueError(
                f"paths must name answers of one mechanism, {found!r}, got {about.mechanism!r} in {path!r}"
            )
        if about.categories != labels:
            raise ValueError(
                f"paths must name answers with the categories {brief(list(labels or ()))} in this order, "
                f"got {brief(list(about.categories))} in {path!r}"
            )
    return Described(found, labels or check_labels(None, found.n_categories)), labels is not None


def _columns_of(mechanism: Mechanism, column: Any) -> tuple[str, ...]:
    default = mechanism.answer_columns
    if column is None:
        return default
    given = (column,) if isinstance(column, str) else tuple(column) if isinstance(column, list | tuple) else ()
    if len(given) != len(default) or not all(isinstance(name, str) for name in given) or len({*given}) < len(given):
        wanted = "the name of one column" if len(default) == 1 else f"the names of {len(default)} columns"
        raise ValueError(f"column must be {wanted} for {type(mechanism).__name__}, got {brief(column)}")
    return given


def _table_format(file: _File, known: Described, columns: tuple[str, ...], has_labels: bool) -> TableFormat:
    """Return how to read a file, or raise ValueError if it lacks a column."""
    named = has_labels and known.mechanism.answers_are_categories
    table_format = TableFormat(*known, columns, as_code=file.form == "csv" and not named)
    schema = file.split.schema
    if schema is None:
        return table_format
    for name in table_format.needed:
        if (times := schema.names.count(name)) != 1:
            hint = f" ({SUBSET!r} has the published subset)" if name == SUBSET and SUBSET not in columns else ""
            raise ValueError(
                f"column must be there once, got {brief(name)}{hint}, which {file.path!r} has {times} times: "
                f"it has {brief(schema.names)}"
            )
    if named and file.form != "csv" and described(schema.metadata) is None:
        import pyarrow as pa

        kind, number = schema.field(columns[0]).type, number_among(known.categories)
        if number is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise ValueError(
                f"column must hold text if categories are numbers themselves, such as {number!r}: in {file.path!r} "
                f"{columns[0]!r} holds numbers, which could be codes 0, 1, … or labels"
            )
    return table_format


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names tables of answers: a Parquet, Arrow or CSV file, a folder or a pattern of them."""
    name = os.fspath(check_path(path))
    is_pattern = glob.has_magic(name) and not os.path.exists(name)
    return os.path.isdir(name) or is_pattern or os.path.splitext(name)[1].lower() in FORMATS


def read_with_columns(
    path: str | os.PathLike[str],
    names: Sequence[str],
    mechanism: Mechanism | None = None,
    categories: Sequence[Any] | None = None,
    column: str | None = None,
) -> tuple[Responses, dict[str, list[Any]]]:
    """Return the answers of a collection or of one table in their order, and the public columns of these names.

    The path is that of a collection, or of a Parquet, Arrow or CSV file, for which the other parameters are those of
    `gather`.
    """
    from adobest_pp.answers.store import is_collection, read_collection

    name = os.fspath(check_path(path))
    if not is_table(path):
        if not is_collection(path):
            _check_public(names, [], name)
            return Responses.read(path), {}
        responses, kept = read_collection(path)
        _check_public(names, list(kept.answered), name)
        return responses, {each: kept.answered[each] for each in names}
    given = _files_of(path)
    if len(given) > 1:
        raise ValueError(f"path must name one file if public columns are read beside its answers, got {len(given)}")
    ((found, form),) = given.items()
    file = _File(found, form, split_file(0, found, form))
    known, has_labels = _described_by([file], mechanism, categories)
    how = _table_format(file, known, _columns_of(known.mechanism, column), has_labels)
    checksums = [each for each in file.split.pieces if each.format == "checksum"]
    flaws = [file.damaged, *(read_piece((each, how)).damaged for each in checksums)]
    if (flaw := next(filter(None, flaws), None)) is not None or file.split.schema is None:
        raise ValueError(f"path must name a whole file, got {name!r} ({flaw})")
    _check_public(names, file.split.schema.names, name)
    answers, subsets, public = [], [], {each: list[Any]() for each in names}
    try:
        with reading():
            for piece in file.split.pieces[len(checksums) :]:
                for batch in batches(piece, how._replace(public=tuple(names))):
                    some, masks, there = in_order(batch, how)
                    answers.append(some)
                    subsets += [] if masks is None else [masks]
                    for each in public:
                        public[each] += list(compress(batch.column(each).to_pylist(), there))
    except Unreadable as reason:
        raise ValueError(f"path must name a whole file, got {name!r} ({reason})") from None
    if not answers:
        raise ValueError(f"path must name answers of at least one person, got none in {name!r}")
    masks = np.concatenate(subsets) if subsets else None
    return Responses.from_arrays(known.mechanism, np.concatenate(answers), masks, None, known.categories), public


def _check_public(names: Sequence[str], there: list[str], path: str) -> None:
    for each in names:
        if there.count(each) != 1:
            raise ValueError(f"the column {each!r} must be in the file {path!r} once, got {brief(there)}")


def read_answers(
    path: str | os.PathLike[str],
    mechanism: Mechanism | None = None,
    categories: Sequence[Any] | None = None,
    column: str | None = None,
    progressbar: bool = True,
    allow_copies: bool = False,
) -> Responses | Gathered:
    """Return the answers of a collection, of a netCDF file or of tables, or raise ValueError if there are none.

    The path is that of a collection, a file of `Responses.to_netcdf`, or what `gather` takes with the other parameters.
    """
    if is_table(path):
        how: dict[str, Any] = {"column": column, "progressbar": progressbar, "allow_copies": allow_copies}
        found: Responses | Gathered = gather(path, mechanism, categories=categories, **how)
    else:
        found = Responses.read(path)
    if len(found) == 0:
        raise ValueError(f"path must name answers of at least one person, got none in {os.fspath(path)!r}")
    return found
