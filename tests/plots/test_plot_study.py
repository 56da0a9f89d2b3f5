"""The figures of a study show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import plots
from tests.studies.synthetic import METHODS, study, without


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def medians_drawn(panel):
    """Return the height of each median line by its place."""
    lines = [line for line in panel.get_lines() if line.get_linewidth() == 1.4]
    return {float(np.mean(line.get_xdata())): float(line.get_ydata()[0]) for line in lines}


def test_boxes_are_in_the_order_of_the_legend_with_a_panel_for_each_rho_and_kappa():
    dataset = study(runs=9)
    panels = plots.plot_tv_boxes(dataset, K=10)
    assert panels.shape == (3, 2)
    assert panels[2, 1].get_title() == "ρ = 1, κ = 0.9"
    assert [label.get_text() for label in panels[0, 0].get_xticklabels()] == ["0.5", "1", "5"]
    names = [text.get_text() for text in panels[0, 1].get_legend().get_texts()]
    assert len(names) == len(METHODS)
    assert names[0] == "non-adaptive SRR"
    assert names[-1] == "U6 honest, P(Y=X)"
    drawn = medians_drawn(panels[1, 0])
    assert len(drawn) == 3 * len(METHODS)
    for method, label in (("nonadaptive", "non-adaptive SRR"), ("mse", "U5 MSE")):
        kappa = np.isnan(dataset.kappa.values) | (dataset.kappa.values == 0.8)
        chosen = (
            kappa & (dataset.epsilon.values == 5.0) & (dataset.rho.values == 0.1) & (dataset.method.values == method)
        )
        (row,) = dataset.tv.values[chosen]
        assert drawn[2 * (len(METHODS) + 2) + names.index(label)] == pytest.approx(np.median(row))


def test_scales_are_shared_and_what_does_not_depend_on_kappa_is_in_both_columns():
    panels = plots.plot_tv_boxes(study(runs=9), K=10)
    assert len({panel.get_ylim() for panel in panels.ravel()}) == 1
    assert {panel.get_yscale() for panel in panels.ravel()} == {"log"}
    assert medians_drawn(panels[0, 0])[0.0] == medians_drawn(panels[0, 1])[0.0]


def test_missing_cells_leave_a_gap_and_a_missing_kappa_one_column():
    dataset = without(study(runs=9), method="tv1")
    panels = plots.plot_tv_boxes(dataset, K=10)
    assert len(medians_drawn(panels[0, 0])) == 3 * (len(METHODS) - 1)
    alone = plots.plot_tv_boxes(study(runs=9, methods=("nonadaptive",)), K=10)
    assert alone.shape == (3, 1)
    assert alone[0, 0].get_title() == "ρ = 0.01"


def test_heat_maps_hold_the_average_sizes():
    dataset = study(runs=9, size=lambda cell: cell["epsilon"] + cell["rho"] + cell["kappa"])
    panels = plots.plot_subset_sizes(dataset, K=10)
    assert [panel.get_title() for panel in panels] == ["K = 10, κ = 0.8", "K = 10, κ = 0.9"]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert "non-adaptive SRR" not in names
    (image,) = panels[1].get_images()
    assert image.get_array().shape == (len(METHODS) - 1, 9)
    assert image.get_clim() == (0, 9)
    chosen = (dataset.method.values == "tv2") & (dataset.kappa.values == 0.9)
    chosen &= (dataset.epsilon.values == 1.0) & (dataset.rho.values == 0.1)
    expected = dataset.mean_size.values[chosen].mean()
    assert image.get_array()[names.index("U4 TV2"), 3 + 1] == pytest.approx(expected)
    texts = {text.get_text() for text in panels[1].texts}
    assert {f"{expected:.1f}", "ρ = 0.01", "ρ = 0.1", "ρ = 1"} <= texts


def test_figures_draw_on_given_axes_or_refuse_them():
    _, axes = plt.subplots(3, 2)
    assert plots.plot_tv_boxes(study(runs=3), K=10, axes=axes)[2, 1] is axes[2, 1]
    with pytest.raises(ValueError, match="axes must be 3 × 2 of them, got 3"):
        plots.plot_tv_boxes(study(runs=3), K=10, axes=axes[:, 0])
    with pytest.raises(ValueError, match="axes must be 1 × 2 of them, got 3"):
        plots.plot_subset_sizes(study(runs=3), K=10, axes=axes[:, 0])


def test_a_size_or_method_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="K must be one of the study's 10, got 20"):
        plots.plot_tv_boxes(study(runs=2), K=20)
    with pytest.raises(ValueError, match="dataset must have a method that chooses subsets for K = 10, got none"):
        plots.plot_subset_sizes(study(runs=2, methods=("nonadaptive",)), K=10)


def test_a_panel_without_any_run_stays_empty():
    panels = plots.plot_tv_boxes(without(study(runs=5), rho=1.0), K=10)
    assert [len(medians_drawn(panel)) for panel in panels[:, 0]] == [3 * len(METHODS), 3 * len(METHODS), 0]
    panels[0, 0].figure.canvas.draw()
