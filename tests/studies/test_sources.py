"""Which files guard a store: those that make a run, and no others."""

import sys

import pytest

from adobest_pp.studies import Study
from adobest_pp.studies.grid import LIBRARIES, differing, hashes_of, sources_of
from tests.studies.small import study

MINE = "from my_helper import help\nimport numpy\n\ndef run(run):\n    import json\n    from my_package import late\n"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A run function in a folder of one's own, with a helper, and a package that is imported within the function."""
    (tmp_path / "my_package").mkdir()
    files = {"my_run.py": MINE, "my_helper.py": "def help(): pass\n", "my_package/__init__.py": ""}
    files |= {"my_package/late.py": "from . import later\n", "my_package/later.py": "from ..x import y\n"}
    for name, text in (files | {"my_package/other.py": "", "unused.py": ""}).items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[name]


def of(run="my_run:run", **settings):
    return Study("mine", 1, 1, ("m",), ({},), settings, run)


def test_all_that_a_function_imports_is_followed_and_nothing_of_others(mine):
    files = ["my_helper", "my_package", "my_package.late", "my_package.later", "my_run"]
    assert list(sources_of(of())) == [*files, *LIBRARIES]


def test_a_change_of_any_of_them_is_found_and_named(mine):
    before = sources_of(of())
    assert hashes_of(before) == before
    (mine / "my_package" / "later.py").write_text("# other\n")
    (mine / "my_package" / "other.py").write_text("# other\n")
    assert differing(before, sources_of(of())) == differing(before, hashes_of(before)) == "my_package.later"
    (mine / "my_run.py").write_text(MINE + "    from my_package import other\n")
    assert differing(before, sources_of(of())) == "my_package.later, my_package.other, my_run"
    (mine / "my_helper.py").unlink()
    assert "my_helper" in differing(before, hashes_of(before))
    assert differing(dict.fromkeys("abcdefgh", "0"), {}) == "a, b, c, d, e and 3 more"


def test_a_mechanism_that_settings_name_is_a_source(mine):
    assert "my_helper" not in sources_of(of("my_package.late:run"))
    assert "my_helper" in sources_of(of("my_package.late:run", mechanism="my_helper:Mine"))


def test_sources_of_the_default_run_are_what_makes_it():
    found = sources_of(study())
    for name in (
        "studies.frequency_run",
        "adaptive.loop",
        "mechanisms.rrrr",
        "samplers.nuts",
        "model.simplex",
        "_dirichlet",
    ):
        assert f"adobest_pp.{name}" in found
    for part in ("studies.engine", "studies.store", "studies.page", "plots", "report", "cli", "diagnostics"):
        assert not any(name.startswith(f"adobest_pp.{part}") for name in found)
    assert all(name.startswith("adobest_pp") for name in found if name not in LIBRARIES)


def test_another_version_of_a_library_is_another_source(monkeypatch):
    before = sources_of(study())
    monkeypatch.setattr("adobest_pp.studies.grid.version", lambda name: "9.9" if name == "numpy" else before[name])
    assert differing(before, sources_of(study())) == differing(before, hashes_of(before)) == "numpy"
