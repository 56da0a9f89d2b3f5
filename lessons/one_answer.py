import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="1 · One private answer")

with app.setup:
    import math

    import marimo as mo
    import numpy as np

    import adobest_pp as ad
    from adobest_pp.teaching import Exercise, Prediction, state
    from adobest_pp.teaching.showing import ask, canvas, controls, editor, lecture, picture, practise, prose, slider


@app.function
def belief(prior, epsilon):
    """The belief that a person's truth is yes, after the answer yes."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


@app.function
def labels_of(k):
    return ["yes", "no"] if k == 2 else ["never", "once", "rarely", "often", "always", "unsure"][:k]


@app.cell
def _():
    prose(
        """
        # 1 · One private answer

        *Have you ever cheated in an exam?* Nobody likes to answer that. So let a coin answer with you.

        Flip a coin where only you can see it. Heads: say the truth. Tails: flip again, and say **yes** for heads, **no** for
        tails. Whatever you say, you can always claim that the coin said it. That is **randomized response**. It happens on
        your own device, before anything is sent. You need to trust nobody.

        With a class, begin with phones in place of coins: `adobest class` serves a private poll, and the projector goes
        through a plan of 40 minutes (docs/howto/class.md).
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** Do the coin in the room, on paper, with a harmless question (“Did you have coffee today?”). Collect
          the slips. Ask: what do I know about the person in the first row? Keep the slips for lesson 2.
        - **10–25 min.** Show the matrix. A column is a person, a row is what I hear. Let the class find the two cells with
          the largest ratio in a row. That ratio is e^ε: the whole definition is one number in this table.
        - **25–45 min.** Predict first: both questions, by a show of hands, before anybody moves a slider.
        - **45–60 min.** The exercise, in pairs. Those who finish early add a third category.
        - The sentence to take home: *privacy is a bound on odds, whatever anybody believed before.*
        """
    )
    return


@app.cell
def _():
    two_coins = math.log(3)
    statements = [
        state(
            "With the two coins, your answer is the truth with probability {}.",
            0.75,
            ad.SRR(2, two_coins).transition_matrix()[0, 0],
        ),
        state("The two coins have a loss of ε = ln 3 ≈ {}.", 1.1, ad.privacy_loss([[0.75, 0.25], [0.25, 0.75]])),
        state("At ε = 1 one answer changes the odds by a factor of at most {}.", 2.72, math.exp(1)),
        state("If you believed 10 % before and hear “yes” at ε = 1, you believe {} % after.", 23, 100 * belief(0.1, 1)),
        state("At ε = 5 the factor is {}, and little is left to hide behind.", 148, math.exp(5)),
    ]
    prose(
        f"""
        ## The matrix

        Everything about such a mechanism is in one table, **G**: how likely is each answer (row) for each truth (column)?
        {statements[0]}

        The **privacy loss** ε asks: which answer reveals most? Look along a row for the largest and the smallest number.
        Their ratio is at most e<sup>ε</sup>. {statements[1]} A smaller ε is more private. ε = 0 is pure noise.
        """
    )
    return (statements,)


@app.cell
def _():
    first = Prediction(
        "You believe with 10 % that a person cheated. The person answers “yes” through the mechanism at ε = 1. "
        "What do you believe now?",
        {
            "Still 10 %: the answer is only noise.": "It is not only noise: “yes” is e times as likely if it is true.",
            "About 23 %.": "The odds were 1 : 9. They grow by e ≈ 2.7, to about 2.7 : 9.",
            "About 73 %: that is how often the answer is true.": "That would be right if you had believed 50 % before. "
            "Most “yes” come from the many who did not cheat.",
        },
        "About 23 %.",
        proof=abs(belief(0.1, 1) - 0.23) < 0.005 and abs(belief(0.5, 1) - 0.73) < 0.005,
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    epsilon = slider("ε (privacy loss)", [0.1, 0.25, 0.5, 0.75, 1, 1.1, 1.5, 2, 3, 4, 5], 1)
    prior = slider("belief before, in %", [1, 5, 10, 25, 50, 75, 90, 99], 10)
    categories = slider("possible answers K", [2, 3, 4, 5, 6], 2)
    return categories, epsilon, prior


@app.cell
def _(categories, epsilon, prior):
    controls(epsilon, prior, categories)
    return


@app.cell
def _(categories, epsilon, prior):
    _k, _p = categories.value, prior.value / 100
    _before = np.array([_p] + [(1 - _p) / (_k - 1)] * (_k - 1))
    _figure, (_left, _right) = canvas(2, size=(10, 4), margins=(0.1, 0.99, 0.13, 0.91, 0.2))
    _mechanism, _labels = ad.SRR(_k, epsilon.value), labels_of(_k)
    ad.plots.plot_channel(_mechanism, categories=_labels, ax=_left)
    ad.plots.plot_belief(_mechanism, 0, _before, categories=_labels, ax=_right)
    picture(_figure, f"Left: the matrix of randomized response. Right: the belief before and after one “{_labels[0]}”.")
    return


@app.cell
def _(statements):
    prose(
        f"""
        **Left:** the matrix, with a frame around the two cells with the largest ratio. **Right:** what one answer changes.
        Move ε. Then leave ε alone and move the belief: the *odds* always change by the same factor.

        {statements[2]} {statements[3]} {statements[4]}

        That is the promise, ε-**local differential privacy**: for all answers y and all truths x and x′,
        P(y | x) ≤ e<sup>ε</sup> · P(y | x′). It holds for every belief, every other data set, and every computer.
        """
    )
    return


@app.cell
def _():
    _three = ad.SRR(6, 1).transition_matrix()[0, 0]
    second = Prediction(
        "Keep ε = 1 and go from K = 2 to K = 6 possible answers. How often is an answer the truth?",
        {
            "As often as before, about 73 %: ε is the same.": "ε bounds the ratio, not the truth. Five wrong answers now "
            "share the noise, and each of them must be at least 1/e times as likely as the truth.",
            "Less often: about 35 %.": "The truth has e parts out of e + 5. With more categories, each answer tells less.",
            "More often.": "No. There are more wrong answers, and each must be likely enough to hide behind.",
        },
        "Less often: about 35 %.",
        proof=abs(_three - 0.35) < 0.005,
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
        for prior_belief in (0.01, 0.1, 0.5, 0.9):
            for epsilon_given in (0.2, 1.0, 3.0):
                got, right = function(prior_belief, epsilon_given), belief(prior_belief, epsilon_given)
                hint = "Multiply the odds by e^ε, then turn them back into a probability."
                assert abs(got - right) < 1e-9, (
                    f"belief({prior_belief}, {epsilon_given}) must be {right:.4f}, got {got:.4f}. {hint}"
                )

    exercise = Exercise(
        "Write `belief(prior, epsilon)`: the probability that the truth is *yes* after the answer *yes*, for two categories.",
        "belief",
        "import math\n\ndef belief(prior, epsilon):\n    return prior\n",
        "import math\n\ndef belief(prior, epsilon):\n    odds = prior / (1 - prior) * math.exp(epsilon)\n"
        "    return odds / (1 + odds)\n",
        check,
    )
    written = editor(exercise)
    questions = 2
    return exercise, questions, written


@app.cell
def _(exercise, written):
    practise(exercise, written)
    return


@app.cell
def _():
    prose(
        """
        **In the package:** `ad.SRR(2, epsilon=1.0).privatize(x)` is the coin, drawn exactly from the operating system's
        entropy. `ad.plots.plot_channel` and `ad.plots.plot_belief` drew the pictures. **Next:** [many answers](../2).
        """
    )
    return


if __name__ == "__main__":
    app.run()
