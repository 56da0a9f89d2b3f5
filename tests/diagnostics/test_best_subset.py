"""The frequency of S_t = S* counts planted subsets, and grows where the sampler is exact."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import (
    RRRR,
    AdaptiveSubset,
    Responses,
    select_subset,
    semi_adaptive_subset,
    simulate_adaptive,
    utility,
)
from adobest_pp.diagnostics.contraction import best_subset, best_subset_frequency
from adobest_pp.plots.comparison import plot_best_subset
from adobest_pp.simulate import OnlineRun
from tests.refusals import refuses

THETA = np.array([0.45, 0.35, 0.2])
MECHANISM = RRRR(3, 3.0, 0.8)


def planted(subsets, utility="entropy", **settings):
    """A run that published these subsets, one to each person."""
    masks = np.zeros((len(subsets), 3), dtype=bool)
    for mask, subset in zip(masks, subsets, strict=True):
        mask[list(subset)] = True
    responses = Responses.from_arrays(MECHANISM, np.zeros(len(subsets), dtype=int), masks)
    return OnlineRun(
        THETA,
        responses,
        masks.sum(axis=1),
        np.zeros(0),
        np.zeros((0, 3)),
        {"utility": utility, "sampler": "sgld"} | settings,
    )


def test_planted_subsets_are_counted():
    wrong, right = [1], [0]
    runs = [planted([wrong] * 4 + [right] * 6), planted([[0, 1], right, right, right] + [right] * 4 + [[], right])]
    result = best_subset_frequency({"entropy": runs}, THETA, window=4)
    assert result["best_size"].values.tolist() == [1]
    assert result["best_subset"].values.tolist() == [[True, False, False]]
    assert result["people"].values.tolist() == [4, 8, 10]
    np.testing.assert_allclose(result["frequency"].values, [[0.375, 1.0, 0.75]])
    np.testing.assert_allclose(result["cumulative"].values, [[0.375, 11 / 16, 0.7]])
    np.testing.assert_allclose(result["frequency_se"].values, [[0.375, 0.0, 0.25]])
    np.testing.assert_allclose(result["cumulative_se"].values, [[0.375, 3 / 16, 0.1]])
    assert result["runs"].values.tolist() == [2]


def test_labels_of_unequal_length_are_missing_beyond_their_people():
    runs = {"short": planted([[0]] * 4), "long": [planted([[0]] * 4 + [[1]] * 4)]}
    result = best_subset_frequency(runs, THETA, window=2)
    np.testing.assert_array_equal(result["frequency"].sel(label="short"), [1, 1, np.nan, np.nan])
    np.testing.assert_array_equal(result["cumulative"].sel(label="long"), [1, 1, 4 / 6, 0.5])
    assert np.isnan(result["frequency_se"]).all()


@pytest.mark.long
def test_the_best_subset_is_what_the_method_chooses_at_the_truth():
    theta = [0.1, 0.7, 0.15, 0.05]
    mechanism = RRRR(4, 1.0, 0.9)
    for name in ("fisher", "entropy", "tv1", "tv2", "mse", "honest"):
        run = simulate_adaptive(theta, AdaptiveSubset(mechanism, name), n_people=20, random_seed=1)
        assert set(np.flatnonzero(best_subset(run, theta))) == set(select_subset(theta, mechanism, name))
    run = simulate_adaptive(theta, AdaptiveSubset(mechanism, "semi_adaptive", alpha=0.8), n_people=20, random_seed=1)
    assert set(np.flatnonzero(best_subset(run, theta))) == set(semi_adaptive_subset(theta, 0.8))
    run = simulate_adaptive(theta, AdaptiveSubset(mechanism, "nonadaptive"), n_people=20, random_seed=1)
    assert not best_subset(run, theta).any()
    assert np.all(best_subset_frequency({"srr": run}, theta)["frequency"] == 1)
    run = simulate_adaptive(
        np.full(4, 0.25), AdaptiveSubset(mechanism, "honest", smallest_size=1), n_people=20, random_seed=1
    )
    values = utility(np.full(4, 0.25), mechanism, "honest")
    assert values.argmax() == 0
    assert best_subset(run, np.full(4, 0.25)).sum() == 1 + values[1:].argmax()


@pytest.mark.long
def test_the_best_subset_is_asked_ever_more_often_where_the_sampler_is_exact():
    runs = [
        simulate_adaptive(
            THETA,
            AdaptiveSubset(MECHANISM, "entropy", sampler="exact"),
            n_people=1000,
            final_updates=2,
            random_seed=seed,
        )
        for seed in range(8)
    ]
    result = best_subset_frequency({"exact": runs}, THETA, window=200).sel(label="exact")
    first, last = result["frequency"].values[[0, -1]]
    assert int(result["best_size"]) == 1
    assert last > 0.95
    assert last - first > 4 * float(result["frequency_se"][0])
    assert np.all(np.diff(result["cumulative"].values) > 0)
    assert (str(result["utility"].values), str(result["sampler"].values)) == ("entropy", "exact")


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ({}, {}, "runs must be a mapping"),
        ({"a": []}, {}, "runs must hold at least one OnlineRun under each label"),
        ({"a": ["run"]}, {}, "runs must hold OnlineRun, got str"),
        ({"a": [planted([[0]]), planted([[0], [1]])]}, {}, "runs must be of one kind .* under 'a', got 2 kinds"),
        ({"a": [planted([[0]]), planted([[0]], utility="tv1")]}, {}, "runs must be of one kind"),
        ({"a": planted([[0]], utility="best")}, {}, "runs must have a utility among .*, got 'best'"),
        ({"a": planted([[0], [1]])}, {"window": 3}, "window must be an integer from 1 to 2, got 3"),
    ],
)
def test_wrong_arguments_are_refused(runs, options, message):
    with pytest.raises(ValueError, match=message):
        best_subset_frequency(runs, THETA, **options)


def test_the_figure_shows_the_frequencies(tmp_path):
    result = best_subset_frequency(
        {"short": planted([[0]] * 4), "long": [planted([[0]] * 4 + [[1]] * 4)] * 2}, THETA, window=2
    )
    panels = plot_best_subset(result)
    for panel, name in zip(panels, ("frequency", "cumulative"), strict=True):
        short, long = panel.get_lines()
        np.testing.assert_array_equal(short.get_xydata(), [[2, 1], [4, 1]])
        np.testing.assert_array_equal(long.get_ydata(), result[name].sel(label="long"))
        assert panel.get_xlabel() == "people asked"
    labels = [text.get_text() for text in panels[-1].get_legend().get_texts()]
    assert labels == ["short (|S*| = 1)", "long (|S*| = 1)"]
    panels[0].figure.savefig(tmp_path / "figure.png")
    with refuses("axes"):
        plot_best_subset(result, axes=panels[:1])
    plt.close("all")
