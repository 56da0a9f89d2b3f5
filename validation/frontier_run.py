"""One run of the study of the frontier: a sampler, its distance to the reference, and the work that it took."""

import json
import time
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp import RRRR, AdaptiveSubset, Responses, SubsetSelection, UnaryEncoding, sample, simulate_adaptive
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.answers.draws import theta_of
from adobest_pp.samplers.checks import NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.studies import Measure, Run, declares

EXACT = ("nuts", "gibbs", "sgld_cv")
MEASURES = {
    "distance": Measure("distance of means and standard deviations to the reference", "sd"),
    "distance_of_a_quarter": Measure("the same of the first quarter of the draws", "sd"),
    "r_hat": Measure("largest R-hat"),
    "cpu_seconds": Measure("seconds of CPU, tuning included", "s"),
    "gradients": Measure("gradients of rows of evidence, tuning included"),
    "rows": Measure("distinct rows of evidence"),
}
# Draws kept and discarded of each of four chains, and updates of SGLD between draws.
DRAWS, TUNE, CHAINS, UPDATES = 250, 125, 4, 20
BATCH = 50
# Passes over all rows that control variates need at least: anchors, and the curvature to begin with.
ANCHORS = 5
# NUTS takes a gradient of all rows: with more members of sets than this, it is out of reach as a reference.
MOST_MEMBERS = 1_000_000


class Reference(NamedTuple):
    """What the samplers of one setting have in common: answers and draws of the posterior."""

    responses: Responses
    theta: NDArray[np.float64]
    sampler: str


@declares(MEASURES)
def frontier_run(
    run: Run,
    *,
    mechanism: str,
    n_categories: int,
    epsilon: float,
    rho: float,
    sampler: str,
    kappa: float = 0.9,
    people: int = 0,
) -> dict[str, float]:
    """Sample once, and compare with the reference.

    Parameters
    ----------
    run : Run
        Which run it is.
    mechanism : {"rrrr", "subset_selection", "unary_encoding"}
        Answers of RRRR are collected adaptively by the utility ``"honest"``, as in the paper.
    n_categories, epsilon, kappa, people
        Of the mechanism, and how many people answer; 500 K where `people` is 0.
    rho : float
        The truth is drawn from Dirichlet(ρ). All samplers have the flat prior.
    sampler : str
        As in studies/frontier.toml; or any other name that `sample` takes, such as ``"module:function"``.
    """
    setting = (mechanism, n_categories, epsilon, rho, kappa, people or 500 * n_categories)
    seed = int(run.sequence(setting=list(setting)).generate_state(1)[0])
    known = reference_of(seed, *setting)
    options = options_of(sampler)
    _compile(mechanism, sampler)
    sizes = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS}
    tree, seconds = timed(known.responses, random_seed=seed + 1, **sizes, **options)
    theta, rows = theta_of(tree).values, known.responses.evidence().n_rows
    return {
        "distance": distance(theta, known.theta),
        "distance_of_a_quarter": distance(theta[:, : DRAWS // 4], known.theta),
        "r_hat": float(np.max(array_stats.rhat(theta, chain_axis=0, draw_axis=1))),
        "cpu_seconds": seconds,
        "gradients": gradients_of(tree, rows),
        "rows": float(rows),
    }


def distance(theta: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return how far means and standard deviations are from those of the reference, in its standard deviations."""
    sd = right.std(axis=(0, 1))
    shift = (theta.mean(axis=(0, 1)) - right.mean(axis=(0, 1))) / sd
    return float(np.sqrt(np.mean(shift**2 + (theta.std(axis=(0, 1)) / sd - 1) ** 2)))


@lru_cache(maxsize=1)  # the cells of a study come setting by setting
def reference_of(seed: int, mechanism: str, k: int, epsilon: float, rho: float, kappa: float, people: int) -> Reference:
    """Collect the answers of a setting, and sample the reference."""
    rng = np.random.default_rng(seed)
    theta = draw_dirichlet(rng, np.full(k, float(rho)))
    responses = answers(mechanism, theta, epsilon, kappa, people, rng)
    sampler = "nuts" if responses.evidence().members.size <= MOST_MEMBERS else "sgld_cv"
    # Few draws where a gradient takes milliseconds, more where it takes microseconds.
    draws = 1000 if mechanism == "rrrr" else 500
    tree, _ = timed(responses, sampler=sampler, draws=draws, tune=500, random_seed=seed + 2)
    return Reference(responses, theta_of(tree).values, sampler)


def timed(responses: Responses, **arguments: Any) -> tuple[xr.DataTree, float]:
    """Sample; return the draws and the seconds of CPU, without those of checking the draws afterwards."""
    with without_warnings_of(NOT_CONVERGED):  # R-hat is in the table
        began, cpu = time.perf_counter(), time.process_time()
        tree = sample(responses, progressbar=False, **arguments)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return tree, cpu * min(float(tree.attrs["sampling_time"]) / wall, 1.0)


def options_of(sampler: str) -> dict[str, Any]:
    """Return the arguments of `sample` that a name in the study stands for."""
    if " " not in sampler:
        return {"sampler": sampler}
    diffusion, gradient, factor = sampler.split(" ")
    gradient, _, size = gradient.partition(":")
    batch = None if gradient == "full" else int(size or BATCH)
    pieces: dict[str, Any] = {"diffusion": diffusion, "gradient": gradient, "batch_size": batch}
    steps: Any = LangevinSettings.of(**pieces).schedule
    name = "step_size" if hasattr(steps, "step_size") else "scale"
    schedule = replace(steps, **{name: float(factor) * getattr(steps, name)})
    return {"sampler": "sgld", "schedule": schedule, "updates_per_draw": UPDATES, **pieces}


@lru_cache
def _compile(mechanism: str, sampler: str) -> None:
    """Make a few draws, so that no time includes compilation."""
    responses = answers(mechanism, np.full(4, 0.25), 1.0, 0.9, 50, np.random.default_rng(1))
    timed(responses, draws=10, tune=100, chains=2, random_seed=1, **options_of(sampler))


def answers(
    mechanism: str, theta: NDArray[np.float64], epsilon: float, kappa: float, people: int, rng: np.random.Generator
) -> Responses:
    """Simulate people and their answers."""
    if mechanism == "rrrr":
        seed = int(rng.integers(2**31))
        return simulate_adaptive(
            theta, AdaptiveSubset(RRRR(theta.size, epsilon, kappa), "honest"), n_people=people, random_seed=seed
        ).responses
    device = {"subset_selection": SubsetSelection, "unary_encoding": UnaryEncoding}[mechanism](theta.size, epsilon)
    return Responses.from_arrays(device, device.privatize(rng.choice(theta.size, size=people, p=theta), rng=rng))


def gradients_of(tree: xr.DataTree, rows: int) -> float:
    """Return how many gradients of rows a run took. For Gibbs, rows whose people were imputed.

    For samplers of others it is the number that they report, times the rows, or NaN. For NUTS and ``sgld_cv``, draws in
    tuning are taken to cost as much as those that are kept. For control variates it is a lower bound: the search for
    the mode and further anchors are not counted.
    """
    at = tree.attrs
    draws = at["chains"] * (at["draws"] + at["tune"])
    if at["sampler"] == "nuts":
        return float(tree["sample_stats"]["n_steps"].mean() * draws * rows)
    if at["sampler"] == "gibbs":
        return float(draws * rows)
    if not {"sampler_choices", "sampler_settings"} & {*at}:
        return float(at.get("gradient_evaluations", np.nan)) * rows
    chosen = json.loads(at["sampler_choices" if at["sampler"] == "sgld_cv" else "sampler_settings"])
    batch = chosen["batch" if at["sampler"] == "sgld_cv" else "batch_size"] or rows
    anchored = at["sampler"] == "sgld_cv" or chosen["gradient"] == "control_variates"
    return float(draws * chosen["updates_per_draw"] * batch + ANCHORS * rows * anchored)
