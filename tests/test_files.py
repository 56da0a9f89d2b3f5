"""Files are written whole or not at all, to new files or to ordinary ones, and nothing is left behind."""

import errno
import os
import stat
import threading
import time
import warnings

import pytest

from adobest_pp._files import check_target, replacing, temporary_name, write_whole
from tests.refusals import refuses


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_there_whole_and_alone(tmp_path):
    write_whole(tmp_path / "new", b"content", overwrite=False)
    assert (tmp_path / "new").read_bytes() == b"content"
    assert names(tmp_path) == ["new"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~mask


def test_a_file_is_replaced_where_that_is_asked_for_and_keeps_its_mode(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with refuses("path", FileExistsError):
        write_whole(path, b"new", overwrite=False)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new", overwrite=True)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["old"]


def test_a_file_that_was_made_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "new"

    def write_while_another_does():
        with replacing(path, overwrite=False) as temporary:
            temporary.write_bytes(b"mine")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="another program has just made"):
        write_while_another_does()
    assert path.read_bytes() == b"theirs"
    assert names(tmp_path) == ["new"]


def test_links_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to(target)
    for overwrite, content in ((False, b"first"), (True, b"second")):  # it leads to nothing yet, then to a file
        write_whole(link, content, overwrite=overwrite)
        assert link.is_symlink()
        assert target.read_bytes() == content
    with pytest.raises(FileExistsError, match="which exists"):
        write_whole(link, b"third", overwrite=False)
    assert (names(tmp_path), names(tmp_path / "folder")) == (["folder", "link"], ["target"])


def test_what_is_no_ordinary_file_is_refused(tmp_path):
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to("/dev/null")
    for path in (pipe, folder, link, "/dev/null"):
        for overwrite in (False, True):
            with refuses("path"):
                write_whole(path, b"content", overwrite=overwrite)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        check_target(link, overwrite=True)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--out must name a file in a folder that exists, got .*none"):
        check_target(tmp_path / "none" / "file", overwrite=False, name="--out")


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, problem):
    path = tmp_path / "old"
    path.write_bytes(b"old")

    def fail(*arguments):
        raise problem

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(problem)) as raised:
            write_whole(path, b"new", overwrite=True)
    if isinstance(problem, OSError):
        assert raised.value.errno == errno.ENOSPC
        assert "old' could not be written, and nothing was changed: No space left" in str(raised.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["old"]


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    write_whole(tmp_path / "new", b"content", overwrite=False)
    with pytest.raises(FileExistsError, match="which exists"):
        write_whole(tmp_path / "new", b"more", overwrite=False)
    assert names(tmp_path) == ["new"]


def test_of_many_writers_of_a_new_file_one_succeeds(tmp_path):
    found, start = [], threading.Barrier(8)

    def write(number):
        start.wait()
        try:
            write_whole(tmp_path / "new", b"%d" % number, overwrite=False)
            found.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert (tmp_path / "new").read_bytes() == b"%d" % found[0]
    assert names(tmp_path) == ["new"]


# ---------------------------------------------------------------- what a killed writer leaves
def die_while_writing(path):
    """Write in a process that ends within, as a kill would end it: nothing is cleaned up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the threads that there may be
        process = os.fork()
    if process == 0:
        with replacing(path) as temporary:
            temporary.write_bytes(b"half")
            os._exit(9)
    os.waitpid(process, 0)
    return process


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "file"
    for _ in range(2):
        die_while_writing(path)
    die_while_writing(tmp_path / "other")
    assert len(names(tmp_path)) == 2  # the second writer has removed what the first one left
    write_whole(path, b"whole", overwrite=False)
    assert path.read_bytes() == b"whole"
    assert [name.partition(".")[2].partition(".")[0] for name in names(tmp_path)] == ["other", ""]


def test_files_of_writers_that_may_be_at_work_stay_for_a_day(tmp_path):
    mine = temporary_name(".file.")
    machine, _, token = mine.removeprefix(".file.").removesuffix(".tmp").split("-")
    ended = die_while_writing(tmp_path / "other")
    kept = [mine, f".file.{machine}-{os.getppid()}-{token}.tmp", f".file.00000000-{ended}-{token}.tmp"]
    kept += [f".file.{token}.tmp", ".file.notes.tmp", "file.tmp"]
    for name in kept:
        (tmp_path / name).write_bytes(b"half")
    write_whole(tmp_path / "file", b"whole", overwrite=False)
    assert {*kept} < {*names(tmp_path)}
    for name in kept:
        os.utime(tmp_path / name, (0, time.time() - 100_000))
    write_whole(tmp_path / "file", b"whole", overwrite=True)
    assert {*kept} & {*names(tmp_path)} == {".file.notes.tmp", "file.tmp"}
