"""Data sets of real people: what is in them, and the way from people to a report."""

import sys

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.cli.main import main


def test_anes96_has_its_people_and_labels():
    people = ad.datasets.anes96()
    assert len(people) == 944
    assert people["party"].value_counts().to_dict() == {
        "strong Democrat": 200,
        "weak Democrat": 180,
        "leans Democrat": 108,
        "independent": 37,
        "leans Republican": 94,
        "weak Republican": 150,
        "strong Republican": 175,
    }
    assert people["party"].cat.categories[0] == "strong Democrat"
    by_party = people.groupby("party", observed=True)["vote"].value_counts(normalize=True).unstack()
    assert by_party["Dole"].is_monotonic_increasing, "those who feel closer to the Republicans vote for Dole more often"


def test_birth_states_have_many_categories():
    people = ad.datasets.birth_states()
    states = people["state"]
    assert len(people) == 214_144
    assert states.cat.categories.size == 52
    assert states.cat.categories[-1] == "not stated"
    assert states.value_counts().idxmax() == "New York"
    assert not people.isna().any(axis=None)


@pytest.mark.parametrize("load", [ad.datasets.anes96, ad.datasets.birth_states])
def test_labels_can_be_given_to_a_command(load):
    """Categories are separated by commas there, so that no label may hold one."""
    people = load()
    labels = people[people.attrs["column"]].cat.categories
    assert people.attrs.keys() == {"column", "question", "source", "license"}
    assert not any("," in label for label in labels)


@pytest.mark.parametrize(
    ("load", "package"), [(ad.datasets.anes96, "statsmodels"), (ad.datasets.birth_states, "causaldata")]
)
def test_a_missing_package_is_named_with_what_to_install(load, package, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}, .* pip install 'adobest-pp\[datasets\]'"):
        load()


@pytest.mark.long
def test_from_people_to_a_report(tmp_path):
    """A file of real people, randomized exactly, sampled and graded: most intervals hold the true shares."""
    people = ad.datasets.anes96()
    people[["party"]].to_csv(tmp_path / "people.csv", index=False)
    parties = ",".join(people["party"].cat.categories)
    options = ["--column", "party", "--categories", parties, "--epsilon", "3", "--draws", "500", "--quiet"]
    with pytest.raises(SystemExit) as end:
        main(["compare", "--data", str(tmp_path / "people.csv"), *options, "--out", str(tmp_path / "poll")])
    assert end.value.code in (0, None)
    page = (tmp_path / "poll" / "report.html").read_text(encoding="utf-8")
    assert "strong Democrat" in page
    responses = ad.Responses.read(tmp_path / "poll" / "responses.db")
    assert len(responses) == 944
    # The answers are drawn from the system's entropy, so this differs from run to run. An interval of 95 % misses in
    # 5 %; if they missed independently, four or more of seven would in 1 of 5000 runs.
    draws = ad.sample(responses, "nuts", random_seed=1, progressbar=False)
    shown = ad.intervals.summary(draws.posterior.theta)
    truth = people["party"].value_counts(normalize=True)[list(responses.categories)].to_numpy()
    held = np.count_nonzero((shown["lower"].values <= truth) & (truth <= shown["upper"].values))
    assert held >= 4
