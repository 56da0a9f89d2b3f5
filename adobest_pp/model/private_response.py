"""The PyMC distribution of randomized answers, as a user writes it in a model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pymc.exceptions import NotConstantValueError
from pymc.logprob.abstract import _logprob
from pymc.model import Model, modelcontext
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_probabilities
from adobest_pp._labels import same_labels
from adobest_pp._text import brief
from adobest_pp.data.responses import Responses
from adobest_pp.mechanisms import Mechanism, Published, drawing
from adobest_pp.model.ops import source_version
from adobest_pp.model.tensors import pointwise_log_likelihood

__all__ = ["PrivateResponse"]

_KERNEL_VERSION = source_version(drawing.__file__)


class PrivateResponseRV(RandomVariable):
    """Randomized answers of a mechanism.

    Parameters are θ, the row of each response's published subset, the subsets, and the mechanism's table for drawing.
    The mechanism is kept so that observed answers can be collapsed into evidence.
    """

    name = "PrivateResponse"
    dtype = "int64"
    _print_name = ("PrivateResponse", "\\operatorname{PrivateResponse}")
    __props__ = (*RandomVariable.__props__, "mechanism")

    def __init__(self, mechanism: Mechanism, **props: Any) -> None:
        self.mechanism = mechanism
        lengths = ",".join(map(str, mechanism.answer_dims.values()))
        super().__init__(signature=f"(k),(),(v,k),(a,b)->({lengths})", **props)

    def rng_fn(self, rng: np.random.Generator, *args: Any) -> NDArray[np.int64]:
        """Draw answers by `privatize`, if Numba is not the linker or the mechanism has no compiled function to draw."""
        theta, index, subsets, _, size = args
        k = theta.shape[-1]
        shape = np.broadcast_shapes(theta.shape[:-1], index.shape) if size is None else tuple(size)
        ends = np.cumsum(np.broadcast_to(theta, (*shape, k)).reshape(-1, k), axis=1)
        levels = rng.random(len(ends)) * ends[:, -1]
        truth = np.minimum((levels[:, None] >= ends).sum(axis=1), k - 1)
        rows, masks = np.broadcast_to(index, shape).ravel(), subsets.reshape(-1, k)
        lengths = tuple(self.mechanism.answer_dims.values())
        if not self.mechanism.publishes_subset:
            return np.asarray(self.mechanism.privatize(truth, rng=rng), dtype=np.int64).reshape(*shape, *lengths)
        answers = np.empty((truth.size, *lengths), dtype=np.int64)
        for row in np.unique(rows):
            answers[rows == row] = self.mechanism.privatize(truth[rows == row], subset=masks[row], rng=rng)
        return answers.reshape(*shape, *lengths)


class PrivateResponse(Discrete):
    """Randomized answers of people whose categories have probabilities θ.

    Parameters
    ----------
    name : str
        The name of the variable in the model.
    theta : tensor, shape (K,)
        Category probabilities, with any prior. Off the simplex the log-probability is −inf. A variable whose dimension
        has labels in the model is put in the order of ``responses.categories``; other labels raise ValueError.
    responses : Responses
        What was collected: answers, mechanism and published subsets.
    **kwargs
        Passed on to PyMC: ``dims`` above all, such as ``dims="response"``. Where an answer is several numbers, further
        dimensions are named as the mechanism names them if only the first is given.

    Notes
    -----
    Its value is the answers, as in ``responses.answers``. Random draws, as in predictive sampling, are answers of the
    same n people under the subsets that were published to them. The log-likelihood is one term per response where that
    is asked for; a density for sampling costs no more than the distinct rows of evidence, whatever n is.

    See Also
    --------
    adobest_pp.frequency_model : The usual model in one call.

    Examples
    --------
    >>> import adobest_pp as ad, numpy as np, pymc as pm
    >>> responses = ad.Responses.from_arrays(ad.SRR(3, epsilon=1.0), [0, 0, 2])
    >>> with pm.Model(coords={"category": responses.categories}) as model:
    ...     theta = pm.Dirichlet("theta", a=np.ones(3), dims="category")
    ...     y = ad.PrivateResponse("y", theta, responses, dims="response")
    """

    rv_type = PrivateResponseRV

    def __new__(cls, name: str, theta: Any, responses: Responses, **kwargs: Any) -> TensorVariable:
        """Add the observed answers to the model in context."""
        _check_responses(responses)
        answers = responses.answers
        dims = kwargs.pop("dims", None)
        if isinstance(dims, str) or (dims is not None and len(dims) == 1):
            dims = (*([dims] if isinstance(dims, str) else dims), *responses.mechanism.answer_dims)
        ordered = _in_response_order(theta, responses, modelcontext(None))
        return super().__new__(
            cls, name, ordered, responses, observed=answers, shape=answers.shape, dims=dims, **kwargs
        )

    @classmethod
    def dist(cls, theta: Any, responses: Responses, **kwargs: Any) -> TensorVariable:
        """Return the distribution outside of any model; its shape is that of the answers unless given."""
        _check_responses(responses)
        kwargs.setdefault("shape", responses.answers.shape)
        vector = _check_theta(theta, responses.n_categories)
        return super().dist((vector, responses), **kwargs)

    @classmethod
    def rv_op(cls, theta: TensorVariable, responses: Responses, *, size: Any = None, rng: Any = None) -> TensorVariable:
        """Build the random variable."""
        published = responses.subset_index, responses.subsets
        if not responses.mechanism.publishes_subset:
            published = np.zeros(len(responses), dtype=np.int64), np.zeros((1, responses.n_categories), dtype=bool)
        try:
            table = responses.mechanism.drawing().table
        except NotImplementedError:
            table = np.zeros((1, 1))
        op = PrivateResponseRV(responses.mechanism)
        generator = pt.random.shared_rng(seed=None) if rng is None else rng
        _, draws = op(theta, *published, table, size=size, rng=generator, return_next_rng=True)
        return draws


@_logprob.register(PrivateResponseRV)
def _(
    op: PrivateResponseRV, values: Sequence[Variable], rng: Variable, size: Variable, *parameters: Variable, **_: Any
) -> TensorVariable:
    theta, *rest = parameters
    if not all(theta.type.broadcastable[:-1]):
        raise NotImplementedError("PrivateResponse has a log-probability for one vector theta only, not for several")
    try:
        answers, index, subsets = constant_fold([values[0], *rest[:2]])
    except NotConstantValueError:
        raise NotImplementedError("PrivateResponse has a log-probability for observed answers only") from None
    mechanism = op.mechanism
    checked = mechanism.check_answers(answers)
    published = Published(np.broadcast_to(index, len(checked)), subsets.reshape(-1, mechanism.n_categories))
    vector = pt.specify_shape(theta.reshape((-1,)), mechanism.n_categories)
    return pointwise_log_likelihood(vector, *mechanism.evidence(checked, published))


def _check_responses(responses: Any) -> None:
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")


def _in_response_order(theta: Any, responses: Responses, model: Model) -> Any:
    """Return θ in the order of the responses, by the labels of the model, or raise ValueError."""
    categories = responses.categories
    if not isinstance(theta, Variable):
        return check_probabilities(theta, len(categories), categories=categories)
    dims = model.named_vars_to_dims.get(theta.name, ()) if model.named_vars.get(theta.name) is theta else ()
    labels = _labels_in(model, dims[-1]) if dims else None
    if labels is not None and not same_labels(labels, categories):
        raise ValueError(f"theta must have the categories {brief(categories)} of the responses, got {brief(labels)}")
    if labels is not None:
        in_order = labels == categories
        return theta if in_order else theta[..., [labels.index(label) for label in categories]]
    # An expression has no labels, but most likely the order of the variables that it is made of.
    for dim in {dim for each in ancestors([theta]) for dim in model.named_vars_to_dims.get(each.name, ())}:
        found = _labels_in(model, dim)
        if found is not None and found != categories and same_labels(found, categories):
            raise ValueError(
                f"theta must be in the order {brief(categories)} of the responses, got an expression of variables "
                f"whose dimension {dim!r} has the order {brief(found)}"
            )
    return theta


def _labels_in(model: Model, dim: str | None) -> tuple[str, ...] | None:
    labels = None if dim is None else model.coords.get(dim)
    return None if labels is None else tuple(map(str, labels))


def _check_theta(theta: Any, n_categories: int) -> TensorVariable:
    vector = pt.as_tensor(theta)
    if vector.ndim != 1:
        raise ValueError(f"theta must be a vector of {n_categories} probabilities, got {vector.ndim} dimensions")
    (length,) = constant_fold([vector.shape[0]], raise_not_constant=False)
    if not isinstance(length, Variable) and length != n_categories:
        raise ValueError(f"theta must be a vector of {n_categories} probabilities, got {length}")
    return vector


@numba_core_rv_funcify.register(PrivateResponseRV)
def _(op: PrivateResponseRV, node: Apply) -> tuple[Callable[..., Any], int]:
    return op.mechanism.drawing().kernel, _KERNEL_VERSION
