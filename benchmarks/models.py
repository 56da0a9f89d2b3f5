"""Models on private answers: a regression beside the same one with dense matrices, groups, and compiling from nothing.

`python benchmarks/models.py` prints tables for RESULTS.md; `--only regression|groups|compile` a part of them. Times are
seconds of the processor, so that other programs on the machine count little.
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
from timing import Rows, show, shown

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
    sampled(program, seed=0, draws=5, tune=5)
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
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    point = np.zeros(sum(np.size(value) for value in model.initial_point().values()))
    return best(lambda: function(point), repeats)


def best(call: Callable[[], Any], repeats: int) -> float:
    """Return the least of several times, after a first call."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


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


TABLES = {"regression": regression_table, "groups": groups_table, "compile": compile_table}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES, help="one of the tables")
    only = parser.parse_args().only
    for name, make in TABLES.items():
        if only in (None, name):
            show(name, *make())
