"""Damage to the store of a study: flips, cuts, zeros and files that are gone, and what reading makes of them.

Every damage is refused with a sentence, or does not matter: the study that is read is the same. Run with
``python -m validation.damaged_stores 1000`` for 1000 flips, and as many other damages.
"""

import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from unittest import mock

import xarray as xr

from adobest_pp.studies import Study, cells_of, open_study, study_status
from adobest_pp.studies import store as store_module
from adobest_pp.studies.batches import Outcome
from adobest_pp.studies.sources import sources_of
from adobest_pp.studies.store import StudyStore

SECTOR = 512
REFUSALS = ("store must be whole", "store must be a folder made by")
# Seconds after which reading hangs.
PATIENCE = 60.0
STUDY = Study.from_dict(
    {
        "name": "damaged",
        "run": "adobest_pp.studies.frequency_run:frequency_run",
        "runs": 6,
        "seed": 1,
        "measures": ["tv", "mean_size"],
        "settings": {"n_categories": 3, "rho": 1.0, "people": 10},
        "grid": {"epsilon": [0.5, 1.0], "mechanism": ["srr", "subset_selection"]},
    }
)


class Kind(NamedTuple):
    """What is damaged: how it is called, written and read. What reading returns is compared by ``==``."""

    name: str
    write: Callable[[Path], Path]
    read: Callable[[Path], object]


def study_store() -> Kind:
    """Return the store of a study that has done, failed and missing runs."""
    return Kind("study store", _write, read)


def interrupted_store() -> Kind:
    """Return a store whose process was killed while it committed a batch."""
    return Kind("study store of a killed process", _write_half, read)


def outcome(cell: int, run: int) -> Outcome:
    """Return what becomes of a run: some fail."""
    if (cell + run) % 4 == 3:
        return Outcome(run, {}, 0.25, f"ValueError: run {run} — of cell {cell}")
    return Outcome(run, {"tv": 1 / (2 + cell + run), "mean_size": float(run)}, 0.5)


def _write(folder: Path) -> Path:
    path = folder / "study.zarr"
    with StudyStore(path, STUDY) as store:
        for cell in range(3):
            store.commit(cell, [outcome(cell, run) for run in range(6 - 2 * cell)])
    return path


def _write_half(folder: Path) -> Path:
    path = _write(folder)
    with StudyStore(path, STUDY) as store, suppress(OSError):
        write = store._write_column

        def full(name: str, *rest: object) -> None:
            if name == "status":
                raise OSError("no room")
            write(name, *rest)  # type: ignore[arg-type]

        with mock.patch.object(store, "_write_column", full):
            store.commit(2, [outcome(2, run) for run in range(2, 5)])
    return path


def read(path: Path) -> object:
    """Return all that a store says, also to a process that goes on with it."""
    dataset: xr.Dataset = open_study(path)
    with StudyStore(path, STUDY) as store:
        waiting = [store.waiting(cell).tolist() for cell in range(len(cells_of(STUDY)))]
    variables = {name: (values.dtype.str, values.values.tobytes()) for name, values in dataset.variables.items()}
    return variables, dataset.attrs, repr(study_status(path)), waiting


def repaired(path: Path) -> object:
    """Make damaged and missing runs again, and return what the store then says."""
    with StudyStore(path, STUDY, repair=True) as store:
        for cell in range(3):
            again = [outcome(cell, run) for run in store.waiting(cell).tolist()]
            if again:
                store.commit(cell, again)
    return read(path)


def damages(path: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield so many flips of one bit, spread over all files, and as many other damages; each is undone afterwards."""
    rng = random.Random(seed)
    backup = path.with_name("backup")
    shutil.copytree(path, backup)
    files = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    others = ("cut", "emptied", "zeroed", "overwritten", "deleted", "folder deleted", "longer", "swapped")
    for i in range(2 * count):
        name = files[i % len(files)]
        how = "flipped" if i < count else others[i // len(files) % len(others)]
        _damage(path, name, how, rng, files)
        yield how, str(name)
        shutil.rmtree(path)
        shutil.copytree(backup, path)


def _damage(path: Path, name: Path, how: str, rng: random.Random, files: list[Path]) -> None:
    file, content = path / name, bytearray((path / name).read_bytes())
    place = rng.randrange(len(content))
    if how == "flipped":
        content[place] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del content[place:]
    elif how == "emptied":
        content.clear()
    elif how == "zeroed":
        start = place // SECTOR * SECTOR
        content[start : start + SECTOR] = bytes(len(content[start : start + SECTOR]))
    elif how == "overwritten":
        content[place] = rng.randrange(256)
    elif how == "longer":
        content += rng.randbytes(1 + rng.randrange(SECTOR))
    elif how == "swapped":
        other = path / rng.choice(files)
        content, theirs = bytearray(other.read_bytes()), content
        other.write_bytes(theirs)
    if how == "deleted":
        file.unlink()
    elif how == "folder deleted" and file.parent != path:
        shutil.rmtree(file.parent)
    else:
        file.write_bytes(content)


def judge(kind: Kind, path: Path, whole: object) -> str:
    """Read what may be damaged: it is refused, the same, or one of the faults."""
    try:
        with _patience():
            return "same" if kind.read(path) == whole else "silently other"
    except TimeoutError:
        return "hangs"
    except (ValueError, OSError) as problem:
        return (
            "refused" if str(problem).startswith("store must be ") else f"raw error {type(problem).__name__}: {problem}"
        )
    except Exception as problem:
        return f"raw error {type(problem).__name__}: {problem}"


@contextmanager
def _patience() -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tally(kind: Kind, count: int, seed: int = 1) -> Counter[tuple[str, str]]:
    """Count what became of so many flips and as many other damages, by how and what."""
    found: Counter[tuple[str, str]] = Counter()
    sources = sources_of(STUDY)  # which takes longer than the rest
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(store_module, "sources_of", return_value=sources):
        path = kind.write(Path(folder))
        whole = _read_copy(kind, path)
        for how, name in damages(path, count, seed):
            verdict = judge(kind, path, whole)
            if verdict not in ("refused", "same"):
                print(f"{kind.name}, {name} {how}: {verdict}", flush=True)
            found[how, verdict.split(":")[0]] += 1
    return found


def _read_copy(kind: Kind, path: Path) -> object:
    """Read a copy: reading goes on with a store, and so changes one that was left in the middle."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    return kind.read(copy)


def main() -> None:
    """Print a table of what became of the damages."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for kind in (study_store(), interrupted_store()):
        found = tally(kind, count)
        for (how, verdict), n in sorted(found.items()):
            print(f"{kind.name}: {how}: {n} {verdict}")
        totals = Counter[str]()
        for (_, verdict), n in found.items():
            totals[verdict] += n
        print(f"{kind.name}: {dict(totals)}", flush=True)


if __name__ == "__main__":
    main()
