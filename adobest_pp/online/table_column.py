"""One column of a Parquet or Arrow file of people, as text. No value of a person is shown, not even in an error."""

import os

from adobest_pp._text import brief

__all__ = ["TABLES", "table_values"]

TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def table_values(path: str | os.PathLike[str], column: str) -> list[str]:
    """Return the values of the column as text, empty where there is none, or raise ValueError.

    The column holds text, integers or booleans; a number is the text of its digits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.feather
    import pyarrow.parquet as pq

    name = os.fspath(path)
    try:
        if name.lower().endswith((".parquet", ".pq")):
            names = pq.read_schema(path).names
        else:
            with pa.memory_map(name) as source:
                names = pa.ipc.open_file(source).schema.names
        if names.count(column) != 1:
            times = names.count(column)
            raise KeyError(f"column must be named once in {name!r}, got {brief(column)} {times} times")
        is_parquet = name.lower().endswith((".parquet", ".pq"))
        table = pq.read_table(path, columns=[column]) if is_parquet else pa.feather.read_table(name, columns=[column])
        values = table.column(0).combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        kind = values.type
        allowed = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        if not (allowed or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise KeyError(f"column must hold text, integers or booleans, got values of type {kind} in {name!r}")
        texts: list[str] = pc.fill_null(values.cast(pa.large_string()), "").to_pylist()
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(f"path must name a Parquet or Arrow file, got {name!r}, which is damaged or none") from None
    return texts
