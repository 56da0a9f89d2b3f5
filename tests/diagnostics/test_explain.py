"""Each cause, planted alone, is named; the parts are differences of errors; right draws have none."""

import sys

import numpy as np
import pytest
import xarray as xr

from adobest_pp import SRR, ConstantSteps, DecayingSteps, PaperSteps, Responses, SubsetSelection, sample
from adobest_pp.diagnostics import Cause, explain, explanation_in_words
from adobest_pp.diagnostics.explain import MOST_LONGER, errors_of, longer, with_half_steps
from tests.refusals import refuses

QUIET = {"progressbar": False, "random_seed": 1}


def answers(mechanism, theta, n):
    rng = np.random.default_rng(0)
    x = rng.choice(len(theta), size=n, p=theta)
    return Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))


FEW = answers(SRR(3, 3.0), [0.5, 0.3, 0.2], 200)
MANY = answers(SRR(3, 3.0), [0.5, 0.3, 0.2], 20_000)
SPARSE = answers(SRR(6, 3.0), [0.6, 0.3996, 0.0001, 0.0001, 0.0001, 0.0001], 500)

# Runs with one fault each: the answers, the prior, the settings, and what is wrong.
PLANTED = {
    "a tiny step": (MANY, 1.0, {"step_size": 1e-9}, Cause.NOT_MIXED),
    "a short run": (MANY, 1.0, {"step_size": 3e-7}, Cause.NOT_MIXED),
    "batches of five": (MANY, 1.0, {"step_size": 1e-4, "batch_size": 5}, Cause.GRADIENT_NOISE),
    "batches of ten": (MANY, 1.0, {"step_size": 2e-5, "batch_size": 10}, Cause.GRADIENT_NOISE),
    "a long step": (FEW, 1.0, {"step_size": 0.1, "batch_size": None}, Cause.DISCRETIZATION),
    "a small prior": (SPARSE, 0.1, {"step_size": 1e-3, "batch_size": None}, Cause.BOUNDARY),
    "empty categories": (SPARSE, 1.0, {"step_size": 1e-2, "batch_size": None}, Cause.BOUNDARY),
}
LONG = {"a short run", "batches of five", "a small prior", "empty categories"}
NAMES = [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in PLANTED]


@pytest.fixture(scope="module")
def explained():
    found = {}

    def of(name):
        if name not in found:
            responses, prior, settings, _ = PLANTED[name]
            found[name] = explain(
                sample(responses, "sgld", prior, **QUIET, **settings), responses, random_seed=2, progressbar=False
            )
        return found[name]

    return of


@pytest.mark.parametrize("name", NAMES)
def test_the_planted_cause_is_named(explained, name):
    assert explained(name)["main_cause"].item() == PLANTED[name][-1]


@pytest.mark.parametrize("sampler", ["nuts", "sgld_cv"])
def test_right_draws_are_at_the_posterior_and_nothing_is_run(sampler):
    found = explain(sample(FEW, sampler, **QUIET), FEW, random_seed=2, progressbar=False)
    assert found["main_cause"].item() == Cause.NONE
    assert np.isnan(found["part"]).all()
    assert found["squared_error"].dropna("counterfactual").coords["counterfactual"].values.tolist() == ["run"]
    assert explanation_in_words(found, "It") == "It samples the posterior."


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_add_up_to_the_error_of_the_run(explained, name):
    found = explained(name)
    whole = found["squared_error"].sel(counterfactual="run").item()
    assert found["part"].sum().item() == pytest.approx(whole)
    assert found["share"].sum().item() == pytest.approx(1)
    errors = (found["mean_shift"] ** 2 + (found["sd_ratio"] - 1) ** 2).mean("category")
    assert errors.sel(counterfactual="run").item() == pytest.approx(whole)


def test_each_part_is_the_difference_that_is_stated(explained):
    found = explained("batches of ten")
    error, part = found["squared_error"].sel, found["part"].sel
    noise = error(counterfactual="longer") - error(counterfactual="full_gradient")
    assert part(cause="gradient_noise").item() == pytest.approx(noise.item())
    assert part(cause="gradient_noise") > 0.5 * error(counterfactual="run")
    assert error(counterfactual="control_variates") < 0.1 * error(counterfactual="longer")
    found = explained("a long step")
    error, part = found["squared_error"].sel, found["part"].sel
    halved = error(counterfactual="full_gradient") - error(counterfactual="halved_steps")
    assert part(cause="discretization").item() == pytest.approx(4 / 3 * halved.item())
    assert part(cause=["gradient_noise", "boundary"]).values.tolist() == [0, 0]


def test_the_boundary_is_that_of_categories_that_may_be_empty(explained):
    found = explained("a small prior")
    assert found["may_be_empty"].values.tolist() == [False, False, True, True, True, True]
    share = found["share"].sel
    assert share(cause="boundary") > 0.8
    assert abs(share(cause="discretization")) < 0.05
    assert found["squared_error"].sel(counterfactual="preconditioned") < 1


def test_nothing_else_is_told_of_chains_that_never_mix(explained):
    found = explained("a tiny step")
    assert np.isnan(found["part"].sel(cause=["gradient_noise", "discretization", "boundary"])).all()
    assert found["r_hat"].sel(counterfactual="longer") > 1.05
    assert found["times_longer"].item() > 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a short run", "SGLD does not sample the posterior: it is "),
        ("a short run", " because of chains that have not mixed; "),
        (
            "batches of ten",
            "SGLD does not sample the posterior: it is 3.4 times too wide; of its squared error, 52 % come",
        ),
        (
            "batches of ten",
            "noise of its gradients and 48 % from chains that have not mixed; control variates repair it.",
        ),
        (
            "a long step",
            "SGLD does not sample the posterior: it is 1.7 times too wide; of its squared error, 73 % comes f",
        ),
        (
            "a long step",
            "of its steps and 26 % from what the counterfactuals do not explain; with steps ",
        ),
        (
            "a small prior",
            "SGLD does not sample the posterior: it is 2.3 sd off; of its squared error, 92 % comes from re",
        ),
        (
            "a small prior",
            "and 8 % from what the counterfactuals do not explain; with the preconditioned ",
        ),
        ("empty categories", "; the preconditioned diffusion repairs it."),
    ],
)
def test_the_sentence_has_the_cause_its_size_and_what_repairs_it(explained, name, expected):
    assert expected in explanation_in_words(explained(name))


def test_each_cause_has_its_own_share_of_the_error():
    """The whole distance was said to be due to the main cause, of which a part only is."""
    causes = ["not_mixed", "gradient_noise", "discretization", "boundary", "rest"]
    runs = ["run", "longer", "full_gradient", "halved_steps", "preconditioned", "control_variates"]
    sd_ratio = np.array([1.8, 1.8, 1.4, 1.2, np.nan, 1.4])
    found = xr.Dataset(
        {
            "main_cause": "gradient_noise",
            "share": ("cause", [0.0, 0.75, 0.23, 0.0, 0.02]),
            "squared_error": ("counterfactual", (sd_ratio - 1) ** 2),
            "sd_ratio": (("counterfactual", "category"), sd_ratio[:, None]),
            "mean_shift": (("counterfactual", "category"), np.zeros((6, 1))),
            "times_longer": 1,
        },
        {"cause": causes, "counterfactual": runs},
    )
    assert explanation_in_words(found) == (
        "SGLD does not sample the posterior: it is 1.8 times too wide; of its squared error, 75 % comes from the noise "
        "of its gradients and 23 % from the length of its steps; with control variates it is 1.4 times too wide."
    )
    found["share"][:] = [0.0, 0.5, 0.3, 0.0, 0.2]
    assert "50 % comes from the noise of its gradients, 30 % from the length of its steps and 20 % from what the" in (
        explanation_in_words(found)
    )
    found["main_cause"], found["share"][:] = "rest", [0.0, 0.0, 0.0, 0.0, 1.0]
    sentence = explanation_in_words(found)
    assert (
        sentence
        == "SGLD does not sample the posterior: it is 1.8 times too wide, and the counterfactuals do not explain it."
    )


def test_control_variates_take_the_place_of_gradients_that_cost_too_much(monkeypatch):
    monkeypatch.setattr(sys.modules[longer.__module__], "MOST_VISITS", 1000)
    responses = answers(SubsetSelection(5, 1.0), [0.4, 0.2, 0.2, 0.1, 0.1], 3000)
    tree = sample(responses, "sgld", step_size=1e-3, batch_size=5, draws=400, tune=200, **QUIET)
    found = explain(tree, responses, progressbar=False)
    assert (found["main_cause"].item(), found["noise_free"].item()) == ("gradient_noise", "control_variates")
    error = found["squared_error"].sel
    assert error(counterfactual="full_gradient") == error(counterfactual="control_variates")


def test_right_draws_have_an_error_of_zero_on_average():
    rng = np.random.default_rng(3)
    reference = rng.normal(size=(4, 500, 1))
    errors = [errors_of(rng.normal(size=(4, 250, 1)), reference + rng.normal(0, 0.02)) for _ in range(300)]
    squared = np.array([one.squared[0] for one in errors])
    # The reference is moved by 0.02 at random: that much is left, and of its own error, which all have in common.
    own = (reference.mean() ** 2 + (reference.std() - 1) ** 2) - 1.5 / 2000
    assert abs(squared.mean() - 0.02**2 - own) < 4 * squared.std() / np.sqrt(300)
    typical = np.median([one.mcse[0] for one in errors])
    assert 0.8 < typical / squared.std() < 1.6  # the reference, which all have in common here, is counted too


@pytest.mark.parametrize(
    "steps", [ConstantSteps(0.3), PaperSteps(0.7), DecayingSteps(0.2, 0.5), DecayingSteps(0.2, 1.0)]
)
def test_halved_steps_take_the_same_time(steps):
    halved = with_half_steps({"schedule": steps, "updates_per_draw": 3})
    assert halved["updates_per_draw"] == 6
    t = np.arange(1, 4001)
    assert halved["schedule"](2 * t, 100) == pytest.approx(steps(t, 100) / 2)


def test_runs_are_made_longer_as_their_effective_draws_ask_for():
    settings = {"chains": 1, "draws": 500, "tune": 500, "updates_per_draw": 20}
    assert longer(settings, 4000.0, mixed=True)[1] == 1
    assert longer(settings, 100.0, mixed=True)[1] == 4
    assert longer(settings, np.nan, mixed=False)[1] == MOST_LONGER
    costly = settings | {"updates_per_draw": 20_000}
    assert longer(costly, 100.0, mixed=True)[1] == 1
    found, times = longer(costly, 10.0, mixed=False)
    assert (times, found["updates_per_draw"], found["chains"]) == (4, 80_000, 2)


def test_what_cannot_be_explained_is_refused():
    tree = sample(FEW, "sgld", draws=50, tune=0, chains=2, batch_size=None, **QUIET)
    with refuses("responses"):
        explain(tree, None)
    with refuses("responses"):
        explain(tree, MANY)
    with refuses("draws"):
        explain(tree, SPARSE)
    bare = tree.copy()
    bare.attrs = {}
    with refuses("prior"):
        explain(bare, FEW)
    with refuses("prior"):
        explain(tree, FEW, prior=1.0)
    with pytest.raises(ValueError, match="reference has not converged: reference not"):
        explain(tree, FEW, reference=tree)
    own = sample(FEW, "sgld", schedule=lambda update, n: 1e-3, draws=50, tune=0, chains=2, **QUIET)
    with refuses("schedule"):
        explain(own, FEW)
    with pytest.raises(ValueError, match=r"a result of diagnostics\.explain"):
        explanation_in_words(xr.Dataset())


def as_of_pymc(theta, responses):
    """A tree as `pymc.sample` makes it: a name and dims of its own, no settings."""
    party = {"party": list(responses.categories)}
    posterior = xr.Dataset(
        {"shares": (("chain", "draw", "party"), theta), "mu": (("chain", "draw"), theta[..., 0])}, party
    )
    return xr.DataTree.from_dict({"posterior": posterior})


def test_trees_of_pymc_are_graded_by_any_name():
    """Without settings there is no other run: right, not mixed, or a rest that nothing explains."""
    reference = sample(FEW, "nuts", draws=2000, **QUIET)
    theta = sample(FEW, "gibbs", draws=2000, **QUIET)["posterior"]["theta"].values
    right = explain(as_of_pymc(theta, FEW), FEW, reference, progressbar=False)
    assert right.main_cause == "at_the_posterior"
    mean = theta.mean(axis=(0, 1))
    wide = np.clip(mean + 1.5 * (theta - mean), 1e-6, None)
    wide /= wide.sum(axis=2, keepdims=True)
    found = explain(as_of_pymc(wide, FEW), FEW, reference, progressbar=False)
    assert found.main_cause == "rest"
    assert found.verdict == "biased"
    assert found.share.sel(cause="rest") == 1
    assert found.share.drop_sel(cause="rest").isnull().all()
    assert found.sd_ratio.sel(counterfactual="run").mean() > 1.3
    sentence = explanation_in_words(found, "It")
    assert "its settings are not recorded, no other run can tell why" in sentence
    stuck = explain(as_of_pymc(theta[:, :3].repeat(10, axis=1), FEW), FEW, reference, progressbar=False)
    assert stuck.main_cause == "not_mixed"
    shown = explain(as_of_pymc(theta, FEW), FEW, prior=1.0, progressbar=False)  # NUTS is the reference
    assert shown.main_cause == "at_the_posterior"
    assert not shown.attrs["is_recorded"]


def test_shares_of_each_region_are_explained_one_by_one():
    reference = sample(FEW, "nuts", draws=2000, **QUIET)
    theta = sample(FEW, "gibbs", draws=2000, **QUIET)["posterior"]["theta"].values
    one = as_of_pymc(theta, FEW)["posterior"].to_dataset()[["shares"]]
    both = xr.DataTree.from_dict({"posterior": xr.concat([one, one], xr.Variable("region", ["north", "south"]))})
    with refuses("draws"):
        explain(both, FEW, reference)
    north = xr.DataTree.from_dict({"posterior": both["posterior"].to_dataset().sel(region="north")})
    assert explain(north, FEW, reference, var_name="shares").main_cause == "at_the_posterior"
