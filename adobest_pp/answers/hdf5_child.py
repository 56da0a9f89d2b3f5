"""The process that reads HDF5: a separate program, which imports NumPy and h5py and nothing else of this package.

A file that is damaged or made by a stranger can crash HDF5 or keep it busy forever. Here that ends only this process,
which `adobest_pp.answers.netcdf` starts, reuses and kills. The structure of a file is checked before any data is read.

A request is a line of JSON, ``{"size": bytes, "seconds": limit}``, and the bytes of the file. The reply is 8 bytes with
the length of a JSON text; the text, with groups, variables and attributes, or with ``refused``; and the bytes of the
arrays in order. The process sends a first, empty reply when it is ready.
"""

import io
import json
import math
import signal
import sys
from contextlib import suppress
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from h5py import h5a, h5d, h5o, h5s, h5t, h5z

# The most that a file may hold. Data: `RATIO` bytes for each byte of the file, or `ROOM` bytes if that is more.
RATIO, ROOM = 16, 1 << 25
OBJECTS, LEVELS, DIMENSIONS = 10_000, 16, 8
# Attributes of an object, and elements of an attribute.
ATTRIBUTES, ELEMENTS = 1_000, 4_096
# The fewest texts to read at a time.
TEXTS = 256
# Memory for this process, besides the file and its data.
SPARE = 1 << 30

LAYOUTS = (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED)
FILTERS = (h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
HIDDEN = {"REFERENCE_LIST", "CLASS", "DIMENSION_LIST", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict"}
PROPERTIES = "_NCProperties"
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


class Refused(Exception):
    """The file holds what we do not read."""


def room_of(size: int) -> int:
    """Return how many bytes of data a file of this size may hold."""
    return max(ROOM, RATIO * size)


class Reader:
    """Reads one file: `tree` is its structure, and `arrays` has the data of its numbers."""

    def __init__(self, file: Any, size: int) -> None:
        self.size, self.room, self.stored = size, room_of(size), 0
        self.datasets: dict[Any, Any] = {}
        self.seen: set[Any] = {self.place(h5o.get_info(file.id))}
        self.check_group(file, 0)
        self.arrays: list[Any] = []
        self.tree: dict[str, Any] = {"groups": {}}
        self.read_group(file, "/")

    @staticmethod
    def place(info: Any) -> tuple[Any, Any]:
        """Return what identifies an object in a file."""
        return info.fileno, info.addr

    def check_group(self, group: Any, level: int) -> None:
        """Check all objects of a group, before any data is read."""
        if level > LEVELS:
            raise Refused(f"groups nested more than {LEVELS} deep")
        for name in group:
            if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
                raise Refused("a soft or external link")
            info = h5o.get_info(group.id, name.encode())
            if self.place(info) in self.seen or info.rc != 1:
                raise Refused("an object with two names")
            self.seen.add(self.place(info))
            if len(self.seen) > OBJECTS:
                raise Refused(f"more than {OBJECTS} objects")
            if info.type == h5o.TYPE_GROUP:
                self.check_group(group[name], level + 1)
            elif info.type == h5o.TYPE_DATASET:
                self.datasets[self.place(info)] = name
                self.check_dataset(group[name])
            else:
                raise Refused("an object that is neither a group nor a variable")

    def check_dataset(self, dataset: Any) -> None:
        """Refuse data in other files, of other types, or more of it than the file can hold."""
        kept = dataset.id.get_create_plist()
        if kept.get_layout() not in LAYOUTS:
            raise Refused("a virtual variable")
        if kept.get_external_count():
            raise Refused("a variable whose data is in another file")
        filters = [kept.get_filter(i)[0] for i in range(kept.get_nfilters())]
        if any(each not in FILTERS for each in filters):
            raise Refused("a variable with a filter other than deflate, shuffle and fletcher32")
        item = item_size(dataset.id.get_type())
        space = dataset.id.get_space()
        is_simple = space.get_simple_extent_type() in (h5s.SCALAR, h5s.SIMPLE)
        if not is_simple or space.get_simple_extent_ndims() > DIMENSIONS:
            raise Refused(f"a variable without values or with more than {DIMENSIONS} dimensions")
        if is_only_dimension(dataset):
            return
        shape, stored = space.get_simple_extent_dims(), dataset.id.get_storage_size()
        needed = math.prod(shape) * item
        whole = stored >= needed
        if needed and h5z.FILTER_DEFLATE in filters:
            # Chunks are unpacked whole, and a missing one would be read as fill values.
            chunks = math.prod(-(-n // c) for n, c in zip(shape, dataset.chunks, strict=True))
            whole, needed = dataset.id.get_num_chunks() == chunks, chunks * math.prod(dataset.chunks) * item
        self.stored += stored
        self.room -= needed
        if not whole or self.stored > self.size or self.room < 0:
            raise Refused("a variable of a size that the file cannot hold")

    def read_group(self, group: Any, path: str) -> None:
        """Read a group and those within it into `tree` and `arrays`."""
        variables: dict[str, Any] = {}
        self.tree["groups"][path] = {"attributes": self.attributes(group), "variables": variables}
        for name in group:
            each = group[name]
            if isinstance(each, h5py.Group):
                self.read_group(each, f"{path.rstrip('/')}/{name}")
            elif not is_only_dimension(each):
                variables[name] = {"dims": self.dims(each), "attributes": self.attributes(each), **self.values(each)}

    def dims(self, dataset: Any) -> list[str]:
        """Return the names of a variable's dimensions, which must be variables of the same file."""
        if "DIMENSION_LIST" not in dataset.attrs:
            if dataset.ndim > 1 or (dataset.ndim == 1 and not dataset.is_scale):
                raise Refused("a variable whose dimensions have no names")
            return [dataset.name.rpartition("/")[2]] * dataset.ndim
        names = []
        for i in range(dataset.ndim):
            scales = dataset.dims[i]
            name = self.datasets.get(self.place(h5o.get_info(scales[0].id))) if len(scales) == 1 else None
            if name is None:
                raise Refused("a variable whose dimensions have no names")
            names.append(name)
        return names

    def values(self, dataset: Any) -> dict[str, Any]:
        """Return the description of a variable's values, with its texts; numbers go to `arrays`."""
        shape = list(dataset.shape)
        text = h5py.check_string_dtype(dataset.dtype)
        if text is None or text.length is not None:
            array = np.asarray(dataset[()])
            array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            self.arrays.append(array)
            return {"shape": shape, "dtype": array.dtype.str}
        # Many values may share one text in the file, so only as many are read at a time as there is room for.
        row = max(1, math.prod(shape[1:]))
        step = max(1, max(TEXTS, room_of(self.size) // max(1, self.size)) // row)
        strings, texts = dataset.asstr(), []
        for at in range(0, shape[0] if shape else 1, step):
            some = np.asarray(strings[at : at + step] if shape else strings[()], dtype=object).ravel().tolist()
            self.room -= sum(map(len, some))
            if self.room < 0:
                raise Refused("text of a size that the file cannot hold")
            texts += some
        return {"shape": shape, "texts": texts}

    def attributes(self, owner: Any) -> dict[str, Any]:
        """Return the attributes of an object as plain values, without those of netCDF itself."""
        if h5a.get_num_attrs(owner.id) > ATTRIBUTES:
            raise Refused(f"more than {ATTRIBUTES} attributes of an object")
        found = {}
        for name in owner.attrs:
            if name in HIDDEN:
                continue
            opened = owner.attrs.get_id(name)
            item = item_size(opened.get_type())
            count = math.prod(opened.shape or ())
            if count > ELEMENTS or count * item > self.size:
                raise Refused("an attribute of a size that the file cannot hold")
            plain = plain_attribute(owner.attrs[name])
            self.room -= len(json.dumps(plain))
            if self.room < 0:
                raise Refused("attributes of a size that the file cannot hold")
            if name == PROPERTIES:
                self.tree["properties"] = plain
            else:
                found[name] = plain
        return found


def item_size(kind: Any) -> int:
    """Return the size of a stored element, or refuse its type."""
    is_plain = kind.get_class() in (h5t.INTEGER, h5t.FLOAT) and kind.get_size() <= 8
    is_text = kind.get_class() == h5t.STRING
    if not (is_plain or is_text or (kind.get_class() == h5t.ENUM and kind.dtype == bool)):
        raise Refused("values that are neither numbers nor text")
    return int(kind.get_size())


def is_only_dimension(dataset: Any) -> bool:
    """Tell whether a dataset only states the length of a dimension."""
    if not dataset.is_scale or "NAME" not in dataset.attrs:
        return False
    item_size(dataset.attrs.get_id("NAME").get_type())
    name = dataset.attrs["NAME"]
    return isinstance(name, bytes) and name.startswith(NO_VARIABLE)


def plain_attribute(value: Any) -> Any:
    """Return an attribute for JSON: text, a list of text, or numbers with their type; one element becomes a scalar."""
    if isinstance(value, h5py.Empty):
        return {"dtype": value.dtype.newbyteorder("<").str, "values": []} if value.dtype.kind in "iufb" else ""
    if isinstance(value, str | bytes):
        return text_of(value)
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        texts = [text_of(each) for each in array.ravel().tolist()]
        return texts[0] if len(texts) == 1 else texts
    values = array.tolist()
    values = values[0] if array.ndim == 1 and array.size == 1 else values
    return {"dtype": array.dtype.newbyteorder("<").str, "values": values}


def text_of(value: Any) -> str:
    """Return text, decoded from UTF-8."""
    return value if isinstance(value, str) else bytes(value).decode()


def limit(seconds: float, memory: int) -> None:
    """Limit the CPU seconds of this process (0 for no limit) and its memory."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        with suppress(ValueError, OSError):  # a system without such a limit
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def answer(content: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return the reply to a request: a tree in JSON, and the arrays."""
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            reader = Reader(file, len(content))
    except Refused as reason:
        return {"refused": str(reason)}, []
    except BaseException:  # HDF5 raises many kinds; MemoryError means that the limit was reached
        return {"refused": ""}, []
    return reader.tree, reader.arrays


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    send(replies, {}, [])
    while line := requests.readline():
        request = json.loads(line)
        size = request["size"]
        limit(request["seconds"], SPARE + 4 * size + 2 * room_of(size))
        content = requests.read(size)
        if len(content) < size:
            return
        tree, arrays = answer(content)
        limit(0, SPARE + 4 * size + 2 * room_of(size))
        send(replies, tree, arrays)
        del content, tree, arrays


def send(replies: Any, tree: dict[str, Any], arrays: list[Any]) -> None:
    """Write a reply."""
    text = json.dumps(tree).encode()
    replies.write(len(text).to_bytes(8, "little") + text)
    for array in arrays:
        if array.size:
            replies.write(memoryview(array.reshape(-1)).cast("B"))
    replies.flush()


if __name__ == "__main__":
    main()
