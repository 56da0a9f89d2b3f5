"""The marginal log-likelihood as PyTensor Ops where θ has several rows: one for each group, or one for each response.

The same two nodes as in `adobest_pp.model.ops`, on the pairs (group, row of evidence) of `adobest_pp.likelihood.pairs`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.compile.mode import optdb
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.math import Sum
from pytensor.tensor.rewriting.basic import register_canonicalize
from pytensor.tensor.variable import TensorVariable

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.pairs import SIMPLEX_TOLERANCE, pair_probabilities, pairs_value_and_gradient
from adobest_pp.model.op_bases import PointwiseTerms, ValueAndGradient
from adobest_pp.model.ops import KERNEL_VERSION, evidence_tensors, source_version

__all__ = ["PairsLogLikelihood", "PointwisePairsLogLikelihood"]

_VERSION = source_version(__file__) ^ KERNEL_VERSION
_N_ARRAYS = len(Evidence._fields)
_SCALE = Evidence._fields.index("log_scale")
_EVIDENCE = "(u),(u),(u),(u),(u),(u),(u),(m),(o),(d,k),(t,v)"


class PairsLogLikelihood(ValueAndGradient):
    """The log-likelihood of weighted pairs and its gradient with respect to θ (G, K), in one pass.

    Inputs are θ, the arrays of `Evidence`, and group, row and weight of each pair: distinct, sorted by group and row.
    The scales of the rows are left out. On the simplex means that θ of every group with responses is.
    """

    gufunc_signature = f"(g,k),{_EVIDENCE},(p),(p),(p)->(),(g,k)"

    @property
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""
        return _pairs_on_simplex if self.on_simplex else _pairs  # type: ignore[no-any-return]

    def make_node(self, theta: Any, *arguments: Any) -> Apply:
        """Check and convert the inputs."""
        matrix = _theta_matrix(theta)
        group, row, weight = map(pt.as_tensor, arguments[_N_ARRAYS:])
        places = [group.astype("int64"), row.astype("int64"), weight]
        inputs = [matrix, *evidence_tensors(arguments[:_N_ARRAYS]), *places]
        return Apply(self, inputs, [pt.dscalar(), matrix.type()])

    def plain(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes."""
        return (inputs[-1] * _plain_logs(self.on_simplex, *inputs)).sum()


class PointwisePairsLogLikelihood(PointwiseTerms):
    """The log-likelihood of every response: that of its pair.

    Inputs are those of `PairsLogLikelihood`, and the pair of each response. The weights must be how many responses each
    pair has, since a sum over the output is rewritten to `PairsLogLikelihood`.
    """

    gufunc_signature = f"(g,k),{_EVIDENCE},(p),(p),(p),(n)->(n)"

    @property
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""
        return _pointwise_pairs  # type: ignore[no-any-return]

    def make_node(self, theta: Any, *arguments: Any) -> Apply:
        """Check and convert the inputs."""
        *rest, index = arguments
        pairs = pt.as_tensor(index).astype("int64")
        inputs = [*PairsLogLikelihood().make_node(theta, *rest).inputs, pairs]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=pairs.type.shape)])

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the gradient of the log-likelihood with the cotangents, gathered by pair, as weights."""
        *rest, weight, index = inputs
        gathered = pt.zeros(weight.shape)[index].inc(cotangents[0])
        _, slope = PairsLogLikelihood(on_simplex=True).make_node(*rest, gathered).outputs
        return [slope, *(disconnected_type() for _ in inputs[1:])]


def _theta_matrix(theta: Any) -> TensorVariable:
    matrix = pt.as_tensor(theta)
    if matrix.ndim != 2:
        raise ValueError(f"theta must be a matrix of category probabilities, got {matrix.ndim} dimensions")
    return matrix.astype("float64")


@njit(cache=True)
def _pairs(theta, *arguments):  # type: ignore[no-untyped-def]
    group, row, weight = arguments[-3:]
    value, slope = pairs_value_and_gradient(theta, group, row, weight, Evidence(*arguments[:-3]), False)
    return np.asarray(value), slope


@njit(cache=True)
def _pairs_on_simplex(theta, *arguments):  # type: ignore[no-untyped-def]
    group, row, weight = arguments[-3:]
    value, slope = pairs_value_and_gradient(theta, group, row, weight, Evidence(*arguments[:-3]), True)
    return np.asarray(value), slope


@njit(cache=True)
def _pointwise_pairs(theta, *arguments):  # type: ignore[no-untyped-def]
    evidence = Evidence(*arguments[:-4])
    group, row, _, index = arguments[-4:]
    h = pair_probabilities(theta, group, row, evidence)
    for p in range(h.size):
        h[p] = np.log(h[p]) + evidence.log_scale[row[p]] if h[p] > 0.0 else -np.inf
    return h[index]


@register_funcify_default_op_cache_key(PairsLogLikelihood)
@register_funcify_default_op_cache_key(PointwisePairsLogLikelihood)
def _(op: Any, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return op.kernel, _VERSION


@register_canonicalize
@node_rewriter([Sum])
def collapse_sum_of_pointwise_pairs(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Turn a sum over responses into the sum over pairs."""
    (terms,) = node.inputs
    if terms.owner is None or not isinstance(terms.owner.op, PointwisePairsLogLikelihood):
        return None
    *inputs, _ = terms.owner.inputs
    _, row, weight = inputs[-3:]
    return [PairsLogLikelihood(on_simplex=True)(*inputs) + (weight * inputs[1 + _SCALE][row]).sum()]


@node_rewriter([PairsLogLikelihood, PointwisePairsLogLikelihood])
def _expand_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    if isinstance(node.op, PointwisePairsLogLikelihood):
        *inputs, index = node.inputs
        return [(_plain_logs(True, *inputs) + inputs[1 + _SCALE][inputs[-2]])[index]]
    value = node.op.plain(*node.inputs)
    return [value, pt.grad(value, node.inputs[0])]


optdb.register("expand_pairs_log_likelihood_for_jax", in2out(_expand_for_jax), "jax", position=1.9)


def _plain_logs(on_simplex: bool, theta: TensorVariable, *arguments: TensorVariable) -> TensorVariable:
    # ln h of every pair from rows written out: JAX and second derivatives have no other. A test compares the two.
    base, own, inside, _, category, set_index, _, members, offsets, patterns, _, group, row, _ = arguments
    set_of_member = pt.searchsorted(offsets, pt.arange(members.shape[0]), side="right") - 1
    sets = pt.zeros((offsets.shape[0] - 1, patterns.shape[1]))[set_of_member, members].set(1.0)
    # One set more, the empty one, is what the set index −1 of rows without a set points to.
    sets = pt.concatenate([sets, patterns, pt.zeros((1, patterns.shape[1]))])
    rows = base[:, None] + inside[:, None] * sets[set_index]
    rows = rows[pt.arange(base.shape[0]), category].inc(own)
    logs = pt.log((rows[row] * theta[group]).sum(axis=1))
    if not on_simplex:
        return logs
    valid = (pt.abs(theta.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE) & (theta.min(axis=1) >= -SIMPLEX_TOLERANCE)
    return pt.switch(valid[group], logs, -np.inf)
