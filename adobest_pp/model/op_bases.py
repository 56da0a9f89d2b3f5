"""What the nodes of a log-likelihood have in common: value and gradient in one pass, or one term per response."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.variable import TensorVariable

__all__ = ["PointwiseTerms", "ValueAndGradient"]


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
