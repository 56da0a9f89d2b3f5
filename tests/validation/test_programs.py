"""Every program reproduces its findings in quick mode."""

import importlib
import re

import pytest

from validation.__main__ import programs


# The comparison of mechanisms takes the longest, and is run in test_mechanisms.py.
@pytest.mark.parametrize("name", [name for name in programs() if name != "mechanisms"])
def test_the_findings_are_reproduced(name, capsys):
    program = importlib.import_module(f"validation.{name}")
    code = program.main(["--quick"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert re.search("^PASS  ", printed, re.MULTILINE)
    assert not re.search("^FAIL  ", printed, re.MULTILINE)
