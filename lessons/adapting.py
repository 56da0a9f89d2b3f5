"""Lesson 9, optional: questions that adapt to what is known, and when they pay. Its pictures are in adapting.js."""

import json
import math
from pathlib import Path

import numpy as np

import adobest_pp as ad
from adobest_pp.teaching import Exercise, Menu, Notes, Numeric, Picture, Prediction, Prose, Slider, Takeaway, state

DATA = json.loads((Path(__file__).parent / "data" / "adapting.json").read_text(encoding="utf-8"))
K, KAPPA = 5, 0.9
RULES = ["honest", "fisher", "entropy", "tv1", "tv2", "mse", "mass, α = 0.9"]
RATIOS, EPSILONS, KAPPAS = [1, 1.2, 1.5, 2, 3, 5, 10], [0.5, 1, 2, 3, 5], [0.7, 0.8, 0.9, 1]
PLAIN = "randomized response"
PRIORS, STUDY_EPSILONS, RHOS = ["flat", "learned"], [0.5, 1], [0.01, 0.1, 1]


def shares(ratio):
    """θ in which each category is `ratio` times as common as the next."""
    weights = float(ratio) ** -np.arange(K)
    return weights / weights.sum()


def finite(values):
    """A list with None in place of what is infinite."""
    return [float(each) if math.isfinite(each) else None for each in values]


def sizes(rule, ratio, epsilon, kappa):
    """What the rule makes of each size of the subset, the size that it chooses, and the people that each size needs.

    People are multiples of a proved bound: what the best ε-LDP question of all needs, if there are many people.
    """
    theta, mechanism = shares(ratio), ad.RRRR(K, epsilon, kappa)
    if rule.startswith("mass"):
        values, size = np.append(0, np.cumsum(theta))[:K], len(ad.semi_adaptive_subset(theta, 0.9))
    else:
        values, size = ad.utility(theta, mechanism, rule), len(ad.select_subset(theta, mechanism, rule))
    needed = np.array([ad.asymptotic_variance(mechanism, theta, subset=range(k)) for k in range(K)])
    cell = f"{epsilon:g}_{ratio:g}"
    return {
        "values": finite(values),
        "size": size,
        "people": finite(needed / DATA["bound"][cell]),
        "selection": DATA["selection"][cell] / DATA["bound"][cell],
    }


def study(prior, epsilon, rho):
    """Median error of each method with its 95 % interval, and over that of randomized response."""
    rows = DATA["errors"][f"{prior}_{epsilon:g}_{rho:g}"]
    return {"errors": rows, "ratios": {name: row[0] / rows[PLAIN][0] for name, row in rows.items()}}


def ratio_of(method, rho, prior="flat", epsilon=1):
    """The median error of a method over that of randomized response."""
    return study(prior, epsilon, rho)["ratios"][method]


def check(function):
    for ratio, epsilon in ((1, 1.0), (2, 1.0), (5, 0.5), (3, 5.0)):
        theta, mechanism = shares(ratio), ad.RRRR(K, epsilon, KAPPA)
        matrices = [mechanism.transition_matrix(range(k)).tolist() for k in range(K)]
        got, right = function(theta.tolist(), matrices), len(ad.select_subset(theta, mechanism, "honest"))
        assert got == right, f"For ratio {ratio} and ε = {epsilon} the size must be {right}, got {got}."


TABLE = ad.RRRR(3, 1, KAPPA).transition_matrix([0])
HONEST = float(np.array([0.6, 0.3, 0.1]) @ TABLE.diagonal())

PARTS = [
    Prose(
        state(
            """
            *This lesson is optional. It is about the paper behind this course (Aydın and Yıldırım, 2025).*

            If the collector already knows that most people answer *A* or *B*, why spread everybody's noise over all
            categories? **RRRR** publishes a subset S of likely categories before each question. A person inside S
            randomizes within S and one more category. A person outside S first picks a stand-in outside S. The promise
            of ε holds for every S.

            Inside S the answers get nearly all of ε: ε₁ = κ·ε, where **κ** is a setting such as 0.9. What is left for
            those outside is called ε₂. With ten categories, one of them in S, ε = 1 and κ = 0.9, it is only {}. So a
            subset is a bet: sharp answers about the likely categories, hardly any about the rest.
            """,
            ("0.11", ad.RRRR(10, 1, 0.9).epsilon2(1)),
        ),
        slide="**RRRR** publishes a subset S of likely categories. Inside S: nearly all of ε. Outside: hardly any. "
        "*A bet.*",
    ),
    Notes(
        "Twenty questions: your next question depends on what you believe. That is adapting. What must it "
        "not change? (ε.)",
        4,
    ),
    Prediction(
        "Each category is three times as common as the next, ε = 1, and very many people will answer. Which "
        "subset leaves the smallest error?",
        {
            "The most common category.": "It makes true answers more likely, but tells little about the other categories.",
            "The two most common ones.": "Look at the right panel: it needs more people than the empty subset.",
            "The empty one: plain randomized response.": "With many people, information counts, and the empty subset has the most.",
        },
        "The empty one: plain randomized response.",
        proof=int(np.argmin([math.inf if each is None else each for each in sizes("honest", 3, 1, KAPPA)["people"]]))
        == 0,
    ),
    Picture(
        "sizes",
        "Left: what the chosen rule makes of each size of the subset, with the size that it chooses marked. "
        "Right: how many people each size needs, as a multiple of the best question of all.",
        [
            Menu("rule", "rule that chooses S", RULES),
            Slider("ratio", "each category is … times as common as the next", RATIOS, 2),
            Slider("epsilon", "privacy loss ε", EPSILONS, 1),
            Slider("kappa", "κ, the part of ε spent inside S", KAPPAS, 0.9),
        ],
        sizes,
    ),
    Prose(
        state(
            """
            S always holds the k most common categories, and a **rule** chooses k. The paper has six **utilities**:

            | utility | is large if |
            |---|---|
            | `honest` | answers are likely to be true |
            | `fisher` | the variance is small with many people: −Tr F⁻¹, by the information F about θ |
            | `entropy` | answers are predictable: minus their entropy |
            | `tv1` | answers depend strongly on the truth |
            | `tv2` | the distribution of the answers is close to θ |
            | `mse` | the truth can be predicted well from the answer |

            At ratio 2 and ε = 1, `honest` puts {} categories into S. With many people that needs {} times the people of
            the best question; the empty subset needs {} times. An answer that is likely to be true is not the same as
            one that tells something new.
            """,
            ("2", sizes("honest", 2, 1, KAPPA)["size"]),
            ("20", sizes("honest", 2, 1, KAPPA)["people"][2]),
            ("1.02", sizes("honest", 2, 1, KAPPA)["people"][0]),
        ),
        slide="Six utilities choose the size of S. **An answer that is likely to be true is not the same as one "
        "that tells something new.**",
    ),
    Notes(
        "Go through `honest` and `fisher` at ratio 2. Ask: is a true answer an informative one? The dotted "
        "line is a proved bound: no ε-LDP question is below it.",
        8,
    ),
    Prose(
        """
        ## When people are few

        With few people something else matters: the noise should not be spread over categories that are nearly empty.
        The paper's algorithm draws one θ from the posterior after each answer, chooses S as if that θ were the truth,
        and asks the next person. That is **Thompson sampling**: while the posterior is wide the questions vary, and
        they settle as it narrows.

        A simpler rule, **semi-adaptive**, takes the most common categories until they hold a share α of the people, and
        spends all of ε inside S (κ = 1). Now take ten categories, 5,000 people, and a population that is uneven, but
        not extremely so.
        """,
        slide="## When people are few\n\n**Thompson sampling**: draw θ, choose S as if it were true, ask, repeat.",
    ),
    Prediction(
        "ε = 1, θ from Dirichlet(0.1): a few categories hold nearly everybody. Which rule has a smaller "
        "error than plain randomized response, under a flat prior?",
        {
            "Both `honest` and semi-adaptive with α = 0.9.": "`honest` chooses a subset that is too small here, and loses what is outside.",
            "Only `honest`.": "It is the other way round: `honest` chooses a subset that is too small.",
            "Only semi-adaptive with α = 0.9.": "Its subset holds nine people out of ten. Little is left outside, so little is lost.",
        },
        "Only semi-adaptive with α = 0.9.",
        proof=ratio_of("by mass, α = 0.9", 0.1) < 0.7 and ratio_of("by honest", 0.1) > 1.1,
    ),
    Picture(
        "study",
        "The median error of seven methods with intervals: randomized response, sets, and RRRR with five rules.",
        [
            Slider("rho", "evenness ρ of θ ~ Dirichlet(ρ)", RHOS, 0.1),
            Slider("epsilon", "privacy loss ε", STUDY_EPSILONS, 1),
            Menu("prior", "prior of the analysis", PRIORS),
        ],
        study,
    ),
    Prose(
        state(
            """
            These are errors ½Σ|θ̂ − θ| of a study of this package, at equal, true ε and with exact inference (`python
            -m validation.mechanisms`; ten categories, 5,000 people; medians with 95 % intervals).

            - **Nearly everybody alike (ρ = 0.01)**: every bet on a subset pays (`fisher` makes none). `honest` has
              {} times the error of randomized response, α = 0.9 has {} times.
            - **Uneven (ρ = 0.1)**: the rule must suit θ. α = 0.9 has {} times the error, `honest` {} times, and α = 0.2
              even {} times.
            - **Even (ρ = 1)**: there is nothing to bet on. α = 0.9 has {} times the error, and sets, which do
              not adapt, have {} times.

            So adapting pays for uneven θ, *if* the rule suits θ. Now choose the learned prior of lesson 7: at ρ = 0.01
            randomized response has {} times the error that it has under the flat prior. Much of what adapting gains, a
            better prior gains without it.
            """,
            ("0.45", ratio_of("by honest", 0.01)),
            ("0.45", ratio_of("by mass, α = 0.9", 0.01)),
            ("0.58", ratio_of("by mass, α = 0.9", 0.1)),
            ("1.26", ratio_of("by honest", 0.1)),
            ("1.73", ratio_of("by mass, α = 0.2", 0.1)),
            ("0.87", ratio_of("by mass, α = 0.9", 1)),
            ("0.87", ratio_of("sets (lesson 4)", 1)),
            ("0.09", study("learned", 1, 0.01)["errors"][PLAIN][0] / study("flat", 1, 0.01)["errors"][PLAIN][0]),
        ),
        slide="Adapting pays for uneven θ, **if the rule suits θ**. A better prior gains much of it without adapting.",
    ),
    Notes("Go through the three values of ρ. Then choose the learned prior: most of the difference goes away.", 6),
    Exercise(
        "Write `most_honest(theta, matrices)`: the k whose table `matrices[k]` gives the greatest probability "
        "of a true answer, P(Y = X). Ties go to the smallest k.",
        "most_honest",
        "def most_honest(theta, matrices):\n    return 1\n",
        "def most_honest(theta, matrices):\n    honest = [sum(t * G[x][x] for x, t in enumerate(theta)) for G "
        "in matrices]\n"
        "    return max(range(len(honest)), key=lambda k: round(honest[k], 12))\n",
        check,
        hints=[
            "P(Y = X) = Σ θ[x] · G[x][x]: the diagonal of the table, weighted by the shares.",
            "Compute it for every table in `matrices`, as a list.",
            "Return the index of the largest. Round to 12 digits first, so that rounding errors break no ties; "
            "`max` returns the first one.",
        ],
        twin=Numeric(
            state(
                "Three categories have shares of 60, 30 and 10 %. With the subset S = A, people with A answer "
                "truthfully with probability {}, the others with {}. How often is an answer true?",
                ("0.711", TABLE[0, 0]),
                ("0.393", TABLE[1, 1]),
            ),
            ("58.4", 100 * HONEST),
            0.3,
            "%",
            state(
                "0.6 · 0.711 + 0.4 · 0.393. Without a subset it is {} %: the bet hardly makes answers truer here.",
                ("57.6", 100 * ad.SRR(3, 1).transition_matrix()[0, 0]),
            ),
        ),
    ),
    Notes(
        "The exercise in pairs. Discuss why both pictures are right: one is about many people, the other about few.", 12
    ),
    Takeaway("A subset is a bet. Know the bound before you adapt."),
    Prose(
        """
        **In the package:** `ad.select_subset(theta, mechanism, "honest")` chooses S, `adobest collect --mechanism rrrr`
        does it for people, and `ad.simulate_adaptive` runs the whole loop for simulated ones. The authors' program runs
        its semi-adaptive methods with κ = 1 (soneraydin/AdOBEst_LDP, commit 9080c23, `AdOBEst_LDP.m`, lines 32 to 34),
        and so do we. `validation/RESULTS.md` has all settings.
        """
    ),
]
