"""Many categories: posteriors of a thousand and of ten thousand shares, and what they are made from.

`python benchmarks/many.py` prints tables for RESULTS.md; one of `posterior`, `sgld_cv`, `nuts`, `pieces`, `errors` and
`coverage` only that. ε = 2, a million answers, shares that fall as 1/rank, the learned prior. Each posterior is made in
a process of its own, which has compiled before. Seconds of the processor count both chains; other programs on the
machine add to the others.
"""

import argparse
import json
import math
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
from numba import njit
from timing import Rows, best_seconds, show, shown

import adobest_pp as ad
from adobest_pp.intervals import covering_intervals
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.likelihood.without_prior import direct_estimate, named

EPSILON, PEOPLE = 2.0, 1_000_000
LARGEST, WANTED = 100, 400
# The mechanism, K, draws of each of two chains, and the target in seconds.
RUNS: dict[str, tuple[Any, int, int, float]] = {
    "Hadamard response, K = 10,000": (ad.HadamardResponse, 10_000, 1000, 30),
    "projective geometry, K = 10,000": (ad.ProjectiveGeometryResponse, 10_000, 650, 30),
    "SRR, K = 10,000": (ad.SRR, 10_000, 1000, 10),
    "Hadamard response, K = 1,000": (ad.HadamardResponse, 1_000, 1000, 4),
    "projective geometry, K = 1,000": (ad.ProjectiveGeometryResponse, 1_000, 850, 4),
    "SRR, K = 1,000": (ad.SRR, 1_000, 1000, 4),
}
TUNE, MEMORY, CORES = 250, 2048, 2
# Of the other samplers: mechanisms, K, draws of each of two chains, those before them, and the seconds of the processor
# after which a run is ended.
OTHERS = {"Hadamard response": ad.HadamardResponse, "SRR": ad.SRR}
SIZES = {"sgld_cv": (1_000, 10_000), "nuts": (1_000, 10_000, 20_000)}
LENGTHS = {"blocks": (1000, TUNE), "sgld_cv": (1000, 150), "nuts": (100, 200)}
MOST_SECONDS = 600


def shares_of(k: int) -> np.ndarray:
    shares = 1 / np.arange(1, k + 1)
    return np.asarray(shares / shares.sum())


def collected(make: Any, k: int, seed: int, n: int = PEOPLE) -> ad.Responses:
    rng, mechanism = np.random.default_rng(seed), make(k, epsilon=EPSILON)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(rng.choice(k, size=n, p=shares_of(k)), rng=rng))


def measure(name: str, sampler: str) -> None:
    """Print the figures of one posterior as JSON."""
    from arviz_stats.base import array_stats

    kind, size = name.split(", K = ")
    make, k = OTHERS.get(kind, ad.ProjectiveGeometryResponse), int(size.replace(",", ""))
    draws, tune = LENGTHS[sampler]
    if name in RUNS and sampler == "blocks":
        draws = RUNS[name][2]
    # Compiles, on fewer categories.
    ad.sample(collected(make, 1000, 1, 100_000), sampler, "learned", 2, 100, 2, random_seed=2, progressbar=False)
    responses = collected(make, k, 1)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + MOST_SECONDS,) * 2)
    start, spent = time.perf_counter(), time.process_time()
    tree = ad.sample(responses, sampler, "learned", draws, tune, 2, random_seed=1, progressbar=False)
    seconds, processor = time.perf_counter() - start, time.process_time() - spent
    theta, a = tree.posterior.theta.values, tree.posterior.concentration.values
    effective = array_stats.ess(theta[..., :LARGEST], chain_axis=0, draw_axis=1)
    found = {
        "seconds": seconds,
        "processor": processor,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "effective": float(effective.min()),
        "effective_a": float(array_stats.ess(np.log(a)[..., None], chain_axis=0, draw_axis=1)[0]),
        "r_hat": float(array_stats.rhat(theta[..., :LARGEST], chain_axis=0, draw_axis=1).max()),
        "a": float(a.mean()),
    }
    print(json.dumps(found))


def measured(name: str, sampler: str = "blocks") -> dict[str, float] | None:
    """Return the figures of one posterior, or None if it was not done in time."""
    command = [sys.executable, __file__, "--measure", name, "--sampler", sampler]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    done.check_returncode()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def posterior_rows() -> Rows:
    rows: Rows = []
    for name, (_, _, draws, most) in RUNS.items():
        found = measured(name)
        if found is None:
            rows.append([name, f"2 × ({TUNE} + {draws:,})", *[None] * 7, f"{most} s: missed"])
            continue
        # Other programs may share the machine: what counts is the time of the processor, by the cores of one run.
        seconds = min(found["seconds"], found["processor"] / CORES)
        is_met = seconds <= most and found["memory"] <= MEMORY and found["effective"] >= WANTED
        target = f"{most} s, {MEMORY} MiB, {WANTED}: {_met(is_met)}"
        rows.append([name, f"2 × ({TUNE} + {draws:,})", *_cells(found), target])
    return rows


def _cells(found: dict[str, float]) -> list[Any]:
    forms = {"seconds": "{:.1f}", "processor": "{:.1f}", "memory": "{:.0f}", "effective": "{:.0f}"}
    forms |= {"effective_a": "{:.0f}", "r_hat": "{:.3f}", "a": "{:.4f}"}
    return [shown(form, found[name]) for name, form in forms.items()]


def sampler_rows(sampler: str) -> Rows:
    """Return the figures of another sampler, with what 400 effective draws of each of the 100 largest would take."""
    rows: Rows = []
    for name in (f"{kind}, K = {k:,}" for k in SIZES[sampler] for kind in OTHERS):
        found, (draws, tune) = measured(name, sampler), LENGTHS[sampler]
        if found is None:
            rows.append([name, f"2 × ({tune} + {draws:,})", f"not done in {MOST_SECONDS}", *[None] * 7])
            continue
        cost = found["processor"] / CORES * WANTED / found["effective"]
        rows.append([name, f"2 × ({tune} + {draws:,})", *_cells(found), shown("{:.0f}", cost)])
    return rows


@njit(cache=True)
def by_hand(theta, answers, count, odds, m):  # type: ignore[no-untyped-def]
    """Return the log-likelihood of Hadamard response and its gradient as one writes it for this mechanism alone."""
    masses, pull = np.zeros(m), np.zeros(m)
    masses[1 : theta.size + 1] = theta
    _transform(masses)
    total, value = theta.sum(), 0.0
    for u in range(answers.size):
        h = total + odds * 0.5 * (total + masses[answers[u]])
        value += count[u] * np.log(h)
        pull[answers[u]] = count[u] / h
    shared = pull.sum()
    _transform(pull)
    return value, shared + odds * 0.5 * (shared + pull[1 : theta.size + 1])


@njit(cache=True)
def _transform(values):  # type: ignore[no-untyped-def]
    width = 1
    while width < values.size:
        for start in range(0, values.size, 2 * width):
            for j in range(start, start + width):
                first, second = values[j], values[j + width]
                values[j], values[j + width] = first + second, first - second
        width *= 2


def piece_rows() -> Rows:
    rows: Rows = []
    for k, target in ((1_000, ""), (10_000, "1 s")):
        responses, theta = collected(ad.HadamardResponse, k, 1), shares_of(k)
        evidence, mechanism = responses.evidence(), responses.mechanism
        collapse = best_seconds(responses.evidence)
        ours = best_seconds(lambda e=evidence, t=theta: value_and_gradient(t, e), 200)
        arguments = (theta, evidence.set_index, evidence.count, math.expm1(EPSILON), mechanism.n_outputs)
        hand = best_seconds(lambda a=arguments: by_hand(*a), 200)
        value, slope = by_hand(*arguments)
        np.testing.assert_allclose(value_and_gradient(theta, evidence)[1], slope, rtol=1e-9)
        assert abs(value_and_gradient(theta, evidence)[0] / value - 1) < 1e-12
        rows.append(
            [
                f"{k:,}",
                shown("{:.3f}", collapse),
                target,
                shown("{:.0f}", ours * 1e6),
                shown("{:.0f}", hand * 1e6),
                shown("{:.2f}", ours / hand),
                "1.5",
            ]
        )
    return rows


def projected(estimate: np.ndarray) -> np.ndarray:
    """Return the nearest vector of probabilities."""
    falling = np.sort(estimate)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    return np.asarray(np.maximum(estimate - excess[np.flatnonzero(falling > excess)[-1]], 0))


def error_rows(collections: int) -> Rows:
    """Return the error of the posterior mean over those of point estimates that others publish, on the same answers.

    The unbiased estimate is what minilek/private_frequency_oracles (`estimate_all_freqs`) and pure-ldp
    (`estimate_all`) return; pure-ldp can also add a number to all shares so that they sum to one, take the nearest
    vector of probabilities, or, for Hadamard response, set negative shares to zero and divide by the sum.
    """
    rows: Rows = []
    for name, (make, k, _, _) in RUNS.items():
        errors = []
        for seed in range(1, collections + 1):
            responses, truth = collected(make, k, seed), shares_of(k)
            naming = responses.mechanism.naming()
            assert naming is not None
            unbiased = (named(responses.evidence()) / PEOPLE - naming[1]) / (naming[0] - naming[1])
            clipped, shifted = np.maximum(unbiased, 0), unbiased + (1 - unbiased.sum()) / k
            tree = ad.sample(responses, "blocks", "learned", 300, TUNE, 2, random_seed=seed, progressbar=False)
            found = tree.posterior.theta.mean(("chain", "draw")).values
            points = [found, unbiased, shifted, clipped / clipped.sum(), projected(unbiased)]
            errors.append([[np.sum((each - truth) ** 2), np.abs(each - truth).sum() / 2] for each in points])
        for measure, (ours, *theirs) in {
            "ℓ₂": np.sqrt(np.mean(errors, axis=0)[:, 0]),
            "TV": np.mean(errors, axis=0)[:, 1],
        }.items():
            worst = max(ours / each for each in theirs)
            ratios = [shown("{:.2f}", ours / each) for each in theirs]
            rows.append([name, measure, shown("{:.4f}", ours), *ratios, "never behind: " + _met(worst <= 1)])
    return rows


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def coverage_rows(collections: int) -> Rows:
    """Return how often intervals hold the 100 largest shares, and 100 others, in percent."""
    k, truth, rows = 1_000, shares_of(1_000), []
    chosen = np.append(np.arange(LARGEST), np.linspace(LARGEST, k - 1, LARGEST).astype(int))
    for make in (ad.HadamardResponse, ad.ProjectiveGeometryResponse, ad.SRR):
        inside = []
        for seed in range(1000, 1000 + collections):
            direct = direct_estimate(collected(make, k, seed), truth)
            assert direct is not None
            lower, upper = covering_intervals(type(direct)(*(column[chosen] for column in direct)))
            inside.append((lower <= truth[chosen]) & (truth[chosen] <= upper))
        shares = np.mean(inside, axis=0).reshape(2, LARGEST).mean(axis=1)
        rows.append([make.__name__, *(shown("{:.1f}", 100 * share) for share in shares)])
    return rows


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = ["posterior", "sgld_cv", "nuts", "pieces", "errors", "coverage"]
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(every)}; all by default")
    parser.add_argument("--collections", type=int, default=0, help="for errors (5) and coverage (100)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--sampler", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        return measure(asked.measure, asked.sampler)
    parts = asked.parts or every
    headings = ["answers of", "draws", "s", "processor s", "peak, MiB", "least ESS of 100 largest", "ESS of ln a"]
    headings += ["largest R-hat", "a"]
    if "posterior" in parts:
        show("posterior", [*headings, "target"], posterior_rows())
    for sampler in ("sgld_cv", "nuts"):
        if sampler in parts:
            show(sampler, [*headings, f"processor s / {CORES} for an ESS of {WANTED}"], sampler_rows(sampler))
    if "pieces" in parts:
        headings = ["K", "evidence, s", "target", "value and gradient, µs", "by hand, µs", "ratio", "target ratio"]
        show("pieces", headings, piece_rows())
    if "errors" in parts:
        headings = ["answers of", "error", "of the posterior mean", "over unbiased", "over shifted", "over clipped"]
        show("errors", [*headings, "over projected", "target"], error_rows(asked.collections or 5))
    if "coverage" in parts:
        show("coverage", ["mechanism", "100 largest, %", "100 others, %"], coverage_rows(asked.collections or 100))
    return None


if __name__ == "__main__":
    main()
