"""Runs that take longer than a slider may: draws, verdicts and a small study, kept in `lessons/data`.

    python lessons/precompute.py            # makes all of them again, in some minutes
    python lessons/precompute.py adapting   # one of them

Every number is a function of the seeds in this file; `tests/lessons/test_data.py` makes some of them again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import adobest_pp as ad
from adobest_pp.likelihood import grid_posterior

DATA = Path(__file__).parent / "data"

TRUTH = np.array([0.6, 0.3, 0.1])
LABELS = ["never", "once", "often"]
PEOPLE = (30, 300, 3000, 30_000)
EXACT_SAMPLERS = ("nuts", "gibbs", "sgld_cv")
STEPS, BATCHES = (0.05, 0.2, 0.5, 2.0), (10, 50, 200, 0)

GRADED_PEOPLE = 3000
EMPTY_EPSILONS, EMPTY_PEOPLE = (1.0, 2.0, 3.0), (1000, 3000, 10_000, 30_000)
PRODUCTS, HELD = 30, {2: 0.4, 11: 0.3, 17: 0.2, 23: 0.1}
RHOS, ADAPTING_RUNS, ADAPTING_PEOPLE = (0.01, 0.1, 1.0), 16, 2000


def three_categories(n):
    """Answers of n people at ε = 1, as in lesson 5."""
    rng = np.random.default_rng(5)
    mechanism = ad.SRR(3, 1.0)
    x = rng.choice(3, size=n, p=TRUTH)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=LABELS)


def sampling():
    """Draws of every sampler of lesson 5, as 16-bit shares of the first two categories, 300 of each; and the sd of all."""
    draws: dict[str, Any] = {}
    for n in PEOPLE:
        made = {f"{name}_{n}": exact_draws(n, name) for name in EXACT_SAMPLERS}
        made |= {f"sgld_{n}_{step:g}_{batch}": sgld_draws(n, step, batch) for step in STEPS for batch in BATCHES}
        draws |= {key: packed(theta) for key, theta in made.items()}
        draws |= {f"sd_{key}": theta.std(axis=(0, 1)).astype(np.float32) for key, theta in made.items()}
    np.savez_compressed(DATA / "sampling.npz", **draws)


def packed(theta):
    """300 evenly spaced draws as 16-bit integers."""
    flat = theta.reshape(-1, 3)
    return np.rint(flat[:: len(flat) // 300][:300, :2] * 65535).astype(np.uint16)


def exact_draws(n, name):
    """Draws of NUTS, Gibbs or SGLD with control variates."""
    tree = ad.sample(three_categories(n), name, draws=3000, tune=500, chains=2, random_seed=1, progressbar=False)
    return tree.posterior.theta.values


def sgld_draws(n, step, batch):
    """Draws of SGLD with steps of step/n, far enough apart to be nearly independent; a batch of 0 is all answers."""
    responses = three_categories(n)
    sd = grid_posterior(responses).sd().max()
    # φ is three times as large as θ: in so many updates, a step of this size crosses the posterior.
    apart = int(np.clip(2 * (3 * sd) ** 2 * n / step, 1, 400))
    tree = ad.sample(
        responses,
        "sgld",
        draws=600,
        tune=60,
        chains=2,
        random_seed=1,
        progressbar=False,
        step_size=step / n,
        batch_size=batch or None,
        updates_per_draw=apart,
    )
    return tree.posterior.theta.values


def graded():
    """Draws of good and bad samplers, and what `compare` says of them."""
    responses = three_categories(GRADED_PEOPLE)
    common: dict[str, Any] = {"draws": 2000, "chains": 4, "random_seed": 2, "progressbar": False}
    steps: dict[str, dict[str, Any]] = {
        "large steps": {"step_size": 2.0 / GRADED_PEOPLE, "batch_size": 10, "updates_per_draw": 30, "tune": 50},
        "tiny steps": {"step_size": 0.01 / GRADED_PEOPLE, "batch_size": 50, "updates_per_draw": 4, "tune": 0},
    }
    trees = {
        "NUTS": ad.sample(responses, "nuts", tune=500, **common),
        "Gibbs": ad.sample(responses, "gibbs", tune=100, **common),
        "SGLD with control variates": ad.sample(responses, "sgld_cv", tune=500, **common),
    }
    for name, options in steps.items():
        trees[f"SGLD, {name}"] = ad.sample(responses, "sgld", **common, **options)
    found = ad.diagnostics.compare(trees, reference="NUTS")
    words = {}
    for name in trees:
        row = found.sel(sampler=name)
        stein, threshold = float(row.stein_discrepancy), float(row.stein_threshold)
        words[name] = {
            "verdict": str(row.verdict.values),
            "words": ad.diagnostics.verdict_in_words(row),
            "stein": None if np.isnan(stein) else stein,
            "stein_threshold": None if np.isnan(threshold) else threshold,
        }
    kept = {name: tree.posterior.theta.values[:, :500, :2] for name, tree in trees.items()}
    np.savez_compressed(
        DATA / "graded.npz", **{name: np.rint(values * 65535).astype(np.uint16) for name, values in kept.items()}
    )
    write("graded", words)


def products(epsilon, n):
    """Answers of n people who hold four of thirty products."""
    rng = np.random.default_rng(8)
    shares = np.zeros(PRODUCTS)
    shares[list(HELD)] = list(HELD.values())
    mechanism = ad.SRR(PRODUCTS, epsilon)
    x = rng.choice(PRODUCTS, size=max(EMPTY_PEOPLE), p=shares)[:n]
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), shares


def estimate(epsilon, n, prior):
    """Mean, and ends of the 95 % interval, of each product's share."""
    responses, _ = products(epsilon, n)
    tree = ad.sample(responses, "nuts", prior, draws=500, tune=1500, random_seed=1, progressbar=False)
    found = ad.intervals.summary(tree.posterior.theta)
    return np.array([found["mean"].values, found["lower"].values, found["upper"].values])


def empty():
    """The estimates of thirty products under a flat and a learned prior."""
    found = {
        f"{name}_{epsilon:g}_{n}": estimate(epsilon, n, prior).astype(np.float32)
        for epsilon in EMPTY_EPSILONS
        for n in EMPTY_PEOPLE
        for name, prior in (("flat", 1.0), ("learned", "learned"))
    }
    np.savez_compressed(DATA / "empty.npz", **found)


def adapting_errors(rho, run):
    """Errors ½Σ|θ̂ − θ*| of SRR, subset selection and two kinds of adaptive RRRR on the same people, K = 10, ε = 1."""
    rng = np.random.default_rng([run, int(1000 * rho)])
    k = 10
    theta = ad_dirichlet(rng, rho, k)
    x = rng.choice(k, size=ADAPTING_PEOPLE, p=theta)
    collections = {}
    for name, mechanism in (("SRR", ad.SRR(k, 1.0)), ("subset selection", ad.SubsetSelection(k, 1.0))):
        collections[name] = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
    adaptive = ad.simulate_adaptive(None, ad.AdaptiveSubset(ad.RRRR(k, 1.0, 0.9), "honest"), people=x, random_seed=run)
    collections["adaptive RRRR"] = adaptive.responses
    by_mass = ad.simulate_adaptive(
        None, ad.AdaptiveSubset(ad.RRRR(k, 1.0, 1.0), "semi_adaptive", alpha=0.9), people=x, random_seed=run
    )
    collections["semi-adaptive RRRR"] = by_mass.responses
    errors = {}
    for name, responses in collections.items():
        tree = ad.sample(responses, "nuts", draws=300, tune=300, chains=2, random_seed=run, progressbar=False)
        mean = tree.posterior.theta.mean(("chain", "draw")).values
        errors[name] = float(0.5 * np.abs(mean - theta).sum())
    return errors


def ad_dirichlet(rng, rho, k):
    """A draw of Dirichlet(ρ), by logarithms: for ρ = 0.01 most shares are zero."""
    log_phi = np.log(rng.gamma(rho + 1, size=k)) + np.log(rng.random(k)) / rho
    phi = np.exp(log_phi - log_phi.max())
    return phi / phi.sum()


def adapting():
    """The small study of lesson 4."""
    write("adapting", {str(rho): [adapting_errors(rho, run) for run in range(ADAPTING_RUNS)] for rho in RHOS})


def write(name, content):
    """Write a JSON file that is easy to compare."""
    (DATA / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


MAKERS = {"sampling": sampling, "graded": graded, "empty": empty, "adapting": adapting}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()
