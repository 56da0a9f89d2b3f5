"""Lesson 8: what answers tell about their own noise: ε as one more unknown. Its picture is in unknown_noise.js."""

import math
from functools import lru_cache

import numpy as np

from adobest_pp.teaching import Exercise, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

SHARE, EPSILON = 0.3, 1.0
EPSILONS = np.linspace(0.1, 5, 99)
SHARES = (np.arange(400) + 0.5) / 400


def keeps(epsilon):
    """P(“yes” | yes) of randomized response."""
    return 1 / (1 + np.exp(-np.asarray(epsilon)))


def yes_probability(share, epsilon):
    """P(“yes”) of randomized response."""
    return 1 - keeps(epsilon) + (2 * keeps(epsilon) - 1) * share


@lru_cache
def unknown(n, calls):
    """What n answers and some test calls tell about ε and the share of “yes”, both unknown, with flat priors.

    The answers come as they do on average from a share of 30 % and ε = 1. A test call is an answer for a known truth.
    `low` and `high` hold, for each ε, the shares in the smallest region with 95 % of the posterior; None if there is
    none.
    """
    yes, hits = n * float(yes_probability(SHARE, EPSILON)), calls * float(keeps(EPSILON))
    h, p = yes_probability(SHARES, EPSILONS[:, None]), keeps(EPSILONS)[:, None]
    value = yes * np.log(h) + (n - yes) * np.log1p(-h) + hits * np.log(p) + (calls - hits) * np.log1p(-p)
    mass = np.exp(value - value.max())
    mass /= mass.sum()
    order = np.argsort(-mass, axis=None, kind="stable")
    held = np.cumsum(mass.ravel()[order])
    inside = mass >= mass.ravel()[order[np.searchsorted(held, 0.95)]]
    half = 0.5 / len(SHARES)
    low = [float(SHARES[row].min() - half) if row.any() else None for row in inside]
    high = [float(SHARES[row].max() + half) if row.any() else None for row in inside]
    h = yes_probability(SHARES, EPSILON)
    value = yes * np.log(h) + (n - yes) * np.log1p(-h)
    known = np.exp(value - value.max())
    return {
        "low": low,
        "high": high,
        "known": (known / known.sum()).tolist(),
        "unknown": mass.sum(axis=0).tolist(),
        "known_interval": interval(SHARES, known / known.sum()),
        "unknown_interval": interval(SHARES, mass.sum(axis=0)),
        "epsilon_interval": interval(EPSILONS, mass.sum(axis=1)),
    }


def interval(grid, mass):
    """Ends of the 95 % interval of a mass on a grid."""
    return np.interp([0.025, 0.975], np.cumsum(mass) - mass / 2, grid).tolist()


def width(n, calls):
    """The width of the interval of the share if ε is unknown."""
    low, high = unknown(n, calls)["unknown_interval"]
    return high - low


def least_epsilon(frequency):
    """The smallest ε that can make “yes” this frequent, or this rare."""
    return abs(math.log(frequency / (1 - frequency)))


def check(function):
    for frequency in (0.1, 0.2, 0.4, 0.5, 0.9):
        got, right = function(frequency), least_epsilon(frequency)
        assert abs(got - right) < 1e-9, f"least_epsilon({frequency}) must be {right:.4f}, got {got:.4f}."


NOISY = float(yes_probability(SHARE, EPSILON))

PARTS = [
    Prose(
        state(
            """
            Until now we always knew ε. But a device may not say how it was set, or you may not believe it. 10,000
            people answered *yes* or *no* through randomized response, and {} % said *yes*. Nothing else is known:
            neither ε nor the share of people whose truth is *yes*.

            To a Bayesian, ε is one more unknown. Give it a prior (here: anything from 0.1 to 5 is equally plausible),
            write the table P(answer | truth) as a function of ε, and let the posterior tell what the answers say about
            both.
            """,
            ("41", 100 * NOISY),
        ),
        slide=state(
            "10,000 answers, {} % *yes*. Nobody tells you ε. **Then ε is one more unknown.**", ("41", 100 * NOISY)
        ),
    ),
    Notes(
        "Tell the story of a black box: a device that you bought, with a sticker that says “private”. What "
        "can its answers tell about it?",
        4,
    ),
    Prediction(
        "What do the 10,000 answers tell?",
        {
            "Both ε and the share, with enough people.": "More people make the curve thinner, not shorter. See the picture.",
            "The share, but not ε.": "How much noise to take out depends on ε. Without it, the share stays open, too.",
            "Only which pairs of ε and share fit together.": "A noisy device with few *yes* and a quiet one with more *yes* give the same answers.",
        },
        "Only which pairs of ε and share fit together.",
        proof=width(10_000, 0) > 0.3 and width(10_000, 0) / width(1000, 0) > 0.9,
    ),
    Picture(
        "people",
        "Left: the pairs of ε and share that fit the answers, a curved band that is thinner with more people "
        "but not shorter. Right: the posterior of the share with ε known, "
        "a narrow peak, and with ε unknown, spread out widely.",
        [Slider("n", "people n", [100, 300, 1000, 3000, 10_000], 10_000)],
        lambda n: unknown(n, 0),
    ),
    Prose(
        state(
            """
            With ε = 1 known, the interval of the share is {} to {} %. With ε unknown it is {} to {} %, and **more
            people do not help**: they make the band thinner, not shorter.

            But the answers do tell one thing. If ε were tiny, nearly half of all answers would be *yes*, whatever the
            truth. Only {} % are. So ε is at least ln({}/{}) ≈ {}. Answers bound ε from below, never from above: they
            cannot show that a device is private.
            """,
            ("28", 100 * unknown(10_000, 0)["known_interval"][0]),
            ("32", 100 * unknown(10_000, 0)["known_interval"][1]),
            ("4", 100 * unknown(10_000, 0)["unknown_interval"][0]),
            ("41", 100 * unknown(10_000, 0)["unknown_interval"][1]),
            ("41", 100 * NOISY),
            ("59", 100 * (1 - NOISY)),
            ("41", 100 * NOISY),
            ("0.37", least_epsilon(NOISY)),
        ),
        slide="More people make the band **thinner, not shorter**. Answers bound ε only from below.",
    ),
    Notes(
        "Move n from 100 to 10,000 and watch the band. Ask which part of it is impossible, and why. (Small "
        "ε: then nearly half would say *yes*.)",
        7,
    ),
    Prediction(
        "You can ask 90,000 more people, or **test the device** 100 times yourself, with a truth that you "
        "know. Which one narrows the interval of the share more?",
        {
            "90,000 more people.": "They tell more about the pairs that fit, and nothing about which pair it is.",
            "100 test calls.": "They tell about ε directly, and then the 10,000 answers tell about the share.",
            "Both about equally.": "No: one of them hardly does anything.",
        },
        "100 test calls.",
        proof=width(10_000, 100) < 0.6 * width(100_000, 0),
    ),
    Picture(
        "calls",
        "As before, with test calls. The band becomes short: few calls cut off its ends.",
        [Slider("calls", "test calls", [0, 10, 30, 100, 300, 1000, 3000], 100)],
        lambda calls: unknown(10_000, calls),
    ),
    Prose(
        state(
            """
            With 100 test calls the interval of the share is {} to {} %, with 1,000 it is {} to {} %. In PyMC the table
            is a tensor that depends on ε, and both kinds of answers use it:

            ```python
            nobody = np.zeros(2, dtype=bool)  # S is empty: randomized response
            with pm.Model(coords={{"category": ["yes", "no"]}}) as model:
                theta = pm.Dirichlet("theta", a=np.ones(2), dims="category")
                epsilon = pm.Uniform("epsilon", 0.1, 5)
                table = ad.model.transition_matrix(nobody, 0.0, epsilon)  # P(answer | truth)
                answers = (table * theta).sum(axis=-1)
                pm.Multinomial("people", n=counts.sum(), p=answers, observed=counts)
                # test calls, all with the truth “yes”
                pm.Multinomial("calls", n=calls.sum(), p=table[:, 0], observed=calls)
            ```

            If each person was asked a different question, there is one such table for each: a **transition tensor**.
            `ad.model.transition_rows` keeps only the row of each person's answer. It is slower than `PrivateResponse`,
            but ε, κ or ε₂ may be unknown.
            """,
            ("14", 100 * unknown(10_000, 100)["unknown_interval"][0]),
            ("35", 100 * unknown(10_000, 100)["unknown_interval"][1]),
            ("26", 100 * unknown(10_000, 1000)["unknown_interval"][0]),
            ("33", 100 * unknown(10_000, 1000)["unknown_interval"][1]),
        ),
        slide="**Test the device**: 100 calls with a known truth tell more than 90,000 more people.",
    ),
    Notes(
        "Add test calls one step at a time. The band is cut off at both ends. Then show the program: the "
        "same tensor twice.",
        7,
    ),
    Exercise(
        "Of very many answers, the share `frequency` is *yes*. Write `least_epsilon(frequency)`: the "
        "smallest ε of randomized response that can explain it, whatever the share of people with the truth "
        "*yes*. "
        "P(yes) lies between 1/(e<sup>ε</sup> + 1) and e<sup>ε</sup>/(e<sup>ε</sup> + 1).",
        "least_epsilon",
        "import math\n\n\ndef least_epsilon(frequency):\n    return 0.0\n",
        "import math\n\n\ndef least_epsilon(frequency):\n    return abs(math.log(frequency / (1 - frequency)))\n",
        check,
        hints=[
            "If few say *yes*, the most extreme case is that nobody's truth is *yes*. Then P(yes) = "
            "1/(e<sup>ε</sup> + 1).",
            "Set 1/(e<sup>ε</sup> + 1) equal to the frequency, and solve for ε.",
            "For a frequency below ½, ε = ln((1 − f)/f). Above ½ it is ln(f/(1 − f)). `abs` covers both.",
        ],
        twin=Numeric(
            "Of very many answers, 20 % are *yes*. What is the smallest ε that can explain this?",
            ("1.39", least_epsilon(0.2)),
            0.01,
            "",
            "1/(e<sup>ε</sup> + 1) = 0.2, so e<sup>ε</sup> = 4.",
        ),
    ),
    Notes(
        "The exercise in pairs. Discuss: would you accept test calls as a proof of privacy? (Lesson 3: only "
        "the table proves it.)",
        12,
    ),
    Takeaway("Answers do not reveal their own noise. Test the device, or read its table."),
    Prose(
        """
        **In the package:** `ad.model.transition_matrix` and `ad.model.transition_rows`; `models/marginal.py` has the
        program for any number of categories, and `models/noncompliance.py` one for people who do not follow the rules.
        """
    ),
]
