"""Samplers, diffusions and gradients of one's own: by function, class, name and entry point, and never another's."""

import sys
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.samplers import registry
from adobest_pp.samplers.registry import (
    DIFFUSIONS,
    GRADIENTS,
    SAMPLERS,
    register_diffusion,
    register_gradient,
    register_sampler,
    resolve,
)
from adobest_pp.samplers.sgld import loop
from tests.mechanisms.test_registry import install
from tests.refusals import refuses
from tests.strategies import simulated

LABELS = ["yes", "no", "unsure"]
SIZES = {"draws": 120, "tune": 50, "chains": 3, "progressbar": False, "random_seed": 5}


def responses(n=40):
    mechanism = ad.SRR(3, 1.0)
    answers = simulated(mechanism, n, seed=1).answers
    return ad.Responses.from_arrays(mechanism, answers, categories=LABELS)


@pytest.fixture(autouse=True)
def _registries_as_they_were(monkeypatch):
    for each in (SAMPLERS, DIFFUSIONS, GRADIENTS):
        for name in each._homes:
            each.find(name)
        monkeypatch.setattr(each, "_entries", dict(each._entries))
    monkeypatch.setattr(registry, "PIECES", dict(registry.PIECES))
    monkeypatch.setattr(loop, "PIECES", registry.PIECES)


def independence(responses, prior, draws, tune, chains, seed):
    """Ten lines from outside: draws of the prior, resampled by their likelihood."""
    rng, evidence = np.random.default_rng(seed), responses.evidence()
    pool = rng.dirichlet(prior, size=20_000)
    logs = np.log(pool @ evidence.matrix().T) @ evidence.count
    weights = np.exp(logs - logs.max())
    return pool[rng.choice(len(pool), size=(chains, draws), p=weights / weights.sum())]


# Samplers


@pytest.mark.parametrize("name", [3, "", "a:b"])
def test_a_name_that_could_not_be_found_is_refused(name):
    for register in (register_sampler(name), lambda _: register_diffusion(name, advance=print)):
        with refuses("name"):
            register(independence)


def test_a_function_gives_the_same_tree_as_any_sampler_under_its_own_name():
    mine, gibbs = (ad.sample(responses(), sampler, **SIZES) for sampler in (independence, "gibbs"))
    assert mine.attrs["sampler"] == mine["posterior"].attrs["sampler"] == "independence"
    assert mine["posterior"]["theta"].dims == gibbs["posterior"]["theta"].dims
    assert mine["posterior"]["category"].values.tolist() == LABELS
    assert set(mine.children) == set(gibbs.children)
    assert set(mine.attrs) == set(gibbs.attrs)
    again = ad.sample(responses(), independence, **SIZES)
    np.testing.assert_array_equal(mine["posterior"]["theta"], again["posterior"]["theta"])


def test_a_registered_name_repeats_and_extends_a_run():
    register_sampler("mine")(independence)
    tree = ad.sample(responses(), "mine", **SIZES)
    assert resolve(independence) is resolve("mine")  # a registered function has its registered name
    assert tree.attrs["sampler"] == "mine"
    again = ad.sample(responses(), progressbar=False, **ad.recorded_arguments(tree.attrs))
    np.testing.assert_array_equal(tree["posterior"]["theta"], again["posterior"]["theta"])
    assert ad.extend(tree, 30, progressbar=False)["posterior"].sizes["draw"] == 150
    assert "mine" in SAMPLERS.names()


def test_options_are_passed_and_recorded():
    @register_sampler("with_options")
    def with_options(responses, prior, draws, tune, chains, seed, *, power=1.0):
        return np.random.default_rng(seed).dirichlet(power * prior, size=(chains, draws))

    tree = ad.sample(responses(), "with_options", power=3.0, **SIZES)
    assert ad.recorded_arguments(tree.attrs)["power"] == 3.0
    with refuses("options"):
        ad.sample(responses(), "with_options", speed=3.0, **SIZES)


def test_a_tree_of_ones_own_is_put_into_order():
    def mine(responses, prior, draws, tune, chains, seed):
        theta = np.random.default_rng(seed).dirichlet([1.0, 2.0, 30.0], size=(draws, chains))
        data = xr.Dataset({"theta": (("draw", "chain", "category"), theta)}, {"category": ["no", "unsure", "yes"]})
        return xr.DataTree.from_dict({"posterior": data})

    theta = ad.sample(responses(), mine, **SIZES)["posterior"]["theta"]
    assert theta.dims == ("chain", "draw", "category")
    assert theta["category"].values.tolist() == LABELS
    assert theta.mean(("chain", "draw")).sel(category="yes") > 0.8


def test_a_step_class_draws_from_the_model(interpreted):
    tree = ad.sample(responses(), pm.Metropolis, **SIZES | {"draws": 500, "tune": 500})
    exact = ad.sample(responses(), "nuts", draws=500, tune=300, random_seed=1, progressbar=False)
    assert tree.attrs["sampler"] == "Metropolis"
    means, sds = ([getattr(each["posterior"]["theta"], what)(("chain", "draw")) for each in (tree, exact)]
                  for what in ("mean", "std"))  # fmt: skip
    # The chains of Metropolis have some 100 effective draws, so means agree to half an sd but for one seed in 10⁵.
    assert (np.abs(means[0] - means[1]) < 0.5 * sds[1]).all()


def test_the_step_class_of_sgld_has_its_surrogate(interpreted):
    tree = ad.sample(responses(), ad.SGLD, batch_size=None, **SIZES)
    assert tree.attrs["sampler"] == "SGLD"
    assert set(tree["posterior"].data_vars) == {"theta"}


def returning(value):
    def mine(*arguments):
        return value

    return mine


def tree_of(theta, dims=("chain", "draw", "category"), **coords):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (dims, theta)}, coords)})


GOOD = np.full((3, 120, 3), 1 / 3)
BAD = {
    "not finite": (np.where(np.arange(3) == 1, np.nan, GOOD), "must return finite draws, got 360 that are not"),
    "too few": (GOOD[:, :100], r"must return draws of shape \(3, 120, 3\).* got \(3, 100, 3\)"),
    "one chain less": (GOOD[:2], r"must return draws of shape \(3, 120, 3\).* got \(2, 120, 3\)"),
    "two axes": (GOOD[0], r"must return an array \(chain, draw, category\) or a tree, got an array of shape"),
    "nothing": (None, "must return an array .* got None"),
    "another category": (np.full((3, 120, 4), 0.25), "must return theta by chain, draw and 3 categories"),
    "no theta drawn": (registry.Drawn({"phi": GOOD}), "must return theta by chain, draw and 3 categories"),
    "stats": (registry.Drawn({"theta": GOOD}, {"energy": np.ones(3)}), "must return theta by chain, draw"),
    "negative": (
        GOOD + np.array([0.5, -0.5, 0.0]),
        "must return shares that are not negative .* least share of -0.167",
    ),
    "sums": (GOOD * 1.01, "must return shares that .* sum to 1, .* sums from 1.01 to 1.01"),
    "labels": (tree_of(GOOD, category=["yes", "no", "maybe"]), "must return the categories .*unsure.*got .*maybe"),
    "dims": (tree_of(GOOD, ("chain", "draw", "theta_dim_0")), "must return theta with the dims chain, draw, category"),
    "no theta": (xr.DataTree(), "must return a tree with posterior/theta"),
}


@pytest.mark.parametrize(("value", "message"), BAD.values(), ids=BAD)
def test_what_is_no_draws_of_theta_is_refused_by_name(value, message):
    with pytest.raises(RuntimeError, match=f"sampler 'mine' {message}"):
        ad.sample(responses(), returning(value), **SIZES)


def test_a_sampler_cannot_pass_for_another():
    def mine(responses, prior, draws, tune, chains, seed):
        theta = np.full((chains, draws, 2), 0.5)
        attributes = {"sampler": "nuts", "prior_concentration": 7.0, "random_seed": 0, "note": "kept"}
        return registry.Drawn({"theta": theta, "energy": np.ones((chains, draws))}, attributes=attributes)

    known = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0, 0, 1])
    tree = ad.sample(known, mine, draws=10, tune=0, chains=2, random_seed=3, progressbar=False)
    assert (tree.attrs["sampler"], tree.attrs["random_seed"], tree.attrs["note"]) == ("mine", 3, "kept")
    assert tree.attrs["prior_concentration"].tolist() == [1.0, 1.0]
    assert tree.posterior["energy"].shape == (2, 10)


def test_an_error_in_the_third_chain_names_the_sampler():
    def mine(responses, prior, draws, tune, chains, seed):
        for chain in range(chains):
            if chain == 2:
                raise FloatingPointError("chain 2 is lost")

    with pytest.raises(RuntimeError, match=r"sampler 'mine' raised FloatingPointError: .*chain 2 is lost") as raised:
        ad.sample(responses(), mine, **SIZES)
    assert isinstance(raised.value.__cause__, FloatingPointError)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("none", "sampler must be one of 'nuts', 'gibbs', 'sgld', 'sgld_cv'.* got 'none'"),
        (3, "sampler must be one of .* got 3"),
        ("no_such_module:sampler", "sampler must be one that can be imported, got 'no_such_module:sampler'"),
        (dict, "sampler must be a function or a PyMC step class, got"),
    ],
)
def test_what_is_no_sampler_is_refused(sampler, message):
    with pytest.raises(ValueError, match=message):
        ad.sample(responses(), sampler, **SIZES)


def test_nobody_takes_the_name_of_another():
    def gibbs(*arguments):
        return GOOD

    for attempt in (lambda: register_sampler("gibbs")(gibbs), lambda: ad.sample(responses(), gibbs, **SIZES)):
        with refuses("sampler"):
            attempt()


def test_a_learned_prior_is_for_those_that_say_so():
    with refuses("prior"):
        ad.sample(responses(), independence, "learned", **SIZES)


def test_a_name_with_a_module_is_imported_and_one_from_a_file_never_is(tmp_path, monkeypatch):
    (tmp_path / "somebodys_sampler.py").write_text(
        "def flat(*a):\n    import numpy\n    return numpy.full((3, 120, 3), 1 / 3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with refuses("sampler"):
        ad.recorded_arguments({"sampler": "somebodys_sampler:flat", "prior_concentration": 1, "draws": 1, "tune": 1,
                               "chains": 1, "random_seed": 1})  # fmt: skip
    assert "somebodys_sampler" not in sys.modules
    assert ad.sample(responses(), "somebodys_sampler:flat", **SIZES).attrs["sampler"] == "flat"
    del sys.modules["somebodys_sampler"]


def test_an_entry_point_is_found_by_its_name(tmp_path, monkeypatch):
    text = "from adobest_pp.samplers import register_sampler\n@register_sampler('pointed')\ndef draw(*a): pass\n"
    (tmp_path / "pointed_package.py").write_text(text)
    install(tmp_path, "pointed_package", "pointed = pointed_package:draw", group="adobest_pp.samplers")
    monkeypatch.syspath_prepend(tmp_path)
    assert "pointed" in SAMPLERS.names()
    assert not SAMPLERS.is_known("pointed")
    assert resolve("pointed").name == "pointed"
    del sys.modules["pointed_package"]


# Pieces of SGLD


def stand_still(diffusion, rng, phi, slope, step, noise):
    phi[:] = diffusion.place
    return 0


def add_nothing(gradient, update, phi, slope):
    slope[0] += gradient.amount[0]
    gradient.amount[1] += 1.0


def still(name):
    """A diffusion that always stands at a place of its own: its draws cannot be another's."""

    @register_diffusion(name, advance=stand_still)
    class Still(NamedTuple):
        place: np.ndarray

        @classmethod
        def build(cls, run):
            return cls(np.arange(1.0, run.prior.size + 1))

    return Still


def test_a_new_diffusion_is_the_one_that_runs_and_is_recorded():
    still("still")
    tree = ad.sample(responses(), "sgld", diffusion="still", **SIZES)
    np.testing.assert_allclose(
        tree["posterior"]["theta"].values[..., :], np.broadcast_to([1 / 6, 2 / 6, 3 / 6], (3, 120, 3))
    )
    assert ad.recorded_arguments(tree.attrs)["diffusion"] == "still"
    assert "still" in DIFFUSIONS.names()


@pytest.mark.filterwarnings("ignore")
def test_a_new_gradient_is_the_one_that_runs_and_is_recorded():
    amount = np.zeros(2)

    @register_gradient("nothing", add=add_nothing)
    class Nothing(NamedTuple):
        amount: np.ndarray

        @classmethod
        def build(cls, run, rows):
            return cls(amount)

    sizes = SIZES | {"chains": 1}
    tree = ad.sample(responses(), "sgld", gradient="nothing", updates_per_draw=2, **sizes)
    assert amount[1] == 2 * (sizes["draws"] + sizes["tune"])
    assert ad.recorded_arguments(tree.attrs)["gradient"] == "nothing"


def test_pieces_of_one_name_and_form_are_not_taken_for_each_other():
    """Numba takes named tuples of the same name and fields for the same: a cell that is run again would run the old."""

    def at(place):
        def advance(diffusion, rng, phi, slope, step, noise):
            phi[0], phi[1], phi[2] = place, 1.0, 1.0
            return 0

        @register_diffusion("mine", advance=advance)
        class Reflected(NamedTuple):
            prior: np.ndarray

            @classmethod
            def build(cls, run):
                return cls(run.prior)

        theta = ad.sample(responses(), "sgld", diffusion="mine", **SIZES)["posterior"]["theta"].values
        np.testing.assert_allclose(theta[..., 0], place / (place + 2))

    for place in (2.0, 8.0, 18.0):
        at(place)


def test_a_piece_of_somebody_else_is_never_read_from_the_cache_on_disk():
    """Numba's cache does not notice that the function of a piece has changed, and would run the old one."""
    still("moving")
    of_mine = loop.loop_of(DIFFUSIONS.find("moving"), GRADIENTS.find("full"))
    assert of_mine.stats.cache_path is None
    ours = loop.loop_of(DIFFUSIONS.find("mirrored"), GRADIENTS.find("full"))
    assert ours is loop.langevin_draws


@pytest.mark.parametrize(("kind", "ours"), [("diffusion", "reflected"), ("gradient", "minibatch")])
def test_an_unknown_or_taken_piece_is_refused(kind, ours):
    with pytest.raises(ValueError, match=f"{kind} must be one of '{ours}', .* got 'my_own'"):
        ad.sample(responses(), "sgld", **{kind: "my_own"}, **SIZES)
    register, function = {"diffusion": (register_diffusion, "advance"), "gradient": (register_gradient, "add")}[kind]

    class Tuple(NamedTuple):
        x: int

        @classmethod
        def build(cls, run, rows=None):
            return (1,)

    with pytest.raises(ValueError, match=f"{kind} must have a name of its own, got '{ours}', which is taken"):
        register(ours, **{function: add_nothing})(Tuple)
    register("odd", **{function: add_nothing})(Tuple)
    with pytest.raises(ValueError, match="must have a class of its own, got that of 'odd'"):
        register("odder", **{function: add_nothing})(Tuple)
    with pytest.raises(TypeError, match="build of 'odd' must return a Tuple"):
        ad.sample(responses(), "sgld", **{kind: "odd"}, **SIZES)
    with pytest.raises(ValueError, match="must be a named tuple"):
        register("oddest", **{function: add_nothing})(int)
