"""The transition tensors and the marginal log-likelihood as PyTensor graphs."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.raise_op import Assert, CheckAndRaise
from pytensor.tensor.variable import TensorConstant, TensorVariable

from adobest_pp._checks import as_numbers
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.evidence import Evidence
from adobest_pp.model.ops import (
    MarginalLogLikelihood,
    PointwiseLogLikelihood,
    PointwisePairsLogLikelihood,
    as_tensor,
    check_evidence,
)

LEAVES_ONE_OUT = "subset_mask must leave at least one category out of each subset, got all of them"


def transition_matrix(subset_mask: Any, epsilon1: Any, epsilon2: Any) -> TensorVariable:
    """Return RRRR's ``G[..., y, x] = P(Y=y | X=x)`` as a graph (the table in section 1 of docs/math.md).

    Parameters
    ----------
    subset_mask : tensor of bool, shape (..., K)
        The published subsets, each without at least one category; an empty one gives SRR with budget `epsilon2`.
    epsilon1, epsilon2 : tensor, shape (...)
        The budgets within the subset and within its complement; one for all subsets, or one for each.

    Returns
    -------
    TensorVariable
        Of shape (..., K, K).

    See Also
    --------
    adobest_pp.RRRR.transition_matrix : The same in NumPy.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> matrix = ad.model.transition_matrix([True, True, False, False], 0.8, 0.45)
    >>> matrix.eval().round(3)
    array([[0.527, 0.237, 0.237, 0.237],
           [0.237, 0.527, 0.237, 0.237],
           [0.118, 0.118, 0.322, 0.205],
           [0.118, 0.118, 0.205, 0.322]])
    """
    mask = _proper(subset_mask)
    answers = pt.arange(mask.shape[-1])
    budgets = as_tensor(epsilon1, "epsilon1"), as_tensor(epsilon2, "epsilon2")
    per_answer = [value[..., None] if value.ndim else value for value in budgets]
    return _rows(answers, mask[..., None, :], *per_answer)


def transition_rows(answers: Any, subset_mask: Any, epsilon1: Any, epsilon2: Any) -> TensorVariable:
    """Return, for each RRRR answer y, the row ``g(x) = P(Y=y | X=x)`` as a graph.

    Parameters
    ----------
    answers : tensor of int, shape (...)
        The answers.
    subset_mask : tensor of bool, shape (..., K)
        The subset that each was given under, without at least one category.
    epsilon1, epsilon2 : tensor, shape (...)
        The budgets, one for all answers or one for each.

    Returns
    -------
    TensorVariable
        Of shape (..., K); P(Y=y) is its product with θ, summed. It is 0 for an answer that is not a category.
    """
    mask = _proper(subset_mask)
    given = as_tensor(answers, "answers")[..., None]
    is_category = pt.ge(given, 0) & pt.lt(given, mask.shape[-1])
    return pt.switch(is_category, _rows(answers, mask, epsilon1, epsilon2), 0.0)


def _rows(answers: Any, mask: TensorVariable, epsilon1: Any, epsilon2: Any) -> TensorVariable:
    given = as_tensor(answers, "answers")
    # A Python number such as 1.0 would become a single-precision tensor, and so would its exponential.
    budgets = as_tensor(epsilon1, "epsilon1", "float64"), as_tensor(epsilon2, "epsilon2", "float64")
    first, second = (budget[..., None] for budget in budgets)
    size = mask.sum(axis=-1, keepdims=True)
    rest = mask.shape[-1] - size
    # JAX leaves out the check of `_proper`; a full subset then gives NaN.
    inner = pt.switch(rest > 0, 1.0, np.nan) / (pt.exp(first) + size)
    outer = pt.switch(size > 0, pt.exp(first) * inner, 1.0) / (pt.exp(second) + rest - 1)

    is_answer = pt.eq(given[..., None], pt.arange(mask.shape[-1]))
    answer_inside = (mask & is_answer).any(axis=-1, keepdims=True)
    others = pt.switch(answer_inside, inner, pt.switch(mask, inner / rest, outer))
    own = pt.switch(answer_inside, pt.expm1(first) * inner, pt.expm1(second) * outer)
    return others + is_answer * own


def _proper(subset_mask: Any) -> TensorVariable:
    """Return the mask; a subset of all categories raises ValueError, now if it is known and at run time otherwise."""
    mask = as_tensor(subset_mask, "subset_mask")
    if mask.ndim == 0:
        raise ValueError(f"subset_mask must have the categories as its last dimension, got {brief(subset_mask)}")
    if isinstance(mask, TensorConstant) and np.asarray(mask.data, dtype=bool).all(axis=-1).any():
        raise ValueError(LEAVES_ONE_OUT)
    given = mask.astype("bool")
    return CheckAndRaise(ValueError, LEAVES_ONE_OUT)(given, ~given.all(axis=-1).any())


def marginal_log_likelihood(theta: Any, evidence: Evidence) -> TensorVariable:
    """Return ln P(answers | θ) as a scalar graph; off the simplex it is −inf."""
    return MarginalLogLikelihood(on_simplex=True)(theta, *check_evidence(evidence)) + evidence.constant


def rows_and_counts(responses: Any) -> tuple[Floats, Integers]:
    """Return P(y | x) of each distinct answer y, of shape (U, K), and how many people gave it: what θ depends on.

    Parameters
    ----------
    responses : Responses or Gathered
        Of any mechanism. Answers that tell the same about θ share a row.

    See Also
    --------
    counted_log_likelihood : The log-likelihood of both, which may be `pymc.Data`.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> rows, counts = ad.model.rows_and_counts(responses)
    >>> rows.round(3), counts
    (array([[0.731, 0.269],
           [0.269, 0.731]]), array([2, 1]))
    """
    evidence = check_evidence(responses.evidence())
    return evidence.matrix() * np.exp(evidence.log_scale)[:, None], evidence.count


def counted_log_likelihood(theta: Any, rows: Any, counts: Any) -> TensorVariable:
    """Return Σ counts·ln(rows·θ) as a scalar graph in one node; off the simplex it is −inf.

    Parameters
    ----------
    theta : tensor, shape (K,)
        Category probabilities.
    rows : tensor, shape (U, K)
        P(y | x) of each distinct answer, as in `rows_and_counts`.
    counts : tensor of int, shape (U,)
        How many people gave it.

    Examples
    --------
    New answers without a rebuild, whatever the mechanism:

    >>> import adobest_pp as ad, numpy as np, pymc as pm
    >>> responses = ad.Responses.from_arrays(ad.LocalHashing(3, epsilon=1.0), [[11, 0], [12, 1]])
    >>> with pm.Model() as model:
    ...     rows, counts = map(pm.Data, ["rows", "counts"], ad.model.rows_and_counts(responses))
    ...     theta = pm.Dirichlet("theta", np.ones(3))
    ...     y = pm.Potential("y", ad.model.counted_log_likelihood(theta, rows, counts))
    """
    table, times = as_tensor(rows, "rows", "float64"), as_tensor(counts, "counts")
    if table.ndim != 2 or times.ndim != 1:
        raise ValueError(f"rows must be a matrix and counts a vector, got {table.ndim} and {times.ndim} dimensions")
    n = table.shape[0]
    times = Assert("counts must be one number for each of the rows")(times, pt.eq(times.shape[0], n))
    zeros, none = pt.zeros(n), pt.zeros(n, dtype="int64")
    evidence = Evidence(
        base=zeros,
        own=zeros,
        inside=pt.ones(n),
        log_scale=zeros,
        category=none,
        set_index=pt.arange(n),
        count=times.astype("int64"),
        members=np.zeros(0, dtype=np.int32),
        offsets=np.zeros(1, dtype=np.int64),
        patterns=table,
        codes=np.zeros((0, 0), dtype=np.uint16),
    )
    vector = as_tensor(theta, "theta")
    fits = pt.eq(vector.shape[0], table.shape[1])
    vector = Assert("theta must have as many elements as rows has columns")(vector, fits)
    return MarginalLogLikelihood(on_simplex=True)(vector, *evidence)


def pointwise_log_likelihood(theta: Any, evidence: Evidence, index: Any) -> TensorVariable:
    """Return ln P(answer | θ) of every response as a graph of shape (n,); off the simplex all are −inf.

    Parameters
    ----------
    theta : tensor, shape (K,)
        Category probabilities.
    evidence : Evidence
        Collapsed responses.
    index : array of int, shape (n,)
        The row of each response, from `Responses.evidence_index`.
    """
    return PointwiseLogLikelihood()(theta, *check_evidence(evidence), index)


def _places(values: Any, n: int | None, name: str) -> Integers:
    """Return rows of a table as integers, or raise ValueError; `n` is how many rows there are, if that is known."""
    allowed = f"{name} must be integers from 0" + ("" if n is None else f" to {n - 1}")
    try:
        places = as_numbers(values, "iu").astype(np.int64)
    except TypeError:
        raise ValueError(f"{allowed}, got {brief(values)}") from None
    if places.ndim != 1 or (places.size and (places.min() < 0 or (n is not None and places.max() >= n))):
        raise ValueError(f"{allowed}, got {brief(values)}")
    return places


def pairs_log_likelihood(theta: Any, evidence: Evidence, index: Integers, group: Integers) -> TensorVariable:
    """Return ln P(answer | θ) of every response as a graph of shape (n,), where θ has several rows.

    Parameters
    ----------
    theta : tensor, shape (G, K)
        Category probabilities, one row a group; where a row is off the simplex, its responses have −inf.
    evidence, index
        As in `pointwise_log_likelihood`.
    group : array of int, shape (n,)
        The row of θ of each response.
    """
    rows, groups = _places(index, check_evidence(evidence).n_rows, "index"), _places(group, None, "group")
    if rows.shape != groups.shape:
        raise ValueError(f"group must be one integer for each response, {rows.size} of them, got {groups.size}")
    keys = groups * evidence.n_rows + rows
    pairs, pair_of, weight = np.unique(keys, return_inverse=True, return_counts=True)
    places = np.divmod(pairs, max(evidence.n_rows, 1))
    return PointwisePairsLogLikelihood()(as_tensor(theta, "theta"), *evidence, *places, weight, pair_of)
