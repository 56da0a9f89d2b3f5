"""The module of the device under test: run in Node, on questions that Python publishes."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.mechanisms import PublishedQuestion, base, exact

HERE = Path(__file__).parent
MODULE = Path(ad.__file__).parent / "device" / "adobest.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")


def design(k=7, epsilon=1.0, seed=1):
    """A family of sets whose rounded weights leave the totals unequal: every shift of three sets."""
    rng = np.random.default_rng(seed)
    bases = [[0], [0, 1, 3], list(range(0, k - 1, 2))]
    sets = [sorted({(member + shift) % k for member in base}) for base in bases for shift in range(k)]
    weights = np.repeat(rng.random(3) + 0.1, k) * (1 + 1e-11 * rng.random(3 * k))
    return ad.SetFamily(sets, weights, epsilon)


def question(mechanism, subset=None, number=3):
    labels = tuple(f"c{i}" for i in range(mechanism.n_categories))
    return PublishedQuestion(number, mechanism, labels, subset)


QUESTIONS = {
    "SRR": question(ad.SRR(4, 1.0)),
    "SRR of two": question(ad.SRR(2, 0.1)),
    "subset selection": question(ad.SubsetSelection(5, 1.0, size=2)),
    "subset selection, one": question(ad.SubsetSelection(4, 0.7, size=1)),
    "subset selection, all but one": question(ad.SubsetSelection(4, 0.7, size=3)),
    "Hadamard response": question(ad.HadamardResponse(5, 1.0)),
    "Hadamard response of seven": question(ad.HadamardResponse(7, 0.3)),
    "projective geometry": question(ad.ProjectiveGeometryResponse(9, 1.0, 3)),
    **{f"geometry of order {q}": question(ad.ProjectiveGeometryResponse(7, 1.0, q)) for q in (2, 4, 5, 8, 9)},
    **{f"line of order {q}": question(ad.ProjectiveGeometryResponse(4, 2.0, q)) for q in (16, 17, 25, 27, 32)},
    "count-mean sketch": question(ad.CountMeanSketch(5, 1.0, n_hashes=6)),
    "count-mean sketch of long numbers": question(ad.CountMeanSketch(120, 0.5, n_hashes=3, n_values=7)),
    "RRRR": question(ad.RRRR(6, 1.0, kappa=0.8), (0, 2)),
    "RRRR, no subset": question(ad.RRRR(4, 1.0), ()),
    "RRRR, one outside": question(ad.RRRR(4, 1.0), (0, 1, 3)),
    "RRRR, any budgets": question(ad.RRRR.from_budgets(5, 0.2, 0.3), (1,)),
    "Fano plane": question(
        ad.SetFamily([[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]], [1] * 7, 1.0)
    ),
    "a design": question(design()),
    "a design, large weights": question(ad.SetFamily([[0], [1], [2]], [2**127 - 1, 2**127 - 1, 2**127 - 1], 0.5)),
    "Warner": question(ad.Warner("2/3")),
    "forced response": question(ad.ForcedResponse("1/5", "1/7")),
    "unrelated question": question(ad.UnrelatedQuestion("1/3", "91/365")),
    "crosswise": question(ad.Crosswise("2/5")),
    "Kuk": question(ad.Kuk("3/5", "2/5", draws=2)),
    "a design of optimal_mechanism": question(ad.optimal_mechanism([0.7, 0.2, 0.1], 1.0).mechanism),
}


def run_node(given, module=MODULE):
    """Return what the module does with this, as `checks.mjs` prints it."""
    done = subprocess.run(
        [NODE, str(HERE / "checks.mjs"), str(module)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def exact_weights(asked):
    """Python's integers W[y, x] of a question, as texts."""
    options = [] if asked.subset is None else [list(asked.subset)]
    return [[str(weight) for weight in row] for row in asked.mechanism.exact_weights(*options).tolist()]


def vectors(n, seed=0):
    """Test vectors: for each question n lists of words, and what Python answers for them."""
    rng = np.random.default_rng(seed)
    made = []
    for place, asked in enumerate(QUESTIONS.values()):
        for i in range(n):
            x = i % asked.mechanism.n_categories
            words, answer = recorded(asked, x, rng)
            halves = [half for word in words for half in (word & 0xFFFFFFFF, word >> 32)]
            made.append(({"question": place, "x": x, "words": halves}, answer))
    return made


class Hinted(exact.OperatingSystem):
    """The production source, fed with words that often lie where a draw is decided, or beside; it keeps the words."""

    def __init__(self, rng):
        self.rng, self.used, self.hints = rng, [], [0, 2**64 - 1]

    def words(self, n):
        hinted = self.rng.random() < 0.4
        word = (
            self.hints[self.rng.integers(len(self.hints))] if hinted else int(self.rng.integers(2**64, dtype=np.uint64))
        )
        assert n == 1
        self.used.append(min(max(word, 0), 2**64 - 1))
        return np.array(self.used[-1:], dtype=np.uint64)

    def bernoulli(self, weight, total, n):
        threshold = (weight << 64) // total
        self.hints = [threshold - 1, threshold, threshold + 1]
        return super().bernoulli(weight, total, n)

    def below(self, bound, n):
        limit = 2**64 - 2**64 % bound
        self.hints = [limit - 1, limit, limit + 1]
        return super().below(bound, n)

    def choose(self, columns, x):
        self.hints = [int(each) + step for each in columns.thresholds[:, x[0]] for step in (-1, 0, 1)]
        return super().choose(columns, x)


def recorded(asked, x, rng):
    """Return words, and what Python's device answers if the operating system's entropy is these words."""
    source = Hinted(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "source_of", lambda rng: source)
        patch.setattr(exact, "_words", source.words)
        answer = asked.privatize(x)
    return source.used, answer if isinstance(answer, int) else answer.tolist()
