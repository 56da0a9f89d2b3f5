import os
import subprocess
import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytensor.compile.mode import Mode, get_mode
from pytensor.gradient import verify_grad
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

import adobest_pp as ad
from adobest_pp.likelihood.marginal import gradient, log_likelihood
from adobest_pp.model.simplex import SimplexPullback, SimplexSoftmax, simplex
from adobest_pp.model.tensors import (
    MarginalLogLikelihood,
    PointwiseLogLikelihood,
    marginal_log_likelihood,
    pointwise_log_likelihood,
    transition_matrix,
    transition_rows,
)
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import rrrr_with_subset, simulated

MECHANISMS = [ad.SRR(4, 1.0), ad.RRRR(4, 1.5, 0.8), ad.SubsetSelection(4, 1.0, size=2)]
PYTHON = Mode("py", "fast_compile")


@settings(max_examples=40, deadline=None)
@given(rrrr_with_subset())
@example((ad.RRRR(2, 1.0, 1.0), []))
def test_transition_matrix_is_the_numpy_one(case):
    mechanism, subset = case
    mask = np.isin(np.arange(mechanism.n_categories), subset)
    graph = transition_matrix(mask, mechanism.epsilon1, mechanism.epsilon2(len(subset)))
    np.testing.assert_allclose(graph.eval(mode=PYTHON), mechanism.transition_matrix(subset), rtol=1e-13)


def test_transition_matrix_of_an_empty_subset_is_srr_with_the_second_budget():
    graph = transition_matrix(np.zeros(5, dtype=bool), 0.3, 1.2)
    np.testing.assert_allclose(graph.eval(mode=PYTHON), ad.SRR(5, 1.2).transition_matrix(), rtol=1e-13)


def test_a_subset_of_all_categories_is_refused():
    """Its columns would sum to 1 − 1/(e^ε₁ + K)."""
    full, message = np.ones(4, dtype=bool), "subset_mask must leave at least one category out of each subset"
    for refused in (full, [1, 1, 1, 1], np.array([[True, False, True, True], full])):
        with pytest.raises(ValueError, match=message):
            transition_matrix(refused, 0.8, 0.5)
        with pytest.raises(ValueError, match=message):
            transition_rows(0, refused, 0.8, 0.5)
    mask = pt.bmatrix("mask")
    for graph in (transition_matrix(mask, 0.8, 0.5), transition_rows(np.zeros(2, dtype=int), mask, 0.8, 0.5)):
        with pytest.raises(ValueError, match=message):
            graph.eval({mask: np.array([[True, False, True, True], full])}, mode=PYTHON)


def test_transition_tensors_are_batched_and_symbolic_in_the_budgets():
    rng = np.random.default_rng(3)
    mechanism = ad.RRRR(6, 2.0, 0.7)
    masks = np.array([[False] * 6, [True] + [False] * 5, [True] * 5 + [False], rng.random(6) < 0.5])
    second = np.array([mechanism.epsilon2(int(mask.sum())) for mask in masks])
    expected = np.array([mechanism.transition_matrix(mask) for mask in masks])

    mask, epsilon1, epsilon2 = pt.bmatrix("mask"), pt.dscalar("epsilon1"), pt.dvector("epsilon2")
    matrices = pytensor.function([mask, epsilon1, epsilon2], transition_matrix(mask, epsilon1, epsilon2), mode=PYTHON)
    np.testing.assert_allclose(matrices(masks, mechanism.epsilon1, second), expected, rtol=1e-13)

    index, answers = rng.integers(4, size=50), rng.integers(6, size=50)
    rows = transition_rows(answers, masks[index], mechanism.epsilon1, second[index])
    np.testing.assert_allclose(rows.eval(mode=PYTHON), expected[index, answers], rtol=1e-13)


def test_answers_that_are_no_category_have_probability_zero():
    """A code for no answer, such as −1, was taken for an answer outside of the subset."""
    rows = transition_rows([-1, 0, 4], [True, False, False, False], 0.8, 0.5).eval(mode=PYTHON)
    assert (rows[[0, 2]] == 0).all()
    assert (rows[1] > 0).all()


def test_budgets_have_gradients():
    rng = np.random.default_rng(0)
    mask = np.array([True, False, True, False, False])
    verify_grad(lambda first, second: transition_matrix(mask, first, second), [0.8, 0.5], rng=rng, mode=PYTHON)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_marginal_log_likelihood_is_the_oracle_in_every_backend(mechanism):
    responses = simulated(mechanism, 60, seed=1)
    evidence, rows = responses.evidence(), rows_of(responses)
    theta = pt.dvector("theta")
    value = marginal_log_likelihood(theta, evidence)
    terms = pointwise_log_likelihood(theta, evidence, responses.evidence_index())
    point = np.random.default_rng(2).dirichlet(np.ones(4))
    for mode in ("NUMBA", PYTHON):
        compiled = pytensor.function([theta], [value, pt.grad(value, theta), terms], mode=mode)
        log_probability, slope, each = compiled(point)
        np.testing.assert_allclose(log_probability, np.log(rows @ point).sum(), rtol=1e-12)
        np.testing.assert_allclose(slope, (rows / (rows @ point)[:, None]).sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(each, np.log(rows @ point), rtol=1e-10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_gradients_are_derivatives(mechanism):
    rng = np.random.default_rng(4)
    responses = simulated(mechanism, 40, seed=5)
    arguments = responses.evidence()
    point = rng.dirichlet(np.ones(4))

    def marginal(output):
        return lambda theta: MarginalLogLikelihood().make_node(theta, *arguments).outputs[output]

    def weighted(free):
        terms = PointwiseLogLikelihood()(pt.special.softmax(free), *arguments, responses.evidence_index())
        return (np.arange(40) * terms).sum()

    verify_grad(marginal(0), [point], rng=rng, mode=PYTHON)
    verify_grad(marginal(1), [point], rng=rng, mode=PYTHON)
    verify_grad(weighted, [point], rng=rng, mode=PYTHON)


def test_gradients_of_the_simplex_are_derivatives():
    rng = np.random.default_rng(6)
    free, by_theta, by_jacobian = rng.normal(size=4), rng.normal(size=5), np.array(0.3)
    theta = SimplexSoftmax()(free).eval(mode=PYTHON)
    verify_grad(lambda x: SimplexSoftmax().make_node(x).outputs[0], [free], rng=rng, mode=PYTHON)
    verify_grad(lambda x: SimplexSoftmax().make_node(x).outputs[1], [free], rng=rng, mode=PYTHON)
    verify_grad(SimplexPullback(), [theta, by_theta, by_jacobian], rng=rng, mode=PYTHON)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_the_simplex_transform_is_undone_and_its_jacobian_is_the_determinant(free):
    free = np.array(free)
    theta, log_jacobian = SimplexSoftmax().make_node(free).outputs
    theta, log_jacobian = theta.eval(mode=PYTHON), log_jacobian.eval(mode=PYTHON)
    assert theta.sum() == pytest.approx(1)
    np.testing.assert_allclose(simplex.forward(theta).eval(mode=PYTHON), free, atol=1e-8)
    # By hand: softmax of V·free with orthonormal V has the Jacobian (diag θ − θθᵀ)V.
    n = free.size + 1
    basis = np.eye(n)[:, :-1] - 1 / (np.sqrt(n) + n)
    basis[-1] = -1 / np.sqrt(n)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-12)
    if np.abs(free).max() < 3:  # beyond, the determinant itself cancels
        jacobian = ((np.diag(theta) - np.outer(theta, theta)) @ basis)[:-1]
        assert log_jacobian == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)


@pytest.mark.parametrize("theta", [[0.5, 0.3, 0.2, 0.1], [0.6, 0.6, -0.1, -0.1], [0.2, 0.2, 0.2, 0.2], [np.nan] * 4])
def test_off_the_simplex_is_impossible(theta):
    responses = simulated(ad.RRRR(4, 1.0), 10, seed=0)
    evidence = responses.evidence()
    assert marginal_log_likelihood(theta, evidence).eval(mode=PYTHON) == -np.inf
    assert (pointwise_log_likelihood(theta, evidence, responses.evidence_index()).eval(mode=PYTHON) == -np.inf).all()


def test_rounding_is_not_off_the_simplex():
    evidence = simulated(ad.RRRR(4, 1.0), 10, seed=0).evidence()
    theta = np.array([0.6, 0.4 + 1e-9, -1e-17, 0.0])
    assert np.isfinite(marginal_log_likelihood(theta, evidence).eval(mode=PYTHON))


def test_a_sum_over_responses_becomes_a_sum_over_rows():
    responses = simulated(ad.SubsetSelection(5, 1.0, size=2), 300, seed=7)
    evidence = responses.evidence()
    theta = pt.dvector("theta")
    total = pointwise_log_likelihood(theta, evidence, responses.evidence_index()).sum()
    rewritten = pm.pytensorf.rewrite_pregrad(total)
    point = np.full(5, 0.2)
    assert rewritten.eval({theta: point}, mode=PYTHON) == pytest.approx(log_likelihood(point, evidence))
    slope = pt.grad(rewritten, theta)
    np.testing.assert_allclose(slope.eval({theta: point}, mode=PYTHON), gradient(point, evidence))
    lengths = {variable.type.shape for variable in ancestors([rewritten, slope])}
    assert (300,) not in lengths


def test_ops_can_be_vectorized():
    responses = simulated(ad.RRRR(4, 1.0), 30, seed=8)
    evidence = responses.evidence()
    theta, thetas = pt.dvector("theta"), pt.dmatrix("thetas")
    graph = vectorize_graph(marginal_log_likelihood(theta, evidence), {theta: thetas})
    points = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    expected = [log_likelihood(point, evidence) for point in points]
    np.testing.assert_allclose(graph.eval({thetas: points}, mode=PYTHON), expected)


@pytest.mark.parametrize("op", [MarginalLogLikelihood(), PointwiseLogLikelihood()], ids=repr)
def test_ops_refuse_what_they_cannot_take(op):
    arguments = simulated(ad.SRR(3, 1.0), 5, seed=0).evidence()
    more = () if isinstance(op, MarginalLogLikelihood) else (np.zeros(5, dtype=int),)
    with refuses("theta"):
        op(np.ones((2, 3)), *arguments, *more)
    with refuses("evidence"):
        op(np.ones(3), *arguments[:-1], *more)


def test_importing_adobest_pp_imports_neither_pymc_nor_pytensor():
    code = "import adobest_pp, sys; assert not {'pymc', 'pytensor', 'numba'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


COLD = """
import numpy as np, pymc as pm
from numba.core import event
class Count(event.Listener):
    compiled = 0
    def on_start(self, event):
        self.compiled += 1
    def on_end(self, event):
        pass
count = Count()
event.register("numba:compile", count)
import adobest_pp as ad
rng = np.random.default_rng(0)
mechanism = ad.RRRR(20, 1.0)
responses = ad.Responses(mechanism)
for _ in range(10):
    subset = rng.choice(20, size=rng.integers(20), replace=False)
    responses.append(mechanism.privatize(rng.integers(20, size=1000), subset=subset, rng=rng), subset)
model = ad.frequency_model(responses)
function = model.logp_dlogp_function(ravel_inputs=True)
function.set_extra_values({})
function(np.zeros(19))
print(count.compiled)
"""


# Numba compiles 50 functions; with PyMC's own transform of the simplex it would be 174.
MOST_COMPILED = 60
MOST_NODES = 6  # they are 5; with PyMC's own transform 25


def nodes_of(model):
    """The names of the operations in the density and gradient that Numba would compile, without compiling them."""
    rewritten = Mode("py", get_mode("NUMBA").provided_optimizer)
    function = model.logp_dlogp_function(ravel_inputs=True, mode=rewritten)
    return [type(node.op).__name__ for node in function._pytensor_function.maker.fgraph.apply_nodes]


def test_density_and_gradient_are_of_few_operations():
    """Where they are not, the slow test below finds more functions to compile: thrice with PyMC's own transform."""
    responses = simulated(ad.RRRR(20, 1.0), 1000, seed=0)
    ours = nodes_of(ad.frequency_model(responses))
    with pm.Model() as other:
        theta = pm.Dirichlet("theta", np.ones(20))
        ad.PrivateResponse("y", theta, responses)
    theirs = nodes_of(other)
    assert {"MarginalLogLikelihood", "SimplexSoftmax", "SimplexPullback"} <= set(ours)
    assert not {name for name in ours if "Dot" in name or "Gemv" in name}
    assert len(ours) <= MOST_NODES < len(theirs)


@pytest.mark.slow
def test_a_cold_compile_of_density_and_gradient_is_of_few_functions(tmp_path):
    """5 s on an idle core, where PyMC's own transform takes 15 s, and a matrix product a minute."""
    caches = {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COLD],
        env=os.environ | caches,
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0 < int(run.stdout) <= MOST_COMPILED


def test_second_derivatives_through_the_simplex_are_derivatives():
    """θ and the gradient with respect to it both depend on the free coordinates."""

    def slope(free):
        return pt.grad((SimplexSoftmax()(free) ** 3).sum(), free)

    verify_grad(slope, [np.array([0.3, -0.5, 0.2])], rng=np.random.default_rng(0), mode=PYTHON)


def test_the_graph_for_jax_has_the_values_of_the_kernels():
    free, by_theta, by_jacobian = (np.array(each) for each in ([0.3, -0.5, 0.2], [1.0, 0.5, -0.2, 0.1], 0.3))
    expected = [each.eval(mode=PYTHON) for each in SimplexSoftmax().make_node(free).outputs]
    for plain, value in zip(SimplexSoftmax().plain(pt.as_tensor(free)), expected, strict=True):
        np.testing.assert_allclose(plain.eval(mode=PYTHON), value, rtol=1e-12)
    (pulled,) = SimplexPullback().plain(*map(pt.as_tensor, (expected[0], by_theta, by_jacobian)))
    pull = SimplexPullback()(expected[0], by_theta, by_jacobian)
    np.testing.assert_allclose(pulled.eval(mode=PYTHON), pull.eval(mode=PYTHON), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Skipping CheckAndRaise")
@pytest.mark.parametrize(
    "mode", ["FAST_COMPILE", pytest.param("NUMBA", marks=pytest.mark.long), pytest.param("JAX", marks=pytest.mark.jax)]
)
def test_a_full_subset_is_no_mechanism_in_any_mode(mode):
    if mode == "JAX":
        pytest.importorskip("jax")
    mask = pt.vector("mask", dtype="bool", shape=(4,))
    matrix = pytensor.function([mask], transition_matrix(mask, 0.8, 0.45), mode=mode)
    np.testing.assert_allclose(matrix(np.array([True, True, False, False])).sum(axis=0), 1, rtol=1e-6)
    if mode == "JAX":  # which has no run-time checks
        assert np.isnan(matrix(np.ones(4, dtype=bool))).all()
        return
    with refuses("subset_mask"):
        matrix(np.ones(4, dtype=bool))
