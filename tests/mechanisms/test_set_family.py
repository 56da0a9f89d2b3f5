"""Families of sets: the definition, weights that are rounded, and families that are not balanced."""

import math
import re
from itertools import combinations

import numpy as np
import pytest

from adobest_pp import SetFamily, SubsetSelection, audit, privacy_loss
from tests.mechanisms.harness import check_mechanism

PAIRS = list(combinations(range(4), 2))


def test_it_is_what_it_says():
    # All pairs with weight 2 and all triples with weight 1: every category has 3·2 + 3·1.
    sets = [*PAIRS, *combinations(range(4), 3)]
    weights = [2] * 6 + [1] * 4
    odds = math.exp(1.1)
    total = sum(weight * (odds if 0 in members else 1) for members, weight in zip(sets, weights, strict=True))

    def definition(answer, x):
        return weights[answer[0]] * (odds if x in sets[answer[0]] else 1) / total

    check_mechanism(SetFamily(sets, weights, 1.1), definition)


def test_subset_selection_is_a_family():
    family, selection = SetFamily(PAIRS, [1.0] * 6, 1.0), SubsetSelection(4, 1.0, size=2)
    np.testing.assert_allclose(family.transition_matrix(), selection.transition_matrix(), rtol=1e-12)


def test_masks_and_indices_are_the_same_family():
    masks = np.array([[i in pair for i in range(4)] for pair in PAIRS])
    assert SetFamily(masks, [1] * 6, 1.0) == SetFamily(PAIRS, [7] * 6, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_rounded_weights_keep_the_promise_exactly(seed):
    """Weights that balance only in floating point: the odds are lowered by as much as exact arithmetic asks for."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3))
    # Each way to split four categories into two pairs has weights of its own: balanced, but for rounding.
    sets = [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)]
    weights = np.repeat(shares, 2) * (1 + rng.uniform(-1, 1, 6) * 2**-40)
    family = SetFamily(sets, weights, 1.0)
    result = audit(family)
    assert result.holds
    assert 0 <= result.slack < 1e-11
    assert family.log_odds <= 1.0


@pytest.mark.parametrize(
    ("sets", "weights", "message"),
    [
        (PAIRS, [1, 1, 1, 1, 1, 2], "weights must have .* 0.571429"),
        (PAIRS, [1] * 5, "weights must be 6 positive numbers"),
        (PAIRS, [1, 1, 1, 1, 1, 0], "weights must be 6 positive numbers"),
        (PAIRS, [1.0, 1, 1, 1, 1, np.nan], "weights must be 6 positive numbers"),
        (PAIRS, "111111", "weights must be 6 positive numbers"),
        ([(0, 1), (0, 1)], [1, 1], "sets must be"),
        ([(0, 0), (1, 1)], [1, 1], "distinct category indices"),
        ([(0, -1)], [1], "distinct category indices"),
        ([], [], "sets must be"),
        (3, [1], "sets must be"),
        ([[True, False], [False, True, True]], [1, 1], "sets must be masks"),
        ([[True, False], [1]], [1, 1], "sets must be .* not both"),
        ([[True, False], [0, 1]], [1, 1], "sets must be .* not both"),
        ([[], [True, True]], [1, 1], "sets must be .* not both"),
        ([(0,)], [1], "n_categories must be an integer from 2"),
        ([(0,), (3,)], [1, 1], "sets must .* got none with category 1"),
        ([(0,), (999_999,)] + [(x, 999_998) for x in range(9000)], [1] * 9002, "got none with category 9000"),
        (PAIRS, [1 << 129] * 6, r"weights must be below 2\^128, got one of 130 bits"),
        ([[[0]], [[1]]], [1, 1], "sets must be"),
        ([[0.5], [1]], [1, 1], "sets must be"),
    ],
)
def test_bad_families(sets, weights, message):
    with pytest.raises(ValueError, match=message):
        SetFamily(sets, weights, 1.0)


def test_the_loss_of_an_unbalanced_family_is_that_of_its_matrix():
    """From the definition, for random sets and weights."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        masks = np.unique(rng.random((6, 5)) < 0.5, axis=0)
        masks[0] |= ~masks.any(axis=0)  # every category is in some set
        masks = np.unique(masks, axis=0)
        weights = rng.integers(1, 9, size=len(masks))
        matrix = weights[:, None] * np.where(masks, math.e, 1.0)
        loss = privacy_loss(matrix / matrix.sum(axis=0))
        if len({*(masks.T @ weights)}) > 1:
            with pytest.raises(ValueError, match=re.escape(f"would be {loss:.6g}, above")):
                SetFamily(masks, weights, 1.0)


def test_a_subclass_is_audited_by_the_weights_that_it_draws_against():
    class TooHonest(SetFamily):
        def exact_weights(self):
            weights = super().exact_weights()
            weights[self._masks] *= 2
            return weights

    family = TooHonest(PAIRS, [1] * 6, 1.0)
    assert not audit(family).holds
    assert audit(family).loss == pytest.approx(1 + math.log(2))
