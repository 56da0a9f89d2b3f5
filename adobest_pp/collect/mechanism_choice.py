"""Which mechanism a collection asks with: by name, with its own options; and the default, with its reason."""

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adobest_pp._text import brief
from adobest_pp.design.overview import DESIGN
from adobest_pp.mechanisms import (
    Mechanism,
    SubsetSelection,
    build_mechanism,
    find_mechanism,
    mechanism_names,
    mechanism_parameters,
)
from adobest_pp.mechanisms.registry import is_built_from, plain_name

if TYPE_CHECKING:
    from adobest_pp.collect.collection_file import KeptCollection

__all__ = [
    "DEFAULT_MECHANISM",
    "DEFAULT_REASON",
    "DESIGN",
    "choice_in_words",
    "chosen_mechanism",
    "make_collector",
    "mechanism_name",
]


# What `adobest collect` and `adobest compare` ask with unless told otherwise, and why (validation/RESULTS.md has the
# figures, section "mechanisms").
DEFAULT_MECHANISM = "subset-selection"
DEFAULT_REASON = (
    "it needs no tuning, and at equal ε its error in our validation was below that of SRR for uneven shares, and below "
    "that of RRRR by the paper's utilities unless almost everybody holds one category; design, which asks in rounds, "
    "was better still (10 to 50 categories), and semi-adaptive RRRR in some settings"
)

_OF_COLLECTION = ("n_categories", "epsilon", "categories", "n_people", "mechanism", "method", "self")


def mechanism_name(name: Any) -> str:
    """Return the name of a mechanism as it is shown, ``"subset-selection"`` for ``"SubsetSelection"``.

    Raise ValueError unless a collection can ask with it: a registered one that K and ε are enough to build, given by
    its name or as ``module:Class``, or ``"design"``.

    Examples
    --------
    >>> from adobest_pp.collect.mechanism_choice import mechanism_name
    >>> mechanism_name("SubsetSelection"), mechanism_name("RRRR")
    ('subset-selection', 'rrrr')
    """
    wanted = find_mechanism(name).__name__ if isinstance(name, str) and ":" in name else name
    usual = [shown for shown in map(_shown, mechanism_names()) if is_built_from(shown, "n_categories", "epsilon")] + [
        DESIGN
    ]
    for shown in usual if isinstance(name, str) else ():
        if plain_name(shown) == plain_name(wanted):
            return shown
    raise ValueError(f"mechanism must be one of {', '.join(usual)}, got {brief(name)}")


def choice_in_words(name: str, is_default: bool) -> str:
    """Return a sentence that names the mechanism of a collection, and why."""
    from adobest_pp.design.overview import WHEN

    if is_default:
        return f"The mechanism is {name}, the default: {DEFAULT_REASON}."
    use = "asking as in the paper, adapting to the answers so far" if name == "rrrr" else WHEN.get(name)
    return f"The mechanism is {name}, as you chose{f' (use it for: {use})' if use else ''}."


def chosen_mechanism(
    name: str, n_categories: int, epsilon: float, options: dict[str, Any]
) -> tuple[Mechanism, dict[str, Any]]:
    """Return the mechanism that is asked with, first asked with for ``"design"``, and the options of its collector.

    With the utility ``"semi_adaptive"``, RRRR spends all of ε inside the subset (κ = 1) unless `kappa` is given, as the
    authors of the paper ran it. Raise ValueError for an option that neither the mechanism nor its collector has.
    """
    own = [] if name == DESIGN else _parameters(mechanism_parameters(name))
    allowed = [*own, *(each for each in _parameters(_signature(collector_of(name))) if each not in own)]
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"{option} must be left out for {name}, which has {', '.join(allowed)} only, got {brief(value)}"
            )
    settings = {option: value for option, value in options.items() if option in own}
    rest = {option: value for option, value in options.items() if option not in own}
    if name == DESIGN:
        return SubsetSelection(n_categories, epsilon), rest
    if "kappa" in own and isinstance(utility := rest.get("utility"), str) and utility == "semi_adaptive":
        settings = {"kappa": 1.0} | settings
    return build_mechanism(name, n_categories=n_categories, epsilon=epsilon, **settings), rest


def collector_of(name: str) -> Any:
    """Return the class of the collector that asks with the mechanism of this name."""
    from adobest_pp.collect.adaptive_collector import AdaptiveCollector
    from adobest_pp.collect.design_collector import DesignCollector
    from adobest_pp.collect.plain_collector import PlainCollector

    if name == DESIGN:
        return DesignCollector
    return AdaptiveCollector if find_mechanism(name).publishes_subset else PlainCollector


def make_collector(
    mechanism: str, categories: Sequence[str], epsilon: float, n_people: int, options: dict[str, Any]
) -> "KeptCollection":
    """Return a new collector that asks with the mechanism of this name, or raise ValueError.

    Parameters
    ----------
    mechanism : str
        A registered mechanism, or ``"design"``.
    categories : sequence of str
        The labels.
    epsilon : float
        Budget of one answer.
    n_people : int
        How many people will be asked.
    options : dict
        Settings of the mechanism, such as `kappa`, and of its collector, such as `utility`.
    """
    name = mechanism_name(mechanism)
    built, rest = chosen_mechanism(name, len(categories), epsilon, options)
    planned = {"n_people": n_people} if name == DESIGN else {}
    collector: KeptCollection = collector_of(name)(built, categories=categories, **planned, **rest)
    return collector


def _signature(collector: Any) -> Any:
    return inspect.signature(collector.__init__).parameters


def _parameters(parameters: Any) -> list[str]:
    return [name for name in parameters if name not in _OF_COLLECTION and not name.startswith("_")]


def _shown(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
