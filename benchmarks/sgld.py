"""Whether `sample(responses, "sgld_cv")` samples the posterior, what an update costs, and how fast it is.

Run `python benchmarks/sgld.py` (some minutes), or with ``--full`` for all 36 settings of the paper, calibration of
every mechanism, and a million answers of subset selection. Both samplers run in the same process, one after the other,
with default arguments. Ratios are of one run: a busy machine is as busy for both.
"""

import argparse
import itertools
import json
import resource
import time

import numpy as np
from arviz_stats.base import array_stats
from numba import njit
from timing import show, shown

import adobest_pp as ad
from adobest_pp._numerics import next_word, normal, seed_state
from adobest_pp.samplers.sgld.loop import Langevin
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.samplers.sgld_cv.dynamics import underdamped_draws
from adobest_pp.samplers.sgld_cv.sampler import Chains

QUIET = {"progressbar": False}
PAPER = list(itertools.product((10, 20), (0.5, 1.0, 5.0), (0.8, 0.9), (0.01, 0.1, 1.0)))
QUICK = [0, 10, 13, 22, 28, 31]
MECHANISMS = {
    "SRR": lambda k: ad.SRR(k, 1.0),
    "RRRR": lambda k: ad.RRRR(k, 1.0, 0.9),
    "SubsetSelection": lambda k: ad.SubsetSelection(k, 1.0),
    "UnaryEncoding": lambda k: ad.UnaryEncoding(k, 1.0),
    "LocalHashing": lambda k: ad.LocalHashing(k, 1.0),
    "HadamardResponse": lambda k: ad.HadamardResponse(k, 1.0),
    "SetFamily": lambda k: ad.SetFamily([[i, (i + 1) % k, (i + 2) % k] for i in range(k)], [1] * k, 1.0),
    "Channel": lambda k: ad.Channel(nearby(k)),
}
# Where the paper's SGLD is 0.14 to 0.22 from the posterior mean (K, ε, ρ); see validation/RESULTS.md.
FAR = [(10, 0.5, 1.0), (10, 0.5, 0.1), (10, 1.0, 1.0), (20, 0.5, 1.0), (20, 0.5, 0.1), (20, 1.0, 1.0)]


def nearby(k):
    """Return a matrix that answers with categories close to the truth more often."""
    weights = np.exp(-0.5 * np.abs(np.arange(k)[:, None] - np.arange(k)))
    return weights / weights.sum(axis=0)


def adaptive_answers(k, epsilon, kappa, rho, seed):
    theta = np.random.default_rng(1000 + seed).dirichlet(np.full(k, rho))
    mechanism = ad.RRRR(k, epsilon, kappa)
    return ad.simulate_adaptive(
        theta / theta.sum(), ad.AdaptiveSubset(mechanism, "honest"), n_people=500 * k, random_seed=seed
    ).responses


def subset_answers(k, n, seed=0):
    rng = np.random.default_rng(seed)
    mechanism = ad.SubsetSelection(k, 1.0)
    x = rng.choice(k, size=n, p=rng.dirichlet(np.ones(k)))
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))


def timed(responses, sampler, **settings):
    """Return draws, seconds, and the smallest bulk ESS of a category."""
    start = time.perf_counter()
    tree = ad.sample(responses, sampler, **(QUIET | settings))
    seconds = time.perf_counter() - start
    return tree, seconds, float(array_stats.ess(tree["posterior"]["theta"].values, 0, 1, method="bulk").min())


def against_nuts(full, seed=0):
    """Grade the draws in the paper's settings, and count effective draws a second."""
    timed(adaptive_answers(10, 1.0, 0.9, 1.0, 0), "nuts", draws=20, tune=20)
    timed(adaptive_answers(10, 1.0, 0.9, 1.0, 0), "sgld_cv", draws=20, tune=100)
    rows, passed, slower = [], 0, 0
    for j in range(len(PAPER)) if full else QUICK:
        k, epsilon, kappa, rho = PAPER[j]
        responses = adaptive_answers(k, epsilon, kappa, rho, seed + j)
        nuts, nuts_seconds, nuts_ess = timed(responses, "nuts", random_seed=j)
        tree, seconds, ess = timed(responses, "sgld_cv", random_seed=j)
        verdict = ad.diagnostics.compare({"nuts": nuts, "cv": tree}, reference="nuts")["verdict"].values[1]
        chosen = json.loads(tree.attrs["sampler_choices"])
        ratio = (ess / seconds) / (nuts_ess / nuts_seconds)
        passed, slower = passed + verdict.startswith("indistinguishable"), slower + (ratio < 1)
        settings = f"{k}, {epsilon:g}, {kappa:g}, {rho:g}"
        cells = [shown("{:.2f}", chosen["step"]), chosen["batch"], shown("{:.0f} in {:.2f} s", ess, seconds)]
        rows.append(
            [settings, responses.evidence().n_rows, *cells, shown("{:.0f} in {:.2f} s", nuts_ess, nuts_seconds)]
        )
        rows[-1] += [shown("{:.1f}×", ratio), verdict]
    headings = ["K, ε, κ, ρ", "rows", "step", "batch", "ESS", "NUTS", "ESS/s over NUTS's", "verdict"]
    show("against_nuts", headings, rows, record=full)
    print(f"Indistinguishable in {passed} of {len(rows)}; fewer effective draws a second than NUTS in {slower}.\n")


@njit
def draw_numbers(state, k, batch, threshold, alias, repeats):
    """Draw what `repeats` updates need: K normal numbers, and rows by their counts."""
    total, size = 0.0, np.uint64(threshold.size)
    for _ in range(repeats):
        for _ in range(k):
            total += normal(state)
        for _ in range(batch):
            word = next_word(state)
            u = np.int64(((word >> np.uint64(32)) * size) >> np.uint64(32))
            if np.float64(np.int64(word & np.uint64(0xFFFFFFFF))) * 2.0**-32 >= threshold[u]:
                u = np.int64(alias[u])
            total += u
    return total


def least_seconds(call, repeats=40):
    """Return the least time of this thread's own over many short calls: others on the machine do not count."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        timings.append(time.thread_time() - start)
    return min(timings)


def update_cost(evidence, batch=None, updates=1000):
    """Return seconds of an update, those of its random numbers, and the batch."""
    k = evidence.n_categories
    chain = Chains(evidence, np.ones(k), 2, 1)
    chain.learn(chain.run(200, lambda run: run.is_finite(), None).draws)
    state, x, momentum, force, virial = seed_state(1), chain.x[0], np.zeros(k), np.empty(k), np.zeros(k)
    batch, step, rows = chain.choices.batch if batch is None else batch, 0.5 * chain.choices.step, chain.rows
    draws = np.empty((1, k))

    def run():
        underdamped_draws(state, x, momentum, chain.target, batch, step, 1.0, updates, draws, force, virial)

    numbers = least_seconds(lambda: draw_numbers(state, k, batch, rows.threshold, rows.alias, updates))
    return least_seconds(run) / updates, numbers / updates, batch


def costs(full, seed=0):
    """Time an update against the number of answers, and against its random numbers."""
    rows = []
    collapsed = adaptive_answers(20, 1.0, 0.9, 1.0, 29).evidence()
    for times in (1, 10, 100, 1000):
        evidence = collapsed._replace(count=collapsed.count * times)
        rows.append(["adaptive RRRR", evidence.n_responses, evidence.n_rows, *update_cost(evidence)])
    rows.append(["adaptive RRRR, m = 50", collapsed.n_responses, collapsed.n_rows, *update_cost(collapsed, 50)])
    for n in (10_000, 100_000, 1_000_000) if full else (10_000, 100_000):
        evidence = subset_answers(20, n).evidence()
        wide = subset_answers(100, n).evidence()
        rows.append(["SubsetSelection, K = 20", n, evidence.n_rows, *update_cost(evidence)])
        rows.append(["SubsetSelection, K = 100", n, wide.n_rows, *update_cost(wide)])
    table = [
        [
            name,
            shown("{:,}", n),
            shown("{:,}", u),
            batch,
            shown("{:.2f}", 1e6 * seconds),
            shown("{:.1f}×", seconds / numbers),
        ]
        for name, n, u, seconds, numbers, batch in rows
    ]
    show("cost", ["answers", "n", "rows", "batch", "µs an update", "over its random numbers"], table, record=full)


@njit
def by_hand(base, own, inside, category, begin, end, members, rows, scale, phi, prior, steps, noise):
    """Run the paper's SGLD as somebody would write it for plain arrays: one loop for each sum, and nothing general."""
    slope = np.empty(phi.size)
    for t in range(steps.size):
        total, shared = phi.sum(), 0.0
        for i in range(phi.size):
            slope[i] = (prior[i] - 1.0) / max(phi[i], np.sqrt(steps[t])) - 1.0
        for j in range(rows.shape[1]):
            u, mass = rows[t, j], 0.0
            for m in range(begin[u], end[u]):
                mass += phi[members[m]]
            weight = scale / (base[u] * total + own[u] * phi[category[u]] + inside[u] * mass)
            slope[category[u]] += weight * own[u]
            shared += weight * base[u]
            for m in range(begin[u], end[u]):
                slope[members[m]] += weight * inside[u]
        shared -= scale * rows.shape[1] / total
        for i in range(phi.size):
            phi[i] = abs(phi[i] + 0.5 * steps[t] * (slope[i] + shared) + np.sqrt(steps[t]) * noise[t, i])


def against_hand(full, seed=0):
    """Time updates of the paper's SGLD, on batches of 50 answers, against the same loop written by hand."""
    table = []
    for name in ("SRR", "SubsetSelection", "UnaryEncoding", "LocalHashing", "HadamardResponse"):
        rng = np.random.default_rng(seed)
        mechanism = MECHANISMS[name](20)
        x = rng.choice(20, size=5000, p=rng.dirichlet(np.ones(20)))
        responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
        evidence, row_of = responses.evidence_and_index()
        langevin = Langevin(evidence, row_of, np.ones(20), LangevinSettings.of())
        start, draws = langevin.start(np.random.default_rng(1)), np.empty((1, 20))
        steps, batches, noise = langevin.settings.randomness(np.random.default_rng(2), 0, 1000, (5000,), 20)
        listed = evidence.set_index >= 0
        begin, end = (np.where(listed, evidence.offsets[evidence.set_index + i], 0) for i in (0, 1))
        levels = (evidence.base, evidence.own, evidence.inside, evidence.category, begin, end, evidence.members)
        scale, ends = 5000 / batches.shape[1], {}

        def ours(start=start, langevin=langevin, ends=ends, randomness=(steps, batches, noise), draws=draws):
            ends["ours"] = start.copy()
            langevin.updates(np.random.default_rng(3), ends["ours"], randomness, draws)

        def hand(start=start, levels=levels, ends=ends, rest=(row_of[batches], scale), steps=steps, noise=noise):
            ends["hand"] = start.copy()
            by_hand(*levels, *rest, ends["hand"], np.ones(20), steps, noise)

        seconds = least_seconds(ours, 15) / steps.size, least_seconds(hand, 15) / steps.size
        assert np.allclose(ends["ours"], ends["hand"], rtol=1e-6)
        sizes = np.diff(evidence.offsets)
        members = float(sizes.mean()) if sizes.size else 0.0
        micro = (shown("{:.2f}", 1e6 * each) for each in seconds)
        table.append([name, shown("{:.1f}", members), *micro, shown("{:.2f}×", seconds[0] / seconds[1])])
    show("hand", ["mechanism, K = 20", "members of a set", "µs an update", "by hand", "ratio"], table)


def peak_gib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def many_sets(full, seed=0):
    """Subset selection with K = 100, of which no two answers are alike."""
    rows = []
    for n in (100_000, 1_000_000) if full else (100_000,):
        responses = subset_answers(100, n)
        evidence, before, cpu = responses.evidence(), peak_gib(), time.process_time()
        _, seconds, ess = timed(responses, "sgld_cv", random_seed=1)
        cpu, after = time.process_time() - cpu, peak_gib()
        nuts = "–"
        if n == 100_000:
            # A short run, of one chain: all its draws, those of tuning too, are counted as effective.
            start = time.perf_counter()
            ad.sample(responses, "nuts", draws=20, tune=40, chains=1, random_seed=1, **QUIET)
            rate = 60 / (time.perf_counter() - start)
            nuts = shown("{:.2f}/s at most: {:.0f}×", rate, ess / seconds / rate)
        rows.append(
            [
                shown("{:,}", n),
                evidence.n_rows,
                shown("{:.1f} s ({:.1f} s)", seconds, cpu),
                shown("{:.0f}", ess),
                shown("{:.0f}/s", ess / seconds),
                nuts,
                shown("{:.1f}, {:.1f}", before, after),
            ]
        )
    headings = [
        "n",
        "rows",
        "time (of CPU)",
        "smallest ESS",
        "ESS/s",
        "NUTS's ESS/s, and ratio",
        "peak GiB before, after",
    ]
    show("sets", headings, rows, record=full)


def coverage(full, seed=0):
    """Simulation-based calibration: the share of truths in central 95 % intervals."""

    def fit(responses, seed):
        return ad.sample(responses, "sgld_cv", draws=300, tune=140, chains=2, random_seed=seed, **QUIET)

    rows = []
    for k, (name, make) in itertools.product((4, 10) if full else (4,), MECHANISMS.items()):
        found = ad.diagnostics.calibration(
            fit, make(k), n_people=300, replications=300 if full else 100, random_seed=1 + seed, progressbar=False
        )
        share = float(found["coverage"].sel(level=0.95).mean())
        # Categories of one data set are not independent: the error is at most that of one category.
        error = float(found["coverage_error"].sel(level=0.95).max())
        rows.append(
            [name, k, shown("{:.1%}", share), shown("{:.1%}", error), shown("{:.2f}", float(found["p_value_overall"]))]
        )
    show("coverage", ["mechanism", "K", "coverage of 95 %", "error at most", "p of uniform ranks"], rows, record=full)


def in_the_loop(full, seed=0):
    """Distance of the loop's estimate from the posterior mean of `sample`, and time: the paper's SGLD and exact."""
    rows = []
    for k, epsilon, rho in FAR:
        distances, seconds = {"sgld": [], "exact": []}, {"sgld": [], "exact": []}
        for run, sampler in itertools.product(range(10 if full else 3), distances):
            theta = np.random.default_rng(1000 + seed + run).dirichlet(np.full(k, rho))
            start = time.thread_time()
            found = ad.simulate_adaptive(
                theta / theta.sum(),
                ad.AdaptiveSubset(ad.RRRR(k, epsilon, 0.9), "honest", sampler=sampler),
                random_seed=seed + run,
            )
            seconds[sampler].append(time.thread_time() - start)
            right = ad.sample(found.responses, "sgld_cv", random_seed=1, **QUIET)["posterior"]["theta"]
            distances[sampler].append(0.5 * np.abs(found.chain_mean - right.values.mean(axis=(0, 1))).sum())
        far, near = (
            shown("{:.3f} (at most {:.3f})", np.median(distances[name]), max(distances[name])) for name in distances
        )
        least = {name: min(times) for name, times in seconds.items()}
        ratio = shown("{:.2f}×", least["exact"] / least["sgld"])
        rows.append(
            [f"{k}, {epsilon:g}, {rho:g}", far, near, *(shown("{:.3f} s", value) for value in least.values()), ratio]
        )
    headings = ["K, ε, ρ", "TV of the paper's", "TV of exact", "time of the paper's", "of exact", "ratio"]
    show("loop", headings, rows, record=full)


PARTS = {
    "nuts": against_nuts,
    "loop": in_the_loop,
    "cost": costs,
    "hand": against_hand,
    "sets": many_sets,
    "coverage": coverage,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all settings")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--seed", type=int, default=0, help="of the answers; add 100 or more for fresh ones")
    options = parser.parse_args()
    for name in [options.only] if options.only else PARTS:
        PARTS[name](options.full, options.seed)
