"""The page says what is there and what is not, and its links lead to files."""

import json
import re

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from adobest_pp.studies.page import write_page
from tests.studies.synthetic import study, without


def check_page(written):
    assert all(path.is_file() and path.stat().st_size > 0 for path in written)
    assert written[-1].name == "README.md"
    text = written[-1].read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([^)\s]+\.(?:png|svg|csv|md|json))\)", text))
    assert links == {path.name for path in written[:-1]}
    return text, {path.name for path in written}


def page_of(*arguments, **options):
    return check_page(write_page(*arguments, **options))


def small(**options):
    return study(epsilon=(0.5, 5.0), rho=(0.01, 1.0), runs=8, **options)


def test_a_page_has_settings_figures_and_tables_and_nothing_of_any_paper(tmp_path):
    text, names = page_of(small(), tmp_path / "page")
    figures = {f"{name}_K10.{kind}" for name in ("tv_boxes", "subset_sizes") for kind in ("png", "svg")}
    assert names == figures | {"medians.csv", "medians.md", "settings.json", "README.md"}
    assert re.findall("^##? (.*)$", text, re.MULTILINE) == [
        "Study 'synthetic'",
        "Settings",
        "How far it is",
        "Figures",
        "Tables and settings",
    ]
    for part in ("| seed | 5 |", "| runs of each cell | 8 |", "| ε | 0.5, 5 |", "by ε and method, K = 10 ([SVG]"):
        assert part in text
    assert "paper" not in text
    settings = json.loads((tmp_path / "page" / "settings.json").read_text(encoding="utf-8"))
    assert settings["study"]["study"]["seed"] == 5
    assert set(settings["page_made_with"]) >= {"adobest_pp", "numpy", "python"}


def test_a_part_of_a_study_says_what_is_missing(tmp_path):
    dataset = without(small(), method="honest")
    dataset["status"].values[0, :3] = 2
    dataset["tv"].values[0, :3] = np.nan
    text, _ = page_of(dataset, tmp_path)
    n = dataset.sizes["cell"] * 8
    assert f"{n - 8 * 8 - 3} of {n} runs are done, 3 failed" in text
    assert "missing are runs of non-adaptive SRR, U6 honest, P(Y=X)" in text
    assert f"8 of {dataset.sizes['cell']} cells have none" in text


def test_a_study_that_is_not_begun_has_a_page(tmp_path):
    dataset = small()
    for method in set(dataset.method.values.tolist()):
        dataset = without(dataset, method=method)
    text, names = page_of(dataset, tmp_path)
    assert "0 of " in text
    assert "tv_boxes_K10.png" not in names


def test_three_runs_are_said_to_be_too_few(tmp_path):
    text, _ = page_of(study(epsilon=(1.0,), rho=(0.1,), methods=("nonadaptive", "honest"), runs=3), tmp_path)
    assert "With 3 runs no interval can hold the median with 95 %" in text
    assert "which does with 75 %" in text


def test_a_study_of_other_mechanisms_has_figures_and_tables(tmp_path):
    dataset = small(methods=("nonadaptive", "honest")).drop_vars(["mean_size", "status"])
    fixed = dataset.isel(cell=np.flatnonzero(dataset.method.values == "nonadaptive"))
    n = fixed.sizes["cell"]
    fixed = fixed.assign_coords(
        method=("cell", np.full(n, "fixed")),
        mechanism=("cell", np.full(n, "subset_selection")),
        sampler=("cell", np.full(n, "exact")),
    )
    _, names = page_of(fixed.assign(exact_tv=fixed.tv), tmp_path)
    assert "subset selection" in (tmp_path / "medians.csv").read_text(encoding="utf-8")
    assert names >= {"tv_boxes_K10.png", "exact_tv_boxes_K10.png", "medians.md"}
    assert not any(name.startswith("subset_sizes") for name in names)


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(ValueError, match="dataset must be a study, with the dimensions cell and run, got Dataset"):
        write_page(study(runs=2).rename(cell="place"), tmp_path)
