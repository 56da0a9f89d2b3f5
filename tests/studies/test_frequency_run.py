"""One run by default: what cells share, what it is made of, exact inference against quadrature, every measure."""

import numpy as np
import pytest
from scipy import stats

import adobest_pp as ad
import oracles
from adobest_pp._checks import MAX_EPSILON
from adobest_pp.mechanisms import audit, mechanism_names, mechanism_parameters, registry
from adobest_pp.studies import Run, collect, frequency_run
from adobest_pp.studies.frequency_run import MEASURES, Collected, Posterior, cell_settings, exact_posterior
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import simulated

BASE = {"n_categories": 4, "epsilon": 1.0, "rho": 0.3, "people": 200}
HONEST = BASE | {"mechanism": "rrrr", "kappa": 0.9, "utility": "honest"}
SRR = BASE | {"mechanism": "srr"}
SUBSET_SELECTION = BASE | {"mechanism": "subset_selection"}
SGLD = HONEST | {"sampler": "sgld"}
OWN = BASE | {"mechanism": "tests.own_mechanism:Neighbors"}
CELLS = {"honest": HONEST, "srr": SRR, "subset selection": SUBSET_SELECTION, "sgld": SGLD, "own": OWN}


def collected(cell, seed=1, number=3):
    return collect(Run(seed, number, cell), **cell)


def measured(cell, *names, seed=1, number=0):
    return frequency_run.frequency_run(Run(seed, number, cell, names), **cell)


def people_of(cell, epsilon=MAX_EPSILON):
    """The truth, and the private categories of the people: with so large a budget, everybody answers with theirs."""
    run = collected(cell | {"epsilon": epsilon})
    return run.theta, run.responses.answers


def test_mechanisms_of_a_run_share_truth_and_people_and_nothing_else():
    theta, x = people_of(SRR)
    for cell, epsilon in ((SRR, 0.9 * MAX_EPSILON), (HONEST, MAX_EPSILON)):
        other, same = people_of(cell, epsilon)
        np.testing.assert_array_equal(theta, other)
        np.testing.assert_array_equal(x, same)


@pytest.mark.parametrize("change", [{"epsilon": 2.0}, {"mechanism": "subset_selection"}, {"people": 150}], ids=str)
def test_cells_share_their_truths_and_have_answers_of_their_own(change):
    one, other = collected(SRR), collected(SRR | change)
    np.testing.assert_array_equal(one.theta, other.theta)
    assert one.fit_seed.entropy != other.fit_seed.entropy


def test_of_fewer_people_the_first_are_asked():
    _, x = people_of(SRR)
    _, fewer = people_of(SRR | {"people": 150})
    np.testing.assert_array_equal(fewer, x[:150])


def test_every_run_has_its_own_truth_and_answers():
    seen = [collected(SRR), collected(SRR, seed=2), collected(SRR, number=4), collected(SRR | {"rho": 0.4})]
    assert len({tuple(one.theta) for one in seen}) == len(seen)
    assert len({one.fit_seed.entropy for one in seen}) == len(seen)


def test_a_truth_of_ones_own():
    cell = {name: value for name, value in SRR.items() if name != "rho"} | {"theta": [0.5, 0.3, 0.1, 0.1]}
    one, other = collected(cell, number=0), collected(cell, number=1)
    np.testing.assert_array_equal(one.theta, [0.5, 0.3, 0.1, 0.1])
    np.testing.assert_array_equal(other.theta, one.theta)
    assert one.responses.evidence() != other.responses.evidence()
    assert len(one.responses) == 200
    per_category = {name: value for name, value in SRR.items() if name != "people"} | {"people_per_category": 7}
    assert len(collected(per_category).responses) == 28


@pytest.mark.parametrize("cell", [HONEST, SUBSET_SELECTION, SGLD], ids=["honest", "subset selection", "sgld"])
def test_both_priors_see_the_same_answers_and_runs_see_others(cell):
    flat, learned, other = (
        collect(Run(1, number, cell | {"prior": prior}), **cell, prior=prior)
        for prior, number in (("flat", 0), ("learned", 0), (1.0, 1))
    )
    assert (flat.prior, learned.prior, other.prior) == (1.0, "learned", 1.0)
    assert flat.responses.evidence() == learned.responses.evidence() != other.responses.evidence()
    states = [tuple(one.fit_seed.generate_state(1)) for one in (flat, learned, other)]
    assert states[0] == states[1] != states[2]


@pytest.mark.parametrize("prior", ["flat", "learned"])
@pytest.mark.parametrize("name", CELLS)
def test_every_measure_of_every_kind_of_cell(name, prior):
    cell = CELLS[name] | {"prior": prior}
    result = measured(cell, *MEASURES)
    assert list(result) == list(MEASURES)
    assert {key for key, value in result.items() if np.isnan(value)} == (set() if "utility" in cell else {"mean_size"})
    assert (result["tv"] == result["exact_tv"]) == (cell.get("sampler") != "sgld")
    assert 0 < result["tv"] < 1
    assert 0 <= result["coverage"] <= 1
    assert 0 < result["width"] < 1
    assert cell["epsilon"] - 1e-6 <= result["true_epsilon"] <= cell["epsilon"]
    assert measured(cell, "width", "tv") == {"width": result["width"], "tv": result["tv"]}


def test_every_registered_mechanism_can_be_asked_for():
    """A mechanism of the field is a name and its settings, and one without a subset needs nothing else."""
    given = {
        "RRRR": {"utility": "semi_adaptive", "alpha": 0.5},
        "Channel": {"matrix": [[0.6, 0.3, 0.3], [0.4, 0.7, 0.7]]},
        "SetFamily": {"sets": [[0], [1], [2]], "weights": [1, 1, 1], "epsilon": 1.0},
        "Warner": {"p": "3/4"},
        "ForcedResponse": {"forced_yes": "1/6", "forced_no": "1/6"},
        "UnrelatedQuestion": {"p": "2/3", "share": "1/4"},
        "Crosswise": {"p": "1/4"},
        "Kuk": {"red_yes": "3/4", "red_no": "1/4"},
    }
    for name in mechanism_names():
        if name in given or name in registry._HOMES:
            has_size = "n_categories" in mechanism_parameters(name)
            own = (BASE if has_size else {}) | given.get(name, {})
            cell = {"mechanism": name, "rho": 1.0, "people": 30} | own
            assert len(collected(cell).responses) == cell["people"]


def test_the_posterior_is_not_sampled_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(frequency_run, "exact_posterior", lambda *_: pytest.fail("nobody asked"))
    assert 0 < measured(SGLD, "tv", "mean_size", "true_epsilon")["tv"] < 1


@pytest.mark.parametrize("many_rows", [0, 60], ids=["control variates", "nuts"])
@pytest.mark.parametrize("prior", [1.0, "learned"])
@pytest.mark.parametrize("mechanism", [ad.SRR(3, 1.0), ad.RRRR(3, 1.0), ad.SubsetSelection(3, 1.0)], ids=repr)
def test_posterior_is_that_of_quadrature(mechanism, prior, many_rows, monkeypatch):
    # It is for evidence with many rows. Here, under a learned prior, its chains need more draws to forget.
    monkeypatch.setattr(frequency_run, "CV_SIZES", (8000, 500, 2))
    responses = simulated(mechanism, 200, seed=3)
    rows = rows_of(responses)
    if prior == 1.0:
        mean, sd = oracles.posterior_moments_k3(rows, np.ones(3))
    else:
        mean, sd, *_ = oracles.posterior_moments_learned(rows, 3)
    posterior = exact_posterior(responses, prior, 1, many_rows)
    # Four Monte Carlo errors of 256 effective draws: one false alarm in 16 000 each, on a fixed seed.
    assert np.all(np.abs(posterior.mean - mean) < 0.25 * sd)


def test_intervals_are_central_and_of_95_percent():
    posterior = exact_posterior(ad.Responses(ad.SRR(3, 1.0)), 1.0, seed=1)
    beta = stats.beta(1, 2)
    shares = beta.cdf(posterior.central)
    # Of 200 effective draws, the share below a quantile has an error of 0.011.
    np.testing.assert_allclose(shares, np.repeat([[0.025], [0.975]], 3, axis=1), atol=0.044)


def outcome(mechanism, theta, sizes=None, posterior=None):
    made = Collected(np.asarray(theta), ad.Responses(mechanism), sizes, None, 1.0, np.random.SeedSequence(1))
    made.__dict__["posterior"] = posterior
    return made


def test_measures_of_the_posterior_by_hand():
    truth = np.array([0.1, 0.2, 0.3, 0.4])
    below, above = np.array([[0.1, 0.1, 0.1, -0.01], [0.1, -0.02, 0.0, 0.2]])
    ends = np.array([truth - below, truth + above])
    planted = Posterior(np.array([0.4, 0.3, 0.2, 0.1]), ends, ends - np.array([[0.0, 0.0, 0.0, 0.1], [0.0] * 4]))
    made = outcome(ad.SRR(4, 1.0), truth, posterior=planted)
    assert made.measure("coverage") == 0.5  # one truth is above its interval, and one below
    assert made.measure("coverage_as_shown") == 0.75
    assert made.measure("width") == pytest.approx(np.mean([0.2, 0.08, 0.1, 0.19]))
    # TV is the greatest difference of the probabilities of an event.
    events = [[i for i in range(4) if code >> i & 1] for code in range(1, 2**4)]
    assert made.measure("tv") == pytest.approx(max((planted.mean - truth)[event].sum() for event in events))
    with refuses("measures"):
        made.measure("vt")


def test_the_true_epsilon_of_a_run_is_the_greatest_of_the_subsets_that_it_published():
    """Not the least, nor that of sizes which were never published: with budgets of one's own each size has its own."""
    mechanism = ad.RRRR.from_budgets(5, 0.8, [1.0, 0.9, 0.7, 0.5, 0.3])
    losses = {row.size: row.loss for row in audit(mechanism).rows}
    assert len(set(losses.values())) == 5
    for sizes in ([3, 2, 4, 2], [4, 4], [0, 3]):
        made = outcome(mechanism, np.full(5, 0.2), np.array(sizes, dtype=np.int32))
        assert made.measure("true_epsilon") == max(losses[size] for size in sizes)


def test_sgld_runs_are_the_same_with_and_without_exact_inference():
    alone = measured(SGLD, "tv", "mean_size")
    assert alone.items() <= measured(SGLD, "tv", "exact_tv", "mean_size").items()


def test_a_share_that_is_next_to_nothing_and_an_exact_zero_give_the_same_run():
    """Below ρ = 0.1 NumPy's Dirichlet returns zeros, and draws through logarithms 1e-200: nobody holds either."""
    cell = {name: value for name, value in SGLD.items() if name != "rho"}
    runs = [Run(1, 3, cell, ("tv", "mean_size")) for _ in range(2)]
    truths = [np.array([least, 0.7, least, 0.3]) for least in (0.0, 1e-200)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "sequence", lambda self, **shared: np.random.SeedSequence(3))
        found = [frequency_run.frequency_run(run, **cell, theta=truth) for run, truth in zip(runs, truths, strict=True)]
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize("cell", [HONEST, SUBSET_SELECTION], ids=["honest", "subset selection"])
def test_intervals_hold_truths_from_their_prior(cell):
    """Truths from Dirichlet(1), the flat prior: 95 % of the intervals hold them, whatever the mechanism."""
    cell = cell | {"rho": 1.0}
    coverage = [measured(cell, "coverage", seed=2, number=run)["coverage"] for run in range(50)]
    # Categories of a run are not independent: four standard errors of the runs' own spread.
    assert abs(np.mean(coverage) - 0.95) < 4 * np.std(coverage, ddof=1) / np.sqrt(len(coverage)) + 0.005


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "rrr"}, "mechanism must be one of .*, got 'rrr'"),
        ({"kapa": 0.9}, "kapa must be left out for RRRR, which has only n_categories, epsilon, kappa"),
        ({"epsilon": -1}, "epsilon must be a number above 0"),
        ({"utility": None}, "utility must be one of .*, got None"),
        ({"utility": "semi_adaptive"}, "alpha must be given for 'semi_adaptive'"),
        ({"alpha": 0.5}, "alpha must be given for 'semi_adaptive' and for no other"),
        ({"sampler": "nuts"}, "sampler must be one of 'sgld', 'gibbs', 'exact', got 'nuts'"),
        ({"rho": 0}, "rho must be a positive number, got 0"),
        ({"theta": [0.5, 0.5, 0, 0]}, "rho or theta must be given, and not both"),
        ({"rho": None}, "rho or theta must be given, and not both, got None and None"),
        ({"rho": None, "theta": [0.5, 0.5]}, "theta must be 4 finite"),
        ({"people": None}, "people or people_per_category must be given, and not both, got None and None"),
        ({"people_per_category": 3}, "people or people_per_category must be given, and not both"),
        ({"people": 0}, "people must be an integer of at least 1, got 0"),
        ({"prior": "even"}, "prior must be a positive number"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, message):
    cell_settings(**HONEST)
    with pytest.raises(ValueError, match=message):
        cell_settings(**HONEST | changes)


@pytest.mark.parametrize("changes", [{"utility": "honest"}, {"alpha": 0.5}, {"sampler": "sgld"}], ids=str)
def test_what_publishes_no_subset_chooses_none(changes):
    with pytest.raises(
        ValueError, match=r"must be left out and sampler be 'exact' for srr, which publishes no subsets"
    ):
        cell_settings(**SRR | changes)
