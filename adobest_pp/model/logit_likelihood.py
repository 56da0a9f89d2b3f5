"""A multinomial logit and the likelihood of private answers as one PyTensor node: what a regression samples with.

Nobody builds it: where a model has `multinomial_logit` in `PrivateResponse`, its density is rewritten to this node.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.rewriting.basic import register_canonicalize
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood import logit as kernel
from adobest_pp.model.logit import MultinomialLogit
from adobest_pp.model.ops import source_version
from adobest_pp.model.pair_ops import PairsLogLikelihood

__all__ = ["LogitLogLikelihood"]

_VERSION = source_version(kernel.__file__, __file__)
# The most numbers that the written out rows may have for each number of θ; with more, θ is made and the sets are used.
MOST_ROWS = 0.25


class LogitLogLikelihood(Op):
    """The log-likelihood of a multinomial logit, and its gradient with respect to the weights.

    Inputs are those of `adobest_pp.likelihood.logit.logit_value_and_gradient`.
    """

    __props__ = ()
    default_output = 0

    def make_node(self, columns: Any, weights: Any, *rest: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part) for part in (columns, weights, *rest)]
        return Apply(self, inputs, [pt.dscalar(), inputs[1].type()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        output_storage[0][0], output_storage[1][0] = kernel.logit_value_and_gradient(*inputs)

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of value and gradient."""
        return [(), shapes[1]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the weights have a derivative."""
        return [[i == 1, i == 1] for i in range(len(node.inputs))]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the gradient that the node has already; second derivatives come from the plain graph."""
        weights = inputs[1]
        by_value, by_gradient = cotangents
        pulled = pt.zeros_like(weights)
        if not isinstance(by_value.type, DisconnectedType):
            pulled += by_value * outputs[1]
        if not isinstance(by_gradient.type, DisconnectedType):
            slope = pt.grad(_plain(*inputs), weights)
            pulled += pt.grad((slope * by_gradient).sum(), weights, consider_constant=[by_gradient])
        return [disconnected_type(), pulled, *(disconnected_type() for _ in inputs[2:])]


@register_funcify_default_op_cache_key(LogitLogLikelihood)
def _(op: LogitLogLikelihood, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return kernel.logit_value_and_gradient, _VERSION


@register_canonicalize
@node_rewriter([PairsLogLikelihood])
def fuse_logit(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Turn the log-likelihood of a multinomial logit into one node, if only its value is used."""
    theta, *arguments = node.inputs
    if theta.owner is not None and isinstance(theta.owner.op, SpecifyShape):
        theta = theta.owner.inputs[0]
    if theta.owner is None or not isinstance(theta.owner.op, MultinomialLogit) or fgraph.clients[node.outputs[1]]:
        return None
    columns, weights = theta.owner.inputs
    if not all(isinstance(part, Constant) for part in (columns, *arguments)):
        return None
    *arrays, group, row, weight = (part.data for part in arguments)
    if not np.array_equal(group, np.arange(columns.data.shape[1])) or not (weight == 1).all():
        return None
    evidence = Evidence(*arrays)
    if evidence.n_rows > MOST_ROWS * group.size:
        return None
    rows = evidence.matrix()
    if rows.min() < kernel.SAFE_ENTRY or rows.max() > 1 / kernel.SAFE_ENTRY:
        return None
    ends = np.cumsum(np.bincount(row, minlength=len(rows)))
    covariates = columns.data[1:, np.argsort(row, kind="stable")]
    padded = np.zeros((-(-len(covariates) // 4) * 4, group.size))
    padded[: len(covariates)] = covariates
    reach = np.abs(covariates).max(axis=1, initial=0.0)
    return [LogitLogLikelihood()(padded, weights, ends, rows, reach), node.outputs[1]]


@node_rewriter([LogitLogLikelihood])
def _expand_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    value = _plain(*node.inputs)
    return [value, pt.grad(value, node.inputs[1])]


optdb.register("expand_logit_likelihood_for_jax", in2out(_expand_for_jax), "jax", position=1.9)


def _plain(columns: TensorVariable, weights: TensorVariable, ends: Any, rows: Any, reach: Any) -> TensorVariable:
    row = pt.searchsorted(ends, pt.arange(columns.shape[1]), side="right")
    logits = weights[0] + columns[: weights.shape[0] - 1].T @ weights[1:]
    return pt.log((rows[row] * pt.special.softmax(logits, axis=1)).sum(axis=1)).sum()
