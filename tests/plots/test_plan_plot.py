"""The figures of plans show the plans."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

import adobest_pp as ad
from adobest_pp import plots
from tests.refusals import refuses


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_lines_fall_with_people_and_the_limit_is_below():
    made = ad.plan([0.7, 0.2, 0.1], people=3000, epsilon=1.0, mechanisms=["srr", "unary-encoding"], simulate=False)
    ax = plots.plot_plan(made)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["srr, ε = 1", "unary-encoding, ε = 1", "no privacy"]
    named = {line.get_label(): line for line in ax.lines}
    point = named["srr, ε = 1"]
    assert point.get_xdata()[0] == 3000
    assert point.get_ydata()[0] == made.table["half_width"].sel(mechanism="srr").item()
    honest = named["no privacy"]
    np.testing.assert_allclose(np.interp(3000, *honest.get_data()), made.non_private, rtol=1e-2)
    assert honest.get_ydata().max() < min(line.get_ydata().max() for line in ax.lines if line is not honest)
    # Where the formula may be off, its line is dotted, up to where it is not.
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert dotted[0].get_xdata().max() == pytest.approx(made.table["reliable_from"][0].item(), rel=0.05)


def test_what_cannot_be_reached_has_no_line():
    names = ["srr", "unary-encoding"]
    made = ad.plan([0.4, 0.3, 0.2, 0.1], people=2000, half_width=0.019, mechanisms=names, simulate=False)
    labels = [text.get_text() for text in plots.plot_plan(made).get_legend().get_texts()]
    assert len(labels) == 2
    assert labels[0].startswith("srr")


def test_efficiencies_have_a_panel_for_each_theta():
    table = ad.design.efficiency_table(3, [1.0, 2.0], mechanisms=["srr", "design"])
    panels = plots.plot_efficiency(table)
    assert [panel.get_title() for panel in panels] == ["even", "uneven", "sparse"]
    np.testing.assert_array_equal(panels[2].lines[0].get_ydata(), table["efficiency"].values[2, :, 0])


def test_other_things_are_refused():
    with refuses("plan"):
        plots.plot_plan(3)
    with refuses("efficiencies"):
        plots.plot_efficiency(3)
