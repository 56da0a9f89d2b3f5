"""Which files of the package a call goes through."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import adobest_pp

ROOT = Path(adobest_pp.__file__).parent


def files_touched(call: Callable[[], Any]) -> set[str]:
    """Return the files of `adobest_pp`, as paths below it, in which a Python function runs during a call.

    The call is made once before: imports and compilation are over. Compiled functions do not count, as they are not
    entered from Python. What is called to raise an error or to import a name does.
    """
    call()
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return {str(Path(name).relative_to(ROOT)) for name in found if name.startswith(f"{ROOT}/")}
