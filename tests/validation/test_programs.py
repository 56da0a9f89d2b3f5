"""Every program reproduces its findings in quick mode."""

import importlib
import re

import pytest

from validation.__main__ import programs


@pytest.mark.parametrize("name", programs())
def test_the_findings_are_reproduced(name, capsys):
    program = importlib.import_module(f"validation.{name}")
    code = program.main(["--quick"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert re.search("^PASS  ", printed, re.MULTILINE)
    assert not re.search("^FAIL  ", printed, re.MULTILINE)
