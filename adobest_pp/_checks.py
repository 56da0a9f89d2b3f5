"""Checks of arguments. Each raises ValueError with one sentence: the argument, what is allowed, and what was given.

The error about a private category ``x`` never shows its value.
"""

import math
import operator
import os
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._text import brief, by_label
from adobest_pp._types import Floats, Integers, Masks

# The likelihood of an answer outside its subset is a difference with about 52 − ε/ln 2 correct binary digits. Beyond
# this budget hardly any are left, and there is no privacy either.
MAX_EPSILON = 30.0
# More than anyone needs, and few enough for arrays of this length.
MAX_CATEGORIES = 1_000_000
# The largest number of people, draws or updates: sums of their squares fit into 64 bits. And the most numbers in one
# result, 32 GiB: asking for more is a mistake that would fill the memory.
MAX_COUNT = 2**31 - 1
MAX_NUMBERS = 2**32
# The largest concentration of a Dirichlet prior, and the inverse of the smallest: nothing computed from them overflows.
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
        raise ValueError(f"{' × '.join(sizes)} must be at most {MAX_NUMBERS} numbers, got {total}")


def check_n_categories(value: Any) -> int:
    """Return the number of categories K ≥ 2, or raise ValueError."""
    return check_integer(value, "n_categories", 2, MAX_CATEGORIES)


def check_real(value: Any, name: str, allowed: str, is_allowed: Callable[[float], bool]) -> float:
    """Return a real number of any type as a float if it is allowed, or raise ValueError."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not is_allowed(number):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return number


def as_numbers(values: Any, kinds: str) -> NDArray[Any]:
    """Return `values` as an array with a dtype of one of the kinds, or raise TypeError. Any empty array is accepted.

    NumPy alone would turn strings, bytes, booleans and complex numbers into numbers, and drop a mask.
    """
    if isinstance(values, np.ma.MaskedArray | bytes | bytearray | memoryview):
        raise TypeError
    try:
        array = np.asarray(values)
    except Exception:  # an object of another library may raise anything
        raise TypeError from None
    if array.dtype.kind in kinds:
        return array
    if array.size:
        raise TypeError
    return np.empty(array.shape)


def check_numbers(values: Any, kinds: str, name: str, allowed: str) -> NDArray[Any]:
    """Return what `as_numbers` returns, or raise ValueError."""
    try:
        return as_numbers(values, kinds)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {brief(values)}") from None


def check_epsilon(value: Any, name: str = "epsilon", *, allow_zero: bool = False) -> float:
    """Return a privacy budget in (0, MAX_EPSILON], or raise ValueError."""
    allowed = f"a number {'of at least' if allow_zero else 'above'} 0 and at most {MAX_EPSILON:g}"
    return check_real(value, name, allowed, lambda x: 0 < x <= MAX_EPSILON or (allow_zero and x == 0))


def check_path(path: Any, name: str = "path") -> Path:
    """Return a path that the operating system accepts, whether or not the file exists, or raise ValueError."""
    allowed = f"{name} must be a path"
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{allowed}, got {brief(path)}")
    try:
        parts = [os.fsencode(part) for part in Path(text).parts]
    except UnicodeEncodeError:
        raise ValueError(f"{allowed}, got one with an unpaired surrogate") from None
    if "\0" in text or max(map(len, parts), default=0) > 255:
        raise ValueError(f"{allowed} that a file can have, got {brief(text)}")
    return Path(text)


def check_kappa(value: Any) -> float:
    """Return kappa in (0, 1], or raise ValueError."""
    return check_real(value, "kappa", "a number above 0 and at most 1", lambda x: 0 < x <= 1)


def check_positive(value: Any, name: str) -> float:
    """Return a positive number, infinity included, or raise ValueError."""
    return check_real(value, name, "a positive number", lambda x: x > 0)


def check_probability(value: Any) -> float:
    """Return a probability in (0, 1), or raise ValueError."""
    return check_real(value, "probability", "a number between 0 and 1", lambda x: 0 < x < 1)


def check_rho(value: Any) -> float:
    """Return the concentration of a symmetric Dirichlet distribution, or raise ValueError."""
    return check_real(value, "rho", "a positive number", lambda x: 0 < x < math.inf)


def check_alpha(value: Any) -> float:
    """Return a probability mass in [0, 1], or raise ValueError."""
    return check_real(value, "alpha", "a number from 0 to 1", lambda x: 0 <= x <= 1)


def check_subset(subset: Any, n_categories: int, categories: Sequence[str] | None = None) -> Masks:
    """Return a subset given by indices or by a boolean mask as a mask of shape (K,), or raise ValueError.

    A mask with labels is reordered to match the categories.
    """
    if getattr(getattr(subset, "dtype", None), "kind", "") == "b":
        subset = by_label(subset, categories, "subset")
    allowed = f"distinct category indices from 0 to {n_categories - 1}, or a boolean mask of length {n_categories}"
    given = list(subset) if isinstance(subset, set | frozenset) else subset
    array = check_numbers(given, "biu", "subset", allowed)
    is_mask, mask = array.dtype == bool, np.zeros(n_categories, dtype=bool)
    indices = np.flatnonzero(array) if is_mask else array.astype(np.int64)
    mask[indices[(indices >= 0) & (indices < n_categories)]] = True
    # An index that is repeated or out of range adds no member.
    if array.shape != mask.shape if is_mask else array.ndim != 1 or mask.sum() < array.size:
        raise ValueError(f"subset must be {allowed}, got {brief(subset)}")
    if mask.all():
        raise ValueError(f"subset must leave at least one of the {n_categories} categories out, got all")
    return mask


def check_private(x: ArrayLike, n_categories: int) -> Integers:
    """Return private categories as an integer array, or raise ValueError without showing any of them."""
    message = f"x must be a category index from 0 to {n_categories - 1}, or an array of them (its value is not shown)"
    try:
        array = as_numbers(x, "iu")
    except TypeError:
        raise ValueError(message) from None
    indices = array.astype(np.int64)
    # One comparison, in which a negative index is a large one: comparing the smallest and the largest index with the
    # bounds took 20 nanoseconds less for category 0, which would reveal it.
    if (indices.view(np.uint64) >= n_categories).any():
        raise ValueError(message)
    return indices


def check_answers(answers: ArrayLike, n_categories: int) -> Integers:
    """Return randomized answers as an integer array of category indices, or raise ValueError."""
    allowed = f"integer category indices from 0 to {n_categories - 1}"
    array = check_numbers(answers, "iu", "answers", allowed)
    wrong = (array < 0) | (array >= n_categories)
    if wrong.any():
        raise ValueError(f"answers must be {allowed}, got {array[wrong].flat[0]}")
    return array.astype(np.int64)


def check_theta(
    theta: ArrayLike, n_categories: int, name: str = "theta", categories: Sequence[str] | None = None
) -> Floats:
    """Return K finite, non-negative numbers with a positive sum, in the order of `categories`, or raise ValueError."""
    allowed = f"{n_categories} finite, non-negative numbers that are not all zero"
    values = check_numbers(by_label(theta, categories, name), "fiu", name, allowed)
    array = np.ascontiguousarray(values, dtype=np.float64)
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
) -> Floats:
    """Return K ≥ 2 non-negative numbers that sum to 1 within 1e-6 (for single precision), or raise ValueError."""
    if n_categories is None:
        n_categories = max(2, check_numbers(theta, "fiu", name, "at least 2 non-negative numbers").size)
    array = check_theta(theta, n_categories, name, categories)
    total = float(array.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1 within {SUM_TOLERANCE:g}, got a sum of {total!r}")
    return array


def check_prior(prior: ArrayLike, n_categories: int, categories: Sequence[str] | None = None) -> Floats:
    """Return the K concentrations of a Dirichlet prior, given as one number or as K numbers, or raise ValueError."""
    allowed = f"a positive number, or {n_categories} of them"
    if isinstance(prior, dict):
        if categories is None or {*map(str, prior)} != {*categories}:
            raise ValueError(
                f"prior must have the categories {brief(list(categories or ()))}, got {brief(list(prior))}"
            )
        by_name = {str(name): value for name, value in prior.items()}
        prior = [by_name[name] for name in categories]
    values = prior if isinstance(prior, float | int) else by_label(prior, categories, "prior")
    numbers = check_numbers(values, "fiu", "prior", allowed).astype(np.float64)
    if numbers.shape not in ((), (n_categories,)) or not (numbers > 0).all():
        raise ValueError(f"prior must be {allowed}, got {brief(prior)}")
    if not ((numbers >= 1 / MAX_CONCENTRATION) & (numbers <= MAX_CONCENTRATION)).all():
        limits = f"{1 / MAX_CONCENTRATION:g} to {MAX_CONCENTRATION:g}"
        raise ValueError(f"prior must be {allowed}, each from {limits}, got {brief(prior)}")
    return np.full(n_categories, numbers)


def is_learned(prior: object) -> bool:
    """Return whether a prior is ``"learned"``, the one whose concentration is learned."""
    return isinstance(prior, str) and prior == "learned"
