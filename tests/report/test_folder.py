"""The folder of a report: every file opens with plain tools and says the same as the findings."""

import csv
import dataclasses
import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr

from adobest_pp import Responses, diagnostics, intervals, recorded_arguments, sample
from adobest_pp._text import visible
from adobest_pp._wording import intervals_in_words, verdict_in_words
from adobest_pp.intervals import privacy_share
from adobest_pp.report import write_report
from adobest_pp.report.findings import SAMPLERS
from adobest_pp.report.folder import FILES, _as_cells, least_mixed, summary
from tests.report.conftest import HOSTILE

FIGURES = ("estimate", "comparison", "traces", "ranks", "contraction")


class Tags(HTMLParser):
    """All tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def tags(hostile_report):
    return Tags((hostile_report / "report.html").read_text(encoding="utf-8"))


def test_all_files_are_there(hostile_report):
    files = {path.relative_to(hostile_report).as_posix() for path in hostile_report.rglob("*") if path.is_file()}
    figures = {f"figures/{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
    assert files == {"report.html", "posterior.nc", "comparison.csv"} | figures


def test_the_page_holds_itself(tags):
    addresses = [attrs[key] for _, attrs in tags.tags for key in ("src", "href") if key in attrs]
    assert len(addresses) == len(FIGURES) + 1  # and an empty icon
    assert all(address.startswith("data:") for address in addresses)
    assert "script" not in {tag for tag, _ in tags.tags}


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_are_text(tags, label):
    assert visible(label) in tags.text


def test_figures_are_well_formed_whatever_the_names(hostile_report):
    for name in FIGURES:
        ElementTree.parse(hostile_report / "figures" / f"{name}.svg")


def test_the_estimate_is_that_of_the_draws(tags, hostile_findings):
    flat = hostile_findings.theta.values.reshape(-1, len(HOSTILE))
    shown = intervals.summary(hostile_findings.posterior)
    low, high, words = shown["lower"].values, shown["upper"].values, intervals_in_words(shown)
    due = privacy_share(hostile_findings.posterior)["privacy"].values
    for i, label in enumerate(HOSTILE):
        row = [visible(label), f"{100 * flat[:, i].mean():.1f} %", words[i]]
        row.append(f"{100 * due[i]:.0f} %")
        assert "".join([*row, f"{100 * hostile_findings.poll.truth[i]:.1f} %"]) in tags.text
    found = summary(hostile_findings)["estimate"]
    np.testing.assert_allclose([row["lower"] for row in found], low)
    np.testing.assert_allclose([row["upper"] for row in found], high)
    np.testing.assert_allclose([row["mean"] for row in found], flat.mean(axis=0))
    np.testing.assert_allclose([row["privacy"] for row in found], due)
    np.testing.assert_allclose([row["sample"] for row in found], 1 - due)
    assert "of its width, due to privacy" in tags.text


def test_the_chains_that_mix_worst_are_drawn(hostile_findings):
    stuck = hostile_findings.draws["gibbs"].copy(deep=True)
    theta = stuck["posterior"]["theta"].values
    theta[0, :, 5] += 1.0
    theta /= theta.sum(axis=-1, keepdims=True)
    planted = dataclasses.replace(hostile_findings, draws=hostile_findings.draws | {"gibbs": stuck})
    assert HOSTILE[5] in least_mixed(planted)
    assert len(least_mixed(planted)) == 4


def test_the_page_tells_what_was_found(tags, hostile_findings):
    graded = hostile_findings.comparison
    for name in graded["sampler"].values:
        assert visible(verdict_in_words(graded.sel(sampler=name))) in tags.text
    assert "NUTS under a prior that learns how uneven the shares are" in tags.text
    assert "The samplers are graded against NUTS, under the prior Dirichlet(1)" in tags.text
    assert "What the squared error of sgld comes from" in tags.text
    assert "gradient noise" in tags.text
    assert "e^3 = 20.1 times" in tags.text
    assert "at most 95.3 % sure" in tags.text  # 1/(1 + e^−3) = 0.9526
    assert '"random_seed": {"entropy": 3' in tags.text  # the settings of the collection
    assert "so it holds" in tags.text


def test_draws_open_with_plain_xarray_and_can_be_graded_again(hostile_report, hostile_findings):
    with xr.open_datatree(hostile_report / "posterior.nc", engine="h5netcdf") as tree:
        tree.load()
    trees = {name: tree[name] for name in SAMPLERS}
    assert tuple(tree["nuts/posterior/theta"]["category"].values) == HOSTILE
    shown = intervals.summary(tree["posterior"])
    np.testing.assert_allclose([tree["estimate/lower"], tree["estimate/upper"]], [shown["lower"], shown["upper"]])
    assert tree["estimate"].attrs["interval"] == "covering"
    again = diagnostics.compare(trees, truth=hostile_findings.poll.truth, random_seed=3)
    xr.testing.assert_equal(again, hostile_findings.comparison)
    xr.testing.assert_allclose(tree["comparison"].to_dataset(), hostile_findings.comparison)
    xr.testing.assert_allclose(tree["explanation/sgld"].to_dataset(), hostile_findings.explanations["sgld"])


def test_the_settings_repeat_a_run(hostile_report):
    with xr.open_datatree(hostile_report / "posterior.nc", engine="h5netcdf") as tree:
        gibbs = tree["gibbs"].load()
    responses = Responses.from_xarray(gibbs["responses"].to_dataset())
    again = sample(responses, **recorded_arguments(gibbs.attrs), progressbar=False)
    np.testing.assert_array_equal(again["posterior/theta"].values, gibbs["posterior/theta"].values)


def test_the_table_has_a_row_for_each_sampler_and_category(hostile_report, hostile_findings):
    with open(hostile_report / "comparison.csv", newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["sampler"], row["category"]) for row in rows] == [
        (name, label) for name in SAMPLERS for label in HOSTILE
    ]
    mean = hostile_findings.comparison["mean"].values.ravel()
    np.testing.assert_allclose([float(row["mean"]) for row in rows], mean)


@pytest.mark.parametrize("name", ["report.html", "posterior.nc", "comparison.csv", "figures/traces.png"])
def test_a_second_report_does_not_take_the_place_of_the_first(hostile_findings, tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("old")
    with pytest.raises(FileExistsError, match=f"{name}: overwrite"):
        write_report(hostile_findings, tmp_path)
    assert [path.read_text() for path in tmp_path.rglob("*.*")] == ["old"]


def test_every_file_that_is_written_was_checked(hostile_report):
    assert {path.relative_to(hostile_report).as_posix() for path in hostile_report.rglob("*.*")} <= {*FILES}


@pytest.mark.long
def test_a_second_report_takes_the_place_of_the_first_if_asked_for(hostile_findings, hostile_report, tmp_path):
    (tmp_path / "report.html").write_text("old")
    written = write_report(hostile_findings, tmp_path, overwrite=True)
    assert all(path.is_file() for path in written)
    for name in ("report.html", "comparison.csv", "figures/comparison.svg"):
        assert (tmp_path / name).read_bytes() == (hostile_report / name).read_bytes()


def test_the_summary_is_json_without_nan(hostile_findings):
    content = json.loads(json.dumps(summary(hostile_findings), allow_nan=False))
    assert [row["category"] for row in content["estimate"]] == list(HOSTILE)
    assert (content["prior"], content["sampler_prior"], content["interval"], content["probability"]) == (
        "learned",
        1,
        "covering",
        0.95,
    )
    assert content["fit_p_value"] == hostile_findings.posterior.attrs["fit_p_value"]
    assert content["samplers"]["nuts"]["energy_p_value"] is None  # the reference has none
    row = hostile_findings.comparison.sel(sampler="sgld")
    values = content["samplers"]["sgld"]
    assert values["verdict_in_words"] == verdict_in_words(row)
    assert [values["verdict"], values["fault"], values["r_hat"]] == [
        row[n].item() for n in ("verdict", "fault", "r_hat")
    ]
    assert values["main_cause"] == hostile_findings.explanations["sgld"]["main_cause"].item()
    assert values["explanation_in_words"].startswith("SGLD does not sample the posterior: ")
    assert set(values["parts"]) == {"not_mixed", "gradient_noise", "discretization", "boundary", "rest"}
    assert "main_cause" not in content["samplers"]["sgld_cv"]
    assert content["samplers"]["nuts"]["verdict"] == "reference"
    assert content["samplers"]["nuts"]["fault"] is None


def test_no_label_in_the_table_is_a_formula():
    labels, figures = ["=cmd|' /C calc'!A0", "@x", "yes"], [-1.0, 2.0, 3.0]
    worst = ("sampler", ["-1+1"])
    comparison = xr.Dataset(
        {"mean": (("sampler", "category"), [figures]), "location_category": worst},
        {"sampler": ["nuts"], "category": labels},
    )
    table = _as_cells(comparison)
    assert table["category"].tolist() == ["'=cmd|' /C calc'!A0", "'@x", "yes"]
    assert table["location_category"].tolist() == ["'-1+1"] * 3
    assert table["mean"].tolist() == figures
