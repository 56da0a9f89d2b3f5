"""Labels stay with their values, whatever order things come in; and labels that look alike are refused."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import adobest_pp as ad
from adobest_pp import (
    RRRR,
    SRR,
    Channel,
    HadamardResponse,
    LocalHashing,
    Responses,
    SubsetSelection,
    UnaryEncoding,
    plots,
)
from adobest_pp._checks import check_prior, check_probabilities
from adobest_pp._text import appearance, csv_cell, visible
from adobest_pp.diagnostics import best_subset_frequency, compare, contraction
from tests.refusals import refuses
from tests.strategies import data_sets, simulated

NAMES = ("red", "green", "blue")


def named(responses, seed):
    """The same responses with labels whose alphabetical order is not theirs."""
    labels = [f"label {i}" for i in np.random.default_rng(seed).permutation(responses.n_categories)]
    tables = {}
    if responses.mechanism.publishes_subset:
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


@pytest.mark.parametrize("kind", [UnaryEncoding, LocalHashing, HadamardResponse])
def test_a_dataset_of_any_mechanism_may_be_sorted(kind):
    before = named(simulated(kind(5, 1.0), 30, 1), 2)
    again = Responses.from_xarray(before.to_xarray().sortby("category"))
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
    with pytest.raises(ValueError, match="every subset that was published"):
        Responses.from_xarray(dataset.isel(subset=[1]))
    with pytest.raises(ValueError, match="every subset that was published"):
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


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_labelled_tables_of_subsets_are_brought_to_the_order_of_the_categories(order):
    masks = np.array([[True, False, False], [False, True, True]])
    labels = [NAMES[i] for i in order]
    frame = pd.DataFrame(masks[:, list(order)], columns=labels)
    array = xr.DataArray(masks[:, list(order)].T, coords={"category": labels}, dims=("category", "subset"))
    for table in (frame, array):
        responses = Responses.from_arrays(RRRR(3, 1.0), [0, 2], table, [0, 1], NAMES)
        np.testing.assert_array_equal(responses.subsets, masks)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_labelled_bits_of_unary_encoding_are_brought_to_the_order_of_the_categories(order):
    bits = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]])
    labels, moved, mechanism = [NAMES[i] for i in order], bits[:, list(order)], UnaryEncoding(3, 1.0)
    array = xr.DataArray(moved, coords={"option": labels}, dims=("person", "option"))
    frame = pd.DataFrame(moved, columns=labels, index=["x", "y", "z"])
    for table in (frame, array, array.rename(option="category").T, bits, pd.DataFrame(bits), xr.DataArray(bits)):
        np.testing.assert_array_equal(Responses.from_arrays(mechanism, table, categories=NAMES).answers, bits)
    responses = Responses(mechanism, NAMES)
    for row in (frame.iloc[1], array[1]):
        responses.append(row)
    assert responses.answers.tolist() == [[1, 1, 0]] * 2
    for table in (frame.rename(columns={"red": "white"}), frame.iloc[:, [0, 1, 1]]):
        with refuses("answers"):
            responses.append(table)


def test_a_channel_has_no_labels_to_hold_a_matrix_to():
    matrix = np.array([[0.6, 0.3], [0.4, 0.7]])
    assert Channel(pd.DataFrame(matrix)) == Channel(matrix)
    for labelled_matrix in (
        pd.DataFrame(matrix, columns=["b", "a"]),
        xr.DataArray(matrix, coords={"x": ["b", "a"]}, dims=("y", "x")),
    ):
        with refuses("matrix"):
            Channel(labelled_matrix)


def test_labels_that_are_not_the_categories_are_refused():
    for vector in labelled([0.5, 0.3, 0.2], (0, 1, 2)):
        with refuses("theta"):
            check_probabilities(vector, 3, categories=("red", "green", "white"))
        with refuses("theta"):
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
    with refuses("categories") as caught:
        Responses(SRR(2, 1.0), labels)
    assert str(caught.value).isprintable()


def test_labels_that_only_resemble_each_other_are_taken():
    for pair in (["中", "国"], ["a b", "ab"], ["é", "e"], ["вода", "vodka"], [0, 1], [np.int64(0), np.str_("x")]):
        assert Responses(SRR(2, 1.0), pair).categories == tuple(map(str, pair))


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        (["a", "а"], "'a' and 'а' (Latin and Cyrillic)"),
        (["AB", "ΑΒ"], "'AB' and 'ΑΒ' (Latin and Greek)"),
        (["paypal", "pаypаl"], "'paypal' and 'pаypаl' (Latin and Cyrillic + Latin)"),
        (["yes", "Yes"], "'yes' and 'Yes'"),
        (["2", "²"], "'2' and '²'"),
        (["ﬁn", "fin"], "'ﬁn' and 'fin'"),
    ],
)
def test_labels_that_are_easily_mistaken_for_each_other_are_taken_with_a_warning(pair, named):
    with pytest.warns(UserWarning, match="easily mistaken") as warned:
        assert Responses(SRR(3, 1.0), [*pair, "other"]).categories[:2] == tuple(pair)
    assert [str(each.message) for each in warned] == [
        f"categories {named} are easily mistaken for each other: check that they are really different"
    ]


def test_the_same_warning_is_shown_once(capfd):
    code = "import adobest_pp as ad\nfor _ in range(3): ad.Responses(ad.SRR(2, 1.0), ['yes', 'Yes'])"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert capfd.readouterr().err.count("easily mistaken") == 1


@pytest.mark.parametrize("code", [0x202A, 0x202E, 0x2066, 0x2069])
def test_labels_that_reorder_the_text_behind_them_are_refused(code):
    with pytest.raises(ValueError, match="one with a character that changes the direction of the text: 'b") as caught:
        Responses(SRR(2, 1.0), ["a", f"b{chr(code)}c"])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "code",
    [
        *(0, 0x1B, 0x7F, 0x9B, 0xAD, 0x61C, 0x200B, 0x200E, 0x200F, 0x2060, 0x3164, 0x2800, 0xFEFF, 0xE0041, 0xD800),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ],
)
def test_what_could_deceive_a_reader_is_made_visible(code):
    assert visible(f"a{chr(code)}b") == "a\ufffdb"


def test_what_scripts_need_is_shown_as_it_is():
    for text in ("می‌خواهم", "👩‍👧", "שלום", "é", "²", "a b"):
        assert visible(text) == text


def test_cells_that_a_spreadsheet_would_run_are_quoted():
    for text in ("=cmd|' /C calc'!A0", "+a", "-2+3", "@SUM(1)", "\t=1", "\r=1"):
        assert csv_cell(text) == f"'{text}"
    for text in ("yes", "a=b", "", "1", "-1"):
        assert csv_cell(text) == text


@pytest.mark.filterwarnings("ignore:categories .* are easily mistaken")
@given(st.text(), st.text())
def test_what_is_accepted_looks_different_and_comes_back(first, second):
    try:
        responses = Responses(SRR(2, 1.0), [first, second])
    except ValueError:
        return
    assert responses.categories == (first, second)
    assert appearance(first) != appearance(second)
    assert Responses.from_xarray(responses.to_xarray()).categories == (first, second)


# ---------------------------------------------------------------- diagnostics and figures
@pytest.fixture(scope="module")
def fitted():
    """Uneven answers under names that are not in the order of the alphabet, and draws of their posterior."""
    mechanism = SRR(3, 3.0)
    x = np.repeat([0, 1, 2], [400, 150, 50])
    responses = Responses.from_arrays(mechanism, mechanism.privatize(x, rng=np.random.default_rng(1)), categories=NAMES)
    return responses, ad.sample(responses, "gibbs", draws=200, tune=50, random_seed=1, progressbar=False)


TRUTH = [400 / 600, 150 / 600, 50 / 600]


def shuffled_truth():
    return labelled(TRUTH, (2, 0, 1))


def in_order_of_the_alphabet(tree):
    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    sorted_groups = {name: g.sortby("category") if "category" in g.coords else g for name, g in groups.items()}
    other = xr.DataTree.from_dict(sorted_groups)
    other.attrs = dict(tree.attrs)
    return other


def test_contraction_reads_truth_and_draws_by_label(fitted):
    _, tree = fitted
    expected = contraction({"gibbs": {600: tree}}, TRUTH)
    for truth in (TRUTH, *shuffled_truth()):
        for trees in ({600: tree}, {600: [tree]}):
            xr.testing.assert_equal(contraction({"gibbs": trees}, truth), expected)
    other = in_order_of_the_alphabet(tree)
    assert other["posterior"]["category"].values.tolist() == sorted(NAMES)
    for truth in shuffled_truth():
        xr.testing.assert_allclose(contraction({"gibbs": {600: other}}, truth), expected)
    # One label after the other: the second tree is read in the order of the first.
    both = contraction({"a": {600: tree}, "b": {600: other}}, TRUTH)
    np.testing.assert_allclose(both.error.sel(label="a"), both.error.sel(label="b"))
    np.testing.assert_allclose(both.bvm.sel(label="a"), both.bvm.sel(label="b"))


def test_compare_reads_truth_and_draws_by_label(fitted):
    _, tree = fitted
    expected = compare({"a": tree, "b": tree}, "a", TRUTH, resamples=9)
    for truth in shuffled_truth():
        again = compare({"a": tree, "b": in_order_of_the_alphabet(tree)}, "a", truth, resamples=9)
        for name in ("tv_truth", "coverage", "mean"):
            np.testing.assert_allclose(again[name], expected[name])
    with refuses("truth"):
        compare({"a": tree}, "a", pd.Series(TRUTH, index=["x", "y", "z"]))


def test_estimates_are_drawn_by_label_and_unknown_ones_refused(fitted):
    _, tree = fitted
    for truth in (TRUTH, *shuffled_truth()):
        axes = plots.plot_estimates({"a": tree, "b": in_order_of_the_alphabet(tree)}, truth)
        assert [text.get_text() for text in axes.get_yticklabels()] == list(NAMES)
        np.testing.assert_allclose([bar.get_width() for bar in axes.patches], TRUTH)
        (first, _, _), (second, _, _) = (container.lines for container in axes.containers[1:])
        np.testing.assert_allclose(first.get_xdata(), second.get_xdata())
        plt.close(axes.figure)
    for draw in (plots.plot_estimates, plots.plot_traces, plots.plot_ranks):
        with refuses("categories"):
            draw({"a": tree}, categories=["red", "violet"])


def test_runs_with_another_order_of_categories_are_refused_by_best_subset_frequency():
    runs = [
        ad.simulate_adaptive(
            TRUTH, ad.AdaptiveSubset(RRRR(3, 1.0)), n_people=20, final_updates=2, categories=names, random_seed=1
        )
        for names in (NAMES, tuple(sorted(NAMES)))
    ]
    expected = best_subset_frequency({"a": runs[0]}, TRUTH)
    for truth in shuffled_truth():
        xr.testing.assert_equal(best_subset_frequency({"a": runs[0]}, truth), expected)
    for together in ({"a": runs}, {"a": runs[0], "b": runs[1]}):
        with refuses("runs"):
            best_subset_frequency(together, TRUTH)
