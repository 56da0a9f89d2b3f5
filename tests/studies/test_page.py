"""The page says what is there and what is not, and its links lead to files."""

import csv
import json
import re

import matplotlib as mpl
import pytest

mpl.use("Agg")

from adobest_pp.studies.page import write_page
from tests.refusals import refuses
from tests.studies.synthetic import GRID, dataset, without

HEADINGS = ["Study 'synthetic'", "Settings", "Progress", "Figures", "Tables"]


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
    return dataset(grid={"epsilon": [0.5, 1.0], "kind": ["a", "b", "c"]}, measures=["loss"], **options)


def figures(*names):
    return {f"{name}.{kind}" for name in names for kind in ("png", "svg")}


TABLES = {"medians.csv", "README.md"}


def test_a_page_has_settings_figures_and_tables_of_every_measure(tmp_path):
    text, names = page_of(dataset(runs=8, people=30), tmp_path / "page")
    assert names == figures("loss", "size") | TABLES
    assert re.findall("^##? (.*)$", text, re.MULTILINE) == HEADINGS
    rows = ("| seed | 5 |", "| runs of each cell | 8 |", "| people | 30 |", "| ε | 0.5, 1.0, 5.0 |")
    for part in (
        *rows,
        "| κ | 0.8, 0.9 |",
        "| kind | sharp, dull, plain |",
        "240 of 240 runs are done.",
        "| made with | adobest_pp 0.0.0 |",
    ):
        assert part in text
    assert "| ε | κ | ρ | sharp | dull | plain |" in text


def test_a_fourth_axis_of_numbers_has_a_figure_for_each_value(tmp_path):
    text, names = page_of(dataset(runs=6, grid=[block | {"K": [10, 20]} for block in GRID]), tmp_path)
    assert names == figures("loss_K10", "loss_K20", "size_K10", "size_K20") | TABLES
    assert "loss, K = 20 ([SVG]" in text


@pytest.mark.parametrize("grid", [{"epsilon": [1.0]}, {"epsilon": [1.0, 2.0]}, {"kind": ["a", "b"]}], ids=str)
def test_a_grid_of_any_axes_has_a_page(tmp_path, grid):
    _, names = page_of(dataset(grid=grid, measures=["loss"]), tmp_path)
    assert names == figures("loss") | TABLES


def test_a_part_of_a_study_says_what_is_missing(tmp_path):
    data = without(small(runs=8), kind="a")
    data["status"].values[-1, :3] = 2
    text, _ = page_of(data, tmp_path)
    assert f"{4 * 8 - 3} of {6 * 8} runs are done, 3 failed; 2 of 6 cells have none." in text


def test_a_study_that_is_not_begun_has_a_page(tmp_path):
    data = small()
    data["status"].values[:] = 0
    text, names = page_of(data, tmp_path)
    assert "0 of " in text
    assert names == TABLES


def test_three_runs_are_said_to_be_too_few(tmp_path):
    text, _ = page_of(small(runs=3), tmp_path)
    assert "With 3 runs no interval can hold the median with 95 %" in text
    assert "which holds it with 75 %" in text


def test_sources_that_changed_are_told(tmp_path):
    accepted = [{"at": "2026-01-01T00:00:00+00:00", "changed": "my_run"}]
    text, _ = page_of(small().assign_attrs(accepted_sources=json.dumps(accepted)), tmp_path)
    assert "| sources changed by 2026-01-01T00:00:00+00:00 | my_run |" in text


def test_the_same_study_gives_the_same_files(tmp_path):
    first, second = (write_page(small(), tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


@pytest.mark.parametrize("name", ["README.md", "medians.csv", "loss.svg"])
def test_a_file_in_the_folder_is_replaced_only_if_asked(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=name):
        write_page(small(), tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]
    page_of(small(), tmp_path, overwrite=True)
    assert (tmp_path / name).read_bytes() != b"mine"


def test_what_is_no_study_is_refused(tmp_path):
    with refuses("dataset"):
        write_page(dataset(runs=2).rename(cell="place"), tmp_path)


HOSTILE = '<script>alert("1")</script> [x](javascript:alert(1)) | $\\frac$'


def test_what_settings_and_labels_say_is_text_and_nothing_else(tmp_path):
    """In the page, in its figures, and in tables that a spreadsheet opens."""
    formula = '=cmd|"/C calc"!A0'
    data = dataset(grid={"epsilon": [0.5, 1.0], "kind": [HOSTILE, formula]}, measures=["loss"], runs=3, title=HOSTILE)
    study = json.loads(data.attrs["study"]) | {"name": HOSTILE}
    made = {"adobest_pp": HOSTILE}
    data = data.assign_attrs(study=json.dumps(study), study_hash=HOSTILE, created_with=json.dumps(made))
    data["loss"].attrs["long_name"] = HOSTILE
    text, _ = page_of(data, tmp_path)
    assert text.count('&lt;script&gt;alert("1")&lt;/script&gt;') >= 5
    assert "<" not in text
    assert "](javascript" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) in (3, 4) for line in tables)
    assert "<script" not in (tmp_path / "loss.svg").read_text(encoding="utf-8")
    with (tmp_path / "medians.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {row["label"] for row in rows} == {HOSTILE, f"'{formula}"}
