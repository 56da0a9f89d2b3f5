"""Projective geometry response and count-mean sketch beside subset selection, for many categories: error, bits, time.

Errors are over subset selection's at equal ε. The variance is that of the best estimate at even shares, the worst case,
by the information of one answer; the simulation has the squared error of estimates from 1,000 answers. Modular subset
selection (H. H. Arcolezi, 2025, arXiv:2511.11569), which the package does not have, is computed from its definition.
Run with ``python benchmarks/geometry.py``; ``--small`` only prints a part, ``--only modular`` makes one table.
"""

import math
import sys
from collections.abc import Callable, Iterable

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
        held = [each for each in found if low <= each[1] < high]
        if not held:  # of the small version
            continue
        _, _, k, epsilon = max(held)
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
        cells = [shown("{:.3f}", each) for each in mean / expected]
        rows.append([k, epsilon, len(errors), *cells, shown("{:.3f}", ratio), shown("{:.3f}", error)])
    return rows


def modular_rows(sizes: tuple[int, ...], budgets: tuple[float, ...]) -> Rows:
    """Return the bits and the error of modular subset selection over subset selection's, by its largest modulus.

    A person draws one of ℓ moduli and answers by subset selection on the residue of x. The moduli are all primes
    between the half of a bound and the bound. Residues of even shares are taken as even: they are, to one part in K/m.
    """
    rows = []
    for k in sizes:
        for epsilon in budgets:
            best, geometry = SubsetSelection(k, epsilon), ad.ProjectiveGeometryResponse(k, epsilon)
            for share in (0.25, 0.5, 2 / 3, 1.0):
                high = int(share * k)
                moduli = [m for m in range(high // 2 + 1, high + 1) if all(m % i for i in range(2, math.isqrt(m) + 1))]
                free = sum(m - 1 for m in moduli)
                total, x = np.zeros((k, k)), np.arange(k)
                for m in moduli:
                    # At even shares, the information about the residue is this number times the identity.
                    known = (m - 1) / least_error(SubsetSelection(m, epsilon))
                    total += known / len(moduli) * (x[:, None] % m == x % m)
                basis = zero_sum_basis(k)
                values = np.linalg.eigvalsh(basis @ total @ basis.T)
                identified = free >= k - 1 and values[0] > 1e-9 * values[-1]
                error = shown("{:.3g}", np.sum(1 / values) / least_error(best)) if identified else "not identified"
                parts = [SubsetSelection(m, epsilon).n_outputs for m in moduli]
                bits = [shown("{:.1f}", math.log2(each)) for each in (sum(parts), best.n_outputs, geometry.n_outputs)]
                ratio = shown("{:.2f}", free / (k - 1))
                span = f"{moduli[0]} to {moduli[-1]}"
                rows.append([k, epsilon, len(moduli), span, ratio, *bits, error])
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
        cells = [shown("{:.3f}", 1000 * each) for each in (there, back)]
        rows.append([repr(mechanism), mechanism.n_outputs, *cells])
    return rows


def main() -> None:
    """Make all tables, or the one that is named."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    places = (range(100, 200, 20), (0.35, 1.0, 3.0, 4.0)) if SMALL else (range(100, 1001, 10), np.arange(2, 121) / 20)
    cases = ((100, 1.0),) if SMALL else ((100, 1.0), (100, 2.0), (300, 1.0), (300, 2.0), (1000, 1.0), (1000, 2.0))
    modular = ((100,), (2.0,)) if SMALL else ((100, 300, 1000), (1.0, 2.0, 4.0))
    tables: dict[str, tuple[list[str], Callable[[], Rows]]] = {
        "errors": (
            ["K", "ε", "order", "points", "bits", "bits of a set", "error over subset selection's"],
            error_rows,
        ),
        "worst": (
            ["K over e^ε + 1", "K", "ε", "order", "points", "largest error over subset selection's"],
            lambda: worst_rows(*places),
        ),
        "simulated": (
            ["K", "ε", "collections", "geometry, over formula", "sets, over formula", "ratio", "standard error"],
            lambda: simulated_rows(cases),
        ),
        "times": (["mechanism", "answers", "all masses, ms", "way back, ms"], time_rows),
        "modular": (
            ["K", "ε", "moduli", "primes", "Σ(m−1)/(K−1)", "bits", "bits of a set", "bits of a point", "error"],
            lambda: modular_rows(*modular),
        ),
    }
    for name, (headings, rows) in tables.items():
        if only in (None, name):
            show(name, headings, rows(), record=not SMALL)


if __name__ == "__main__":
    main()
