"""What importing costs, and what it must not bring along."""

import resource
import subprocess
import sys

import pytest

import adobest_pp


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


HEAVY = ("pymc", "pytensor", "arviz", "numba", "xarray", "matplotlib", "scipy", "dask", "nutpie")


def test_importing_brings_nothing_heavy_along():
    loaded = run(f"import sys, adobest_pp; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]"


def test_a_device_needs_numpy_at_most():
    program = f"""
import sys, adobest_pp
adobest_pp.RRRR(4, 1.0).privatize(2, subset=[0, 2])
adobest_pp.audit(adobest_pp.RRRR(4, 1.0))
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert run(program) == "[]"


def best_of(n, command):
    """The least processor time of several runs: on an idle machine the time on the clock, on a busy one still true."""

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def once():
        before = spent()
        subprocess.run(command, check=True, capture_output=True)
        return spent() - before

    return min(once() for _ in range(n))


def test_importing_takes_less_than_three_tenths_of_a_second():
    seconds = best_of(5, [sys.executable, "-c", "import adobest_pp"])
    assert seconds < 0.3


def test_help_takes_less_than_half_a_second():
    seconds = best_of(5, [sys.executable, "-m", "adobest_pp", "--help"])
    assert seconds < 0.5


def test_every_public_name_is_there():
    for name in adobest_pp.__all__:
        assert getattr(adobest_pp, name) is not None
    assert set(adobest_pp.__all__) <= set(dir(adobest_pp))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = adobest_pp.nonsense
