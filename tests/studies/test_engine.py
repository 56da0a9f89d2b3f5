"""One study, however it is run and whatever happens to it: the same numbers."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, nullcontext

import numpy as np
import psutil
import pytest
from distributed import KilledWorker

from adobest_pp import _dask
from adobest_pp._dask import Cluster
from adobest_pp.studies import Study, engine, open_study, processes, run_study, study_status
from tests.refusals import refuses
from tests.studies import deadly
from tests.studies.small import (
    FILE,
    PATIENCE,
    ROOT,
    assert_complete,
    assert_partial,
    content,
    finish,
    start,
    study,
    wait_for_runs,
    wait_until,
)

PART = {"n_categories": [3], "rho": [1.0]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


@contextmanager
def killed_at_last(process):
    """Leave no process behind, whatever the test finds."""
    family = [process]
    try:
        yield process
    finally:
        if process.poll() is None:
            family = [*psutil.Process(process.pid).children(recursive=True), process]
        for member in family:
            member.kill()
        process.communicate()


@pytest.mark.long
def test_two_workers_give_the_numbers_of_a_plain_loop(tmp_path):
    """One worker does in test_runs_that_are_raised_later_are_made_and_no_others."""
    made = study(**PART)
    status = run_study(made, tmp_path / "small.db", workers=2, progressbar=False)
    assert (status.done, status.failed, status.missing, status.running) == (status.total, 0, 0, False)
    assert_complete(tmp_path / "small.db", made)


@pytest.mark.long
def test_a_killed_driver_loses_only_what_was_in_flight(tmp_path, file):
    store, made = tmp_path / "small.db", study()
    with killed_at_last(start("run", file, "--store", store, "--workers", 2)) as driver:
        wait_for_runs(store, driver)
        workers = psutil.Process(driver.pid).children(recursive=True)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    status = study_status(store)
    assert status.done > 0
    assert status.missing > 0
    assert_partial(store, made)
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not alive, "workers must not outlive their driver"
    before = open_study(store)

    status = run_study(made, store, workers=1, progressbar=False)
    assert (status.failed, status.missing) == (0, 0)
    assert_complete(store, made)
    # What was done has not been run again.
    done = before["status"] == 1
    after = open_study(store)
    for name in ("seconds", "finished_at"):
        np.testing.assert_array_equal(after[name].where(done), before[name].where(done))


@pytest.mark.long
def test_a_killed_worker_changes_nothing_and_the_command_says_how_it_ended(tmp_path, file):
    store, made = tmp_path / "small.db", study()
    with killed_at_last(start("run", file, "--store", store, "--workers", 2)) as driver:
        wait_for_runs(store, driver)
        worker = next(
            child
            for child in psutil.Process(driver.pid).children(recursive=True)
            if any("spawn_main" in part for part in child.cmdline())
        )
        worker.kill()
        assert study_status(store).missing > 0
        code, out, errors = finish(driver)
    assert code == 0, errors
    assert "0 failed, 0 missing" in out
    assert_complete(store, made)


HELD = """
name = "held"
run = "tests.studies.own_runs:held_run"
runs = 2
seed = 1
measures = ["distance"]

[grid]
held = [false, true]
"""


# Another program, which tries to run a function of its own by way of each port, and prints where it got in.
INTRUDER = """
import os, sys, threading
from distributed import Client

def intrude(port):
    client = Client(f"tcp://127.0.0.1:{port}", timeout=5)
    print(port, client.run_on_scheduler(os.getpid), flush=True)

threads = [threading.Thread(target=intrude, args=(port,), daemon=True) for port in sys.argv[1:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(10)
os._exit(0)
"""


def intruded(ports):
    if not ports:
        return ""
    program = [sys.executable, "-c", INTRUDER, *map(str, ports)]
    return subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE).stdout


@pytest.mark.long
def test_nobody_gets_in_and_ctrl_c_keeps_finished_runs_and_ends_the_workers(tmp_path):
    file, store = tmp_path / "held.toml", tmp_path / "held.db"
    file.write_text(HELD)
    with killed_at_last(start("run", file, "--store", store, "--workers", 1, "--quiet")) as driver:
        wait_until(lambda: store.exists() and study_status(store).done == 2, driver)
        workers = psutil.Process(driver.pid).children(recursive=True)
        family = [psutil.Process(driver.pid), *workers]
        places = [place for one in family for place in one.net_connections() if place.status == psutil.CONN_LISTEN]
        ports = {place.laddr.port for place in places}
        assert intruded(ports) == ""
        assert not ports
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
        code, out, errors = finish(driver)
    assert (code, out) == (130, "")
    assert errors == f"adobest: stopped; run the same command again to continue '{store}'\n"
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not alive
    status = study_status(store)
    assert (status.done, status.missing, status.running) == (2, 2, False)


class Future:
    """A future of Dask that is done."""

    def __init__(self, status, problem=None):
        self.status, self._problem = status, problem

    def done(self):
        return True

    def result(self):
        if self._problem is not None:
            raise self._problem
        return "made"


def test_a_task_that_workers_died_of_is_distinguished_from_one_that_they_refused():
    cluster = Cluster(None, None)
    cluster._running = {Future("error", KilledWorker("batch", None, 3)): "batch"}
    assert cluster.next() == ("batch", None)
    cluster._running = {Future("error", ValueError("other files")): "batch"}
    with pytest.raises(OSError, match="a worker could not do its task: other files"):
        cluster.next()


def test_a_task_whose_result_died_with_its_worker_is_waited_for():
    cluster = Cluster(None, None)
    cluster._running = {Future("lost"): "first", Future("finished"): "second"}
    assert cluster.next() == ("second", "made")
    assert list(cluster._running.values()) == ["first"]


@pytest.mark.long
def test_a_run_that_kills_its_workers_is_found_and_the_others_complete(tmp_path, monkeypatch):
    made, store = study(runs=4, people_per_category=50, **PART), tmp_path / "small.db"
    monkeypatch.setattr("adobest_pp.studies.engine.run_batch", deadly.run_batch)
    monkeypatch.setattr(processes, "_DEATHS_ALLOWED", 0)
    status = run_study(made, store, workers=1, progressbar=False)
    assert (status.done, status.failed) == (status.total - 1, 1)
    dataset = open_study(store)
    assert dataset["status"].values[deadly.CELL, deadly.RUN] == 2
    assert "every worker that was given this run died" in str(dataset["error"].values[deadly.CELL, deadly.RUN])


@pytest.mark.long
def test_a_poisoned_cell_is_reported_and_the_rest_completes(tmp_path):
    # No θ can be drawn from Dirichlet(1e308): its Gamma variables overflow.
    made, store = study(rho=[1.0, 1e308], runs=3, people_per_category=50), tmp_path / "small.db"
    status = run_study(made, store, workers=1, progressbar=False)
    dataset = open_study(store)
    poisoned = dataset["rho"] == 1e308
    np.testing.assert_array_equal(dataset["status"], np.where(poisoned, 2, 1)[:, None].repeat(3, axis=1))
    np.testing.assert_array_equal(np.isnan(dataset["tv"]), dataset["status"] == 2)
    np.testing.assert_array_equal(dataset["error"] != "", dataset["status"] == 2)
    assert status.failed == 3 * int(poisoned.sum())
    assert "theta must be" in status.errors[0][0]

    assert run_study(made, store, workers=1, progressbar=False).failed == status.failed
    np.testing.assert_array_equal(open_study(store)["finished_at"], dataset["finished_at"])
    assert run_study(made, store, workers=1, retry_failed=True, progressbar=False).failed == status.failed
    again = open_study(store)["finished_at"] > dataset["finished_at"]
    np.testing.assert_array_equal(again, dataset["status"] == 2)


def dask_process(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"NUMBA_NUM_THREADS": "1"},
    )


@contextmanager
def cluster_of(n_workers, tmp_path, *options):
    """Start a scheduler and its workers; the process of the one and its address."""
    address_file = tmp_path / "scheduler.json"
    with ExitStack() as stack:
        scheduler = dask_process(
            "scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", address_file
        )
        stack.enter_context(killed_at_last(scheduler))
        wait_until(lambda: address_file.exists() and address_file.read_text().endswith("}"), scheduler)
        address = json.loads(address_file.read_text())["address"]
        for _ in range(n_workers):
            worker = dask_process(
                "worker", address, "--nthreads", 1, "--no-dashboard", "--local-directory", tmp_path, *options
            )
            stack.enter_context(killed_at_last(worker))
        yield scheduler, address


@pytest.mark.long
def test_a_cluster_of_two_workers_gives_the_same_numbers(tmp_path):
    file = tmp_path / "part.toml"
    file.write_text(FILE.replace("= [3, 4]", "= [3]").replace("rho = [0.1, 1.0]", "rho = [1.0]"))
    store = tmp_path / "small.db"
    with cluster_of(2, tmp_path) as (_, address):
        code, _, errors = finish(start("run", file, "--store", store, "--scheduler", address))
        assert code == 0, errors
    assert_complete(store, study(**PART))


@pytest.mark.long
def test_a_cluster_that_has_lost_its_workers_is_not_waited_for_forever(tmp_path):
    made, store = study(runs=4, people_per_category=50, **PART), tmp_path / "small.db"
    # Without a nanny nobody starts a worker again that died.
    with pytest.MonkeyPatch.context() as patch, cluster_of(1, tmp_path, "--no-nanny") as (_, address):
        patch.setattr(engine, "run_batch", deadly.run_batch)
        patch.setattr(_dask, "RECOUNT_SECONDS", 0.1)
        patch.setattr(engine._Driver, "run", with_patience(2.0, engine._Driver.run))
        with pytest.raises(OSError, match="scheduler has had no workers for 2 s; run the same command again to resume"):
            run_study(made, store, scheduler=address, progressbar=False)
    status = study_status(store)
    assert (status.failed, status.running) == (0, False)
    assert status.missing > 0
    run_study(made, store, workers=1, progressbar=False)
    assert_complete(store, made)


def with_patience(seconds, run):
    """Only once there are workers: how long these take to start is not what is tested."""

    def patient(driver, bar):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_dask, "PATIENCE", seconds)
            run(driver, bar)

    return patient


@pytest.mark.long
def test_a_scheduler_that_is_lost_stops_the_study_in_one_line(tmp_path, file):
    store = tmp_path / "small.db"
    with (
        cluster_of(1, tmp_path) as (scheduler, address),
        killed_at_last(start("run", file, "--store", store, "--scheduler", address, "--quiet")) as driver,
    ):
        wait_for_runs(store, driver)
        scheduler.kill()
        code, _, errors = finish(driver)
    assert code == 2
    assert "run the same command again to resume" in errors
    assert len(errors.splitlines()) == 1, errors
    assert_partial(store, study())


NO_ADDRESSES = [
    "host",
    "host:8786",
    "tcp://host",
    "tcp://:8786",
    "tcp://host:x",
    "tcp://host:99999",
    "udp://h:1",
    "",
    3,
]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_no_address_is_refused_at_once(tmp_path, address):
    # Dask itself would try to reach it until the time is up.
    with refuses("scheduler"):
        run_study(study(), tmp_path / "small.db", scheduler=address, progressbar=False)
    assert not os.listdir(tmp_path)


def test_an_address_without_a_scheduler_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("adobest_pp._dask.PATIENCE", 0.5)
    with refuses("scheduler", OSError):
        run_study(study(), tmp_path / "small.db", scheduler="tcp://127.0.0.1:9", progressbar=False)
    with refuses("workers"):
        run_study(study(), tmp_path / "small.db", scheduler="tcp://127.0.0.1:9", workers=2)
    for wrong in (0, 1.5, True):
        with refuses("workers"):
            run_study(study(), tmp_path / "small.db", workers=wrong)


def test_a_worker_with_other_sources_stops_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr("adobest_pp.studies.engine.run_batch", deadly.run_batch_of_other_sources)
    with refuses("worker", OSError):
        run_study(study(), tmp_path / "small.db", workers=1, progressbar=False)
    assert study_status(tmp_path / "small.db").done == 0


def test_runs_that_are_raised_later_are_made_and_no_others(tmp_path):
    """Killed in between or not, and bit for bit what a study with all of them from the start has."""
    store, part = tmp_path / "small.db", {"people_per_category": 20, **PART}
    run_study(study(runs=3, **part), store, workers=1, progressbar=False)
    before = open_study(store)
    status = run_study(study(runs=7, **part), store, workers=1, progressbar=False)
    assert (status.total, status.done) == (3 * 7, 3 * 7)
    assert_complete(store, study(runs=7, **part))
    np.testing.assert_array_equal(open_study(store)["finished_at"][:, :3], before["finished_at"])
    with refuses("runs"):
        run_study(study(runs=6, **part), store, workers=1, progressbar=False)


def test_what_the_function_cannot_run_is_refused_before_anything_is_made(tmp_path):
    for changes, message in (
        ({"kapa": [0.8]}, "kapa must be left out for RRRR"),
        ({"utility": ["honst"]}, "utility must be one of .* got 'honst'"),
        ({"measures": ["tw"]}, r"measures must be of 'tv', .* \(did you mean 'tv'\?\), got 'tw'"),
        ({"run": "nowhere:run"}, "run must name a function as 'module:function', got 'nowhere:run'"),
    ):
        with pytest.raises(ValueError, match=message):
            run_study(Study.from_dict(content() | changes if "run" in changes else content(**changes)), tmp_path / "s")
    assert not os.listdir(tmp_path)


class DyingWorker:
    """Makes batches in this process, and dies of run 1."""

    def __init__(self):
        self.batches = []

    def slots(self):
        return 1

    def submit(self, batch):
        self.batches.append(batch)

    def next(self):
        batch = self.batches.pop(0)
        return batch, None if 1 in batch.runs else engine.run_batch(batch)


def test_a_run_that_kills_its_worker_fails_and_no_other_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_workers", lambda *_: nullcontext(DyingWorker()))
    made = {"name": "coin", "run": "tests.studies.own_runs:coin_run", "runs": 6, "seed": 1, "measures": ["distance"]}
    status = run_study(Study.from_dict(made | {"grid": {"epsilon": [1.0, 2.0], "people": [50]}}), tmp_path / "coin.db")
    assert (status.done, status.failed, status.missing) == (10, 2, 0)
