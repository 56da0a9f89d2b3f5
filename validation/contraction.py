"""The posterior contracts around the truth as 1/n, whichever sampler drives the adaptation.

The slope of ln E‖θ−θ*‖² against ln n is −1, and n·E‖θ−θ*‖² is twice the trace of the inverse information of the answers
(Bernstein–von Mises: one half is the error of the posterior mean, the other its spread). Inference is always by NUTS;
adaptive collections are driven once by draws of the true posterior and once by the paper's SGLD. Exits with 1 if a
finding is not reproduced.
"""

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr
from scipy.stats import t as student

from adobest_pp import RRRR, SRR, AdaptiveSubset, Responses, SubsetSelection, sample, simulate_adaptive
from adobest_pp.diagnostics import checkpoints, contraction
from validation.answers import ask
from validation.common import Finding, Options, each, finding, main, table

THETA = np.array([0.4, 0.3, 0.2, 0.1])
EPSILON = 3.0
# The probability that a right sampler and mechanism fail any of the tests of a run.
FALSE_ALARM = 0.01


def one_mechanism(mechanism: SRR | SubsetSelection, n: int, seed: int) -> Responses:
    """Ask n people with a mechanism that needs no subset."""
    return ask(mechanism, THETA, n, np.random.default_rng(seed))


def adaptive(method: str, sampler: str, n: int, seed: int) -> Responses:
    """Ask n people adaptively, with the paper's settings."""
    run = simulate_adaptive(
        THETA,
        AdaptiveSubset(RRRR(4, EPSILON, 0.8), method, sampler=sampler),
        n_people=n,
        random_seed=seed,
        final_updates=2,
    )
    return run.responses


# For these utilities the best subset has two categories. For the others it is empty here, and RRRR would be SRR. Subset
# selection of its default size, which is 1 for few categories, would also be SRR.
COLLECTIONS: dict[str, Callable[[int, int], Responses]] = {
    "SRR": partial(one_mechanism, SRR(4, EPSILON)),
    "subset selection": partial(one_mechanism, SubsetSelection(4, EPSILON, size=2)),
    "RRRR, entropy, exact": partial(adaptive, "entropy", "exact"),
    "RRRR, entropy, SGLD": partial(adaptive, "entropy", "sgld"),
    "RRRR, tv2, exact": partial(adaptive, "tv2", "exact"),
    "RRRR, tv2, SGLD": partial(adaptive, "tv2", "sgld"),
}


def posteriors(job: tuple[str, int, tuple[int, ...]]) -> dict[int, xr.DataTree]:
    """Collect once and draw from the posterior at every checkpoint."""
    label, seed, ns = job
    responses = COLLECTIONS[label](ns[-1], seed)
    return {
        n: sample(first, "nuts", draws=300, tune=300, chains=2, random_seed=seed, progressbar=False)
        for n, first in checkpoints(responses, ns).items()
    }


def measure(runs: int, ns: tuple[int, ...], seed: int, parallel: bool) -> xr.Dataset:
    """Return the contraction of every collection over independent runs."""
    labels = [label for label in COLLECTIONS for _ in range(runs)]
    seeds = np.random.SeedSequence(seed).generate_state(len(labels)).tolist()
    jobs = [(label, one, ns) for label, one in zip(labels, seeds, strict=True)]
    found = each(posteriors, jobs, "posteriors", parallel)
    by_label = {
        label: [tree for job, tree in zip(jobs, found, strict=True) if job[0] == label] for label in COLLECTIONS
    }
    return contraction({label: {n: [run[n] for run in trees] for n in ns} for label, trees in by_label.items()}, THETA)


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    ns = (1000, 8000) if options.quick else (1000, 2000, 4000, 8000, 16_000, 32_000)
    runs = 8 if options.quick else 24
    result = measure(runs, ns, options.seed, parallel=not options.quick)
    print(f"θ* = {THETA.tolist()}, ε = {EPSILON:g}, {runs} runs of each collection: n·E‖θ−θ*‖² / 2 Tr I⁻¹ by n\n")
    ratio = result["error"] / result["bvm"]
    rows = [[label, *ratio.sel(label=label).values.tolist()] for label in COLLECTIONS]
    table(["collection", *map(str, ns)], rows, name="by_n")
    # Standard errors are estimated from the runs: errors in their units follow Student's t.
    limit = float(student.isf(FALSE_ALARM / (2 * len(COLLECTIONS)) / 2, runs - 1))
    last = result.isel(n=-1)
    columns = [result["slope"], result["slope_se"], last["inverse_information"]]
    columns += [last["error"] / last["bvm"], last["error_se"] / last["bvm"]]
    rows = [[label, *map(float, values)] for label, *values in zip(COLLECTIONS, *columns, strict=True)]
    print()
    headers = ["collection", "slope", "± se", "Tr I⁻¹", f"n·E / 2 Tr I⁻¹, n = {ns[-1]}", "± se"]
    table(headers, rows, name="slopes")
    found = []
    for label, slope, slope_se, _, end, end_se in rows:
        text = f"{label}: the slope is −1 within {limit:.1f} standard errors"
        found.append(finding(f"slope, {label}", text, abs(slope + 1) < limit * slope_se, slope=slope, error=slope_se))
        text = f"{label}: n·E is 2 Tr I⁻¹ within {limit:.1f} standard errors"
        found.append(finding(f"error, {label}", text, abs(end - 1) < limit * end_se, ratio=end, error=end_se))
    return found


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
