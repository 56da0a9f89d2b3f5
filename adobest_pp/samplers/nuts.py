"""NUTS on the marginal posterior of θ, by nutpie: the reference that other samplers are compared with.

The log-density on unconstrained coordinates, with prior and transform, is one function of K, prior and evidence. Numba
compiles it once to a C function and keeps it on disk: a second fit or a second process compiles nothing. Other modules
call `sample_nuts`, at the end.

Under a given prior, θ ~ Dirichlet(ρ), the coordinates are K−1 of ψ ~ Dirichlet, and one for each category that is
boosted. If a concentration ρ is below one, ln θ of an empty category spreads over 1/ρ and ends at a cliff, which NUTS
cannot follow. For such a category θ ∝ ψ·U^(1/ρ), with ψ ~ Dirichlet(ρ+1) and U uniform, is the same prior [1]_, and
ln(−ln U) is one more coordinate, with a scale of one. We call the category boosted. Categories that the answers show to
be held do not need this (docs/math.md, section 4). A learned concentration has other coordinates, described below.

References
----------
.. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
   Mathematical Software 26(3).
"""

import dataclasses
import functools
import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
import nutpie
import pandas as pd  # type: ignore[import-untyped]
from numba import carray, njit, types

from adobest_pp._checks import check_count, check_real, is_learned
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._types import Floats, Integers, Masks
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import information_diagonal, value_and_gradient
from adobest_pp.likelihood.marginal import climb
from adobest_pp.model.simplex import log_theta, pull_to_free
from adobest_pp.samplers.registry import register_sampler

if TYPE_CHECKING:
    import xarray as xr


# The posterior under a given prior.


@njit(cache=True)
def boosted_theta(free, prior, boosted):  # type: ignore[no-untyped-def]
    """Return ln ψ and θ at the free coordinates."""
    n = prior.size
    log_psi = log_theta(free[: n - 1])
    theta = log_psi.copy()
    extra = n - 1
    largest = -np.inf
    for i in range(n):
        if boosted[i]:
            theta[i] -= np.exp(free[extra]) / prior[i]
            extra += 1
        largest = max(largest, theta[i])
    total = 0.0
    for i in range(n):
        theta[i] = np.exp(theta[i] - largest)
        total += theta[i]
    for i in range(n):
        theta[i] /= total
    return log_psi, theta


@njit(cache=True)
def log_density(free, prior, boosted, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of the free coordinates under a given prior, up to a constant, and its gradient."""
    log_psi, theta = boosted_theta(free, prior, boosted)
    value, slope = value_and_gradient(theta, evidence)
    average = 0.0
    for i in range(theta.size):
        average += slope[i] * theta[i]
    gradient = np.empty(free.size)
    extra = theta.size - 1
    for i in range(theta.size):
        slope[i] = theta[i] * (slope[i] - average)
        # The Jacobian of the softmax is Πψ, which turns the exponents of the Dirichlet from ρ−1 into ρ.
        exponent = prior[i]
        if boosted[i]:
            gap = np.exp(free[extra])
            value += free[extra] - gap
            gradient[extra] = 1 - gap - slope[i] * gap / prior[i]
            exponent += 1
            extra += 1
        value += exponent * log_psi[i]
        slope[i] += exponent
    by_free = pull_to_free(slope, np.exp(log_psi))
    for i in range(by_free.size):
        gradient[i] = by_free[i]
    return value, gradient


# The posterior under a learned prior, on coordinates without a funnel.
#
# θ ~ Dirichlet(a, …, a) with ln a normal. If a is small, the shares of empty categories spread over a factor of
# e^(1/a), and so does the scale of φ in θ = φ/Σφ, which does not matter. A chain cannot follow either of them. Here
#
#     φ_i = s_i·L(u_i),    L(u) = −ln(1 − exp(−e^u)),    u_i = w_i − c_i·ln a,    ln Σφ ~ N(0, τ²),
#
# and the coordinates are w and ln a. For u well below zero, L is −u: with the posterior standard deviation of θ_i as
# s_i, a share that is held is linear in its coordinate, with a scale of one. For u above zero, ln L is −e^u: an empty
# category, whose ln θ has the density e^(a·ln θ), has u = ln(1/a) plus a number of order one. With c_i = 1 its
# coordinate does not depend on a; with c_i = 0 that of a held category does not. Σφ says nothing about θ, so its law is
# free: with this one the scale cannot drift away. θ and a have their posterior exactly (docs/math.md, section 4).

# A category counts as held if its share is this many standard deviations above zero.
HELD = 2.0
# The most categories for which the information is inverted; for more, only its diagonal is.
MOST_DENSE = 300
# The largest τ²: with a larger spread of the sum, rays from the origin are no longer parallel.
LARGEST_VARIANCE = 0.1
# For u < −FAR, L is −u to the last bit; for e^u > FAR, ln L is −e^u.
FAR = 40.0
LOG_2 = math.log(2.0)


def choose_coordinates(evidence: Evidence, log_a: float) -> tuple[Floats, Floats, Floats]:
    """Return scales s and shifts c, of shape (K,), and coordinates (K+1,) to start at, with `log_a` the last.

    Any others give the same posterior. These rest on the normal approximation near the maximum of the likelihood.
    """
    k, n, a = evidence.n_categories, evidence.n_responses, math.exp(log_a)
    estimate = climb(evidence, tolerance=0.01, max_iterations=200)[0] if n else np.full(k, 1 / k)
    theta = (n * estimate + a) / (n + k * a)
    scales = np.sqrt(np.maximum(_variances(theta, k * a + 1, evidence), np.finfo(float).tiny))
    shifts = (theta < HELD * scales).astype(np.float64)
    return scales, shifts, np.append(shifts * log_a - theta / scales, log_a)


def _variances(theta: Floats, more: float, evidence: Evidence) -> Floats:
    """Return the variances of shares given their sum, with `more` added to the information about each."""
    k = theta.size
    if k > MOST_DENSE:
        return np.asarray(1 / (information_diagonal(theta, evidence) + more))
    inverse = np.linalg.inv(_information(theta, evidence) + more * np.eye(k))
    sums = inverse.sum(axis=0)
    return np.asarray(np.diag(inverse) - sums**2 / sums.sum())


def _information(theta: Floats, evidence: Evidence) -> Floats:
    """Return minus the second derivatives of the log-likelihood, by differences of its gradient."""
    rows = []
    for step in np.diag(1e-4 * np.maximum(theta, 1e-6)):
        change = value_and_gradient(theta - step, evidence)[1] - value_and_gradient(theta + step, evidence)[1]
        rows.append(change / (2 * step.max()))
    return np.asarray((np.array(rows) + np.transpose(rows)) / 2)


@njit(cache=True, error_model="numpy")
def learned_log_density(free, scales, shifts, mean, sd, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of the coordinates, up to a constant, and its gradient; ln a ~ N(mean, sd²)."""
    k = scales.size
    log_a = free[k]
    a = math.exp(log_a)
    logs, theta, log_total, rates, turns, jacobian = _expanded(free, scales, shifts)
    value, slope = value_and_gradient(theta, evidence)
    average, sum_of_logs, variance = 0.0, 0.0, 0.0
    for i in range(k):
        average += slope[i] * theta[i]
        sum_of_logs += logs[i]
        variance += scales[i] ** 2
    variance = min(variance, LARGEST_VARIANCE)
    distance = (log_a - mean) / sd
    # With respect to ln φ the density of the Dirichlet has the exponents a in place of a − 1.
    value += jacobian + a * sum_of_logs + math.lgamma(k * a) - k * math.lgamma(a)
    value -= 0.5 * distance**2 + 0.5 * log_total**2 / variance
    gradient = np.empty(free.size)
    by_log_a = a * (sum_of_logs + k * (digamma(k * a) - digamma(a))) - distance / sd
    for i in range(k):
        by_log_phi = a + theta[i] * (slope[i] - average - k * a - log_total / variance)
        gradient[i] = turns[i] - rates[i] * by_log_phi
        by_log_a -= shifts[i] * gradient[i]
    gradient[k] = by_log_a
    return value, gradient


@njit(cache=True, error_model="numpy")
def learned_theta(free, scales, shifts):  # type: ignore[no-untyped-def]
    """Return θ at the coordinates."""
    return _expanded(free, scales, shifts)[1]


@njit(cache=True, error_model="numpy")
def _expanded(free, scales, shifts):  # type: ignore[no-untyped-def]
    """Return ln θ, θ, ln Σφ, r = −d ln φ/du, d ln r/du, and the sum of ln r."""
    k = scales.size
    logs, theta, rates, turns = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    jacobian, largest, total = 0.0, -np.inf, 0.0
    for i in range(k):
        log_share, rates[i], log_rate, turns[i] = _share(free[i] - shifts[i] * free[k])
        jacobian += log_rate
        logs[i] = math.log(scales[i]) + log_share
        largest = max(largest, logs[i])
    for i in range(k):
        theta[i] = math.exp(logs[i] - largest)
        total += theta[i]
    log_total = largest + math.log(total)
    for i in range(k):
        theta[i] /= total
        logs[i] -= log_total
    return logs, theta, log_total, rates, turns, jacobian


@njit(cache=True, error_model="numpy")
def _share(u):  # type: ignore[no-untyped-def]
    """Return ln L(u), r = −d ln L/du, ln r, and d ln r/du."""
    if u < -FAR:
        return math.log(-u), -1.0 / u, -math.log(-u), -1.0 / u
    b = math.exp(u)
    if b > FAR:
        return -b, b, u, 1.0
    share = -math.log(-math.expm1(-b)) if b < LOG_2 else -math.log1p(-math.exp(-b))
    odds = b / math.expm1(b)
    rate = odds / share
    return math.log(share), rate, math.log(rate), 1.0 - b - odds + rate


@njit(cache=True, error_model="numpy")
def digamma(x):  # type: ignore[no-untyped-def]
    """Return the derivative of ln Γ at x > 0, by its recurrence up to x ≥ 8 and its asymptotic series there."""
    below = 0.0
    while x < 8.0:
        below += 1.0 / x
        x += 1.0
    s = 1.0 / (x * x)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - below


# The C functions, for both kinds of prior. They read prior and evidence from one block of memory.

_REALS = types.CPointer(types.double)
_LOG_DENSITY = types.int64(types.uint64, _REALS, _REALS, _REALS, types.voidptr)
_EXPAND = types.int64(types.uint64, types.uint64, _REALS, _REALS, types.voidptr)
_HEADER = 8
_LARGEST_LOG = 700.0


def pack(
    first: Floats, second: Floats | Masks, evidence: Evidence, learned: tuple[float, float] | None = None
) -> Integers:
    """Join prior and evidence in one block of 8-byte words, after the sizes of the arrays.

    For a given prior, `first` and `second` are its concentrations and which categories are boosted. For a learned prior
    they are scales and shifts, and `learned` has the mean and the standard deviation of ln a.
    """
    n_tables = len(evidence.codes)
    # If masses are looked up, the lists of members are not read.
    members = evidence.members[:0] if n_tables else evidence.members
    of_sets = evidence.offsets.size, len(evidence.patterns), members.size, n_tables, evidence.structure.size
    sizes = (learned is not None, first.size, evidence.n_rows, *of_sets)
    prior = np.concatenate([first, second, learned or (0.0, 0.0)])
    rows = evidence[: Evidence._fields.index("members")]
    sets = evidence.offsets, evidence.structure, evidence.patterns, members, evidence.codes
    parts = (np.array(sizes), prior, *rows, *sets)
    whole = b"".join(part.tobytes() + bytes(-part.nbytes % 8) for part in parts)
    return np.frombuffer(whole, dtype=np.int64).copy()


@functools.cache
def compiled_functions(structured: bool = False) -> tuple[Any, Any]:
    """Return the C functions for nutpie, compiled or read from Numba's cache; evidence with structure has its own."""
    density = _structured_log_density if structured else _log_density
    return numba.cfunc(_LOG_DENSITY, cache=True)(density), numba.cfunc(_EXPAND, cache=True)(_expand)


def _log_density(dim, free_, gradient_, value_, block_):  # type: ignore[no-untyped-def]
    return _write_log_density(dim, free_, gradient_, value_, block_, np.uint8)


def _structured_log_density(dim, free_, gradient_, value_, block_):  # type: ignore[no-untyped-def]
    return _write_log_density(dim, free_, gradient_, value_, block_, np.int64)


@njit(cache=True)
def _write_log_density(dim, free_, gradient_, value_, block_, kind):  # type: ignore[no-untyped-def]
    """Write value and gradient; `kind` is the type of the evidence's structure."""
    header = carray(block_, _HEADER, np.int64)
    learned, k, u, o = header[0], header[1], header[2], header[3]
    d, m, t, s = header[4], header[5], header[6], header[7]
    # If a is 0, infinite or NaN in double precision there is no density, and no step may end there.
    if learned and not abs(carray(free_, dim)[dim - 1]) < _LARGEST_LOG:
        return 1
    prior = _HEADER + 2 * k
    rows = prior + 2
    offsets = rows + 7 * u
    structure = offsets + o
    patterns = structure + s
    members = patterns + d * k
    codes = members + (m + 1) // 2
    n_codes = t * (o - 1)
    reals = carray(block_, members, np.float64)
    words = carray(block_, members, np.int64)
    evidence = Evidence(
        reals[rows : rows + u],
        reals[rows + u : rows + 2 * u],
        reals[rows + 2 * u : rows + 3 * u],
        reals[rows + 3 * u : rows + 4 * u],
        words[rows + 4 * u : rows + 5 * u],
        words[rows + 5 * u : rows + 6 * u],
        words[rows + 6 * u : offsets],
        carray(block_, 2 * members + m, np.int32)[2 * members :],
        words[offsets:structure],
        reals[patterns:members].reshape(d, k),
        carray(block_, 4 * codes + n_codes, np.uint16)[4 * codes :].reshape(t, o - 1),
        words[structure:patterns].view(kind),
    )
    free, first, second = carray(free_, dim), reals[_HEADER : _HEADER + k], reals[_HEADER + k : prior]
    if learned:
        value, gradient = learned_log_density(free, first, second, reals[prior], reals[prior + 1], evidence)
    else:
        value, gradient = log_density(free, first, second, evidence)
    carray(value_, 1)[0] = value
    out = carray(gradient_, dim)
    finite = np.isfinite(value)
    for i in range(dim):
        out[i] = gradient[i]
        finite &= np.isfinite(gradient[i])
    return 0 if finite else 1


def _expand(dim, n_expanded, free_, expanded_, block_):  # type: ignore[no-untyped-def]
    """Write θ, followed by a if it is learned."""
    header = carray(block_, _HEADER, np.int64)
    learned, k = header[0], header[1]
    free, prior = carray(free_, dim), carray(block_, _HEADER + 2 * k, np.float64)[_HEADER:]
    theta = learned_theta(free, prior[:k], prior[k:]) if learned else boosted_theta(free, prior[:k], prior[k:])[1]
    out = carray(expanded_, n_expanded)
    for i in range(k):
        out[i] = theta[i]
    if learned:
        out[k] = np.exp(free[dim - 1])
    return 0


# The posterior, in coordinates that suit it.

# Posteriors that end at the boundary of the simplex bend sharply: at nutpie's 0.8 one draw in a hundred diverges.
TARGET_ACCEPT = 0.95
# The mass matrix. For more categories than `MOST_DENSE` it is diagonal: adapting one of low rank took eight times as
# long as drawing (K = 1,000, Hadamard response), and the draws were no more effective.
ADAPTATION: Literal["low_rank"] = "low_rank"


def adaptation_for(n_categories: int) -> Literal["low_rank", "diag"]:
    """Return how the mass matrix is adapted."""
    return ADAPTATION if n_categories <= MOST_DENSE else "diag"


# A category is certainly held if the log-likelihood falls by this many nats without it; and the most steps of the
# search for a θ with an empty category.
CERTAIN = 10.0
MOST_CLIMBS = 50


def _posterior(responses: Responses | Gathered, prior: Floats | str, log_concentration: tuple[float, float]) -> Any:
    """Return the posterior as nutpie takes it."""
    if not is_known():
        return from_pymc(responses, prior, log_concentration)
    evidence = responses.evidence()
    if isinstance(prior, str):
        scales, shifts, start = choose_coordinates(evidence, log_concentration[0])
        block = pack(scales, shifts, evidence, log_concentration)
        return from_c_functions(block, start, responses.categories, learned=True)
    boosted = prior < 1
    if boosted.any():
        boosted &= ~held_for_certain(evidence, prior)
    start = np.zeros(responses.n_categories - 1 + int(boosted.sum()))
    return from_c_functions(pack(prior, boosted, evidence), start, responses.categories, learned=False)


def held_for_certain(evidence: Evidence, prior: Floats) -> Masks:
    """Return which categories cannot be empty: the answers would be at least e^10 times less likely.

    A prior with a small concentration ρ gives an empty category 1/ρ times the weight, which must be outweighed too:
    below ρ = 0.05 the factor is e^7/ρ.
    """
    k = evidence.n_categories
    if evidence.n_responses == 0:
        return np.zeros(k, dtype=bool)
    theta, _ = climb(evidence, tolerance=0.01, max_iterations=200)
    least = value_and_gradient(theta, evidence)[0] - np.maximum(CERTAIN, CERTAIN - 3 - np.log(prior))
    return np.array([_falls_below(least[i], theta * (np.arange(k) != i), evidence) for i in range(k)])


def _falls_below(level: float, rest: Floats, evidence: Evidence) -> bool:
    """Return whether no θ on the categories of `rest` has a log-likelihood of `level`: climb there from `rest`."""
    if not rest.any():
        return True
    theta, n, kept = rest / rest.sum(), evidence.n_responses, rest > 0
    for _ in range(MOST_CLIMBS):
        value, slope = value_and_gradient(theta, evidence)
        if value >= level:
            return False
        # The log-likelihood is concave: on these categories it exceeds its value by at most max ∇ − n.
        if value + slope[kept].max() - n < level:
            return True
        theta = theta * slope / n
        theta /= theta.sum()
    return True


# How our compiled density reaches nutpie: through its private class if we know it, else through its public function.
#
# nutpie compiles PyMC models again in every process, which takes half a minute. Its class for a compiled model takes C
# functions that are already compiled, but is not a public interface. If another version of nutpie has changed that
# class, the same posterior goes through `nutpie.compile_pymc_model`: slower to start, and with other draws of the same
# distribution.

# The fields of the class for a compiled model in the version that this was written for (0.16).
KNOWN_FIELDS = {
    "dims", "reparameterized_names", "compiled_logp_func", "compiled_expand_func", "initial_point_func", "shared_data",
    "shared_var_keys", "user_data", "n_expanded", "shape_info", "logp_func", "expand_func", "_n_dim", "_shapes",
    "_coords", "_transform_adapt_args",
}  # fmt: skip


def is_known() -> bool:
    """Tell whether nutpie's class for a compiled model has the fields that this was written for."""
    try:
        from nutpie.compile_pymc import CompiledPyMCModel

        return {field.name for field in dataclasses.fields(CompiledPyMCModel)} == KNOWN_FIELDS
    except (ImportError, TypeError):
        return False


def from_c_functions(block: Integers, start: Floats, categories: tuple[str, ...], learned: bool) -> Any:
    """Return what `nutpie.compile_pymc_model` would, with our C functions, for a block made by `pack`.

    Chains start at `start`, with a random number from −1 to 1 added to each coordinate.
    """
    from nutpie.compile_pymc import CompiledPyMCModel

    k = len(categories)
    shapes: dict[str, tuple[int, ...]] = {"theta": (k,)} | ({"concentration": ()} if learned else {})
    log_density, expand = compiled_functions(bool(block[_HEADER - 1]))
    return CompiledPyMCModel(
        dims={"theta": ("category",)},
        reparameterized_names=[],
        compiled_logp_func=log_density,
        compiled_expand_func=expand,
        initial_point_func=lambda seed: start + np.random.default_rng(seed).uniform(-1, 1, size=start.size),
        shared_data={},
        shared_var_keys={},
        user_data=block,
        n_expanded=k + learned,
        shape_info=(list(shapes), [slice(0, k), slice(k, k + 1)][: len(shapes)], list(shapes.values())),
        logp_func=None,
        expand_func=None,
        _n_dim=start.size,
        _shapes=shapes,
        _coords={"category": pd.Index(categories)},
    )


def from_pymc(
    responses: Responses | Gathered, prior: Floats | str, log_concentration: tuple[float, float] = LOG_CONCENTRATION
) -> Any:
    """Return the posterior compiled by nutpie itself, from the PyMC model of the same posterior."""
    from adobest_pp.model.frequency import frequency_model

    if log_concentration != LOG_CONCENTRATION:
        raise RuntimeError(f"the law of ln a must be the default with nutpie {nutpie.__version__}, which is not known")
    return nutpie.compile_pymc_model(frequency_model(responses, prior))


# Sampling.


def sample_nuts(
    responses: Responses | Gathered,
    *,
    prior: Floats | str,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | None,
    progressbar: bool,
    cores: int | None = None,
    target_accept: float = TARGET_ACCEPT,
    log_mean: float = LOG_CONCENTRATION[0],
    log_sd: float = LOG_CONCENTRATION[1],
) -> "xr.DataTree":
    """Draw from the posterior of θ under a Dirichlet prior. Parameters not listed are as in `sample`.

    Parameters
    ----------
    prior : array of shape (K,) or "learned"
        The concentrations of the Dirichlet prior; or the prior whose concentration a, the same for all categories, is
        learned: ln a is normal.
    cores : int, optional
        How many chains run at once; by default as many as the machine has cores.
    target_accept : float, default 0.95
        The mean acceptance that the step is tuned to.
    log_mean, log_sd : float
        Mean and standard deviation of ln a if it is learned. Only `validation/hyperprior.py` gives others.

    Returns
    -------
    xarray.DataTree
        With ``theta`` (chain, draw, category) in ``posterior``, and ``sample_stats``; and ``concentration``
        (chain, draw) if it is learned.
    """
    wanted = ["theta", "concentration"] if is_learned(prior) else ["theta"]
    sizes: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "cores": cores, "seed": random_seed}
    settings = sizes | {"progress_bar": progressbar, "target_accept": target_accept}
    return _sampled(_posterior(responses, prior, (log_mean, log_sd)), wanted, responses.n_categories, settings)


def _sampled(posterior: Any, wanted: list[str], n_categories: int, settings: dict[str, Any]) -> "xr.DataTree":
    """Return the draws of what nutpie has compiled; the settings are those of `nutpie.sample`."""
    adaptation = adaptation_for(n_categories)
    background = nutpie.sample(posterior, blocking=False, save_warmup=False, adaptation=adaptation, **settings)
    try:
        tree: xr.DataTree = background.wait()
    except BaseException:  # Ctrl-C: nutpie would return what it has so far
        background.cancel()
        raise
    # Compiled from a PyMC model, the tree has its other variables too.
    tree["posterior"] = tree["posterior"].to_dataset()[wanted]
    _check_complete(tree["posterior"].to_dataset(), settings["chains"], settings["draws"])
    # The settings, and the versions that the draws depend on.
    tree.attrs = {
        "target_accept": settings["target_accept"],
        "adaptation": adaptation,
        "nutpie_version": version("nutpie"),
        "numba_version": numba.__version__,
    }
    return tree


class _Regression:
    """The regression that was compiled last, so that another run with the same data does not compile again."""

    last: tuple[Any, Any, float, Any] = (None, None, 0.0, None)

    def compiled(self, responses: Responses, covariates: Any, scale: float) -> Any:
        from adobest_pp.model.regression import regression_model

        is_same = self.last[0] is responses and self.last[2] == scale and np.array_equal(self.last[1], covariates)
        if not is_same:
            program = nutpie.compile_pymc_model(regression_model(responses, covariates, scale))
            # A copy, as the caller may change the covariates in place.
            self.last = (responses, np.array(covariates), scale, program)
        return self.last[3]


REGRESSION = _Regression()


def _check_complete(posterior: "xr.Dataset", chains: int, draws: int) -> None:
    """Raise RuntimeError unless every chain has all of its draws, and all of them are finite."""
    for name, variable in posterior.data_vars.items():
        values = variable.values
        whole = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=2)
        if whole.shape != (chains, draws) or not whole.all():
            kept = ", ".join(map(str, whole.sum(axis=1)))
            raise RuntimeError(
                f"NUTS did not finish: of {draws} draws in each of {chains} chains, {name} is a number in {kept}"
            )


@register_sampler("nuts", learned=True, least_tune=1)
def _nuts(  # type: ignore[no-untyped-def]
    responses,
    prior,
    draws,
    tune,
    chains,
    seed,
    *,
    progressbar=False,
    target_accept=TARGET_ACCEPT,
    cores=None,
    covariates=None,
) -> "xr.DataTree":
    target_accept = check_real(target_accept, "target_accept", "a number between 0 and 1", lambda x: 0 < x < 1)
    if cores is not None:
        check_count(cores, "cores", 1)
    settings = {"draws": draws, "tune": tune, "chains": chains, "cores": cores, "target_accept": target_accept}
    if covariates is None:
        return sample_nuts(responses, prior=prior, random_seed=seed, progressbar=progressbar, **settings)
    posterior = REGRESSION.compiled(responses, covariates, prior)
    settings |= {"seed": seed, "progress_bar": progressbar}
    return _sampled(posterior, ["coefficient"], responses.n_categories, settings)
