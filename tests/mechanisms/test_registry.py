"""Mechanisms by name: ours at once, and those of other packages by their entry points."""

from importlib.metadata import EntryPoint

import pytest

from adobest_pp.mechanisms import SRR, SubsetSelection, find_mechanism, registry
from adobest_pp.mechanisms.registry import build_mechanism, mechanism_names
from tests.own_mechanism import Neighbors


@pytest.fixture
def installed(monkeypatch):
    """A package that has a mechanism as an entry point, and one that is none."""
    points = [
        EntryPoint("Neighbors", "tests.own_mechanism:Neighbors", registry.GROUP),
        EntryPoint("nothing", "math:pi", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "_OTHERS", {})
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])


def test_ours_are_found_without_asking_every_package(monkeypatch):
    """That takes 20 ms, and a study builds a mechanism for each of thousands of runs."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: pytest.fail("packages were asked"))
    assert find_mechanism("subset-selection") is SubsetSelection
    assert build_mechanism("srr", n_categories=3, epsilon=1.0) == SRR(3, 1.0)


def test_an_entry_point_is_found_by_its_name(installed):
    assert "Neighbors" in mechanism_names()
    assert find_mechanism("neighbors") is Neighbors
    assert mechanism_names().count("Neighbors") == 1  # it is registered now
    with pytest.raises(ValueError, match="mechanism must be a Mechanism class, got 'nothing', which is none"):
        find_mechanism("nothing")
    with pytest.raises(ValueError, match=r"mechanism must be one of SRR, .*Neighbors, nothing, got 'nowhere'"):
        find_mechanism("nowhere")
