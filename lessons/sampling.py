import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="5 · Sampling")

with app.setup:
    import math
    from functools import lru_cache

    import marimo as mo
    import numpy as np

    import adobest_pp as ad
    from adobest_pp.likelihood import grid_posterior
    from adobest_pp.plots.simplex import CORNERS
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

    TRUTH = np.array([0.6, 0.3, 0.1])
    LABELS = ["never", "once", "often"]
    BATCHES = {"50": 50, "10": 10, "200": 200, "all": 0}
    NAMES = {"nuts": "NUTS", "gibbs": "Gibbs", "sgld": "SGLD", "sgld_cv": "SGLD with control variates"}


@app.function
@lru_cache
def answers(n):
    """The answers of n people at ε = 1, as in `precompute.py`."""
    rng = np.random.default_rng(5)
    mechanism = ad.SRR(3, 1.0)
    x = rng.choice(3, size=n, p=TRUTH)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=LABELS)


@app.function
@lru_cache
def kept():
    with np.load(lessons.folder() / "data" / "sampling.npz") as file:
        return {name: file[name] if name.startswith("sd_") else file[name] / 65535 for name in file.files}


@app.function
def drawn(n, step, batch):
    """300 draws of θ of each sampler."""
    names = {name: f"sgld_{n}_{step:g}_{batch}" if name == "sgld" else f"{name}_{n}" for name in NAMES}
    pairs = {NAMES[name]: kept()[key] for name, key in names.items()}
    return {name: np.column_stack([two, 1 - two.sum(axis=1)]) for name, two in pairs.items()}


@app.function
@lru_cache
def exact_sd(n):
    return grid_posterior(answers(n)).sd()


@app.function
def too_wide(n, step, batch, name="SGLD"):
    """The standard deviation of the draws over the exact one, as a mean over the three shares."""
    sampler = next(key for key, told in NAMES.items() if told == name)
    key = f"sgld_{n}_{step:g}_{batch}" if sampler == "sgld" else f"{sampler}_{n}"
    return float(np.mean(kept()[f"sd_{key}"] / exact_sd(n)))


@app.function
def as_trees(draws):
    import xarray as xr

    return {
        name: xr.DataTree.from_dict(
            {"posterior": xr.Dataset({"theta": (("chain", "draw", "category"), theta[None])}, {"category": LABELS})}
        )
        for name, theta in draws.items()
    }


@app.cell
def _():
    prose(
        """
        # 5 · Sampling

        With three categories we could look at every θ. With twenty we cannot, so we **draw** from the posterior instead.

        - **NUTS** follows the gradient of the log-posterior and corrects every move. It is exact.
        - **Gibbs** draws everybody's true category given θ, then θ given the categories, and so on. It is exact, too, but its
          steps are small when ε is small.
        - **SGLD** looks only at a *batch* of answers: it moves by γ/2 times an estimate of the gradient, plus noise of variance γ.
          Nothing is corrected. It is cheap, and the paper uses it.

        Do they agree? Here are all four, on top of the exact posterior.
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** A walker in the fog who feels the slope: that is Langevin. Now the walker asks ten friends out of thousands
          for the slope: that is a stochastic gradient. What goes wrong?
        - **10–30 min.** Begin at n = 30: all four agree, so the class trusts SGLD. Raise n to 30,000. Stop, and let them
          explain before you go on.
        - **30–45 min.** The formula on the board: the noise of the batch adds to the noise that Langevin needs.
        - **45–60 min.** Exercise in pairs. Close with control variates: ask the friends only about the *difference* from a place
          that you know exactly.
        - The sentence to take home: *noise that you did not plan makes the draws too wide.*
        """
    )
    return


@app.cell
def _():
    first = Prediction(
        "SGLD with the paper's steps, 0.5/n, and batches of 50. The number of people grows from 30 to 30,000. "
        "How good are its intervals?",
        {
            "They get better: more data, better sampler.": "The posterior shrinks faster than the noise of the batches.",
            "They stay as good as they are at n = 30.": "The step shrinks with n, but that is not enough.",
            "They get worse: twice as wide as they should be.": "The noise of a batch, scaled up by n/m, outgrows the posterior.",
        },
        "They get worse: twice as wide as they should be.",
        proof=too_wide(30, 0.5, 50) < 1.15 and abs(too_wide(30_000, 0.5, 50) - 2) < 0.5,
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    people = slider("people n", [30, 300, 3000, 30_000], 30_000)
    step = slider("SGLD's step × n", [0.05, 0.2, 0.5, 2], 0.5)
    batch = choices("SGLD's batch", list(BATCHES))
    return batch, people, step


@app.cell
def _(batch, people, step):
    controls(people, step, batch)
    return


@app.cell
def _(batch, people, step):
    _draws = drawn(people.value, step.value, BATCHES[batch.value])
    _figure, _panels = canvas(4, size=(11, 3.3), margins=(0.01, 0.99, 0.02, 0.85, 0.02))
    ad.plots.plot_simplex(as_trees(_draws), answers(people.value), axes=_panels)
    _center, _half = grid_posterior(answers(people.value)).mean() @ CORNERS, 4.5 * exact_sd(people.value).max()
    for _panel, _name in zip(_panels, _draws, strict=True):
        _ratio = too_wide(people.value, step.value, BATCHES[batch.value], _name)
        _panel.set_title(f"{_name}\nsd {_ratio:.1f} × exact", fontsize=10, color="#D55E00" if _ratio > 1.2 else "black")
        if people.value > 300:
            _panel.set(xlim=(_center[0] - _half, _center[0] + _half), ylim=(_center[1] - _half, _center[1] + _half))
    picture(_figure, "Draws of NUTS, Gibbs, SGLD and SGLD with control variates on the exact posterior, side by side.")
    return


@app.cell
def _():
    statements = [
        state(
            "At n = 30 the draws of SGLD are {} times as wide as the posterior, so all four agree.",
            1.0,
            too_wide(30, 0.5, 50),
            0.1,
        ),
        state("At n = 30,000 they are {} times as wide,", 2.0, too_wide(30_000, 0.5, 50)),
        state("and with batches of 10 even {} times.", 2.8, too_wide(30_000, 0.5, 10)),
        state("Control variates: {} times.", 1.0, too_wide(30_000, 0.5, 50, NAMES["sgld_cv"]), 0.1),
        state(
            "All answers in every batch: {} times, but then each update reads everything.",
            1.0,
            too_wide(30_000, 0.5, 0),
            0.1,
        ),
    ]
    prose(
        f"""
        The shade is the exact posterior (50 % and 95 %); the points are 300 draws. For large n the picture zooms in.

        **Why SGLD is too wide.** {statements[0]} {statements[1]} {statements[2]} A batch of m answers stands for n of them, so the
        noise of its gradient has a variance n²/m times that of one answer. Langevin needs noise of variance γ. The batch adds
        (γ/2)² n²/m · v, where v is the variance of one answer's gradient. For steps γ = 0.5/n that is n/(8m) · v times what
        Langevin needs: it grows with n.

        **The repair.** Compute the gradient once, exactly, at one good place θ̂. Then use the batch only to estimate how the
        gradient *differs* from the one at θ̂. Near θ̂ that difference is tiny, and so is its noise. {statements[3]} {statements[4]}
        """
    )
    return (statements,)


@app.cell
def _():
    second = Prediction(
        "n = 30,000, steps 0.5/n. You raise the batch from 50 to 200. What happens to SGLD?",
        {
            "Nothing: only the step matters.": "The noise of the gradient is n²/m times that of one answer, and m is the batch.",
            "It becomes narrower, but is still too wide.": "Four times the batch gives a quarter of the extra variance. That is not enough.",
            "It becomes exact.": "Not yet: look at the sd above its panel. It needs batches of all answers, or smaller steps.",
        },
        "It becomes narrower, but is still too wide.",
        proof=1.15 < too_wide(30_000, 0.5, 200) < 0.8 * too_wide(30_000, 0.5, 50),
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
        for n, m, gamma, v in ((1000, 10, 1e-4, 0.5), (30_000, 50, 0.5 / 30_000, 0.1), (100, 100, 0.01, 1.0)):
            right = math.sqrt(1 + gamma * n**2 * v / (4 * m))
            got = function(n, m, gamma, v)
            assert abs(got - right) < 1e-9, (
                f"width(n={n}, m={m}, step={gamma:.3g}, v={v}) must be {right:.4f}, got {got:.4f}. "
                "Add the batch's variance (γ/2)²·n²/m·v to γ, divide by γ, and take the root."
            )

    exercise = Exercise(
        "Langevin adds noise of variance `step`. The batch adds (step/2)² · n²/m · v, where v is the variance of one answer's "
        "gradient. For small steps the variance of the draws grows in proportion to the noise. Write `width(n, m, step, v)`: how "
        "many times as wide (in standard deviations) do the draws become?",
        "width",
        "import math\n\ndef width(n, m, step, v):\n    return 1.0\n",
        "import math\n\ndef width(n, m, step, v):\n    batch_noise = (step / 2) ** 2 * n**2 / m * v\n"
        "    return math.sqrt((step + batch_noise) / step)\n",
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
        **In the package:** `ad.sample(responses, "nuts")`, `"gibbs"`, `"sgld"` (the paper's) and `"sgld_cv"` (repaired, every choice
        made for you). `sample` warns when chains disagree. The draws here come from `lessons/precompute.py`, so that the
        sliders respond at once. **Next:** [is my sampler right?](../6)
        """
    )
    return


if __name__ == "__main__":
    app.run()
