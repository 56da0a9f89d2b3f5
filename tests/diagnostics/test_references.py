"""Reference posteriors: made once, certified, kept whole, and fit to grade samplers with."""

import logging

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.diagnostics import references
from adobest_pp.diagnostics.references import Setting
from tests.refusals import refuses

SMALL = {
    "small": Setting(ad.SRR(3, 1.0), 1.0, 300),
    "learned": Setting(ad.SubsetSelection(8, 1.0), 0.01, 2000, "learned"),
}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(references, "SETTINGS", SMALL)
    # Shorter, and certified by a bar for which so few draws suffice.
    for name, value in {"THINNING": (15,), "DRAWS": 500, "MAX_AUTOCORRELATION": 0.1}.items():
        monkeypatch.setattr(references, name, value)
    return tmp_path / "adobest_pp" / "references"


@pytest.fixture
def made(monkeypatch):
    """How often draws were made."""
    times = []
    make = references._made
    monkeypatch.setattr(references, "_made", lambda *arguments: times.append(1) or make(*arguments))
    return times


def test_what_is_loaded_is_certified_and_kept(cache, made, caplog):
    responses, draws = references.load("small")
    assert len(responses) == 300
    assert dict(draws.posterior.theta.sizes) == {"chain": 4, "draw": 500, "category": 3}
    theta = draws.posterior.theta.values
    centered = theta - theta.mean(axis=(0, 1))
    lag = (centered[:, 1:] * centered[:, :-1]).sum(axis=(0, 1)) / (centered**2).sum(axis=(0, 1))
    assert np.abs(lag).max() < 0.1
    assert draws.attrs["autocorrelation"] == pytest.approx(np.abs(lag).max(), rel=0.01)
    assert draws.attrs["r_hat"] < 1.01
    assert draws.attrs["divergences"] == 0
    assert draws.posterior.theta["draw"].values.tolist() == list(range(500))
    again = references.load("small")
    assert again.responses.evidence() == responses.evidence()
    np.testing.assert_array_equal(again.draws.posterior.theta, draws.posterior.theta)
    assert len(made) == 1
    assert [path.name for path in cache.iterdir()] == ["small.nc"]
    assert caplog.messages == []
    assert repr(again).startswith("<Reference: draws of <Responses: 300 answers")


def change_a_number(path):
    """Change one draw in the file, which HDF5 does not notice."""
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        tree = opened.load()
    tree["posterior"]["theta"].values[0, 0, 0] += 1e-9
    tree.to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"nonsense"),
        lambda path: path.write_bytes(path.read_bytes()[:-5000]),
        change_a_number,
    ],
)
def test_a_damaged_file_is_made_anew(cache, made, caplog, damage):
    first = references.load("small")
    damage(cache / "small.nc")
    again = references.load("small")
    np.testing.assert_array_equal(again.draws.posterior.theta, first.draws.posterior.theta)
    assert caplog.messages == [f"The reference posterior in '{cache / 'small.nc'}' is damaged, and is made anew."]
    references.load("small")
    assert len(made) == 2


def test_a_file_of_other_settings_is_made_anew(cache, made, monkeypatch, caplog):
    references.load("small")
    monkeypatch.setitem(SMALL, "small", Setting(ad.SRR(3, 1.0), 1.0, 300, 2.0))
    other = references.load("small")
    assert other.draws.attrs["prior"].tolist() == [2, 2, 2]
    assert "is of other settings or versions, and is made anew" in caplog.text
    monkeypatch.setattr(references, "version", lambda name: "other")
    references.load("small")
    assert len(made) == 3


@pytest.mark.parametrize("blocked", ["file", "folder"])
def test_where_nothing_can_be_kept_it_still_works(cache, made, caplog, blocked):
    """A file in place of the cache folder, and a folder in place of the file: also the superuser cannot write there."""
    if blocked == "file":
        cache.parent.write_bytes(b"")
    else:
        (cache / "small.nc").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert references.load("small").draws.posterior.theta.shape == (4, 500, 3)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("The reference posterior is not kept, and will be made again: ")
    references.load("small")
    assert len(made) == 2


def test_draws_that_are_not_certified_are_neither_returned_nor_kept(cache, monkeypatch):
    monkeypatch.setattr(references, "MAX_AUTOCORRELATION", 1e-6)
    with pytest.raises(RuntimeError, match=r"'small' cannot be certified: autocorrelation is 0\.\d+ \(below 1e-06"):
        references.load("small")
    assert not cache.exists()


def test_the_bars():
    good = {"r_hat": 1.005, "autocorrelation": 0.01, "divergences": 0}
    assert references._problem(good) == ""
    for change, text in [
        ({"r_hat": 1.01}, "R-hat"),
        ({"autocorrelation": np.nan}, "autocor"),
        ({"divergences": 1}, "1 dr"),
    ]:
        assert text in references._problem(good | change)


def test_an_unknown_name_is_refused():
    for name in ("nonsense", 3, None):
        with refuses("name"):
            references.load(name)


def test_the_names_cover_mechanisms_and_priors(monkeypatch):
    monkeypatch.undo()
    settings = [references.SETTINGS[name] for name in ad.references.names()]
    mechanisms = {type(setting.mechanism) for setting in settings}
    assert mechanisms == {
        ad.SRR, ad.RRRR, ad.SubsetSelection, ad.UnaryEncoding, ad.HadamardResponse, ad.LocalHashing,
    }  # fmt: skip
    assert {setting.prior for setting in settings} == {1.0, 0.1, "learned"}


def test_samplers_are_graded_against_it():
    """A right sampler is called biased with a probability of 1 %, on fixed seeds; a wrong one must be."""
    reference = references.load("small")
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
    reference = references.load("learned")
    mine = ad.sample(reference.responses, "nuts", prior="learned", draws=1000, random_seed=7, progressbar=False)
    assert "concentration" in reference.draws.posterior
    assert ad.diagnostics.compare({"mine": mine}, reference).verdict.values.tolist() == [
        "indistinguishable",
        "reference",
    ]


def test_a_reference_that_is_given_apart_has_a_name_of_its_own():
    reference = references.load("small")
    with refuses("draws"):
        ad.diagnostics.compare({"reference": reference.draws}, reference)
    other = ad.sample(ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1]), "gibbs", random_seed=1)
    with refuses("draws"):
        ad.diagnostics.compare({"mine": other}, reference)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(references.SETTINGS))
def test_every_reference_is_certified(name, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert references.load(name).draws.posterior.theta.sizes["draw"] == 2500
