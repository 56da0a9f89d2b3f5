"""What may be read from others: the bounds on questions and settings, and JSON without surprises.

A mechanism is built from the text of a question or from the settings in a file. Neither may cost much more than its
length: a few bytes must not ask for gigabytes. So work is bounded, not the number of categories alone. A constructor
has the same bounds as a reader: whatever can be built and written can be read again.
"""

import json
from collections.abc import Mapping
from typing import Any

# A published question. Within these bounds a device reads it, audits it and answers it within a second and 100 MB.
MAX_TEXT = 1_000_000  # bytes
MAX_ASKED = 20_000  # categories
MAX_TABLE = 300_000  # sets times categories: the weights that an answer is drawn against

# Settings, in a question or a file.
MAX_DEPTH = 16  # lists and mappings within each other
MAX_DIGITS = 40  # of an integer
MAX_WEIGHT_BITS = 128  # of the weight of a set
MAX_BUDGETS = 20_000  # budgets of an RRRR, each of which is audited

_NESTING = (dict, list, tuple)


def loads(text: str | bytes | bytearray) -> Any:
    """Return the content of a JSON text, or raise ValueError.

    Refused are a key that comes twice in one object (readers differ on which value counts), integers of more than
    `MAX_DIGITS` digits, NaN and infinity, and deep nesting.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)
    except (TypeError, RecursionError):
        raise ValueError("the text must be JSON") from None


def check_depth(settings: Mapping[str, Any]) -> None:
    """Raise ValueError if lists and mappings are nested more than `MAX_DEPTH` deep."""
    level: list[Any] = [dict(settings)]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [value for values in inner for value in values if isinstance(value, _NESTING)]
        if not level:
            return
    raise ValueError(f"settings must have at most {MAX_DEPTH} levels of lists and mappings, got more")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("an object must have each key once")
    return content


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer must have at most {MAX_DIGITS} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise ValueError(f"a number must be finite, got {name}")
