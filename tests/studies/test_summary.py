"""Medians and their intervals say what they claim, and nothing about runs that are not there."""

import csv

import numpy as np
import pytest
from scipy import stats

from adobest_pp.studies import run_intervals as intervals
from adobest_pp.studies import summary
from tests.studies.synthetic import METHODS, study, without


def cell_of(table, **settings):
    chosen = np.ones(table.sizes["cell"], dtype=bool)
    for name, value in settings.items():
        chosen &= table[name].values == value
    (place,) = np.flatnonzero(chosen)
    return table.isel(cell=place)


def test_medians_and_quartiles_are_those_of_the_runs():
    dataset = study(runs=11)
    table = summary.medians(dataset)
    raw = cell_of(dataset, epsilon=1.0, kappa=0.9, rho=0.1, method="tv2").tv.values
    cell = cell_of(table, epsilon=1.0, kappa=0.9, rho=0.1, method="tv2")
    assert cell["median"].item() == sorted(raw)[5]
    np.testing.assert_allclose([cell.q25.item(), cell.q75.item()], np.quantile(raw, [0.25, 0.75]))
    assert cell.lower.item() < cell["median"].item() < cell.upper.item()
    assert cell.runs_done.item() == cell.runs_asked.item() == 11


def test_what_does_not_depend_on_kappa_is_shown_for_every_kappa():
    table = summary.medians(study())
    assert np.all(np.isfinite(table.kappa.values))
    assert table.sizes["cell"] == 9 * 2 * len(METHODS)
    both = [cell_of(table, epsilon=0.5, kappa=kappa, rho=1.0, method="nonadaptive") for kappa in (0.8, 0.9)]
    assert both[0]["median"].item() == both[1]["median"].item()


def test_without_any_kappa_it_stays_unknown():
    table = summary.medians(study(methods=("nonadaptive",)))
    assert np.all(np.isnan(table.kappa.values))
    assert table.sizes["cell"] == 9


def test_runs_that_are_not_done_do_not_count():
    dataset = study(runs=9)
    place = int(np.flatnonzero((dataset.method.values == "mse") & (dataset.epsilon.values == 5.0))[0])
    dataset.status.values[place, 2:] = [0, 2, 2, 0, 0, 0, 0]
    dataset.tv.values[place, 2] = 1e9  # what a killed process left behind
    table = summary.medians(without(dataset, method="honest"))
    settings = {name: dataset[name].values[place] for name in ("epsilon", "kappa", "rho", "method")}
    cell = cell_of(table, **settings)
    assert (cell.runs_done.item(), cell.runs_failed.item(), cell.runs_asked.item()) == (2, 2, 9)
    assert cell["median"].item() == np.median(dataset.tv.values[place, :2])
    empty = cell_of(table, epsilon=1.0, kappa=0.8, rho=0.1, method="honest")
    assert empty.runs_done.item() == 0
    assert np.isnan([empty["median"].item(), empty.lower.item(), empty.upper.item()]).all()


def test_the_bootstrap_is_the_same_every_time_and_that_of_plain_resampling():
    """Against resamples drawn one by one: percentiles of 4000 draws agree to a few of the values' gaps."""
    values = np.random.default_rng(0).normal(size=25)
    draws = intervals.bootstrap_medians(values)
    np.testing.assert_array_equal(draws, intervals.bootstrap_medians(values[::-1]))
    rng = np.random.default_rng(1)
    plain = np.array([np.median(rng.choice(values, 25)) for _ in range(4000)])
    # Both are draws of one distribution on 25 values. False alarm 0.1 %, from the Kolmogorov-Smirnov test.
    assert stats.ks_2samp(draws, plain).pvalue > 1e-3
    few = intervals.bootstrap_medians(values, size=4)
    plain_few = np.array([np.median(rng.choice(values, 4)) for _ in range(4000)])
    assert stats.ks_2samp(few, plain_few).pvalue > 1e-3
    assert stats.ks_2samp(few, plain).pvalue < 1e-3


def test_intervals_hold_the_median_as_often_as_they_say():
    """400 samples of 20 from a skewed distribution; counts outside ±4 standard errors have a false alarm of 1e-4."""
    rng = np.random.default_rng(2)
    samples, truth = rng.exponential(size=(400, 20)), np.log(2)
    exact = [intervals.median_interval(sample) for sample in samples]
    held = np.mean([one.lower <= truth <= one.upper for one in exact])
    coverage = 1 - 2 * stats.binom.cdf(5, 20, 0.5)
    assert coverage >= 0.95
    assert abs(held - coverage) < 4 * np.sqrt(coverage * (1 - coverage) / 400)
    draws = np.quantile(intervals.bootstrap_medians(samples), [0.025, 0.975], axis=1)
    assert 0.90 < np.mean((draws[0] <= truth) & (truth <= draws[1])) < 0.99


@pytest.mark.parametrize(("n", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (20, 6), (50, 18)])
def test_the_sign_test_interval_has_the_ranks_of_the_tables(n, rank):
    values = np.random.default_rng(n).permutation(n) + 1.0
    found = intervals.median_interval(values)
    assert found.lower == (rank if rank else -np.inf)
    assert found.upper == (n + 1 - rank if rank else np.inf)
    assert found.too_few == (n < intervals.smallest_n())


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9995])
def test_the_sign_test_interval_is_the_shortest_of_its_level(level):
    for n in range(1, 60):
        rank = intervals._sign_test_rank(n, level)
        outside = [2 * stats.binom.cdf(j - 1, n, 0.5) for j in range(1, n // 2 + 2)]
        assert rank == sum(share <= 1 - level for share in outside)


def test_differences_of_independent_samples():
    rng = np.random.default_rng(3)
    low, high = rng.normal(0, 1, 40), rng.normal(2, 1, 40)
    for found in (intervals.median_change(low, high), intervals.mean_interval(high, minus=low)):
        assert found.lower < 2 < found.upper
        assert found.lower > 0.8
    assert intervals.median_change(low[:4], high).too_few
    assert intervals.mean_interval(low[:3]).middle == pytest.approx(low[:3].mean())
    assert np.isnan(intervals.mean_interval([]).middle)


def test_intervals_of_differences_are_as_wide_as_both_samples_make_them():
    """Against standard errors: of a difference √2 times that of one sample, and 15 % of bootstrap error at n = 400."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 400))
    expected = 2 * 1.96 / np.sqrt(400)
    one, two = intervals.mean_interval(first), intervals.mean_interval(first, minus=second)
    assert one.upper - one.lower == pytest.approx(expected, rel=0.15)
    assert two.upper - two.lower == pytest.approx(np.sqrt(2) * expected, rel=0.15)
    # The same values twice: with the same resamples of both, their difference would not vary at all.
    same = intervals.median_change(first, first)
    assert same.upper - same.lower == pytest.approx(np.sqrt(2) * np.sqrt(np.pi / 2) * expected, rel=0.25)
    assert intervals.mean_interval(first, minus=first).lower < 0 < intervals.mean_interval(first, minus=first).upper


def test_intervals_lean_the_way_of_the_resamples():
    """Percentiles, not reflected ones: the mean of a resample is Binomial(12, 1/12)/12, with a longer upper tail."""
    found = intervals.mean_interval(np.eye(12)[0])
    np.testing.assert_allclose([found.lower, found.middle, found.upper], [0, 1 / 12, 3 / 12])


def test_too_few_runs_have_no_interval():
    for found in (
        intervals.mean_interval(np.arange(5.0)),
        intervals.median_change(np.arange(9.0), np.arange(5.0)),
    ):
        assert found.too_few
        assert found.n == 5
    assert not intervals.mean_interval(np.arange(6.0)).too_few


def test_streams_are_independent_and_each_is_repeated():
    values = np.random.default_rng(0).normal(size=25)
    one, two = (intervals.bootstrap_medians(values, stream=stream) for stream in (1, 2))
    np.testing.assert_array_equal(one, intervals.bootstrap_medians(values, stream=1))
    # 4000 pairs: a correlation beyond ±0.07 has a false alarm below 1e-5.
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.07


def test_the_interval_of_the_table_is_the_middle_95_percent_of_the_resampled_medians():
    dataset = study(runs=40, methods=("nonadaptive", "tv2"))
    cell = cell_of(summary.medians(dataset), epsilon=1.0, kappa=0.9, rho=0.1, method="tv2")
    draws = intervals.bootstrap_medians(cell_of(dataset, epsilon=1.0, kappa=0.9, rho=0.1, method="tv2").tv.values)
    assert [cell.lower.item(), cell.upper.item()] == np.quantile(draws, [0.025, 0.975]).tolist()


def test_a_pipe_within_a_cell_does_not_end_it():
    assert summary.markdown_table(["|S|"], [["a|b"]]).split("\n") == [r"| \|S\| |", "| --- |", r"| a\|b |"]


def test_cells_are_shown_by_k_then_epsilon_then_kappa_then_rho():
    dataset = study(runs=2, K=(20, 10))
    shown = summary.shown(dataset.isel(cell=np.random.default_rng(0).permutation(dataset.sizes["cell"])))
    places = list(zip(*(shown[name].values.tolist() for name in ("K", "epsilon", "kappa", "rho")), strict=True))
    assert places == sorted(places)


def test_csv_and_markdown_have_every_cell_with_its_label(tmp_path):
    table = summary.medians(without(study(runs=7), method="tv1", epsilon=5.0))
    summary.write_csv(table, tmp_path / "medians.csv")
    with (tmp_path / "medians.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == table.sizes["cell"]
    assert {row["label"] for row in rows} >= {"non-adaptive SRR", "semi-adaptive α = 0.95", "U6 honest, P(Y=X)"}
    for i in (0, 100):
        expected = table["median"].values[i]
        assert float(rows[i]["median"]) == pytest.approx(expected, rel=1e-9)
        assert rows[i]["method"] == table.method.values[i]
    empty = [row for row in rows if row["runs_done"] == "0"]
    assert {row["method"] for row in empty} == {"tv1"}
    assert {row["median"] for row in empty} == {""}
    summary.write_markdown(table, tmp_path / "medians.md")
    text = (tmp_path / "medians.md").read_text(encoding="utf-8")
    assert text.count("\n| ") == 2 + 18
    assert "| 5 | 0.9 | 0.01 |" in text
    assert "| – |" in text


def test_labels_tell_what_differs():
    dataset = study(runs=2, methods=("nonadaptive", "honest"))
    prior = np.where(np.arange(dataset.sizes["cell"]) % 2, "flat", "learned")
    differing = dataset.assign_coords(prior=("cell", prior))
    assert {label.rsplit(", ", 1)[1] for label in summary.labels(differing)} == {"flat prior", "learned prior"}
    fixed = dataset.assign_coords(
        method=("cell", np.full(dataset.sizes["cell"], "fixed")),
        mechanism=("cell", np.full(dataset.sizes["cell"], "subset_selection")),
    )
    assert set(summary.labels(fixed)) == {"subset selection"}


def test_a_measure_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"measure must be one of the dataset's \('tv', .*\), got 'exact_tv'"):
        summary.medians(study(runs=2), "exact_tv")


def test_labels_read_each_column_once(monkeypatch):
    calls = []
    column = summary._column
    monkeypatch.setattr(summary, "_column", lambda *arguments: calls.append(arguments) or column(*arguments))
    dataset = study(runs=2, methods=("nonadaptive", "honest"))
    prior = np.where(np.arange(dataset.sizes["cell"]) % 2, "flat", "learned")
    summary.labels(dataset.assign_coords(prior=("cell", prior)))
    assert len(calls) == 5
