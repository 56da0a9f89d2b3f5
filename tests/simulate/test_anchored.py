"""SGLD with control variates in the loop: its sums against definitions, its estimate against the exact posterior."""

import numpy as np
import pytest
from scipy import stats

import adobest_pp as ad
import oracles
from adobest_pp.adaptive.anchored import ABSORBED, DUE, LEARNED, absorb, evidence_of, learn
from adobest_pp.adaptive.loop import new_chain, ready, sample_round
from adobest_pp.adaptive.records import RESPONSES, record
from adobest_pp.samplers.sgld_cv.control_variates import anchor_at
from adobest_pp.samplers.sgld_cv.control_variates import rows_of as laid_out
from adobest_pp.simulate import simulate
from oracles import rows_of
from tests.simulate.test_gradients import collected

PRIOR = np.array([0.5, 1.0, 2.0, 3.0, 1.0, 0.3])


def chain_on(records, seed=1):
    return ready(new_chain(PRIOR, 50, seed, "sgld_cv"), records)


def answer_more(records, n, seed=0):
    """Give answers again that were given before, under the same sets, and as many of a set that had none of them."""
    rng = np.random.default_rng(seed)
    for t in rng.integers(records.used[RESPONSES], size=n):
        v = int(records.set_of[t]) + 2
        record(records, int(rng.integers(6)), v, int(records.masks[v].sum()))


def on_simplex(slope, theta):
    return slope - theta @ slope


def test_evidence_of_the_records_is_that_of_the_answers():
    records, rows, _ = collected(ad.RRRR(6, 1.0), 80, 3, counted=True)
    theta = np.random.default_rng(1).dirichlet(np.ones(6))
    for n in (1, 30, 80):
        evidence = evidence_of(records, n)
        assert evidence.n_responses == n
        slope = ad.likelihood.gradient(theta, evidence)
        np.testing.assert_allclose(slope, oracles.gradient(theta, rows[:n]), rtol=1e-9, atol=1e-9)


def test_sums_at_the_anchor_grow_by_every_answer():
    records, _, _ = collected(ad.RRRR(6, 1.0), 40, 3, counted=True)
    records = records._replace(code=np.resize(records.code, 200), set_of=np.resize(records.set_of, 200))
    records = records._replace(**{name: np.resize(getattr(records, name), 200) for name in ("row_kind", "row_answer")})
    records = records._replace(row_count=np.concatenate([records.row_count, np.zeros(160)]))
    chain = chain_on(records)
    answer_more(records, 90)
    absorb(records, chain.work)
    assert chain.work.counters.tolist() == [130, 40, 160]
    evidence = evidence_of(records, 130)
    whole = anchor_at(chain.work.theta, evidence, laid_out(evidence))
    np.testing.assert_allclose(chain.work.gradient, whole.gradient, rtol=1e-9)
    np.testing.assert_allclose(chain.work.information, whole.information, rtol=1e-9)
    np.testing.assert_allclose(chain.work.relative[: evidence.n_rows], whole.relative, rtol=1e-9)
    np.testing.assert_array_equal(np.bincount(chain.work.alias[:130]), evidence.count)


def test_what_was_learned_is_learned_again_from_the_state_of_a_file():
    records, _, _ = collected(ad.RRRR(6, 1.0), 40, 3, counted=True)
    one, two = chain_on(records), chain_on(records, seed=2)
    assert not np.array_equal(one.work.factor, two.work.factor)
    two.work.learned_from[:] = one.work.learned_from
    two.work.counters[LEARNED] = -2 - 40
    x = two.work.x.copy()
    learn(two.work, records, PRIOR, np.zeros(4, dtype=np.uint64))
    for name in ("theta", "gradient", "information", "log_scale", "center", "factor", "relative", "counters"):
        np.testing.assert_array_equal(getattr(one.work, name), getattr(two.work, name))
    np.testing.assert_array_equal(two.work.x, x)


def test_another_anchor_is_learned_when_answers_are_four_times_as_many():
    mechanism = ad.RRRR(6, 1.0)
    learned = []
    for n in (1, 31, 32, 127, 128, 130):
        records, _, _ = collected(mechanism, n, 3, counted=True)
        chain = new_chain(PRIOR, 50, 1, "sgld_cv")
        chain.work.counters[:] = 0, 0, 32 if n < 100 else 128
        learned.append(bool(ready(chain, records).work.counters[LEARNED] == n))
        if learned[-1]:
            assert chain.work.counters[[ABSORBED, DUE]].tolist() == [n, 4 * n]
    assert learned == [False, False, True, False, True, True]


def test_updates_that_leave_the_finite_numbers_are_undone():
    records, _, _ = collected(ad.RRRR(6, 1.0), 40, 3, counted=True)
    chain = chain_on(records)
    before, step = chain.phi.copy(), chain.work.scalars[1]
    chain.work.x[0] = np.nan
    assert sample_round(50, chain, records, np.ones(20), np.zeros(6), 20) == 0
    np.testing.assert_allclose(chain.phi, before / before.sum())
    assert chain.work.scalars[1] == step / 2
    mean = np.zeros(6)
    assert sample_round(50, chain, records, np.ones(20), mean, 5) == 15
    assert mean.sum() == pytest.approx(15)


def test_batches_have_the_size_that_was_asked_for():
    def after(batch_size):
        records, _, _ = collected(ad.RRRR(6, 1.0), 40, 3, counted=True)
        chain = chain_on(records)
        sample_round(batch_size, chain, records, np.ones(20), np.zeros(6), 20)
        return chain.phi

    np.testing.assert_array_equal(after(20), after(20))
    assert not np.array_equal(after(20), after(1))


def test_the_estimate_of_a_whole_run_is_the_posterior_mean():
    """Over 20 runs, the differences in posterior sds have mean zero (t-test, false alarm 1e-5) and are all small."""
    differences = []
    for seed in range(20):
        options = {"n_people": 150, "sampler": "sgld_cv", "adapt_every": 10, "final_updates": 40_000}
        run = simulate([0.6, 0.3, 0.1], ad.RRRR(3, 1.0), random_seed=seed, **options)
        mean, sd = oracles.posterior_moments_k3(rows_of(run.responses), np.ones(3))
        differences.append((run.chain_mean - mean) / sd)
    assert np.abs(differences).max() < 0.2
    assert stats.ttest_1samp(np.array(differences)[:, :2], 0).pvalue.min() > 1e-5


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "rho"), [(0.5, 1.0), (1.0, 0.1)])
def test_the_estimate_is_where_that_of_the_paper_is_far_from_it(epsilon, rho):
    """Within 0.02 of the exact posterior mean, at default settings; SGLD is several times as far."""
    theta = np.random.default_rng(0).dirichlet(np.full(10, rho))
    distances = {}
    for sampler in ("sgld", "sgld_cv"):
        run = simulate(theta / theta.sum(), ad.RRRR(10, epsilon, 0.9), sampler=sampler, random_seed=0)
        exact = ad.sample(run.responses, "nuts", random_seed=1, progressbar=False)["posterior"]["theta"]
        distances[sampler] = 0.5 * np.abs(run.chain_mean - exact.mean(("chain", "draw")).values).sum()
    assert distances["sgld_cv"] < 0.02 < distances["sgld"] / 2


def test_refuses_priors_that_its_coordinates_cannot_have():
    with pytest.raises(ValueError, match=r"prior must be at least 0\.01 for 'sgld_cv', got 0\.001"):
        simulate([0.5, 0.5], ad.RRRR(2, 1.0), prior=0.001, sampler="sgld_cv")
