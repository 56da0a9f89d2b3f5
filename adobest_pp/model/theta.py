"""θ as `PrivateResponse` takes it: categories and groups by label, and a row of θ for each response."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.model import Model
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import Assert
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_probabilities
from adobest_pp._text import brief, by_column, same_labels


class Labelled(NamedTuple):
    """θ with its categories in the order of the responses, and the labels of its rows where they have some."""

    theta: Any
    rows: tuple[Any, ...] | None


def in_response_order(theta: Any, categories: tuple[str, ...] | None, model: Model | None) -> Labelled:
    """Return θ in the order of the categories, by its own labels or those of the model, or raise ValueError.

    Without `categories` (a mechanism alone has none), θ is taken as it is.
    """
    if not isinstance(theta, Variable):
        return _check_numbers(theta, categories)
    dims = _dims(theta, model)
    if hasattr(theta.type, "dims"):
        theta, dims = _from_named_dims(theta, categories, model)
    if model is None or categories is None:
        return Labelled(theta, None)
    rows = model.coords.get(dims[0]) if len(dims) == 2 and dims[0] is not None else None
    labels = _labels_in(model, dims[-1]) if dims else None
    if labels is not None and not same_labels(labels, categories):
        raise ValueError(f"theta must have the categories {brief(categories)} of the responses, got {brief(labels)}")
    if labels is not None:
        in_order = labels == categories
        return Labelled(theta if in_order else theta[..., [labels.index(label) for label in categories]], rows)
    # An expression has no labels, but most likely the order of the variables that it is made of.
    for dim in {dim for each in ancestors([theta]) for dim in model.named_vars_to_dims.get(each.name, ())}:
        found = _labels_in(model, dim)
        if found is not None and found != categories and same_labels(found, categories):
            raise ValueError(
                f"theta must be in the order {brief(categories)} of the responses, got an expression of variables "
                f"whose dimension {dim!r} has the order {brief(found)}"
            )
    return Labelled(theta, rows)


def theta_of_responses(labelled: Labelled, group: Any, n: int | None, n_categories: int) -> TensorVariable:
    """Return θ as a tensor, one vector or a row for each response, or raise ValueError; `n` is None if unknown."""
    theta = pt.as_tensor(labelled.theta)
    if theta.ndim not in (1, 2):
        shapes = f"({n_categories},), (groups, {n_categories}) or (responses, {n_categories})"
        raise ValueError(f"theta must be probabilities of shape {shapes}, got {theta.ndim} dimensions")
    known = constant_fold([theta.shape[i] for i in range(theta.ndim)], raise_not_constant=False)
    sizes = [None if isinstance(size, Variable) else int(size) for size in known]
    if sizes[-1] not in (None, n_categories):
        raise ValueError(f"theta must have {n_categories} probabilities a row, got {sizes[-1]}")
    if theta.ndim == 1:
        if group is not None:
            raise ValueError("group must be left out where theta is one vector, which holds for all responses")
        return theta
    if group is None:
        if None not in (sizes[0], n) and sizes[0] != n:
            raise ValueError(
                f"theta must have one row for each of {n} responses where group is left out, got {sizes[0]} rows"
            )
        return theta
    if isinstance(group, Variable):
        rows = pt.as_tensor(group)
        if rows.ndim != 1 or rows.dtype not in ("int64", "int32", "int16", "int8"):
            raise ValueError(f"group must be a vector of integers, the row of theta of each response, got {rows.type}")
        inside = pt.all((rows >= 0) & (rows < theta.shape[0]))
        return theta[Assert("group must be from 0 to the number of rows of theta less one")(rows, inside)]
    n_rows = len(labelled.rows) if sizes[0] is None and labelled.rows is not None else sizes[0]
    rows = _check_group(group, n, n_rows, labelled.rows)
    if sizes[0] is None and rows.size:
        enough = pt.gt(theta.shape[0], rows.max())
        theta = Assert(f"theta must have more than {rows.max()} rows, the last group")(theta, enough)
    return theta[rows]


def _check_group(group: Any, n: int | None, n_rows: int | None, labels: Sequence[Any] | None) -> NDArray[np.int64]:
    """Return the row of θ of each response, given by number or, where the rows have labels, by label."""
    values = np.asarray(group)
    if values.ndim != 1 or n not in (None, values.size):
        each = "each response" if n is None else f"each of {n} responses"
        raise ValueError(f"group must be one group for {each}, got an array of shape {values.shape}")
    missing = values != values if values.dtype.kind in "fcmM" else np.array([_is_missing(each) for each in values])
    if missing.any():
        raise ValueError(f"group must be known for every response, got none for response {int(np.argmax(missing))}")
    are_numbers = values.dtype.kind in "iu"
    if labels is not None and not (are_numbers and not all(isinstance(each, int | np.integer) for each in labels)):
        return _by_label(values, labels)
    if not are_numbers:
        hint = "" if values.dtype.kind == "f" else ": give theta dims whose coords are these labels"
        raise ValueError(f"group must be integers, the row of theta of each response, got {brief(group)}{hint}")
    least, greatest = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if least < 0 or (n_rows is not None and values.size and greatest >= n_rows):
        limit = "" if n_rows is None else f" to {n_rows - 1}"
        raise ValueError(f"group must be from 0{limit}, got {least if least < 0 else greatest}")
    return values.astype(np.int64)


def _by_label(values: NDArray[Any], labels: Sequence[Any]) -> NDArray[np.int64]:
    """Return the place of each value among the labels, or raise ValueError."""
    places = {str(label): i for i, label in enumerate(labels)}
    found, inverse = np.unique(values.astype(str), return_inverse=True)
    for value in found:
        if value not in places:
            raise ValueError(f"group must be among the labels {brief(list(places))} of theta, got {str(value)!r}")
    return np.array([places[value] for value in found.tolist()], dtype=np.int64)[inverse]


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _check_numbers(theta: Any, categories: tuple[str, ...] | None) -> Labelled:
    """Return a constant θ, a vector or a matrix, by its labels, or raise ValueError."""
    if categories is None:
        return Labelled(np.asarray(theta, dtype=np.float64), None)
    if getattr(theta, "ndim", np.ndim(theta) if isinstance(theta, list | tuple) else 1) != 2:
        return Labelled(check_probabilities(theta, len(categories), categories=categories), None)
    rows = None
    if hasattr(theta, "dims") and theta.dims[0] in theta.coords:
        rows = tuple(theta[theta.dims[0]].values.tolist())
    elif hasattr(theta, "columns"):
        rows = tuple(theta.index.tolist())
    table = np.asarray(by_column(theta, categories, "theta"))
    for i, row in enumerate(table):
        try:
            check_probabilities(row, len(categories))
        except ValueError as reason:
            raise ValueError(f"{reason} in row {i}") from None
    return Labelled(table.astype(np.float64), rows)


def _dims(theta: Variable, model: Model | None) -> tuple[str | None, ...]:
    if model is None or model.named_vars.get(theta.name) is not theta:
        return ()
    return tuple(model.named_vars_to_dims.get(theta.name, ()))


def _from_named_dims(
    theta: Any, categories: tuple[str, ...] | None, model: Model | None
) -> tuple[TensorVariable, tuple[str, ...]]:
    """Return a variable of `pymc.dims` as a tensor with its categories last, and its dims in that order."""
    dims = tuple(theta.type.dims)
    if model is not None and categories is not None:
        found = [dim for dim in dims if same_labels(_labels_in(model, dim) or (), categories)]
        if len(found) != 1:
            raise ValueError(
                f"theta must have one dimension with the categories {brief(categories)} as its coords, got {dims}"
            )
        dims = (*(dim for dim in dims if dim != found[0]), found[0])
    return theta.transpose(*dims).values, dims


def _labels_in(model: Model, dim: str | None) -> tuple[str, ...] | None:
    labels = None if dim is None else model.coords.get(dim)
    return None if labels is None else tuple(map(str, labels))
