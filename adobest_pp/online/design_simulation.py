"""A collection in rounds on simulated people, each round by the best question that `rounds` finds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._progress import SlowProgress
from adobest_pp.data.concat import concat
from adobest_pp.data.responses import Responses
from adobest_pp.mechanisms import Mechanism, SetFamily, SubsetSelection
from adobest_pp.online.rounds import FINAL_DRAWS, next_question, posterior_draws, round_ends

__all__ = ["ask_in_rounds"]


def ask_in_rounds(
    first: SubsetSelection,
    x: NDArray[np.int64],
    rounds: int,
    prior: NDArray[np.float64] | str,
    categories: tuple[str, ...],
    seed: np.random.SeedSequence,
    progressbar: bool,
) -> tuple[Responses, NDArray[np.int32], NDArray[np.int64], NDArray[np.float64], dict[str, Any]]:
    """Ask everybody; return responses, sizes of the answered sets, ends of rounds, posterior means, and a record."""
    answer_seed, *fit_seeds = seed.spawn(rounds + 1)
    rng = np.random.default_rng(answer_seed)
    ends = round_ends(x.size, rounds)
    mechanism: Mechanism = first
    parts: list[Responses] = []
    means: list[NDArray[np.float64]] = []
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
            sizes.append(_sizes(mechanism, answers))
            progress.advance(int(end - begin))
    responses = concat(parts, allow_copies=True)
    theta = posterior_draws(responses, prior, int(fit_seeds[len(means)].generate_state(1)[0]), FINAL_DRAWS)
    means.append(theta.mean(axis=0))
    told = {"questions": record, "variance": float(np.trace(np.cov(theta.T)))}
    return responses, np.concatenate(sizes), ends, np.array(means), told


def _sizes(mechanism: Mechanism, answers: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return how many categories are in the set of each answer."""
    if isinstance(mechanism, SetFamily):
        return np.array([len(members) for members in mechanism.sets], dtype=np.int32)[answers]
    return np.full(len(answers), answers.shape[1], dtype=np.int32)
