"""Faults that are planted into the module are noticed by the checks of this folder."""

import pytest

from tests.device.harness import MODULE, QUESTIONS, exact_weights, needs_node, run_node, vectors
from tests.device.test_draws import ASKED, FALSE_ALARM, p_value
from tests.device.test_module import more

FAULTS = {
    "a weight one too large": ("  return odds;\n", "  return odds.map((each) => each + 1n);\n"),
    "a weight one too small": ("  return odds;\n", "  return odds.map((each) => each - 1n);\n"),
    "the odds of a set one too small": ("(holds[a * k + x] ? keep : UNIT)", "(holds[a * k + x] ? keep - 1n : UNIT)"),
    "Math.random": (
        "source.getRandomValues(buffer)",
        "buffer.forEach((_, i) => { buffer[i] = Math.floor(Math.random() * 2 ** 32); })",
    ),
    "no rejection": ("while (word >= limit)", "while (false)"),
    "rejection from one too many": ("while (word >= limit)", "while (word > limit)"),
    "a tie taken for an event": ("if (word !== threshold) {", "if (true) {"),
    "a tie in a table not seen": ("return tie ? placeOf", "return false ? placeOf"),
    "half of a word": ("return (BigInt(high) << 32n) | BigInt(low);", "return BigInt(low) << 32n;"),
    "the truth first": (
        "return codes(k).filter((y) => members[y] === 1);",
        "return codes(k).filter((y) => members[y] === 1).sort((a, b) => Number(b === x) - Number(a === x));",
    ),
    "points of another product": ("negative(dot(truth, answer))", "dot(truth, answer)"),
    "a hash of another seed": ("xxHash32(String(x), seed) % g", "xxHash32(String(x), seed + 1) % g"),
    "no audit": ("if (top << 256n > expLowerBound(epsilon) * bottom)", "if (false)"),
    "a bound that is rounded up": ("sum = (sum * sum) >> 256n;", "sum = ((sum * sum) >> 256n) + (1n << 200n);"),
    "words from another place": ("this.#used += 2;", "this.#used += 4;"),
}


@pytest.fixture(scope="module")
def given():
    cases = vectors(20, seed=1)
    too_many = [[more(QUESTIONS[name]), 2.0] for name in ("SRR", "subset selection", "Hadamard response", "RRRR")]
    questions = [asked.to_json() for asked in QUESTIONS.values()]
    words = [vector for vector, _ in cases]
    asked = {"questions": questions, "epsilon": 2.0, "weights": True, "vectors": words, "refused": too_many}
    return asked, [answer for _, answer in cases]


def flaws(given, module):
    """Return the names of the checks that the module fails."""
    asked, expected = given
    done = run_node(asked, module)
    weights = [exact_weights(each) for each in QUESTIONS.values()]
    found = {
        "reading": any(done["problems"]),
        "weights": done["weights"] != weights,
        "vectors": done["vectors"] != expected,
        "production": done["production"] != expected,
        "audit": "read" in done["refused"],
    }
    return [name for name, is_wrong in found.items() if is_wrong]


@needs_node
def test_the_module_itself_has_no_flaw(given):
    assert flaws(given, MODULE) == []


@pytest.mark.long
@needs_node
@pytest.mark.parametrize(("old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_noticed(given, old, new, tmp_path):
    text = MODULE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "faulty.mjs").write_text(text.replace(old, new), encoding="utf-8")
    assert flaws(given, tmp_path / "faulty.mjs") != []


@pytest.mark.long
@needs_node
def test_draws_with_other_odds_are_noticed(tmp_path):
    """Odds that are 5 % off, in what is drawn but not in what is audited: missed less than once in 10⁶ runs."""
    text = MODULE.read_text(encoding="utf-8")
    old = "bernoulli(words, keep, keep + BigInt(size - 1) * UNIT)"
    assert text.count(old) == 1
    new = "bernoulli(words, (keep * 21n) / 20n, (keep * 21n) / 20n + BigInt(size - 1) * UNIT)"
    (tmp_path / "faulty.mjs").write_text(text.replace(old, new), encoding="utf-8")
    given = {"questions": [ASKED["SRR"].to_json()], "epsilon": 1.0, "draws": 400_000}
    (counts,) = run_node(given, tmp_path / "faulty.mjs")["counts"]
    assert p_value(ASKED["SRR"], counts) < FALSE_ALARM
