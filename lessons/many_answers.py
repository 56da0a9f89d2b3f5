"""Lesson 2: what many private answers tell. Its pictures are in many_answers.js."""

import math
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, xlogy

import adobest_pp as ad
from adobest_pp.teaching import (
    Exercise,
    Notes,
    Numeric,
    Picture,
    Prediction,
    Prose,
    Slider,
    Takeaway,
    state,
)

TRUTH = 0.3
EPSILONS = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5]
PEOPLE = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
CLASSES = range(1, 11)
HONEST = 30.0  # as good as no noise at all
POINTS = np.linspace(0, 1, 1001)


def truthful(epsilon):
    """The probability that a device with two possible answers says the truth."""
    return ad.SRR(2, epsilon).transition_matrix()[0, 0]


def heard(epsilon, theta=TRUTH):
    """The probability to hear yes, if a share θ of the people would say yes."""
    p = truthful(epsilon)
    return (1 - p) + (2 * p - 1) * theta


def simulated(epsilon, number):
    """How many of the first n people of a simulated class say yes, for each n in PEOPLE."""
    rng = np.random.default_rng(number)
    yes, tells = rng.random(max(PEOPLE)) < TRUTH, rng.random(max(PEOPLE)) < truthful(epsilon)
    return np.cumsum(yes == tells)[np.array(PEOPLE) - 1].tolist()


# How many say yes in each simulated class, by ε: what the pictures cannot compute themselves.
DATA: dict[str, Any] = {
    "truth": TRUTH,
    "people": PEOPLE,
    "yes": {f"{epsilon:g}": {str(i): simulated(epsilon, i) for i in CLASSES} for epsilon in [*EPSILONS, HONEST]},
}


def interval(yes, n, epsilon):
    """The ends of the middle 95 % of the posterior of θ under a flat prior.

    The probability h to hear yes is flat between 1 − p and p before. After the answers it is a Beta distribution,
    cut off there.
    """
    p = truthful(epsilon)
    low, high = betainc(yes + 1, n - yes + 1, [1 - p, p])
    h = betaincinv(yes + 1, n - yes + 1, low + np.array([0.025, 0.975]) * (high - low))
    return ((h - (1 - p)) / (2 * p - 1)).tolist()


def plausible(yes, n, epsilon):
    """The posterior of θ at POINTS, relative to its largest value there."""
    h = heard(epsilon, POINTS)
    value = xlogy(yes, h) + xlogy(n - yes, 1 - h)
    return np.exp(value - value.max()).tolist()


def funnel(epsilon, people, number):
    """The intervals of a class as it grows, from private and from honest answers, and the posteriors at one size."""
    found = {}
    for name, used in (("private", epsilon), ("honest", HONEST)):
        yes = DATA["yes"][f"{used:g}"][str(number)]
        ends = [interval(each, n, used) for each, n in zip(yes, PEOPLE, strict=True)]
        found[name] = {"low": [low for low, _ in ends], "high": [high for _, high in ends]}
        found[name]["posterior"] = plausible(yes[PEOPLE.index(people)], people, used)
    return found


def width(epsilon, n):
    """The width of the interval for answers as they come on average."""
    low, high = interval(n * heard(epsilon), n, epsilon)
    return high - low


def missed():
    """Which of all intervals of the simulated classes miss the truth."""
    ends = [
        interval(yes, n, epsilon)
        for epsilon in [*EPSILONS, HONEST]
        for number in CLASSES
        for yes, n in zip(DATA["yes"][f"{epsilon:g}"][str(number)], PEOPLE, strict=True)
    ]
    return [not low <= TRUTH <= high for low, high in ends]


def price(epsilon):
    """How many private answers tell as much as one honest answer, for many people with θ = TRUTH."""
    h, signal = heard(epsilon), 2 * truthful(epsilon) - 1
    return h * (1 - h) / signal**2 / (TRUTH * (1 - TRUTH))


def prices(epsilon):
    """The price at one ε, and over a grid of them."""
    return {"price": price(epsilon), "curve": [price(each) for each in np.geomspace(0.25, 5, 41)]}


def check(function):
    for epsilon in (0.5, 1.0, 2.0):
        right = 1000 * ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2
        got = function(1000, epsilon)
        assert abs(got / right - 1) < 0.01, f"people_needed(1000, {epsilon}) must be about {right:.0f}, got {got:.0f}."


PARTS = [
    Prose(
        """
        One answer tells little. Many answers tell a lot about the **group**, and still little about anyone in it.

        Think of the two coins. If a share θ of the people cheated, you expect to hear *yes* from ¼ + θ/2 of them: ¼
        because of the coins alone, and half of the cheaters' share. If you hear *yes* from 40 %, then θ is probably
        near 30 %. We know the noise exactly, so we can take it out of the sum, though not out of any single answer.
        """,
        slide="""
        A share θ cheated. Two coins. You hear *yes* from ¼ + θ/2 of the people.

        **You hear 40 % yes. What is θ?**
        """,
    ),
    Notes(
        """
        Take the slips of lesson 1, or the first question of the poll. Count the “yes” and solve for θ on the board.
        Ask: what if θ comes out negative? (Chance. The posterior has no such shares.)
        """,
        5,
    ),
    Prose(
        """
        ## How sure can you be?

        “Probably near 30 %” is not enough. For every θ, ask how well it explains what you heard. The result is the
        **posterior**: how plausible each θ is, given the answers, if all were equally plausible before. Its middle 95 %
        is an **interval**. The more answers, the narrower it gets.
        """,
        slide="""
        ## How sure can you be?

        The **posterior**: how plausible is each θ, given the answers? Its middle 95 % is an interval.
        """,
    ),
    Prediction(
        state(
            "30 % of the people cheated. With 1,000 honest answers you know that share to ± {} percentage "
            "points. How many private "
            "answers at ε = 1 tell as much?",
            ("3", 100 * width(HONEST, 1000) / 2),
        ),
        {
            "About 2,700.": "That is e times as many. The odds of one answer change by e, but precision depends on the square of "
            "the signal.",
            "About 5,400.": state(
                "At ε = 1 a *yes* is only {} percentage points more likely from a cheater. So the noise counts for "
                "more, and "
                "more people must make up for it.",
                ("46", 100 * (2 * truthful(1) - 1)),
            ),
            "No number is enough: noise stays noise.": "We know the noise exactly. It averages out as people are added.",
        },
        "About 5,400.",
        proof=abs(width(1, 5400) / width(HONEST, 1000) - 1) < 0.01,
    ),
    Picture(
        "funnel",
        "Two panels. Left: intervals of the share of cheaters for 10 to 100,000 people. Both bands, from "
        "private and from honest "
        "answers, narrow around the true share of 30 %; the private one is wider. Right: the posterior for "
        "one number of people.",
        [
            Slider("epsilon", "privacy loss ε", EPSILONS, 1),
            Slider("people", "people", PEOPLE, 1000),
            Slider("number", "another class", list(CLASSES), 3),
        ],
        funnel,
    ),
    Notes(
        """
        Begin with 10 people and raise their number slowly. Let the class say where the truth is before you reveal it.
        Then another class: the funnel wobbles, and nearly always contains the dashed line. Then halve ε.
        """,
        10,
    ),
    Prose(
        state(
            """
            **Both funnels close on the truth.** The private one is wider: at ε = 1 and 1,000 people {} times as wide.
            But nothing stops it from closing. With four times as many people it is {} times as wide. So privacy costs
            people, not truth.

            Try another class: the funnel wobbles, and nearly always contains the dashed line. Of all {} intervals that
            the sliders can show, {} % miss it. About one in twenty 95 % intervals may.
            """,
            ("2.3", width(1, 1000) / width(HONEST, 1000)),
            ("0.50", width(1, 40_000) / width(1, 10_000)),
            ("810", len(missed())),
            ("4", 100 * np.mean(missed())),
        ),
        slide="**Both funnels close on the truth.** Privacy costs people, not truth.",
    ),
    Prose(
        """
        ## The price of privacy

        How many private answers are worth one honest answer? That is the price of ε.
        """,
        slide="""
        ## The price of privacy

        How many private answers are worth one honest answer?
        """,
    ),
    Prediction(
        "You halve ε, from 0.5 to 0.25. By how much must the number of people grow, for the same interval?",
        {
            "It doubles.": "The signal is about half, and people must make up for its square.",
            "It grows about fourfold.": "Half the signal, so four times the people: for small ε the price is about 1/ε².",
            "It grows by a factor of e.": "e bounds what one answer does to the odds. Precision depends on the square of the signal.",
        },
        "It grows about fourfold.",
        proof=abs(price(0.25) / price(0.5) - 4) < 0.1 and abs((width(0.25, 10**6) / width(0.5, 10**6)) ** 2 - 4) < 0.1,
    ),
    Picture(
        "price",
        "A curve: how many private answers are worth one honest answer, for ε from 0.25 to 5. It falls "
        "steeply, and is close to "
        "one from ε = 4 on.",
        [Slider("epsilon", "privacy loss ε", EPSILONS, 0.5)],
        prices,
    ),
    Notes("Discuss: who should choose ε? Who pays for it?", 5),
    Prose(
        state(
            """
            At ε = 2 one honest answer is worth {} private answers; at ε = 0.25 it is worth {}. Who chooses ε decides
            how many people must be asked.
            """,
            ("1.9", price(2)),
            ("77", price(0.25)),
        ),
        slide=state(
            "ε = 2: {} private answers for one honest answer. ε = 0.25: {}.", ("1.9", price(2)), ("77", price(0.25))
        ),
    ),
    Exercise(
        "Half of the people would say *yes*. Write `people_needed(n, epsilon)`: how many private answers "
        "tell as much as n honest "
        "ones? A device says the truth with probability p = e<sup>ε</sup>/(e<sup>ε</sup> + 1).",
        "people_needed",
        "import math\n\n\ndef people_needed(n, epsilon):\n    return n\n",
        "import math\n\n\ndef people_needed(n, epsilon):\n    p = math.exp(epsilon) / (math.exp(epsilon) + 1)\n"
        "    signal = p - (1 - p)\n    return n / signal**2\n",
        check,
        hints=[
            "A *yes* is p − q more likely from somebody who would say *yes*, with q = 1 − p. That is the signal "
            "of one answer.",
            "If half of the people would say *yes*, half of the answers are *yes*, private or not. So the chance "
            "in a sum of "
            "answers is the same, and only the signal is smaller.",
            "The error is chance divided by signal, and falls with the square root of the number of people. So "
            "divide n by the "
            "square of the signal.",
        ],
        twin=Numeric(
            "Half of the people would say “yes”. At ε = 2, how many private answers tell as much as 1,000 honest "
            "ones? "
            "(The signal of one answer is p − q with p = e²/(e² + 1) and q = 1 − p.)",
            ("1,724", 1000 / (2 * truthful(2) - 1) ** 2),
            10,
            "people",
            state(
                "p = {}, so the signal is {}. Divide 1,000 by its square.",
                ("0.881", truthful(2)),
                ("0.762", 2 * truthful(2) - 1),
            ),
        ),
    ),
    Notes("In pairs. Those who finish early draw the price over ε.", 10),
    Takeaway("Noise that you know exactly costs people, not truth."),
    Prose(
        """
        **In the package:** `ad.Responses` holds the answers, never the truth. `ad.sample(responses, "nuts")` draws from
        this posterior for any number of categories. The intervals of `ad.intervals.summary` cover whatever the shares are.
        """
    ),
]
