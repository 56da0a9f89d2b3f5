"""The program that checks the claims about utilities reproduces them."""

import subprocess
import sys
from pathlib import Path


def test_the_findings_about_utilities_are_reproduced():
    done = subprocess.run(
        [sys.executable, "-m", "validation.utilities", "--quick"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS") == 4
    assert "FAIL" not in done.stdout
