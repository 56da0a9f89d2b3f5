"""Sets that are generated as they are needed.

Weights of some sets are solved for (`set_program`), which gives a price for each category; sets that are worth more
than their price are added (`set_search`), until no set is. Many families are equally good, and the interior solution
spreads its weight over all of their sets. So, before one is published, the lightest sets are dropped a few at a time,
with weights solved for again, and a few better sets exchanged for the lightest.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adobest_pp.design.geometries import ORDERS, hyperplanes, n_hyperplanes
from adobest_pp.design.set_program import Problem, Solution, singletons, solve
from adobest_pp.design.set_search import climb, greatest_excess

__all__ = ["GAP", "MOST_ENUMERATED", "MOST_SETS", "Target", "best_family"]

# Up to so many categories all 2^K sets are tried, so that the bound is a proof; beyond, none is given.
MOST_ENUMERATED = 20
# The certified gap at which to stop by default, as a share of the value; rounds at most, and those of local search.
GAP, MOST_ROUNDS, LOCAL_ROUNDS = 5e-4, 60, 30
# Rounds in which the gap does not become smaller, after which it will not.
STUCK = 8
# Sets in a published family, and those that a round adds, for each category.
MOST_SETS, NEW_SETS = 4, 2
# Sets with less than this share of the greatest weight are not taken to the next round.
LIGHT = 1e-3
# Rounds of exchange, and those without a gain of a fifth of the gap after which they end; the share of the sets that is
# dropped at a time, where all sets are tried and beyond. With K = 50 the larger share takes three quarters of the time
# for values that are 0.02 % larger on average; with K = 20 it saves nothing and may cost 1 %.
EXCHANGES, IDLE, DROPPED, DROPPED_OF_MANY = 12, 2, 0.1, 0.25
# Orders of projective geometries that begin the search.
GEOMETRIES = 3

Masks = NDArray[np.bool_]


class Target:
    """What is made small: Tr[C M⁻¹]; or the largest variance, for which C is moved towards the largest ones.

    The largest variance is the greatest of all weighted means, so the bound of any weights C is a bound of it.
    """

    def __init__(self, problem: Problem, worst: bool) -> None:
        self.worst = worst
        self.shares = np.full(len(problem.theta), 1 / len(problem.theta))
        self.problem = self._weighted(problem) if worst else problem

    def value(self, solution: Solution) -> float:
        """Return the criterion of a solution."""
        return float(solution.variances.max()) if self.worst else solution.value

    def aim(self, solution: Solution) -> None:
        """Give more weight to the categories with larger variances, where the largest counts."""
        if self.worst:
            self.shares = self.shares * (solution.variances / solution.variances.max()) ** 2 + 1e-12
            self.shares /= self.shares.sum()
            self.problem = self._weighted(self.problem)

    def _weighted(self, problem: Problem) -> Problem:
        return replace(problem, cost=(problem.basis.T * self.shares) @ problem.basis)


def best_family(target: Target, epsilon: float, start: Masks, gap: float = GAP) -> tuple[Solution, float]:
    """Return a good family of at most 4K sets, and what no family goes below (NaN for large K).

    The search ends at a certified `gap` between them, as a share of the value, before the sets are made fewer.
    """
    k = len(target.problem.theta)
    rng = np.random.default_rng(k)
    families = _families(k, epsilon)
    single = np.eye(k, dtype=bool)
    if k <= MOST_ENUMERATED:
        everything, bound = _generate(target, np.concatenate([single, start, *families]), rng, gap)
        first = pruned(everything, MOST_SETS * k, gap)
    else:
        asked = _asked_about(target.problem)
        starts = [np.concatenate([single, asked, each]) for each in (start, *families)]
        first, bound = min((_solved(target, masks, gap) for masks in starts), key=target.value), math.nan
    return _exchange(target, first, rng, gap), bound


def _families(k: int, epsilon: float) -> list[Masks]:
    """Return families to begin with: geometries, and intervals on a circle where K is small."""
    wanted = math.exp(epsilon) + 1
    orders = sorted(ORDERS, key=lambda order: abs(math.log(order / wanted)))
    # Where all sets are tried, geometries far from what is wanted are of no use.
    near = orders[:GEOMETRIES] if k <= MOST_ENUMERATED else orders
    small = [order for order in near if n_hyperplanes(k, order) <= (MOST_SETS - 1) * k]
    families = [hyperplanes(k, order) for order in small[:GEOMETRIES]]
    if k <= MOST_ENUMERATED:
        size = min(max(round(k / wanted), 1), k - 1)
        places = (np.arange(k)[:, None] + np.arange(k)) % k
        families += [places < each for each in sorted({size, max(size // 2, 1), min(2 * size, k - 1)})]
    return families


def _asked_about(problem: Problem) -> Masks:
    """Return the two sides of each contrast, where there are few: the categories that it adds or subtracts."""
    values, vectors = np.linalg.eigh(problem.cost)
    asked = values > 1e-9 * values[-1]
    if asked.all():
        return np.zeros((0, len(problem.theta)), dtype=bool)
    contrasts = (problem.basis @ vectors[:, asked]).T
    return np.concatenate([contrasts > 0, contrasts < 0])


def _solved(target: Target, masks: Masks, tolerance: float, near: Solution | None = None) -> Solution:
    return solve(target.problem, np.unique(masks, axis=0), tolerance, near)


def _generate(target: Target, masks: Masks, rng: np.random.Generator, wanted: float) -> tuple[Solution, float]:
    """Return the best weights of all sets, up to the gap that is wanted, and the bound that says so.

    Local search finds the sets to add. All sets are tried only where it supposes to be done, for the bound, and where
    it comes no further: then no set is dropped any more, since the same ones would come and go.
    """
    k = masks.shape[1]
    bound, least, idle, tolerance, all_sets = -math.inf, 1.0, 0, 0.1, False
    best, solution = singletons(target.problem), None
    for left in reversed(range(MOST_ROUNDS)):
        solution = _solved(target, masks, tolerance, solution)
        family = solution.without_trifles() or best
        if better := target.value(family) < target.value(best):
            best = family
        found, excess = worth_adding(solution, rng, all_sets)
        gap = 1 - solution.lower_bound(float(excess.max())) / target.value(best)
        idle = 0 if gap < 0.99 * least else idle + 1
        least = min(gap, least)
        stuck = idle > STUCK or (not all_sets and left < MOST_ROUNDS - LOCAL_ROUNDS)
        supposed = gap < wanted or stuck or not left
        if supposed and not all_sets:
            found, excess = worth_adding(solution, rng)
        if supposed or all_sets:
            bound = max(bound, solution.lower_bound(float(excess.max())))
            gap = 1 - bound / target.value(best)
        if gap < wanted or (stuck and all_sets):
            break
        if stuck:
            all_sets, least, idle = True, 1.0, 0
        heavy = solution.masks
        if better and not all_sets:
            heavy = heavy[solution.weights > LIGHT * solution.weights.max()]
        new = _new_sets(heavy, found, excess, NEW_SETS * k)
        # Without new sets it is the weights that are not good enough yet.
        tolerance = min(tolerance, max(wanted / 5, 0.1 * gap)) if len(new) else 0.1 * tolerance
        masks = np.concatenate([np.eye(k, dtype=bool), heavy, new])
        target.aim(solution)
    return best, bound


def pruned(solution: Solution, most: int, gap: float = GAP) -> Solution:
    """Return a solution with at most so many sets: the lightest are dropped, a few at a time, as far as is feasible."""
    k = len(solution.problem.theta)
    dropped = DROPPED if k <= MOST_ENUMERATED else DROPPED_OF_MANY
    while len(solution.masks) > most:
        n = max(most, int((1 - dropped) * len(solution.masks)))
        heavy = np.argsort(-solution.weights, kind="stable")[:n]
        fewer = solve(solution.problem, solution.masks[heavy], gap / 5, solution)
        if not fewer.is_feasible():
            both = np.concatenate([np.eye(k, dtype=bool), solution.masks[heavy[: most - k]]])
            return solve(solution.problem, np.unique(both, axis=0), gap / 5, solution)
        solution = fewer
    return solution


def _exchange(target: Target, solution: Solution, rng: np.random.Generator, gap: float) -> Solution:
    """Return the best of some rounds that add sets and drop the lightest."""
    k, best, idle = len(target.problem.theta), solution.without_trifles() or singletons(target.problem), 0
    for _ in range(EXCHANGES):
        target.aim(solution)
        found, excess = worth_adding(replace(solution, problem=target.problem), rng, enumerate_all=False)
        new = _new_sets(solution.masks, found, excess, k)
        if not len(new) and not target.worst:
            break
        more = _solved(target, np.concatenate([solution.masks, new]), gap, solution)
        solution = pruned(more, MOST_SETS * k, gap)
        family = solution.without_trifles() or best
        gain = 1 - target.value(family) / target.value(best)
        best = family if gain > 0 else best
        idle = 0 if gain > gap / 5 else idle + 1
        if idle >= IDLE:
            break
    return best


def worth_adding(
    solution: Solution, rng: np.random.Generator, enumerate_all: bool = True
) -> tuple[Masks, NDArray[np.float64]]:
    """Return sets with a large excess over the prices, and their excesses; the largest of all if all are enumerated."""
    problem, k = solution.problem, len(solution.problem.theta)
    parts = (solution.pull, problem.theta, solution.prices, problem.odds)
    used = solution.masks[solution.weights > 0.01 * solution.weights.max()]
    members = np.concatenate([used, rng.random((2 * k, k)) < rng.random((2 * k, 1))])
    excess = np.empty(len(members))
    climb(*parts, members, excess)
    if enumerate_all:
        best = np.zeros((k + 1, k), dtype=bool)
        excess = np.concatenate([excess, greatest_excess(*parts, best)])
        members = np.concatenate([members, best])
    members, first = np.unique(members, axis=0, return_index=True)
    return members, excess[first]


def _new_sets(have: Masks, found: Masks, excess: NDArray[np.float64], most: int) -> Masks:
    """Return the sets of the greatest excess that are not there yet."""
    known = {mask.tobytes() for mask in have}
    ranked = np.argsort(-excess, kind="stable")
    new = [i for i in ranked if excess[i] > 0 and found[i].tobytes() not in known]
    return found[new[:most]]
