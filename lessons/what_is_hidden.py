"""Lesson 3: a promise of privacy is a statement about one table, so compute it."""

import math
from itertools import combinations

import numpy as np

import adobest_pp as ad
from adobest_pp.teaching import (
    Exercise,
    Menu,
    Notes,
    Numeric,
    Picture,
    Prediction,
    Prose,
    Slider,
    Takeaway,
    state,
)

K, SIZE, KAPPA = 4, 2, 0.9
RANDOMIZED, SETS, TRUTH_FIRST, PROVED, PROGRAMMED = (
    "randomized response",
    "sets of two",
    "sets of two, truth first",
    "RRRR, as proved",
    "RRRR, as programmed",
)
MECHANISMS = [RANDOMIZED, SETS, TRUTH_FIRST, PROVED, PROGRAMMED]


def programmed(k, epsilon, kappa=KAPPA):
    """RRRR with ε₂ as the authors' program has it for its utilities: no logarithm, and |S| for the size of the rest."""

    def second(size):
        if size > 0 and epsilon - kappa * epsilon < math.log(size):
            return min(epsilon, (size - 1) / (math.exp(kappa * epsilon - epsilon) * size - 1))
        return epsilon

    return ad.RRRR.from_budgets(k, kappa * epsilon, [second(size) for size in range(k)])


def truth_first(epsilon):
    """The table of sets of two that list the truth first if it is in the set: a row for each list of two."""
    inside = SIZE * math.exp(epsilon) / (SIZE * math.exp(epsilon) + K - SIZE)
    hit, miss = inside / (K - 1), (1 - inside) / math.comb(K - 1, SIZE) / SIZE  # if it is not in the set: any order
    rows = []
    for a, b in combinations(range(K), SIZE):
        for first, other in ((a, b), (b, a)):
            rows.append([hit if x == first else 0.0 if x == other else miss for x in range(K)])
    return np.array(rows)


def table(mechanism, epsilon):
    """P(answer | truth), a row for each answer."""
    if mechanism == RANDOMIZED:
        return ad.SRR(K, epsilon).transition_matrix()
    if mechanism == SETS:
        return ad.SubsetSelection(K, epsilon, SIZE).transition_matrix()
    if mechanism == TRUTH_FIRST:
        return truth_first(epsilon)
    made = ad.RRRR(K, epsilon, KAPPA) if mechanism == PROVED else programmed(K, epsilon)
    return made.transition_matrix(range(SIZE))


def audited(mechanism, epsilon):
    """The table, its loss (None if infinite), the two cells with the largest ratio, and the belief after that answer."""
    matrix = table(mechanism, epsilon)
    least, most = matrix.min(axis=1), matrix.max(axis=1)
    ratios = np.divide(most, least, out=np.full(len(matrix), np.inf), where=least > 0)
    y = int(np.flatnonzero(ratios >= ratios.max() * (1 - 1e-9))[0])
    loss = math.log(ratios[y])
    return {
        "table": matrix.tolist(),
        "loss": None if math.isinf(loss) else loss,
        "worst": [y, int(matrix[y].argmax()), int(matrix[y].argmin())],
        "belief": (matrix[y] / matrix[y].sum()).tolist(),
    }


def power(calls, epsilon=1.0, least=None):
    """How often a test at the 5 % level finds that a device loses more than ε, in percent: exact, over all counts.

    The device is called `calls` times for each of the two worst truths. The test compares the logarithm of the ratio
    of the two counts of the worst answer with ε. `least` takes the place of the device's two probabilities.
    """
    matrix = table(PROGRAMMED, epsilon)
    y, x, other = audited(PROGRAMMED, epsilon)["worst"]
    p, q = least or (matrix[y, x], matrix[y, other])
    counts = np.arange(1, calls + 1)
    first, second = (binomial(calls, each) for each in (p, q))
    error = np.sqrt((1 / counts - 1 / calls)[:, None] + (1 / counts - 1 / calls)[None])
    excess = np.log(counts)[:, None] - np.log(counts)[None] - epsilon
    return 100 * float(np.outer(first, second)[excess > 1.6449 * error].sum())


def binomial(n, p):
    """P(1), …, P(n) of n trials."""
    k = np.arange(1, n + 1)
    steps = np.cumsum(np.log((n - k + 1) / k))
    return np.exp(n * math.log1p(-p) + steps + k * math.log(p / (1 - p)))


def check(function):
    """Check an audit of the reader's."""
    cases = [
        ("randomized response at ε = 1", ad.SRR(4, 1).transition_matrix()),
        ("RRRR as programmed", programmed(6, 1).transition_matrix([0, 1])),
        ("sets of two of five at ε = 0.5", ad.SubsetSelection(5, 0.5, 2).transition_matrix()),
    ]
    for name, given in cases:
        got, right = function(given.tolist()), ad.privacy_loss(given)
        assert abs(got - right) < 1e-9, f"The loss of {name} must be {right:.4f}, got {got:.4f}."
    got = function(truth_first(1).tolist())
    assert math.isinf(got), f"The loss of sets of two with the truth first must be math.inf, got {got}."


TWIN = np.array([[0.6, 0.3, 0.2], [0.2, 0.5, 0.2], [0.2, 0.2, 0.6]])

PARTS = [
    Prose(
        """
In lesson 1 the largest ratio in a row of the table was e<sup>ε</sup>. Turn that around: **a promise of ε is a statement
about one table of numbers.** So nobody has to trust it. Compute the table, look along each row for the largest and the
smallest number, and take the logarithm of their ratio. The largest of these logarithms is the **privacy loss**. The
promise holds if the loss is at most ε.

A device may also answer with a *set*. Four categories, sets of two: the device draws a set that contains the truth more
often than not, and tells the collector only the set.
""",
        slide="A promise of ε is a statement about one table. **Compute it.**",
    ),
    Notes(
        "Act out sets of two with four cards: think of a card, show two. Do it once with the truth always on "
        "the left, and see who notices. "
        "Then the first prediction, by a show of hands.",
        7,
    ),
    Prediction(
        "A device answers with a set of two of four categories. It draws the set exactly as it should for ε "
        "= 1. But it lists the truth first "
        "whenever the truth is in the set. What is its privacy loss?",
        {
            "1: the sets have the right probabilities.": "The sets do. The lists do not: the order is part of the answer.",
            "A bit more than 1.": "Look for a zero in its table: the list “A, B” never comes from a person with B.",
            "Infinite.": "The list “A, B” never comes from a person with B. One answer rules out a truth for certain, so no ε "
            "holds.",
        },
        "Infinite.",
        proof=audited(TRUTH_FIRST, 1)["loss"] is None,
    ),
    Picture(
        "audit",
        "Left: the table of the mechanism, with a frame around the two cells of a row with the largest "
        "ratio. Right: the belief "
        "in each category after that answer, if all were equally likely before.",
        [
            Menu("mechanism", "mechanism", MECHANISMS),
            Slider("epsilon", "promised ε", [0.25, 0.5, 1, 1.5, 2, 3, 5], 1),
        ],
        audited,
    ),
    Prose(
        state(
            """
Go through the menu. **Two of the five mechanisms break their promise.** Find them before you read on.

**The truth first.** At ε = 1 the first item of the list is the truth in {} % of cases. From a sorted set the best guess
is right in {} %. And the second item is never the truth. This is not made up for the lesson: in the library
multi-freq-ldpy the function `SS_Client` returns an array with the true category in front (hharcolezi/multi-freq-ldpy,
commit fd04aef, `SS.py`, line 39). Its aggregator only counts members, so the order plays no part there. But a collector
who keeps the arrays can read it.

**A missing logarithm.** RRRR is the mechanism of the paper behind this course; lesson 9 explains it, and here you need
only its table. The paper proves that it keeps ε, and it does. The authors' program leaves out a logarithm
(soneraydin/AdOBEst_LDP, commit 9080c23, `AdOBEst_LDP.m`, lines 37 to 41). With ten categories and κ = 0.9 it loses {}
where 1 is promised, and {} where 5 is promised.
""",
            ("73", 100 * truth_first(1).max(axis=1).sum() / K),
            ("37", 100 * ad.SubsetSelection(K, 1.0, SIZE).best_guess([0.25] * K)),
            ("1.73", programmed(10, 1).epsilon),
            ("6.64", programmed(10, 5).epsilon),
        ),
        slide="Two of five mechanisms break their promise: **an order** that tells the truth, and **a missing "
        "logarithm**.",
    ),
    Notes(
        "Let the class find the two broken mechanisms with the menu at ε = 1. Distinguish what was *proved* "
        "(Theorem 1 of the paper is right) "
        "from what was *programmed*: six of the program's twelve methods do not follow it, the other six "
        "keep their promise.",
        8,
    ),
    Prediction(
        state(
            "At ε = 1 the programmed RRRR of the picture loses {}. You do not see its code, so you experiment: "
            "100 calls for each of the two "
            "worst truths, and a test at the 5 % level. How often does the test find it?",
            ("1.28", audited(PROGRAMMED, 1)["loss"]),
        ),
        {
            "Nearly always: the difference is large.": "It is small beside the errors of the two frequencies that the test compares.",
            "In about one case out of five.": "So an experiment may tell that a device is bad, but hardly that it is good. A table tells both.",
            "Never.": "Sometimes it does. With more calls it does more often.",
        },
        "In about one case out of five.",
        proof=abs(power(100) - 20) < 1,
    ),
    Prose(
        state(
            """
With 100 calls for each truth the test finds the excess in {} % of cases, with 1,000 calls in {} %. An audit needs no
calls at all. It needs the table, so ask for the table, and for the code that draws from it.
""",
            ("21", power(100)),
            ("91", power(1000)),
        ),
    ),
    Exercise(
        "Write `loss(matrix)`: the privacy loss of a list of rows, `matrix[y][x]` = P(y | x). If an answer "
        "is possible for one truth and "
        "impossible for another, return `math.inf`.",
        "loss",
        "import math\n\ndef loss(matrix):\n    return math.log(max(map(max, matrix)) / min(map(min, matrix)))\n",
        "import math\n\ndef loss(matrix):\n    worst = 0.0\n    for row in matrix:\n        if max(row) > 0:\n"
        "            ratio = math.inf if min(row) == 0 else max(row) / min(row)\n            worst = "
        "max(worst, math.log(ratio))\n"
        "    return worst\n",
        check,
        (
            "Two numbers are compared only if they stand in the same row.",
            "For each row, take the largest number over the smallest. The loss is the logarithm of the largest "
            "of these ratios.",
            "If the smallest number of a row is 0 and the largest is not, the ratio is `math.inf`. A row of "
            "zeros says nothing: skip it.",
        ),
        Numeric(
            "A table has the rows (0.6, 0.3, 0.2), (0.2, 0.5, 0.2) and (0.2, 0.2, 0.6). What is its privacy loss?",
            ("1.10", ad.privacy_loss(TWIN)),
            0.01,
            "",
            state(
                "The rows have the ratios {}, {} and {}, and ln 3 ≈ {}.",
                *zip(("3", "2.5", "3"), TWIN.max(axis=1) / TWIN.min(axis=1), strict=True),
                ("1.10", ad.privacy_loss(TWIN)),
            ),
        ),
    ),
    Notes("The exercise in pairs. Then discuss: who audits the apps on your phone?", 15),
    Takeaway("A promise that can be computed need not be trusted."),
    Prose(
        """
**In the package:** `ad.audit(mechanism)` computes the loss in exact fractions, from the integers that the device draws
against, and `adobest audit --matrix my.csv --epsilon 1` does it for your own table. `SubsetSelection` sorts its sets
and refuses answers in any other order.
"""
    ),
]
