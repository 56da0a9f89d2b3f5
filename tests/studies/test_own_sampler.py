"""A sampler from outside the package goes through a study by its own name, and a broken one is caught by it."""

import pytest

import adobest_pp as ad
from adobest_pp.studies import Measure, declares, open_study, read_study, run_study, study_status
from tests.diagnostics.samplers import BROKEN, shuffled
from validation.frontier_run import options_of

HOME = "tests.diagnostics.samplers"
STUDY = f"""
name = "samplers"
run = "{__name__}:graded_run"
runs = 2
seed = 1
measures = ["biased", "sd_ratio"]

[[grid]]
reference = ["srr_two"]
sampler = ["gibbs", "{HOME}:exact", {", ".join(f'"{HOME}:{one.__name__}"' for one in BROKEN)}]
"""


@declares({"biased": Measure("whether compare calls it biased"), "sd_ratio": Measure("sd over that of the reference")})
def graded_run(run, *, sampler, reference):
    """Sample a reference posterior with anything that `sample` takes, and grade the draws."""
    known = ad.references.load(reference)
    seed = int(run.rng().integers(2**31))
    tree = ad.sample(known.responses, sampler, draws=4000, tune=100, random_seed=seed, progressbar=False)
    assert tree.attrs["sampler"] == sampler.rpartition(":")[2]  # it is recorded by its own name
    found = ad.diagnostics.compare({"mine": tree}, known, resamples=499).sel(sampler="mine")
    return {"biased": float(found.verdict == "biased"), "sd_ratio": float(found.sd_ratio.max())}


@pytest.mark.long
def test_a_study_of_samplers_catches_the_broken_ones(tmp_path):
    """Two right samplers of two runs each are called biased with a probability of 1 % a run; the seed is fixed."""
    (tmp_path / "samplers.toml").write_text(STUDY)
    store = tmp_path / "samplers.db"
    run_study(read_study(tmp_path / "samplers.toml"), store, workers=1, progressbar=False)
    status = study_status(store)
    assert (status.done, status.failed) == (10, 2)  # draws off the simplex are refused, and the others are kept
    results = open_study(store).sel(reference="srr_two")
    assert {*results.sampler.values.tolist()} == {
        "gibbs",
        *(f"{HOME}:{one.__name__}" for one in BROKEN),
        f"{HOME}:exact",
    }
    biased = results["biased"].mean("run")
    for name in ("gibbs", f"{HOME}:exact"):
        assert biased.sel(sampler=name) == 0
    for one in BROKEN:
        if one is not shuffled:
            assert biased.sel(sampler=f"{HOME}:{one.__name__}") == 1


@pytest.mark.parametrize("name", ["sghmc", f"{HOME}:exact"])
def test_the_frontier_takes_any_sampler_by_name(name):
    assert options_of(name) == {"sampler": name}
