"""Damage every kind of file that we write, and read it: it must be refused, or hold the same as before.

A kind is a name, a function that writes such a file (or a folder of files) and one that returns what it holds, as a
value that can be compared. Add a kind to `KINDS`, and all of the following is done to it, at random places: single bits
and bytes are changed, files are cut off or made longer, sectors of 512 bytes are filled with zeros, and files are
removed or trade places. Run this part alone with
``python -m validation.damaged_files``; it is part of ``python -m validation.faults``.
"""

import functools
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import adobest_pp as ad
from adobest_pp._files import netcdf_bytes, write_whole
from adobest_pp.answers import Gathered, netcdf, read_tree
from validation import damaged_stores
from validation.common import Finding, Options, each, finding, main, table

# How often each kind of damage is done to each kind of file, in a quick run and in a full one.
TIMES = {True: 5, False: 150}
FEWEST = 1_000
# Seconds of work after which the reader of netCDF gives up here, and on the clock after which that counts as a hang.
LIMIT, PATIENCE = 0.5, 30.0
SECTOR = 512
SHOWN = 10
LABELS = ("red", "grün", "<b>", "none")


@dataclass(frozen=True)
class Kind:
    """A kind of file that we write.

    Attributes
    ----------
    name : str
        For people.
    write : callable
        Writes a file at a path that does not exist; a folder, if there are several files.
    read : callable
        Returns what is at the path, in values that `==` compares; raises ValueError or OSError if that is damaged.
    file : str
        How the file or folder is called.
    checked : bool
        Whether it has a checksum. Without one, what is read may be something else, but reading must end all the same.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    file: str = "file.parquet"
    checked: bool = True


def _responses() -> ad.Responses:
    rng = np.random.default_rng(1)
    masks = np.array([[True, False, False, False], [False, True, True, False]])
    index, answers = rng.integers(0, 2, 200), rng.integers(0, 4, 200)
    return ad.Responses.from_arrays(ad.RRRR(4, 1.0), answers, subsets=masks, subset_index=index, categories=LABELS)


def _held(responses: ad.Responses) -> Any:
    return json.dumps(responses.mechanism.settings()), responses.categories, _values(responses.to_xarray())


def _values(dataset: xr.Dataset) -> Any:
    """Return all of a dataset, in plain values."""
    variables = [
        (name, v.dims, v.dtype.kind, v.values.tolist(), repr(v.attrs)) for name, v in dataset.variables.items()
    ]
    return sorted(variables, key=str), repr(dataset.attrs)


def _read_responses(path: Path) -> Any:
    return _held(ad.Responses.from_netcdf(path))


def _write_collection(path: Path) -> None:
    rng = np.random.default_rng(2)
    with ad.Collection.create(path, policy=ad.SameQuestion(ad.SRR(4, 1.0)), categories=LABELS) as collection:
        collection.record(rng.integers(0, 4, 20))
        for answer in rng.integers(0, 4, 30):
            collection.record(answer)


def _write_rounds(path: Path) -> None:
    policy = ad.Rounds(ad.SubsetSelection(4, 1.0), n_people=1000)
    with ad.Collection.create(path, policy=policy, categories=LABELS, random_seed=1) as collection:
        question = collection.next_question()
        for x in range(30):
            collection.record(question.privatize(x % 4, rng=np.random.default_rng(x)), question)


def _write_adaptive(path: Path) -> None:
    policy = ad.AdaptiveSubset(ad.RRRR(4, 1.0), updates=2)
    with ad.Collection.create(path, policy=policy, categories=LABELS, random_seed=1) as collection:
        for x in range(30):
            question = collection.next_question()
            collection.record(question.privatize(x % 4, rng=np.random.default_rng(x)), question)


def _read_collection(path: Path) -> Any:
    read = _held(ad.Responses.read(path))
    with ad.Collection.open(path) as collection:
        question = collection.next_question()
        return read, _held(collection.responses), collection.settings, collection.records, question


def _read_gathered(found: Gathered) -> Any:
    evidence = [part.tolist() for part in found.evidence()]
    counts = {os.path.basename(name): each for name, each in found.files.items()}
    return json.dumps(found.mechanism.settings()), found.categories, counts, evidence


def _write_store(path: Path) -> None:
    mechanism = ad.UnaryEncoding(30, 1.0)
    answers = mechanism.privatize(np.arange(300) % 30, rng=np.random.default_rng(3))
    with tempfile.TemporaryDirectory() as folder:
        ad.Responses.from_arrays(mechanism, answers).to_parquet(Path(folder) / "a.parquet")
        ad.gather(folder, store=path, progressbar=False)


def _write_draws(path: Path) -> None:
    theta = np.random.default_rng(4).dirichlet(np.ones(4), size=(2, 50))
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": list(LABELS)})
    groups = {"/": xr.Dataset(attrs={"question": "color", "seed": 1}), "posterior": posterior}
    tree = xr.DataTree.from_dict({**groups, "responses": _responses().to_xarray()})
    write_whole(path, netcdf_bytes(tree), overwrite=False)


def _read_draws(path: Path) -> Any:
    return [(node.path, _values(node.to_dataset())) for node in read_tree(path).subtree]


def _write_allowance(path: Path) -> None:
    ad.Allowance.create(path, epsilon=3.0).answer("a question", ad.SRR(4, epsilon=1.0), 2)


KINDS = [
    Kind("responses in netCDF", lambda path: _responses().to_netcdf(path), _read_responses),
    Kind("collection", _write_collection, _read_collection),
    Kind("adaptive collection", _write_adaptive, _read_collection),
    Kind("collection in rounds", _write_rounds, _read_collection),
    Kind("draws in netCDF", _write_draws, _read_draws),
    Kind(
        "answers in Parquet",
        lambda path: _responses().to_parquet(path),
        lambda path: _read_gathered(ad.gather(path, progressbar=False)),
    ),
    Kind("store of gathered answers", _write_store, lambda path: _read_gathered(Gathered.open(path))),
    Kind("allowance of a device", _write_allowance, lambda path: ad.Allowance.open(path).spent),
    Kind("store of a study", damaged_stores.write, damaged_stores.read, "study.db"),
    Kind("store of a killed study", damaged_stores.write_killed, damaged_stores.read_killed, "killed"),
    Kind(
        "netCDF of xarray itself",
        lambda path: _responses().to_xarray().to_netcdf(path, engine="h5netcdf"),
        _read_responses,
        checked=False,
    ),
]


# ---------------------------------------------------------------- damage
def change_bit(content: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Change one bit."""
    content[at] ^= 1 << int(rng.integers(8))
    return content


def change_byte(content: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Change one byte to another."""
    content[at] ^= int(rng.integers(1, 256))
    return content


def cut(content: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Leave out the end."""
    return content[:at]


def zero_sector(content: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Fill a sector with zeros; one time in two it begins where a sector of a disk does."""
    start = at - at % SECTOR if rng.random() < 0.5 else at
    content[start : start + SECTOR] = bytes(len(content[start : start + SECTOR]))
    return content


def lengthen(content: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Add bytes at the end."""
    return content + rng.bytes(1 + at % SECTOR)


DAMAGES: dict[str, Callable[[bytearray, int, np.random.Generator], bytearray] | None] = {
    "bits": change_bit,
    "bytes": change_byte,
    "cuts": cut,
    "sectors": zero_sector,
    "longer": lengthen,
    # What is done to whole files: see `damage`.
    "removed": None,
    "swapped": None,
}


def damage(how: str, file: Path, files: Sequence[Path], rng: np.random.Generator) -> int:
    """Damage a file; return at which byte. It may trade places with another one of `files`, those of its folder."""
    content = file.read_bytes()
    at = int(rng.integers(len(content)))
    change = DAMAGES[how]
    if change is not None:
        file.write_bytes(bytes(change(bytearray(content), at, rng)))
    elif how == "removed":
        file.unlink()
    else:
        other = files[int(rng.integers(len(files)))]
        file.write_bytes(other.read_bytes())
        other.write_bytes(content)
    return at


@dataclass(frozen=True)
class Tally:
    """How often a kind of file was damaged, with what outcomes, and one line for each that must not be."""

    kind: Kind
    outcomes: Counter[str]
    wrong: list[str]


def damaged(kind: Kind, times: int, seed: int) -> Tally:
    """Damage a kind of file several times in each way, and read it each time."""
    with tempfile.TemporaryDirectory() as folder:
        original, copy = Path(folder) / "original" / kind.file, Path(folder) / "copy" / kind.file
        original.parent.mkdir()
        copy.parent.mkdir()
        kind.write(original)
        expected = kind.read(_copied(original, copy))  # reading may finish what a killed process began
        attempt = functools.partial(_attempt, kind, original, expected, seed)
        found = each(attempt, [(how, i) for how in DAMAGES for i in range(times)], kind.name)
    return Tally(kind, Counter(outcome for outcome, _ in found), [message for _, message in found if message])


def _attempt(kind: Kind, original: Path, expected: Any, seed: int, case: tuple[str, int]) -> tuple[str, str]:
    """Return the outcome of one damage, and what is wrong with it, or nothing."""
    how, i = case
    rng = np.random.default_rng([seed, [*DAMAGES].index(how), i])
    with tempfile.TemporaryDirectory() as folder:
        path = _copied(original, Path(folder) / original.name)
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        file = files[int(rng.integers(len(files)))]
        at = damage(how, file, files, rng)
        began = time.perf_counter()
        outcome, message = _outcome(kind, path, expected)
        if time.perf_counter() - began > PATIENCE:
            outcome, message = "hang", "took too long"
    where = f"{kind.name}: {how} at {at} in {file.name} (seed {seed}, number {i}): {message}"
    return outcome, where if outcome in ("raw error", "hang") or (outcome == "other" and kind.checked) else ""


def _copied(original: Path, path: Path) -> Path:
    (shutil.copytree if original.is_dir() else shutil.copy)(original, path)
    return path


def _outcome(kind: Kind, path: Path, expected: Any) -> tuple[str, str]:
    try:
        found = kind.read(path)
    except (ValueError, OSError) as problem:
        text = str(problem)
        return ("refused", "") if text and "\n" not in text and len(text) < 1000 else ("raw error", repr(problem))
    except Exception as problem:
        return "raw error", repr(problem)
    return ("same", "") if found == expected else ("other", "holds something else")


def damage_findings(options: Options, kinds: Sequence[Kind] = KINDS) -> list[Finding]:
    """Print the counts, and return the findings about them."""
    logging.disable(logging.WARNING)
    before, netcdf.SECONDS = netcdf.SECONDS, LIMIT
    try:
        tallies = [damaged(kind, TIMES[options.quick], options.seed) for kind in kinds]
    finally:
        logging.disable(logging.NOTSET)
        netcdf.SECONDS = before
    print("\nDamaged files: refused with one sentence, or read as they were\n")
    outcomes = ("refused", "same", "other", "raw error", "hang")
    rows = [[one.kind.name, one.outcomes.total(), *(one.outcomes[name] for name in outcomes)] for one in tallies]
    table(["", "tried", *outcomes], rows, name="damaged_files")
    for line in [line for one in tallies for line in one.wrong][:SHOWN]:
        print(f"   wrong: {ascii(line)[:300]}")
    silent = sum(one.outcomes["other"] for one in tallies if one.kind.checked)
    ended = {name.replace(" ", "_"): sum(one.outcomes[name] for one in tallies) for name in ("raw error", "hang")}
    least = min(one.outcomes.total() for one in tallies)
    found = [
        finding("silently", "no damaged file with a checksum is read as something else", silent == 0, other=silent),
        finding("ended", "reading a damaged file ends, with one sentence", not any(ended.values()), **ended),
    ]
    if not options.quick:
        text = f"each kind of file was damaged at least {FEWEST:,} times"
        found.append(finding("damaged", text, least >= FEWEST, least=least))
    return found


if __name__ == "__main__":
    sys.exit(main(damage_findings, __doc__))
