"""Read θ by label, and the responses that it was sampled from, from a tree of draws."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adobest_pp._text import brief, check_labels, same_labels
from adobest_pp.answers.gather.gathered import SCHEMA, Gathered
from adobest_pp.answers.responses import Responses

DIMS = ("chain", "draw", "category")
# How far draws of shares may be from a sum of one: the rounding of float32.
_ROUNDING = 1e-4


def theta_of(tree: Any, name: str = "tree", categories: Sequence[str] | None = None) -> xr.DataArray:
    """Return θ of a tree of draws, as `sample` returns it, by chain, draw and category, or raise ValueError.

    Errors call the tree `name`. `categories` are the labels that it must have, in the order of the result.
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
    labeled = xr.DataArray(values.astype(np.float64), coords={"category": labels}, dims=DIMS)
    return labeled if categories is None else labeled.sel(category=list(categories))


class NamedShares(NamedTuple):
    """Draws of shares by chain, draw, any further dimensions and category, and the tree's name for the last one."""

    draws: xr.DataArray
    dim: str


def shares_of(
    tree: Any, name: str = "tree", var_name: str | None = None, categories: Sequence[str] | None = None
) -> NamedShares:
    """Return the shares in a tree of any model, or raise ValueError.

    Its group ``posterior`` has the shares by chain, draw and category, and by any further dimension, such as region, in
    the variable `var_name`: by default ``theta``, or else the only one that fits. The categories may be a dimension of
    any name, along which draws sum to one. Without labels they are in the order of `categories`, as `PrivateResponse`
    takes them.
    """
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree.children:
        return NamedShares(theta_of(tree, name), "category")
    posterior = tree["posterior"].to_dataset()
    chosen = "theta" if var_name is None else var_name
    if chosen == "theta" and "theta" in posterior and set(posterior["theta"].dims) == set(DIMS):
        return NamedShares(theta_of(tree, name, categories), "category")
    wanted = "shares by chain, draw and category that sum to one" + (
        "" if categories is None else f", of the categories {brief(list(categories))}"
    )
    fitting = {str(each): _shares_in(posterior[each], categories) for each in posterior.data_vars}
    found = {each: shares for each, shares in fitting.items() if shares is not None}
    if var_name is not None:
        if not isinstance(var_name, str) or var_name not in found:
            raise ValueError(f"var_name must name {wanted}: one of {brief(list(found))}, got {brief(var_name)}")
        return found[var_name]
    if not found:
        raise ValueError(f"{name} must hold posterior/theta, or a variable of another name: {wanted}, got none")
    if "theta" not in found and len(found) > 1:
        raise ValueError(f"var_name must be given if several variables are {wanted}: one of {brief(list(found))}")
    return found.get("theta") or next(iter(found.values()))


def _shares_in(variable: xr.DataArray, categories: Sequence[str] | None) -> NamedShares | None:
    """Return the shares that a variable holds, or None if it holds something else."""
    own = [str(dim) for dim in variable.dims if dim not in ("chain", "draw")]
    if len(own) != variable.ndim - 2 or variable.size == 0 or variable.dtype.kind != "f":
        return None
    for dim in ["category"] if "category" in own else own[::-1]:
        k = variable.sizes[dim]
        labels = [str(label) for label in variable[dim].values.tolist()]
        if categories is not None and labels == [str(i) for i in range(k)] and k == len(categories):
            labels = list(categories) if not same_labels(labels, categories) else labels
        is_other = categories is not None and not same_labels(labels, categories)
        if is_other or not (variable.min() >= 0 and abs(variable.sum(dim) - 1).max() <= _ROUNDING):
            continue
        others = [each for each in own if each != dim]
        ordered = variable.astype(np.float64).transpose("chain", "draw", *others, dim).reset_coords(drop=True)
        draws = ordered.rename({dim: "category"} if dim != "category" else {}).assign_coords(category=labels)
        return NamedShares(draws if categories is None else draws.sel(category=list(categories)), dim)
    return None


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
