"""Structurally bad arguments for every public function, and their allowed outcomes.

There are two: the call raises an error of one sentence that names the argument, or the value is a legal way to write a
plain one, and the result is that of the plain one. `Kind` defines again, slowly, what is legal.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import adobest_pp as ad

NAMES = ("red", "green", "blue")
LONGEST_SENTENCE = 600


class Illegal(Exception):
    """The value is not one that the argument may have."""


Kind = Callable[[Any], Any]  # from a value to a plain one that means the same, or Illegal


# ---------------------------------------------------------------- what is legal
def integer(low: int, high: float = math.inf) -> Kind:
    """Whole numbers of any integer type, and no booleans."""

    def plain(value: Any) -> int:
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
            value = value[()]
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise Illegal
        return int(value)

    return plain


def real(low: float, high: float, closed_low: bool = False, closed_high: bool = True) -> Kind:
    """Real numbers between two ends, and no booleans."""

    def plain(value: Any) -> float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise Illegal
        try:
            number = float(value)
        except OverflowError:
            raise Illegal from None
        above = number >= low if closed_low else number > low
        below = number <= high if closed_high else number < high
        if not (above and below):
            raise Illegal
        return number

    return plain


def choice(*names: str) -> Kind:
    """One of some words."""

    def plain(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Illegal
        return str(value)

    return plain


def optional(kind: Kind) -> Kind:
    """Take None as well."""
    return lambda value: None if value is None else kind(value)


def either(*kinds: Kind) -> Kind:
    """Any of several kinds."""

    def plain(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind(value)
            except Illegal:
                continue
        raise Illegal

    return plain


def of_type(*types: type) -> Kind:
    """Objects of a class, as they are."""

    def plain(value: Any) -> Any:
        if not isinstance(value, types):
            raise Illegal
        return value

    return plain


def never(value: Any) -> Any:
    """None of the values that are tried here."""
    raise Illegal


def function(value: Any) -> Any:
    """Anything that can be called."""
    if not callable(value):
        raise Illegal
    return value


def plain_numbers(value: Any, kinds: str, labels: Sequence[str] | None) -> np.ndarray:
    """Return the numbers of a list, array or labelled vector, in the order of the labels."""
    if isinstance(value, np.ma.MaskedArray | str | bytes | bytearray | Mapping | set | frozenset | Decimal):
        raise Illegal
    given = None
    if isinstance(value, xr.DataArray) and value.ndim == 1 and value.dims[0] in value.coords:
        given = [str(label) for label in value[value.dims[0]].values]
    if isinstance(value, pd.Series) and list(value.index) != list(range(len(value))):
        given = [str(label) for label in value.index]
    if given is not None:
        if labels is None or sorted(given) != sorted(labels):
            raise Illegal
        value = [value.values[given.index(label)] for label in labels]
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise Illegal from None
    if array.dtype.kind in kinds:
        return array
    if array.size:
        raise Illegal
    return np.empty(array.shape)


def numbers(k: int, low: float, total: float | None = None, labels: Sequence[str] | None = None) -> Kind:
    """Vectors of K finite numbers of at least `low` (above it, for the positive), that sum to `total`."""

    def plain(value: Any) -> list[float]:
        array = plain_numbers(value, "fiu", labels)
        if array.shape != (k,):
            raise Illegal
        listed = [float(number) for number in array]
        if not all(math.isfinite(number) and number >= low for number in listed):
            raise Illegal
        found = sum(listed)
        if not math.isfinite(found) or found <= 0 or (total is not None and abs(found - total) > 1e-6):
            raise Illegal
        return listed

    return plain


def prior(k: int, labels: Sequence[str] | None = None) -> Kind:
    """One positive number, or K of them."""

    def plain(value: Any) -> Any:
        array = plain_numbers(value, "fiu", labels)
        if array.shape not in ((), (k,)) or any(not 1e-100 <= number <= 1e100 for number in array.ravel().tolist()):
            raise Illegal
        return array.astype(float).tolist()

    return plain


def indices(k: int, ndim: int | None = None, least: int = 0) -> Kind:
    """Integer arrays with values from 0 to K−1."""

    def plain(value: Any) -> Any:
        array = plain_numbers(value, "iu", NAMES[:0] if isinstance(value, pd.Series) else None)
        if (ndim is not None and array.ndim > ndim) or array.size < least:
            raise Illegal
        numbers = array.ravel().tolist()
        if any(not 0 <= number < k for number in numbers):
            raise Illegal
        return np.array(numbers, dtype=int).reshape(array.shape)  # none of them may be of any type

    return plain


def subset(k: int, labels: Sequence[str] | None = None) -> Kind:
    """Distinct indices or a mask, of fewer than K categories."""

    def plain(value: Any) -> list[int]:
        if isinstance(value, set | frozenset):
            value = list(value)
        mask = getattr(getattr(value, "dtype", None), "kind", "") == "b"
        if not mask and isinstance(value, xr.DataArray | pd.Series):
            value = value.values
        array = plain_numbers(value, "biu", labels)
        if array.ndim != 1:
            raise Illegal
        listed = array.tolist()
        if array.dtype == bool:
            listed = [i for i, member in enumerate(listed) if member] if len(listed) == k else [-1]
        if any(not 0 <= i < k for i in listed) or len(set(listed)) < len(listed) or len(listed) == k:
            raise Illegal
        return sorted(int(i) for i in listed)

    return plain


def labels(k: int) -> Kind:
    """K words or numbers that can be told apart."""

    def plain(value: Any) -> list[str]:
        if isinstance(value, str | bytes | Mapping | set | frozenset) or not isinstance(value, Iterable):
            raise Illegal
        if getattr(value, "ndim", 1) == 0:
            raise Illegal
        listed = []
        for each in value:
            scalar = (
                each.item() if isinstance(each, np.generic | np.ndarray | xr.DataArray) and each.ndim == 0 else each
            )
            if not isinstance(scalar, str | int | float) or scalar != scalar:
                raise Illegal
            listed.append(str(scalar))
        if len(listed) != k or len({label.strip() for label in listed}) != k:
            raise Illegal
        if any(not label.isprintable() or not label or label != label.strip() for label in listed):
            raise Illegal
        return listed

    return plain


def matrix(value: Any) -> list[list[float]]:
    """Channels G[y, x]."""
    array = plain_numbers(value, "fiu", None)
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] < 1:
        raise Illegal
    rows = [[float(number) for number in row] for row in array]
    if not all(math.isfinite(number) and number >= 0 for row in rows for number in row):
        raise Illegal
    if any(abs(math.fsum(column) - 1) > 1e-9 for column in zip(*rows, strict=True)):
        raise Illegal
    return rows


# ---------------------------------------------------------------- what is tried
@cache
def _pool() -> list[Any]:
    ragged = [[0], [0, 1]]
    scalars = [None, True, False, np.True_, 0, 1, 2, 3, -1, 7, 2**31, 2**63, 2**70, 10**400, -(10**400)]
    reals = [0.0, 0.5, 1.0, -0.5, 1.5, 31.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, np.float32(0.5), 1j]
    odd = [Fraction(1, 2), Decimal("0.5"), np.complex128(1), np.datetime64(3, "D"), datetime(2020, 1, 1, tzinfo=UTC)]
    texts = ["", " ", "a", "0.5", "nan", "red", "\0", "a\nb", "x" * 5000, "\ud800", b"a", bytearray(b"1")]
    lists: list[Any] = [
        [],
        [0],
        [0, 1],
        [0, 0],
        [0, 1, 2],
        [0, 3],
        [-1],
        [0.5, 0.3, 0.2],
        [1, 1, 1],
        [1, 0, 0],
        [0.5, 0.5],
    ]
    lists += [
        [math.nan, 0.5, 0.5],
        [math.inf, 1, 1],
        [-0.1, 0.6, 0.5],
        [0.0, 0.0, 0.0],
        [1e308] * 3,
        [None] * 3,
        ["a", "b", "c"],
    ]
    lists += [
        ["a", "a", "b"],
        ["a", "a ", "b"],
        ["a", "", "b"],
        [True, False, False],
        [True] * 3,
        [True, False],
        ragged,
    ]
    lists += [
        [[0.5, 0.5], [0.5, 0.5]],
        [[1.0, 0.5], [0.0, 0.5]],
        [[0.5, 0.6], [0.5, 0.5]],
        [[]],
        [[0, 1, 2]],
        (),
        range(3),
    ]
    boxes: list[Any] = [
        {},
        {"a": 1},
        {1: 2},
        set(),
        {0, 1},
        {0, "a"},
        frozenset({2}),
        iter([0, 1]),
        object(),
        len,
        SRR,
        int,
    ]
    arrays = [
        np.array(3),
        np.array(0.5),
        np.array([]),
        np.zeros((0, 3)),
        np.zeros((2, 3)),
        np.zeros((1, 1, 1)),
        np.ones(3) / 3,
    ]
    arrays += [
        np.ma.masked_array([0.5, 0.3, 0.2], [0, 1, 0]),
        np.ma.masked_array([0, 1], [0, 1]),
        np.array([0, 1], dtype=object),
    ]
    arrays += [
        np.array(["a", "b"]),
        np.array([0.5, 0.3, 0.2], dtype=np.float16),
        np.array([0, 1], dtype=np.uint64),
        np.array([2**63]),
    ]
    shuffled = ["blue", "red", "green"]
    labelled: list[Any] = [xr.DataArray([0.2, 0.5, 0.3], coords={"category": shuffled}, dims="category")]
    labelled += [
        xr.DataArray([0.5, 0.3, 0.2], coords={"category": ["a", "b", "c"]}, dims="category"),
        xr.DataArray([0.5, 0.3, 0.2]),
    ]
    labelled += [
        xr.DataArray([True, False, False], coords={"category": shuffled}, dims="category"),
        pd.Series([1.0, 2.0, 3.0]),
    ]
    labelled += [pd.Series([0.2, 0.5, 0.3], index=shuffled), pd.Series([0.5, 0.3], index=["red", "green"])]
    bits = [[1, 0, 1], [0, 0, 1]]
    labelled += [
        pd.DataFrame(bits),
        pd.DataFrame(bits, columns=shuffled),
        pd.DataFrame(bits, columns=list("abc")),
        xr.DataArray(bits, coords={"category": shuffled}, dims=("person", "category")),
        pd.DataFrame([[0.6, 0.3], [0.4, 0.7]], columns=["b", "a"]),
        np.array(bits, dtype=bool),
        np.array(bits, dtype=float),
        np.array([[0, 1], [3, 2], [2**31, 0]]),
    ]
    others = [
        xr.Dataset(),
        xr.DataTree(),
        Path("."),
        Path("no/such/file"),
        SRR,
        RESPONSES,
        RESPONSES.evidence(),
        SUBSETS,
    ]
    return [*scalars, *reals, *odd, *texts, *lists, *boxes, *arrays, *labelled, *others]


def hostile(place: int) -> Any:
    """Return one of the values that every argument is tried with; an iterator is made anew, since a call uses it up."""
    value = _pool()[place]
    return iter([0, 1]) if isinstance(value, Iterator) else value


def n_hostile() -> int:
    """Return how many of them there are."""
    return len(_pool())


SRR = ad.SRR(3, 1.0)
RRRR = ad.RRRR(3, 1.0, 0.8)
SUBSETS = ad.SubsetSelection(3, 1.0, 2)
RESPONSES = ad.Responses.from_arrays(RRRR, [0, 1, 0, 2, 0, 0, 1], [[True, False, False]], [0] * 7, NAMES)


# ---------------------------------------------------------------- what is called
@dataclass(frozen=True)
class Entry:
    """A public function: good arguments, made anew for each call, and what each of them may be.

    `words` are what an argument is called in a sentence, where that is not its name.
    """

    name: str
    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    kinds: Mapping[str, Kind]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One argument of one function with one of the hostile values (by its place in `hostile`)."""

    entry: Entry
    argument: str
    place: int

    def __str__(self) -> str:
        return f"{self.entry.name}({self.argument}=…#{self.place})"


def attempt(case: Case) -> tuple[str, str]:
    """Make the call, and return "refused", "right" or "wrong" with what was said."""
    return judge(case.entry, case.argument, hostile(case.place), hostile(case.place))


def judge(entry: Entry, argument: str, given: Any, again: Any) -> tuple[str, str]:
    """Call with a value, and check the outcome against the definitions; `again` is an equal value, made anew."""
    try:
        plain = entry.kinds[argument](again)
        legal = True
    except Illegal:
        plain, legal = None, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = entry.call(**entry.good() | {argument: given})
        except (ValueError, OSError) as problem:
            flaw = flaw_of_sentence(str(problem), entry.words.get(argument, argument))
            if flaw or type(problem).__name__ in ("LinAlgError", "UnicodeEncodeError", "JSONDecodeError"):
                return "wrong", f"{type(problem).__name__}, {flaw or 'raw'}: {str(problem)[:300]}"
            return ("wrong", f"legal, but refused: {problem}") if legal else ("refused", str(problem))
        except Exception as problem:
            return "wrong", f"{type(problem).__name__}: {str(problem)[:300]}"
        if not legal:
            return "wrong", f"taken, though it is not legal: {str(given)[:100]!r}"
        if plain is None:
            return "right", ""  # the default, which may be another seed each time
        expected = entry.call(**entry.good() | {argument: plain})
    return ("right", "") if same(found, expected) else ("wrong", "another result than that of the plain value")


def flaw_of_sentence(text: str, word: str) -> str:
    """Return what is wrong with an error as a sentence for a person, or nothing."""
    if "\n" in text.strip() or not text.strip():
        return "not one line"
    if len(text) > LONGEST_SENTENCE:
        return "too long"
    if word.lower() not in text.lower():
        return f"does not name {word!r}"
    return ""


def same(found: Any, expected: Any) -> bool:
    """Tell whether two results are equal, apart from times and identities."""
    match found:
        case np.ndarray() if found.dtype == object:
            return True  # axes of figures
        case np.ndarray() | np.generic() | float() | int() | str() | None:
            return bool(np.array_equal(found, expected, equal_nan=isinstance(found, float)))
        case xr.DataTree():
            return bool(np.array_equal(found["posterior"]["theta"].values, expected["posterior"]["theta"].values))
        case xr.Dataset():
            timed = ("wall_time", "ess_per_second", "seconds")
            return bool(found.drop_vars(timed, errors="ignore").equals(expected.drop_vars(timed, errors="ignore")))
        case ad.Responses():
            return found.categories == expected.categories and found.evidence() == expected.evidence()
        case ad.OnlineRun():
            return same(found.responses, expected.responses) and same(found.chain_mean, expected.chain_mean)
        case dict():
            return bool(found.keys() == expected.keys())
        case tuple():
            return len(found) == len(expected) and all(map(same, found, expected))
        case _:
            return type(found) is type(expected)


def cases(entries: Sequence[Entry]) -> list[Case]:
    """Return every argument of every function with every hostile value."""
    places = range(n_hostile())
    return [Case(entry, argument, place) for entry in entries for argument in entry.kinds for place in places]
