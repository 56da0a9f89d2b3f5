"""What importing costs, and what it must not bring along."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import adobest_pp
from tests.docs.blocks import PAGES

ROOT = Path(__file__).parents[1]


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


HEAVY = ("pymc", "pytensor", "arviz", "numba", "xarray", "matplotlib", "scipy", "dask", "nutpie")


def test_importing_brings_nothing_heavy_along():
    loaded = run(f"import sys, adobest_pp; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]"


def test_a_device_needs_numpy_at_most():
    program = f"""
import sys, adobest_pp
adobest_pp.RRRR(4, 1.0).privatize(2, subset=[0, 2])
adobest_pp.audit(adobest_pp.RRRR(4, 1.0))
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run(program) == "[]"


def test_help_brings_nothing_heavy_along():
    """Half a second on an idle machine: `make bench` has the figure."""
    program = f"""
import sys
from adobest_pp.cli.main import main
try:
    main(["--help"])
except SystemExit:
    print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run(program).endswith("\n[]")


def test_every_public_name_is_there():
    for name in adobest_pp.__all__:
        assert getattr(adobest_pp, name) is not None
    assert set(adobest_pp.__all__) <= set(dir(adobest_pp))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = adobest_pp.nonsense


def test_every_top_level_name_occurs_in_a_page_a_lesson_or_a_model():
    sources = [*PAGES, ROOT / "README.md", *(ROOT / "lessons").glob("*.py"), *(ROOT / "models").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    used = {*re.findall(r"\b(?:ad|adobest_pp)\.(\w+)", text), *re.findall(r"`(\w+)[`(]", text)}
    used |= {name for line in re.findall(r"from adobest_pp import (.+)", text) for name in re.findall(r"\w+", line)}
    assert {*adobest_pp._HOMES} - used == set()
