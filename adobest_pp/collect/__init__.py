"""Collections of real people's answers."""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.collect.collection import Collection as Collection
    from adobest_pp.collect.people_file import collect_csv as collect_csv
    from adobest_pp.collect.policies import AdaptiveSubset as AdaptiveSubset
    from adobest_pp.collect.policies import Rounds as Rounds
    from adobest_pp.collect.policies import SameQuestion as SameQuestion
    from adobest_pp.collect.words import WordSearch as WordSearch
    from adobest_pp.collect.words import category_of as category_of

_HOMES = {
    "AdaptiveSubset": "policies",
    "Collection": "collection",
    "Rounds": "policies",
    "SameQuestion": "policies",
    "WordSearch": "words",
    "category_of": "words",
    "collect_csv": "people_file",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
