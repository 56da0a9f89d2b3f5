"""The evidence of answers: as arrays where the answers are known, and as graphs where they are `pymc.Data`.

Known answers are collapsed once, when the log-probability is built. Answers that can be replaced by `pymc.set_data` are
collapsed by compiled functions: numbers are counted at each evaluation, and sets when they have changed.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import Cast
from pytensor.tensor.variable import TensorVariable

from adobest_pp.evidence import Evidence
from adobest_pp.mechanisms import Mechanism, Published
from adobest_pp.model.distinct import DistinctRows, RowNumbers
from adobest_pp.model.ops import CompiledOp, source_version

# Up to this many possible answers, it is faster to go through all people once for each of them, in vector instructions.
FEW_ANSWERS = 8


def evidence_of(
    mechanism: Mechanism, answers: Any, index: Any, subsets: Any, by_person: bool = False
) -> tuple[Sequence[Any], Any]:
    """Return the arrays of an `Evidence`, and the row of each of n answers: arrays, or graphs if answers are data.

    Parameters
    ----------
    mechanism : Mechanism
        What the devices ran.
    answers : tensor, shape (n, …)
        The answers.
    index : tensor, shape (n,) or (1,)
        The row of `subsets` of each answer.
    subsets : tensor, shape (V, K)
        The published subsets.
    by_person : bool, default False
        Whether each answer has a θ of its own. Then nothing is gained by finding equal answers among data.
    """
    try:
        known, row, masks = constant_fold([answers, index, subsets])
    except NotConstantValueError:
        return _symbolic_evidence(mechanism, answers, index, subsets, by_person)
    checked = mechanism.check_answers(known)
    return mechanism.evidence(checked, Published(np.broadcast_to(row, len(checked)), masks))


def _symbolic_evidence(
    mechanism: Mechanism, answers: TensorVariable, index: Any, subsets: Any, by_person: bool
) -> tuple[Sequence[Any], Any]:
    if not mechanism.answer_dims:
        try:
            (masks,) = constant_fold([subsets])
        except NotConstantValueError:
            raise NotImplementedError("PrivateResponse needs subsets that are known, got a variable") from None
        return _from_table(mechanism, _uncast(answers), index, masks)
    if not {"category", "member"} & {*mechanism.answer_dims}:
        raise NotImplementedError(
            f"PrivateResponse has no log-probability for answers of {type(mechanism).__name__} that are not known when "
            "the model is built: give it the answers as an array"
        )
    table = pt.specify_shape(_uncast(answers), (None, *mechanism.answer_dims.values()))
    if by_person:
        one_each = pt.arange(table.shape[0])
        return _from_sets(mechanism, table.astype("int64"), pt.ones_like(one_each)), one_each
    first, count = DistinctRows()(table)
    return _from_sets(mechanism, table[first].astype("int64"), count), RowNumbers()(table)


def _uncast(answers: TensorVariable) -> TensorVariable:
    """Return integers as they are in the data, before PyMC makes them wider."""
    operation = getattr(getattr(answers.owner, "op", None), "scalar_op", None)
    if isinstance(operation, Cast) and np.dtype(answers.owner.inputs[0].type.dtype).kind in "biu":
        return answers.owner.inputs[0]
    return answers


def _from_table(
    mechanism: Mechanism, answers: TensorVariable, index: Any, masks: Any
) -> tuple[list[Any], TensorVariable]:
    """Return the rows of all possible answers under all published subsets, with the counts of those given.

    One more row stands for invalid answers, whose probability is 0. Rows without answers get the probability 1, so that
    they add nothing.
    """
    outputs, n_sets = mechanism.outputs(), len(masks)
    everything = Published(np.repeat(np.arange(n_sets), outputs.size), masks)
    evidence, row_of = mechanism.evidence(np.tile(outputs, n_sets), everything)
    table = pt.constant(row_of.reshape(n_sets, -1))
    count = CountRows()(answers, index, table, np.zeros(evidence.n_rows + 1, dtype=np.int64))
    given = count > 0
    one_more = {name: np.append(getattr(evidence, name), 0) for name in ("base", "own", "inside", "log_scale")}
    graphs = evidence._replace(
        base=pt.switch(given, one_more["base"], 1.0),
        own=pt.switch(given, one_more["own"], 0.0),
        inside=pt.switch(given, one_more["inside"], 0.0),
        log_scale=one_more["log_scale"],
        category=np.append(evidence.category, 0),
        set_index=np.append(evidence.set_index, -1),
        count=count,
    )
    return list(graphs), _rows(answers, index, table, evidence.n_rows)


def _rows(answers: TensorVariable, index: TensorVariable, table: TensorVariable, other: Any) -> TensorVariable:
    """Return the entry of the table for each answer, and `other` for answers that are not in it."""
    n_sets, n_answers = table.shape[0], table.shape[1]
    inside = (answers >= 0) & (answers < n_answers) & (index >= 0) & (index < n_sets)
    found = table[pt.clip(index, 0, n_sets - 1), pt.clip(answers, 0, n_answers - 1)]
    return pt.switch(inside, found, other)


def _from_sets(mechanism: Any, answers: TensorVariable, count: TensorVariable) -> list[Any]:
    """Return one row for each answer that is a set: its members, or one bit for each category."""
    k, n = mechanism.n_categories, answers.shape[0]
    if "category" in mechanism.answer_dims:
        valid = (pt.eq(answers, 0) | pt.eq(answers, 1)).all(axis=1)
        sizes, members = pt.neq(answers, 0).sum(axis=1), pt.nonzero(answers)[1]
        log_scale = pt.constant(mechanism.log_weight_of_size(np.arange(k + 1)))[sizes]
    else:
        width = mechanism.answer_dims["member"]
        rising = pt.all(answers[:, 1:] > answers[:, :-1], axis=1)
        valid = rising & (answers[:, 0] >= 0) & (answers[:, -1] < k)
        sizes, members = pt.zeros(n, dtype="int64") + width, pt.clip(answers, 0, k - 1).ravel()
        log_scale = pt.zeros(n) + mechanism.log_weight_of_size(np.array([width]))[0]
    zeros = pt.zeros(n, dtype="int64")
    graphs = Evidence(
        base=pt.switch(valid, 1.0, 0.0),
        own=pt.zeros(n),
        inside=pt.switch(valid, math.expm1(mechanism.log_odds), 0.0),
        log_scale=log_scale,
        category=zeros,
        set_index=pt.arange(n),
        count=count,
        members=members,
        offsets=pt.concatenate([[0], pt.cumsum(sizes)]),
        patterns=np.zeros((0, k)),
        codes=np.zeros((0, 0), dtype=np.uint16),
    )
    return list(graphs)


@njit(cache=True)
def _count_rows(answers, index, table, none):  # type: ignore[no-untyped-def]
    if index.size != 1 and index.size != answers.size:
        raise ValueError("subset_index must be one for each answer")
    n_sets, n_answers = table.shape
    count = none.copy()
    if n_sets == 1 and index.size == 1 and index[0] == 0 and n_answers <= FEW_ANSWERS:
        outside = answers.size
        for y in range(n_answers):
            found = 0
            for i in range(answers.size):
                found += answers[i] == y
            count[table[0, y]] += found
            outside -= found
        count[count.size - 1] += outside
        return count
    for i in range(answers.size):
        v, y = index[i if index.size > 1 else 0], answers[i]
        count[table[v, y] if 0 <= v < n_sets and 0 <= y < n_answers else count.size - 1] += 1
    return count


class CountRows(CompiledOp):
    """The number of answers that each row of evidence has. Invalid answers count for the last row.

    Inputs are answers (n,), the row of the subset of each, (n,) or (1,), the table (V, m) of rows of evidence by subset
    and answer, and a zero for each row.
    """

    kernels, version = (_count_rows,), source_version(__file__)

    def make_node(self, answers: Any, index: Any, table: Any, none: Any) -> Apply:
        """Convert the inputs."""
        inputs = [pt.as_tensor(part) for part in (answers, index, table, none)]
        return Apply(self, inputs, [inputs[3].type()])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the number of rows."""
        return [shapes[3]]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the output as a graph of elementary nodes."""
        answers, index, table, none = inputs
        return [none[_rows(answers, index, table, none.shape[0] - 1)].inc(1)]
