"""Bad input is refused with one sentence, and private categories never show in it."""

import dataclasses
import json
import math
import traceback

import numpy as np
import pytest

from adobest_pp import RRRR, SRR, HadamardResponse, SubsetSelection, UnaryEncoding
from adobest_pp.mechanisms import mechanism_from_settings
from tests.refusals import refuses

KINDS = [SRR, RRRR, SubsetSelection]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 0, -3, 10**6 + 1, 10**30, 2.5, 3.0, "4", None, True, math.nan])
def test_the_number_of_categories(kind, k):
    with refuses("n_categories"):
        kind(k, 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, 31, 1e308, "1", None, True, 1j, 10**400])
def test_epsilon(kind, epsilon):
    with refuses("epsilon"):
        kind(3, epsilon)


@pytest.mark.parametrize("kappa", [0, -0.1, 1.0001, math.nan, math.inf, "0.5", None, True])
def test_kappa(kappa):
    with refuses("kappa"):
        RRRR(3, 1.0, kappa)


@pytest.mark.parametrize("size", [0, 5, -1, 2.0, "2", True])
def test_the_size_of_a_selected_subset(size):
    with refuses("size"):
        SubsetSelection(5, 1.0, size)


@pytest.mark.parametrize(
    "subset", [[5], [-1], [0, 0], [0.0], "ab", [True, False], [[0, 1]], 3, None, [0, None], [math.nan], [[0], [1, 2]]]
)
def test_subsets(subset):
    mechanism = RRRR(5, 1.0)
    for call in (mechanism.transition_matrix, lambda s: mechanism.privatize(0, subset=s), mechanism.exact_weights):
        with pytest.raises(
            ValueError, match=r"subset must be distinct category indices from 0 to 4, or a boolean mask"
        ):
            call(subset)


@pytest.mark.parametrize("kind", [*KINDS, HadamardResponse, UnaryEncoding])
@pytest.mark.parametrize(
    "theta", [[0.5, 0.5], [math.nan] * 3, [1.2, -0.1, -0.1], [0, 0, 0], "abc", [[0.5, 0.3, 0.2]], None]
)
def test_shares(kind, theta):
    options = {"subset": [0]} if kind is RRRR else {}
    for call in (kind(3, 1.0).information, kind(3, 1.0).best_guess):
        with refuses("theta"):
            call(theta, **options)
    given = kind(3, 1.0).information(np.array([0.5, 0.3, 0.2]), **options)
    np.testing.assert_array_equal(kind(3, 1.0).information([0.5, 0.3, 0.2], **options), given)


@pytest.mark.parametrize("size", [-1, 5, 1.0, "1", None])
def test_the_size_that_epsilon2_belongs_to(size):
    with refuses("size"):
        RRRR(5, 1.0).epsilon2(size)


@pytest.mark.parametrize(
    ("epsilon1", "epsilon2"),
    [(-1, 1), (1, -1), (math.nan, 1), (1, [1, 1]), (1, [1, 1, math.inf]), (1, "111"), (1, None)],
)
def test_budgets(epsilon1, epsilon2):
    with pytest.raises(ValueError, match=r"epsilon[12] must be "):
        RRRR.from_budgets(3, epsilon1, epsilon2)


SECRET = 73519


@pytest.mark.parametrize(
    "x",
    [
        SECRET,
        -SECRET,
        [0, SECRET],
        float(SECRET),
        math.nan,
        str(SECRET),
        [str(SECRET)],
        [[0], [0, SECRET]],
        SECRET + 0.5,
        np.array([0, SECRET], dtype=object),
        {SECRET: 1},
        None,
        True,
        10**30 + SECRET,
        np.datetime64(SECRET, "D"),
    ],
)
def test_private_categories_are_refused_and_not_shown(x):
    for call in (
        lambda: SRR(4, 1.0).privatize(x),
        lambda: RRRR(4, 1.0).privatize(x, subset=[0]),
        lambda: SubsetSelection(4, 1.0).privatize(x),
    ):
        with refuses("x") as caught:
            call()
        # The traceback holds the source line, not values; what Python would print must not hold x either.
        assert str(SECRET) not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("x", [-1, 4, [0, -1], np.ma.masked_array([0, 1], [False, True])])
def test_the_nearest_wrong_categories_are_refused_too(x):
    for call in (
        SRR(4, 1.0).privatize,
        SubsetSelection(4, 1.0).privatize,
        lambda x: RRRR(4, 1.0).privatize(x, subset=[0]),
    ):
        with refuses("x"):
            call(x)


@pytest.mark.parametrize(
    "value", [np.complex128(1 + 2j), np.array("1"), bytearray(b"1"), np.array(True), np.array(1.0)]
)
def test_what_only_looks_like_a_number_is_refused(value):
    with refuses("epsilon"):
        SRR(3, value)


def test_a_copy_cannot_claim_another_loss():
    mechanism = RRRR.from_budgets(10, 5.0, 5.0)
    assert dataclasses.replace(mechanism, epsilon=0.1).epsilon == mechanism.epsilon


def test_the_probabilities_of_a_mechanism_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        RRRR(4, 1.0).coefficients.inner[:] = 0


def test_a_mechanism_remembers_nothing_of_x():
    mechanism = RRRR(100_000, 1.0)
    mechanism.privatize(SECRET, subset=[0])
    assert str(SECRET) not in repr(mechanism)
    assert all(
        name.startswith("_") or name in ("n_categories", "epsilon", "kappa", "epsilon1") for name in vars(mechanism)
    )


def test_settings_are_plain_values_whatever_numbers_were_given():
    three, half = np.int64(3), np.float32(0.5)
    for mechanism in (SRR(three, half), RRRR(three, half, half), SubsetSelection(three, half, np.int8(1))):
        assert mechanism_from_settings(json.loads(json.dumps(mechanism.settings()))) == mechanism
        assert {type(value) for value in mechanism.settings().values()} <= {str, int, float}


def test_settings_build_an_equal_mechanism():
    for mechanism in (SRR(3, 0.5), RRRR(4, 1.0, 0.7), SubsetSelection(6, 1.0), RRRR.from_budgets(3, 1.0, [1, 0.5, 0])):
        assert mechanism_from_settings(mechanism.settings()) == mechanism
    with refuses("mechanism"):
        mechanism_from_settings({"mechanism": "Laplace"})
    with pytest.raises(ValueError, match="must include 'epsilon'"):
        mechanism_from_settings({"mechanism": "SRR", "n_categories": 3})
    for settings in (None, "SRR", [("mechanism", "SRR")]):
        with refuses("settings"):
            mechanism_from_settings(settings)


def test_a_subset_that_is_not_asked_for_is_shown_in_one_line():
    with refuses("subset"):
        SRR(3, 1.0).privatize(0, subset=np.zeros((50, 50)))
