"""The PyMC distribution of randomized answers, as a user writes it in a model."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pymc.exceptions import NotConstantValueError
from pymc.logprob.abstract import _logprob
from pymc.model import Model, modelcontext
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_answers, check_probabilities
from adobest_pp._labels import same_labels
from adobest_pp._marginal import source_version
from adobest_pp._text import brief
from adobest_pp.evidence import Evidence, ResponseTable, collapse
from adobest_pp.mechanisms import RRRR, SRR, Mechanism, SubsetSelection
from adobest_pp.responses import Responses
from adobest_pp.tensors import pointwise_log_likelihood

__all__ = ["PrivateResponse"]

_KERNEL_VERSION = source_version(__file__)


class PrivateResponseRV(RandomVariable):
    """Randomized answers; the mechanism is kept so that observed answers can be collapsed into evidence."""

    name = "PrivateResponse"
    dtype = "int64"
    _print_name = ("PrivateResponse", "\\operatorname{PrivateResponse}")
    __props__ = (*RandomVariable.__props__, "mechanism")

    def __init__(self, mechanism: Mechanism, **props: Any) -> None:
        self.mechanism = mechanism
        super().__init__(**props)


class CategoryResponseRV(PrivateResponseRV):
    """Answers of SRR and RRRR: parameters are θ, the row of each response's subset, the subsets, and coefficients."""

    signature = "(k),(),(v,k),(c,k)->()"

    def rng_fn(self, rng: np.random.Generator, *args: Any) -> NDArray[np.int64]:
        """Draw answers where Numba is not the linker."""
        theta, index, subsets, coefficients, size = args
        shape = np.broadcast_shapes(theta.shape[:-1], index.shape) if size is None else size
        thetas = np.broadcast_to(theta, (*shape, theta.shape[-1])).reshape(-1, theta.shape[-1])
        tables = (table.reshape(table.shape[-2:]) for table in (subsets, coefficients))
        return np.asarray(_draw_categories(rng, thetas, np.broadcast_to(index, shape).ravel(), *tables)).reshape(shape)


class SetResponseRV(PrivateResponseRV):
    """Answers of subset selection: parameters are θ and the probability that the set holds the truth."""

    mechanism: SubsetSelection

    def rng_fn(self, rng: np.random.Generator, *args: Any) -> NDArray[np.int64]:
        """Draw answers where Numba is not the linker."""
        theta, holds, size = args
        shape = theta.shape[:-1] if size is None else size
        thetas = np.broadcast_to(theta, (*shape, theta.shape[-1])).reshape(-1, theta.shape[-1])
        sets = _draw_sets(rng, thetas, float(holds.flat[0]), self.mechanism.size)
        return np.asarray(sets).reshape(*shape, self.mechanism.size)


class PrivateResponse(Discrete):
    """Randomized answers of people whose categories have probabilities θ.

    Parameters
    ----------
    name : str
        The name of the variable in the model.
    theta : tensor, shape (K,)
        Category probabilities, with any prior. Off the simplex the log-probability is −inf. A variable whose dimension
        has labels in the model is brought to the order of ``responses.categories``; other labels are refused.
    responses : Responses
        What was collected: answers, mechanism and published subsets.
    **kwargs
        Passed on to PyMC: ``dims`` above all, such as ``dims="response"``. Answers of subset selection have a second
        dimension, which is named ``"member"`` if only the first is given.

    Notes
    -----
    Its value is the answers: (n,) category indices, or (n, d) increasing ones for subset selection. Random draws,
    as in predictive sampling, are answers of the same n people under the subsets that were published to them. The
    log-likelihood is one term per response where that is asked for; a density for sampling costs no more than the
    distinct rows of evidence, whatever n is.

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
        if answers.ndim == 2 and (isinstance(dims, str) or (dims is not None and len(dims) == 1)):
            dims = (*([dims] if isinstance(dims, str) else dims), "member")
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
        mechanism = responses.mechanism
        parameters: tuple[Any, ...]
        if isinstance(mechanism, SubsetSelection):
            op: PrivateResponseRV = SetResponseRV(mechanism, signature=f"(k),()->({mechanism.size})")
            parameters = (_probability_of_holding(mechanism),)
        else:
            op = CategoryResponseRV(mechanism)
            parameters = _published(responses)
        generator = pt.random.shared_rng(seed=None) if rng is None else rng
        _, draws = op(theta, *parameters, size=size, rng=generator, return_next_rng=True)
        return draws


@_logprob.register(PrivateResponseRV)
def _(
    op: PrivateResponseRV, values: Sequence[Variable], rng: Variable, size: Variable, *parameters: Variable, **_: Any
) -> TensorVariable:
    theta, *rest = parameters
    if not all(theta.type.broadcastable[:-1]):
        raise NotImplementedError("PrivateResponse has a log-probability for one vector theta only, not for several")
    try:
        answers, *constants = constant_fold([values[0], *(rest[:2] if isinstance(op, CategoryResponseRV) else ())])
    except NotConstantValueError:
        raise NotImplementedError("PrivateResponse has a log-probability for observed answers only") from None
    vector = pt.specify_shape(theta.reshape((-1,)), op.mechanism.n_categories)
    return pointwise_log_likelihood(vector, *_collapse(op.mechanism, answers, *constants))


def _collapse(
    mechanism: Mechanism, answers: NDArray[np.int64], *published: NDArray[Any]
) -> tuple[Evidence, NDArray[np.int64]]:
    if isinstance(mechanism, SubsetSelection):
        responses = Responses.from_arrays(mechanism, answers)
        return responses.evidence_and_index()
    index, subsets = published
    checked, rows = np.broadcast_arrays(check_answers(answers, mechanism.n_categories), index)
    return collapse(mechanism, ResponseTable(checked, rows, subsets.reshape(-1, mechanism.n_categories)))


def _published(responses: Responses) -> tuple[NDArray[Any], ...]:
    mechanism = responses.mechanism
    if isinstance(mechanism, RRRR):
        return responses.subset_index, responses.subsets, np.stack(mechanism.coefficients)
    # SRR is RRRR under an empty subset, whose coefficients are the outer ones.
    assert isinstance(mechanism, SRR)
    base, own = mechanism.linear_form()
    coefficients = np.zeros((5, mechanism.n_categories))
    coefficients[2], coefficients[3] = base, own
    return np.zeros(len(responses), dtype=np.int64), np.zeros((1, mechanism.n_categories), dtype=bool), coefficients


def _probability_of_holding(mechanism: SubsetSelection) -> float:
    weight = mechanism.size * math.exp(mechanism.epsilon)
    return weight / (weight + mechanism.n_categories - mechanism.size)


def _check_responses(responses: Any) -> None:
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")


def _in_response_order(theta: Any, responses: Responses, model: Model) -> Any:
    """Return θ with its categories in the order of the responses, by the labels of the model, or refuse."""
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
    # An expression has no labels of its own, but most likely the order of what it is made of.
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


@njit(cache=True)
def _draw_category(rng, theta, index, subsets, coefficients):  # type: ignore[no-untyped-def]
    """Draw one answer by running through the probabilities h(y) of all."""
    size, mass = 0, 0.0
    for i in range(theta.size):
        if subsets[index, i]:
            size += 1
            mass += theta[i]
    inner, inner_own = coefficients[0, size], coefficients[1, size]
    outer, outer_own, cross = coefficients[2, size], coefficients[3, size], coefficients[4, size]
    outside = outer + (cross - outer) * mass
    remaining = rng.random()
    for y in range(theta.size - 1):
        remaining -= inner + inner_own * theta[y] if subsets[index, y] else outside + outer_own * theta[y]
        if remaining < 0:
            return y
    return theta.size - 1


@njit(cache=True)
def _draw_set(rng, theta, holds, size):  # type: ignore[no-untyped-def]
    """Draw the truth, whether the set holds it, and the rest of the set in increasing order."""
    members = np.empty(size, dtype=np.int64)
    truth = 0
    remaining = rng.random() - theta[0]
    while remaining >= 0 and truth < theta.size - 1:
        truth += 1
        remaining -= theta[truth]
    is_in = rng.random() < holds
    needed, others, filled = size - is_in, theta.size - 1, 0
    for i in range(theta.size):
        if i == truth:
            taken = is_in
        else:
            taken = rng.random() * others < needed
            needed -= taken
            others -= 1
        if taken:
            members[filled] = i
            filled += 1
    return members


@njit(cache=True)
def _draw_categories(rng, thetas, index, subsets, coefficients):  # type: ignore[no-untyped-def]
    answers = np.empty(index.size, dtype=np.int64)
    for i in range(index.size):
        answers[i] = _draw_category(rng, thetas[i], index[i], subsets, coefficients)
    return answers


@njit(cache=True)
def _draw_sets(rng, thetas, holds, size):  # type: ignore[no-untyped-def]
    answers = np.empty((len(thetas), size), dtype=np.int64)
    for i in range(len(thetas)):
        answers[i] = _draw_set(rng, thetas[i], holds, size)
    return answers


@numba_core_rv_funcify.register(CategoryResponseRV)
def _(op: CategoryResponseRV, node: Apply) -> tuple[Callable[..., Any], int]:
    return _draw_category, _KERNEL_VERSION


@numba_core_rv_funcify.register(SetResponseRV)
def _(op: SetResponseRV, node: Apply) -> tuple[Callable[..., Any], int]:
    size = op.mechanism.size

    @numba_njit
    def draw_set(rng, theta, holds):  # type: ignore[no-untyped-def]
        return _draw_set(rng, theta, holds, size)

    return draw_set, _KERNEL_VERSION
