"""`python -m validation` runs every program, tells which failed, and writes the results of full runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from validation import __main__ as suite
from validation import common
from validation.common import Options, finding

PASSED, FAILED = finding("one", "this holds", True, ratio=0.5), finding("two", "that holds", False)


def outcome(name, *findings):
    return suite.Outcome(name, findings or (PASSED,), f"figures of {name}\n", 1.5)


def test_a_program_is_a_module_with_a_function_that_returns_findings(tmp_path):
    for name in ("zeta", "privacy", "alpha", "gradients"):
        (tmp_path / f"{name}.py").write_text('"""A program."""\n\ndef findings(options):\n    return []\n')
    (tmp_path / "common.py").write_text("def helper():\n    return 0\n")
    assert suite.programs(tmp_path) == ["privacy", "gradients", "alpha", "zeta"]
    assert set(suite.ORDER) <= set(suite.programs())


def test_a_program_runs_in_a_process_of_its_own_and_its_findings_come_back():
    done = suite.run("honest_optimum", Options(quick=True, seed=3))
    assert done.passed
    assert [one.name for one in done.findings] == ["nested", "everything"]
    assert done.findings[0].figures["largest_shortfall"] < 1e-12
    assert "P(Y = X)" in done.printed
    assert "PASS" not in done.printed
    assert str(done).count("PASS  ") == 2


def test_the_command_runs_programs_and_writes_their_findings(tmp_path):
    out = tmp_path / "results.md"
    command = [sys.executable, "-m", "validation", "honest_optimum", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=Path(suite.__file__).parents[1], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    written = out.read_text(encoding="utf-8")
    assert "| [honest_optimum](#honest_optimum) | PASS | 2 of 2 |" in written
    assert "PASS  `honest` over the K nested subsets is as large as over all subsets (largest shortfall " in written


def test_a_program_that_ends_with_an_error_has_failed():
    done = suite.run("no_such_program", Options(quick=True))
    assert not done.passed
    assert done.findings == ()
    assert "ModuleNotFoundError" in str(done)


def test_what_was_printed_before_an_error_is_kept(monkeypatch):
    def findings(options):
        print("PASS  a line that decides nothing")  # noqa: T201
        raise ArithmeticError("in the middle")

    monkeypatch.setitem(sys.modules, "validation.broken", type(sys)("broken"))
    sys.modules["validation.broken"].findings = findings
    found, printed = common.run_here("broken", Options())
    assert found == ()
    assert printed.startswith("PASS  a line that decides nothing\n")
    assert "in the middle" in printed
    assert not suite.Outcome("broken", found, printed, 1.0).passed


@pytest.mark.parametrize("wrong", [(PASSED, FAILED), (FAILED,), ()])
def test_one_failure_fails_all_and_is_shown(monkeypatch, capsys, tmp_path, wrong):
    failed = suite.Outcome("two", wrong, "PASS  this is only printed\n", 1.5)
    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", lambda name, _: failed if name == "two" else outcome(name))
    assert suite.main(["--out", str(tmp_path / "results.md")]) == 1
    printed = capsys.readouterr().out
    passed = sum(one.passed for one in wrong)
    assert "[1/2] one … PASS (1 of 1 findings, 2 s)" in printed
    assert f"[2/2] two … FAIL ({passed} of {len(wrong)} findings, 2 s)" in printed
    assert ("FAIL  that holds" in printed) == (FAILED in wrong)
    assert f"| [two](#two) | FAIL | {passed} of {len(wrong)} |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_results_are_written_in_full_runs_or_where_told(monkeypatch, tmp_path):
    asked = []

    def fake(name, options):
        asked.append(options)
        return outcome(name)

    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", fake)
    monkeypatch.setattr(suite, "RESULTS", tmp_path / "RESULTS.md")
    assert suite.main(["--quick"]) == 0
    assert not list(tmp_path.iterdir())
    assert suite.main(["--seed", "5"]) == 0
    assert asked == [Options(True, 1)] * 2 + [Options(False, 5)] * 2
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "python -m validation --seed 5" in text
    assert "| [one](#one) | PASS | 1 of 1 | 2 |" in text
    assert "```\nfigures of two\n\nPASS  this holds (ratio 0.5)\n```" in text
    assert suite.main(["--quick", "--out", str(tmp_path / "quick.md")]) == 0
    assert (tmp_path / "quick.md").exists()


def test_programs_that_did_not_run_keep_what_is_written_of_them():
    before = suite.report([outcome("one"), outcome("two", FAILED)], ["--seed", "1"])
    after = suite.report([outcome("one", PASSED, FAILED)], ["--seed", "2"], before)
    assert "| [one](#one) | FAIL | 1 of 2 | 2 |" in after
    assert "| [two](#two) | FAIL | 0 of 1 | 2 |" in after
    assert "```\nfigures of two\n\nFAIL  that holds\n```" in after


def test_work_is_done_in_order_in_one_process_and_in_several():
    assert common.each(abs, [-3, 2, -1], "numbers") == [3, 2, 1]
    assert common.each(abs, [-3, 2, -1], "numbers", parallel=True) == [3, 2, 1]


def test_findings_decide_the_exit_code(capsys):
    def program(*found):
        return lambda options: list(found)

    assert common.main(program(PASSED), "A program.", []) == 0
    assert common.main(program(PASSED, FAILED), "A program.", ["--quick"]) == 1
    assert "PASS  this holds (ratio 0.5)\nFAIL  that holds\n" in capsys.readouterr().out
    assert common.main(program(), "A program.", []) == 1
