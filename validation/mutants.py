"""Do the tests notice a fault? Plant small ones, one at a time, and count those that no test sees.

Run with ``python -m validation.mutants adobest_pp/mechanisms --tests tests/mechanisms --count 40 --seed 1``. It is a
developer's tool, with seconds to a minute for each mutant, and no part of ``python -m validation``. It works on a copy
of the tree: what you edit is never touched. A mutant is *killed* when the tests fail, crash or hang.

``--write`` puts the outcomes into validation/mutants.md, beside those that are there already. The last column is
written by hand, and kept: why a survivor is no fault. ``--again`` runs the survivors that have no reason.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from validation.mutations import Mutation, mutations

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_suffix(".md")
# The quickest tests that should notice a fault of each module, where `--tests` does not name others.
TESTS = {
    "adobest_pp/mechanisms": ["tests/mechanisms"],
    "adobest_pp/data/evidence.py": [
        "tests/likelihood/test_marginal.py",
        "tests/data/test_responses.py",
        "-k",
        "not killed",
    ],
    "adobest_pp/data/journal.py": ["tests/online/test_saving.py", "tests/online/test_collector_machine.py"],
    "adobest_pp/likelihood/answer_fit.py": ["tests/diagnostics/test_fit.py"],
    "adobest_pp/likelihood/marginal.py": ["tests/likelihood/test_marginal.py"],
    "adobest_pp/likelihood/core.py": ["tests/likelihood/test_marginal.py", "tests/samplers/test_densities.py"],
    "adobest_pp/data/responses.py": ["tests/data/test_responses.py", "-k", "not killed"],
    "adobest_pp/model/tensors.py": ["tests/model/test_tensors.py", "-k", "not seconds"],
    "adobest_pp/model/ops.py": ["tests/model/test_tensors.py", "-k", "not seconds"],
    "adobest_pp/model/simplex.py": [
        "tests/model/test_tensors.py",
        "tests/samplers/test_densities.py",
        "-k",
        "not seconds",
    ],
    "adobest_pp/model/private_response.py": ["tests/model/test_private_response.py", "-k", "not cost"],
    "adobest_pp/online/fast_random.py": ["tests/online/test_fast_random.py"],
    "adobest_pp/design": ["tests/design"],
    "adobest_pp/samplers/augmentation.py": ["tests/samplers/test_augmentation.py"],
    "adobest_pp/samplers/densities.py": ["tests/samplers/test_densities.py"],
    "adobest_pp/samplers/learned_density.py": ["tests/samplers/test_learned_density.py"],
    "adobest_pp/samplers/emptiness.py": ["tests/samplers/test_problems.py"],
    "adobest_pp/samplers/problems.py": ["tests/samplers/test_problems.py"],
    "adobest_pp/samplers/nuts.py": ["tests/samplers/test_nuts.py", "tests/samplers/test_interrupts.py"],
    "adobest_pp/samplers/gibbs.py": ["tests/samplers/test_gibbs.py"],
    "adobest_pp/samplers/sgld.py": ["tests/samplers/test_sgld.py"],
    "adobest_pp/samplers/langevin_settings.py": ["tests/samplers/test_sgld.py"],
    "adobest_pp/samplers/langevin_kernels.py": ["tests/samplers/test_langevin_kernels.py"],
    "adobest_pp/samplers/schedules.py": ["tests/samplers/test_schedules.py", "tests/samplers/test_langevin_kernels.py"],
    "adobest_pp/samplers": ["tests/samplers"],
    "adobest_pp/online/hamiltonian.py": ["tests/online/test_gradients.py", "tests/online/test_hamiltonian.py"],
    "adobest_pp/online/langevin.py": ["tests/online/test_gradients.py"],
    "adobest_pp/online/loop.py": ["tests/online/test_answers.py", "tests/online/test_loop.py"],
    "adobest_pp/online/records.py": ["tests/online/test_gradients.py"],
    "adobest_pp/online/simulation.py": ["tests/online/test_loop.py", "tests/online/test_edges.py"],
    "adobest_pp/online": ["tests/online"],
    "adobest_pp/diagnostics/_distances.py": ["tests/diagnostics/test_comparison.py"],
    "adobest_pp/diagnostics/_draws.py": [
        "tests/diagnostics/test_comparison.py",
        "tests/diagnostics/test_calibration.py",
    ],
    "adobest_pp/diagnostics/_ranks.py": ["tests/diagnostics/test_ranks.py", "tests/diagnostics/test_comparison.py"],
    "adobest_pp/diagnostics/_stein.py": ["tests/diagnostics/test_comparison.py"],
    "adobest_pp/diagnostics/_verdicts.py": ["tests/diagnostics/test_ranks.py", "tests/diagnostics/test_comparison.py"],
    "adobest_pp/diagnostics": ["tests/diagnostics"],
    "adobest_pp/studies": ["tests/studies"],
    "adobest_pp/data": ["tests/data", "tests/test_labels.py", "tests/online/test_saving.py", "-k", "not killed"],
}
HEADER = ["| place | before | after | outcome | seconds | reason |", "|---|---|---|---|---|---|"]


@dataclass(frozen=True)
class Outcome:
    """What the tests made of one mutant: a row of the table."""

    file: str
    line: int
    function: str
    before: str
    after: str
    outcome: str
    seconds: float
    reason: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """As of `Mutation`, as far as the table can tell."""
        return self.file, self.function, self.before, self.after


class Tree:
    """A copy of the sources in which one fault at a time is planted, with caches of what was compiled without it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.warm, self.used = folder / "tree", folder / "warm", folder / "used"
        hidden = shutil.ignore_patterns(".*", "__pycache__", "*.zarr")
        shutil.copytree(root, self.folder, ignore=hidden, dirs_exist_ok=True)
        self.warm.mkdir(parents=True, exist_ok=True)
        self._limits: dict[tuple[str, ...], float] = {}
        self._planted = 0

    def baseline(self, tests: Sequence[str]) -> float:
        """Return the time limit of these tests; the first time, run them without a fault, which fills the caches."""
        if tuple(tests) not in self._limits:
            began = time.perf_counter()
            if not self._pass(tests, self.warm, 3600):
                raise SystemExit(f"the tests fail without any fault: {' '.join(tests)}")
            self._limits[tuple(tests)] = 30 + 2 * (time.perf_counter() - began)
        return self._limits[tuple(tests)]

    def try_out(self, mutation: Mutation, tests: Sequence[str], limit: float) -> Outcome:
        """Plant one fault, run the tests, and take it out again."""
        file = self.folder / mutation.file
        source, state = file.read_bytes(), file.stat()
        self._copy_caches(mutation.file)
        began = time.perf_counter()
        try:
            file.write_bytes(mutation.apply(source))
            self._planted += 1
            os.utime(file, (state.st_atime, int(state.st_mtime) + self._planted))  # no two may pass for the same file
            outcome = "survived" if self._pass(tests, self.used, limit) else "killed"
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
        seconds = time.perf_counter() - began
        return Outcome(mutation.file, mutation.line, *mutation.key[1:], outcome, seconds)

    def _pass(self, tests: Sequence[str], caches: Path, limit: float) -> bool:
        """Tell whether the tests pass; they do not if they fail, crash or take longer than the limit in seconds."""
        (caches / "numba").mkdir(parents=True, exist_ok=True)
        given = {"MUTANTS_CACHE": str(caches / "numba"), "PYTENSOR_FLAGS": f"base_compiledir={caches / 'pytensor'}"}
        given |= {"PYTHONPATH": str(self.folder), "NUMBA_OPT": "1"}  # compiling takes longer than the tests do
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(limit) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # what a test started and left behind goes too

    def _copy_caches(self, file: str) -> None:
        """Keep what was compiled, without the functions that may hold a function of the changed file."""
        shutil.rmtree(self.used, ignore_errors=True)
        shutil.copytree(self.warm, self.used, copy_function=os.link)
        changed = _importers(self.folder, file)
        names = {(path.parent.name, path.stem) for path in changed}
        for path in (self.used / "numba").glob("*/*"):
            if (path.parent.name.rsplit("_", 1)[0], path.name.split(".")[0]) in names:
                path.unlink()
        if any("import njit" in path.read_text(encoding="utf-8") for path in changed):
            shutil.rmtree(self.used / "pytensor", ignore_errors=True)


def _importers(root: Path, file: str) -> set[Path]:
    """Return a file and the files of its package that import it, directly or through others."""
    imported = {path: _imported(path) for path in (root / file.split("/")[0]).rglob("*.py")}
    found: set[Path] = set()
    new = {root / file}
    while new:
        found |= new
        names = {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in new}
        new = {path for path, loaded in imported.items() if loaded & names} - found
    return found


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def every_mutation(places: Iterable[str]) -> list[Mutation]:
    """Return all mutations of files and folders."""
    files = [
        path for place in places for path in ([ROOT / place], (ROOT / place).rglob("*.py"))[(ROOT / place).is_dir()]
    ]
    return [one for path in sorted(files) for one in mutations(path.read_bytes(), path.relative_to(ROOT).as_posix())]


def sample(found: Sequence[Mutation], count: int, seed: int) -> list[Mutation]:
    """Return `count` of the mutations, drawn at random, at most one on a line."""
    shuffled = random.Random(seed).sample(found, len(found))
    one_on_a_line = {(one.file, one.line): one for one in reversed(shuffled)}
    chosen = [one for one in shuffled if one_on_a_line[one.file, one.line] is one][:count]
    return sorted(chosen, key=lambda one: (one.file, one.line))


def tests_of(file: str) -> list[str]:
    """Return the tests that should notice a fault of a file."""
    for place, tests in TESTS.items():
        if file == place or file.startswith(f"{place}/"):
            return tests
    raise SystemExit(f"--tests must be given for {file}: the tool has none for it")


def read_table(path: Path) -> list[Outcome]:
    """Return the rows of a table that was written before."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        place = re.fullmatch(r"(\S+\.py):(\d+) ?(\S*)", cells[0]) if len(cells) == 6 else None
        if place:
            before, after, outcome, seconds, reason = (cell.strip("`").replace("\\|", "|") for cell in cells[1:])
            rows.append(Outcome(place[1], int(place[2]), place[3], before, after, outcome, float(seconds), reason))
    return rows


def merge(old: Sequence[Outcome], new: Sequence[Outcome]) -> list[Outcome]:
    """Return both, the new ones in the place of old ones of the same mutant, with the reasons of those."""
    rows = {row.key: row for row in old}
    for row in new:
        reason = rows[row.key].reason if row.key in rows and row.outcome == "survived" else row.reason
        rows[row.key] = replace(row, reason=reason)
    return sorted(rows.values(), key=lambda row: (row.file, row.line, row.before))


def report(rows: Sequence[Outcome]) -> str:
    """Return the page: how many were killed by folder, the survivors with their reasons, and all mutants."""
    lines = ["# Faults planted in the sources, and what the tests made of them", ""]
    lines += [
        "Written by `python -m validation.mutants … --write`; the reasons are written by hand. A mutant is *killed*"
    ]
    lines += ["if the tests of its module (`TESTS` in the program) fail, crash or hang.", ""]
    lines += ["| where | mutants | killed | survived |", "|---|---|---|---|"]
    places = [row.file.removeprefix("adobest_pp/").split("/")[0].removesuffix(".py") for row in rows]
    for place in [*sorted(set(places)), "all"]:
        here = [row.outcome for row, other in zip(rows, places, strict=True) if place in (other, "all")]
        lines.append(f"| {place} | {len(here)} | {here.count('killed')} | {here.count('survived')} |")
    lines += ["", "## Survivors", "", *HEADER, *(_line(row) for row in rows if row.outcome == "survived")]
    lines += ["", "## Killed", "", *HEADER, *(_line(row) for row in rows if row.outcome == "killed")]
    return "\n".join(lines) + "\n"


def _line(row: Outcome) -> str:
    cells = [f"{row.file}:{row.line} {row.function}".strip(), f"`{row.before}`", f"`{row.after}`", row.outcome]
    return f"| {' | '.join(cell.replace('|', '\\|') for cell in [*cells, f'{row.seconds:.0f}', row.reason])} |"


def command(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 if a mutant survived for which the table has no reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", default=list(TESTS), help="files and folders (default: all it knows)")
    parser.add_argument("--tests", nargs="+", help="what to run (by default what the tool knows of each place)")
    parser.add_argument("--count", type=int, default=20, help="how many mutants (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (default 1)")
    parser.add_argument(
        "--again", action="store_true", help="run the survivors of the table that have no reason instead"
    )
    parser.add_argument("--write", action="store_true", help="write the outcomes into validation/mutants.md")
    parser.add_argument("--copy", type=Path, help="keep the copy of the tree here: the next run need not compile")
    options = parser.parse_args(argv)
    chosen = every_mutation(options.places)
    if options.again:
        open_ = {row.key for row in read_table(TABLE) if row.outcome == "survived" and not row.reason}
        chosen = [one for one in chosen if one.key in open_]
    else:
        chosen = sample(chosen, options.count, options.seed)
    tests = {one.file: options.tests or tests_of(one.file) for one in chosen}
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        tree, outcomes = Tree(ROOT, options.copy or Path(temporary)), []
        for file, group in groupby(chosen, key=lambda one: one.file):
            limit = tree.baseline(tests[file])
            for mutation in group:
                outcomes.append(tree.try_out(mutation, tests[file], limit))
                print(_line(outcomes[-1]), flush=True)
                if options.write:
                    TABLE.write_text(report(merge(read_table(TABLE), outcomes)), encoding="utf-8")
    keys = {one.key for one in outcomes}
    survivors = [row for row in merge(read_table(TABLE), outcomes) if row.key in keys and row.outcome == "survived"]
    print(f"{len(keys)} mutants, {len(keys) - len(survivors)} killed, {len(survivors)} survived")
    return int(any(not row.reason for row in survivors))


if __name__ == "__main__":
    sys.exit(command())
