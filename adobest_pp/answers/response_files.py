"""Response files as they are read: a file of answers, or the file of a collection with its journal."""

import io
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from adobest_pp._checks import check_path
from adobest_pp.answers.journal import Tail, read_tail
from adobest_pp.answers.netcdf import Damaged, content_of, damaged_or_no, read_dataset
from adobest_pp.answers.question_answers import QUESTIONS, QuestionAnswers
from adobest_pp.answers.responses import Responses
from adobest_pp.mechanisms.reading import loads

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["COLLECTION", "Stored", "check_whole", "read_stored"]


# The attribute that marks the file of a collection, with a note for whoever opens it with other programs.
COLLECTION = "collection"


class Stored(NamedTuple):
    """A response file: all answers in it, its attributes, and the journal if it is that of a collection."""

    responses: Responses
    attributes: dict[str, Any]
    tail: Tail | None


def read_stored(path: str | os.PathLike[str]) -> Stored:
    """Read a response file, with the answers that came after it was saved, or raise ValueError."""
    path = check_path(path)
    name = os.fspath(path)
    if not path.is_file():
        raise FileNotFoundError(f"path must name a response file, got {name!r}, which does not exist")
    try:
        content = content_of(path)  # once, even if another file takes its place meanwhile
        tail = read_tail(io.BytesIO(content), name)
        dataset = read_dataset(content, None if tail is None else tail.start)
    except Damaged as reason:
        told = f"path must name a response file written by Responses.to_netcdf, got {name!r}"
        raise ValueError(f"{told}, which {damaged_or_no(reason)}") from None
    try:
        if COLLECTION in dataset.attrs and tail is None:
            raise ValueError("the journal behind its netCDF part is gone, which another program cut off")
        responses = Responses._from_dataset(dataset)
        if tail is not None and QUESTIONS in dataset.attrs:
            questions = loads(dataset.attrs[QUESTIONS])
            responses = QuestionAnswers.stored(responses, questions, tail.events).responses
        elif tail is not None:
            responses._extend([event for event in tail.events if "answers" in event])
    except KeyError as missing:
        raise ValueError(f"path must name a response file, got {name!r}, which has no {missing}") from None
    except (TypeError, ValueError, RecursionError) as reason:
        raise ValueError(f"path must name a response file, got {name!r}: {reason}") from None
    return Stored(responses, dict(dataset.attrs), tail)


def check_whole(dataset: "xr.Dataset") -> None:
    """Raise ValueError if xarray read the dataset from a collection with later answers, which it does not see."""
    source = dataset.encoding.get("source")
    if COLLECTION not in dataset.attrs or not isinstance(source, str) or not os.path.isfile(source):
        return
    with open(source, "rb") as handle:
        tail = read_tail(handle, source)
    if tail is None or any("answers" in event for event in tail.events):
        raise ValueError(
            "dataset must hold all answers, but xarray does not see those that came after the collection was saved: "
            f"use Responses.from_netcdf({source!r})"
        )
