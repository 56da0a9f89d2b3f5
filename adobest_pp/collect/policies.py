"""What a collection asks next: the three policies, and the choosers that carry them out.

A policy is a small frozen object that says how to ask. `chooser_of` makes the object that chooses questions.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_count, check_integer, check_subset
from adobest_pp._text import brief
from adobest_pp.adaptive.hamiltonian import ExactState
from adobest_pp.adaptive.loop import LoopSettings, new_chain, sample_round
from adobest_pp.adaptive.records import KINDS, RESPONSES, add_set, new_records, record_many, reserve
from adobest_pp.answers.store import QuestionAnswers
from adobest_pp.design.optimal import check_design_prior, check_rounds, check_start, next_question, round_ends
from adobest_pp.design.overview import DESIGN, WHEN
from adobest_pp.design.utilities import UTILITY_CODES, Utility
from adobest_pp.mechanisms import (
    RRRR,
    Mechanism,
    SubsetSelection,
    build_mechanism,
    check_rrrr,
    find_mechanism,
    mechanism_names,
    mechanism_parameters,
)
from adobest_pp.mechanisms.registry import is_built_from, plain_name
from adobest_pp.samplers.sgld.settings import Schedule, schedule_from_settings

_COUNT = 2**62


@dataclass(frozen=True, eq=False)
class AdaptiveSubset:
    """Ask by RRRR under a subset of likely categories, chosen from the answers so far: Algorithm 1 of the paper [1]_.

    Parameters
    ----------
    mechanism : RRRR
        What the devices run.
    utility : str or Utility, default "honest"
        How the subset is chosen: ``"fisher"``, ``"entropy"``, ``"tv1"``, ``"tv2"``, ``"mse"``, ``"honest"``,
        ``"semi_adaptive"`` (with `alpha`), ``"nonadaptive"``, or a `Utility` of your own, which runs in Python.
    alpha : float, optional
        The probability that the subset of ``"semi_adaptive"`` must hold. The authors of the paper ran it with all of ε
        inside the subset: ``RRRR(K, epsilon, kappa=1.0)``.
    prior : float or array of shape (K,)
        ρ of the Dirichlet prior under which subsets are chosen. Estimates have their own prior.
    updates, batch_size : int
        M updates of the sampler for each choice of a subset (sweeps for Gibbs, gradients for the exact sampler), and
        the batch size m of SGLD.
    step_size, schedule
        Step sizes of SGLD, as in `SGLD`; the paper's 0.5/t by default.
    adapt_every : int, default 1
        How many answers to take between two choices.
    sampler : {"sgld", "gibbs", "exact"}
        What draws Θ_t, warm-started from Θ_{t-1}: the paper's SGLD; the paper's Gibbs sampler, here on counts; or
        Hamiltonian Monte Carlo. ``"gibbs"`` and ``"exact"`` leave the true posterior invariant. None of them gives
        independent draws.
    smallest_size : int
        The smallest size of the subset; 1 in the authors' program.

    See Also
    --------
    Collection : Asks real people.
    simulate_adaptive : Asks simulated people.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=1.0), "honest")
    >>> ad.simulate_adaptive([0.6, 0.3, 0.1], policy, n_people=1000, random_seed=1).chain_mean.shape
    (3,)
    """

    mechanism: RRRR
    utility: str | Utility = "honest"
    alpha: float | None = None
    prior: ArrayLike = 1.0
    updates: int = 20
    batch_size: int = 50
    step_size: float | None = None
    schedule: Schedule | None = None
    adapt_every: int = 1
    sampler: str = "sgld"
    smallest_size: int = 0

    def checked(self, categories: Sequence[str] | None = None) -> LoopSettings:
        """Return the settings of the loop, or raise ValueError; a prior with labels is put in order of `categories`."""
        return LoopSettings.of(**vars(self), categories=categories)


@dataclass(frozen=True, eq=False)
class SameQuestion:
    """Ask everybody the same question.

    Parameters
    ----------
    mechanism : Mechanism
        What the devices run.
    subset : indices or boolean mask, optional
        What is published to everybody, if the mechanism publishes a subset, and only then.

    See Also
    --------
    Collection : Asks real people.
    """

    mechanism: Mechanism
    subset: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Rounds:
    """Ask in rounds, each by the best question for the posterior so far (`optimal_mechanism`).

    Publish ``question.to_json()``; a device reads it by `read_question`, which refuses a question that does not keep ε.

    Parameters
    ----------
    mechanism : SubsetSelection
        What is asked in the first round, and in later ones if a design gains next to nothing.
    n_people : int
        How many people will be asked in total. Each design is computed for those who are left. More may answer.
    rounds : int, optional
        The number of rounds, of equal size; 8 by default.
    prior : float, array of shape (K,) or "learned"
        ρ of the Dirichlet prior under which questions are chosen.

    See Also
    --------
    Collection : Asks real people.
    simulate_rounds : Asks simulated people.
    """

    mechanism: SubsetSelection
    n_people: int
    rounds: int | None = None
    prior: ArrayLike | str = "learned"


Policy = SameQuestion | AdaptiveSubset | Rounds


class Choice(NamedTuple):
    """A chosen question: what the device runs, and the subset that is published with it, if any."""

    mechanism: Mechanism
    subset: tuple[int, ...] | None = None


class Chooser(ABC):
    """Carries out a policy: chooses questions given the answers, and keeps the state that the next choice needs."""

    name: ClassVar[str]
    mechanism: Mechanism

    @abstractmethod
    def is_due(self, n_answers: int) -> bool:
        """Return whether to choose a question before the next person is asked."""

    @abstractmethod
    def choose(self, held: QuestionAnswers) -> Choice:
        """Choose a question. This changes the state; `restore` undoes it."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings of the policy, as plain values."""

    @property
    def prior(self) -> NDArray[np.float64] | str:
        """The prior under which questions are chosen."""
        return "learned"

    def state(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {}

    def restore(self, state: Mapping[str, Any], n_answers: int) -> None:
        """Bring back a state that `state` returned, or raise ValueError if it does not fit."""
        return

    def take(self, held: QuestionAnswers) -> None:
        """Take in the answers since the last call."""
        return


class _Same(Chooser):
    name = "same_question"

    def __init__(self, policy: SameQuestion, categories: Sequence[str]) -> None:
        self.mechanism, self._subset = policy.mechanism, None
        if self.mechanism.publishes_subset != (policy.subset is not None):
            needed = "given if the mechanism publishes a subset, and only then"
            raise ValueError(f"subset must be {needed}, got {brief(policy.subset)} with {brief(self.mechanism)}")
        if policy.subset is not None:
            mask = check_subset(policy.subset, self.mechanism.n_categories, categories)
            self._subset = tuple(np.flatnonzero(mask).tolist())

    def is_due(self, n_answers: int) -> bool:
        return False

    def choose(self, held: QuestionAnswers) -> Choice:
        return Choice(self.mechanism, self._subset)

    def settings(self) -> dict[str, Any]:
        return self.mechanism.settings() | ({} if self._subset is None else {"subset": list(self._subset)})


class _Adaptive(Chooser):
    name = "adaptive_subset"

    def __init__(self, policy: AdaptiveSubset, categories: Sequence[str], seed: int) -> None:
        self.mechanism = check_rrrr(policy.mechanism)
        self._settings = policy.checked(categories)
        self._chain = new_chain(self._settings.prior, self._settings.plan.batch_size, seed, self._settings.sampler)
        self._records = new_records(policy.mechanism.coefficients, 16, counted=self._settings.sampler != "sgld")
        # The place of each answered question in the records.
        self._kinds: dict[int, int] = {}
        self._rounds = 0
        # How many answers there were at the last choice; None before the first.
        self._chosen_at: int | None = None

    @property
    def prior(self) -> NDArray[np.float64]:
        return self._settings.prior

    def settings(self) -> dict[str, Any]:
        return self._settings.describe()

    def is_due(self, n_answers: int) -> bool:
        return self._chosen_at is None or n_answers - self._chosen_at >= self._settings.plan.round_size

    def choose(self, held: QuestionAnswers) -> Choice:
        n, n_updates = len(held), self._settings.updates
        if self._chosen_at is not None and n > self._chosen_at:
            steps = self._settings.steps(self._rounds * n_updates, n_updates, n)
            sample_round(self._settings.plan.batch_size, self._chain, self._records, steps, self._chain.phi, n_updates)
            self._rounds += 1
        self._chosen_at = n
        size = self._settings.choose_size(self._chain)
        return Choice(self.mechanism, tuple(np.sort(self._chain.order[:size]).tolist()))

    def take(self, held: QuestionAnswers) -> None:
        coefficients = self._settings.mechanism.coefficients
        for number, rows in held.runs(int(self._records.used[RESPONSES])):
            subset = list(held.questions[number].subset or ())
            self._records = reserve(self._records, coefficients, len(rows), 1)
            kind = self._kinds.setdefault(number, int(self._records.used[KINDS]))
            if kind == self._records.used[KINDS]:
                self._records.masks[kind] = False
                self._records.masks[kind, subset] = True
                add_set(self._records, len(subset), coefficients)
            record_many(self._records, rows[:, 0], kind, len(subset))

    def state(self) -> dict[str, Any]:
        chain = self._chain
        center = {"center": chain.work.center.tolist()} if isinstance(chain.work, ExactState) else {}
        arrays = {"generator": chain.state.tolist(), "phi": chain.phi.tolist(), "order": chain.order.tolist()}
        return arrays | center | {"rounds": self._rounds, "chosen_at": self._chosen_at}

    def restore(self, state: Mapping[str, Any], n_answers: int) -> None:
        # Compiled code checks nothing, so everything is checked here, before anything changes.
        chain, k = self._chain, self._chain.phi.size
        words = _numbers(state, "generator", 4, np.uint64)
        phi, order = _numbers(state, "phi", k, np.float64), _numbers(state, "order", k, np.int64)
        if not words.any():
            raise ValueError("generator must not be all zero")
        if not (phi >= 0).all() or not 0 < phi.sum() < np.inf:
            raise ValueError(f"phi must be {k} numbers of at least 0 that are not all zero")
        if sorted(order.tolist()) != list(range(k)):
            raise ValueError(f"order must have each of the {k} categories once")
        center = _numbers(state, "center", k, np.float64) if isinstance(chain.work, ExactState) else None
        rounds, chosen_at = check_integer(state.get("rounds"), "rounds", 0, _COUNT), state.get("chosen_at")
        if chosen_at is not None:
            check_integer(chosen_at, "chosen_at", 0, n_answers)
        chain.state[:], chain.phi[:], chain.order[:] = words, phi, order
        if isinstance(chain.work, ExactState):
            chain.work.center[:] = center
        self._rounds, self._chosen_at = rounds, chosen_at


class _InRounds(Chooser):
    name = "rounds"

    def __init__(self, policy: Rounds, categories: Sequence[str], seed: int) -> None:
        self.mechanism = self._first = check_start(policy.mechanism)
        self._n_people = check_count(policy.n_people, "n_people")
        self._prior = check_design_prior(policy.prior, self._first.n_categories, categories)
        self._ends = round_ends(self._n_people, check_rounds(policy.rounds, self._n_people))
        self._seed = seed
        self.records: list[dict[str, Any]] = []

    @property
    def prior(self) -> NDArray[np.float64] | str:
        return self._prior

    def settings(self) -> dict[str, Any]:
        prior = self._prior if isinstance(self._prior, str) else self._prior.tolist()
        own = {"mechanism": DESIGN, "prior": prior, "n_people": self._n_people, "rounds": len(self._ends)}
        return self._first.settings() | own

    def is_due(self, n_answers: int) -> bool:
        return not self.records or self.records[-1]["round"] < self._due(n_answers)

    def _due(self, n_answers: int) -> int:
        return min(int(np.searchsorted(self._ends, n_answers, side="right")), len(self._ends) - 1)

    def choose(self, held: QuestionAnswers) -> Choice:
        n = len(held)
        due, about = self._due(n), {}
        mechanism: Mechanism = self._first
        if n:
            seed = int(np.random.SeedSequence(self._seed, spawn_key=(due,)).generate_state(1)[0])
            last: Any = held.questions[self.records[-1]["number"]].mechanism
            left = max(self._n_people - n, 1)
            best = next_question(held.responses, self._first, left, self._prior, seed, last)
            mechanism, about = best.mechanism, best.describe() | {"mean": best.mean.tolist()}
            del about["question"]
        number = held.find(mechanism, None)
        number = len(held.questions) if number < 0 else number
        self.records = [*self.records, {"round": due, "number": number, "answers": n, **about}]
        return Choice(mechanism)

    def state(self) -> dict[str, Any]:
        return {"records": self.records}

    def restore(self, state: Mapping[str, Any], n_answers: int) -> None:
        records = state.get("records")
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError("the records of the rounds must be a list of JSON objects")
        for record in records:
            check_integer(record.get("number"), "number", 0, _COUNT)
            check_integer(record.get("round"), "round", 0, _COUNT)
            check_integer(record.get("answers"), "answers", 0, n_answers)
        self.records = records


def chooser_of(policy: Policy, categories: Sequence[str], seed: int) -> Chooser:
    """Return the chooser of a policy at its start, or raise ValueError for bad settings."""
    if isinstance(policy, SameQuestion):
        return _Same(policy, categories)
    if isinstance(policy, AdaptiveSubset):
        return _Adaptive(policy, categories, seed)
    return _InRounds(policy, categories, seed)


def policy_from_settings(name: Any, mechanism: Mechanism, settings: Any, utility: Utility | None = None) -> Policy:
    """Return the policy that was stored, or raise ValueError; only the name of the user's own utility is stored."""
    if not isinstance(settings, dict):
        raise ValueError("the settings of the policy must be a JSON object")
    if utility is not None and name != _Adaptive.name:
        raise ValueError(f"utility must be left out for a collection that chooses no subsets, got {brief(utility)}")
    if name == _Same.name:
        return SameQuestion(mechanism, settings.get("subset"))
    if name == _Adaptive.name:
        names = ("alpha", "prior", "updates", "batch_size", "adapt_every", "sampler", "smallest_size")
        given: dict[str, Any] = {each: settings[each] for each in names if each in settings}
        schedule = schedule_from_settings(settings.get("schedule", {}))
        chosen = _stored_utility(settings.get("utility"), utility)
        return AdaptiveSubset(check_rrrr(mechanism), chosen, schedule=schedule, **given)
    if name == _InRounds.name:
        given = {each: settings.get(each) for each in ("n_people", "rounds", "prior")}
        return Rounds(check_start(mechanism), **given)
    raise ValueError(f"the policy must be one of {_Same.name}, {_Adaptive.name}, {_InRounds.name}")


def _stored_utility(named: Any, utility: Any) -> str | Utility:
    """Return the utility of a stored collection, or raise ValueError if it is the user's own and another is given."""
    if not isinstance(utility, Utility | None):
        raise ValueError(f"utility must be a Utility or None, got {brief(utility)}")
    own = named if isinstance(named, str) and named not in UTILITY_CODES else None
    given = None if utility is None else utility.name
    if own != given:
        raise ValueError(f"utility must be the one that the collection was made with, {brief(own)}, got {brief(given)}")
    return utility or str(named)


def _numbers(state: Mapping[str, Any], name: str, size: int, dtype: Any) -> NDArray[Any]:
    """Return a list of numbers in a stored state, or raise ValueError."""
    values = state.get(name)
    kinds = (int, float) if dtype is np.float64 else (int,)
    if not isinstance(values, list) or len(values) != size or any(type(value) not in kinds for value in values):
        raise ValueError(f"{name} must be {size} numbers")
    try:
        array = np.array(values, dtype=dtype)
    except OverflowError:
        raise ValueError(f"{name} must be {size} numbers that fit into {np.dtype(dtype)}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} finite numbers")
    return array


# Policies by the name of a mechanism, as commands and `collect_csv` take it.

# The default of `adobest collect` and `adobest compare`, and why (figures: validation/RESULTS.md, "mechanisms").
DEFAULT_MECHANISM = "subset-selection"
DEFAULT_REASON = (
    "it needs no tuning, and at equal ε its error in our validation was below that of SRR for uneven shares, and below "
    "that of RRRR by the paper's utilities unless almost everybody holds one category; design, which asks in rounds, "
    "was better still (10 to 50 categories), and semi-adaptive RRRR in some settings"
)

_OF_COLLECTION = ("n_categories", "epsilon", "n_people", "mechanism", "subset", "self")


def mechanism_name(name: Any) -> str:
    """Return the name of a mechanism as commands show it, ``"subset-selection"`` for ``"SubsetSelection"``.

    Raise ValueError unless a collection can ask with it: ``"design"``, or a registered mechanism that K and ε are
    enough to build, given by its name or as ``module:Class``.

    Examples
    --------
    >>> from adobest_pp.collect.policies import mechanism_name
    >>> mechanism_name("SubsetSelection"), mechanism_name("RRRR")
    ('subset-selection', 'rrrr')
    """
    wanted = find_mechanism(name).__name__ if isinstance(name, str) and ":" in name else name
    shown = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", each).lower() for each in mechanism_names()]
    usual = [*(each for each in shown if is_built_from(each, "n_categories", "epsilon")), DESIGN]
    for each in usual if isinstance(name, str) else ():
        if plain_name(each) == plain_name(wanted):
            return each
    raise ValueError(f"mechanism must be one of {', '.join(usual)}, got {brief(name)}")


def choice_in_words(name: str, is_default: bool) -> str:
    """Return a sentence that names the mechanism of a collection, and why."""
    if is_default:
        return f"The mechanism is {name}, the default: {DEFAULT_REASON}."
    use = "asking as in the paper, adapting to the answers so far" if name == "rrrr" else WHEN.get(name)
    return f"The mechanism is {name}, as you chose{f' (use it for: {use})' if use else ''}."


def chosen_mechanism(
    name: str, n_categories: int, epsilon: float, options: dict[str, Any]
) -> tuple[Mechanism, dict[str, Any]]:
    """Return the (first) mechanism to ask with, and those options that are for its policy.

    With the utility ``"semi_adaptive"``, RRRR spends all of ε inside the subset (κ = 1) unless `kappa` is given, as the
    authors of the paper ran it. Raise ValueError for an option that neither the mechanism nor its policy has.
    """
    own = [] if name == DESIGN else _options(mechanism_parameters(name))
    allowed = dict.fromkeys([*own, *_options(_policy_of(name).__dataclass_fields__)])
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"{option} must be left out for {name}, which has {', '.join(allowed)} only, got {brief(value)}"
            )
    settings = {option: value for option, value in options.items() if option in own}
    rest = {option: value for option, value in options.items() if option not in own}
    if name == DESIGN:
        return SubsetSelection(n_categories, epsilon), rest
    if "kappa" in own and isinstance(utility := rest.get("utility"), str) and utility == "semi_adaptive":
        settings = {"kappa": 1.0} | settings
    return build_mechanism(name, n_categories=n_categories, epsilon=epsilon, **settings), rest


def policy_by_name(name: str, n_categories: int, epsilon: float, n_people: int, options: dict[str, Any]) -> Policy:
    """Return the policy that asks with a registered mechanism, or by ``"design"``, or raise ValueError.

    The options are settings of the mechanism, such as `kappa`, and of its policy, such as `utility`.
    """
    shown = mechanism_name(name)
    mechanism, rest = chosen_mechanism(shown, n_categories, epsilon, options)
    planned = {"n_people": n_people} if shown == DESIGN else {}
    policy: Policy = _policy_of(shown)(mechanism, **planned, **rest)
    return policy


def _policy_of(name: str) -> Any:
    """Return the class of the policy that asks with the mechanism of this name."""
    if name == DESIGN:
        return Rounds
    return AdaptiveSubset if find_mechanism(name).publishes_subset else SameQuestion


def _options(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in _OF_COLLECTION and not name.startswith("_")]
