"""The figures show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

mpl.use("Agg")
from matplotlib import pyplot as plt

import oracles
from adobest_pp import RRRR, SRR, plots
from tests.refusals import refuses


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_honest_response_is_figure_2_of_the_paper(tmp_path):
    panels = plots.plot_honest_response()
    assert [panel.get_title() for panel in panels] == ["K = 20, ε = 1, κ = 0.9", "K = 20, ε = 5, κ = 0.9"]
    for panel, epsilon in zip(panels, (1.0, 5.0), strict=True):
        assert panel.get_xlabel() == "θᵢ / θᵢ₊₁"
        assert panel.get_ylabel() == "P(Y = X)"
        lines = {line.get_label(): line for line in panel.get_lines()}
        assert set(lines["SRR (k = 0)"].get_ydata()) == {SRR(20, epsilon).transition_matrix()[0, 0]}
        for k in (1, 5, 19):
            ratio, value = lines[f"k = {k}"].get_xydata()[60]
            theta = ratio ** -np.arange(20.0)
            matrix = oracles.rrrr_matrix(20, range(k), 0.9 * epsilon, RRRR(20, epsilon, 0.9).epsilon2(k))
            assert value == pytest.approx(matrix.diagonal() @ theta / theta.sum(), rel=1e-12)
        curves = [line.get_ydata() for label, line in lines.items() if label.startswith("k = ")]
        assert np.all(lines["best k"].get_ydata() >= np.max(curves, axis=0))
    labels = [text.get_text() for text in panels[-1].get_legend().get_texts()]
    assert "SRR (k = 0)" in labels
    panels[0].figure.savefig(tmp_path / "figure.png")


def test_honest_response_draws_on_given_axes():
    _, axis = plt.subplots()
    (panel,) = plots.plot_honest_response([2.0], n_categories=5, sizes=[1, 3], ratios=[1.0, 1.5, 3.0], axes=[axis])
    assert panel is axis
    assert len(axis.get_lines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": [20]}, "sizes must be an integer from 0 to 19"),
        ({"ratios": [0.5]}, "ratios must be"),
        ({"ratios": []}, "ratios must be"),
        ({"axes": []}, "axes must be one for each"),
    ],
)
def test_honest_response_refuses_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_honest_response(**arguments)


def test_the_frontier_has_a_line_for_each_sampler_and_one_for_the_best():
    values = {"distance": [[0.4, 0.2], [0.3, 0.1]], "cpu_seconds": [[1, 2], [1.5, 3]], "gradients": [[1, 4], [2, 3]]}
    points = xr.Dataset(
        {name: (("sampler", "length"), each) for name, each in values.items()},
        {"sampler": ["nuts", "reflected full 1"], "length": [0.25, 1.0]},
    )
    panels = plots.plot_frontier(points)
    for panel, cost in zip(panels, ("cpu_seconds", "gradients"), strict=True):
        *lines, best = panel.get_lines()
        for line, name in zip(lines, points["sampler"].values, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), points[cost].sel(sampler=name))
            np.testing.assert_array_equal(line.get_ydata(), points["distance"].sel(sampler=name))
        assert best.get_label() == "frontier"
    np.testing.assert_array_equal(panels[0].get_lines()[-1].get_xdata(), [1, 1.5, 2, 3])
    np.testing.assert_array_equal(panels[1].get_lines()[-1].get_xdata(), [1, 2, 3])
    assert [text.get_text() for text in panels[1].get_legend().get_texts()] == ["nuts", "reflected full", "frontier"]
    with refuses("points"):
        plots.plot_frontier(points.drop_vars("distance"))
