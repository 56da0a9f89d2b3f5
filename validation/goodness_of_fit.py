"""`goodness_of_fit` finds answers that were read under the wrong mechanism, unless some θ explains them.

It must pass answers of the stated mechanism, and find planted faults. Some faults leave no trace: answers of a smaller
ε look like answers of a more even θ, and renamed categories look like a renamed θ if no subset is published. Exits with
1 if a finding is not reproduced.
"""

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from adobest_pp import RRRR, SRR, Responses, SubsetSelection, sample
from adobest_pp.diagnostics import goodness_of_fit
from adobest_pp.diagnostics.fit import FALSE_ALARM as STATED
from adobest_pp.diagnostics.fit import LEVEL
from adobest_pp.mechanisms import Mechanism
from validation.answers import ask
from validation.common import Finding, Options, each, finding, main, table
from validation.intervals import dirichlet

K, N = 8, 4000
# One category has most people, so that no θ explains answers of a larger ε.
UNEVEN = np.array([0.79] + [0.03] * (K - 1))
# The chance that a right check fails any of the statements of a run.
FALSE_ALARM = 0.01

Case = Callable[[np.random.Generator], Responses]


def right(mechanism: Mechanism, rho: float, rng: np.random.Generator) -> Responses:
    """Return answers of the stated mechanism."""
    return ask(mechanism, dirichlet(np.full(K, rho), rng), N, rng)


def other_epsilon(true: Mechanism, read_as: Mechanism, rng: np.random.Generator) -> Responses:
    """Return answers of one budget, read under another."""
    return _read(ask(true, UNEVEN, N, rng), read_as)


def shuffled_subsets(share: float, rng: np.random.Generator) -> Responses:
    """Return answers of RRRR, a share of them with the subset of another person."""
    told = ask(RRRR(K, 2.0, 0.8), UNEVEN, N, rng)
    index = told.subset_index
    mixed = rng.random(N) < share
    index[mixed] = rng.permutation(index[mixed])
    return Responses.from_arrays(told.mechanism, told.answers, told.subsets, index)


def renamed_answers(rng: np.random.Generator) -> Responses:
    """Return answers of RRRR with the categories numbered in reverse; the subsets are right."""
    told = ask(RRRR(K, 2.0, 0.8), UNEVEN, N, rng)
    return Responses.from_arrays(told.mechanism, K - 1 - told.answers, told.subsets, told.subset_index)


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


def _read(told: Responses, read_as: Mechanism) -> Responses:
    tables = {"subsets": told.subsets, "subset_index": told.subset_index} if read_as.publishes_subset else {}
    return Responses.from_arrays(read_as, told.answers, **tables)


def mechanisms(epsilon: float) -> dict[str, Mechanism]:
    """Return the three mechanisms, of one budget."""
    return {
        "SRR": SRR(K, epsilon),
        "RRRR": RRRR(K, epsilon, 0.8),
        "subset selection": SubsetSelection(K, epsilon, 3),
    }


RIGHT: dict[str, Case] = {
    f"{name}, ρ = {rho:g}": partial(right, mechanism, rho)
    for name, mechanism in mechanisms(2.0).items()
    for rho in (0.1, 1)
}
FAULTS: dict[str, Case] = {
    **{
        f"{name}, ε = 3 read as ε = 1": partial(other_epsilon, mechanisms(3.0)[name], mechanisms(1.0)[name])
        for name in mechanisms(1.0)
    },
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
}
CASES = RIGHT | FAULTS | MILD | SILENT


def check(job: tuple[str, int]) -> tuple[float, int, bool]:
    """Return the p-value, the degrees of freedom that θ cannot absorb, and whether the answers are said not to fit."""
    name, seed = job
    responses = CASES[name](np.random.default_rng(seed))
    tree = sample(responses, "nuts", draws=200, tune=200, chains=2, random_seed=seed, progressbar=False)
    fit = goodness_of_fit(tree)
    return float(fit["p_value"]), int(fit["spare"]), not bool(fit["fits"])


def measure(names: list[str], runs: int, seed: int, parallel: bool) -> dict[str, NDArray[np.float64]]:
    """Return what `check` found in every run of every case, of shape (runs, 3)."""
    seeds = np.random.SeedSequence(seed).generate_state(runs).tolist()
    found = each(check, [(name, one) for name in names for one in seeds], "checks", parallel)
    return dict(zip(names, np.array(found, dtype=np.float64).reshape(len(names), runs, 3), strict=True))


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    runs = {"right": 2 if options.quick else 200, "wrong": 1 if options.quick else 40}
    found = measure(list(RIGHT), runs["right"], options.seed, not options.quick)
    found |= measure(
        list(FAULTS | SILENT if options.quick else FAULTS | MILD | SILENT),
        runs["wrong"],
        options.seed,
        not options.quick,
    )
    print(f"K = {K}, n = {N}; answers are said not to fit from p = {LEVEL:g} on\n")
    rows = [
        [name, len(one), int(one[:, 1].max()), np.median(one[:, 0]), f"{one[:, 2].mean():.1%}"]
        for name, one in found.items()
    ]
    table(["answers", "runs", "spare", "median p", "do not fit"], rows, digits=2)
    alarms = int(sum(found[name][:, 2].sum() for name in RIGHT))
    total = len(RIGHT) * runs["right"]
    most = int(binom.isf(FALSE_ALARM, total, STATED))
    print(f"\nFalse alarms: {alarms} of {total}; a check at its stated rate of {STATED:.0%} has at most {most}")
    shares = {name: found[name][:, 2].mean() for name in (*FAULTS, *SILENT)}
    text = "right answers do not fit in at most 1 % of the runs"
    return [
        finding("false_alarms", text, alarms <= most, alarms=alarms, most=most),
        *(
            finding(name, f"found in at least 95 %: {name}", shares[name] >= 0.95, share_found=shares[name])
            for name in FAULTS
        ),
        *(finding(name, f"leaves no trace: {name}", shares[name] <= 0.05, share_found=shares[name]) for name in SILENT),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
