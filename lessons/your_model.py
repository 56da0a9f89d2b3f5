"""Lesson 7: privacy is in the likelihood, what you know is in the prior. Its pictures are in your_model.js."""

import json
from pathlib import Path

from adobest_pp.teaching import Exercise, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

DATA = json.loads((Path(__file__).parent / "data" / "your_model.json").read_text(encoding="utf-8"))
EPSILONS, PEOPLE = [1, 2, 3], [1000, 3000, 10_000, 30_000]


def spilled(epsilon, n, prior):
    """The share of people that the estimate gives to the 26 products that nobody holds."""
    mean = DATA["products"][f"{prior}_{epsilon}_{n}"][0]
    return sum(mean) - sum(mean[int(i)] for i in DATA["held"])


def too_low(epsilon, n, prior):
    """How many of the four products that people hold have an interval that ends below the truth."""
    upper = DATA["products"][f"{prior}_{epsilon}_{n}"][2]
    return sum(upper[int(i)] < share for i, share in DATA["held"].items())


def products(epsilon, n):
    """Estimates of thirty products under a flat prior and under one that learns how uneven the shares are."""
    found = {prior: DATA["products"][f"{prior}_{epsilon}_{n}"] for prior in ("flat", "learned")}
    return {
        **{prior: [list(each) for each in zip(*rows, strict=True)] for prior, rows in found.items()},
        "spilled": [spilled(epsilon, n, prior) for prior in ("flat", "learned")],
        "truth": DATA["held"],
    }


def regions(epsilon, n):
    """Mean and interval of each region's share, alone and pooled, and how much narrower pooling makes the interval."""
    found = DATA["regions"][f"{epsilon}_{n}"]
    widths = [[high - low for _, low, high in found[how]] for how in ("alone", "pooled")]
    narrower = [after / before for before, after in zip(*widths, strict=True)]
    return {**found, "truth": DATA["region_truth"], "narrower": narrower}


def pooled(alone, error, common, spread):
    """The posterior mean of a region if all distributions are normal."""
    weight = spread**2 / (spread**2 + error**2)
    return weight * alone + (1 - weight) * common


def check(function):
    for case in ((0.5, 0.1, 0.3, 0.1), (0.2, 0.3, 0.3, 0.05), (0.4, 0.01, 0.1, 0.2)):
        got, right = function(*case), pooled(*case)
        assert abs(got - right) < 1e-9, f"pooled{case} must be {right:.4f}, got {got:.4f}."


PARTS = [
    Prose(
        """
        Private answers are one line in a PyMC model:

        ```python
        ad.PrivateResponse("y", theta, responses, dims="response")
        ```

        Everything before that line is yours. θ may come from any prior, a hierarchy or a regression. What you know goes
        there, and the noise of the mechanism stays in this one line.
        """,
        slide='`ad.PrivateResponse("y", theta, responses)`: one line for the noise. **Everything before it is yours.**',
    ),
    Notes("Write the one line on the board. Everything else is PyMC.", 3),
    Prose(
        """
        ## Most categories are empty

        A shop lists thirty products. People hold four of them, and nobody holds the other 26, but the shop does not
        know that. 10,000 people answer at ε = 1.
        """,
        slide="## Most categories are empty\n\nThirty products; people hold four. 10,000 answers at ε = 1.",
    ),
    Prediction(
        "Under a flat prior, what share does the estimate give to the 26 products that nobody holds, all together?",
        {
            "About 2 %.": "That would need far more people. Each empty product may have a small share, hidden by the noise.",
            "More than a quarter.": "As far as the answers tell, each of the 26 may have about one percent, and that adds up.",
            "Nearly all.": "No: the four products stand out from the noise.",
        },
        "More than a quarter.",
        proof=0.25 < spilled(1, 10_000, "flat") < 0.33,
    ),
    Picture(
        "products",
        "Estimates of thirty shares with their intervals, under a flat prior and under a learned prior. The "
        "flat prior gives every empty product a small share; "
        "the learned prior gives it nearly none.",
        [Slider("epsilon", "privacy loss ε", EPSILONS, 1), Slider("n", "people n", PEOPLE, 10_000)],
        products,
    ),
    Prose(
        state(
            """
            The flat prior gives {} % of the people to products that nobody holds. They are taken from the products that
            people do hold: {} of these four intervals end below the truth. A flat prior says beforehand that thirty
            equal shares are as plausible as four large ones. If instead the model **learns how uneven the shares are**,
            from the same answers, only {} % remain. No answer changed, and ε did not change. In PyMC:

            ```python
            with pm.Model(coords={{"category": responses.categories}}) as model:
                concentration = pm.LogNormal("concentration", mu=-2, sigma=2)
                even = np.ones(responses.n_categories)
                theta = pm.Dirichlet("theta", a=concentration * even, dims="category")
                ad.PrivateResponse("y", theta, responses, dims="response")
            # or, without writing it: ad.sample(responses, "nuts", prior="learned")
            ```
            """,
            ("29", 100 * spilled(1, 10_000, "flat")),
            ("2", too_low(1, 10_000, "flat")),
            ("3.5", 100 * spilled(1, 10_000, "learned")),
        ),
        slide=state(
            "The flat prior gives {} % to empty products. A prior that **learns how uneven** the shares are "
            "gives them {} %.",
            ("29", 100 * spilled(1, 10_000, "flat")),
            ("3.5", 100 * spilled(1, 10_000, "learned")),
        ),
    ),
    Notes(
        "Ask first where the noise of thousands of answers goes under a flat prior. Then move n: even 30,000 "
        "people do not cure it.",
        7,
    ),
    Prose(
        """
        ## Some regions are small

        Five regions, 10,000 people at ε = 1. Half of them live on the coast, and 300 on the islands. How common is
        *yes* on the islands?
        """,
        slide="## Some regions are small\n\nHow common is *yes* on the islands, with 300 people?",
    ),
    Prediction(
        "One model for all regions says that they are alike, and learns how much. What does it do to the "
        "islands' interval?",
        {
            "It becomes narrower.": "The islands borrow from the others, the more these agree among themselves.",
            "It becomes wider: four more regions, more noise.": "The others' answers are evidence about the islands, not noise.",
            "Nothing: the islands' answers are what they are.": "That is the interval of the islands alone. The model uses more.",
        },
        "It becomes narrower.",
        proof=regions(1, 10_000)["narrower"][-1] < 0.7,
    ),
    Picture(
        "regions",
        "The share of yes in five regions with intervals, each from its own answers and pooled. Pooled "
        "intervals are narrower, most of all in the small regions.",
        [Slider("epsilon", "privacy loss ε", EPSILONS, 1), Slider("n", "people n", PEOPLE, 10_000)],
        regions,
    ),
    Prose(
        state(
            """
            **Pooling** makes the islands' interval {} times as wide, and that of the coast {} times. Small regions
            borrow most. In PyMC:

            ```python
            with pm.Model(coords={{"category": responses.categories, "region": labels}}) as model:
                common = pm.ZeroSumNormal("common", sigma=1.5, dims="category")
                spread = pm.HalfNormal("spread", 0.5)
                departure = pm.ZeroSumNormal("departure", dims=("region", "category"))
                theta = pm.math.softmax(common + spread * departure, axis=-1)
                ad.PrivateResponse("y", theta, responses, group=region, dims="response")
            ```

            A **regression** is the same idea: each person's θ depends on something public, such as age, and
            `ad.model.multinomial_logit(age, weights)` takes the place of the softmax.
            """,
            ("0.64", regions(1, 10_000)["narrower"][-1]),
            ("0.94", regions(1, 10_000)["narrower"][0]),
        ),
        slide=state(
            "**Pooling** makes the islands' interval {} times as wide. Small regions borrow most.",
            ("0.64", regions(1, 10_000)["narrower"][-1]),
        ),
    ),
    Notes(
        "Let the class guess the islands' interval, alone and pooled. Who might object to pooling? (The "
        "islanders, if they are different.)",
        8,
    ),
    Exercise(
        "By itself, a region has the estimate `alone` with standard error `error`. Regions lie around "
        "`common` with standard deviation `spread`. Write "
        "`pooled(alone, error, common, spread)`: the posterior mean of the region if all distributions are normal.",
        "pooled",
        "def pooled(alone, error, common, spread):\n    return (alone + common) / 2\n",
        "def pooled(alone, error, common, spread):\n    weight = spread**2 / (spread**2 + error**2)\n    "
        "return weight * alone + (1 - weight) * common\n",
        check,
        hints=[
            "The result lies between `alone` and `common`: a weighted mean of the two.",
            "The weight of `alone` is large if its error is small compared with the spread of the regions.",
            "The weight of `alone` is spread²/(spread² + error²), and `common` has the rest.",
        ],
        twin=Numeric(
            "Alone, the islands have 40 % *yes* with a standard error of 6 points. Regions lie around 30 % with "
            "a standard deviation of 3 points. What is the pooled estimate?",
            ("32", pooled(40, 6, 30, 3)),
            0.5,
            "%",
            state(
                "The weight of the islands' own estimate is 9/(9 + 36) = {}, and 0.2 · 40 + 0.8 · 30 = {}.",
                ("0.2", 9 / 45),
                ("32", pooled(40, 6, 30, 3)),
            ),
        ),
    ),
    Notes("The exercise in pairs; or let pairs design a model for their own data on paper.", 12),
    Takeaway("Privacy is in the likelihood, what you know is in the prior."),
    Prose(
        """
        **In the package:** `models/` has these programs ready to run (`sparse.py`, `regions.py`, `regression.py`) and
        more. `ad.estimate` and `adobest estimate --group region` pool groups without a model of your own.
        """
    ),
]
