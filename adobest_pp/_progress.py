"""A progress bar that appears only when it takes long enough to ask for one."""

import threading
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["SlowProgress"]

PATIENCE = 2.0


class SlowProgress:
    """Count work done, and show it from two seconds on, also where nothing is done yet (while code is compiled).

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
        self._total, self._label = total, label
        self._done = 0
        self._bar: Progress | None = None
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show) if enabled else None

    def __enter__(self) -> "SlowProgress":
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def advance(self, amount: int) -> None:
        """Note that so many units more are done."""
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        with self._lock:
            if self._over:
                return
            bar = Progress(console=Console(stderr=True))  # results go to standard output
            self._task = bar.add_task(self._label, total=self._total, completed=self._done)
            bar.start()
            self._bar = bar
