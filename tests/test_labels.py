"""Labels stay with their values, whatever order things come in; and labels that look alike are refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from adobest_pp import RRRR, SRR, Responses, SubsetSelection
from adobest_pp._checks import check_prior, check_probabilities
from adobest_pp._labels import appearance
from tests.strategies import data_sets, simulated

NAMES = ("red", "green", "blue")


def named(responses, seed):
    """The same responses with labels whose alphabetical order is not theirs."""
    labels = [f"label {i}" for i in np.random.default_rng(seed).permutation(responses.n_categories)]
    tables = {}
    if isinstance(responses.mechanism, RRRR):
        tables = {"subsets": responses.subsets, "subset_index": responses.subset_index}
    return Responses.from_arrays(responses.mechanism, responses.answers, categories=labels, **tables)


# ---------------------------------------------------------------- datasets
@given(data_sets(), st.integers(0, 2**32))
def test_a_dataset_in_any_order_gives_the_same_evidence_under_the_same_names(responses, seed):
    rng = np.random.default_rng(seed)
    before = named(responses, seed)
    dataset = before.to_xarray()
    shuffled = dataset.isel({dim: rng.permutation(size) for dim, size in dataset.sizes.items() if dim != "member"})
    for after in (shuffled, dataset.sortby("category"), shuffled.transpose()):
        again = Responses.from_xarray(after)
        assert again.categories == before.categories
        assert again.evidence() == before.evidence()


@pytest.mark.parametrize("mechanism", [SRR(3, 1.0), RRRR(3, 1.0), SubsetSelection(3, 1.0, 2)])
@pytest.mark.parametrize("kept", [[0, 1], [0, 1, 1], [0, 1, 2, 0]])
def test_a_dataset_without_some_of_the_categories_is_refused(mechanism, kept):
    dataset = simulated(mechanism, 20, 1).to_xarray()
    with pytest.raises(ValueError, match="must hold all 3 of its category codes, each once"):
        Responses.from_xarray(dataset.isel(category=kept))


def test_a_dataset_without_a_subset_that_was_published_is_refused():
    responses = Responses(RRRR(3, 1.0))
    responses.append([0, 1], subset=[0])
    responses.append([1, 2], subset=[1])
    dataset = responses.to_xarray()
    with pytest.raises(ValueError, match="every subset that its answers were given under"):
        Responses.from_xarray(dataset.isel(subset=[1]))
    with pytest.raises(ValueError, match="every subset that its answers were given under"):
        Responses.from_xarray(dataset.isel(subset=[0, 1, 1]))
    some = Responses.from_xarray(dataset.isel(response=[3, 2], subset=[1]))
    assert some.answers.tolist() == [2, 1]
    assert some.subsets.tolist() == [[False, True, False]]


# ---------------------------------------------------------------- labelled arguments
def labelled(values, order):
    labels = [NAMES[i] for i in order]
    array = np.asarray(values)[list(order)]
    return [xr.DataArray(array, coords={"category": labels}, dims="category"), pd.Series(array, index=labels)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_labelled_vectors_are_brought_to_the_order_of_the_categories(order):
    theta, prior = [0.5, 0.3, 0.2], [1.0, 2.0, 3.0]
    for vector in labelled(theta, order):
        np.testing.assert_array_equal(check_probabilities(vector, 3, categories=NAMES), theta)
    for vector in labelled(prior, order):
        np.testing.assert_array_equal(check_prior(vector, 3, NAMES), prior)
    for mask in labelled([True, False, False], order):
        responses = Responses(RRRR(3, 1.0), NAMES)
        responses.append([0], subset=mask)
        assert responses.subsets.tolist() == [[True, False, False]]
        assert responses.find_subset(mask) == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_labelled_tables_of_subsets_are_brought_to_the_order_of_the_categories(order):
    masks = np.array([[True, False, False], [False, True, True]])
    labels = [NAMES[i] for i in order]
    frame = pd.DataFrame(masks[:, list(order)], columns=labels)
    array = xr.DataArray(masks[:, list(order)].T, coords={"category": labels}, dims=("category", "subset"))
    for table in (frame, array):
        responses = Responses.from_arrays(RRRR(3, 1.0), [0, 2], table, [0, 1], NAMES)
        np.testing.assert_array_equal(responses.subsets, masks)


def test_labels_that_are_not_the_categories_are_refused():
    for vector in labelled([0.5, 0.3, 0.2], (0, 1, 2)):
        with pytest.raises(ValueError, match=r"theta must have the labels \['red', 'green', 'white'\]"):
            check_probabilities(vector, 3, categories=("red", "green", "white"))
        with pytest.raises(ValueError, match="theta must come without labels here"):
            check_probabilities(vector, 3)
    # Positions are no labels.
    np.testing.assert_array_equal(check_probabilities(pd.Series([0.5, 0.3, 0.2]), 3, categories=NAMES), [0.5, 0.3, 0.2])
    np.testing.assert_array_equal(check_prior(xr.DataArray([1.0, 2.0, 3.0]), 3, NAMES), [1, 2, 3])


# ---------------------------------------------------------------- labels
@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a "],
        ["a", "\u200ba"],
        ["a\u00a0b", "a b"],
        ["a  b", "a b"],
        ["\u00e9", "e\u0301"],
        ["a", "a\ufe0f"],
        ["a\u00ad", "a"],
        ["a", ""],
        ["a", " "],
        ["a", "\u200b"],
        ["a", " b"],
        ["a", "b\n"],
        ["a", "b\0"],
        ["a", "b\ud800"],
        ["a", None],
        ["a", float("nan")],
        ["a", b"b"],
        [["a"], "b"],
        {"a": 1, "b": 2},
        b"ab",
    ],
)
def test_labels_that_a_reader_could_not_tell_apart_or_see_are_refused(labels):
    with pytest.raises(ValueError, match="categories must be 2 distinct labels in a fixed order, got ") as caught:
        Responses(SRR(2, 1.0), labels)
    assert str(caught.value).isprintable()


def test_labels_that_only_resemble_each_other_are_taken():
    for pair in (["a", "A"], ["2", "²"], ["中", "国"], ["a b", "ab"], ["é", "e"], [0, 1], [np.int64(0), np.str_("x")]):
        assert Responses(SRR(2, 1.0), pair).categories == tuple(map(str, pair))


@given(st.text(), st.text())
def test_what_is_accepted_looks_different_and_comes_back(first, second):
    try:
        responses = Responses(SRR(2, 1.0), [first, second])
    except ValueError:
        return
    assert responses.categories == (first, second)
    assert appearance(first) != appearance(second)
    assert Responses.from_xarray(responses.to_xarray()).categories == (first, second)
