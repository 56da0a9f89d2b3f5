"""The number that a plan looks for, one mechanism at a time: by the asymptotic formula, or by simulation.

The formula holds once intervals are narrow beside how far shares are from 0 and 1, as an interval that reaches an end
is cut off there. Under a prior that prefers some categories, on which intervals rest, they must be narrow beside the
spread that it expects of the shares as well. `reliable_from` says from how many people on; `validation/plans.py` shows
that it is then right within 10 %.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import MAX_EPSILON
from adobest_pp._dirichlet import draw_people
from adobest_pp.design.overview import DEVIATIONS, Candidate, candidate, unit_half_widths
from adobest_pp.intervals import covering_intervals, shortest_intervals

Floats = NDArray[np.float64]

# Below these, the asymptotic half-width is within 10 % of the simulated one: the mean over categories of the half-width
# over the distance of the share to 0 or 1, and the standard deviation over that of the prior.
BESIDE_SHARES, BESIDE_PRIOR = 0.4, 0.3
# The least budget that is looked at.
LEAST_EPSILON = 0.01
BUDGETS = (math.log(LEAST_EPSILON), math.log(MAX_EPSILON))
# A half-width this close to the wanted one, in logarithms, is reached, where others are; a search for ε by the formula
# ends at this, and after so many steps.
REACHED, EXACT, MOST_STEPS = 0.05, 2e-3, 40
# Simulated collections for a half-width: those that tell about where to look; in the end as many as bring the standard
# error of the mean to a share of it, and at most. Every plan states the error that is left.
COLLECTIONS, ERROR, MOST_COLLECTIONS = 4, 0.02, 40
# Half-widths that are looked at, and those thoroughly; how close to the wanted one is close, and the longest step, in
# logarithms.
MOST_POINTS, MOST_THOROUGH, CLOSE, LONGEST = 5, 3, 0.15, math.log(16.0)
# Categories times people beyond which nothing is simulated.
MOST_SIMULATED = 4_000_000


class PlanSolution(NamedTuple):
    """A plan with one mechanism; NaN where it cannot do what is asked.

    `error` is the Monte Carlo standard error of the number that was looked for, as a share of it: 0 for the formula.
    """

    people: float
    epsilon: float
    half_width: float
    worst_half_width: float
    error: float
    method: str
    unit_half_width: float
    reliable_from: float


@dataclass(frozen=True, eq=False)
class PlanProblem:
    """θ, two of three numbers, and how intervals will be made."""

    theta: Floats
    people: int | None
    epsilon: float | None
    half_width: float | None
    prior: Floats | str
    simulate: bool
    seed: int


def non_private_unit(theta: Floats) -> float:
    """Return √n times the mean half-width that n honest answers tend to: the multinomial sampling error."""
    return float(np.mean(DEVIATIONS * np.sqrt(theta * (1 - theta))))


def reliable_from(unit: Floats, theta: Floats, prior: Floats | str) -> float:
    """Return from how many people on the asymptotic half-width is within 10 % of what exact inference gives.

    Parameters
    ----------
    unit : array of shape (K,)
        √n times the asymptotic half-widths.
    theta : array of shape (K,)
        The shares.
    prior : array of shape (K,) or "learned"
        The prior of the estimate. Intervals rest on it only if it prefers some categories.
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
    """Answers a question for one mechanism after the other; what one teaches is where the next begins."""

    question: PlanProblem
    advance: Callable[[], None] = lambda: None
    # The simulated half-width over the asymptotic one, of the last mechanism.
    ratio: float = 1.0
    # ln ε of the last mechanism.
    near: float = 0.0
    # The standard error of the last thorough simulation, as a share of its mean half-width.
    error: float = 0.0
    # The answer of SRR, which is that of RRRR where it publishes nothing.
    srr: PlanSolution | None = None

    def answer(self, name: str) -> PlanSolution:
        """Return the plan with the mechanism of this name."""
        asked = self.question
        if name == "rrrr" and self._publishes_nothing():
            assert self.srr is not None
            return self.srr
        found = self._epsilon(name) if asked.epsilon is None else self._at(candidate(name, asked.theta, asked.epsilon))
        self.srr = found if name == "srr" else self.srr
        return found

    def _publishes_nothing(self) -> bool:
        """Whether RRRR is SRR at the ε that SRR takes, where that is known."""
        if self.srr is None or not self.srr.epsilon > 0:
            return False
        return candidate("rrrr", self.question.theta, self.srr.epsilon).subset is None

    def _at(self, one: Candidate) -> PlanSolution:
        """Return the plan at the given ε."""
        asked = self.question
        unit = unit_half_widths(one, asked.theta)
        if not np.isfinite(unit).all():
            return _unreachable(asked)
        return self._width(one, unit) if asked.half_width is None else self._people(one, unit)

    def _width(self, one: Candidate, unit: Floats) -> PlanSolution:
        """Return the half-width of so many people at this ε."""
        asked = self.question
        assert asked.people is not None
        method, widths = self._method(unit, asked.people), unit / math.sqrt(asked.people)
        if method == "simulated":
            widths = self._simulated(one, asked.people, thorough=True)
        error = self.error if method == "simulated" else 0.0
        return _answer(asked.people, one.mechanism.epsilon, widths, method, unit, asked, error)

    def _people(self, one: Candidate, unit: Floats) -> PlanSolution:
        """Return how many people this half-width takes at this ε."""
        asked, epsilon = self.question, one.mechanism.epsilon
        assert asked.half_width is not None
        wanted = asked.half_width
        people = max(1, math.ceil((unit.mean() / wanted) ** 2))
        method = self._method(unit, people)
        if method != "simulated":
            return _answer(people, epsilon, unit / math.sqrt(people), method, unit, asked)
        high = math.log(MOST_SIMULATED / asked.theta.size)
        begin = math.log(max(1.0, (unit.mean() * self.ratio / wanted) ** 2))
        place, widths, error = self._match(lambda x, t: self._simulated(one, _whole(x), t), begin, -0.5, (0.0, high))
        people = _whole(place)
        self.ratio = float(widths.mean() * math.sqrt(people) / unit.mean())
        return _answer(people, epsilon, widths, method, unit, asked, error)

    def _epsilon(self, name: str) -> PlanSolution:
        """Return the budget at which so many people give this half-width."""
        asked = self.question
        assert asked.people is not None
        assert asked.half_width is not None
        one, unit, off = self._asymptotic_epsilon(name, asked.half_width)
        method = self._method(unit, asked.people)
        if method == "simulated":
            if self.ratio != 1:
                one, _, _ = self._asymptotic_epsilon(name, asked.half_width / self.ratio)
            return self._simulated_epsilon(name, one)
        if off > REACHED:
            return _unreachable(asked)
        return _answer(asked.people, one.mechanism.epsilon, unit / math.sqrt(asked.people), method, unit, asked)

    def _simulated_epsilon(self, name: str, near: Candidate) -> PlanSolution:
        asked = self.question
        assert asked.people is not None
        assert asked.half_width is not None
        people, held = asked.people, near

        def widths_at(x: float, thorough: bool) -> Floats:
            nonlocal held
            held = candidate(name, asked.theta, _budget(x), held)
            return self._simulated(held, people, thorough)

        # Beyond this ε hardly anything is left to gain.
        begin = min(math.log(near.mechanism.epsilon), math.log(4.0))
        place, widths, error = self._match(widths_at, begin, -1.0, BUDGETS)
        if math.log(widths.mean() / asked.half_width) > REACHED:
            return _unreachable(asked)
        held = candidate(name, asked.theta, _budget(place), held)
        unit = unit_half_widths(held, asked.theta)
        self.ratio = float(widths.mean() * math.sqrt(people) / unit.mean())
        return _answer(people, held.mechanism.epsilon, widths, "simulated", unit, asked, error)

    def _asymptotic_epsilon(self, name: str, wanted: float) -> tuple[Candidate, Floats, float]:
        """Return the mechanism with the wanted asymptotic half-width, √n times that, and how far it is off, in logs.

        It is off by much only at an end of the range of ε.
        """
        asked = self.question
        assert asked.people is not None
        target = math.log(wanted * math.sqrt(asked.people))
        (low, high), place, one = BUDGETS, self.near, None
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
        """Return where the mean half-width is the wanted one, and the half-widths there; or the nearest bound.

        The last number is the standard error of where that is, as a share of exp(place): that of the half-width over
        its slope. A few collections tell about where that is, and more of them how far it still is from there.
        """
        asked = self.question
        assert asked.half_width is not None
        place, expected = min(max(begin, bounds[0]), bounds[1]), slope
        for thorough in (False, True):
            before: tuple[float, float] | None = None
            for left in reversed(range(MOST_THOROUGH if thorough else MOST_POINTS)):
                widths = widths_at(place, thorough)
                off = math.log(widths.mean() / asked.half_width)
                if before is not None and abs(place - before[0]) > 0.05:
                    secant = (off - before[1]) / (place - before[0])
                    slope = min(max(secant, 2 * expected), 0.2 * expected)
                moved = _moved(place, off, slope, bounds)
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
        """Return the mean half-widths over some collections, the same whatever is tried.

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
    people: int, epsilon: float, widths: Floats, method: str, unit: Floats, asked: PlanProblem, error: float = 0.0
) -> PlanSolution:
    reliable, widest = reliable_from(unit, asked.theta, asked.prior), float(widths.max())
    return PlanSolution(people, epsilon, float(widths.mean()), widest, error, method, float(unit.mean()), reliable)


def _unreachable(asked: PlanProblem) -> PlanSolution:
    """Return what is known where a mechanism cannot do it."""
    known = [math.nan if value is None else value for value in (asked.people, asked.epsilon)]
    return PlanSolution(known[0], known[1], math.nan, math.nan, math.nan, "unreachable", math.inf, math.inf)


def _moved(place: float, off: float, slope: float, bounds: tuple[float, float]) -> float:
    """Return where a line of this slope is zero, no step longer than `LONGEST` and within the bounds."""
    step = min(max(-off / slope, -LONGEST), LONGEST)
    return min(max(place + step, bounds[0]), bounds[1])


def _budget(log_epsilon: float) -> float:
    return min(math.exp(log_epsilon), MAX_EPSILON)


def _whole(log_people: float) -> int:
    return max(1, math.ceil(math.exp(log_people) - 1e-9))


def _next(points: list[tuple[float, float]], low: float, high: float) -> float:
    """Return where the line through the last two points is zero, within the ends; half-widths fall with ln ε."""
    (x, off), before = points[-1], points[-2:-1]
    slope = -1.0
    if before and abs(x - before[0][0]) > 1e-9:
        slope = (off - before[0][1]) / (x - before[0][0])
    guess = x - off / slope if slope < -0.01 else math.inf
    guess = min(max(guess, x - math.log(4.0)), x + math.log(4.0))
    if guess <= low or guess >= high:
        # An end that was tried is not tried again.
        tried = {place for place, _ in points}
        guess = min(max(guess, low), high)
        return guess if guess not in tried else (low + high) / 2
    return guess


# Half-widths of the intervals that a collection would show: people, answers, inference and intervals, simulated.


# Of one simulated collection.
CHAINS, DRAWS, TUNE = 2, 300, 300


def simulated_half_widths(
    candidate: Candidate,
    theta: NDArray[np.float64],
    people: int,
    prior: NDArray[np.float64] | str,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return half the widths of the 95 % intervals of one simulated collection, of shape (K,).

    Parameters
    ----------
    candidate : Candidate
        The mechanism, and the subset that is published, if it publishes one.
    theta : array of shape (K,)
        The shares that people are drawn from.
    people : int
        How many answer.
    prior : array of shape (K,) or "learned"
        The prior of the estimate. Only one that prefers some categories counts: other intervals do not rest on it.
    rng : numpy.random.Generator
        Draws people, answers and the seed of the sampler.
    """
    from adobest_pp.answers.responses import Responses
    from adobest_pp.likelihood.direct import direct_estimate
    from adobest_pp.samplers.choice import quick_draws

    truth = draw_people(rng, theta / theta.sum(), people)
    answers = candidate.mechanism.privatize(truth, subset=candidate.subset, rng=rng)
    responses = Responses.from_arrays(candidate.mechanism, answers, candidate.subset)
    direct = direct_estimate(responses, theta) if isinstance(prior, str) or np.ptp(prior) == 0 else None
    if direct is not None:
        lower, upper = covering_intervals(direct)
        return np.asarray((upper - lower) / 2)
    draws = quick_draws(responses, prior, DRAWS, TUNE, CHAINS, int(rng.integers(2**31)))
    lower, upper = shortest_intervals(np.clip(draws, 0.0, 1.0))
    return np.asarray((upper - lower) / 2)
