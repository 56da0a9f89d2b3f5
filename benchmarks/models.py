"""Models on private answers: regressions, groups, refits with new answers, and compiling from nothing.

`python benchmarks/models.py` prints tables for RESULTS.md; `--only regression|softmax|groups|refit|compile` one of
them. Times are seconds of the processor, so that other programs on the machine count little.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt
from timing import Rows, best_seconds, show, shown

import adobest_pp as ad

# The folder of this file is left out, in which `models` would be this file.
sys.path[0] = str(Path(__file__).parents[1])

from models import regions, regression  # noqa: E402

# The headings of a table, and its rows.
Made = tuple[list[str], Rows]
NAMES = ["a", "b", "c", "d"]
MECHANISMS = {"SRR": ad.SRR(5, 1.0), "OUE": ad.UnaryEncoding(5, 1.0)}
PEOPLE = 10_000
# Of the sampler: the smallest ESS of one run is a matter of luck.
SEEDS = range(1, 6)


def dense(responses: ad.Responses, covariates: np.ndarray, scale: float = 1.5) -> pm.Model:
    """Return the model of `regression.build` as one writes it without us: a CustomDist and the rows of G, dense."""
    z = np.column_stack([np.ones(len(responses)), regression.standardized(covariates)])
    evidence, row = responses.evidence_and_index()
    channel = pt.constant(evidence.matrix() * np.exp(evidence.log_scale)[:, None])
    basis = ad.model.zero_sum(np.eye(responses.n_categories - 1)).eval(mode="FAST_COMPILE")
    with pm.Model() as model:
        free = pm.Normal("free", sigma=scale, shape=(z.shape[1], responses.n_categories - 1))
        theta = pm.math.softmax(z @ (free @ basis), axis=-1)

        def logp(y, theta):
            return pt.log((channel[y.astype("int64")] * theta).sum(axis=-1))

        pm.CustomDist("y", theta, logp=logp, signature="(k)->()", dtype="int64", observed=row)
    return model


def compiled(model: pm.Model) -> tuple[Any, float]:
    """Return the compiled model, after a few draws that import what the first run imports, and seconds to compile."""
    start = time.process_time()
    program = nutpie.compile_pymc_model(model)
    seconds = time.process_time() - start
    nutpie.sample(program, draws=5, tune=5, chains=2, cores=1, seed=0, progress_bar=False)
    return program, seconds


def sampled(program: Any, seed: int, draws: int = 1000, tune: int = 500) -> tuple[float, float]:
    """Return the smallest ESS of two chains, and seconds to sample."""
    start = time.process_time()
    trace = nutpie.sample(program, draws=draws, tune=tune, chains=2, cores=1, seed=seed, progress_bar=False)
    seconds = time.process_time() - start
    return float(az.ess(trace, var_names=["free"])["free"].min()), seconds


def regression_table() -> Made:
    """Compare both ways of writing the regression, over several seeds of the sampler, one way after the other."""
    rows = []
    for name, mechanism in MECHANISMS.items():
        responses, covariates, _ = regression.simulate(PEOPLE, mechanism, seed=1)
        models = {"ours": regression.build(responses, covariates, NAMES), "dense": dense(responses, covariates)}
        programs = {way: compiled(model) for way, model in models.items()}
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in models}
        for seed in SEEDS:
            for way, (program, _) in programs.items():
                found[way].append(sampled(program, seed))
        rates = {way: sum(ess for ess, _ in runs) / sum(s for _, s in runs) for way, runs in found.items()}
        for way, runs in found.items():
            least = ", ".join(f"{ess:.0f}" for ess, _ in runs)
            microseconds = shown("{:.0f}", 1e6 * gradient_seconds(models[way]))
            cells = [
                least,
                shown("{:.1f}", sum(s for _, s in runs)),
                shown("{:.0f}", rates[way]),
                microseconds,
                shown("{:.1f}", programs[way][1]),
            ]
            ratio = shown("{:.1f}×", rates["ours"] / rates["dense"]) if way == "ours" else ""
            rows.append([name, way, *cells, ratio])
    header = [
        "mechanism",
        "model",
        "smallest ESS by seed",
        "s of all",
        "ESS/s",
        "µs a gradient",
        "compile s",
        "ours over dense",
    ]
    return header, rows


def gradient_seconds(model: pm.Model, repeats: int = 2000) -> float:
    """Return the least time of one density with gradient: of so many that other programs cannot have slowed all."""
    return best_seconds(density(model), repeats)


def density(model: pm.Model) -> Callable[[], Any]:
    """Return a call that evaluates the density with its gradient."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    point = np.zeros(sum(np.size(value) for value in model.initial_point().values()))
    return lambda: function(point)


def median_seconds(calls: dict[str, Callable[[], Any]], repeats: int = 300, batch: int = 20) -> dict[str, float]:
    """Return the median of the processor's time for each call, in batches that take turns, after a first call."""
    times: dict[str, list[float]] = {way: [] for way in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for way, call in calls.items():
            start = time.process_time()
            for _ in range(batch):
                call()
            times[way].append((time.process_time() - start) / batch)
    return {way: float(np.median(each)) for way, each in times.items()}


def groups_table() -> Made:
    """Time the density of 50 regions for 10⁴ and 10⁶ people."""
    rows = []
    for name, mechanism in MECHANISMS.items():
        seconds = []
        for n in (10_000, 1_000_000):
            rng = np.random.default_rng(1)
            theta = rng.dirichlet(np.full(5, 5.0), size=50)
            group = np.arange(n) % 50
            x = (rng.random(n)[:, None] >= np.cumsum(theta, axis=1)[group]).sum(axis=1).clip(max=4)
            responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
            seconds.append(gradient_seconds(regions.build(responses, group)))
        rows.append(
            [name, *(shown("{:.0f}", 1e6 * each) for each in seconds), shown("{:.2f}×", seconds[1] / seconds[0])]
        )
    return ["mechanism", "µs, n = 10⁴", "µs, n = 10⁶", "ratio"], rows


def softmax_table() -> Made:
    """Time the density of a regression that is written as a softmax, beside `multinomial_logit`, turn by turn."""
    rows = []
    for name, mechanism in MECHANISMS.items():
        responses, covariates, _ = regression.simulate(PEOPLE, mechanism, seed=1)
        calls = {way: density(softmax_model(way, responses, covariates)) for way in SOFTMAX_WAYS}
        seconds = median_seconds(calls)
        ours = seconds["multinomial_logit"]
        rows += [
            [name, way, shown("{:.0f}", 1e6 * each), shown("{:.2f}×", each / ours)] for way, each in seconds.items()
        ]
    return ["mechanism", "θ", "µs a gradient", "over multinomial_logit (target 1.2)"], rows


SOFTMAX_WAYS = ["multinomial_logit", "softmax(a + X @ b)", "softmax(a + X @ b), X as pm.Data"]


def softmax_model(way: str, responses: ad.Responses, covariates: np.ndarray) -> pm.Model:
    """Return the regression with θ written in one of the ways."""
    k, z = responses.n_categories, regression.standardized(covariates)
    with pm.Model() as model:
        intercept, slope = pm.Normal("a", shape=(1, k)), pm.Normal("b", shape=(z.shape[1], k))
        if way == "multinomial_logit":
            theta = ad.model.multinomial_logit(z, pt.concatenate([intercept, slope]))
        else:
            table = pm.Data("X", z) if way.endswith("Data") else z
            theta = pm.math.softmax(intercept + table @ slope, axis=-1)
        ad.PrivateResponse("y", theta, responses)
    return model


def refit_table() -> Made:
    """Fit a model again to other answers without a rebuild, beside sampling alone with these answers known."""
    rows = []
    for name, mechanism in (MECHANISMS | {"subset selection": ad.SubsetSelection(5, 1.0)}).items():
        old, new = (regression.simulate(PEOPLE, mechanism, seed=seed)[0] for seed in (1, 2))
        programs = {way: compiled(frequency_model(new if way == "known" else old, way)) for way in REFIT_WAYS}
        seconds: dict[str, list[float]] = {way: [] for way in REFIT_WAYS}
        for seed in range(1, 12):
            for way, (program, _) in programs.items():
                data = None if way == "known" else data_of(new, way)
                seconds[way].append(seconds_of(program, seed, data))
        alone, *others = (float(np.median(each)) for each in seconds.values())
        for way, second in zip(REFIT_WAYS[1:], others, strict=True):
            cells = [shown("{:.1f}", programs[way][1]), shown("{:.3f}", alone), shown("{:.3f}", second)]
            rows.append([name, way, *cells, shown("{:.2f}×", second / alone)])
    header = ["mechanism", "as pm.Data", "compile s", "sampling alone s", "second fit s"]
    return [*header, "second fit over sampling alone (target 2)"], rows


REFIT_WAYS = ["known", "counts", "answers"]


def data_of(responses: ad.Responses, way: str) -> dict[str, np.ndarray]:
    """Return the values of `pymc.Data` of a model."""
    if way == "answers":
        return {"answers": responses.answers}
    return dict(zip(("rows", "counts"), ad.model.rows_and_counts(responses), strict=True))


def frequency_model(responses: ad.Responses, way: str) -> pm.Model:
    """Return the model of frequencies with answers that are known, or with answers or their counts as `pymc.Data`."""
    with pm.Model(coords={"category": responses.categories}) as model:
        theta = pm.Dirichlet("theta", np.ones(responses.n_categories), dims="category")
        data = {} if way == "known" else {name: pm.Data(name, value) for name, value in data_of(responses, way).items()}
        if way == "counts":
            pm.Potential("y", ad.model.counted_log_likelihood(theta, **data))
        else:
            ad.PrivateResponse("y", theta, responses, observed=data.get("answers"), dims="response")
    return model


def seconds_of(program: Any, seed: int, data: dict[str, np.ndarray] | None = None) -> float:
    """Return the seconds of the processor to take over new data, if there are some, and to sample two chains."""
    start = time.process_time()
    ready = program.with_data(**data) if data else program
    nutpie.sample(ready, draws=1000, tune=500, chains=2, cores=1, seed=seed, progress_bar=False)
    return time.process_time() - start


COLD = """
import json, time
import adobest_pp as ad, nutpie, pymc
from models import regression
responses, covariates, _ = regression.simulate(10_000, ad.UnaryEncoding(5, 1.0), seed=1)
start, cpu = time.perf_counter(), time.process_time()
nutpie.compile_pymc_model(regression.build(responses, covariates, ["a", "b", "c", "d"]))
print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]))
"""


def compile_table() -> Made:
    """Compile the regression with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"PYTENSOR_FLAGS": f"base_compiledir={folder}", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", COLD],
            env=os.environ | caches,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
    wall, cpu = json.loads(done.stdout.splitlines()[-1])
    return ["cold compile of the regression", "s"], [
        ["clock", shown("{:.1f}", wall)],
        ["processor", shown("{:.1f}", cpu)],
    ]


TABLES = {
    "regression": regression_table,
    "softmax": softmax_table,
    "groups": groups_table,
    "refit": refit_table,
    "compile": compile_table,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES, help="one of the tables")
    only = parser.parse_args().only
    for name, make in TABLES.items():
        if only in (None, name):
            show(name, *make())
