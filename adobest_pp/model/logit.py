"""θ of each person from public covariates: the multinomial logit, as one PyTensor node that compiles fast."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import as_numbers
from adobest_pp._text import brief
from adobest_pp.model.ops import source_version

__all__ = ["check_covariates", "multinomial_logit"]

_VERSION = source_version(__file__)


def multinomial_logit(covariates: Any, coefficients: Any, intercept: Any) -> TensorVariable:
    """Return θ of each person, the softmax of ``intercept + covariates · coefficients``, of shape (n, K).

    Parameters
    ----------
    covariates : array of shape (n, P)
        Public numbers, one row a person; centered and scaled they make sampling easier. None may be missing.
    coefficients : tensor, shape (P, K)
        One for each covariate and category. A constant added to all K of a covariate changes nothing: give them a prior
        that sums to zero (`pymc.ZeroSumNormal`), or fix those of one category at zero.
    intercept : tensor, shape (K,)
        The logits of a person whose covariates are zero.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> theta = ad.model.multinomial_logit([[0.0], [1.0]], [[1.0, 0.0, -1.0]], [0.0, 0.0, 0.0])
    >>> theta.eval(mode="FAST_COMPILE").round(3)
    array([[0.333, 0.333, 0.333],
           [0.665, 0.245, 0.09 ]])
    """
    table = check_covariates(covariates)
    columns = np.ascontiguousarray(np.vstack([np.ones(len(table)), table.T]))
    weights = pt.as_tensor(coefficients).astype("float64")
    if weights.ndim != 2 or weights.type.shape[0] not in (None, table.shape[1]):
        got = "×".join(map(str, weights.type.shape)) or "one number"
        raise ValueError(f"coefficients must be a matrix with {table.shape[1]} rows, one a covariate, got {got}")
    constant = pt.as_tensor(intercept).astype("float64")
    if constant.ndim != 1:
        raise ValueError(f"intercept must be a vector with one number a category, got {constant.ndim} dimensions")
    return MultinomialLogit()(columns, pt.concatenate([constant[None], weights]))


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


class MultinomialLogit(Op):
    """θ (n, K), given the covariates as columns (P, n) and the weights (P, K)."""

    __props__ = ()

    def make_node(self, columns: Any, weights: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part).astype("float64") for part in (columns, weights)]
        shape = inputs[0].type.shape[1], inputs[1].type.shape[1]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=shape)])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        output_storage[0][0] = _logit(*inputs)

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of θ."""
        return [(shapes[0][1], shapes[1][1])]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the derivative with respect to the weights as a node, that of the covariates as a plain graph."""
        by_logits = outputs[0] * (cotangents[0] - (outputs[0] * cotangents[0]).sum(axis=1, keepdims=True))
        return [inputs[1] @ by_logits.T, LogitPullback()(inputs[0], outputs[0], cotangents[0])]


class LogitPullback(Op):
    """The gradient with respect to the weights, given the covariates, θ and the gradient with respect to θ."""

    __props__ = ()

    def make_node(self, columns: Any, theta: Any, by_theta: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part).astype("float64") for part in (columns, theta, by_theta)]
        shape = inputs[0].type.shape[0], inputs[1].type.shape[1]
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=shape)])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate by the compiled kernel."""
        output_storage[0][0] = _logit_pullback(*inputs)

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of the weights."""
        return [(shapes[0][0], shapes[1][1])]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return second derivatives, from the plain graph."""
        product = (_plain_pullback(*inputs) * cotangents[0]).sum()
        return list(pt.grad(product, list(inputs), consider_constant=list(cotangents)))


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


@register_funcify_default_op_cache_key(MultinomialLogit)
def _(op: MultinomialLogit, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return _logit, _VERSION


@register_funcify_default_op_cache_key(LogitPullback)
def _(op: LogitPullback, node: Apply | None = None, **_: Any) -> tuple[Callable[..., Any], int]:
    return _logit_pullback, _VERSION


@node_rewriter([MultinomialLogit, LogitPullback])
def _expand_for_jax(fgraph: Any, node: Apply) -> list[Variable]:
    return [(_plain_logit if isinstance(node.op, MultinomialLogit) else _plain_pullback)(*node.inputs)]


optdb.register("expand_logit_for_jax", in2out(_expand_for_jax), "jax", position=1.9)


def _plain_logit(columns: TensorVariable, weights: TensorVariable) -> TensorVariable:
    return pt.special.softmax(columns.T @ weights, axis=1)


def _plain_pullback(columns: TensorVariable, theta: TensorVariable, by_theta: TensorVariable) -> TensorVariable:
    return columns @ (theta * (by_theta - (theta * by_theta).sum(axis=1, keepdims=True)))
