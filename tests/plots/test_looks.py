"""What is drawn can be distinguished without its color, and logarithmic axes have numbers."""

import matplotlib as mpl
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp.plots._common import look, number_log_axis


def test_no_two_of_49_look_alike():
    assert len({(one["color"], one["marker"]) for one in map(look, range(49))}) == 49


@pytest.mark.parametrize("ends", [(1, 1.001), (0.31, 0.39), (0.06, 0.2), (1, 1), (3, 200), (0.004, 0.15), (1e-6, 1e3)])
def test_a_logarithmic_axis_has_numbers_whatever_it_spans(ends):
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.plot([1, 2], ends)
    axes.set_yscale("log")
    number_log_axis(axes.yaxis)
    figure.canvas.draw()
    low, high = axes.get_ylim()
    shown = [tick.get_text() for tick in axes.get_yticklabels() if low <= tick.get_position()[1] <= high]
    plt.close(figure)
    assert 3 <= len(set(shown)) <= 14
    assert len(set(shown)) == len(shown)
