"""The marginal log-likelihood of answers as PyTensor Ops, with their gradients, Numba kernels and rewrites.

First what the Ops have in common, then those for one θ, then those for several rows of θ.
"""

import zlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from numpy.typing import NDArray
from pytensor.compile.mode import optdb
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.math import Sum
from pytensor.tensor.rewriting.basic import register_canonicalize
from pytensor.tensor.variable import TensorVariable

from adobest_pp import transforms
from adobest_pp._text import brief
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood import core
from adobest_pp.likelihood.core import (
    SIMPLEX_TOLERANCE,
    is_simplex,
    pair_probabilities,
    pairs_value_and_gradient,
    row_probabilities,
    value_and_gradient,
)


class ValueAndGradient(Op):
    """A log-likelihood and its gradient with respect to θ, which is the first input, by a compiled kernel.

    Parameters
    ----------
    on_simplex : bool, default False
        Whether the value is −inf for a θ off the simplex. Without it, the value extends to all non-negative
        vectors as in `adobest_pp.likelihood.core`, so that finite differences of it are its gradient.
    """

    __props__ = ("on_simplex",)
    default_output = 0

    def __init__(self, on_simplex: bool = False) -> None:
        self.on_simplex = on_simplex

    @property
    @abstractmethod
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""

    @abstractmethod
    def plain(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes, for second derivatives and JAX."""

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        output_storage[0][0], output_storage[1][0] = self.kernel(*inputs)

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of value and gradient."""
        return [(), shapes[0]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only θ has a derivative."""
        return [[True, True]] + [[False, False]] * (len(node.inputs) - 1)

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the gradient that the node has already; second derivatives come from the plain graph."""
        theta, *rest = inputs
        by_value, by_gradient = cotangents
        pulled = pt.zeros_like(theta)
        if not isinstance(by_value.type, DisconnectedType):
            pulled += by_value * outputs[1]
        if not isinstance(by_gradient.type, DisconnectedType):
            slope = pt.grad(self.plain(*inputs), theta)
            pulled += pt.grad((slope * by_gradient).sum(), theta, consider_constant=[by_gradient])
        return [pulled, *(disconnected_type() for _ in rest)]


class PointwiseTerms(Op):
    """The log-likelihood of every response; θ is the first input, and the last says where each response is found."""

    __props__ = ()

    @property
    @abstractmethod
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        output_storage[0][0] = self.kernel(*inputs)

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the number of responses."""
        return [shapes[-1]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only θ has a derivative."""
        return [[True]] + [[False]] * (len(node.inputs) - 1)


# One θ for all responses.
#
# `MarginalLogLikelihood` is the density that samplers see: one node with ln P(answers | θ) and its gradient, from the
# compiled kernel of `adobest_pp.likelihood`, at the cost of the distinct rows of evidence. `PointwiseLogLikelihood`
# has one term per response, for model comparison; a sum over it is rewritten into the former before gradients are
# taken, so a model written PyMC's elementwise way does not pay for n responses.

# Types and numbers of axes of the arrays of `Evidence`. Counts may also be real weights, and the type of the structure
# says whether there is one.
_EVIDENCE_TYPES = (
    *[("float64", 1)] * 4,
    *[("int64", 1)] * 2,
    (None, 1),
    ("int32", 1),
    ("int64", 1),
    ("float64", 2),
    ("uint16", 2),
    (None, 1),
)
_COUNT = Evidence._fields.index("count")
_SCALE = Evidence._fields.index("log_scale")


def source_version(*files: str) -> int:
    """Return a number that changes with the source of compiled kernels.

    PyTensor keeps compiled functions on disk by the name of their Op, and would go on using those of old sources.
    """
    return zlib.crc32(b"".join(Path(file).read_bytes() for file in files))


KERNEL_VERSION = source_version(core.__file__, transforms.__file__, __file__)


class MarginalLogLikelihood(ValueAndGradient):
    """The marginal log-likelihood of evidence and its gradient with respect to θ, in one pass over the rows.

    Inputs are θ and the arrays of `Evidence`; `count` may also be real weights. The scales of the rows are left out.
    """

    gufunc_signature = "(k),(u),(u),(u),(u),(u),(u),(u),(m),(o),(d,k),(t,v),(s)->(),(k)"

    @property
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""
        return _marginal_on_simplex if self.on_simplex else _marginal  # type: ignore[no-any-return]

    def make_node(self, theta: Any, *evidence: Any) -> Apply:
        """Check and convert the inputs."""
        vector = _theta_vector(theta)
        return Apply(self, [vector, *evidence_tensors(evidence)], [pt.dscalar(), vector.type()])

    def plain(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes."""
        return (inputs[1 + _COUNT] * _plain_row_logs(self.on_simplex, *inputs)).sum()


class PointwiseLogLikelihood(PointwiseTerms):
    """The log-likelihood of every response: that of its row of evidence.

    Inputs are θ, the arrays of `Evidence` and the row of each response. The counts must be those of the rows, since a
    sum over the output is rewritten to `MarginalLogLikelihood`.
    """

    gufunc_signature = "(k),(u),(u),(u),(u),(u),(u),(u),(m),(o),(d,k),(t,v),(s),(n)->(n)"

    @property
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""
        return _pointwise  # type: ignore[no-any-return]

    def make_node(self, theta: Any, *arguments: Any) -> Apply:
        """Check and convert the inputs."""
        *evidence, index = arguments
        rows = as_tensor(index, "index", "int64")
        inputs = [_theta_vector(theta), *evidence_tensors(evidence), rows]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=rows.type.shape)])

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the gradient of the marginal log-likelihood with the cotangents, gathered by row, as counts."""
        theta, *evidence, index = inputs
        evidence[_COUNT] = pt.zeros(evidence[_COUNT].shape)[index].inc(cotangents[0])
        _, slope = MarginalLogLikelihood(on_simplex=True).make_node(theta, *evidence).outputs
        return [slope, *(disconnected_type() for _ in inputs[1:])]


def partial_gradients(
    function: Callable[..., TensorVariable], inputs: Sequence[Variable], cotangent: Variable
) -> list[Variable]:
    """Return the pullback of a plain graph, with inputs that may depend on each other held apart."""
    apart = [part.type() for part in inputs]
    product = (function(*apart) * cotangent).sum()
    slopes = pt.grad(product, apart, consider_constant=[cotangent], disconnected_inputs="ignore")
    return list(graph_replace(slopes, dict(zip(apart, inputs, strict=True)), strict=False))


def as_tensor(value: Any, name: str, dtype: str | None = None) -> TensorVariable:
    """Return numbers as a tensor, or raise ValueError that names the argument."""
    try:
        tensor = pt.as_tensor(value)
        return tensor if dtype is None else tensor.astype(dtype)
    except Exception:  # PyTensor has no one error for this
        raise ValueError(f"{name} must be numbers or a tensor of PyTensor, got {brief(value)}") from None


def check_evidence(evidence: Any) -> Evidence:
    """Return evidence, or raise ValueError."""
    if not isinstance(evidence, Evidence):
        raise ValueError(f"evidence must be an Evidence, such as of Responses.evidence, got {brief(evidence)}")
    return evidence


def _theta_vector(theta: Any) -> TensorVariable:
    vector = as_tensor(theta, "theta", "float64")
    if vector.ndim != 1:
        raise ValueError(f"theta must be a vector of category probabilities, got {vector.ndim} dimensions")
    return vector


def evidence_tensors(evidence: Sequence[Any]) -> list[TensorVariable]:
    """Return the arrays of an `Evidence` as tensors of its types, or raise ValueError."""
    tensors = [pt.as_tensor(part) for part in evidence]
    if [tensor.ndim for tensor in tensors] != [ndim for _, ndim in _EVIDENCE_TYPES]:
        raise ValueError(f"evidence must be the {len(_EVIDENCE_TYPES)} arrays of an Evidence")
    pairs = zip(tensors, _EVIDENCE_TYPES, strict=True)
    return [tensor.astype(dtype) if dtype else tensor for tensor, (dtype, _) in pairs]


@njit(cache=True)
def _marginal(theta, *evidence):  # type: ignore[no-untyped-def]
    value, slope = value_and_gradient(theta, Evidence(*evidence))
    return np.asarray(value), slope


@njit(cache=True)
def _marginal_on_simplex(theta, *evidence):  # type: ignore[no-untyped-def]
    value, slope = -np.inf, np.zeros(theta.size)
    if is_simplex(theta):
        value, slope = value_and_gradient(theta, Evidence(*evidence))
    return np.asarray(value), slope


@njit(cache=True)
def _pointwise(theta, *arguments):  # type: ignore[no-untyped-def]
    evidence, index = Evidence(*arguments[:-1]), arguments[-1]
    rows = np.full(evidence.base.size, -np.inf)
    if is_simplex(theta):
        h = row_probabilities(theta, evidence)
        for u in range(rows.size):
            if h[u] > 0.0:
                rows[u] = np.log(h[u]) + evidence.log_scale[u]
    return rows[index]


@register_funcify_default_op_cache_key(MarginalLogLikelihood)
@register_funcify_default_op_cache_key(PointwiseLogLikelihood)
def _(op: Any, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return op.kernel, KERNEL_VERSION


@register_canonicalize
@node_rewriter([Sum])
def collapse_sum_of_pointwise(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Turn a sum over responses into the sum over rows of evidence."""
    (terms,) = node.inputs
    if terms.owner is None or not isinstance(terms.owner.op, PointwiseLogLikelihood):
        return None
    *inputs, _ = terms.owner.inputs
    scale = (inputs[1 + _COUNT] * inputs[1 + _SCALE]).sum()
    return [MarginalLogLikelihood(on_simplex=True)(*inputs) + scale]


# JAX has no kernel of ours: it compiles the plain graphs. Registering with JAX would need JAX to be imported.
@node_rewriter([MarginalLogLikelihood, PointwiseLogLikelihood])
def _expand_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    if isinstance(node.op, PointwiseLogLikelihood):
        *inputs, index = node.inputs
        return [(_plain_row_logs(True, *inputs) + inputs[1 + _SCALE])[index]]
    value = node.op.plain(*node.inputs)
    return [value, pt.grad(value, node.inputs[0])]


optdb.register("expand_log_likelihood_for_jax", in2out(_expand_for_jax), "jax", position=1.9)


def _plain_row_logs(on_simplex: bool, theta: TensorVariable, *evidence: TensorVariable) -> TensorVariable:
    # h of likelihood/core.py once more, as a graph: JAX and second derivatives have no other. A test compares the two.
    base, own, inside, _, category, set_index, _, members, offsets, patterns, _, structure = evidence
    set_of_member = pt.searchsorted(offsets, pt.arange(members.shape[0]), side="right") - 1
    sets = pt.zeros(offsets.shape[0] - 1)[set_of_member].inc(theta[members])
    # One set more, of mass 0, is what the set index −1 of rows without a set points to.
    structured = [] if (masks := _masks_of(structure, patterns)) is None else [masks @ theta]
    masses = pt.concatenate([sets, (patterns * theta).sum(axis=1), *structured, pt.zeros(1)])
    logs = pt.log(base * theta.sum() + own * theta[category] + inside * masses[set_index])
    if not on_simplex:
        return logs
    valid = (pt.abs(theta.sum() - 1) <= SIMPLEX_TOLERANCE) & (theta.min() >= -SIMPLEX_TOLERANCE)
    return pt.switch(valid, logs, -np.inf)


# The most entries of support sets that a plain graph lays out.
_MOST_ENTRIES = 1 << 24


def _masks_of(structure: Variable, patterns: Variable) -> NDArray[np.float64] | None:
    """Return the sets of a structure written out, of shape (m, K), for a plain graph; None if there are none."""
    blocks, k = (getattr(part, "data", None) for part in (structure, patterns))
    n_sets = 0 if blocks is None else int(transforms.n_structured(blocks))
    if not n_sets:
        return None
    n_categories = k.shape[1] if k is not None else patterns.type.shape[1]
    if n_categories is None or n_sets * n_categories > _MOST_ENTRIES:
        raise NotImplementedError(
            f"second derivatives and JAX need the support sets of all {n_sets:,} answers laid out, which are too many: "
            "use fewer categories, or a sampler without them"
        )
    return np.asarray(transforms.structured_masks(np.arange(n_sets), blocks, n_categories), dtype=np.float64)


# Several rows of θ: one for each group, or one for each response.
#
# The same two nodes, on the pairs (group, row of evidence) of `adobest_pp.likelihood.core`.

_N_ARRAYS = len(Evidence._fields)
_EVIDENCE = "(u),(u),(u),(u),(u),(u),(u),(m),(o),(d,k),(t,v),(s)"


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
    return op.kernel, KERNEL_VERSION


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
def _expand_pairs_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    if isinstance(node.op, PointwisePairsLogLikelihood):
        *inputs, index = node.inputs
        return [(_plain_logs(True, *inputs) + inputs[1 + _SCALE][inputs[-2]])[index]]
    value = node.op.plain(*node.inputs)
    return [value, pt.grad(value, node.inputs[0])]


optdb.register("expand_pairs_log_likelihood_for_jax", in2out(_expand_pairs_for_jax), "jax", position=1.9)


def _plain_logs(on_simplex: bool, theta: TensorVariable, *arguments: TensorVariable) -> TensorVariable:
    # ln h of every pair from rows written out: JAX and second derivatives have no other. A test compares the two.
    base, own, inside, _, category, set_index, _, members, offsets, patterns, _, structure, group, row, _ = arguments
    set_of_member = pt.searchsorted(offsets, pt.arange(members.shape[0]), side="right") - 1
    sets = pt.zeros((offsets.shape[0] - 1, patterns.shape[1]))[set_of_member, members].set(1.0)
    # One set more, the empty one, is what the set index −1 of rows without a set points to.
    structured = [] if (masks := _masks_of(structure, patterns)) is None else [masks]
    sets = pt.concatenate([sets, patterns, *structured, pt.zeros((1, patterns.shape[1]))])
    rows = base[:, None] + inside[:, None] * sets[set_index]
    rows = rows[pt.arange(base.shape[0]), category].inc(own)
    logs = pt.log((rows[row] * theta[group]).sum(axis=1))
    if not on_simplex:
        return logs
    valid = (pt.abs(theta.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE) & (theta.min(axis=1) >= -SIMPLEX_TOLERANCE)
    return pt.switch(valid[group], logs, -np.inf)
