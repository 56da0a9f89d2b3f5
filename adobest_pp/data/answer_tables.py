"""Tables of randomized answers: what the columns of a Parquet, Arrow or CSV file of answers hold.

One row is one person's answer.

- An answer that is one number (SRR, RRRR, Hadamard response, set families, channels) is the column ``answer``: its
  code 0, 1, …; or, for SRR and RRRR, the label of the category as text.
- An answer that is a set (subset selection, unary encoding) is the column ``answer``: ⌈K/8⌉ bytes of packed bits, the
  first category the highest bit of the first byte, as `numpy.packbits` has them; or text of K zeros and ones; or a list
  of codes or labels.
- Local hashing has two columns of integers, ``seed`` and ``value``. Other answers of several numbers have ``answer_0``,
  ``answer_1``, ….
- The subset that was published, for RRRR, is the column ``subset``: a set in any of the same forms.

Text without anything in it, null and NaN are empty values. Files that `Responses.to_parquet` writes tell the mechanism
and the categories in the metadata of their schema.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._labels import check_stored_labels
from adobest_pp._text import brief
from adobest_pp.mechanisms import ExtremalMechanism, Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.reading import loads
from adobest_pp.mechanisms.registry import UnknownMechanism

if TYPE_CHECKING:
    import pyarrow as pa

    from adobest_pp.data.responses import Responses

__all__ = ["ROWS_OF_A_GROUP", "SUBSET", "Described", "describe", "described", "is_set", "table_of"]

SUBSET = "subset"
_KEY = b"adobest_pp"
_SCHEMA, _VERSION = "adobest_pp.answers", 1
# Rows that are written, and counted, at a time.
ROWS_OF_A_GROUP = 1 << 20


class Described(NamedTuple):
    """What a file tells about its answers."""

    mechanism: Mechanism
    categories: tuple[str, ...]


def is_set(mechanism: Mechanism) -> bool:
    """Tell whether an answer of several numbers is gathered as its support set, in packed bits."""
    return (
        isinstance(mechanism, ExtremalMechanism)
        and bool(mechanism.answer_dims)
        and type(mechanism).log_weight_of_size is not ExtremalMechanism.log_weight_of_size
    )


def describe(mechanism: Mechanism, categories: tuple[str, ...]) -> dict[bytes, bytes]:
    """Return the metadata of a file of answers."""
    told = {
        "schema": _SCHEMA,
        "schema_version": _VERSION,
        "mechanism_settings": mechanism.settings(),
        "categories": list(categories),
    }
    return {_KEY: json.dumps(told).encode()}


def described(metadata: Mapping[bytes, bytes] | None) -> Described | None:
    """Return what the metadata of a schema tells, None if it tells nothing, or raise ValueError."""
    if not metadata or _KEY not in metadata:
        return None
    try:
        told = loads(metadata[_KEY])
        if told["schema"] != _SCHEMA or told["schema_version"] != _VERSION:
            raise ValueError
        mechanism = mechanism_from_settings(told["mechanism_settings"])
        return Described(mechanism, check_stored_labels(told["categories"], mechanism.n_categories))
    except UnknownMechanism:
        raise
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"the metadata {_KEY.decode()!r} must be as Responses.to_parquet writes it, "
            f"got {brief(metadata[_KEY].decode(errors='replace'))}"
        ) from None


def table_of(responses: "Responses") -> "pa.Table":
    """Return the table of answers, in their order."""
    import pyarrow as pa

    mechanism, answers = responses.mechanism, responses.answers
    columns: dict[str, Any] = {}
    if is_set(mechanism) and len(mechanism.answer_columns) == 1:
        assert isinstance(mechanism, ExtremalMechanism)
        columns["answer"] = _binary(np.packbits(mechanism.support(answers), axis=1))
    else:
        numbers = answers.reshape(len(answers), len(mechanism.answer_columns)).astype(mechanism.answer_type)
        columns |= {name: pa.array(numbers[:, i]) for i, name in enumerate(mechanism.answer_columns)}
    if mechanism.publishes_subset:
        sets = [row.tobytes() for row in np.packbits(responses.subsets, axis=1)]
        index = pa.array(responses.subset_index.astype(np.int32))
        columns[SUBSET] = pa.DictionaryArray.from_arrays(index, pa.array(sets, type=pa.binary()))
    return pa.table(columns).replace_schema_metadata(describe(mechanism, responses.categories))


def _binary(packed: NDArray[np.uint8]) -> "pa.Array":
    """Return rows of bytes as an array of binary values of one length."""
    import pyarrow as pa

    rows = np.ascontiguousarray(packed)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows.tobytes())]
    )
