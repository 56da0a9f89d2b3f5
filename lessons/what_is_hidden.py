import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="3 · What the collector may not see")

with app.setup:
    import math
    from itertools import combinations

    import marimo as mo
    import numpy as np

    import adobest_pp as ad
    from adobest_pp.teaching.old import Exercise, Prediction, state
    from adobest_pp.teaching.showing import (
        ask,
        canvas,
        choices,
        controls,
        editor,
        lecture,
        picture,
        practise,
        prose,
        slider,
    )

    K, KAPPA = 5, 0.9
    LABELS = ["A", "B", "C", "D", "E"]
    MECHANISMS = [
        "RRRR, as proved",
        "RRRR, with the published ε₂",
        "randomized response",
        "subset selection",
        "subset selection, truth first",
    ]


@app.function
def published(k, epsilon, kappa=KAPPA):
    """RRRR with ε₂ as the authors' program has it for its utilities: no logarithm, and |S| for the size of the rest."""

    def second(size):
        if size > 0 and epsilon - kappa * epsilon < math.log(size):
            return min(epsilon, (size - 1) / (math.exp(kappa * epsilon - epsilon) * size - 1))
        return epsilon

    return ad.RRRR.from_budgets(k, kappa * epsilon, [second(size) for size in range(k)])


@app.function
def truth_first(epsilon, d):
    """Subset selection that lists the true category first if it is in the set: the names of the answers, and G."""
    inside = d * math.exp(epsilon) / (d * math.exp(epsilon) + K - d)
    names, rows = [], []
    for members in combinations(range(K), d):
        for first in members:
            hit = inside / math.comb(K - 1, d - 1)
            miss = (1 - inside) / math.comb(K - 1, d) / d  # the truth is not in the set: any order
            rows.append([hit if x == first else 0.0 if x in members else miss for x in range(K)])
            names.append((first, *(x for x in members if x != first)))
    return names, np.array(rows)


@app.function
def matrix_of(name, epsilon, size):
    if name == MECHANISMS[0]:
        return ad.RRRR(K, epsilon, KAPPA).transition_matrix(range(size))
    if name == MECHANISMS[1]:
        return published(K, epsilon).transition_matrix(range(size))
    if name == MECHANISMS[2]:
        return ad.SRR(K, epsilon).transition_matrix()
    if name == MECHANISMS[3]:
        return ad.SubsetSelection(K, epsilon, size).transition_matrix()
    return truth_first(epsilon, size)[1]


@app.cell
def _():
    prose(
        """
        # 3 · What the collector may not see

        A promise of privacy is a statement about one table of numbers. So do not trust it: **audit** it. The loss of a
        mechanism is the largest ln(P(y | x) / P(y | x′)) over all answers y and truths x, x′. If it is at most ε, the promise
        holds for everybody, against everybody. If it is larger for a single answer, the promise is broken.

        Two of the five mechanisms below are broken. Both were published. One slip is a missing logarithm, the other is the
        order of a list.
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** Recall the framed cells of lesson 1. Write the definition of the loss on the board.
        - **10–20 min.** Subset selection: the answer is a *set* that holds the truth more often than not. Act it out with
          five cards. Then list the truth first, and see who notices.
        - **20–40 min.** Predict first. Let the class find the two broken mechanisms with the list, at ε = 1.
        - **40–60 min.** The exercise: ten lines that audit any mechanism. Then discuss: who audits the apps on your phone?
        - Distinguish what was *proved* (Theorem 1 of the paper is right) from what was *programmed* (six of the program's twelve
          methods do not follow it; the other six, SRR and five “semi-adaptive” ones, keep their promise).
        - The sentence to take home: *a promise that can be computed need not be trusted.*
        """
    )
    return


@app.cell
def _():
    first = Prediction(
        "A device answers with a set of two of the five categories. It draws the set exactly as it should at ε = 1, but lists "
        "the truth first if the truth is in the set. What is its privacy loss?",
        {
            "1: the sets have the right probabilities.": "The sets do. The lists do not: the order is part of the answer.",
            "A bit more than 1.": "Look for a zero in the matrix: “A, B” can never come from a person with B.",
            "Infinite.": "“A, B” never comes from a person with B. One answer rules out a truth for certain, so no ε holds.",
        },
        "Infinite.",
        proof=math.isinf(ad.privacy_loss(truth_first(1, 2)[1])),
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    mechanism = choices("mechanism", MECHANISMS)
    epsilon = slider("promised ε", [0.25, 0.5, 1, 1.5, 2, 3, 5], 1)
    size = slider("size of the subset, or of the set", [1, 2, 3, 4], 2)
    return epsilon, mechanism, size


@app.cell
def _(epsilon, mechanism, size):
    controls(mechanism, epsilon, size)
    return


@app.cell
def _(epsilon, mechanism, size):
    _matrix = matrix_of(mechanism.value, epsilon.value, size.value)
    _audit = ad.audit(_matrix, epsilon.value)
    _figure, (_left, _right) = canvas(2, size=(10, 4.4), margins=(0.1, 0.99, 0.11, 0.86, 0.2))
    ad.plots.plot_channel(_matrix, categories=LABELS, ax=_left)
    ad.plots.plot_belief(_matrix, _audit.worst.y, categories=LABELS, ax=_right)
    if "first" in mechanism.value:
        _names = [", ".join(LABELS[x] for x in name) for name in truth_first(epsilon.value, size.value)[0]]
        _left.set_yticks(range(len(_names)), _names, fontsize=6)
    elif mechanism.value == MECHANISMS[3]:
        _sets = list(combinations(LABELS, size.value))
        _left.set_yticks(range(len(_sets)), [", ".join(each) for each in _sets])
    _right.legend().remove()
    _right.set_title("belief before (gray), and after the answer that reveals most", fontsize="medium")
    _told = "holds" if _audit.holds else "is BROKEN"
    _loss = "infinite" if math.isinf(_audit.loss) else f"{_audit.loss:.3g}"
    _figure.suptitle(
        f"The promise ε = {epsilon.value:g} {_told}: the loss is {_loss}",
        color="#009E73" if _audit.holds else "#D55E00",
    )
    picture(_figure, f"The matrix of {mechanism.value}, and the belief after its worst answer. The promise {_told}.")
    return


@app.cell
def _():
    def _power(calls):
        rows = published(K, 1).transition_matrix([0, 1])
        worst = ad.audit(rows, 1.0).worst
        p, q = rows[worst.y, worst.x], rows[worst.y, worst.x_prime]
        error = math.sqrt((1 - p) / (calls * p) + (1 - q) / (calls * q))
        return 0.5 * math.erfc((1.645 - (math.log(p / q) - 1) / error) / math.sqrt(2))

    statements = [
        state("With ten categories and κ = 0.9, a claimed ε = 1 truly loses {}", 1.73, published(10, 1).epsilon),
        state("and a claimed ε = 5 loses {}.", 6.64, published(10, 5).epsilon),
        state(
            "With sets of two at ε = 1, the answer of subset selection holds the truth in {} % of cases. If the truth is listed "
            "first, the answer then gives it away.",
            64,
            100 * truth_first(1, 2)[1][[name[0] == 0 for name in truth_first(1, 2)[0]], 0].sum(),
        ),
        state(
            "Could you find the missing logarithm by experiment? Ask a device 100 times for each of the two worst truths. A test "
            "at the 5 % level then finds it in {} % of cases. The audit needs no experiment.",
            32,
            100 * _power(100),
        ),
        state("The same test with 1,000 calls each finds it in {} %.", 98, 100 * _power(1000)),
    ]
    prose(
        f"""
        **The published ε₂.** RRRR publishes a subset S of likely categories, and spends a second budget ε₂ outside it.
        Theorem 1 of the paper has the right formula. For its six methods that choose S by a utility, the authors' program
        (soneraydin/AdOBEst_LDP, commit 9080c23, AdOBEst_LDP.m, lines 37 to 41) omits the logarithm, and uses the size of S in
        place of the size of the rest. Its other methods keep ε. {statements[0]} {statements[1]} Does it keep
        its promise for any subset? Predict below, then try the sizes above.

        **The truth first.** {statements[2]}

        {statements[3]} {statements[4]}
        """
    )
    return (statements,)


@app.cell
def _():
    _losses = [ad.privacy_loss(matrix_of(MECHANISMS[1], 1, size_given)) for size_given in (1, 2, 3, 4)]
    second = Prediction(
        "RRRR with the published ε₂ promises ε = 1. For which sizes of the subset does it keep its promise, with five categories?",
        {
            "For none.": "Nearly. Try size 4: one category is left outside, and there is nothing to choose among.",
            "Only for size 4.": "With one category left outside, ε₂ plays no part. All other sizes lose more than promised.",
            "For sizes 3 and 4.": "Size 3 loses more than 1 as well. Look at the title of the picture.",
        },
        "Only for size 4.",
        proof=all(loss > 1.01 for loss in _losses[:3]) and _losses[3] <= 1,
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
        cases = [
            ("randomized response at ε = 1", ad.SRR(4, 1).transition_matrix()),
            ("the published ε₂", published(6, 1).transition_matrix([0, 1])),
            ("subset selection", ad.SubsetSelection(5, 0.5, 2).transition_matrix()),
        ]
        for name, given in cases:
            got, right = function(given.tolist()), ad.privacy_loss(given)
            assert abs(got - right) < 1e-9, (
                f"The loss of {name} must be {right:.4f}, got {got:.4f}. Look along each row."
            )
        assert math.isinf(function(truth_first(1, 2)[1].tolist())), (
            "A zero beside a number above zero must give math.inf."
        )

    exercise = Exercise(
        "Write `loss(matrix)`: the privacy loss of a list of rows, `matrix[y][x]` = P(y | x). If an answer is possible for one truth "
        "and impossible for another, return `math.inf`.",
        "loss",
        "import math\n\ndef loss(matrix):\n    return math.log(max(map(max, matrix)) / min(map(min, matrix)))\n",
        "import math\n\ndef loss(matrix):\n    worst = 0.0\n    for row in matrix:\n        if max(row) > 0:\n"
        "            ratio = math.inf if min(row) == 0 else max(row) / min(row)\n            worst = max(worst, math.log(ratio))\n"
        "    return worst\n",
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
        **In the package:** `ad.audit(mechanism)` computes the loss in exact fractions, from the integers that the device draws
        against. `adobest audit --matrix my.csv --epsilon 1` does it for your own table. `SubsetSelection` sorts its sets,
        and refuses answers in any other order. **Next:** [adapting the question](../4).
        """
    )
    return


if __name__ == "__main__":
    app.run()
