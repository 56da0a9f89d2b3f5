"""Kinds of arguments: values that Hypothesis draws and that are not legal, and other ways to write a legal one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import adobest_pp as ad

NAMES = ("red", "green", "blue")
SRR, RRRR, SELECTION = ad.SRR(3, 1.0), ad.RRRR(3, 1.0, 0.8), ad.SubsetSelection(3, 1.0, 2)
RESPONSES = ad.Responses.from_arrays(RRRR, [0, 1, 0, 2, 0, 0, 1], [[True, False, False]], [0] * 7, NAMES)


class Unreadable:
    """An object of another library that NumPy and `repr` cannot read."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __repr__(self):
        raise RuntimeError("no text")


@dataclass(frozen=True)
class Kind:
    """Values that are not legal, whether everything else is, and spellings of a legal value that mean the same."""

    wrong: st.SearchStrategy[Any]
    same: Callable[[Any], list[Any]] = lambda good: []
    refused: bool = True  # otherwise all that counts is that no error comes from within


# ---------------------------------------------------------------- families of values
def _labelled(values: Any, labels: Any) -> xr.DataArray:
    return xr.DataArray(values, coords={"category": list(labels)}, dims="category")


FAMILIES: dict[str, st.SearchStrategy[Any]] = {
    "none": st.none(),
    "boolean": st.sampled_from([True, False, np.True_]),
    "integer": st.integers() | st.sampled_from([0, 1, 2, 3, -1, 2**31, 10**400, np.int64(1), np.array(3)]),
    "real": st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, 0.5, 1.5, 31.0, 5e-324, np.float32(0.5), Fraction(1, 2)]),
    "nonfinite": st.sampled_from([math.nan, math.inf, -math.inf]),
    "other number": st.complex_numbers()
    | st.decimals()
    | st.sampled_from([1j, Decimal("0.5"), np.datetime64(3, "D"), datetime(2020, 1, 1, tzinfo=UTC)]),
    "text": st.text(max_size=5) | st.sampled_from(["", " ", "0.5", "nan", "a\nb", "\0", "x" * 5000, "\ud800"]),
    "bytes": st.binary(max_size=3) | st.just(bytearray(b"1")),
    "vector": st.lists(st.integers(-3, 5) | st.floats(), max_size=4)
    | st.lists(st.text(max_size=3) | st.none() | st.booleans(), max_size=4)
    | arrays.arrays(
        st.one_of(arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.boolean_dtypes()),
        arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
    )
    | st.sampled_from(
        [
            (0, 0),
            range(3),
            [[0], [0, 1]],
            [[0.5, 0.6], [0.5, 0.5]],
            [1e308] * 3,
            np.array(["a", "b"]),
            np.array([0, 1], dtype=object),
            np.array([2**63]),
            _labelled([0.5, 0.3, 0.2], "abc"),
            pd.Series([0.5, 0.3], index=["red", "green"]),
            pd.DataFrame([[1, 0, 1], [0, 0, 1]], columns=list("abc")),
        ]
    ),
    "masked": st.sampled_from(
        [np.ma.masked_array([0.5, 0.3, 0.2], [0, 1, 0]), np.ma.masked_array([0, 1], [1, 1]), np.ma.masked]
    ),
    "mapping": st.dictionaries(st.text(max_size=3) | st.integers(), st.integers(), max_size=2),
    "set": st.frozensets(st.integers(-1, 4) | st.text(max_size=1), max_size=3),
    "function": st.sampled_from([len, int, ad.SRR]),
    "object": st.sampled_from(
        [xr.Dataset(), xr.DataTree(), Path("no/such/file"), SRR, RRRR, SELECTION, RESPONSES, RESPONSES.evidence()]
    )
    | st.builds(object)
    | st.builds(Unreadable)
    | st.builds(lambda: iter([0, 1])),
}
anything = st.one_of(*FAMILIES.values())


def but(*families: str) -> st.SearchStrategy[Any]:
    """Values of all families but some."""
    return st.one_of(*(values for name, values in FAMILIES.items() if name not in families))


# What no vector of numbers may be.
not_numbers = st.sampled_from(
    [
        [[0], [0, 1]],
        [None] * 3,
        ["a", "b", "c"],
        [1j, 0, 0],
        [[[0.5]]] * 3,
        np.array([0, 1, 2], dtype=object),
        np.ma.masked_array([0, 1, 2], [0, 1, 0]),
        _labelled([0.5, 0.3, 0.2], "abc"),
        pd.Series([0.5, 0.3], index=["red", "green"]),
    ]
)


# ---------------------------------------------------------------- kinds of arguments
def integer(low: int, high: int | None = None) -> Kind:
    """Whole numbers of any integer type."""
    outside = st.integers(max_value=low - 1)
    if high is not None:
        outside |= st.integers(min_value=high + 1)
    return Kind(but("integer") | outside, lambda good: [np.int64(good), np.uint16(good), np.array(good)])


def real(low: float, high: float = math.inf, *, closed_low: bool = False, closed_high: bool = True) -> Kind:
    """Real numbers in an interval."""
    outside = st.floats(max_value=low, exclude_max=closed_low, allow_infinity=False)
    if not closed_high or high < math.inf:
        outside |= st.floats(min_value=high, exclude_min=closed_high) if high < math.inf else st.just(math.inf)
    families = ("integer", "real") if high < math.inf else ("integer", "real", "nonfinite")

    def same(good: float) -> list[Any]:
        ways = [np.float64(good), Fraction(good)]
        return [*ways, np.float32(good)] if np.float32(good) == good else ways

    return Kind(but(*families) | outside | st.just(math.nan), same)


def choice(*names: str) -> Kind:
    """One of some words."""
    return Kind(but("text") | FAMILIES["text"].filter(lambda word: word not in names), lambda good: [np.str_(good)])


def instance(*types: type) -> Kind:
    """Objects of a class."""
    return Kind(anything.filter(lambda value: not isinstance(value, types)))


def optional(kind: Kind) -> Kind:
    """Take None as well."""
    return replace(kind, wrong=kind.wrong.filter(lambda value: value is not None))


never = Kind(anything)
only_none = optional(never)
flag = Kind(but("boolean"))
no_matter = Kind(anything, refused=False)


def _vectors(good: Any) -> list[Any]:
    """Write a vector in other ways."""
    return [tuple(good), np.array(good), pd.Series(good), xr.DataArray(good)] if np.ndim(good) else []


def _numbers(length: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(0, 1), min_size=length, max_size=length)


def shares(k: int = 3, labels: tuple[str, ...] | None = None) -> Kind:
    """K numbers of at least 0 that sum to 1, by label where the function knows labels."""
    lengths = st.lists(st.floats(0, 1), max_size=6).filter(lambda found: len(found) != k)
    one_bad = st.tuples(_numbers(k), st.sampled_from([-0.1, math.nan, math.inf])).map(lambda two: [*two[0][1:], two[1]])
    other_sum = _numbers(k).filter(lambda found: abs(sum(found) - 1) > 1e-5)

    def same(good: list[float]) -> list[Any]:
        order = [2, 0, 1]
        shuffled = [[good[i] for i in order], [labels[i] for i in order]] if labels else None
        return _vectors(good) + ([_labelled(*shuffled), pd.Series(*shuffled)] if shuffled else [])

    return Kind(but("vector") | lengths | one_bad | other_sum | not_numbers, same)


def weights(k: int = 3) -> Kind:
    """One positive number, or K of them."""
    lengths = st.lists(st.floats(0.1, 9), max_size=6).filter(lambda found: len(found) != k)
    bad = st.sampled_from([0.0, -1.0, 1e-101, 1e101, math.nan, math.inf])
    return Kind(
        but("vector", "integer", "real") | bad | bad.map(lambda one: [*[1.0] * (k - 1), one]) | lengths | not_numbers,
        lambda good: [np.float64(good), [good] * k, np.full(k, good)] if np.ndim(good) == 0 else _vectors(good),
    )


def indices(k: int) -> Kind:
    """Integers from 0 to K−1, in arrays of any shape."""
    outside = st.integers(max_value=-1) | st.integers(min_value=k)
    return Kind(
        but("vector", "integer")
        | outside
        | st.lists(outside, min_size=1, max_size=3)
        | st.lists(st.floats() | st.booleans(), min_size=1, max_size=3)
        | not_numbers,
        lambda good: [np.array(good), np.array(good, dtype=np.uint8)],
    )


def subset(k: int = 3) -> Kind:
    """Distinct indices or a mask, of fewer than K categories."""
    outside = st.integers(max_value=-1) | st.integers(min_value=k)
    listed = st.sampled_from([list(range(k)), [True] * k, [True], [0, 0], [0.0], [[0]]])
    return Kind(
        but("vector", "set") | listed | st.lists(outside, min_size=1, max_size=3) | st.just({0, "a"}) | not_numbers,
        lambda good: [tuple(good), np.array(good), set(good), np.isin(range(k), good)],
    )


def labels(k: int = 3) -> Kind:
    """K words or numbers that differ."""
    lengths = st.lists(st.text("abc", min_size=1), unique=True, max_size=6).filter(lambda found: len(found) != k)
    odd = st.sampled_from(["", " ", "a ", "\0", "a\nb", "\ud800", None, math.nan, b"a", [0]])
    same = st.sampled_from("ab").map(lambda one: [one, one, *map(str, range(k - 2))])
    return Kind(
        but("vector") | lengths | same | odd.map(lambda one: [one, *map(str, range(k - 1))]),
        lambda good: [list(good), np.array(good), pd.Series(good)],
    )


def channel() -> Kind:
    """Channels G[y, x] with columns that sum to 1."""
    listed = st.sampled_from(
        [[[0.5, 0.6], [0.5, 0.5]], [[1.5, 0.5], [-0.5, 0.5]], [[math.nan, 1.0], [1.0, 0.0]], [[]], [[0.5], [0.5]], []]
    )
    return Kind(
        but("vector", "object") | listed | st.lists(st.floats(0, 1), max_size=4) | not_numbers,
        lambda good: [np.array(good).tolist(), np.asfortranarray(good), xr.DataArray(good)],
    )
