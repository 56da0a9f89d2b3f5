"""Unconstrained coordinates of the simplex: θ is the softmax of a vector that sums to zero.

Such a vector has K−1 coordinates in an orthonormal basis, so distances are kept and no category is special. PyMC's
own transform is a dozen small graphs, which take Numba longer to compile than the rest of a model of frequencies. Here
the transform is one node, and its derivative another.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pymc.logprob.transforms import Transform
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.variable import TensorVariable

from adobest_pp.model.ops import CompiledOp, Variables, source_version

_KERNEL_VERSION = source_version(__file__)


@njit(cache=True)
def write_zero_sum(free, out):  # type: ignore[no-untyped-def]
    """Write the K numbers with a sum of zero that have these K−1 coordinates into `out`."""
    n = out.size
    root = np.sqrt(n)
    total = 0.0
    for i in range(n - 1):
        total += free[i]
    for i in range(n - 1):
        out[i] = free[i] - total / (root + n)
    out[n - 1] = -total / root


@njit(cache=True)
def log_theta(free):  # type: ignore[no-untyped-def]
    """Return ln θ from its K−1 free coordinates."""
    n = free.size + 1
    logits = np.empty(n)
    write_zero_sum(free, logits)
    largest = logits[n - 1]
    for i in range(n - 1):
        largest = max(largest, logits[i])
    scale = 0.0
    for i in range(n):
        scale += np.exp(logits[i] - largest)
    shift = largest + np.log(scale)
    for i in range(n):
        logits[i] -= shift
    return logits


@njit(cache=True)
def pull_to_free(by_log_theta, theta):  # type: ignore[no-untyped-def]
    """Return the gradient with respect to the free coordinates, given the one with respect to each ln θ_i."""
    n = theta.size
    root = np.sqrt(n)
    total = by_log_theta.sum()
    last = by_log_theta[n - 1] - total * theta[n - 1]
    # With respect to the logits the gradient is d − θΣd, which sums to zero; the transpose of the basis comes next.
    by_free = np.empty(n - 1)
    for i in range(n - 1):
        by_free[i] = by_log_theta[i] - total * theta[i] + last / (root + n) - last / root
    return by_free


@njit(cache=True)
def _softmax(free):  # type: ignore[no-untyped-def]
    theta = log_theta(free)
    log_jacobian = 0.5 * np.log(theta.size)
    for i in range(theta.size):
        log_jacobian += theta[i]
        theta[i] = np.exp(theta[i])
    return theta, np.asarray(log_jacobian)


@njit(cache=True)
def _pullback(theta, by_theta, by_jacobian):  # type: ignore[no-untyped-def]
    by_log_theta = np.empty(theta.size)
    for i in range(theta.size):
        by_log_theta[i] = by_theta[i] * theta[i] + by_jacobian.item()
    return pull_to_free(by_log_theta, theta)


class SimplexSoftmax(CompiledOp):
    """θ, and the log-determinant of its Jacobian, as functions of the free coordinates."""

    default_output = 0
    kernels, version, differentiable = (_softmax,), _KERNEL_VERSION, (0,)

    def make_node(self, free: Any) -> Apply:
        """Give θ one element more than there are coordinates."""
        vector = pt.as_tensor(free).astype("float64")
        (length,) = vector.type.shape
        theta = pt.tensor(dtype="float64", shape=(None if length is None else length + 1,))
        return Apply(self, [vector], [theta, pt.dscalar()])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of θ and of a scalar."""
        return [(shapes[0][0] + 1,), ()]

    def pullback(self, inputs: Variables, outputs: Variables, cotangents: Variables) -> list[Variable]:
        """Return the derivative as a node of its own."""
        by_theta, by_jacobian = cotangents
        if isinstance(by_theta.type, DisconnectedType):
            by_theta = pt.zeros_like(outputs[0])
        if isinstance(by_jacobian.type, DisconnectedType):
            by_jacobian = pt.constant(0.0)
        return [SimplexPullback()(outputs[0], by_theta, by_jacobian)]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the outputs as graphs of elementary nodes."""
        (free,) = inputs
        n = (free.shape[0] + 1).astype("float64")
        total = free.sum()
        logits = pt.concatenate([free - total / (pt.sqrt(n) + n), [-total / pt.sqrt(n)]])
        logs = logits - pt.logsumexp(logits)
        return [pt.exp(logs), logs.sum() + 0.5 * pt.log(n)]


class SimplexPullback(CompiledOp):
    """The gradient with respect to the free coordinates, given those with respect to θ and the log-determinant."""

    kernels, version, differentiable = (_pullback,), _KERNEL_VERSION, (0, 1, 2)

    def make_node(self, theta: Any, by_theta: Any, by_jacobian: Any) -> Apply:
        """Return one element less than θ has."""
        inputs = [pt.as_tensor(part).astype("float64") for part in (theta, by_theta, by_jacobian)]
        (length,) = inputs[0].type.shape
        return Apply(self, inputs, [pt.tensor(dtype="float64", shape=(None if length is None else length - 1,))])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return one element less than θ has."""
        return [(shapes[0][0] - 1,)]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the output as a graph of elementary nodes."""
        theta, by_theta, by_jacobian = inputs
        n = theta.shape[0].astype("float64")
        by_log_theta = by_theta * theta + by_jacobian
        by_logits = by_log_theta - theta * by_log_theta.sum()
        return [by_logits[:-1] + by_logits[-1] * (1 / (pt.sqrt(n) + n) - 1 / pt.sqrt(n))]


class OrthonormalSimplex(Transform):
    """The transform for `default_transform=` of a Dirichlet variable."""

    name = "simplex"
    ndim_supp = 1

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the free coordinates of θ."""
        theta = pt.as_tensor(value)
        logs = pt.log(theta.astype("float64"))
        n = logs.shape[-1].astype("float64")
        centered = logs - logs.mean(axis=-1, keepdims=True)
        return (centered[..., :-1] - centered[..., -1:] / (1 + pt.sqrt(n))).astype(theta.dtype)

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return θ."""
        free = pt.as_tensor(value)
        return SimplexSoftmax()(free).astype(free.dtype)

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the log-determinant of the Jacobian of the first K−1 elements of θ: Σ ln θ + ½ ln K."""
        free = pt.as_tensor(value)
        return SimplexSoftmax().make_node(free).outputs[1].astype(free.dtype)


simplex = OrthonormalSimplex()
