"""The figures hold the errors and the average sizes that they claim to show."""

import matplotlib as mpl
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from tests.paper.synthetic import METHODS, study
from tests.refusals import refuses
from validation.paper.comparisons import Setting
from validation.paper.figures import plot_errors, plot_sizes, plot_subset_sizes
from validation.paper.page import _labelled
from validation.paper.reference import ReferenceRow


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_heat_maps_hold_the_average_sizes():
    dataset = _labelled(study(runs=9, size=lambda cell: cell["epsilon"] + cell["rho"] + cell["kappa"]), "study")
    panels = plot_subset_sizes(dataset, K=10)
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


def test_axes_and_methods_that_do_not_fit_are_refused():
    _, axes = plt.subplots(3)
    with refuses("axes"):
        plot_subset_sizes(study(runs=3), K=10, axes=axes)
    for k, methods in ((20, METHODS), (10, ("nonadaptive",))):
        with pytest.raises(ValueError, match=f"must have a method that chooses subsets for K = {k}, got none"):
            plot_subset_sizes(study(runs=2, methods=methods), K=k)


def test_errors_as_published_and_as_proved_stand_above_each_other():
    published = study(methods=("honest",), runs=4, budgets="published", kappa=(0.8,))
    both = {"as the program runs it": published, "budgets of Theorem 1": study(runs=4)}
    asked = [Setting(10, 0.5, 0.8, 0.1), Setting(10, 0.5, 0.9, 0.1), Setting(10, 9.0, 0.8, 0.1)]
    rows = [ReferenceRow(setting, "honest", 10, 0.2, 1.6) for setting in asked]
    labelled = {name: _labelled(one, name) for name, one in both.items()}
    figure = plot_errors(labelled, 0.8, "tv", rows)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels[:4:3]] == [f"K = 10, ρ = 0.01: {name}" for name in both]
    diamonds = [line.get_xydata().tolist() for axes in panels for line in axes.lines if line.get_marker() == "D"]
    assert diamonds == [[[0.0, 0.2]]]
    titles = [axes.get_title() for axes in plot_sizes(labelled, 0.8).axes if axes.get_title()]
    assert titles == [f"K = 10, κ = 0.8: {name}" for name in both]
