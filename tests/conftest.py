"""Settings shared by all tests.

Hypothesis runs the same examples every time, without a time limit per example. Numba keeps compiled functions by the
state of their own file and does not notice an edit in a file they call, so its cache is one per state of the files that
hold compiled functions and of what those import.
"""

import gc
import hashlib
import os
import re
import shutil
import signal
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_CACHES = _ROOT / ".numba_cache"


def _compiled_sources() -> list[Path]:
    """Return the files with compiled functions, and those that they import: a constant may come from there."""
    sources = {path: path.read_text(encoding="utf-8") for path in (_ROOT / "adobest_pp").rglob("*.py")}
    compiled = {path for path, text in sources.items() if re.search("^(from|import) numba", text, re.MULTILINE)}
    names = {name for path in compiled for name in re.findall(r"from (adobest_pp\.[\w.]+) import", sources[path])}
    places = [_ROOT / name.replace(".", "/") for name in names]
    imported = {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}
    return sorted(compiled | imported & sources.keys())


_sources = b"".join(path.read_bytes() for path in _compiled_sources())
_current = _CACHES / hashlib.sha256(_sources).hexdigest()[:16]
for _cache in _CACHES.glob("*"):
    if _cache != _current:
        shutil.rmtree(_cache, ignore_errors=True)
os.environ["NUMBA_CACHE_DIR"] = str(_current)

# Graphs are compiled by Numba or not at all. For the latter PyTensor would call a C compiler where there is one.
os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), "cxx="]))

# In the background of a shell, SIGINT is ignored, also in child processes. Some tests need it, to test Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402
from xdist.scheduler import LoadFileScheduling  # noqa: E402

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

# Marked `long` as a whole: validation programs and the paper, programs of models.
LONG = (
    "models/test_anes96.py",
    "models/test_programs.py",
    "paper",
    "simulate/test_authors_program.py",
    "validation",
)

# Files that share compiled functions or a report, by a name for them: one process runs all files of that name.
TOGETHER = {
    "tests/samplers/": "samplers",
    "tests/report/": "report",
    "tests/cli/test_estimate.py": "report",
}

# What takes longest, in that order, starts first, so that no process waits for another at the end.
FIRST = (
    "samplers",
    "model",
    "diagnostics",
    "report",
    "cli",
    "studies",
    "collect",
    "poll",
    "simulate",
    "survey",
    "contracts",
    "lessons",
)


class Rooms(LoadFileScheduling):
    """Run the tests of a file, or of files that stay together, in one process."""

    def _split_scope(self, nodeid):
        name = next((name for start, name in TOGETHER.items() if nodeid.startswith(start)), None)
        return name or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Rooms(config, log)


def pytest_collection_modifyitems(items):
    """Mark the tests of some folders and files, which `make test` leaves out and `make test-all` runs; order them."""
    root = Path(__file__).parent
    for item in items:
        if any(item.path.is_relative_to(root / place) for place in LONG):
            item.add_marker(pytest.mark.long)
    ranks = {
        path: next((rank for rank, place in enumerate(FIRST) if path.is_relative_to(root / place)), len(FIRST))
        for path in {item.path for item in items}
    }
    items.sort(key=lambda item: ranks[item.path])


def pytest_collection_finish():
    """Exempt the objects that imports created from later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_other_mechanisms(monkeypatch):
    """Begin with our mechanisms alone, and forget those that the test registers."""
    from adobest_pp.mechanisms import registry

    monkeypatch.setattr(registry, "_OTHERS", {})


@pytest.fixture
def interpreted():
    """Leave PyTensor graphs uncompiled, for tests that evaluate each graph a few times: compiling takes seconds."""
    import pytensor

    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
