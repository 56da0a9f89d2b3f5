"""The PyMC distribution of randomized answers, as a user writes it in a model; and θ as it takes it."""

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numba import njit
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pymc.exceptions import NotConstantValueError
from pymc.logprob.abstract import _logprob
from pymc.model import Model, Potential, modelcontext
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.raise_op import Assert
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_probabilities
from adobest_pp._labels import by_column, same_labels
from adobest_pp._text import brief
from adobest_pp.answers.gather.gathered import Gathered, check_responses
from adobest_pp.answers.responses import Responses
from adobest_pp.mechanisms import Mechanism, Published, drawing, mixed
from adobest_pp.model.ops import source_version
from adobest_pp.model.tensors import marginal_log_likelihood, pairs_log_likelihood, pointwise_log_likelihood

# θ: its categories and groups by label, and which of its rows each response has.


class Labelled(NamedTuple):
    """θ with its categories in the order of the responses, and the labels of its rows where they have some."""

    theta: Any
    rows: tuple[Any, ...] | None


def in_response_order(theta: Any, responses: Responses | Gathered, model: Model | None) -> Labelled:
    """Return θ in the order of the responses, by its own labels or those of the model, or raise ValueError."""
    categories = responses.categories
    if not isinstance(theta, Variable):
        return _check_numbers(theta, categories)
    if model is None:
        return Labelled(theta, None)
    is_named = model.named_vars.get(theta.name) is theta
    dims: tuple[str | None, ...] = tuple(model.named_vars_to_dims.get(theta.name, ())) if is_named else ()
    rows = model.coords.get(dims[0]) if len(dims) == 2 and dims[0] is not None else None
    labels = _labels_in(model, dims[-1]) if dims else None
    if labels is not None and not same_labels(labels, categories):
        raise ValueError(f"theta must have the categories {brief(categories)} of the responses, got {brief(labels)}")
    if labels is not None:
        in_order = labels == categories
        return Labelled(theta if in_order else theta[..., [labels.index(label) for label in categories]], rows)
    # An expression has no labels, but most likely the order of the variables that it is made of.
    for dim in {dim for each in ancestors([theta]) for dim in model.named_vars_to_dims.get(each.name, ())}:
        found = _labels_in(model, dim)
        if found is not None and found != categories and same_labels(found, categories):
            raise ValueError(
                f"theta must be in the order {brief(categories)} of the responses, got an expression of variables "
                f"whose dimension {dim!r} has the order {brief(found)}"
            )
    return Labelled(theta, rows)


def rows_of_theta(
    labelled: Labelled, group: Any, n: int, n_categories: int
) -> tuple[TensorVariable, NDArray[np.int64] | None]:
    """Return θ as a checked tensor, and the row of each of n responses (None for a vector), or raise ValueError."""
    theta = pt.as_tensor(labelled.theta)
    if theta.ndim not in (1, 2):
        shapes = f"({n_categories},), (groups, {n_categories}) or (responses, {n_categories})"
        raise ValueError(f"theta must be probabilities of shape {shapes}, got {theta.ndim} dimensions")
    sizes = [None if isinstance(size, Variable) else int(size) for size in _static(theta)]
    if sizes[-1] not in (None, n_categories):
        raise ValueError(f"theta must have {n_categories} probabilities a row, got {sizes[-1]}")
    if theta.ndim == 1:
        if group is not None:
            raise ValueError("group must be left out where theta is one vector, which holds for all responses")
        return theta, None
    if group is None:
        if sizes[0] not in (None, n):
            raise ValueError(
                f"theta must have one row for each of {n} responses where group is left out, got {sizes[0]} rows"
            )
        return pt.specify_shape(theta, (n, n_categories)), np.arange(n)
    n_rows = len(labelled.rows) if sizes[0] is None and labelled.rows is not None else sizes[0]
    rows = _check_group(group, n, n_rows, labelled.rows)
    theta = pt.specify_shape(theta, (None, n_categories))
    if sizes[0] is None and n:
        enough = pt.gt(theta.shape[0], rows.max())
        theta = Assert(f"theta must have more than {rows.max()} rows, the last group")(theta, enough)
    return theta, rows


def _static(theta: TensorVariable) -> Sequence[Any]:
    """Return the lengths of θ, those that are known as numbers."""
    known = theta.type.shape
    folded = constant_fold([theta.shape[i] for i in range(theta.ndim)], raise_not_constant=False)
    return [size if size is not None else other for size, other in zip(known, folded, strict=True)]


def _check_group(group: Any, n: int, n_rows: int | None, labels: Sequence[Any] | None) -> NDArray[np.int64]:
    """Return the row of θ of each response, given by number or, where the rows have labels, by label."""
    if isinstance(group, Variable):
        raise ValueError("group must be an array of numbers or labels that is known, got a PyTensor variable")
    values = np.asarray(group)
    if values.shape != (n,):
        raise ValueError(f"group must be one group for each of {n} responses, got an array of shape {values.shape}")
    missing = values != values if values.dtype.kind in "fcmM" else np.array([_is_missing(each) for each in values])
    if missing.any():
        raise ValueError(f"group must be known for every response, got none for response {int(np.argmax(missing))}")
    are_numbers = values.dtype.kind in "iu"
    if labels is not None and not (are_numbers and not all(isinstance(each, int | np.integer) for each in labels)):
        return _by_label(values, labels)
    if not are_numbers:
        hint = "" if values.dtype.kind == "f" else ": give theta dims whose coords are these labels"
        raise ValueError(f"group must be integers, the row of theta of each response, got {brief(group)}{hint}")
    least, greatest = (int(values.min()), int(values.max())) if n else (0, 0)
    if least < 0 or (n_rows is not None and n and greatest >= n_rows):
        limit = "" if n_rows is None else f" to {n_rows - 1}"
        raise ValueError(f"group must be from 0{limit}, got {least if least < 0 else greatest}")
    return values.astype(np.int64)


def _by_label(values: NDArray[Any], labels: Sequence[Any]) -> NDArray[np.int64]:
    """Return the place of each value among the labels, or raise ValueError."""
    places = {str(label): i for i, label in enumerate(labels)}
    found, inverse = np.unique(values.astype(str), return_inverse=True)
    for value in found:
        if value not in places:
            raise ValueError(f"group must be among the labels {brief(list(places))} of theta, got {str(value)!r}")
    return np.array([places[value] for value in found.tolist()], dtype=np.int64)[inverse]


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _check_numbers(theta: Any, categories: tuple[str, ...]) -> Labelled:
    """Return a constant θ, a vector or a matrix, by its labels, or raise ValueError."""
    if getattr(theta, "ndim", np.ndim(theta) if isinstance(theta, list | tuple) else 1) != 2:
        return Labelled(check_probabilities(theta, len(categories), categories=categories), None)
    rows = None
    if hasattr(theta, "dims") and theta.dims[0] in theta.coords:
        rows = tuple(theta[theta.dims[0]].values.tolist())
    elif hasattr(theta, "columns"):
        rows = tuple(theta.index.tolist())
    table = np.asarray(by_column(theta, categories, "theta"))
    for i, row in enumerate(table):
        try:
            check_probabilities(row, len(categories))
        except ValueError as reason:
            raise ValueError(f"{reason} in row {i}") from None
    return Labelled(table.astype(np.float64), rows)


def _labels_in(model: Model, dim: str | None) -> tuple[str, ...] | None:
    labels = None if dim is None else model.coords.get(dim)
    return None if labels is None else tuple(map(str, labels))


# The distribution.

_KERNEL_VERSION = source_version(drawing.__file__, mixed.__file__, __file__)


class PrivateResponseRV(RandomVariable):
    """Randomized answers of a mechanism.

    Parameters are θ, the row of each response's published subset, the subsets, and the mechanism's table for drawing;
    where θ is a matrix, the row of θ of each response comes last. The mechanism is kept so that observed answers can be
    collapsed into evidence.
    """

    name = "PrivateResponse"
    dtype = "int64"
    _print_name = ("PrivateResponse", "\\operatorname{PrivateResponse}")
    __props__ = (*RandomVariable.__props__, "mechanism", "by_row")

    def __init__(self, mechanism: Mechanism, by_row: bool = False, **props: Any) -> None:
        self.mechanism = mechanism
        self.by_row = by_row
        lengths = ",".join(map(str, mechanism.answer_dims.values()))
        inputs = "(g,k),(),(v,k),(a,b),()" if by_row else "(k),(),(v,k),(a,b)"
        # Rewrites build the Op again from its properties, of which the signature is one.
        super().__init__(**{"signature": f"{inputs}->({lengths})"} | props)

    def rng_fn(self, rng: np.random.Generator, *args: Any) -> NDArray[np.int64]:
        """Draw answers by `privatize`, if Numba is not the linker or the mechanism has no compiled function to draw."""
        theta, index, subsets, _, *group, size = args
        k = theta.shape[-1]
        batch = theta.shape[: -2 if group else -1]
        shape = np.broadcast_shapes(batch, index.shape) if size is None else tuple(size)
        if group:
            theta = theta.reshape(-1, k)[np.broadcast_to(group[0], shape)]
        ends = np.cumsum(np.broadcast_to(theta, (*shape, k)).reshape(-1, k), axis=1)
        levels = rng.random(len(ends)) * ends[:, -1]
        truth = np.minimum((levels[:, None] >= ends).sum(axis=1), k - 1)
        published = Published(np.broadcast_to(index, shape).ravel(), subsets.reshape(-1, k))
        answers = np.asarray(self.mechanism.simulate(truth, published, rng), dtype=np.int64)
        return answers.reshape(*shape, *self.mechanism.answer_dims.values())


class PrivateResponse(Discrete):
    """Randomized answers of people whose categories have probabilities θ.

    Parameters
    ----------
    name : str
        The name of the variable in the model.
    theta : tensor, shape (K,), (G, K) or (n, K)
        Category probabilities, with any prior: one vector for all responses, or a row for each group, or a row for each
        response. Off the simplex the log-probability is −inf. A variable whose last dimension has labels in the model
        is put in the order of ``responses.categories``; other labels raise ValueError.
    responses : Responses or Gathered
        What was collected: answers, mechanism and published subsets; or what `gather` has counted.
    group : array of shape (n,), optional
        Which of the G rows of θ each response has: the labels of its first dimension, or their numbers from 0. Labels
        that are numbers themselves, such as years, are read as labels. Without it, a matrix has a row a response.
    **kwargs
        Passed on to PyMC: ``dims`` above all, such as ``dims="response"``. Where an answer is several numbers, further
        dimensions are named as the mechanism names them if only the first is given.

    Notes
    -----
    Its value is the answers, as in ``responses.answers``. Random draws, as in predictive sampling, are answers of the
    same n people under the subsets that were published to them. The log-likelihood is one term per response where that
    is asked for; a density for sampling costs no more than the distinct rows of evidence, or the distinct pairs of
    group and row, whatever n is. Where each response has its own θ, it is linear in n.

    Gathered answers are not kept one by one. With them θ is one vector, and the variable is a `pymc.Potential`: the
    log-likelihood of all answers, a number without dimensions. Samplers are the same; there are no predictive draws.

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

    Two regions, each with its own frequencies:

    >>> with pm.Model(coords={"category": responses.categories, "region": ["north", "south"]}) as model:
    ...     theta = pm.Dirichlet("theta", a=np.ones(3), dims=("region", "category"))
    ...     y = ad.PrivateResponse("y", theta, responses, group=["south", "north", "south"], dims="response")
    """

    rv_type = PrivateResponseRV

    def __new__(
        cls, name: str, theta: Any, responses: Responses | Gathered, group: Any = None, **kwargs: Any
    ) -> TensorVariable:
        """Add the observed answers to the model in context."""
        check_responses(responses)
        if isinstance(responses, Gathered):
            return _gathered(name, theta, responses, group)
        answers = responses.answers
        dims = kwargs.pop("dims", None)
        if isinstance(dims, str) or (dims is not None and len(dims) == 1):
            dims = (*([dims] if isinstance(dims, str) else dims), *responses.mechanism.answer_dims)
        labelled = in_response_order(theta, responses, modelcontext(None))
        checked, row = rows_of_theta(labelled, group, len(responses), responses.n_categories)
        return super().__new__(
            cls, name, checked, responses, group=row, observed=answers, shape=answers.shape, dims=dims, **kwargs
        )

    @classmethod
    def dist(cls, theta: Any, responses: Responses, group: Any = None, **kwargs: Any) -> TensorVariable:
        """Return the distribution outside of any model; its shape is that of the answers unless given."""
        if not isinstance(responses, Responses):
            raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")
        kwargs.setdefault("shape", responses.answers.shape)
        labelled = in_response_order(theta, responses, None)
        checked, row = rows_of_theta(labelled, group, len(responses), responses.n_categories)
        return super().dist((checked, row, responses), **kwargs)

    @classmethod
    def rv_op(
        cls,
        theta: TensorVariable,
        row: NDArray[np.int64] | None,
        responses: Responses,
        *,
        size: Any = None,
        rng: Any = None,
    ) -> TensorVariable:
        """Build the random variable."""
        published = responses.published()
        if not len(published.row):
            published = Published(
                np.zeros(len(responses), dtype=np.int64), np.zeros((1, responses.n_categories), dtype=bool)
            )
        try:
            table = responses.mechanism.drawing().table
        except NotImplementedError:
            table = np.zeros((1, 1))
        op = PrivateResponseRV(responses.mechanism, by_row=row is not None)
        generator = pt.random.shared_rng(seed=None) if rng is None else rng
        parameters = [theta, *published, table] + ([] if row is None else [row])
        _, draws = op(*parameters, size=size, rng=generator, return_next_rng=True)
        return draws


@_logprob.register(PrivateResponseRV)
def _(
    op: PrivateResponseRV, values: Sequence[Variable], rng: Variable, size: Variable, *parameters: Variable, **_: Any
) -> TensorVariable:
    theta, *rest = parameters
    if not all(theta.type.broadcastable[: -2 if op.by_row else -1]):
        raise NotImplementedError("PrivateResponse has a log-probability for one theta at a time, not for several")
    try:
        answers, index, subsets, *group = constant_fold([values[0], *rest[:2], *rest[3:]])
    except NotConstantValueError:
        raise NotImplementedError("PrivateResponse has a log-probability for observed answers only") from None
    mechanism = op.mechanism
    checked = mechanism.check_answers(answers)
    k = mechanism.n_categories
    published = Published(np.broadcast_to(index, len(checked)), subsets.reshape(-1, k))
    evidence, row_of = mechanism.evidence(checked, published)
    if op.by_row:
        matrix = theta.reshape((-1, k)) if theta.ndim > 2 else theta
        return pairs_log_likelihood(matrix, evidence, row_of, np.broadcast_to(group[0], len(checked)))
    return pointwise_log_likelihood(pt.specify_shape(theta.reshape((-1,)), k), evidence, row_of)


def _gathered(name: str, theta: Any, responses: Gathered, group: Any) -> TensorVariable:
    """Add the log-likelihood of gathered answers to the model in context."""
    if group is not None:
        raise ValueError("group must be left out for gathered answers, which are only counted")
    labelled = in_response_order(theta, responses, modelcontext(None))
    if pt.as_tensor(labelled.theta).ndim != 1:
        raise ValueError("theta must be one vector for gathered answers, which are only counted, got a matrix")
    checked, _ = rows_of_theta(labelled, None, len(responses), responses.n_categories)
    vector = pt.specify_shape(checked, responses.n_categories)
    return Potential(name, marginal_log_likelihood(vector, responses.evidence()))


@numba_core_rv_funcify.register(PrivateResponseRV)
def _(op: PrivateResponseRV, node: Apply) -> tuple[Callable[..., Any], int]:
    kernel = op.mechanism.drawing().kernel
    # PyTensor knows a mechanism by its repr, which may leave out what is compiled in.
    key = _KERNEL_VERSION ^ zlib.crc32(json.dumps(op.mechanism.settings()).encode())
    return (_of_row(kernel) if op.by_row else kernel), key


def _of_row(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function that draws an answer of a person with one of several θ."""

    @njit
    def draw(rng, theta, row, subsets, table, group):  # type: ignore[no-untyped-def]
        return kernel(rng, theta[group], row, subsets, table)

    return draw  # type: ignore[no-any-return]
