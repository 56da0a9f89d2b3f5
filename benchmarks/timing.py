"""What the benchmarks share: the best of several timings, and Markdown tables."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def best_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least of `repeats` timings, after one call that compiles and warms up."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        timings.append(time.perf_counter() - start)
    return min(timings)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table for RESULTS.md."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
