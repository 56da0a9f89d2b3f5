"""A plan of a collection: give two of people, ε and half-width, and get the third for every mechanism.

The number is found by the asymptotic formula, or by simulation where that is too rough. The formula holds once
intervals are narrow compared with the distance of the shares to 0 and 1, because an interval that reaches an end is cut
off there. Under a prior that prefers some categories, they must also be narrow compared with the prior's spread.
`reliable_from` says how many people that takes; `validation/plans.py` shows that the formula is then right within 10 %.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import (
    MAX_EPSILON,
    check_count,
    check_flag,
    check_integer,
    check_n_categories,
    check_probabilities,
    check_real,
)
from adobest_pp._dirichlet import ESTIMATE_PRIOR, draw_people
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief, check_labels, labels_of
from adobest_pp._types import Floats
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.design.optimal import check_design_prior, check_within
from adobest_pp.design.overview import (
    BUDGETS,
    DESIGN,
    DEVIATIONS,
    PLANNED,
    SHAPES,
    Candidate,
    candidate,
    check_names,
    shape,
    unit_half_widths,
)
from adobest_pp.intervals import covering_intervals, shortest_intervals

if TYPE_CHECKING:
    import xarray as xr

GIVEN = ("people", "epsilon", "half_width")
# Beyond this many categories a design takes longer than a plan should, and is made only on request.
MOST_OF_A_DESIGN = 12
# Draws per chain for the posterior mean of a pilot.
PILOT_DRAWS = 1000
# Half-widths within the first share of the best count as equal. A design, which needs a guess of θ, must be better by
# the second.
AS_GOOD, WORTH_A_DESIGN = 0.02, 0.05
# Answers with more bits than this hardly ever repeat, so they cannot be counted: a posterior then visits all of them.
LONG_ANSWER = 256
# Below these limits the asymptotic half-width is within 10 % of the simulated one: the half-width divided by the
# distance of the share to 0 or 1, and the standard deviation divided by the prior's, each the mean over the categories.
BESIDE_SHARES, BESIDE_PRIOR = 0.4, 0.3
LOG_BUDGETS = (math.log(BUDGETS[0]), math.log(BUDGETS[1]))
# On the log scale: the wanted half-width counts as reached within the first number; the search for ε by the formula
# stops within the second, or after this many steps.
REACHED, EXACT, MOST_STEPS = 0.05, 2e-3, 40
# Simulated collections per half-width: the number for a first look; the standard error of the mean, as a share of it,
# that the thorough look has to reach; and its largest number. Every plan states the error that is left.
COLLECTIONS, ERROR, MOST_COLLECTIONS = 4, 0.02, 40
# The most half-widths to simulate in a first look, and thoroughly. On the log scale: when the first look is close
# enough, and the longest step.
MOST_POINTS, MOST_THOROUGH, CLOSE, LONGEST = 5, 3, 0.15, math.log(16.0)
# Categories times people beyond which nothing is simulated.
MOST_SIMULATED = 4_000_000
# Chains, draws and tuning draws of one simulated collection.
CHAINS, DRAWS, TUNE = 2, 300, 300


@dataclass(frozen=True, eq=False)
class Plan:
    """What a collection needs, with each mechanism.

    Attributes
    ----------
    table : xarray.Dataset
        By ``mechanism``: ``people``, ``epsilon`` and ``half_width``, two as given and one found (NaN if a mechanism
        cannot do it); ``worst_half_width``, of the widest category; ``error``, the Monte Carlo standard error of the
        number that was found, as a share of it (0 for the formula); ``method``, ``"asymptotic"``, ``"simulated"``,
        ``"rough"`` (the asymptotic formula, where it may be off by more than 10 %) or ``"unreachable"``;
        ``unit_half_width``, √n times the half-width for large n; ``reliable_from``, the number of people from which
        that formula is within 10 %; ``best_guess``, how likely whoever sees one answer and knows the shares guesses
        the person's category right (`Mechanism.best_guess`); and ``bits`` of an answer, if all were equally likely.
    theta : xarray.DataArray
        The shares that were planned for, by ``category``.
    found : {"people", "epsilon", "half_width"}
        Which of the three was found.
    recommended : str
        The mechanism to use.
    reason : str
        Why, in a sentence.
    non_private : float
        The same without privacy, from the multinomial sampling error of honest answers: the half-width with the given
        people, or the people for the given half-width.
    """

    table: "xr.Dataset"
    theta: "xr.DataArray"
    found: str
    recommended: str
    reason: str
    non_private: float

    def to_dataframe(self) -> Any:
        """Return the main columns as a pandas table, one row per mechanism."""
        columns = [*GIVEN, "worst_half_width", "best_guess", "error", "method"]
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
        The shares to plan for: a guess; a named example; or a pilot, whose posterior mean is used. Even: all shares are
        1/K; uneven: they are proportional to 1, 1/2, 1/3, …; sparse: a fifth of the categories hold 90 %.
    people : int, optional
        How many will answer.
    epsilon : float, optional
        Privacy budget of one answer, at least 0.01.
    half_width : float, optional
        Half the width of the 95 % interval of a share, averaged over the categories.
    categories : int or sequence of labels, optional
        K or the labels for a named example; the labels of a guess.
    mechanisms : str or sequence of str, optional
        What to choose from: ``"srr"``, ``"subset-selection"``, ``"hadamard-response"``,
        ``"projective-geometry-response"``, ``"unary-encoding"`` (OUE), ``"local-hashing"``, ``"count-mean-sketch"``,
        ``"rrrr"`` (with the subset that it approaches at θ) and ``"design"``, the best mechanism for θ; or your own.
        All by default, ``"design"`` up to 12 categories.
    prior : float or array of shape (K,) or "learned", default "learned"
        The prior of the estimate, as in `sample`. Half-widths depend on it only if it prefers some categories (see
        `intervals.summary`).
    simulate : bool, default True
        Whether to simulate collections where the asymptotic formula may be off by more than 10 %.
    random_seed : int, optional
        Seed of the simulation and of the pilot's draws.
    progressbar : bool, default True
        Whether to show progress after two seconds.

    Returns
    -------
    Plan
        A table by mechanism, the recommended mechanism, and why.

    Notes
    -----
    **Two methods.** With many people the intervals are those of a normal distribution with the covariance F⁻¹/n, where
    F is the Fisher information of an answer. That is wrong where intervals reach 0 or 1. So the formula is used if the
    half-width divided by the distance of the share to 0 or 1, averaged over the categories, is at most 0.4 (and, under
    a prior that prefers some categories, standard deviations are at most 0.3 of the prior's). Otherwise collections are
    simulated, with people, answers and the intervals of `intervals.summary`, until the standard error of the mean
    half-width is 2 %, or there are 40 of them. Under a prior that prefers some categories, these intervals come from
    posterior draws by ``"sgld_cv"``, or by NUTS if that fails.

    **How rough it is.** ``error`` is the standard error of a simulated number: another seed gives another number. If a
    share is near zero, widths vary much between collections, and two seeds may differ by tens of per cent in the number
    of people. Mechanisms whose numbers differ by less than two standard errors count as equally good.
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
    from adobest_pp.samplers.sampling import fresh_seed

    seed = fresh_seed() if random_seed is None else check_integer(random_seed, "random_seed", 0, 2**63 - 1)
    if mechanisms is not None:
        mechanisms = check_names(mechanisms)
    shares, labels = _shares(theta, categories, seed, progressbar)
    concentration = check_design_prior(prior, len(labels), labels)
    names = list(mechanisms or (name for name in PLANNED if name != DESIGN or len(labels) <= MOST_OF_A_DESIGN))
    question = PlanProblem(shares, **numbers, prior=concentration, simulate=simulate, seed=seed)
    _check_possible(question)
    answers: dict[str, PlanSolution] = {}
    with SlowProgress(4 * COLLECTIONS * len(names), "Planning", progressbar) as progress:
        search = Search(question, lambda: progress.advance(1))
        # A search starts where the last one ended. Designs, which take longest, are close to subset selection.
        for name in sorted(names, key=lambda name: _place("subset-selection" if name == DESIGN else name)):
            answers[name] = search.answer(name)
    return _plan({name: answers[name] for name in names}, question, labels)


def _check_numbers(people: Any, epsilon: Any, half_width: Any) -> dict[str, Any]:
    """Return the three numbers, 0 for the one to find, or raise ValueError."""
    given = [name for name, value in zip(GIVEN, (people, epsilon, half_width), strict=True) if value is not None]
    if len(given) != 2:
        got = "all three" if len(given) == 3 else f"{given[0]} alone" if given else "none of them"
        raise ValueError(f"two of people, epsilon and half_width must be given, got {got}: the plan finds the third")
    numbers = {"people": 0 if people is None else check_count(people, "people"), "epsilon": 0.0, "half_width": 0.0}
    if epsilon is not None:
        numbers["epsilon"] = check_within(epsilon, "epsilon", BUDGETS)
    if half_width is not None:
        allowed = "a number above 0 and below 0.5, half the width of an interval of a share"
        numbers["half_width"] = check_real(half_width, "half_width", allowed, lambda x: 0 < x < 0.5)
    return numbers


def _shares(theta: Any, categories: Any, seed: int, progressbar: bool) -> tuple[Floats, tuple[str, ...]]:
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
    """Return a list of at least two labels, or raise ValueError."""
    if isinstance(categories, str | bytes | dict | set) or not hasattr(categories, "__len__"):
        raise ValueError(f"categories must be their number, or distinct labels, got {brief(categories)}")
    if len(categories) < 2:
        raise ValueError(f"categories must be at least 2, got {len(categories)}")
    return list(categories)


def _check_possible(asked: "PlanProblem") -> None:
    """Raise ValueError if even honest answers would not reach the half-width."""
    if asked.people and asked.half_width:
        least = non_private_unit(asked.theta) / math.sqrt(asked.people)
        if asked.half_width <= least:
            raise ValueError(
                f"half_width must be above {least:.3g}, which {asked.people} honest answers give without any privacy, "
                f"got {asked.half_width:g}: ask more people"
            )


def _plan(answers: "dict[str, PlanSolution]", question: "PlanProblem", labels: tuple[str, ...]) -> Plan:
    """Return the plan with its labels."""
    import xarray as xr

    found = next(name for name in GIVEN if not getattr(question, name))
    columns = {name: ("mechanism", [getattr(each, name) for each in answers.values()]) for name in PlanSolution._fields}
    prior = question.prior if isinstance(question.prior, str) else question.prior.tolist()
    unit = non_private_unit(question.theta)
    attributes = {"found": found, "non_private_unit": unit, "prior": prior, "random_seed": question.seed}
    table = xr.Dataset(columns, {"mechanism": list(answers)}, attributes)
    theta = xr.DataArray(question.theta, dims="category", coords={"category": list(labels)}, name="theta")
    best, reason = _recommended(answers, found)
    limit = unit / math.sqrt(question.people) if question.people else (unit / question.half_width) ** 2
    return Plan(table, theta, found, best, reason, limit)


def _recommended(answers: "dict[str, PlanSolution]", found: str) -> tuple[str, str]:
    """Return the mechanism to use, and why: the simplest of those that are as good as the best.

    Mechanisms with long answers come last: such answers hardly repeat, so they cannot be counted. People count by their
    square root, so that they compare like half-widths.
    """
    power = 0.5 if found == "people" else 1.0
    costs = {name: getattr(each, found) ** power for name, each in answers.items() if each.half_width > 0}
    if not costs:
        return "", "No mechanism reaches this half-width with this many people: ask more people."
    words = {"people": "fewer people", "epsilon": "less of the budget", "half_width": "narrower intervals"}[found]
    fixed = {name: cost for name, cost in costs.items() if name != DESIGN} or costs
    least = min(fixed.values())
    first = min(fixed, key=lambda name: fixed[name])

    def margin(name: str) -> float:
        """Return two standard errors of a cost relative to the least one."""
        return 2 * power * math.hypot(answers[name].error, answers[first].error)

    good = [name for name in fixed if fixed[name] <= (1 + max(AS_GOOD, margin(name))) * least]
    best = min(good, key=lambda name: (answers[name].bits > LONG_ANSWER, _place(name)))
    if DESIGN in costs and DESIGN not in fixed and costs[DESIGN] < (1 - max(WORTH_A_DESIGN, margin(DESIGN))) * least:
        share = 1 - (costs[DESIGN] / least) ** (1 / power)
        return DESIGN, (
            f"{DESIGN}: {share:.0%} {words} than {best}, the best that needs no guess of the shares; it is made for "
            "these shares, so ask in rounds and let the first round estimate them."
        )
    longer = min(good, key=_place)
    bits, more_bits = answers[best].bits, answers[longer].bits
    short = f" Its answers have {bits:.0f} bits, in place of {more_bits:,.0f} with {longer}." if longer != best else ""
    worst = max(fixed, key=lambda name: fixed[name])
    share = 1 - (fixed[best] / fixed[worst]) ** (1 / power)
    if len(costs) == 1:
        return best, f"{best}: the only requested mechanism that reaches it."
    if len(fixed) == 1:
        return best, f"{best}: as good as a design as far as the plan can tell, and it needs no guess of the shares."
    if share < AS_GOOD:
        return best, f"{best}: the simplest, and as good as the others.{short}"
    why = f"the simplest of the best that need no guess of the shares; {share:.0%} {words} than {worst}"
    return best, f"{best}: {why}.{short}"


def _place(name: str) -> int:
    return PLANNED.index(name) if name in PLANNED else len(PLANNED)


# The search for the number, one mechanism at a time.


class PlanSolution(NamedTuple):
    """A plan with one mechanism, with the columns of `Plan.table`; NaN if the mechanism cannot do it."""

    people: float
    epsilon: float
    half_width: float
    worst_half_width: float
    error: float
    method: str
    unit_half_width: float
    reliable_from: float
    best_guess: float
    bits: float = math.nan


@dataclass(frozen=True, eq=False)
class PlanProblem:
    """θ, two of three numbers (the one to find is 0), and how intervals will be made."""

    theta: Floats
    people: int
    epsilon: float
    half_width: float
    prior: Floats | str
    simulate: bool
    seed: int


def non_private_unit(theta: Floats) -> float:
    """Return √n times the mean half-width of n honest answers, by the multinomial sampling error."""
    return float(np.mean(DEVIATIONS * np.sqrt(theta * (1 - theta))))


def reliable_from(unit: Floats, theta: Floats, prior: Floats | str) -> float:
    """Return the least number of people for which the half-width `unit`/√n is within 10 % of that of exact inference.

    Intervals depend on the prior only if it prefers some categories.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        beside_shares = float(np.mean(unit / np.minimum(theta, 1 - theta))) / BESIDE_SHARES
        if isinstance(prior, str) or np.ptp(prior) == 0:
            return beside_shares**2
        mean = prior / prior.sum()
        spread = np.sqrt(mean * (1 - mean) / (prior.sum() + 1))
        beside_prior = float(np.mean(np.divide(unit / DEVIATIONS, spread))) / BESIDE_PRIOR
    return max(beside_shares, beside_prior) ** 2


@dataclass
class Search:
    """Finds the number for one mechanism after another; each search starts where the last one ended."""

    question: PlanProblem
    advance: Callable[[], None] = lambda: None
    # The simulated half-width over the asymptotic one, of the last mechanism.
    ratio: float = 1.0
    # ln ε of the last mechanism.
    near: float = 0.0
    # The standard error of the last thorough simulation, as a share of its mean half-width.
    error: float = 0.0
    # The plan with SRR, which RRRR shares if it publishes no subset.
    srr: PlanSolution | None = None

    def answer(self, name: str) -> PlanSolution:
        """Return the plan with the mechanism of this name."""
        asked = self.question
        known = self.srr if name == "rrrr" and self.srr is not None and self.srr.epsilon > 0 else None
        # RRRR that publishes no subset at the ε of SRR is SRR.
        if known is not None and candidate(name, asked.theta, known.epsilon).subset is None:
            return known
        found = self._at(candidate(name, asked.theta, asked.epsilon)) if asked.epsilon else self._epsilon(name)
        self.srr = found if name == "srr" else self.srr
        return found

    def _at(self, one: Candidate) -> PlanSolution:
        """Return the plan at the given ε."""
        unit = unit_half_widths(one, self.question.theta)
        if not np.isfinite(unit).all():
            return _unreachable(self.question)
        return self._people(one, unit) if self.question.half_width else self._width(one, unit)

    def _width(self, one: Candidate, unit: Floats) -> PlanSolution:
        """Return the half-width with the given people at this ε."""
        people = self.question.people
        method = self._method(unit, people)
        if method != "simulated":
            return self._answer(one, people, unit, method)
        widths = self._simulated(one, people, thorough=True)
        return self._answer(one, people, unit, method, widths, self.error)

    def _people(self, one: Candidate, unit: Floats) -> PlanSolution:
        """Return how many people the given half-width takes at this ε."""
        asked = self.question
        people = max(1, math.ceil((unit.mean() / asked.half_width) ** 2))
        method = self._method(unit, people)
        if method != "simulated":
            return self._answer(one, people, unit, method)
        high = math.log(MOST_SIMULATED / asked.theta.size)
        begin = math.log(max(1.0, (unit.mean() * self.ratio / asked.half_width) ** 2))
        place, widths, error = self._match(lambda x, t: self._simulated(one, _whole(x), t), begin, -0.5, (0.0, high))
        return self._answer(one, _whole(place), unit, method, widths, error)

    def _epsilon(self, name: str) -> PlanSolution:
        """Return the ε at which the given people reach the given half-width."""
        asked = self.question
        one, unit, off = self._asymptotic_epsilon(name, asked.half_width)
        method = self._method(unit, asked.people)
        if method == "simulated":
            if self.ratio != 1:
                one, _, _ = self._asymptotic_epsilon(name, asked.half_width / self.ratio)
            return self._simulated_epsilon(name, one)
        return _unreachable(asked) if off > REACHED else self._answer(one, asked.people, unit, method)

    def _simulated_epsilon(self, name: str, near: Candidate) -> PlanSolution:
        asked = self.question
        people, held = asked.people, near

        def widths_at(x: float, thorough: bool) -> Floats:
            nonlocal held
            held = candidate(name, asked.theta, _budget(x), held)
            return self._simulated(held, people, thorough)

        # A larger ε hardly gains anything.
        begin = min(math.log(near.mechanism.epsilon), math.log(4.0))
        place, widths, error = self._match(widths_at, begin, -1.0, LOG_BUDGETS)
        if math.log(widths.mean() / asked.half_width) > REACHED:
            return _unreachable(asked)
        held = candidate(name, asked.theta, _budget(place), held)
        return self._answer(held, people, unit_half_widths(held, asked.theta), "simulated", widths, error)

    def _asymptotic_epsilon(self, name: str, wanted: float) -> tuple[Candidate, Floats, float]:
        """Return the mechanism with the wanted asymptotic half-width, √n times its half-widths, and the error in logs.

        The error is large only at an end of the range of ε.
        """
        asked = self.question
        target = math.log(wanted * math.sqrt(asked.people))
        (low, high), place, one = LOG_BUDGETS, self.near, None
        points: list[tuple[float, float]] = []
        for _ in range(MOST_STEPS):
            one = candidate(name, asked.theta, _budget(place), one)
            unit = unit_half_widths(one, asked.theta)
            off = float(np.log(unit.mean())) - target
            points.append((place, off))
            low, high = (place, high) if off > 0 else (low, place)
            if abs(off) < EXACT or high - low < 1e-6:
                break
            place = _next(points, low, high)
        assert one is not None
        self.near = place
        return one, unit, off

    def _match(
        self, widths_at: Callable[[float, bool], Floats], begin: float, slope: float, bounds: tuple[float, float]
    ) -> tuple[float, Floats, float]:
        """Return the place with the wanted mean half-width, or the nearest bound, and the half-widths there.

        The third number is the standard error of exp(place), as a share of it: that of the half-width divided by the
        slope. A first look with few collections finds the neighborhood; a thorough one finds the place.
        """
        asked = self.question
        place, expected = min(max(begin, bounds[0]), bounds[1]), slope
        for thorough in (False, True):
            before: tuple[float, float] | None = None
            for left in reversed(range(MOST_THOROUGH if thorough else MOST_POINTS)):
                widths = widths_at(place, thorough)
                off = math.log(widths.mean() / asked.half_width)
                if before is not None and abs(place - before[0]) > 0.05:
                    secant = (off - before[1]) / (place - before[0])
                    slope = min(max(secant, 2 * expected), 0.2 * expected)
                # Where a line of this slope is zero, within the bounds.
                moved = min(max(place + min(max(-off / slope, -LONGEST), LONGEST), bounds[0]), bounds[1])
                close = max(self.error, ERROR) if thorough else CLOSE
                if abs(off) < close or abs(moved - place) < 1e-9 or (thorough and not left):
                    break
                before, place = (place, off), moved
        return moved, widths * math.exp(slope * (moved - place)), self.error / abs(slope)

    def _method(self, unit: Floats, people: float) -> str:
        asked = self.question
        if people >= reliable_from(unit, asked.theta, asked.prior):
            return "asymptotic"
        if not asked.simulate or people * asked.theta.size > MOST_SIMULATED:
            return "rough"
        return "simulated"

    def _simulated(self, one: Candidate, people: int, thorough: bool = False) -> Floats:
        """Return the mean half-widths over some simulated collections, with the same seeds for all mechanisms.

        If `thorough`, collections are added until the standard error is 2 %, or there are `MOST_COLLECTIONS`.
        """
        asked = self.question
        found: list[Floats] = []
        while len(found) < (MOST_COLLECTIONS if thorough else COLLECTIONS):
            rng = np.random.default_rng([asked.seed, len(found)])
            found.append(simulated_half_widths(one, asked.theta, people, asked.prior, rng))
            self.advance()
            means = np.mean(found, axis=1)
            error = means.std(ddof=1) / math.sqrt(len(means)) if len(means) >= COLLECTIONS else math.inf
            if error < ERROR * means.mean():
                break
        self.error = float(error / means.mean())
        return np.asarray(np.mean(found, axis=0))

    def _answer(
        self, one: Candidate, people: int, unit: Floats, method: str, widths: Floats | None = None, error: float = 0.0
    ) -> PlanSolution:
        """Return the plan with one mechanism, with the half-widths of the formula unless others are given."""
        asked = self.question
        if widths is None:
            widths = unit / math.sqrt(people)
        else:
            self.ratio = float(widths.mean() * math.sqrt(people) / unit.mean())
        mechanism, mean, worst = one.mechanism, float(widths.mean()), float(widths.max())
        guess, bits = mechanism.best_guess(asked.theta, subset=one.subset), math.log2(mechanism.n_outputs)
        full, reliable = float(unit.mean()), reliable_from(unit, asked.theta, asked.prior)
        return PlanSolution(people, mechanism.epsilon, mean, worst, error, method, full, reliable, guess, bits)


def _unreachable(asked: PlanProblem) -> PlanSolution:
    """Return the plan with a mechanism that cannot do it."""
    nan, inf = math.nan, math.inf
    return PlanSolution(asked.people or nan, asked.epsilon or nan, nan, nan, nan, "unreachable", inf, inf, nan)


def _budget(log_epsilon: float) -> float:
    return min(math.exp(log_epsilon), MAX_EPSILON)


def _whole(log_people: float) -> int:
    return max(1, math.ceil(math.exp(log_people) - 1e-9))


def _next(points: list[tuple[float, float]], low: float, high: float) -> float:
    """Return where the line through the last two points is zero, between `low` and `high`; it falls with ln ε."""
    (x, off), before = points[-1], points[-2:-1]
    slope = -1.0
    if before and abs(x - before[0][0]) > 1e-9:
        slope = (off - before[0][1]) / (x - before[0][0])
    guess = x - off / slope if slope < -0.01 else math.inf
    guess = min(max(guess, x - math.log(4.0)), x + math.log(4.0))
    if guess <= low or guess >= high:
        # Do not try the same end again.
        tried = {place for place, _ in points}
        guess = min(max(guess, low), high)
        return guess if guess not in tried else (low + high) / 2
    return guess


def simulated_half_widths(
    one: Candidate, theta: Floats, people: int, prior: Floats | str, rng: np.random.Generator
) -> Floats:
    """Return half the widths of the 95 % intervals of one simulated collection, of shape (K,).

    `rng` draws people, answers and the seed of the sampler. Only a prior that prefers some categories matters.
    """
    from adobest_pp.likelihood.without_prior import direct_estimate
    from adobest_pp.samplers.choice import quick_draws

    truth = draw_people(rng, theta / theta.sum(), people)
    answers = one.mechanism.privatize(truth, subset=one.subset, rng=rng)
    responses = Responses.from_arrays(one.mechanism, answers, one.subset)
    direct = direct_estimate(responses, theta) if isinstance(prior, str) or np.ptp(prior) == 0 else None
    if direct is not None:
        lower, upper = covering_intervals(direct)
    else:
        draws = quick_draws(responses, prior, DRAWS, TUNE, CHAINS, int(rng.integers(2**31)))
        lower, upper = shortest_intervals(np.clip(draws, 0.0, 1.0))
    return np.asarray((upper - lower) / 2)
