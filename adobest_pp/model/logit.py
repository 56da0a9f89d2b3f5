"""θ of each person from public covariates: the multinomial logit, and with the likelihood of answers, as one node."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.basic import Add, Mul, Sub
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.math import Dot
from pytensor.tensor.rewriting.basic import register_canonicalize
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.tensor.special import Softmax
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import as_numbers
from adobest_pp._text import brief
from adobest_pp._types import Integers
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood import logit as kernel
from adobest_pp.model import simplex
from adobest_pp.model.ops import CompiledOp, PairsLogLikelihood, ValueAndGradient, Variables, as_tensor, source_version
from adobest_pp.model.simplex import write_zero_sum

_VERSION = source_version(simplex.__file__, __file__)


def multinomial_logit(covariates: Any, coefficients: Any) -> TensorVariable:
    """Return θ of each person, the softmax of an intercept and the covariates times coefficients, of shape (n, K).

    Parameters
    ----------
    covariates : array or pymc.Data of shape (n, P)
        Public numbers, one row per person. Sampling is easier if they are centered and scaled. None may be missing.
    coefficients : tensor, shape (1 + P, K)
        The intercepts of the K categories first, then those of each covariate. A constant added to all K of a row
        changes nothing: use `zero_sum`, or fix those of one category at zero.

    Notes
    -----
    ``pymc.math.softmax(a + X @ b, axis=-1)``, and other softmaxes of predictors that are linear in what is sampled,
    give the same density in the same time: in `PrivateResponse` each is rewritten to one node that keeps no θ.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> theta = ad.model.multinomial_logit([[0.0], [1.0]], [[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]])
    >>> theta.eval(mode="FAST_COMPILE").round(3)
    array([[0.333, 0.333, 0.333],
           [0.665, 0.245, 0.09 ]])
    """
    if isinstance(covariates, Variable):
        table, n_covariates = pt.as_tensor(covariates).astype("float64"), covariates.type.shape[-1]
        columns = pt.concatenate([pt.ones((1, table.shape[0])), table.T], axis=0)
    else:
        table = check_covariates(covariates)
        n_covariates, columns = table.shape[1], np.ascontiguousarray(np.vstack([np.ones(len(table)), table.T]))
    weights = as_tensor(coefficients, "coefficients", "float64")
    if weights.ndim != 2 or (n_covariates is not None and weights.type.shape[0] not in (None, 1 + n_covariates)):
        got = "×".join(map(str, weights.type.shape)) or "one number"
        rows = f"{'' if n_covariates is None else 1 + n_covariates} rows, the intercepts and one a covariate"
        raise ValueError(f"coefficients must be a matrix with {rows}, got {got}")
    return MultinomialLogit()(columns, weights)


def zero_sum(free: Any) -> TensorVariable:
    """Return rows of K numbers that sum to zero, given K−1 free ones each: independent normals stay normal.

    The free numbers are coordinates in an orthonormal basis, so ``pymc.Normal(sigma=s)`` on them is
    ``pymc.ZeroSumNormal(sigma=s)`` on the result, in one node that compiles fast.

    Parameters
    ----------
    free : tensor, shape (P, K−1)
        Free coordinates.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.model.zero_sum([[1.0, 0.0]]).eval(mode="FAST_COMPILE").round(3)
    array([[ 0.789, -0.211, -0.577]])
    """
    matrix = as_tensor(free, "free", "float64")
    if matrix.ndim != 2:
        raise ValueError(
            f"free must be a matrix, one row for each list that sums to zero, got {matrix.ndim} dimensions"
        )
    return ZeroSum()(matrix)


def check_covariates(covariates: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return covariates as a table of finite numbers (n, P), or raise ValueError."""
    allowed = "a table of finite numbers, one row a person and one column a covariate"
    try:
        table = as_numbers(covariates, "biuf").astype(np.float64)
    except TypeError:
        raise ValueError(f"covariates must be {allowed}, got {brief(covariates)}") from None
    if table.ndim != 2:
        raise ValueError(f"covariates must be {allowed}, got an array of shape {table.shape}")
    wrong = ~np.isfinite(table)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(f"covariates must be {allowed}, got {table[row, column]} in row {row}, column {column}")
    return table


@njit(cache=True)
def _to_zero_sum(free):  # type: ignore[no-untyped-def]
    out = np.empty((len(free), free.shape[1] + 1))
    for p in range(len(free)):
        write_zero_sum(free[p], out[p])
    return out


@njit(cache=True)
def _to_free(by_sum):  # type: ignore[no-untyped-def]
    k = by_sum.shape[1]
    root = np.sqrt(k)
    out = np.empty((len(by_sum), k - 1))
    for p in range(len(by_sum)):
        shared = by_sum[p, k - 1] / root
        for c in range(k - 1):
            shared += by_sum[p, c] / (root + k)
        for c in range(k - 1):
            out[p, c] = by_sum[p, c] - shared
    return out


class ZeroSum(CompiledOp):
    """Rows (P, K) that sum to zero, given their coordinates (P, K−1) in an orthonormal basis; or the transpose."""

    __props__ = ("transposed",)
    kernels, version, differentiable = (_to_zero_sum, _to_free), _VERSION, (0,)

    def __init__(self, transposed: bool = False) -> None:
        self.transposed = transposed

    def make_node(self, matrix: Any) -> Apply:
        """Return one column more, or one less."""
        given = pt.as_tensor(matrix).astype("float64")
        rows, columns = given.type.shape
        columns = None if columns is None else columns + (-1 if self.transposed else 1)
        return Apply(self, [given], [pt.tensor(dtype="float64", shape=(rows, columns))])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return one column more, or one less."""
        return [(shapes[0][0], shapes[0][1] + (-1 if self.transposed else 1))]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the transpose of a linear map."""
        return [ZeroSum(not self.transposed)(cotangents[0])]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the output as a graph of elementary nodes."""
        (matrix,) = inputs
        k = (matrix.shape[1] + (0 if self.transposed else 1)).astype("float64")
        root = pt.sqrt(k)
        if self.transposed:
            first, last = matrix[:, :-1], matrix[:, -1:]
            return [first - first.sum(axis=1, keepdims=True) / (root + k) - last / root]
        total = matrix.sum(axis=1, keepdims=True)
        return [pt.concatenate([matrix - total / (root + k), -total / root], axis=1)]


@njit(cache=True)
def _logit(columns, weights):  # type: ignore[no-untyped-def]
    n, k = columns.shape[1], weights.shape[1]
    theta = np.empty((n, k))
    for i in range(n):
        largest = -np.inf
        for c in range(k):
            logit = 0.0
            for j in range(len(columns)):
                logit += columns[j, i] * weights[j, c]
            theta[i, c] = logit
            largest = max(largest, logit)
        total = 0.0
        for c in range(k):
            theta[i, c] = np.exp(theta[i, c] - largest)
            total += theta[i, c]
        for c in range(k):
            theta[i, c] /= total
    return theta


@njit(cache=True)
def _logit_pullback(columns, theta, by_theta):  # type: ignore[no-untyped-def]
    n, k = theta.shape
    pulled = np.zeros((len(columns), k))
    for i in range(n):
        mean = 0.0
        for c in range(k):
            mean += theta[i, c] * by_theta[i, c]
        for c in range(k):
            by_logit = theta[i, c] * (by_theta[i, c] - mean)
            for j in range(len(columns)):
                pulled[j, c] += columns[j, i] * by_logit
    return pulled


class MultinomialLogit(CompiledOp):
    """θ (n, K), given the covariates as columns (P, n) and the weights (P, K)."""

    kernels, version, differentiable = (_logit,), _VERSION, (0, 1)

    def make_node(self, columns: Any, weights: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part).astype("float64") for part in (columns, weights)]
        shape = inputs[0].type.shape[1], inputs[1].type.shape[1]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=shape)])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of θ."""
        return [(shapes[0][1], shapes[1][1])]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the derivative with respect to the weights as a node, that of the covariates as a plain graph."""
        by_logits = outputs[0] * (cotangents[0] - (outputs[0] * cotangents[0]).sum(axis=1, keepdims=True))
        return [inputs[1] @ by_logits.T, LogitPullback()(inputs[0], outputs[0], cotangents[0])]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the output as a graph of elementary nodes."""
        columns, weights = inputs
        return [pt.special.softmax(columns.T @ weights, axis=1)]


class LogitPullback(CompiledOp):
    """The gradient with respect to the weights, given the covariates, θ and the gradient with respect to θ."""

    kernels, version, differentiable = (_logit_pullback,), _VERSION, (0, 1, 2)

    def make_node(self, columns: Any, theta: Any, by_theta: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part).astype("float64") for part in (columns, theta, by_theta)]
        shape = inputs[0].type.shape[0], inputs[1].type.shape[1]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=shape)])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of the weights."""
        return [(shapes[0][0], shapes[1][1])]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the output as a graph of elementary nodes."""
        columns, theta, by_theta = inputs
        return [columns @ (theta * (by_theta - (theta * by_theta).sum(axis=1, keepdims=True)))]


# A multinomial logit and the likelihood of private answers as one PyTensor node: what a regression samples with.
#
# Users do not build it. Where `multinomial_logit`, or the softmax of a linear predictor, is in `PrivateResponse`, a
# rewrite replaces the density by this node.

# The largest size of the rows written out, relative to that of θ. Beyond it, θ is computed and the sets are used.
MOST_ROWS = 0.25


class LogitLogLikelihood(ValueAndGradient):
    """The log-likelihood of a multinomial logit, and its gradient with respect to the weights.

    Inputs are those of `logit_value_and_gradient` in `adobest_pp.likelihood.logit`; or, for covariates that are data
    and so not yet in the order of the answers, those of `unsorted_value_and_gradient`.
    """

    __props__ = ("is_sorted",)
    kernels = kernel.unsorted_value_and_gradient, kernel.logit_value_and_gradient
    version, differentiable = source_version(kernel.__file__, __file__), (1,)

    def __init__(self, is_sorted: bool = True) -> None:
        self.is_sorted = is_sorted

    def make_node(self, columns: Any, weights: Any, *rest: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part) for part in (columns, weights, *rest)]
        return Apply(self, inputs, [pt.dscalar(), inputs[1].type()])

    def value(self, *inputs: Variable) -> TensorVariable:
        """Return the value as a graph of elementary nodes."""
        columns, weights, ends, rows, last = inputs
        table = columns if self.is_sorted else columns[:, last]
        row = pt.searchsorted(ends, pt.arange(table.shape[1]), side="right")
        logits = weights[0] + table[: weights.shape[0] - 1].T @ weights[1:]
        return pt.log((rows[row] * pt.special.softmax(logits, axis=1)).sum(axis=1)).sum()


@register_canonicalize
@node_rewriter([PairsLogLikelihood])
def fuse_logit(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Turn the log-likelihood of the softmax of a linear predictor into one node, if only its value is used."""
    theta, *arguments = node.inputs
    if fgraph.clients[node.outputs[1]] or not all(isinstance(part, Constant) for part in arguments):
        return None
    *arrays, group, row, weight = (part.data for part in arguments)
    n, evidence = group.size, Evidence(*arrays)
    if not np.array_equal(group, np.arange(n)) or not (weight == 1).all() or evidence.n_rows > MOST_ROWS * n:
        return None
    rows = evidence.matrix()
    if rows.min() < kernel.SAFE_ENTRY or rows.max() > 1 / kernel.SAFE_ENTRY:
        return None
    terms = _predictor_of(theta)
    if not terms:
        return None
    intercepts = [weights for columns, weights in terms if columns is None]
    parts = [(columns, weights) for columns, weights in terms if columns is not None]
    intercept = sum(intercepts[1:], intercepts[0]) if intercepts else pt.zeros_like(parts[0][1][:1])
    weights = pt.concatenate([intercept, *(each for _, each in parts)], axis=0)
    order, ends = np.argsort(row, kind="stable"), np.cumsum(np.bincount(row, minlength=len(rows)))
    covariates, reach = _covariates([columns for columns, _ in parts], order)
    if reach is None:
        return [LogitLogLikelihood(is_sorted=False)(covariates, weights, ends, rows, order), node.outputs[1]]
    return [LogitLogLikelihood()(covariates, weights, ends, rows, reach), node.outputs[1]]


# A term of a linear predictor: covariates (P, n) that do not depend on what is sampled, and their weights (P, K).
# Without covariates it is an intercept, whose weights are (1, K).
Term = tuple[Any, TensorVariable]


def _predictor_of(theta: Variable) -> list[Term] | None:
    """Return the terms of the predictor whose softmax θ is, or None if it is not linear in what is sampled."""
    node = theta.owner
    if node is not None and isinstance(node.op, SpecifyShape):
        node = node.inputs[0].owner
    if node is None:
        return None
    if isinstance(node.op, MultinomialLogit):
        columns, weights = node.inputs
        return [(None, weights[:1]), (columns[1:], weights[1:])] if _is_data(columns) else None
    if isinstance(node.op, Softmax) and node.op.axis in (1, (1,)) and node.inputs[0].ndim == 2:
        return _terms(node.inputs[0])
    return None


def _terms(logits: Variable) -> list[Term] | None:
    """Return the terms of a predictor (n, K): sums, products with data, and concatenated columns."""
    by_person, by_category = (not each for each in logits.type.broadcastable)
    if not by_category:
        return []  # the same number for all categories changes no share
    if not by_person:
        return [(None, logits)]
    node = logits.owner
    operation = getattr(getattr(node, "op", None), "scalar_op", None) if node else None
    if isinstance(operation, Add | Sub):
        terms: list[Term] = []
        for place, each in enumerate(node.inputs):
            found = _terms(each)
            if found is None:
                return None
            sign = -1 if isinstance(operation, Sub) and place else 1
            terms += [(columns, sign * weights) for columns, weights in found]
        return terms
    if isinstance(operation, Mul):
        people = [each for each in node.inputs if not each.type.broadcastable[0]]
        factor = _product([each for each in node.inputs if each.type.broadcastable[0]])
        if len(people) == 1 and not people[0].type.broadcastable[1]:
            found = _terms(people[0])
            return None if found is None else [(columns, factor * weights) for columns, weights in found]
        column = _product(people)
        if column.type.broadcastable[1] and not factor.type.broadcastable[1] and _is_data(column):
            return [(column.T, factor)]
    if node is not None and isinstance(node.op, Dot) and _is_data(node.inputs[0]):
        return [(node.inputs[0].T, node.inputs[1])]
    if node is not None and isinstance(node.op, Alloc) and node.inputs[0].ndim in (1, 2):
        return _terms(pt.atleast_2d(node.inputs[0]))
    return _joined_terms(logits)


def _joined_terms(logits: Variable) -> list[Term] | None:
    """Return the terms of concatenated columns, such as zeros for a category of reference."""
    node = logits.owner
    if node is None or not isinstance(node.op, Join) or node.op.axis != 1:
        return None
    parts = node.inputs
    terms: list[Term] = []
    for place, part in enumerate(parts):
        if _is_zero(part):
            continue
        found = [] if part.type.broadcastable[1] else _terms(part)
        if not found:
            return None
        for columns, weights in found:
            beside = [pt.zeros((weights.shape[0], each.shape[1])) for each in parts]
            beside[place] = weights
            terms.append((columns, pt.concatenate(beside, axis=1)))
    return terms


def _product(factors: Sequence[Variable]) -> TensorVariable:
    return pt.mul(*factors) if len(factors) > 1 else factors[0] if factors else pt.ones((1, 1))


def _is_zero(variable: Variable) -> bool:
    """Tell whether a graph is known to be zeros, of any length."""
    if variable.owner is not None and isinstance(variable.owner.op, Alloc):
        variable = variable.owner.inputs[0]
    (value,) = constant_fold([variable], raise_not_constant=False)
    return not isinstance(value, Variable) and not np.any(value)


def _is_data(variable: Variable) -> bool:
    """Tell whether a graph is made of constants and `pymc.Data` alone."""
    return all(isinstance(each, Constant | TensorSharedVariable) for each in graph_inputs([variable]))


def _covariates(columns: Sequence[Variable], order: Integers) -> tuple[Any, Any]:
    """Return covariates in the order of the people, with rows of zeros up to a multiple of four, and their reach.

    Data are returned as they are, without reach.
    """
    n = order.size
    if not columns:
        return np.zeros((0, n)), np.zeros(0)
    parts = [each.astype("float64") for each in columns]
    table = pt.concatenate(parts, axis=0) if len(parts) > 1 else parts[0]
    try:
        (values,) = constant_fold([table])
    except NotConstantValueError:
        return pt.specify_shape(table, (None, n)), None
    covariates = values[:, order]
    padded = np.zeros((-(-len(covariates) // 4) * 4, n))
    padded[: len(covariates)] = covariates
    return padded, np.abs(covariates).max(axis=1, initial=0.0)
