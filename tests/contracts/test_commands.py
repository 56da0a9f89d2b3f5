"""A command ends with its result, or with exit code 2 and one sentence: no traceback, no private value, no file."""

import shlex

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adobest_pp import RRRR, audit
from tests.contracts.commands import refusal, run

EXAMPLES = [3, pytest.param(40, marks=pytest.mark.long)]
WORDS = ["", " ", "a", "nan", "inf", "-inf", "-1", "0", "0.0", "1e999", "1e-400", "2147483648", "9" * 400, "0x10", "²"]
WORDS += ["1,5", "½", "True", "None", "[1]", "\t", "a,b", "--", "x" * 3000, "e", "1e", "2", "3", "0.5", "1"]
# No dash begins another option, and no dot or slash makes a path of a folder that exists.
words = st.sampled_from(WORDS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="-/.\0"), max_size=6
)


def number(low, high, closed_low=False):
    """Tell whether a word is a number in an interval."""

    def legal(word):
        try:
            found = float(word)
        except ValueError:
            return False
        return low < found <= high or (closed_low and found == low)

    return legal


def whole(low, high):
    """Tell whether a word is a whole number in an interval."""

    def legal(word):
        try:
            return low <= int(word) <= high
        except ValueError:
            return False

    return legal


def none(word):
    """Tell that no word is legal."""
    return False


COUNT, BUDGET, KAPPA, PLANNED = whole(1, 2**31 - 1), number(0, 30), number(0, 1), number(0.01, 30, closed_low=True)
AUDIT = "audit --mechanism rrrr --categories 4 --epsilon 1"
COLLECT = "collect people.csv --column vote --epsilon 1 --out out.nc --seed 1"
ADAPTIVE = f"{COLLECT} --mechanism rrrr"
COMPARE = "compare --people 5 --draws 4 --out report"
PLAN = "plan --categories 3 --mechanism srr --no-simulate --people 1000 --epsilon 1"
TABLE = "mechanisms --categories 3 --epsilon 1"
# Commands, and which words may stand at their ends. A legal compare runs the whole job: other tests do.
OPTIONS = {
    "audit --mechanism rrrr --categories 4 --epsilon": BUDGET,
    f"{AUDIT} --kappa": KAPPA,
    "audit --mechanism rrrr --epsilon 1 --categories": whole(2, 1000),
    f"{AUDIT} --size": none,
    f"{AUDIT} --rounding": none,
    "audit --categories 4 --epsilon 1 --mechanism": none,
    "audit --mechanism srr --categories 4 --epsilon 1 --kappa": none,
    "audit --mechanism subset --categories 4 --epsilon 1 --kappa": none,
    "audit --epsilon 1 --matrix": none,
    "utilities --theta 0.5,0.3,0.2 --epsilon": BUDGET,
    "utilities --theta 0.5,0.3,0.2 --epsilon 1 --kappa": KAPPA,
    "utilities --epsilon 1 --theta": none,
    "collect people.csv --epsilon 1 --out out.nc --column": none,
    f"{COLLECT} --epsilon": BUDGET,
    f"{COLLECT} --mechanism": none,
    f"{COLLECT} --kappa": none,
    f"{COLLECT} --mechanism design --utility": none,
    f"{ADAPTIVE} --kappa": KAPPA,
    f"{ADAPTIVE} --utility": none,
    f"{ADAPTIVE} --alpha": none,
    f"{ADAPTIVE} --adapt-every": COUNT,
    f"{COLLECT} --categories": none,
    "collect --column vote --epsilon 1 --out out.nc": none,
    f"{COMPARE} --prior": number(0, np.finfo(float).max),
    f"{COMPARE} --epsilon": BUDGET,
    f"{COMPARE} --mechanism": none,
    f"{COMPARE} --kappa": none,
    f"{COMPARE} --mechanism rrrr --kappa": KAPPA,
    f"{COMPARE} --mechanism rrrr --utility": none,
    f"{COMPARE} --alpha": none,
    f"{COMPARE} --responses": none,
    f"{COMPARE} --data": none,
    f"{COMPARE} --column": none,
    f"{PLAN} --epsilon": PLANNED,
    f"{PLAN} --people": COUNT,
    f"{PLAN} --half-width": none,
    f"{PLAN} --shape": none,
    f"{PLAN} --theta": none,
    f"{PLAN} --responses": none,
    f"{PLAN} --mechanism": none,
    f"{PLAN} --prior": number(1e-100, 1e100, closed_low=True),
    f"{PLAN} --out": none,
    "mechanisms --categories 3 --epsilon": PLANNED,
    f"{TABLE} --theta": none,
    f"{TABLE} --out": none,
    "study run --store store.db": none,
    "study status": none,
    "study export --out out.csv": none,
}


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("command", OPTIONS)
def test_a_word_that_an_option_may_not_be_is_refused_in_one_sentence(command, examples):
    legal = OPTIONS[command]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(words.filter(lambda word: not legal(word)))
    def refused(word):
        refusal([*shlex.split(command), word])

    refused()


@pytest.mark.parametrize("command", [one for one in OPTIONS if OPTIONS[one] is not none and "compare" not in one])
def test_a_word_that_an_option_may_be_is_taken(command):
    for word in filter(OPTIONS[command], WORDS):
        ended = run([*shlex.split(command), word])
        assert ended.code == 0, ended.said
        assert "collect" not in command or "out.nc" in ended.left


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("audit --mechanism srr --categories 4 --epsilon 1 --size 2", "--size must be left out for srr"),
        ("audit --mechanism srr --categories 4 --epsilon 1 --kappa 7", "--kappa must be left out for srr"),
        (f"{AUDIT} --size 2", "--size must be left out for rrrr"),
        ("audit --matrix m.csv --epsilon 1 --kappa 0.5", "--matrix must be given alone"),
        ("audit --mechanism srr --categories 4 --epsilon 1 --rounding 1e-6", "--rounding must come with --matrix"),
        (f"{ADAPTIVE} --utility bogus", "utility must be one of"),
        (f"{COLLECT} --utility honest", "utility must be left out for subset-selection"),
        (f"{COMPARE} --kappa 0.5", "kappa must be left out for subset-selection"),
        (f"{COMPARE} --mechanism bogus", "mechanism must be one of srr, rrrr, subset-selection"),
        (f"{COMPARE} --utility bogus", "utility must be one of"),
    ],
)
def test_an_option_that_does_not_apply_is_refused_by_its_name(command, sentence):
    assert sentence in refusal(shlex.split(command))


# ---------------------------------------------------------------- files of people
ROW = "secret-cell"
# fmt: off
PEOPLE = [
    "", "\n", "vote", "vote\n", "vote\n\n", "id\n1\n", "id;vote\n1;a\n",
    f"\nvote\n{ROW}\nb\n", f"id,vote\n1,{ROW}\n2\n", f"id,vote\n1,{ROW}\n2,b,c\n", f"vote,vote\n{ROW},b\n",
    f"vote, vote\n{ROW},b\n", f'id,vote\n1,"{ROW}\n2,b\n', f"vote\n{ROW}\0\nb\n", f'vote\n"{ROW}\nc"\nb\n',
    f"vote\n{ROW}\x1b[31m\nb\n", f"vote\n{ROW}\n\u200b\nb\n", f"vote\n{ROW}\n{ROW}\u200b\nb\n",
    f"vote\n{ROW} a\n{ROW}\u00a0a\n", f"vote\n{ROW}\n{ROW}\n", f"VOTE\n{ROW}\nb\n", f"{ROW}\nb\n",
    f"vote\n{ROW}\n" + "b" * 200_000 + "\n", f"id,vote\n1,{ROW}\n2,\n", f'vote\n{ROW}\n""\n',
    f"\ufeff\ufeffvote\n{ROW}\nb\n",
]
# fmt: on


@pytest.mark.parametrize("content", PEOPLE)
@pytest.mark.parametrize(
    "command",
    [
        "collect people.csv --column vote --epsilon 1 --out out.nc",
        pytest.param("compare --data people.csv --column vote --draws 4 --out report", marks=pytest.mark.long),
    ],
)
def test_a_file_of_people_that_breaks_a_rule_is_refused_without_their_values(command, content):
    refusal(shlex.split(command), {"people.csv": content})


@pytest.mark.parametrize("content", [f"vote\n{ROW}\nb\na\n", f"vote\na\nb\nA {ROW}\n", f"vote\na\n{ROW}\n"])
def test_an_unknown_category_is_refused_without_its_name(content):
    refusal([*shlex.split(COLLECT), "--categories", "a,b"], {"people.csv": content})


# ---------------------------------------------------------------- matrices
def verdict(text, epsilon, rounding):
    """Return the exit code by interval arithmetic in floating point. No case is close to its limit."""
    entries = np.array([[float(cell) for cell in line.split(",")] for line in text.split()])
    if rounding is None:
        if np.abs(entries.sum(axis=0) - 1).max() > 1e-9:
            return 2
        return 0 if audit(entries, epsilon).holds else 1
    low, high = np.maximum(entries - rounding, 0), entries + rounding
    if (low.sum(axis=0) > 1 + 1e-12).any() or (high.sum(axis=0) < 1 - 1e-12).any():
        return 2
    room_up, room_down = 1 - (low.sum(axis=0) - low), 1 - (high.sum(axis=0) - high)
    most, least = np.minimum(high, room_up), np.maximum(low, room_down)
    ratios = [np.log(most[y, x] / least[y, z]) for y in range(3) for x in range(3) for z in range(3) if x != z]
    return 0 if max(ratios) <= epsilon + 1e-14 else 1


@pytest.mark.parametrize("digits", [2, 4, 6, 12])
def test_an_audit_of_a_written_matrix_says_what_interval_arithmetic_says(digits):
    matrix = RRRR(3, 1.0).transition_matrix([0])
    text = "\n".join(",".join(f"{value:.{digits}f}" for value in line) for line in matrix) + "\n"
    for rounding in (None, 10.0**-digits, 0.5 * 10.0**-digits, 1e-9):
        for epsilon in (0.9, 0.999, 1.0, 1.001, 1.1, 2.0):
            extra = [] if rounding is None else ["--rounding", repr(rounding)]
            ended = run(["audit", "--matrix", "m.csv", "--epsilon", repr(epsilon), *extra], {"m.csv": text})
            assert ended.code == verdict(text, epsilon, rounding), (epsilon, rounding, ended.said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n",
        "1\n",
        "0.5,0.5\n0.5\n",
        "nan,1\n1,0\n",
        "-0.5,0.5\n1.5,0.5\n",
        "0.5,0.5\n0.5,0.6\n",
        "1e999,0\n0,1\n",
    ],
)
def test_a_matrix_that_is_no_channel_is_refused(text):
    refusal(shlex.split("audit --matrix m.csv --epsilon 1"), {"m.csv": text})
