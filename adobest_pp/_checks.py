"""Checks of arguments. Each raises ValueError in one sentence: the argument, what is allowed, and what was given.

The error about a private category ``x`` never shows its value.
"""

import math
import operator
import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._labels import by_label
from adobest_pp._text import brief

# The likelihood of an answer outside its subset is a difference that keeps about 52 − ε/ln 2 binary digits: beyond
# this, hardly any are left (and no privacy).
MAX_EPSILON = 30.0
# More than anyone needs, and few enough for arrays of that length.
MAX_CATEGORIES = 1_000_000
# The largest number of people, draws or updates: sums of their squares fit into 64 bits. And the most numbers in one
# result, 32 GiB of them: asking for more is a slip that would fill the machine's memory.
MAX_COUNT = 2**31 - 1
MAX_NUMBERS = 2**32
# The largest concentration of a Dirichlet prior; its inverse is the smallest. Their sums, products and quotients do not
# overflow.
MAX_CONCENTRATION = 1e100
SUM_TOLERANCE = 1e-6


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return `value` as an int in ``low … high``, or raise ValueError."""
    allowed = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    try:
        if isinstance(value, bool | np.bool_ | np.ma.MaskedArray):
            raise TypeError
        integer = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}") from None
    if integer < low or (high is not None and integer > high):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return integer


def check_count(value: Any, name: str, low: int = 1) -> int:
    """Return a number of people, draws or updates from `low` to MAX_COUNT, or raise ValueError."""
    count = check_integer(value, name, low)
    if count > MAX_COUNT:
        raise ValueError(f"{name} must be an integer of at least {low} and at most {MAX_COUNT}, got {brief(value)}")
    return count


def check_flag(value: Any, name: str) -> bool:
    """Return True or False, or raise ValueError."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {brief(value)}")
    return bool(value)


def check_total(sizes: dict[str, int]) -> None:
    """Raise ValueError if a result of these sizes would hold more than MAX_NUMBERS numbers."""
    total = math.prod(sizes.values())
    if total > MAX_NUMBERS:
        product = " × ".join(sizes)
        raise ValueError(f"{product} must be at most {MAX_NUMBERS} numbers, got {total}")


def check_n_categories(value: Any) -> int:
    """Return the number of categories K ≥ 2, or raise ValueError."""
    return check_integer(value, "n_categories", 2, MAX_CATEGORIES)


def check_real(value: Any, name: str, allowed: str) -> float:
    """Return a real number of whatever type as a float, or raise ValueError."""
    try:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError
        return float(value)
    except (TypeError, OverflowError):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}") from None


def as_numbers(values: Any, kinds: str) -> NDArray[Any]:
    """Return `values` as an array whose dtype is of one of the kinds, or raise TypeError. Any empty array is accepted.

    NumPy alone would convert strings, bytes, booleans and complex numbers to numbers, and drop a mask.
    """
    if isinstance(values, np.ma.MaskedArray | bytes | bytearray | memoryview):
        raise TypeError
    try:
        array = np.asarray(values)
    except Exception:  # whatever an object of another library raises
        raise TypeError from None
    if array.dtype.kind in kinds:
        return array
    if array.size:
        raise TypeError
    return np.empty(array.shape)


def check_epsilon(value: Any, name: str = "epsilon", *, allow_zero: bool = False) -> float:
    """Return a privacy budget in (0, MAX_EPSILON], or raise ValueError."""
    allowed = f"a number {'of at least' if allow_zero else 'above'} 0 and at most {MAX_EPSILON:g}"
    number = check_real(value, name, allowed)
    if not (0 < number <= MAX_EPSILON or (allow_zero and number == 0)):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return number


def check_path(path: Any, name: str = "path") -> Path:
    """Return a path that the operating system accepts, whether or not there is a file, or raise ValueError."""
    allowed = f"{name} must be a path"
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{allowed}, got {brief(path)}")
    try:
        parts = [os.fsencode(part) for part in Path(text).parts]
    except UnicodeEncodeError:
        raise ValueError(f"{allowed}, got one with an unpaired surrogate") from None
    if "\0" in text or max(map(len, parts), default=0) > 255:
        raise ValueError(f"{allowed}, got {brief(text)}, which no file can have")
    return Path(text)


def check_kappa(value: Any) -> float:
    """Return kappa in (0, 1], or raise ValueError."""
    number = check_real(value, "kappa", "a number above 0 and at most 1")
    if not 0 < number <= 1:
        raise ValueError(f"kappa must be a number above 0 and at most 1, got {brief(value)}")
    return number


def check_positive(value: Any, name: str) -> float:
    """Return a positive number, infinity included, or raise ValueError."""
    number = check_real(value, name, "a positive number")
    if not number > 0:
        raise ValueError(f"{name} must be a positive number, got {brief(value)}")
    return number


def check_probability(value: Any) -> float:
    """Return a probability between 0 and 1, or raise ValueError."""
    number = check_real(value, "probability", "a number between 0 and 1")
    if not 0 < number < 1:
        raise ValueError(f"probability must be a number between 0 and 1, got {brief(value)}")
    return number


def check_rho(value: Any) -> float:
    """Return the concentration of a symmetric Dirichlet distribution, or raise ValueError."""
    number = check_real(value, "rho", "a positive number")
    if not 0 < number < math.inf:
        raise ValueError(f"rho must be a positive number, got {brief(value)}")
    return number


def check_alpha(value: Any) -> float:
    """Return a probability mass in [0, 1], or raise ValueError."""
    number = check_real(value, "alpha", "a number from 0 to 1")
    if not 0 <= number <= 1:
        raise ValueError(f"alpha must be a number from 0 to 1, got {brief(value)}")
    return number


def check_subset(subset: Any, n_categories: int, categories: Sequence[str] | None = None) -> NDArray[np.bool_]:
    """Return a subset given by indices or by a boolean mask as a mask of shape (K,), or raise ValueError.

    A mask with labels is brought to the order of the categories.
    """
    if getattr(getattr(subset, "dtype", None), "kind", "") == "b":
        subset = by_label(subset, categories, "subset")
    allowed = f"distinct category indices from 0 to {n_categories - 1}, or a boolean mask of length {n_categories}"
    refusal = ValueError(f"subset must be {allowed}, got {brief(subset)}")
    try:
        array = as_numbers(list(subset) if isinstance(subset, set | frozenset) else subset, "biu")
    except TypeError:
        raise refusal from None
    if array.ndim != 1 or (array.dtype == bool and array.size != n_categories):
        raise refusal
    if array.dtype == bool:
        mask = array.copy()
    else:
        if array.size and (array.min() < 0 or array.max() >= n_categories):
            raise refusal
        indices = array.astype(np.int64)
        mask = np.zeros(n_categories, dtype=bool)
        mask[indices] = True
        if mask.sum() < indices.size:
            raise refusal
    if mask.all():
        raise ValueError(f"subset must leave at least one of the {n_categories} categories out, got all of them")
    return mask


def check_private(x: ArrayLike, n_categories: int) -> NDArray[np.int64]:
    """Return private categories as an integer array, or raise ValueError without showing any of them."""
    message = f"x must be a category index from 0 to {n_categories - 1}, or an array of them (its value is not shown)"
    try:
        array = as_numbers(x, "iu")
    except TypeError:
        raise ValueError(message) from None
    indices = array.astype(np.int64)
    # One comparison, in which a negative index is a large one: comparing the least and the greatest index with the
    # bounds, as numbers of their own, took 20 nanoseconds less for category 0.
    if (indices.view(np.uint64) >= n_categories).any():
        raise ValueError(message)
    return indices


def check_answers(answers: ArrayLike, n_categories: int) -> NDArray[np.int64]:
    """Return randomized answers as an integer array of category indices, or raise ValueError."""
    allowed = f"integer category indices from 0 to {n_categories - 1}"
    try:
        array = as_numbers(answers, "iu")
    except TypeError:
        raise ValueError(f"answers must be {allowed}, got {brief(answers)}") from None
    wrong = (array < 0) | (array >= n_categories) if array.size else np.zeros(0, dtype=bool)
    if wrong.any():
        raise ValueError(f"answers must be {allowed}, got {array[wrong].flat[0]}")
    return array.astype(np.int64)


def check_theta(
    theta: ArrayLike, n_categories: int, name: str = "theta", categories: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """Return K finite, non-negative numbers with a positive sum, in the order of the labels, or raise ValueError."""
    allowed = f"{n_categories} finite, non-negative numbers that are not all zero"
    values = by_label(theta, categories, name)
    try:
        array = np.ascontiguousarray(as_numbers(values, "fiu"), dtype=np.float64)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {brief(theta)}") from None
    if array.shape != (n_categories,):
        raise ValueError(f"{name} must be {allowed}, got an array of shape {array.shape}")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if not (math.isfinite(total) and total > 0 and array.min() >= 0):
        raise ValueError(f"{name} must be {allowed}, got {brief(array)}")
    return array


def check_probabilities(
    theta: ArrayLike,
    n_categories: int | None = None,
    name: str = "theta",
    categories: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Return K ≥ 2 non-negative numbers that sum to 1 within 1e-6 (θ in single precision does), or raise ValueError."""
    if n_categories is None:
        try:
            n_categories = max(2, as_numbers(theta, "fiu").size)
        except TypeError:
            raise ValueError(f"{name} must be at least 2 non-negative numbers, got {brief(theta)}") from None
    array = check_theta(theta, n_categories, name, categories)
    total = float(array.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1 within {SUM_TOLERANCE:g}, got a sum of {total!r}")
    return array


def check_prior(prior: ArrayLike, n_categories: int, categories: Sequence[str] | None = None) -> NDArray[np.float64]:
    """Return the K concentrations of a Dirichlet prior, given as one number or as K of them, or raise ValueError."""
    allowed = f"a positive number, or {n_categories} of them"
    values = prior if isinstance(prior, float | int) else by_label(prior, categories, "prior")
    try:
        numbers = as_numbers(values, "fiu").astype(np.float64)
    except TypeError:
        raise ValueError(f"prior must be {allowed}, got {brief(prior)}") from None
    if numbers.shape not in ((), (n_categories,)) or not (numbers > 0).all():
        raise ValueError(f"prior must be {allowed}, got {brief(prior)}")
    if not ((numbers >= 1 / MAX_CONCENTRATION) & (numbers <= MAX_CONCENTRATION)).all():
        limits = f"{1 / MAX_CONCENTRATION:g} to {MAX_CONCENTRATION:g}"
        raise ValueError(f"prior must be {allowed}, each from {limits}, got {brief(prior)}")
    return np.full(n_categories, numbers)


def is_learned(prior: object) -> bool:
    """Tell whether this names the prior whose concentration is learned."""
    return isinstance(prior, str) and prior == "learned"
