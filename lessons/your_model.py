import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="7 · Your own model")

with app.setup:
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
        code,
        controls,
        editor,
        lecture,
        picture,
        practise,
        prose,
        slider,
    )

    MODELS = ["empty categories", "regions", "regression", "unknown ε"]
    REGIONS = {"coast": 0.5, "hills": 0.25, "plains": 0.15, "lakes": 0.07, "islands": 0.03}
    REGION_TRUTH = np.array([0.32, 0.27, 0.36, 0.3, 0.25])
    HELD = {2: 0.4, 11: 0.3, 17: 0.2, 23: 0.1}
    AGES = np.linspace(20, 80, 20)
    SLOPE, INTERCEPT = 0.8, -0.6
    HONEST = 30.0
    SHARE = 0.3


@app.function
def levels(epsilon):
    """P(“yes” | no) and P(“yes” | yes) of randomized response."""
    matrix = ad.SRR(2, epsilon).transition_matrix()
    return matrix[0, 1], matrix[0, 0]


@app.function
def log_likelihood(share, yes, n, epsilon):
    low, high = levels(epsilon)
    h = low + (high - low) * share
    return yes * np.log(h) + (n - yes) * np.log1p(-h)


@app.function
def estimates(epsilon, n, prior):
    """Mean and ends of the intervals of thirty products, from `precompute.py`."""
    with np.load(lessons.folder() / "data" / "empty.npz") as file:
        return file[f"{prior}_{epsilon:g}_{n}"]


@app.function
def spilled(epsilon, n, prior):
    """The share of people, in percent, that the estimate gives to the 26 products that nobody holds."""
    mean = estimates(epsilon, n, prior)[0]
    return 100 * (mean.sum() - mean[list(HELD)].sum())


@app.function
def summarize(grid, mass):
    """Mean and ends of the 95 % interval of a mass on a grid."""
    cumulative = np.cumsum(mass)
    return np.array([mass @ grid, *np.interp([0.025, 0.975], cumulative - mass / 2, grid)])


@app.function
@lru_cache(maxsize=100)
def regions(epsilon, n):
    """Means and intervals of each region's share: of each region alone, and partially pooled, both on grids."""
    rng = np.random.default_rng(3)
    low, high = levels(epsilon)
    sizes = np.array([round(n * part) for part in REGIONS.values()])
    yes = rng.binomial(sizes, low + (high - low) * REGION_TRUTH)
    logit = np.linspace(-6, 5, 400)
    share = 1 / (1 + np.exp(-logit))
    value = np.array([log_likelihood(share, y, size, epsilon) for y, size in zip(yes, sizes, strict=True)])
    likelihood = np.exp(value - value.max(axis=1, keepdims=True))
    alone = [summarize(share, mass / mass.sum()) for mass in likelihood * share * (1 - share)]  # flat in the share
    common, spread = (grid.ravel()[:, None] for grid in np.meshgrid(np.linspace(-3, 2, 50), np.linspace(0.02, 1.5, 30)))
    near = np.exp(-0.5 * ((logit - common) / spread) ** 2)
    near /= near.sum(axis=1, keepdims=True)
    fits = near @ likelihood.T
    weight = np.exp(-0.5 * (common / 1.5) ** 2 - 0.5 * (spread / 0.5) ** 2).ravel() * fits.prod(axis=1)
    pooled = []
    for each, fit in zip(likelihood, fits.T, strict=True):
        mass = np.divide(weight, fit, out=np.zeros_like(weight), where=fit > 0) @ near * each
        pooled.append(summarize(share, mass / mass.sum()))
    return np.array(alone), np.array(pooled)


@app.function
@lru_cache(maxsize=100)
def regression(epsilon, n):
    """The share of “yes” by age, with its 95 % band, and the interval of the slope: intercept and slope on a grid."""
    rng = np.random.default_rng(4)
    z = (AGES - AGES.mean()) / AGES.std()
    each = n // len(AGES)
    low, high = levels(epsilon)
    truth = 1 / (1 + np.exp(-(INTERCEPT + SLOPE * z)))
    yes = rng.binomial(each, low + (high - low) * truth)
    center, reach = np.array([0.0, 0.0]), np.array([6.0, 6.0])
    for _ in range(4):  # ever closer to where the posterior is
        sides = [np.linspace(middle - half, middle + half, 80) for middle, half in zip(center, reach, strict=True)]
        a, b = (grid.ravel() for grid in np.meshgrid(*sides))
        shares = 1 / (1 + np.exp(-(a[:, None] + b[:, None] * z)))
        value = log_likelihood(shares, yes, each, epsilon).sum(axis=1) - 0.5 * (a / 1.5) ** 2 - 0.5 * (b / 1.5) ** 2
        mass = np.exp(value - value.max())
        mass /= mass.sum()
        center = np.array([mass @ a, mass @ b])
        spread = np.sqrt([mass @ (a - center[0]) ** 2, mass @ (b - center[1]) ** 2])
        reach = np.maximum(5 * spread, reach / 20)
    band = []
    for column in shares.T:
        order = np.argsort(column)
        band.append(summarize(column[order], mass[order]))
    order = np.argsort(b)
    return np.array(band), summarize(b[order], mass[order]), truth


@app.function
@lru_cache(maxsize=100)
def unknown_budget(epsilon, n):
    """The share of “yes” on a grid, and its mass if ε is known and if it may be anything from 0.1 to 5."""
    low, high = levels(epsilon)
    yes = round(n * (low + (high - low) * SHARE))
    share = (np.arange(2000) + 0.5) / 2000
    value = np.array([log_likelihood(share, yes, n, each) for each in (epsilon, *np.linspace(0.1, 5, 300))])
    mass = np.exp(value - value.max())
    known, unknown = mass[0], mass[1:].sum(axis=0)
    return share, known / known.sum(), unknown / unknown.sum()


@app.cell
def _():
    prose(
        """
        # 7 · Your own model

        Private answers are one line in a PyMC model. θ can come from anything: a prior, a hierarchy, a regression.

        - **Empty categories.** There are thirty products, and perhaps nobody holds most of them. Let the data say how uneven θ is.
        - **Regions.** Some have few people. Let them borrow from the others, the more the regions agree.
        - **Regression.** Each person has their own θ, which depends on something public, such as age.
        - **Unknown ε.** A device does not say how it was set. Then ε is one more unknown.
        """
    )
    return


@app.cell
def _():
    lecture(
        """
        - **0–10 min.** Write the one line on the board: `ad.PrivateResponse("y", theta, responses)`. Everything else is PyMC.
        - **10–25 min.** Empty categories. Ask first where the noise of thousands of answers goes under a flat prior.
        - **25–40 min.** Regions. Let the class guess the islands' interval, alone and pooled. Who might object to pooling?
        - **40–50 min.** Regression: privacy widens the band but does not bend it. Unknown ε: what do answers say of their own noise?
        - **50–60 min.** The exercise; or let pairs design a model for their own data on paper.
        - The sentence to take home: *privacy is in the likelihood, your knowledge is in the prior, and the two do not mix.*
        """
    )
    return


@app.cell
def _():
    first = Prediction(
        "People hold four of thirty products. 10,000 of them answer at ε = 1. Under a flat prior, what share does the "
        "estimate give to the 26 products that nobody holds?",
        {
            "About 2 %.": "That would need far more people. Each empty product may have a small share, hidden by the noise.",
            "More than a quarter.": "As far as the answers tell, each of the 26 may have a few percent, and that adds up.",
            "Nearly all.": "No: the four products stand out from the noise.",
        },
        "More than a quarter.",
        proof=25 < spilled(1, 10_000, "flat") < 33,
    )
    first_answer = mo.ui.radio(list(first.options))
    return first, first_answer


@app.cell
def _(first, first_answer):
    ask(first, first_answer)
    return


@app.cell
def _():
    _alone, _pooled = regions(1, 10_000)
    second = Prediction(
        "Five regions, 10,000 people at ε = 1, 300 of them on the islands. What does pooling do to the islands' interval?",
        {
            "It becomes narrower.": "The islands borrow from the others, the more these agree among themselves.",
            "It becomes wider: four more regions, more noise.": "The others' answers are evidence about the islands, not noise.",
            "Nothing: the islands' answers are what they are.": "That is the interval of the islands alone. The model knows more.",
        },
        "It becomes narrower.",
        proof=_pooled[-1, 2] - _pooled[-1, 1] < 0.7 * (_alone[-1, 2] - _alone[-1, 1]),
    )
    second_answer = mo.ui.radio(list(second.options))
    return second, second_answer


@app.cell
def _(second, second_answer):
    ask(second, second_answer)
    return


@app.cell
def _():
    model = choices("model", MODELS)
    epsilon = slider("ε", [1, 2, 3], 1)
    people = slider("people n", [1000, 3000, 10_000, 30_000], 10_000)
    return epsilon, model, people


@app.cell
def _(epsilon, model, people):
    controls(model, epsilon, people)
    return


@app.function
def draw_empty(epsilon, n):
    figure, axis = canvas(size=(10, 3.6), margins=(0.07, 0.99, 0.15, 0.97, 0))
    truth = np.zeros(30)
    truth[list(HELD)] = list(HELD.values())
    axis.bar(range(30), truth, color="0.88", width=0.9, label="truth")
    for i, (prior, label, color) in enumerate(
        (("flat", "flat prior", "#D55E00"), ("learned", "learned prior", "#0072B2"))
    ):
        mean, low, high = estimates(epsilon, n, prior)
        bars = np.maximum([mean - low, high - mean], 0)
        told = f"{label}: {spilled(epsilon, n, prior):.0f} % to empty products"
        axis.errorbar(np.arange(30) - 0.2 + 0.4 * i, mean, yerr=bars, fmt="o", markersize=3, color=color, label=told)
    axis.set(xlabel="product", ylabel="share, with 95 % intervals", ylim=(0, 0.6))
    axis.legend(frameon=False)
    return picture(figure, "The shares of thirty products with intervals, under a flat and under a learned prior.")


@app.function
def draw_regions(epsilon, n):
    figure, axis = canvas(size=(10, 3.6), margins=(0.07, 0.99, 0.15, 0.97, 0))
    places = np.arange(len(REGIONS))
    axis.bar(places, REGION_TRUTH, color="0.88", width=0.7, label="truth")
    for i, (found, label, color) in enumerate(
        zip(regions(epsilon, n), ("each alone", "partially pooled"), ("#D55E00", "#0072B2"), strict=True)
    ):
        mean, low, high = found.T
        axis.errorbar(
            places - 0.12 + 0.24 * i, mean, yerr=[mean - low, high - mean], fmt="o", capsize=3, color=color, label=label
        )
    axis.set_xticks(places, [f"{name}\n{round(n * part):,} people" for name, part in REGIONS.items()])
    axis.set(ylabel="share of “yes”, with 95 % intervals", ylim=(0, 1))
    axis.legend(frameon=False, loc="upper left")
    return picture(figure, "The share of “yes” in five regions, each estimated alone and partially pooled.")


@app.function
def draw_regression(epsilon, n):
    figure, axis = canvas(size=(10, 3.6), margins=(0.07, 0.99, 0.15, 0.97, 0))
    for budget, label, color in ((epsilon, "private answers", "#0072B2"), (HONEST, "honest answers", "#D55E00")):
        band, _, truth = regression(budget, n)
        axis.plot(AGES, band[:, 0], color=color, label=label)
        axis.fill_between(AGES, band[:, 1], band[:, 2], color=color, alpha=0.2, linewidth=0)
    axis.plot(AGES, truth, color="black", linestyle=":", label="truth")
    axis.set(xlabel="age", ylabel="share of “yes”, with 95 % bands", ylim=(0, 1))
    axis.legend(frameon=False, loc="upper left")
    return picture(figure, "The share of “yes” by age, with bands of private and of honest answers.")


@app.function
def draw_unknown(epsilon, n):
    figure, axis = canvas(size=(10, 3.6), margins=(0.07, 0.99, 0.15, 0.97, 0))
    share, *masses = unknown_budget(epsilon, n)
    for mass, label, color in zip(masses, ("ε is known", "ε is unknown"), ("#0072B2", "#D55E00"), strict=True):
        _, low, high = summarize(share, mass)
        told = f"{label}: 95 % from {100 * low:.0f} to {100 * high:.0f} %"
        axis.fill_between(share, mass / mass.max(), color=color, alpha=0.35, linewidth=0, label=told)
    axis.axvline(SHARE, color="black", linestyle=":", label="truth")
    axis.set(xlabel="share of “yes”", ylabel="posterior density, scaled", xlim=(0, 1), ylim=(0, 1.05))
    axis.legend(frameon=False)
    return picture(figure, "The posterior density of the share of “yes”, with ε known and with ε unknown.")


@app.cell
def _(epsilon, model, people):
    _draw = dict(zip(MODELS, (draw_empty, draw_regions, draw_regression, draw_unknown), strict=True))[model.value]
    _draw(epsilon.value, people.value)
    return


@app.cell
def _():
    def _widths(found):
        return found[:, 2] - found[:, 1]

    _alone, _pooled = map(_widths, regions(1, 10_000))
    _private, _honest = (regression(budget, 30_000)[1] for budget in (1, HONEST))
    _share, *_masses = unknown_budget(1, 10_000)
    _known, _unknown = (summarize(_share, mass) for mass in _masses)
    statements = [
        state(
            "With 10,000 people at ε = 1, a flat prior assigns {} % of the people to products that nobody holds;",
            29,
            spilled(1, 10_000, "flat"),
        ),
        state("the learned prior assigns {} %.", 3, spilled(1, 10_000, "learned")),
        state(
            "With 10,000 people at ε = 1, pooling makes the islands' interval {} times as wide,",
            0.64,
            _pooled[-1] / _alone[-1],
        ),
        state("and that of the coast {} times.", 0.94, _pooled[0] / _alone[0]),
        state(
            "With 30,000 people, ε = 1 makes the interval of the effect of age {} times as wide as honest answers would.",
            2.4,
            (_private[2] - _private[1]) / (_honest[2] - _honest[1]),
        ),
        state(
            "If 30 % of 10,000 people would say “yes” and ε is 1, the interval of the share ends at {} %;",
            32,
            100 * _known[2],
        ),
        state("if ε may be anything from 0.1 to 5, it ends at {} %", 41, 100 * _unknown[2]),
        state("and begins at {} %,", 4, 100 * _unknown[1]),
    ]
    prose(
        f"""
        **Empty categories.** {statements[0]} {statements[1]} **Regions.** {statements[2]} {statements[3]} **Regression.** {statements[4]}
        **Unknown ε.** {statements[5]} {statements[6]} {statements[7]} however many answer: a noisy device with few “yes” and a
        quiet one with more give the same answers.

        In PyMC:
        """
    )
    return (statements,)


@app.cell
def _():
    programs = {
        "empty categories": """
with pm.Model(coords={"category": responses.categories}) as model:
    concentration = pm.LogNormal("concentration", mu=-2, sigma=2)
    even = np.ones(responses.n_categories)
    theta = pm.Dirichlet("theta", a=concentration * even, dims="category")
    ad.PrivateResponse("y", theta, responses, dims="response")
# or, without writing it: ad.sample(responses, "nuts", prior="learned")
""",
        "regions": """
with pm.Model(coords={"category": responses.categories, "region": labels}) as model:
    common = pm.ZeroSumNormal("common", sigma=1.5, dims="category")
    spread = pm.HalfNormal("spread", 0.5)
    departure = pm.ZeroSumNormal("departure", dims=("region", "category"))
    theta = pm.math.softmax(common + spread * departure, axis=-1)
    ad.PrivateResponse("y", theta, responses, group=region, dims="response")
""",
        "regression": """
with pm.Model(coords={"category": responses.categories, "term": ["intercept", "age"]}) as model:
    weights = pm.ZeroSumNormal("weights", sigma=1.5, dims=("term", "category"))
    theta = ad.model.multinomial_logit(age, weights)  # age: standardized, of shape (n, 1)
    ad.PrivateResponse("y", theta, responses, dims="response")
""",
        "unknown ε": """
nobody = np.zeros(responses.n_categories, dtype=bool)  # the subset of RRRR that makes it randomized response
with pm.Model(coords={"category": responses.categories}) as model:
    theta = pm.Dirichlet("theta", a=np.ones(responses.n_categories), dims="category")
    epsilon = pm.Uniform("epsilon", 0.1, 5)
    matrix = ad.model.transition_matrix(nobody, 0.0, epsilon)  # P(answer | category), symbolic in ε
    pm.Potential("y", pm.math.log((matrix @ theta)[responses.answers]).sum())
# the same with κ or ε₂ unknown; PrivateResponse is faster, and needs an ε that is known
""",
    }
    return (programs,)


@app.cell
def _(model, programs):
    code(programs[model.value])
    return


@app.cell
def _():
    def check(function):
        for alone, error, common, spread in ((0.5, 0.1, 0.3, 0.1), (0.2, 0.3, 0.3, 0.05), (0.4, 0.01, 0.1, 0.2)):
            weight = spread**2 / (spread**2 + error**2)
            right, got = weight * alone + (1 - weight) * common, function(alone, error, common, spread)
            assert abs(got - right) < 1e-9, (
                f"pooled({alone}, {error}, {common}, {spread}) must be {right:.4f}, got {got:.4f}. "
                "The weight of the region is spread²/(spread² + error²)."
            )

    exercise = Exercise(
        "By itself, a region has the estimate `alone` with standard error `error`. Regions lie around `common` with standard "
        "deviation `spread`. Write `pooled(alone, error, common, spread)`: the posterior mean of the region if all distributions are normal.",
        "pooled",
        "def pooled(alone, error, common, spread):\n    return (alone + common) / 2\n",
        "def pooled(alone, error, common, spread):\n    weight = spread**2 / (spread**2 + error**2)\n"
        "    return weight * alone + (1 - weight) * common\n",
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
        **In the package:** `models/` has these programs ready to run (`sparse.py`, `regions.py`, `regression.py`, and `marginal.py` with transition tensors), and more. This was
        the last lesson. [All lessons](../).
        """
    )
    return


if __name__ == "__main__":
    app.run()
