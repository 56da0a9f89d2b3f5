"""`adobest compare` and `adobest plan` of randomized answers in Parquet, Arrow and CSV files."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.samplers import choice as quick_draws
from tests.cli.test_main import run_here

LABELS = ["yes", "no", "unsure"]
SRR = ad.SRR(3, epsilon=1.0)
SMALL = ("--draws", 400, "--seed", 5)
TOLD = ("--mechanism", "srr", "--epsilon", 1, "--categories", "yes,no,unsure")


def simulated(mechanism, n, theta, seed=1, **options):
    rng = np.random.default_rng(seed)
    answers = mechanism.privatize(rng.choice(len(theta), size=n, p=theta), rng=rng)
    return ad.Responses.from_arrays(mechanism, answers, **options)


@pytest.fixture
def days(tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    for seed, day in enumerate(("monday", "tuesday")):
        simulated(SRR, 800, [0.6, 0.3, 0.1], seed, categories=LABELS).to_parquet(folder / f"{day}.parquet")
    return folder


def compared(capsys, tmp_path, *options):
    done = run_here(capsys, "compare", *options, *SMALL, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(capsys, tmp_path, *options):
    done = run_here(capsys, "compare", *options, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert not (tmp_path / "out").exists()
    return done.stderr


@pytest.mark.long
def test_files_that_tell_their_mechanism_need_nothing_more(days, tmp_path, capsys):
    printed = compared(capsys, tmp_path, "--responses", days / "*.parquet", "--prior", 1)
    assert (printed["n_responses"], printed["mechanism"]["mechanism"], printed["left_out"]) == (1600, "SRR", {})
    assert list(printed["samplers"]) == ["nuts", "gibbs", "sgld", "sgld_cv"]
    assert [row["category"] for row in printed["estimate"]] == LABELS
    # The same answers, one by one: the same evidence and seed, so the same draws.
    parts = [simulated(SRR, 800, [0.6, 0.3, 0.1], seed).answers for seed in (0, 1)]
    both = ad.Responses.from_arrays(SRR, np.concatenate(parts), categories=LABELS)
    tree = ad.sample(both, "nuts", 1.0, draws=400, random_seed=5, progressbar=False)
    np.testing.assert_allclose(
        [row["mean"] for row in printed["estimate"]], tree.posterior.theta.mean(("chain", "draw"))
    )
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "1,600 randomized answers, gathered from 2 files." in page
    assert "No figure shows how the estimate changed as answers came in: gathered answers have no order." in page
    assert not (tmp_path / "out" / "figures" / "contraction.svg").exists()
    assert "contraction" not in xr.open_datatree(tmp_path / "out" / "posterior.nc")


@pytest.mark.long
def test_a_csv_file_needs_three_options_and_empty_rows_are_told(tmp_path, capsys, caplog):
    path = tmp_path / "said.csv"
    answers = simulated(SRR, 500, [0.6, 0.3, 0.1], categories=LABELS).answers
    path.write_text("\n".join(["id,said", *(f"{i},{LABELS[y]}" for i, y in enumerate(answers)), "500,", "501,", ""]))
    printed = compared(capsys, tmp_path, "--responses", path, *TOLD, "--column", "said")
    assert (printed["n_responses"], printed["mechanism"]["epsilon"]) == (500, 1.0)
    assert printed["asked"] == "The mechanism is SRR, as stated when the file was read."
    assert "2 of 502 rows have no answer" in caplog.text
    assert "Of 502 rows, 2 have no answer and are left out." in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_answers_that_do_not_repeat_are_left_to_control_variates(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quick_draws, "MANY_ROWS", 100)
    monkeypatch.setattr("adobest_pp.samplers.choice.MOST_VISITED", 500)
    theta = np.arange(1, 25) / 300
    responses = simulated(ad.UnaryEncoding(24, epsilon=2.0), 700, theta)
    responses.to_parquet(tmp_path / "bits.parquet")
    done = run_here(
        capsys, "compare", "--responses", tmp_path / "bits.parquet", "--seed", 5, "--out", tmp_path / "words"
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "Has the sampler converged?" in said
    assert "converged" in said
    assert "NUTS and Gibbs sampling are left out: each step visits all of 700 answers" in said
    assert "SGLD with the paper's steps is left out: there is no reference to grade against." in said
    printed = compared(capsys, tmp_path, "--responses", tmp_path / "bits.parquet", "--prior", 1)
    assert printed["left_out"] == {"nuts": "different", "gibbs": "different", "sgld": "reference"}
    assert (list(printed["samplers"]), printed["sampler"], printed["sampler_prior"]) == (["sgld_cv"], "sgld_cv", 1.0)
    exact = ad.sample(responses, "nuts", 1.0, draws=500, tune=300, random_seed=1, progressbar=False).posterior.theta
    mean, sd = exact.mean(("chain", "draw")), exact.std(("chain", "draw"))
    # Of 300 effective draws or more, the difference of means has an error of 0.07 sd; 24 of them stay within four of it
    # but for one seed in 600. The seed is fixed.
    assert np.all(np.abs(np.array([row["mean"] for row in printed["estimate"]]) - mean) < 0.28 * sd)
    assert not (tmp_path / "out" / "figures" / "comparison.svg").exists()


def test_draws_that_say_that_they_are_biased_have_no_conclusion(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quick_draws, "MANY_ROWS", 10)
    monkeypatch.setattr("adobest_pp.samplers.choice.MOST_VISITED", 10)
    monkeypatch.setattr("adobest_pp.samplers.sgld_cv.sampler.ChainRuns.is_right", lambda _: False)
    simulated(ad.UnaryEncoding(24, epsilon=2.0), 200, np.full(24, 1 / 24)).to_parquet(tmp_path / "bits.parquet")
    printed = compared(capsys, tmp_path, "--responses", tmp_path / "bits.parquet", "--prior", 1)
    assert printed["conclusions"][-1] == (
        "No conclusion: SGLD with control variates reports that its own draws are biased under the prior Dirichlet(1)."
    )


def test_bad_input_is_refused_in_one_sentence(days, tmp_path, capsys):
    plain = tmp_path / "plain.csv"
    plain.write_text("answer\nyes\nno\n")
    assert "name it with --mechanism" in refused(capsys, tmp_path, "--responses", plain)
    assert "got none for --categories, --epsilon" in refused(
        capsys, tmp_path, "--responses", plain, "--mechanism", "srr"
    )
    assert "'answer'" in refused(capsys, tmp_path, "--responses", plain, *TOLD[:-1], "yes,maybe")
    assert "--utility must be left out" in refused(capsys, tmp_path, "--responses", days, "--utility", "tv1")
    assert "'said'" in refused(capsys, tmp_path, "--responses", days, "--column", "said")
    assert "got SRR(n_categories=3, epsilon=1.0)" in refused(
        capsys, tmp_path, "--responses", days, "--mechanism", "srr", "--epsilon", 2, "--categories", "yes,no,unsure"
    )
    (tmp_path / "empty").mkdir()
    without = refused(capsys, tmp_path, "--responses", tmp_path / "empty")
    assert "--responses must name a folder with files that end in .parquet" in without
    assert "--responses must match at least one file" in refused(
        capsys, tmp_path, "--responses", tmp_path / "empty" / "*.csv"
    )
    (days / "wednesday.parquet").write_bytes(b"half of a file")
    damaged = refused(capsys, tmp_path, "--responses", days)
    assert "wednesday.parquet" in damaged
    assert "continue with the 1,600 answers of the other 2" in damaged
    simulated(ad.SRR(3, epsilon=2.0), 10, [0.6, 0.3, 0.1], categories=LABELS).to_parquet(days / "friday.parquet")
    assert "--responses must name answers of one mechanism" in refused(capsys, tmp_path, "--responses", days)
    ad.Responses(SRR, LABELS).to_parquet(tmp_path / "nobody.parquet")
    assert "at least one person" in refused(capsys, tmp_path, "--responses", tmp_path / "nobody.parquet")


def test_a_pilot_in_tables_is_planned_for(days, tmp_path, capsys):
    line = ("--people", 50_000, "--epsilon", 1, "--mechanism", "srr", "--seed", 1, "--json")
    done = run_here(capsys, "plan", "--responses", days, *line)
    assert done.returncode == 0, done.stderr
    shares = json.loads(done.stdout)["theta"]
    assert list(shares) == LABELS
    # The pilot of 1600 people has a standard error of 0.03.
    assert abs(shares["yes"] - 0.6) < 0.12
    plain = tmp_path / "plain.csv"
    plain.write_text("answer\nyes\nno\n")
    done = run_here(capsys, "plan", "--responses", plain, *line)
    assert done.returncode == 2
    assert "write it with Responses.to_parquet" in done.stderr


def test_copies_are_refused_unless_they_are_said_to_be_of_others(days, tmp_path, capsys):
    shutil.copy(days / "monday.parquet", days / "sunday.parquet")
    printed = refused(capsys, tmp_path, "--responses", days)
    assert "--responses must hold answers of different people, got '" in printed
    assert printed.endswith("leave one out, or give --allow-copies if they are different people's\n")
    assert "--allow-copies must come with --responses" in refused(capsys, tmp_path, "--allow-copies")
    options = ("--people", 1000, "--epsilon", 1, "--mechanism", "srr")
    done = run_here(capsys, "plan", *options, "--responses", days, "--allow-copies", "--json")
    assert done.returncode == 0, done.stderr
