"""How often the interval of each category holds its share, for shares that are fixed, by prior and kind of interval.

Truths that are drawn from a prior cannot show whether intervals cover every truth. Here shares are fixed, from 0.2 % to
50 % and more: even, Zipf, a ladder of rare ones, one or two large ones beside small ones, one that everybody holds. The
coverage is that of each share by itself.

For the intervals that are shown (`adobest_pp.intervals.covering_intervals`) it is exact: the number of answers that
name a category is binomial, and the program sums over it. At K = 2 it is exact for all kinds, because the posterior is
integrated on a grid. For larger K, answers of SRR are simulated, and Hamiltonian Monte Carlo on the coordinates of the
learned prior draws from the posterior under three priors; NUTS checks it. Adaptive collections, in which the earlier
answers choose the later questions, are simulated too. Then truths are drawn from Dirichlet(ρ), for the accuracy of the
estimates. Exits with 1 if a finding is not reproduced.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import gammaln, log_expit
from scipy.stats import binom, ks_2samp

import adobest_pp as ad
from adobest_pp._dirichlet import LOG_CONCENTRATION, draw_dirichlet
from adobest_pp.answers.draws import theta_of
from adobest_pp.intervals.shares import AT_THE_EDGE, PROBABILITY, covering_intervals, p_value, shortest_intervals
from adobest_pp.likelihood.marginal import climb
from adobest_pp.likelihood.without_prior import Direct, direct_estimate, direct_of_counts
from adobest_pp.samplers.nuts import choose_coordinates, learned_log_density, learned_theta, sample_nuts
from validation.answers import ask
from validation.common import Finding, Options, each, finding, main, shown, table

Floats = NDArray[np.float64]
TAIL = (1 - PROBABILITY) / 2
# No cell may be below the first; the mean over cells must be within the second.
LEAST, MEAN = 0.90, (0.93, 0.97)

# For the exact table.
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
CATEGORIES, EPSILONS, PEOPLE = (2, 3, 5, 6, 10, 20), (0.25, 0.5, 1.0, 2.0, 4.0), (300, 1000, 3000, 10_000, 30_000)
MECHANISMS = {"SRR": ad.SRR, "subset selection": ad.SubsetSelection}
# Standard deviations of a count beyond which its outcomes have no weight.
FAR = 8.0

# For the simulated table: budgets and people, categories, and how the posterior is drawn.
COLLECTED = ((0.25, 30_000), (0.5, 3000), (1.0, 1000), (1.0, 10_000), (2.0, 3000), (4.0, 300))
SIMULATED = (3, 5, 6, 10, 20)
COLLECTIONS, RUNS = 200, 25
# How many of these collections are also analyzed under the priors that are not the default.
COMPARED = 60
# How many pairs of budget and people each truth and K has, in turn.
PAIRS = 5
WARM, KEEP, LONGEST = 120, 320, 40
# Mean and standard deviation of ln a; None where a is 1.
PRIORS: dict[str, tuple[float, float] | None] = {
    "learned": LOG_CONCENTRATION,
    "ln a ~ N(-1, 1)": (-1.0, 1.0),
    "flat": None,
}
KINDS = ("shortest", "equal tails", "zero or tails")
SHOWN, GUARDED = "as shown", "learned, guarded"
RHOS = (0.01, 0.1, 1.0)

# Mechanisms without symmetry, or whose counts lose information.
OTHERS: dict[str, Any] = {
    "unary encoding": ad.UnaryEncoding,
    "local hashing": ad.LocalHashing,
    "Hadamard response": ad.HadamardResponse,
    "RRRR": ad.RRRR,
    "design": ad.SetFamily,
}

# Collections whose answers choose the questions: κ of RRRR and how its subsets are chosen, or designs in rounds.
ADAPTIVE: dict[str, tuple[float, dict[str, Any]]] = {
    "RRRR, honest": (0.9, {"utility": "honest"}),
    "RRRR, entropy": (0.9, {"utility": "entropy"}),
    "RRRR, semi-adaptive": (1.0, {"utility": "semi_adaptive", "alpha": 0.9}),
    "designs in rounds": (1.0, {}),
}
ADAPTIVE_COLLECTIONS = 100


class Setting(NamedTuple):
    """A truth and how it is asked for."""

    truth: str
    n_categories: int
    epsilon: float
    people: int
    mechanism: str = "SRR"

    def theta(self) -> Floats:
        """Return the shares."""
        return truths(self.n_categories)[self.truth]


def truths(k: int) -> dict[str, Floats]:
    """Return the fixed shares of K categories by name."""

    def rest(*first: float) -> Floats:
        few = np.array(first[: k - 1])
        return np.append(few, np.full(k - few.size, (1 - few.sum()) / (k - few.size)))

    zipf = 1 / np.arange(1, k + 1)
    return {
        "even": np.full(k, 1 / k),
        "Zipf": zipf / zipf.sum(),
        "rare": rest(0.002, 0.05, 0.01, 0.005, 0.02),
        "two large": rest(0.49, 0.49),
        "one large": rest(0.97),
        "large and small": rest(0.8, 0.1),
        "three": np.append([0.6, 0.3, 0.1], np.zeros(k - 3)) if k > 2 else np.array([0.9, 0.1]),
        "one": np.eye(k)[0],
    }


# The exact table.


def outcomes(n: int, h: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the numbers of answers that may name a category, each of n with probability h, and their weights."""
    spread = FAR * math.sqrt(n * h * (1 - h)) + FAR
    counts = np.arange(max(0, math.floor(n * h - spread)), min(n, math.ceil(n * h + spread)) + 1)
    return counts, binom.pmf(counts, n, h)


def exact_coverage(mechanism: Any, people: int, share: float) -> tuple[float, float]:
    """Return how often the interval as shown holds a share, and its mean width."""
    direct, weight = _outcomes_of(mechanism, people, share)
    lower, upper = covering_intervals(direct)
    return weight @ ((lower <= share) & (share <= upper)), weight @ (upper - lower)


def quick_coverage(mechanism: Any, people: int, share: float) -> float:
    """Return the same coverage without the intervals: how often the test does not reject the share."""
    direct, weight = _outcomes_of(mechanism, people, share)
    return float(weight @ (p_value(np.full(weight.size, share), direct) >= 1 - PROBABILITY))


def _outcomes_of(mechanism: Any, people: int, share: float) -> tuple[Direct, Floats]:
    truth, other = mechanism.naming()
    counts, weight = outcomes(people, other + (truth - other) * share)
    direct = direct_of_counts(counts.astype(np.float64), people, mechanism)
    assert direct is not None
    return direct, weight


def exact_table(quick: bool) -> dict[tuple[str, int, float, int, float], float]:
    """Return `quick_coverage` by mechanism, K, ε, people and share; 0, 0.8, 0.97 and 1 are added to the shares."""
    ks, ns = ((2, 20), (300, 3000)) if quick else (CATEGORIES, PEOPLE)
    cells = list(product(MECHANISMS, ks, EPSILONS, ns, (0.0, *SHARES, 0.8, 0.97, 1.0)))
    found = each(lambda cell: quick_coverage(MECHANISMS[cell[0]](*cell[1:3]), *cell[3:]), cells, "exact coverage")
    return dict(zip(cells, found, strict=True))


# Two categories: every kind of interval, by quadrature.


class Grid:
    """The posterior of the first of two shares, on cells of equal width in its log-odds, and beyond them."""

    edges = np.arange(-28.0, 28.005, 0.01)
    odds = (edges[1:] + edges[:-1]) / 2
    theta = np.concatenate([[0.0], 1 / (1 + np.exp(-odds)), [1.0]])

    def __init__(self, law: tuple[float, float] | None) -> None:
        logs = np.zeros(1) if law is None else np.linspace(law[0] - 5 * law[1], law[0] + 5 * law[1], 201)
        weight = np.ones(1) if law is None else np.exp(-0.5 * ((logs - law[0]) / law[1]) ** 2)
        a = np.exp(logs)[:, None]
        constant = gammaln(2 * a) - 2 * gammaln(a)
        inner = np.exp(constant + a * (log_expit(self.odds) + log_expit(-self.odds))) * 0.01
        tail = np.exp(constant[:, 0] + a[:, 0] * log_expit(self.edges[0])) / a[:, 0]
        prior = np.hstack([tail[:, None], inner, tail[:, None]])
        self.prior = weight @ (prior / prior.sum(axis=1, keepdims=True)) / weight.sum()

    def posterior(self, mechanism: Any, people: int, count: int) -> Floats:
        """Return the masses given how many answers name the first category."""
        truth, other = mechanism.naming()
        h = other + (truth - other) * self.theta
        value = count * np.log(h) + (people - count) * np.log1p(-h)
        mass = self.prior * np.exp(value - value.max())
        return np.asarray(mass / mass.sum())

    def ends(self, mass: Floats) -> dict[str, tuple[float, float]]:
        """Return the interval of each kind."""
        upto = np.cumsum(mass)
        low, high = (float(self.theta[np.searchsorted(upto, level)]) for level in (TAIL, 1 - TAIL))
        before = upto - mass
        last = np.searchsorted(upto, before + PROBABILITY - 1e-12)
        possible = last < self.theta.size
        width = np.where(possible, self.theta[np.minimum(last, self.theta.size - 1)] - self.theta, np.inf)
        first = int(np.argmin(width))
        short = _to_the_edges(float(self.theta[first]), float(self.theta[last[first]]))
        mixed = (0.0 if short[0] == 0 else low, 1.0 if short[1] == 1 else high)
        return {"shortest": short, "equal tails": (low, high), "zero or tails": mixed}


def _to_the_edges(low: float, high: float) -> tuple[float, float]:
    margin = AT_THE_EDGE * (high - low)
    return (0.0 if low <= margin else low), (1.0 if 1 - high <= margin else high)


def two_categories(prior: str, epsilon: float, people: int, shares: tuple[float, ...]) -> dict[str, dict[str, Floats]]:
    """Return exact coverage, misses above and mean width by kind, and the error of the mean, for each share."""
    grid, mechanism = Grid(PRIORS[prior]), ad.SRR(2, epsilon)
    truth, other = mechanism.naming()
    known: dict[int, tuple[dict[str, tuple[float, float]], float]] = {}
    found: dict[str, dict[str, Floats]] = {}
    for at, share in enumerate(shares):
        counts, weight = outcomes(people, other + (truth - other) * share)
        for count in counts.tolist():
            if count not in known:
                mass = grid.posterior(mechanism, people, count)
                known[count] = grid.ends(mass), float(mass @ grid.theta)
        errors = [abs(known[count][1] - share) for count in counts.tolist()]
        for kind in KINDS:
            low, high = np.array([known[count][0][kind] for count in counts.tolist()]).T
            one = found.setdefault(
                kind, {name: np.zeros(len(shares)) for name in ("coverage", "above", "width", "error")}
            )
            one["coverage"][at] = weight @ ((low <= share) & (share <= high))
            one["above"][at], one["width"][at] = weight @ (high < share), weight @ (high - low)
            one["error"][at] = weight @ errors
    return found


# More categories: simulated.


@njit(cache=True)
def hamiltonian(free, scales, shifts, mean, sd, evidence, fixed, warm, keep, rng):  # type: ignore[no-untyped-def]
    """Return draws of θ by Hamiltonian Monte Carlo with random lengths; `fixed`: a stays where it is."""
    d, k = free.size, free.size - 1
    moved = k if fixed else d
    at = free.copy()
    value, slope = learned_log_density(at, scales, shifts, mean, sd, evidence)
    theta = np.empty((keep, k))
    log_step = math.log(0.5 / d**0.25)
    average = log_step
    for turn in range(warm + keep):
        step = math.exp(log_step if turn < warm else average) * (0.8 + 0.4 * rng.random())
        leaps = min(1 + int(4.4 * rng.random() / step), LONGEST)
        p = rng.standard_normal(d)
        if fixed:
            p[k] = 0.0
        start = value - 0.5 * (p * p).sum()
        new, new_slope, new_value = at.copy(), slope.copy(), value
        for _ in range(leaps):
            p[:moved] += 0.5 * step * new_slope[:moved]
            new[:moved] += step * p[:moved]
            new_value, new_slope = learned_log_density(new, scales, shifts, mean, sd, evidence)
            if not math.isfinite(new_value):
                break
            p[:moved] += 0.5 * step * new_slope[:moved]
        end = new_value - 0.5 * (p * p).sum()
        accepted = math.exp(min(0.0, end - start)) if math.isfinite(end) else 0.0
        if rng.random() < accepted:
            at, slope, value = new, new_slope, new_value
        if turn < warm:
            log_step += (accepted - 0.8) * 2.0 / (turn + 10) ** 0.6
            average = log_step if turn < warm // 2 else average + (log_step - average) / (turn - warm // 2 + 1)
        else:
            theta[turn - warm] = learned_theta(at, scales, shifts)
    return theta


def draws_of(responses: ad.Responses, prior: str, seed: int, keep: int = KEEP) -> Floats:
    """Return draws of θ given answers, of shape (keep, K)."""
    law, evidence = PRIORS[prior], responses.evidence()
    mean, sd = law or (0.0, 1.0)
    scales, shifts, start = choose_coordinates(evidence, mean)
    rng = np.random.default_rng(seed)
    theta = hamiltonian(start, scales, shifts, mean, sd, evidence, law is None, WARM, keep, rng)
    return np.asarray(np.clip(theta, 0.0, 1.0))


class Candidates(NamedTuple):
    """The intervals of one collection by candidate, of shape (2, K), and the estimates by prior, of shape (K,)."""

    ends: dict[str, Floats]
    mean: dict[str, Floats]


def candidates(responses: ad.Responses, seed: int, priors: Sequence[str] = tuple(PRIORS)) -> Candidates:
    """Return what every candidate makes of the same answers."""
    ends: dict[str, Floats] = {}
    means: dict[str, Floats] = {}
    for prior in priors:
        theta = draws_of(responses, prior, seed)
        means[prior] = theta.mean(axis=0)
        short, tails = shortest_intervals(theta), np.quantile(theta, [TAIL, 1 - TAIL], axis=0)
        mixed = np.stack([np.where(short[0] == 0, 0.0, tails[0]), np.where(short[1] == 1, 1.0, tails[1])])
        ends |= {f"{prior}, {kind}": one for kind, one in zip(KINDS, (short, tails, mixed), strict=True)}
    mean = means["learned"]
    direct = direct_estimate(responses, mean)
    assert direct is not None
    alone = covering_intervals(direct)
    near = direct.estimate < 2 * direct.sd(np.zeros(direct.estimate.size))
    mixed = ends[f"learned, {KINDS[2]}"]
    ends[GUARDED] = np.where(near, np.stack([np.zeros_like(mixed[0]), np.maximum(mixed[1], alone[1])]), mixed)
    ends[SHOWN] = np.stack([np.minimum(alone[0], mean), np.maximum(alone[1], mean)])
    return Candidates(ends, means)


class Cell(NamedTuple):
    """One share of one setting, with one kind of interval: means over collections."""

    candidate: str
    setting: Setting
    share: float
    coverage: float
    error: float
    above: float
    width: float


def simulate(setting: Setting, collections: int, seed: int) -> list[Cell]:
    """Return the cells of a setting."""
    theta, mechanism = setting.theta(), MECHANISMS[setting.mechanism](setting.n_categories, setting.epsilon)
    rng = np.random.default_rng([seed, *map(ord, setting.truth), setting.n_categories, setting.people])
    priors = tuple(PRIORS) if setting.mechanism == "SRR" else ("learned",)
    made: dict[str, list[Floats]] = {}
    for i in range(collections):
        responses = ask(mechanism, theta, setting.people, rng)
        found = candidates(responses, int(rng.integers(2**31)), priors if i < COMPARED else ("learned",)).ends
        for name, ends in found.items():
            made.setdefault(name, []).append(ends)
    return [cell for name, ends in made.items() for cell in cells_of(name, setting, theta, np.array(ends))]


def cells_of(name: str, setting: Setting, theta: Floats, ends: Floats) -> Iterator[Cell]:
    """Yield the cells of intervals of many collections, of shape (collections, 2, K): one for each different share."""
    low, high = ends.transpose(1, 0, 2)
    for share in np.unique(theta):
        mine = theta == share
        holds = ((low <= theta) & (theta <= high))[:, mine].mean(axis=1)
        error = float(holds.std(ddof=1)) / math.sqrt(len(ends))
        above, width = (high < theta)[:, mine].mean(), (high - low)[:, mine].mean()
        yield Cell(name, setting, float(share), float(holds.mean()), error, float(above), float(width))


def settings() -> list[Setting]:
    """Return the settings that are simulated."""
    found = []
    for turn, (k, name) in enumerate((size, name) for size in SIMULATED for name in truths(size)):
        for step in range(PAIRS):
            found.append(Setting(name, k, *COLLECTED[(turn + step * len(COLLECTED) // PAIRS) % len(COLLECTED)]))
    sets = "subset selection"  # whose answers are nearly all different: there are few settings, under one prior
    return [*found, Setting("one large", 12, 2.0, 3000, sets), Setting("two large", 10, 1.0, 3000, sets)]


# Mechanisms whose counts lose information, or that treat categories differently: an estimate by Fisher scoring.


def other(name: str, theta: Floats, epsilon: float) -> Any:
    """Return the mechanism of this name; a design is for nearly the truth."""
    k, near = theta.size, theta + 0.02
    if name == "design":
        return ad.design.optimal_mechanism(near / near.sum(), epsilon).mechanism
    return ad.RRRR(k, epsilon, kappa=0.9) if name == "RRRR" else OTHERS[name](k, epsilon)


def without_symmetry(job: tuple[str, str, float, int], collections: int, seed: int) -> list[Cell]:
    """Return the cells of a truth of six categories asked for with another mechanism."""
    name, truth, epsilon, people = job
    theta = truths(6)[truth]
    mechanism = other(name, theta, epsilon)
    rng = np.random.default_rng([seed, people, round(10 * epsilon)])
    ends = []
    for _ in range(collections):
        responses = ask(mechanism, theta, people, rng)
        # In place of a posterior mean, which takes longer: the likeliest shares, a little smoothed.
        likeliest = climb(responses.evidence(), 0.01, 200)[0]
        direct = direct_estimate(responses, (people * likeliest + 0.1) / (people + 0.6))
        assert direct is not None
        ends.append(covering_intervals(direct))
    return list(cells_of(name, Setting(truth, 6, epsilon, people, name), theta, np.array(ends)))


def adaptive(job: tuple[str, str, float, int], collections: int, seed: int) -> list[Cell]:
    """Return the cells of a truth of six categories in collections whose answers choose the questions."""
    name, truth, epsilon, people = job
    theta, (kappa, how) = truths(6)[truth], ADAPTIVE[name]
    ends = []
    for child in np.random.SeedSequence([seed, people, round(10 * epsilon), *map(ord, truth)]).spawn(collections):
        asked: dict[str, Any] = {"n_people": people, "random_seed": child}
        if how:
            run = ad.simulate_adaptive(theta, ad.AdaptiveSubset(ad.RRRR(6, epsilon, kappa), **how), **asked)
        else:
            run = ad.simulate_rounds(theta, ad.SubsetSelection(6, epsilon), **asked)
        ends.append(shown_intervals(run.responses, int(child.generate_state(1)[0])))
    return list(cells_of(name, Setting(truth, 6, epsilon, people, name), theta, np.array(ends)))


def shown_intervals(responses: ad.Responses, seed: int) -> Floats:
    """Return the intervals that `adobest_pp.intervals.summary` shows, of shape (2, K)."""
    theta = draws_of(responses, "learned", seed)
    mean = theta.mean(axis=0)
    direct = direct_estimate(responses, mean)
    if direct is None:  # answers that do not tell every share: intervals of the posterior
        return shortest_intervals(theta)
    lower, upper = covering_intervals(direct)
    return np.stack([np.minimum(lower, mean), np.maximum(upper, mean)])


def accuracy(job: tuple[float, int, float, int]) -> dict[str, float]:
    """Return the total variation of the estimate under each prior, for a truth that is drawn from Dirichlet(ρ)."""
    rho, k, epsilon, seed = job
    rng = np.random.default_rng([seed, k, round(100 * epsilon), round(1000 * rho)])
    theta = draw_dirichlet(rng, np.full(k, rho))
    responses = ask(ad.SRR(k, epsilon), theta / theta.sum(), 500 * k, rng)
    return {prior: float(np.abs(draws_of(responses, prior, seed).mean(axis=0) - theta).sum() / 2) for prior in PRIORS}


def against_nuts(seed: int) -> float:
    """Return the largest distance between distribution functions of a share by these draws and by NUTS."""
    worst = 0.0
    for setting in (Setting("three", 10, 1.0, 3000), Setting("rare", 6, 2.0, 1000), Setting("even", 5, 0.5, 3000)):
        rng = np.random.default_rng(seed)
        responses = ask(ad.SRR(setting.n_categories, setting.epsilon), setting.theta(), setting.people, rng)
        for prior in ("learned", "flat"):
            mine = np.concatenate([draws_of(responses, prior, seed + i, 3000) for i in range(4)])
            given = prior if prior == "learned" else np.ones(setting.n_categories)
            tree = sample_nuts(
                responses, prior=given, draws=3000, tune=1000, chains=4, cores=1, random_seed=seed, progressbar=False
            )
            exact = theta_of(tree).values.reshape(-1, setting.n_categories)
            worst = max(worst, *(ks_2samp(mine[:, i], exact[:, i]).statistic for i in range(setting.n_categories)))
    return worst


# What is printed.


def print_exact(exact: dict[tuple[str, int, float, int, float], float]) -> None:
    """Print the coverage as shown of every share in every setting, and the least and the mean by share."""
    shares = sorted({cell[4] for cell in exact})
    print("As shown, exact: coverage of each share, whatever the other shares are\n")
    asked = list(dict.fromkeys(cell[:4] for cell in exact))
    values = np.array([[exact[*setting, share] for share in shares] for setting in asked])
    over = {"least": values.min(axis=0), "mean": values.mean(axis=0), "largest": values.max(axis=0)}
    rows = [[*setting, *(shown("{:.3f}", one) for one in row)] for setting, row in zip(asked, values, strict=True)]
    rows += [[name, "", "", "", *(shown("{:.3f}", one) for one in row)] for name, row in over.items()]
    table(["mechanism", "K", "ε", "people", *(f"{share:.1%}" for share in shares)], rows, name="exact")


def print_two(quick: bool) -> dict[tuple[str, str, float, int, float], float]:
    """Print exact coverage for two categories; return it by prior, kind, ε, people and share."""
    asked = ((0.5, 3000),) if quick else ((0.25, 3000), (0.5, 3000), (1.0, 1000), (1.0, 3000), (2.0, 3000), (4.0, 300))
    print("\nTwo categories, exact: coverage by prior and kind of interval, widths, error of the posterior mean\n")
    rows: list[list[Any]] = []
    known: dict[tuple[str, str, float, int, float], float] = {}
    alone = {(*pair, share): exact_coverage(ad.SRR(2, pair[0]), pair[1], share) for pair in asked for share in SHARES}
    for (epsilon, people), prior in product(asked, PRIORS):
        found = two_categories(prior, epsilon, people, SHARES)
        for kind in KINDS:
            known |= {
                (prior, kind, epsilon, people, share): c
                for share, c in zip(SHARES, found[kind]["coverage"], strict=True)
            }
        for at, share in enumerate(SHARES):
            values = [float(found[kind]["coverage"][at]) for kind in KINDS]
            covering = alone[epsilon, people, share]
            width = float(found["shortest"]["width"][at])
            row = [epsilon, people, shown("{:.1%}", share), prior, *values, float(covering[0]), width]
            rows.append([*row, float(covering[1]), float(found["shortest"]["error"][at])])
    rows.sort(key=lambda row: (row[0], row[1], *row[2].values))
    table(["ε", "people", "share", "prior", *KINDS, SHOWN, "width", "as shown", "error"], rows, name="two_categories")
    return known


def print_frontier(cells: list[Cell], errors: dict[float, dict[str, float]]) -> None:
    """Print what each candidate reaches: the figure of docs/explanation/intervals.md."""
    print("\nCandidates over all simulated settings of SRR: a cell is a share above 0; “below”: cells shown to")
    print(
        f"be covered in less than {LEAST:.0%}, by three standard errors; width: mean ratio to that as shown; TV of the"
    )
    print("estimate for truths from Dirichlet(ρ)\n")
    widths = {(cell.setting, cell.share): cell.width for cell in cells if cell.candidate == SHOWN}
    rows = []
    for name in dict.fromkeys(cell.candidate for cell in cells):
        mine = [cell for cell in cells if cell.candidate == name and cell.share > 0 and cell.setting.mechanism == "SRR"]
        low = min(mine, key=lambda cell: cell.coverage)
        width = float(np.mean([cell.width / widths[cell.setting, cell.share] for cell in mine]))
        prior = next((prior for prior in PRIORS if name.startswith(prior)), "learned")
        tv = [errors[rho][prior] for rho in RHOS]
        mean = float(np.mean([cell.coverage for cell in mine]))
        rows.append([name, float(low.coverage), sum(is_below(cell) for cell in mine), len(mine), mean, width, *tv])
    headers = ["candidate", "least", "below", "cells", "mean", "width", *(f"TV, ρ = {rho:g}" for rho in RHOS)]
    table(headers, rows, name="candidates")


def is_below(cell: Cell) -> bool:
    """Tell whether a cell is shown to be covered less often than it may be."""
    return cell.coverage + 3 * cell.error < LEAST


def print_settings(cells: list[Cell]) -> None:
    """Print the least covered share of each setting, before and now, with three Monte Carlo errors."""
    names = ("learned, shortest", "flat, shortest", SHOWN)
    print(f"\nEvery setting, {COLLECTIONS} collections ({COMPARED} under the flat prior): the share covered least,")
    print("and how often ± two errors\n")
    rows = []
    for setting in dict.fromkeys(cell.setting for cell in cells):
        row: list[Any] = [setting.mechanism, setting.n_categories, setting.truth, setting.epsilon, setting.people]
        for name in names:
            mine = [cell for cell in cells if cell.setting == setting and cell.candidate == name]
            low = min(mine, key=lambda cell: cell.coverage, default=None)
            cell = low and shown("{:.1%}: {:.3f} ± {:.3f}", low.share, low.coverage, 2 * low.error)
            row.append(cell or "–")
        rows.append(row)
    table(["mechanism", "K", "truth", "ε", "people", *names], rows, name="settings")


def print_others(name: str, title: str, collections: int, cells: list[Cell]) -> None:
    """Print the least and the mean coverage by mechanism."""
    print(f"\nAs shown, {title}, {collections} collections each\n")
    rows = []
    for mechanism in dict.fromkeys(cell.candidate for cell in cells):
        mine = [cell for cell in cells if cell.candidate == mechanism]
        low = min(mine, key=lambda cell: cell.coverage)
        where = f"{low.share:.1%} of “{low.setting.truth}”, ε = {low.setting.epsilon:g}, {low.setting.people} people"
        mean = float(np.mean([cell.coverage for cell in mine]))
        rows.append([mechanism, len(mine), low.coverage, low.error, where, mean])
    table(["mechanism", "cells", "least", "error", "where", "mean"], rows, name=name)


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings. Quick runs have what needs no simulation."""
    exact = exact_table(options.quick)
    print_exact(exact)
    coverage = np.array(list(exact.values()))
    two = print_two(options.quick)
    found = [_exact_finding(coverage), *_two_findings(two)]
    if options.quick:
        return found
    apart = against_nuts(options.seed)
    cells = [
        cell
        for one in each(partial(simulate, collections=COLLECTIONS, seed=options.seed), settings(), "fixed truths")
        for cell in one
    ]
    jobs = [(rho, k, epsilon, run) for rho, k, epsilon, run in product(RHOS, (5, 20), (0.5, 2.0), range(RUNS))]
    pairs = list(zip(jobs, each(accuracy, jobs, "accuracy"), strict=True))
    errors = {
        rho: {prior: float(np.mean([one[prior] for job, one in pairs if job[0] == rho])) for prior in PRIORS}
        for rho in RHOS
    }
    asked = [(name, truth, e, 1000) for name, truth, e in product(OTHERS, ("rare", "three", "one large"), (1.0, 2.0))]
    rest = [
        c
        for one in each(partial(without_symmetry, collections=COLLECTIONS, seed=options.seed), asked, "others")
        for c in one
    ]
    print_frontier(cells, errors)
    print_others("other_mechanisms", "other mechanisms, by Fisher scoring: K = 6, 1,000 people", COLLECTIONS, rest)
    chosen = [(name, truth, e, 3000) for name, truth, e in product(ADAPTIVE, ("rare", "three", "one large"), (1.0,))]
    make = partial(adaptive, collections=ADAPTIVE_COLLECTIONS, seed=options.seed)
    adapted = [cell for one in each(make, chosen, "adaptive") for cell in one]
    print_others("adaptive", "adaptive collections: K = 6, 3,000 people", ADAPTIVE_COLLECTIONS, adapted)
    print_settings(cells)
    return [*found, *simulated_findings(cells, rest, errors, apart), adaptive_finding(adapted)]


def _exact_finding(coverage: Floats) -> Finding:
    low, mean = coverage.min(), coverage.mean()
    text = f"as shown, exact: no cell is below {LEAST:.0%}, and the mean is within {MEAN[0]:.0%} to {MEAN[1]:.0%}"
    passed = low >= LEAST and MEAN[0] <= mean <= MEAN[1]
    return finding("exact", text, passed, least=low, mean=mean, largest=coverage.max(), cells=coverage.size)


def _two_findings(two: dict[tuple[str, str, float, int, float], float]) -> list[Finding]:
    before, flat = (two[prior, "shortest", 0.5, 3000, 0.05] for prior in ("learned", "flat"))
    text = (
        "two categories, ε = 0.5, 3,000 people: the shortest interval holds a share of 5 % in less than 80 % under the "
    )
    text += "learned prior, in more than 95 % under the flat one"
    return [finding("two", text, before < 0.8 and flat > 0.95, learned=before, flat=flat)]


def simulated_findings(
    cells: list[Cell], rest: list[Cell], errors: dict[float, dict[str, float]], apart: float
) -> list[Finding]:
    """Return the findings about candidates, by simulation."""
    held = [cell for cell in cells if cell.share > 0]
    by_name = {name: [cell for cell in held if cell.candidate == name] for name in {cell.candidate for cell in held}}
    below = {name: sum(map(is_below, mine)) for name, mine in by_name.items()}
    shown = np.array([cell.coverage for cell in by_name[SHOWN]])
    fewest = min(count for name, count in below.items() if name not in (SHOWN, GUARDED))
    wrong = sum(map(is_below, rest))
    texts = {
        "nuts": "the draws are those of NUTS: distribution functions are less than 0.05 apart",
        "shown": f"as shown, simulated, with the estimate in it: no cell is below {LEAST:.0%}, the mean is in range",
        "others": f"as shown, other mechanisms: no cell is below {LEAST:.0%}",
        "candidates": f"every candidate from the posterior alone has cells below {LEAST:.0%}",
        "accuracy": "ρ = 0.01 and 0.1: no prior has an error that is more than 5 % below that of the learned one",
    }
    sparse = [errors[rho][prior] / errors[rho]["learned"] for rho in RHOS[:2] for prior in PRIORS if prior != "learned"]
    return [
        finding("nuts", texts["nuts"], apart < 0.05, distance=apart),
        finding(
            "shown",
            texts["shown"],
            not below[SHOWN] and MEAN[0] <= shown.mean() <= MEAN[1],
            below=below[SHOWN],
            least=shown.min(),
            mean=shown.mean(),
        ),
        finding("others", texts["others"], not wrong, below=wrong, mean=np.mean([cell.coverage for cell in rest])),
        finding("candidates", texts["candidates"], fewest > 0, fewest_below=fewest),
        finding("accuracy", texts["accuracy"], min(sparse) > 0.95, least_ratio=min(sparse)),
    ]


def adaptive_finding(cells: list[Cell]) -> Finding:
    """Return the finding about collections whose answers choose the questions."""
    below, coverage = sum(map(is_below, cells)), np.array([cell.coverage for cell in cells])
    text = f"as shown, adaptive collections: no cell is below {LEAST:.0%}"
    return finding(
        "adaptive", text, not below, below=below, least=coverage.min(), mean=coverage.mean(), cells=coverage.size
    )


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
