"""The PyMC programs that lessons 7 and 8 show are models of the answers, with the density that the definitions give."""

import re

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multinomial

import adobest_pp as ad
from adobest_pp.teaching import Prose
from adobest_pp.teaching.pages import parts_of

MECHANISM = ad.SRR(2, 1.0)
ANSWERS = [0, 1, 1, 0, 1]
REGION = np.array([1, 0, 1, 1, 0])
AGE = np.array([[-1.5], [0.0], [0.3], [1.0], [0.2]])


def program(number, with_text):
    """The model of the program of a lesson that has this text in it."""
    text = "\n".join(part.text for part in parts_of(number, Prose))
    (found,) = [
        each for each in re.findall(r"```python\n(.*?)```", text, re.S) if with_text in each and "Model" in each
    ]
    lines = found.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    responses = ad.Responses.from_arrays(MECHANISM, ANSWERS, categories=["yes", "no"])
    names = {"pm": pm, "np": np, "ad": ad, "responses": responses, "region": REGION, "labels": ["a", "b"]}
    names |= {"counts": np.array([60, 40]), "calls": np.array([7, 3])}
    exec("\n".join(line[indent:] for line in lines), names)
    return names["model"]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def likelihood(theta):
    return np.log([MECHANISM.transition_matrix()[y] @ t for y, t in zip(ANSWERS, theta, strict=True)]).sum()


CASES = {
    "concentration": ({"theta": np.array([0.3, 0.7])}, lambda v: np.tile(v["theta"], (5, 1))),
    "departure": (
        {"common": np.array([0.4, -0.4]), "spread": 0.7, "departure": np.array([[0.5, -0.5], [-0.5, 0.5]])},
        lambda v: softmax(v["common"] + v["spread"] * v["departure"])[REGION],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_program_is_the_model_that_it_claims_to_be(name):
    values, theta = CASES[name]
    given = pm.do(program(7, name), values)
    found = given.compile_logp(vars=[given["y"]])(given.initial_point(random_seed=1))
    assert found == pytest.approx(likelihood(theta(values)), rel=1e-9)


def test_a_regression_takes_the_place_of_the_softmax():
    weights = np.array([[0.3, -0.3], [-0.6, 0.6]])
    found = ad.model.multinomial_logit(AGE, weights).eval()
    np.testing.assert_allclose(found, softmax(weights[0] + AGE * weights[1]), rtol=1e-9)


def test_the_prior_of_empty_categories_is_the_learned_one():
    """The lesson says that `prior="learned"` is the same."""
    model = program(7, "concentration")
    learned = ad.frequency_model(ad.Responses.from_arrays(MECHANISM, ANSWERS, categories=["yes", "no"]), "learned")
    at = np.array([0.01, 0.3, 2.0])
    shown, right = (pm.logp(each["concentration"], at).eval() for each in (model, learned))
    np.testing.assert_allclose(shown, right, rtol=1e-12)


@pytest.mark.long
def test_the_program_of_an_unknown_budget_has_the_density_of_each_budget():
    model = program(8, "epsilon")
    for epsilon in (0.3, 2.5):
        given = pm.do(model, {"theta": np.array([0.3, 0.7]), "epsilon": np.array(epsilon)})
        table = ad.SRR(2, epsilon).transition_matrix()
        for name, counts, p in (("people", [60, 40], table @ [0.3, 0.7]), ("calls", [7, 3], table[:, 0])):
            found = given.compile_logp(vars=[given[name]])({})
            assert found == pytest.approx(multinomial.logpmf(counts, sum(counts), p), rel=1e-9)
