"""`python -m validation` runs every program, tells which failed, and keeps the results of full runs as data."""

import json
import math
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from tests.refusals import refuses
from validation import __main__ as suite
from validation import common, results
from validation.common import Options, finding, shown
from validation.results import Result

PASSED, FAILED = finding("one", "this holds", True, ratio=0.5), finding("two", "that holds", False)


def outcome(name, *findings, seed=1):
    return Result(name, "python", findings or (PASSED,), (f"figures of {name}",), seed=seed, seconds=1.5)


def showing():
    """Return the blocks and figures of a program that shows text, tables and numbers of NumPy."""
    recorder = common.Recorder()
    with redirect_stdout(recorder):
        print("What it is about\n\nA title")  # noqa: T201
        rows = [
            ["a", np.int64(1), np.float64(2 / 3), shown("{:.1f} [{:.1f}, {:.1f}]", 1.25, np.float32(0.5), math.inf)]
        ]
        common.table(["name", "K", "x", "y"], [*rows, ["b", 20, math.nan, "none"]], name="first", setting={"K": [1, 2]})
        print("\nBetween them\n")  # noqa: T201
        common.table(["only", "x"], [[shown("{:.2f}", 0.5), 1]], 2, "second")
        common.keep(settings=np.int64(72))
        print("The end")  # noqa: T201
    return recorder.finish(), recorder.figures


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
    assert done.blocks[0].startswith("P(Y = X)")
    assert done.table("other_utilities").column("utility")[0] == "fisher"
    assert (done.seed, done.quick, done.command) == (3, True, "python -m validation honest_optimum --quick --seed 3")
    assert done.versions["numpy"] == np.__version__
    assert str(done).count("PASS  ") == 2


def test_the_command_runs_programs_and_writes_their_findings(tmp_path):
    command = [sys.executable, "-m", "validation", "honest_optimum", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(suite.__file__).parents[1], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads((tmp_path / "honest_optimum.json").read_text(encoding="utf-8"))
    assert {"name", "command", "seed", "quick", "versions", "seconds", "date", "findings", "blocks"} <= set(data)
    written = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
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
    done = common.run_here("broken", Options())
    assert done.findings == ()
    assert done.blocks[0].startswith("PASS  a line that decides nothing\n")
    assert "in the middle" in done.blocks[0]
    assert not done.passed


@pytest.mark.parametrize("wrong", [(PASSED, FAILED), (FAILED,), ()])
def test_one_failure_fails_all_and_is_shown(monkeypatch, capsys, tmp_path, wrong):
    failed = Result("two", "python", wrong, ("PASS  this is only printed",), seed=1, seconds=1.5)
    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", lambda name, _: failed if name == "two" else outcome(name))
    assert suite.main(["--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    passed = sum(one.passed for one in wrong)
    assert "[1/2] one … PASS (1 of 1 findings, 2 s)" in printed
    assert f"[2/2] two … FAIL ({passed} of {len(wrong)} findings, 2 s)" in printed
    assert ("FAIL  that holds" in printed) == (FAILED in wrong)
    assert f"| [two](#two) | FAIL | {passed} of {len(wrong)} |" in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


def test_results_are_written_in_full_runs_or_where_told(monkeypatch, tmp_path):
    asked, rendered = [], []

    def fake(name, options):
        asked.append(options)
        return outcome(name, seed=options.seed)

    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", fake)
    monkeypatch.setattr(suite, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(suite, "PAGE", tmp_path / "RESULTS.md")
    monkeypatch.setattr(suite.pages, "write_readme", lambda: rendered.append("README"))
    assert suite.main(["--quick"]) == 0
    assert not list(tmp_path.iterdir())
    assert suite.main(["--seed", "5"]) == 0
    assert asked == [Options(True, 1)] * 2 + [Options(False, 5)] * 2
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "| [one](#one) | PASS | 1 of 1 | 2 |" in text
    assert "With seed 5.\n\n```\nfigures of two\n\nPASS  this holds (ratio 0.5)\n```" in text
    assert suite.main(["--quick", "--out", str(tmp_path / "quick")]) == 0
    assert {path.name for path in (tmp_path / "quick").iterdir()} == {"one.json", "two.json", "RESULTS.md"}
    assert suite.main(["--render"]) == 0
    assert (len(asked), rendered) == (6, ["README", "README"])


def test_programs_that_did_not_run_keep_what_they_wrote(monkeypatch, tmp_path):
    outcome("two", FAILED).write(tmp_path)
    outcome("one").write(tmp_path)
    outcome("one", PASSED, FAILED).write(tmp_path)
    after = suite.report(results.read_all(tmp_path))
    assert "| [one](#one) | FAIL | 1 of 2 | 2 |" in after
    assert "| [two](#two) | FAIL | 0 of 1 | 2 |" in after
    assert "```\nfigures of two\n\nFAIL  that holds\n```" in after


def test_tables_are_data_and_text_keeps_its_place():
    blocks, figures = showing()
    about, first, second, end = blocks
    assert (about, first.title, second.title, end) == ("What it is about", "A title", "Between them", "The end")
    assert first.column("K") == [1, 20]
    assert [type(value) for value in first.column("K")] == [int, int]
    assert first.column("x")[0] == 2 / 3
    assert first.column("y") == [(1.25, 0.5, math.inf), "none"]
    assert second.column("only") == [0.5]
    assert figures == {"settings": 72}
    assert list(first.lines()) == ["name   K      x  y", "a      1  0.667  1.2 [0.5, inf]", "b     20    nan  none"]


def test_what_is_written_is_what_is_read(tmp_path):
    blocks, figures = showing()
    found = (PASSED, finding("with", "an interval", True, interval=(0.25, np.inf), ratio=0.5, other=np.nan))
    made = Result("mine", "python -m validation mine", found, blocks, figures, seed=1, seconds=2.5)
    text = made.write(tmp_path).read_text(encoding="utf-8")
    again = results.read("mine", tmp_path)
    assert str(again) == str(made)
    assert again.write(tmp_path).read_text(encoding="utf-8") == text
    assert again.table("first", K=[1, 2]).column("y")[0] == (1.25, 0.5, math.inf)
    assert again.finding("with").interval == (0.25, math.inf)
    assert math.isnan(again.finding("with").figures["other"])
    assert "PASS  an interval (ratio 0.5, 95 % interval 0.25 to inf, other nan)" in str(again)
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("name", [one.name for one in results.read_all()])
def test_tables_of_a_program_have_names_of_their_own(name):
    places = [(table.name, json.dumps(table.setting)) for table in results.read(name).tables()]
    assert all(label for label, _ in places)
    assert len(set(places)) == len(places)


def test_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(LookupError, match="results of 'nowhere'"):
        results.read("nowhere", tmp_path)
    with pytest.raises(LookupError, match="one table 'none'"):
        results.read("privacy").table("none")
    with pytest.raises(LookupError, match="a finding 'none'"):
        results.read("privacy").finding("none")
    with refuses("header", LookupError):
        results.read("privacy").table("rrrr").column("none")


def test_a_benchmark_replaces_its_table_and_keeps_the_text():
    old, new = (results.make_table(["x"], [[value]], name="times") for value in (1, 2))
    more = results.make_table(["y"], [[3]], name="more")
    known = Result("mine", "python", blocks=("Before", old, "After")).with_tables([new, more])
    assert known.blocks == ("Before", new, "After", more)
    assert known.markdown() == "## mine\n\nBefore\n\n| x |\n|---|\n| 2 |\n\nAfter\n\n| y |\n|---|\n| 3 |"


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
