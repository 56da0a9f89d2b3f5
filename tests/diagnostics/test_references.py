"""Reference posteriors: frozen, certified, whole, readable without us, and fit to grade samplers with."""

import hashlib
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.integrate import quad
from scipy.special import softmax

import adobest_pp as ad
import oracles
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.diagnostics import references
from adobest_pp.diagnostics.draws import coefficient_scores, mixing
from tests.refusals import refuses
from validation import build_references


def test_they_cover_groups_mechanisms_priors_and_sizes():
    assert references.groups() == ["easy", "small_epsilon", "sparse", "many_categories", "regression", "learned_prior"]
    assert references.names() == list(build_references.SETTINGS)
    described = references.described().values()
    assert {about["mechanism"]["mechanism"] for about in described} == {
        "SRR", "RRRR", "SubsetSelection", "UnaryEncoding", "HadamardResponse", "LocalHashing",
    }  # fmt: skip
    sizes = [len(about["categories"]) for about in described]
    assert (min(sizes), max(sizes)) == (2, 200)
    for group in references.groups():
        assert references.names(group)


def test_the_archive_is_small():
    assert sum(path.stat().st_size for path in references.ARCHIVE.iterdir()) < 20 * 2**20


@pytest.mark.parametrize("name", references.names())
def test_every_reference_is_certified(name):
    reference = references.load(name)
    responses, draws = reference
    theta = reference.parameters.values
    if reference.covariates is None:
        assert theta.shape == (4, 2800, responses.n_categories)
        np.testing.assert_allclose(theta.sum(axis=-1), 1, atol=1e-12)
        learned = isinstance(draws.attrs["prior_concentration"], str)
        assert ("concentration" in draws["posterior"]) == learned
    else:
        assert reference.covariates.dims == ("response", "covariate")
        assert theta.shape == (4, 2800, 1 + reference.covariates.shape[1], responses.n_categories - 1)
        theta = theta.reshape(4, 2800, -1)
    found = mixing(theta)
    assert found["ess_bulk"].min() >= 10_000
    assert found["r_hat"].max() < 1.01
    centered = theta - theta.mean(axis=(0, 1))
    lag = (centered[:, 1:] * centered[:, :-1]).sum(axis=(0, 1)) / (centered**2).sum(axis=(0, 1))
    assert np.abs(lag).max() < 0.05
    assert draws.attrs["divergences"] == 0
    assert draws.attrs["reference"] == name
    assert repr(references.load(name)).startswith("<Reference: draws of <Responses")


def test_the_draws_are_of_the_posterior():
    """Mean and sd of the posterior of two categories by quadrature; four standard errors of 10,000 draws."""
    responses, draws = references.load("srr_two")
    right = np.mean(responses.answers == 0)
    keep = np.exp(1.0) / (np.exp(1.0) + 1)

    def density(share):
        chance = keep * share + (1 - keep) * (1 - share)
        return np.exp(
            len(responses) * (right * np.log(chance / right) + (1 - right) * np.log((1 - chance) / (1 - right)))
        )

    total, first, second = (quad(lambda x, p=power: x**p * density(x), 0, 1, limit=500)[0] for power in (0, 1, 2))
    mean, sd = first / total, np.sqrt(second / total - (first / total) ** 2)
    theta = draws["posterior"]["theta"].values[..., 0]
    assert abs(theta.mean() - mean) < 4 * sd / 100
    assert abs(theta.std() / sd - 1) < 4 / np.sqrt(2 * 10_000)


REGRESSIONS = references.names("regression")


def log_density(point, reference):
    """The definition: θ of a person is the softmax of (0, (1, covariates)·coefficient), coefficients are normal."""
    evidence, row_of = reference.responses.evidence_and_index()
    z = np.column_stack([np.ones(len(row_of)), reference.covariates.values])
    theta = softmax(np.column_stack([np.zeros(len(z)), z @ point]), axis=1)
    likelihood = np.log((evidence.matrix()[row_of] * theta).sum(axis=1)).sum()
    return likelihood - (point**2).sum() / (2 * reference.draws.attrs["prior_sd"] ** 2)


@pytest.mark.long
@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_density_of_a_regression_and_its_gradient_are_right(name):
    reference = references.load(name)
    points = reference.parameters.values[0, :3]
    model = ad.model.regression_model(reference.responses, reference.covariates, reference.draws.attrs["prior_sd"])
    logp = model.compile_logp()
    ours = np.array([logp({"coefficient": point}) for point in points])
    right = np.array([log_density(point, reference) for point in points])
    np.testing.assert_allclose(np.diff(ours), np.diff(right), rtol=1e-8)
    flat = points.reshape(3, -1)
    slopes = coefficient_scores(flat, reference.responses, reference.covariates.values, 1.5)
    for i in range(flat.shape[1]):
        step = np.zeros(flat.shape[1])
        step[i] = 1e-5
        ahead, behind = (log_density((flat[0] + sign * step).reshape(points[0].shape), reference) for sign in (1, -1))
        assert slopes[0, i] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_recovers_its_truth(name):
    """The truth is within 4.5 sd of the posterior mean in each of 40 coefficients: a false alarm of 3·10⁻⁴."""
    draws = references.load(name).draws
    value = draws["posterior"]["coefficient"]
    apart = (value.mean(("chain", "draw")) - draws.attrs["truth"]) / value.std(("chain", "draw"))
    assert np.abs(apart).max() < 4.5


def test_draws_of_a_regression_are_compared_by_coefficient():
    """A right half of the reference's own draws is called biased with a probability of 1 %, on fixed seeds."""
    reference = references.load("srr_regression")
    half = xr.DataTree.from_dict({"posterior": reference.draws["posterior"].to_dataset().isel(draw=slice(None, 1400))})
    turned = half["posterior"].to_dataset().isel(term=[2, 0, 1], contrast=[1, 0])  # labels tell the order
    wide = half["posterior"].to_dataset()
    wide["coefficient"] = wide.coefficient.mean() + 1.2 * (wide.coefficient - wide.coefficient.mean())
    trees = {"half": half, "turned": xr.DataTree.from_dict({"posterior": turned})}
    trees["wide"] = xr.DataTree.from_dict({"posterior": wide})
    result = ad.diagnostics.compare(trees, reference)
    assert result["verdict"].values.tolist() == ["indistinguishable", "indistinguishable", "biased", "reference"]
    assert result["coefficient"].values[0] == "intercept, 1"
    assert (result["stein_p_value"].sel(sampler=["half", "turned", "reference"]) > 0.0025).all()
    np.testing.assert_allclose(result["mean"].sel(sampler="half"), result["mean"].sel(sampler="turned"))
    assert ad.plots.plot_comparison(result).shape == (4,)
    with refuses("truth"):
        ad.diagnostics.compare(trees, reference, truth=[0.2, 0.8])
    with refuses("draws"):
        ad.diagnostics.compare({"shares": references.load("srr").draws}, reference)
    with refuses("draws"):
        ad.diagnostics.compare({"other": references.load("subset_selection_regression").draws}, reference)


def test_other_programs_can_read_them():
    """By JSON and Parquet alone, as the archive's README says."""
    sealed = json.loads((references.ARCHIVE / "references.json").read_text(encoding="utf-8"))
    content = json.dumps(sealed["content"], sort_keys=True).encode()
    assert hashlib.sha256(content).hexdigest() == sealed["sha256"]
    about = sealed["content"]["references"]["srr_two"]
    for kind in ("answers", "draws"):
        path = references.ARCHIVE / about[kind]["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == about[kind]["sha256"]
    table = pq.read_table(references.ARCHIVE / about["draws"]["file"]).to_pandas()
    theta = table.to_numpy() / table.to_numpy().sum(axis=1, keepdims=True)
    loaded = references.load("srr_two")
    np.testing.assert_allclose(theta.reshape(4, 2800, 2), loaded.draws["posterior"]["theta"], rtol=1e-12)
    answers = pq.read_table(references.ARCHIVE / about["answers"]["file"])["answer_0"].to_numpy()
    np.testing.assert_array_equal(answers, loaded.responses.answers)
    about, loaded = sealed["content"]["references"]["srr_regression"], references.load("srr_regression")
    table = pq.read_table(references.ARCHIVE / about["answers"]["file"]).to_pandas()
    np.testing.assert_array_equal(table[["covariate_0", "covariate_1"]], loaded.covariates)
    assert about["covariates"] == loaded.covariates["covariate"].values.tolist()
    table = pq.read_table(references.ARCHIVE / about["draws"]["file"]).to_pandas().to_numpy()
    np.testing.assert_array_equal(table.reshape(4, 2800, 3, 2), loaded.draws["posterior"]["coefficient"])
    assert {path.name for path in references.ARCHIVE.iterdir()} == {"README.md", "references.json"} | {
        one[kind]["file"] for one in sealed["content"]["references"].values() for kind in ("answers", "draws")
    }


def test_rounding_keeps_sixteen_bits():
    values = np.append(np.random.default_rng(1).lognormal(-20, 20, size=1000), [0.0, 1.0, 1e-300])
    rounded = build_references.round_bits(values)
    np.testing.assert_allclose(rounded, values, rtol=2.0**-17)
    assert not (rounded.view(np.uint64) & np.uint64(2**36 - 1)).any()


@pytest.fixture
def copied(monkeypatch, tmp_path):
    """A copy of the archive, to damage."""
    shutil.copytree(
        references.ARCHIVE, tmp_path / "archive", ignore=lambda _, names: {n for n in names if n.startswith("srr_many")}
    )
    monkeypatch.setattr(references, "ARCHIVE", tmp_path / "archive")
    references._content.cache_clear()
    yield tmp_path / "archive"
    references._content.cache_clear()


@pytest.mark.parametrize("name", ["srr_two.draws.parquet", "srr_two.answers.parquet", "references.json"])
def test_damage_is_told(copied, name):
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"archive of reference posteriors is damaged"):
        references.load("srr_two")


@pytest.mark.long
def test_a_reference_is_built_and_loaded(monkeypatch, tmp_path, capsys):
    setting = build_references.Setting("easy", ad.RRRR(3, 1.0, 0.9), 1.0, 300, sampler="gibbs")
    for name, value in {
        "SETTINGS": {"small": setting},
        "DRAWS": 300,
        "MIN_ESS": 900,
        "MAX_AUTOCORRELATION": 0.1,
    }.items():
        monkeypatch.setattr(build_references, name, value)
    build_references.main(["--out", str(tmp_path), "--netcdf"])
    assert "small: thinned by" in capsys.readouterr().out
    monkeypatch.setattr(references, "ARCHIVE", tmp_path)
    references._content.cache_clear()
    try:
        responses, draws = references.load("small")
    finally:
        monkeypatch.undo()
        references._content.cache_clear()
    simulated, truth = build_references.simulated(setting)
    assert responses.evidence() == simulated.evidence()
    np.testing.assert_array_equal(draws.attrs["truth"], truth)
    np.testing.assert_array_equal(draws.attrs["prior_concentration"], [1, 1, 1])
    with xr.open_datatree(tmp_path / "small.nc", engine="h5netcdf") as tree:
        np.testing.assert_allclose(tree["posterior"]["theta"], draws["posterior"]["theta"], rtol=1e-12)


def test_draws_that_are_not_certified_are_not_written(monkeypatch, tmp_path):
    setting = build_references.Setting("easy", ad.SRR(3, 1.0), 1.0, 300, sampler="gibbs")
    changes = {"SETTINGS": {"small": setting}, "DRAWS": 100, "THINNING": (1,), "MAX_AUTOCORRELATION": 1e-6}
    for name, value in changes.items():
        monkeypatch.setattr(build_references, name, value)
    with pytest.raises(RuntimeError, match="'small' cannot be certified"):
        build_references.main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_the_limits():
    good = {"r_hat": 1.005, "ess_bulk": 10_000.0, "autocorrelation": 0.01, "divergences": 0}
    assert build_references.flaw(good) == ""
    for change, text in [
        ({"r_hat": 1.01}, "R-hat"),
        ({"ess_bulk": np.nan}, "bulk ESS"),
        ({"autocorrelation": np.nan}, "autocor"),
        ({"divergences": 1}, "1 dr"),
        ({"stein_p_value": 0.0001}, "Stein"),
    ]:
        assert text in build_references.flaw(good | change)


def test_an_unknown_name_is_refused():
    for name in ("nonsense", 3, None):
        with refuses("name"):
            references.load(name)
    with refuses("group"):
        references.names("nonsense")


def test_samplers_are_graded_against_it():
    """A right sampler is called biased with a probability of 1 %, on fixed seeds; a wrong one must be."""
    reference = references.load("srr_two")
    gibbs = ad.sample(reference.responses, "gibbs", draws=2000, random_seed=2)
    wrong = gibbs.copy(deep=True)
    theta = np.sqrt(wrong["posterior"]["theta"].values)
    wrong["posterior"]["theta"].values[:] = theta / theta.sum(axis=2, keepdims=True)
    result = ad.diagnostics.compare({"gibbs": gibbs, "wrong": wrong}, reference=reference)
    assert result["verdict"].to_series().to_dict() == {
        "gibbs": "indistinguishable", "wrong": "biased", "reference": "reference",
    }  # fmt: skip
    by_draws = ad.diagnostics.compare({"gibbs": gibbs, "wrong": wrong}, reference=reference.draws)
    xr.testing.assert_identical(by_draws, result)


def test_nuts_under_the_learned_prior_is_graded_against_it():
    reference = references.load("subset_selection_learned")
    mine = ad.sample(reference.responses, "nuts", prior="learned", draws=1000, random_seed=7, progressbar=False)
    assert ad.diagnostics.compare({"mine": mine}, reference).verdict.values.tolist() == [
        "indistinguishable",
        "reference",
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", references.names("learned_prior"))
def test_references_of_the_learned_prior_are_those_of_an_augmentation_sampler(name):
    """Within four standard errors: 18 checks at most, one in 16,000 each, on fixed seeds."""
    reference = references.load(name)
    rows = oracles.rows_of(reference.responses)
    rngs = np.random.default_rng(1).spawn(4)
    exact = np.stack([oracles.learned_draws(rows, *LOG_CONCENTRATION, 1000, 20, rng) for rng in rngs])
    draws = reference.draws["posterior"]
    theirs = np.concatenate([draws["theta"], np.log(draws["concentration"].values)[..., None]], axis=2)
    for i in range(exact.shape[2]):
        for kind, value in (("mean", np.mean), ("sd", np.std)):
            both = [exact[:, 100:, i], theirs[..., i]]
            error = np.hypot(*(array_stats.mcse(each, chain_axis=0, draw_axis=1, method=kind) for each in both))
            assert abs(value(both[0]) - value(both[1])) < 4 * error, (i, kind)


def test_a_reference_that_is_given_apart_has_a_name_of_its_own():
    reference = references.load("srr_two")
    with refuses("draws"):
        ad.diagnostics.compare({"reference": reference.draws}, reference)
    other = ad.sample(ad.Responses.from_arrays(ad.SRR(2, 1.0), [0, 1]), "gibbs", random_seed=1)
    with refuses("draws"):
        ad.diagnostics.compare({"mine": other}, reference)
