"""The figures of draws show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import plots
from adobest_pp.intervals import shortest_intervals
from adobest_pp.plots._category_names import shorten
from tests.diagnostics.test_comparison import exact, tree

LABELS = ("yes", "$x$ <b>", "_unsure", "never")
TRUTH = [0.1, 0.2, 0.3, 0.4]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def draws():
    return {"nuts": tree(exact(0), LABELS), "gibbs": tree(exact(1), LABELS)}


def test_estimates_are_means_with_intervals(draws, tmp_path):
    ax = plots.plot_estimates(draws, TRUTH)
    ax.figure.savefig(tmp_path / "figure.png")
    assert [bar.get_width() for bar in ax.patches] == TRUTH
    assert [text.get_text() for text in ax.get_yticklabels()][1] == r"\$x\$ <b>"
    points, _, (bars,) = ax.containers[2].lines
    theta = exact(1).reshape(-1, 4)
    np.testing.assert_allclose(points.get_xdata(), theta.mean(axis=0))
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, shortest_intervals(theta).T)


def test_estimates_of_some_categories(draws):
    ax = plots.plot_estimates(draws, TRUTH, categories=["never", "yes"])
    assert [bar.get_width() for bar in ax.patches] == [0.4, 0.1]
    np.testing.assert_allclose(ax.containers[1].lines[0].get_xdata(), exact(0).reshape(-1, 4).mean(axis=0)[[3, 0]])


def test_traces_are_the_chains(draws, tmp_path):
    panels = plots.plot_traces(draws, ["_unsure", "yes"])
    panels[0, 0].figure.savefig(tmp_path / "figure.svg")
    assert panels.shape == (2, 2)
    for chain, line in zip(exact(1)[..., 2], panels[1, 0].get_lines(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), chain)


def test_ranks_show_a_chain_that_is_elsewhere(draws):
    theta = exact(2)
    theta[0] = theta[0, np.argsort(theta[0, :, 0])][::-1]  # the same draws in another order share all ranks still
    theta[1] += 0.5 * (np.eye(4)[0] - theta[1])  # and these do not
    panels = plots.plot_ranks(draws | {"stuck": tree(theta, LABELS)}, ["yes"])
    heights = np.array([[patch.get_data().values for patch in panel.patches] for panel in panels[:, 0]])
    np.testing.assert_allclose(heights.mean(axis=2), 1)  # every chain's shares sum to one
    np.testing.assert_allclose(heights.mean(axis=1), 1)  # and every bin has its share of all draws
    assert abs(heights[0] - 1).max() < 0.6  # 50 of 1000 draws expected in a bin: beyond 4 standard deviations
    assert heights[2, 1, -1] > 3


def test_empty_draws_are_refused(draws):
    with pytest.raises(ValueError, match="draws must be a mapping of at least one name"):
        plots.plot_estimates({})
    with pytest.raises(ValueError, match="categories must be at least one label"):
        plots.plot_traces(draws, [])


def test_a_long_name_loses_its_middle():
    names = [f"a very long name of a category, number {i}" for i in range(2)]
    first, second = map(shorten, names)
    assert first != second
    assert len(first) == 24
    assert shorten("a name of 24 characters.") == "a name of 24 characters."
