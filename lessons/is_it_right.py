"""Lesson 6: a wrong sampler does not crash, and neither does a wrong model. Its pictures are in is_it_right.js."""

import json
import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from adobest_pp.teaching import Exercise, Menu, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

DATA = json.loads((Path(__file__).parent / "data" / "is_it_right.json").read_text(encoding="utf-8"))
SAMPLERS = list(DATA)
LENGTHS = [20, 50, 100, 200, 500]
UNIT = 10_000
PEOPLE, CELLS, BINS = 300, 400, 10
EPSILON = 1.0
LARGE, TINY = "SGLD, large steps", "SGLD, tiny steps"


def traces(sampler, draws):
    """The draws of four chains so far, their R-hat and how many independent draws they are worth."""
    of = DATA[sampler]
    place = LENGTHS.index(draws)
    return {
        "chains": [[value / UNIT for value in chain[:draws]] for chain in of["chains"]],
        "r_hat": of["r_hat"][place],
        "effective": of["effective"][place],
    }


def yes_probability(share, epsilon):
    """P(“yes”) of randomized response."""
    low = 1 / (math.exp(epsilon) + 1)
    return low + (1 - 2 * low) * share


GRID = (np.arange(CELLS) + 0.5) / CELLS


def posterior(yes, epsilon):
    """The posterior of a share on the grid, flat prior, for each number of “yes” among 300 answers."""
    h = yes_probability(GRID, epsilon)
    value = np.multiply.outer(yes, np.log(h)) + np.multiply.outer(PEOPLE - np.asarray(yes), np.log1p(-h))
    mass = np.exp(value - value.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


@lru_cache
def ranks(assumed):
    """Where the truth falls in the posterior: how often in each tenth, how often in the 95 % interval, and estimates.

    Exact: over all truths on the grid and all numbers of “yes” from 300 people whose devices use ε = 1.
    """
    yes = np.arange(PEOPLE + 1)
    mass = posterior(yes, assumed)
    rank = np.cumsum(mass, axis=1) - mass / 2
    h = yes_probability(GRID, EPSILON)
    chance = np.array([math.comb(PEOPLE, int(y)) for y in yes], dtype=float)[:, None]
    weight = chance * h ** yes[:, None] * (1 - h) ** (PEOPLE - yes)[:, None] / CELLS
    bins = np.minimum((rank * BINS).astype(int), BINS - 1)
    expected = PEOPLE * yes_probability(np.linspace(0, 1, 11), EPSILON)
    middle = posterior(expected, assumed)
    return {
        "bins": np.bincount(bins.ravel(), weight.ravel(), BINS).tolist(),
        "covered": float(weight[(rank > 0.025) & (rank < 0.975)].sum()),
        "estimates": (middle @ GRID).tolist(),
    }


def check(function):
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.5, 3.0):
        chains = rng.normal(size=(4, 200)) + shift * np.arange(4)[:, None]
        got, right = function(chains.tolist()), r_hat(chains)
        assert abs(got - right) < 1e-6, (
            f"For chains that differ by {shift} sd, R-hat must be {right:.4f}, got {got:.4f}."
        )


def r_hat(chains):
    """The classic R-hat."""
    n = chains.shape[1]
    within, between = chains.var(axis=1, ddof=1).mean(), chains.mean(axis=1).var(ddof=1)
    return math.sqrt(((n - 1) / n * within + between) / within)


PARTS = [
    Prose(
        """
        A wrong sampler does not crash. It draws a smooth, believable picture of the wrong thing. The usual check runs
        several **chains** from different starts, and compares them:

        - **R-hat**: do the chains agree? 1.00 is good; above 1.05 they do not.
        - **ESS**, the effective sample size: how many *independent* draws are these draws worth?

        Five samplers drew from the same posterior, four chains each.
        """,
        slide="A wrong sampler does not crash. **R-hat**: do the chains agree? **ESS**: how many independent draws "
        "are they worth?",
    ),
    Notes("Show only the traces and let the class vote: which samplers would you trust?", 4),
    Prediction(
        "The four chains of “SGLD, large steps” agree: their R-hat is 1.01. Are these draws from the posterior?",
        {
            "Yes: that is what R-hat says.": "R-hat compares the chains with each other. All of them can be wrong in the same way.",
            "No: the chains agree on something too wide.": "They agree with each other, and not with the posterior. R-hat cannot see that.",
            "There is no way to tell.": "There is: compare with an exact sampler, or check whether the draws fit the slope of the "
            "log-posterior.",
        },
        "No: the chains agree on something too wide.",
        proof=abs(DATA[LARGE]["r_hat"][-1] - 1.01) < 0.005
        and DATA[LARGE]["verdict"] == "biased"
        and DATA[LARGE]["stein"] > DATA[LARGE]["stein_threshold"],
    ),
    Picture(
        "traces",
        "The draws of four chains, one line each, in the order in which they were drawn. The chains of a "
        "good sampler overlap like caterpillars.",
        [
            Menu("sampler", "sampler", SAMPLERS),
            Slider("draws", "draws of each chain", LENGTHS, 200),
        ],
        traces,
    ),
    Prose(
        state(
            """
            Go through the five samplers with 500 draws of each chain, 2,000 in all. Those of NUTS are worth {}
            independent draws, and those of Gibbs {}: it is exact as well, but moves slowly. “SGLD, tiny steps” has an
            R-hat of {}: its chains are still on their way.

            “SGLD, large steps” looks fine: R-hat {}. But its draws are spread out {} times as much as those of NUTS.
            Another check finds it: the **Stein discrepancy** asks whether the draws fit the slope of the log-posterior,
            and needs no second sampler. It is {}, where draws of the posterior nearly always stay below {}.
            """,
            ("1,339", DATA["NUTS"]["effective"][-1]),
            ("150", DATA["Gibbs"]["effective"][-1]),
            ("3.5", DATA[TINY]["r_hat"][-1]),
            ("1.01", DATA[LARGE]["r_hat"][-1]),
            ("1.77", DATA[LARGE]["sd"] / DATA["NUTS"]["sd"]),
            ("0.58", DATA[LARGE]["stein"]),
            ("0.25", DATA[LARGE]["stein_threshold"]),
        ),
        slide=state(
            "“SGLD, large steps” has R-hat {}, and draws that are {} times too wide. **Agreement is not correctness.**",
            ("1.01", DATA[LARGE]["r_hat"][-1]),
            ("1.77", DATA[LARGE]["sd"] / DATA["NUTS"]["sd"]),
        ),
    ),
    Notes("“SGLD, large steps” has a good R-hat, so agreement is not enough. That is the point of the lesson.", 6),
    Prose(
        """
        ## And if the model is wrong?

        A sampler can be perfect and the *model* wrong. To find out, simulate: draw a truth, let 300 people answer,
        compute the posterior, and note the **rank** of the truth: how much of the posterior lies below it? If
        everything is right, all ranks are equally likely, and a 95 % interval contains the truth in 95 % of cases. This
        is called **calibration**.
        """,
        slide="## And if the model is wrong?\n\nSimulate a truth, answers, a posterior. Where does the truth fall "
        "in it?",
    ),
    Prediction(
        "The devices use ε = 1, but the analyst believes that it is 2. The sampler is exact. Which check "
        "finds the mistake?",
        {
            "R-hat.": "The chains agree perfectly, on the posterior of the wrong model.",
            "The Stein discrepancy.": "The draws fit the slope of the wrong log-posterior perfectly.",
            "Calibration: simulate, and see where the truth falls.": "The truth falls outside the interval far too often. Only a check that knows the truth sees it.",
        },
        "Calibration: simulate, and see where the truth falls.",
        proof=ranks(2)["covered"] < 0.4 and abs(ranks(1)["covered"] - 0.95) < 0.003,
    ),
    Picture(
        "ranks",
        "Left: how often the truth falls in each tenth of the posterior. With the right ε all ten bars are "
        "equal. Right: the estimate against the truth. "
        "With the right ε it follows the diagonal; an ε that is too large flattens it, one that is too small "
        "makes it too steep.",
        [Slider("assumed", "ε that the analyst assumes (the devices use 1)", [0.5, 0.7, 0.85, 1, 1.2, 1.5, 2], 1)],
        ranks,
    ),
    Prose(
        state(
            """
            With the right ε, 95 % intervals contain the truth in {} % of cases. If the analyst assumes ε = 2, they
            contain it in {} %; if the analyst assumes ε = 0.5, in {} %.

            Both mistakes pile the ranks up at the ends, for opposite reasons. **Assumed too large**: the analyst
            corrects too little for the noise, and estimates are pulled towards one half. A true share of 90 % is
            estimated as {} %. **Assumed too small**: the analyst corrects too much, and estimates are pushed outwards.
            A true share of 70 % is estimated as {} %. The right panel tells them apart.
            """,
            ("95", 100 * ranks(1)["covered"]),
            ("36", 100 * ranks(2)["covered"]),
            ("82", 100 * ranks(0.5)["covered"]),
            ("74", 100 * ranks(2)["estimates"][9]),
            ("85", 100 * ranks(0.5)["estimates"][7]),
        ),
        slide="ε assumed **too large**: estimates are pulled to one half. **Too small**: they are pushed outwards. "
        "More people do not help.",
    ),
    Notes(
        "Move the assumed ε up and down. Ask what would happen with a million people. (Both mistakes stay, "
        "and the intervals shrink around the wrong place.)",
        8,
    ),
    Exercise(
        "Write the classic `r_hat(chains)` for a list of m chains of n draws each: W is the mean of the "
        "variances within the chains, B the variance of the chains' means (with "
        "denominators n − 1 and m − 1), and R-hat = √(((n − 1)/n · W + B)/W).",
        "r_hat",
        "import math\nimport statistics\n\n\ndef r_hat(chains):\n    return 1.0\n",
        "import math\nimport statistics\n\n\ndef r_hat(chains):\n    n = len(chains[0])\n    within = "
        "statistics.mean(statistics.variance(chain) for chain in chains)\n"
        "    between = statistics.variance([statistics.mean(chain) for chain in chains])\n    return "
        "math.sqrt(((n - 1) / n * within + between) / within)\n",
        check,
        hints=[
            "`statistics.variance(chain)` has the denominator n − 1.",
            "W is `statistics.mean` of the variances of all chains. B is `statistics.variance` of the list of "
            "their means.",
            "With n = len(chains[0]), return `math.sqrt(((n - 1) / n * W + B) / W)`.",
        ],
        twin=Numeric(
            "Four chains of 5 draws have W = 2 and means 10, 10, 10 and 14. B is the variance of the four means, "
            "with denominator 3. What is R-hat?",
            ("1.67", math.sqrt((4 / 5 * 2 + np.var([10, 10, 10, 14], ddof=1)) / 2)),
            0.02,
            "",
            state(
                "The mean of the means is 11, B = (1 + 1 + 1 + 9)/3 = {}, and R-hat = √((1.6 + 4)/2).",
                ("4", np.var([10, 10, 10, 14], ddof=1)),
            ),
        ),
    ),
    Notes("The exercise in pairs. Discuss which checks you would report in a paper.", 12),
    Takeaway("Agreement is not correctness."),
    Prose(
        """
        **In the package:** `ad.diagnostics.compare(draws)` gives each sampler a verdict. `ad.diagnostics.calibration`
        and `ad.diagnostics.contraction` check any sampler and mechanism on simulated people. `ad.sample` warns when
        chains disagree, and when answers do not fit the mechanism.
        """
    ),
]
