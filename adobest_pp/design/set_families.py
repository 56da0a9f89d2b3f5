"""Families of sets: the convex program for their weights, and the search for the sets.

A family of sets A with weights c_A ≥ 0 is an ε-LDP mechanism if and only if Σ c_A q_A = 1 in every category, with q_A =
1 + a·1_A and a = e^ε − 1. Its precision M(c) = Λ + N·Σ c_A g_A g_Aᵀ is linear in c, so Tr[C M(c)⁻¹] is convex
(docs/math.md, section 8). `solve` finds the weights of given sets by a primal-dual interior-point method, which also
gives a price for each category. `best_family` generates the sets: it adds sets that are worth more than their price
until there is none. Many families are equally good, and the interior solution spreads its weight over all of their
sets. So, at the end, the lightest sets are dropped a few at a time, with the weights solved for again, and a few better
sets are exchanged for the lightest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from adobest_pp._types import Floats, Masks
from adobest_pp.mechanisms.projective_geometry_response import ProjectiveGeometryResponse, coordinates, field_of

MOST_STEPS = 60
# The share of the way to the boundary that a step may go, and the most that a step may cut the mean complementarity.
NEAR, BEST_CUT = 0.99, 0.02
# Weights are feasible if Σ c_A q_A is within this of one in every category.
FEASIBLE = 1e-10
# A warm start: weights are at least this share of equal weights, and weights times slacks this share of the value.
AWAY, CENTERED = 0.03, 0.01
# Corrections of weights that are slightly infeasible after the last step.
BALANCINGS = 3
# A direction with less than the first share of the greatest precision is unknown; one with less than the second share
# of the cost does not matter. Both are rounding errors.
UNKNOWN, ASKED = 1e-12, 1e-9
# Sets below this share of the greatest weight are not published: nobody would ever answer them. If the rest is not
# feasible, because few sets are enough and the other weights are rounding errors, the next share is tried.
NEGLIGIBLE = (1e-9, 1e-6, 1e-4)


@dataclass(frozen=True, eq=False)
class Problem:
    """The objective Tr[C M⁻¹], without the sets."""

    theta: Floats  # (K,), where the information is evaluated; sums to one
    odds: float  # a = e^ε − 1
    precision: Floats  # (K−1, K−1), Λ, what is already known, in the basis
    n_left: float  # N, the answers still to come
    cost: Floats  # (K−1, K−1), C, positive semi-definite, in the basis
    basis: Floats  # (K, K−1), B, of the vectors whose sum is zero

    def directions(self, masks: Masks) -> Floats:
        """Return √N·g_A of each set, of shape (m, K−1)."""
        scale = self.odds * np.sqrt(self.n_left / (1 + self.odds * (masks @ self.theta)))
        return np.asarray(scale[:, None] * (masks @ self.basis))

    def totals(self, masks: Masks) -> Floats:
        """Return the columns q_A = 1 + a·1_A, of shape (K, m)."""
        return np.asarray(1.0 + self.odds * masks.T)


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights of sets, and the prices of the categories."""

    problem: Problem
    masks: Masks  # (m, K), the sets
    weights: Floats  # (m,), c, positive
    prices: Floats  # (K,), λ, the multipliers of Σ c_A q_A = 1

    @cached_property
    def covariance(self) -> Floats:
        """M⁻¹, of shape (K−1, K−1)."""
        g = self.problem.directions(self.masks)
        precision = self.problem.precision + (g.T * self.weights) @ g
        return np.asarray(np.linalg.inv((precision + precision.T) / 2))

    @property
    def value(self) -> float:
        """Tr[C M⁻¹]."""
        return float(np.sum(self.problem.cost * self.covariance))

    def value_of_known_directions(self, problem: Problem) -> float:
        """Return Tr[C M⁺] of these weights for another problem; infinite if C needs a direction that M lacks."""
        g = problem.directions(self.masks)
        values, vectors = np.linalg.eigh(problem.precision + (g.T * self.weights) @ g)
        asked = np.sum(vectors * (problem.cost @ vectors), axis=0)
        known = values > UNKNOWN * values[-1]
        if np.any(asked[~known] > ASKED * asked.sum()):
            return np.inf
        return float(np.sum(asked[known] / values[known]))

    @property
    def variances(self) -> Floats:
        """The variance of each category, of shape (K,)."""
        return variances_of(self.covariance, self.problem.basis)

    @cached_property
    def pull(self) -> Floats:
        """N·B M⁻¹C M⁻¹ Bᵀ, of shape (K, K): a set's gradient is −a²·1_Aᵀ(pull)1_A/(1 + aθ(A))."""
        half = self.problem.basis @ self.covariance
        return np.asarray(self.problem.n_left * half @ self.problem.cost @ half.T)

    def is_feasible(self) -> bool:
        """Tell whether the sets that hold a category have the same total weight for every category."""
        totals = self.problem.totals(self.masks) @ self.weights
        return bool(self.weights.min() > 0 and np.abs(totals - 1).max() < FEASIBLE)

    def without_trifles(self) -> "Solution | None":
        """Return the solution without sets of negligible weight, or None if what is left is not feasible."""
        for share in NEGLIGIBLE:
            heavy = self.weights > share * self.weights.max()
            fewer = replace(self, masks=self.masks[heavy], weights=self.weights[heavy]).balanced()
            if fewer.is_feasible():
                return fewer
        return None

    def balanced(self) -> "Solution":
        """Return feasible weights, up to rounding: each weight changes by as small a share of itself as possible."""
        q, c = self.problem.totals(self.masks), self.weights
        for _ in range(BALANCINGS):
            change = np.linalg.lstsq((q * c) @ q.T, 1.0 - q @ c, rcond=None)[0]
            c = c * np.maximum(1.0 + q.T @ change, 0.5)
        return replace(self, weights=c)

    def lower_bound(self, excess: float) -> float:
        """Return a lower bound on the value of any family, given the greatest `excess` of a set over the prices.

        Prices λ − excess·1 are dual feasible if no set has (λᵀq_A − gradient_A)/Σq_A above the excess. The tangent at c
        lies below the convex function everywhere.
        """
        prices = self.prices - max(excess, 0.0)
        used = self.covariance @ self.problem.cost @ self.covariance
        known = float(np.sum(used * self.problem.precision))
        # gradient·c = −Tr[C M⁻¹(M − Λ)M⁻¹]
        return self.value + float(prices.sum()) + self.value - known


def variances_of(covariance: Floats, basis: Floats) -> Floats:
    """Return the variance of each category from the covariance in the basis, of shape (K,)."""
    return np.asarray(np.sum((basis @ covariance) * basis, axis=1))


def singletons(problem: Problem) -> Solution:
    """Return the family of all singletons, which is feasible for every problem."""
    k = len(problem.theta)
    return Solution(problem, np.eye(k, dtype=bool), np.full(k, 1 / (k + problem.odds)), np.zeros(k))


def solve(problem: Problem, masks: Masks, tolerance: float, near: Solution | None = None) -> Solution:
    """Return the best weights of the given sets, up to a relative error of about `tolerance`.

    The sets must contain a feasible family, for example all singletons; otherwise the result is not feasible. `near` is
    a solution for some of the sets to start from.
    """
    g, q = problem.directions(masks), problem.totals(masks)
    sums = q.sum(axis=0)
    c, prices, z = _begin(problem, masks, q, near)
    for _ in range(MOST_STEPS):
        covariance = _back_substitute(_factor(problem.precision + (g.T * c) @ g), np.eye(g.shape[1]))
        by_inverse = g @ covariance
        costs = by_inverse @ problem.cost @ by_inverse.T
        missing = 1.0 - q @ c
        wrong = -np.diag(costs) - prices @ q - z
        far = float(np.max(np.abs(wrong) / sums)) * len(problem.theta)
        value = float(np.sum(problem.cost * covariance))
        if max(float(c @ z), far) < tolerance * value and np.abs(missing).max() < FEASIBLE:
            break
        hessian = 2.0 * (by_inverse @ g.T) * costs
        hessian[np.diag_indices_from(hessian)] += z / c
        direction = _newton(hessian, q, missing, -wrong - z, c, z)
        # Predict without centering. The better that works, the less centering the step gets.
        dc, _, dz = direction(0.0)
        reach = min(_reach(c, dc), _reach(z, dz))
        mean = float(c @ z) / c.size
        after = float((c + reach * dc) @ (z + reach * dz)) / c.size
        dc, dp, dz = direction(max((after / mean) ** 3, BEST_CUT) * mean)
        step = NEAR * min(_reach(c, dc), _reach(z, dz), 1 / NEAR)
        c, prices, z = c + step * dc, prices + step * dp, z + step * dz
    return Solution(problem, masks, c, prices)


def _begin(problem: Problem, masks: Masks, q: Floats, near: Solution | None) -> tuple[Floats, Floats, Floats]:
    """Return the initial weights, prices and slacks: equal weights, or those of `near`, moved off the boundary."""
    m, k = masks.shape
    c = k / m / q.sum(axis=0)
    if near is None:
        value = Solution(problem, masks, c, np.zeros(k)).value
        return c, np.full(k, -value / k), value / m / c
    known = {mask.tobytes(): weight for mask, weight in zip(near.masks, near.weights, strict=True)}
    c = np.array([max(known.get(mask.tobytes(), 0.0), AWAY * each) for mask, each in zip(masks, c, strict=True)])
    return c, near.prices, CENTERED * near.value / m / c


def _newton(
    hessian: Floats, q: Floats, missing: Floats, rhs: Floats, c: Floats, z: Floats
) -> Callable[[float], tuple[Floats, Floats, Floats]]:
    """Factor the equations of one step; return what solves them for the changes of weights, prices and slacks."""
    factor = _factor(hessian)
    solved = _back_substitute(factor, q.T)
    inner = _factor(q @ solved)

    def direction(complementarity: float) -> tuple[Floats, Floats, Floats]:
        free = _back_substitute(factor, rhs + complementarity / c)
        dp = _back_substitute(inner, missing - q @ free)
        dc = free + solved @ dp
        return dc, dp, (complementarity - z * dc) / c - z

    return direction


def _reach(values: Floats, change: Floats) -> float:
    """Return the longest step up to 1 that keeps all values non-negative."""
    falling = change < 0
    return min(1.0, float(np.min(-values[falling] / change[falling], initial=np.inf)))


def _factor(matrix: Floats) -> Floats:
    """Return the Cholesky factor of a matrix, or of a slightly larger one if rounding made it indefinite.

    This calls LAPACK directly: the matrices are small, and SciPy's checks would take most of the time.
    """
    ridge, scale = 0.0, float(np.trace(matrix)) / len(matrix)
    while True:
        factor, failed = dpotrf(matrix + ridge * np.eye(len(matrix)) if ridge else matrix, lower=1)
        if not failed and np.isfinite(np.trace(factor)):
            return np.asarray(factor)
        if not np.isfinite(matrix).all():
            raise LinAlgError("a matrix of the design has non-finite entries")
        ridge = max(10 * ridge, 1e-14 * scale)


def _back_substitute(factor: Floats, right: Floats) -> Floats:
    """Return the solution of the equations with this Cholesky factor."""
    return np.asarray(dpotrs(factor, right, lower=1)[0])


# The search for the sets: column generation, pruning and exchange.

# Up to this many categories all 2^K sets are tried, which proves the bound. Beyond, there is no bound.
MOST_ENUMERATED = 20
# Up to this many, local search generates the sets. Beyond, that would take minutes.
MOST_GENERATED = 40
# The default certified gap at which to stop, as a share of the value; the most rounds in all, and of local search
# alone.
GAP, MOST_ROUNDS, LOCAL_ROUNDS = 5e-4, 60, 30
# The search is stuck after this many rounds without a smaller gap.
STUCK = 8
# Sets per category: in a published family, in one that is found quickly, and added per round. A family with four is
# up to 6 % behind the best one (K = 16 to 40, ε = 2); with eight it is within 0.1 %.
MOST_SETS, FEW_SETS, NEW_SETS = 8, 4, 2
# Sets with less than this share of the greatest weight are dropped after a round.
LIGHT = 1e-3
# The most rounds of exchange, and how many in a row may gain less than a fifth of the gap; the share of the sets that
# is dropped at a time, up to `MOST_ENUMERATED` categories and beyond. With K = 50 the larger share takes three quarters
# of the time, and values are 0.02 % larger on average. With K = 20 it saves nothing and may cost 1 %.
EXCHANGES, IDLE, DROPPED, DROPPED_OF_MANY = 12, 2, 0.1, 0.25
# How many projective geometries the search starts with.
GEOMETRIES = 3


class Objective:
    """The criterion to minimize: Tr[C M⁻¹], or the largest variance.

    The largest variance is the greatest weighted mean of the variances. So C gets weights that move toward the
    categories with large variances, and a lower bound for any weights is a lower bound for the largest variance.
    """

    def __init__(self, problem: Problem, worst: bool) -> None:
        self.worst = worst
        self.shares = np.full(len(problem.theta), 1 / len(problem.theta))
        self.problem = self._weighted(problem) if worst else problem

    def value(self, solution: Solution) -> float:
        """Return the criterion of a solution."""
        return float(solution.variances.max()) if self.worst else solution.value

    def aim(self, solution: Solution) -> None:
        """If the criterion is the largest variance, give more weight to the categories with larger variances."""
        if self.worst:
            self.shares = self.shares * (solution.variances / solution.variances.max()) ** 2 + 1e-12
            self.shares /= self.shares.sum()
            self.problem = self._weighted(self.problem)

    def _weighted(self, problem: Problem) -> Problem:
        return replace(problem, cost=(problem.basis.T * self.shares) @ problem.basis)


def best_family(
    objective: Objective, epsilon: float, start: Masks, gap: float = GAP, most: int | None = None
) -> tuple[Solution, float]:
    """Return a good family of at most `most` sets (by default 8K), and a lower bound for all families (NaN if K > 20).

    The search stops at a certified `gap` between them, as a share of the value; then surplus sets are dropped.
    """
    k = len(objective.problem.theta)
    most = MOST_SETS * k if most is None else most
    rng = np.random.default_rng(k)
    families = _families(k, epsilon)
    single = np.eye(k, dtype=bool)
    asked = _asked_about(objective.problem) if k > MOST_ENUMERATED else start[:0]
    if k <= MOST_ENUMERATED or (k <= MOST_GENERATED and most > FEW_SETS * k):
        everything, bound = _generate(objective, np.concatenate([single, asked, start, *families]), rng, gap)
        first = pruned(everything, most, gap)
    else:
        starts = [np.concatenate([single, asked, each]) for each in (start, *families)]
        first, bound = min((_solve_for(objective, masks, gap) for masks in starts), key=objective.value), math.nan
    return _exchange(objective, first, rng, gap, most), bound


def _families(k: int, epsilon: float) -> list[Masks]:
    """Return families to start with: projective geometries and, for small K, intervals on a circle."""
    wanted = math.exp(epsilon) + 1
    orders = sorted(ORDERS, key=lambda order: abs(math.log(order / wanted)))
    # Where all sets are tried, geometries of very different orders do not help.
    near = orders[:GEOMETRIES] if k <= MOST_ENUMERATED else orders
    small = [order for order in near if n_hyperplanes(k, order) <= (FEW_SETS - 1) * k]
    families = [hyperplanes(k, order) for order in small[:GEOMETRIES]]
    if k <= MOST_ENUMERATED:
        size = min(max(round(k / wanted), 1), k - 1)
        places = (np.arange(k)[:, None] + np.arange(k)) % k
        families += [places < each for each in sorted({size, max(size // 2, 1), min(2 * size, k - 1)})]
    return families


def _asked_about(problem: Problem) -> Masks:
    """Return the two sides of each contrast, the categories that it adds or subtracts, if C has few contrasts."""
    values, vectors = np.linalg.eigh(problem.cost)
    asked = values > 1e-9 * values[-1]
    if asked.all():
        return np.zeros((0, len(problem.theta)), dtype=bool)
    contrasts = (problem.basis @ vectors[:, asked]).T
    return np.concatenate([contrasts > 0, contrasts < 0])


def _solve_for(objective: Objective, masks: Masks, tolerance: float, near: Solution | None = None) -> Solution:
    return solve(objective.problem, np.unique(masks, axis=0), tolerance, near)


def _generate(objective: Objective, masks: Masks, rng: np.random.Generator, wanted: float) -> tuple[Solution, float]:
    """Return the best family up to the wanted gap, and the bound that certifies it (NaN for large K).

    Local search finds the sets to add. All sets are tried only for the bound, when local search seems to be done, and
    when it is stuck. From then on no set is dropped, because the same sets would come and go.
    """
    k = masks.shape[1]
    bound, least, idle, tolerance, all_sets = -math.inf, 1.0, 0, 0.1, False
    best, solution = singletons(objective.problem), None
    for left in reversed(range(MOST_ROUNDS)):
        solution = _solve_for(objective, masks, tolerance, solution)
        family = solution.without_trifles() or best
        if better := objective.value(family) < objective.value(best):
            best = family
        found, excess = worth_adding(solution, rng, all_sets)
        gap = 1 - solution.lower_bound(float(excess.max())) / objective.value(best)
        idle = 0 if gap < 0.99 * least else idle + 1
        least = min(gap, least)
        stuck = idle > STUCK or (not all_sets and left < MOST_ROUNDS - LOCAL_ROUNDS)
        supposed = gap < wanted or stuck or not left
        if supposed and k > MOST_ENUMERATED:
            return best, math.nan
        if supposed and not all_sets:
            found, excess = worth_adding(solution, rng)
        if supposed or all_sets:
            bound = max(bound, solution.lower_bound(float(excess.max())))
            gap = 1 - bound / objective.value(best)
        if gap < wanted or (stuck and all_sets):
            break
        if stuck:
            all_sets, least, idle = True, 1.0, 0
        heavy = solution.masks
        if better and not all_sets:
            heavy = heavy[solution.weights > LIGHT * solution.weights.max()]
        new = _new_sets(heavy, found, excess, NEW_SETS * k)
        # If there are no new sets, the weights are not accurate enough yet.
        tolerance = min(tolerance, max(wanted / 5, 0.1 * gap)) if len(new) else 0.1 * tolerance
        masks = np.concatenate([np.eye(k, dtype=bool), heavy, new])
        objective.aim(solution)
    return best, bound


def pruned(solution: Solution, most: int, gap: float = GAP) -> Solution:
    """Return a solution with at most `most` sets: drop the lightest, a few at a time, while the rest is feasible."""
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


def _exchange(objective: Objective, solution: Solution, rng: np.random.Generator, gap: float, most: int) -> Solution:
    """Add better sets and drop the lightest, for some rounds; return the best family."""
    k, best, idle = len(objective.problem.theta), solution.without_trifles() or singletons(objective.problem), 0
    for _ in range(EXCHANGES):
        objective.aim(solution)
        found, excess = worth_adding(replace(solution, problem=objective.problem), rng, enumerate_all=False)
        new = _new_sets(solution.masks, found, excess, k)
        if not len(new) and not objective.worst:
            break
        more = _solve_for(objective, np.concatenate([solution.masks, new]), gap, solution)
        solution = pruned(more, most, gap)
        family = solution.without_trifles() or best
        gain = 1 - objective.value(family) / objective.value(best)
        best = family if gain > 0 else best
        idle = 0 if gain > gap / 5 else idle + 1
        if idle >= IDLE:
            break
    return best


def worth_adding(solution: Solution, rng: np.random.Generator, enumerate_all: bool = True) -> tuple[Masks, Floats]:
    """Return sets with a large excess over the prices, and their excesses; the largest of all with `enumerate_all`."""
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


def _new_sets(have: Masks, found: Masks, excess: Floats, most: int) -> Masks:
    """Return the sets with the greatest positive excess that are not in `have`."""
    known = {mask.tobytes() for mask in have}
    ranked = np.argsort(-excess, kind="stable")
    new = [i for i in ranked if excess[i] > 0 and found[i].tobytes() not in known]
    return found[new[:most]]


# Which set is worth adding to a family, by enumeration or by local search, compiled.
#
# The excess of a set A over the prices λ is
#
#     (λᵀq_A + a²·1_AᵀP1_A/(1 + aθ(A))) / Σq_A,    q_A = 1 + a·1_A,
#
# with P as in `Solution.pull`. A family is optimal if no set has a positive excess (docs/math.md, section 8).


@njit(cache=True, inline="always")
def _excess(quadratic, mass, price, size, total, n, odds):  # type: ignore[no-untyped-def]
    """Return the excess of a set from 1ᵀP1, θ(A), λ(A), |A|, Σλ and K."""
    return (total + odds * price + odds * odds * quadratic / (1.0 + odds * mass)) / (n + odds * size)


@njit(cache=True, inline="always")
def _flip(i, member, by_pull, pull, theta, prices, quadratic, mass, price, size):  # type: ignore[no-untyped-def]
    """Add category i to a set or remove it, in place; return the new 1ᵀP1, θ(A), λ(A) and |A|."""
    sign = -1.0 if member[i] else 1.0
    quadratic += 2.0 * sign * by_pull[i] + pull[i, i]
    member[i] = not member[i]
    for j in range(theta.size):
        by_pull[j] += sign * pull[i, j]
    return quadratic, mass + sign * theta[i], price + sign * prices[i], size + int(sign)


@njit(cache=True)
def greatest_excess(pull, theta, prices, odds, best):  # type: ignore[no-untyped-def]
    """Return the greatest excess of the sets of each size 0 … K; write these sets into `best`, masks of shape (K+1, K).

    This visits all 2^K sets in the order of a Gray code, O(2^K·K).
    """
    n = theta.size
    member, by_pull = np.zeros(n, dtype=np.bool_), np.zeros(n)
    greatest = np.full(n + 1, -np.inf)
    total = prices.sum()
    quadratic, mass, price, size = 0.0, 0.0, 0.0, 0
    greatest[0] = _excess(0.0, 0.0, 0.0, 0, total, n, odds)
    best[0] = False
    for code in range(1, 1 << n):
        i, low = 0, code
        while low & 1 == 0:
            low >>= 1
            i += 1
        quadratic, mass, price, size = _flip(i, member, by_pull, pull, theta, prices, quadratic, mass, price, size)
        found = _excess(quadratic, mass, price, size, total, n, odds)
        if found > greatest[size]:
            greatest[size] = found
            best[size] = member
    return greatest


@njit(cache=True)
def climb(pull, theta, prices, odds, members, found):  # type: ignore[no-untyped-def]
    """Improve each set in place, one category at a time, until no single change helps; write the excesses."""
    n = theta.size
    total = prices.sum()
    by_pull = np.empty(n)
    for s in range(len(members)):
        member = members[s]
        by_pull[:] = 0.0
        mass, price, size = 0.0, 0.0, 0
        for i in range(n):
            if member[i]:
                mass += theta[i]
                price += prices[i]
                size += 1
                for j in range(n):
                    by_pull[j] += pull[i, j]
        quadratic = 0.0
        for i in range(n):
            if member[i]:
                quadratic += by_pull[i]
        now = _excess(quadratic, mass, price, size, total, n, odds)
        while True:
            where, highest = -1, now + 1e-15 * abs(now)
            for i in range(n):
                sign = -1.0 if member[i] else 1.0
                after = quadratic + 2.0 * sign * by_pull[i] + pull[i, i]
                value = _excess(after, mass + sign * theta[i], price + sign * prices[i], size + sign, total, n, odds)
                if value > highest:
                    where, highest = i, value
            if where < 0:
                break
            quadratic, mass, price, size = _flip(
                where, member, by_pull, pull, theta, prices, quadratic, mass, price, size
            )
            now = highest
        found[s] = now


# Hyperplanes of projective geometries: few sets, in which all pairs of categories meet equally often. For an order q
# near e^ε + 1 they are nearly as good as subset selection with all sets of its size (see
# `adobest_pp.mechanisms.projective_geometry_response`). The search starts with them.

# The numbers of elements of the fields: primes and powers of primes.
ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13)


def hyperplanes(k: int, order: int) -> Masks:
    """Return the hyperplanes of the smallest projective geometry of this order with K points, as masks of shape (m, K).

    Each point is in equally many hyperplanes, and so is each pair of points.
    """
    t = ProjectiveGeometryResponse(k, 1.0, order).dimension
    points = coordinates(np.concatenate([np.arange(order**j, 2 * order**j) for j in reversed(range(t))]), order, t)
    # Neighboring points lie on common planes. In random order, the sets have more similar sizes.
    held = points[np.random.default_rng(order).permutation(len(points))[:k]]
    return np.asarray(field_of(order).dot(points[:, None], held) == 0)


def n_hyperplanes(k: int, order: int) -> int:
    """Return the number of hyperplanes of that geometry, which is also its number of points."""
    return ProjectiveGeometryResponse(k, 1.0, order).n_outputs
