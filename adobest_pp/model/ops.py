"""The marginal log-likelihood of answers as PyTensor Ops, with their gradients, Numba kernels and rewrites.

First what all Ops of this room have in common, then those for one θ, then those for several rows of θ.
"""

import zlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
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
from adobest_pp._types import Floats
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

Variables = Sequence[Variable]


def source_version(*files: str) -> int:
    """Return a number that changes with the source of compiled kernels.

    PyTensor keeps compiled functions on disk by the name of their Op, and would keep using those of old sources.
    """
    return zlib.crc32(b"".join(Path(file).read_bytes() for file in files))


KERNEL_VERSION = source_version(core.__file__, transforms.__file__, __file__)


class CompiledOp(Op):
    """An Op that a compiled function evaluates. For JAX it is replaced by a graph of elementary nodes.

    Attributes
    ----------
    kernels : tuple of callables
        The compiled function; two of them, for False and True, if the Op has a property. They return the output, or a
        tuple of several.
    version : int
        The `source_version` of the kernels.
    differentiable : tuple of int
        The places of the inputs that have a derivative.
    """

    __props__: tuple[str, ...] = ()
    kernels: tuple[Callable[..., Any], ...]
    version: int
    differentiable: tuple[int, ...] = ()

    @property
    def kernel(self) -> Callable[..., Any]:
        """The compiled function behind the node."""
        return self.kernels[any(self._props())]

    @abstractmethod
    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the outputs as graphs of elementary nodes."""

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        found = self.kernel(*inputs)
        for storage, value in zip(output_storage, found if len(output_storage) > 1 else [found], strict=True):
            storage[0] = value

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Return whether each output has a derivative with respect to each input."""
        return [[i in self.differentiable] * len(node.outputs) for i in range(len(node.inputs))]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the gradient of a plain graph with one output. Inputs that depend on each other are held apart."""
        apart = [part.type() for part in inputs]
        product = (self.plain(*apart)[0] * cotangents[0]).sum()
        slopes = pt.grad(product, apart, consider_constant=[cotangents[0]], disconnected_inputs="ignore")
        return list(graph_replace(slopes, dict(zip(apart, inputs, strict=True)), strict=False))


@register_funcify_default_op_cache_key(CompiledOp)
def _(op: CompiledOp, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return op.kernel, op.version


# JAX has no kernel of ours: it compiles the plain graphs. Registering with JAX would need JAX to be imported.
@node_rewriter([CompiledOp])
def _expand_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    return list(node.op.plain(*node.inputs))


optdb.register("expand_compiled_ops_for_jax", in2out(_expand_for_jax), "jax", position=1.9)


class ValueAndGradient(CompiledOp):
    """A log-likelihood and its gradient with respect to one of the inputs."""

    default_output = 0

    @abstractmethod
    def value(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes, for second derivatives and JAX."""

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return value and gradient as graphs of elementary nodes."""
        value = self.value(*inputs)
        return [value, pt.grad(value, inputs[self.differentiable[0]])]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of value and gradient."""
        return [(), shapes[self.differentiable[0]]]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the gradient that the node has already; second derivatives come from the plain graph."""
        (place,), (by_value, by_gradient) = self.differentiable, cotangents
        pulled = pt.zeros_like(inputs[place])
        if not isinstance(by_value.type, DisconnectedType):
            pulled += by_value * outputs[1]
        if not isinstance(by_gradient.type, DisconnectedType):
            slope = pt.grad(self.value(*inputs), inputs[place])
            pulled += pt.grad((slope * by_gradient).sum(), inputs[place], consider_constant=[by_gradient])
        return [pulled if i == place else disconnected_type() for i in range(len(inputs))]


class EvidenceLogLikelihood(ValueAndGradient):
    """The log-likelihood of evidence, a weighted sum of terms, and its gradient with respect to θ, the first input.

    Parameters
    ----------
    on_simplex : bool, default False
        Whether the value is −inf for a θ off the simplex. Without it, the value extends to all non-negative
        vectors as in `adobest_pp.likelihood.core`, so that finite differences of it are its gradient.

    Attributes
    ----------
    weights : int
        The place of the input that has the weight of each term.
    """

    __props__ = ("on_simplex",)
    differentiable = (0,)
    version = KERNEL_VERSION
    weights: int

    def __init__(self, on_simplex: bool = False) -> None:
        self.on_simplex = on_simplex

    @abstractmethod
    def logs(self, *inputs: Variable) -> TensorVariable:
        """Return the logarithm of each term, without its scale, as a graph of elementary nodes."""

    @abstractmethod
    def scales(self, *inputs: Variable) -> TensorVariable:
        """Return the logarithm of the scale of each term."""

    def value(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes."""
        return (inputs[self.weights] * self.logs(*inputs)).sum()


class PointwiseTerms(CompiledOp):
    """The log-likelihood of every response: that of its term in an `EvidenceLogLikelihood`.

    Inputs are those of the `total`, and the term of each response. The weights must be how many responses each term
    has, since a sum over the output is rewritten to the total.
    """

    differentiable = (0,)
    version = KERNEL_VERSION
    total: EvidenceLogLikelihood

    def make_node(self, *inputs: Any) -> Apply:
        """Check and convert the inputs."""
        terms = as_tensor(inputs[-1], "index", "int64")
        converted = [*self.total.make_node(*inputs[:-1]).inputs, terms]
        return Apply(self, converted, [pt.tensor(dtype="float64", shape=terms.type.shape)])

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the terms as a graph of elementary nodes."""
        *rest, index = inputs
        return [(self.total.logs(*rest) + self.total.scales(*rest))[index]]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the number of responses."""
        return [shapes[-1]]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the gradient of the total with the cotangents, gathered by term, as weights."""
        *rest, index = inputs
        rest[self.total.weights] = pt.zeros(rest[self.total.weights].shape)[index].inc(cotangents[0])
        _, slope = self.total.make_node(*rest).outputs
        return [slope, *(disconnected_type() for _ in inputs[1:])]


@register_canonicalize
@node_rewriter([Sum])
def collapse_sum_of_pointwise(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Turn a sum over responses into the sum over terms."""
    (terms,) = node.inputs
    if terms.owner is None or not isinstance(terms.owner.op, PointwiseTerms):
        return None
    (*inputs, _), total = terms.owner.inputs, terms.owner.op.total
    return [total(*inputs) + (inputs[total.weights] * total.scales(*inputs)).sum()]


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
_EVIDENCE = "(u),(u),(u),(u),(u),(u),(u),(m),(o),(d,k),(t,v),(s)"
# Places among the inputs, of which θ is the first.
_COUNT, _SCALE = (1 + Evidence._fields.index(name) for name in ("count", "log_scale"))
_N_ARRAYS = len(Evidence._fields)


def as_tensor(value: Any, name: str, dtype: str | None = None) -> TensorVariable:
    """Return numbers as a tensor, or raise ValueError that names the argument."""
    try:
        tensor = pt.as_tensor(value)
        return tensor if dtype is None else tensor.astype(dtype)
    except Exception:  # PyTensor raises errors of several types
        raise ValueError(f"{name} must be numbers or a tensor of PyTensor, got {brief(value)}") from None


def check_evidence(evidence: Any) -> Evidence:
    """Return evidence, or raise ValueError."""
    if not isinstance(evidence, Evidence):
        raise ValueError(f"evidence must be an Evidence, such as from Responses.evidence, got {brief(evidence)}")
    return evidence


def _theta(theta: Any, shape: str) -> TensorVariable:
    tensor = as_tensor(theta, "theta", "float64")
    if tensor.ndim != {"vector": 1, "matrix": 2}[shape]:
        raise ValueError(f"theta must be a {shape} of category probabilities, got {tensor.ndim} dimensions")
    return tensor


def _evidence_tensors(evidence: Sequence[Any]) -> list[TensorVariable]:
    """Return the arrays of an `Evidence` as tensors of its types, or raise ValueError."""
    tensors = [pt.as_tensor(part) for part in evidence]
    if [tensor.ndim for tensor in tensors] != [ndim for _, ndim in _EVIDENCE_TYPES]:
        raise ValueError(f"evidence must be the {len(_EVIDENCE_TYPES)} arrays of an Evidence")
    pairs = zip(tensors, _EVIDENCE_TYPES, strict=True)
    return [tensor.astype(dtype) if dtype else tensor for tensor, (dtype, _) in pairs]


# One θ for all responses.
#
# `MarginalLogLikelihood` is the density that samplers see: one node with ln P(answers | θ) and its gradient, from the
# compiled kernel of `adobest_pp.likelihood`, at the cost of the distinct rows of evidence. `PointwiseLogLikelihood`
# has one term per response, for model comparison; a sum over it is rewritten into the former before gradients are
# taken, so a model written PyMC's elementwise way does not pay for n responses.


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


class MarginalLogLikelihood(EvidenceLogLikelihood):
    """The marginal log-likelihood of evidence and its gradient with respect to θ, in one pass over the rows.

    Inputs are θ and the arrays of `Evidence`; `count` may also be real weights. The scales of the rows are left out.
    """

    gufunc_signature = f"(k),{_EVIDENCE}->(),(k)"
    kernels, weights = (_marginal, _marginal_on_simplex), _COUNT

    def make_node(self, theta: Any, *evidence: Any) -> Apply:
        """Check and convert the inputs."""
        vector = _theta(theta, "vector")
        return Apply(self, [vector, *_evidence_tensors(evidence)], [pt.dscalar(), vector.type()])

    def logs(self, *inputs: Variable) -> TensorVariable:
        """Return ln h of every row of evidence."""
        # h of likelihood/core.py once more, as a graph: JAX and second derivatives have no other. A test compares them.
        theta, base, own, inside, _, category, set_index, _, members, offsets, patterns, _, structure = inputs
        set_of_member = pt.searchsorted(offsets, pt.arange(members.shape[0]), side="right") - 1
        sets = pt.zeros(offsets.shape[0] - 1)[set_of_member].inc(theta[members])
        # One set more, of mass 0, is what the set index −1 of rows without a set points to.
        structured = [] if (masks := _masks_of(structure, patterns)) is None else [masks @ theta]
        masses = pt.concatenate([sets, (patterns * theta).sum(axis=1), *structured, pt.zeros(1)])
        logs = pt.log(base * theta.sum() + own * theta[category] + inside * masses[set_index])
        return pt.switch(_is_simplex(theta), logs, -np.inf) if self.on_simplex else logs

    def scales(self, *inputs: Variable) -> TensorVariable:
        """Return the logarithm of the scale of every row."""
        return inputs[_SCALE]


class PointwiseLogLikelihood(PointwiseTerms):
    """The log-likelihood of every response: that of its row of evidence, which is the last input."""

    gufunc_signature = f"(k),{_EVIDENCE},(n)->(n)"
    kernels, total = (_pointwise,), MarginalLogLikelihood(on_simplex=True)


# The most entries of support sets that a plain graph lays out.
_MOST_ENTRIES = 1 << 24


def _masks_of(structure: Variable, patterns: Variable) -> Floats | None:
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


def _is_simplex(theta: TensorVariable) -> TensorVariable:
    """Tell whether each row of θ is on the simplex."""
    return (pt.abs(theta.sum(axis=-1) - 1) <= SIMPLEX_TOLERANCE) & (theta.min(axis=-1) >= -SIMPLEX_TOLERANCE)


# Several rows of θ: one for each group, or one for each response.
#
# The same two nodes, on the pairs (group, row of evidence) of `adobest_pp.likelihood.core`.


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


class PairsLogLikelihood(EvidenceLogLikelihood):
    """The log-likelihood of weighted pairs and its gradient with respect to θ (G, K), in one pass.

    Inputs are θ, the arrays of `Evidence`, and group, row and weight of each pair: distinct, sorted by group and row.
    The scales of the rows are left out. On the simplex means that θ of every group with responses is.
    """

    gufunc_signature = f"(g,k),{_EVIDENCE},(p),(p),(p)->(),(g,k)"
    kernels, weights = (_pairs, _pairs_on_simplex), -1

    def make_node(self, theta: Any, *arguments: Any) -> Apply:
        """Check and convert the inputs."""
        matrix = _theta(theta, "matrix")
        group, row, weight = map(pt.as_tensor, arguments[_N_ARRAYS:])
        places = [group.astype("int64"), row.astype("int64"), weight]
        inputs = [matrix, *_evidence_tensors(arguments[:_N_ARRAYS]), *places]
        return Apply(self, inputs, [pt.dscalar(), matrix.type()])

    def logs(self, *inputs: Variable) -> TensorVariable:
        """Return ln h of every pair, from rows written out."""
        theta, base, own, inside, _, category, set_index, _, members, offsets, patterns, _, structure, *places = inputs
        group, row, _ = places
        set_of_member = pt.searchsorted(offsets, pt.arange(members.shape[0]), side="right") - 1
        sets = pt.zeros((offsets.shape[0] - 1, patterns.shape[1]))[set_of_member, members].set(1.0)
        # One set more, the empty one, is what the set index −1 of rows without a set points to.
        structured = [] if (masks := _masks_of(structure, patterns)) is None else [masks]
        sets = pt.concatenate([sets, patterns, *structured, pt.zeros((1, patterns.shape[1]))])
        rows = base[:, None] + inside[:, None] * sets[set_index]
        rows = rows[pt.arange(base.shape[0]), category].inc(own)
        logs = pt.log((rows[row] * theta[group]).sum(axis=1))
        return pt.switch(_is_simplex(theta)[group], logs, -np.inf) if self.on_simplex else logs

    def scales(self, *inputs: Variable) -> TensorVariable:
        """Return the logarithm of the scale of the row of every pair."""
        return inputs[_SCALE][inputs[-2]]


class PointwisePairsLogLikelihood(PointwiseTerms):
    """The log-likelihood of every response: that of its pair, which is the last input."""

    gufunc_signature = f"(g,k),{_EVIDENCE},(p),(p),(p),(n)->(n)"
    kernels, total = (_pointwise_pairs,), PairsLogLikelihood(on_simplex=True)
