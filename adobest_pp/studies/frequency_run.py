"""The default run function of a study: draw a truth, ask people through a mechanism, estimate, and measure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_prior, check_probabilities, check_rho, is_learned
from adobest_pp._dirichlet import draw_dirichlet, draw_people
from adobest_pp._text import brief
from adobest_pp.adaptive.loop import LoopSettings
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.design.overview import DESIGN
from adobest_pp.intervals import shortest_intervals
from adobest_pp.mechanisms import Mechanism, audit
from adobest_pp.mechanisms.registry import build_mechanism
from adobest_pp.samplers.choice import MANY_ROWS_IN_STUDY, has_many_rows, quick_draws
from adobest_pp.simulate import simulate_adaptive, simulate_rounds
from adobest_pp.studies.run_function import Measure, Run, declares

MEASURES = {
    "tv": Measure("total variation distance of the estimate from the truth"),
    "exact_tv": Measure("total variation distance of the exact posterior mean from the truth"),
    "coverage": Measure("share of categories whose central 95 % interval holds the truth"),
    "coverage_as_shown": Measure("share of categories whose shortest 95 % interval of the draws holds the truth"),
    "width": Measure("mean width of the central 95 % intervals"),
    "mean_size": Measure("average subset size", "categories"),
    "true_epsilon": Measure("largest privacy loss of the mechanisms that were used"),
}

# One chain on one core: the runs of a study are what fills the others. Against fits of eight or more times the length,
# posterior means under the flat prior are 0.002 to 0.013 off in TV, which changes their TV to the truth by 1.2 % at
# most (settings of mechanisms.toml). Where answers come from an adaptive collection and the concentration is learned,
# chains mix slowly: with 300 tuning draws the change was up to 7 %; with 500 it is 4.6 % at most and 0.7 % on average
# (twelve settings with K = 20 and ρ ≤ 0.1), though a single mean may be 0.03 off.
DRAWS, TUNE, TUNE_LEARNED = 500, 300, 500
# Draws, tuning draws and chains where SGLD with control variates is quicker.
CV_SIZES = (800, 500, 2)
INTERVAL = 0.95


class Posterior(NamedTuple):
    """The mean of θ (K,), and the ends of its 95 % intervals, central and shortest, each of shape (2, K)."""

    mean: NDArray[np.float64]
    central: NDArray[np.float64]
    shown: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Collected:
    """The answers of one run, and the estimates from them."""

    theta: NDArray[np.float64]  # the truth (K,)
    responses: Responses
    sizes: NDArray[np.int32] | None  # |S| for each person; None if the mechanism publishes no subsets
    chain_mean: NDArray[np.float64] | None  # SGLD's estimate (K,), if SGLD drove the collection
    prior: float | str  # of exact inference
    fit_seed: np.random.SeedSequence
    many_rows: int = MANY_ROWS_IN_STUDY  # up to this many rows of evidence, exact inference is by NUTS

    @cached_property
    def posterior(self) -> Posterior:
        """The exact posterior of θ, sampled on first use, which takes a few tenths of a second."""
        return exact_posterior(self.responses, self.prior, int(self.fit_seed.generate_state(1)[0]), self.many_rows)

    @property
    def estimate(self) -> NDArray[np.float64]:
        """SGLD's estimate if there is one, otherwise the mean of the exact posterior."""
        return self.posterior.mean if self.chain_mean is None else self.chain_mean

    def measure(self, name: str) -> float:
        """Return one of `MEASURES`."""
        match name:
            case "tv":
                return float(np.abs(self.estimate - self.theta).sum() / 2)
            case "exact_tv":
                return float(np.abs(self.posterior.mean - self.theta).sum() / 2)
            case "coverage":
                return _coverage(self.posterior.central, self.theta)
            case "coverage_as_shown":
                return _coverage(self.posterior.shown, self.theta)
            case "width":
                return float(np.mean(np.diff(self.posterior.central, axis=0)))
            case "mean_size":
                return float("nan") if self.sizes is None else float(self.sizes.mean())
            case "true_epsilon":
                losses = _losses_by_size(self.responses.mechanism)
                return max(losses[size] for size in (losses if self.sizes is None else set(self.sizes.tolist())))
        raise ValueError(f"measures must be of {', '.join(map(repr, MEASURES))}, got {name!r}")


class CellSettings(NamedTuple):
    """The settings of one cell, checked; see `cell_settings`."""

    mechanism: Mechanism
    designed: bool
    utility: str | None
    alpha: float | None
    rho: float
    theta: NDArray[np.float64] | None
    n_people: int
    prior: float | str
    sampler: str


def cell_settings(
    *,
    mechanism: str = "rrrr",
    utility: str | None = None,
    alpha: float | None = None,
    rho: float | None = None,
    theta: Sequence[float] | None = None,
    people: int | None = None,
    people_per_category: int | None = None,
    prior: float | str = "flat",
    sampler: str = "exact",
    **mechanism_settings: Any,
) -> CellSettings:
    """Check the settings of a cell, or raise ValueError.

    Parameters
    ----------
    mechanism : str
        A registered name, or ``"module:Class"``; or ``"design"``, which begins with subset selection and then asks the
        best question in rounds, under the prior of the analysis.
    utility : str, optional
        How the next subset is chosen, as in `AdaptiveSubset`. Required if the mechanism publishes subsets.
    alpha : float, optional
        The mass that ``"semi_adaptive"`` requires of its subset.
    rho, theta : float, or K numbers
        One of them: the truth is drawn from Dirichlet(ρ), or given.
    people, people_per_category : int
        One of them: how many are asked, or that divided by K.
    prior : "flat", "learned" or float
        The prior of exact inference: Dirichlet(1), one whose concentration is learned, or its concentration.
    sampler : {"exact", "sgld"}
        The sampler of an adaptive collection and of the estimate. With the exact one, which is slower, a subset is
        chosen for K people at a time, and the estimate is the exact posterior's.
    **mechanism_settings
        The settings of the mechanism: ``n_categories``, ``epsilon``, ``kappa``, …
    """
    built = build_mechanism("subset_selection" if mechanism == DESIGN else mechanism, **mechanism_settings)
    k = built.n_categories
    if (rho is None) == (theta is None):
        raise ValueError(f"rho or theta must be given, and not both, got {brief(rho)} and {brief(theta)}")
    if (people is None) == (people_per_category is None):
        given = f"{brief(people)} and {brief(people_per_category)}"
        raise ValueError(f"people or people_per_category must be given, and not both, got {given}")
    if built.publishes_subset:
        LoopSettings.of(
            cast(Any, built), cast(str, utility), alpha=alpha, sampler=sampler, prior=1.0, updates=1, batch_size=1,
            step_size=None, schedule=None, adapt_every=1,
        )  # fmt: skip
    elif (utility, alpha, sampler) != (None, None, "exact"):
        raise ValueError(
            f"utility and alpha must be left out and sampler be 'exact' for {mechanism}, which publishes no subsets, "
            f"got {brief(utility)}, {brief(alpha)} and {brief(sampler)}"
        )
    concentration = 1.0 if prior == "flat" else prior if is_learned(prior) else float(check_prior(prior, k)[0])
    n_people = people if people_per_category is None else k * check_count(people_per_category, "people_per_category")
    truth = None if theta is None else check_probabilities(theta, k)
    share = 1.0 if rho is None else check_rho(rho)
    n = check_count(n_people, "people")
    return CellSettings(built, mechanism == DESIGN, utility, alpha, share, truth, n, concentration, sampler)


def collect(run: Run, **settings: Any) -> Collected:
    """Draw a truth and people, and ask them; for run functions with measures of their own.

    Cells with the same θ, or with the same K and ρ, share the truth and the people, so they are compared in pairs; if
    one asks fewer, these are the first of them. Cells that differ only in `prior` share the answers, too, except
    designs, which depend on the prior.

    Parameters
    ----------
    run : Run
        The run.
    **settings
        As in `cell_settings`.
    """
    plan = cell_settings(**settings)
    k, theta = plan.mechanism.n_categories, plan.theta
    shared = run.rng(n_categories=k, rho=plan.rho) if theta is None else run.rng(theta=theta)
    truth = check_probabilities(draw_dirichlet(shared, np.full(k, plan.rho)) if theta is None else theta / theta.sum())
    x = draw_people(shared, truth, plan.n_people)
    own = {name: value for name, value in run.settings.items() if name != "prior" or plan.designed}
    seed, fit_seed = run.sequence(answers_of=own).spawn(2)
    if plan.designed:
        asked = simulate_rounds(
            None, cast(Any, plan.mechanism), people=x, prior=cast(Any, plan.prior), random_seed=seed
        )
        return Collected(truth, asked.responses, None, None, plan.prior, fit_seed)
    if not plan.mechanism.publishes_subset:
        answers = plan.mechanism.privatize(x, rng=np.random.default_rng(seed))
        return Collected(truth, Responses.from_arrays(plan.mechanism, answers), None, None, plan.prior, fit_seed)
    exact = plan.sampler == "exact"
    policy = AdaptiveSubset(
        cast(Any, plan.mechanism),
        cast(str, plan.utility),
        alpha=plan.alpha,
        sampler=plan.sampler,
        adapt_every=k if exact else 1,
    )
    found = simulate_adaptive(
        None, policy, people=x, final_updates=2 if exact else 2000, path_length=1, random_seed=seed
    )
    return Collected(truth, found.responses, found.sizes, None if exact else found.chain_mean, plan.prior, fit_seed)


@declares(MEASURES, cell_settings)
def frequency_run(run: Run, **settings: Any) -> dict[str, float]:
    """Make one run with the settings of `cell_settings`, and return the `MEASURES` that the study keeps."""
    collected = collect(run, **settings)
    return {name: collected.measure(name) for name in run.measures}


def exact_posterior(
    responses: Responses, prior: float | str, seed: int, many_rows: int = MANY_ROWS_IN_STUDY
) -> Posterior:
    """Sample the posterior under Dirichlet(prior) or under one whose concentration is learned."""
    law = prior if isinstance(prior, str) else np.full(responses.n_categories, float(prior))
    many = has_many_rows(responses, many_rows)
    theta = quick_draws(responses, law, *CV_SIZES, seed) if many else _by_nuts(responses, law, seed)
    central = np.quantile(theta, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
    return Posterior(theta.mean(axis=0), central, shortest_intervals(theta, INTERVAL))


def _coverage(ends: NDArray[np.float64], theta: NDArray[np.float64]) -> float:
    return float(np.mean((ends[0] <= theta) & (theta <= ends[1])))


def _by_nuts(responses: Responses, prior: NDArray[np.float64] | str, seed: int) -> NDArray[np.float64]:
    from adobest_pp.answers.draws import theta_of
    from adobest_pp.samplers.nuts import sample_nuts

    tree = sample_nuts(
        responses,
        prior=prior,
        draws=DRAWS,
        tune=TUNE_LEARNED if is_learned(prior) else TUNE,
        chains=1,
        cores=1,
        random_seed=seed,
        progressbar=False,
    )
    return np.asarray(theta_of(tree).values[0])


@lru_cache(maxsize=64)
def _losses_by_size(mechanism: Mechanism) -> dict[int, float]:
    """Return the exact privacy loss for each subset size; the key is 0 if no subset is published."""
    return {row.size: row.loss for row in audit(mechanism).rows}
