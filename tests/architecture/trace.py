"""Which files of the package a call goes through."""

from collections.abc import Callable
from pathlib import Path
from sys import monitoring
from types import CodeType
from typing import Any

import adobest_pp

ROOT = Path(adobest_pp.__file__).parent
TOOL = 4  # no profiler, debugger or coverage has this number


def files_touched(call: Callable[[], Any]) -> set[str]:
    """Return the files of `adobest_pp`, as paths below it, in which a Python function runs during a call.

    The call is made once beforehand, so that imports and compilation are done. Compiled functions do not count,
    as they are not entered from Python. What is called to raise an error or to import a name does.
    """
    call()
    found: set[str] = set()

    def note(code: CodeType, offset: int) -> object:
        found.add(code.co_filename)
        return monitoring.DISABLE  # report each function once

    monitoring.use_tool_id(TOOL, "files_touched")
    monitoring.register_callback(TOOL, monitoring.events.PY_START, note)
    monitoring.set_events(TOOL, monitoring.events.PY_START)
    monitoring.restart_events()
    try:
        call()
    finally:
        monitoring.set_events(TOOL, monitoring.events.NO_EVENTS)
        monitoring.register_callback(TOOL, monitoring.events.PY_START, None)
        monitoring.free_tool_id(TOOL)
    return {str(Path(name).relative_to(ROOT)) for name in found if name.startswith(f"{ROOT}/")}
