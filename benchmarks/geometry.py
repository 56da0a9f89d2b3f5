"""Projective geometry response and count-mean sketch beside subset selection, for many categories: error, bits, time.

Errors are over subset selection's at equal ε. The variance is that of the best estimate at even shares, the worst case,
by the information of one answer; the simulation has the squared error of estimates from 1,000 answers. Run with
``python benchmarks/geometry.py``; ``--small`` only prints a part.
"""

import math
import sys
from collections.abc import Iterable

import numpy as np
from timing import Rows, best_seconds, show, shown

import adobest_pp as ad
from adobest_pp._numerics import zero_sum_basis
from adobest_pp.likelihood.without_prior import direct_of_counts, named
from adobest_pp.mechanisms import ExtremalMechanism
from adobest_pp.mechanisms.projective_geometry_response import _dimension, _even_error
from adobest_pp.mechanisms.subset_selection import SubsetSelection

SMALL = "--small" in sys.argv
SIZES = (100, 200) if SMALL else (100, 200, 300, 500, 700, 1000)
BUDGETS = (0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)


def least_error(mechanism: SubsetSelection) -> float:
    """Return n times the squared error of subset selection at even shares (Ye and Barg)."""
    k, d, odds = mechanism.n_categories, mechanism.size, math.exp(mechanism.epsilon)
    return (k - 1) ** 2 * (d * odds + k - d) ** 2 / (k * d * (k - d) * (odds - 1) ** 2)


def information(mechanism: ExtremalMechanism) -> np.ndarray:
    """Return the information of one answer about shares that are even, without the direction of their sum."""
    k = mechanism.n_categories
    basis = zero_sum_basis(k)
    return basis @ mechanism.information(np.full(k, 1 / k)) @ basis.T


def error_rows(sizes: tuple[int, ...] = SIZES, budgets: tuple[float, ...] = BUDGETS) -> Rows:
    """Return the order, the points, the bits and the error over subset selection's, by K and ε."""
    rows = []
    for k in sizes:
        for epsilon in budgets:
            best, mechanism = SubsetSelection(k, epsilon), ad.ProjectiveGeometryResponse(k, epsilon)
            error = np.trace(np.linalg.inv(information(mechanism))) / least_error(best)
            bits = [shown("{:.1f}", math.log2(each.n_outputs)) for each in (mechanism, best)]
            rows.append([k, epsilon, mechanism.order, mechanism.n_outputs, *bits, shown("{:.4f}", error)])
    return rows


def worst_rows(sizes: Iterable[int], budgets: Iterable[float]) -> Rows:
    """Return where the error over subset selection's is largest, by how often K has e^ε + 1.

    The formula that the order is chosen by finds the place, and the information has the error there.
    """
    found = []
    for k in sizes:
        for epsilon in budgets:
            order = ad.ProjectiveGeometryResponse(k, epsilon).order
            error = _even_error(k, epsilon, order, _dimension(k, order))
            times = k / (math.exp(epsilon) + 1)
            found.append((error / least_error(SubsetSelection(k, epsilon)), times, k, float(epsilon)))
    rows = []
    for low, high in ((0, 3), (3, 6), (6, 12), (12, 24), (24, math.inf)):
        _, _, k, epsilon = max(each for each in found if low <= each[1] < high)
        _, _, order, points, _, _, error = error_rows((k,), (epsilon,))[0]
        rows.append([f"{low} to {high}" if high < math.inf else f"{low} or more", k, epsilon, order, points, error])
    return rows


def simulated_rows(cases: tuple[tuple[int, float], ...], people: int = 1000, numbers: int = 60_000) -> Rows:
    """Return the squared errors of estimates over those of the formulas, and their ratio, with standard errors."""
    rows = []
    for k, epsilon in cases:
        rng = np.random.default_rng([k, int(100 * epsilon)])
        geometry, selection = ad.ProjectiveGeometryResponse(k, epsilon), SubsetSelection(k, epsilon)
        basis, inverse = zero_sum_basis(k), np.linalg.inv(information(geometry))
        even, odds = np.full(k, 1 / k), math.expm1(epsilon)
        h = 1 + odds * geometry.matvec(even)
        errors = np.empty((max(20, numbers // k), 2))
        for run in range(len(errors)):
            x = rng.integers(k, size=people)
            count = np.bincount(geometry.privatize(x, rng=rng), minlength=geometry.n_outputs)
            # One step of scoring from the truth: unbiased, and as good as the information allows.
            estimate = even + basis.T @ (inverse @ (basis @ (odds * geometry.rmatvec(count / h)))) / people
            chosen = ad.Responses.from_arrays(selection, selection.privatize(x, rng=rng)).evidence()
            direct = direct_of_counts(named(chosen), people, selection)
            errors[run] = np.sum((estimate - even) ** 2), np.sum((direct.estimate - even) ** 2)
        expected = np.array([np.trace(inverse), least_error(selection)]) / people
        mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1) / math.sqrt(len(errors))
        ratio = mean[0] / mean[1]
        error = ratio * math.hypot(*(spread / mean))
        told = [shown("{:.3f}", each) for each in mean / expected]
        rows.append([k, epsilon, len(errors), *told, shown("{:.3f}", ratio), shown("{:.3f}", error)])
    return rows


def time_rows() -> Rows:
    """Return milliseconds for all masses of the answers and for the way back."""
    cases = [ad.HadamardResponse(1000, 2.0), ad.ProjectiveGeometryResponse(1000, 2.0), ad.CountMeanSketch(1000, 2.0)]
    cases += [ad.HadamardResponse(10_000, 2.0)]
    cases += [ad.ProjectiveGeometryResponse(10_000, epsilon) for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0)]
    rows, rng = [], np.random.default_rng(1)
    for mechanism in cases:
        theta, weights = rng.dirichlet(np.ones(mechanism.n_categories)), rng.random(mechanism.n_outputs)
        mechanism.structure()
        there = best_seconds(lambda m=mechanism, v=theta: m.matvec(v), 20)
        back = best_seconds(lambda m=mechanism, v=weights: m.rmatvec(v), 20)
        told = [shown("{:.3f}", 1000 * each) for each in (there, back)]
        rows.append([repr(mechanism), mechanism.n_outputs, *told])
    return rows


if __name__ == "__main__":
    headings = ["K", "ε", "order", "points", "bits", "bits of a set", "error over subset selection's"]
    show("errors", headings, error_rows(), record=not SMALL)
    headings = ["K over e^ε + 1", "K", "ε", "order", "points", "largest error over subset selection's"]
    places = (range(100, 200, 20), (0.35, 1.0, 3.0, 4.0)) if SMALL else (range(100, 1001, 10), np.arange(2, 121) / 20)
    show("worst", headings, worst_rows(*places), record=not SMALL)
    headings = ["K", "ε", "collections", "geometry, over formula", "sets, over formula", "ratio", "standard error"]
    cases = ((100, 1.0),) if SMALL else ((100, 1.0), (100, 2.0), (300, 1.0), (300, 2.0), (1000, 1.0), (1000, 2.0))
    show("simulated", headings, simulated_rows(cases), record=not SMALL)
    show("times", ["mechanism", "answers", "all masses, ms", "way back, ms"], time_rows(), record=not SMALL)
