"""Where the random numbers of a run come from, and what a run function may be asked for."""

import numpy as np
import pytest

from adobest_pp.studies import Run, Study, cells_of, run_once
from adobest_pp.studies.run_function import canonical, check_call, find_run
from tests.refusals import refuses
from tests.studies import own_runs

CELL = {"epsilon": 1.0, "people": 100}
OWN = "tests.studies.own_runs"


def numbers(run, **shared):
    return tuple(run.rng(**shared).random(3))


def test_a_run_has_random_numbers_of_its_own():
    seen = [Run(1, 3, CELL), Run(2, 3, CELL), Run(1, 4, CELL), Run(1, 3, CELL | {"epsilon": 2.0})]
    assert len({numbers(run) for run in seen}) == len(seen)
    # From a hash, and not from numbers: settings that hardly differ have nothing in common.
    near = numbers(Run(1, 3, CELL | {"epsilon": 1 + 1e-12}))
    assert not np.allclose(near, numbers(seen[0]), atol=1e-3)


def test_what_is_shared_is_the_same_whatever_else_differs():
    one, other = Run(1, 3, CELL), Run(1, 3, CELL | {"epsilon": 2.0})
    assert numbers(one, people=100) == numbers(other, people=100) != numbers(one, people=101)
    assert numbers(one, people=100) != numbers(Run(1, 4, CELL), people=100)
    # Not even where all settings are shared: truth and people must not come from the same numbers.
    assert numbers(one, **CELL) != numbers(one)


def test_equal_settings_give_equal_numbers_however_they_are_written():
    written = [{"epsilon": 1, "people": np.int64(100)}, {"people": 100.0, "epsilon": np.float64(1)}]
    assert {numbers(Run(1, 3, settings)) for settings in written} == {numbers(Run(1, 3, CELL))}
    assert canonical({"b": (1.0, -0.0), "a": np.array([0.5])}) == '{"a": [0.5], "b": [1, 0]}'
    assert canonical(True) != canonical(1)


def test_a_study_runs_a_function_of_ones_own():
    grid = {"epsilon": [0.5, 2.0], "people": [50]}
    made = Study.from_dict(
        {"name": "coin", "run": f"{OWN}:coin_run", "runs": 1, "seed": 1, "measures": ["distance"], "grid": grid}
    )
    found = [run_once(made, cell, 7) for cell in cells_of(made)]
    asked = Run(1, 7, {"epsilon": 0.5, "people": 50}, ("distance",))
    assert found[0] == {"distance": own_runs.coin_run(asked, epsilon=0.5, people=50)["distance"]}
    assert found[0] != found[1]


def test_measures_of_ones_own_of_what_the_default_function_collects():
    settings = {"mechanism": "srr", "n_categories": 3, "epsilon": 1.0, "rho": 1.0, "people": 100}
    (tv,), (worst,) = (
        run_once(Study("s", 1, 1, (name,), ({},), settings, run), settings, 0).values()
        for name, run in (("tv", "adobest_pp.studies.frequency_run:frequency_run"), ("worst", f"{OWN}:worst_category"))
    )
    assert 0 < worst <= tv <= 1.5 * worst


def test_a_measure_that_is_not_returned_is_named():
    made = Study("coin", 1, 1, ("distance", "distanc"), ({},), CELL, f"{OWN}:coin_run")
    with pytest.raises(ValueError, match=r"a run must return 'distanc', got 'distance', 'truth' only"):
        run_once(made, CELL, 0)


@pytest.mark.parametrize(
    ("name", "settings", "measures", "message"),
    [
        ("coin_run", {"epsilon": 1.0, "peple": 3}, ["distance"], r"peple must be a setting of .*'people'\?"),
        ("coin_run", {"epsilon": 1.0}, ["distance"], r"people must be given in \[grid\] or \[settings\]: .*:coin_run"),
        (
            "declared_run",
            CELL,
            ["distanc"],
            r"measures must be of .* \(did you mean 'distance'\?\), got 'distanc'",
        ),
        ("declared_run", CELL | {"epsilon": -1}, ["distance"], "epsilon must be a positive number, got -1"),
        (
            "NOT_A_FUNCTION",
            CELL,
            ["distance"],
            r"run must name a .*NOT_A_FUNCTION', which is not a function",
        ),
        ("nothing", CELL, ["distance"], r"run must name a function as .* has no attribute 'nothing'"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(name, settings, measures, message):
    check_call(f"{OWN}:coin_run", ["anything"], [CELL])
    with pytest.raises(ValueError, match=message):
        check_call(f"{OWN}:{name}", measures, [CELL, settings])


@pytest.mark.parametrize("name", ["nowhere:run", ":run", "numpy", "..:x", "numpy:"])
def test_what_is_no_function_is_refused(name):
    with refuses("run"):
        find_run(name)
