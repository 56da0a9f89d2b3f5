"""A plan of a collection: from two of people, ε and half-width the third, for every mechanism."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import (
    check_count,
    check_epsilon,
    check_flag,
    check_integer,
    check_n_categories,
    check_prior,
    check_probabilities,
    check_real,
    is_learned,
)
from adobest_pp._dirichlet import ESTIMATE_PRIOR
from adobest_pp._labels import check_labels, labels_of
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.design.overview import DESIGN, PLANNED, SHAPES, check_names, shape
from adobest_pp.design.plan_search import (
    COLLECTIONS,
    LEAST_EPSILON,
    PlanProblem,
    PlanSolution,
    Search,
    non_private_unit,
)

if TYPE_CHECKING:
    import xarray as xr

GIVEN = ("people", "epsilon", "half_width")
# Beyond so many categories a design takes longer than a plan should: it is made where it is asked for.
MOST_OF_A_DESIGN = 12
# Draws of each chain of a pilot's posterior, of which the mean is taken.
PILOT_DRAWS = 1000
# Half-widths within this share of the best are as good; a design, which must know θ, has to be better by more.
AS_GOOD, WORTH_A_DESIGN = 0.02, 0.05


@dataclass(frozen=True, eq=False)
class Plan:
    """What a collection takes, with each mechanism.

    Attributes
    ----------
    table : xarray.Dataset
        By ``mechanism``: ``people``, ``epsilon`` and ``half_width``, two as given and one found (NaN if a mechanism
        cannot do it); ``worst_half_width``, of the widest category; ``error``, the Monte Carlo standard error of the
        number that was found, as a share of it (0 for the formula); ``method``, ``"asymptotic"``, ``"simulated"``,
        ``"rough"`` (the asymptotic formula, where it may be off by more than 10 %) or ``"unreachable"``;
        ``unit_half_width``, √n times the half-width that n people tend to, and ``reliable_from``, the people from
        which on that is within 10 %.
    theta : xarray.DataArray
        The shares that were planned for, by ``category``.
    found : {"people", "epsilon", "half_width"}
        Which of the three was looked for.
    recommended : str
        The mechanism to take.
    reason : str
        Why, in a sentence.
    non_private : float
        What honest answers would take in place of privacy: the half-width of so many people, or the people for such a
        half-width, by the multinomial sampling error.
    """

    table: "xr.Dataset"
    theta: "xr.DataArray"
    found: str
    recommended: str
    reason: str
    non_private: float

    def to_dataframe(self) -> Any:
        """Return the table that people read, of pandas, a mechanism a row."""
        columns = [*GIVEN, "worst_half_width", "error", "method"]
        return self.table[columns].to_dataframe()[columns]


def plan(
    theta: "ArrayLike | str | Responses | Gathered",
    people: int | None = None,
    epsilon: float | None = None,
    half_width: float | None = None,
    categories: int | Sequence[Any] | None = None,
    mechanisms: str | Sequence[str] | None = None,
    prior: ArrayLike | Literal["learned"] = ESTIMATE_PRIOR,
    simulate: bool = True,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Plan:
    """Plan a collection: give two of people, ε and half-width, and get the third for every mechanism.

    Parameters
    ----------
    theta : array of shape (K,), {"even", "uneven", "sparse"}, Responses or Gathered
        The shares to plan for: a guess; a named example; or a pilot, of which the posterior mean is taken. Even: all
        shares are 1/K; uneven: they fall as 1, 1/2, 1/3, …; sparse: a fifth of the categories hold 90 %.
    people : int, optional
        How many will answer.
    epsilon : float, optional
        Privacy budget of one answer, at least 0.01.
    half_width : float, optional
        Half the width of the 95 % interval of a category, as a share; the mean over the categories.
    categories : int or sequence of labels, optional
        K or its labels, for a named example; labels of a guess.
    mechanisms : str or sequence of str, optional
        What to choose from: ``"srr"``, ``"subset-selection"``, ``"hadamard-response"``, ``"unary-encoding"`` (OUE),
        ``"local-hashing"``, ``"rrrr"`` (with the subset that it tends to publish at θ) and ``"design"``, the best
        mechanism for θ; or one of your own. All by default, ``"design"`` up to 12 categories.
    prior : float or array of shape (K,) or "learned", default "learned"
        Of the estimate, as of `sample`. Half-widths depend on it only where it prefers some categories (see
        `intervals.summary`).
    simulate : bool, default True
        Whether to simulate collections where the asymptotic formula may be off by more than 10 %.
    random_seed : int, optional
        Of the simulation and of the pilot's draws.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    Plan
        A table by mechanism, the recommended one, and why.

    Notes
    -----
    **Two methods.** With many people the intervals are those of a normal distribution with the covariance F⁻¹/n, F the
    Fisher information of an answer. That is off where intervals reach 0 or 1. So it is used where the half-width over
    the distance of the share to 0 or 1, the mean over the categories, is at most 0.4 (and, under a prior that prefers
    some categories, standard deviations are at most 0.3 of the prior's). Elsewhere collections are simulated, until the
    standard error of their mean half-width is 2 %, or there are 40 of them: people, their answers, and the intervals of
    `intervals.summary`. Under a prior that prefers some categories those rest on draws of the posterior, by
    ``"sgld_cv"`` (NUTS where it gives up).

    **How rough it is.** ``error`` is the standard error of the number that was found, by the simulation: another seed
    gives another number. Where a share is near zero, widths differ much between collections and fall slowly with
    people, and 40 collections leave an error of the people of 10 to 50 %. Mechanisms whose numbers differ by less
    than two standard errors count as equally good.
    ``python -m validation.plans`` compares plans with what collections then achieve.

    See Also
    --------
    asymptotic_variance, optimal_mechanism, adobest_pp.intervals.privacy_share

    Examples
    --------
    >>> import adobest_pp as ad
    >>> made = ad.plan([0.4, 0.3, 0.2, 0.1], epsilon=1.0, half_width=0.02)
    >>> made.recommended, made.found
    ('srr', 'people')
    >>> 19_000 < made.table["people"].sel(mechanism="srr").item() < 20_000
    True
    """
    numbers = _check_numbers(people, epsilon, half_width)
    check_flag(simulate, "simulate")
    seed = _seed(random_seed)
    if mechanisms is not None:
        mechanisms = check_names(mechanisms)
    shares, labels = _shares(theta, categories, seed, progressbar)
    concentration = "learned" if is_learned(prior) else check_prior(prior, len(labels), labels)
    _check_possible(shares, **numbers)
    names = list(mechanisms or (name for name in PLANNED if name != DESIGN or len(labels) <= MOST_OF_A_DESIGN))
    question = PlanProblem(shares, **numbers, prior=concentration, simulate=simulate, seed=seed)
    answers: dict[str, PlanSolution] = {}
    with SlowProgress(4 * COLLECTIONS * len(names), "Planning", progressbar) as progress:
        search = Search(question, lambda: progress.advance(1))
        # A search begins where the last one ended, and designs, which take longest, are close to subset selection.
        for name in sorted(names, key=_turn):
            answers[name] = search.answer(name)
    return _plan({name: answers[name] for name in names}, question, labels)


def _check_numbers(people: Any, epsilon: Any, half_width: Any) -> dict[str, Any]:
    """Return the numbers, one of them None, or raise ValueError."""
    given = [name for name, value in zip(GIVEN, (people, epsilon, half_width), strict=True) if value is not None]
    if len(given) != 2:
        got = "all three" if len(given) == 3 else f"{given[0]} alone" if given else "none of them"
        raise ValueError(f"two of people, epsilon and half_width must be given, got {got}: the plan finds the third")
    if people is not None:
        people = check_count(people, "people")
    if epsilon is not None:
        epsilon = check_epsilon(epsilon)
        if epsilon < LEAST_EPSILON:
            raise ValueError(f"epsilon must be at least {LEAST_EPSILON:g} for a plan, got {epsilon:g}")
    if half_width is not None:
        allowed = "a number above 0 and below 0.5, half the width of an interval of a share"
        half_width = check_real(half_width, "half_width", allowed, lambda x: 0 < x < 0.5)
    return {"people": people, "epsilon": epsilon, "half_width": half_width}


def _seed(given: Any) -> int:
    from adobest_pp.samplers.sampling import fresh_seed

    return fresh_seed() if given is None else check_integer(given, "random_seed", 0, 2**63 - 1)


def _shares(theta: Any, categories: Any, seed: int, progressbar: bool) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return θ and its labels, or raise ValueError."""
    if isinstance(theta, Responses | Gathered):
        if categories is not None:
            raise ValueError(f"categories must be left out for a pilot, which has its own, got {brief(categories)}")
        if not len(theta):
            raise ValueError("theta must be a pilot with at least one answer, got none")
        from adobest_pp.samplers.choice import quick_sample

        drawn = quick_sample(theta, ESTIMATE_PRIOR, PILOT_DRAWS, seed, progressbar)
        mean = np.asarray(drawn["posterior"]["theta"]).mean(axis=(0, 1))
        return np.asarray(mean / mean.sum()), theta.categories
    if isinstance(theta, str):
        if theta not in SHAPES:
            raise ValueError(f"theta must be shares, a pilot or one of {', '.join(SHAPES)}, got {brief(theta)}")
        if categories is None:
            raise ValueError(f"categories must be given for theta {theta!r}: their number, or their labels")
        named = not isinstance(categories, int | np.integer)
        k = len(_listed(categories)) if named else check_n_categories(categories)
        return shape(theta, k), check_labels(categories if named else None, check_n_categories(k))
    if isinstance(categories, int | np.integer):
        given = check_probabilities(theta, check_n_categories(categories))
        return given / given.sum(), check_labels(None, given.size)
    names = labels_of(theta) if categories is None else check_labels(_listed(categories), len(categories))
    given = check_probabilities(theta, None if names is None else len(names), categories=names)
    return given / given.sum(), check_labels(names, given.size)


def _listed(categories: Any) -> Sequence[Any]:
    """Return labels that have a length, or raise ValueError."""
    if isinstance(categories, str | bytes | dict | set) or not hasattr(categories, "__len__"):
        raise ValueError(f"categories must be their number, or distinct labels, got {brief(categories)}")
    if len(categories) < 2:
        raise ValueError(f"categories must be at least 2, got {len(categories)}")
    return list(categories)


def _check_possible(theta: NDArray[np.float64], people: int | None, epsilon: Any, half_width: float | None) -> None:
    """Raise ValueError if honest answers would not do what is asked."""
    if people is None or half_width is None:
        return
    least = non_private_unit(theta) / math.sqrt(people)
    if half_width <= least:
        raise ValueError(
            f"half_width must be above {least:.3g}, which {people} honest answers give without any privacy, "
            f"got {half_width:g}: ask more people"
        )


def _plan(answers: dict[str, PlanSolution], question: PlanProblem, labels: tuple[str, ...]) -> Plan:
    """Return the plan with its labels."""
    import xarray as xr

    found = next(name for name in GIVEN if getattr(question, name) is None)
    columns = {name: ("mechanism", [getattr(each, name) for each in answers.values()]) for name in PlanSolution._fields}
    prior = question.prior if isinstance(question.prior, str) else question.prior.tolist()
    unit = non_private_unit(question.theta)
    attributes = {"found": found, "non_private_unit": unit, "prior": prior, "random_seed": question.seed}
    table = xr.Dataset(columns, {"mechanism": list(answers)}, attributes)
    theta = xr.DataArray(question.theta, dims="category", coords={"category": list(labels)}, name="theta")
    best, reason = _recommended(answers, found)
    if question.people is not None:
        limit = unit / math.sqrt(question.people)
    else:
        assert question.half_width is not None
        limit = (unit / question.half_width) ** 2
    return Plan(table, theta, found, best, reason, limit)


def _recommended(answers: dict[str, PlanSolution], found: str) -> tuple[str, str]:
    """Return the mechanism to take, and why: the simplest of those that are as good as the best.

    People count with their square root, so that shares of them are those of half-widths.
    """
    power = 0.5 if found == "people" else 1.0
    costs = {name: getattr(each, found) ** power for name, each in answers.items() if each.half_width > 0}
    if not costs:
        return "", "No mechanism reaches this half-width with so many people: ask more of them."
    words = {"people": "fewer people", "epsilon": "less of the budget", "half_width": "narrower intervals"}[found]
    fixed = {name: cost for name, cost in costs.items() if name != DESIGN} or costs
    least = min(fixed.values())
    first = min(fixed, key=lambda name: fixed[name])

    def margin(name: str) -> float:
        """Return how much a cost may differ from the least by the error of the simulation, two standard errors."""
        return 2 * power * math.hypot(answers[name].error, answers[first].error)

    best = min((name for name in fixed if fixed[name] <= (1 + max(AS_GOOD, margin(name))) * least), key=_place)
    if DESIGN in costs and DESIGN not in fixed and costs[DESIGN] < (1 - max(WORTH_A_DESIGN, margin(DESIGN))) * least:
        share = 1 - (costs[DESIGN] / least) ** (1 / power)
        return DESIGN, (
            f"{DESIGN}: {share:.0%} {words} than {best}, the best that needs no guess of the shares; it is made for "
            "these shares, so ask in rounds and let the first tell them."
        )
    worst = max(fixed, key=lambda name: fixed[name])
    share = 1 - (fixed[best] / fixed[worst]) ** (1 / power)
    if len(costs) == 1:
        return best, f"{best}: the only one that was asked for and that reaches it."
    if len(fixed) == 1:
        return best, f"{best}: as good as a design as far as the plan can tell, and it needs no guess of the shares."
    if share < AS_GOOD:
        return best, f"{best}: the simplest, and as good as the others."
    return best, f"{best}: the simplest of the best that need no guess of the shares; {share:.0%} {words} than {worst}."


def _turn(name: str) -> int:
    return _place("subset-selection" if name == DESIGN else name)


def _place(name: str) -> int:
    return PLANNED.index(name) if name in PLANNED else len(PLANNED)
