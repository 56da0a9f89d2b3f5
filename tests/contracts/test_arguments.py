"""Every argument of every public function: what is not legal is refused by name, and spellings mean the same.

An error is a ValueError, TypeError or OSError of one sentence that names the argument. It comes at once, and never
shows a private category.
"""

import inspect
import time
import traceback
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pymc  # noqa: F401  (it raises the recursion limit, which hypothesis does not want to happen in a test)
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings

import adobest_pp as ad
from adobest_pp import diagnostics, likelihood, plots
from adobest_pp._checks import check_integer
from adobest_pp.simulate import OnlineRun
from tests.contracts.functions import FUNCTIONS, KINDS, Function

PLACES = [pytest.param(one, argument, id=f"{one.name}({argument})") for one in FUNCTIONS for argument in one.kinds]
LONGEST_SENTENCE, SECONDS = 600, 5
# Places × 40 are more than nine thousand inputs.
EXAMPLES = [5, pytest.param(40, marks=pytest.mark.long)]
PACKAGE = Path(ad.__file__).parent


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """Short chains warn, figures are not shown, and a word that is the path of no file here is none elsewhere."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fault(function, argument, value):
    """Return what is wrong with the outcome of a call with a value that is not legal, or nothing."""
    arguments = function.arguments() | {argument: value}
    began = time.process_time()
    try:
        function.call(**arguments)
    except (ValueError, TypeError, OSError) as problem:
        said = str(problem)
        ours = PACKAGE in Path(traceback.extract_tb(problem.__traceback__)[-1].filename).parents
        if not ours or not said.strip() or not said.isprintable() or len(said) > LONGEST_SENTENCE:
            return f"{type(problem).__name__}, not one sentence of ours: {said[:200]}"
        if function.kinds[argument].refused and function.words.get(argument, argument).lower() not in said.lower():
            return f"a sentence that does not name the argument: {said}"
        if argument == "x" and isinstance(value, int | float) and f"got {value}" in said:
            return f"a private category is shown: {said}"
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem)[:200]}"
    else:
        if function.kinds[argument].refused:
            return "taken, though it is not legal"
    return f"{seconds:.1f} seconds" if (seconds := time.process_time() - began) > SECONDS else None


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(("function", "argument"), PLACES)
def test_what_is_not_legal_is_refused_by_name(function, argument, examples):
    function.arguments()  # what takes a while to make is made outside

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(function.kinds[argument].wrong)
    def refused(value):
        assert (flaw := fault(function, argument, value)) is None, flaw

    refused()


def plain(found):
    """Return a result as values that can be compared, without times, identities and figures."""
    match found:
        case np.ndarray() if found.dtype == object:
            return None
        case np.ndarray():
            return found.tolist()
        case xr.DataTree():
            return found["posterior"]["theta"].values.tolist()
        case xr.Dataset():
            timed = ("wall_time", "ess_per_second", "seconds")
            return {name: value.values.tolist() for name, value in found.variables.items() if name not in timed}
        case ad.Responses():
            return found.categories, found.evidence()
        case OnlineRun():
            return plain(found.responses), plain(found.chain_mean)
        case tuple() | list():
            return [plain(one) for one in found]
        case float() | int() | str() | None:
            return found
        case _:
            return type(found).__name__


def spelled(function, argument):
    """Tell whether there are other ways to write the good value of an argument."""
    good = function.good.get(argument)
    return good is not None and bool(function.kinds[argument].same(good))


SPELLED = [place for place in PLACES if spelled(*place.values)]


@pytest.mark.parametrize(("function", "argument"), SPELLED)
def test_other_spellings_mean_the_same(function, argument):
    good = function.arguments()
    expected = plain(function.call(**good))
    for value in function.kinds[argument].same(good[argument]):
        np.testing.assert_equal(plain(function.call(**function.arguments() | {argument: value})), expected, repr(value))


def test_every_public_function_is_tried():
    """Left out are step methods and distributions of PyMC, and accounts, which have tests of their own, and results."""
    tried = {function.name.split(",")[0] for function in FUNCTIONS}
    left_out = {"Allowance", "DataAugmentationGibbs", "Evidence", "PrivateResponse", "SGLD", "SGLDCV"}
    named = {name for name in ad._HOMES if name not in left_out and not inspect.ismodule(getattr(ad, name))}
    named |= {f"likelihood.{name}" for name in likelihood.__all__ if inspect.isfunction(getattr(likelihood, name))}
    named |= {name for name in diagnostics.__all__ if inspect.isfunction(getattr(diagnostics, name))}
    named |= {f"plots.{name}" for name in plots.__all__}
    assert named <= tried, named - tried


@pytest.mark.parametrize(
    ("call", "flaw"),
    [
        (lambda epsilon: {}[epsilon], "KeyError"),
        (lambda epsilon: np.asarray(epsilon, dtype=float), "not one sentence of ours"),
        (lambda epsilon: check_integer(epsilon, "number", 1), "does not name"),
        (lambda epsilon: check_integer(epsilon, "epsilon\n", 1), "not one sentence of ours"),
        (lambda epsilon: 1, "taken"),
    ],
)
def test_planted_faults_of_each_sort_are_found(call, flaw):
    assert flaw in fault(Function("planted", call, {}, {"epsilon": KINDS["epsilon"]}), "epsilon", "a")


def test_a_private_category_in_a_sentence_is_found():
    planted = Function("planted", lambda x: check_integer(x, "x", 0, 2), {}, {"x": KINDS["x"]})
    assert "private" in fault(planted, "x", 7)
