"""Every program reproduces its findings in quick mode."""

from importlib import import_module

import pytest

from validation.__main__ import programs
from validation.common import Options, all_passed


# The comparison of mechanisms takes the longest, and is run in test_mechanisms.py.
@pytest.mark.parametrize("name", [name for name in programs() if name != "mechanisms"])
def test_the_findings_are_reproduced(name):
    found = import_module(f"validation.{name}").findings(Options(quick=True))
    assert all_passed(found), "\n".join(map(str, found))
    assert len({one.name for one in found}) == len({one.text for one in found}) == len(found)
