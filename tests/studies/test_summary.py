"""Medians and their intervals say what they claim, and nothing about runs that are not there."""

import csv

import numpy as np
import pytest
from scipy import stats

from adobest_pp.studies import summary
from tests.refusals import refuses
from tests.studies.synthetic import GRID, cell_of, dataset, without


def test_medians_and_quartiles_are_those_of_the_runs():
    data = dataset(runs=11)
    place = {"epsilon": 1.0, "kappa": 0.9, "rho": 0.1, "kind": "dull"}
    raw, cell = cell_of(data, **place).loss.values, cell_of(summary.medians(data, "loss"), **place)
    assert cell["median"].item() == sorted(raw)[5]
    np.testing.assert_allclose([cell.q25.item(), cell.q75.item()], np.quantile(raw, [0.25, 0.75]))
    assert cell.lower.item() < cell["median"].item() < cell.upper.item()
    assert cell.runs_done.item() == cell.runs_asked.item() == 11


def test_what_lacks_a_number_is_shown_beside_every_value_of_it():
    table = summary.medians(dataset(), "loss")
    assert np.all(np.isfinite(table.kappa.values))
    assert table.sizes["cell"] == 3 * 2 * 2 * 3
    both = [cell_of(table, epsilon=0.5, kappa=kappa, rho=1.0, kind="plain") for kappa in (0.8, 0.9)]
    assert both[0]["median"].item() == both[1]["median"].item()


def test_a_number_that_no_cell_has_stays_unknown():
    table = summary.medians(dataset(grid=GRID[1:]).assign_coords(kappa=("cell", np.full(6, np.nan))), "loss")
    assert np.all(np.isnan(table.kappa.values))
    assert table.sizes["cell"] == 6


def test_runs_that_are_not_done_do_not_count():
    data = dataset(runs=9)
    place = int(np.flatnonzero((data.kind.values == "dull") & (data.epsilon.values == 5.0))[0])
    data.status.values[place, 2:] = [0, 2, 2, 0, 0, 0, 0]
    data.loss.values[place, 2] = 1e9  # what a killed process left behind
    table = summary.medians(without(data, kind="sharp"), "loss")
    cell = cell_of(table, **{name: data[name].values[place] for name in ("epsilon", "kappa", "rho", "kind")})
    assert (cell.runs_done.item(), cell.runs_failed.item(), cell.runs_asked.item()) == (2, 2, 9)
    assert cell["median"].item() == np.median(data.loss.values[place, :2])
    empty = cell_of(table, epsilon=1.0, kappa=0.8, rho=0.1, kind="sharp")
    assert empty.runs_done.item() == 0
    assert np.isnan([empty["median"].item(), empty.lower.item(), empty.upper.item()]).all()


def test_the_bootstrap_is_the_same_every_time_and_that_of_plain_resampling():
    """Against resamples drawn one by one: percentiles of 4000 draws agree to a few of the values' gaps."""
    values = np.random.default_rng(0).normal(size=25)
    draws = summary.bootstrap_medians(values)
    np.testing.assert_array_equal(draws, summary.bootstrap_medians(values[::-1]))
    rng = np.random.default_rng(1)
    plain = np.array([np.median(rng.choice(values, 25)) for _ in range(4000)])
    # Both are draws of one distribution on 25 values. False alarm 0.1 %, from the Kolmogorov-Smirnov test.
    assert stats.ks_2samp(draws, plain).pvalue > 1e-3
    few = summary.bootstrap_medians(values, size=4)
    plain_few = np.array([np.median(rng.choice(values, 4)) for _ in range(4000)])
    assert stats.ks_2samp(few, plain_few).pvalue > 1e-3
    assert stats.ks_2samp(few, plain).pvalue < 1e-3


def test_streams_are_independent_and_each_is_repeated():
    values = np.random.default_rng(0).normal(size=25)
    one, two = (summary.bootstrap_medians(values, stream=stream) for stream in (1, 2))
    np.testing.assert_array_equal(one, summary.bootstrap_medians(values, stream=1))
    # 4000 pairs: a correlation beyond ±0.07 has a false alarm below 1e-5.
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.07


def test_the_interval_of_the_table_is_the_middle_95_percent_of_the_resampled_medians():
    data, place = dataset(runs=40), {"epsilon": 1.0, "kappa": 0.9, "rho": 0.1, "kind": "sharp"}
    cell = cell_of(summary.medians(data, "loss"), **place)
    draws = summary.bootstrap_medians(cell_of(data, **place).loss.values)
    assert [cell.lower.item(), cell.upper.item()] == np.quantile(draws, [0.025, 0.975]).tolist()


def test_a_pipe_within_a_cell_does_not_end_it():
    assert summary.markdown_table(["|S|"], [["a|b"]]).split("\n") == [r"| \|S\| |", "| --- |", r"| a\|b |"]


def test_cells_are_shown_in_the_order_of_the_axes_of_numbers():
    data = dataset(runs=2, grid=[block | {"K": [20, 10]} for block in GRID])
    shown = summary.shown(data.isel(cell=np.random.default_rng(0).permutation(data.sizes["cell"])))
    assert summary.numeric_axes(data) == ["K", "epsilon", "kappa", "rho"]
    places = list(zip(*(shown[name].values.tolist() for name in summary.numeric_axes(data)), strict=True))
    assert places == sorted(places)


def test_csv_and_markdown_have_every_cell_with_its_label(tmp_path):
    data = without(dataset(runs=7), kind="sharp", epsilon=5.0)
    tables = [summary.medians(data, name) for name in ("loss", "size")]
    summary.write_csv(tables, tmp_path / "medians.csv")
    with (tmp_path / "medians.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    n = tables[0].sizes["cell"]
    assert len(rows) == 2 * n
    assert [row["measure"] for row in rows] == ["loss"] * n + ["size"] * n
    for i in (0, 20):
        assert float(rows[n + i]["median"]) == pytest.approx(tables[1]["median"].values[i], rel=1e-9)
        assert rows[i]["kind"] == rows[i]["label"] == tables[0].kind.values[i]
    empty = [row for row in rows if row["runs_done"] == "0"]
    assert {row["label"] for row in empty} == {"sharp"}
    assert {row["median"] for row in empty} == {""}
    headings, lines = summary.median_rows(tables[0])
    assert headings == ["ε", "κ", "ρ", "sharp", "dull", "plain"]
    assert len(lines) == 12
    (line,) = (line for line in lines if line[:3] == ["5", "0.9", "0.1"])
    assert line[3] == "–"
    middle = float(cell_of(tables[0], epsilon=5.0, kappa=0.9, rho=0.1, kind="dull")["median"])
    assert line[4].startswith(f"{middle:.3g} [")


def test_a_table_without_any_axis_that_varies_is_one_number():
    headings, ((cell,),) = summary.median_rows(summary.medians(dataset(grid=[{"epsilon": [1.0]}]), "loss"))
    assert headings == ["median"]
    assert cell.startswith("0.956 [")


def test_labels_are_the_texts_that_differ():
    blocks = [{"kind": ["a"], "how": ["x", "y"], "same": ["z"]}, {"kind": ["b"], "same": ["z"]}]
    assert summary.shown(dataset(grid=blocks)).label.values.tolist() == ["a, x", "a, y", "b"]
    named = dataset(grid=blocks).assign_coords(label=("cell", ["1", "2", "3"]))
    assert summary.shown(named).label.values.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(("name", "shown"), [("epsilon", "ε"), ("rho", "ρ"), ("people", "people"), ("K", "K")])
def test_an_axis_that_is_named_for_a_greek_letter_is_shown_as_one(name, shown):
    assert summary.symbol(name) == shown


def test_a_measure_that_is_not_there_is_refused_with_those_that_are():
    with refuses("measure"):
        summary.medians(dataset(runs=2), "tv")
    with refuses("dataset"):
        summary.medians(dataset(runs=2).rename(cell="place"), "loss")
