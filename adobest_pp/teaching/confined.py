"""The program that runs the code of an exercise, in a process of its own that can only compute.

It is run as a file, not imported: `running.py` starts it. It limits its own time and memory, and then asks the Linux
kernel to refuse all system calls that computing does not need (seccomp). From then on the process cannot open files or
connections, start programs, send signals or undo any of this, whatever the code does in Python or in machine code. Only
then does it report that it is ready, and get the code.

Requests and replies are lines of JSON. What the code prints goes to standard error.
"""

import ctypes
import decimal
import importlib
import io
import json
import numbers
import os
import platform
import signal
import sys
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import Any

CPU_SECONDS, ALARM_SECONDS = 10, 20  # `running.py` ends it earlier, unless it has ended itself
MEMORY = 2**29
# The modules that an exercise can import. They are imported before the code runs, which cannot open files.
# fmt: off
MODULES = [
    "bisect", "cmath", "collections", "copy", "dataclasses", "decimal", "enum", "fractions", "functools", "heapq",
    "itertools", "math", "operator", "random", "re", "statistics", "string", "time", "typing", "warnings",
]
# fmt: on
# Parts of NumPy that it imports only on first use, also in functions such as `median` and `unique`.
NUMPY = ["numpy", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random"]

# System calls that computing needs, by their numbers on x86-64 and on 64-bit ARM. None takes a path or an address.
# fmt: off
CALLS = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "close": (3, 57), "fstat": (5, 80),
    "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214),
    "mremap": (25, 216), "futex": (202, 98), "sched_yield": (24, 124), "rt_sigreturn": (15, 139),
    "restart_syscall": (219, 128), "getrandom": (318, 278), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "gettimeofday": (96, 169), "getpid": (39, 172), "gettid": (186, 178),
    "getcpu": (309, 168), "sched_getaffinity": (204, 123), "exit": (60, 93), "exit_group": (231, 94),
}
# fmt: on
# The column above, the architecture's number in BPF, and the number of the call `seccomp`.
MACHINES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # instructions of BPF
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # verdicts; REFUSE is "Operation not permitted"


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("then", ctypes.c_ubyte),
        ("otherwise", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


class _Refusing:
    """Report which modules can be imported, instead of failing to open files."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        raise ImportError(f"an exercise can import {', '.join(MODULES)} and numpy, but not {name}")


def set_limits() -> None:
    """Limit time, memory, processes and the size of files, as far as this system allows."""
    with suppress(ImportError):
        import resource

        def limit(kind: str, most: int) -> None:
            with suppress(AttributeError, ValueError, OSError):  # not every system has all of them
                resource.setrlimit(getattr(resource, kind), (most, most))

        limit("RLIMIT_CPU", CPU_SECONDS)
        limit("RLIMIT_AS", MEMORY)
        limit("RLIMIT_NPROC", 0)
        limit("RLIMIT_FSIZE", 0)
        limit("RLIMIT_CORE", 0)
        signal.alarm(ALARM_SECONDS)


def lock() -> bool:
    """Make the kernel refuse all system calls but CALLS, for good; return whether it does."""
    if sys.platform != "linux" or platform.machine() not in MACHINES or sys.maxsize < 2**32:
        return False
    column, architecture, seccomp = MACHINES[platform.machine()]
    allowed = [each[column] for each in CALLS.values()]
    steps = [(LOAD, 0, 0, 4), (IF_EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    steps += [(IF_EQUAL, len(allowed) - i, 0, number) for i, number in enumerate(allowed)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    program = _Program(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps)))
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # end with the server, even if it is killed
    with suppress(OSError):  # and leave nothing behind: the folder is not needed from here on
        os.rmdir(os.getcwd())
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges, which the kernel requires of all users but root
    if libc.syscall(seccomp, 1, 1, ctypes.byref(program)) != 0:  # a filter for every thread
        return False
    try:
        os.close(os.open(os.sep, os.O_RDONLY))
    except PermissionError:
        sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _Refusing]
        return True
    return False


def in_words(problem: BaseException) -> str:
    """Return one sentence about what the code raised."""
    match problem:
        case MemoryError():
            return f"The code needs more memory than an exercise may use ({MEMORY // 2**20} MiB)."
        case SystemExit():
            return "The code ends Python itself: an exercise needs no exit()."
        case PermissionError():
            return "The code tries to do more than compute: an exercise can open no files, connections or programs."
    try:
        message = f": {problem}"
    except Exception:  # the message is made by the code, too
        message = ""
    return f"Python says: {type(problem).__name__}{message}"[:500].rstrip(": ")


def number(value: Any, name: str) -> int | float:
    """Return a number of any kind as one of Python's own."""
    if getattr(value, "ndim", None) == 0:  # NumPy's, also as an array without dimensions, which `where` returns
        value = value.item()
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | decimal.Decimal):
        return float(value)
    raise TypeError(f"{name} must return a number, got {type(value).__name__}")


def main() -> None:
    """Read the code and then arguments for its function, each a line of JSON, until the input ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace", write_through=True)
    sys.path += sys.argv[1:]  # the folder of NumPy, if the code uses it
    for name in ("__future__", *MODULES, *(NUMPY if sys.argv[1:] else ())):
        with suppress(ImportError):
            importlib.import_module(name)
    set_limits()

    def reply(**what: Any) -> None:
        replies.write(json.dumps(what).encode() + b"\n")
        replies.flush()

    reply(locked=lock())
    names: dict[str, Any] = {"__name__": "exercise"}
    for line in requests:
        request = json.loads(line)
        try:
            if "code" in request:
                exec(compile(request["code"], "exercise", "exec"), names)
                reply(callable=callable(names.get(request["name"])))
            else:
                reply(value=number(names[request["name"]](*request["arguments"]), request["name"]))
        except BaseException as problem:  # of the code, whatever it is
            reply(problem=in_words(problem))


if __name__ == "__main__":
    main()
