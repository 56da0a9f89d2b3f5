"""The convex program of the best question over sets that are given: a primal-dual interior-point method.

A family of sets A with weights c_A ≥ 0 is an ε-LDP mechanism if and only if Σ c_A q_A = 1 in every category, with
q_A = 1 + a·1_A and a = e^ε − 1. Its precision is linear in c, M(c) = Λ + N·Σ c_A g_A g_Aᵀ, and Tr[C M(c)⁻¹] is convex.
See docs/math.md, section 8.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from adobest_pp._linalg import zero_sum_basis

Floats = NDArray[np.float64]

MOST_STEPS = 60
# How close to the boundary a step may come, and what a step makes of the mean complementarity at best.
NEAR, BEST_CUT = 0.99, 0.02
# How far the weights of the sets that hold a category may be from one.
FEASIBLE = 1e-10
# A search that begins nearby: weights are at least so many times equal ones, and weights times slacks that share of the
# value.
AWAY, CENTERED = 0.03, 0.01
# Corrections of weights that the last step has left a little off.
BALANCINGS = 3
# Directions with less than this share of the greatest precision are unknown, and those with less than this share of
# the cost are not asked about: both are rounding.
UNKNOWN, ASKED = 1e-12, 1e-9
# The share of the greatest weight below which a set is not worth publishing: nobody would ever answer it. Where few
# sets are enough, rounding has a say in the weights of others: then more of them are left out.
NEGLIGIBLE = (1e-9, 1e-6, 1e-4)


def sum_zero_basis(k: int) -> Floats:
    """Return an orthonormal basis (K, K−1) of the vectors whose sum is zero."""
    return zero_sum_basis(k).T


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be made small, whatever the sets.

    Attributes
    ----------
    theta : array of shape (K,)
        Where the information is evaluated; it sums to one.
    odds : float
        a = e^ε − 1.
    precision : array of shape (K−1, K−1)
        Λ, what is known already, in the basis.
    n_left : float
        N, the answers still to come.
    cost : array of shape (K−1, K−1)
        C, positive semi-definite, in the basis.
    basis : array of shape (K, K−1)
        B, of the vectors whose sum is zero.
    """

    theta: Floats
    odds: float
    precision: Floats
    n_left: float
    cost: Floats
    basis: Floats

    def directions(self, masks: NDArray[np.bool_]) -> Floats:
        """Return √N·g_A of each set, of shape (m, K−1)."""
        scale = self.odds * np.sqrt(self.n_left / (1 + self.odds * (masks @ self.theta)))
        return np.asarray(scale[:, None] * (masks @ self.basis))

    def totals(self, masks: NDArray[np.bool_]) -> Floats:
        """Return the columns q_A = 1 + a·1_A, of shape (K, m)."""
        return np.asarray(1.0 + self.odds * masks.T)


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights of sets, and the prices of the categories.

    Attributes
    ----------
    problem : Problem
        What was solved.
    masks : array of bool, shape (m, K)
        The sets.
    weights : array of shape (m,)
        c, positive.
    prices : array of shape (K,)
        λ, the multipliers of Σ c_A q_A = 1.
    slacks : array of shape (m,)
        z, the multipliers of c ≥ 0.
    """

    problem: Problem
    masks: NDArray[np.bool_]
    weights: Floats
    prices: Floats
    slacks: Floats

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
        """Return Tr[C M⁺] of these weights for another problem; infinite if C asks for what M does not tell."""
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
        basis = self.problem.basis
        return np.asarray(np.sum((basis @ self.covariance) * basis, axis=1))

    @cached_property
    def pull(self) -> Floats:
        """N·B M⁻¹C M⁻¹ Bᵀ, of shape (K, K): a set's gradient is −a²·1_Aᵀ(pull)1_A/(1 + aθ(A))."""
        half = self.problem.basis @ self.covariance
        return np.asarray(self.problem.n_left * half @ self.problem.cost @ half.T)

    def is_feasible(self) -> bool:
        """Whether every category is in sets of the same total weight, closely."""
        totals = self.problem.totals(self.masks) @ self.weights
        return bool(self.weights.min() > 0 and np.abs(totals - 1).max() < FEASIBLE)

    def without_trifles(self) -> "Solution | None":
        """Return the solution without sets of negligible weight, or nothing if the others are not feasible then."""
        for share in NEGLIGIBLE:
            heavy = self.weights > share * self.weights.max()
            fewer = Solution(self.problem, self.masks[heavy], self.weights[heavy], self.prices, self.slacks[heavy])
            fewer = fewer.balanced()
            if fewer.is_feasible():
                return fewer
        return None

    def balanced(self) -> "Solution":
        """Return weights that are feasible up to rounding, moved as little as it takes, in proportion to themselves."""
        q, c = self.problem.totals(self.masks), self.weights
        for _ in range(BALANCINGS):
            change = np.linalg.lstsq((q * c) @ q.T, 1.0 - q @ c, rcond=None)[0]
            c = c * np.maximum(1.0 + q.T @ change, 0.5)
        return Solution(self.problem, self.masks, c, self.prices, self.slacks)

    def lower_bound(self, excess: float) -> float:
        """Return what no family of sets goes below, given the greatest `excess` of a set over the prices.

        Prices λ − excess·1 are dual feasible if no set has (λᵀq_A − gradient_A)/Σq_A above the excess. The tangent at c
        is below the convex function everywhere.
        """
        prices = self.prices - max(excess, 0.0)
        used = self.covariance @ self.problem.cost @ self.covariance
        known = float(np.sum(used * self.problem.precision))
        # gradient·c = −Tr[C M⁻¹(M − Λ)M⁻¹]
        return self.value + float(prices.sum()) + self.value - known


def singletons(problem: Problem) -> Solution:
    """Return the family of all sets of one category, which is feasible whatever the problem."""
    k = len(problem.theta)
    return Solution(problem, np.eye(k, dtype=bool), np.full(k, 1 / (k + problem.odds)), np.zeros(k), np.zeros(k))


def solve(problem: Problem, masks: NDArray[np.bool_], tolerance: float, near: Solution | None = None) -> Solution:
    """Return the best weights of the given sets, up to a relative error of about `tolerance`.

    The sets must hold a feasible family, as all singletons do; else what is returned is not feasible. The search begins
    at a solution `near`, of some of the sets, if there is one.
    """
    g, q = problem.directions(masks), problem.totals(masks)
    sums = q.sum(axis=0)
    c, prices, z = _begin(problem, masks, q, near)
    for _ in range(MOST_STEPS):
        covariance = _inverse(problem.precision + (g.T * c) @ g)
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
        newton = _Newton(hessian, q, missing, -wrong - z, c, z)
        # Predict with no centering; the better that goes, the less centering the step gets.
        dc, _, dz = newton.direction(0.0)
        reach = min(_reach(c, dc), _reach(z, dz))
        mean = float(c @ z) / c.size
        after = float((c + reach * dc) @ (z + reach * dz)) / c.size
        dc, dp, dz = newton.direction(max((after / mean) ** 3, BEST_CUT) * mean)
        step = NEAR * min(_reach(c, dc), _reach(z, dz), 1 / NEAR)
        c, prices, z = c + step * dc, prices + step * dp, z + step * dz
    return Solution(problem, masks, c, prices, z)


def _begin(
    problem: Problem, masks: NDArray[np.bool_], q: Floats, near: Solution | None
) -> tuple[Floats, Floats, Floats]:
    """Return weights, prices and slacks to begin with: equal ones, or those of a solution nearby, off the boundary."""
    m, k = masks.shape
    c = k / m / q.sum(axis=0)
    if near is None:
        value = Solution(problem, masks, c, np.zeros(k), np.ones(m)).value
        return c, np.full(k, -value / k), value / m / c
    known = {mask.tobytes(): weight for mask, weight in zip(near.masks, near.weights, strict=True)}
    c = np.array([max(known.get(mask.tobytes(), 0.0), AWAY * each) for mask, each in zip(masks, c, strict=True)])
    return c, near.prices, CENTERED * near.value / m / c


class _Newton:
    """The equations of one step, factored once."""

    def __init__(self, hessian: Floats, q: Floats, missing: Floats, rhs: Floats, c: Floats, z: Floats) -> None:
        self.q, self.missing, self.rhs, self.c, self.z = q, missing, rhs, c, z
        self.factor = _factor(hessian)
        self.solved = _solved(self.factor, q.T)
        self.inner = _factor(q @ self.solved)

    def direction(self, target: float) -> tuple[Floats, Floats, Floats]:
        """Return the changes of weights, prices and slacks that lead to the complementarity `target`."""
        free = _solved(self.factor, self.rhs + target / self.c)
        dp = _solved(self.inner, self.missing - self.q @ free)
        dc = free + self.solved @ dp
        return dc, dp, (target - self.z * dc) / self.c - self.z


def _reach(values: Floats, change: Floats) -> float:
    """Return the longest step up to 1 that keeps all values non-negative."""
    falling = change < 0
    return min(1.0, float(np.min(-values[falling] / change[falling], initial=np.inf)))


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    return _solved(_factor(matrix), np.eye(len(matrix)))


def _factor(matrix: Floats) -> Floats:
    """Return a Cholesky factor, of a slightly larger matrix where rounding asks for it.

    LAPACK is called as it is: the matrices are small, and what SciPy checks of each would take most of the time.
    """
    ridge, scale = 0.0, float(np.trace(matrix)) / len(matrix)
    while True:
        factor, failed = dpotrf(matrix + ridge * np.eye(len(matrix)) if ridge else matrix, lower=1)
        if not failed and np.isfinite(np.trace(factor)):
            return np.asarray(factor)
        if not np.isfinite(matrix).all():
            raise LinAlgError("a matrix of a design has entries that are not finite")
        ridge = max(10 * ridge, 1e-14 * scale)


def _solved(factor: Floats, right: Floats) -> Floats:
    """Return the solution of the equations that a Cholesky factor stands for."""
    return np.asarray(dpotrs(factor, right, lower=1)[0])
