"""Numbers that take longer than a slider may: draws, verdicts, estimates and bounds, kept in `lessons/data` as JSON.

    python lessons/precompute.py            # makes all of them again, in some minutes
    python lessons/precompute.py adapting   # one of them: those of the lesson of this name

Every number is a function of the seeds in this file; `tests/lessons/test_data.py` makes some of them again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import adobest_pp as ad
from adobest_pp.likelihood import grid_posterior

DATA = Path(__file__).parent / "data"
UNIT = 10_000  # draws of shares are kept in units of 1/10,000

TRUTH = np.array([0.6, 0.3, 0.1])
LABELS = ["never", "once", "often"]
PEOPLE, BATCHES, DRAWN = (30, 300, 3000, 30_000), (10, 50, 200, 0), 200
EXACT_SAMPLERS = ("nuts", "gibbs", "sgld_cv")

GRADED_PEOPLE, GRADED_DRAWS, LENGTHS = 3000, 500, (20, 50, 100, 200, 500)

MODEL_EPSILONS, MODEL_PEOPLE = (1.0, 2.0, 3.0), (1000, 3000, 10_000, 30_000)
PRODUCTS, HELD = 30, {2: 0.4, 11: 0.3, 17: 0.2, 23: 0.1}
REGIONS = {"coast": 0.5, "hills": 0.25, "plains": 0.15, "lakes": 0.07, "islands": 0.03}
REGION_TRUTH = np.array([0.32, 0.27, 0.36, 0.3, 0.25])

RATIOS, BOUND_EPSILONS = (1, 1.2, 1.5, 2, 3, 5, 10), (0.5, 1, 2, 3, 5)
STUDY = Path(__file__).parents[1] / "validation" / "results" / "mechanisms.json"
STUDY_CATEGORIES = 10
STUDY_METHODS = {
    "SRR": "randomized response",
    "subset selection": "sets (lesson 4)",
    "RRRR, fisher": "by fisher",
    "RRRR, tv1": "by tv1",
    "RRRR, honest": "by honest",
    "semi-adaptive, α = 0.2": "by mass, α = 0.2",
    "semi-adaptive, α = 0.9": "by mass, α = 0.9",
}


def three_categories(n):
    """Answers of n people at ε = 1."""
    rng = np.random.default_rng(5)
    mechanism = ad.SRR(3, 1.0)
    x = rng.choice(3, size=n, p=TRUTH)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=LABELS)


def sampling():
    """For each number of people: the answers, the exact posterior, and draws of SGLD with each batch and of the others."""
    return {str(n): sampled(n) for n in PEOPLE}


def sampled(n):
    """What `sampling` has for n people. `edges`: Σ counts·ln h(θ) at the edge of the smallest region with 50 and 95 %."""
    responses = three_categories(n)
    exact = grid_posterior(responses, cells=400)
    draws = {name: exact_draws(n, name) for name in EXACT_SAMPLERS}
    draws |= {f"sgld_{batch}": sgld_draws(n, batch) for batch in BATCHES}
    counts = np.bincount(responses.answers, minlength=3)
    mode = exact.theta.reshape(-1, 3)[exact.log_density.argmax()]
    below = np.array([exact.level(each) for each in (0.5, 0.95)]) - exact.log_density.max()
    return {
        "counts": counts.tolist(),
        "mean": rounded(exact.mean()),
        "sd": rounded(exact.sd()),
        "edges": (counts @ np.log(ad.SRR(3, 1.0).transition_matrix() @ mode) + below).tolist(),
        "draws": {name: packed(theta) for name, theta in draws.items() if name.startswith("sgld")},
        "width": {name: rounded(np.mean(theta.std(axis=(0, 1)) / exact.sd())) for name, theta in draws.items()},
    }


def packed(theta):
    """Evenly spaced draws of the first two shares, as integers."""
    flat = theta.reshape(-1, 3)
    return np.rint(flat[:: len(flat) // DRAWN][:DRAWN, :2] * UNIT).astype(int).tolist()


def rounded(values):
    """Numbers with six significant digits, so that the files are small."""
    if np.ndim(values):
        return [rounded(each) for each in values]
    return float(f"{values:.6g}")


def exact_draws(n, name):
    """Draws of NUTS, Gibbs or SGLD with control variates."""
    tree = ad.sample(three_categories(n), name, draws=3000, tune=500, chains=2, random_seed=1, progressbar=False)
    return tree.posterior.theta.values


def sgld_draws(n, batch, step=0.5):
    """Draws of SGLD with steps of step/n, far enough apart to be nearly independent; a batch of 0 is all answers."""
    responses = three_categories(n)
    sd = grid_posterior(responses).sd().max()
    # φ is three times as large as θ: steps of this size cross the posterior in this many updates.
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


def graded_trees():
    """Draws of good and bad samplers of the same posterior: four chains of 2,000 draws each."""
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
    return trees


def is_it_right():
    """For each sampler: 500 draws of the first share by chain, R-hat and effective draws by length, and a verdict."""
    trees = graded_trees()
    found = ad.diagnostics.compare(trees, reference="NUTS")
    made = {}
    for name, tree in trees.items():
        chains = tree.posterior.theta.values[:, :GRADED_DRAWS, 0]
        row = found.sel(sampler=name)
        stein, threshold = float(row.stein_discrepancy), float(row.stein_threshold)
        made[name] = {
            "chains": np.rint(chains * UNIT).astype(int).tolist(),
            "r_hat": [rounded(array_stats.rhat(chains[:, :n], 0, 1)) for n in LENGTHS],
            "effective": [rounded(array_stats.ess(chains[:, :n], 0, 1, method="bulk")) for n in LENGTHS],
            "sd": rounded(chains.std()),
            "verdict": str(row.verdict.values),
            "words": ad.diagnostics.verdict_in_words(row),
            "stein": None if np.isnan(stein) else rounded(stein),
            "stein_threshold": None if np.isnan(threshold) else rounded(threshold),
        }
    return made


def products(epsilon, n):
    """Answers of n people who hold four of thirty products."""
    rng = np.random.default_rng(8)
    shares = np.zeros(PRODUCTS)
    shares[list(HELD)] = list(HELD.values())
    mechanism = ad.SRR(PRODUCTS, epsilon)
    x = rng.choice(PRODUCTS, size=max(MODEL_PEOPLE), p=shares)[:n]
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), shares


def estimate(epsilon, n, prior):
    """Mean, and ends of the 95 % interval, of each product's share."""
    responses, _ = products(epsilon, n)
    tree = ad.sample(responses, "nuts", prior, draws=500, tune=1500, random_seed=1, progressbar=False)
    found = ad.intervals.summary(tree.posterior.theta)
    return np.array([found["mean"].values, found["lower"].values, found["upper"].values])


def regions(epsilon, n):
    """Mean and ends of the 95 % interval of each region's share: of each region alone, and partially pooled, on grids."""
    rng = np.random.default_rng(3)
    low, high = ad.SRR(2, epsilon).transition_matrix()[0, [1, 0]]
    sizes = np.array([round(n * part) for part in REGIONS.values()])
    yes = rng.binomial(sizes, low + (high - low) * REGION_TRUTH)
    logit = np.linspace(-6, 5, 400)
    share = 1 / (1 + np.exp(-logit))
    h = low + (high - low) * share
    value = np.multiply.outer(yes, np.log(h)) + np.multiply.outer(sizes - yes, np.log1p(-h))
    likelihood = np.exp(value - value.max(axis=1, keepdims=True))
    alone = [summarize(share, mass / mass.sum()) for mass in likelihood * share * (1 - share)]  # flat in the share
    common, spread = (grid.ravel()[:, None] for grid in np.meshgrid(np.linspace(-3, 2, 50), np.linspace(0.02, 1.5, 30)))
    near = np.exp(-0.5 * ((logit - common) / spread) ** 2)
    near /= near.sum(axis=1, keepdims=True)
    fits = near @ likelihood.T
    weight = np.exp(-0.5 * (common / 1.5) ** 2 - 0.5 * (spread / 0.5) ** 2).ravel() * fits.prod(axis=1)
    pooled = []
    for each, fit in zip(likelihood, fits.T, strict=True):
        mass = np.divide(weight, fit, out=np.zeros_like(weight), where=fit > 0) @ near * each
        pooled.append(summarize(share, mass / mass.sum()))
    return np.array(alone), np.array(pooled)


def summarize(grid, mass):
    """Mean and ends of the 95 % interval of a mass on a grid."""
    cumulative = np.cumsum(mass)
    return np.array([mass @ grid, *np.interp([0.025, 0.975], cumulative - mass / 2, grid)])


def your_model():
    """Estimates of thirty products under a flat and a learned prior, and of five regions alone and pooled."""
    cells = [(epsilon, n) for epsilon in MODEL_EPSILONS for n in MODEL_PEOPLE]
    priors = {"flat": 1.0, "learned": "learned"}
    pooling = {f"{epsilon:g}_{n}": regions(epsilon, n) for epsilon, n in cells}
    return {
        "products": {
            f"{name}_{epsilon:g}_{n}": rounded(estimate(epsilon, n, prior))
            for epsilon, n in cells
            for name, prior in priors.items()
        },
        "regions": {cell: {"alone": rounded(a), "pooled": rounded(p)} for cell, (a, p) in pooling.items()},
        "held": HELD,
        "region_truth": dict(zip(REGIONS, REGION_TRUTH.tolist(), strict=True)),
    }


def geometric(ratio, k=5):
    """θ in which each category is `ratio` times as common as the next."""
    weights = float(ratio) ** -np.arange(k)
    return weights / weights.sum()


def bound(ratio, epsilon):
    """The summed variance that no ε-LDP question falls below, for one answer: a proved bound."""
    return ad.optimal_mechanism(geometric(ratio), epsilon).lower_bound


def adapting():
    """Variances of the best question (a bound) and of subset selection by ε and ratio; errors of a study by prior, ε and ρ."""
    blocks = [each for each in json.loads(STUDY.read_text(encoding="utf-8"))["blocks"] if isinstance(each, dict)]
    errors = {}
    for block in blocks:
        setting = block.get("setting", {})
        if block["table"] != "errors" or setting["K"] != STUDY_CATEGORIES:
            continue
        for i, rho in enumerate(setting["rho"]):
            cell = {STUDY_METHODS[row[0]]: rounded(row[1 + 2 * i]) for row in block["rows"] if row[0] in STUDY_METHODS}
            errors[f"{setting['prior']}_{setting['epsilon']:g}_{rho:g}"] = cell
    cells = [(epsilon, ratio) for epsilon in BOUND_EPSILONS for ratio in RATIOS]
    return {
        "bound": {f"{epsilon:g}_{ratio:g}": rounded(bound(ratio, epsilon)) for epsilon, ratio in cells},
        "selection": {
            f"{epsilon:g}_{ratio:g}": rounded(ad.asymptotic_variance(ad.SubsetSelection(5, epsilon), geometric(ratio)))
            for epsilon, ratio in cells
        },
        "errors": errors,
    }


MAKERS = {
    "sampling": sampling,
    "is_it_right": is_it_right,
    "your_model": your_model,
    "adapting": adapting,
}


def write(name):
    """Make the numbers of one lesson again, and write them."""
    text = json.dumps(MAKERS[name](), ensure_ascii=False, separators=(",", ":"))
    (DATA / f"{name}.json").write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        write(name)
