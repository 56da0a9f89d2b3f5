"""The main job: take the answers of a poll, sample their posterior with every sampler, and grade them."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_integer, is_learned
from adobest_pp._dirichlet import ESTIMATE_PRIOR, draw_people
from adobest_pp._text import brief
from adobest_pp._wording import CENTRAL
from adobest_pp.answers.draws import theta_of
from adobest_pp.answers.gather.gather import read_answers
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.policies import (
    DEFAULT_MECHANISM,
    AdaptiveSubset,
    choice_in_words,
    chosen_mechanism,
    mechanism_name,
)
from adobest_pp.design.overview import DESIGN
from adobest_pp.diagnostics import Verdict, checkpoints, compare, contraction, explain
from adobest_pp.intervals import above, largest, summary, sums
from adobest_pp.intervals.many import check_groups, check_threshold
from adobest_pp.mechanisms import Mechanism, check_rrrr
from adobest_pp.samplers.checks import BIASED, DIVERGED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.choice import ESTIMATE_DRAWS, left_out, quick_sample, seed_of_answers
from adobest_pp.samplers.sampling import sample
from adobest_pp.samplers.sgld_cv.sampler import LEAST_TUNE

# The answers: of a simulated poll, of a file of people, or collected before.

QUESTION = "Which party would you vote for?"
PARTIES = ("North", "South", "East", "West", "Center", "Other")
SHARES = (0.34, 0.27, 0.18, 0.11, 0.07, 0.03)


@dataclass(frozen=True)
class Poll:
    """A question, the randomized answers to it, and how they were collected."""

    question: str
    responses: Responses | Gathered
    origin: str  # a sentence on where the answers come from
    protection: str  # a sentence on whom the mechanism protects here
    truth: NDArray[np.float64] | None  # the true shares (K,), known only for simulated people
    settings: dict[str, Any]  # what repeats the collection
    asked: str = ""  # a sentence on the mechanism, and why it was chosen


def simulated_poll(
    n_people: int = 10_000,
    epsilon: float = 1.0,
    mechanism: str | None = None,
    kappa: float | None = None,
    utility: str | None = None,
    alpha: float | None = None,
    question: str | None = None,
    random_seed: int = 1,
    progressbar: bool = False,
) -> Poll:
    """Simulate a poll about six parties. Nobody's privacy is at stake.

    The mechanism and its settings are as in `adobest_pp.collect.collect_csv`; ``"rrrr"`` is the paper's setting. The
    same seed gives the same poll.

    Examples
    --------
    >>> from adobest_pp.report.findings import simulated_poll
    >>> len(simulated_poll(n_people=1000).responses)
    1000
    """
    from adobest_pp.design import UTILITY_CODES

    people = check_count(n_people, "n_people")
    if utility is not None and (not isinstance(utility, str) or utility not in UTILITY_CODES):
        raise ValueError(f"utility must be one of {', '.join(map(repr, UTILITY_CODES))}, got {brief(utility)}")
    name = mechanism_name(DEFAULT_MECHANISM if mechanism is None else mechanism)
    options = _given(kappa=kappa, utility=utility, alpha=alpha)
    responses, settings = _simulated(name, people, epsilon, options, random_seed, progressbar)
    origin = f"{people:,} simulated people, asked one after the other; the true shares are known."
    protection = "People are simulated by a seeded generator: nobody's privacy is at stake."
    asked = choice_in_words(name, is_default=mechanism is None)
    return Poll(_question(question, QUESTION), responses, origin, protection, np.array(SHARES), settings, asked)


def _simulated(
    name: str, people: int, epsilon: float, options: dict[str, Any], random_seed: int, progressbar: bool
) -> tuple[Responses, dict[str, Any]]:
    from adobest_pp.simulate import simulate_adaptive, simulate_rounds

    chosen, rest = chosen_mechanism(name, len(PARTIES), epsilon, options)
    theta = np.array(SHARES)
    if name == DESIGN or chosen.publishes_subset:
        run_of: Any = simulate_rounds if name == DESIGN else simulate_adaptive
        how, rest = (chosen, rest) if name == DESIGN else (AdaptiveSubset(check_rrrr(chosen), **rest), {})
        asked = {"n_people": people, "categories": PARTIES, "random_seed": random_seed, "progressbar": progressbar}
        run = run_of(theta, how, **asked, **rest)
        return run.responses, run.settings
    seed = np.random.SeedSequence(None if random_seed is None else check_integer(random_seed, "random_seed", 0))
    rng = np.random.default_rng(seed)
    x = draw_people(rng, theta, people)
    responses = Responses.from_arrays(chosen, np.asarray(chosen.privatize(x, rng=rng)), categories=PARTIES)
    about = {"n_people": people, "theta": list(SHARES), "random_seed": {"entropy": seed.entropy, "spawn_key": []}}
    return responses, chosen.settings() | about


def poll_of_people(
    path: str | os.PathLike[str],
    column: str,
    epsilon: float = 1.0,
    mechanism: str | None = None,
    kappa: float | None = None,
    utility: str | None = None,
    alpha: float | None = None,
    categories: Sequence[str] | None = None,
    question: str | None = None,
    random_seed: int | None = None,
    progressbar: bool = False,
    out: str | os.PathLike[str] | None = None,
    ask_again: bool = False,
) -> Poll:
    """Ask everyone in a file. Their values are randomized exactly, one by one, and not kept.

    With `out`, each answer is written to that file as soon as it is given, and a collection that was stopped continues.
    People who were asked before are asked again only with `ask_again`.

    See Also
    --------
    adobest_pp.collect.collect_csv : Asks them.
    """
    from adobest_pp.collect import collect_csv
    from adobest_pp.collect.people_file import Ledger

    name = mechanism_name(DEFAULT_MECHANISM if mechanism is None else mechanism)
    options = _given(kappa=kappa, utility=utility, alpha=alpha)
    collection = collect_csv(
        path, column, epsilon, name, categories, progressbar, out, ask_again, random_seed, **options
    )
    collection.close()
    responses = collection.responses
    origin = f"{len(responses):,} people in a file, each randomized separately with the operating system's entropy."
    if empty := collection.did_not_answer:
        origin += f" Of {len(responses) + empty:,} rows, {empty:,} have an empty value: these people did not answer."
    protection = (
        "What follows is about the randomized answers. The true values are in the file that was read, and nothing here "
        f"protects them from people who have that file. {CENTRAL}"
    )
    if categories is None:
        protection += " The list of categories was also read from it, so it shows that somebody has each of them."
    protection += f" {Ledger(path).in_words()}"
    settings = {**collection.settings, "column": column, "random_seed": random_seed}
    asked = choice_in_words(name, is_default=mechanism is None)
    return Poll(_question(question, column), responses, origin, protection, None, settings, asked)


def _question(question: Any, otherwise: str) -> str:
    if question is None:
        return otherwise
    if not isinstance(question, str) or not question.isprintable():
        raise ValueError(f"question must be one line of printable text, got {brief(question)}")
    return question or otherwise


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def poll_of_responses(
    path: str | os.PathLike[str],
    question: str | None = None,
    mechanism: Mechanism | None = None,
    categories: Sequence[str] | None = None,
    column: str | None = None,
    progressbar: bool = False,
    allow_copies: bool = False,
) -> Poll:
    """Read randomized answers that were collected before.

    `path` is the file of a collection or of `Responses.to_netcdf`; or Parquet, Arrow and CSV files, a folder or a
    pattern of them, which are gathered with the other arguments as in `adobest_pp.gather`.
    """
    responses = read_answers(path, mechanism, categories, column, progressbar, allow_copies)
    origin = f"{len(responses):,} randomized answers, read from a file."
    if isinstance(responses, Gathered):
        files = f"{len(responses.files):,} file" + ("s" if len(responses.files) > 1 else "")
        origin = f"{len(responses):,} randomized answers, gathered from {files}."
        if empty := responses.n_empty:
            origin += f" Of {len(responses) + empty:,} rows, {empty:,} have no answer and are left out."
    protection = "What follows holds if the stated mechanism randomized each answer before the collector saw it."
    settings = responses.mechanism.settings()
    source = "as the file says" if mechanism is None else "as stated when the file was read"
    asked = f"The mechanism is {type(responses.mechanism).__name__}, {source}."
    return Poll(_question(question, "A private question"), responses, origin, protection, None, settings, asked)


# The samplers and their grades.

REFERENCE = "nuts"
SAMPLERS = ("nuts", "gibbs", "sgld", "sgld_cv")

# The prior of the samplers if the estimate learns its prior: Gibbs sampling and SGLD need a fixed one.
FLAT = 1.0

# The posterior is also sampled after a half, a quarter, … of the answers, but not after fewer than this.
HALVINGS = 4
FEWEST_ANSWERS = 50

# The most categories that a report lists. Of more, it lists the largest and sums the rest.
MOST_LISTED = 30
# Draws of each chain of the samplers that are compared, by default.
DRAWS = 2000
CHECKPOINT_DRAWS = 500


@dataclass(frozen=True)
class Findings:
    """What the main job found.

    Where NUTS would take too long, nothing is graded, and `draws` has only the sampler of the estimate.
    """

    poll: Poll
    posterior: xr.DataTree  # draws of the estimate under `prior`; the attribute sampler says by which sampler
    estimated: xr.Dataset  # `compare` for `posterior` alone: whether it converged, and its distance to the truth
    draws: dict[str, xr.DataTree]  # of each graded sampler, given all answers, under Dirichlet(`sampler_prior`)
    comparison: xr.Dataset  # `compare` for `draws`
    explanations: dict[str, xr.Dataset]  # `explain`, for SGLD if it does not sample the posterior
    # `contraction` around the truth, or around the final estimate if it is not known; None for gathered answers, whose
    # order is unknown, and if nothing is graded.
    contraction: xr.Dataset | None
    prior: float | str  # the concentration of the Dirichlet prior of the estimate, or "learned"
    random_seed: int
    threshold: float | None = None  # report the categories that are surely above this share
    groups: Mapping[str, str] | None = None  # the group of each category, to report the sums over groups

    @property
    def reference(self) -> str:
        """The sampler that the others are compared with, or the only one."""
        return REFERENCE if REFERENCE in self.draws else next(iter(self.draws))

    @property
    def is_graded(self) -> bool:
        """Whether there are several samplers."""
        return len(self.draws) > 1

    @property
    def left_out(self) -> dict[str, str]:
        """The samplers that were left out, and why; see `adobest_pp.samplers.choice.left_out`."""
        return left_out(self.poll.responses, self.prior)

    @property
    def sampler_prior(self) -> float | str:
        """The concentration of the prior of `draws`, or "learned"."""
        return FLAT if isinstance(self.prior, str) and self.is_graded else self.prior

    @property
    def is_biased(self) -> bool:
        """Whether the sampler of the estimate reports that its draws are biased."""
        return bool(json.loads(self.posterior.attrs.get("sampler_choices", "{}")).get("biased", False))

    @property
    def fit_p_value(self) -> float:
        """The p-value of `adobest_pp.diagnostics.goodness_of_fit`; NaN if nothing could be checked."""
        return float(self.posterior.attrs.get("fit_p_value", float("nan")))

    @property
    def theta(self) -> xr.DataArray:
        """The draws of the estimate by chain, draw and category."""
        return theta_of(self.posterior)

    @cached_property
    def estimate(self) -> xr.Dataset:
        """Mean and 95 % interval of each category, and the sources of its width: see `adobest_pp.intervals.summary`."""
        return summary(self.posterior)

    @cached_property
    def largest(self) -> xr.Dataset | None:
        """The largest categories and the rest, if there are too many to list: see `adobest_pp.intervals.largest`."""
        many = self.estimate.sizes["category"] > MOST_LISTED
        return largest(self.posterior, MOST_LISTED) if many else None

    @cached_property
    def above(self) -> xr.Dataset | None:
        """The categories that are surely above the threshold, if there is one: see `adobest_pp.intervals.above`."""
        return None if self.threshold is None else above(self.posterior, self.threshold)

    @cached_property
    def sums(self) -> xr.Dataset | None:
        """The shares of groups of categories, if there are groups: see `adobest_pp.intervals.sums`."""
        return None if self.groups is None else sums(self.posterior, self.groups)


def grade_samplers(
    poll: Poll,
    prior: float | Literal["learned"] = ESTIMATE_PRIOR,
    draws: int = DRAWS,
    random_seed: int = 1,
    on_stage: Callable[[str], None] = lambda stage: None,
    progressbar: bool = False,
    threshold: float | None = None,
    groups: Mapping[str, str] | None = None,
) -> Findings:
    """Estimate θ by NUTS, and compare Gibbs, SGLD at the paper's settings, and SGLD with control variates with NUTS.

    Parameters
    ----------
    poll : Poll
        Of `simulated_poll`, `poll_of_people` or `poll_of_responses`.
    prior : float or "learned"
        Concentration of the Dirichlet prior. By default the estimate learns it, because the mean under a flat prior
        is far from the truth where most categories are empty. The samplers are then graded under the flat prior.
        Below 0.01, SGLD with control variates is left out: its coordinates do not reach that far. If there are more
        than 2,000,000 / K answers and hardly any repeat, nothing is graded, because NUTS would take too long: SGLD with
        control variates makes the estimate, and above 300 categories moves of blocks do.
    draws : int
        Draws kept of each of four chains.
    random_seed : int
        The same seed gives the same findings.
    on_stage : callable
        Called with the name of each of the `n_stages(poll, prior)` stages as it begins.
    progressbar : bool
        Whether a sampler shows a progress bar after two seconds.
    threshold : float, optional
        Also find the categories that are surely above this share (`adobest_pp.intervals.above`).
    groups : mapping, optional
        The group of each category, to sum over (`adobest_pp.intervals.sums`).

    Examples
    --------
    >>> from adobest_pp.report.findings import simulated_poll
    >>> from adobest_pp.report import grade_samplers
    >>> findings = grade_samplers(simulated_poll(n_people=500), draws=200)
    >>> list(findings.draws)
    ['nuts', 'gibbs', 'sgld', 'sgld_cv']
    """
    if not isinstance(poll, Poll):
        raise ValueError(f"poll must be a Poll, such as one from simulated_poll, got {brief(poll)}")
    seed = check_integer(random_seed, "random_seed", 0)
    if threshold is not None:
        check_threshold(threshold)
    if groups is not None:
        check_groups(groups, poll.responses.categories)
    asked: dict[str, Any] = {"threshold": threshold, "groups": groups}
    if REFERENCE in left_out(poll.responses, prior):  # too many different answers or categories
        on_stage("estimating the shares")
        with without_warnings_of(NOT_CONVERGED, DIVERGED, BIASED):
            kept = draws if draws > DRAWS else min(draws, ESTIMATE_DRAWS)  # more, if somebody asks for more
            posterior, estimated = _estimate(poll, prior, kept, seed, progressbar)
        only = {posterior.attrs["sampler"]: posterior}
        return Findings(poll, posterior, estimated, only, estimated, {}, None, prior, seed, **asked)
    options: dict[str, Any] = {"random_seed": seed, "progressbar": progressbar}
    fixed = options | {"prior": FLAT if is_learned(prior) else prior}
    samplers = _samplers(poll, prior)
    # The verdicts and conclusions report these.
    with without_warnings_of(NOT_CONVERGED, DIVERGED):
        on_stage("compiling")
        for name in samplers:  # so that the time of no sampler includes compilation
            sample(poll.responses, name, draws=1, tune=LEAST_TUNE, chains=1, **fixed)
        trees = {}
        for name in samplers:
            on_stage(f"sampling with {name}")
            trees[name] = sample(poll.responses, name, draws=draws, **fixed)
        on_stage("comparing the draws")
        graded = compare(trees, REFERENCE, poll.truth, random_seed=seed)
        on_stage("explaining the differences")
        why = _explanations(poll, trees, graded, seed)
        posterior, estimated = trees[REFERENCE], graded.sel(sampler=[REFERENCE])
        if is_learned(prior):
            on_stage("estimating the shares")
            posterior, estimated = _estimate(poll, prior, min(draws, ESTIMATE_DRAWS), seed, progressbar)
        closing = None
        if isinstance(poll.responses, Responses):
            posteriors = {name: {len(poll.responses): trees[name]} for name in samplers}
            for n, first in checkpoints(poll.responses, _sizes(len(poll.responses))[:-1]).items():
                on_stage(f"looking back at {n:,} answers")
                for name in samplers:
                    posteriors[name][n] = sample(first, name, draws=min(draws, CHECKPOINT_DRAWS), **fixed)
            center = poll.truth if poll.truth is not None else graded["mean"].sel(sampler=REFERENCE).values
            closing = contraction(posteriors, center / center.sum())
    return Findings(poll, posterior, estimated, trees, graded, why, closing, prior, seed, **asked)


def _estimate(
    poll: Poll, prior: float | Literal["learned"], draws: int, seed: int, progressbar: bool
) -> tuple[xr.DataTree, xr.Dataset]:
    """Sample θ as `Collection.estimate` does, so that all commands agree; return the draws, and `compare` for them."""
    posterior = quick_sample(poll.responses, prior, draws, seed_of_answers(poll.responses), progressbar)
    name = posterior.attrs["sampler"]
    return posterior, compare({name: posterior}, name, poll.truth, random_seed=seed)


def n_stages(poll: Poll, prior: float | str = ESTIMATE_PRIOR) -> int:
    """Return how many stages `grade_samplers` has."""
    samplers = _samplers(poll, prior)
    if REFERENCE not in samplers:
        return 1
    looks_back = len(_sizes(len(poll.responses))) - 1 if isinstance(poll.responses, Responses) else 0
    return 3 + len(samplers) + is_learned(prior) + looks_back


def _samplers(poll: Poll, prior: float | str) -> tuple[str, ...]:
    without = left_out(poll.responses, prior)
    return tuple(name for name in SAMPLERS if name not in without)


def _explanations(poll: Poll, trees: dict[str, xr.DataTree], graded: xr.Dataset, seed: int) -> dict[str, xr.Dataset]:
    """Explain SGLD, unless it samples the posterior or the reference has not converged."""
    verdicts = dict(zip(graded["sampler"].values.tolist(), graded["verdict"].values.tolist(), strict=True))
    sgld = verdicts.get("sgld", Verdict.INDISTINGUISHABLE)
    if verdicts[REFERENCE] != Verdict.REFERENCE or sgld == Verdict.INDISTINGUISHABLE:
        return {}
    return {"sgld": explain(trees["sgld"], poll.responses, trees[REFERENCE], seed, progressbar=False)}


def _sizes(n: int) -> list[int]:
    """Return the numbers of answers at which the posterior is sampled; the last is n."""
    sizes = [n >> halvings for halvings in range(HALVINGS, 0, -1)]
    return [size for size in sizes if size >= FEWEST_ANSWERS] + [n]
