"""The names of mechanisms, for files, studies and the command line.

A mechanism of your own is known after ``register``. What a person types (a command, a study, code) may also name it as
``module:Class``, or by an entry point of the group ``adobest_pp.mechanisms``: its module is imported and the class
registered. What is read from a file never imports anything, not even an entry point: packages are also found in the
current folder, which may have come with the file.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from adobest_pp._text import brief
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.reading import check_depth

GROUP = "adobest_pp.mechanisms"


class UnknownMechanism(ValueError):
    """Settings name a mechanism that is neither of adobest_pp nor registered."""


_HOMES = {
    "SRR": "srr",
    "RRRR": "rrrr",
    "SubsetSelection": "subset_selection",
    "UnaryEncoding": "unary_encoding",
    "LocalHashing": "local_hashing",
    "HadamardResponse": "hadamard_response",
    "SetFamily": "set_family",
    "Channel": "channel",
}
# Made of other mechanisms: files name it, nobody builds it by name and settings.
_COMPOSED = {"Mixed": "mixed"}
_OTHERS: dict[str, type[Mechanism]] = {}


def register[M: type[Mechanism]](mechanism: M) -> M:
    """Make a mechanism class known by its name; use as a decorator."""
    name = mechanism.__name__
    known = name in _HOMES | _COMPOSED or (
        _OTHERS.get(name) is not None and _OTHERS[name].__module__ != mechanism.__module__
    )
    if known:
        raise ValueError(f"mechanism must have a name of its own, got {brief(name)}, which is taken")
    _OTHERS[name] = mechanism
    return mechanism


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms that are known."""
    return [*_HOMES, *_OTHERS, *(point.name for point in entry_points(group=GROUP) if point.name not in _OTHERS)]


def find_mechanism(name: str) -> type[Mechanism]:
    """Return the class of a name that a person typed, and register it: this may import a module.

    Parameters
    ----------
    name : str
        A known name in any spelling (``"subset-selection"`` is ``SubsetSelection``), the name of an entry point, or
        ``module:Class``. Never pass a name that was read from a file: `mechanism_from_settings` is for those.
    """
    if isinstance(name, str) and ":" in name:
        return _registered(_imported(name))
    wanted = plain_name(name) if isinstance(name, str) else None
    for known in (*_HOMES, *_COMPOSED, *_OTHERS):
        if plain_name(known) == wanted:
            return _known(known)
    # Last, because it reads what every installed package says of itself: twenty milliseconds.
    for point in entry_points(group=GROUP):
        if plain_name(point.name) == wanted:
            return _registered(_checked(point.load(), point.name))
    raise ValueError(
        f"mechanism must be one of {', '.join(mechanism_names())}, got {brief(name)}; "
        "one of your own must be imported and registered first"
    )


def _known(name: str) -> type[Mechanism]:
    """Return a class of ours or a registered one by its exact name; imports nothing but our own modules."""
    if name in _OTHERS:
        return _OTHERS[name]
    return _imported(f"adobest_pp.mechanisms.{(_HOMES | _COMPOSED)[name]}:{name}")


def mechanism_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the settings that a mechanism is built from, by name."""
    return inspect.signature(find_mechanism(name)).parameters


def is_built_from(name: str, *settings: str) -> bool:
    """Tell whether a mechanism has all of these settings and needs no others."""
    parameters = mechanism_parameters(name)
    return {each for each, p in parameters.items() if p.default is p.empty} <= {*settings} <= {*parameters}


def build_mechanism(name: str, **settings: Any) -> Mechanism:
    """Build a mechanism by name, or raise ValueError for a setting that it does not have."""
    mechanism, parameters = find_mechanism(name), mechanism_parameters(name)
    for setting in settings:
        if setting not in parameters:
            raise ValueError(
                f"{setting} must be left out for {mechanism.__name__}, which has {', '.join(parameters)} only"
            )
    missing = [each for each, p in parameters.items() if p.default is p.empty and each not in settings]
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given for {mechanism.__name__}")
    return mechanism(**settings)


def mechanism_from_settings(settings: Mapping[str, Any]) -> Mechanism:
    """Build the mechanism whose `settings` these are; they may come from a file of somebody else.

    Nothing is imported: the class must be of adobest_pp, or registered. More keys than needed do no harm.
    """
    if not isinstance(settings, Mapping) or not isinstance(settings.get("mechanism"), str):
        raise ValueError(f"settings must be a mapping with the key 'mechanism', got {brief(settings)}")
    name = settings["mechanism"]
    if name not in _HOMES | _COMPOSED | _OTHERS:
        raise UnknownMechanism(
            f"mechanism must be one of {', '.join([*_HOMES, *_COMPOSED, *_OTHERS])}, got "
            f"{brief(name)}: nothing is imported that a file names, so import the module of your mechanism and "
            "register the class first; a command does so if you add --mechanism module:Class"
        )
    mechanism = _known(name)
    check_depth(settings)
    try:
        return mechanism.from_settings(settings)
    except KeyError as missing:
        raise ValueError(
            f"settings of {mechanism.__name__} must include {missing}, got {sorted(map(str, settings))}"
        ) from None


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
        raise ValueError(f"mechanism must be a Mechanism class, got {brief(name)}, which is not one")
    return found


def plain_name(name: object) -> str:
    """Return what all spellings of a name have in common: those of ``SubsetSelection`` are ``subsetselection``."""
    return str(name).lower().replace("_", "").replace("-", "")
