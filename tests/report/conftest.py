"""One report with names that try to be something else, shared by the tests of this folder."""

import numpy as np
import pytest

from adobest_pp import RRRR, AdaptiveSubset, simulate_adaptive
from adobest_pp.report import grade_samplers, write_report
from adobest_pp.report.findings import Poll

HOSTILE = (
    "<script>alert(1)</script>",
    "$x",
    "$a$",
    "[red]",
    "_hidden",
    "a, “b” & c",
    "中文 العربية",
    "two lines \N{SNOWMAN}\N{GRINNING FACE}",
)


@pytest.fixture(scope="session")
def hostile_findings():
    theta = np.array([0.35, 0.2, 0.15, 0.1, 0.05, 0.05, 0.04, 0.06])
    run = simulate_adaptive(theta, AdaptiveSubset(RRRR(8, 3.0)), n_people=2000, categories=HOSTILE, random_seed=3)
    origin = "2,000 simulated people."
    poll = Poll("Is <b>this</b> “safe”?", run.responses, origin, "Nobody is at risk.", theta, run.settings)
    return grade_samplers(poll, draws=500, random_seed=3)


@pytest.fixture(scope="session")
def hostile_report(hostile_findings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(hostile_findings, folder)
    return folder
