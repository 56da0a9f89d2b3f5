"""Workers of a Dask cluster read the same answers to the last bit, and one that dies takes nothing along."""

import logging
import os

import dask
import distributed  # noqa: F401  (its own settings must be there before one of them is changed, and so brought back)
import pytest
from distributed import LocalCluster

import adobest_pp as ad
from adobest_pp.answers import DamagedAnswers
from tests.answers import deadly_pieces
from tests.strategies import simulated

OPTIONS = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
RRRR, OUE = ad.RRRR(6, 1.0), ad.UnaryEncoding(30, 1.0)


@pytest.fixture(scope="module")
def scheduler():
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), LocalCluster(**OPTIONS) as cluster:
        yield cluster.scheduler_address


def files(folder, mechanism, names):
    """Write a file of each name, and return the evidence of each."""
    parts = {name: simulated(mechanism, 50, seed) for seed, name in enumerate(names)}
    for name, part in parts.items():
        part.to_parquet(folder / name)
    return {name: part.evidence() for name, part in parts.items()}


@pytest.mark.parametrize("mechanism", [RRRR, OUE], ids=["RRRR", "OUE"])
def test_a_cluster_gathers_the_same_to_the_last_bit(tmp_path, scheduler, mechanism):
    first, *others = files(tmp_path, mechanism, [f"{i}.parquet" for i in range(7)]).values()
    here, there = ad.gather(tmp_path), ad.gather(tmp_path, scheduler=scheduler, progressbar=False)
    assert there.evidence() == here.evidence() == first.merge(*others)
    assert there.files == here.files


def test_a_worker_that_dies_once_loses_nothing_and_nothing_counts_twice(tmp_path, scheduler, monkeypatch):
    monkeypatch.setattr("adobest_pp.answers.gather.gather.read_piece", deadly_pieces.read_piece)
    first, *others = files(tmp_path, RRRR, [deadly_pieces.ONCE, "a.parquet", "b.parquet", "c.parquet"]).values()
    assert ad.gather(tmp_path, scheduler=scheduler, progressbar=False).evidence() == first.merge(*others)
    assert (tmp_path / "seen").exists()


@pytest.mark.long
def test_a_file_that_workers_die_of_is_named_and_the_others_kept(tmp_path, scheduler, monkeypatch):
    monkeypatch.setattr("adobest_pp.answers.gather.gather.read_piece", deadly_pieces.read_piece)
    found = files(tmp_path, RRRR, [deadly_pieces.ALWAYS, "a.parquet", "b.parquet", "c.parquet"])
    _, first, *others = found.values()
    with pytest.raises(DamagedAnswers, match=r"always.parquet' \(every worker that was given it died\)") as info:
        ad.gather(tmp_path, scheduler=scheduler, progressbar=False)
    assert info.value.gathered.evidence() == first.merge(*others)
    assert [os.path.basename(path) for path in info.value.damaged] == [deadly_pieces.ALWAYS]
