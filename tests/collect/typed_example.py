"""The calls that docs/howto/ask.md recommends, with their types: `mypy --strict` finds nothing in this file."""

import os
from collections.abc import Sequence

import xarray as xr

import adobest_pp as ad
from adobest_pp.collect.policies import Policy

POLICIES: list[Policy] = [
    ad.SameQuestion(ad.SRR(4, epsilon=1.0)),
    ad.AdaptiveSubset(ad.RRRR(4, epsilon=1.0), "honest"),
    ad.Rounds(ad.SubsetSelection(4, epsilon=1.0), n_people=1000),
]


def collect(path: str | os.PathLike[str], policy: Policy, values: Sequence[int]) -> xr.Dataset:
    """Ask some people, stop, go on, and estimate."""
    names = ["red", "green", "blue", "none"]
    with ad.Collection.create(path, policy=policy, categories=names, random_seed=1) as collection:
        for x in values:
            question = collection.next_question()
            collection.record(question.privatize(x), question)
    again: ad.Collection = ad.Collection.open(path)
    responses: ad.Responses = again.responses
    assert len(responses) == len(ad.Responses.read(path)) == len(values)
    estimate: xr.Dataset = again.estimate(draws=50)
    again.close()
    return estimate
