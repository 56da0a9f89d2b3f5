"""`adobest compare`, as a person runs it."""

import csv
import json
from typing import ClassVar

import pytest

from adobest_pp import RRRR, Responses
from adobest_pp._progress import SlowProgress
from adobest_pp._wording import CENTRAL
from adobest_pp.cli.compare import Request, run
from adobest_pp.diagnostics import Cause, Verdict
from tests.cli.test_main import adobest, run_here

SMALL = ("--draws", 200, "--seed", 5)
# Enough draws for NUTS to be a reference.
SIMULATED = ("--people", 300, "--draws", 600, "--seed", 5)


@pytest.mark.long
def test_a_simulated_poll_as_json(tmp_path, capsys):
    done = run_here(capsys, "compare", *SIMULATED, "--json", "--out", tmp_path)
    content = json.loads(done.stdout)
    assert done.stderr == ""
    assert content["seed"] == 5
    assert content["mechanism"]["mechanism"] == "SubsetSelection"
    assert content["asked"].startswith("The mechanism is subset-selection, the default: ")
    assert {row["verdict"] for row in content["samplers"].values()} <= set(Verdict)
    assert content["samplers"]["sgld"]["verdict_in_words"].startswith("not mixed: ")
    assert (content["samplers"]["sgld"]["verdict"], content["samplers"]["sgld"]["fault"]) == ("not_mixed", "r_hat")
    assert content["samplers"]["sgld"]["main_cause"] in set(Cause)
    assert content["samplers"]["sgld_cv"]["verdict"] == "indistinguishable"
    assert sorted(content["files"]) == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.long
def test_a_simulated_poll_in_words_says_what_json_says(tmp_path, capsys):
    content = json.loads(run_here(capsys, "compare", *SIMULATED, "--json", "--out", tmp_path / "plain").stdout)
    done = adobest("compare", *SIMULATED, "--out", tmp_path / "new" / "words")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "Are the samplers right?" in words
    assert "sgld_cv" in words
    assert content["conclusions"][0][:40] in words  # the seed gives the same findings
    assert content["asked"] in words
    assert words.count("It does not sample the posterior: ") == 1
    assert (tmp_path / "new" / "words" / "comparison.csv").is_file()


def test_people_of_a_file(tmp_path, capsys):
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([["vote"], *[["<b>"]] * 60, *[[""]] * 3, *[["no"]] * 40])
    options = ("--column", "vote", "--categories", "<b>,no,maybe", "--epsilon", 2, "--mechanism", "rrrr")
    options += ("--utility", "entropy")
    done = run_here(capsys, "compare", "--data", path, *options, *SMALL, "--quiet", "--out", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "true share" not in page
    assert "The mechanism is rrrr, as you chose" in page
    assert "Of 103 rows, 3 have an empty value: these people did not answer." in page
    assert CENTRAL in page
    assert len(Responses.read(tmp_path / "responses.db")) == 100
    # A report is not overwritten unasked, and that is said before anything else is done.
    refused = run_here(capsys, "compare", "--data", path, *options, *SMALL, "--quiet", "--out", tmp_path)
    assert refused.returncode == 2
    assert "--out must name a folder without a report" in refused.stderr
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize("name", ["report.html", "posterior.nc", "comparison.csv", "figures/estimate.svg"])
def test_no_file_in_the_folder_is_replaced_unasked(name, tmp_path, capsys):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    refused = run_here(capsys, "compare", *SMALL, "--out", tmp_path)
    assert refused.returncode == 2
    assert f"with {name}: --overwrite replaces it" in refused.stderr
    assert (tmp_path / name).read_text() == "mine"


class Recorder(SlowProgress):
    """A bar that is never shown, and remembers what it would have shown."""

    shown: ClassVar[list] = []

    def advance(self, amount, note=""):
        super().advance(amount, note)
        Recorder.shown.append((self._label, self._done, self._total, note))


def test_a_stage_counts_as_done_when_the_next_one_begins(tmp_path, monkeypatch):
    def grade(*arguments, **options):
        for stage in ("compiling", "sampling", "comparing"):
            arguments[4](stage)

    for name, stand_in in {
        "SlowProgress": Recorder,
        "grade_samplers": grade,
        "n_stages": lambda *_: 3,
        "write_report": lambda *_: [],
    }.items():
        monkeypatch.setattr(f"adobest_pp.cli.compare.{name}", stand_in)
    monkeypatch.setattr(Recorder, "shown", [])
    request = Request(50, None, None, None, None, None, {"epsilon": 1.0, "mechanism": "srr"})
    run(request, tmp_path / "new", 1.0, 10, 1, {"threshold": None}, overwrite=False, quiet=True, as_json=False)
    stages = [(0, "compiling"), (1, "sampling"), (2, "comparing"), (3, "")]
    assert Recorder.shown == [("comparing", done, 3, note) for done, note in stages] + [
        ("writing the report", 1, 1, "")
    ]


@pytest.mark.long
def test_responses_of_a_file(tmp_path, capsys):
    mechanism = RRRR(3, 1.0)
    responses = Responses(mechanism, ["red", "green", "blue"])
    responses.append([0, 1, 2, 0] * 30, subset=[0])
    responses.to_netcdf(tmp_path / "responses.nc")
    done = run_here(
        capsys, "compare", "--responses", tmp_path / "responses.nc", *SMALL, "--json", "--out", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["n_responses"] == 120
    assert [row["category"] for row in content["estimate"]] == ["red", "green", "blue"]
    assert content["samplers"]["nuts"]["tv_truth"] is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--data", "people.csv"), "--column"),
        (("--categories", "a,b"), "--categories"),
        (("--people", 10, "--responses", "a.nc"), "--people"),
        (("--responses", "a.nc", "--epsilon", 1), "--epsilon"),
        (("--responses", "a.nc", "--mechanism", "srr"), "--mechanism"),
        (("--mechanism", "best"), "mechanism must be one of"),
        (("--mechanism", "design", "--kappa", 0.5), "kappa must be left out for design"),
        (("--responses", "missing.nc"), "missing.nc"),
        (("--people", 0), "--people must be an integer of at least 1, got 0"),
        (("--draws", 3), "--draws"),
        (("--prior", 0), "--prior"),
        (("--prior", "learnt"), "--prior"),
        (("--question", "two\nlines"), "--question"),
        (("--utility", "honst"), "honst"),
    ],
)
def test_contradictions_are_refused_in_one_sentence(tmp_path, capsys, options, named):
    done = run_here(capsys, "compare", *options, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    for place in ("out", "out/below"):
        done = run_here(capsys, "compare", "--people", 100, "--out", tmp_path / place)
        assert done.returncode == 2
        assert "--out" in done.stderr
    assert (tmp_path / "out").read_text() == "mine"
