"""The page says what is there and what is not, and its links lead to files."""

import json
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from adobest_pp.studies.page import write_page
from tests.studies.synthetic import UTILITIES, study, without

REFERENCE = Path(__file__).parents[2] / "validation" / "paper" / "reference_tv.csv"


def page_of(*arguments, **options):
    written = write_page(*arguments, **options)
    assert all(path.is_file() and path.stat().st_size > 0 for path in written)
    assert written[-1].name == "README.md"
    text = written[-1].read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([^)\s]+\.(?:png|svg|csv|md|json))\)", text))
    assert links == {path.name for path in written[:-1]}
    return text, {path.name for path in written}


def small(**options):
    return study(epsilon=(0.5, 5.0), rho=(0.01, 1.0), runs=8, **options)


def test_everything_is_on_the_page_of_the_whole_study(tmp_path):
    main, program = small(), small(methods=UTILITIES, budgets="published")
    equal = main.assign(exact_tv=main.tv)
    text, names = page_of(main, tmp_path / "page", program, equal, REFERENCE)
    assert names >= {"tv_boxes_K10.png", "subset_sizes_K10.svg", "honest_response.png", "medians.csv", "settings.json"}
    assert names >= {"medians_as_published.csv", "medians_equal_privacy_exact_tv.md"}
    for part in ("| seed | 5 |", "| runs of each cell | 8 |", "The advantage as published", "Figure 2"):
        assert part in text
    assert len(re.findall(r"^### \d+\. .*: ", text, re.MULTILINE)) == 16
    assert "of the 30 rows of the authors' table" in text
    settings = json.loads((tmp_path / "page" / "settings.json").read_text(encoding="utf-8"))
    assert settings["study"]["study"]["seed"] == 5
    assert settings["as_published"]["runs"] == 8
    assert set(settings["page_made_with"]) >= {"adobest_pp", "numpy", "python"}


def test_the_same_study_gives_the_same_files(tmp_path):
    first, second = (write_page(small(), tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_part_of_a_study_says_what_is_missing(tmp_path):
    dataset = without(small(), method="honest")
    dataset["status"].values[0, :3] = 2
    dataset["tv"].values[0, :3] = np.nan
    text, _ = page_of(dataset, tmp_path)
    n = dataset.sizes["cell"] * 8
    assert f"{n - 8 * 8 - 3} of {n} runs are done, 3 failed" in text
    assert "missing are runs of non-adaptive SRR, U6 honest, P(Y=X)" in text
    assert f"8 of {dataset.sizes['cell']} cells have none" in text
    assert "`honest` is competitive" not in text


def test_a_study_that_is_not_begun_has_a_page(tmp_path):
    dataset = small()
    for method in set(dataset.method.values.tolist()):
        dataset = without(dataset, method=method)
    text, names = page_of(dataset, tmp_path)
    assert "0 of " in text
    assert "they are left out" in text
    assert "tv_boxes_K10.png" not in names


def test_three_runs_are_said_to_be_too_few(tmp_path):
    text, _ = page_of(study(epsilon=(1.0,), rho=(0.1, 1.0), runs=3), tmp_path)
    assert "With 3 runs no interval can hold the median with 95 %" in text
    assert "which does with 75 %" in text
    assert "too few runs to tell" in text


def test_a_study_of_other_mechanisms_has_figures_and_tables_but_no_statements(tmp_path):
    dataset = small(methods=("nonadaptive", "honest")).drop_vars(["mean_size", "status"])
    fixed = dataset.isel(cell=np.flatnonzero(dataset.method.values == "nonadaptive"))
    n = fixed.sizes["cell"]
    fixed = fixed.assign_coords(
        method=("cell", np.full(n, "fixed")),
        mechanism=("cell", np.full(n, "subset_selection")),
        sampler=("cell", np.full(n, "exact")),
    )
    text, names = page_of(fixed.assign(exact_tv=fixed.tv), tmp_path)
    assert "they are left out" in text
    assert "subset selection" in (tmp_path / "medians.csv").read_text(encoding="utf-8")
    assert names >= {"tv_boxes_K10.png", "exact_tv_boxes_K10.png", "medians.md"}
    assert not any(name.startswith("subset_sizes") for name in names)


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(ValueError, match="dataset must be a study, with the dimensions cell and run, got Dataset"):
        write_page(study(runs=2).rename(cell="place"), tmp_path)


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
    exact = main.assign_coords(sampler=("cell", np.full(main.sizes["cell"], "exact"))).assign(exact_tv=main.tv)
    with pytest.raises(ValueError, match="equal_privacy must be a study with cells of RRRR by SGLD as proved, got one"):
        write_page(main, target, None, exact)
    with pytest.raises(ValueError, match=r"reference must be given with as_published, .* got it alone"):
        write_page(main, target, reference=REFERENCE)
    assert not target.exists()


def test_the_answer_comes_before_all_else(tmp_path):
    main, program = small(), small(methods=("nonadaptive", *UTILITIES), budgets="published")
    text, _ = page_of(main, tmp_path, program, main.assign(exact_tv=main.tv))
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "In short: the adaptive methods against SRR"
