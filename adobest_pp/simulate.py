"""Collections of simulated people, whose answers protect nobody: Algorithm 1, and rounds of best questions."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_count, check_integer, check_probabilities
from adobest_pp._dirichlet import draw_people
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief, check_labels
from adobest_pp._types import Floats, Integers
from adobest_pp.adaptive.loop import Chain, LoopSettings, new_chain, run, sample_round
from adobest_pp.adaptive.records import FIRST_SET, KINDS, RESPONSES, Records, new_records, reserve
from adobest_pp.answers.concat import concat
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.collect.words import WordSearch, category_of
from adobest_pp.design.optimal import (
    FINAL_DRAWS,
    check_design_prior,
    check_rounds,
    check_start,
    next_question,
    posterior_draws,
    round_ends,
)
from adobest_pp.mechanisms import SetFamily, SubsetSelection, check_rrrr

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["OnlineRun", "simulate_adaptive", "simulate_rounds", "simulate_words"]

# Updates per compiled call, a fraction of a second: Ctrl-C is handled only between calls.
_UPDATES_AT_ONCE = 40_000
_LOWER_HALF = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class OnlineRun:
    """The result of a simulated collection.

    Attributes
    ----------
    chain_mean : array of shape (K,)
        θ averaged over the last half of the final updates: the estimate that the paper's studies measure. With the
        paper's SGLD it is not the posterior mean. Use ``sample(run.responses)`` for the posterior mean and intervals.
        In rounds it is the mean of the exact posterior.
    responses : Responses
        What the collector holds at the end.
    sizes : array of int, shape (T,)
        ``|S_t|`` for each person; in rounds, the size of the set that the person answered.
    path_people : array of int, shape (P,)
        How many people had been asked at each point of the path.
    path : array of shape (P, K)
        Θ_t at these points; in rounds, the mean of the exact posterior after each round.
    settings : dict
        Every setting needed to repeat the run. In rounds, ``questions`` lists what each round after the first asked,
        why, and the summed variance predicted for the end; ``variance`` is that of the exact posterior at the end.
    """

    chain_mean: Floats
    responses: Responses
    sizes: NDArray[np.int32]
    path_people: Integers
    path: Floats
    settings: dict[str, Any]

    def to_xarray(self) -> "xr.Dataset":
        """Return mean, sizes and path as a labeled dataset. The responses have their own `Responses.to_xarray`."""
        import xarray as xr

        variables = {
            "chain_mean": ("category", self.chain_mean),
            "size": ("response", self.sizes),
            "theta": (("people", "category"), self.path),
        }
        coordinates = {"category": list(self.responses.categories), "people": self.path_people}
        return xr.Dataset(variables, coords=coordinates, attrs={"settings": json.dumps(self.settings)})


@raising_interrupts()
def simulate_adaptive(
    theta: ArrayLike | None,
    policy: AdaptiveSubset,
    *,
    n_people: int | None = None,
    people: ArrayLike | None = None,
    final_updates: int = 2000,
    path_length: int = 200,
    categories: Sequence[Any] | None = None,
    random_seed: int | np.random.SeedSequence | None = None,
    progressbar: bool = False,
) -> OnlineRun:
    """Simulate an adaptive collection, Algorithm 1 of the paper (see `AdaptiveSubset`); the whole loop is compiled.

    The simulation's generator draws the answers, so they protect nobody.

    Parameters
    ----------
    theta : array of shape (K,) or None
        Category probabilities from which `n_people` are drawn; None if `people` are given. Labels are matched with
        `categories`.
    policy : AdaptiveSubset
        What the people's devices run, and how subsets are chosen.
    n_people : int, optional
        How many people to draw from θ; by default 500·K, as in the paper.
    people : array of int, optional
        The categories x of the simulated people, in the order in which they are asked, instead of `theta`.
    final_updates : int
        Updates after the last answer; `chain_mean` averages the last half of them.
    path_length : int
        The most Θ_t to keep, evenly spaced.
    categories : sequence of K labels, optional
        Category names.
    random_seed : int or numpy.random.SeedSequence, optional
        The same seed gives the same run.
    progressbar : bool
        Whether to show progress after two seconds.

    Returns
    -------
    OnlineRun
        Mean of the chain, responses, subset sizes, path and settings.

    See Also
    --------
    simulate_rounds : Rounds of the best question.
    Collection : The same policy for real people.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=1.0))
    >>> run = ad.simulate_adaptive([0.6, 0.3, 0.1], policy, n_people=1000, random_seed=1)
    >>> run.chain_mean.shape, len(run.responses), run.sizes.max() < 3
    ((3,), 1000, np.True_)
    """
    if not isinstance(policy, AdaptiveSubset):
        raise ValueError(f"policy must be an AdaptiveSubset, got {brief(policy)}")
    mechanism = check_rrrr(policy.mechanism)
    labels = check_labels(categories, mechanism.n_categories)
    settings = policy.checked(labels)
    n_final = check_count(final_updates, "final_updates", 2)
    n_path = check_count(path_length, "path_length")
    x, chain_seed, drawn = _people(theta, people, labels, n_people, random_seed)
    batch_size = min(settings.plan.batch_size, x.size)
    chain = new_chain(settings.prior, batch_size, chain_seed, settings.sampler)
    chain, records, sizes, ends, path = _ask_everyone(settings, chain, x, n_path, progressbar)
    estimate = _final_estimate(settings, chain, records, n_final)
    subsets = records.masks[FIRST_SET : int(records.used[KINDS])]
    answers = (records.code[: x.size] & _LOWER_HALF).astype(np.int64)
    responses = Responses.from_arrays(mechanism, answers, subsets, records.set_of[: x.size], labels)
    description = settings.describe() | drawn | {"path_length": n_path, "final_updates": n_final}
    return OnlineRun(estimate, responses, sizes, ends, path, description)


@raising_interrupts()
def simulate_rounds(
    theta: ArrayLike | None,
    mechanism: SubsetSelection,
    *,
    n_people: int | None = None,
    people: ArrayLike | None = None,
    rounds: int | None = None,
    prior: ArrayLike | Literal["learned"] = "learned",
    categories: Sequence[Any] | None = None,
    random_seed: int | np.random.SeedSequence | None = None,
    progressbar: bool = False,
) -> OnlineRun:
    """Simulate a collection in rounds, each with the best question for the posterior so far (`optimal_mechanism`).

    The simulation's generator draws the answers, so they protect nobody.

    Parameters
    ----------
    theta, n_people, people, categories, random_seed, progressbar
        As in `simulate_adaptive`.
    mechanism : SubsetSelection
        What the devices run in the first round, and whenever a design gains next to nothing.
    rounds : int, optional
        The number of rounds, of equal size; 8 by default.
    prior : float, array of shape (K,) or "learned"
        ρ of the Dirichlet prior under which questions are chosen.

    Returns
    -------
    OnlineRun
        Posterior mean, responses, set sizes, path and settings.

    See Also
    --------
    simulate_adaptive : Algorithm 1 of the paper.
    Rounds : The same policy for real people.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> first = ad.SubsetSelection(3, epsilon=1.0)
    >>> run = ad.simulate_rounds([0.6, 0.3, 0.1], first, n_people=1000, rounds=2, random_seed=1)
    >>> run.chain_mean.shape, len(run.responses)
    ((3,), 1000)
    """
    first = check_start(mechanism)
    labels = check_labels(categories, first.n_categories)
    concentration = check_design_prior(prior, first.n_categories, labels)
    x, own_seed, drawn = _people(theta, people, labels, n_people, random_seed)
    n_rounds = check_rounds(rounds, x.size)
    responses, sizes, ends, means, record = _ask_in_rounds(
        first, x, n_rounds, concentration, labels, own_seed, progressbar
    )
    named = concentration if isinstance(concentration, str) else concentration.tolist()
    settings = first.settings() | {"method": "design", "prior": named, "rounds": n_rounds} | drawn | record
    return OnlineRun(means[-1], responses, sizes, ends, means, settings)


@raising_interrupts()
def simulate_words(
    words: Sequence[str] | Sequence[bytes],
    *,
    epsilon: float,
    random_seed: int | np.random.SeedSequence | None = None,
    progressbar: bool = False,
    **settings: Any,
) -> WordSearch:
    """Simulate a search for the words that many people hold, each of whom is asked once (`WordSearch`).

    The simulation's generator draws the answers, so they protect nobody.

    Parameters
    ----------
    words : sequence of str, or of bytes
        The word of each person. People are asked in a random order.
    epsilon : float
        The privacy budget of one answer.
    random_seed, progressbar
        As in `simulate_adaptive`.
    **settings
        Other settings of `WordSearch.create`: alphabet, longest, threshold, missed, false, mechanism, folder.

    Returns
    -------
    WordSearch
        After everybody has answered.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> words = ["abba"] * 3000 + ["cab"] * 2000 + ["bacca"] * 1000
    >>> search = ad.simulate_words(words, epsilon=4.0, alphabet="abc", longest=6, random_seed=1)
    >>> search.words
    ('abba', 'cab', 'bacca')
    """
    is_list = isinstance(words, Sequence | np.ndarray) and not isinstance(words, str | bytes)
    kinds = {type(word) for word in words} if is_list else set()
    if len(kinds) != 1 or not all(issubclass(kind, str | bytes) for kind in kinds) or not all(words):
        raise ValueError("words must be a list of texts, or of bytes, one for each person, none of them empty")
    rng = np.random.default_rng(_check_seed(random_seed))
    held, word_of = np.unique(np.asarray(words, dtype=object), return_inverse=True)
    seed = int(rng.integers(2**63))
    search = WordSearch.create(epsilon=epsilon, n_people=len(words), random_seed=seed, **settings)
    longest = search.settings["longest"]
    n_longer = int(np.count_nonzero(np.array([len(word) > longest for word in held])[word_of]))
    if n_longer:
        warnings.warn(
            f"{n_longer:,} of {len(words):,} words are longer than longest = {longest}, and cannot be found",
            stacklevel=2,
        )
    order, begin = rng.permutation(len(words)), 0
    with SlowProgress(len(words), "searching", progressbar) as progress:
        while begin < len(words) and search.left:
            question, end = search.next_question(), begin + search.left
            category = np.array([category_of(word, question) for word in held])
            search.record(question.privatize(category[word_of[order[begin:end]]], rng=rng), question)
            progress.advance(len(order[begin:end]))
            begin = end
    return search


def _check_seed(random_seed: Any) -> np.random.SeedSequence:
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed
    return np.random.SeedSequence(None if random_seed is None else check_integer(random_seed, "random_seed", 0))


def _people(
    theta: ArrayLike | None,
    people: ArrayLike | None,
    labels: Sequence[str],
    n_people: int | None,
    random_seed: int | np.random.SeedSequence | None,
) -> tuple[Integers, np.random.SeedSequence, dict[str, Any]]:
    """Return the categories of the people, drawn or given, a seed for the rest of the run, and what repeats both."""
    seed = _check_seed(random_seed)
    people_seed, own_seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(2)
    shares = None if theta is None else check_probabilities(theta, len(labels), categories=labels)
    if (shares is None) == (people is None):
        raise ValueError("theta or people must be given, and not both, got both or neither")
    if shares is not None:
        n = 500 * len(labels) if n_people is None else check_count(n_people, "n_people")
        x = draw_people(np.random.default_rng(people_seed), shares / shares.sum(), n)
    else:
        if n_people is not None:
            raise ValueError(f"n_people must be left out if people are given, got {brief(n_people)}")
        x = _check_people(people, len(labels))
    named = {} if shares is None else {"theta": shares.tolist()}
    repeats = {"entropy": seed.entropy, "spawn_key": list(seed.spawn_key)}
    return x, own_seed, {"n_people": x.size, **named, "random_seed": repeats}


def _check_people(people: Any, n_categories: int) -> Integers:
    """Return categories, or raise ValueError without showing any of them."""
    allowed = f"people must be at least one integer category from 0 to {n_categories - 1}"
    try:
        array = as_numbers(people, "iu")
    except TypeError:
        raise ValueError(f"{allowed}, got {type(people).__name__} with other values") from None
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{allowed}, got an array of shape {array.shape}")
    if array.min() < 0 or array.max() >= n_categories:
        raise ValueError(f"{allowed}, got a category out of range")
    return array.astype(np.int64)


def _ask_everyone(
    settings: LoopSettings, chain: Chain, x: Integers, path_length: int, progressbar: bool
) -> tuple[Chain, Records, NDArray[np.int32], Integers, Floats]:
    """Run all rounds, a block at a time, without the updates after the last answer."""
    k, round_size, n_updates = settings.mechanism.n_categories, settings.plan.round_size, settings.updates
    n_rounds = -(-x.size // round_size)
    path_every = max(1, -(-n_rounds // path_length))
    path = np.empty((n_rounds // path_every, k))
    sizes = np.empty(x.size, dtype=np.int32)
    records = new_records(settings.mechanism.coefficients, x.size, counted=settings.sampler != "sgld")
    compiled = isinstance(settings.utility, str)
    at_once = max(1, _UPDATES_AT_ONCE // n_updates) if compiled else 1
    with SlowProgress(n_rounds, "collecting", progressbar) as progress:
        r = 0
        while r < n_rounds:
            rounds = np.arange(r, min(r + at_once, n_rounds))[:, None]
            at_hand = np.minimum((rounds + 1) * round_size, x.size)
            steps = settings.steps(rounds * n_updates, n_updates, at_hand)
            plan = settings.plan if compiled else settings.plan._replace(smallest_size=settings.choose_size(chain))
            reached = run(plan, chain, records, settings.mechanism.coefficients, x, r, steps, sizes, path, path_every)
            progress.advance(reached - r)
            if reached < rounds[-1, 0] + 1:
                records = reserve(records, settings.mechanism.coefficients, 0, 1)
            r = reached
    people = np.minimum((np.arange(len(path)) + 1) * path_every * round_size, x.size)
    return chain, records, sizes, people, path


def _final_estimate(settings: LoopSettings, chain: Chain, records: Records, n_updates: int) -> Floats:
    n = int(records.used[RESPONSES])
    done = -(-n // settings.plan.round_size) * settings.updates
    steps = settings.steps(done, n_updates, n)
    mean, kept = np.zeros(settings.mechanism.n_categories), 0
    half = n_updates - n_updates // 2
    for start in range(0, n_updates, _UPDATES_AT_ONCE):
        part = steps[start : start + _UPDATES_AT_ONCE]
        kept += sample_round(settings.plan.batch_size, chain, records, part, mean, min(max(half - start, 0), part.size))
    return np.asarray(mean / kept)


def _ask_in_rounds(
    first: SubsetSelection,
    x: Integers,
    rounds: int,
    prior: Floats | str,
    categories: tuple[str, ...],
    seed: np.random.SeedSequence,
    progressbar: bool,
) -> tuple[Responses, NDArray[np.int32], Integers, Floats, dict[str, Any]]:
    """Ask everybody; return responses, sizes of the answered sets, ends of rounds, posterior means and a record."""
    answer_seed, *fit_seeds = seed.spawn(rounds + 1)
    rng = np.random.default_rng(answer_seed)
    ends = round_ends(x.size, rounds)
    mechanism: SetFamily | SubsetSelection = first
    parts: list[Responses] = []
    means: list[Floats] = []
    sizes, record = [], []
    with SlowProgress(x.size, "collecting", progressbar) as progress:
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            if parts:
                fit_seed = int(fit_seeds[len(means)].generate_state(1)[0])
                question = next_question(
                    concat(parts, allow_copies=True), first, int(x.size - begin), prior, fit_seed, mechanism
                )
                mechanism = question.mechanism
                means.append(question.mean)
                record.append(question.describe() | {"first_person": int(begin)})
            answers = np.asarray(mechanism.privatize(x[begin:end], rng=rng))
            parts.append(Responses.from_arrays(mechanism, answers, categories=categories))
            sizes.append(mechanism.support(answers).sum(axis=1, dtype=np.int32))
            progress.advance(int(end - begin))
    responses = concat(parts, allow_copies=True)
    theta = posterior_draws(responses, prior, int(fit_seeds[len(means)].generate_state(1)[0]), FINAL_DRAWS)
    means.append(theta.mean(axis=0))
    known = {"questions": record, "variance": float(np.trace(np.cov(theta.T)))}
    return responses, np.concatenate(sizes), ends, np.array(means), known
