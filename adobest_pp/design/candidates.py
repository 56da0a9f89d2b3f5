"""What a plan chooses from: mechanisms by name at a given ε and θ, and the half-widths that many answers tend to."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp.design.optimal import optimal_mechanism
from adobest_pp.design.set_program import sum_zero_basis
from adobest_pp.design.subsets import select_subset
from adobest_pp.mechanisms import Mechanism, build_mechanism, find_mechanism
from adobest_pp.mechanisms.registry import is_built_from, plain_name
from adobest_pp.mechanisms.set_family import SetFamily

__all__ = ["DESIGN", "PLANNED", "SHAPES", "Candidate", "candidate", "check_names", "shape", "unit_half_widths"]

DESIGN = "design"
# The simplest come first: of several that do as well as the best, the first is recommended.
PLANNED = ("srr", "subset-selection", "hadamard-response", "unary-encoding", "local-hashing", "rrrr", DESIGN)
SHAPES = ("even", "uneven", "sparse")
# Half of a 95 % interval, in standard deviations.
DEVIATIONS = 1.959963984540054


@dataclass(frozen=True)
class Candidate:
    """A mechanism that a plan may choose, and the subset that it would publish, where it publishes one."""

    name: str
    mechanism: Mechanism
    subset: NDArray[np.int64] | None = None


def shape(name: str, n_categories: int) -> NDArray[np.float64]:
    """Return a named example of θ with K categories, in falling order.

    ``"even"``: all shares are 1/K. ``"uneven"``: they fall as 1, 1/2, 1/3, … ``"sparse"``: a fifth of the categories
    (at least one) hold 90 %, the others 10 %.
    """
    k = n_categories
    if name == "even":
        return np.full(k, 1 / k)
    if name == "uneven":
        falling = 1 / np.arange(1, k + 1)
        return np.asarray(falling / falling.sum())
    large = math.ceil(k / 5)
    return np.where(np.arange(k) < large, 0.9 / large, 0.1 / (k - large))


def check_names(names: object) -> tuple[str, ...]:
    """Return names of mechanisms that K and ε are enough to build, each once, or raise ValueError."""
    allowed = f"one or more of {', '.join(PLANNED)}, or a mechanism of your own that n_categories and epsilon build"
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, list | tuple) or not given or not all(isinstance(name, str) for name in given):
        raise ValueError(f"mechanisms must be {allowed}, got {brief(names)}")
    found = [_known(name, allowed) for name in given]
    return tuple(dict.fromkeys(found))


def _known(name: str, allowed: str) -> str:
    for known in PLANNED:
        if plain_name(known) == plain_name(name):
            return known
    try:
        mechanism = find_mechanism(name)
    except ValueError:
        raise ValueError(f"mechanisms must be {allowed}, got {brief(name)}") from None
    if mechanism.publishes_subset or not is_built_from(name, "n_categories", "epsilon"):
        raise ValueError(f"mechanisms must be {allowed}, got {brief(name)}")
    return name


def candidate(name: str, theta: NDArray[np.float64], epsilon: float, before: Candidate | None = None) -> Candidate:
    """Return the mechanism of this name at ε; where it suits θ, `before` at a similar ε is where to begin.

    ``"rrrr"`` publishes the subset that −Tr F⁻¹ chooses at θ, to which an adaptive collection tends; where that is
    empty, it is SRR.
    """
    if name == DESIGN:
        start = before.mechanism if before is not None and isinstance(before.mechanism, SetFamily) else None
        return Candidate(name, optimal_mechanism(theta, epsilon, start=start).mechanism)
    mechanism = build_mechanism(name, n_categories=theta.size, epsilon=epsilon)
    if not mechanism.publishes_subset:
        return Candidate(name, mechanism)
    subset = select_subset(theta, mechanism, "fisher")  # type: ignore[arg-type]
    if not subset.size:
        return Candidate(name, build_mechanism("srr", n_categories=theta.size, epsilon=epsilon))
    return Candidate(name, mechanism, np.asarray(subset))


def unit_half_widths(one: Candidate, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return √n times the half-widths that n answers tend to, by category, of the intervals of `intervals.summary`.

    1.96 √(B (BᵀFB)⁻¹ Bᵀ)ᵢᵢ, or for mechanisms whose counts tell the shares, by the variance of the counts.
    """
    from adobest_pp.likelihood.direct import counts_say_all

    naming = one.mechanism.naming()
    if naming is not None and counts_say_all(one.mechanism):
        truth, other = naming
        h = other + (truth - other) * theta
        return np.asarray(DEVIATIONS * np.sqrt(h * (1 - h)) / (truth - other))
    basis = sum_zero_basis(theta.size)
    information = basis.T @ one.mechanism.information(theta, subset=one.subset) @ basis
    values, vectors = np.linalg.eigh((information + information.T) / 2)
    if values[0] <= 1e-12 * values[-1]:
        return np.full(theta.size, np.inf)
    return np.asarray(DEVIATIONS * np.sqrt(np.sum((basis @ vectors) ** 2 / values, axis=1)))
