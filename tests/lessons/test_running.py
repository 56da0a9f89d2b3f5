"""The code of an exercise computes and does nothing else: what it tries gives one sentence, and the lesson goes on."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from adobest_pp.teaching import Exercise, Numeric, running
from adobest_pp.teaching.confined import MACHINES
from adobest_pp.teaching.running import OFF, TRUST, Confined, NotRun, can_run

CONFINES = sys.platform == "linux" and platform.machine() in MACHINES
confines = pytest.mark.skipif(not CONFINES, reason="this system cannot confine code: exercises are off here")
COMPUTES = "The code tries to do more than compute: an exercise can open no files, connections or programs."
LATE = "The code was stopped after 0.5 seconds: is there a loop that never ends?"


def double(function):
    for x in (1, 2.5, 10**6):
        if abs(function(x) - 2 * x) > 1e-9:
            raise AssertionError(f"double({x}) must be {2 * x}")


TWIN = Numeric("Twice 2?", ("4", 4.0), 0.1, "", "2 + 2.")
HINTS = ["x", "x + x", "2 * x"]
EXERCISE = Exercise("Write `double(x)`.", "double", "def double(x):\n    return x\n", "", double, HINTS, TWIN)


def asserting(function):
    for x in (1, 2.5):
        assert abs(function(x) - 2 * x) < 1e-9


ASSERTING = Exercise("As the lessons do.", "double", "", "", asserting, HINTS, TWIN)


def grade(code, **others):
    """Grade code whose ``{...}`` are replaced, and see that no process is left."""
    for name, value in others.items():
        code = code.replace("{" + name + "}", str(value))
    verdict = EXERCISE.grade(code)
    assert not [child for child in psutil.Process().children(recursive=True) if "confined.py" in str(child.cmdline())]
    assert "\n" not in verdict.message
    return verdict


@confines
def test_right_and_wrong():
    assert grade("def double(x):\n    print('twice', x)\n    return 2 * x") == (
        True,
        "That is right.",
        "twice 1\ntwice 2.5\ntwice 1000000\n",
    )
    assert grade("def double(x):\n    return x") == (False, "double(1) must be 2", "")
    assert grade("import numpy as np\ndouble = lambda x: np.add(x, np.float32(x))").right
    assert grade("from fractions import Fraction\ndouble = lambda x: Fraction(2) * Fraction(x)").right
    assert grade("from decimal import Decimal\ndouble = lambda x: 2 * Decimal(x)").right
    assert grade("from __future__ import annotations\ndef double(x: float) -> float: return 2 * x").right
    assert grade("import warnings\nwarnings.warn('twice')\ndouble = lambda x: 2 * x").right
    assert grade("x = 1").message == "There is no function called double yet."
    assert grade("double = 2").message == "There is no function called double yet."


@confines
def test_numpy_has_what_its_own_functions_open_later():
    code = """
import numpy as np
x = np.random.default_rng(1).normal(size=100)
np.median(x), np.quantile(x, 0.1), np.unique(x), np.histogram(x, bins="auto"), np.intersect1d(x, x)
np.polynomial.Polynomial([1, 2])(x)
double = lambda x: np.where(x > 0, 2 * x, np.nan)
"""
    assert grade(code) == (True, "That is right.", "")


@confines
def test_numpy_is_found_where_the_lessons_have_it():
    """As in a user's folder, or one of PYTHONPATH: an isolated Python looks into neither."""
    import numpy as np

    (place,) = running._folder_of_numpy()
    assert place == str(Path(np.__file__).parents[1])
    program = [sys.executable, "-I", "-S", str(Path(running.__file__).with_name("confined.py")), place]
    asked = json.dumps({"code": "import numpy\ndouble = numpy.add", "name": "double"})
    done = subprocess.run(program, input=asked, capture_output=True, text=True, check=True, env=running.ONE_THREAD)
    assert done.stdout.splitlines() == ['{"locked": true}', '{"callable": true}']


@confines
def test_a_wrong_number_is_wrong():
    assert ASSERTING.grade("double = lambda x: 2 * x").right
    for wrong in ("float('nan')", "float('inf')", "-1", "True", "10**4000", "2j", "[2]", "'2'", "None"):
        assert not ASSERTING.grade(f"double = lambda x: {wrong}").right


@confines
def test_nothing_is_right_where_python_leaves_out_asserts():
    code = "from tests.lessons.test_running import ASSERTING; print(ASSERTING.grade('double = lambda x: x'))"
    where = Path(__file__).parents[2]
    finished = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True, cwd=where)
    assert finished.stdout.startswith("Grade(right=False, message='Exercises are not checked by an optimized Python: ")


@confines
def test_grading_is_quick():
    """Seconds of the processor, because other tests may run beside this one."""
    best = 9.0
    for _ in range(3):
        began = os.times()
        assert grade("import math\ndef double(x):\n    return 2 * x").right
        ended = os.times()
        best = min(best, sum(ended[:4]) - sum(began[:4]))
    assert best < 1


@confines
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = (", "Python says: SyntaxError: '(' was never closed (exercise, line 1)"),
        ("def double(x):\n    return x / 0", "Python says: ZeroDivisionError: division by zero"),
        ("def double(x):\n    return double(x)", "Python says: RecursionError: maximum recursion depth exceeded"),
        ("def double(x):\n    return [x]", "Python says: TypeError: double must return a number, got list"),
        ("import sys; sys.exit()", "The code ends Python itself: an exercise needs no exit()."),
        ("raise KeyboardInterrupt", "Python says: KeyboardInterrupt"),
        ("import os; os._exit(3)", "The code ended Python (exit code 3), so there is nothing to check."),
        (
            "import sys; sys.modules['ctypes'].string_at(0)",
            "The code ended Python (signal 11), so there is nothing to check.",
        ),
        ("x = [0] * 10**9", "The code needs more memory than an exercise may use (512 MiB)."),
        ("input()", "Python says: EOFError: EOF when reading a line"),
        (f"x = '{'a' * 20_000}'", "The code must have at most 20,000 characters, got 20,006."),
        ("class E(Exception):\n    __str__ = None\nraise E", "Python says: E"),
    ],
)
def test_mistakes_are_one_sentence(code, message):
    assert grade(code).message == message


@confines
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(99)",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "def double(x):\n    while True: print('a' * 10**6)",
    ],
)
def test_what_never_ends_is_ended(code, monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 0.5)
    began = time.monotonic()
    verdict = grade(code)
    assert verdict.message == LATE
    assert len(verdict.printed) < running.LONGEST_PRINT + 20
    assert time.monotonic() - began < 30


@confines
@pytest.mark.parametrize(
    "code",
    [
        "open('{secret}').read()",
        "open('{place}', 'w')",
        "import os; os.remove('{secret}')",
        "import os; os.chmod('{secret}', 0o777)",
        "import os; os.utime('{secret}', (1, 1))",
        "import os; os.rename('{secret}', '{place}')",
        "import os; os.mkdir('{place}')",
        "import os; os.listdir('/')",
        "import os; os.stat('{secret}')",
        "import os; os.fork()",
        "import os; os.system('touch {place}'); os.execv('/bin/sh', ['sh', '-c', 'touch {place}'])",
        "import os; os.posix_spawn('/bin/sh', ['sh', '-c', 'touch {place}'], {})",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.kill({parent}, 9)",
        "import signal; signal.alarm(0); signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    ],
)
def test_nothing_but_computing_is_allowed(code, tmp_path):
    secret, place = tmp_path / "secret", tmp_path / "place"
    secret.write_text("x = 3")
    before = secret.stat()
    assert grade(code, secret=secret, place=place, parent=os.getpid()).message == COMPUTES
    assert list(tmp_path.iterdir()) == [secret]
    assert secret.read_text() == "x = 3"
    assert (secret.stat().st_mode, secret.stat().st_mtime) == (before.st_mode, before.st_mtime)


@confines
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers below are of x86-64")
def test_machine_code_is_allowed_no_more(tmp_path):
    """The kernel refuses, not Python: what calls the system itself gets no further."""
    (tmp_path / "secret").write_text("x = 3")
    code = """
import sys
ctypes = sys.modules["ctypes"]
call = ctypes.CDLL(None, use_errno=True).syscall
numbers = {"open": 2, "openat": 257, "socket": 41, "fork": 57, "vfork": 58, "clone": 56, "clone3": 435, "execve": 59,
    "ptrace": 101, "prlimit": 302, "io_uring": 425, "bpf": 321, "seccomp": 317, "prctl": 157,
    "madvise": 28, "x32": 0x40000002}
print({name: (call(number, b"{secret}", 0, 0, 0), ctypes.get_errno()) for name, number in numbers.items()})
double = lambda x: 2 * x
"""
    verdict = grade(code, secret=tmp_path / "secret")
    assert verdict.right
    results = eval(verdict.printed)
    assert len(results) == 16
    assert set(results.values()) == {(-1, 1)}  # EPERM


@confines
def test_a_file_that_cannot_be_opened_is_no_lock():
    """On a system without seccomp whose root folder is closed to this user."""
    code = """
import os, platform
from adobest_pp.teaching import confined
column, architecture, _ = confined.MACHINES[platform.machine()]
confined.MACHINES[platform.machine()] = column, architecture, 9_999
def refuse(*given): raise PermissionError
os.open = refuse
print(confined.lock())
"""
    where = Path(__file__).parents[2]
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=where)
    assert finished.stdout == "False\n"


@confines
def test_it_ends_with_the_server_that_is_killed(tmp_path):
    code = """
from adobest_pp.teaching.running import Confined
with Confined("import time\\ndef wait(): time.sleep(99)", "wait") as process:
    process.define()
    print(process._process.pid, flush=True)
    process.call()
"""
    command, environment = [sys.executable, "-c", code], os.environ | {"TMPDIR": str(tmp_path)}
    where = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=where, env=environment) as server:
        process = psutil.Process(int(server.stdout.readline()))
        server.kill()
    assert psutil.wait_procs([process], timeout=10)[1] == []  # its own alarm would ring after 20 seconds
    assert list(tmp_path.iterdir()) == []


@confines
def test_modules_that_are_not_there_are_said():
    found = grade("import socket").message
    assert found.startswith("Python says: ImportError: an exercise can import bisect, ")
    assert found.endswith("typing, warnings and numpy, but not socket")
    assert grade("import threading; threading.Thread(target=print).start()").message.startswith("Python says: ")


@confines
def test_there_is_nothing_to_see():
    """An environment of its own, and nothing open but the pipes."""
    verdict = grade("import os\nprint(sorted(os.environ))\nprint(globals().keys())\ndouble = lambda x: 2 * x")
    assert verdict.right
    shown = set(eval(verdict.printed.splitlines()[0]))
    assert shown <= {*running.ONE_THREAD, *running.KEPT, "LC_CTYPE"}


@confines
def test_long_prints_are_cut():
    verdict = grade("print('<b>ä' * 10**6)\ndouble = lambda x: 2 * x")
    assert verdict.right
    assert verdict.printed == "<b>ä" * 500 + " … (cut)"


@confines
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"value": 7}', "There is no function called double yet."),
        ("[" * 9_000, "The code interferes with the program that checks it."),
        ("no JSON", "The code interferes with the program that checks it."),
        ("[1]", "The code interferes with the program that checks it."),
        ("x" * 15_000, "The code interferes with the program that checks it."),
    ],
)
def test_forged_replies_are_data_at_most(line, message):
    code = "import os\nfor file in range(3, 9):\n    try: os.write(file, b'{line}\\n')\n    except OSError: pass"
    assert grade(code, line=line).message == message


@confines
def test_forged_values_are_numbers_at_most():
    code = """
import os
def double(x):
    for file in range(3, 9):
        try: os.write(file, b'{"value": ["not", "a number"]}\\n')
        except OSError: pass
    return 2 * x
"""
    assert grade(code).message == "double must return a number."


def test_code_is_not_sent_where_it_cannot_be_confined(monkeypatch):
    """As on macOS and Windows: only the person who starts the server can have it run."""
    monkeypatch.delenv(TRUST, raising=False)
    started = Confined.__enter__
    monkeypatch.setattr(Confined, "__enter__", lambda self: _unlocked(started(self)))
    running._can_lock.cache_clear()
    assert not can_run()
    verdict = EXERCISE.grade("print('it runs')\ndouble = lambda x: 2 * x")
    assert verdict == (False, OFF, "")
    assert "--trust-exercises" in OFF
    monkeypatch.setenv(TRUST, "1")
    assert can_run()
    assert EXERCISE.grade("print('it runs')\ndouble = lambda x: 2 * x") == (True, "That is right.", "it runs\n")
    running._can_lock.cache_clear()


@pytest.mark.parametrize(("option", "trusted"), [([], None), (["--trust-exercises"], "1")])
def test_only_the_person_who_starts_the_lessons_can_trust_them(option, trusted, monkeypatch):
    from typer.testing import CliRunner

    from adobest_pp.cli.main import app
    from adobest_pp.teaching import serving

    seen = []
    monkeypatch.setenv(TRUST, "0")
    monkeypatch.delenv(TRUST)

    def stop(*given):
        seen.append(os.environ.get(TRUST))
        raise ValueError("enough")

    monkeypatch.setattr(serving, "Course", stop)
    assert CliRunner().invoke(app, ["teach", "2", "--no-browser", *option]).exit_code
    assert seen == [trusted]
    assert CliRunner().invoke(app, ["teach", "--host", "0.0.0.0", "--trust-exercises"]).exit_code  # not for a class
    assert seen == [trusted]


def _unlocked(process):
    process.is_locked = False
    return process


def test_a_program_that_does_not_start_is_said(monkeypatch, tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(NotRun, match="exit code 7"), Confined("", ""):
        pass
    assert not EXERCISE.grade("").right


def test_the_program_imports_nothing_of_this_package():
    """It is a file that starts in a fifth of a second, in a Python without our paths."""
    from adobest_pp.teaching import confined

    assert "adobest_pp" not in Path(confined.__file__).read_text(encoding="utf-8")
