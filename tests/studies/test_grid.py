"""What a study file may say, and what is said of one that it may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from adobest_pp.studies import Study, cells_of, read_study
from adobest_pp.studies.grid import DEFAULT_RUN, axes_of
from tests.studies.small import FILE, ROOT, content, study

FILES = sorted((ROOT / "studies").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_study_can_be_read_written_and_run(path):
    made = read_study(path)
    assert Study.from_dict(made.to_dict()) == made
    assert made.name == path.stem
    made.check()


def test_a_grid_is_all_combinations_and_settings_are_in_every_cell():
    cells = cells_of(study())
    assert len(cells) == 2 * 2 * 3
    assert axes_of(study()) == ("n_categories", "rho", "utility")
    assert {cell["kappa"] for cell in cells} == {0.8}
    assert len({(cell["n_categories"], cell["rho"], cell["utility"]) for cell in cells}) == 12
    assert study().run == DEFAULT_RUN


def test_several_grids_are_joined_and_what_is_in_two_of_them_is_run_once():
    blocks = [{"a": [1, 2], "b": [0.5]}, {"a": [2.0, 3.0], "b": [0.5]}, {"c": ["x"]}]
    made = Study.from_dict(content() | {"grid": blocks, "settings": {"d": True}})
    assert cells_of(made) == (
        {"d": True, "a": 1, "b": 0.5},
        {"d": True, "a": 2.0, "b": 0.5},
        {"d": True, "a": 3.0, "b": 0.5},
        {"d": True, "c": "x"},
    )
    assert axes_of(made) == ("a", "b", "c")


def test_a_list_may_be_a_value():
    made = Study.from_dict(content() | {"grid": {"theta": [[0.5, 0.5], [1, 0]]}})
    assert [cell["theta"] for cell in cells_of(made)] == [[0.5, 0.5], [1, 0]]


def test_whole_numbers_along_an_axis_of_real_ones_are_real():
    cells = cells_of(study(rho=[1, 0.5]))
    assert {type(cell["rho"]) for cell in cells} == {float}


def test_the_digest_is_of_what_is_said_but_for_the_runs_and_not_of_how(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text("# a comment\n" + FILE.replace("1.0", "1").replace("seed = 5", "seed    = 5"))
    assert read_study(path).digest() == study().digest()
    assert study(runs=21).digest() == study().digest()
    for changes in ({"seed": 6}, {"n_categories": [4, 3]}, {"measures": ["tv"]}, {"people_per_category": 1}):
        assert study(**changes).digest() != study().digest()
    assert replace(study(), run="a:b").digest() != study().digest()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sead": 1}, r"^sead must be one of name, .*; settings of the runs go under \[settings\]"),
        ({"measures": []}, r"^measures must be a list that is not empty, got \[\]"),
        ({"measures": ["tv", "tv"]}, r"^measures must have each value once"),
        ({"measures": [1]}, r"^measures must be a text"),
        ({"runs": 0}, r"^runs must be an integer from 1 to 1000000, got 0"),
        ({"runs": "3"}, r"^runs must be an integer"),
        ({"runs": 10**9}, r"^runs must be an integer from 1 to 1000000, got 1000000000"),
        ({"seed": -1}, r"^seed must be an integer of at least 0"),
        ({"name": "two\nlines"}, r"^name must be a text of printable characters .* got 'two\\nlines'"),
        ({"name": "red \x1b[31m"}, r"^name must be a text of printable characters"),
        ({"name": ""}, r"^name must be a text .* that is not empty"),
        ({"name": 3}, r"^name must be a text"),
        ({"run": "frequency_run"}, r"^run must name a function as 'module:function', got 'frequency_run'"),
        ({"settings": 3}, r"^settings must be a table, got 3"),
        ({"settings": {"when": None}}, r"^settings\.when must be finite numbers, text"),
        ({"settings": {"rho": 1}}, r"^rho must be in only one of grid, settings and measures, got it in two"),
        ({"settings": {"error": 1}}, r"must be your own, got 'error', which is reserved"),
        ({"settings": {"two words": 1}}, r"must be Python names, got 'two words'"),
        ({"measures": ["rho"]}, r"^rho must be in only one of"),
        ({"grid": 3}, r"^grid must be a table of lists, or several, got 3"),
        ({"grid": []}, r"^grid must be a table of lists, or several, got \[\]"),
        ({"grid": {"rho": 1}}, r"^grid\.rho must be a list that is not empty, got 1"),
        ({"grid": {"rho": []}}, r"^grid\.rho must be a list that is not empty"),
        ({"grid": {"rho": [1, 1.0]}}, r"^grid\.rho must have each value once"),
        ({"grid": {"rho": [float("nan")]}}, r"^grid\.rho must be finite numbers"),
        ({"grid": {"rho": [float("inf")]}}, r"^grid\.rho must be finite numbers"),
        ({"grid": {"rho": [""]}}, r"^grid\.rho must be a text"),
        ({"grid": {"rho": [{}]}}, r"^grid\.rho must be finite numbers"),
        ({"grid": {"run": [1]}}, r"must be your own, got 'run', which is reserved"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        Study.from_dict(content() | changes)


@pytest.mark.parametrize("key", ["name", "runs", "seed", "measures", "grid"])
def test_no_key_may_be_missing(key):
    with pytest.raises(ValueError, match=f"^{key} must be given"):
        Study.from_dict({name: value for name, value in content().items() if name != key})


@pytest.mark.parametrize("broken", [b"name = ", b"\xff\xfe", b""])
def test_a_file_that_is_no_study_is_refused_by_its_name(tmp_path, broken):
    path = tmp_path / "broken.toml"
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"broken\.toml: "):
        read_study(path)
    with pytest.raises(FileNotFoundError):
        read_study(Path("nowhere.toml"))
