"""Run functions that workers import by name."""

import threading

import numpy as np

from adobest_pp.studies import Measure, collect, declares


def coin_run(run, *, epsilon, people):
    """The share of heads among people whose coins are turned over with probability 1/(1 + e^ε)."""
    truth = run.rng(people=people).random()
    rng = run.rng()
    lie = 1 / (1 + np.exp(epsilon))
    said = (rng.random(people) < truth) ^ (rng.random(people) < lie)
    return {"distance": abs((said.mean() - lie) / (1 - 2 * lie) - truth), "truth": truth}


def _check(epsilon, **_):
    if epsilon <= 0:
        raise ValueError(f"epsilon must be a positive number, got {epsilon}")


@declares({"distance": Measure("distance of the estimate from the truth"), "truth": Measure("share", "%")}, _check)
def declared_run(run, **settings):
    return coin_run(run, **settings)


def worst_category(run, **settings):
    """A measure of one's own for what the default run function collects."""
    collected = collect(run, **settings)
    return {"worst": np.abs(collected.estimate - collected.theta).max()}


NOT_A_FUNCTION = 3


def held_run(run, *, held):
    """Never end in cells that are held."""
    if held:
        threading.Event().wait()
    return {"distance": 1.0}
