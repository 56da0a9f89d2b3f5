"""The one reader of trees of draws: θ by label in a given order, and the responses."""

import numpy as np
import pytest
import xarray as xr

from adobest_pp import SRR, Responses, sample
from adobest_pp.answers.draws import responses_of, theta_of, thetas_of

THETA = np.random.default_rng(1).dirichlet([1, 2, 3], size=(2, 5))


def tree(values=THETA, labels=("a", "b", "c"), dims=("chain", "draw", "category")):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (dims, values)}, {"category": list(labels)})})


def test_dimensions_and_categories_are_brought_to_their_order():
    turned = tree(THETA.transpose(2, 0, 1), dims=("category", "chain", "draw"))
    np.testing.assert_array_equal(theta_of(turned).values, THETA)
    theta = theta_of(turned, categories=("c", "a", "b"))
    assert theta.dims == ("chain", "draw", "category")
    assert theta["category"].values.tolist() == ["c", "a", "b"]
    np.testing.assert_array_equal(theta.values, THETA[..., [2, 0, 1]])


def test_trees_have_the_order_of_the_first():
    thetas = thetas_of({"one": tree(), 2: tree(THETA[..., ::-1], ("c", "b", "a"))})
    assert list(thetas) == ["one", "2"]
    np.testing.assert_array_equal(thetas["2"].values, THETA)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({}, "draws must be a mapping of at least one name to a DataTree, got {}"),
        ([tree()], "draws must be a mapping of at least one name to a DataTree"),
        ({"x": xr.DataTree()}, r"draws\['x'\] must hold posterior/theta by chain, draw and category, got DataTree"),
        ({"x": tree(THETA[0], dims=("draw", "category"))}, r"draws\['x'\] must hold .*, got theta by draw, category"),
        ({"x": tree(THETA * np.inf)}, r"draws\['x'\] contains missing or non-finite draws"),
        (
            {"x": tree(), "y": tree(labels="abd")},
            r"draws\['y'\] must have the categories \['a', 'b', 'c'\], got \['a', ",
        ),
    ],
)
def test_what_is_no_draws_is_refused(draws, message):
    with pytest.raises(ValueError, match=message):
        thetas_of(draws)


def test_responses_are_those_that_sample_left():
    responses = Responses.from_arrays(SRR(3, 1.0), [0, 2, 1], categories=["a", "b", "c"])
    found = responses_of(sample(responses, "gibbs", draws=4, tune=0, chains=1, random_seed=1, progressbar=False))
    assert found is not None
    assert found.categories == ("a", "b", "c")
    np.testing.assert_array_equal(found.answers, [0, 2, 1])
    assert responses_of(tree()) is None
    other = tree()
    other["responses"] = xr.DataTree(xr.Dataset({"answer": ("person", [1.0, 2.0])}))
    assert responses_of(other) is None
