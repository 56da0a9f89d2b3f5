"""All mechanisms side by side: privacy loss, bits, efficiency, and when to use each."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_epsilon, check_n_categories, check_probabilities
from adobest_pp._text import brief
from adobest_pp.design.candidates import DESIGN, PLANNED, SHAPES, Candidate, candidate, check_names, shape
from adobest_pp.design.column_generation import MOST_ENUMERATED
from adobest_pp.design.efficiency import asymptotic_variance
from adobest_pp.design.optimal import Design, optimal_mechanism
from adobest_pp.mechanisms import audit, build_mechanism

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["efficiency_table", "mechanism_table"]

WHEN = {
    "srr": "two categories, or a large ε",
    "subset-selection": "nothing is known of the shares: first choice",
    "hadamard-response": "very many categories, short answers, small ε",
    "unary-encoding": "a collector that takes bits, as RAPPOR's",
    "local-hashing": "so many categories that a set is too long",
    "rrrr": "as the paper; adapts, and tends to this",
    DESIGN: "people who can be asked in rounds",
}
LEAST_EPSILON = 0.01


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
        Names as of `plan`; all by default, ``"design"`` up to 20 categories.

    Returns
    -------
    xarray.Dataset
        ``efficiency`` and ``variance`` (`asymptotic_variance`) by ``theta``, ``epsilon`` and ``mechanism``. Up to 20
        categories the efficiency is a proved bound over the variance; beyond, the least variance of these over it, and
        the attribute ``proved`` is False.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> table = ad.design.efficiency_table(4, [1.0, 4.0], [0.25] * 4, ["srr", "hadamard-response"])
    >>> table["efficiency"].sel(epsilon=4.0).round(2).values.tolist()
    [[1.0, 0.34]]
    """
    import xarray as xr

    k, budgets = check_n_categories(n_categories), _check_budgets(epsilons)
    names = _names(mechanisms, k)
    thetas = {each: shape(each, k) for each in SHAPES} if theta is None else {"θ": check_probabilities(theta, k)}
    variances = np.empty((len(thetas), len(budgets), len(names)))
    least = np.empty((len(thetas), len(budgets), 1))
    for i, shares in enumerate(thetas.values()):
        for j, epsilon in enumerate(budgets):
            rows, design = _candidates(names, shares, epsilon)
            variances[i, j] = [asymptotic_variance(one.mechanism, shares, subset=one.subset) for one in rows]
            least[i, j] = variances[i, j].min() if design is None else design.lower_bound
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
    """Return all mechanisms at one ε and θ, with what they cost and when to use each.

    Parameters
    ----------
    n_categories : int
        K.
    epsilon : float
        Privacy budget of one answer, at least 0.01.
    theta : array of shape (K,), optional
        The shares; all equal by default.
    mechanisms : str or sequence of str, optional
        As of `efficiency_table`.

    Returns
    -------
    xarray.Dataset
        By ``mechanism``: ``privacy_loss``, audited in exact arithmetic over everything that the mechanism may publish,
        and whether it ``holds``; ``bits`` of an answer; ``efficiency`` and ``variance`` (see `efficiency_table`);
        ``when`` to use it.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> table = ad.design.mechanism_table(4, 1.0, mechanisms=["srr", "unary-encoding"])
    >>> bool(table["holds"].all()), table["bits"].values.tolist()
    (True, [2.0, 4.0])
    """
    k, budget = check_n_categories(n_categories), check_epsilon(epsilon)
    shares = shape("even", k) if theta is None else check_probabilities(theta, k)
    table = efficiency_table(k, [budget], shares, mechanisms).isel(theta=0, epsilon=0, drop=True)
    names = table["mechanism"].values.tolist()
    rows = [candidate(name, shares, budget) for name in names]
    # RRRR is audited for every subset that it may publish, though it may tend to publish none.
    built = build_mechanism("rrrr", n_categories=k, epsilon=budget)
    audits = [audit(built if name == "rrrr" else one.mechanism) for name, one in zip(names, rows, strict=True)]
    columns: dict[str, list[Any]] = {
        "privacy_loss": [float(each.loss) for each in audits],
        "holds": [bool(each.holds) for each in audits],
        "bits": [_bits(one) for one in rows],
        "when": [WHEN.get(name, "") for name in names],
    }
    found = table.assign({name: ("mechanism", values) for name, values in columns.items()})
    return found.assign_attrs(epsilon=budget, theta=shares.tolist())


def _check_budgets(epsilons: ArrayLike) -> list[float]:
    allowed = f"one or more budgets from {LEAST_EPSILON:g} to 30, rising"
    try:
        budgets = as_numbers(epsilons, "fiu").astype(np.float64)
    except TypeError:
        raise ValueError(f"epsilons must be {allowed}, got {brief(epsilons)}") from None
    if budgets.ndim != 1 or not budgets.size or not (budgets >= LEAST_EPSILON).all() or (np.diff(budgets) <= 0).any():
        raise ValueError(f"epsilons must be {allowed}, got {brief(epsilons)}")
    return [check_epsilon(each, "epsilons") for each in budgets.tolist()]


def _names(mechanisms: object, k: int) -> tuple[str, ...]:
    if mechanisms is not None:
        return check_names(mechanisms)
    return tuple(name for name in PLANNED if name != DESIGN or k <= MOST_ENUMERATED)


def _candidates(
    names: Sequence[str], theta: NDArray[np.float64], epsilon: float
) -> tuple[list[Candidate], Design | None]:
    """Return the mechanisms, and the best one with its bound, which is found once, where it is proved."""
    design = optimal_mechanism(theta, epsilon) if theta.size <= MOST_ENUMERATED else None
    known = {DESIGN: Candidate(DESIGN, design.mechanism)} if design is not None else {}
    return [known.get(name) or candidate(name, theta, epsilon) for name in names], design


def _bits(one: Candidate) -> float:
    """Return the bits of an answer if all were as likely; those of a hash include its seed."""
    return round(math.log2(one.mechanism.n_outputs), 2)
