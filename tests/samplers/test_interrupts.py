"""An interrupted call raises KeyboardInterrupt, soon, and what is not whole is never returned."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp import _progress
from adobest_pp import simulate as simulation
from adobest_pp._progress import raising_interrupts
from adobest_pp.samplers import nuts
from adobest_pp.samplers.sgld.loop import Langevin, sgld_chain
from adobest_pp.samplers.sgld.settings import LangevinSettings
from tests.strategies import simulated

# Parts between two looks at signals take a second at most; a machine may be busy, and may have to compile first.
PATIENCE = 200


@pytest.mark.long
def test_ctrl_c_is_raised_and_nothing_goes_on():
    command = [sys.executable, "-W", "ignore", "-m", "tests.samplers.interrupted"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5 * PATIENCE)
    endings = [line.split(",") for line in done.stdout.splitlines()]
    assert [ending[0] for ending in endings] == ["nuts", "gibbs", "sgld", "simulation", "final_updates"]
    for _, *ending, seconds in endings:
        assert ending == ["KeyboardInterrupt", "idle", "1"]
        assert float(seconds) < PATIENCE


def swallow(number):
    """Do as a callback from a compiler does: the exception is dropped."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_was_swallowed_is_raised_at_the_end(number, fails):
    before = signal.getsignal(number)

    def work():
        with raising_interrupts(signal.SIGINT, signal.SIGTERM):
            swallow(number)
            if fails:
                raise RuntimeError("no compiled object yet")

    with pytest.raises(KeyboardInterrupt) as raised:
        work()
    assert raised.value.__suppress_context__
    assert signal.getsignal(number) is before


def test_an_interrupt_that_was_swallowed_ends_what_goes_on(monkeypatch):
    monkeypatch.setattr(_progress, "AGAIN_AFTER", 0.05)
    rounds = []

    @raising_interrupts()
    def work():
        swallow(signal.SIGINT)
        for second in range(PATIENCE):
            rounds.append(second)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert 0 < len(rounds) < PATIENCE
    time.sleep(0.2)  # nothing comes after it
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_without_a_signal_nothing_changes():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="as it was"), raising_interrupts():
        raise RuntimeError("as it was")
    # A signal that is ignored stays so, and other threads have no say in signals.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with raising_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    done = []
    thread = threading.Thread(target=raising_interrupts()(lambda: done.append(1)))
    thread.start()
    thread.join()
    assert done == [1]


def test_sample_and_simulate_raise_what_a_compiler_swallows(monkeypatch):
    def compiled(*_, **__):
        swallow(signal.SIGINT)
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(nuts, "sample_nuts", compiled)
    monkeypatch.setattr(simulation, "run", compiled)
    with pytest.raises(KeyboardInterrupt):
        ad.sample(simulated(ad.SRR(3, 1.0), 20, seed=1), "nuts", progressbar=False)
    with pytest.raises(KeyboardInterrupt):
        ad.simulate_adaptive([0.5, 0.3, 0.2], ad.AdaptiveSubset(ad.RRRR(3, 1.0)), n_people=5)


def posterior(values):
    return xr.Dataset({"theta": (("chain", "draw", "category"), values)})


def test_draws_that_are_missing_are_not_returned():
    whole = np.full((2, 5, 3), 1 / 3)
    nuts._check_complete(posterior(whole), 2, 5)
    padded = whole.copy()
    padded[1, 3:] = np.nan
    with pytest.raises(RuntimeError, match=r"of 5 draws in each of 2 chains, theta is a number in 5, 3$"):
        nuts._check_complete(posterior(padded), 2, 5)
    with pytest.raises(RuntimeError, match=r"of 7 draws in each of 2 chains, theta is a number in 5, 5$"):
        nuts._check_complete(posterior(whole), 2, 7)
    with pytest.raises(RuntimeError, match="NUTS did not finish"):
        nuts._check_complete(posterior(whole), 3, 5)


def test_what_nutpie_returns_is_checked(monkeypatch):
    """As it came back from an interrupted run: two of four chains are shorter, and padded."""

    class Interrupted:
        def wait(self):
            theta = np.full((4, 50, 3), 1 / 3)
            theta[2:, 20:] = np.nan
            return xr.DataTree.from_dict({"posterior": posterior(theta)})

    monkeypatch.setattr(nuts.nutpie, "sample", lambda *_, **__: Interrupted())
    with pytest.raises(RuntimeError, match="theta is a number in 50, 50, 20, 20"):
        ad.sample(simulated(ad.SRR(3, 1.0), 20, seed=1), "nuts", draws=50, progressbar=False)


def test_a_chain_that_cannot_start_is_not_returned(monkeypatch):
    """The density is no number anywhere: nutpie finds no point to start from, and says so."""
    responses = simulated(ad.SRR(3, 1.0), 20, seed=1)
    original = nuts.pack

    def broken(weights, *rest):
        return original(np.full(3, np.nan), *rest)

    monkeypatch.setattr(nuts, "pack", broken)
    with pytest.raises(RuntimeError):
        ad.sample(responses, "nuts", draws=20, tune=20, progressbar=False)


def test_how_often_signals_are_heard_changes_nothing(monkeypatch):
    """The same draws of Gibbs sampling, and the same estimate of a simulation but for rounding, in smaller parts."""
    settings = {"draws": 300, "tune": 10, "chains": 1, "random_seed": 1, "progressbar": False}
    options = {"n_people": 50, "final_updates": 1000, "random_seed": 1}
    responses = simulated(ad.RRRR(3, 1.0), 50, seed=1)

    def results():
        draws = ad.sample(responses, "gibbs", **settings)["posterior"]["theta"].values
        return draws, ad.simulate_adaptive([0.5, 0.3, 0.2], ad.AdaptiveSubset(ad.RRRR(3, 1.0)), **options).chain_mean

    draws, estimate = results()
    monkeypatch.setattr("adobest_pp.samplers.gibbs.MAX_ROWS", 5000)
    monkeypatch.setattr(simulation, "_UPDATES_AT_ONCE", 300)
    in_parts, of_parts = results()
    np.testing.assert_array_equal(in_parts, draws)
    np.testing.assert_allclose(of_parts, estimate, rtol=1e-6)


def test_sgld_of_the_whole_data_is_cut_into_parts_too(monkeypatch):
    """One update goes through all rows of evidence, not through a batch."""
    evidence, row_of = simulated(ad.SRR(5, 1.0), 100, seed=1).evidence_and_index()
    monkeypatch.setattr("adobest_pp.samplers.sgld.loop.MAX_ROWS", 300)
    settings = LangevinSettings.of(None, updates_per_draw=3)
    langevin = Langevin(evidence, row_of, np.ones(5), settings)
    blocks = sgld_chain(langevin, 20, np.random.default_rng(1))
    assert max(len(theta) for theta, _ in blocks) == 300 // 10 // 3
