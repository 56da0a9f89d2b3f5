"""The job behind the report: what it samples, and what it holds against what."""

import numpy as np
import pytest

from adobest_pp import SRR, Collection, Responses, SameQuestion, sample
from adobest_pp._wording import CENTRAL
from adobest_pp.diagnostics import Verdict, checkpoints, compare
from adobest_pp.report import grade_samplers
from adobest_pp.report.findings import Poll, _explanations, n_stages, poll_of_people, poll_of_responses, simulated_poll
from adobest_pp.report.folder import privacy_in_words
from adobest_pp.samplers.checks import logger, without_warnings_of


def test_every_stage_is_announced_once():
    poll, found = simulated_poll(300), []
    findings = grade_samplers(poll, draws=100, on_stage=found.append)
    assert len(found) == len(set(found)) == n_stages(poll)
    assert findings.contraction["n"].values.tolist() == [75, 150, 300]


def test_a_collection_and_the_report_have_the_same_estimate_to_the_last_digit():
    rng = np.random.default_rng(1)
    collection = Collection.create(policy=SameQuestion(SRR(3, epsilon=1.0)), random_seed=5)
    collection.record(np.asarray(SRR(3, epsilon=1.0).privatize(rng.integers(3, size=200), rng=rng)))
    poll = Poll("?", collection.responses, "", "", None, {})
    findings = grade_samplers(poll, draws=100, random_seed=9)
    np.testing.assert_array_equal(findings.estimate["mean"], collection.estimate(100)["mean"])
    np.testing.assert_array_equal(findings.estimate["lower"], collection.estimate(100)["lower"])


def test_checkpoints_are_fits_of_the_first_answers():
    poll = simulated_poll(300)
    findings = grade_samplers(poll, draws=100, prior=1.0)
    theta = sample(checkpoints(poll.responses, [75])[75], "gibbs", draws=100, random_seed=1)["posterior/theta"].values
    error = ((theta - poll.truth) ** 2).sum(axis=-1).mean()
    assert findings.contraction["error"].sel(label="gibbs", n=75).item() == pytest.approx(error)


def test_a_prior_that_is_given_is_that_of_the_estimate_and_of_the_samplers():
    findings = grade_samplers(simulated_poll(60), draws=100, prior=0.5)
    assert findings.posterior is findings.draws["nuts"]
    assert {tree.attrs["prior_concentration"][0] for tree in findings.draws.values()} == {0.5}
    assert findings.estimated["tv_truth"].item() == findings.comparison["tv_truth"].sel(sampler="nuts").item()


def test_the_estimate_learns_its_prior_by_default(hostile_findings):
    assert hostile_findings.posterior.attrs["prior_concentration"] == "learned"
    assert {tree.attrs["prior_concentration"][0] for tree in hostile_findings.draws.values()} == {1.0}
    truth, mean = hostile_findings.poll.truth, hostile_findings.estimate["mean"].values
    assert hostile_findings.estimated["tv_truth"].item() == pytest.approx(0.5 * np.abs(mean - truth).sum())


def test_sgld_is_explained_unless_it_is_at_the_posterior(hostile_findings):
    (name,) = hostile_findings.explanations
    assert (name, hostile_findings.explanations[name]["verdict"].item()) == (
        "sgld",
        hostile_findings.comparison["verdict"].sel(sampler="sgld").item(),
    )
    graded = hostile_findings.comparison.copy(deep=True)
    graded["verdict"] = graded["verdict"].astype(object)
    for sampler, verdict in (("sgld", "indistinguishable"), ("nuts", "reference_not_converged")):
        planted = graded.copy(deep=True)
        planted["verdict"].loc[{"sampler": sampler}] = verdict
        assert _explanations(hostile_findings.poll, hostile_findings.draws, planted, 1) == {}


@pytest.mark.long
def test_a_prior_that_control_variates_do_not_take_leaves_them_out():
    findings = grade_samplers(simulated_poll(60), draws=100, prior=0.005)
    assert list(findings.draws) == ["nuts", "gibbs", "sgld"]
    assert n_stages(findings.poll, 0.005) == n_stages(findings.poll, 0.01) - 1


def test_few_answers_are_enough():
    findings = grade_samplers(simulated_poll(3), draws=100)
    assert findings.contraction["n"].values.tolist() == [3]
    assert np.isnan(findings.contraction["slope"].values).all()


def test_without_a_truth_the_center_is_the_final_estimate(tmp_path):
    simulated_poll(400).responses.to_netcdf(tmp_path / "responses.nc")
    findings = grade_samplers(poll_of_responses(tmp_path / "responses.nc"), draws=200)
    theta = findings.draws["nuts"]["posterior"]["theta"].values.reshape(-1, 6)
    spread = ((theta - theta.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert findings.contraction["error"].sel(label="nuts", n=400).item() == pytest.approx(spread, rel=1e-6)


@pytest.mark.long
def test_the_verdicts_replace_the_warnings(caplog):
    findings = grade_samplers(simulated_poll(2000), draws=200)
    assert caplog.records == []
    assert findings.comparison["verdict"].sel(sampler="sgld") == "not_mixed"
    sample(findings.poll.responses, "sgld", draws=200, random_seed=1, progressbar=False)
    assert [record.problem for record in caplog.records] == ["not_converged"]


def test_other_warnings_are_not_left_out(caplog):
    with without_warnings_of("not_converged"):
        logger.warning("The answers do not fit.")
        logger.warning("Left out: %d", 1, extra={"problem": "not_converged"})
    logger.warning("Not left out any more.", extra={"problem": "not_converged"})
    assert [record.getMessage() for record in caplog.records] == ["The answers do not fit.", "Not left out any more."]


def test_responses_of_nobody_are_refused(tmp_path):
    Responses(SRR(3, 1.0)).to_netcdf(tmp_path / "none.nc")
    with pytest.raises(ValueError, match="at least one person"):
        poll_of_responses(tmp_path / "none.nc")
    (tmp_path / "nobody.csv").write_text("vote\n")
    with pytest.raises(ValueError, match="at least one person"):
        poll_of_people(tmp_path / "nobody.csv", "vote", categories=["a", "b"])


# Designs publish sets in rounds; the answers of the others are in rows of as many kinds as their samplers meet.
OTHERS = ["srr", "rrrr", "unary-encoding", "local-hashing", "hadamard-response"]


@pytest.mark.parametrize("mechanism", OTHERS)
def test_the_samplers_of_a_poll_agree_whatever_was_asked_with(mechanism):
    """The two samplers of which the next test says something, without checkpoints and explanations."""
    poll = simulated_poll(600, epsilon=2.0, mechanism=mechanism)
    settings = {"prior": 1.0, "draws": 500, "random_seed": 1, "progressbar": False}
    draws = {name: sample(poll.responses, name, **settings) for name in ("nuts", "sgld_cv")}
    verdicts = compare(draws, reference="nuts")["verdict"]
    assert verdicts.sel(sampler="nuts") == Verdict.REFERENCE
    assert verdicts.sel(sampler="sgld_cv").item() in (Verdict.INDISTINGUISHABLE, Verdict.NOT_MIXED)
    assert poll.asked.startswith(f"The mechanism is {mechanism}, as you chose")
    assert "so it holds" in privacy_in_words(poll)[-1]


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param("design", marks=pytest.mark.long), *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)],
)
def test_samplers_are_graded_whatever_was_asked_with(mechanism):
    """With every mechanism NUTS is a reference, and SGLD with control variates is never said to be elsewhere."""
    findings = grade_samplers(simulated_poll(600, epsilon=2.0, mechanism=mechanism), draws=500)
    verdicts = dict(zip(findings.comparison["sampler"].values, findings.comparison["verdict"].values, strict=True))
    assert verdicts["nuts"] == Verdict.REFERENCE
    assert verdicts["sgld_cv"] in (Verdict.INDISTINGUISHABLE, Verdict.NOT_MIXED)
    assert findings.poll.asked.startswith(f"The mechanism is {mechanism}, as you chose")
    assert "so it holds" in privacy_in_words(findings.poll)[-1]
    np.testing.assert_allclose(findings.estimate["mean"].sum(), 1.0)


def test_who_holds_the_values_of_a_file_is_told(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("vote\na\nb\n")
    listed, read = (
        poll_of_people(path, "vote", categories=labels, ask_again=True).protection for labels in (["a", "b"], None)
    )
    assert "nothing here protects them from people who have that file" in listed
    assert CENTRAL in listed
    assert "list of categories was also read" not in listed
    assert "list of categories was also read" in read
