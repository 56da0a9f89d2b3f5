"""θ as `PrivateResponse` takes it: its categories and groups by label, and which of its rows each response has."""

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
from adobest_pp._labels import by_column, same_labels
from adobest_pp._text import brief
from adobest_pp.data.gathered import Gathered
from adobest_pp.data.responses import Responses

__all__ = ["Labelled", "in_response_order", "rows_of_theta"]


class Labelled(NamedTuple):
    """θ with its categories in the order of the responses, and the labels of its rows where they have some."""

    theta: Any
    rows: tuple[Any, ...] | None


def in_response_order(theta: Any, responses: Responses | Gathered, model: Model | None) -> Labelled:
    """Return θ in the order of the responses, by its own labels or those of the model, or raise ValueError."""
    categories = responses.categories
    if not isinstance(theta, Variable):
        return _check_numbers(theta, categories)
    if model is None:
        return Labelled(theta, None)
    is_named = model.named_vars.get(theta.name) is theta
    dims: tuple[str | None, ...] = tuple(model.named_vars_to_dims.get(theta.name, ())) if is_named else ()
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


def rows_of_theta(
    labelled: Labelled, group: Any, n: int, n_categories: int
) -> tuple[TensorVariable, NDArray[np.int64] | None]:
    """Return θ as a checked tensor, and the row of each of n responses (None for a vector), or raise ValueError."""
    theta = pt.as_tensor(labelled.theta)
    if theta.ndim not in (1, 2):
        shapes = f"({n_categories},), (groups, {n_categories}) or (responses, {n_categories})"
        raise ValueError(f"theta must be probabilities of shape {shapes}, got {theta.ndim} dimensions")
    sizes = [None if isinstance(size, Variable) else int(size) for size in _static(theta)]
    if sizes[-1] not in (None, n_categories):
        raise ValueError(f"theta must have {n_categories} probabilities a row, got {sizes[-1]}")
    if theta.ndim == 1:
        if group is not None:
            raise ValueError("group must be left out where theta is one vector, which holds for all responses")
        return theta, None
    if group is None:
        if sizes[0] not in (None, n):
            raise ValueError(
                f"theta must have one row for each of {n} responses where group is left out, got {sizes[0]} rows"
            )
        return pt.specify_shape(theta, (n, n_categories)), np.arange(n)
    n_rows = len(labelled.rows) if sizes[0] is None and labelled.rows is not None else sizes[0]
    rows = _check_group(group, n, n_rows, labelled.rows)
    theta = pt.specify_shape(theta, (None, n_categories))
    if sizes[0] is None and n:
        enough = pt.gt(theta.shape[0], rows.max())
        theta = Assert(f"theta must have more than {rows.max()} rows, the last group")(theta, enough)
    return theta, rows


def _static(theta: TensorVariable) -> Sequence[Any]:
    """Return the lengths of θ, those that are known as numbers."""
    known = theta.type.shape
    folded = constant_fold([theta.shape[i] for i in range(theta.ndim)], raise_not_constant=False)
    return [size if size is not None else other for size, other in zip(known, folded, strict=True)]


def _check_group(group: Any, n: int, n_rows: int | None, labels: Sequence[Any] | None) -> NDArray[np.int64]:
    """Return the row of θ of each response, given by number or, where the rows have labels, by label."""
    if isinstance(group, Variable):
        raise ValueError("group must be an array of numbers or labels that is known, got a PyTensor variable")
    values = np.asarray(group)
    if values.shape != (n,):
        raise ValueError(f"group must be one group for each of {n} responses, got an array of shape {values.shape}")
    missing = values != values if values.dtype.kind in "fcmM" else np.array([_is_missing(each) for each in values])
    if missing.any():
        raise ValueError(f"group must be known for every response, got none for response {int(np.argmax(missing))}")
    are_numbers = values.dtype.kind in "iu"
    if labels is not None and not (are_numbers and not all(isinstance(each, int | np.integer) for each in labels)):
        return _by_label(values, labels)
    if not are_numbers:
        hint = "" if values.dtype.kind == "f" else ": give theta dims whose coords are these labels"
        raise ValueError(f"group must be integers, the row of theta of each response, got {brief(group)}{hint}")
    least, greatest = (int(values.min()), int(values.max())) if n else (0, 0)
    if least < 0 or (n_rows is not None and n and greatest >= n_rows):
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


def _check_numbers(theta: Any, categories: tuple[str, ...]) -> Labelled:
    """Return a constant θ, a vector or a matrix, by its labels, or raise ValueError."""
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


def _labels_in(model: Model, dim: str | None) -> tuple[str, ...] | None:
    labels = None if dim is None else model.coords.get(dim)
    return None if labels is None else tuple(map(str, labels))
