"""The PyMC programs that lesson 7 shows are models of the answers, with the density that the definitions give."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from adobest_pp.teaching.pages import load


@cache
def programs():
    return load(7).app.run()[1]["programs"]


MECHANISM = ad.SRR(2, 1.0)
ANSWERS = [0, 1, 1, 0, 1]
REGION = np.array([1, 0, 1, 1, 0])
AGE = np.array([[-1.5], [0.0], [0.3], [1.0], [0.2]])


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def likelihood(theta):
    return np.log([MECHANISM.transition_matrix()[y] @ t for y, t in zip(ANSWERS, theta, strict=True)]).sum()


CASES = {
    "empty categories": ({"theta": np.array([0.3, 0.7])}, lambda v: np.tile(v["theta"], (5, 1))),
    "regions": (
        {"common": np.array([0.4, -0.4]), "spread": 0.7, "departure": np.array([[0.5, -0.5], [-0.5, 0.5]])},
        lambda v: softmax(v["common"] + v["spread"] * v["departure"])[REGION],
    ),
    "regression": (
        {"weights": np.array([[0.3, -0.3], [-0.6, 0.6]])},
        lambda v: softmax(v["weights"][0] + AGE * v["weights"][1]),
    ),
}


def test_the_program_of_an_unknown_budget_has_the_density_of_each_budget():
    responses = ad.Responses.from_arrays(MECHANISM, ANSWERS, categories=["yes", "no"])
    names = {"pm": pm, "np": np, "ad": ad, "responses": responses}
    exec(programs()["unknown ε"], names)
    for epsilon in (0.3, 2.5):
        given = pm.do(names["model"], {"theta": np.array([0.3, 0.7]), "epsilon": epsilon})
        found = given.compile_fn(given["y"], inputs=[], on_unused_input="ignore")({})
        right = np.log(ad.SRR(2, epsilon).transition_matrix()[ANSWERS] @ [0.3, 0.7]).sum()
        assert found == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_the_model_that_it_claims_to_be(name):
    responses = ad.Responses.from_arrays(MECHANISM, ANSWERS, categories=["yes", "no"])
    names = {"pm": pm, "np": np, "ad": ad, "responses": responses, "region": REGION, "labels": ["a", "b"], "age": AGE}
    exec(programs()[name], names)
    values, theta = CASES[name]
    given = pm.do(names["model"], values)
    found = given.compile_logp(vars=[given["y"]])(given.initial_point(random_seed=1))
    assert found == pytest.approx(likelihood(theta(values)), rel=1e-9)


def test_the_prior_of_empty_categories_is_the_learned_one():
    """The lesson says that `prior="learned"` is the same."""
    responses = ad.Responses.from_arrays(MECHANISM, ANSWERS, categories=["yes", "no"])
    names = {"pm": pm, "np": np, "ad": ad, "responses": responses}
    exec(programs()["empty categories"], names)
    learned = ad.frequency_model(responses, "learned")
    at = np.array([0.01, 0.3, 2.0])
    shown, right = (pm.logp(model["concentration"], at).eval() for model in (names["model"], learned))
    np.testing.assert_allclose(shown, right, rtol=1e-12)
