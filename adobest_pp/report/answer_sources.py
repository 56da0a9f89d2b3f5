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
    """A question, the randomized answers to it, and how they came about.

    Attributes
    ----------
    question : str
        What was asked.
    responses : Responses
        What the collector holds.
    origin : str
        A sentence on where the answers are from.
    protection : str
        A sentence on what the promise of the mechanism is worth here.
    truth : array of shape (K,), optional
        The true frequencies, known only where people are simulated.
    settings : dict
        What to repeat the collection with.
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
    """Simulate an adaptive poll about six parties; nobody's privacy is at stake.

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
    """Ask everyone in a CSV file adaptively; their values are randomized exactly, one by one, and forgotten.

    With `out`, the answers are kept in that file from the first one on, and a collection that was stopped goes on.

    See Also
    --------
    adobest_pp.online.collect_csv : What asks them.
    """
    from adobest_pp.online import collect_csv

    choice = {"utility": utility, "alpha": alpha, "random_seed": random_seed}
    collector = collect_csv(path, column, epsilon, kappa, categories, progressbar, out, **choice)
    collector.close()
    responses = collector.responses
    if len(responses) == 0:
        raise ValueError(f"path must name a file with at least one person, got none in {os.fspath(path)!r}")
    origin = f"{len(responses):,} people of a file, each randomized on its own with the operating system's entropy."
    protection = (
        "The true values are in the file that was read: whoever has that file is not bound by what follows, which is "
        "about the randomized answers."
    )
    if categories is None:
        protection += " The list of categories was read from it too, and tells that someone in it has each of them."
    settings = {**responses.mechanism.settings(), "column": column, **choice}
    return Poll(question or column, responses, origin, protection, None, settings)


def poll_of_responses(path: str | os.PathLike[str], question: str | None = None) -> Poll:
    """Take randomized answers that were collected before, from a response file or that of a collection."""
    responses = Responses.from_netcdf(path)
    if len(responses) == 0:
        raise ValueError(f"path must name responses of at least one person, got none in {os.fspath(path)!r}")
    origin = f"{len(responses):,} randomized answers, read from a file."
    protection = "What follows holds if the stated mechanism randomized each answer before the collector saw it."
    settings = responses.mechanism.settings()
    return Poll(question or "A private question", responses, origin, protection, None, settings)
