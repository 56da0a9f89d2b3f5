"""Mechanisms by name, and how to read their settings from text and files of other people.

A mechanism of your own is known after ``register``. A person (in a command, a study or code) may also name it as
``module:Class``, or by an entry point of the group ``adobest_pp.mechanisms``: its module is imported and the class
registered. Reading a file never imports anything, not even an entry point: Python also finds packages in the current
folder, which may have come with the file.

The cost of reading a question or the settings in a file must not be out of proportion to its length: a few bytes must
not take gigabytes. So the work is bounded, not only the number of categories. Constructors have the same bounds as
readers, so whatever can be built and written can be read again.
"""

import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from adobest_pp._text import brief
from adobest_pp.mechanisms.base import Mechanism

GROUP = "adobest_pp.mechanisms"

# Bounds of settings, in a question or a file.
MAX_DEPTH = 16  # nested lists and mappings
MAX_DIGITS = 40  # of an integer
MAX_WEIGHT_BITS = 128  # of the weight of a set
MAX_BUDGETS = 20_000  # of an RRRR, each of which is audited


class UnknownMechanism(ValueError):
    """Settings name a mechanism that is neither part of adobest_pp nor registered."""


_HOMES = {
    "SRR": "srr",
    "RRRR": "rrrr",
    "SubsetSelection": "subset_selection",
    "UnaryEncoding": "unary_encoding",
    "LocalHashing": "local_hashing",
    "HadamardResponse": "hadamard_response",
    "ProjectiveGeometryResponse": "projective_geometry_response",
    "CountMeanSketch": "count_mean_sketch",
    "SetFamily": "set_family",
    "Channel": "channel",
    "Warner": "classical",
    "ForcedResponse": "classical",
    "UnrelatedQuestion": "classical",
    "Crosswise": "classical",
    "Kuk": "classical",
}
# Mechanisms made of others: files name them, but nobody builds them by name and settings.
_COMPOSED = {"Memoized": "memoized", "Mixed": "mixed"}
_OTHERS: dict[str, type[Mechanism]] = {}


def register[M: type[Mechanism]](mechanism: M) -> M:
    """Make a mechanism class known by its name. Use it as a decorator."""
    name = mechanism.__name__
    before = _OTHERS.get(name)
    if name in _HOMES | _COMPOSED or (before is not None and before.__module__ != mechanism.__module__):
        raise ValueError(f"mechanism must have a name that is not taken, got {brief(name)}")
    _OTHERS[name] = mechanism
    return mechanism


def mechanism_names() -> list[str]:
    """Return the names of all known mechanisms."""
    return [*_HOMES, *_OTHERS, *(point.name for point in entry_points(group=GROUP) if point.name not in _OTHERS)]


def find_mechanism(name: str) -> type[Mechanism]:
    """Return the class with a name that a person typed, and register it. This may import a module.

    Parameters
    ----------
    name : str
        A known name in any spelling (``"subset-selection"`` is ``SubsetSelection``), the name of an entry point, or
        ``module:Class``. Never pass a name that was read from a file: use `mechanism_from_settings` for those.
    """
    if isinstance(name, str) and ":" in name:
        return _registered(_imported(name))
    if (known := known_mechanism(name)) is not None:
        return _known(known)
    # Entry points come last: reading the metadata of every installed package takes 20 ms.
    for point in entry_points(group=GROUP):
        if plain_name(point.name) == plain_name(name):
            return _registered(_checked(point.load(), point.name))
    raise ValueError(
        f"mechanism must be one of {', '.join(mechanism_names())}, got {brief(name)}; "
        "import and register a mechanism of your own first"
    )


def known_mechanism(name: object) -> str | None:
    """Return the class name of a mechanism of ours, or a registered one, for any spelling of it; import nothing."""
    wanted = plain_name(name) if isinstance(name, str) else None
    return next((known for known in (*_HOMES, *_COMPOSED, *_OTHERS) if plain_name(known) == wanted), None)


def _known(name: str) -> type[Mechanism]:
    """Return a class of ours or a registered one by its exact name. Only our own modules are imported."""
    if name in _OTHERS:
        return _OTHERS[name]
    return _imported(f"adobest_pp.mechanisms.{(_HOMES | _COMPOSED)[name]}:{name}")


def mechanism_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the public parameters of a mechanism's constructor, by name."""
    parameters = inspect.signature(find_mechanism(name)).parameters
    return {name: parameter for name, parameter in parameters.items() if not name.startswith("_")}


def is_built_from(name: str, *settings: str) -> bool:
    """Return whether a mechanism has all of these settings and requires no others."""
    parameters = mechanism_parameters(name)
    return {each for each, p in parameters.items() if p.default is p.empty} <= {*settings} <= {*parameters}


def build_mechanism(name: str, **settings: Any) -> Mechanism:
    """Build a mechanism by name, or raise ValueError for a missing or an unknown setting."""
    mechanism, parameters = find_mechanism(name), mechanism_parameters(name)
    kind, unknown = mechanism.__name__, [each for each in settings if each not in parameters]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} must be left out for {kind}, which has only {', '.join(parameters)}")
    missing = [each for each, p in parameters.items() if p.default is p.empty and each not in settings]
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given for {kind}")
    return mechanism(**settings)


def mechanism_from_settings(settings: Mapping[str, Any]) -> Mechanism:
    """Build the mechanism with these `settings`, which may come from somebody else's file.

    Nothing is imported: the class must be part of adobest_pp or registered. Keys that are not needed are ignored.
    """
    if not isinstance(settings, Mapping) or not isinstance(settings.get("mechanism"), str):
        raise ValueError(f"settings must be a mapping with the key 'mechanism', got {brief(settings)}")
    name = settings["mechanism"]
    if name not in _HOMES | _COMPOSED | _OTHERS:
        raise UnknownMechanism(
            f"mechanism must be one of {', '.join([*_HOMES, *_COMPOSED, *_OTHERS])}, got "
            f"{brief(name)}: a file never causes an import, so import the module of your mechanism and register the "
            "class first; on the command line, add --mechanism module:Class"
        )
    mechanism = _known(name)
    _check_depth(settings)
    try:
        return mechanism.from_settings(settings)
    except KeyError as missing:
        raise ValueError(f"settings of {name} must include {missing}, got {sorted(map(str, settings))}") from None


def _registered(mechanism: type[Mechanism]) -> type[Mechanism]:
    """Register a class, unless it is one of ours."""
    name = mechanism.__name__
    is_ours = name in _HOMES | _COMPOSED and _known(name) is mechanism
    return mechanism if is_ours else register(mechanism)


def _imported(path: str) -> type[Mechanism]:
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        raise ValueError(f"mechanism must be a class that can be imported, got {brief(path)}: {problem}") from None
    return _checked(found, path)


def _checked(found: Any, name: str) -> type[Mechanism]:
    if not (isinstance(found, type) and issubclass(found, Mechanism)) or inspect.isabstract(found):
        raise ValueError(f"mechanism must be a Mechanism class, got {brief(name)}")
    return found


def plain_name(name: object) -> str:
    """Return what all spellings of a name have in common, such as ``subsetselection`` for ``SubsetSelection``."""
    return str(name).lower().replace("_", "").replace("-", "")


# Text and files of other people.


def loads(text: str | bytes | bytearray) -> Any:
    """Return the content of a JSON text, or raise ValueError.

    Not allowed are a key that occurs twice in one object (readers differ on which value counts), integers of more than
    `MAX_DIGITS` digits, NaN, infinity and deep nesting.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)
    except (TypeError, RecursionError):
        raise ValueError("the text must be JSON") from None


def _check_depth(settings: Mapping[str, Any]) -> None:
    """Raise ValueError if lists and mappings are nested more than `MAX_DEPTH` deep."""
    level: list[Any] = [dict(settings)]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [value for values in inner for value in values if isinstance(value, dict | list | tuple)]
        if not level:
            return
    raise ValueError(f"settings must have at most {MAX_DEPTH} levels of nested lists and mappings, got more")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("the keys of an object must be distinct")
    return content


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer must have at most {MAX_DIGITS} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise ValueError(f"a number must be finite, got {name}")
