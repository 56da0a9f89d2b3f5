"""Are the intervals right over many data sets? Simulation-based calibration of samplers and of PyMC models."""

import inspect
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
from adobest_pp.diagnostics.draws import RESOLVED, Draws, bulk_ess, check_on_simplex, read, thinned
from adobest_pp.mechanisms import Mechanism
from adobest_pp.samplers.registry import Sampler, resolve
from adobest_pp.samplers.sampling import sample

# The number of random subsets in each replication, for mechanisms that publish one and without `collect`.
RANDOM_SUBSETS = 4

# The probability that the ECDF of a correct sampler leaves its envelope in at least one category.
ENVELOPE = 0.05
ENVELOPE_SIMULATIONS = 4000
# Replications that the statistics need.
FEWEST = 2

Collect = Callable[[NDArray[np.int64], np.random.Generator], Responses]
Fit = Callable[[Any, int], xr.DataTree]


def calibration(
    fit: Callable[..., Any] | str | Sampler,
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
    draws are from the posterior, all ranks are equally likely in every category.

    Parameters
    ----------
    fit : str, function, PyMC step class or Sampler
        A sampler as `sample` takes it, which makes 4 chains of 1000 draws under `prior`; or a function from responses
        and a seed to draws, such as ``lambda r, seed: ad.sample(r, "gibbs", draws=200, random_seed=seed)``, which must
        use the same `prior`.
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
        How many draws, evenly spaced, θ* is ranked among. If they are far from independent, a correct sampler looks
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
        ``coverage_error``, the standard error for a correct sampler; ``p_value`` of uniform ranks by category and
        ``p_value_overall`` (Bonferroni); ``ecdf_difference`` by category and point, and the envelope ``lower``,
        ``upper``, which holds the ranks of a correct sampler in all categories with a probability of 95 %. The
        attributes give the number of replications that were made.

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
    >>> result = ad.diagnostics.calibration("gibbs", ad.SRR(2, epsilon=3.0), replications=50, random_seed=1)
    >>> bool(result.p_value_overall > 0.01)
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, such as SRR(4, epsilon=1.0), got {brief(mechanism)}")
    concentration = check_prior(prior, mechanism.n_categories)
    fitting = _fitting(fit, concentration)
    people = check_count(n_people, "n_people", 0)
    wanted, ranked, probabilities, seconds, seed = _checked(replications, n_ranked, levels, budget, random_seed)
    ask = collect if collect is not None else _random_collect(mechanism)

    def replicate(i: int, rng: np.random.Generator) -> dict[str, Any]:
        truth = draw_dirichlet(rng, concentration)
        responses = ask(draw_people(rng, truth, people), rng)
        draws = _fitted(fitting(responses, int(rng.integers(2**31))), responses)
        return {"labels": draws.categories, **_ranked(draws.theta, truth, probabilities, ranked, rng, RESOLVED)}

    rows, about = _replicated(replicate, wanted, seconds, seed, progressbar)
    settings = {"n_people": people, "prior": concentration, "n_ranked": ranked, "mechanism": repr(mechanism)}
    return _dataset(rows, probabilities, settings | about)


def _checked(
    replications: Any, n_ranked: Any, levels: Any, budget: Any, random_seed: Any
) -> tuple[int, int, NDArray[np.float64], float, int]:
    """Return the settings of both functions, with a seed if none is given, or raise ValueError."""
    wanted, ranked = check_count(replications, "replications", FEWEST), check_count(n_ranked, "n_ranked")
    try:
        probabilities = as_numbers(levels, "fiu").astype(np.float64)
    except TypeError:
        probabilities = np.empty(0)
    if probabilities.ndim != 1 or not probabilities.size or not np.all((probabilities > 0) & (probabilities < 1)):
        raise ValueError(f"levels must be probabilities between 0 and 1, got {brief(levels)}")
    seconds = np.inf if budget is None else check_positive(budget, "budget")
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    seed = fresh if random_seed is None else check_integer(random_seed, "random_seed", 0)
    return wanted, ranked, probabilities, seconds, seed


def _replicated(
    replicate: Callable[[int, np.random.Generator], dict[str, Any]],
    wanted: int,
    seconds: float,
    seed: int,
    progressbar: bool,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the replications that were made within the budget, and what the result says of them."""
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    with SlowProgress(wanted, "Calibrating", progressbar) as progress:
        for i, rng in enumerate(np.random.default_rng(seed).spawn(wanted)):
            if len(rows) >= FEWEST and time.perf_counter() - began >= seconds:
                break
            rows.append(replicate(i, rng))
            progress.advance(1)
    about = {"replications": len(rows), "replications_wanted": wanted, "random_seed": seed}
    return rows, about | {"envelope_level": 1 - ENVELOPE, "wall_time": time.perf_counter() - began}


def _fitting(fit: Any, prior: NDArray[np.float64]) -> Fit:
    """Return a function from responses and a seed to draws, or raise ValueError."""
    if not isinstance(fit, str | type | Sampler):
        try:
            parameters = inspect.signature(fit)
            parameters.bind(None, None)
        except (TypeError, ValueError):
            pass
        else:
            if not any(each.kind is each.VAR_POSITIONAL for each in parameters.parameters.values()):
                return fit  # type: ignore[no-any-return]
    try:
        sampler = resolve(fit)
    except ValueError as problem:
        raise ValueError(f"fit must be a sampler, or a function of responses and a seed: {problem}") from None
    return lambda responses, seed: sample(responses, sampler, prior, random_seed=seed, progressbar=False)


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


def _ranked(
    draws: NDArray[np.float64],
    truth: NDArray[np.float64],
    levels: NDArray[np.float64],
    n_ranked: int,
    rng: np.random.Generator,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> dict[str, Any]:
    """Rank the truth (K,) among draws (chain, draw, K). Values beyond a limit count as equal to it."""
    flat = draws.reshape(-1, draws.shape[-1])
    if len(flat) < n_ranked:
        raise ValueError(f"fit must return at least n_ranked = {n_ranked} draws, got {len(flat)}")
    bar = np.clip(truth, *limits)
    rank = _rank(np.clip(_exactly(draws, n_ranked), *limits), bar, rng)
    low, high = np.clip(np.quantile(flat, np.stack([(1 - levels) / 2, (1 + levels) / 2]), axis=0), *limits)
    return {
        "truth": truth,
        "mean": flat.mean(axis=0),
        "rank": rank,
        "pit": (rank + rng.random(truth.size)) / (n_ranked + 1),
        "covered": (low <= bar) & (bar <= high),
        "ess": float(np.nan_to_num(bulk_ess(draws), nan=0.0).min()),
    }


def _exactly(draws: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return `count` of the draws (chain, draw, K), evenly spaced in all chains."""
    sample = thinned(draws, -(-count // len(draws)) * len(draws))
    return sample[np.linspace(0, len(sample) - 1, count).round().astype(np.int64)]


def _rank(draws: NDArray[np.float64], truth: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of the draws (n, K) are below the truth (K,), of shape (K,).

    Draws that equal the truth count as below or above it at random, so ranks are uniform with ties, too.
    """
    return np.asarray((draws < truth).sum(axis=0) + rng.integers(0, (draws == truth).sum(axis=0) + 1))


def _fitted(tree: Any, responses: Responses) -> Draws:
    if not isinstance(tree, xr.DataTree):
        raise ValueError(f"fit must return a DataTree, got {type(tree).__name__}")
    draws = read({"fit": tree})["fit"]
    check_on_simplex(draws)
    if draws.categories != responses.categories:  # the truth is in this order
        raise ValueError(f"fit must return draws of the categories {responses.categories}, got {draws.categories}")
    return draws


def _dataset(
    rows: list[dict[str, Any]], levels: NDArray[np.float64], settings: dict[str, Any], dim: str = "category"
) -> xr.Dataset:
    stacked = {name: np.stack([row[name] for row in rows]) for name in ("truth", "mean", "rank", "pit")}
    pit = stacked["pit"]
    n, k = pit.shape
    # The envelope is of one category, at a level that holds for all of them together.
    rng = np.random.default_rng(0)
    points, _, lower, upper = ecdf_pit(pit[:, 0], 1 - ENVELOPE / k, ENVELOPE_SIMULATIONS, rng=rng)
    p_value = array_stats.uniformity_test(pit, axis=0)[0]
    by_both = ("replication", dim)
    return xr.Dataset(
        {
            **{name: (by_both, values) for name, values in stacked.items()},
            "ess": ("replication", np.array([row["ess"] for row in rows])),
            "coverage": (("level", dim), np.mean([row["covered"] for row in rows], axis=0)),
            "coverage_error": ("level", np.sqrt(levels * (1 - levels) / n)),
            "p_value": (dim, p_value),
            "p_value_overall": ((), min(1.0, k * float(np.min(p_value)))),
            "ecdf_difference": ((dim, "point"), np.stack([compute_ecdf(u, points) for u in pit.T]) - points),
            "lower": ("point", lower - points),
            "upper": ("point", upper - points),
        },
        {dim: list(rows[0]["labels"]), "level": levels, "point": points, "replication": np.arange(n)},
        settings,
    )


# A PyMC model under its own prior.


def model_calibration(
    build: Callable[[Responses], Any],
    responses: Responses,
    fit: Fit | None = None,
    scalars: Callable[[xr.Dataset], xr.Dataset] | None = None,
    replications: int = 100,
    levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
    n_ranked: int = 99,
    budget: float | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Test by simulation whether a PyMC model of private answers, and its sampler, are calibrated.

    Like `calibration`, but with the prior of the model: each replication takes a draw from the prior as the truth, fits
    answers from the prior predictive at that truth, and ranks every scalar of the truth among the draws.

    Parameters
    ----------
    build : callable
        Function from responses to the PyMC model, whose only observed variable is a `PrivateResponse` of them, such as
        `frequency_model`.
    responses : Responses
        Gives the mechanism, the categories, the published subsets and the number of people. The answers are not used.
    fit : callable, optional
        Function from a model and a seed to draws; by default `pymc.sample`.
    scalars : callable, optional
        Function from draws of the model's variables, a dataset by chain and draw, to the scalars to rank, a dataset by
        chain, draw and any other dimensions; by default all free variables.
    replications, levels, n_ranked, budget, random_seed, progressbar
        As in `calibration`.

    Returns
    -------
    xarray.Dataset
        As in `calibration`, by ``scalar`` in place of category. `plots.plot_calibration` draws it.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=3.0), [0] * 30)
    >>> result = ad.diagnostics.model_calibration(
    ...     ad.frequency_model, responses, replications=2, random_seed=1, progressbar=False
    ... )
    >>> result.scalar.values.tolist()
    ['theta[0]', 'theta[1]']
    """
    if not callable(build):
        raise ValueError(f"build must be a function from responses to a PyMC model, got {brief(build)}")
    if not isinstance(responses, Responses) or not len(responses):
        raise ValueError(f"responses must be a Responses with at least one answer, got {brief(responses)}")
    for name, given in (("fit", fit), ("scalars", scalars)):
        if given is not None and not callable(given):
            raise ValueError(f"{name} must be a function, got {brief(given)}")
    wanted, ranked, probabilities, seconds, seed = _checked(replications, n_ranked, levels, budget, random_seed)
    import pymc as pm

    model = build(responses)
    if len(model.observed_RVs) != 1:
        raise ValueError(f"build must return a model with one observed variable, got {len(model.observed_RVs)}")
    free, observed = [rv.name for rv in model.free_RVs], model.observed_RVs[0].name
    choose = scalars if scalars is not None else lambda draws: draws[free]
    tables: dict[str, Any] = {"categories": list(responses.categories)}
    if responses.mechanism.publishes_subset:
        tables |= {"subsets": responses.subsets, "subset_index": responses.subset_index}
    predicted = pm.sample_prior_predictive(wanted, model=model, random_seed=seed)
    truths, answers = predicted["prior"].to_dataset(), predicted["prior_predictive"][observed].isel(chain=0)
    sample_model = fit or (lambda model, seed: pm.sample(model=model, random_seed=seed, progressbar=False))

    def replicate(i: int, rng: np.random.Generator) -> dict[str, Any]:
        simulated = Responses.from_arrays(responses.mechanism, answers.isel(draw=i).values, **tables)
        tree = sample_model(build(simulated), int(rng.integers(2**31)))
        if not isinstance(tree, xr.DataTree) or "posterior" not in tree:
            raise ValueError(f"fit must return a DataTree with draws, got {type(tree).__name__}")
        labels, draws = _flat(choose(tree["posterior"].to_dataset()))
        known, truth = _flat(choose(truths.isel(draw=[i])))
        if known != labels:
            raise ValueError(f"fit must return draws of {brief(known)}, got {brief(labels)}")
        return {"labels": labels, **_ranked(draws, truth[0, 0], probabilities, ranked, rng)}

    rows, about = _replicated(replicate, wanted, seconds, seed, progressbar)
    settings = {"n_people": len(responses), "n_ranked": ranked, "mechanism": repr(responses.mechanism)}
    return _dataset(rows, probabilities, settings | about, "scalar")


def _flat(values: Any) -> tuple[list[str], NDArray[np.float64]]:
    """Return the labels of all scalars of a dataset, and their values, of shape (chain, draw, scalar)."""
    if not isinstance(values, xr.Dataset) or not values.data_vars:
        raise ValueError(f"scalars must return a Dataset by chain and draw, got {brief(values)}")
    labels, parts = [], []
    for name, variable in values.data_vars.items():
        ordered = variable.transpose("chain", "draw", ...)
        for place in np.ndindex(ordered.shape[2:]):
            names = [str(ordered[dim].values[i]) for dim, i in zip(ordered.dims[2:], place, strict=True)]
            labels.append(f"{name}[{', '.join(names)}]" if names else str(name))
        parts.append(ordered.values.reshape(*ordered.shape[:2], -1).astype(np.float64))
    return labels, np.concatenate(parts, axis=2)
