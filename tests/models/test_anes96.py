"""The regression on the public data of statsmodels covers what honest answers give."""

import math
from pathlib import Path

import pytest

from models import anes96

PAGE = Path(__file__).parents[2] / "docs" / "anes96.md"

pytest.importorskip("statsmodels")


def test_intervals_of_private_answers_cover_the_coefficients_of_honest_ones():
    step, covariates = anes96.load()
    assert covariates.shape == (944, 3)
    reference = anes96.honest(step, covariates)
    shown = anes96.intervals(anes96.private(step, covariates, seed=1))
    covered = (shown["lower"] <= reference["estimate"]) & (reference["estimate"] <= shown["upper"])
    # Of 24 intervals that each miss one time in twenty, four or more miss in 3 % of cases: the false-alarm rate.
    assert int((~covered).sum()) <= 3, reference["estimate"].where(~covered).to_series().dropna()
    # Privacy costs precision, so the intervals must be wider; they must not be so wide that they say nothing.
    wider = (shown["upper"] - shown["lower"]) / (2 * 1.96 * reference["error"])
    assert float(wider.min()) > 1
    assert float(wider.max()) < 6
    found = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert (
        f"Of the {covered.size} honest coefficients (four terms, six contrasts), {int(covered.sum())} lie within"
        in found
    )
    assert f"{round(float(wider.min()))} to {math.ceil(float(wider.max()))} times as wide" in found
