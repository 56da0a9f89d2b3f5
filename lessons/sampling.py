"""Lesson 5: drawing from the posterior, and noise that nobody planned. Its picture is in sampling.js."""

import json
import math
from pathlib import Path

import numpy as np

import adobest_pp as ad
from adobest_pp.teaching import Exercise, Menu, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

DATA = json.loads((Path(__file__).parent / "data" / "sampling.json").read_text(encoding="utf-8"))
BATCHES = {"10": 10, "50": 50, "200": 200, "all": 0}
UNIT = 10_000
DIRECTIONS = 60


def width(n, name):
    """The standard deviation of a sampler's draws over that of the posterior, as a mean over the three shares."""
    return DATA[str(n)]["width"][name]


def log_likelihood(counts, a, b):
    """Σ counts·ln h(θ) at the shares a, b and 1 − a − b, for randomized response at ε = 1; −∞ outside the triangle."""
    h = ad.SRR(3, 1.0).transition_matrix() @ np.array([a, b, 1 - a - b])
    return np.where(np.min([a, b, 1 - a - b], axis=0) >= 0, counts @ np.log(np.maximum(h, 1e-300)), -np.inf)


def outline(of, edge):
    """The edge of the region in which the likelihood is at least this, as points (a, b) around its middle."""
    angle = 2 * math.pi * np.arange(DIRECTIONS) / DIRECTIONS
    ways = np.column_stack([np.cos(angle), np.sin(angle)])
    inside, outside = np.zeros(DIRECTIONS), np.full(DIRECTIONS, 2.0)
    for _ in range(50):
        middle = (inside + outside) / 2
        holds = log_likelihood(of["counts"], *(of["mean"][:2] + middle[:, None] * ways).T) >= edge
        inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
    return (of["mean"][:2] + inside[:, None] * ways).tolist()


def clouds(n=30_000, batch="50"):
    """The regions that hold 50 and 95 % of the posterior, and draws of SGLD without and with control variates."""
    of = DATA[str(n)]
    name = f"sgld_{BATCHES[batch]}"
    return {
        "half": outline(of, of["edges"][0]),
        "most": outline(of, of["edges"][1]),
        "sgld": [[a / UNIT, b / UNIT] for a, b in of["draws"][name]],
        "controlled": [[a / UNIT, b / UNIT] for a, b in of["draws"]["sgld_cv"]],
        "width": of["width"][name],
        "controlled_width": of["width"]["sgld_cv"],
        "reach": 8 * max(of["sd"]),
    }


def widened(n, m, step, v):
    """How many times as wide as the posterior the draws of SGLD are, for small steps."""
    return math.sqrt(1 + step * n**2 * v / (4 * m))


def check(function):
    for n, m, step, v in ((1000, 10, 1e-4, 0.5), (30_000, 50, 0.5 / 30_000, 0.1), (100, 100, 0.01, 1.0)):
        got, right = function(n, m, step, v), widened(n, m, step, v)
        assert abs(got - right) < 1e-9, f"width({n}, {m}, {step:.3g}, {v}) must be {right:.4f}, got {got:.4f}."


PARTS = [
    Prose(
        """
        With two or three categories we can compute how plausible every θ is. With twenty we cannot. So we **draw** from
        the posterior: a few hundred values of θ that are distributed like the posterior.

        - **NUTS** follows the gradient of the log-posterior, and corrects every move. It is exact.
        - **Gibbs** draws everybody's true category given θ, then θ given the categories, and so on. It is exact, too.
        - **SGLD** looks only at a *batch* of answers. It moves by half a step times its estimate of the gradient, and
          adds noise. It corrects nothing. That is cheap, and the paper behind this course uses it.
        """,
        slide="**Draw from the posterior.** NUTS and Gibbs are exact. SGLD looks at a *batch* of answers, and "
        "corrects nothing.",
    ),
    Notes(
        "A walker in the fog who feels the slope: that is Langevin. Now the walker asks ten friends out of "
        "thousands for the slope: that is a "
        "stochastic gradient. What can go wrong?",
        4,
    ),
    Prediction(
        "SGLD takes the paper's steps, 0.5/n, with batches of 50. The number of people grows from 30 to "
        "30,000. How good are its draws?",
        {
            "They get better: more data, better sampler.": "The posterior shrinks faster than the noise of the batches does.",
            "They stay as good as they are for 30 people.": "The step shrinks with n, but that is not enough.",
            "They get worse: twice as spread out as they should be.": "A batch of 50 has to stand for 30,000. Its noise outgrows the posterior.",
        },
        "They get worse: twice as spread out as they should be.",
        proof=width(30, "sgld_50") < 1.05 and abs(width(30_000, "sgld_50") - 2) < 0.1,
    ),
    Picture(
        "people",
        "Draws of SGLD as a cloud of dots, with the outlines of the exact posterior. With many people the "
        "cloud reaches far beyond the outlines.",
        [Slider("n", "people n", [30, 300, 3000, 30_000], 30)],
        clouds,
    ),
    Notes(
        "Begin at 30 people: the cloud fits, so the class trusts SGLD. Raise n one step at a time. Stop, and "
        "let them explain before you go on. The picture "
        "zooms in with n, so the outlines keep their size and the cloud grows.",
        6,
    ),
    Prose(
        state(
            """
            The outlines hold 50 % and 95 % of the exact posterior. The dots are 200 draws. With 30 people SGLD's draws
            are {} times as spread out as the posterior. With 30,000 people they are {} times as spread out, and with
            batches of 10 even {} times. (NUTS: {}, Gibbs: {}.) So an interval from these draws is twice as wide as it
            should be. No warning appears.

            **Why?** A batch of m answers stands for all n, so the noise of its gradient has n²/m times the variance v
            of one answer's gradient. SGLD moves by γ/2 times that gradient: it adds noise of variance (γ/2)² · n²/m ·
            v. Langevin needs noise of variance γ, no more. With γ = 0.5/n the batch adds n/(8m) · v times as much as
            Langevin needs: **it grows with n.**
            """,
            ("1.0", width(30, "sgld_50")),
            ("2.0", width(30_000, "sgld_50")),
            ("2.8", width(30_000, "sgld_10")),
            ("1.0", width(30_000, "nuts")),
            ("1.0", width(30_000, "gibbs")),
        ),
        slide="## Why\n\nLangevin needs noise of variance γ. The batch adds (γ/2)² · n²/m · v. With γ = 0.5/n that "
        "grows with n.",
    ),
    Prediction(
        "30,000 people, steps of 0.5/n. You raise the batch from 50 to 200. What happens to SGLD?",
        {
            "Nothing: only the step matters.": "The noise of the gradient has n²/m times the variance of one answer, and m is the batch.",
            "It gets narrower, but stays too wide.": "Four times the batch leaves a quarter of the extra variance. That is not yet enough.",
            "It becomes exact.": "Not yet. It needs all answers in every batch, or much smaller steps.",
        },
        "It gets narrower, but stays too wide.",
        proof=1.15 < width(30_000, "sgld_200") < 0.8 * width(30_000, "sgld_50"),
    ),
    Picture(
        "batches",
        "Two clouds of draws with 30,000 people, of SGLD and of SGLD with control variates, each with the "
        "outlines of the exact posterior. "
        "The cloud of SGLD shrinks as the batch grows. That of SGLD with control variates fills the outlines "
        "with batches of any size.",
        [Menu("batch", "batch of SGLD", ["50", "10", "200", "all"])],
        lambda batch: clouds(batch=batch),
    ),
    Prose(
        state(
            """
            With batches of 200 the draws are {} times as spread out as the posterior.

            **The repair: control variates.** Compute the gradient once, exactly, at one good place. From then on use
            the batch only for how the gradient *differs* from the one there. Near that place the difference is small,
            and so is its noise: the draws in the right panel are {} times as spread out as the posterior.
            """,
            ("1.3", width(30_000, "sgld_200")),
            ("1.0", width(30_000, "sgld_cv")),
        ),
        slide="**The repair:** let the batch estimate only the *difference* from a gradient that you know exactly.",
    ),
    Notes(
        "The formula on the board, then control variates: ask the friends only about the *difference* from a "
        "place that you know exactly.",
        8,
    ),
    Exercise(
        "Langevin adds noise of variance `step`. The batch adds (step/2)² · n²/m · v, where v is the "
        "variance of one answer's gradient. For small steps the variance of "
        "the draws grows in proportion to the noise. Write `width(n, m, step, v)`: how many times as wide, "
        "in standard deviations, do the draws become?",
        "width",
        "import math\n\n\ndef width(n, m, step, v):\n    return 1.0\n",
        "import math\n\n\ndef width(n, m, step, v):\n    batch_noise = (step / 2) ** 2 * n**2 / m * v\n    "
        "return math.sqrt((step + batch_noise) / step)\n",
        check,
        hints=[
            "Add the two variances: that of Langevin and that of the batch.",
            "Divide by what Langevin needs, `step`. That is how much the variance grows.",
            "A standard deviation is the square root of a variance: `math.sqrt((step + batch_noise) / step)`.",
        ],
        twin=Numeric(
            "n = 3,000 answers, batches of m = 50, steps of 0.5/n, and v = 0.08. How many times as wide do the "
            "draws become? The batch adds n/(8m) · v times Langevin's noise.",
            ("1.26", widened(3000, 50, 0.5 / 3000, 0.08)),
            0.02,
            "times",
            state("n/(8m) · v = {}, and the width is the root of 1 plus that.", ("0.6", 3000 / 400 * 0.08)),
        ),
    ),
    Notes("The exercise in pairs. Those who finish early find the m that keeps the draws within 5 %.", 12),
    Takeaway("Noise that you did not plan makes the draws too wide."),
    Prose(
        """
        **In the package:** `ad.sample(responses, "nuts")`, `"gibbs"`, `"sgld"` (the paper's) and `"sgld_cv"` (repaired,
        with every setting chosen for you). The draws of this page come from `lessons/precompute.py`.
        """
    ),
]
