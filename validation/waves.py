"""The same people again: memoized answers keep their bound over any number of waves, naive repetition breaks it.

A guesser knows the shares and sees all answers of a person. How often the best guess is right is summed exactly over
all answers, for 1 to 10 waves: of devices that randomize a permanent answer again in each wave, and of devices that
randomize x anew each time, with the same loss in one wave. Then both attacks are carried out on simulated people. Last,
intervals of the change between two waves are compared with the truth, for people who change.
Exits with 1 if a finding stated below is not reproduced.
"""

import math
import sys
from itertools import combinations_with_replacement

import numpy as np
from scipy import stats

from adobest_pp import SRR, Memoized, Responses, audit, intervals
from adobest_pp.mechanisms import guess_bound
from validation.common import Finding, Options, finding, main, table

THETA = np.array([0.4, 0.3, 0.2, 0.1])
EPSILON, WAVE, WAVES = 2.0, 1.0, 10
PEOPLE, PANELS = {True: 2_000, False: 50_000}, {True: 200, False: 4_000}


def naive_guess(n_waves: int) -> float:
    """Return how often the best guess is right if x is randomized anew in each wave, by summing over answers."""
    matrix = SRR(THETA.size, WAVE).transition_matrix()
    total = 0.0
    for bag in combinations_with_replacement(range(THETA.size), n_waves):
        orders = math.factorial(n_waves) // math.prod(math.factorial(bag.count(y)) for y in range(THETA.size))
        total += orders * float(np.max(THETA * np.prod(matrix[list(bag)], axis=0)))
    return total


def attacked(chances: np.ndarray, x: np.ndarray) -> float:
    """Return how often the likeliest category is the truth."""
    return float(np.mean((chances * THETA).argmax(axis=1) == x))


def covered(panels: int, rng: np.random.Generator) -> int:
    """Return how many intervals of a change contain it, in panels in which a quarter of the people move to the last."""
    mechanism, n, count = Memoized.from_budgets(THETA.size, EPSILON, WAVE, 2), 500, 0
    people, last = np.arange(n), THETA.size - 1
    for _ in range(panels):
        before = rng.choice(THETA.size, size=n, p=THETA)
        after = np.where(rng.random(n) < 0.25, last, before)
        kept = np.asarray(mechanism.permanent.privatize(np.tile(np.arange(THETA.size), (n, 1)), rng=rng))
        waves = [mechanism.instantaneous.privatize(kept[people, x], rng=rng) for x in (before, after)]
        found = intervals.change(Responses.from_arrays(mechanism, np.column_stack(waves))).isel(category=last)
        count += bool(found["lower"] <= 0.25 * (1 - THETA[last]) <= found["upper"])
    return count


def findings(options: Options) -> list[Finding]:
    """Sum, attack and cover."""
    rng = np.random.default_rng(options.seed)
    whole = Memoized.from_budgets(THETA.size, EPSILON, WAVE, WAVES)
    parts = [Memoized(whole.permanent, whole.instantaneous, waves) for waves in range(1, WAVES + 1)]
    audits = [audit(part) for part in parts]
    bound, permanent = guess_bound(EPSILON, THETA), whole.permanent.best_guess(THETA)
    memoized = [part.best_guess(THETA) for part in parts]
    naive = [naive_guess(waves) for waves in range(1, WAVES + 1)]
    print(
        f"Shares {THETA.tolist()}, ε = {EPSILON:g} for all waves, {WAVE:g} for one. The bound of a guess: {bound:.4f}."
    )
    rows = [
        (waves, audits[waves - 1].loss, memoized[waves - 1], waves * WAVE, naive[waves - 1])
        for waves in range(1, WAVES + 1)
    ]
    table(["waves", "loss", "best guess", "loss, naive", "best guess, naive"], rows, digits=4, name="guesses")

    n = PEOPLE[options.quick]
    x = rng.choice(THETA.size, size=n, p=THETA)
    answers = np.asarray(whole.privatize(x, rng=rng))
    right = attacked(whole.chances(answers), x)
    fresh = SRR(THETA.size, WAVE)
    anew = np.column_stack([fresh.privatize(x, rng=rng) for _ in range(WAVES)])
    right_naive = attacked(np.prod(fresh.transition_matrix()[anew], axis=1), x)
    errors = [math.sqrt(p * (1 - p) / n) for p in (memoized[-1], naive[-1])]

    panels = PANELS[options.quick]
    hits = covered(panels, rng)
    test = stats.binomtest(hits, panels, 0.95)
    interval = test.proportion_ci(0.95)
    broken = next(waves for waves, guess in enumerate(naive, start=1) if guess > bound)
    return [
        finding(
            "audit",
            f"memoized answers keep ε = {EPSILON:g} over 1 to {WAVES} waves and {WAVE:g} in one, in exact arithmetic",
            all(each.holds for each in audits) and audit(parts[0], WAVE).holds,
            loss=audits[-1].loss,
        ),
        finding(
            "memoized",
            f"over {WAVES} waves the best guess is right {memoized[-1]:.1%} of the time, below the bound {bound:.1%}, "
            "and never better than from the permanent answer",
            max(memoized) <= permanent <= bound * (1 + 1e-12) and sorted(memoized) == memoized,
            guess=memoized[-1],
            bound=bound,
        ),
        finding(
            "naive",
            f"naive repetition breaks that bound from {broken} waves on, and reaches {naive[-1]:.1%} after {WAVES}",
            naive[-1] > bound and broken <= WAVES,
            guess=naive[-1],
            waves=broken,
        ),
        finding(
            "attack",
            f"attacks on {n:,} simulated people are right as often as summed: {right:.1%} and {right_naive:.1%}",
            abs(right - memoized[-1]) < 4 * errors[0] and abs(right_naive - naive[-1]) < 4 * errors[1],
            memoized=right,
            naive=right_naive,
        ),
        finding(
            "change",
            f"95 % intervals of a change contain it in {hits / panels:.1%} of {panels:,} panels of 500 people",
            test.pvalue > 0.001,
            interval=(interval.low, interval.high),
            coverage=hits / panels,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
