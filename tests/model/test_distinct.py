"""Distinct answers among data are found once, and again whenever the data change, in any thread."""

import threading

import numpy as np
import pymc as pm
import pytest
from numba import njit

import adobest_pp as ad
from adobest_pp.model.distinct import PLACES, DistinctRows, find_rows, remembered_rows


@njit(nogil=True)
def remembered_rows_alone(table):
    """The same without Python's lock, as chains call it."""
    return remembered_rows(table)


def oracle(table):
    """From the definition: rows in the order in which they come up, by comparing tuples."""
    seen = {}
    for i, row in enumerate(map(tuple, table.tolist())):
        seen.setdefault(row, []).append(i)
    return [places[0] for places in seen.values()], [len(places) for places in seen.values()]


def bits(n, k, seed, kind=np.uint8):
    return (np.random.default_rng(seed).random((n, k)) < 0.4).astype(kind)


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (500, 4), (500, 30), (1003, 5)])
def test_they_are_those_of_the_definition(kind, n, k):
    table = bits(n, k, 1, kind)
    for _ in range(3):  # the second time from memory
        first, count = remembered_rows(table)
        assert (first.tolist(), count.tolist()) == oracle(table)
    number = find_rows(table)[2]
    np.testing.assert_array_equal(table[first][number], table)


def test_an_empty_table_and_one_that_is_not_contiguous():
    assert [part.tolist() for part in remembered_rows(np.zeros((0, 3), np.uint8))] == [[], []]
    table = np.asfortranarray(bits(50, 3, 1))
    assert [part.tolist() for part in remembered_rows(table)] == [*oracle(table)]


@pytest.mark.parametrize("place", [0, 8190, 8192, 12_000, 12_003, -1])
def test_any_change_in_place_is_noticed(place):
    """At the same address: the first and last bytes, and those where blocks of the comparison meet."""
    table = bits(3001, 5, 2)
    before = remembered_rows(table)
    table.reshape(-1)[place] ^= 1
    after = remembered_rows(table)
    assert (after[0].tolist(), after[1].tolist()) == oracle(table)
    assert not np.array_equal(before[1], after[1])


def test_more_tables_than_places_in_many_threads():
    tables = [bits(200 + i, 4, i) for i in range(PLACES + 5)]
    right = [oracle(table) for table in tables]
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for i in rng.integers(len(tables), size=1000):
            first, count = remembered_rows_alone(tables[i])
            if (first.tolist(), count.tolist()) != right[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [ad.UnaryEncoding(4, 1.2), ad.SubsetSelection(4, 1.0, size=2)], ids=repr)
def test_a_compiled_density_follows_the_data(mechanism):
    """Old, new and old answers again, of the same size and of another, against a model of known answers."""
    rng = np.random.default_rng(1)
    tables = [mechanism.privatize(rng.integers(4, size=n), rng=rng) for n in (60, 60, 90)]
    with pm.Model() as model:
        answers = pm.Data("answers", tables[0])
        ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(4)), mechanism, observed=answers)
    density = model.compile_logp()
    nodes = density.f.maker.fgraph.toposort()
    assert sum(isinstance(node.op, DistinctRows) for node in nodes) == 1
    point = {"theta_simplex__": np.array([0.3, -0.2, 0.5])}
    for which in (0, 1, 0, 2, 1, 1):
        with model:
            pm.set_data({"answers": tables[which]})
        with pm.Model() as known:
            responses = ad.Responses.from_arrays(mechanism, tables[which])
            ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(4)), responses)
        assert density(point) == pytest.approx(known.compile_logp(mode="FAST_COMPILE")(point), rel=1e-12)
