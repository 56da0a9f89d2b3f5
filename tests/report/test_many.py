"""The report of many categories: the largest, the rest, those above a threshold, and groups."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from adobest_pp import SRR, Responses, diagnostics, estimate, intervals, sample
from adobest_pp._wording import interval_in_words
from adobest_pp.cli import tables
from adobest_pp.cli.estimate import print_estimate
from adobest_pp.cli.tables import MOST_PRINTED
from adobest_pp.diagnostics import Verdict
from adobest_pp.report import write_report
from adobest_pp.report.findings import MOST_LISTED, Findings, Poll, grade_samplers
from adobest_pp.report.folder import conclusions, summary
from adobest_pp.report.handout import page
from tests.cli.test_main import run_here
from tests.refusals import refuses
from tests.report.test_folder import Tags

K = 60
LABELS = [f"place {i}" for i in range(K)]
TRUTH = np.array([1 / (i + 1) for i in range(K)]) / sum(1 / (i + 1) for i in range(K))
GROUPS = {label: "<b>first</b>" if i < 5 else "others" for i, label in enumerate(LABELS)}


@pytest.fixture(scope="module")
def findings():
    rng, mechanism = np.random.default_rng(1), SRR(K, 5.0)
    answers = mechanism.privatize(rng.choice(K, 20_000, p=TRUTH), rng=rng)
    poll = Poll("Where?", Responses.from_arrays(mechanism, answers, categories=LABELS), "", "", TRUTH, {})
    tree = sample(poll.responses, "gibbs", prior=1.0, draws=200, tune=100, random_seed=1, progressbar=False)
    graded = diagnostics.compare({"gibbs": tree}, "gibbs", TRUTH, resamples=19)
    return Findings(poll, tree, graded, {"gibbs": tree}, graded, {}, None, 1.0, 1, threshold=0.02, groups=GROUPS)


@pytest.fixture(scope="module")
def folder(findings, tmp_path_factory):
    place = tmp_path_factory.mktemp("many")
    write_report(findings, place)
    return place


def test_the_page_lists_the_largest_and_sums_the_rest(findings, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    tags, listed = Tags(page), intervals.largest(findings.posterior, MOST_LISTED)
    for i, label in enumerate(listed["category"].values[:MOST_LISTED]):
        interval = interval_in_words(float(listed["lower"][i]), float(listed["upper"][i]))
        due = float(findings.estimate["privacy"].sel(category=label))
        row = f"{label}{100 * float(listed['mean'][i]):.1f} %{interval}{100 * due:.0f} %"
        assert row in tags.text or not listed["lower"][i]
    ends = interval_in_words(listed["rest_lower"].item(), listed["rest_upper"].item())
    assert f"the {K - MOST_LISTED} others together{100 * listed['rest'].item():.1f} %{ends}" in tags.text
    truth = 1 - TRUTH[[LABELS.index(label) for label in listed["category"].values]].sum()
    assert f"{ends}{100 * truth:.1f} %" in tags.text
    missing = [label for label in LABELS if label not in listed["category"].values]
    assert not any(f">{label}<" in page for label in missing)
    sure = int((listed["rank_upper"] <= MOST_LISTED).sum())
    assert f"by theirs {sure} of the {MOST_LISTED} belong here" in tags.text
    assert 0 < sure < MOST_LISTED


def test_the_page_names_what_is_above_and_the_groups(findings, folder):
    tags = Tags((folder / "report.html").read_text(encoding="utf-8"))
    n = intervals.above(findings.posterior, 0.02).sizes["category"]
    assert f"{n} categories are surely above 2 %: in at most 5 of 100 collections" in tags.text
    assert "<b>first</b>" in tags.text
    assert ("b", {}) not in tags.tags
    # "In short", which a terminal prints as well, has what was asked for.
    converged = findings.estimated.assign(verdict=("sampler", [Verdict.REFERENCE]))
    said = conclusions(replace(findings, comparison=converged, estimated=converged))
    assert any(each.startswith(f"{n} categories are surely above 2 %: “place 0” (") for each in said)
    assert any(each.startswith("The largest of 2 groups: “") and "“<b>first</b>” (" in each for each in said)


def test_json_and_netcdf_have_the_same(findings, folder):
    content = json.loads(json.dumps(summary(findings)))
    listed, sure = intervals.largest(findings.posterior, MOST_LISTED), intervals.above(findings.posterior, 0.02)
    assert [row["category"] for row in content["largest"]] == listed["category"].values.tolist()
    assert content["largest"][0] == {name: listed[name].values[0].item() for name in content["largest"][0]}
    assert {"belongs", "rank_lower", "rank_upper"} <= {*content["largest"][0]}
    assert content["rest"]["upper"] == listed["rest_upper"].item()
    assert content["above"]["threshold"] == 0.02
    assert [row["category"] for row in content["above"]["categories"]] == sure["category"].values.tolist()
    assert [row["group"] for row in content["groups"]] == ["<b>first</b>", "others"]
    assert len(content["estimate"]) == K
    with xr.open_datatree(folder / "posterior.nc", engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["largest/lower"], listed["lower"])
        assert {"above", "sums"} <= set(tree.children)


def test_a_hierarchy_with_holes_is_refused_before_anything_is_sampled(findings, tmp_path, capsys):
    with refuses("groups") as caught:
        grade_samplers(findings.poll, groups=dict.fromkeys(LABELS[1:], "g"), on_stage=pytest.fail)
    assert str(caught.value).endswith("got none for 'place 0'")
    with refuses("threshold"):
        grade_samplers(findings.poll, threshold=1.5, on_stage=pytest.fail)
    path = tmp_path / "groups.csv"
    path.write_text("category,group\nNorth,a\nSouth,b\nEast,a\nWest,b\nOther,b\n")
    ended = run_here(capsys, "compare", "--people", 30, "--groups", path, "--out", tmp_path / "report")
    assert ended.returncode == 2
    assert ended.stderr == "adobest: groups must have a group for each of the 6 categories, got none for 'Center'\n"
    assert not (tmp_path / "report").exists()


def test_a_terminal_shows_the_largest(findings, capsys):
    shown = intervals.summary(findings.posterior).assign_attrs(sampler="gibbs")
    held = SimpleNamespace(estimate=lambda **_: shown, responses=findings.poll.responses, did_not_answer=0)
    tables.print_collection(held, "answers.db", [], 1.0, listed=True)
    printed = capsys.readouterr().out
    largest = shown["category"].values[np.argsort(-shown["mean"].values)]
    places = [printed.index(f" {label} ") for label in largest[:MOST_PRINTED]]
    assert places == sorted(places)
    assert f" {largest[MOST_PRINTED]} " not in printed
    assert f"These are the {MOST_PRINTED} largest of {K}." in printed


def test_an_estimate_shows_the_largest_in_their_order(findings, capsys):
    table = estimate(findings.poll.responses)
    largest = table["category"].values[np.argsort(-table["share"].sel(group="everybody").values, kind="stable")]
    print_estimate(table, "answers.db")
    printed = capsys.readouterr().out
    html = page({"Where?": table}, {}, "Title")
    for shown, n in ((printed, MOST_PRINTED), (html[html.index("<th>") :], 12)):
        places = [shown.index(label) for label in largest[:n]]
        assert places == sorted(places)
    assert f" {largest[MOST_PRINTED]} " not in printed
    assert f"These are the {MOST_PRINTED} largest of {K}." in printed
    assert f"most frequent of {K} answers" in html
    assert f"and {K - 12} more" in html


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("category,group\na,1\na,2\n", "each category in one group, got 'a' in two"),
        ("name,group\na,1\n", "got ['name', 'group']"),
        ("", "got None"),
        (None, "No such file"),
        ("category,group\n\xff", "it is not a CSV file in UTF-8"),
    ],
)
def test_a_file_that_is_no_hierarchy_is_refused(tmp_path, capsys, text, words):
    path = tmp_path / "groups.csv"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    ended = run_here(capsys, "compare", "--people", 30, "--groups", path, "--out", tmp_path / "report")
    assert ended.returncode == 2
    assert ended.stderr.startswith("adobest: --groups must name a CSV file with the columns category and group")
    assert words in ended.stderr
    ended = run_here(capsys, "compare", "--people", 30, "--above", 2, "--out", tmp_path / "report")
    assert ended.stderr.startswith("adobest: --above must be a share")
