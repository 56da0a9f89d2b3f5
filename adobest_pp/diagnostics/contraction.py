"""How fast posteriors contract around the truth, and how often adaptive collections ask the best question."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_probabilities, check_probability
from adobest_pp._numerics import zero_sum_basis
from adobest_pp._text import brief, by_label
from adobest_pp.answers.draws import responses_of, theta_of
from adobest_pp.answers.responses import Responses
from adobest_pp.design import UTILITY_CODES
from adobest_pp.design.utilities import choose_size
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.mechanisms import check_rrrr

if TYPE_CHECKING:
    from adobest_pp.simulate import OnlineRun

Posteriors = Mapping[int, xr.DataTree | Sequence[xr.DataTree]]

# Eigenvalues of the information below this share of the largest are rounding: nothing is known in that direction.
SINGULAR = 1e-12

LONG_NAMES = {
    "n": "number of responses",
    "error": "E‖θ − θ*‖²",
    "error_se": "standard error of E‖θ − θ*‖² over runs",
    "radius": "radius of the ball around θ* that holds the stated posterior probability",
    "inverse_information": "trace of the inverse average information of a response",
    "bvm": "Bernstein–von Mises line, 2 Tr I⁻¹/n",
    "slope": "slope of ln E‖θ − θ*‖² against ln n",
    "slope_se": "standard error of the slope",
    "runs": "independent runs",
}


def checkpoints(responses: Responses, ns: Iterable[int]) -> dict[int, Responses]:
    """Return the first n responses for each n, to be fitted one by one.

    Parameters
    ----------
    responses : Responses
        The responses, in the order in which they came in.
    ns : iterable of int
        Numbers of responses, each from 1 to all of them.

    Returns
    -------
    dict of int to Responses
        In increasing order of n.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import checkpoints
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1, 0])
    >>> {n: len(first) for n, first in checkpoints(responses, [4, 2]).items()}
    {2: 2, 4: 4}
    """
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")
    if isinstance(ns, str | Mapping) or not isinstance(ns, Iterable) or getattr(ns, "ndim", 1) == 0:
        raise ValueError(f"ns must be a list of numbers of responses, got {brief(ns)}")
    sizes = sorted({check_integer(n, "ns", 1, len(responses)) for n in ns})
    answers = responses.answers
    tables: dict[str, Any] = {}
    prefixes = {}
    for n in sizes:
        if len(responses.subsets):
            tables = {"subsets": responses.subsets, "subset_index": responses.subset_index[:n]}
        prefixes[n] = Responses.from_arrays(
            responses.mechanism, answers[:n], categories=list(responses.categories), **tables
        )
    return prefixes


def information(evidence: Evidence, theta: ArrayLike) -> NDArray[np.float64]:
    """Return the average information of a response about θ, Σ count·g gᵀ/h² / n, of shape (K, K).

    This is minus the second derivative of the log-likelihood, divided by n, because h is linear in θ. This observed
    information tends to the Fisher information of the questions that were asked.
    """
    if evidence.n_responses == 0:
        raise ValueError("evidence must hold at least one response, got none")
    probabilities = check_probabilities(theta, evidence.n_categories)
    h = row_probabilities(probabilities, evidence)
    if h.min() <= 0:
        raise ValueError(f"theta must give every answer a positive probability, got {probabilities!r}")
    slopes = evidence.matrix() * (np.sqrt(evidence.count / evidence.n_responses) / h)[:, None]
    return np.asarray(slopes.T @ slopes)


def inverse_information_trace(evidence: Evidence, theta: ArrayLike) -> float:
    """Return the trace of the inverse average information on the tangent space of the simplex, where Σθ is fixed.

    Divided by n, it is the sum of the variances of an efficient estimator of θ, and in the limit of the posterior
    (Bernstein–von Mises). It is infinite if the responses do not determine θ in some direction.
    """
    basis = zero_sum_basis(evidence.n_categories)
    eigenvalues = np.linalg.eigvalsh(basis @ information(evidence, theta) @ basis.T)
    if eigenvalues[0] <= SINGULAR * eigenvalues[-1]:
        return float("inf")
    return float(np.sum(1 / eigenvalues))


def contraction(
    posteriors: Mapping[str, Posteriors], truth: ArrayLike, *, probability: float = 0.95, fit_from: int = 1
) -> xr.Dataset:
    """Measure how posteriors contract around the true θ* as responses come in.

    Parameters
    ----------
    posteriors : mapping of label to mapping of n to DataTree
        For each sampler or mechanism, the posterior given the first n responses (see `checkpoints`). A sequence of
        trees, one for each independent run and in the same order at every n, may replace a tree.
    truth : array of shape (K,)
        θ*, by label (of xarray or pandas) or in the order of the categories of the first posterior.
    probability : float, default 0.95
        The posterior mass within the radius.
    fit_from : int, default 1
        The smallest n that counts for the slope.

    Returns
    -------
    xarray.Dataset
        By label and n, averaged over runs: ``error``, E‖θ−θ*‖²; ``error_se`` over runs; ``radius``, that of the
        ball around θ* with the stated probability; ``inverse_information``, the trace of the inverse average
        information of the first n responses at θ*; ``bvm`` = 2·``inverse_information``/n. By label: ``slope`` of
        ln E‖θ−θ*‖² against ln n, ``slope_se`` and ``runs``.

    Notes
    -----
    By the theorem of Bernstein and von Mises, the distance of the posterior mean from θ* and the spread of the
    posterior each contribute Tr I⁻¹/n to the error. Their sum is the line ``bvm``, with slope −1. This is the limit for
    θ* inside the simplex; posteriors contract faster if θ* is on an edge. The line needs the group ``responses``, which
    `sample` stores in its trees. It is NaN without it, and infinite while the responses do not determine θ.

    The slope is the mean of the least-squares slopes of the runs, with the standard error of that mean. The standard
    error of a single run assumes independent residuals and is too small, because errors at nested checkpoints are not
    independent. Use several runs to judge a rate.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import checkpoints, contraction
    >>> run = ad.simulate_adaptive([0.6, 0.4], ad.AdaptiveSubset(ad.RRRR(2, epsilon=2.0)), n_people=4000, random_seed=1)
    >>> trees = {n: ad.sample(r, "gibbs", random_seed=2) for n, r in checkpoints(run.responses, [250, 4000]).items()}
    >>> result = contraction({"gibbs": trees}, [0.6, 0.4])
    >>> dict(result.sizes)
    {'label': 1, 'n': 2}
    """
    check_probability(probability)
    first = check_integer(fit_from, "fit_from", 1)
    if not isinstance(posteriors, Mapping) or not posteriors:
        raise ValueError(f"posteriors must be a mapping of at least one label to posteriors, got {brief(posteriors)}")
    runs = {label: _runs(label, items) for label, items in posteriors.items()}
    first_tree = next(iter(next(iter(runs.values())).values()))[0]
    categories = theta_of(first_tree, "posteriors")["category"].values.tolist()
    star = check_probabilities(truth, len(categories), "truth", categories)
    theta = xr.DataArray(star, coords={"category": categories}, dims="category")
    parts = [_measure(trees, theta, probability, first) for trees in runs.values()]
    result = xr.concat(parts, xr.Variable("label", list(runs)), join="outer")
    for name, text in LONG_NAMES.items():
        result[name].attrs["long_name"] = text
    return result.assign_attrs(probability=probability, fit_from=first, truth=theta.values.tolist())


def _runs(label: str, items: Any) -> dict[int, Sequence[xr.DataTree]]:
    """Return the trees of all runs of one label by their number of responses, sorted, or raise ValueError."""
    if not isinstance(items, Mapping) or not items:
        raise ValueError(f"posteriors must map {label!r} to a mapping of n to posteriors, got {brief(items)}")
    trees = {
        check_integer(n, "the n of posteriors", 1): [item] if isinstance(item, xr.DataTree) else item
        for n, item in items.items()
    }
    for item in trees.values():
        if not isinstance(item, Sequence) or isinstance(item, str):
            raise ValueError(f"posteriors must hold a DataTree, or a sequence of them, for each n, got {brief(item)}")
    counts = sorted({len(item) for item in trees.values()})
    if counts[0] == 0 or len(counts) > 1:
        raise ValueError(f"posteriors must hold as many runs of {label!r} at every n, at least one, got {counts}")
    return dict(sorted(trees.items()))


def _measure(
    trees: dict[int, Sequence[xr.DataTree]], theta: xr.DataArray, probability: float, fit_from: int
) -> xr.Dataset:
    """Return the results of one label, by n."""
    ns = np.array(list(trees))
    values = [[_statistics(tree, theta, probability) for tree in runs] for runs in trees.values()]
    error, radius, trace = np.array(values).T  # each of shape (runs, checkpoints)
    runs = len(error)
    spread = error.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.full(ns.size, np.nan)
    fitted = ns >= fit_from
    slope, slope_se = fit_slope(ns[fitted], error[:, fitted])
    columns = {
        "error": error.mean(axis=0),
        "error_se": spread,
        "radius": radius.mean(axis=0),
        "inverse_information": trace.mean(axis=0),
        "bvm": 2 * trace.mean(axis=0) / ns,
    }
    variables: dict[str, Any] = {name: ("n", values) for name, values in columns.items()}
    return xr.Dataset(variables | {"slope": slope, "slope_se": slope_se, "runs": runs}, coords={"n": ns})


def _statistics(tree: xr.DataTree, theta: xr.DataArray, probability: float) -> tuple[float, float, float]:
    """Return E‖θ−θ*‖², the radius, and the trace of the inverse information (NaN without responses in the tree)."""
    categories = theta["category"].values.tolist()
    draws = theta_of(tree, "posteriors", categories).values.reshape(-1, theta.size)
    squares = ((draws - theta.values) ** 2).sum(axis=1)
    trace = float("nan")
    if (responses := responses_of(tree)) is not None:
        truth = by_label(theta, responses.categories, "posteriors")
        trace = inverse_information_trace(responses.evidence(), truth) if len(responses) else float("inf")
    return float(squares.mean()), float(np.sqrt(np.quantile(squares, probability))), trace


def fit_slope(ns: NDArray[np.int64], error: NDArray[np.float64]) -> tuple[float, float]:
    """Return the log-log slope of errors (runs, checkpoints) and its standard error; NaN with too few of either."""
    x = np.log(ns)
    if x.size < 2:
        return float("nan"), float("nan")
    x = x - x.mean()
    y = np.log(error)
    slopes = y @ x / (x @ x)
    if len(slopes) > 1:
        return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes)))
    residuals = y[0] - y[0].mean() - slopes[0] * x
    spread = residuals @ residuals / (x.size - 2) if x.size > 2 else float("nan")
    return float(slopes[0]), float(np.sqrt(spread / (x @ x)))


# How often an adaptive collection asks the best question: the frequency of S_t = S*.

DEFAULT_WINDOWS = 50

SUBSET_LONG_NAMES = {
    "frequency": "frequency of S_t = S* within the window",
    "frequency_se": "standard error of the frequency over runs",
    "cumulative": "frequency of S_t = S* so far",
    "cumulative_se": "standard error of the cumulative frequency over runs",
}


def best_subset(run: "OnlineRun", truth: ArrayLike) -> NDArray[np.bool_]:
    """Return S* as a mask of shape (K,): the subset that the utility of the run chooses at the true θ*."""
    mechanism = check_rrrr(run.responses.mechanism, "mechanism of runs")
    theta = check_probabilities(truth, mechanism.n_categories)
    utility = run.settings.get("utility")
    if utility not in UTILITY_CODES:
        raise ValueError(f"runs must have a utility among {', '.join(map(repr, UTILITY_CODES))}, got {utility!r}")
    order = np.arange(theta.size)
    alpha, smallest = float(run.settings.get("alpha", 0.0)), int(run.settings.get("smallest_size", 0))
    size = choose_size(UTILITY_CODES[utility], alpha, theta, mechanism.coefficients, order, smallest)
    mask = np.zeros(theta.size, dtype=bool)
    mask[order[:size]] = True
    return mask


def best_subset_frequency(
    runs: Mapping[str, "Sequence[OnlineRun] | OnlineRun"], truth: ArrayLike, *, window: int | None = None
) -> xr.Dataset:
    """Measure how often adaptive collections publish the best subset, as people come in.

    Parameters
    ----------
    runs : mapping of label to OnlineRun, or to several
        Under each label, independent runs of `simulate` with the same utility, mechanism, sampler and number of people.
    truth : array of shape (K,)
        θ*, from which the people were drawn, by label (of xarray or pandas) or in the order of the runs' categories.
    window : int, optional
        People in a window; by default one fiftieth of the longest run.

    Returns
    -------
    xarray.Dataset
        By label and people (the number asked up to the end of a window): ``frequency`` of S_t = S* within the window,
        ``cumulative`` frequency since the first person, and their standard errors over runs, ``frequency_se`` and
        ``cumulative_se`` (NaN for a single run). By label: ``best_size`` ``|S*|``, ``best_subset`` (by category),
        ``utility``, ``sampler`` and ``runs``.

    Notes
    -----
    S* is what the utility chooses at θ*, with the `alpha` and smallest size of the run. With exact sampling the
    frequency tends to one if the utility has a single maximizer at θ* and no two entries of θ* are equal (proved in the
    paper that `AdaptiveSubset` cites); slowly if two subsets are nearly as good. The last window is shorter if the
    windows do not fill the run. Windows beyond the people of a label are NaN.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import best_subset_frequency
    >>> theta = [0.7, 0.2, 0.1]
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=3.0))
    >>> runs = [ad.simulate_adaptive(theta, policy, n_people=500, random_seed=s) for s in (1, 2)]
    >>> dict(best_subset_frequency({"honest": runs}, theta, window=100).sizes)
    {'label': 1, 'people': 5, 'category': 3}
    """
    if not isinstance(runs, Mapping) or not runs:
        raise ValueError(f"runs must be a mapping of at least one label to runs, got {brief(runs)}")
    lists = {label: _as_runs(label, items) for label, items in runs.items()}
    firsts = [items[0] for items in lists.values()]
    categories = {run.responses.categories for items in lists.values() for run in items}
    if len(categories) > 1:
        raise ValueError(f"runs must all have the same categories in the same order, got {len(categories)} lists")
    (labels,) = categories
    theta = check_probabilities(truth, len(labels), "truth", labels)
    longest = max(len(run.responses) for run in firsts)
    width = max(1, longest // DEFAULT_WINDOWS) if window is None else check_integer(window, "window", 1, longest)
    ends = np.unique(np.append(np.arange(width, longest + 1, width), longest))
    best = np.array([best_subset(run, theta) for run in firsts])
    tables = [_windows(_hits(items, subset), ends) for items, subset in zip(lists.values(), best, strict=True)]
    variables: dict[str, Any] = {
        name: (("label", "people"), np.array([table[name] for table in tables]), {"long_name": text})
        for name, text in SUBSET_LONG_NAMES.items()
    }
    variables |= {
        "best_size": ("label", best.sum(axis=1), {"long_name": "|S*|"}),
        "best_subset": (("label", "category"), best, {"long_name": "S*"}),
        "utility": ("label", [run.settings["utility"] for run in firsts]),
        "sampler": ("label", [run.settings.get("sampler", "") for run in firsts]),
        "runs": ("label", [len(items) for items in lists.values()], {"long_name": "independent runs"}),
    }
    coords = {"label": list(lists), "people": ends, "category": list(labels)}
    return xr.Dataset(variables, coords, {"window": width, "truth": theta.tolist()})


def _as_runs(label: str, items: Any) -> "list[OnlineRun]":
    """Return the runs of one label, or raise ValueError if they differ in settings that choose subsets."""
    from adobest_pp.simulate import OnlineRun

    runs = [items] if isinstance(items, OnlineRun) else list(items) if isinstance(items, Sequence) else []
    if not runs:
        raise ValueError(f"runs must hold at least one OnlineRun under each label, got {brief(items)}")
    for run in runs:
        if not isinstance(run, OnlineRun):
            raise ValueError(f"runs must hold OnlineRun, got {type(run).__name__}")
    choice = ("utility", "alpha", "smallest_size", "sampler")
    kinds = {
        (len(run.responses), repr(run.responses.mechanism), *(str(run.settings.get(name)) for name in choice))
        for run in runs
    }
    if len(kinds) != 1:
        raise ValueError(
            f"runs must be of one kind (people, mechanism, utility) under {label!r}, got {len(kinds)} kinds"
        )
    return runs


def _hits(runs: "list[OnlineRun]", best: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell whether S_t = S*, of shape (runs, people)."""
    return np.array([(run.responses.subsets == best).all(axis=1)[run.responses.subset_index] for run in runs])


def _windows(hits: NDArray[np.bool_], ends: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Return frequency and cumulative frequency at each end, with standard errors; NaN beyond the last person."""
    n_runs, n = hits.shape
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.concatenate([np.zeros((n_runs, 1)), np.cumsum(hits, axis=1)], axis=1)
    inside = ends <= n
    last, first = sums[:, ends[inside]], sums[:, starts[inside]]
    shares = {"frequency": (last - first) / (ends - starts)[inside], "cumulative": last / ends[inside]}
    columns = {}
    for name, share in shares.items():
        columns[name], columns[f"{name}_se"] = np.full((2, ends.size), np.nan)
        columns[name][inside] = share.mean(axis=0)
        if n_runs > 1:
            columns[f"{name}_se"][inside] = share.std(axis=0, ddof=1) / np.sqrt(n_runs)
    return columns
