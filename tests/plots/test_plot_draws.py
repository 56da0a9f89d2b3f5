"""The figures of draws show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt
from scipy.stats import rankdata

from adobest_pp import SRR, Responses, plots, sample
from adobest_pp.intervals import above, shortest_intervals, summary
from adobest_pp.plots._common import COLORS, shorten
from tests.diagnostics.test_comparison import exact, tree
from tests.refusals import refuses

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


def test_the_estimate_of_one_run_has_the_intervals_that_are_shown():
    answers = np.repeat([0, 1, 2], [50, 30, 20])
    run = sample(Responses.from_arrays(SRR(3, 1.0), answers), "gibbs", draws=50, random_seed=1)
    for trees, kind in (({"a": run}, "covering"), ({"a": run, "b": run}, "posterior")):
        _, _, (bars,) = plots.plot_estimates(trees).containers[0].lines
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        shown = summary(run, kind=kind)
        np.testing.assert_allclose(ends.T, [shown["lower"], shown["upper"]])


def test_estimates_of_some_categories(draws):
    ax = plots.plot_estimates(draws, TRUTH, categories=["never", "yes"])
    assert [bar.get_width() for bar in ax.patches] == [0.4, 0.1]
    np.testing.assert_allclose(ax.containers[1].lines[0].get_xdata(), exact(0).reshape(-1, 4).mean(axis=0)[[3, 0]])


def test_ranked_shares_are_means_with_their_intervals(tmp_path):
    rng, mechanism = np.random.default_rng(1), SRR(700, 6.0)
    truth = 1 / np.arange(1, 701)
    truth /= truth.sum()
    answers = mechanism.privatize(rng.choice(700, 20_000, p=truth), rng=rng)
    run = sample(Responses.from_arrays(mechanism, answers), "gibbs", draws=20, chains=1, random_seed=1)
    ax = plots.plot_ranked(run, threshold=0.02, truth=truth, labels=3)
    ax.figure.savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size < 300_000  # points are one bitmap
    shown = summary(run)
    order = np.argsort(-shown["mean"].values, kind="stable")
    by_name = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(by_name["estimate"].get_ydata()[:50], shown["mean"].values[order][:50])
    np.testing.assert_allclose(by_name["true share"].get_ydata()[:50], truth[order][:50])
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices
    at_first = edges[np.abs(edges[:, 0] - 1) < 0.1, 1]
    assert at_first.min() == pytest.approx(shown["lower"].values[order[0]])
    assert at_first.max() == pytest.approx(shown["upper"].values[order[0]])
    n = above(run, 0.02).sizes["category"]
    assert by_name[f"surely above it: {n}"].get_xdata().size == n > 0
    assert [text.get_text() for text in ax.texts] == [str(i) for i in order[:3]]


def test_labels_of_ranked_shares_do_not_cover_each_other():
    theta = 1 / (30 + np.arange(40.0))  # nearly even: labels beside all of them would be one heap
    draws = np.random.default_rng(1).dirichlet(5000 * theta / theta.sum(), size=(2, 50))
    ax = plots.plot_ranked(tree(draws, [f"category {i}" for i in range(40)]), labels=40)
    ax.figure.draw_without_rendering()
    tilt = np.radians(ax.texts[0].get_rotation())
    begin = ax.transData.transform([text.xy for text in ax.texts])
    assert np.diff(np.sort(begin @ [-np.sin(tilt), np.cos(tilt)])).min() > 8 * ax.figure.dpi / 72
    assert 3 <= len(ax.texts) < 40


def test_ranked_shares_of_draws_alone_and_of_two_categories():
    ax = plots.plot_ranked(tree(exact(0), LABELS))
    assert len(ax.texts) == len(LABELS)
    with refuses("threshold"):
        plots.plot_ranked(tree(exact(0), LABELS), threshold=2)


def test_a_threshold_is_checked_before_a_figure_is_made(draws):
    before = plt.get_fignums()
    with refuses("threshold"):
        plots.plot_ranked(next(iter(draws.values())), threshold=2.0)
    assert plt.get_fignums() == before


def test_traces_are_evenly_spaced_draws_of_the_chains(draws, tmp_path):
    panels = plots.plot_traces(draws, ["_unsure", "yes"])
    panels[0, 0].figure.savefig(tmp_path / "figure.svg")
    assert panels.shape == (2, 2)
    step = exact(1).shape[1] // 500
    assert step > 1
    for chain, line in zip(exact(1)[..., 2], panels[1, 0].get_lines(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), chain[::step])
        np.testing.assert_array_equal(line.get_xdata(), np.arange(chain.size)[::step])


def test_short_traces_are_drawn_whole():
    theta = exact(0)[:, :499]
    (panel,) = plots.plot_traces({"short": tree(theta, LABELS)}, ["yes"])[0]
    np.testing.assert_array_equal([line.get_ydata() for line in panel.get_lines()], theta[..., 0])


def test_ranks_show_a_chain_that_is_elsewhere(draws):
    theta = exact(2)
    theta[0] = theta[0, np.argsort(theta[0, :, 0])][::-1]  # the same draws in another order share all ranks still
    theta[1] += 0.5 * (np.eye(4)[0] - theta[1])  # and these do not
    panels = plots.plot_ranks(draws | {"stuck": tree(theta, LABELS)}, ["yes"])
    curves = np.array([[line.get_ydata() for line in panel.get_lines()[1:]] for panel in panels[:, 0]])
    np.testing.assert_allclose(curves.mean(axis=1), 0, atol=1e-3)  # of all chains together, ranks are uniform
    n, chains = theta.shape[1], theta.shape[0]
    # Kolmogorov and Smirnov's distance of a chain's ECDF from that of all: beyond this with probability 1e-6.
    assert abs(curves[0]).max() < np.sqrt(np.log(2e6) / (2 * n))
    x = panels[2, 0].get_lines()[2].get_xdata()
    ranks = rankdata(theta[..., 0]).reshape(chains, n)[1] / theta[..., 0].size
    np.testing.assert_allclose(curves[2, 1], [(ranks <= at).mean() - at for at in x], atol=2 / n)
    assert curves[2, 1].min() < -0.3
    low, high = panels[0, 0].get_ylim()
    assert low < curves.min() < curves.max() < high  # no curve is cut off, whichever row it is in


def test_samplers_may_have_other_numbers_of_chains_and_draws(draws):
    uneven = draws | {"single": tree(exact(2)[:1, :7], LABELS), "still": tree(exact(2)[:, :50] * 0 + 0.25, LABELS)}
    for draw, extra in ((plots.plot_traces, 0), (plots.plot_ranks, 1)):
        panels = draw(uneven, LABELS)
        panels[0, 0].figure.canvas.draw()
        assert panels.shape == (4, 4)
        assert [len(panel.get_lines()) - extra for panel in panels[:, 0]] == [4, 4, 1, 4]


def test_samplers_and_categories_are_named_as_they_are(draws, tmp_path):
    hostile = ("$x", "<script>", "[red]", "_hidden")
    trees = {name: tree(exact(0), hostile) for name in hostile}
    for draw in (plots.plot_traces, plots.plot_ranks):
        panels = draw({"$y": trees["$x"]}, hostile)
        panels[0, 0].figure.savefig(tmp_path / "figure.png")
        assert [panel.get_title() for panel in panels[0]] == [r"\$x", *hostile[1:]]
        assert panels[0, 0].get_ylabel() == r"\$y"
    legend = [text.get_text() for text in plots.plot_estimates(trees).get_legend().get_texts()]
    assert legend == [r"\$x", "<script>", "[red]", " _hidden"]  # matplotlib would leave out "_hidden"


def test_every_chain_has_another_color(draws):
    for panels in (plots.plot_traces(draws, ["yes"]), plots.plot_ranks(draws, ["yes"])):
        assert [line.get_color() for line in panels[0, 0].get_lines()[-4:]] == list(COLORS[:4])


def test_empty_draws_are_refused(draws):
    with refuses("draws"):
        plots.plot_estimates({})
    with refuses("categories"):
        plots.plot_traces(draws, [])


def test_a_long_name_loses_its_middle():
    names = [f"a very long name of a category, number {i}" for i in range(2)]
    first, second = map(shorten, names)
    assert first != second
    assert len(first) == 24
    assert shorten("a name of 24 characters.") == "a name of 24 characters."
