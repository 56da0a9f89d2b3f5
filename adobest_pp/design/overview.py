"""All mechanisms side by side: privacy loss, bits, efficiency, and when to use each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import MAX_EPSILON, check_n_categories, check_numbers, check_probabilities
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.design.optimal import (
    MOST_INVERTED,
    asymptotic_variance,
    check_within,
    identifies,
    optimal_mechanism,
    reduced_information,
    variances_of_counts,
)
from adobest_pp.design.set_families import MOST_ENUMERATED
from adobest_pp.design.utilities import select_subset
from adobest_pp.mechanisms import Mechanism, audit, build_mechanism, find_mechanism
from adobest_pp.mechanisms.registry import is_built_from, plain_name

if TYPE_CHECKING:
    import xarray as xr

DESIGN = "design"
# The mechanisms that a plan chooses from, and when to use each. The simplest come first: if several are as good as the
# best, a plan recommends the first of them.
WHEN = {
    "srr": "two categories, or a large ε",
    "subset-selection": "nothing is known about the shares: first choice",
    "hadamard-response": "very many categories, short answers, small ε",
    "projective-geometry-response": "very many categories, short answers",
    "unary-encoding": "a collector that takes bits, as in RAPPOR",
    "local-hashing": "so many categories that a set is too long",
    "count-mean-sketch": "a collector with a few public hashes, as at Apple",
    "rrrr": "as in the paper; adapts, and tends to this",
    DESIGN: "people who can be asked in rounds",
}
PLANNED = tuple(WHEN)
SHAPES = ("even", "uneven", "sparse")
# The budgets that are planned for.
LEAST_EPSILON = 0.01
BUDGETS = (LEAST_EPSILON, MAX_EPSILON)
# Half of a 95 % interval, in standard deviations.
DEVIATIONS = 1.959963984540054


@dataclass(frozen=True)
class Candidate:
    """A mechanism that a plan may choose, and the subset that it would publish, if any."""

    mechanism: Mechanism
    subset: Integers | None = None


def shape(name: str, n_categories: int) -> Floats:
    """Return a named example of θ with K categories, in descending order.

    ``"even"``: all shares are 1/K. ``"uneven"``: they are proportional to 1, 1/2, 1/3, … ``"sparse"``: a fifth of the
    categories (at least one) hold 90 %, the others 10 %.
    """
    k = n_categories
    if name == "even":
        return np.full(k, 1 / k)
    if name == "uneven":
        falling = 1 / np.arange(1, k + 1)
        return np.asarray(falling / falling.sum())
    large = math.ceil(k / 5)
    return np.where(np.arange(k) < large, 0.9 / large, 0.1 / (k - large))


def check_names(names: object) -> tuple[str, ...]:
    """Return names of mechanisms that can be built from K and ε, without repeats, or raise ValueError."""
    allowed = f"one or more of {', '.join(PLANNED)}, or your own mechanism built from n_categories and epsilon"
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, list | tuple) or not given or not all(isinstance(name, str) for name in given):
        raise ValueError(f"mechanisms must be {allowed}, got {brief(names)}")
    found = [_known(name, allowed) for name in given]
    return tuple(dict.fromkeys(found))


def _known(name: str, allowed: str) -> str:
    for known in PLANNED:
        if plain_name(known) == plain_name(name):
            return known
    try:
        mechanism = find_mechanism(name)
    except ValueError:
        raise ValueError(f"mechanisms must be {allowed}, got {brief(name)}") from None
    if mechanism.publishes_subset or not is_built_from(name, "n_categories", "epsilon"):
        raise ValueError(f"mechanisms must be {allowed}, got {brief(name)}")
    return name


def candidate(name: str, theta: Floats, epsilon: float, before: Candidate | None = None) -> Candidate:
    """Return the mechanism with this name at ε. The search for a design starts from `before`, at a similar ε.

    ``"rrrr"`` publishes the subset that −Tr F⁻¹ chooses at θ, which an adaptive collection approaches; if that is
    empty, it is SRR.
    """
    if name == DESIGN:
        start: Any = None if before is None else before.mechanism
        return Candidate(optimal_mechanism(theta, epsilon, start=start).mechanism)
    mechanism = build_mechanism(name, n_categories=theta.size, epsilon=epsilon)
    if not mechanism.publishes_subset:
        return Candidate(mechanism)
    subset = select_subset(theta, mechanism, "fisher")  # type: ignore[arg-type]
    if not subset.size:
        return Candidate(build_mechanism("srr", n_categories=theta.size, epsilon=epsilon))
    return Candidate(mechanism, np.asarray(subset))


def unit_half_widths(one: Candidate, theta: Floats) -> Floats:
    """Return √n times the half-width of `intervals.summary` for many answers n, by category.

    It is 1.96 √(B (BᵀFB)⁻¹ Bᵀ)ᵢᵢ, or follows from the variance of the counts if these determine the shares, or if there
    are too many categories for anything else.
    """
    from adobest_pp.likelihood.without_prior import MOST_CATEGORIES, counts_say_all

    if theta.size > MOST_CATEGORIES or counts_say_all(one.mechanism):
        by_counts = variances_of_counts(one.mechanism, theta)
        if by_counts is not None:
            return np.asarray(DEVIATIONS * np.sqrt(by_counts))
    if theta.size > MOST_INVERTED:
        return np.full(theta.size, np.inf)
    information, basis = reduced_information(one.mechanism, theta, one.subset)
    values, vectors = np.linalg.eigh(information)
    if not identifies(values):
        return np.full(theta.size, np.inf)
    return np.asarray(DEVIATIONS * np.sqrt(np.sum((basis @ vectors) ** 2 / values, axis=1)))


def _variance(one: Candidate, theta: Floats) -> float:
    """Return n times the sum of the variances of all shares, NaN if it would take too long."""
    from adobest_pp.likelihood.without_prior import MOST_CATEGORIES

    if theta.size > MOST_CATEGORIES and (by_counts := variances_of_counts(one.mechanism, theta)) is not None:
        return float(by_counts.sum())
    return asymptotic_variance(one.mechanism, theta, subset=one.subset) if theta.size <= MOST_INVERTED else math.nan


def efficiency_table(
    n_categories: int,
    epsilons: ArrayLike,
    theta: ArrayLike | None = None,
    mechanisms: str | Sequence[str] | None = None,
) -> "xr.Dataset":
    """Return the efficiency of mechanisms over θ and ε.

    Parameters
    ----------
    n_categories : int
        K.
    epsilons : array of float
        Privacy budgets, at least 0.01.
    theta : array of shape (K,), optional
        The shares; by default the examples of `plan`: even, uneven and sparse.
    mechanisms : str or sequence of str, optional
        Names, as in `plan`; all by default, ``"design"`` up to 20 categories.

    Returns
    -------
    xarray.Dataset
        ``efficiency`` and ``variance`` (`asymptotic_variance`) by ``theta``, ``epsilon`` and ``mechanism``. Up to 20
        categories the efficiency is a proved bound divided by the variance. Beyond, it is the least variance in the
        table divided by the variance, and the attribute ``proved`` is False. Beyond 500, the variance is that of the
        shares from which intervals are made, estimated from how many answers name each category; it is NaN beyond 2,000
        for mechanisms that name some more often than others (`naming`).

    Examples
    --------
    >>> import adobest_pp as ad
    >>> table = ad.design.efficiency_table(4, [1.0, 4.0], [0.25] * 4, ["srr", "hadamard-response"])
    >>> table["efficiency"].sel(epsilon=4.0).round(2).values.tolist()
    [[1.0, 0.34]]
    """
    import xarray as xr

    k, budgets = check_n_categories(n_categories), _check_budgets(epsilons)
    plans = tuple(name for name in PLANNED if name != DESIGN or k <= MOST_ENUMERATED)
    names = plans if mechanisms is None else check_names(mechanisms)
    thetas = {each: shape(each, k) for each in SHAPES} if theta is None else {"θ": check_probabilities(theta, k)}
    variances = np.empty((len(thetas), len(budgets), len(names)))
    least = np.empty((len(thetas), len(budgets), 1))
    for i, shares in enumerate(thetas.values()):
        for j, epsilon in enumerate(budgets):
            # The design and its bound are found once.
            design = optimal_mechanism(shares, epsilon) if k <= MOST_ENUMERATED else None
            known = {DESIGN: Candidate(design.mechanism)} if design is not None else {}
            rows = [known.get(name) or candidate(name, shares, epsilon) for name in names]
            variances[i, j] = [_variance(one, shares) for one in rows]
            least[i, j] = np.nanmin(variances[i, j]) if design is None else design.lower_bound
    dims = ("theta", "epsilon", "mechanism")
    columns = {"efficiency": (dims, least / variances), "variance": (dims, variances)}
    coords = {"theta": list(thetas), "epsilon": budgets, "mechanism": list(names)}
    return xr.Dataset(columns, coords, {"proved": k <= MOST_ENUMERATED})


def mechanism_table(
    n_categories: int,
    epsilon: float,
    theta: ArrayLike | None = None,
    mechanisms: str | Sequence[str] | None = None,
) -> "xr.Dataset":
    """Compare all mechanisms at one ε and θ: what they cost and when to use each.

    Parameters
    ----------
    n_categories, mechanisms
        As in `efficiency_table`.
    epsilon : float
        Privacy budget of one answer, at least 0.01.
    theta : array of shape (K,), optional
        The shares; all equal by default.

    Returns
    -------
    xarray.Dataset
        By ``mechanism``: ``privacy_loss``, audited in exact arithmetic over everything that the mechanism may publish,
        and whether it ``holds``; ``bits`` of an answer (of a hash, with its seed) if all answers were equally likely;
        ``efficiency`` and ``variance`` (see `efficiency_table`); ``best_guess``, how likely whoever sees an answer
        guesses the category right (`Mechanism.best_guess`); ``when`` to use it.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> table = ad.design.mechanism_table(4, 1.0, mechanisms=["srr", "unary-encoding"])
    >>> bool(table["holds"].all()), table["bits"].values.tolist()
    (True, [2.0, 4.0])
    """
    k, budget = check_n_categories(n_categories), check_within(epsilon, "epsilon", BUDGETS)
    shares = shape("even", k) if theta is None else check_probabilities(theta, k)
    table = efficiency_table(k, [budget], shares, mechanisms).isel(theta=0, epsilon=0, drop=True)
    names = table["mechanism"].values.tolist()
    rows = [candidate(name, shares, budget) for name in names]
    # RRRR is audited for every subset that it may publish, even if its candidate here publishes none.
    built = build_mechanism("rrrr", n_categories=k, epsilon=budget)
    audits = [audit(built if name == "rrrr" else one.mechanism) for name, one in zip(names, rows, strict=True)]
    columns: dict[str, list[Any]] = {
        "privacy_loss": [float(each.loss) for each in audits],
        "holds": [bool(each.holds) for each in audits],
        "bits": [round(math.log2(one.mechanism.n_outputs), 2) for one in rows],
        "best_guess": [one.mechanism.best_guess(shares, subset=one.subset) for one in rows],
        "when": [WHEN.get(name, "") for name in names],
    }
    found = table.assign({name: ("mechanism", values) for name, values in columns.items()})
    return found.assign_attrs(epsilon=budget, theta=shares.tolist())


def _check_budgets(epsilons: ArrayLike) -> list[float]:
    allowed = "one or more budgets in ascending order"
    budgets = check_numbers(epsilons, "fiu", "epsilons", allowed).astype(np.float64)
    if budgets.ndim != 1 or not budgets.size or (np.diff(budgets) <= 0).any():
        raise ValueError(f"epsilons must be {allowed}, got {brief(epsilons)}")
    return [check_within(each, "epsilons", BUDGETS) for each in budgets.tolist()]
