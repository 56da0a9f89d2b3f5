"""Every block of code in README and docs runs, or its page says why not."""

import ast
import csv
import importlib
import re
import shlex
import sys
import tomllib

import matplotlib.pyplot as plt
import numpy as np
import pytest

from adobest_pp import plots
from adobest_pp.cli.main import main
from tests.docs.blocks import DOCS, PAGES, ROOT, blocks_of, commands_of, programs_of

README = ROOT / "README.md"
ALL = [README, *PAGES]
# What a block may be. Blocks of other languages would be neither run nor read by anything.
# tests/device opens those of HTML in a browser.
LANGUAGES = {"{course}", "python", "{code-cell}", "console", "html", "toml", "text", "", "{toctree}"}
# The build executes these too, with the same code; here they take longer than all others together.
SLOW = {
    "explanation/contraction.md",
    "explanation/sgld.md",
    "gallery.md",
    "howto/cluster.md",
    "howto/grade.md",
    "howto/prior.md",
    "howto/pymc.md",
    "howto/regression.md",
    "howto/sampler.md",
}
# These take a second or more each.
LONG = {
    "howto/ask.md",
    "howto/categories.md",
    "howto/estimate.md",
    "howto/many.md",
    "howto/words.md",
    "quickstart.md",
    "samplers.md",
}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def with_programs():
    for page in ALL:
        if programs_of(page):
            name = name_of(page).removeprefix("docs/")
            marks = [pytest.mark.slow] * (name in SLOW) + [pytest.mark.long] * (name in LONG)
            yield pytest.param(page, id=name_of(page), marks=marks)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to run in, where the programs of the checkout are found, as in the build."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    return tmp_path


@pytest.mark.parametrize("page", list(with_programs()))
def test_programs_run(page, folder, no_other_mechanisms):  # a page may register what another test has
    names = {"__name__": "page"}
    for block in programs_of(page):
        code = compile(ast.parse(block.text), f"{name_of(page)}, line {block.line}", "exec")
        exec(code, names)
        plt.close("all")


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_blocks_are_of_known_languages(page):
    assert {block.language for block in blocks_of(page)} <= LANGUAGES


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_programs_are_never_left_out(page):
    assert [block.line for block in programs_of(page) if block.not_run] == []


def people_csv(path, column="vote"):
    rng = np.random.default_rng(1)
    votes = rng.choice(["red", "green", "blue", "none"], size=40, p=[0.4, 0.3, 0.2, 0.1])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[column], *([vote] for vote in votes)])


def commands():
    for page in ALL:
        shown = [block for block in blocks_of(page) if block.language == "console" and not block.not_run]
        lines = [line for block in shown for line in commands_of(block)]
        if lines:
            yield pytest.param(lines, id=name_of(page))


@pytest.mark.parametrize("lines", list(commands()))
def test_commands_run(lines, folder, capsys):
    people_csv(folder / "people.csv")
    np.savetxt(folder / "my_mechanism.csv", [[0.7, 0.3], [0.3, 0.7]], delimiter=",", fmt="%.6f")
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "adobest", f"{line!r} must be a command of ours, or its block be marked as not run"
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code in (0, None), line


def test_what_readme_links_to_is_there():
    places = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert len(places) > 15
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_a_block_of_commands_that_is_not_run_says_why():
    reasons = [block.not_run for page in ALL for block in blocks_of(page) if block.not_run]
    assert reasons
    assert all(len(reason.split()) > 4 for reason in reasons)


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_tables_of_settings_can_be_read(page):
    for block in blocks_of(page):
        if block.language == "toml":
            tomllib.loads(block.text)


def test_the_study_of_the_page_runs(folder, monkeypatch):
    """The two files that the page on studies shows, saved under the names that they have there."""
    from adobest_pp.studies import read_study, run_once

    blocks = blocks_of(DOCS / "howto/cluster.md")
    shown = {block.text.splitlines()[0].removeprefix("# "): block.text for block in blocks}
    for name in ("coin.py", "coin.toml"):
        (folder / name).write_text(shown[name], encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    study = read_study(folder / "coin.toml")
    measures = run_once(study, study.grid and {"epsilon": 2.0, "people": 1000}, 0)
    sys.modules.pop("coin", None)
    assert 0 <= measures["distance"] < 0.2


def test_every_plot_is_in_the_gallery():
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    called = "\n".join(block.text for block in programs_of(DOCS / "gallery.md"))
    names = [name for name in plots.__all__ if name.startswith("plot_")]
    assert names
    assert [name for name in names if f"### {name}\n" not in text] == []
    assert [name for name in names if f"ad.plots.{name}(" not in called] == []


def test_every_test_that_the_page_of_slips_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "explanation/slips.md").read_text(encoding="utf-8")))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 7
    assert [name for name in named if f"def {name}(" not in sources] == []
    slips = set(re.findall(r"def (test_slip\w+)\(", sources))
    assert slips - named == set(), "a slip has a test and no place on the page"
