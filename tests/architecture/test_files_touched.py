"""A reader who follows one call goes through few files."""

import csv

import numpy as np
import pytest

from adobest_pp import SRR, Responses, SubsetSelection, sample
from adobest_pp.cli.main import main
from adobest_pp.simulate import simulate_rounds
from tests.architecture.trace import files_touched

THETA = np.array([0.5, 0.3, 0.2])
# The most files of each journey.
NUTS, SGLD_CV, DESIGN, COMPARE = 11, 14, 22, 45
# Without what every room may use: checks of arguments, labels, progress, linear algebra, random numbers.
ROOMS_OF = {"nuts": 9, "sgld_cv": 11}


def check(found, most):
    assert len(found) <= most, f"{len(found)} files: {', '.join(sorted(found))}"


def in_rooms(found):
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize(("sampler", "most"), [("nuts", NUTS), ("sgld_cv", SGLD_CV)])
def test_sample(sampler, most):
    mechanism, rng = SRR(3, 1.0), np.random.default_rng(1)
    responses = Responses.from_arrays(mechanism, mechanism.privatize(rng.choice(3, size=300, p=THETA), rng=rng))
    options = {"draws": 100, "tune": 100, "chains": 2, "random_seed": 1, "progressbar": False}
    found = files_touched(lambda: sample(responses, sampler, **options))
    check(found, most)
    check(in_rooms(found), ROOMS_OF[sampler])


def test_a_design_round():
    options = {"n_people": 60, "rounds": 2, "random_seed": 1}
    check(files_touched(lambda: simulate_rounds(THETA, SubsetSelection(3, 1.0), **options)), DESIGN)


@pytest.mark.long
def test_compare_the_people_of_a_file(tmp_path):
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([["vote"], *[["yes"]] * 60, *[["no"]] * 40])
    options = ["--column", "vote", "--draws", "200", "--seed", "5", "--quiet", "--overwrite"]

    def compare():
        with pytest.raises(SystemExit) as end:
            main(["compare", "--data", str(path), *options, "--out", str(tmp_path / "out")])
        assert not end.value.code

    check(files_touched(compare), COMPARE)
    assert (tmp_path / "out" / "report.html").is_file()
