"""The paper's SGLD in the paper's own loop: its estimate, its mixing, and its stationary law.

Three questions that must not be confused, each answered by runs of Algorithm 1 as the paper has it (adaptive RRRR with
κ = 0.8 by the utility "honest", T = 500 K people, M = 20 warm-started updates on y_1 … y_t after every answer, batches
of 50, at the end 2000 updates of which the last 1000 are averaged):

1. How far is the estimate that the paper uses from the exact posterior mean, in total variation?
2. Do chains mix in the paper's budget? The same answers and subsets are gone through again by independent chains with
   the same updates, steps and warm start. Their last 1000 updates, which the estimate averages, are compared with each
   other (R-hat), and the spread of their last iterates with the posterior's.
3. Is the stationary law right? `explain` runs the last step, 0.5/n on all answers, until it has mixed (some million
   updates), and where it is wrong then, once more with the full gradient and with half the step.

Steps are those of the text, 0.5/t; the first two questions are asked with the constant 0.5/T of the authors' program,
too. NUTS is the reference. Exits with 1 if a finding stated below is not reproduced.
"""

import math
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from adobest_pp import RRRR, AdaptiveSubset, Responses, sample, simulate_adaptive
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp._numerics import seed_state
from adobest_pp.adaptive.langevin import langevin_updates, new_workspace
from adobest_pp.adaptive.records import RESPONSES, new_records, publish, record
from adobest_pp.answers.draws import theta_of
from adobest_pp.diagnostics import explain
from adobest_pp.mechanisms import Coefficients, check_rrrr
from adobest_pp.samplers.checks import MIXED, NOT_CONVERGED, without_warnings_of
from validation.common import Finding, Options, Shown, each, finding, main, shown, table

# Runs of a setting, and the settings (K, ε, ρ) whose stationary law is looked at, which takes longest.
RUNS = 4
# Updates between two draws of the chain that `explain` begins with, for small ε and for large.
APART = (2000, 200)
LAWS = ((10, 0.5, 1.0), (10, 1.0, 1.0), (10, 5.0, 1.0), (10, 5.0, 0.1), (20, 1.0, 1.0), (20, 5.0, 1.0))
KAPPA, UTILITY = 0.8, "honest"
UPDATES, BATCH, FINAL = 20, 50, 2000
# Independent chains on the same answers, and how many of their last 1000 updates lie between two that are looked at.
CHAINS, THIN = 4, 10
STEPS = {"0.5/t": lambda t, n: 0.5 / t, "0.5/T": lambda t, n: 0.5 / n}
# As `compare` has it: beyond this R-hat, chains have not mixed.
MAX_R_HAT = MIXED.max_r_hat
LEVEL = 0.95


@dataclass(frozen=True)
class Case:
    """A setting of the paper."""

    n_categories: int
    epsilon: float
    rho: float
    people: int


@dataclass(frozen=True)
class Found:
    """What one run says, for each rule of the step size."""

    case: Case
    estimate: dict[str, float]  # mean over chains of the TV between a chain's estimate and the posterior mean
    r_hat: dict[str, float]
    spread: dict[str, float]  # of the last iterates over chains, in posterior sds: mean square over categories
    one_draw: float  # mean TV between a single draw of the posterior and the posterior mean


@njit(cache=True)
def _gather(records, orders, sizes, index, answers, coefficients):  # type: ignore[no-untyped-def]
    """Put answers under their subsets into records."""
    for t in range(answers.size):
        v = publish(records, orders[index[t]], sizes[index[t]], coefficients)
        record(records, answers[t], v, sizes[index[t]])


@njit(cache=True)
def _replay(state, phi, records, prior, steps, updates, batch_size, mean, work):  # type: ignore[no-untyped-def]
    """Run the updates of every person in turn, on the answers up to theirs, with one step size for each person."""
    for t in range(steps.size):
        records.used[RESPONSES] = t + 1
        langevin_updates(state, phi, records, prior, np.full(updates, steps[t]), batch_size, mean, updates, work)


def replay(responses: Responses, rule: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Go through the answers of an adaptive collection again, as Algorithm 1 did but for its random numbers.

    Parameters
    ----------
    responses : Responses
        Answers with their subsets, in the order in which they came in.
    rule : str
        Which of `STEPS`.
    seed : int
        Of the chain.

    Returns
    -------
    estimate, draws : arrays of shape (K,) and (100, K)
        The mean of the last 1000 of 2000 updates at the end, and every tenth of them.
    """
    coefficients = check_rrrr(responses.mechanism).coefficients
    k, n = responses.n_categories, len(responses)
    subsets = responses.subsets
    orders, sizes = np.argsort(~subsets, axis=1, kind="stable"), subsets.sum(axis=1)
    records = new_records(coefficients, n, n)
    index = np.asarray(responses.subset_index, dtype=np.int64)
    _gather(records, orders, sizes, index, responses.answers, Coefficients(*coefficients))
    prior, phi, state = np.ones(k), np.ones(k), seed_state(seed)
    work, mean = new_workspace(k, BATCH), np.zeros(k)
    steps = np.array([STEPS[rule](t, n) for t in range(1, n + 1)])
    _replay(state, phi, records, prior, steps, UPDATES, BATCH, mean, work)

    def more(updates: int, first_kept: int) -> None:
        langevin_updates(state, phi, records, prior, np.full(updates, steps[-1]), BATCH, mean, first_kept, work)

    more(FINAL // 2, FINAL // 2)
    draws = []
    for _ in range(FINAL // 2 // THIN):
        more(THIN, 0)
        draws.append(phi / phi.sum())
    return mean / (FINAL // 2), np.array(draws)


def collect(case: Case, seed: int) -> tuple[Responses, NDArray[np.float64]]:
    """Run Algorithm 1 once, and return its answers and its estimate."""
    rng = np.random.default_rng([seed, case.n_categories, round(100 * case.rho)])
    theta = draw_dirichlet(rng, np.full(case.n_categories, case.rho))
    mechanism = RRRR(case.n_categories, case.epsilon, KAPPA)
    run = simulate_adaptive(
        theta,
        AdaptiveSubset(mechanism, UTILITY, updates=UPDATES, batch_size=BATCH),
        n_people=case.people,
        final_updates=FINAL,
        random_seed=seed,
    )
    return run.responses, run.chain_mean


def one_run(job: tuple[Case, int]) -> Found:
    """Collect, replay and compare with NUTS."""
    case, seed = job
    responses, _ = collect(case, seed)
    tree = sample(responses, "nuts", draws=1000, tune=600, chains=2, random_seed=seed, progressbar=False)
    exact = theta_of(tree).values
    mean, sd = exact.mean(axis=(0, 1)), exact.std(axis=(0, 1))
    one_draw = float(np.abs(exact - mean).sum(axis=-1).mean() / 2)
    estimate, r_hat, spread = {}, {}, {}
    for rule in STEPS:
        chains = [replay(responses, rule, 1000 * seed + i) for i in range(CHAINS)]
        estimate[rule] = float(np.mean([0.5 * np.abs(one - mean).sum() for one, _ in chains]))
        draws = np.array([draws for _, draws in chains])
        r_hat[rule] = float(np.max(array_stats.rhat(draws, 0, 1)))
        last = draws[:, -1]
        spread[rule] = float(np.mean(last.var(axis=0, ddof=1) / sd**2))
    return Found(case, estimate, r_hat, spread, one_draw)


def stationary(job: tuple[Case, int]) -> dict[str, Any]:
    """Return what `explain` says of the last step of the paper, 0.5/n on all answers."""
    case, seed = job
    responses, _ = collect(case, seed)
    apart = APART[case.epsilon > 1]
    with without_warnings_of(NOT_CONVERGED):
        draws = sample(responses, "sgld", updates_per_draw=apart, random_seed=seed, progressbar=False)
    found = explain(draws, responses, random_seed=seed, progressbar=False)
    rows = {"case": case, "cause": found["main_cause"].item()}
    rows["updates"] = 2 * 1000 * apart * int(found["times_longer"].fillna(1))
    for name, part in (("longer", "longer"), ("full_gradient", "full_gradient")):
        # A run that is indistinguishable from the reference is not continued.
        one = found.sel(
            counterfactual="run" if name == "longer" and np.isnan(found["r_hat"].sel(counterfactual=part)) else part
        )
        shift, ratio = np.abs(one["mean_shift"].values), one["sd_ratio"].values
        rows[name] = (float(one["r_hat"]), float(np.max(shift)), float(np.min(ratio)), float(np.max(ratio)))
    return rows


def by_case(found: list[Found]) -> dict[Case, list[Found]]:
    """Return the runs of each setting."""
    return {case: [one for one in found if one.case == case] for case in dict.fromkeys(one.case for one in found)}


def interval(values: list[float]) -> Shown:
    """Return a mean with its t-interval over runs."""
    mean, reach = np.mean(values), np.inf
    if len(values) > 1:
        reach = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return shown("{:.3f} [{:.3f}, {:.3f}]", mean, max(mean - reach, 0.0), mean + reach)


def spread_of(some: list[Found], rule: str) -> float:
    """Return the spread of last iterates over that of the posterior, all runs together."""
    return float(np.sqrt(np.mean([one.spread[rule] for one in some])))


def cells_of(case: Case) -> list[Any]:
    """Return K, ε and ρ for a table."""
    return [case.n_categories, shown("{:g}", case.epsilon), shown("{:g}", case.rho)]


def print_runs(found: list[Found]) -> None:
    """Print the first two answers, setting by setting."""
    groups = by_case(found)
    text, program = STEPS
    print(
        "1. TV between the paper's estimate and the exact posterior mean: means over runs with 95 % intervals; and the"
    )
    print("   mean TV between one single draw of the posterior and its mean\n")
    rows = [
        [*cells_of(case), len(some)]
        + [interval([one.estimate[rule] for one in some]) for rule in STEPS]
        + [shown("{:.3f}", np.mean([one.one_draw for one in some]))]
        for case, some in groups.items()
    ]
    table(["K", "ε", "ρ", "runs", f"steps {text}", f"steps {program}", "one draw"], rows, name="estimate")
    print(f"\n2. {CHAINS} chains through the same answers: R-hat of their last 1000 updates (from the least run to the")
    print("   greatest), and the spread of their last iterates over the posterior sd\n")
    rows = []
    for case, some in groups.items():
        row = cells_of(case)
        for rule in STEPS:
            r_hats = [one.r_hat[rule] for one in some]
            row += [shown("{:.2f}–{:.2f}", min(r_hats), max(r_hats)), shown("{:.2f}", spread_of(some, rule))]
        rows.append(row)
    table(["K", "ε", "ρ", f"R-hat, {text}", "spread", f"R-hat, {program}", "spread"], rows, name="mixing")


def print_stationary(found: list[dict[str, Any]]) -> None:
    """Print the third answer, setting by setting."""
    print("\n3. The chain of the last step, 0.5/n on all answers, at its stationary law: updates of a chain, R-hat,")
    print("   largest shift of a mean (in posterior sds) and ratios of sds to the posterior's; what `explain` names as")
    print("   the main cause of the error; and ratios with the full gradient, where it was run\n")
    rows = []
    for one in found:
        case, (r_hat, shift, low, high) = one["case"], one["longer"]
        full = one["full_gradient"]
        row = [*cells_of(case), shown("{:,}", one["updates"]), shown("{:.2f}", r_hat), shown("{:.2f}", shift)]
        row += [shown("{:.2f}–{:.2f}", low, high), one["cause"].replace("_", " ")]
        rows.append([*row, "" if np.isnan(full[2]) else shown("{:.2f}–{:.2f}", full[2], full[3])])
    headers = ["K", "ε", "ρ", "updates", "R-hat", "shift", "sd ratios", "main cause", "full gradient"]
    table(headers, rows, name="stationary")


def run_findings(found: list[Found]) -> list[Finding]:
    """Judge the first two questions."""
    text = next(iter(STEPS))
    groups = by_case(found)
    means = {case: float(np.mean([one.estimate[text] for one in some])) for case, some in groups.items()}
    draws = {case: float(np.mean([one.one_draw for one in some])) for case, some in groups.items()}
    open_ = [case for case in groups if case.epsilon <= 1 and case.rho >= 0.1]
    high = [means[case] for case in groups if case.epsilon == 5]
    relative = [means[case] / draws[case] for case in open_]
    easy = [one for one in found if one.case.epsilon == 5 and one.case.rho == 0.01]
    r_hats = [one.r_hat[text] for one in found if one not in easy]
    spreads = [spread_of(some, text) for case, some in groups.items() if case.epsilon <= 1]
    return [
        finding(
            "estimate",
            "the paper's estimate is not the posterior mean: TV between them, least and greatest of all settings, each "
            f"more than three times that of the mean of {FINAL // 2} independent draws",
            min(means[case] / draws[case] for case in groups) > 3 / math.sqrt(FINAL // 2),
            least=min(means.values()),
            greatest=max(means.values()),
        ),
        finding(
            "estimate_by_epsilon",
            "at ε = 5 it is within 0.03 of it in every setting, at ε ≤ 1 and ρ ≥ 0.1 in none",
            max(high) < 0.03 < min(means[case] for case in open_),
            greatest_at_5=max(high),
            least_at_1=min(means[case] for case in open_),
        ),
        finding(
            "estimate_as_a_draw",
            "ε ≤ 1, ρ ≥ 0.1: it is about as far from the mean as one single draw of the posterior, relative to that",
            all(0.7 < one < 1.3 for one in relative),
            least=min(relative),
            greatest=max(relative),
        ),
        finding(
            "mixing",
            f"the last 1000 updates of independent chains have not mixed (R-hat above {MAX_R_HAT:g}) in any run, but "
            "for ε = 5 with ρ = 0.01",
            min(r_hats) > MAX_R_HAT,
            least=min(r_hats),
            greatest=max(r_hats),
        ),
        finding(
            "warm_start",
            "ε ≤ 1: but the last iterates of such chains are spread as the posterior is, within a quarter",
            all(0.8 < one < 1.25 for one in spreads),
            least=min(spreads),
            greatest=max(spreads),
        ),
    ]


def stationary_findings(found: list[dict[str, Any]]) -> list[Finding]:
    """Judge the third question."""
    low, high = ([one for one in found if (one["case"].epsilon > 1) == large] for large in (False, True))
    ratios = np.array([one["longer"][2:] for one in low])
    widest = np.array([one["longer"][3] for one in high])
    return [
        finding(
            "stationary_small_epsilon",
            "ε ≤ 1: a chain that is long enough is indistinguishable from NUTS; ratios of sds, least and greatest",
            all(one["cause"] == "at_the_posterior" for one in low),
            settings=len(low),
            least=ratios.min(),
            greatest=ratios.max(),
        ),
        finding(
            "stationary_high_epsilon",
            "ε = 5: some sd is more than a tenth too wide in every setting, at least and at most",
            bool(np.all(widest > 1.1)),
            settings=len(high),
            least=widest.min(),
            greatest=widest.max(),
        ),
        finding(
            "cause",
            "there the main cause is the noise of the batches",
            all(one["cause"] == "gradient_noise" for one in high),
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    if options.quick:
        cases = [Case(10, epsilon, 1.0, 1000) for epsilon in (1.0, 5.0)]
    else:
        cases = [Case(k, e, rho, 500 * k) for k, e, rho in product((10, 20), (0.5, 1.0, 5.0), (0.01, 0.1, 1.0))]
    jobs = [(case, options.seed + number) for case in cases for number in range(1 if options.quick else RUNS)]
    found = each(one_run, jobs, "the paper's loop", parallel=not options.quick)
    print_runs(found)
    if options.quick:
        print("\nWhat else is found needs the runs of the full mode.")
        return [one for one in run_findings(found) if one.name in ("estimate", "mixing")]
    long = [(Case(k, epsilon, rho, 500 * k), options.seed) for k, epsilon, rho in LAWS]
    law = each(stationary, long, "the stationary law", parallel=True)
    print_stationary(law)
    return run_findings(found) + stationary_findings(law)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
