"""Reading variables of a dataset by their codes, so that the order of the dataset does not matter."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["inverse", "subset_positions", "variable"]


def variable(dataset: "xr.Dataset", name: str, dims: tuple[str, ...]) -> NDArray[Any]:
    """Return a variable with its dimensions in this order, or raise ValueError."""
    if name not in dataset or set(dataset[name].dims) != set(dims):
        got = tuple(dataset[name].dims) if name in dataset else "no such variable"
        raise ValueError(f"the variable {name!r} must be there by {', '.join(dims)}, got {got}")
    return np.asarray(dataset[name].transpose(*dims).values)


def inverse(dataset: "xr.Dataset", dim: str, n: int) -> NDArray[np.int64]:
    """Return the place of each code 0 … n−1 along a dimension, or raise ValueError unless each is there once."""
    codes = _codes(dataset, dim)
    if not np.array_equal(np.sort(codes), np.arange(n)):
        raise ValueError(f"the dataset must hold all {n} of its {dim} codes, each once, got {codes.size} along {dim!r}")
    return np.argsort(codes)


def subset_positions(dataset: "xr.Dataset", index: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each subset code along the dimension "subset", or raise ValueError if one is missing."""
    codes = _codes(dataset, "subset")
    order = np.argsort(codes)
    if codes.size == 0 or index.dtype.kind not in "iu":
        return index
    places = order[np.searchsorted(codes, index, sorter=order).clip(max=codes.size - 1)]
    if len(np.unique(codes)) < codes.size or not np.array_equal(codes[places], index):
        raise ValueError("the dataset must hold every subset that its answers were given under, each once")
    return np.asarray(places, dtype=np.int64)


def _codes(dataset: "xr.Dataset", dim: str) -> NDArray[np.int64]:
    name = f"{dim}_code"
    if name not in dataset.coords or dataset[name].dims != (dim,) or dataset[name].dtype.kind not in "iu":
        raise ValueError(f"the coordinate {name!r} must be there, integers along {dim!r}")
    return np.asarray(dataset[name].values, dtype=np.int64)
