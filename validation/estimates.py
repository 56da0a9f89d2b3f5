"""How often intervals by group hold the truth: in simulated surveys with weights, and for real people.

Simulated surveys have 12 regions of 50 to 600 people, one of which is like no other, and six answers. Weights depend on
the answer itself, as where people of some kind are harder to reach; regions are weighted to their known shares of the
population. Each interval of `adobest_pp.estimate` is compared with the shares that people are drawn from.

Real people are those of three public surveys: what readers of a magazine said of their marriages (Fair, from
statsmodels), party identification (ANES 1996, statsmodels), and how often people drink, in a health survey (NHEFS, from
causaldata). Each collection draws as many people from the survey with replacement, randomizes their answers, and
estimates shares by group; the truth is the survey itself. Exits with 1 if a finding is not reproduced.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import adobest_pp as ad
from adobest_pp.estimates import pooling
from validation.common import Finding, Options, each, finding, main, table

# No group of 50 effective people or more may be below the first; the mean must be within the second.
LEAST, MEAN, ENOUGH = 0.90, (0.93, 0.97), 50
REGIONS, CATEGORIES, EPSILON = 12, 6, 1.0
COMMON = np.array([0.35, 0.25, 0.18, 0.12, 0.07, 0.03])
SIZES = np.array([600, 500, 450, 350, 300, 200, 150, 120, 120, 90, 70, 50])
# Weights by answer, before chance: from half to twice.
WEIGHTS = np.linspace(0.7, 1.6, CATEGORIES)


@contextmanager
def few_draws() -> Iterator[None]:
    """Take fewer draws of shares than users get.

    An interval is that of a group's own answers, made wider only where it does not contain the pooled share.
    """
    before = pooling.WARMUP, pooling.SWEEPS
    pooling.WARMUP, pooling.SWEEPS = 100, 100
    try:
        yield
    finally:
        pooling.WARMUP, pooling.SWEEPS = before


class Held(NamedTuple):
    """Whether each interval held the truth, and whether its group has enough people; both (G, K)."""

    held: NDArray[np.bool_]
    enough: NDArray[np.bool_]


def truths(seed: int) -> NDArray[np.float64]:
    """Return the shares of the regions; the last large one is like no other."""
    shares = np.random.default_rng(seed).dirichlet(40 * COMMON, size=REGIONS)
    shares[3] = COMMON[::-1]
    return shares


def one_survey(task: tuple[int, str]) -> Held:
    """Simulate one survey and compare its intervals with the truth."""
    seed, kind = task
    rng, shares = np.random.default_rng([1, seed]), truths(seed)
    region = np.repeat(np.arange(REGIONS), SIZES)
    x = np.concatenate([rng.choice(CATEGORIES, size=n, p=p) for n, p in zip(SIZES, shares, strict=True)])
    mechanism = ad.SubsetSelection(CATEGORIES, epsilon=EPSILON)
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
    labels = np.array([f"r{i:02d}" for i in range(REGIONS)])
    population = SIZES[::-1] / SIZES.sum() if kind == "weights and margins" else SIZES / SIZES.sum()
    weights, margins = None, None
    if kind != "plain":
        weights = WEIGHTS[x] * rng.uniform(0.8, 1.25, size=x.size)
        shares = shares * WEIGHTS
        sizes = SIZES * shares.sum(axis=1)  # weights make regions with heavy answers larger
        population = sizes / sizes.sum() if kind == "weights" else population
        shares = shares / shares.sum(axis=1, keepdims=True)
    if kind == "weights and margins":
        margins = dict(zip(labels.tolist(), population.tolist(), strict=True))
    with few_draws():
        found = ad.estimate(responses, groups=labels[region], weights=weights, margins=margins, random_seed=seed)
    truth = np.vstack([population @ shares, shares])
    return _held(found, truth)


def _held(found: Any, truth: NDArray[np.float64]) -> Held:
    held = (found["lower"].values <= truth) & (truth <= found["upper"].values)
    enough = np.broadcast_to(found["effective_people"].values[:, None] >= ENOUGH, held.shape)
    return Held(held, enough)


# Real people.


def surveys() -> dict[str, tuple[NDArray[np.int64], NDArray[np.object_]]]:
    """Return the answer and the group of each person of three surveys."""
    fair = import_module("statsmodels.datasets.fair").load_pandas().data
    anes = ad.datasets.anes96()
    nhefs = import_module("causaldata.nhefs").load_pandas().data.dropna(subset=["alcoholfreq", "education"])
    return {
        "marriage by religiousness (Fair)": (
            fair["rate_marriage"].astype(int).to_numpy() - 1,
            fair["religious"].astype(int).astype(str).to_numpy(dtype=object),
        ),
        "party by vote (ANES 1996)": (
            anes["party"].cat.codes.to_numpy().astype(np.int64),
            anes["vote"].astype(str).to_numpy(dtype=object),
        ),
        "drinking by education (NHEFS)": (
            np.minimum(nhefs["alcoholfreq"].astype(int).to_numpy(), 4),
            nhefs["education"].astype(int).astype(str).to_numpy(dtype=object),
        ),
    }


def one_collection(task: tuple[str, int]) -> Held:
    """Draw people from a survey, randomize their answers, and compare the intervals with the survey."""
    name, seed = task
    x, group = surveys()[name]
    rng, k = np.random.default_rng([2, seed]), int(x.max()) + 1
    drawn = rng.integers(x.size, size=x.size)
    mechanism = ad.SubsetSelection(k, epsilon=2.0)
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x[drawn], rng=rng))
    with few_draws():
        found = ad.estimate(responses, groups=group[drawn], random_seed=seed)
    labels = found["label"].values.tolist()
    members = [np.ones(x.size, dtype=bool), *(group == label for label in labels[1:])]
    truth = np.array([np.bincount(x[each], minlength=k) / each.sum() for each in members])
    return _held(found, truth)


def findings(options: Options) -> list[Finding]:
    """Compare intervals with the truth."""
    n, parallel = (10, False) if options.quick else (200, True)
    found: list[Finding] = []
    rows: list[list[Any]] = []
    for kind in ("plain", "weights", "weights and margins"):
        tasks = [(options.seed * 100_000 + i, kind) for i in range(n)]
        results = each(one_survey, tasks, f"surveys, {kind}", parallel)
        found.append(_finding(f"simulated_{kind.replace(' ', '_')}", f"12 regions, {kind}", results, rows, options))
    for name in surveys():
        tasks_of = [(name, options.seed * 100_000 + i) for i in range(n)]
        results = each(one_collection, tasks_of, name, parallel)
        found.append(_finding(name.split(" ")[0], name, results, rows, options))
    print("\nHow often 95 % intervals hold the truth: over all, and in the group and the cell with the least.\n")
    table(["survey", "surveys", "intervals", "held", "least of a group", "least of a cell"], rows, name="coverage")
    return found


def _finding(name: str, title: str, results: list[Held], rows: list[list[Any]], options: Options) -> Finding:
    held = np.array([each.held for each in results], dtype=float)
    enough = np.array([each.enough for each in results]).mean(axis=0)[:, 0] >= 0.5
    overall, groups = float(held.mean()), held.mean(axis=(0, 2))
    cells = held.mean(axis=0)
    least, worst = float(groups[enough].min()), float(cells[enough].min())
    # In quick mode there are too few surveys to tell.
    error = 3 * np.sqrt(0.95 * 0.05 / (len(results) * cells.shape[1])) if options.quick else 0.0
    passed = MEAN[0] - error <= overall <= MEAN[1] + error and least >= LEAST - error
    rows.append([title, len(results), held.size, overall, least, worst])
    text = (
        f"{title}: 95 % intervals hold the truth in {overall:.1%}, in every group of 50 people or more in {least:.1%}"
    )
    return finding(name, text, passed, held=overall, least=least, worst_cell=worst)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
