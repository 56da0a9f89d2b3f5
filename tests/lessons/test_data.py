"""The precomputed runs of the lessons are what `lessons/precompute.py` makes."""

import importlib.util
import json
import logging

import numpy as np
import pytest

from adobest_pp.teaching.pages import folder


@pytest.fixture(scope="module")
def precompute():
    spec = importlib.util.spec_from_file_location("precompute", folder() / "precompute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def quiet():
    logger = logging.getLogger("adobest_pp")
    level = logger.level
    logger.setLevel(logging.ERROR)  # some of these samplers are bad on purpose
    yield
    logger.setLevel(level)


def kept(name):
    with np.load(folder() / "data" / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def agree(made, stored):
    """Equal but for the last of 16 bits: exact draws may differ in the last of 53 between machines."""
    assert made.shape == stored.shape
    if stored.dtype == np.uint16:
        assert np.abs(made.astype(int) - stored.astype(int)).max() <= 1
    else:
        np.testing.assert_allclose(made, stored, rtol=1e-5)


@pytest.mark.parametrize(("n", "step", "batch"), [(30, 2.0, 10), (300, 0.5, 50)])
def test_some_draws_of_sgld(precompute, n, step, batch):
    agree(precompute.packed(precompute.sgld_draws(n, step, batch)), kept("sampling")[f"sgld_{n}_{step:g}_{batch}"])


@pytest.mark.parametrize("name", ["nuts", "gibbs", "sgld_cv"])
def test_some_draws_of_the_others(precompute, name):
    agree(precompute.packed(precompute.exact_draws(300, name)), kept("sampling")[f"{name}_300"])


def test_an_estimate_under_the_learned_prior(precompute):
    """NUTS rounds differently on other processors, so its draws differ: equal up to Monte Carlo error.

    A share has an sd of at most 0.02, and 1,000 effective draws: its mean has an error of 0.0007, and ends of
    intervals, which must hold the mean, of no more than a few times that. Ten such errors are allowed.
    """
    stored = kept("empty")["learned_3_1000"]
    np.testing.assert_allclose(precompute.estimate(3.0, 1000, "learned"), stored, atol=0.007)


def test_every_setting_of_the_sliders_is_there(precompute):
    names = {f"{name}_{n}" for name in precompute.EXACT_SAMPLERS for n in precompute.PEOPLE}
    names |= {f"sgld_{n}_{s:g}_{b}" for n in precompute.PEOPLE for s in precompute.STEPS for b in precompute.BATCHES}
    assert set(kept("sampling")) == names | {f"sd_{name}" for name in names}
    cells = [(e, n) for e in precompute.EMPTY_EPSILONS for n in precompute.EMPTY_PEOPLE]
    assert set(kept("empty")) == {f"{prior}_{e:g}_{n}" for prior in ("flat", "learned") for e, n in cells}
    study = json.loads((folder() / "data" / "adapting.json").read_text(encoding="utf-8"))
    assert {rho: len(runs) for rho, runs in study.items()} == {
        str(rho): precompute.ADAPTING_RUNS for rho in precompute.RHOS
    }
    methods = ["SRR", "subset selection", "adaptive RRRR", "semi-adaptive RRRR"]
    assert all(list(run) == methods for runs in study.values() for run in runs)


@pytest.mark.slow
def test_all_of_it_is_made_again(precompute, tmp_path, monkeypatch):
    monkeypatch.setattr(precompute, "DATA", tmp_path)
    for make in precompute.MAKERS.values():
        make()
    for name in ("sampling", "graded"):
        stored = kept(name)
        with np.load(tmp_path / f"{name}.npz") as file:
            for key in file.files:
                agree(file[key], stored[key])
    with np.load(tmp_path / "empty.npz") as file:
        for key in file.files:
            np.testing.assert_allclose(file[key], kept("empty")[key], atol=1e-4)
    for name in ("graded", "adapting"):
        made, stored = (json.loads((place / f"{name}.json").read_text()) for place in (tmp_path, folder() / "data"))
        assert made.keys() == stored.keys()
    for rho, runs in stored.items():
        for one, other in zip(made[rho], runs, strict=True):
            assert one == pytest.approx(other, rel=1e-6)
