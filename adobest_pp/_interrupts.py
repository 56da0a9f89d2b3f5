"""Ctrl-C is raised, also where a compiler has swallowed it."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["raising_interrupts"]

# Seconds until an interrupt that has not ended the block is raised again.
PATIENCE = 1.0


@contextmanager
def raising_interrupts(*signals: signal.Signals) -> Iterator[None]:
    """End a block by KeyboardInterrupt after a signal, whatever has become of the exception within.

    Python raises it at the next line that it runs. While LLVM compiles for Numba, that line is in a callback from C,
    where exceptions are dropped: the compiled function then lacks its code, or the call goes on as if nothing had been.

    Parameters
    ----------
    *signals : signal.Signals
        SIGINT by default. A signal that is ignored, or that the program handles itself, is left alone.
    """
    timers: list[threading.Timer] = []
    over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not over:
            timers.append(threading.Timer(PATIENCE, _thread.interrupt_main, (number,)))
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
