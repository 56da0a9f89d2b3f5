"""A mechanism from outside the package, one file of a few lines, goes from a device to the command line."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
import oracles
from adobest_pp.cli.compare import Request
from adobest_pp.cli.main import main
from adobest_pp.mechanisms import registry
from tests.own_mechanism import Neighbors
from tests.samplers.harness import check_moment

MECHANISM = Neighbors(3, 1.0)
PRIOR = np.array([2.0, 3.0, 1.5])
THETA = np.array([0.6, 0.3, 0.1])
NOTHING = ("epsilon", "mechanism", "kappa", "utility", "alpha")


@pytest.fixture(scope="module")
def responses():
    rng = np.random.default_rng(1)
    answers = MECHANISM.privatize(rng.choice(3, size=400, p=THETA), rng=rng)
    return ad.Responses.from_arrays(MECHANISM, answers, categories=["a", "b", "c"])


def test_it_keeps_its_promise():
    assert ad.audit(MECHANISM).holds
    assert ad.audit(MECHANISM).loss == pytest.approx(1.0)
    assert MECHANISM.privatize(2) in range(3)  # the production path


def test_a_file_gives_it_back(responses, tmp_path):
    responses.to_netcdf(tmp_path / "answers.nc")
    again = ad.Responses.from_netcdf(tmp_path / "answers.nc")
    assert again.mechanism == MECHANISM
    np.testing.assert_array_equal(again.answers, responses.answers)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("nuts", {"draws": 1000, "tune": 500}),
        ("gibbs", {"draws": 4000, "tune": 200}),
        ("sgld", {"draws": 4000, "tune": 500, "batch_size": None, "step_size": 1e-3, "updates_per_draw": 20}),
    ],
)
def test_every_sampler_finds_its_posterior(responses, sampler, options):
    mean, sd = oracles.posterior_moments_k3(MECHANISM.transition_matrix()[responses.answers], PRIOR)
    tree = ad.sample(responses, sampler, PRIOR, random_seed=3, progressbar=False, **options)
    allowed = 0.1 if sampler == "sgld" else 0.0
    for i in range(3):
        check_moment(tree.posterior.theta.values[..., i], "mean", mean[i], allowed * sd[i])


def test_it_is_a_distribution_of_pymc(responses):
    with ad.frequency_model(responses, PRIOR) as model:
        pointwise = model.compile_logp(vars=[model["y"]], sum=False)(model.initial_point())[0]
        predicted = pm.draw(model["y"], draws=20, random_seed=1)
    rows = MECHANISM.transition_matrix()[responses.answers]
    np.testing.assert_allclose(pointwise, np.log(rows @ (PRIOR / PRIOR.sum())), rtol=1e-9)
    assert predicted.shape == (20, 400)
    assert set(np.unique(predicted)) == {0, 1, 2}


def test_it_can_be_calibrated():
    def fit(data, seed):
        return ad.sample(data, "gibbs", PRIOR, draws=200, tune=50, chains=1, random_seed=seed, progressbar=False)

    result = ad.diagnostics.calibration(
        fit, MECHANISM, prior=PRIOR, n_people=30, replications=60, random_seed=1, progressbar=False
    )
    assert float(result.p_value_overall) > 1e-3


def test_commands_read_what_a_command_wrote(tmp_path, monkeypatch, capsys, no_other_mechanisms):
    """A class that is not registered: its place is typed, with each command that asks with it or reads its answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = Path(__file__).with_name("own_mechanism.py").read_text().replace("@register\n", "")
    (tmp_path / "elsewhere.py").write_text(source.replace("Neighbors", "Elsewhere"))
    (tmp_path / "people.csv").write_text("vote\n" + "a\nb\nc\n" * 4)
    options = ["--column", "vote", "--epsilon", "1", "--out", "answers.nc", "--quiet"]
    with pytest.raises(SystemExit, match="0"):
        main(["collect", "people.csv", *options, "--mechanism", "elsewhere:Elsewhere"])
    registry._OTHERS.clear()  # another command, another process
    request = Request(None, None, None, None, "answers.nc", None, dict.fromkeys(NOTHING))
    with pytest.raises(ValueError, match=r"got 'Elsewhere': .* add --mechanism module:Class"):
        request.poll(1, False, tmp_path / "kept.nc")
    named = dataclasses.replace(request, collection=dict.fromkeys(NOTHING) | {"mechanism": "elsewhere:Elsewhere"})
    named.check()
    assert type(named.poll(1, False, tmp_path / "kept.nc").responses.mechanism).__name__ == "Elsewhere"
    other = dataclasses.replace(
        request, collection=dict.fromkeys(NOTHING) | {"mechanism": "tests.own_mechanism:Neighbors"}
    )
    with pytest.raises(ValueError, match="--mechanism must be that of the answers, Elsewhere, got Neighbors"):
        other.poll(1, False, tmp_path / "kept.nc")
    sys.modules.pop("elsewhere", None)


def test_the_command_line_knows_it_by_its_place():
    command = [sys.executable, "-m", "adobest_pp", "audit", "--mechanism", "tests.own_mechanism:Neighbors"]
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [*command, "--categories", "4", "--epsilon", "1"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Holds" in done.stdout
