"""`goodness_of_fit` finds answers that were read under the wrong mechanism, unless some θ explains them.

It must pass answers of the stated mechanism, whatever the truth, for K = 2 to 500, and find planted faults. Some faults
leave no trace: answers of a smaller ε look like answers of a more even θ, and renamed categories look like a renamed θ
if no subset is published. How often it finds an ε that is wrong by 10 or 30 % is reported for each mechanism. Exits
with 1 if a finding is not reproduced.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from adobest_pp import RRRR, SRR, HadamardResponse, LocalHashing, Responses, SubsetSelection, UnaryEncoding
from adobest_pp.likelihood.without_prior import FALSE_ALARM as STATED
from adobest_pp.likelihood.without_prior import LEVEL, check_fit
from adobest_pp.mechanisms import Mechanism
from validation.answers import ask
from validation.common import Finding, Options, Shown, each, finding, main, shown, table
from validation.intervals import dirichlet

K, N = 8, 4000
# One category has most people, so that no θ explains answers of a larger ε.
UNEVEN = np.array([0.79] + [0.03] * (K - 1))
# The chance that a right check fails any of the statements of a run.
FALSE_ALARM = 0.01

ALL: dict[str, Callable[..., Mechanism]] = {
    "SRR": SRR,
    "subset selection": SubsetSelection,
    "unary encoding": UnaryEncoding,
    "local hashing": LocalHashing,
    "Hadamard response": HadamardResponse,
    "RRRR": RRRR,
}
# Runs of each mechanism, by the number of categories.
RUNS = {2: 400, 8: 400, 40: 400, 100: 200, 200: 100, 500: 30}
TRUTHS = ("flat prior", "ρ = 0.1", "three of K", "one of K", "Zipf", "even")

Case = Callable[[np.random.Generator], Responses]


def truth(kind: str, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return true shares: from a prior, or fixed."""
    if kind == "flat prior":
        return dirichlet(np.ones(k), rng)
    if kind == "ρ = 0.1":
        return dirichlet(np.full(k, 0.1), rng)
    fixed = {
        "three of K": np.array([0.6, 0.3, 0.1])[:k],
        "one of K": np.ones(1),
        "Zipf": 1 / np.arange(1, k + 1),
        "even": np.ones(k),
    }[kind]
    return np.asarray(np.pad(fixed / fixed.sum(), (0, k - fixed.size)))


def right(name: str, k: int, kind: str, rng: np.random.Generator) -> Responses:
    """Return answers of the stated mechanism, of some ε from 0.3 to 4 and 300 to 30,000 people."""
    epsilon, n = np.exp(rng.uniform(np.log([0.3, 300]), np.log([4, 30_000])))
    epsilon, n = float(epsilon), int(n)
    return ask(ALL[name](k, epsilon), truth(kind, k, rng), n, rng)


def other_epsilon(true: Mechanism, read_as: Mechanism, rng: np.random.Generator) -> Responses:
    """Return answers of one budget, read under another."""
    return _read(ask(true, UNEVEN, N, rng), read_as)


def shuffled_subsets(share: float, rng: np.random.Generator) -> Responses:
    """Return answers of RRRR, a share of them with the subset of another person."""
    responses = ask(RRRR(K, 2.0, 0.8), UNEVEN, N, rng)
    index = responses.subset_index
    mixed = rng.random(N) < share
    index[mixed] = rng.permutation(index[mixed])
    return Responses.from_arrays(responses.mechanism, responses.answers, responses.subsets, index)


def renamed_answers(rng: np.random.Generator) -> Responses:
    """Return answers of RRRR with the categories numbered in reverse; the subsets are right."""
    responses = ask(RRRR(K, 2.0, 0.8), UNEVEN, N, rng)
    return Responses.from_arrays(
        responses.mechanism, K - 1 - responses.answers, responses.subsets, responses.subset_index
    )


def ignored_subsets(rng: np.random.Generator) -> Responses:
    """Return answers of devices that ran SRR, read as answers of RRRR under the subsets."""
    subsets = ask(RRRR(K, 2.0, 0.8), UNEVEN, N, rng)
    answers = ask(SRR(K, 2.0), UNEVEN, N, rng).answers
    return Responses.from_arrays(subsets.mechanism, answers, subsets.subsets, subsets.subset_index)


def neighbors(rng: np.random.Generator) -> Responses:
    """Return sets of three: the answer of SRR and the next two categories."""
    first = ask(SRR(K, 1.0), UNEVEN, N, rng).answers
    return Responses.from_arrays(SubsetSelection(K, 1.0, 3), np.sort((first[:, None] + np.arange(3)) % K, axis=1))


def filled_up(rng: np.random.Generator) -> Responses:
    """Return sets of two with a third category added: the first that the set does not hold."""
    two = ask(SubsetSelection(K, 1.0, 2), UNEVEN, N, rng).answers
    free = np.array([next(i for i in range(K) if i not in pair) for pair in two.tolist()])
    return Responses.from_arrays(SubsetSelection(K, 1.0, 3), np.sort(np.column_stack([two, free]), axis=1))


def _read(responses: Responses, read_as: Mechanism) -> Responses:
    tables: dict[str, Any] = {}
    if read_as.publishes_subset:
        tables = {"subsets": responses.subsets, "subset_index": responses.subset_index}
    return Responses.from_arrays(read_as, responses.answers, **tables)


def mechanisms(epsilon: float) -> dict[str, Mechanism]:
    """Return the three mechanisms, of one budget."""
    return {
        "SRR": SRR(K, epsilon),
        "RRRR": RRRR(K, epsilon, 0.8),
        "subset selection": SubsetSelection(K, epsilon, 3),
    }


def _of_one_size(name: str, epsilon: float) -> Mechanism:
    """Return a mechanism whose answers have the same form for every ε."""
    options = {"subset selection": {"size": 2}, "local hashing": {"g": 4}}.get(name, {})
    return ALL[name](K, epsilon, **options)


RIGHT: dict[tuple[str, int, str], Case] = {
    (name, k, kind): partial(right, name, k, kind) for name in ALL for k in RUNS for kind in TRUTHS
}
FAULTS: dict[str, Case] = {
    **{
        f"{name}, ε = 3 read as ε = 1": partial(other_epsilon, mechanisms(3.0)[name], mechanisms(1.0)[name])
        for name in mechanisms(1.0)
    },
    "unary encoding, ε = 1.1 read as ε = 1": partial(other_epsilon, UnaryEncoding(K, 1.1), UnaryEncoding(K, 1.0)),
    "RRRR, shuffled subsets": partial(shuffled_subsets, 1.0),
    "RRRR, renamed answers": renamed_answers,
    "RRRR, devices ran SRR": ignored_subsets,
    "subset selection, neighbors": neighbors,
    "subset selection, filled up": filled_up,
}
SILENT: dict[str, Case] = {
    f"{name}, ε = 1 read as ε = 3": partial(other_epsilon, mechanisms(1.0)[name], mechanisms(3.0)[name])
    for name in ("SRR", "subset selection")
}
# Only reported: how small a fault is found.
MILD: dict[str, Case] = {
    "RRRR, ε = 1 read as ε = 3": partial(other_epsilon, mechanisms(1.0)["RRRR"], mechanisms(3.0)["RRRR"]),
    **{f"RRRR, {share:.0%} of the subsets shuffled": partial(shuffled_subsets, share) for share in (0.1, 0.2, 0.4)},
    **{
        f"{name}, ε = {true:g} read as ε = 1": partial(other_epsilon, _of_one_size(name, true), _of_one_size(name, 1.0))
        for name in ALL
        for true in (0.7, 0.9, 1.1, 1.3)
        if (name, true) != ("unary encoding", 1.1)
    },
}
CASES: dict[Any, Case] = {**RIGHT, **FAULTS, **MILD, **SILENT}


def check(job: tuple[object, int]) -> tuple[float, int, bool]:
    """Return the p-value, the degrees of freedom that θ cannot absorb, and whether the answers are said not to fit."""
    name, seed = job
    fit = check_fit(CASES[name](np.random.default_rng(seed)))
    return fit.p_value, fit.spare, fit.p_value <= LEVEL


def measure(runs: dict[Any, int], seed: int, parallel: bool) -> dict[Any, NDArray[np.float64]]:
    """Return what `check` found in every run of every case, of shape (runs, 3)."""
    seeds = np.random.SeedSequence(seed).generate_state(max(runs.values())).tolist()
    jobs = [(name, one) for name, count in runs.items() for one in seeds[:count]]
    found = iter(each(check, jobs, "checks", parallel))
    return {name: np.array([next(found) for _ in range(count)], dtype=np.float64) for name, count in runs.items()}


def share(alarms: int, total: int) -> Shown | str:
    """Return a share with its 95 % interval (Clopper and Pearson)."""
    if not total:
        return "–"
    low, high = binomtest(alarms, total).proportion_ci()
    return shown("{:.2%} ({:.2%} – {:.2%})", alarms / total, low, high)


def print_alarms(found: dict[Any, NDArray[np.float64]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Print the false alarms, and return them and the runs by mechanism and number of categories."""
    # Too few answers for anything to be counted have no p-value, and are not counted here.
    checked = {name: found[name][np.isfinite(found[name][:, 0])] for name in RIGHT}
    counts = {name: (int(one[:, 2].sum()), len(one)) for name, one in checked.items()}

    def total(place: int, value: object) -> tuple[int, int]:
        parts = [pair for name, pair in counts.items() if name[place] == value]
        return sum(alarms for alarms, _ in parts), sum(runs for _, runs in parts)

    print(f"Correct answers that are said not to fit (p at most {LEVEL:g}); ε = 0.3 to 4, and 300 to 30,000 people\n")
    rows = [
        [label, value, total(place, value)[1], share(*total(place, value))]
        for place, label, values in ((0, "mechanism", ALL), (1, "K", RUNS), (2, "truth", TRUTHS))
        for value in values
    ]
    table(["", "", "runs", "false alarms (95 % interval)"], rows, name="false_alarms")
    return {
        (mechanism, k): (
            sum(counts[mechanism, k, kind][0] for kind in TRUTHS),
            sum(counts[mechanism, k, kind][1] for kind in TRUTHS),
        )
        for mechanism in ALL
        for k in RUNS
    }


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    of_right = {name: 1 if options.quick else max(RUNS[name[1]] // len(TRUTHS), 1) for name in RIGHT}
    if options.quick:
        of_right = {name: count for name, count in of_right.items() if name[1] <= 40}
    wrong = FAULTS | SILENT if options.quick else FAULTS | MILD | SILENT
    found = measure({**of_right, **dict.fromkeys(wrong, 1 if options.quick else 100)}, options.seed, not options.quick)
    found |= {name: np.zeros((0, 3)) for name in RIGHT if name not in found}
    cells = print_alarms(found)
    total = [sum(pair[i] for pair in cells.values()) for i in (0, 1)]
    # Each cell has its part of the chance that a right check fails, as have all of them together.
    limits = {cell: int(binom.isf(FALSE_ALARM / 2 / len(cells), runs, STATED)) for cell, (_, runs) in cells.items()}
    worst = min(cells, key=lambda cell: binom.sf(cells[cell][0] - 1, cells[cell][1], STATED))
    most = int(binom.isf(FALSE_ALARM / 2, total[1], STATED))
    print(
        f"\nThe worst of {len(cells)} cells, of a mechanism and a K: {worst[0]}, K = {worst[1]}: {share(*cells[worst])}"
    )
    print(f"\nAnswers of another mechanism; K = {K}, n = {N}\n")
    rows = [
        [name, len(found[name]), int(found[name][:, 1].max()), np.median(found[name][:, 0]), found[name][:, 2].mean()]
        for name in wrong
    ]
    table(["answers", "runs", "spare", "median p", "found"], rows, digits=2, name="faults_found")
    shares = {name: found[name][:, 2].mean() for name in (*FAULTS, *SILENT)}
    return [
        finding(
            "false_alarms",
            "correct answers are said not to fit in at most 1 % of the runs",
            total[0] <= most,
            alarms=total[0],
            runs=total[1],
            most=most,
        ),
        finding(
            "false_alarms, worst cell",
            "for no mechanism and K are they said so more often than chance explains",
            cells[worst][0] <= limits[worst],
            alarms=cells[worst][0],
            runs=cells[worst][1],
            most=limits[worst],
        ),
        *(
            finding(name, f"found in at least 95 %: {name}", shares[name] >= 0.95, share_found=shares[name])
            for name in FAULTS
        ),
        *(finding(name, f"leaves no trace: {name}", shares[name] <= 0.05, share_found=shares[name]) for name in SILENT),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
