"""Checks of what plots take: results of diagnostics, trees of draws, categories and axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp.data.draws import thetas_of

__all__ = ["check_axes", "check_categories", "check_result", "check_thetas"]


def check_result(result: Any, name: str, maker: str, needed: Sequence[str], attributes: Sequence[str] = ()) -> None:
    """Raise ValueError unless it is a dataset with the variables and attributes that a figure needs."""
    allowed = f"{name} must be a result of {maker}"
    if not isinstance(result, xr.Dataset):
        raise ValueError(f"{allowed}, got {type(result).__name__}")
    missing = [each for each in needed if each not in result.variables]
    missing += [each for each in attributes if each not in result.attrs]
    if missing:
        raise ValueError(f"{allowed}, got a dataset without {', '.join(missing)}")


def check_axes(axes: Any, n: int, told: str) -> NDArray[np.object_]:
    """Return n matplotlib axes as an array of shape (n,), or raise ValueError."""
    try:
        panels = np.asarray(axes, dtype=object).ravel()
    except Exception:  # whatever an object of another library raises
        raise ValueError(f"axes must be {told}, got {brief(axes)}") from None
    if panels.shape != (n,):
        raise ValueError(f"axes must be {told}, got {panels.size}")
    for panel in panels:
        if not hasattr(panel, "plot"):
            raise ValueError(f"axes must be axes of matplotlib, got {brief(panel)}")
    return panels


def check_thetas(draws: Any) -> dict[str, xr.DataArray]:
    """Return θ of each tree by chain, draw and category, in the first tree's order, or raise ValueError."""
    return thetas_of(draws)


def check_categories(categories: Any, known: Sequence[str]) -> list[str]:
    """Return the labels to draw, at least one of those that there are, or raise ValueError."""
    is_list = isinstance(categories, Sequence | np.ndarray) and getattr(categories, "ndim", 1) == 1
    if isinstance(categories, str) or not is_list or not len(categories):
        raise ValueError(f"categories must be at least one label, got {brief(categories)}")
    labels = [str(label) for label in categories]
    for label in labels:
        if label not in known:
            raise ValueError(f"categories must be among {brief(list(known))}, got {brief(label)}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"categories must be each given once, got {brief(labels)}")
    return labels
