"""Lesson 1: what one private answer tells. Its pictures are in one_answer.js."""

import math

import numpy as np

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

TWO_COINS = math.log(3)
EPSILONS = [0.1, 0.25, 0.5, 0.75, 1, 1.1, 1.5, 2, 3, 4, 5]


def belief(prior, epsilon):
    """The belief that a person's truth is yes, after the answer yes."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


def lens(epsilon, prior):
    """Beliefs after the answers yes and no, for one belief before and for a grid of them."""
    matrix = ad.SRR(2, epsilon).transition_matrix()  # rows are answers, columns are truths; yes comes first

    def after(answer, before):
        likely = matrix[answer] * [before, 1 - before]
        return likely[0] / likely.sum()

    grid = np.linspace(0, 1, 41)
    return {
        "factor": matrix[0, 0] / matrix[0, 1],
        "yes": after(0, prior / 100),
        "no": after(1, prior / 100),
        "upper": [after(0, each) for each in grid],
        "lower": [after(1, each) for each in grid],
    }


def table(epsilon, k):
    """The matrix of randomized response with k answers."""
    matrix = ad.SRR(k, epsilon).transition_matrix()
    return {"matrix": matrix.tolist(), "truth": matrix[0, 0], "other": matrix[0, 1]}


def check(function):
    for prior in (0.01, 0.1, 0.5, 0.9):
        for epsilon in (0.2, 1.0, 3.0):
            got, right = function(prior, epsilon), belief(prior, epsilon)
            assert abs(got - right) < 1e-9, f"belief({prior}, {epsilon}) must be {right:.4f}, got {got:.4f}."


PARTS = [
    Prose(
        state(
            """
            *Have you ever cheated in an exam?* Nobody likes to answer that. So let a coin answer with you.

            Flip a coin where only you can see it. **Heads:** say the truth. **Tails:** flip again, and say *yes* for heads,
            *no* for tails. Whatever you say, you can claim that the coin said it. This is **randomized response**. Your own
            device does it before anything is sent, so you need not trust anybody.

            Your answer is the truth with probability {}: half of the time you are honest, and half of the rest the coin
            happens to be right.
            """,
            ("0.75", ad.SRR(2, TWO_COINS).transition_matrix()[0, 0]),
        ),
        slide="""
        **Have you ever cheated in an exam?** Flip a coin.

        - Heads: say the truth.
        - Tails: flip again. Heads means *yes*, tails means *no*.
        """,
    ),
    Notes(
        """
        Do it in the room, on paper, with a harmless question (“Did you have coffee today?”). Collect the slips. Ask: what do
        I know now about the person in the first row? Keep the slips for lesson 2.
        """,
        5,
    ),
    Prose(
        state(
            """
            ## How much does one answer tell?

            A cheater says *yes* with probability ¾. Somebody who never cheated says *yes* with probability ¼. So a *yes* is
            {} times as likely from a cheater.

            That ratio is all there is to know about this kind of privacy. We write it as e<sup>ε</sup>, and call ε the **privacy
            loss**. For the two coins ε = ln 3 ≈ {}. A smaller ε is more private. ε = 0 is pure noise.
            """,
            ("3", math.exp(ad.privacy_loss([[0.75, 0.25], [0.25, 0.75]]))),
            ("1.1", ad.privacy_loss([[0.75, 0.25], [0.25, 0.75]])),
        ),
        slide="""
        ## How much does one answer tell?

        P(*yes* | cheated) = ¾, P(*yes* | did not) = ¼. The ratio is 3 = e<sup>ε</sup>.
        """,
    ),
    Prediction(
        "You think there is a 10 % chance that a person cheated. The person answers “yes” with the two coins. What is the chance now?",
        {
            "Still 10 %: the coin could have said it.": "It could. But a “yes” is three times as likely from a cheater, "
            "so it counts for something.",
            "25 %.": "The odds were 1 : 9. A “yes” triples them, to 3 : 9. That is 3 of 12.",
            "75 %: that is how often the answer is true.": "That would be right if you had believed 50 % before. Most people "
            "did not cheat, and many of them say “yes” because of the coin.",
        },
        "25 %.",
        proof=abs(belief(0.1, TWO_COINS) - 0.25) < 1e-9 and abs(belief(0.5, TWO_COINS) - 0.75) < 1e-9,
    ),
    Picture(
        "lens",
        "Two panels. Left: what you believe after an answer, for every belief before it. The beliefs after yes and after no "
        "enclose a lens around the diagonal, which is wider for a larger ε. Right: bars of the belief before, after yes and after no.",
        [
            Slider("epsilon", "privacy loss ε", EPSILONS, 1.1),
            Slider("prior", "belief before", [1, 5, 10, 25, 50, 75, 90, 99], 10, "%"),
        ],
        lens,
    ),
    Notes(
        """
        Show of hands for all three options before you press “Predict”. Then move ε only: the lens opens and closes. Then leave
        ε alone and move the belief: the dot moves along the edge of the lens, and the factor of the odds stays the same.
        Ask: where does one answer change your mind most? (At 50 %.) Does it ever leave the lens? (No.)
        """,
        10,
    ),
    Prose(
        state(
            """
            **No answer leaves the lens.** Its edges are the beliefs after *yes* and after *no*. Move ε, and it opens and closes.
            Move your belief, and you walk along it. Beliefs change by more or by less, but the *odds* always change by the same
            factor, e<sup>ε</sup>: at ε = 1 by {}, at ε = 5 by {}, where little is left to hide behind.
            """,
            ("2.72", math.exp(1)),
            ("148", math.exp(5)),
        ),
        slide="**No answer leaves the lens.** The odds change by a factor of at most e<sup>ε</sup>.",
    ),
    Prose(
        """
        ## More than two answers

        *Never, once, rarely, often?* With K possible answers, a device says the truth most often, and each of the others equally
        often. Write down how likely each answer (row) is for each truth (column). Look along a row for the largest and the
        smallest number: their ratio is e<sup>ε</sup> again.
        """,
        slide="""
        ## More than two answers

        A row is what I hear. A column is a person. The largest ratio in a row is e<sup>ε</sup>.
        """,
    ),
    Prediction(
        state(
            "At ε = 1, a device with two possible answers says the truth {} % of the time. How often does it say the truth "
            "with six possible answers, at the same ε?",
            ("73", 100 * ad.SRR(2, 1).transition_matrix()[0, 0]),
        ),
        {
            "As often: ε is the same.": "ε bounds the ratio of two probabilities. Five wrong answers now share the rest, and "
            "each of them must be likely enough to hide behind.",
            "Less often: about 35 %.": "The truth has e ≈ 2.7 parts, each of the five others has one part. That is 2.7 of 7.7.",
            "More often.": "There are more wrong answers, and each must be likely enough to hide behind.",
        },
        "Less often: about 35 %.",
        proof=abs(ad.SRR(6, 1).transition_matrix()[0, 0] - 0.35) < 0.005,
    ),
    Picture(
        "table",
        "A matrix: how likely each answer is for each truth. The diagonal is darkest. A frame marks the largest and the smallest "
        "number of the first row.",
        [
            Slider("epsilon", "privacy loss ε", EPSILONS, 1),
            Slider("k", "possible answers K", [2, 3, 4, 5, 6], 6),
        ],
        table,
    ),
    Notes(
        """
        Let the class find the two framed numbers before you show the picture. The whole definition is one ratio in this table.
        """,
        5,
    ),
    Prose(
        """
        This is the promise of **ε-local differential privacy**: for all answers y and all truths x and x′,
        P(y | x) ≤ e<sup>ε</sup> · P(y | x′). It holds whatever anybody knew before, and whatever computer they have.
        """,
        slide="**ε-local differential privacy:** P(y | x) ≤ e<sup>ε</sup> · P(y | x′) for all y, x and x′.",
    ),
    Exercise(
        "Write `belief(prior, epsilon)`: the probability that the truth is *yes* after the answer *yes*, for two possible answers.",
        "belief",
        "import math\n\n\ndef belief(prior, epsilon):\n    return prior\n",
        "import math\n\n\ndef belief(prior, epsilon):\n    odds = prior / (1 - prior) * math.exp(epsilon)\n"
        "    return odds / (1 + odds)\n",
        check,
        hints=[
            "Work with odds: a probability p has the odds p / (1 − p).",
            "The answer “yes” multiplies the odds by e<sup>ε</sup>.",
            "Odds o are the probability o / (1 + o).",
        ],
        twin=Numeric(
            "You think there is a 20 % chance that a person cheated. At ε = 2, the person answers “yes”. What is the chance now?",
            ("65", 100 * belief(0.2, 2)),
            1,
            "%",
            state(
                "The odds were 1 : 4. They grow by e² ≈ {}, to {} : 4. That is {} of {}.",
                ("7.39", math.exp(2)),
                ("7.39", math.exp(2)),
                ("7.39", math.exp(2)),
                ("11.39", math.exp(2) + 4),
            ),
        ),
    ),
    Notes("In pairs. Those who finish early find the belief after “no”.", 10),
    Takeaway("Privacy is a bound on odds, whatever anybody believed before."),
    Prose(
        """
        **In the package:** `ad.SRR(2, epsilon=1.0).privatize(x)` is the coin, drawn exactly from the operating system's entropy.
        `ad.plots.plot_channel` and `ad.plots.plot_belief` draw such pictures for every mechanism.
        """
    ),
]
