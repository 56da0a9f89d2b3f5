"""The folder of an estimate: the same numbers in every file, and pages that a public-health officer can read."""

import csv
import json
import re

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.report.handout import as_table, page, write_estimate
from tests.refusals import refuses

QUESTION = "How often do you <b>drink</b>?"
LABELS = ["=never", "now & then", "daily"]


@pytest.fixture(scope="module")
def table():
    rng, mechanism = np.random.default_rng(1), ad.SubsetSelection(3, epsilon=1.0)
    region = np.repeat(["north", "south", "isle"], [500, 480, 3])
    x = rng.choice(3, size=983, p=[0.6, 0.3, 0.1])
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=LABELS)
    return ad.estimate(responses, groups={"region": region}, weights=rng.uniform(0.5, 2, size=983))


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    place = tmp_path_factory.mktemp("handout")
    write_estimate({QUESTION: table}, place, title="Drinking")
    return place


def test_every_file_has_the_same_numbers_to_the_last_digit(table, folder):
    openpyxl = pytest.importorskip("openpyxl")
    expected = as_table({QUESTION: table})
    with (folder / "estimate.csv").open(encoding="utf-8-sig", newline="") as handle:
        written = list(csv.DictReader(handle))
    content = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))["estimate"]
    rows = list(openpyxl.load_workbook(folder / "estimate.xlsx")["estimate"].iter_rows(values_only=True))
    assert len(written) == len(content) == len(rows) - 1 == 3 * 3
    for name in ("share", "lower", "upper", "direct"):
        values = expected[name].tolist()
        assert [float(row[name]) for row in written] == values
        assert [row[name] for row in content] == values
        assert [row[rows[0].index(name)] for row in rows[1:]] == values


def test_the_price_of_protection_is_that_of_all_questions(table):
    free = table.assign(privacy=0 * table["privacy"])
    width = (table["upper"] - table["lower"]).sel(group="everybody")
    price = float((table["privacy"].sel(group="everybody") * width).sum() / width.sum())
    for tables, expected in (({"a": table}, price), ({"a": table, "b": free}, price / 2), ({"a": free}, 0)):
        text = page(tables, {}, "Drinking")
        assert f"about {round(100 * expected)} % of the width is the price of protection" in text


def test_the_page_shows_them_rounded(table, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    for share, interval in zip(table["share"].values.ravel(), table["interval"].values.ravel(), strict=True):
        assert f"{100 * share:.1f} %" in page
        assert str(interval) in page
    words = table["in_words"].sel(group="everybody").values.tolist()
    assert all(each in page for each in words)


def test_text_is_escaped_and_no_cell_is_a_formula(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<b>drink" not in page
    assert "now &amp; then" in page
    assert ",'=never," in (folder / "estimate.csv").read_text(encoding="utf-8-sig")


def test_the_page_needs_nothing_but_itself(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<script" not in page


def test_the_page_says_what_is_uncertain_why_and_who_is_left_out(table, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in (
        "borrows from all others",
        "price of protection",
        "weighted",
        "“region: isle” (3)",
        "at most 74 % sure",
    ):
        assert words in page
    body = page[: page.index("Appendix")]
    for word in ("posterior", "Dirichlet", "prior", "ε", "epsilon", "NUTS", "Gibbs", "sampler"):
        assert word not in body
    assert 0 < table["privacy"].sel(group="everybody").mean() < 1


def test_nothing_is_overwritten_unasked(table, folder):
    before = (folder / "estimate.csv").read_bytes()
    with refuses("folder", FileExistsError):
        write_estimate({QUESTION: table}, folder, title="Another")
    assert (folder / "estimate.csv").read_bytes() == before
    write_estimate({QUESTION: table}, folder, title="Another", overwrite=True)
    assert "Another" in (folder / "report.html").read_text(encoding="utf-8")


def test_what_is_no_estimate_is_refused(table, tmp_path):
    for given in ({}, {"q": 1}, {"q": table.drop_vars("share")}):
        with refuses("tables"):
            write_estimate(given, tmp_path)
