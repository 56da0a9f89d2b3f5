"""The command line, as a person runs it."""

import os
import socket
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import typer

from adobest_pp import RRRR, SRR, select_subset, utility
from adobest_pp.cli.main import app, main
from adobest_pp.design import UTILITIES

TERMINAL = {"COLUMNS": "120", "NO_COLOR": "1"}


def run_here(capsys, *arguments):
    """Run a command in this process: seconds faster than in one of its own."""
    code = 0
    try:
        with mock.patch.dict(os.environ, TERMINAL):
            main([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code or 0
    out, err = capsys.readouterr()
    return SimpleNamespace(returncode=code, stdout=out, stderr=err)


def adobest(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "adobest_pp", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | TERMINAL,
    )


def test_audit_of_a_mechanism_that_holds():
    done = adobest("audit", "--mechanism", "rrrr", "--categories", 20, "--epsilon", 1, "--kappa", 0.9)
    assert done.returncode == 0
    assert "Holds" in done.stdout
    assert done.stdout.count("yes") == 20


@pytest.mark.parametrize("name", ["srr", "subset-selection", "UnaryEncoding", "local_hashing", "hadamard-response"])
def test_audit_of_the_other_mechanisms(name, capsys):
    done = run_here(capsys, "audit", "--mechanism", name, "--categories", 12, "--epsilon", 0.5)
    assert done.returncode == 0
    assert "Holds" in done.stdout


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_audit_of_a_matrix(tmp_path, suffix, capsys):
    def save(name, matrix):
        path = tmp_path / (name + suffix)
        np.save(path, matrix) if suffix == ".npy" else np.savetxt(path, matrix, delimiter=",")
        return path

    good = save("good", RRRR(5, 1.0).transition_matrix([0, 1]))
    bad = save("bad", SRR(5, 1.2).transition_matrix())
    assert run_here(capsys, "audit", "--matrix", good, "--epsilon", 1).returncode == 0
    done = run_here(capsys, "audit", "--matrix", bad, "--epsilon", 1)
    assert done.returncode == 1
    assert "Does not hold" in done.stdout
    assert "NO" in done.stdout


SUBSETS = ("--mechanism", "subset-selection", "--categories", 6, "--epsilon", 1)


def test_a_setting_that_has_an_option_of_its_own_is_audited(capsys):
    by_option, by_setting = (
        run_here(capsys, "audit", *SUBSETS, *each) for each in (["--size", 1], ["--setting", "size=1"])
    )
    assert "size=1" in by_option.stdout
    assert by_setting.stdout == by_option.stdout


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    text = tmp_path / "matrix.csv"
    text.write_text("a,b\n1,2\n")
    for arguments, reason in [
        (["--mechanism", "rrrr", "--categories", 1, "--epsilon", 1], "n_categories must be an integer from 2"),
        (["--mechanism", "rrrr", "--categories", 5, "--epsilon", "nan"], "epsilon must be"),
        (["--mechanism", "rrrr", "--epsilon", 1], "--mechanism and --categories must be given together"),
        (["--matrix", text, "--epsilon", 1], "a CSV file of numbers without a header"),
        (["--matrix", tmp_path / "none.npy", "--epsilon", 1], "which is not a file"),
        (["--matrix", text, "--mechanism", "srr", "--epsilon", 1], "--matrix must be given alone"),
        ([*SUBSETS, "--size", 2, "--setting", "size=2"], "--size must be left out with --setting size=2"),
    ]:
        done = run_here(capsys, "audit", *arguments)
        assert done.returncode == 2
        assert reason in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00garbage", b"PK\x03\x04"])
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".NPY"])
def test_a_damaged_matrix_is_no_verdict(content, suffix, tmp_path, capsys):
    path = tmp_path / f"matrix{suffix}"
    path.write_bytes(content)
    done = run_here(capsys, "audit", "--matrix", path, "--epsilon", 1)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_complex_matrix_is_refused(tmp_path, capsys):
    np.save(tmp_path / "matrix.npy", np.full((2, 2), 0.5 + 3j))
    assert run_here(capsys, "audit", "--matrix", tmp_path / "matrix.npy", "--epsilon", 1).returncode == 2


def test_help_has_an_example(capsys):
    assert "Example: adobest audit" in run_here(capsys, "audit", "--help").stdout
    assert "Example: adobest study run" in run_here(capsys, "study", "--help").stdout


def commands(group, words=("adobest",)):
    """Yield every command and group of commands, with the words that call it."""
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


def test_every_help_has_an_example_of_its_own_command():
    for words, command in commands(typer.main.get_command(app)):
        assert (command.epilog or "").startswith(f"Example: {' '.join(words)} "), words


def test_utilities_prints_every_size_and_marks_the_chosen_ones(capsys):
    theta = [0.1, 0.6, 0.1, 0.2]
    done = run_here(capsys, "utilities", "--theta", "0.1,0.6,0.1,0.2", "--epsilon", 1, "--kappa", 0.8)
    assert done.returncode == 0
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3]
    for column, name in enumerate(UTILITIES, start=1):
        values = utility(theta, RRRR(4, 1.0, 0.8), name)
        np.testing.assert_allclose([float(row[column].strip(" *")) for row in rows], values, rtol=1e-3)
        chosen = len(select_subset(theta, RRRR(4, 1.0, 0.8), name))
        assert ["*" in row[column] for row in rows] == [k == chosen for k in range(4)]
    assert "in this order: 1, 3, 0." in done.stdout
    assert "Example: adobest utilities" in run_here(capsys, "utilities", "--help").stdout


def test_utilities_refuses_what_is_no_distribution(capsys):
    for theta, reason in [
        ("0.5,x", "--theta must be numbers"),
        ("0.5,0.4", "theta must sum to 1"),
        ("1", "n_categories"),
    ]:
        done = run_here(capsys, "utilities", "--theta", theta, "--epsilon", 1)
        assert done.returncode == 2
        assert reason in done.stderr
        assert "Traceback" not in done.stderr


def test_teach_refuses_a_lesson_that_is_not_there(capsys):
    done = run_here(capsys, "teach", 99)
    assert done.returncode == 2
    assert done.stderr.startswith("adobest: lesson must be ")


def test_teach_refuses_a_port_that_is_taken(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_here(capsys, "teach", "--no-browser", "--port", port)
    assert done.returncode == 2
    assert "port must be" in done.stderr.replace("host and port", "port")


def test_teach_says_how_to_install_its_server(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = run_here(capsys, "teach")
    assert done.returncode == 2
    assert "extra `teach`" in done.stderr


def test_a_warning_is_one_line(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("vote\nyes\nYes\nyes\n")
    options = ["--column", "vote", "--epsilon", 1, "--categories", "yes,Yes", "--out", tmp_path / "a.db", "--quiet"]
    done = adobest("collect", path, *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "adobest: categories 'yes' and 'Yes' are easily mistaken for each other: check that they are really different"
    ]
