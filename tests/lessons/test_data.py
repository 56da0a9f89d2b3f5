"""The precomputed numbers of the lessons are what `lessons/precompute.py` makes."""

import importlib.util
import json
import logging

import numpy as np
import pytest

from adobest_pp.teaching.pages import folder, load


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
    return json.loads((folder() / "data" / f"{name}.json").read_text(encoding="utf-8"))


def agree(made, stored, where="", rtol=2e-5):
    """Equal up to the last digit that is kept: exact draws may differ in the last of 53 bits between machines."""
    if isinstance(stored, dict):
        made = {str(key): value for key, value in made.items()}
        assert list(made) == list(stored), where
        for key in stored:
            agree(made[key], stored[key], f"{where} {key}", rtol)
    elif stored is None or isinstance(stored, str):
        assert made == stored, where
    else:
        values = np.array(stored)
        whole = values.dtype.kind == "i"
        np.testing.assert_allclose(made, values, rtol=0 if whole else rtol, atol=1 if whole else 1e-9, err_msg=where)


def test_bounds_and_the_study_of_lesson_9(precompute):
    agree(precompute.adapting(), kept("adapting"))


def test_some_draws(precompute):
    stored = kept("sampling")
    agree(precompute.packed(precompute.sgld_draws(300, 50)), stored["300"]["draws"]["sgld_50"])
    agree(precompute.packed(precompute.exact_draws(300, "sgld_cv")), stored["300"]["draws"]["sgld_cv"])


def test_regions(precompute):
    alone, pooled = precompute.regions(2.0, 3000)
    stored = kept("your_model")
    agree({"alone": alone, "pooled": pooled}, stored["regions"]["2_3000"])
    agree(dict(zip(precompute.REGIONS, precompute.REGION_TRUTH, strict=True)), stored["region_truth"])
    agree(precompute.HELD, stored["held"])


@pytest.mark.long
def test_an_estimate_under_the_learned_prior(precompute):
    """NUTS rounds differently on other processors, so its draws differ: equal up to Monte Carlo error.

    A share has an sd of at most 0.02, and 1,000 effective draws: its mean has an error of 0.0007, and ends of
    intervals, which must hold the mean, of no more than a few times that. Ten such errors are allowed.
    """
    stored = kept("your_model")["products"]["learned_3_1000"]
    np.testing.assert_allclose(precompute.estimate(3.0, 1000, "learned"), stored, atol=0.007)


@pytest.mark.parametrize(("k", "epsilon", "size"), [(5, 1.0, 2), (6, 0.5, 3), (8, 2.0, 1)])
def test_the_people_of_lesson_4_are_those_of_the_information(precompute, k, epsilon, size):
    ad = precompute.ad
    right = ad.asymptotic_variance(ad.SubsetSelection(k, epsilon, size), np.full(k, 1 / k)) / (1 - 1 / k)
    assert load(4).people(k, epsilon, size) == pytest.approx(right, rel=1e-9)


def test_the_power_of_lesson_3_is_that_of_simulated_devices():
    """100,000 simulated tests: the shares of those that find it have errors of 0.13 %; five of them are allowed."""
    lesson, rng = load(3), np.random.default_rng(1)
    matrix = lesson.table(lesson.PROGRAMMED, 1)
    y, x, other = lesson.audited(lesson.PROGRAMMED, 1)["worst"]
    for calls in (100, 1000):
        a, b = (rng.binomial(calls, matrix[y, each], size=100_000) for each in (x, other))
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(1 / a - 1 / calls + 1 / b - 1 / calls)
            found = 100 * np.mean((a > 0) & (b > 0) & (np.log(a / b) - 1 > 1.6449 * error))
        assert found == pytest.approx(lesson.power(calls), abs=0.7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rtol"), [("sampling", 2e-5), ("is_it_right", 0.02)])
def test_all_of_it_is_made_again(precompute, name, rtol):
    """Draws agree to the last digit kept. R-hat and ESS go by ranks, which jump where two draws are nearly equal."""
    agree(json.loads(json.dumps(precompute.MAKERS[name]())), kept(name), rtol=rtol)
