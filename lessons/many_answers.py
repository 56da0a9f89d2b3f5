import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="2 · Many answers")

with app.setup:
    import math

    import marimo as mo
    import numpy as np

    import adobest_pp as ad
    from adobest_pp.likelihood import grid_posterior
    from adobest_pp.teaching.old import Exercise, Prediction, state
    from adobest_pp.teaching.showing import ask, canvas, controls, editor, lecture, picture, practise, prose, slider

    TRUTH = np.array([0.6, 0.3, 0.1])
    LABELS = ["never", "once", "often"]
    HONEST = 30.0  # as good as no noise at all


@app.function
def simulated(epsilon, n, sample):
    """The answers of n people; a smaller n has the first of the same people."""
    rng = np.random.default_rng(sample)
    x = rng.choice(3, size=100_000, p=TRUTH)[:n]
    mechanism = ad.SRR(3, epsilon)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=LABELS)


@app.function
def expected(epsilon, n, theta):
    """The answers of n people as they come on average, without chance."""
    mechanism = ad.SRR(len(theta), epsilon)
    counts = np.rint(n * (mechanism.transition_matrix() @ theta)).astype(int)
    return ad.Responses.from_arrays(mechanism, np.repeat(np.arange(len(theta)), counts))


@app.function
def width(epsilon, n, theta=(0.6, 0.3, 0.1)):
    """The width of the 95 % interval of the first share."""
    low, high = grid_posterior(expected(epsilon, n, np.array(theta)), cells=200).interval()
    return high[0] - low[0]


@app.cell
def _():
    prose(
        """
        # 2 · Many answers

        One answer tells little. A thousand of them tell a lot about the **population**, and still little about anyone in it.

        We want to learn θ, the shares of the categories. Each answer y has probability h(y) = Σ G[y, x] · θ[x]. Multiply these
        over all answers, and you have the likelihood of θ. With a flat prior, that is the **posterior**: how plausible each θ
        is, given the answers. With three categories every possible θ is a point in a triangle, so we can see all of them.
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** Take the slips of lesson 1. Count the “yes”. With fair coins, a share θ gives ¼ + θ/2 “yes”: solve for
          θ on the board. Ask: what if you get a negative share? (Bayes never does.)
        - **10–25 min.** The triangle. A corner is a population in which all are alike. Raise n slowly, and let the class say
          where the truth is before you show it.
        - **25–45 min.** Predict first, by a show of hands. Then halve ε. The shade doubles in width. You pay for privacy in people.
        - **45–60 min.** The exercise. Discuss: who should choose ε, and who pays?
        - The sentence to take home: *noise that you know exactly costs people, not truth.*
        """
    )
    return


@app.cell
def _():
    first = Prediction(
        "With 1,000 honest answers the share of “never” is known to about ± 3 percentage points. "
        "How many private answers at ε = 1 tell as much?",
        {
            "About 2,700: e times as many.": "The odds grow by e, but precision depends on the square of the signal.",
            "About 7,700.": "An answer carries 36 % of the signal, and 1/0.36² is about 8. You pay for privacy in people.",
            "No number: noise stays noise.": "We know the noise exactly. It averages out as people are added.",
        },
        "About 7,700.",
        proof=abs(width(1, 7700) / width(HONEST, 1000) - 1) < 0.02 and abs(width(HONEST, 1000) / 2 - 0.03) < 0.005,
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    epsilon = slider("ε", [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5], 1)
    people = slider("people n", [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000], 1000)
    sample = slider("another sample", list(range(1, 11)), 1)
    return epsilon, people, sample


@app.cell
def _(epsilon, people, sample):
    controls(epsilon, people, sample)
    return


@app.cell
def _(epsilon, people, sample):
    _figure, (_left, _right) = canvas(2, size=(10, 4), margins=(0.01, 0.99, 0.14, 0.93, 0.15))
    _responses = simulated(epsilon.value, people.value, sample.value)
    ad.plots.plot_simplex(responses=_responses, truth=TRUTH, axes=[_left])
    _right.barh(range(3), TRUTH, color="0.88", height=0.8, label="truth")
    _cases = [
        (_responses, "private answers", "#0072B2"),
        (simulated(HONEST, people.value, sample.value), "honest answers", "#D55E00"),
    ]
    for _i, (_each, _label, _color) in enumerate(_cases):
        _posterior = grid_posterior(_each)
        _mean, (_low, _high) = _posterior.mean(), _posterior.interval()
        _right.errorbar(
            _mean,
            np.arange(3) - 0.15 + 0.3 * _i,
            xerr=[_mean - _low, _high - _mean],
            fmt="o",
            color=_color,
            capsize=3,
            label=_label,
        )
    _right.set_yticks(range(3), LABELS)
    _right.set(xlabel="share of people, with 95 % intervals", xlim=(0, 1))
    _right.invert_yaxis()
    _right.legend(frameon=False, loc="lower right")
    picture(
        _figure, "Left: the posterior on the triangle, with the truth as a cross. Right: 95 % intervals of the shares."
    )
    return


@app.cell
def _():
    statements = [
        state(
            "At ε = 1 and 1,000 people the interval of “never” is {} times as wide as with honest answers.",
            2.8,
            width(1, 1000) / width(HONEST, 1000),
        ),
        state("Four times as many people make it {} times as wide.", 0.5, width(1, 40_000) / width(1, 10_000), 0.01),
        state(
            "For two categories and even shares, {} private answers at ε = 1 tell as much as one honest answer.",
            4.7,
            (width(1, 100_000, (0.5, 0.5)) / width(HONEST, 100_000, (0.5, 0.5))) ** 2,
        ),
        state(
            "Why? At ε = 1 one private answer carries {} % of the signal: that is by how much the probability to hear “never” rises "
            "from a person for whom it is false to one for whom it is true.",
            36,
            100 * (ad.SRR(3, 1).transition_matrix()[0] @ [1, -0.5, -0.5]),
        ),
    ]
    prose(
        f"""
        **Left:** the shades hold 50 % and 95 % of the posterior; the cross is the truth. **Right:** the same as intervals, beside
        those from honest answers. Try another sample: the shade moves, and nearly always holds the cross.

        {statements[0]} {statements[1]} {statements[2]} {statements[3]}
        """
    )
    return (statements,)


@app.cell
def _():
    second = Prediction(
        "You halve ε, from 1 to 0.5. By how much must n grow for the same interval?",
        {
            "It doubles.": "The signal is about half, and n must make up for its square.",
            "It grows fourfold.": "Half the signal, so four times the people. For small ε the price is about 1/ε².",
            "It grows by a factor of e.": "No: e bounds the odds of one answer. Precision depends on the square of the signal.",
        },
        "It grows fourfold.",
        proof=abs((width(0.5, 30_000) / width(1, 30_000)) ** 2 - 4) < 0.2,
    )
    second_answer = mo.ui.radio(list(second.options))
    return second, second_answer


@app.cell
def _(second, second_answer):
    ask(second, second_answer)
    return


@app.cell
def _():
    def check(function):
        for epsilon_given in (0.5, 1.0, 2.0):
            right = 1000 * ((math.exp(epsilon_given) + 1) / (math.exp(epsilon_given) - 1)) ** 2
            got = function(1000, epsilon_given)
            assert abs(got / right - 1) < 0.01, (
                f"people_needed(1000, {epsilon_given}) must be about {right:.0f}, got {got:.0f}. "
                "The signal is p − q = (e^ε − 1)/(e^ε + 1)."
            )

    exercise = Exercise(
        "Two categories, half of the people in each. Write `people_needed(n, epsilon)`: how many private answers tell as much "
        "as n honest ones? The probability of a true answer is p = e<sup>ε</sup>/(e<sup>ε</sup> + 1), that of a false one q = 1 − p, and an answer "
        "carries the share p − q of the signal.",
        "people_needed",
        "import math\n\ndef people_needed(n, epsilon):\n    return n\n",
        "import math\n\ndef people_needed(n, epsilon):\n    p = math.exp(epsilon) / (math.exp(epsilon) + 1)\n"
        "    signal = p - (1 - p)\n    return n / signal**2\n",
        check,
    )
    written = editor(exercise)
    return exercise, written


@app.cell
def _(exercise, written):
    practise(exercise, written)
    return


@app.cell
def _():
    prose(
        """
        **In the package:** `ad.Responses` holds the answers, never the truth. `ad.sample(responses, "nuts")` draws from this
        posterior for any number of categories, `ad.likelihood.grid_posterior` computes it for two or three, and
        `ad.plots.plot_simplex` draws it. **Next:** [what the collector may not see](../3).
        """
    )
    return


if __name__ == "__main__":
    app.run()
