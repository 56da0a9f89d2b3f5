"""Measures of draws: how well they mixed, and how far they are from a reference and from the posterior density."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.special import ndtri
from scipy.stats import rankdata, wasserstein_distance

from adobest_pp._checks import SUM_TOLERANCE, check_prior, is_learned
from adobest_pp._numerics import TINY
from adobest_pp._text import brief, same_labels
from adobest_pp.answers.draws import responses_of, thetas_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient

# Permutations and random signs made at a time. A test of n points keeps BATCH · n numbers beside its n² pairs.
BATCH = 256

FEWEST_DRAWS = 4

# The quantiles that stand for the tails.
TAILS = (0.05, 0.95)

# Shares below the first count as equal in ranks, and so do those above the second. Samplers stop near the smallest
# double, 2·10⁻³⁰⁸, some at zero and some above it; and a share near 1 has the rounding error of the sum.
RESOLVED = (1e-300, 1 - 1e-14)


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of one sampler: θ of shape (chain, draw, K), how well they mixed, and what they were sampled from.

    θ and `prior` have the categories in the order of `categories`; `responses` have an order of their own. For a
    regression, `theta` has the coefficients, one after the other, `categories` their names, and `prior` one sd.
    """

    name: str
    theta: NDArray[np.float64]
    categories: tuple[str, ...]
    wall_time: float
    responses: Responses | Gathered | None
    prior: NDArray[np.float64] | str | None
    covariates: NDArray[np.float64] | None = None
    resolved: tuple[float, float] = RESOLVED  # values beyond these count as equal in ranks

    @property
    def flat(self) -> NDArray[np.float64]:
        """All draws, of shape (chain · draw, K)."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @cached_property
    def mixing(self) -> dict[str, NDArray[np.float64]]:
        """The result of `mixing`."""
        return mixing(self.theta)

    @cached_property
    def effective(self) -> float:
        """The smallest bulk ESS; 0 if the draws of a category are all equal."""
        return float(np.nan_to_num(self.mixing["ess_bulk"], nan=0.0).min())


def read(draws: Mapping[str, xr.DataTree]) -> dict[str, Draws]:
    """Read trees of draws, with all categories in the order of the first tree, or raise ValueError."""
    thetas = thetas_of(draws)
    for name, theta in thetas.items():
        if theta.sizes["draw"] < FEWEST_DRAWS:
            count = theta.sizes["draw"]
            raise ValueError(f"draws[{name!r}] must have at least {FEWEST_DRAWS} draws in each chain, got {count}")
    return {str(name): _draws(str(name), tree, thetas[str(name)]) for name, tree in draws.items()}


def is_regression(tree: xr.DataTree) -> bool:
    """Tell whether the draws of a tree are coefficients of `regression_model`."""
    return "posterior" in tree.children and "coefficient" in tree["posterior"].data_vars


COEFFICIENT_DIMS = ("chain", "draw", "term", "contrast")


def read_coefficients(draws: Mapping[str, xr.DataTree], base: xr.DataTree) -> dict[str, Draws]:
    """Read trees of coefficients, with the terms and contrasts in the order of the reference, or raise ValueError."""
    right = base["posterior"].to_dataset()["coefficient"]
    labels = {dim: right[dim].values.tolist() for dim in COEFFICIENT_DIMS[2:]}
    found = {}
    for name, tree in draws.items():
        rule = f"draws[{name!r}] must have posterior/coefficient by {', '.join(COEFFICIENT_DIMS)}"
        if not isinstance(tree, xr.DataTree) or not is_regression(tree):
            raise ValueError(f"{rule}, as the reference does, got a tree without it")
        values = tree["posterior"].to_dataset()["coefficient"]
        if {*values.dims} != {*COEFFICIENT_DIMS} or any(
            sorted(map(str, values[dim].values.tolist())) != sorted(map(str, own)) for dim, own in labels.items()
        ):
            raise ValueError(f"{rule}, of the terms {brief(labels['term'])} and contrasts {brief(labels['contrast'])}")
        array = values.sel(labels).transpose(*COEFFICIENT_DIMS).values.astype(np.float64)
        if array.shape[1] < FEWEST_DRAWS or not np.isfinite(array).all():
            raise ValueError(f"{rule}, with at least {FEWEST_DRAWS} draws in each chain, all finite")
        places = tuple(f"{term}, {contrast}" for term in labels["term"] for contrast in labels["contrast"])
        known = tree["constant_data"].to_dataset() if "constant_data" in tree.children else {}
        found[str(name)] = Draws(
            str(name),
            np.ascontiguousarray(array.reshape(*array.shape[:2], -1)),
            places,
            float(tree.attrs.get("sampling_time", np.nan)),
            responses_of(tree),
            None if "prior_sd" not in tree.attrs else np.array([tree.attrs["prior_sd"]]),
            known["covariates"].values if "covariates" in known else None,
            (-np.inf, np.inf),
        )
    return found


def check_on_simplex(draws: Draws) -> None:
    """Raise ValueError if draws are not probabilities, for example because columns were mixed up."""
    if (smallest := draws.theta.min()) < 0:
        raise ValueError(f"draws[{draws.name!r}] must have draws of at least 0, got {smallest:.3g}")
    sums = draws.theta.sum(axis=-1).ravel()
    farthest = sums[np.abs(sums - 1).argmax()]
    if abs(farthest - 1) > SUM_TOLERANCE:
        name = f"draws[{draws.name!r}]"
        raise ValueError(f"{name} must have draws that sum to 1 over the categories, got a sum of {farthest:.6g}")


def in_order(values: NDArray[np.float64], given: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
    """Return values by category (..., K) in another order of the same labels."""
    place = {label: i for i, label in enumerate(given)}
    return values[..., [place[label] for label in wanted]]


def _draws(name: str, tree: xr.DataTree, theta: xr.DataArray) -> Draws:
    values = np.ascontiguousarray(theta.values)
    categories = tuple(theta["category"].values.tolist())
    attributes = {**tree["posterior"].attrs, **tree.attrs}
    responses = responses_of(tree)
    if responses is not None and not same_labels(responses.categories, categories):
        raise ValueError(f"draws must have the categories of their responses, got {categories} for {name!r}")
    prior = attributes.get("prior_concentration")
    if prior is not None and not is_learned(prior):
        own = [str(label) for label in tree["posterior"].to_dataset()["theta"]["category"].values.tolist()]
        given = own if responses is None else responses.categories
        prior = in_order(check_prior(prior, len(categories)), given, categories)
    wall_time = float(attributes.get("sampling_time", np.nan))
    return Draws(name, values, categories, wall_time, responses, prior)


def bulk_ess(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ArviZ's bulk ESS of draws (chain, draw, K), of shape (K,); NaN for a category whose draws are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.ptp(theta, axis=(0, 1)) > 0, array_stats.ess(theta, 0, 1, method="bulk"), np.nan)


def mixing(theta: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return ArviZ's bulk ESS, tail ESS and rank-normalized split R-hat of draws (chain, draw, K), each of shape (K,).

    All three are NaN for a category whose draws are all equal (ArviZ calls such draws effective). R-hat is also NaN
    for a single chain.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = array_stats.ess(theta, 0, 1, method="tail", prob=TAILS)
    bulk = bulk_ess(theta)
    return {"ess_bulk": bulk, "ess_tail": np.where(np.isnan(bulk), np.nan, tail), "r_hat": r_hat(theta)}


def r_hat(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ArviZ's rank-normalized split R-hat, of shape (K,); NaN for a category whose draws are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.ptp(theta, axis=(0, 1)) > 0, array_stats.rhat(theta, 0, 1), np.nan)


def thinned(theta: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return about `count` of the draws (chain, draw, K), evenly spaced in each chain, of shape (·, K)."""
    chains, draws, k = theta.shape
    per_chain = min(draws, max(1, count // chains))
    # Each from the middle of its stretch, so that the start of a chain counts no more than its end.
    places = ((np.arange(per_chain) + 0.5) * draws / per_chain).astype(np.int64)
    return theta[:, places].reshape(-1, k)


def independent(values: NDArray[np.float64], ess: float, most: int) -> NDArray[np.float64]:
    """Return at most `most` values (chain, draw, K), spaced so that they are nearly independent.

    It keeps half as many as the effective sample size. Draws of an AR(1) chain that are one autocorrelation time apart
    still correlate by 0.14; two apart, by 0.02.
    """
    return thinned(values, int(min(most, ess / 2)))


# Distances between samples: Wasserstein-1 by coordinate, and the energy distance with its permutation test.


def wasserstein(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Wasserstein-1 distance of each coordinate of two samples (n, K) and (m, K), from all draws."""
    return np.array([wasserstein_distance(x, y) for x, y in zip(first.T, second.T, strict=True)])


def energy_test(
    first: NDArray[np.float64], second: NDArray[np.float64], permutations: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the energy distance of two samples of independent points (n, K) and (m, K), and its permutation p-value.

    The distance is (2E|X−Y| − E|X−X'| − E|Y−Y'|) / 2E|X−Y| [1]_: 0 for equal distributions, 1 for two different
    constants. Means are over pairs of different draws, so for equal distributions the expected distance is 0 at every
    sample size, and a single distance may be negative. Each sample has at least two points; coordinates have comparable
    scales. The p-value is at least 1/(1 + permutations).

    References
    ----------
    .. [1] G. J. Székely and M. L. Rizzo, Energy statistics: a class of statistics based on distances, Journal of
       Statistical Planning and Inference 143 (2013).
    """
    distances = cdist(np.concatenate([first, second]), np.concatenate([first, second]))
    labels = np.zeros((1, len(distances)))
    labels[0, : len(first)] = 1
    observed = _energy(distances, labels)[0]
    exceeding, done = 0, 0
    while done < permutations:
        size = min(BATCH, permutations - done)
        shuffled = rng.permuted(np.repeat(labels, size, axis=0), axis=1)
        # Values that differ by rounding count as equal, which can only make the p-value larger.
        exceeding += int(np.sum(_energy(distances, shuffled) >= observed - 1e-12))
        done += size
    return float(observed), (1 + exceeding) / (1 + permutations)


def _energy(distances: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the energy distance for each row of labels, 1 for the first sample and 0 for the second."""
    n = labels[0].sum()
    m = labels.shape[1] - n
    to_first = labels @ distances
    within_first = np.einsum("bi,bi->b", to_first, labels)
    across = to_first.sum(axis=1) - within_first
    within_second = distances.sum() - within_first - 2 * across
    mean_across = across / (n * m)
    if not mean_across.all():
        return np.zeros(len(labels))
    spread = within_first / (n * (n - 1)) + within_second / (m * (m - 1))
    return np.asarray(1 - spread / (2 * mean_across))


# Location and scale of two sets of draws, compared by ranks: the errors of these tests are known for any distribution.
#
# In a sparse posterior, the standard deviation of a category that is nearly always empty depends on a handful of draws,
# and no estimate of its error can be trusted. Ranks have no heavy tails. The draws of both samplers are ranked together
# and mapped to normal scores z (van der Waerden), equal draws to the same score. The test of location compares the
# means of z, that of scale their standard deviations (Klotz). Their Monte-Carlo standard errors come from the effective
# sample sizes of z and z². For a Gaussian posterior nothing is lost: there z is (θ − mean)/sd.


class RankTests(NamedTuple):
    """The tests of two sets of draws, by category; errors are in Monte-Carlo standard errors."""

    location: NDArray[np.float64]  # difference of the means of normal scores
    location_error: NDArray[np.float64]
    scale: NDArray[np.float64]  # ratio of their standard deviations
    scale_error: NDArray[np.float64]  # of ln scale
    ess: float  # the smallest behind the errors; 0 if the draws of a category are all equal


def normal_scores(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the normal scores of two sets of draws (chain, draw, K), ranked together category by category."""
    k = first.shape[-1]
    pooled = np.concatenate([first.reshape(-1, k), second.reshape(-1, k)])
    # Blom's scores: the expected value of the r-th of n sorted normal draws. Equal draws share the mean of their ranks.
    scores = ndtri((rankdata(pooled, axis=0) - 0.375) / (len(pooled) + 0.25))
    count = first.shape[0] * first.shape[1]
    return scores[:count].reshape(first.shape), scores[count:].reshape(second.shape)


def rank_tests(first: NDArray[np.float64], second: NDArray[np.float64]) -> RankTests:
    """Compare two sets of normal scores (chain, draw, K) of `normal_scores`.

    The errors use the mean variance of both sets, so a sampler that has not yet seen a rare value does not make its own
    error small.
    """
    squares = [(scores - scores.mean(axis=(0, 1))) ** 2 for scores in (first, second)]
    variances = [square.mean(axis=(0, 1)) for square in squares]
    ess = [[_ess(first), _ess(squares[0])]]
    ess.append(ess[0] if second is first else [_ess(second), _ess(squares[1])])
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = [1 / one + 1 / other for one, other in zip(*ess, strict=True)]
        location = first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))
        scale = np.sqrt(variances[0] / variances[1])
        # Of ln sd = ½ ln variance, by the delta method.
        spread = np.mean([square.var(axis=(0, 1)) for square in squares], axis=0)
        relative = spread / np.mean(variances, axis=0) ** 2 / 4
        return RankTests(
            location,
            np.where(location == 0, 0.0, location / np.sqrt(np.mean(variances, axis=0) * rates[0])),
            scale,
            np.where(scale == 1, 0.0, np.log(scale) / np.sqrt(relative * rates[1])),
            float(np.nan_to_num(ess, nan=0.0).min()),
        )


def _ess(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(array_stats.ess(values, 0, 1, method="mean"))


# The kernel Stein discrepancy of draws of θ from their posterior, which needs only the gradient of its log-density.
#
# The isometric log-ratio maps θ to K−1 unconstrained numbers z. Their posterior has the density
#     ln p(z) = ln P(answers | θ) + Σ ρ_i ln θ_i + constant,
# because the Jacobian of θ(z) is proportional to Πθ_i. It has no boundary.

# The largest share of the draws of a category that may be below the smallest floating-point number. The log-ratios of
# such draws are not known, and the gradient at the smallest number is not their gradient.
MAX_UNDERFLOW = 0.01


def stein_holds_for(theta: NDArray[np.float64]) -> bool:
    """Tell whether nearly all log-ratios of draws θ (n, K) are known. Otherwise correct draws may fail the test."""
    return bool((theta < TINY).mean(axis=0).max() <= MAX_UNDERFLOW)


def log_ratios(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the isometric log-ratios of θ (n, K), of shape (n, K−1)."""
    return np.asarray(np.log(np.maximum(theta, TINY)) @ basis(theta.shape[1]))


def basis(n_categories: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the vectors that sum to 0 (Helmert's), of shape (K, K−1)."""
    k = n_categories
    columns = np.triu(np.ones((k, k - 1)))
    columns[np.arange(1, k), np.arange(k - 1)] = -np.arange(1, k)
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def scores(theta: NDArray[np.float64], evidence: Evidence, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gradient of the log-posterior with respect to the isometric log-ratios at θ (n, K), shape (n, K−1).

    With respect to ln θ it is θ_i (g_i − Σθ_j g_j) + ρ_i − θ_i Σρ, with g the gradient of the log-likelihood.
    """
    slopes = np.array([value_and_gradient(row, evidence)[1] for row in np.ascontiguousarray(theta)])
    pull = theta * slopes
    by_log = pull - theta * pull.sum(axis=1, keepdims=True) + prior - theta * prior.sum()
    return np.asarray(by_log @ basis(theta.shape[1]))


def coefficient_scores(
    coefficients: NDArray[np.float64], responses: Responses, covariates: NDArray[np.float64], sd: float
) -> NDArray[np.float64]:
    """Return the gradient of the log-posterior of `regression_model` at coefficients (n, P), of the same shape.

    With G the rows of evidence of the people, h = G·θ and Z = (1, covariates), the log-likelihood Σ ln h has the
    gradient Zᵀ(θ(G/h − 1)) with respect to the coefficients of each category.
    """
    evidence, row_of = responses.evidence_and_index()
    rows, z = evidence.matrix()[row_of], np.column_stack([np.ones(len(covariates)), covariates])
    slopes = np.empty_like(coefficients)
    for i, point in enumerate(coefficients):
        weights = np.column_stack([np.zeros(z.shape[1]), point.reshape(z.shape[1], -1)])
        logits = z @ weights
        theta = np.exp(logits - logits.max(axis=1, keepdims=True))
        theta /= theta.sum(axis=1, keepdims=True)
        by_logit = theta * (rows / (rows * theta).sum(axis=1, keepdims=True) - 1)
        slopes[i] = (z.T @ by_logit)[:, 1:].ravel() - point / sd**2
    return slopes


def scale_of(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L with LLᵀ the covariance of points (n, d). L⁻¹ gives every direction the same scale."""
    covariance = np.atleast_2d(np.cov(points, rowvar=False))
    # The floor keeps L⁻¹ finite in directions in which hardly anything moves.
    floor = 1e-10 * max(float(np.trace(covariance)) / len(covariance), TINY**0.5)
    return np.asarray(np.linalg.cholesky(covariance + floor * np.eye(len(covariance))))


def stein_kernel(points: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Stein kernel (n, n) of points (n, d) of unit scale, where the log-density has the gradients `slopes`.

    The kernel is the inverse multiquadric (1 + |x−y|²/d)^(−½) in d dimensions. With it, the discrepancy tends to 0 only
    if the draws converge to the target, unlike with a Gaussian kernel [1]_.

    References
    ----------
    .. [1] J. Gorham and L. Mackey, Measuring sample quality with kernels, ICML 2017.
    """
    d = points.shape[1]
    square = squareform(pdist(points, "sqeuclidean")) / d
    u = 1 + square
    own = np.einsum("ij,ij->i", slopes, points)
    cross = slopes @ points.T
    # (s_x − s_y)·(x − y), the sum of the two mixed terms.
    mixed = own[:, None] + own[None, :] - cross - cross.T
    return np.asarray(slopes @ slopes.T * u**-0.5 + mixed / d * u**-1.5 + u**-1.5 - 3 * square / d * u**-2.5)


def stein_test(
    kernel: NDArray[np.float64], resamples: int, level: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the discrepancy, the threshold that correct draws exceed with probability `level`, and the p-value.

    The test is the wild bootstrap [1]_: it flips the signs of independent draws at random. This does not change the
    distribution of the discrepancy of correct draws, and makes that of biased draws smaller. The p-value is at least
    1/(1 + resamples). `kernel` is the Stein kernel (n, n) of n independent draws.

    References
    ----------
    .. [1] K. Chwialkowski, H. Strathmann and A. Gretton, A kernel test of goodness of fit, ICML 2016.
    """
    n = len(kernel)
    values = []
    for start in range(0, resamples, BATCH):
        signs = rng.choice([-1.0, 1.0], size=(min(BATCH, resamples - start), n))
        values.append(np.einsum("bi,bi->b", signs @ kernel, signs))
    null = np.concatenate(values) / n**2
    observed = kernel.sum() / n**2
    p_value = (1 + np.sum(null >= observed - 1e-12)) / (1 + resamples)
    return float(np.sqrt(max(observed, 0))), float(np.sqrt(max(np.quantile(null, 1 - level), 0))), float(p_value)
