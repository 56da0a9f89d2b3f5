"""Are the intervals right over many data sets? Simulation-based calibration of any function from answers to draws."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from arviz_stats.ecdf_utils import compute_ecdf, ecdf_pit
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_count, check_integer, check_positive, check_prior
from adobest_pp._dirichlet import draw_dirichlet, draw_people
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics.draws import Draws, check_on_simplex, read, thinned
from adobest_pp.mechanisms import Mechanism

# The number of random subsets in each replication, for mechanisms that publish one and without `collect`.
RANDOM_SUBSETS = 4

# The probability that the ECDF of a right sampler leaves its envelope, in any category at all.
ENVELOPE = 0.05
ENVELOPE_SIMULATIONS = 4000
# Replications that the statistics need.
FEWEST = 2


# Shares below this count as equal: the smallest normal double is 2·10⁻³⁰⁸, and samplers stop near it.
SMALLEST = 1e-300

Collect = Callable[[NDArray[np.int64], np.random.Generator], Responses]


def calibration(
    fit: Callable[[Responses, int], xr.DataTree],
    mechanism: Mechanism,
    prior: ArrayLike = 1.0,
    n_people: int = 200,
    replications: int = 100,
    collect: Collect | None = None,
    levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
    n_ranked: int = 99,
    budget: float | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Test by simulation whether 95 % intervals hold the truth in 95 % of data sets [1]_.

    Each replication draws θ* from the prior, simulates the answers, fits them, and ranks θ* among the draws. If the
    draws are from the posterior, all ranks are equally likely, in every category and for every mechanism.

    Parameters
    ----------
    fit : callable
        Function from responses and a seed to draws, such as
        ``lambda r, seed: ad.sample(r, "gibbs", random_seed=seed)``. It must use the same `prior`.
    mechanism : Mechanism
        The mechanism on the devices.
    prior : float or array of shape (K,), default 1.0
        Concentration ρ of the Dirichlet prior, from which θ* is drawn.
    n_people : int, default 200
        People who answer in each replication.
    replications : int, default 100
        How many data sets to simulate.
    collect : callable, optional
        Function from the people's categories, of shape (n_people,), and a generator to their responses. It may choose
        subsets from earlier answers. By default RRRR asks under 4 random subsets.
    levels : sequence of float
        Probabilities of the central intervals whose coverage is counted.
    n_ranked : int, default 99
        How many draws, evenly spaced, θ* is ranked among. If they are far from independent, a right sampler looks
        overconfident: ``ess`` of the result should not be below `n_ranked`.
    budget : float, optional
        Seconds after which no new replication begins. At least two are made.
    random_seed : int, optional
        The same seed gives the same data sets. Without one, a seed is chosen and recorded.
    progressbar : bool, default True
        Whether to show a progress bar after two seconds.

    Returns
    -------
    xarray.Dataset
        ``rank`` and ``pit`` (the rank as a number in (0, 1), made continuous at random), ``truth`` and ``mean`` by
        replication and category; ``ess`` by replication; ``coverage`` by level and category, with
        ``coverage_error``, the standard error for a right sampler; ``p_value`` of uniform ranks by category and
        ``p_value_overall`` (Bonferroni); ``ecdf_difference`` by category and point, and the envelope ``lower``,
        ``upper``, which holds the ranks of a right sampler in all categories with a probability of 95 %. The attributes
        give the number of replications that were made.

    See Also
    --------
    compare : Whether samplers agree on one data set.

    References
    ----------
    .. [1] S. Talts, M. Betancourt, D. Simpson, A. Vehtari and A. Gelman, Validating Bayesian inference algorithms
       with simulation-based calibration, 2018.
    .. [2] T. Säilynoja, P.-C. Bürkner and A. Vehtari, Graphical test for discrete uniformity and its applications in
       goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32 (2022).

    Examples
    --------
    >>> import adobest_pp as ad
    >>> def fit(responses, seed):
    ...     return ad.sample(responses, "gibbs", draws=500, tune=100, chains=1, random_seed=seed)
    >>> result = ad.diagnostics.calibration(fit, ad.SRR(2, epsilon=3.0), replications=50, random_seed=1)
    >>> bool(result.p_value_overall > 0.01)
    True
    """
    if not callable(fit):
        raise ValueError(f"fit must be a function of responses and a seed, got {brief(fit)}")
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, such as SRR(4, epsilon=1.0), got {brief(mechanism)}")
    concentration = check_prior(prior, mechanism.n_categories)
    people = check_count(n_people, "n_people", 0)
    wanted = check_count(replications, "replications", FEWEST)
    ranked = check_count(n_ranked, "n_ranked")
    probabilities = _check_levels(levels)
    seconds = np.inf if budget is None else check_positive(budget, "budget")
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    seed = fresh if random_seed is None else check_integer(random_seed, "random_seed", 0)

    ask = collect if collect is not None else _random_collect(mechanism)
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    with SlowProgress(wanted, "Calibrating", progressbar) as progress:
        for rng in np.random.default_rng(seed).spawn(wanted):
            if len(rows) >= FEWEST and time.perf_counter() - began >= seconds:
                break
            rows.append(_replicate(fit, ask, concentration, people, probabilities, ranked, rng))
            progress.advance(1)
    settings = {
        "n_people": people,
        "prior": concentration,
        "replications": len(rows),
        "replications_wanted": wanted,
        "n_ranked": ranked,
        "random_seed": seed,
        "envelope_level": 1 - ENVELOPE,
        "mechanism": repr(mechanism),
        "wall_time": time.perf_counter() - began,
    }
    return _dataset(rows, probabilities, settings)


def _check_levels(levels: Sequence[float]) -> NDArray[np.float64]:
    try:
        values = as_numbers(levels, "fiu").astype(np.float64)
    except TypeError:
        values = np.empty(0)
    if values.ndim != 1 or values.size == 0 or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"levels must be probabilities between 0 and 1, got {brief(levels)}")
    return values


def _random_collect(mechanism: Mechanism) -> Collect:
    def collect(x: NDArray[np.int64], rng: np.random.Generator) -> Responses:
        responses = Responses(mechanism)
        if not mechanism.publishes_subset:
            responses.append(mechanism.privatize(x, rng=rng))
            return responses
        k = mechanism.n_categories
        for group in np.array_split(x, RANDOM_SUBSETS):
            subset = rng.choice(k, size=rng.integers(0, k), replace=False)
            responses.append(mechanism.privatize(group, subset=subset, rng=rng), subset)
        return responses

    return collect


def _replicate(
    fit: Callable[[Responses, int], xr.DataTree],
    collect: Collect,
    prior: NDArray[np.float64],
    n_people: int,
    levels: NDArray[np.float64],
    n_ranked: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Simulate one data set, fit it, and rank the truth among the draws."""
    truth = draw_dirichlet(rng, prior)
    responses = collect(draw_people(rng, truth, n_people), rng)
    draws = _fitted(fit(responses, int(rng.integers(2**31))), responses)
    if draws.theta.shape[0] * draws.theta.shape[1] < n_ranked:
        raise ValueError(f"fit must return at least n_ranked = {n_ranked} draws, got {len(draws.flat)}")
    rank = _rank(_exactly(draws, n_ranked), truth, rng)
    tails = np.stack([(1 - levels) / 2, (1 + levels) / 2])
    low, high = np.quantile(draws.flat, tails, axis=0)
    return {
        "categories": draws.categories,
        "truth": truth,
        "mean": draws.flat.mean(axis=0),
        "rank": rank,
        "pit": (rank + rng.random(prior.size)) / (n_ranked + 1),
        "covered": (_floored(low) <= _floored(truth)) & (_floored(truth) <= _floored(high)),
        "ess": draws.effective,
    }


def _rank(sample: NDArray[np.float64], truth: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of the draws (n, K) are below the truth (K,).

    Draws that equal the truth count as below or above it at random. So the ranks of equally distributed values are
    uniform, with ties as without.
    """
    draws, bar = _floored(sample), _floored(truth)
    return np.asarray((draws < bar).sum(axis=0) + rng.integers(0, (draws == bar).sum(axis=0) + 1))


def _floored(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make all shares below `SMALLEST` equal, because samplers treat them differently."""
    return np.maximum(shares, SMALLEST)


def _fitted(tree: Any, responses: Responses) -> Draws:
    if not isinstance(tree, xr.DataTree):
        raise ValueError(f"fit must return a DataTree, got {type(tree).__name__}")
    draws = read({"fit": tree})["fit"]
    check_on_simplex(draws)
    if draws.categories != responses.categories:  # the truth is in this order
        raise ValueError(f"fit must return draws of the categories {responses.categories}, got {draws.categories}")
    return draws


def _exactly(draws: Draws, count: int) -> NDArray[np.float64]:
    """Return `count` draws, evenly spaced in all chains."""
    chains = draws.theta.shape[0]
    sample = thinned(draws.theta, -(-count // chains) * chains)
    return sample[np.linspace(0, len(sample) - 1, count).round().astype(np.int64)]


def _dataset(rows: list[dict[str, Any]], levels: NDArray[np.float64], settings: dict[str, Any]) -> xr.Dataset:
    stacked = {name: np.stack([row[name] for row in rows]) for name in ("truth", "mean", "rank", "pit")}
    pit = stacked["pit"]
    n, k = pit.shape
    # The envelope is of one category, at a level that holds for all of them together.
    rng = np.random.default_rng(0)
    points, _, lower, upper = ecdf_pit(pit[:, 0], 1 - ENVELOPE / k, ENVELOPE_SIMULATIONS, rng=rng)
    p_value = array_stats.uniformity_test(pit, axis=0)[0]
    by_both = ("replication", "category")
    return xr.Dataset(
        {
            **{name: (by_both, values) for name, values in stacked.items()},
            "ess": ("replication", np.array([row["ess"] for row in rows])),
            "coverage": (("level", "category"), np.mean([row["covered"] for row in rows], axis=0)),
            "coverage_error": ("level", np.sqrt(levels * (1 - levels) / n)),
            "p_value": ("category", p_value),
            "p_value_overall": ((), min(1.0, k * float(np.min(p_value)))),
            "ecdf_difference": (("category", "point"), np.stack([compute_ecdf(u, points) for u in pit.T]) - points),
            "lower": ("point", lower - points),
            "upper": ("point", upper - points),
        },
        {"category": list(rows[0]["categories"]), "level": levels, "point": points, "replication": np.arange(n)},
        settings,
    )
