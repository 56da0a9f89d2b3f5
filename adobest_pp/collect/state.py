"""The state of a collection's sampler in its file: written as JSON, and checked when it is read."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer, check_subset
from adobest_pp._text import brief
from adobest_pp.adaptive.hamiltonian import ExactState
from adobest_pp.adaptive.loop import Chain
from adobest_pp.answers.response_files import Stored
from adobest_pp.design import UTILITY_CODES, Utility
from adobest_pp.samplers.sgld.settings import schedule_from_settings

if TYPE_CHECKING:
    from adobest_pp.collect.adaptive_collector import AdaptiveCollector

__all__ = ["check_own_utility", "check_state", "people_of", "read_json", "rebuild", "restore_chain", "store_chain"]


# The settings that a collector is built from again, beside its mechanism and its schedule.
SETTINGS = ("prior", "updates", "batch_size", "adapt_every", "sampler", "alpha")

_WORD = 2**64
_COUNT = 2**62


def rebuild(kind: type["AdaptiveCollector"], stored: Stored, utility: Utility | None) -> "AdaptiveCollector":
    """Return the collector of a file, as it was after the last event of its journal."""
    responses, attributes, tail = stored
    settings = read_json(attributes, "collector_settings")
    collector = kind(
        responses.mechanism,  # type: ignore[arg-type]
        utility or settings.get("utility", ""),
        schedule=schedule_from_settings(settings.get("schedule", {})),
        categories=responses.categories,
        **{name: settings[name] for name in SETTINGS if name in settings},
    )
    collector._responses = responses
    answers, index, subsets = responses.answers, responses.subset_index, responses.subsets
    # A run of answers under one subset at a time, in the order they came.
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    for start, part in zip(starts, np.split(answers, starts[1:]), strict=False):
        collector._add_records(part, subsets[index[start]], int(index[start]))
    state = check_state(read_json(attributes, "collector_state"), collector._chain)
    for event in tail.events if tail is not None else []:
        if "adapted" in event:
            state = check_state(event["adapted"], collector._chain)
        else:
            state["waiting"] += len(event.get("answers", []))
    if state.get("learned", -1) > len(responses):
        raise ValueError(f"learned must be at most the number of answers, {len(responses)}, got {state['learned']}")
    collector._restore(state)
    collector._people = people_of(stored)
    return collector


def people_of(stored: Stored) -> dict[str, Any] | None:
    """Return what a collection knows of its file of people after the last event, or None if it is of no such file."""
    if "collector_people" not in stored.attributes:
        return None
    people = read_json(stored.attributes, "collector_people")
    for event in stored.tail.events if stored.tail is not None else []:
        if "answers" not in event:
            continue
        if "asked" not in people or event.get("person") != people["asked"]:
            return None  # an answer of somebody else: it is unknown whose turn it is
        people = people | {"asked": people["asked"] + 1}
    return people


def check_own_utility(attributes: Mapping[str, Any], utility: Any, file: str) -> None:
    """Raise ValueError unless `utility` is the user's own that a file names, or None where it names one of ours."""
    if not isinstance(utility, Utility | None):
        raise ValueError(f"utility must be a Utility or None, got {brief(utility)}")
    try:
        named = read_json(attributes, "collector_settings").get("utility")
    except ValueError:
        return  # `rebuild` tells what is wrong
    own = named if isinstance(named, str) and named not in UTILITY_CODES else None
    given = None if utility is None else utility.name
    if own != given:
        raise ValueError(f"utility must be the one that {file!r} was made with, {brief(own)}, got {brief(given)}")


def read_json(attributes: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping in an attribute, or raise ValueError."""
    try:
        value = json.loads(attributes[name])
    except (KeyError, TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"the attribute {name!r} must be a JSON object")
    return value


def store_chain(chain: Chain) -> dict[str, Any]:
    """Return the state of the sampler as plain values."""
    return {
        "generator": [int(word) for word in chain.state],
        "phi": chain.phi.tolist(),
        "order": chain.order.tolist(),
        **_store_work(chain.work),
    }


def _store_work(work: Any) -> dict[str, Any]:
    """Return what a sampler keeps beside φ."""
    if isinstance(work, ExactState):
        return {"center": work.center.tolist()}
    return {}


def restore_chain(chain: Chain, state: Mapping[str, Any]) -> None:
    """Bring the sampler back to a state that `check_state` returned."""
    chain.state[:] = np.array(state["generator"], dtype=np.uint64)
    chain.phi[:] = state["phi"]
    chain.order[:] = state["order"]
    if isinstance(chain.work, ExactState):
        chain.work.center[:] = state["center"]


def check_state(state: Any, chain: Chain) -> dict[str, Any]:
    """Return the stored state of a collector whose sampler is `chain`, or raise ValueError if it does not fit."""
    if not isinstance(state, Mapping):
        raise ValueError("the state of the sampler must be a JSON object")
    k = chain.phi.size
    words = _words(state.get("generator"))
    phi = _numbers(state.get("phi"), "phi", k)
    if not (phi >= 0).all() or not 0 < phi.sum() < np.inf:
        raise ValueError(f"phi must be {k} numbers of at least 0 that are not all zero")
    order = state.get("order")
    if not isinstance(order, list) or any(type(i) is not int for i in order) or sorted(order) != list(range(k)):
        raise ValueError(f"order must have each of the {k} categories once")
    published = state.get("published")
    if published is not None:
        published = np.flatnonzero(check_subset(published, k)).tolist()
    return {
        "generator": words,
        "phi": phi.tolist(),
        "order": order,
        **_check_work(state, chain.work, k),
        "published": published,
        "rounds": check_integer(state.get("rounds"), "rounds", 0, _COUNT),
        "waiting": check_integer(state.get("waiting"), "waiting", 0, _COUNT),
    }


def _check_work(state: Mapping[str, Any], work: Any, k: int) -> dict[str, Any]:
    """Return what `_store_work` wrote, or raise ValueError."""
    if isinstance(work, ExactState):
        return {"center": _numbers(state.get("center"), "center", k).tolist()}
    return {}


def _words(words: Any) -> list[int]:
    """Return the state of a generator, or raise ValueError."""
    if not isinstance(words, list) or len(words) != 4 or not any(words):
        raise ValueError("the generator's state must be 4 integers that are not all zero")
    return [check_integer(word, "the generator's state", 0, _WORD - 1) for word in words]


def _numbers(values: Any, name: str, size: int) -> NDArray[np.float64]:
    refusal = ValueError(f"{name} must be {size} finite numbers")
    if not isinstance(values, list) or len(values) != size or any(type(v) not in (int, float) for v in values):
        raise refusal
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        raise refusal from None
    if not np.isfinite(array).all():
        raise refusal
    return array
