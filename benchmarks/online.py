"""The online loop: an update against its draws, runs against NumPy, growth, rounds, and the two exact kernels.

Run with ``python benchmarks/online.py`` (some minutes), or with the letters of the parts wanted, as in
``python benchmarks/online.py ab``.
"""

import sys
import time
import tracemalloc

import numpy as np
from numba import njit
from timing import Rows, Shown, show, shown

from adobest_pp import RRRR, Responses, select_subset
from adobest_pp._numerics import integer, normal, seed_state
from adobest_pp.adaptive.hamiltonian import hamiltonian_updates, new_exact_state
from adobest_pp.adaptive.langevin import langevin_updates, new_workspace
from adobest_pp.adaptive.records import FIRST_SET, KINDS, ROWS, new_records, publish, record, reserve
from adobest_pp.collect import Collection
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.design import UTILITY_CODES
from adobest_pp.samplers.gibbs import gibbs_draws
from adobest_pp.simulate import simulate_adaptive

K, M, BATCH, EPSILON = 20, 20, 50, 1.0


# ---------------------------------------------------------------- (a) one update against its draws
@njit(cache=True)
def draws_alone(state, n_updates, n, m, k, indices, noise):  # type: ignore[no-untyped-def]
    """Draw and store what `n_updates` updates draw, and do nothing with it."""
    for _ in range(n_updates):
        for i in range(m):
            indices[i] = integer(state, n)
        for i in range(k):
            noise[i] = normal(state)


def records_of(responses, *, counted=False):  # type: ignore[no-untyped-def]
    """Return the records of the loop for responses to an RRRR mechanism."""
    coefficients = responses.mechanism.coefficients
    masks, sizes = responses.subsets, responses.subsets.sum(axis=1)
    orders = [np.argsort(~mask, kind="stable") for mask in masks]
    records = reserve(new_records(coefficients, counted=counted), coefficients, len(responses), len(masks))
    kinds = [publish(records, order, size, coefficients) for order, size in zip(orders, sizes, strict=True)]
    for answer, v in zip(responses.answers, responses.subset_index, strict=True):
        record(records, answer, kinds[v], sizes[v])
    return records


def update_cases(k: int = K, n: int = 10_000) -> dict[str, tuple[object, np.ndarray]]:
    """Return records as three ways of collecting leave them, with a φ that fits."""
    theta = np.sort(np.random.default_rng(1).dirichlet(np.ones(k)))[::-1]
    mechanism = RRRR(k, EPSILON)
    settled, rng = select_subset(theta, mechanism, "honest"), np.random.default_rng(2)
    one_set = mechanism.privatize(rng.choice(k, n, p=theta), subset=settled, rng=rng)
    runs = {
        "nonadaptive": simulate_adaptive(
            theta, AdaptiveSubset(mechanism, "nonadaptive"), n_people=n, random_seed=1
        ).responses,
        "honest, one settled subset": Responses.from_arrays(mechanism, one_set, settled),
        "honest, a whole run": simulate_adaptive(
            theta, AdaptiveSubset(mechanism, "honest"), n_people=n, random_seed=1
        ).responses,
    }
    return {name: (records_of(responses), theta * k) for name, responses in runs.items()}


def timed(call, *arguments):  # type: ignore[no-untyped-def]
    """Return what a call returns, and its seconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - start


def interleaved(calls: dict[str, object], repeats: int) -> dict[str, float]:
    """Return the least time of each call; the calls take turns, so that other programs slow all of them alike."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()  # type: ignore[operator]
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def update_rows(n_updates: int = 2_000, repeats: int = 200) -> Rows:
    n, state = 10_000, seed_state(1)
    indices, noise, steps = np.empty(BATCH, np.int64), np.empty(K), np.full(n_updates, 0.5 / n)
    cases, prior, work = update_cases(), np.ones(K), new_workspace(K, BATCH)

    def updates(records, phi):  # type: ignore[no-untyped-def]
        return lambda: langevin_updates(state, phi, records, prior, steps, BATCH, phi, n_updates, work)

    calls = {name: updates(records, phi.copy()) for name, (records, phi) in cases.items()}
    calls["floor"] = lambda: draws_alone(state, n_updates, n, BATCH, K, indices, noise)
    best = interleaved(calls, repeats)
    rows = [["the draws alone", "", shown("{:.0f}", best["floor"] / n_updates * 1e9), "1"]]
    for name, (records, _) in cases.items():
        n_sets = int(records.used[KINDS]) - FIRST_SET  # type: ignore[attr-defined]
        rows.append(
            [name, n_sets, shown("{:.0f}", best[name] / n_updates * 1e9), shown("{:.2f}", best[name] / best["floor"])]
        )
    return rows


# ---------------------------------------------------------------- (b) whole runs against NumPy
def numpy_loop(theta: np.ndarray, mechanism: RRRR, choose, n_people: int, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Algorithm 1 as one writes it with NumPy: matrices once for each subset, arrays for a batch."""
    k = theta.size
    phi, rows, matrices = np.ones(k), np.empty((n_people, k)), {}
    for t in range(1, n_people + 1):
        subset = choose(phi / phi.sum())
        key = tuple(sorted(subset.tolist()))
        if key not in matrices:
            matrices[key] = mechanism.transition_matrix(subset)
        matrix = matrices[key]
        rows[t - 1] = matrix[rng.choice(k, p=matrix[:, rng.choice(k, p=theta)])]
        step = 0.5 / t
        for _ in range(M):
            batch = rows[rng.integers(t, size=min(BATCH, t))]
            slope = t / len(batch) * (batch / (batch @ phi)[:, None] - 1 / phi.sum()).sum(axis=0) - 1
            phi = np.abs(phi + step / 2 * slope + np.sqrt(step) * rng.standard_normal(k))
    return phi / phi.sum()


def numpy_choice(utility: str, mechanism: RRRR, *, matrices_once: bool):  # type: ignore[no-untyped-def]
    """Return the choice of a subset by the definition of each utility, over the matrices of the K nested sets.

    The plain program forms these matrices for every choice, as `benchmarks/subset_selection.py` does; a tuned one forms
    them once, since they do not depend on θ.
    """
    k = mechanism.n_categories

    def matrices() -> np.ndarray:
        return np.array([mechanism.transition_matrix(range(size)) for size in range(k)])

    kept = matrices()

    def fisher(g, h, theta):  # type: ignore[no-untyped-def]
        a = g[:, :, :-1] - g[:, :, -1:]
        return -np.trace(np.linalg.inv(np.swapaxes(a, 1, 2) @ (a / h[:, :, None])), axis1=1, axis2=2)

    utilities = {
        "fisher": fisher,
        "entropy": lambda g, h, theta: (h * np.log(h)).sum(axis=1),
        "tv1": lambda g, h, theta: (np.abs(g - h[:, :, None]) @ theta).sum(axis=1) / 2,
        "tv2": lambda g, h, theta: -np.abs(h - theta).sum(axis=1) / 2,
        "mse": lambda g, h, theta: ((g * theta) ** 2 / h[:, :, None]).sum(axis=(1, 2)) - 1,
        "honest": lambda g, h, theta: np.diagonal(g, axis1=1, axis2=2) @ theta,
    }

    def choose(theta):  # type: ignore[no-untyped-def]
        order = np.argsort(-theta)
        ranked = theta[order]
        if utility == "nonadaptive":
            return order[:0]
        if utility == "semi_adaptive":
            return order[: min(int(np.searchsorted(np.cumsum(ranked), 0.9)) + 1, k - 1)]
        nested = kept if matrices_once else matrices()
        return order[: int(np.argmax(utilities[utility](nested, nested @ ranked, ranked)))]

    return choose


def run_rows(n_people: int = 10_000, n_numpy: int = 300, repeats: int = 9) -> Rows:
    theta = np.random.default_rng(1).dirichlet(np.ones(K))
    mechanism = RRRR(K, EPSILON)

    def ours(utility):  # type: ignore[no-untyped-def]
        alpha = 0.9 if utility == "semi_adaptive" else None
        return lambda: simulate_adaptive(
            theta, AdaptiveSubset(mechanism, utility, alpha=alpha, updates=M), n_people=n_people, random_seed=1
        )

    def numpys(utility, once):  # type: ignore[no-untyped-def]
        choose = numpy_choice(utility, mechanism, matrices_once=once)
        return lambda: numpy_loop(theta, mechanism, choose, n_numpy, np.random.default_rng(1))

    calls = {utility: ours(utility) for utility in UTILITY_CODES}
    best = interleaved(calls, repeats)
    plain = interleaved({utility: numpys(utility, False) for utility in UTILITY_CODES}, 2)
    tuned = interleaved({utility: numpys(utility, True) for utility in UTILITY_CODES}, 2)
    rows = []
    for utility in UTILITY_CODES:
        cells = [utility, shown("{:.3f} s", best[utility])]
        for seconds in (plain[utility], tuned[utility]):
            whole = seconds / n_numpy * n_people
            cells += [shown("{:.1f} s", whole), shown("{:.0f}×", whole / best[utility])]
        rows.append(cells)
    return rows


# ---------------------------------------------------------------- (c) growth
def exponent(sizes: list[int], seconds: list[float]) -> Shown:
    return shown("{:.2f}", np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def growth_rows() -> Rows:
    cases = {"K": [10, 30, 100, 300, 1000], "T": [1_000, 3_000, 10_000, 30_000, 100_000], "m": [10, 50, 250, 1_250]}
    rows = []
    for name, sizes in cases.items():
        for utility in ("nonadaptive", "honest"):
            calls = {}
            for size in sizes:
                usual = {"K": K, "T": 5_000, "m": BATCH} | {name: size}
                k, n, m = usual.values()
                theta = np.random.default_rng(1).dirichlet(np.ones(k))
                calls[str(size)] = lambda k=k, n=n, m=m, theta=theta, utility=utility: simulate_adaptive(
                    theta, AdaptiveSubset(RRRR(k, EPSILON), utility, batch_size=m), n_people=n, random_seed=1
                )
            best = interleaved(calls, 3)
            cells = ", ".join(f"{size:,}: {best[str(size)]:.3f}" for size in sizes)
            rows.append([name, utility, cells, exponent(sizes, [best[str(size)] for size in sizes])])
    return rows


# ---------------------------------------------------------------- (d) rounds
def peak_bytes(call) -> int:  # type: ignore[no-untyped-def]
    """Return the most memory that arrays took at a time, in a run of its own: keeping track makes it slower."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def round_rows() -> Rows:
    theta = np.random.default_rng(1).dirichlet(np.ones(K))
    mechanism = RRRR(K, EPSILON)

    def simulated(n):  # type: ignore[no-untyped-def]
        simulate_adaptive(theta, AdaptiveSubset(mechanism, "honest", adapt_every=10_000), n_people=n, random_seed=1)

    def collected(n):  # type: ignore[no-untyped-def]
        policy = AdaptiveSubset(mechanism, "honest", adapt_every=10_000)
        collection = Collection.create(policy=policy, random_seed=1)
        rng = np.random.default_rng(1)
        for _ in range(n // 10_000):
            question = collection.next_question()
            collection.record(question.privatize(rng.choice(K, 10_000, p=theta), rng=rng), question)

    rows = []
    for name, call in (("simulate_adaptive", simulated), ("Collection, with the people's answers", collected)):
        call(20_000)
        for n in (1_000_000, 10_000_000):
            seconds = timed(call, n)[1]
            peak = peak_bytes(lambda call=call, n=n: call(n))
            rows.append(
                [
                    name,
                    shown("{:,}", n),
                    shown("{:.2f} s", seconds),
                    shown("{:.0f} MiB", peak / 2**20),
                    shown("{:.0f}", peak / n),
                ]
            )
    return rows


# ---------------------------------------------------------------- (e) the exact kernel
def effective(draws: np.ndarray) -> float:
    """Return the least effective sample size over the categories, from batches of √n draws."""
    n_batches = int(np.sqrt(len(draws)))
    batches = draws[: n_batches * n_batches].reshape(n_batches, n_batches, -1).mean(axis=1)
    return float((len(draws) * draws.var(axis=0) / (n_batches * batches.var(axis=0, ddof=1))).min())


@njit(cache=True)
def hamiltonian_draws(state, phi, records, prior, exact, draws):  # type: ignore[no-untyped-def]
    """Write θ after every M gradients or a few more, as in the loop, into `draws`; return how many trajectories."""
    trajectories = 0
    for j in range(len(draws)):
        trajectories += hamiltonian_updates(state, phi, records, prior, M, phi, M, exact)[0]
        draws[j] = phi / phi.sum()
    return trajectories


def exact_rows(n_draws: int = 10_000, sweeps: int = 60_000) -> Rows:
    rows = []
    for k, epsilon in [(k, epsilon) for k in (10, 20) for epsilon in (0.5, 1.0, 5.0)]:
        theta = np.random.default_rng(1).dirichlet(np.ones(k))
        responses = simulate_adaptive(theta, AdaptiveSubset(RRRR(k, epsilon, 0.8), "honest"), random_seed=1).responses
        prior, records, evidence = (
            np.ones(k),
            records_of(responses, counted=True),
            responses.evidence(),
        )
        phi, state, exact, draws = theta * k + 0.01, seed_state(1), new_exact_state(prior), np.empty((n_draws, k))
        hamiltonian_draws(state, phi, records, prior, exact, draws[:200])
        trajectories, seconds = timed(hamiltonian_draws, state, phi, records, prior, exact, draws)
        ours = effective(draws)
        # A trajectory takes 1 to 16 steps, all equally likely, and one gradient to start with.
        gradients = 9.5 * trajectories
        rng, at, draws = np.random.default_rng(1), phi / phi.sum(), np.empty((sweeps, k))
        gibbs_draws(rng, at, prior, evidence, draws[:200])
        gibbs_seconds = timed(gibbs_draws, rng, at, prior, evidence, draws)[1]
        gibbs = effective(draws)
        rates = ours / seconds, gibbs / gibbs_seconds
        costs = seconds / gradients, gibbs_seconds / sweeps
        per_call = [
            shown("{:.4f}", ours / gradients),
            shown("{:.4f}", gibbs / sweeps),
            *(shown("{:.2f} µs", cost * 1e6) for cost in costs),
        ]
        per_second = [*(shown("{:,.0f}", rate) for rate in rates), shown("{:.1f}×", rates[0] / rates[1])]
        rows.append([k, epsilon, len(responses.subsets), int(records.used[ROWS]), *per_call, *per_second])
    return rows


PARTS = {
    "a": ("update", update_rows, ["responses as collected by", "sets", "ns an update", "× the draws"]),
    "b": ("run", run_rows, ["utility", "compiled", "NumPy", "ratio", "NumPy, matrices made once", "ratio"]),
    "c": ("growth", growth_rows, ["of", "utility", "seconds", "exponent"]),
    "d": ("rounds", round_rows, ["through", "answers", "time", "peak memory", "bytes an answer"]),
    "e": (
        "exact",
        exact_rows,
        [
            "K",
            "ε",
            "sets",
            "rows",
            "effective draws a gradient",
            "effective draws a sweep",
            "a gradient",
            "a sweep",
            "effective draws a second, Hamiltonian",
            "effective draws a second, Gibbs",
            "ratio",
        ],
    ),
}


def main() -> None:
    for letter in sys.argv[1] if len(sys.argv) > 1 else PARTS:
        name, rows, headings = PARTS[letter]
        show(name, headings, rows())


if __name__ == "__main__":
    main()
