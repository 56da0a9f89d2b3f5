"""Statements about many categories hold for fixed truths: lists above a threshold, the largest, the rest, and groups.

Shares are fixed: even, 1/rank, a fiftieth of the categories not empty, half of all people in one category, and a tenth
of the categories nine times as large as the others. People are drawn, and the numbers of answers that name each
category, exactly as the mechanism would draw them. The estimates are the shares nearest to those of the counts: no
posterior is sampled, so that there is time for many collections. Lists, ranks and ends are those of
`adobest_pp.intervals`. The threshold is one of the shares, where a wrong list is most likely. Exits with 1 if a finding
is not reproduced.
"""

import json
import sys
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp import SRR, UnaryEncoding, intervals
from adobest_pp.answers.gather.gathered import SCHEMA
from adobest_pp.likelihood.without_prior import direct_of_counts
from adobest_pp.mechanisms import Mechanism
from validation.common import Finding, Options, each, finding, main, table

MECHANISMS = {"SRR": SRR, "unary encoding": UnaryEncoding}
SIZES = (30,)
N_GROUPS = 8
MOST_OF_ALL = 10_000
ERROR = 1 - intervals.PROBABILITY
# Standard errors by which a rate may exceed 5 %, in a setting and on average over settings.
SLACK = 3.3


class Cell(NamedTuple):
    """One setting."""

    mechanism: str
    n_categories: int
    people: int
    epsilon: float
    truth: str


class Job(NamedTuple):
    """Collections in one setting."""

    cell: Cell
    runs: int
    seed: int


def truths(k: int) -> dict[str, NDArray[np.float64]]:
    """Return the shares of k categories by name."""
    rank = np.arange(k)
    weights = {
        "even": np.ones(k),
        "1/rank": 1 / (1 + rank),
        "mostly empty": (rank < max(k // 50, 3)) * 1.0,
        "one large": np.where(rank == 0, k - 1.0, 1.0),
        "a tenth large": np.where(rank < k // 10, 9.0, 1.0),
    }
    return {name: values / values.sum() for name, values in weights.items()}


def count_answers(mechanism: Mechanism, people: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many answers name each category, given how many people hold it."""
    naming = mechanism.naming()
    assert naming is not None
    (truth, other), n = naming, int(people.sum())
    if isinstance(mechanism, SRR):  # the truth with probability p − q, otherwise any category
        kept = rng.binomial(people, truth - other)
        return np.asarray(kept + rng.multinomial(n - int(kept.sum()), np.full(people.size, 1 / people.size)))
    if isinstance(mechanism, UnaryEncoding):
        return np.asarray(rng.binomial(people, truth) + rng.binomial(n - people, other))
    raise NotImplementedError(type(mechanism).__name__)


def tree_of_counts(mechanism: Mechanism, counts: NDArray[np.int64], n: int | None = None) -> xr.DataTree:
    """Return a tree with these counts of answers, as of gathered ones, and the shares nearest to them as its draws."""
    labels = [str(i) for i in range(counts.size)]
    people = int(counts.sum()) if n is None else n
    direct = direct_of_counts(counts.astype(np.float64), people, mechanism)
    assert direct is not None
    ordered = np.sort(direct.estimate)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, counts.size + 1)  # of the largest, if no other is positive
    shares = np.maximum(direct.estimate - excess[np.count_nonzero(ordered > excess) - 1], 0)
    theta = np.tile(shares / shares.sum(), (1, 2, 1))
    settings = {"schema": SCHEMA, "mechanism_settings": json.dumps(mechanism.settings())}
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": labels}),
            "responses": xr.Dataset({"answers_with": ("category", counts)}, {"category": labels}, settings),
        }
    )
    tree.attrs = {"prior_concentration": 1.0, "n_responses": people}
    return tree


COLUMNS = (
    *(f"{name}, k = {k}" for k in SIZES for name in ("rest", "rest width", "listed", "ranks", "sure")),
    *("any wrong", "any listed", "wrong share", "share listed", "groups"),
)


def collections(job: Job) -> NDArray[np.float64]:
    """Return a row of figures for each collection: shares of what holds, of what is wrong, widths and numbers."""
    cell, rng = job.cell, np.random.default_rng(job.seed)
    theta = truths(cell.n_categories)[cell.truth]
    mechanism = MECHANISMS[cell.mechanism](cell.n_categories, cell.epsilon)
    # The share of which the most categories are nearest below what the counts can show.
    threshold = float(np.median(theta[theta > 0]))
    group_of = np.arange(cell.n_categories) % (N_GROUPS - 1)
    group_of[:3] = N_GROUPS - 1
    in_group = np.bincount(group_of, theta)
    rank = 1 + np.searchsorted(np.sort(-theta), -theta)  # of shares that are larger
    rows = []
    for _ in range(job.runs):
        counts = count_answers(mechanism, rng.multinomial(cell.people, theta), rng)
        tree, row = tree_of_counts(mechanism, counts, cell.people), []
        for k in SIZES:
            found = intervals.largest(tree, k)
            chosen = found["category"].values.astype(int)
            rest = 1 - theta[chosen].sum()
            low, high = found["rest_lower"].item(), found["rest_upper"].item()
            held = (found["lower"].values <= theta[chosen]) & (theta[chosen] <= found["upper"].values)
            right = (found["rank_lower"].values <= rank[chosen]) & (rank[chosen] <= found["rank_upper"].values)
            sure = np.count_nonzero(found["rank_upper"] <= k)
            row += [low - 1e-12 <= rest <= high + 1e-12, high - low, held.mean(), right.all(), sure]
        wrong, n_listed = [], []
        for rate in ("any", "share"):
            chosen = intervals.above(tree, threshold, rate=rate)["category"].values.astype(int)
            wrong.append(theta[chosen] <= threshold * (1 + 1e-9))
            n_listed.append(chosen.size)
        row += [wrong[0].any(), n_listed[0], wrong[1].mean() if n_listed[1] else 0.0, n_listed[1]]
        found = intervals.sums(tree, group_of.tolist())
        truth = in_group[found["group"].values.astype(int)]
        row.append(np.mean((found["lower"].values <= truth) & (truth <= found["upper"].values)))
        rows.append(row)
    return np.array(rows, dtype=np.float64)


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    runs, sizes = (10, ((60, 5000),)) if options.quick else (50, ((100, 10_000), (1000, 100_000), (10_000, 10**6)))
    cells = [
        Cell(name, k, people, epsilon, truth)
        for k, people in sizes
        for name in (MECHANISMS if k < MOST_OF_ALL else ["SRR"])
        for epsilon in ((1.0, 4.0) if k == 1000 else (4.0,))
        for truth in truths(k)
    ]
    seeds = np.random.SeedSequence(options.seed).generate_state(len(cells)).tolist()
    jobs = [Job(cell, runs, seed) for cell, seed in zip(cells, seeds, strict=True)]
    results = each(collections, jobs, "settings")
    print(f"{runs} collections of each setting: how often the interval of the rest holds, its width, the share of")
    print("listed intervals that hold, how often all ranks hold, and how many are surely among the k largest; how")
    print("often a list above the median share is wrong and how long it is, the share of wrong ones in a longer list")
    print("and its length; the share of intervals of eight groups that hold\n")
    headers = ["mechanism", "K", "people", "ε", "truth", *COLUMNS]
    table(headers, [[*cell, *found.mean(axis=0)] for cell, found in zip(cells, results, strict=True)], 3, "largest")
    values = {name: np.array([found[:, i] for found in results]) for i, name in enumerate(COLUMNS)}
    found = []
    for k in SIZES:
        found += [
            _covers(f"rest, k = {k}", f"the interval of the rest, the {k} largest apart, holds it", values),
            _covers(f"ranks, k = {k}", f"the intervals of all ranks of the {k} largest hold at once", values),
            _covers(f"listed, k = {k}", f"the intervals of the {k} largest hold their shares on average", values),
        ]
    found.append(_covers("groups", "the intervals of groups hold their shares", values))
    stated = {
        "any wrong": "lists above a threshold have a wrong category in at most {:.0%} of collections",
        "wrong share": "of longer lists, the share of wrong categories is at most {:.0%} on average",
    }
    for name, text in stated.items():
        wrong = values[name].mean(axis=1)
        figures = {"worst": wrong.max(), "mean": wrong.mean()}
        found.append(finding(name, text.format(ERROR) + OVER_SETTINGS, _is_rare(values[name]), **figures))
    return found


OVER_SETTINGS = ", over all settings; no setting is worse by more than chance explains"


def _is_rare(errors: NDArray[np.float64]) -> bool:
    """Tell whether errors, of shape (settings, runs), have a rate of at most 5 % but for chance, in all and in each."""
    return all(
        rate.max() <= ERROR + SLACK * np.sqrt(ERROR * (1 - ERROR) / runs)
        for rate, runs in ((errors.mean(axis=1), errors.shape[1]), (errors.mean(), errors.size))
    )


def _covers(name: str, text: str, values: dict[str, NDArray[np.float64]]) -> Finding:
    """Return the finding that something holds in 95 % of collections."""
    held = values[name].mean(axis=1)
    stated = f"{text} in {intervals.PROBABILITY:.0%} of collections or more{OVER_SETTINGS}"
    return finding(name, stated, _is_rare(1 - values[name]), least=held.min(), mean=held.mean())


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
