"""One report with names that try to be something else, shared by the tests of this folder."""

import numpy as np
import pytest

from adobest_pp import RRRR, simulate
from adobest_pp.polls import Poll
from adobest_pp.report import grade_samplers, write_report

HOSTILE = ("<script>alert(1)</script>", "$x", "$a$", "[red]", "_hidden", "a, “b” & c")


@pytest.fixture(scope="session")
def hostile_findings():
    theta = np.array([0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    run = simulate(theta, RRRR(6, 3.0), n_people=2000, categories=HOSTILE, random_seed=3)
    poll = Poll("Is <b>this</b> “safe”?", run.responses, "2,000 simulated people.", theta, run.settings)
    return grade_samplers(poll, random_seed=3)


@pytest.fixture(scope="session")
def hostile_report(hostile_findings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(hostile_findings, folder)
    return folder
