"""For long calls: a progress bar after two seconds, and Ctrl-C that always works."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from adobest_pp._checks import check_flag

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 2.0


class SlowProgress:
    """Count finished work and show it after two seconds, even if nothing is done yet because code is being compiled.

    Parameters
    ----------
    total : int
        Units of work in total.
    label : str
        A name for the work.
    enabled : bool
        Whether to show anything at all.
    """

    def __init__(self, total: int, label: str, enabled: bool = True) -> None:
        check_flag(enabled, "progressbar")
        self._total, self._label = total, label
        self._done, self._note = 0, ""
        self._bar: Progress | None = None
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show) if enabled else None

    def __enter__(self) -> "SlowProgress":
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def advance(self, amount: int, note: str = "") -> None:
        """Add to the units done, and show a note behind the bar."""
        self._done, self._note = self._done + amount, note
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, note=note)

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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        with self._lock:
            if self._over:
                return
            label, note = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]"))
            columns = (label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True), note)
            bar = Progress(*columns, console=Console(stderr=True))  # results go to standard output
            self._task = bar.add_task(self._label, total=self._total, completed=self._done, note=self._note)
            bar.start()
            self._bar = bar


# Seconds until an interrupt that has not ended the block is raised again.
AGAIN_AFTER = 1.0


@contextmanager
def raising_interrupts(*signals: signal.Signals) -> Iterator[None]:
    """End a block with KeyboardInterrupt after a signal, even if the exception is lost inside the block.

    Python raises the exception at the next line that it runs. While LLVM compiles for Numba, that line is in a callback
    from C, where exceptions are dropped. The compiled function then lacks its code, or the call continues as if nothing
    had happened.

    Parameters
    ----------
    *signals : signal.Signals
        SIGINT by default. Signals that are ignored, or that the program handles itself, are left alone.
    """
    timers: list[threading.Timer] = []
    over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not over:
            timers.append(threading.Timer(AGAIN_AFTER, _thread.interrupt_main, (number,)))
            timers[-1].daemon = True
            timers[-1].start()
            raise KeyboardInterrupt

    usual = (signal.default_int_handler, signal.SIG_DFL)
    in_main = threading.current_thread() is threading.main_thread()
    chosen = [one for one in signals or (signal.SIGINT,) if in_main and signal.getsignal(one) in usual]
    before = {one: signal.signal(one, interrupt) for one in chosen}
    try:
        yield
    except Exception:
        if not timers:
            raise
    finally:
        over = True
        for timer in timers:
            timer.cancel()
        for one, handler in before.items():
            signal.signal(one, handler)
    if timers:
        raise KeyboardInterrupt from None
