"""The recommended calls run, and are typed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.collect import typed_example


@pytest.mark.parametrize("policy", typed_example.POLICIES, ids=lambda policy: type(policy).__name__)
def test_the_recommended_calls_run(policy, tmp_path):
    estimate = typed_example.collect(tmp_path / "poll.db", policy, [0, 0, 2, 0])
    assert estimate["mean"].sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_recommended_calls_are_typed():
    file = Path(typed_example.__file__)
    command = [sys.executable, "-m", "mypy", "--strict", str(file)]
    done = subprocess.run(command, cwd=file.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
