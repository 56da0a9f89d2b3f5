"""The gradients with respect to θ and φ: compiled, in PyTensor and from minibatches.

They are compared with the definitions as dense matrices, differentiated by a complex step (exact to rounding), with
central differences of the compiled functions, and with the paper's Jacobian. Exits with 1 if any differs.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.stats import norm

import oracles
from adobest_pp import RRRR, SRR, AdaptiveSubset, Responses, SubsetSelection, likelihood, simulate_adaptive
from adobest_pp.model import tensors
from adobest_pp.samplers.sgld.loop import Langevin
from adobest_pp.samplers.sgld.settings import LangevinSettings
from oracles import rows_of
from validation.answers import ask
from validation.common import Finding, Options, each, finding, main, table

Array = NDArray[np.float64]

# Sums of n terms in another order, relative to the largest component of the gradient.
ROUNDING = 1e-10
# A central difference of step 1e-5 has an error of the order of its square, and of rounding over the step.
DIFFERENCE = 1e-6
STEP = 1e-5
# The probability that an unbiased minibatch gradient fails, over all data sets and components together.
FALSE_ALARM = 1e-3


@dataclass(frozen=True, eq=False)
class Data:
    """A data set, its dense rows, and where to take the gradients."""

    name: str
    responses: Responses
    rows: Array
    theta: Array
    phi: Array
    prior: Array


def data_sets(quick: bool, rng: np.random.Generator) -> list[Data]:
    """Simulate each mechanism, and adaptive collections, for several K and ε."""
    sets = []
    for k, epsilon in [(3, 1.0), (8, 0.5)] if quick else [(2, 1.0), (3, 0.5), (5, 5.0), (10, 1.0), (12, 0.1)]:
        theta = rng.dirichlet(np.ones(k))
        for mechanism in (SRR(k, epsilon), RRRR(k, epsilon), SubsetSelection(k, epsilon)):
            sets.append(data_of(type(mechanism).__name__, ask(mechanism, theta, 400, rng), rng))
        run = simulate_adaptive(
            theta, AdaptiveSubset(RRRR(k, epsilon, 0.8), "entropy"), n_people=400, random_seed=int(rng.integers(2**31))
        )
        sets.append(data_of("RRRR, adaptive", run.responses, rng))
    return sets


def data_of(name: str, responses: Responses, rng: np.random.Generator) -> Data:
    """Add the dense rows, a random θ and φ, far enough from the edges for differences, and a random prior."""
    k = responses.n_categories
    draws = 0.9 * rng.dirichlet(np.ones(k)) + 0.1 / k, rng.gamma(1.0, size=k) + 0.05, rng.uniform(0.2, 3.0, size=k)
    return Data(f"{name}, K = {k}", responses, rows_of(responses), *draws)


def complex_step(function, point: Array) -> Array:  # type: ignore[no-untyped-def]
    """Return the gradient as the imaginary part at point + i·1e-30·e_j. It takes no difference, so nothing cancels."""
    return np.array([function(point + 1e-30j * unit).imag / 1e-30 for unit in np.eye(point.size)])


def central_difference(function, point: Array, directions: Array) -> Array:  # type: ignore[no-untyped-def]
    """Return derivatives along the directions, which are its rows."""
    return np.array([(function(point + STEP * d) - function(point - STEP * d)) / (2 * STEP) for d in directions])


def dense_log_likelihood(theta: NDArray[np.inexact[Any]], rows: Array) -> complex:
    """Return Σ ln Σ_x g(x)θ_x, for complex θ as well."""
    return complex(np.log(rows @ theta).sum())


def surrogate_density(phi: NDArray[np.complex128], rows: Array, prior: Array) -> complex:
    """Return the log-posterior of φ, up to a constant: independent Gamma(ρ_i, 1) and the answers at θ = φ/Σφ."""
    density = ((prior - 1) * np.log(phi) - phi).sum()
    return complex(density) + dense_log_likelihood(phi / phi.sum(), rows)


def off(found: Array, right: Array) -> float:
    """Return the largest difference relative to the largest component."""
    return float(np.abs(np.asarray(found) - right).max() / np.abs(right).max())


def check_likelihood(data: Data) -> dict[str, float]:
    """Return relative differences of the compiled likelihood and of its gradients with respect to θ and φ."""
    evidence, rows = data.responses.evidence(), data.rows
    by_theta = likelihood.gradient(data.theta, evidence)
    by_phi = likelihood.phi_gradient(data.phi, evidence)
    exact = complex_step(lambda theta: dense_log_likelihood(theta, rows), data.theta)
    exact_phi = complex_step(lambda phi: dense_log_likelihood(phi / phi.sum(), rows), data.phi)
    differences = central_difference(
        lambda phi: likelihood.log_likelihood(phi / phi.sum(), evidence), data.phi, np.eye(data.phi.size)
    )
    value = dense_log_likelihood(data.theta, rows).real
    return {
        "value": abs(likelihood.log_likelihood(data.theta, evidence) / value - 1),
        "∂θ": max(off(by_theta, exact), off(by_theta, oracles.gradient(data.theta, rows))),
        "∂φ": max(off(by_phi, exact_phi), off(by_phi, oracles.phi_gradient_of_the_paper(data.phi, rows))),
        "∂φ by differences": off(by_phi, differences),
    }


def check_tensors(data: Data) -> dict[str, float]:
    """Return differences of the gradients of the ops to the dense ones, and to central differences of their value."""
    evidence, index = data.responses.evidence_and_index()
    theta = pt.dvector("theta")
    weights = np.linspace(0.5, 1.5, len(data.responses))
    marginal = tensors.marginal_log_likelihood(theta, evidence)
    pointwise = (weights * tensors.pointwise_log_likelihood(theta, evidence, index)).sum()
    slopes = [pytensor.grad(marginal, theta), pytensor.grad(pointwise, theta)]
    compiled = pytensor.function([theta], [marginal, *slopes])
    _, by_marginal, by_pointwise = compiled(data.theta)
    exact = complex_step(lambda point: dense_log_likelihood(point, data.rows), data.theta)
    weighted = complex_step(lambda point: complex((weights * np.log(data.rows @ point)).sum()), data.theta)
    # The value is that of probabilities, so only directions along which Σθ stays 1 can be tried.
    directions = (np.eye(data.theta.size) - np.eye(data.theta.size)[-1])[:-1]
    differences = central_difference(lambda point: float(compiled(point)[0]), data.theta, directions)
    return {
        "op": off(by_marginal, exact),
        "pointwise op": off(by_pointwise, weighted),
        "op by differences": off(directions @ by_marginal, differences),
    }


def check_minibatch(data: Data) -> dict[str, float]:
    """Return differences of SGLD's gradient on all responses, and of the mean over all batches of one response."""
    estimator = Langevin(*data.responses.evidence_and_index(), data.prior, LangevinSettings.of())
    exact = complex_step(lambda phi: surrogate_density(phi, data.rows, data.prior), data.phi)
    tiny = float(np.finfo(float).tiny)
    everything = estimator.gradient(data.phi, np.empty(0, dtype=np.int64), tiny)
    single = [estimator.gradient(data.phi, np.array([i]), tiny) for i in range(len(data.responses))]
    return {"SGLD, all": off(everything, exact), "mean of batches": off(np.mean(single, axis=0), exact)}


def z_scores(data: Data, batches: int, rng: np.random.Generator) -> Array:
    """Return the error of the mean of many minibatch gradients, in its standard errors, by component.

    The batches are those that the sampler draws: 50 responses with replacement.
    """
    estimator = Langevin(*data.responses.evidence_and_index(), data.prior, LangevinSettings.of())
    settings = LangevinSettings.of()
    _, indices, _ = settings.randomness(rng, 0, batches, estimator.populations(), data.phi.size)
    tiny = float(np.finfo(float).tiny)
    found = np.array([estimator.gradient(data.phi, batch, tiny) for batch in indices])
    exact = complex_step(lambda phi: surrogate_density(phi, data.rows, data.prior), data.phi)
    return np.asarray((found.mean(axis=0) - exact) / (found.std(axis=0, ddof=1) / np.sqrt(batches)))


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    rng = np.random.default_rng(options.seed)
    sets = data_sets(options.quick, rng)
    found = each(lambda data: check_likelihood(data) | check_minibatch(data), sets, "compiled gradients")
    in_tensors = each(check_tensors, sets[:2] if options.quick else sets, "PyTensor gradients")
    scores = each(lambda data: z_scores(data, 2000 if options.quick else 50_000, rng), sets, "minibatches")
    print("Largest difference, relative to the largest component of the gradient\n")
    rows = [[data.name, *one.values()] for data, one in zip(sets, found, strict=True)]
    table(["data", *found[0]], rows, 2, "likelihood")
    print()
    rows = [[data.name, *one.values()] for data, one in zip(sets, in_tensors, strict=False)]
    table(["data", *in_tensors[0]], rows, 2, "ops")
    z = np.concatenate(scores)
    limit = float(norm.isf(FALSE_ALARM / z.size / 2))
    print(f"\nMeans of minibatch gradients: largest |z| {np.abs(z).max():.2f} of {z.size}, limit {limit:.2f}")

    def within(name: str, text: str, limit: float, *columns: tuple[list[dict[str, float]], str]) -> Finding:
        worst = np.max([one[column] for results, column in columns for one in results])
        return finding(name, text, worst < limit, largest_difference=worst)

    largest = np.abs(z).max()
    return [
        within(
            "likelihood",
            "the likelihood and its gradients with respect to θ and φ are those of the definitions",
            ROUNDING,
            *((found, column) for column in ("value", "∂θ", "∂φ")),
        ),
        within("ops", "so are those of the PyTensor ops", ROUNDING, (in_tensors, "op"), (in_tensors, "pointwise op")),
        within(
            "differences",
            "central differences of the compiled functions agree",
            DIFFERENCE,
            (found, "∂φ by differences"),
            (in_tensors, "op by differences"),
        ),
        within(
            "sgld", "SGLD's gradient on all responses is that of the surrogate density", ROUNDING, (found, "SGLD, all")
        ),
        within(
            "every_batch",
            "the mean over all batches of one response is that gradient",
            ROUNDING,
            (found, "mean of batches"),
        ),
        finding(
            "random_batches",
            "the mean over random batches is that gradient, within its standard error",
            largest < limit,
            largest_z=largest,
            limit=limit,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
