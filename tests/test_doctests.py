"""Every example in a docstring does what it says."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import matplotlib.pyplot as plt
import pytest

import adobest_pp

MODULES = [module.name for module in walk_packages(adobest_pp.__path__, "adobest_pp.") if "__main__" not in module.name]
# Their examples take a second or more.
LONG = {
    "adobest_pp.diagnostics.calibration",
    "adobest_pp.diagnostics.grading",
    "adobest_pp.plots.comparison",
    "adobest_pp.report.findings",
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in MODULES])
def test_examples(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
    plt.close("all")
