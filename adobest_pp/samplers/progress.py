"""A progress bar that appears only when it takes long enough to ask for one."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["SlowProgress"]

PATIENCE = 2.0


class SlowProgress:
    """Count work done, and show it from two seconds on.

    Parameters
    ----------
    total : int
        Units of work in all.
    label : str
        What is being done.
    enabled : bool
        Whether to show anything at all.
    """

    def __init__(self, total: int, label: str, enabled: bool = True) -> None:
        self._total, self._label, self._enabled = total, label, enabled
        self._done = 0
        self._bar: Progress | None = None
        self._began = time.monotonic()

    def __enter__(self) -> "SlowProgress":
        return self

    def advance(self, amount: int) -> None:
        """Note that so many units more are done."""
        self._done += amount
        if self._bar is None:
            if not self._enabled or time.monotonic() - self._began < PATIENCE:
                return
            from rich.progress import Progress

            self._bar = Progress()
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._total)
        self._bar.update(self._task, completed=self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
