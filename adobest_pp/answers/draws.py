"""What a tree of draws holds: θ by label, and the responses that it was sampled from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from adobest_pp._text import brief, check_labels, same_labels
from adobest_pp.answers.gather.gathered import SCHEMA, Gathered
from adobest_pp.answers.responses import Responses

DIMS = ("chain", "draw", "category")


def theta_of(tree: Any, name: str = "tree", categories: Sequence[str] | None = None) -> xr.DataArray:
    """Return θ of a tree of draws by chain, draw and category, or raise ValueError.

    Parameters
    ----------
    tree : DataTree
        As `sample` returns it: ``posterior/theta`` by chain, draw and category.
    name : str
        How errors name it.
    categories : sequence of str, optional
        The labels that it must have, in the order of the result.
    """
    allowed = f"{name} must hold posterior/theta by chain, draw and category"
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree or "theta" not in tree["posterior"]:
        raise ValueError(f"{allowed}, got {type(tree).__name__} without it")
    theta = tree["posterior"].to_dataset()["theta"]
    if set(theta.dims) != set(DIMS) or "category" not in theta.coords:
        raise ValueError(f"{allowed}, got theta by {', '.join(map(str, theta.dims))}")
    values = theta.transpose(*DIMS).values
    if values.size == 0 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise ValueError(f"{name} contains missing or non-finite draws")
    try:
        labels = list(check_labels(theta["category"].values.tolist(), theta.sizes["category"]))
    except ValueError as problem:
        raise ValueError(f"{name} must have labels that look different: {problem}") from None
    if categories is not None and not same_labels(labels, categories):
        raise ValueError(f"{name} must have the categories {brief(list(categories))}, got {brief(labels)}")
    labelled = xr.DataArray(values.astype(np.float64), coords={"category": labels}, dims=DIMS)
    return labelled if categories is None else labelled.sel(category=list(categories))


def thetas_of(draws: Any, name: str = "draws") -> dict[str, xr.DataArray]:
    """Return θ of each tree of a mapping, all with the categories of the first, or raise ValueError."""
    if not isinstance(draws, Mapping) or not draws:
        raise ValueError(f"{name} must be a mapping of at least one name to a DataTree, got {brief(draws)}")
    thetas: dict[str, xr.DataArray] = {}
    categories = None
    for label, tree in draws.items():
        thetas[str(label)] = theta_of(tree, f"{name}[{label!r}]", categories)
        categories = thetas[str(label)]["category"].values.tolist()
    return thetas


def responses_of(tree: xr.DataTree) -> Responses | Gathered | None:
    """Return the responses that `sample` put into the group ``responses``, or None if there are none."""
    if "responses" not in tree.children or "mechanism_settings" not in tree["responses"].attrs:
        return None
    if tree["responses"].attrs.get("schema") == SCHEMA:
        return Gathered.from_xarray(tree["responses"].to_dataset())
    return Responses.from_xarray(tree["responses"].to_dataset())
