"""The device in JavaScript does what the device in Python does: weights, audit, draws, refusals."""

import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.device import integrity, read_device, write_device
from tests.device.harness import MODULE, QUESTIONS, design, exact_weights, needs_node, question, run_node, vectors
from tests.mechanisms.test_read_question import REFUSED
from tests.refusals import refuses

TEXTS = [asked.to_json() for asked in QUESTIONS.values()]


@pytest.fixture(scope="module")
def cases():
    return vectors(40)


@pytest.fixture(scope="module")
def done(cases):
    return run_node(
        {
            "epsilon": 2.0,
            "questions": TEXTS,
            "weights": True,
            "vectors": [vector for vector, _ in cases],
            "misuse": True,
            "rows": True,
        }
    )


@needs_node
def test_integer_weights_are_those_of_python(done):
    assert done["problems"] == [None] * len(QUESTIONS)
    for name, asked, found in zip(QUESTIONS, QUESTIONS.values(), done["weights"], strict=True):
        assert found == exact_weights(asked), name


@needs_node
def test_the_audit_is_that_of_python(done):
    """The largest ratio in a column of the whole table, from the definition, and Python's loss."""
    for asked, found in zip(QUESTIONS.values(), done["audits"], strict=True):
        rows = [[int(weight) for weight in row] for row in exact_weights(asked)]
        totals = [sum(column) for column in zip(*rows, strict=True)]
        shares = [[(weight, total) for weight, total in zip(row, totals, strict=True)] for row in rows]
        top, bottom = 1, 1
        for row in shares:
            for a, b in row:
                for c, d in row:
                    if a * d * bottom > top * b * c:
                        top, bottom = a * d, b * c
        divisor = math.gcd(top, bottom)
        assert (int(found["numerator"]), int(found["denominator"])) == (top // divisor, bottom // divisor)
        assert found["loss"] == pytest.approx(math.log(top / bottom), rel=1e-12)
        assert found["loss"] <= found["epsilon"] * (1 + 1e-15)
        if asked.subset is None:
            assert found["loss"] == pytest.approx(ad.audit(asked.mechanism).loss, rel=1e-12)


@needs_node
def test_test_vectors_give_the_answers_of_python(done, cases):
    expected = [answer for _, answer in cases]
    assert done["vectors"] == expected
    # The same words as entropy of the system, by the function that pages call.
    assert done["production"] == expected


@needs_node
def test_odds_are_the_probabilities(done):
    for asked, odds, people in zip(QUESTIONS.values(), done["odds"], done["rows"], strict=True):
        mechanism = asked.mechanism
        options = [] if asked.subset is None else [list(asked.subset)]
        matrix, outputs = mechanism.transition_matrix(*options), mechanism.outputs().tolist()
        for x, (row, person) in enumerate(zip(odds, people, strict=True)):
            support = mechanism.support(np.array(outputs))
            if support is not None:
                names = support[:, x]
            elif mechanism.answers_are_categories:
                names = np.arange(mechanism.n_categories) == x
            else:  # a classical design: an answer names the category that it is likelier for
                names = matrix[:, x] > matrix[:, 1 - x]
            chances = matrix[names].sum(axis=0)
            others = np.delete(chances, x)
            assert row["named"] == pytest.approx(chances[x])
            assert row["otherwise"] == pytest.approx([others.min(), others.max()])
            shown = matrix[outputs.index(person["answer"])]
            assert [each["probability"] for each in person["odds"]] == pytest.approx(shown)
            assert max(each["odds"] for each in person["odds"]) <= math.exp(mechanism.epsilon) * (1 + 1e-12)


@needs_node
def test_answers_are_as_python_takes_them(done):
    for asked, people in zip(QUESTIONS.values(), done["rows"], strict=True):
        asked.mechanism.check_answers([person["answer"] for person in people])


@needs_node
def test_misuse_is_refused_and_shows_no_x(done):
    problems = [call["problem"] for call in done["misused"]["calls"]]
    assert all(
        re.fullmatch(r"(RangeError: x must be a category number|TypeError: privatize takes).*\.", each)
        for each in problems
    )
    assert not any("7" in each or "1.5" in each for each in problems)
    assert done["misused"]["strict"]["problem"].startswith("TypeError")  # frozen
    assert not any("word" in key or "random" in key for key in done["misused"]["keys"])


def changed(asked, **changes):
    return json.dumps(json.loads(asked.to_json()) | changes)


def with_settings(asked, **changes):
    content = json.loads(asked.to_json())
    return json.dumps(content | {"question": content["question"] | changes})


def more(asked, step=1):
    return changed(asked, odds=[odds + step for odds in asked.mechanism.published_odds(asked.subset)])


CLASSICAL = ("Warner", "forced response", "unrelated question", "crosswise", "Kuk")
OWN_REFUSALS = {
    "an odd too many": [
        more(asked, 2 if name == "a design" else 1)
        for name, asked in QUESTIONS.items()
        if name not in ("RRRR, one outside", "RRRR, any budgets", *CLASSICAL)
    ],
    "odds of a design that has none": [changed(QUESTIONS[name], odds=[2**64]) for name in CLASSICAL],
    "a design that tells more than it says": [
        with_settings(QUESTIONS["Warner"], p="3/4"),
        with_settings(QUESTIONS["forced response"], forced_yes="1/6"),
        with_settings(QUESTIONS["unrelated question"], share="90/365"),
        with_settings(QUESTIONS["crosswise"], p="1/3"),
        with_settings(QUESTIONS["Kuk"], draws=3),
    ],
    "no fraction": [
        with_settings(QUESTIONS["Warner"], p=value)
        for value in (0.6, "1/2", "0/1", "3/2", "-1/3", "1/0", " 2/3", "2/3 ", "0.6", None, f"1/{2**64 + 1}")
    ],
    "no number of cards": [with_settings(QUESTIONS["Kuk"], draws=value) for value in (0, 101, 1.5, "2", None)],
    "too many points": [with_settings(question(ad.ProjectiveGeometryResponse(19_999, 1.0)), order=19_997)],
    "no odds": [changed(QUESTIONS["SRR"], odds=None), changed(QUESTIONS["SRR"], odds=[])],
    "odds as numbers with a point": [QUESTIONS["SRR"].to_json().replace('"odds":[', '"odds":[1e20,')],
    "odds below one": [changed(QUESTIONS["SRR"], odds=[2**64 - 1])],
    "a weight that breaks the promise": [
        with_settings(
            QUESTIONS["a design"],
            weights=[10**15, *json.loads(QUESTIONS["a design"].to_json())["question"]["weights"][1:]],
        )
    ],
    "a budget above": [question(ad.SRR(3, 2.5)).to_json()],
    "a smaller promise": [with_settings(QUESTIONS["SRR"], epsilon=0.999999999)],
    "a subset unasked": [changed(QUESTIONS["SRR"], subset=[1])],
    "no subset": [changed(QUESTIONS["RRRR"], subset=None)],
    "a whole subset": [changed(QUESTIONS["RRRR"], subset=[0, 1, 2, 3, 4, 5])],
    "a smaller subset": [changed(QUESTIONS["RRRR"], subset=[0])],
    "a number of the wrong kind": [changed(QUESTIONS["SRR"], number=value) for value in (-1, 1.5, "1", None)],
    "labels that deceive": [
        changed(QUESTIONS["SRR"], categories=["a", "b", "c", label])
        for label in ("a", " ", "\u202e", "\0", 4, "x" * 501)
    ],
    "behind the end": [
        QUESTIONS["SRR"].to_json() + " x",
        QUESTIONS["SRR"].to_json() + "{}",
        "",
        " ",
        "nul",
        "[1,]",
        '{"a":1,}',
    ],
    "prototypes": [
        with_settings(QUESTIONS["SRR"], mechanism=name) for name in ("constructor", "__proto__", "toString")
    ],
}


@needs_node
def test_the_module_refuses_what_python_refuses():
    odds = f'{{"odds": [{ad.SRR(3, 1.0).published_odds()[0]}], "number"'
    texts = [text.replace('{"number"', odds, 1) for text, _ in REFUSED.values() if isinstance(text, str)]
    own = [text for group in OWN_REFUSALS.values() for text in group]
    asked = [[text, 1.0] for text in texts] + [[text, 2.0] for text in own]
    result = run_node({"questions": [], "epsilon": 2.0, "refused": asked})["refused"]
    for (text, _), found in zip(asked, result, strict=True):
        assert found != "read", text[:300]
        assert re.fullmatch(r"(RangeError|Error|TypeError): [^\n]+\.", found["problem"]), found
    for text in (text for name in ("an odd too many", "a subset unasked", "no subset") for text in OWN_REFUSALS[name]):
        with refuses("(odds|subset)"):
            ad.read_question(text, 2.0)


@needs_node
def test_e_to_the_epsilon_is_exact():
    """At one step above ⌊e^ε·2⁶⁴⌋ the promise is broken, at that it is kept: for many budgets, the smallest too."""
    rng = np.random.default_rng(5)
    budgets = [
        5e-324,
        1e-300,
        1e-12,
        1e-5,
        0.1,
        1.0,
        math.log(2),
        math.log(3),
        29.9,
        30.0,
        *(30 * rng.random(200)).tolist(),
    ]
    asked = [question(ad.SRR(3, epsilon)) for epsilon in budgets]
    given = {"questions": [], "epsilon": 30.0}
    read = run_node(given | {"refused": [[each.to_json(), 30.0] for each in asked]})["refused"]
    assert read == ["read"] * len(asked)
    refused = run_node(given | {"refused": [[more(each), 30.0] for each in asked]})["refused"]
    assert all(found["problem"].startswith("RangeError: The question must keep ε") for found in refused)


@needs_node
def test_what_the_person_agreed_to_must_be_said():
    text = QUESTIONS["SRR"].to_json()
    result = run_node(
        {"questions": [], "epsilon": 1.0, "refused": [[text, budget] for budget in (None, "1", 0, -1, 31)]}
    )
    assert all("what the person agreed to" in found["problem"] for found in result["refused"])


GLOBALS = """Math.random Date performance console process fetch XMLHttpRequest WebSocket EventSource navigator location
history document window self localStorage sessionStorage indexedDB caches cookie postMessage Worker"""


def test_the_module_needs_nothing_and_keeps_nothing():
    """But for `crypto` and `TextEncoder` it uses only the language: nothing could be sent, stored or logged."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", MODULE.read_text(encoding="utf-8"), flags=re.S)
    assert not re.search(r"^\s*import|\bimport\(|\brequire\b|\beval\b|new Function", text, flags=re.M)
    for name in GLOBALS.split():
        assert not re.search(rf"(?<![\w.]){re.escape(name)}\b(?!:)", text), name
    assert set(re.findall(r"globalThis\.(\w+)", text)) == {"crypto"}
    assert set(re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, flags=re.M)) == {
        "readQuestion",
        "testVector",
    }


def test_the_version_is_that_of_the_package():
    assert json.loads(read_device("package.json"))["version"] == ad.__version__


def test_the_device_is_written_out(tmp_path):
    folder = tmp_path / "survey"
    done = subprocess.run([sys.executable, "-m", "adobest_pp.device", str(folder)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert integrity() in done.stdout
    assert (folder / "adobest.js").read_bytes() == read_device()
    assert {path.name for path in folder.iterdir()} == {"adobest.js", "package.json"}
    with refuses("folder", FileExistsError):
        write_device(folder)
    write_device(folder, overwrite=True)
    with refuses("folder"):
        write_device(3)
    with refuses("name"):
        read_device("other.js")


@needs_node
@pytest.mark.parametrize(
    "asked",
    [
        question(ad.SRR(4, 1.0)),
        question(ad.SubsetSelection(9, 1.0)),
        question(ad.RRRR(4, 1.0), (1,)),
        question(design()),
    ],
    ids=lambda asked: type(asked.mechanism).__name__,
)
def test_answers_in_a_file_are_gathered(asked, tmp_path):
    """The rows that the module makes, as a survey form of one's own would write them, in CSV."""
    (people,) = run_node({"questions": [asked.to_json()], "epsilon": 1.0, "rows": True})["rows"]
    columns = list(people[0]["row"])
    lines = [",".join(columns), *(",".join(person["row"].values()) for person in people)]
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    gathered = ad.gather(path, asked.mechanism, progressbar=False).evidence()
    responses = ad.Responses(asked.mechanism)
    for person in people:
        responses.append([person["answer"]], **({} if asked.subset is None else {"subset": list(asked.subset)}))
    expected = responses.evidence()
    for name, value in expected._asdict().items():
        np.testing.assert_array_equal(getattr(gathered, name), value)
