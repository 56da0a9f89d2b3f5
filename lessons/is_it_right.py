import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="6 · Is my sampler right?")

with app.setup:
    import json
    import math
    from functools import lru_cache

    import marimo as mo
    import numpy as np
    from arviz_stats.base import array_stats

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

    SAMPLERS = ["NUTS", "Gibbs", "SGLD with control variates", "SGLD, large steps", "SGLD, tiny steps"]
    COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
    EPSILON, RUNS, BINS = 1.0, 500, 10
    SIZES = (30, 100, 300, 1000, 3000, 10_000, 30_000)


@app.function
@lru_cache
def kept():
    """Draws of the first share by chain and draw, from `precompute.py`."""
    with np.load(lessons.folder() / "data" / "graded.npz") as file:
        return {name: file[name][..., 0] / 65535 for name in file.files}


@app.function
@lru_cache
def verdicts():
    return json.loads((lessons.folder() / "data" / "graded.json").read_text(encoding="utf-8"))


@app.function
def mixing(name, n_draws):
    """R-hat and the effective number of draws."""
    chains = kept()[name][:, :n_draws]
    return float(array_stats.rhat(chains, 0, 1)), float(array_stats.ess(chains, 0, 1, method="bulk"))


@app.function
def posteriors(yes, n, assumed):
    """The posterior of a share on a grid, flat prior, for each number of “yes” among n answers: the grid, and the masses."""
    grid = (np.arange(1000) + 0.5) / 1000
    low = 1 / (math.exp(assumed) + 1)
    h = low + (1 - 2 * low) * grid
    value = np.multiply.outer(yes, np.log(h)) + np.multiply.outer(n - yes, np.log1p(-h))
    mass = np.exp(value - value.max(axis=-1, keepdims=True))
    return grid, mass / mass.sum(axis=-1, keepdims=True)


@app.function
@lru_cache
def ranks(assumed, n=500):
    """Where the truth falls in the posterior, as a share of its mass, in simulated data sets with a true ε of 1."""
    rng = np.random.default_rng(6)
    truth = rng.random(RUNS)
    low = 1 / (math.exp(EPSILON) + 1)
    grid, mass = posteriors(rng.binomial(n, low + (1 - 2 * low) * truth), n, assumed)
    return (mass * (grid <= truth[:, None])).sum(axis=1)


@app.function
def coverage(assumed):
    """How often the 95 % interval holds the truth."""
    return float(np.mean(np.abs(ranks(assumed) - 0.5) < 0.475))


@app.function
@lru_cache
def distances(assumed, truth=0.8):
    """√E(θ − θ*)² under the posterior of answers as they come on average, for each number of people."""
    low = 1 / (math.exp(EPSILON) + 1)
    found = []
    for n in SIZES:
        grid, mass = posteriors(np.array([n * (low + (1 - 2 * low) * truth)]), n, assumed)
        found.append(math.sqrt(mass[0] @ (grid - truth) ** 2))
    return found


@app.cell
def _():
    prose(
        """
        # 6 · Is my sampler right?

        A wrong sampler does not crash. It draws a smooth, believable picture of the wrong thing. Five questions find it out:

        1. **R-hat**: do chains from different starts agree? (1.00 is good; above 1.05 they do not.)
        2. **ESS**: how many *independent* draws are these draws worth?
        3. **Stein discrepancy**: do the draws fit the slope of the log-posterior? It needs no reference.
        4. **Calibration**: does a 95 % interval hold the truth in 95 % of simulated data sets?
        5. **Contraction**: does the posterior close in on the truth like 1/√n?
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–15 min.** Show only the traces, and let the class vote: which samplers would you trust? Then reveal R-hat and ESS.
        - **15–30 min.** “SGLD, large steps” has a good R-hat. So agreement is not enough. That is the point of the hour.
        - **30–45 min.** Move the ε that the analyst assumes. The sampler can be perfect and the *model* wrong: R-hat does not
          see it; calibration and contraction do.
        - **45–60 min.** The exercise: R-hat in six lines. Discuss which of the five you would report in a paper.
        - The sentence to take home: *agreement is not correctness.*
        """
    )
    return


@app.cell
def _():
    _r_hat, _ = mixing("SGLD, large steps", 500)
    first = Prediction(
        "“SGLD, large steps” runs four chains that agree: its R-hat is below 1.05. Are its draws from the posterior?",
        {
            "Yes: that is what R-hat says.": "R-hat compares the chains with each other. All of them can be wrong in the same way.",
            "No: the chains agree on something too wide.": "They agree, but the Stein discrepancy shows that they do not fit the "
            "posterior.",
            "There is no way to tell.": "There is: the slope of the log-posterior is known, and the draws must fit it.",
        },
        "No: the chains agree on something too wide.",
        proof=_r_hat < 1.05
        and verdicts()["SGLD, large steps"]["verdict"] == "biased"
        and verdicts()["SGLD, large steps"]["stein"] > verdicts()["SGLD, large steps"]["stein_threshold"]
        and kept()["SGLD, large steps"].std() > 1.3 * kept()["NUTS"].std(),
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    second = Prediction(
        "The analyst uses NUTS and assumes ε = 2, but the devices used ε = 1. Which of the five questions finds the mistake?",
        {
            "R-hat.": "The chains agree perfectly, on the posterior of the wrong model.",
            "The Stein discrepancy.": "The draws fit the slope of the wrong log-posterior perfectly.",
            "Contraction, if the truth is known.": "The posterior closes in on a wrong place. (Calibration would find it, too.)",
        },
        "Contraction, if the truth is known.",
        proof=distances(2)[-1] > 0.9 * distances(2)[-2] and distances(2)[-1] > 10 * distances(1)[-1],
    )
    second_answer = mo.ui.radio(list(second.options))
    return second, second_answer


@app.cell
def _(second, second_answer):
    ask(second, second_answer)
    return


@app.cell
def _():
    sampler = choices("sampler", SAMPLERS)
    n_draws = slider("draws of each chain", [20, 50, 100, 200, 500], 200)
    assumed = slider("ε that the analyst assumes (the truth is 1)", [0.5, 0.7, 0.85, 1, 1.2, 1.5, 2], 1)
    return assumed, n_draws, sampler


@app.cell
def _(assumed, n_draws, sampler):
    controls(sampler, n_draws, assumed)
    return


@app.cell
def _(assumed, n_draws, sampler):
    _figure, (_trace, _rank, _near) = canvas(3, size=(11.5, 3.6), margins=(0.06, 0.99, 0.14, 0.91, 0.26))
    for _color, _chain in zip(COLORS, kept()[sampler.value][:, : n_draws.value], strict=True):
        _trace.plot(_chain, color=_color, linewidth=0.8)
    _r_hat, _ess = mixing(sampler.value, n_draws.value)
    _trace.set(
        title=f"R-hat {_r_hat:.2f}, ESS {_ess:.0f} of {4 * n_draws.value}", xlabel="draw", ylabel="share of “never”"
    )
    _trace.set_ylim(0.35, 0.85)
    _rank.hist(ranks(assumed.value), bins=BINS, range=(0, 1), color="#0072B2", edgecolor="white")
    _error = math.sqrt(RUNS / BINS * (1 - 1 / BINS))
    _rank.axhspan(RUNS / BINS - 2.6 * _error, RUNS / BINS + 2.6 * _error, color="0.85", zorder=0)
    _rank.set(
        title=f"calibration: 95 % intervals hold {100 * coverage(assumed.value):.0f} %",
        xlabel="rank of the truth",
        ylabel="data sets",
    )
    _near.plot(SIZES, distances(1), color="0.7", linewidth=4, label="the right ε")
    _near.plot(SIZES, distances(assumed.value), "o-", color="#D55E00", markersize=4, label=f"ε = {assumed.value:g}")
    _near.set(
        xscale="log",
        yscale="log",
        xlabel="people",
        ylabel="distance to the truth",
        title="contraction",
        ylim=(0.003, 0.5),
    )
    _near.set_xticks([100, 1000, 10_000], ["100", "1,000", "10,000"])
    _near.set_yticks([0.01, 0.1], ["0.01", "0.1"])
    _near.minorticks_off()
    _near.legend(frameon=False, loc="upper right")
    picture(
        _figure, "Traces of four chains with R-hat and ESS; ranks of the truth; distance of the posterior to the truth."
    )
    return


@app.cell
def _(sampler):
    _row = verdicts()[sampler.value]
    _stein = (
        "not computed, because there are too few effective draws"
        if _row["stein"] is None
        else f"{_row['stein']:.2f}; draws of the posterior nearly always stay below {_row['stein_threshold']:.2f}"
    )
    _words = "the reference that the others are compared with" if _row["verdict"] == "reference" else _row["words"]
    prose(f"**{sampler.value}**, from 2,000 draws of each chain. Stein discrepancy: {_stein}. Verdict: *{_words}*.")
    return


@app.cell
def _():
    statements = [
        state("2,000 draws of NUTS are worth {:,} independent ones;", 1340, mixing("NUTS", 500)[1], 5),
        state("2,000 of Gibbs, which is exact as well, are worth {}.", 150, mixing("Gibbs", 500)[1], 5),
        state(
            "“SGLD, tiny steps” has R-hat {}: its chains are still on their way.",
            3.5,
            mixing("SGLD, tiny steps", 500)[0],
        ),
        state("With the right ε, 95 % intervals hold the truth in {} % of 500 data sets;", 95, 100 * coverage(1), 2),
        state("if the analyst assumes ε = 2 and it is 1, in {} %.", 26, 100 * coverage(2)),
        state(
            "From 300 to 30,000 people, the distance to the truth falls to {} times what it was.",
            0.1,
            distances(1)[-1] / distances(1)[2],
            0.01,
        ),
    ]
    prose(
        f"""
        **Left:** four chains of one sampler. {statements[0]} {statements[1]} {statements[2]} **Middle:** simulate a truth, answers
        and a posterior 500 times, and see where the truth falls in the posterior. If all is right, all ranks are equally likely:
        the bars stay in the gray band. {statements[3]} {statements[4]} **Right:** {statements[5]} With a wrong ε it stops falling:
        more people do not help.

        If the assumed ε is too large, there are bars at both ends, and intervals are too narrow. If it is too small, the answers
        look more extreme than they are.
        """
    )
    return (statements,)


@app.cell
def _():
    def check(function):
        rng = np.random.default_rng(1)
        for shift in (0.0, 0.5, 3.0):
            chains = rng.normal(size=(4, 200)) + shift * np.arange(4)[:, None]
            within = chains.var(axis=1, ddof=1).mean()
            between = chains.mean(axis=1).var(ddof=1)
            right = math.sqrt((199 / 200 * within + between) / within)
            got = function(chains.tolist())
            assert abs(got - right) < 1e-6, (
                f"For chains that differ by {shift} sd, R-hat must be {right:.4f}, got {got:.4f}. "
                "W is the mean variance within chains, B the variance of their means."
            )

    exercise = Exercise(
        "Write the classic `r_hat(chains)` for a list of m chains of n draws each: W is the mean of the variances within the "
        "chains, B the variance of the chains' means (with denominators n − 1 and m − 1), and R-hat = √(((n−1)/n · W + B)/W).",
        "r_hat",
        "import statistics\n\ndef r_hat(chains):\n    return 1.0\n",
        "import math\nimport statistics\n\ndef r_hat(chains):\n    n = len(chains[0])\n"
        "    within = statistics.mean(statistics.variance(chain) for chain in chains)\n"
        "    between = statistics.variance([statistics.mean(chain) for chain in chains])\n"
        "    return math.sqrt(((n - 1) / n * within + between) / within)\n",
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
        **In the package:** `ad.diagnostics.compare(draws)` gives each sampler a verdict; `ad.diagnostics.calibration` and
        `ad.diagnostics.contraction` do the middle and the right panel for any sampler and mechanism. `ad.sample` warns
        when answers do not fit the mechanism. **Next:** [your own model](../7).
        """
    )
    return


if __name__ == "__main__":
    app.run()
