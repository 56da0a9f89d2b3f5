"""The figures of the pages are those of the files that the validation programs wrote."""

import sys

import pytest

from tests.docs.blocks import DOCS, ROOT

sys.path.append(str(DOCS / "_ext"))
import results


def test_errors_of_mechanisms_are_those_of_the_file():
    errors = results.mechanism_errors()
    settings = errors.groupby(["prior", "K", "epsilon"]).size()
    assert set(errors["rho"]) == {0.01, 0.1, 1.0}
    assert (settings == 3 * errors["mechanism"].nunique()).all()
    assert {"SRR", "subset selection", "RRRR, honest"} <= set(errors["mechanism"])
    one = errors[(errors["prior"] == "flat") & (errors["K"] == 10) & (errors["epsilon"] == 0.5) & (errors["rho"] == 1.0)]
    written = (ROOT / "validation/RESULTS.md").read_text(encoding="utf-8").split("flat prior, K = 10, ε = 0.5\n")[1]
    row = next(line for line in written.splitlines() if line.startswith("SRR"))
    assert f"{float(one[one['mechanism'] == 'SRR']['tv'].iloc[0]):.3f} [" in row


def test_verdicts_of_samplers_are_read():
    verdicts = results.sampler_verdicts()
    assert {"NUTS", "Gibbs"} <= set(verdicts["sampler"])
    assert (verdicts[verdicts["sampler"] == "NUTS"]["verdict"] == "reference").all()


def test_coverage_is_read():
    held = results.calibration()
    assert held["95%"].astype(float).between(0, 1).all()
    assert held["sampler"].str.contains("paper").any()


def test_the_repaired_sampler_is_read():
    cured = results.repaired_sgld()
    assert len(cured) == 36
    assert cured["ESS/s over NUTS's"].str.endswith("×").all()


def test_ratios_of_the_paper_are_read():
    ratios = results.paper_ratios()
    assert list(ratios.columns) == [0.01, 0.1, 1.0]
    assert (ratios > 0).all(axis=None)


def test_a_section_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match="must have a section 'nowhere'"):
        results.section("nowhere")
