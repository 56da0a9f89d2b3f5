"""How often the online loop asks the best question: the frequency of S_t = S*."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_probabilities
from adobest_pp._text import brief
from adobest_pp.design import UTILITY_CODES
from adobest_pp.design.subset_choice import choose_size
from adobest_pp.mechanisms import check_rrrr

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.online import OnlineRun

__all__ = ["best_subset", "best_subset_frequency"]

DEFAULT_WINDOWS = 50


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
) -> "xr.Dataset":
    """Measure how often adaptive collections publish the best subset, as people come in.

    Parameters
    ----------
    runs : mapping of label to OnlineRun, or to several
        Under each label, independent runs of `simulate` with the same utility, mechanism and number of people. A
        utility that is driven by SGLD and by the exact sampler needs two labels.
    truth : array of shape (K,)
        θ*, from which the people were drawn, by label (of xarray or pandas) or in the order of the runs' categories.
    window : int, optional
        People in a window; by default a fiftieth of the longest run.

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
    frequency tends to one if the utility has a single maximizer at θ* and no two entries of θ* are equal [1]_; this
    takes long if two subsets are nearly as good. The last window is shorter if the windows do not fill the run. Windows
    beyond the people of a label are NaN.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import best_subset_frequency
    >>> theta = [0.7, 0.2, 0.1]
    >>> runs = [ad.simulate(theta, ad.RRRR(3, epsilon=3.0), n_people=500, random_seed=s) for s in (1, 2)]
    >>> dict(best_subset_frequency({"honest": runs}, theta, window=100).sizes)
    {'label': 1, 'people': 5, 'category': 3}
    """
    if not isinstance(runs, Mapping) or not runs:
        raise ValueError(f"runs must be a mapping of at least one label to runs, got {brief(runs)}")
    lists = {label: _as_runs(items) for label, items in runs.items()}
    categories = {run.responses.categories for items in lists.values() for run in items}
    if len(categories) > 1:
        raise ValueError(f"runs must all have the same categories in the same order, got {len(categories)} lists")
    (labels,) = categories
    theta = check_probabilities(truth, len(labels), "truth", labels)
    matched = {label: _match(label, items, theta) for label, items in lists.items()}
    longest = max(item.hits.shape[1] for item in matched.values())
    width = max(1, longest // DEFAULT_WINDOWS) if window is None else check_integer(window, "window", 1, longest)
    ends = np.unique(np.append(np.arange(width, longest + 1, width), longest))
    return _assemble(matched, ends, {"window": width, "truth": theta.tolist()})


class _Matched(NamedTuple):
    """One label: S* as a mask, its utility, sampler and categories, and whether S_t = S*, of shape (runs, T)."""

    best: NDArray[np.bool_]
    utility: str
    sampler: str
    categories: tuple[str, ...]
    hits: NDArray[np.bool_]


def _as_runs(items: Any) -> "list[OnlineRun]":
    from adobest_pp.online import OnlineRun

    runs = [items] if isinstance(items, OnlineRun) else list(items) if isinstance(items, Sequence) else []
    if not runs:
        raise ValueError(f"runs must hold at least one OnlineRun under each label, got {brief(items)}")
    for run in runs:
        if not isinstance(run, OnlineRun):
            raise ValueError(f"runs must hold OnlineRun, got {type(run).__name__}")
    return runs


def _match(label: str, runs: "list[OnlineRun]", theta: NDArray[np.float64]) -> _Matched:
    kinds = {(len(run.responses), repr(run.responses.mechanism), *map(str, _choice(run).values())) for run in runs}
    if len(kinds) != 1:
        raise ValueError(
            f"runs must be of one kind (people, mechanism, utility) under {label!r}, got {len(kinds)} kinds"
        )
    best = best_subset(runs[0], theta)
    hits = [(run.responses.subsets == best).all(axis=1)[run.responses.subset_index] for run in runs]
    settings = runs[0].settings
    return _Matched(
        best, settings["utility"], settings.get("sampler", ""), runs[0].responses.categories, np.array(hits)
    )


def _choice(run: "OnlineRun") -> dict[str, Any]:
    """Return the settings that the choice of subsets depends on."""
    return {name: run.settings.get(name) for name in ("utility", "alpha", "smallest_size", "sampler")}


def _windows(hits: NDArray[np.bool_], ends: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Return frequency and cumulative frequency at each end, with standard errors; NaN beyond the last person."""
    n_runs, n = hits.shape
    starts = np.concatenate([[0], ends[:-1]])
    sums = np.concatenate([np.zeros((n_runs, 1)), np.cumsum(hits, axis=1)], axis=1)
    inside = ends <= n
    last, first = sums[:, ends[inside]], sums[:, starts[inside]]
    shares = {
        "frequency": (last - first) / (ends - starts)[inside],
        "cumulative": last / ends[inside],
    }
    columns = {}
    for name, share in shares.items():
        columns[name], columns[f"{name}_se"] = np.full((2, ends.size), np.nan)
        columns[name][inside] = share.mean(axis=0)
        if n_runs > 1:
            columns[f"{name}_se"][inside] = share.std(axis=0, ddof=1) / np.sqrt(n_runs)
    return columns


def _assemble(matched: Mapping[str, _Matched], ends: NDArray[np.int64], settings: dict[str, Any]) -> "xr.Dataset":
    import xarray as xr

    items = list(matched.values())
    tables = [_windows(item.hits, ends) for item in items]
    variables: dict[str, Any] = {
        name: (("label", "people"), np.array([table[name] for table in tables]), {"long_name": text})
        for name, text in LONG_NAMES.items()
    }
    variables |= {
        "best_size": ("label", [int(item.best.sum()) for item in items], {"long_name": "|S*|"}),
        "best_subset": (("label", "category"), np.array([item.best for item in items]), {"long_name": "S*"}),
        "utility": ("label", [item.utility for item in items]),
        "sampler": ("label", [item.sampler for item in items]),
        "runs": ("label", [len(item.hits) for item in items], {"long_name": "independent runs"}),
    }
    coords = {"label": list(matched), "people": ends, "category": list(items[0].categories)}
    return xr.Dataset(variables, coords, settings)


LONG_NAMES = {
    "frequency": "frequency of S_t = S* within the window",
    "frequency_se": "standard error of the frequency over runs",
    "cumulative": "frequency of S_t = S* so far",
    "cumulative_se": "standard error of the cumulative frequency over runs",
}
