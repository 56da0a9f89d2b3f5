"""Frequencies of categories when some people do not follow the instructions.

Use it when some devices or people may not run the mechanism: they answer at random, or always the same (the harmless
category, say). Their share is one more unknown. One mechanism with one budget cannot distinguish them from others:
random answers look like a more even θ, and equal ones like a larger share. Two budgets can, because only the answers of
those who comply depend on the budget. So give people one of two budgets at random, and combine both with
`adobest_pp.concat`. Privacy is not affected: people who comply are protected as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import NDArray

import adobest_pp as ad
from adobest_pp._text import brief
from adobest_pp.mechanisms import FiniteMechanism, Mixed, mechanism_from_settings, register

REFUSES = "does not comply"


@register
@dataclass(frozen=True)
class WithNoncompliance(FiniteMechanism):
    """A mechanism with integer weights, and one category more: people who answer at random, or always `always`."""

    complied: Any
    always: int | None = None
    n_categories: int = field(init=False)
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_categories", self.complied.n_categories + 1)
        object.__setattr__(self, "epsilon", self.complied.epsilon)

    def exact_weights(self) -> NDArray[np.object_]:
        """Append a column to the weights: equal, or all on one answer."""
        weights = self.complied.exact_weights()
        column = np.array([[int(self.always in (None, y))] for y in range(len(weights))], dtype=object)
        return np.hstack([weights, column])

    def settings(self) -> dict[str, Any]:
        """Return plain values that build an equal mechanism."""
        return {"mechanism": type(self).__name__, "complied": self.complied.settings(), "always": self.always}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "WithNoncompliance":
        """Build it from `settings`."""
        return cls(mechanism_from_settings(settings["complied"]), settings["always"])


def extended(responses: ad.Responses, always: str | None) -> ad.Responses:
    """Return the same answers with one category more, of people who do not comply."""
    if always is not None and always not in responses.categories:
        raise ValueError(f"always must be None or among {brief(list(responses.categories))}, got {brief(always)}")
    number = None if always is None else responses.categories.index(always)
    mechanism, categories = responses.mechanism, [*responses.categories, REFUSES]
    if not isinstance(mechanism, Mixed):
        return ad.Responses.from_arrays(_extended(mechanism, number), responses.answers, categories=categories)
    both = Mixed([_extended(part, number) for part in mechanism.parts])
    return ad.Responses.from_arrays(both, responses.answers, categories=categories)


def _extended(mechanism: ad.mechanisms.Mechanism, always: int | None) -> WithNoncompliance:
    if not hasattr(mechanism, "exact_weights") or mechanism.publishes_subset:
        raise ValueError(f"responses must be of mechanisms with one table of weights, got {brief(mechanism)}")
    return WithNoncompliance(mechanism, always)


def build(responses: ad.Responses, always: str | None = None) -> pm.Model:
    """Return the model: θ of those who comply, flat, and the share of those who do not, with mean 1/6.

    Parameters
    ----------
    responses : Responses
        Best of two budgets, from `adobest_pp.concat`.
    always : str, optional
        The category that people who do not comply always answer; without it they answer at random.
    """
    more = extended(responses, always)
    coords = {"category": responses.categories, "category or not": more.categories}
    with pm.Model(coords=coords) as model:
        theta = pm.Dirichlet("theta", a=np.ones(responses.n_categories), dims="category")
        refused = pm.Beta("refused", 1, 5)
        shares = pm.math.concatenate([(1 - refused) * theta, refused[None]])
        everybody = pm.Deterministic("everybody", shares, dims="category or not")
        ad.PrivateResponse("y", everybody, more, dims="response")
    return model


def simulate(people: int, refused: float, always: str | None, seed: int) -> tuple[ad.Responses, np.ndarray]:
    """Simulate people of whom a share does not comply, half of them asked with ε = 1 and half with ε = 4."""
    rng = np.random.default_rng(seed)
    theta, labels = np.array([0.6, 0.25, 0.1, 0.05]), ["never", "once", "some times", "often"]
    collections = []
    for epsilon in (1.0, 4.0):
        mechanism = ad.SRR(4, epsilon)
        x = rng.choice(4, size=people // 2, p=theta)
        said = rng.integers(4, size=x.size) if always is None else np.full(x.size, labels.index(always))
        answers = np.where(rng.random(x.size) < refused, said, mechanism.privatize(x, rng=rng))
        collections.append(ad.Responses.from_arrays(mechanism, answers, categories=labels))
    return ad.concat(collections), theta


if __name__ == "__main__":
    with build(simulate(20_000, refused=0.15, always="never", seed=1)[0], always="never"):
        trace = pm.sample(random_seed=1)
    print(az.summary(trace, var_names=["theta", "refused"], ci_kind="hdi", ci_prob=0.9))
