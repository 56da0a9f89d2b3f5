"""The comparison of mechanisms: its quick mode, and that its statements fail on runs for which they are false."""

import numpy as np
import pytest
import xarray as xr

from adobest_pp.studies import cells_of
from validation import __main__ as suite
from validation import common, mechanisms
from validation.common import Options
from validation.kept_runs import mechanism_of
from validation.sign_test import median_interval


def test_the_quick_mode_passes():
    done = common.run_here("mechanisms", Options(quick=True))
    assert done.passed, str(done)
    assert len(done.findings) == 5
    assert {"RRRR, honest", "semi-adaptive, α = 0.9"} <= set(done.tables("errors")[0].column(""))


@pytest.mark.slow
def test_the_quick_mode_passes_in_a_process_of_its_own_with_workers():
    done = suite.run("mechanisms", Options(quick=True))
    assert done.passed, str(done)


def test_the_study_has_every_mechanism_prior_and_setting():
    study = mechanisms.study_of(quick=False, seed=1)
    cells = cells_of(study)
    assert study.runs >= 20
    assert len(cells) == 2 * 2 * 3 * 2 * len(mechanisms.LABELS)
    assert {mechanism_of(cell) for cell in cells} == set(mechanisms.LABELS)
    assert {cell["n_categories"] * cell["people_per_category"] for cell in cells} == {5000, 10_000}


AXES = {
    "K": [10, 20],
    "epsilon": [0.5, 1.0],
    "rho": [0.01, 0.1, 1.0],
    "prior": ["flat", "learned"],
    "mechanism": list(mechanisms.LABELS),
    "run": list(range(20)),
}
SHAPE = [len(values) for values in AXES.values()]
# TV by ρ and prior: of SRR (and fisher), of subset selection, of RRRR by utilities that adapt, and semi-adaptive.
TYPICAL = {
    (0.01, "flat"): (0.25, 0.15, 0.1, 0.12),
    (0.1, "flat"): (0.2, 0.1, 0.2, 0.12),
    (1.0, "flat"): (0.15, 0.12, 0.2, 0.2),
    (0.01, "learned"): (0.06, 0.04, 0.05, 0.04),
    (0.1, "learned"): (0.12, 0.08, 0.15, 0.09),
    (1.0, "learned"): (0.153, 0.123, 0.203, 0.203),
}


def planted(faults=()):
    """Runs for which every statement holds, but for faults: (mechanism, ρ, prior, TV). Noise is shared within runs."""
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 0.05, size=[*SHAPE[:3], 1, 1, SHAPE[-1]])
    runs = xr.Dataset(coords=AXES)
    runs["exact_tv"] = (tuple(AXES), shared + rng.normal(0, 0.005, size=SHAPE))
    runs["coverage"] = (tuple(AXES), rng.normal(0.95, 0.02, size=SHAPE))
    runs["true_epsilon"] = runs["epsilon"].broadcast_like(runs["exact_tv"]).copy()
    runs["coverage"] -= ((runs["rho"] < 1) & (runs["prior"] == "flat")) * 0.7
    for (rho, prior), (srr, subset_selection, adaptive, semi) in TYPICAL.items():
        known = {"srr": srr, "fisher": srr, "subset_selection": subset_selection} | dict.fromkeys(mechanisms.SEMI, semi)
        tv = [known.get(name, adaptive) for name in mechanisms.LABELS]
        place = {"rho": rho, "prior": prior}
        runs["exact_tv"].loc[place] += xr.DataArray(tv, dims="mechanism")
    for mechanism, rho, prior, tv in faults:
        place = {"rho": rho, "prior": prior, "mechanism": mechanism}
        reference = {"rho": rho, "prior": prior, "mechanism": "srr"}
        noise = runs["exact_tv"].loc[reference] - TYPICAL[rho, prior][0]
        runs["exact_tv"].loc[place] = tv + noise.values + rng.normal(0, 0.005, size=noise.shape)
    return runs


def failing(runs):
    found = mechanisms.sound(runs) + mechanisms.stated(runs)
    assert len(found) == 18
    return [one.name for one in found if not one.passed]


def test_every_statement_holds_where_it_is_true():
    assert failing(planted()) == []


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (("subset_selection", 0.1, "learned", 0.13), ["learned_prior", "selection_ahead_of_srr", "semi_fails"]),
        (("subset_selection", 1.0, "flat", 0.16), ["selection_not_behind_srr"]),
        (("tv1", 0.1, "flat", 0.09), ["learned_prior", "selection_ahead_of_rrrr", "semi_ahead_of_utilities"]),
        (("semi_adaptive_0.8", 0.1, "learned", 0.16), ["semi_ahead_of_utilities"]),
        (("semi_adaptive_0.8", 0.1, "flat", 0.21), ["semi_ahead_of_srr", "semi_ahead_of_utilities"]),
        (("semi_adaptive_0.8", 0.01, "flat", 0.16), ["semi_ahead_of_selection"]),
        (("semi_adaptive_0.2", 1.0, "learned", 0.12), ["semi_fails"]),
        (("tv1", 1.0, "learned", 0.14), ["rrrr_not_ahead_of_srr"]),
        (("honest", 0.01, "flat", 0.26), ["rrrr_ahead_of_srr", "rrrr_ahead_of_selection"]),
        (("entropy", 0.01, "flat", 0.16), ["rrrr_ahead_of_selection"]),
        (("entropy", 0.01, "flat", 0.03), ["learned_prior", "learned_selection_ahead"]),
        (("mse", 0.1, "learned", 0.21), ["learned_prior"]),
        (("mse", 1.0, "learned", 0.22), ["learned_cost"]),
    ],
)
def test_a_statement_fails_where_it_is_false(fault, names):
    assert failing(planted([fault])) == names


@pytest.mark.parametrize(
    ("measure", "place", "value", "name"),
    [
        ("true_epsilon", {"K": 10, "epsilon": 0.5, "run": 3}, 0.51, "privacy"),
        ("coverage", {"rho": 1.0, "prior": "flat", "mechanism": "tv2"}, 0.85, "calibrated"),
        ("coverage", {"rho": 0.1, "prior": "flat"}, 0.6, "flat_coverage"),
        ("coverage", {"rho": 0.01, "prior": "learned"}, 0.4, "learned_coverage"),
    ],
)
def test_wrong_privacy_and_coverage_are_found(measure, place, value, name):
    runs = planted()
    runs[measure].loc[place] = value
    assert failing(runs) == [name]


def test_intervals_are_those_of_the_sign_test_in_every_place():
    values = planted()["exact_tv"].sel(rho=0.1, prior="flat").transpose("run", ...)
    median, low, high = mechanisms.interval(values, level=0.9)
    place = {"K": 20, "epsilon": 1.0, "mechanism": "mse"}
    expected = median_interval(values.sel(place).values, 0.9)
    assert [float(part.sel(place)) for part in (median, low, high)] == [
        expected.middle,
        expected.lower,
        expected.upper,
    ]


def test_equal_mechanisms_are_told_apart_in_no_more_than_five_percent_of_studies():
    """Of 1000 studies with 12 settings and 20 runs each; 5 % at most, so above 72 has a false alarm below 1e-3."""
    axes = {"study": range(1000), "K": range(2), "epsilon": range(2), "rho": range(3), "run": range(20)}
    shape = [len(values) for values in axes.values()]
    differences = xr.DataArray(np.random.default_rng(5).standard_cauchy(shape), coords=axes)
    told_apart = mechanisms.standing(differences, 12) != 0
    assert int(told_apart.any(["K", "epsilon", "rho"]).sum()) <= 72
    assert int((mechanisms.standing(differences.sel(study=range(100)), 1) != 0).sum()) > 12  # without the correction


def test_fisher_that_is_told_from_srr_is_found():
    runs = planted()
    runs["exact_tv"].loc[{"K": 20, "epsilon": 0.5, "rho": 0.1, "prior": "learned", "mechanism": "fisher"}] += 0.02
    assert failing(runs) == ["fisher_is_srr"]


def test_the_level_of_the_statements_is_of_all_their_comparisons(monkeypatch):
    asked = []
    monkeypatch.setattr(mechanisms, "standing", lambda differences, n: asked.append(n) or xr.DataArray(1))
    runs = planted()
    mechanisms.ahead(runs, ("subset_selection", "flat"), ("srr", "flat"), 0.1)
    assert asked == [mechanisms.N_STATEMENTS]
    # Every case is asked where none ends a statement early.
    monkeypatch.setattr(mechanisms, "ahead", lambda *_: asked.append("ahead") or _Any())
    mechanisms.stated(runs)
    assert asked.count("ahead") == mechanisms.N_STATEMENTS


class _Any:
    """A standing that is ahead, behind and neither, so that no case is left out."""

    def __eq__(self, other):
        return True

    __hash__ = None
    __ge__ = __lt__ = __eq__
