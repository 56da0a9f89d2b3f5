"""Hostile questions and settings: whatever a stranger sends is answered or refused within its bounds.

Each text is read in a process of its own, which measures its CPU time and the memory that it takes beyond what it began
with. A text of up to 1 MB must be read and answered, or refused in one sentence, within 1 s and 100 MB. Seconds are
longer in proportion on a machine that makes less than 20 million additions a second in Python: a slow or shared one.
``python -m validation.hostile_questions`` prints the slowest and the largest.
"""

import itertools
import json
import os
import random
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adobest_pp import read_question
from adobest_pp.mechanisms import mechanism_from_settings
from adobest_pp.mechanisms.published_question import MAX_ASKED, MAX_TABLE, MAX_TEXT
from adobest_pp.mechanisms.registry import loads
from validation.common import Finding, each, finding, table

SECONDS, MEGABYTES = 1.0, 100.0
FEWEST = 100
# A quick run tries one text in this many.
QUICK_SHARE = 12
# A process that takes longer is ended, and one that takes more memory gets none.
_CPU_SECONDS, _GIGABYTES = 10, 4
# Additions that a machine must make in so many seconds for its seconds to count in full.
_ADDITIONS, _THEIR_SECONDS = 200_000, 0.01
_LONGEST_SENTENCE = 600


class Hostile(NamedTuple):
    """A text, and how it is read."""

    name: str
    text: Any
    read: Callable[[Any], object]

    def __str__(self) -> str:
        return self.name


class Reading(NamedTuple):
    """What became of a text: ``"answered"``, ``"refused"`` or ``"wrong"``, and what it cost."""

    outcome: str
    seconds: float
    megabytes: float
    said: str


def answered(text: Any) -> object:
    """Read a question and answer it, as a device does."""
    return read_question(text, epsilon=1.0).mechanism.privatize(1)


def built(text: str) -> object:
    """Build the mechanism of settings, as a reader of files does."""
    return mechanism_from_settings(loads(text))


# ---------------------------------------------------------------- questions
def question(sets: Any, weights: Any = None, k: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a question about a family of sets, of K categories."""
    width = k if k is not None else 1 + max(max(members) for members in sets if members)
    family = {"mechanism": "SetFamily", "n_categories": width, "epsilon": 1.0, "sets": sets}
    family |= {"weights": [1] * len(sets) if weights is None else weights} | more
    return {"number": 0, "question": family, "categories": [str(x) for x in range(min(width, 50_000))]}


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))


def _cyclic(k: int, size: int, n: int, rng: random.Random) -> list[list[int]]:
    """Return n sets or a few fewer, balanced: all shifts of some sets."""
    found: dict[tuple[int, ...], None] = {}
    while len(found) + k <= n:
        base = rng.sample(range(k), size)
        found |= {tuple(sorted((x + shift) % k for x in base)): None for shift in range(k)}
    return [list(members) for members in found]


def questions(seed: int = 1) -> list[Hostile]:
    """Return hostile questions, and some honest ones as large as they may be."""
    rng = random.Random(seed)
    groups = [_large(rng), _nested(), _twice(), _numbers(), _few_bytes(), _wrong_types(), _unicode(rng), _mutated(rng)]
    return [Hostile(name, text, answered) for group in groups for name, text in group]


def _large(rng: random.Random) -> list[tuple[str, Any]]:
    many = _cyclic(100, 27, MAX_TABLE // 100, rng)
    rounded = [10**14 * (1 + i // 100 % 7) + rng.randrange(100) for i in range(len(many))]
    eights = [list(each) for each in itertools.combinations(range(17), 8)]
    halves = [list(each) for size in (7, 8) for each in itertools.combinations(range(17), size)]
    singles = [[x] for x in range(700)]
    labels = [str(x) for x in range(MAX_ASKED)]
    selection = {"mechanism": "SubsetSelection", "n_categories": MAX_ASKED, "epsilon": 1.0, "size": MAX_ASKED // 2}
    return [
        ("as many sets as may be", _text(question(many))),
        ("as many sets, with rounded weights", _text(question(many, rounded))),
        ("24,310 sets of eight", _text(question(eights))),
        ("sets of seven and eight that are not balanced", _text(question(halves[:29_000]))),
        ("700 sets of one", _text(question(singles))),
        ("700 sets of one, not balanced", _text(question(singles, [10**30 + x * 10**28 for x in range(700)]))),
        ("subset selection of half", _text({"number": 0, "question": selection, "categories": labels})),
        ("more sets than may be", _text(question(_cyclic(200, 3, 4000, rng)))),
        ("250,000 sets of one", _text(question([[0]] * 250_000))[:MAX_TEXT]),
        ("150,000 different sets of one", _text(question([[x] for x in range(60_000)], [1] * 60_000))),
        ("250,000 empty sets", _text(question([[]] * 250_000, [1] * 200_000, k=3))),
        ("one set of 150,000", _text(question([list(range(150_000))], [1], k=3))),
        ("all pairs of 600", _text(question([[x, y] for x in range(600) for y in range(x)][:80_000]))),
        ("a text that is too long", " " * (MAX_TEXT + 1)),
        ("a text of 50 MB", "[" * 50_000_000),
        ("1 MB of spaces", " " * MAX_TEXT),
        ("1 MB of empty lists", "[" + "[]," * (MAX_TEXT // 3 - 2) + "0]"),
        ("1 MB of empty objects", "[" + "{}," * (MAX_TEXT // 3 - 2) + "0]"),
        ("1 MB of small objects", "[" + '{"a":0},' * (MAX_TEXT // 8 - 2) + "0]"),
        ("1 MB of keys", "{" + ",".join(f'"{x}":0' for x in range(MAX_TEXT // 11)) + "}"),
        ("1 MB of numbers", "[" + "1," * (MAX_TEXT // 2 - 2) + "0]"),
    ]


def _nested() -> list[tuple[str, Any]]:
    inside = question([[0], [1], [2]])
    found = [(f"{n:,} brackets", "[" * n) for n in (30, 1000, 100_000, MAX_TEXT)]
    found += [(f"{n:,} braces", '{"a":' * n) for n in (30, 1000, 150_000)]
    found += [(f"{n:,} closed brackets", "[" * n + "]" * n) for n in (100, 900, 100_000)]
    for key in ("number", "question", "categories"):
        deep = _text(inside | {key: "HERE"}).replace('"HERE"', "[" * 500 + "]" * 500)
        found.append((f"brackets as {key}", deep))
    for key in ("sets", "weights", "epsilon", "mechanism"):
        changed = inside | {"question": inside["question"] | {key: "HERE"}}
        found.append((f"brackets as {key}", _text(changed).replace('"HERE"', "[" * 500 + "]" * 500)))
    return found


def _twice() -> list[tuple[str, Any]]:
    honest = _text(question([[0], [1], [2]]))
    found = [(f"{key} twice", honest[:-1] + f',"{key}":1}}') for key in ("number", "question", "categories")]
    for key, value in (("epsilon", 0.5), ("sets", [[0], [1], [2]]), ("weights", [1, 1, 1]), ("mechanism", "SRR")):
        found.append((f"{key} twice", honest.replace('"sets":', f'"{key}":{json.dumps(value)},"sets":', 1)))
    return [*found, ("100,000 times the same key", "{" + '"a":1,' * 100_000 + '"b":1}')]


def _numbers() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    honest = question([[0], [1], [2]])
    huge = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1" * 4000, "1" * 5000, "1" * 400_000, "-0", "1e-400"]
    for number in huge:
        for key in ("epsilon", "n_categories", "weights", "sets"):
            changed = honest | {"question": honest["question"] | {key: "HERE"}}
            given = {"weights": f"[1,1,{number}]", "sets": f"[[0],[1],[{number}]]"}.get(key, number)
            found.append((f"{number[:12]} as {key}", _text(changed).replace('"HERE"', given)))
        found.append((f"{number[:12]} as number", _text(honest | {"number": "HERE"}).replace('"HERE"', number)))
    digits = ",".join(["9" * 4000] * 200)
    found.append(("200 weights of 4,000 digits", _text(honest).replace("[1,1,1]", f"[{digits}]")))
    found.append(("weights of 40 digits", _text(question([[0], [1], [2]], [10**39] * 3))))
    found.append(("a number of a million digits", "0." + "1" * (MAX_TEXT - 3)))
    return found


def _few_bytes() -> list[tuple[str, Any]]:
    labels = [str(x) for x in range(3)]
    found = []
    for k in (10**6, 10**9, 10**18, 2**63, 10**30):
        for size in (1, k // 2):
            chosen = {"mechanism": "SubsetSelection", "n_categories": k, "epsilon": 1.0, "size": size}
            found.append((f"{size:.0e} of {k:.0e}", _text({"number": 0, "question": chosen, "categories": labels})))
        family = {"mechanism": "SetFamily", "epsilon": 1.0, "sets": [[0], [k - 1]], "weights": [1, 1]}
        found.append((f"a set far away, {k:.0e}", _text({"number": 0, "question": family, "categories": labels})))
    far = {"mechanism": "SetFamily", "epsilon": 1.0, "sets": [[x, 999_999] for x in range(5000)], "weights": [1] * 5000}
    many = [str(x) for x in range(100)]
    return [*found, ("5,000 sets far away", _text({"number": 0, "question": far, "categories": many}))]


def _wrong_types() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [
        ("nothing", ""),
        ("null", "null"),
        ("None", None),
        ("a number", 3),
        ("a list", "[]"),
    ]
    found += [("an object", "{}"), ("bytes that are no text", b"\xff\xfe\xfa" * 1000), ("NUL", "\0" * 1000)]
    honest = question([[0], [1], [2]])
    value: Any
    for key in ("sets", "weights", "epsilon", "n_categories", "mechanism"):
        for value in (None, True, "1", {}, [], [[]], {"a": 1}, -1, 2.9, [None] * 3, [[0.5], [1], [2]], [["0"]], "x:y"):
            changed = honest | {"question": honest["question"] | {key: value}}
            found.append((f"{value!r} as {key}", _text(changed)))
    for key in ("number", "question", "categories"):
        for value in (None, "abc", 2.9, -1, {"0": "a"}, [1, 1, 1], [["a"], ["b"], ["c"]], [None, "a", "b"]):
            found.append((f"{value!r} as {key}", _text(honest | {key: value})))
    return found


def _unicode(rng: random.Random) -> list[tuple[str, Any]]:
    honest = question([[0], [1], [2]])
    marks = "\u0300\u0316\u0327\u0345"  # they are sorted by their class, a run of them at a time
    runs = ["a" + "".join(rng.choices(marks, k=400)) + str(x) for x in range(3)]
    long = ["b" + "\u0345\u0316" * 80_000, "c", "d"]
    label_sets = {
        "runs of marks": runs,
        "a label of a run of 160,000 marks": long,
        "a label of 900,000 letters": ["e" * 900_000, "f", "g"],
        "labels of half characters": ["\ud800", "h", "i"],
        "labels with controls": ["\x1b[31m", "j", "k"],
        "labels that read backwards": ["\u202ea", "b", "c"],
        "labels that show nothing": ["\u200b", "\u2060", "\ufeff"],
        "labels that look alike": ["e\u0301", "\u00e9", "x"],
        "a label of zero-width characters": ["l" + "\u200b" * 100_000, "m", "n"],
        "astral labels": ["\U0001f600" * 300, "o", "p"],
    }
    found: list[tuple[str, Any]] = [(name, _text(honest | {"categories": each})) for name, each in label_sets.items()]
    n = 900
    many_labels = {
        "900 labels of runs of marks": ["q" + "".join(rng.choices(marks, k=490)) + str(x) for x in range(n)],
        "900 labels of short runs of marks": [("r" + "\u0345\u0316" * 15) * 16 + str(x) for x in range(n)],
        "900 labels of 490 letters": ["\u00e4" * 490 + str(x) for x in range(n)],
        "900 labels of zero-width characters": ["s" + "\u200b" * 330 + str(x) for x in range(n)],
    }
    selection = {"mechanism": "SubsetSelection", "n_categories": n, "epsilon": 1.0, "size": n // 2}
    for name, some in many_labels.items():
        content = {"number": 0, "question": selection, "categories": some}
        found.append((name, json.dumps(content, ensure_ascii=False, separators=(",", ":"))))
    found.append(("UTF-16", _text(honest).encode("utf-16")))
    found.append(("UTF-32 without its mark", _text(honest).encode("utf-32-be")))
    found.append(("a mark in front", "\ufeff" + _text(honest)))
    return found


def _mutated(rng: random.Random) -> list[tuple[str, Any]]:
    """Return an honest text with characters changed, left out, or repeated."""
    honest = _text(question(_cyclic(7, 3, 21, rng)))
    found = []
    for i in range(60):
        at, characters = rng.randrange(len(honest)), '[]{}",:019e-.\\ \u00e9'
        put = [rng.choice(characters), "", honest[at : at + 1] * rng.choice([2, 50, 5000])][i % 3]
        found.append((f"changed at {at}", honest[:at] + put + honest[at + 1 :]))
    return found


# ---------------------------------------------------------------- settings
def settings(seed: int = 1) -> list[Hostile]:
    """Return hostile settings of mechanisms, as they may be in a file."""
    rng = random.Random(seed)
    part = {"mechanism": "SRR", "n_categories": 3, "epsilon": 1.0}
    mixed = '{"mechanism":"Mixed","parts":['
    rows = [[rng.random() for _ in range(200)] for _ in range(100)]
    sums = [sum(column) for column in zip(*rows, strict=True)]
    matrix = [[value / total for value, total in zip(row, sums, strict=True)] for row in rows]
    tiny = [[5e-324 if x == 0 else 1e-320 for x in range(20)], [1.0] * 20]
    budgets = [rng.random() for _ in range(20_000)]
    families = question(_cyclic(100, 27, 5000, rng))["question"]
    found = [
        ("a module to import", _text({"mechanism": "this:x"})),
        ("a module of tests to import", _text({"mechanism": "unittest.__main__:x"})),
        ("a class that is no mechanism", _text({"mechanism": "builtins"})),
        ("our own class by its place", _text({"mechanism": "adobest_pp.mechanisms.srr:SRR"} | part)[:-1] + "}"),
        ("mixed, 100 deep", mixed * 100 + "]}" * 100),
        ("mixed, 10,000 deep", mixed * 10_000 + "]}" * 10_000),
        ("mixed within mixed", mixed + f"{mixed}{_text(part)},{_text(part)}]}},{_text(part)}]}}"),
        ("mixed of 20,000", mixed + ",".join([_text(part)] * 20_000) + "]}"),
        ("budgets of a million", _text({"mechanism": "RRRR", "n_categories": 10**6, "epsilon1": 1, "epsilon2": 1})),
        ("many budgets", _text({"mechanism": "RRRR", "n_categories": 20_000, "epsilon1": 1, "epsilon2": budgets})),
        ("a channel of 100 by 200", _text({"mechanism": "Channel", "matrix": matrix})),
        ("a channel of tiny numbers", _text({"mechanism": "Channel", "matrix": tiny})),
        ("a large family", _text(families)),
        ("a family far away", _text(families | {"sets": [[x, 999_999] for x in range(5000)]})),
        ("a family that is not balanced", _text(families | {"weights": [1] * 4999 + [7]})),
        ("weights of 4,000 digits", _text(families).replace('"weights":[1', '"weights":[' + "1" * 4000)),
        ("epsilon twice", '{"mechanism":"SRR","n_categories":3,"epsilon":1.0,"epsilon":2.0}'),
        ("no number", '{"mechanism":"SRR","n_categories":3,"epsilon":NaN}'),
    ]
    for name in (
        "SRR",
        "RRRR",
        "SubsetSelection",
        "UnaryEncoding",
        "LocalHashing",
        "HadamardResponse",
        "ProjectiveGeometryResponse",
        "CountMeanSketch",
    ):
        for k in (10**6, 10**9, 2.9, True, "3", None, [3], {"n": 3}, -3):
            settings = {"mechanism": name, "n_categories": k, "epsilon": 1.0, "kappa": 0.9, "size": None, "g": 2**31}
            settings |= {"kind": "optimized", "order": 1_048_573, "n_hashes": 2**20, "n_values": 2**16}
            found.append((f"{name} of {k!r}", _text(settings)))
    return [Hostile(name, text, built) for name, text in found]


# ---------------------------------------------------------------- reading them
def attempt(hostile: Hostile) -> Reading:
    """Read a text in a process of its own."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the threads that there may be
        child = os.fork()
    if child == 0:
        try:
            os.close(receive)
            _limit()
            os.write(send, _text(_measured(hostile)).encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if not content:
        reason = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "no memory"
        return Reading("wrong", float(_CPU_SECONDS), 0.0, f"the process was ended: {reason}")
    return judged(Reading(*json.loads(content)))


def judged(reading: Reading) -> Reading:
    """Return a reading, as wrong if it took too much."""
    if reading.seconds <= SECONDS and reading.megabytes <= MEGABYTES:
        return reading
    said = f"{reading.outcome} in {reading.seconds:.2f} s and {reading.megabytes:.0f} MB"
    return reading._replace(outcome="wrong", said=said)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_GIGABYTES << 30, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _measured(hostile: Hostile) -> Reading:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        hostile.read(hostile.text)
        outcome, said = "answered", ""
    except ValueError as problem:
        said = str(problem)
        outcome = "refused" if "\n" not in said and 0 < len(said) <= _LONGEST_SENTENCE else "wrong"
    except BaseException as problem:
        outcome, said = "wrong", f"{type(problem).__name__}: {problem}"
    seconds, after = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Reading(outcome, seconds / _slowness(), (after - before) / 1024, ascii(said)[:200])


def _slowness() -> float:
    """Return how much slower than 20 million additions a second this machine is now, at least 1."""
    began, total = time.process_time(), 0
    for number in range(_ADDITIONS):
        total += number
    return max(1.0, (time.process_time() - began) / _THEIR_SECONDS)


def hostile_findings(quick: bool, seed: int) -> list[Finding]:
    """Print what became of hostile texts, and return the findings about them."""
    tried = questions(seed) + settings(seed)
    if quick:
        tried = random.Random(seed).sample(tried, len(tried) // QUICK_SHARE)
    answered(_text(question([[0], [1], [2]])))  # what a first call loads is not counted
    return report(tried, each(attempt, tried, "hostile questions"), quick)


def report(tried: Sequence[Hostile], found: Sequence[Reading], quick: bool) -> list[Finding]:
    """Print the counts and the costs, and return the findings about them."""
    counts = Counter(reading.outcome for reading in found)
    slowest, largest = max(reading.seconds for reading in found), max(reading.megabytes for reading in found)
    print("\nHostile questions and settings, each read in a process of its own: CPU seconds and megabytes at most\n")
    row = [len(tried), *(counts[name] for name in ("answered", "refused", "wrong")), slowest, largest]
    table(["tried", "answered", "refused", "wrong", "slowest", "largest"], [row], name="hostile")
    for hostile, reading in zip(tried, found, strict=True):
        if reading.outcome == "wrong":
            print(f"   wrong: {str(hostile)!a}: {reading.said}")
    text = f"each hostile text is answered or refused in one sentence within {SECONDS:g} s and {MEGABYTES:g} MB"
    result = [finding("hostile", text, counts["wrong"] == 0, wrong=counts["wrong"], slowest=slowest, largest=largest)]
    if not quick:
        text = f"at least {FEWEST} hostile questions were tried"
        n = sum(hostile.read is answered for hostile in tried)
        result.append(finding("questions", text, n >= FEWEST, tried=n))
    return result


def print_costs() -> None:
    """Print the slowest and the largest of all."""
    tried = questions() + settings()
    answered(_text(question([[0], [1], [2]])))
    found = [(hostile, attempt(hostile)) for hostile in tried]
    for key in ("seconds", "megabytes"):
        print(f"\nmost {key}\n")
        most = sorted(found, key=lambda pair: -getattr(pair[1], key))[:12]
        rows = [[ascii(hostile.name)[:60], one.outcome, one.seconds, one.megabytes] for hostile, one in most]
        table(["", "outcome", "seconds", "MB"], rows)
    report(tried, [reading for _, reading in found], quick=False)


if __name__ == "__main__":
    print_costs()
