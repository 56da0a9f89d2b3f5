"""Where answers come from: a simulated poll, a file of people, or responses that were collected before."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count
from adobest_pp._text import brief
from adobest_pp.data.responses import Responses
from adobest_pp.mechanisms import RRRR

__all__ = ["PARTIES", "SHARES", "Poll", "poll_of_people", "poll_of_responses", "simulated_poll"]

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
    responses : Responses
        The randomized answers.
    origin : str
        A sentence on where the answers are from.
    protection : str
        A sentence on whom the promise of the mechanism protects here.
    truth : array of shape (K,), optional
        The true frequencies, known only for simulated people.
    settings : dict
        The settings of the collection, to repeat it.
    """

    question: str
    responses: Responses
    origin: str
    protection: str
    truth: NDArray[np.float64] | None
    settings: dict[str, Any]


def simulated_poll(
    n_people: int = 10_000,
    epsilon: float = 1.0,
    kappa: float = 0.9,
    utility: str = "honest",
    alpha: float | None = None,
    question: str | None = None,
    random_seed: int = 1,
    progressbar: bool = False,
) -> Poll:
    """Simulate an adaptive poll about six parties. Nobody's privacy is at stake.

    Examples
    --------
    >>> from adobest_pp.report.answer_sources import simulated_poll
    >>> len(simulated_poll(n_people=1000).responses)
    1000
    """
    from adobest_pp.design import UTILITY_CODES
    from adobest_pp.online import simulate

    people = check_count(n_people, "n_people")
    if not isinstance(utility, str) or utility not in UTILITY_CODES:
        raise ValueError(f"utility must be one of {', '.join(map(repr, UTILITY_CODES))}, got {brief(utility)}")
    run = simulate(
        np.array(SHARES),
        RRRR(len(PARTIES), epsilon, kappa),
        utility,
        n_people=people,
        alpha=alpha,
        categories=PARTIES,
        random_seed=random_seed,
        progressbar=progressbar,
    )
    origin = f"{people:,} simulated people, asked one after the other; the true shares are known."
    protection = "People are simulated by a seeded generator: nobody's privacy is at stake."
    return Poll(question or QUESTION, run.responses, origin, protection, np.array(SHARES), run.settings)


def poll_of_people(
    path: str | os.PathLike[str],
    column: str,
    epsilon: float = 1.0,
    kappa: float = 0.9,
    utility: str = "honest",
    alpha: float | None = None,
    categories: Sequence[str] | None = None,
    question: str | None = None,
    random_seed: int | None = None,
    progressbar: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> Poll:
    """Ask everyone in a CSV file adaptively. Their values are randomized exactly, one by one, and not kept.

    With `out`, every answer is in that file as soon as it is given, and a collection that was stopped continues.

    See Also
    --------
    adobest_pp.online.collect_csv : Asks them.
    """
    from adobest_pp.online import collect_csv

    choice = {"utility": utility, "alpha": alpha, "random_seed": random_seed}
    collector = collect_csv(path, column, epsilon, kappa, categories, progressbar, out, **choice)
    collector.close()
    responses = collector.responses
    if len(responses) == 0:
        raise ValueError(f"path must name a file with at least one person, got none in {os.fspath(path)!r}")
    origin = f"{len(responses):,} people of a file, each randomized separately with the operating system's entropy."
    protection = (
        "What follows is about the randomized answers. The true values are in the file that was read, and nothing here "
        "protects them from those who have that file."
    )
    if categories is None:
        protection += " The list of categories was read from it too, so it shows that somebody has each of them."
    settings = {**responses.mechanism.settings(), "column": column, **choice}
    return Poll(question or column, responses, origin, protection, None, settings)


def poll_of_responses(path: str | os.PathLike[str], question: str | None = None) -> Poll:
    """Read randomized answers from a file of responses or of a collection."""
    responses = Responses.from_netcdf(path)
    if len(responses) == 0:
        raise ValueError(f"path must name responses of at least one person, got none in {os.fspath(path)!r}")
    origin = f"{len(responses):,} randomized answers, read from a file."
    protection = "What follows is true if the stated mechanism randomized each answer before the collector saw it."
    settings = responses.mechanism.settings()
    return Poll(question or "A private question", responses, origin, protection, None, settings)
