"""The paper's page has its statements beside the runs, and what is not there is said."""

import json
import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

from adobest_pp.studies import Study, cells_of, run_once
from adobest_pp.studies.run_function import Outcome
from adobest_pp.studies.store import StudyStore
from tests.paper.synthetic import UTILITIES, study, without
from tests.refusals import refuses
from tests.studies.test_page import check_page
from validation.paper.__main__ import main as command
from validation.paper.page import write_page

REFERENCE = Path(__file__).parents[2] / "validation" / "paper" / "reference_tv.csv"


def small(**options):
    return study(epsilon=(0.5, 5.0), rho=(0.01, 1.0), runs=8, **options)


def page_of(*arguments, **options):
    return check_page(write_page(*arguments, **options))


def test_everything_is_on_the_page_of_the_whole_study(tmp_path):
    main, program = small(), small(methods=UTILITIES, budgets="published")
    equal = main.assign(exact_tv=main.tv)
    text, names = page_of(main, tmp_path / "page", program, equal, REFERENCE)
    assert names >= {
        "tv_kappa_0.8.png",
        "subset_sizes_kappa_0.9.svg",
        "honest_response.png",
        "medians.csv",
        "settings.json",
    }
    assert names >= {"medians_as_published.csv", "medians_equal_privacy_exact_tv.md"}
    for part in ("| seed | 5 |", "| runs of each cell | 8 |", "The advantage as published", "Figure 2"):
        assert part in text
    assert len(re.findall(r"^### \d+\. .*: ", text, re.MULTILINE)) == 17
    assert "of its 30 rows" in text
    settings = json.loads((tmp_path / "page" / "settings.json").read_text(encoding="utf-8"))
    assert settings["study"]["study"]["seed"] == 5
    assert settings["as_published"]["study"]["runs"] == 8
    assert set(settings["page_made_with"]) >= {"adobest_pp", "numpy", "python"}


def test_the_same_study_gives_the_same_files(tmp_path):
    first, second = (write_page(small(), tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_statements_without_runs_are_left_out(tmp_path):
    text, _ = page_of(without(small(), method="honest"), tmp_path / "part")
    assert "`honest` is competitive" not in text
    text, names = page_of(small(methods=("nonadaptive",)), tmp_path / "none")
    assert "they are left out" in text
    assert "honest_response.png" in names


def test_three_runs_are_too_few_for_the_statements(tmp_path):
    text, _ = page_of(study(epsilon=(1.0,), rho=(0.1, 1.0), runs=3), tmp_path)
    assert "too few runs to tell" in text


def test_studies_without_what_they_are_given_for_are_refused(tmp_path):
    main = small()
    target = tmp_path / "page"
    with pytest.raises(
        ValueError, match="as_published must be a study with cells of budgets 'published', got one with"
    ):
        write_page(main, target, main)
    with pytest.raises(
        ValueError, match=r"equal_privacy must be a study with the measure 'exact_tv', got one with 'tv'"
    ):
        write_page(main, target, None, main)
    published = small(methods=UTILITIES, budgets="published")
    with refuses("equal_privacy"):
        write_page(main, target, None, published.assign(exact_tv=published.tv))
    with refuses("study"):
        write_page(main.drop_vars(["kappa", "budgets"]), target)
    with refuses("reference"):
        write_page(main, target, reference=REFERENCE)
    assert not target.exists()


def test_the_answer_comes_before_all_else(tmp_path):
    main, program = small(), small(methods=("nonadaptive", *UTILITIES), budgets="published")
    text, _ = page_of(main, tmp_path, program, main.assign(exact_tv=main.tv))
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "In short: the adaptive methods against SRR"


def test_the_command_reads_stores_and_refuses_in_one_sentence(tmp_path, monkeypatch, capsys):
    main, program = small(), small(methods=UTILITIES, budgets="published")
    stores = {"main.db": main, "program.db": program}
    monkeypatch.setattr("validation.paper.__main__.open_study", lambda path: stores[path.name])
    asked = []
    monkeypatch.setattr(
        "validation.paper.__main__.write_page", lambda *a, **_: asked.append(a) or [tmp_path / "README.md"]
    )
    arguments = ["main.db", "--out", str(tmp_path), "--as-published", "program.db", "--reference", str(REFERENCE)]
    assert command(arguments) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'README.md'}\n"
    assert asked == [(main, tmp_path, program, None, REFERENCE)]
    monkeypatch.setattr("validation.paper.__main__.write_page", write_page)
    with pytest.raises(SystemExit):
        command(["main.db", "--out", str(tmp_path), "--reference", str(REFERENCE)])
    assert "reference must be given with as_published" in capsys.readouterr().err


def stored(path, **changes):
    """Make a store of a few short runs of the paper's study."""
    common = {"K": [4], "epsilon": [0.5, 1.0], "rho": [0.1, 1.0], "budgets": ["theorem1"]} | changes
    content = {"name": "few", "run": "validation.paper.paper_run:paper_run", "runs": 2, "seed": 1, "measures": ["tv"]}
    grid = [common | {"kappa": [0.8], "method": ["mse", "honest"]}, common | {"method": ["nonadaptive"]}]
    few = Study.from_dict(content | {"settings": {"people_per_category": 5}, "grid": grid})
    with StudyStore(path, few) as store:
        for i, cell in enumerate(cells_of(few)):
            store.commit(i, [Outcome(number, run_once(few, cell, number), 0.1) for number in range(2)])
    return path


def test_the_page_of_real_stores(tmp_path):
    main = stored(tmp_path / "main.db")
    program = stored(tmp_path / "program.db", budgets=["published"])
    assert command([str(main), "--out", str(tmp_path / "page"), "--as-published", str(program)]) == 0
    text = (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    assert "| run function | validation.paper.paper_run:paper_run |" in text
    assert "- study: 24 of 24 runs are done" in text
    assert "too few runs to tell" in text
    rows = (tmp_path / "page" / "medians_as_published.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 12
