"""The mutation tool finds the faults it should, and tells those that tests notice from those that they do not."""

from dataclasses import replace
from typing import ClassVar

import pytest

from validation import mutants
from validation.mutations import mutations

TOY = b'''"""A module: 1 < 2."""

from math import sqrt

__all__ = ["middle"]


def middle(values: tuple[int, 3], shift: float = 0.5) -> float:
    """Return values[0] + 1."""
    if not values or len(values) < 2:
        raise ValueError(f"values must be {2 + 0} or more")
    largest = max(values[1:])
    for \xce\xb8 in values[::-1]:
        largest += 0
    return (values[0] + largest) / 2 - shift


def unused(flag=True):
    return sqrt(-1) if flag and 3 == 3 else "text"
'''
EXPECTED = {
    ("0.5", "1.0"),
    ("0.5", "0.0"),
    ("0.5", "(-0.5)"),
    ("not values or len(values) < 2", "(not values and len(values) < 2)"),
    ("not values", "(values)"),
    ("len(values) < 2", "(len(values) <= 2)"),
    ("2", "3"),
    ('raise ValueError(f"values must be {2 + 0} or more")', "pass"),
    ("max(values[1:])", "(min(values[1:]))"),
    ("values[1:]", "(values[1 + 1:])"),
    ("1", "2"),
    ("values[::-1]", "(values)"),
    ("-1", "1"),
    ("largest += 0", "pass"),
    ("largest += 0", "largest -= 0"),
    ("0", "1"),
    ("return (values[0] + largest) / 2 - shift", "return -((values[0] + largest) / 2 - shift)"),
    ("(values[0] + largest) / 2 - shift", "((values[0] + largest) / 2 + shift)"),
    ("(values[0] + largest) / 2", "((values[0] + largest) * 2)"),
    ("values[0] + largest", "(values[0] - largest)"),
    ("values[0]", "(values[-1])"),
    ("True", "False"),
    ('sqrt(-1) if flag and 3 == 3 else "text"', "('text' if flag and 3 == 3 else sqrt(-1))"),
    ("sqrt(-1)", "(-1)"),
    ("flag and 3 == 3", "(flag or 3 == 3)"),
    ("3 == 3", "(3 != 3)"),
    ("3", "4"),
}
TESTS = """
import pytest
from toy.arithmetic import middle

def test_middle():
    assert middle([4, 2, 8]) == 5.5
    with pytest.raises(ValueError):
        middle([])
"""


def chosen(before):
    return next(one for one in mutations(TOY, "toy/arithmetic.py") if one.before == before)


@pytest.fixture
def project(tmp_path, monkeypatch):
    for folder, name, text in (("toy", "arithmetic.py", TOY), ("tests", "test_toy.py", TESTS.encode())):
        (tmp_path / "project" / folder).mkdir(parents=True)
        (tmp_path / "project" / folder / name).write_bytes(text)
    monkeypatch.setattr(mutants, "ROOT", tmp_path / "project")
    monkeypatch.setattr(mutants, "TABLE", tmp_path / "mutants.md")
    return tmp_path / "project"


def test_the_mutations_of_a_module_are_those_of_its_code_alone():
    found = mutations(TOY, "toy/arithmetic.py")
    assert {(one.before, one.after) for one in found} == EXPECTED
    assert {one.function for one in found} == {"middle", "unused"}
    for one in found:
        text = one.apply(TOY)
        compile(text, "toy", "exec")
        assert text[: one.start] + one.before.encode() + text[one.start + len(one.after.encode()) :] == TOY != text
        assert TOY[: one.start].count(b"\n") == one.line - 1


def test_a_sample_is_repeatable_has_one_mutation_a_line_and_a_larger_one_holds_it():
    found = mutations(TOY, "toy/arithmetic.py")
    few, all_lines = mutants.sample(found, 5, seed=3), mutants.sample(found, 100, seed=3)
    assert few == mutants.sample(found, 5, seed=3) != mutants.sample(found, 5, seed=4)
    assert len({one.line for one in few}) == 5
    assert set(few) < set(all_lines)
    assert len(all_lines) == len({one.line for one in found})


def test_faults_that_tests_notice_are_killed_others_survive_and_are_taken_out(project, tmp_path):
    tests = ["tests/test_toy.py"]
    tree = mutants.Tree(project, tmp_path / "copy")
    limit = tree.baseline(tests)
    copied = tree.folder / "toy" / "arithmetic.py"
    state = copied.stat()
    assert tree.try_out(chosen("values[0]"), tests, limit).outcome == "killed"
    assert tree.try_out(chosen("3 == 3"), tests, limit).outcome == "survived"
    assert tree.try_out(chosen("3 == 3"), tests, 0.01).outcome == "killed"  # takes too long
    assert copied.read_bytes() == (project / "toy" / "arithmetic.py").read_bytes() == TOY
    assert copied.stat().st_mtime_ns == state.st_mtime_ns
    (tree.folder / "tests" / "test_toy.py").write_text("def test_never(): assert False")
    with pytest.raises(SystemExit, match=r"tests fail without any fault: tests/test_toy.py -k never"):
        tree.baseline([*tests, "-k", "never"])


class Stub(mutants.Tree):
    """Tests that notice what `noticed` says, in no time."""

    noticed: ClassVar[set[str]] = {"1", "2", "0.5", "not values"}

    def baseline(self, tests):
        assert tests == ["tests/test_toy.py"]
        return 1.0

    def _pass(self, tests, caches, limit):
        text = (self.folder / "toy" / "arithmetic.py").read_bytes()
        return not any(one.apply(TOY) == text for one in mutations(TOY, "") if one.before in self.noticed)


def test_outcomes_go_to_a_table_that_keeps_reasons_and_survivors_are_run_again(project, monkeypatch, capsys):
    monkeypatch.setattr(mutants, "Tree", Stub)
    asked = ["toy", "--tests", "tests/test_toy.py", "--write"]
    assert mutants.command([*asked, "--count", "100"]) == 1
    rows = mutants.read_table(mutants.TABLE)
    tried = {one.key: one for one in mutants.sample(mutations(TOY, "toy/arithmetic.py"), 100, 1)}
    assert {row.key for row in rows} == set(tried)
    assert all((row.outcome == "killed") == (tried[row.key].before in Stub.noticed) for row in rows)
    survivors = [row for row in rows if row.outcome == "survived"]
    killed = len(rows) - len(survivors)
    assert f"{len(rows)} mutants, {killed} killed, {len(survivors)} survived" in capsys.readouterr().out
    assert f"| all | {len(rows)} | {killed} | {len(survivors)} |" in mutants.TABLE.read_text(encoding="utf-8")

    kept, *others = survivors
    mutants.TABLE.write_text(
        mutants.report([replace(row, reason="equivalent: a | b") if row == kept else row for row in rows]),
        encoding="utf-8",
    )
    monkeypatch.setattr(Stub, "noticed", Stub.noticed | {tried[row.key].before for row in others})
    assert mutants.command([*asked, "--again"]) == 0
    assert f"{len(others)} mutants, {len(others)} killed" in capsys.readouterr().out
    assert {row.key: row.reason for row in mutants.read_table(mutants.TABLE) if row.outcome == "survived"} == {
        kept.key: "equivalent: a | b"
    }


def test_each_place_the_tool_knows_has_tests():
    assert mutants.tests_of("adobest_pp/mechanisms/srr.py")[0] == "tests/mechanisms"
    assert mutants.tests_of("adobest_pp/samplers/langevin_kernels.py") == ["tests/samplers/test_langevin_kernels.py"]
    for place, tests in mutants.TESTS.items():
        assert (mutants.ROOT / place).exists()
        assert all((mutants.ROOT / test).exists() for test in tests if test.startswith("tests/"))
    with pytest.raises(SystemExit, match=r"--tests must be given for setup.py"):
        mutants.tests_of("setup.py")
