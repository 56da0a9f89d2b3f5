"""`python -m validation` runs every program, tells which failed, and writes the results of full runs."""

import pytest

from validation import __main__ as suite
from validation import common


def outcome(name, passed=2, failed=0, returncode=0):
    return suite.Outcome(name, passed, failed, returncode, 1.5, f"figures of {name}")


def test_programs_are_found_by_their_main(tmp_path):
    for name in ("zeta", "privacy", "alpha", "gradients"):
        (tmp_path / f"{name}.py").write_text('"""A program."""\n\ndef main(argv=None):\n    return 0\n')
    (tmp_path / "common.py").write_text("def helper():\n    return 0\n")
    (tmp_path / "__main__.py").write_text("\ndef main():\n    return 0\n")
    assert suite.programs(tmp_path) == ["privacy", "gradients", "alpha", "zeta"]
    assert set(suite.ORDER) <= set(suite.programs())


def test_a_program_runs_in_a_process_of_its_own():
    done = suite.run("honest_optimum", ["--quick", "--seed", "3"])
    assert (done.verdict, done.passed, done.failed, done.returncode) == ("PASS", 2, 0, 0)
    assert "P(Y = X)" in done.output


@pytest.mark.parametrize("wrong", [{"failed": 1, "returncode": 1}, {"returncode": 1}, {"passed": 0}])
def test_one_failure_fails_all_and_is_shown(monkeypatch, capsys, tmp_path, wrong):
    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", lambda name, _: outcome(name, **(wrong if name == "two" else {})))
    assert suite.main(["--out", str(tmp_path / "results.md")]) == 1
    printed = capsys.readouterr().out
    assert "[1/2] one … PASS" in printed
    assert "[2/2] two … FAIL" in printed
    assert "figures of two" in printed
    assert "| [two](#two) | FAIL |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_results_are_written_in_full_runs_or_where_told(monkeypatch, tmp_path):
    asked = []

    def fake(name, arguments):
        asked.append(list(arguments))
        return outcome(name)

    monkeypatch.setattr(suite, "programs", lambda: ["one", "two"])
    monkeypatch.setattr(suite, "run", fake)
    monkeypatch.setattr(suite, "RESULTS", tmp_path / "RESULTS.md")
    assert suite.main(["--quick"]) == 0
    assert not list(tmp_path.iterdir())
    assert suite.main(["--seed", "5"]) == 0
    assert asked == [["--quick", "--seed", "1"]] * 2 + [["--seed", "5"]] * 2
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "python -m validation --seed 5" in text
    assert "| [one](#one) | PASS | 2 of 2 | 2 |" in text
    assert "```\nfigures of two\n```" in text
    assert suite.main(["--quick", "--out", str(tmp_path / "quick.md")]) == 0
    assert (tmp_path / "quick.md").exists()


def test_work_is_done_in_order_in_one_process_and_in_several():
    assert common.each(abs, [-3, 2, -1], "numbers") == [3, 2, 1]
    assert common.each(abs, [-3, 2, -1], "numbers", parallel=True) == [3, 2, 1]


def test_verdicts_decide_the_exit_code(capsys):
    assert common.conclude({"this": True}) == 0
    assert common.conclude({"this": True, "that": False}) == 1
    assert "FAIL  that" in capsys.readouterr().out
