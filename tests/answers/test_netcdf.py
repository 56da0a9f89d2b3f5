"""Reading netCDF: damage is noticed, and what a stranger's file holds is checked before any of it is read."""

import hashlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import xarray as xr

from adobest_pp import SRR, Responses
from adobest_pp._files import CHECKSUM, netcdf_bytes
from adobest_pp.answers import netcdf, read_tree

LABELS = ["red", "grün", "<b>"]
N = 1000


def some_responses():
    return Responses.from_arrays(SRR(3, 1.0), np.arange(N) % 3, categories=LABELS)


@pytest.fixture
def path(tmp_path):
    some_responses().to_netcdf(tmp_path / "responses.nc")
    return tmp_path / "responses.nc"


# ---------------------------------------------------------------- what is read
def example_tree():
    rng = np.random.default_rng(1)
    theta = (("chain", "draw", "category"), rng.dirichlet(np.ones(3), size=(2, 5)), {"units": "share"})
    kinds = {
        "flag": ("category", [True, False, True]),
        "missing": ("category", [1.0, np.nan, 3.0]),
        "scalar": ((), 2.5),
        "none": ("empty", np.zeros(0)),
        "words": ("draw", ["", "a", "ü", "b c", "d"]),
        "narrow": ("category", np.array([1, 2, 3], dtype=">i2")),
        "letters": ("category", np.array([b"a", b"bc", b""])),
    }
    attributes = {"text": "ä", "list": ["a", "b"], "one": 1, "half": 0.5, "several": np.array([1.5, 2.5]), "empty": ""}
    posterior = xr.Dataset({"theta": theta, **kinds}, {"category": LABELS, "code": ("category", [2, 1, 0])}, attributes)
    shared = xr.Dataset({"u": ("run", [1, 2])}, {"run": ["x", "y"]})
    inner = xr.Dataset({"v": ("run", [3.0, 4.0])})
    return xr.DataTree.from_dict({"/": shared, "/posterior": posterior, "/within/more": inner})


def test_all_that_xarray_reads_is_read_alike(tmp_path):
    path = tmp_path / "tree.nc"
    path.write_bytes(netcdf_bytes(example_tree()))
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        xr.testing.assert_identical(read_tree(path), opened.load())


def test_compressed_variables_are_read(tmp_path):
    dataset = some_responses().to_xarray()
    packed = {"answer": {"zlib": True, "complevel": 5, "shuffle": True, "fletcher32": True, "chunksizes": (64,)}}
    dataset.to_netcdf(tmp_path / "packed.nc", engine="h5netcdf", encoding=packed)
    assert Responses.from_netcdf(tmp_path / "packed.nc").answers.tolist() == some_responses().answers.tolist()


def test_arviz_and_xarray_open_a_file_with_a_checksum(path, tmp_path):
    import arviz as az

    with xr.open_dataset(path) as opened:
        assert opened.sizes["response"] == N
        assert not any("sha256" in str(value) for value in opened.attrs.values())
    (tmp_path / "tree.nc").write_bytes(netcdf_bytes(example_tree()))
    with az.from_netcdf(tmp_path / "tree.nc") as tree:
        assert tree["posterior"]["theta"].shape == (2, 5, 3)


@pytest.mark.skipif(find_spec("netCDF4") is None, reason="netCDF4 is not installed")
def test_the_library_of_netcdf_opens_a_file_with_a_checksum(path):
    with xr.open_dataset(path, engine="netcdf4") as opened:
        assert opened.sizes["response"] == N


def test_groups_that_do_not_fit_together_are_told_in_one_sentence(tmp_path):
    with h5py.File(tmp_path / "tree.nc", "w") as file:
        for name, size in (("run", 2), ("more/run", 3)):
            file.create_dataset(name, data=np.arange(size)).make_scale("run")
    with pytest.raises(ValueError, match=r"which is damaged or not a netCDF file: it has inconsistent groups$"):
        read_tree(tmp_path / "tree.nc")


def test_what_xarray_writes_again_has_no_checksum_and_is_read(path):
    with xr.open_dataset(path) as opened:
        dataset = opened.load().isel(response=slice(10))
    dataset.to_netcdf(path, engine="h5netcdf")
    assert CHECKSUM not in path.read_bytes()
    assert len(Responses.from_netcdf(path)) == 10


# ---------------------------------------------------------------- damage
def end_of(content):
    return content.index(CHECKSUM)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c[: end_of(c)], "no last line with its checksum"),
        (lambda c: c[:-1], "bytes other than a checksum after its end"),
        (lambda c: c + b"\n", "bytes other than a checksum after its end"),
        (lambda c: c.replace(CHECKSUM, b"adobest_pp sha257 "), "bytes other than a checksum after its end"),
        (lambda c: c[: end_of(c)] + bytes(len(c) - end_of(c)), "bytes other than a checksum after its end"),
        (lambda c: c.replace(b"red", b"rad"), "another SHA-256 than its last line states"),
        (lambda c: c.replace(b",adobest_pp=sha256", b",adobest_pp=sha257"), "another SHA-256"),
        (lambda c: c[:-3] + b"0x\n", "bytes other than a checksum after its end"),
    ],
)
def test_damage_is_told_in_one_sentence(path, damage, message):
    content = path.read_bytes()
    changed = damage(content)
    assert changed != content
    path.write_bytes(changed)
    for read in (Responses.from_netcdf, read_tree):
        with pytest.raises(
            ValueError, match=f"path must name a .*responses.nc', which is damaged .*: it has {message}"
        ):
            read(path)


def test_no_byte_can_be_changed_unnoticed():
    """All bytes of a small file, one after the other. Those that HDF5 ignores are noticed as well."""
    content = netcdf_bytes(xr.Dataset({"a": 1}))
    for at in range(len(content)):
        with pytest.raises(netcdf.Damaged):
            netcdf.read_groups(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


# ---------------------------------------------------------------- strangers' files
def without(file, name):
    del file[name]
    return file


def virtual(file):
    layout = h5py.VirtualLayout((N,), "i1")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "answer", (N,))
    without(file, "answer").create_virtual_dataset("answer", layout)


def external(file):
    without(file, "answer").create_dataset("answer", (N,), "i1", external=[("/etc/passwd", 0, N)])


def huge(**how):
    def edit(file):
        without(file, "answer").create_dataset("answer", (3_000_000_000,), "u2", **how)

    return edit


def bomb(file):
    without(file, "answer").create_dataset("answer", data=np.zeros(1 << 26, "i1"), compression=1, chunks=(1 << 24,))


def one_large_chunk(file):
    """Of ten answers, but in a chunk that takes half a gigabyte to unpack."""
    made = without(file, "answer").create_dataset(
        "answer", (10,), "i1", maxshape=(None,), chunks=(1 << 29,), compression=1
    )
    made.id.write_direct_chunk((0,), b"x\x9cc")


def shared_text(file):
    """Write a text of 100 kB once, and let 50,000 labels be that one."""
    for name in list(file):
        del file[name]
    labels = file.create_dataset("category", (50_000,), h5py.string_dtype())
    labels.make_scale("category")
    labels[0] = "a" * 100_000
    raw = labels.id.get_offset()
    file.flush()
    yield lambda content: content[:raw] + 50_000 * content[raw : raw + 16] + content[raw + 50_000 * 16 :]


def deep(file):
    for _ in range(20):
        file = file.create_group("more")


EDITS = {
    "virtual": (virtual, "a virtual variable"),
    "external": (external, "a variable whose data is in another file"),
    "external link": (lambda f: f.__setitem__("x", h5py.ExternalLink("other.h5", "/")), "a soft or external link"),
    "soft link": (lambda f: f.__setitem__("x", h5py.SoftLink("/answer")), "a soft or external link"),
    "hard link": (lambda f: f.__setitem__("x", f["answer"]), "an object with two names"),
    "cycle": (lambda f: f.create_group("g").__setitem__("up", f), "an object with two names"),
    "huge": (huge(), "of a size that the file cannot hold"),
    "huge in chunks": (huge(chunks=(1 << 20,)), "of a size that the file cannot hold"),
    "huge compressed": (huge(chunks=(1 << 20,), compression="gzip"), "of a size that the file cannot hold"),
    "bomb": (bomb, "of a size that the file cannot hold"),
    "large chunk": (one_large_chunk, "of a size that the file cannot hold"),
    "shared text": (shared_text, "text of a size that the file cannot hold"),
    "compound": (lambda f: f.create_dataset("x", (3,), "i4,f8"), "neither numbers nor text"),
    "reference": (lambda f: f.create_dataset("x", (3,), h5py.ref_dtype), "neither numbers nor text"),
    "rows of any length": (lambda f: f.create_dataset("x", (3,), h5py.vlen_dtype("i4")), "neither numbers nor text"),
    "filter": (lambda f: f.create_dataset("x", data=np.zeros(9), compression="lzf"), "a filter other than"),
    "type": (lambda f: f.__setitem__("x", np.dtype("i4")), "neither a group nor a variable"),
    "no names": (lambda f: f.create_dataset("x", data=np.zeros((2, 3))), "whose dimensions have no names"),
    "groups": (deep, "groups nested more than 16 deep"),
    "attributes": (lambda f: [f.attrs.create(f"a{i}", 1) for i in range(1100)], "more than 1000 attributes"),
    "odd attribute": (lambda f: f.attrs.create("x", f.ref, dtype=h5py.ref_dtype), "neither numbers nor text"),
}


def edited(content, edit):
    """Return a file with something in it that we do not read, and with a correct checksum: a stranger can make one."""
    held = io.BytesIO(content[: end_of(content)])
    with h5py.File(held, "r+", libver="latest") as file:
        later = edit(file)
        later = list(later) if later is not None and hasattr(later, "__next__") else []
    made = held.getvalue()
    for change in later:
        made = change(made)
    return made + CHECKSUM + hashlib.sha256(made).hexdigest().encode() + b"\n"


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_what_a_file_may_not_hold_is_refused_before_it_is_read(path, edit, message):
    path.write_bytes(edited(path.read_bytes(), edit))
    assert path.stat().st_size < 2e6
    pid = child_of(path)
    before = time.perf_counter()
    with pytest.raises(ValueError, match=f"which is damaged or not a netCDF file: it has .*{message}"):
        Responses.from_netcdf(path)
    assert time.perf_counter() - before < 5
    assert netcdf._READER._process.pid == pid  # it did not have to be ended


def child_of(path):
    """Return the number of the process that reads, which runs after any file was read."""
    path.with_name("other.nc").write_bytes(netcdf_bytes(xr.Dataset({"a": 1})))
    read_tree(path.with_name("other.nc"))
    return netcdf._READER._process.pid


# ---------------------------------------------------------------- the process that reads
PROGRAM = """
import sys, os, time, signal
sys.stdout.buffer.write((2).to_bytes(8, "little") + b"{{}}"); sys.stdout.flush()
sys.stdin.buffer.readline()
{}
"""


@pytest.fixture
def other_program(tmp_path, monkeypatch):
    """Let another program read, or rather not."""

    def choose(line):
        netcdf._READER.close()
        (tmp_path / "program.py").write_text(PROGRAM.format(line))
        monkeypatch.setattr(netcdf, "_PROGRAM", tmp_path / "program.py")

    yield choose
    netcdf._READER.close()


@pytest.mark.parametrize("line", ["os.kill(os.getpid(), signal.SIGSEGV)", "time.sleep(60)"], ids=["crash", "hang"])
def test_a_file_that_hdf5_does_not_survive_is_refused(path, other_program, monkeypatch, line):
    monkeypatch.setattr(netcdf, "SECONDS", 0.02)
    other_program(line)
    with pytest.raises(ValueError, match="it has content that crashes HDF5"):
        Responses.from_netcdf(path)
    monkeypatch.undo()
    assert len(Responses.from_netcdf(path)) == N


def test_endless_work_is_ended_by_the_process_itself():
    code = "import hdf5_child, signal; hdf5_child.limit(0.05, 1 << 40)\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", code], cwd=netcdf._PROGRAM.parent, timeout=30, check=False)
    assert ended.returncode == -signal.SIGPROF


def test_an_interrupt_ends_the_wait_and_the_next_file_is_read(path, other_program, monkeypatch):
    other_program("time.sleep(60)")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        Responses.from_netcdf(path)
    monkeypatch.undo()
    assert len(Responses.from_netcdf(path)) == N


def test_a_program_that_does_not_start_is_told(path, other_program):
    other_program("")
    netcdf._PROGRAM.write_text("raise SystemExit")
    with pytest.raises(OSError, match=r"that reads netCDF did not start"):
        Responses.from_netcdf(path)


def test_one_process_reads_for_all_threads_and_is_started_again_if_it_is_gone(path):
    pid = child_of(path)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: len(Responses.from_netcdf(path)), range(40))) == {N}
    assert netcdf._READER._process.pid == pid
    os.kill(pid, signal.SIGKILL)
    netcdf._READER._process.wait()
    assert len(Responses.from_netcdf(path)) == N


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_has_a_process_of_its_own(path):
    pid = child_of(path)
    fork = os.fork()
    if fork == 0:
        try:
            found = len(Responses.from_netcdf(path)) == N and netcdf._READER._process.pid != pid
            netcdf._READER.close()
            os._exit(0 if found else 1)
        finally:
            os._exit(2)
    assert os.waitpid(fork, 0)[1] == 0
    assert len(Responses.from_netcdf(path)) == N
    assert netcdf._READER._process.pid == pid


def test_a_file_that_does_not_fit_into_memory_is_told_in_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "sparse.nc").touch()
    monkeypatch.setattr(pathlib.Path, "read_bytes", Mock(side_effect=MemoryError))
    for reading in (Responses.from_netcdf, read_tree):
        with pytest.raises(ValueError, match="more bytes than fit into memory"):
            reading(tmp_path / "sparse.nc")
