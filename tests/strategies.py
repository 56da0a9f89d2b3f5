"""What hypothesis draws: mechanisms, subsets and simulated responses."""

import numpy as np
import pytest
from hypothesis import strategies as st

from adobest_pp import RRRR, SRR, Responses, SubsetSelection
from adobest_pp.mechanisms import base

epsilons = st.floats(0.01, 8.0)
kappas = st.floats(0.01, 1.0)


@st.composite
def rrrr_with_subset(draw, max_categories=8):
    """An RRRR mechanism and a subset of at most K−1 categories."""
    k = draw(st.integers(2, max_categories))
    mechanism = RRRR(k, draw(epsilons), draw(kappas))
    subset = draw(st.sets(st.integers(0, k - 1), max_size=k - 1))
    return mechanism, sorted(subset)


def simulated(mechanism, n, seed):
    """Responses of n simulated people, RRRR under subsets of a small random pool."""
    rng = np.random.default_rng(seed)
    k = mechanism.n_categories
    theta = rng.dirichlet(np.ones(k))
    x = rng.choice(k, size=n, p=theta)
    responses = Responses(mechanism)
    if not mechanism.publishes_subset:
        responses.append(mechanism.privatize(x, rng=rng))
        return responses
    pool = [rng.choice(k, size=rng.integers(0, k), replace=False) for _ in range(4)]
    for person in x:
        subset = pool[rng.integers(4)]
        responses.append(mechanism.privatize(person, subset=subset, rng=rng), subset)
    return responses


def evidence_of(responses, structured):
    """Return evidence whose sets are only numbered, or all listed, whatever their sizes; and the row of each answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "FEW_ENTRIES", 0 if structured else np.inf)
        return responses.evidence_and_index()


@st.composite
def data_sets(draw, max_epsilon=5.0, max_categories=7):
    """Responses of any mechanism, from none to some dozens."""
    k = draw(st.integers(2, max_categories))
    epsilon = draw(st.floats(0.01, max_epsilon))
    kind = draw(st.sampled_from(["srr", "rrrr", "subset"]))
    if kind == "srr":
        mechanism = SRR(k, epsilon)
    elif kind == "rrrr":
        mechanism = RRRR(k, epsilon, draw(kappas))
    else:
        mechanism = SubsetSelection(k, epsilon, draw(st.integers(1, k - 1)))
    return simulated(mechanism, draw(st.integers(0, 40)), draw(st.integers(0, 2**32)))
