"""The figures of accuracy show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import diagnostics, plots
from tests.diagnostics.test_calibration import calibrated, conjugate
from tests.diagnostics.test_comparison import exact, stretched, tree
from tests.refusals import refuses


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_comparison_fills_what_is_significant(tmp_path):
    labels = ("yes", "$x$ <b>", "_unsure", "never")
    trees = {name: tree(theta, labels) for name, theta in (("nuts", exact(0)), ("it", stretched(exact(1), 1.4)))}
    result = diagnostics.compare(trees)
    panels = plots.plot_comparison(result)
    panels[0].figure.savefig(tmp_path / "figure.png")
    assert [text.get_text() for text in panels[0].get_yticklabels()][1] == r"\$x\$ <b>"
    for panel, error, shown in zip(panels, ("location_error", "scale_error"), ("mean_shift", "sd_ratio"), strict=False):
        filled, hollow = (panel.get_lines()[i] for i in (0, 1))
        significant = (np.abs(result[error]) > result.error_limit).sel(sampler="it").values
        np.testing.assert_array_equal(filled.get_xdata(), result[shown].sel(sampler="it").values[significant])
        assert len(hollow.get_xdata()) == 4 - significant.sum()
    (legend,) = panels[0].figure.legends
    assert legend.get_texts()[0].get_text().startswith("it: biased: ")
    assert [bar.get_width() for bar in panels[3].patches] == pytest.approx(result.ess_per_second.values)
    mixed = [text.get_text().split("\n") for text in panels[3].get_yticklabels()]
    ess = [f"ESS {value:.0f}" for value in result.ess_bulk.values]
    assert mixed == [["nuts", f"R-hat 1.00, {ess[0]}"], ["it", f"R-hat 1.00, {ess[1]}"]]


def test_many_long_names_leave_room_for_the_points():
    k = 20
    result = diagnostics.compare({name: tree(exact(i)) for i, name in enumerate(("nuts", "it"))})
    labels = [f"a very long name of a category, number {i}" for i in range(k)]
    panels = plots.plot_comparison(result.isel(category=np.arange(k) % 4).assign_coords(category=labels))
    figure = panels[0].figure
    figure.canvas.draw()
    sizes = np.array([figure.dpi_scale_trans.inverted().transform_bbox(panel.bbox).size for panel in panels])
    assert (sizes[:3, 0] > 2).all()  # inches
    assert (sizes[:3, 1] > 0.25 * k).all()
    assert (sizes[3] > [6, 0.9]).all()


def test_calibration_draws_every_category_and_its_envelope(tmp_path):
    result = calibrated(conjugate(), replications=30)
    panels = plots.plot_calibration(result, highlight=2)
    panels[0].figure.savefig(tmp_path / "figure.png")
    curves = [line.get_ydata() for line in panels[0].get_lines()[:3]]
    order = np.argsort(result.p_value.values)
    np.testing.assert_array_equal(curves, result.ecdf_difference.values[order])
    texts = [text.get_text() for text in panels[1].get_legend().get_texts()]
    assert "95 % envelope, all categories" in texts
    assert len([text for text in texts if text.startswith("p = ")]) == 2


def test_figures_refuse_other_datasets():
    result = calibrated(conjugate(), replications=5)
    with refuses("dataset"):
        plots.plot_comparison(result)
    with refuses("axes"):
        plots.plot_calibration(result, axes=plt.subplots(1, 1, squeeze=False)[1])
