"""Collecting from a file of people, and what of them must not be seen anywhere."""

import os
import subprocess
import sys

import numpy as np
import pytest

from adobest_pp import Responses
from adobest_pp.online import collect_csv

SECRETS = ["quetzal", "axolotl", "okapi"]


@pytest.fixture
def people(tmp_path):
    values = np.random.default_rng(0).choice(SECRETS, size=60, p=[0.6, 0.3, 0.1])
    path = tmp_path / "people.csv"
    path.write_text("id,vote\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    return path


def adobest(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "adobest_pp", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1"},
    )


def test_a_file_is_collected_and_reopened(people, tmp_path):
    out = tmp_path / "responses.nc"
    done = adobest("collect", people, "--column", "vote", "--epsilon", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    responses = Responses.from_netcdf(out)
    assert len(responses) == 60
    assert responses.categories == tuple(sorted(SECRETS))
    assert responses.mechanism.epsilon == 1.0
    assert "okapi" in done.stdout
    assert "By NUTS under a prior that learns how uneven the shares are" in done.stdout
    assert "--categories" in done.stdout


def test_answers_are_drawn_anew_each_time(people):
    first, second = (collect_csv(people, "vote", 1.0, random_seed=0, progressbar=False) for _ in range(2))
    assert not np.array_equal(first.responses.answers, second.responses.answers)


def test_nothing_but_answers_is_written(people, tmp_path):
    """The values in the order of the file appear nowhere: the file holds answers, which differ from them."""
    out = tmp_path / "responses.nc"
    adobest("collect", people, "--column", "vote", "--epsilon", 0.1, "--out", out, "--quiet", "--adapt-every", 20)
    truth = [line.split(",")[1] for line in people.read_text().splitlines()[1:]]
    responses = Responses.from_netcdf(out)
    answered = [responses.categories[i] for i in responses.answers]
    # At epsilon 0.1 and three categories an answer is true about four times in ten; 60 of 60 would be a leak.
    assert sum(a == b for a, b in zip(answered, truth, strict=True)) < 50
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "responses.nc"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--column", "vot"], "column must be named in the first row"),
        (["--column", "vote", "--categories", "quetzal,okapi"], "categories must include every value"),
        (["--column", "vote", "--kappa", "2"], "kappa must be"),
        (["--column", "vote", "--utility", "best"], "method must be one of"),
    ],
)
def test_errors_are_one_sentence_and_show_no_value(people, tmp_path, arguments, reason):
    out = tmp_path / "responses.nc"
    done = adobest("collect", people, "--epsilon", 1, "--out", out, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert "axolotl" not in done.stderr + done.stdout
    assert not out.exists()


def test_a_file_that_is_no_csv_shows_none_of_its_content(tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "responses.nc"
    for content in (b"quetzal\nokapi\n", b"vote\nquetz\xe9l\n", b"vote\n" + b"quetzal" * 30_000 + b"\n"):
        path.write_bytes(content)
        done = adobest("collect", path, "--column", "vote", "--epsilon", 1, "--out", out)
        assert done.returncode == 2
        assert "quetz" not in done.stderr + done.stdout
        assert "xe9" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_an_empty_value_and_a_missing_file_are_refused(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("vote\nquetzal\n\n")
    path.write_text("id,vote\n1,quetzal\n2,\n")
    with pytest.raises(ValueError, match="got none for person 2"):
        collect_csv(path, "vote", 1.0)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        collect_csv(tmp_path / "none.csv", "vote", 1.0)
    path.write_text("vote\nquetzal\n")
    with pytest.raises(ValueError, match="categories must be at least two"):
        collect_csv(path, "vote", 1.0)
