"""adobest_pp.sample: labels, groups, attributes that repeat the run, files, progress, refusals."""

import json
import time

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp import _progress as progress
from adobest_pp.samplers.sampling import recorded_arguments
from tests.refusals import refuses
from tests.strategies import simulated

LABELS = ["yes", "no", "unsure"]
MECHANISMS = [ad.SRR(3, 1.0), ad.RRRR(3, 1.0), ad.SubsetSelection(3, 1.0, size=2)]
SAMPLERS = ["nuts", "gibbs", "sgld"]
SHORT = {"draws": 20, "tune": 30, "chains": 2, "progressbar": False}


def labelled(mechanism, n=40):
    responses = simulated(mechanism, n, seed=1) if n else ad.Responses(mechanism)
    return ad.Responses.from_xarray(responses.to_xarray().assign_coords(category=LABELS[: mechanism.n_categories]))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_result_is_labelled_and_survives_a_file(sampler, mechanism, tmp_path):
    responses = labelled(mechanism)
    tree = ad.sample(responses, sampler, random_seed=4, **SHORT)
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "category")
    assert dict(tree["posterior"]["theta"].sizes) == {"chain": 2, "draw": 20, "category": 3}
    assert tree["posterior"]["category"].values.tolist() == LABELS
    assert dict(tree["sample_stats"].sizes) == {"chain": 2, "draw": 20}
    assert tree["sample_stats"].data_vars
    np.testing.assert_allclose(tree["posterior"]["theta"].sum("category"), 1.0)

    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as reopened:
        xr.testing.assert_equal(reopened["posterior"]["theta"], tree["posterior"]["theta"])
        again = ad.Responses.from_xarray(reopened["responses"].to_dataset())
        assert again.evidence() == responses.evidence()
        assert json.loads(reopened.attrs["mechanism_settings"]) == mechanism.settings()
        repeated = ad.sample(again, progressbar=False, **recorded_arguments(reopened.attrs))
    np.testing.assert_array_equal(repeated["posterior"]["theta"], tree["posterior"]["theta"])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_attributes_tell_how_to_repeat_the_run(sampler):
    tree = ad.sample(labelled(MECHANISMS[1]), sampler, prior=[1.0, 2.0, 0.5], random_seed=4, **SHORT)
    attributes = tree.attrs
    np.testing.assert_array_equal(attributes["prior_concentration"], [1.0, 2.0, 0.5])
    assert attributes["sampler"] == sampler
    assert attributes["sampling_time"] > 0
    assert attributes["n_responses"] == 40
    assert attributes["adobest_pp_version"] == ad.__version__
    assert {"pymc_version", "numpy_version", "created_at", "draws", "tune", "chains", "random_seed"} <= set(attributes)
    if sampler == "nuts":
        assert {"nutpie_version", "numba_version"} <= set(attributes)
        assert (attributes["target_accept"], attributes["adaptation"]) == (0.95, "low_rank")


def test_a_learned_concentration_is_told_and_repeated_from_a_file(tmp_path):
    responses = labelled(MECHANISMS[2])
    tree = ad.sample(responses, "nuts", prior="learned", random_seed=4, **SHORT)
    assert tree.attrs["prior_concentration"] == "learned"
    assert tree.attrs["learned_prior"] == "Dirichlet(a, …, a), ln a ~ N(-2, 2²)"
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as reopened:
        again = ad.sample(responses, progressbar=False, **recorded_arguments(reopened.attrs))
    for name in ("theta", "concentration"):
        np.testing.assert_array_equal(again["posterior"][name], tree["posterior"][name])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": None, "step_size": 0.02, "updates_per_draw": 3, "diffusion": "preconditioned"},
        {"batch_size": 7, "schedule": ad.DecayingSteps(0.1, 0.6)},
    ],
)
def test_attributes_of_sgld_repeat_its_settings_from_a_file(options, tmp_path):
    responses = labelled(MECHANISMS[0])
    tree = ad.sample(responses, "sgld", random_seed=4, **SHORT, **options)
    assert (tree["sample_stats"]["sgld_rejected"] == 0).all()
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as reopened:
        arguments = recorded_arguments(reopened.attrs)
    assert arguments["batch_size"] == options["batch_size"]
    again = ad.sample(responses, progressbar=False, **arguments)
    np.testing.assert_array_equal(again["posterior"]["theta"], tree["posterior"]["theta"])
    np.testing.assert_array_equal(again["sample_stats"]["sgld_step_size"], tree["sample_stats"]["sgld_step_size"])
    assert again.attrs["sampler_settings"] == tree.attrs["sampler_settings"]


def test_a_schedule_of_ones_own_must_be_given_again():
    tree = ad.sample(labelled(MECHANISMS[0]), "sgld", schedule=lambda t, n: 0.01, **SHORT)
    with refuses("schedule"):
        recorded_arguments(tree.attrs)


@pytest.mark.parametrize("sampler", ["gibbs", "sgld"])
def test_a_seed_that_was_not_given_is_recorded(sampler):
    responses = labelled(MECHANISMS[0])
    tree = ad.sample(responses, sampler, **SHORT)
    again = ad.sample(responses, sampler, random_seed=tree.attrs["random_seed"], **SHORT)
    np.testing.assert_array_equal(tree["posterior"]["theta"], again["posterior"]["theta"])
    other = ad.sample(responses, sampler, **SHORT)
    assert not np.array_equal(tree["posterior"]["theta"], other["posterior"]["theta"])


def test_draws_do_not_depend_on_how_many_chains_or_draws_follow():
    responses = labelled(MECHANISMS[1])
    short = ad.sample(responses, "gibbs", draws=10, tune=0, chains=1, random_seed=4)["posterior"]["theta"]
    longer = ad.sample(responses, "gibbs", draws=500, tune=0, chains=3, random_seed=4)["posterior"]["theta"]
    np.testing.assert_array_equal(short[0], longer[0, :10])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_responses_and_two_categories(sampler, n):
    tree = ad.sample(labelled(ad.RRRR(2, 1.0), n), sampler, random_seed=1, **SHORT)
    assert np.isfinite(tree["posterior"]["theta"]).all()


def test_chains_that_have_not_converged_are_reported(caplog):
    responses = simulated(ad.RRRR(10, 1.0), 2000, seed=1)
    settings = {"draws": 100, "tune": 0, "random_seed": 1}
    ad.sample(responses, "nuts", **(settings | {"tune": 500}))
    ad.sample(responses, "sgld", **(settings | {"chains": 1}))
    assert not caplog.records
    ad.sample(responses, "sgld", **settings)
    (record,) = caplog.records
    assert "chains of 'sgld' have not converged" in record.getMessage()


@pytest.mark.parametrize("sampler", ["gibbs", "sgld"])
def test_one_draw_of_many_chains(sampler):
    tree = ad.sample(labelled(MECHANISMS[0]), sampler, draws=1, tune=0, chains=4)
    assert tree["posterior"]["theta"].shape == (4, 1, 3)


def test_time_of_the_schedule_starts_with_the_first_update():
    options = {"schedule": ad.DecayingSteps(1.0, 1.0), "updates_per_draw": 2}
    tree = ad.sample(labelled(MECHANISMS[0]), "sgld", draws=3, tune=1, chains=1, random_seed=1, **options)
    np.testing.assert_allclose(tree["sample_stats"]["sgld_step_size"][0], [1 / 4, 1 / 6, 1 / 8])


def test_progress_appears_only_when_it_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.3)
    with progress.SlowProgress(2, "Quick") as bar:
        bar.advance(2)
    with progress.SlowProgress(2, "Silent", enabled=False):
        time.sleep(0.5)
    assert capsys.readouterr().err == ""
    with progress.SlowProgress(2, "[/red] Compiling") as bar:
        bar.advance(1)
        until = time.monotonic() + 60
        while bar._bar is None and time.monotonic() < until:
            time.sleep(0.05)
        bar.advance(1, "1 failed")
    shown = capsys.readouterr().err
    assert "[/red] Compiling" in shown  # a label is text, not markup
    assert " 2/2" in shown
    assert "1 failed" in shown


def test_progress_can_be_turned_off(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    ad.sample(labelled(MECHANISMS[0]), "gibbs", draws=20, tune=0, chains=1, progressbar=False)
    assert capsys.readouterr().err == ""
    ad.sample(labelled(MECHANISMS[0]), "gibbs", draws=20_000, tune=0, chains=2)
    assert "Sampling" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": "hmc"}, "sampler must be one of 'nuts', 'gibbs', 'sgld', 'sgld_cv'.*, got 'hmc'"),
        ({"prior": -1.0}, "prior must be a positive number, or 3 of them, got -1.0"),
        ({"prior": [1.0, 2.0]}, "prior must be"),
        ({"prior": "flat"}, "prior must be a positive number, or 3 of them, or 'learned', got 'flat'"),
        (
            {"prior": "learned", "sampler": "gibbs"},
            "prior must be a positive number, or 3 of them, for 'gibbs', got",
        ),
        ({"prior": "learned", "sampler": "sgld"}, "prior must be .*, for 'sgld', got 'learned'"),
        ({"draws": 0}, "draws must be an integer of at least 1, got 0"),
        ({"tune": 0}, "tune of 'nuts' must be an integer of at least 1, got 0"),
        ({"sampler": "gibbs", "tune": -1}, "tune must be an integer of at least 0"),
        ({"chains": 0}, "chains must be"),
        ({"random_seed": -3}, "random_seed must be an integer from 0"),
        ({"batch_size": 10}, "options must be among cores, target_accept for 'nuts', got batch_size"),
        ({"sampler": "sgld", "momentum": 0.9}, "options must be among batch_size, .* for 'sgld', got momentum"),
        ({"sampler": "sgld", "batch_size": 2.5}, "batch_size must be"),
        ({"sampler": "sghmc", "diffusion": "barker"}, "diffusion must be left out for 'sghmc', got 'barker'"),
        ({"sampler": "svrg", "gradient": "minibatch"}, "gradient must be left out for 'svrg', got 'minibatch'"),
        ({"sampler": "svrg", "batch_size": None}, "batch_size must be a number for 'svrg', got None"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        ad.sample(labelled(MECHANISMS[0]), **arguments)


def test_refuses_what_is_not_responses():
    with refuses("responses"):
        ad.sample([0, 1, 2])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "attributes must be those of a tree from `sample`, got none named sampler, prior"),
        ([], "attributes must be"),
        (None, "attributes must be"),
        ({"sampler_settings": "{"}, "sampler_settings must be"),
        ({"sampler_settings": 3}, "sampler_settings must be"),
        ({"sampler_settings": "[]"}, "sampler_settings must be"),
        ({"sampler_settings": '{"batch_size": 3}'}, "sampler_settings must be"),
        ({"sampler_settings": '{"schedule": {"schedule": "none"}}'}, "schedule must be one of"),
        ({"sampler_settings": '{"schedule": [1]}'}, "schedule must be one of"),
        ({"sampler": "a:b"}, "sampler must be registered for the run to be repeated, got 'a:b'"),
        ({"sampler_settings": '{"schedule": 1, "diffusion": "mine"}'}, "diffusion must be registered"),
        ({"sampler_settings": '{"schedule": 1, "gradient": ["mine"]}'}, "gradient must be registered"),
    ],
)
def test_recorded_arguments_of_something_else_are_refused(attributes, message):
    if attributes:
        names = ("sampler", "prior_concentration", "draws", "tune", "chains", "random_seed")
        attributes = dict.fromkeys(names, 1) | {"sampler": "sgld"} | attributes
    with pytest.raises(ValueError, match=message) as raised:
        recorded_arguments(attributes)
    assert type(raised.value) is ValueError


def test_options_that_pymc_users_know():
    responses = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0, 0, 1, 0], categories=["no", "yes"])
    quick = {"draws": 20, "tune": 50, "chains": 2, "progressbar": False}
    tree = ad.sample(responses, target_accept=0.8, cores=1, random_seed=np.random.default_rng(3), **quick)
    assert tree.attrs["target_accept"] == 0.8
    again = ad.sample(responses, **{**ad.recorded_arguments(tree.attrs), "progressbar": False})
    np.testing.assert_array_equal(again["posterior"]["theta"], tree["posterior"]["theta"])
    same = ad.sample(responses, target_accept=0.8, random_seed=np.random.default_rng(3), **quick)
    np.testing.assert_array_equal(same["posterior"]["theta"], tree["posterior"]["theta"])
    named = ad.sample(responses, "gibbs", prior={"yes": 3, "no": 0.5}, random_seed=1, **quick)
    assert named.attrs["prior_concentration"].tolist() == [0.5, 3.0]
    for wrong in ({"target_accept": 1.5}, {"cores": 0}, {"prior": {"yes": 1}}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must"):
            ad.sample(responses, **wrong, **quick)
