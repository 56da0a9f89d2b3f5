"""Do the programs of models/ sample the posterior that they state? Simulation-based calibration of two of them.

Parameters are drawn from the prior of the program itself, people answer through the mechanisms, and the parameters are
ranked among the draws of NUTS. If all is right, all ranks are equally likely. One program is the regression, where each
person has an own θ and the density is one fused node. The other is that of people who do not comply, where answers of
two budgets are in one likelihood. Exits with 1 if a finding is not reproduced.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pytensor.compile.mode import Mode
from scipy import stats

import adobest_pp as ad
from models import noncompliance, regression
from validation.common import Finding, Options, each, finding, main, table

# The probability that a right program fails.
FALSE_ALARM = 0.01
DRAWS, TUNE, THIN = 400, 300, 4
REPLICATIONS = {False: 100, True: 2}
# Every replication has other constants, for which Numba would compile anew; functions in C are used again.
MODE = Mode("vm", "fast_run")
CATEGORIES = 3

Array = NDArray[np.float64]
Job = tuple[str, int]


def regression_case(rng: np.random.Generator) -> tuple[pm.Model, dict[str, Array]]:
    """Return the model of 200 people with two covariates, asked by OUE, and the true coefficients."""
    mechanism = ad.UnaryEncoding(CATEGORIES, epsilon=2.0)
    z = rng.normal(size=(200, 2))
    empty = regression.build(ad.Responses.from_arrays(mechanism, np.zeros((200, CATEGORIES), int)), z, ["a", "b"], 1.0)
    truth = _drawn(empty, ["coefficient"], rng)
    logits = truth["coefficient"][0] + regression.standardized(z) @ truth["coefficient"][1:]
    ends = np.cumsum(np.exp(logits), axis=1)
    x = (rng.random(200)[:, None] * ends[:, -1:] >= ends).sum(axis=1)
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
    return regression.build(responses, z, ["a", "b"], 1.0), truth


def noncompliance_case(rng: np.random.Generator) -> tuple[pm.Model, dict[str, Array]]:
    """Return the model of 400 people asked with two budgets, some of whom answer at random, and the true shares."""
    mechanisms = [ad.SRR(CATEGORIES, epsilon) for epsilon in (1.0, 4.0)]
    empty = noncompliance.build(ad.concat([ad.Responses(mechanism) for mechanism in mechanisms]))
    truth = _drawn(empty, ["theta", "refused"], rng)
    collections = []
    for mechanism in mechanisms:
        x = rng.choice(CATEGORIES, size=200, p=truth["theta"])
        refuses = rng.random(200) < truth["refused"]
        answers = np.where(refuses, rng.integers(CATEGORIES, size=200), mechanism.privatize(x, rng=rng))
        collections.append(ad.Responses.from_arrays(mechanism, answers))
    return noncompliance.build(ad.concat(collections)), truth


CASES: dict[str, Callable[[np.random.Generator], tuple[pm.Model, dict[str, Array]]]] = {
    "regression": regression_case,
    "noncompliance": noncompliance_case,
}


def _drawn(model: pm.Model, names: list[str], rng: np.random.Generator) -> dict[str, Array]:
    """Return a draw of the prior. Graphs that are used once are not compiled."""
    drawn = pm.draw([model[name] for name in names], random_seed=int(rng.integers(2**31)), mode="FAST_COMPILE")
    return dict(zip(names, map(np.asarray, drawn), strict=True))


def ranks(job: Job) -> dict[str, float]:
    """Return where each true parameter is among the draws, from 0 to 1."""
    program, seed = job
    rng = np.random.default_rng([seed, list(CASES).index(program)])
    model, truth = CASES[program](rng)
    quiet: dict[str, Any] = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = pm.sample(
            DRAWS,
            tune=TUNE,
            chains=1,
            cores=1,
            nuts_sampler="pymc",
            target_accept=0.9,
            random_seed=int(rng.integers(2**31)),
            compile_kwargs={"mode": MODE},
            **quiet,
        )
    found = {}
    for name, value in truth.items():
        draws = trace["posterior"][name].values[0, ::THIN]
        # Ties are shared out at random: of rows that sum to zero one category is left out, as the others determine it.
        below = (draws < value).sum(axis=0) + rng.random(value.shape)
        for place, rank in np.ndenumerate(below / (len(draws) + 1)):
            if not place or place[-1] < CATEGORIES - 1:
                found[f"{name}{list(place) if place else ''}"] = float(rank)
    return found


def findings(options: Options) -> list[Finding]:
    """Print the figures and return the findings."""
    found, rows = [], []
    n = REPLICATIONS[options.quick]
    for program in CASES:
        jobs = [(program, options.seed * 1000 + i) for i in range(n)]
        results = each(ranks, jobs, program, parallel=not options.quick)
        by_name = {name: np.array([result[name] for result in results]) for name in results[0]}
        p_values = {name: float(stats.kstest(values, "uniform").pvalue) for name, values in by_name.items()}
        rows += [[program, name, p_values[name], float(by_name[name].mean())] for name in by_name]
        least = min(p_values.values())
        limit = FALSE_ALARM / len(p_values)
        text = f"{program}: ranks of {len(p_values)} parameters are uniform (p > {limit:.1g})"
        found.append(finding(program, text, least > limit, least_p_value=least, replications=n))
    table(["program", "parameter", "p of ranks", "mean rank"], rows, name="ranks")
    return found


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
