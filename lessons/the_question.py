"""Lesson 4: at the same ε, a better question needs fewer people. Its pictures are in the_question.js."""

import math

import numpy as np

import adobest_pp as ad
from adobest_pp.teaching import Exercise, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

EPSILONS = [0.5, 1, 1.5, 2, 3, 4, 5]
OPTIONS = [2, 3, 4, 6, 10, 20, 50, 100]


def people(k, epsilon, size=1):
    """How many answers with sets of this size tell as much as one honest answer, if all k options are equally common.

    Sets of one are randomized response. Variances as by Ye and Barg (2018); `tests/lessons` compare them with the
    inverse of the information.
    """
    e = math.exp(epsilon)
    return (k - 1) * (size * e + k - size) ** 2 / (size * (k - size) * (e - 1) ** 2)


def best_size(k, epsilon):
    """The size of the sets that need the fewest people."""
    return min(range(1, k), key=lambda size: people(k, epsilon, size))


def contains(k, epsilon, size=1):
    """How often a set of this size contains the truth."""
    e = math.exp(epsilon)
    return size * e / (size * e + k - size)


def price(epsilon):
    """What randomized response needs for each number of options, and how often it is true."""
    return {
        "people": [people(k, epsilon) for k in OPTIONS],
        "true": [float(ad.SRR(k, epsilon).transition_matrix()[0, 0]) for k in OPTIONS],
    }


def sets(epsilon, k):
    """What each size of the sets needs, the best size, and how often the best sets contain the truth."""
    best = ad.SubsetSelection(k, epsilon).size
    return {
        "people": [people(k, epsilon, size) for size in range(1, k)],
        "best": best,
        "contains": contains(k, epsilon, best),
    }


def bound(k, epsilon):
    """How many answers tell as much as one honest answer at least, whatever the ε-LDP mechanism: a proved bound."""
    return ad.optimal_mechanism(np.full(k, 1 / k), epsilon).lower_bound / (1 - 1 / k)


def check(function):
    for k, epsilon in ((10, 0.5), (20, 1.0), (50, 1.0), (20, 4.0), (2, 1.0)):
        got, right = function(k, epsilon), best_size(k, epsilon)
        assert got == right, f"best_size({k}, {epsilon}) must be {right}, got {got}."


PARTS = [
    Prose(
        """
        *Which of these 50 apps do you use most?* Randomized response can answer that, too: say the truth, or any of the
        49 others. But with so many wrong answers, the right one gets lost. Can we ask in a better way, **at the same
        ε**?
        """,
        slide="*Which of these 50 apps do you use most?* Can we ask in a better way, **at the same ε**?",
    ),
    Notes(
        "Ask the room: which app? Then: would you tell me the truth with 5 % probability, and otherwise any other app?",
        3,
    ),
    Prediction(
        "50 options, all equally common, ε = 1. How many people must answer through randomized response to "
        "tell as much as 100 honest people?",
        {
            "About 270: e times as many.": "e is the factor of the odds. Precision depends on the square of the signal.",
            "About 470, as for two options.": "That is right for two options. With 50, an answer is hardly ever true.",
            "About 90,000.": state(
                "An answer is true in {} % of cases, and each wrong option is named in {} %. The signal is the "
                "difference, {} %, "
                "and 1/{}² is {}.",
                ("5.256", 100 * contains(50, 1)),
                ("1.934", 100 * (1 - contains(50, 1)) / 49),
                ("3.322", 100 * people(50, 1) ** -0.5),
                ("0.03322", people(50, 1) ** -0.5),
                ("906", people(50, 1)),
            ),
        },
        "About 90,000.",
        proof=abs(100 * people(50, 1) / 90_000 - 1) < 0.02 and abs(people(2, 1) * 100 - 470) < 5,
    ),
    Picture(
        "price",
        "People needed, as a multiple of honest people, against the number of options. The line rises steeply.",
        [Slider("epsilon", "privacy loss ε", EPSILONS, 1)],
        price,
    ),
    Notes(
        "Read two points of the line aloud: 2 options and 50 options at ε = 1. Move ε to 5: the line is "
        "nearly flat. Ask: which ε would your class accept?",
        5,
    ),
    Prose(
        state(
            """
            With two options, {} private answers at ε = 1 tell as much as one honest answer. With 50 options it takes
            {}: the answer is the truth in only {} % of cases, and each other option is named in {} %.
            """,
            ("4.68", people(2, 1)),
            ("906", people(50, 1)),
            ("5.3", 100 * contains(50, 1)),
            ("1.9", 100 * (1 - contains(50, 1)) / 49),
        )
    ),
    Prose(
        """
        ## Answer with a set

        So do not name one option. **Name several**, and say only: *mine is probably among these*. The device draws a
        set that contains the truth more often than chance, and the collector sees nothing but the set. Lesson 3 did it
        with sets of two.
        """,
        slide="## Answer with a set\n\n*Mine is probably among these.*",
    ),
    Prediction(
        "50 options, ε = 1. Which set size needs the fewest people?",
        {
            "1: a small set says more.": "A set of one is randomized response. It is precise, but nearly always wrong.",
            "13: about a quarter of the options.": "Such a set contains the truth in about half of the cases. It balances being right and being precise.",
            "25: half of the options.": "It is right more often, but says less. It is close, but smaller sets are better.",
        },
        "13: about a quarter of the options.",
        proof=best_size(50, 1) == 13 == ad.SubsetSelection(50, 1).size and abs(contains(50, 1, 13) - 0.5) < 0.05,
    ),
    Picture(
        "sets",
        "Left: all options as dots, with those of one answer filled. Right: people needed against the size "
        "of the set. The "
        "curve falls from randomized response on the left to the best size, and rises again.",
        [
            Slider("epsilon", "privacy loss ε", EPSILONS, 1),
            Slider("k", "options", OPTIONS, 50),
        ],
        sets,
    ),
    Notes(
        state(
            "The left end of the curve is randomized response. Let the class guess the best size for ε = 0.5 "
            "(about {} % of the options) "
            "and for ε = 5 (one). The rule on the board: K/(e<sup>ε</sup> + 1).",
            ("38", 100 / (math.exp(0.5) + 1)),
        ),
        7,
    ),
    Prose(
        state(
            """
            The best sets have about K/(e<sup>ε</sup> + 1) members. With 50 options at ε = 1, one honest answer is worth
            {} of them, in place of {}: **{} times fewer people at the same privacy**. With two options, or with a large
            ε, the best set has one member, and randomized response is already the best question.

            This is **subset selection**. If people are spread evenly, no mechanism with this ε needs fewer people: a
            convex program finds the best of all of them, with a proof, and it finds these sets (for eight options at ε
            = 2, its proved bound is {} times what they need). If you know that some options are rare, a question that
            adapts to it can gain more. That is lesson 9.
            """,
            ("181", people(50, 1, 13)),
            ("906", people(50, 1)),
            ("5.0", people(50, 1) / people(50, 1, 13)),
            ("1.0000", bound(8, 2) / people(8, 2, best_size(8, 2))),
        ),
        slide=state(
            "Sets of about K/(e<sup>ε</sup> + 1): **{} times fewer people** for 50 options at ε = 1.",
            ("5.0", people(50, 1) / people(50, 1, 13)),
        ),
    ),
    Exercise(
        "Sets of d of k options need (k − 1) · (d·e<sup>ε</sup> + k − d)² / (d · (k − d) · (e<sup>ε</sup> − "
        "1)²) times the people that honest answers would. Write "
        "`best_size(k, epsilon)`: the d, from 1 to k − 1, that needs the fewest.",
        "best_size",
        "import math\n\n\ndef best_size(k, epsilon):\n    return 1\n",
        "import math\n\n\ndef best_size(k, epsilon):\n    e = math.exp(epsilon)\n\n    def people(d):\n"
        "        return (d * e + k - d) ** 2 / (d * (k - d))\n\n    return min(range(1, k), key=people)\n",
        check,
        hints=[
            "Factors without d do not matter for which d is best.",
            "Write a function `people(d)` inside yours, and try every d in `range(1, k)`.",
            "`min(range(1, k), key=people)` returns the d with the smallest `people(d)`.",
        ],
        twin=Numeric(
            "20 options, ε = 1. Which set size needs the fewest people? Compute (d·e + 20 − d)²/(d · (20 "
            "− d)) for d near 20/(e + 1).",
            ("5", best_size(20, 1)),
            0.4,
            "options",
            state("20/(e + 1) ≈ {}. The formula is smallest at d = 5.", ("5.4", 20 / (math.e + 1))),
        ),
    ),
    Notes("The exercise in pairs. Those who finish early plot the curve for k = 20.", 15),
    Takeaway("At the same ε, a better question needs fewer people."),
    Prose(
        """
        **In the package:** `ad.SubsetSelection(50, epsilon=1.0)` chooses the size itself. `adobest plan --categories 50
        --epsilon 1 --half-width 0.01` says how many people each mechanism needs. `ad.optimal_mechanism` solves the
        convex program for the shares that you expect.
        """
    ),
]
