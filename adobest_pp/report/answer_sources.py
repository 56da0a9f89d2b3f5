"""Where answers come from: a simulated poll, a file of people, or responses that were collected before."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_integer
from adobest_pp._dirichlet import draw_people
from adobest_pp._text import brief
from adobest_pp._wording import CENTRAL
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
from adobest_pp.mechanisms import Mechanism, check_rrrr

QUESTION = "Which party would you vote for?"
PARTIES = ("North", "South", "East", "West", "Center", "Other")
SHARES = (0.34, 0.27, 0.18, 0.11, 0.07, 0.03)


@dataclass(frozen=True)
class Poll:
    """A question, the randomized answers to it, and how they were collected.

    Attributes
    ----------
    question : str
        The question.
    responses : Responses or Gathered
        The randomized answers.
    origin : str
        A sentence on where the answers are from.
    protection : str
        A sentence on whom the promise of the mechanism protects here.
    truth : array of shape (K,), optional
        The true frequencies, known only for simulated people.
    settings : dict
        The settings of the collection, to repeat it.
    asked : str
        A sentence on the mechanism that was asked with, and why.
    """

    question: str
    responses: Responses | Gathered
    origin: str
    protection: str
    truth: NDArray[np.float64] | None
    settings: dict[str, Any]
    asked: str = ""


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

    Parameters
    ----------
    n_people : int
        How many are asked.
    epsilon : float
        Budget of one answer.
    mechanism : str, optional
        What to ask with, as of `adobest_pp.collect.collect_csv`; ``"rrrr"`` is the paper's setting.
    kappa, utility, alpha
        Of RRRR alone.
    question : str, optional
        The question, as the report shows it.
    random_seed : int
        The same seed gives the same poll.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.

    Examples
    --------
    >>> from adobest_pp.report.answer_sources import simulated_poll
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
    """Return the answers of simulated people, and the settings that repeat them."""
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
    told = {"n_people": people, "theta": list(SHARES), "random_seed": {"entropy": seed.entropy, "spawn_key": []}}
    return responses, chosen.settings() | told


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

    With `out`, every answer is in that file as soon as it is given, and a collection that was stopped continues. People
    who were asked before are asked once more only with `ask_again`.

    See Also
    --------
    adobest_pp.collect.collect_csv : Asks them.
    """
    from adobest_pp.collect import collect_csv
    from adobest_pp.collect.ledger import Ledger

    name = mechanism_name(DEFAULT_MECHANISM if mechanism is None else mechanism)
    options = _given(kappa=kappa, utility=utility, alpha=alpha)
    collection = collect_csv(
        path, column, epsilon, name, categories, progressbar, out, ask_again, random_seed, **options
    )
    collection.close()
    responses = collection.responses
    origin = f"{len(responses):,} people of a file, each randomized separately with the operating system's entropy."
    if empty := collection.did_not_answer:
        origin += f" Of {len(responses) + empty:,} rows, {empty:,} have an empty value: these people did not answer."
    protection = (
        "What follows is about the randomized answers. The true values are in the file that was read, and nothing here "
        f"protects them from those who have that file. {CENTRAL}"
    )
    if categories is None:
        protection += " The list of categories was read from it too, so it shows that somebody has each of them."
    protection += f" {Ledger(path).in_words()}"
    settings = {**collection.settings, "column": column, "random_seed": random_seed}
    asked = choice_in_words(name, is_default=mechanism is None)
    return Poll(_question(question, column), responses, origin, protection, None, settings, asked)


def _question(question: Any, otherwise: str) -> str:
    """Return the question as the report shows it, or raise ValueError."""
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

    Parameters
    ----------
    path : path or pattern
        The file of a collection or of `Responses.to_netcdf`; or Parquet, Arrow and CSV files, a folder or a pattern of
        them, which are gathered.
    question : str, optional
        The question, as the report shows it.
    mechanism, categories, column, progressbar, allow_copies
        As of `adobest_pp.gather`.
    """
    responses = read_answers(path, mechanism, categories, column, progressbar, allow_copies)
    origin = f"{len(responses):,} randomized answers, read from a file."
    if isinstance(responses, Gathered):
        files = f"{len(responses.files):,} file" + ("s" if len(responses.files) > 1 else "")
        origin = f"{len(responses):,} randomized answers, gathered from {files}."
        if empty := responses.n_empty:
            origin += f" Of {len(responses) + empty:,} rows, {empty:,} have no answer, and are left out."
    protection = "What follows is true if the stated mechanism randomized each answer before the collector saw it."
    settings = responses.mechanism.settings()
    source = "as the file says" if mechanism is None else "as was said of the file"
    asked = f"The mechanism is {type(responses.mechanism).__name__}, {source}."
    return Poll(_question(question, "A private question"), responses, origin, protection, None, settings, asked)
