import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="4 · Adapting the question")

with app.setup:
    import json
    import math
    from functools import lru_cache

    import marimo as mo
    import numpy as np

    import adobest_pp as ad
    from adobest_pp.teaching import pages as lessons
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
    UTILITIES = ["honest", "fisher", "entropy", "tv1", "tv2", "mse"]


@app.function
def shares(ratio):
    """θ in which each category is `ratio` times as common as the next."""
    weights = float(ratio) ** -np.arange(K)
    return weights / weights.sum()


@app.function
@lru_cache(maxsize=200)
def bound(ratio, epsilon):
    """The summed variance that no ε-LDP question falls below, for one answer: a proved bound."""
    return ad.optimal_mechanism(shares(ratio), epsilon).lower_bound


@app.function
def study():
    """For each ρ, the mean error of each method over that of SRR, on the same people, and the standard error of that ratio."""
    text = (lessons.folder() / "data" / "adapting.json").read_text(encoding="utf-8")
    found = {}
    for rho, runs in json.loads(text).items():
        errors = {name: np.array([run[name] for run in runs]) for name in runs[0]}
        base = errors["SRR"]
        ratios = {name: error.mean() / base.mean() for name, error in errors.items()}
        rest = {
            name: np.std(error - ratios[name] * base, ddof=1) / math.sqrt(len(runs)) for name, error in errors.items()
        }
        found[rho] = {name: (ratios[name], rest[name] / base.mean()) for name in errors}
    return found


@app.cell
def _():
    prose(
        """
        # 4 · Adapting the question

        If the collector already knows that most people answer *A* or *B*, why spread everybody's noise over fifty
        categories? **RRRR** publishes a subset S of likely categories before each question. A person inside S randomizes
        within S and one more category. A person outside S first picks a stand-in outside S. The promise of ε holds for every S.

        So after each answer: sample θ, choose S, ask the next person. But **how** to choose S? A **utility** scores every
        size k = |S|, where S contains the k most common categories. The paper has six of them. Do they choose well?
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** Twenty questions: your next question depends on what you believe. That is adapting. What must it not
          change? (ε.)
        - **10–25 min.** Left panel: go through three utilities at ratio 2. *Honest* is the probability that the answer is the
          truth. Ask: is an honest answer an informative one?
        - **25–45 min.** Right panel: how many people each size needs when there are many. The dotted line is the best that any
          ε-LDP question can do, from a convex program with a certificate. No mechanism is below it.
        - **45–60 min.** The table: choosing S by *honest* pays most when nearly all are alike and people are few; choosing it by
          mass also pays for less uneven populations. Discuss why both panels are right.
        - The sentence to take home: *know the bound before you adapt.*
        """
    )
    return


@app.cell
def _():
    first = Prediction(
        "Each category is three times as common as the next, ε = 1, and very many people will answer. "
        "Which subset leaves the smallest error?",
        {
            "The most common category.": "It makes honest answers more likely, but tells little about the other categories.",
            "The two most common ones.": "Look at the right panel: it needs more people than the empty subset.",
            "The empty one: plain randomized response.": "With many people, information counts, and the empty subset has the most.",
        },
        "The empty one: plain randomized response.",
        proof=int(
            np.argmin([ad.asymptotic_variance(ad.RRRR(K, 1, KAPPA), shares(3), subset=range(k)) for k in range(K)])
        )
        == 0,
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    ratio = slider("each category is … times as common as the next", [1, 1.2, 1.5, 2, 3, 5, 10], 2)
    epsilon = slider("ε", [0.5, 1, 2, 3, 5], 1)
    chosen_by = choices("utility", UTILITIES)
    return chosen_by, epsilon, ratio


@app.cell
def _(chosen_by, epsilon, ratio):
    controls(ratio, epsilon, chosen_by)
    return


@app.cell
def _(chosen_by, epsilon, ratio):
    _theta, _mechanism = shares(ratio.value), ad.RRRR(K, epsilon.value, KAPPA)
    _values = ad.utility(_theta, _mechanism, chosen_by.value)
    _size = len(ad.select_subset(_theta, _mechanism, chosen_by.value))
    _best = bound(ratio.value, epsilon.value)
    _costs = [ad.asymptotic_variance(_mechanism, _theta, subset=range(k)) / _best for k in range(K)]
    _colors = ["#D55E00" if k == _size else "#0072B2" for k in range(K)]
    _figure, (_left, _right) = canvas(2, size=(10, 3.8), margins=(0.1, 0.99, 0.13, 0.92, 0.2))
    _left.plot(range(K), _values, color="0.6", zorder=1)
    _left.scatter(range(K), _values, color=_colors, s=60, zorder=2)
    _left.set(
        title=f"utility “{chosen_by.value}”: it chooses k = {_size}", xlabel="size k of the subset", ylabel="utility"
    )
    _right.bar(range(K), _costs, color=_colors)
    _right.axhline(1, color="black", linestyle=":", label="the best ε-LDP question (bound)")
    _selection = ad.asymptotic_variance(ad.SubsetSelection(K, epsilon.value), _theta) / _best
    _right.axhline(_selection, color="#009E73", linestyle="--", label="non-adaptive subset selection")
    _right.set_yscale("log")
    _right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    _right.set(
        title="people needed, if there are many",
        xlabel="size k of the subset",
        ylabel="times the bound",
        ylim=(0.9, 300),
    )
    _right.minorticks_off()
    _right.legend(frameon=False, fontsize="small", loc="upper left")
    for _panel in (_left, _right):
        _panel.set_xticks(range(K))
    picture(
        _figure, "Left: a utility for each size of the subset. Right: the people that each size needs, over the bound."
    )
    return


@app.cell
def _():
    _found = study()
    _two = [ad.asymptotic_variance(ad.RRRR(K, 1, KAPPA), shares(2), subset=range(k)) / bound(2, 1) for k in range(K)]
    statements = [
        state("At ratio 2 and ε = 1 the subset of one category needs {} times the people of the bound;", 51, _two[1]),
        state("the empty one needs {} times as many.", 1.02, _two[0]),
        state(
            "For ρ = 0.01 (nearly all in one category) the error is {} times that of SRR;",
            0.45,
            _found["0.01"]["adaptive RRRR"][0],
        ),
        state("for ρ = 1 adapting does not help: {} times.", 1.07, _found["1.0"]["adaptive RRRR"][0]),
        state(
            "Non-adaptive subset selection has {} times the error of SRR for ρ = 1.",
            0.87,
            _found["1.0"]["subset selection"][0],
        ),
        state(
            "Its error is {} times that of SRR for ρ = 0.1.",
            0.59,
            _found["0.1"]["semi-adaptive RRRR"][0],
        ),
    ]
    prose(
        f"""
        The orange point and bar show what the utility chooses. {statements[0]} {statements[1]} *Honest* favors true answers,
        and gets them. But an answer that everybody gives tells nothing new.
        """
    )
    return (statements,)


@app.cell
def _():
    _gain = study()
    second = Prediction(
        "The collector adapts with RRRR by the utility “honest”, and people are few. For which populations does the error fall "
        "most, compared with SRR?",
        {
            "For all alike: a better question is a better question.": "For even populations it gains nothing: see the last row of the table.",
            "For those in which nearly all are alike.": "There the subset soon holds nearly everybody, and the noise stays within it.",
            "For even ones.": "There every subset leaves out many people. Look at the last row of the table.",
        },
        "For those in which nearly all are alike.",
        proof=_gain["0.01"]["adaptive RRRR"][0] < 0.8
        and _gain["0.01"]["adaptive RRRR"][0] < _gain["0.1"]["adaptive RRRR"][0]
        and _gain["1.0"]["adaptive RRRR"][0] > 1,
    )
    second_answer = mo.ui.radio(list(second.options))
    return second, second_answer


@app.cell
def _(second, second_answer):
    ask(second, second_answer)
    return


@app.cell
def _(statements):
    prose(
        f"""
        **When does adapting pay?** Where people are few and θ is uneven; how uneven depends on how S is chosen, on K and on ε. A
        small study: ten categories, ε = 1, 2,000 people, θ from Dirichlet(ρ), 16 runs each, a flat prior and exact inference. With
        *honest*: {statements[2]} {statements[3]} **Semi-adaptive** RRRR chooses S by mass: the most common categories until they
        hold 90 % of the people, with all of ε spent inside S (κ = 1, as in the authors' program, soneraydin/AdOBEst_LDP, commit
        9080c23, AdOBEst_LDP.m, lines 32 to 34). {statements[5]} A share other
        than 90 % may be better or much worse. {statements[4]}
        The table has the errors ½Σ|θ̂ − θ| divided by that of SRR, with standard errors. In other settings the six utilities
        gain for ρ = 0.1, too: `validation/RESULTS.md` has them all.
        """
    )
    return


@app.cell
def _():
    _rows = [
        f"| {rho} | 1 | " + " | ".join(f"{row[name][0]:.2f} ± {row[name][1]:.2f}" for name in list(row)[1:]) + " |"
        for rho, row in study().items()
    ]
    _heads = ["ρ", "SRR", "subset selection", "RRRR by honest", "semi-adaptive RRRR"]
    prose("\n".join([f"| {' | '.join(_heads)} |", "|---|---|---|---|---|", *_rows]))
    return


@app.cell
def _():
    def check(function):
        for ratio_given, epsilon_given in ((1, 1.0), (2, 1.0), (5, 0.5), (3, 5.0)):
            theta = shares(ratio_given)
            given = ad.RRRR(K, epsilon_given, KAPPA)
            matrices = [given.transition_matrix(range(k)).tolist() for k in range(K)]
            right = len(ad.select_subset(theta, given, "honest"))
            got = function(theta.tolist(), matrices)
            assert got == right, (
                f"For ratio {ratio_given} and ε = {epsilon_given} the size must be {right}, got {got}. "
                "P(Y = X) = Σ θ[x] · G[x][x]."
            )

    exercise = Exercise(
        "Write `best_size(theta, matrices)`: the k whose matrix `matrices[k]` gives the greatest probability of an honest answer, "
        "P(Y = X). Ties go to the smallest k.",
        "best_size",
        "def best_size(theta, matrices):\n    return 1\n",
        "def best_size(theta, matrices):\n    honest = [sum(t * G[x][x] for x, t in enumerate(theta)) for G in matrices]\n"
        "    return max(range(len(honest)), key=lambda k: round(honest[k], 12))\n",
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
        **In the package:** `ad.select_subset(theta, mechanism, "honest")` chooses S; `adobest collect --mechanism rrrr` does it
        for real people and keeps every answer; `ad.simulate_adaptive` runs the whole loop for simulated people. **Next:**
        [sampling](../5).
        """
    )
    return


if __name__ == "__main__":
    app.run()
