"""The figure of a study shows the numbers that it claims to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import studies
from tests.refusals import refuses
from tests.studies.synthetic import GRID, cell_of, dataset, without

KINDS = ["sharp", "dull", "plain"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def medians_drawn(panel):
    """Return the height of each median line by its place."""
    lines = [line for line in panel.get_lines() if line.get_linewidth() == 1.4]
    return {float(np.mean(line.get_xdata())): float(line.get_ydata()[0]) for line in lines}


def test_boxes_are_in_the_order_of_the_legend_with_a_panel_for_each_place():
    data = dataset(lambda cell: cell["epsilon"] + cell["rho"] + cell.get("kappa", 0))
    panels = studies.plot_study(data, "loss")
    assert panels.shape == (2, 2)
    assert panels[1, 0].get_title() == "ρ = 1, κ = 0.8"
    assert [label.get_text() for label in panels[0, 0].get_xticklabels()] == ["0.5", "1", "5"]
    assert panels[1, 1].get_xlabel() == "ε"
    assert panels[0, 0].get_ylabel() == "loss"
    assert [text.get_text() for text in panels[0, 1].get_legend().get_texts()] == KINDS
    drawn = medians_drawn(panels[1, 0])
    assert len(drawn) == 3 * len(KINDS)
    for kind, kappa in (("dull", {"kappa": 0.8}), ("plain", {})):
        row = cell_of(data, epsilon=5.0, rho=1.0, kind=kind, **kappa).loss.values
        assert drawn[2 * (len(KINDS) + 2) + KINDS.index(kind)] == pytest.approx(np.median(row))


def test_scales_are_shared_and_what_lacks_a_number_is_beside_every_value_of_it():
    panels = studies.plot_study(dataset(lambda cell: cell["epsilon"] ** 2), "loss")
    assert len({panel.get_ylim() for panel in panels.ravel()}) == 1
    assert {panel.get_yscale() for panel in panels.ravel()} == {"log"}
    assert medians_drawn(panels[0, 0])[2.0] == medians_drawn(panels[0, 1])[2.0]


def test_measures_that_are_close_or_not_positive_have_a_linear_scale():
    assert studies.plot_study(dataset(), "loss")[0, 0].get_yscale() == "linear"
    data = dataset(lambda cell: cell["epsilon"] ** 2)
    data["loss"].values[0, 0] = 0
    assert studies.plot_study(data, "loss")[0, 0].get_yscale() == "linear"


def test_missing_cells_leave_a_gap_and_a_panel_without_any_run_stays_empty():
    panels = studies.plot_study(without(dataset(), kind="dull"), "loss")
    assert len(medians_drawn(panels[0, 0])) == 3 * (len(KINDS) - 1)
    panels = studies.plot_study(without(dataset(), rho=1.0), "loss")
    assert [len(medians_drawn(panel)) for panel in panels[:, 0]] == [3 * len(KINDS), 0]
    panels[0, 0].figure.canvas.draw()


@pytest.mark.parametrize(
    ("grid", "shape", "n_boxes"),
    [
        ({"epsilon": [1.0]}, (1, 1), 1),
        ({"kind": ["a", "b"]}, (1, 1), 2),
        ({"epsilon": [1, 2, 3], "n": [10, 20]}, (1, 2), 3),
        ({"n": [10, 20], "epsilon": [1, 2, 3], "m": [0.5, 1, 2, 3]}, (3, 2), 4),
    ],
    ids=str,
)
def test_any_axes_have_their_place(grid, shape, n_boxes):
    panels = studies.plot_study(dataset(grid=grid), "loss")
    assert panels.shape == shape
    assert {len(medians_drawn(panel)) for panel in panels.ravel()} == {n_boxes}


def test_figures_draw_on_given_axes_or_refuse_them():
    _, axes = plt.subplots(2, 2)
    assert studies.plot_study(dataset(), "loss", axes=axes)[1, 1] is axes[1, 1]
    with refuses("axes"):
        studies.plot_study(dataset(), "loss", axes=axes[:, 0])


def test_what_cannot_be_drawn_is_refused():
    with refuses("measure"):
        studies.plot_study(dataset(), "tv")
    with refuses("dataset"):
        studies.plot_study(3, "loss")
    four = [block | {"K": [10, 20]} for block in GRID]
    with pytest.raises(ValueError, match="at most three axes of numbers that vary, got K, epsilon, kappa, rho: select"):
        studies.plot_study(dataset(grid=four), "loss")
