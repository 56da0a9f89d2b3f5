"""The PyMC distribution of randomized answers, as a user writes it in a model."""

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pymc.logprob.abstract import _logprob
from pymc.model import Model, Potential, modelcontext
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.raise_op import Assert
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_probabilities, check_subset
from adobest_pp._text import brief, by_column, same_labels
from adobest_pp._types import Integers
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.mechanisms import Mechanism, Published, drawing, mixed
from adobest_pp.model.answer_data import evidence_of
from adobest_pp.model.ops import PointwiseLogLikelihood, PointwisePairsLogLikelihood, source_version
from adobest_pp.model.tensors import marginal_log_likelihood, pairs_log_likelihood

_KERNEL_VERSION = source_version(drawing.__file__, mixed.__file__, __file__)


class PrivateResponseRV(RandomVariable):
    """Randomized answers of a mechanism.

    Parameters are θ of each response, the row of its published subset, the subsets, and the mechanism's table for
    drawing. The mechanism is kept so that observed answers can be collapsed into evidence.
    """

    dtype = "int64"
    __props__ = (*RandomVariable.__props__, "mechanism")

    def __init__(self, mechanism: Mechanism, **props: Any) -> None:
        self.mechanism = mechanism
        lengths = ",".join(map(str, mechanism.answer_dims.values()))
        label = f"{type(mechanism).__name__}, ε={mechanism.epsilon:g}"
        self._print_name = (f"PrivateResponse[{label}]", f"\\operatorname{{PrivateResponse}}[\\text{{{label}}}]")
        # Rewrites build the Op again from its properties, of which name and signature are two.
        named = {"name": self._print_name[0], "signature": f"(k),(),(v,k),(a,b)->({lengths})"}
        super().__init__(**named | props)

    def rng_fn(self, rng: np.random.Generator, *args: Any) -> Integers:
        """Draw answers by `privatize`, if Numba is not the linker or the mechanism has no compiled function to draw."""
        theta, index, subsets, _, size = args
        k = theta.shape[-1]
        shape = np.broadcast_shapes(theta.shape[:-1], index.shape) if size is None else tuple(size)
        ends = np.cumsum(np.broadcast_to(theta, (*shape, k)).reshape(-1, k), axis=1)
        levels = rng.random(len(ends)) * ends[:, -1]
        truth = np.minimum((levels[:, None] >= ends).sum(axis=1), k - 1)
        published = Published(np.broadcast_to(index, shape).ravel(), subsets.reshape(-1, k))
        answers = np.asarray(self.mechanism.simulate(truth, published, rng), dtype=np.int64)
        return answers.reshape((*shape, *self.mechanism.answer_dims.values()))


class PrivateResponse(Discrete):
    """Randomized answers of people whose categories have probabilities θ.

    Parameters
    ----------
    name : str
        The name of the variable in the model.
    theta : tensor, shape (K,), (G, K) or (n, K)
        Category probabilities, with any prior: one vector for all responses, a row for each group, or a row for each
        response. Off the simplex the log-probability is −inf. A variable whose last dimension has labels in the model
        is put in the order of ``responses.categories``; other labels raise ValueError. A variable of `pymc.dims` is
        read by the names of its dimensions.
    responses : Responses, Gathered or Mechanism
        What was collected: answers, mechanism and published subsets; or what `gather` has counted. A mechanism alone
        stands for people who have not answered yet: the variable is then unobserved, unless `observed` is given.
    group : array or pymc.Data of shape (n,), optional
        Which of the G rows of θ each response has: the labels of its first dimension, or their numbers from 0. Labels
        that are numbers themselves, such as years, are read as labels. Data must be numbers from 0. Without `group`, a
        matrix has a row for each response.
    observed : pymc.Data, optional
        Answers that can be replaced by `pymc.set_data`; those of `responses` by default, which stay as they are.
    subsets, subset_index : optional
        As in `Responses.from_arrays`, where a subset is published: by default those of `responses`. The index may be
        `pymc.Data`.
    **kwargs
        Passed on to PyMC: ``dims``, such as ``dims="response"``, ``shape`` or ``size``. Where an answer is several
        numbers, further dimensions are named as the mechanism names them if only the first is given.

    Notes
    -----
    Its value is the answers, as in ``responses.answers``. Random draws, as in predictive sampling, are answers under
    the subsets that were published. Where θ has a row for each person and no subset was published, the number of people
    is that of the rows, which may change with `pymc.set_data`.

    The log-likelihood is one term per response where that is asked for. A density for sampling costs no more than the
    distinct rows of evidence, or the distinct pairs of group and row, whatever n is. Where each response has its own θ,
    it is linear in n. Answers that are `pymc.Data` are counted at each evaluation, in a fraction of a nanosecond each,
    or, if they are sets, when they have changed; those of `LocalHashing` and of several mechanisms must be known when
    the model is built.

    Gathered answers are only counted. So θ must be one vector, and the variable is a `pymc.Potential`: the
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

    Answers that will be replaced:

    >>> with pm.Model(coords={"category": responses.categories}) as model:
    ...     theta = pm.Dirichlet("theta", a=np.ones(3), dims="category")
    ...     answers = pm.Data("answers", responses.answers)
    ...     y = ad.PrivateResponse("y", theta, responses, observed=answers, dims="response")
    ...     pm.set_data({"answers": [1, 1, 0, 2, 0]})

    Two regions, each with its own frequencies:

    >>> with pm.Model(coords={"category": responses.categories, "region": ["north", "south"]}) as model:
    ...     theta = pm.Dirichlet("theta", a=np.ones(3), dims=("region", "category"))
    ...     y = ad.PrivateResponse("y", theta, responses, group=["south", "north", "south"], dims="response")
    """

    rv_type = PrivateResponseRV

    def __new__(
        cls,
        name: str,
        theta: Any,
        responses: Responses | Gathered | Mechanism,
        group: Any = None,
        *,
        observed: Any = None,
        dims: Any = None,
        **kwargs: Any,
    ) -> TensorVariable:
        """Add the answers to the model in context."""
        if isinstance(responses, Gathered):
            return _gathered(name, theta, responses, group)
        model = modelcontext(None)
        mechanism = _mechanism(responses)
        if observed is None and isinstance(responses, Responses):
            observed = responses.answers
        elif observed is not None and not isinstance(observed, Variable):
            raise ValueError(
                "observed must be answers as pymc.Data, got another object: give answers that stay the same as "
                "responses, such as Responses.from_arrays(mechanism, answers)"
            )
        labeled = _in_response_order(theta, getattr(responses, "categories", None), model)
        answers = tuple(mechanism.answer_dims.values())
        if isinstance(dims, str) or (dims is not None and len(dims) == 1):
            dims = (*([dims] if isinstance(dims, str) else dims), *mechanism.answer_dims)
        n = len(observed) if isinstance(observed, np.ndarray) else None
        rows = _theta_of_responses(labeled, group, n, mechanism.n_categories)
        if kwargs.get("shape") is None and kwargs.get("size") is None:
            if rows.ndim == 2:
                kwargs["shape"] = (rows.shape[0], *answers)
            elif observed is not None:
                kwargs["shape"] = (observed.shape[0], *answers)
            elif dims is not None:
                kwargs["shape"] = (*(model.dim_lengths[dim] for dim in dims[: len(dims) - len(answers)]), *answers)
        return super().__new__(cls, name, rows, responses, observed=observed, dims=dims, **kwargs)

    @classmethod
    def dist(
        cls,
        theta: Any,
        responses: Responses | Mechanism,
        group: Any = None,
        *,
        subsets: Any = None,
        subset_index: Any = None,
        **kwargs: Any,
    ) -> TensorVariable:
        """Return the distribution outside of any model; by default there are as many answers as responses."""
        mechanism = _mechanism(responses)
        index, masks = _published(responses, subsets, subset_index)
        labeled = _in_response_order(theta, getattr(responses, "categories", None), None)
        n = len(responses) if isinstance(responses, Responses) else None
        free = kwargs.get("shape") is None and kwargs.get("size") is None
        rows = _theta_of_responses(labeled, group, n if free else None, mechanism.n_categories)
        if free and n is not None:
            kwargs["shape"] = (n, *mechanism.answer_dims.values())
        return super().dist((rows, index, masks, mechanism), **kwargs)

    @classmethod
    def rv_op(
        cls, theta: TensorVariable, index: Any, subsets: Any, mechanism: Mechanism, *, size: Any = None, rng: Any = None
    ) -> TensorVariable:
        """Build the random variable."""
        try:
            table = mechanism.drawing().table
        except NotImplementedError:
            table = np.zeros((1, 1))
        generator = pt.random.shared_rng(seed=None) if rng is None else rng
        _, draws = PrivateResponseRV(mechanism)(
            theta, index, subsets, table, size=size, rng=generator, return_next_rng=True
        )
        return draws


def _mechanism(responses: Any) -> Mechanism:
    """Return the mechanism of responses, or one that is given in their place, or raise ValueError."""
    if isinstance(responses, Mechanism):
        return responses
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be Responses, Gathered or a Mechanism, got {brief(responses)}")
    return responses.mechanism


def _published(responses: Responses | Mechanism, subsets: Any, subset_index: Any) -> Published:
    """Return the row of the subset of each answer, one number where all have the same, and the subsets."""
    mechanism = _mechanism(responses)
    k = mechanism.n_categories
    if not mechanism.publishes_subset and not (subsets is None and subset_index is None):
        raise ValueError(f"subsets must be left out for {type(mechanism).__name__}, which publishes none")
    nobody = np.zeros(0, dtype=np.int64)
    row, masks = responses.published() if isinstance(responses, Responses) else (nobody, np.zeros((0, k), dtype=bool))
    if subsets is not None:
        given = np.asarray(subsets)
        masks = given if given.ndim == 2 else check_subset(subsets, k)[None]
        row = nobody
        if masks.shape[1:] != (k,) or masks.dtype != bool or masks.all(axis=1).any():
            raise ValueError(
                f"subsets must be one subset, or masks of shape (V, {k}) without a full one, got {brief(subsets)}"
            )
    elif mechanism.publishes_subset and isinstance(responses, Mechanism):
        raise ValueError(f"subsets must be given with {type(mechanism).__name__}, which publishes a subset")
    if subset_index is not None:
        return Published(pt.as_tensor(subset_index), masks)
    if not len(masks):
        masks = np.zeros((1, k), dtype=bool)
    if len(masks) > 1 and not row.size:
        raise ValueError(f"subset_index must say which of the {len(masks)} subsets each answer was given under")
    # One number leaves the number of people open.
    return Published(row if row.any() else np.array(0), masks)


@_logprob.register(PrivateResponseRV)
def _(op: PrivateResponseRV, values: Sequence[Variable], *inputs: TensorVariable, **_: Any) -> TensorVariable:
    (value,), (_rng, _size, theta, index, subsets, _table) = values, inputs
    lengths, k = tuple(op.mechanism.answer_dims.values()), op.mechanism.n_categories
    batch = value.ndim - len(lengths)
    if batch == 1:
        return _terms(op.mechanism, value, theta, index, subsets.reshape((-1, k)))
    shape = value.shape[:batch]
    flat = pt.broadcast_to(theta, (*shape, k)).reshape((-1, k)), pt.broadcast_to(index, shape).ravel()
    return _terms(op.mechanism, value.reshape((-1, *lengths)), *flat, subsets.reshape((-1, k))).reshape(shape)


def _terms(
    mechanism: Mechanism, answers: TensorVariable, theta: TensorVariable, index: TensorVariable, subsets: TensorVariable
) -> TensorVariable:
    """Return the log-probability of each of n answers, where θ has one row, or one for each."""
    k = mechanism.n_categories
    by_person = not theta.type.broadcastable[0]
    evidence, row_of = evidence_of(mechanism, answers, index, subsets, by_person)
    if not by_person:
        return PointwiseLogLikelihood()(pt.specify_shape(theta.reshape((-1,)), k), *evidence, row_of)
    if isinstance(evidence, Evidence):
        matrix, group = _rows_and_group(theta, row_of.size)
        return pairs_log_likelihood(pt.specify_shape(matrix, (None, k)), evidence, row_of, group)
    person = pt.arange(answers.shape[0])
    rows = pt.specify_shape(theta, (answers.shape[0], k))
    return PointwisePairsLogLikelihood()(rows, *evidence, person, row_of, pt.ones_like(person), person)


def _rows_and_group(theta: TensorVariable, n: int) -> tuple[TensorVariable, Integers]:
    """Return θ of each group and the group of each of n responses, if θ is rows of a matrix; else the rows of θ."""
    node = theta.owner
    if node is not None and isinstance(node.op, AdvancedSubtensor) and node.op.idx_list == (0,):
        matrix, group = node.inputs
        is_known = isinstance(group, Constant) and group.ndim == 1 and group.data.dtype.kind in "iu"
        if is_known and (group.data >= 0).all():
            rows = group.data.astype(np.int64)
            if matrix.type.shape[0] is None and n:
                enough = pt.gt(matrix.shape[0], rows.max())
                matrix = Assert(f"theta must have more than {rows.max()} rows, the last group")(matrix, enough)
            return matrix, rows
    return pt.specify_shape(theta, (n, None)), np.arange(n)


def _gathered(name: str, theta: Any, responses: Gathered, group: Any) -> TensorVariable:
    """Add the log-likelihood of gathered answers to the model in context."""
    if group is not None:
        raise ValueError("group must be left out for gathered answers, which are only counted")
    labeled = _in_response_order(theta, responses.categories, modelcontext(None))
    vector = _theta_of_responses(labeled, None, None, responses.n_categories)
    if vector.ndim != 1:
        raise ValueError("theta must be one vector for gathered answers, which are only counted, got a matrix")
    vector = pt.specify_shape(vector, responses.n_categories)
    return Potential(name, marginal_log_likelihood(vector, responses.evidence()))


@numba_core_rv_funcify.register(PrivateResponseRV)
def _(op: PrivateResponseRV, node: Apply) -> tuple[Callable[..., Any], int]:
    # PyTensor knows a mechanism by its repr, which may leave out what is compiled in.
    key = _KERNEL_VERSION ^ zlib.crc32(json.dumps(op.mechanism.settings()).encode())
    return op.mechanism.drawing().kernel, key


# θ as `PrivateResponse` takes it: categories and groups by label, and a row of θ for each response.

# θ with its categories in the order of the responses, and the labels of its rows where they have some.
_Labeled = tuple[Any, tuple[Any, ...] | None]


def _in_response_order(theta: Any, categories: tuple[str, ...] | None, model: Model | None) -> _Labeled:
    """Return θ in the order of the categories, by its own labels or those of the model, or raise ValueError.

    Without `categories` (a mechanism alone has none), θ is taken as it is.
    """
    if not isinstance(theta, Variable):
        return _check_numbers(theta, categories)
    dims: tuple[str | None, ...] = ()
    if model is not None and model.named_vars.get(theta.name) is theta:
        dims = tuple(model.named_vars_to_dims.get(theta.name, ()))
    if hasattr(theta.type, "dims"):
        theta, dims = _from_named_dims(theta, categories, model)
    if model is None or categories is None:
        return theta, None
    rows = model.coords.get(dims[0]) if len(dims) == 2 and dims[0] is not None else None
    labels = _labels_in(model, dims[-1]) if dims else None
    if labels is not None and not same_labels(labels, categories):
        raise ValueError(f"theta must have the categories {brief(categories)} of the responses, got {brief(labels)}")
    if labels is not None:
        in_order = labels == categories
        return (theta if in_order else theta[..., [labels.index(label) for label in categories]]), rows
    # An expression has no labels, but most likely has the order of the variables that it is made of.
    for dim in {dim for each in ancestors([theta]) for dim in model.named_vars_to_dims.get(each.name, ())}:
        found = _labels_in(model, dim)
        if found is not None and found != categories and same_labels(found, categories):
            raise ValueError(
                f"theta must be in the order {brief(categories)} of the responses, got an expression of variables "
                f"whose dimension {dim!r} has the order {brief(found)}"
            )
    return theta, rows


def _theta_of_responses(labeled: _Labeled, group: Any, n: int | None, n_categories: int) -> TensorVariable:
    """Return θ as a tensor, one vector or a row for each response, or raise ValueError; `n` is None if unknown."""
    theta, labels = pt.as_tensor(labeled[0]), labeled[1]
    if theta.ndim not in (1, 2):
        shapes = f"({n_categories},), (groups, {n_categories}) or (responses, {n_categories})"
        raise ValueError(f"theta must be probabilities of shape {shapes}, got {theta.ndim} dimensions")
    known = constant_fold([theta.shape[i] for i in range(theta.ndim)], raise_not_constant=False)
    sizes = [None if isinstance(size, Variable) else int(size) for size in known]
    if sizes[-1] not in (None, n_categories):
        raise ValueError(f"theta must have {n_categories} probabilities a row, got {sizes[-1]}")
    if theta.ndim == 1:
        if group is not None:
            raise ValueError("group must be left out where theta is one vector, which holds for all responses")
        return theta
    if group is None:
        if None not in (sizes[0], n) and sizes[0] != n:
            raise ValueError(
                f"theta must have one row for each of {n} responses where group is left out, got {sizes[0]} rows"
            )
        return theta
    if isinstance(group, Variable):
        rows = pt.as_tensor(group)
        if rows.ndim != 1 or rows.dtype not in ("int64", "int32", "int16", "int8"):
            raise ValueError(f"group must be a vector of integers, the row of theta of each response, got {rows.type}")
        inside = pt.all((rows >= 0) & (rows < theta.shape[0]))
        return theta[Assert("group must be from 0 to the number of rows of theta less one")(rows, inside)]
    rows = _check_group(group, n, len(labels) if sizes[0] is None and labels is not None else sizes[0], labels)
    if sizes[0] is None and rows.size:
        enough = pt.gt(theta.shape[0], rows.max())
        theta = Assert(f"theta must have more than {rows.max()} rows, the last group")(theta, enough)
    return theta[rows]


def _check_group(group: Any, n: int | None, n_rows: int | None, labels: Sequence[Any] | None) -> Integers:
    """Return the row of θ of each response, given by number or, where the rows have labels, by label."""
    values = np.asarray(group)
    if values.ndim != 1 or n not in (None, values.size):
        each = "each response" if n is None else f"each of {n} responses"
        raise ValueError(f"group must be one group for {each}, got an array of shape {values.shape}")
    missing = values != values if values.dtype.kind in "fcmM" else [each is None or each != each for each in values]
    if np.any(missing):
        raise ValueError(f"group must be known for every response, got none for response {int(np.argmax(missing))}")
    are_numbers = values.dtype.kind in "iu"
    if labels is not None and not (are_numbers and not all(isinstance(each, int | np.integer) for each in labels)):
        return _by_label(values, labels)
    if not are_numbers:
        hint = "" if values.dtype.kind == "f" else ": give theta dims whose coords are these labels"
        raise ValueError(f"group must be integers, the row of theta of each response, got {brief(group)}{hint}")
    least, greatest = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if least < 0 or (n_rows is not None and values.size and greatest >= n_rows):
        limit = "" if n_rows is None else f" to {n_rows - 1}"
        raise ValueError(f"group must be from 0{limit}, got {least if least < 0 else greatest}")
    return values.astype(np.int64)


def _by_label(values: NDArray[Any], labels: Sequence[Any]) -> Integers:
    """Return the place of each value among the labels, or raise ValueError."""
    places = {str(label): i for i, label in enumerate(labels)}
    found, inverse = np.unique(values.astype(str), return_inverse=True)
    for value in found:
        if value not in places:
            raise ValueError(f"group must be among the labels {brief(list(places))} of theta, got {str(value)!r}")
    return np.array([places[value] for value in found.tolist()], dtype=np.int64)[inverse]


def _check_numbers(theta: Any, categories: tuple[str, ...] | None) -> _Labeled:
    """Return a constant θ, a vector or a matrix, by its labels, or raise ValueError."""
    if categories is None:
        return np.asarray(theta, dtype=np.float64), None
    if getattr(theta, "ndim", np.ndim(theta) if isinstance(theta, list | tuple) else 1) != 2:
        return check_probabilities(theta, len(categories), categories=categories), None
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
    return table.astype(np.float64), rows


def _from_named_dims(
    theta: Any, categories: tuple[str, ...] | None, model: Model | None
) -> tuple[TensorVariable, tuple[str, ...]]:
    """Return a variable of `pymc.dims` as a tensor with its categories last, and its dims in that order."""
    dims = tuple(theta.type.dims)
    if model is not None and categories is not None:
        found = [dim for dim in dims if same_labels(_labels_in(model, dim) or (), categories)]
        if len(found) != 1:
            raise ValueError(
                f"theta must have one dimension with the categories {brief(categories)} as its coords, got {dims}"
            )
        dims = (*(dim for dim in dims if dim != found[0]), found[0])
    return theta.transpose(*dims).values, dims


def _labels_in(model: Model, dim: str | None) -> tuple[str, ...] | None:
    labels = None if dim is None else model.coords.get(dim)
    return None if labels is None else tuple(map(str, labels))
