"""Ten homework problems and ten exam questions, with solutions whose numbers are computed here.

They are rendered twice: for students without solutions, for lecturers with them. The exam takes 90 minutes and has 90
points, one for each minute.
"""

import math
from dataclasses import dataclass

import numpy as np

import adobest_pp as ad
from adobest_pp.likelihood import grid_posterior
from adobest_pp.mechanisms import guess_bound
from adobest_pp.teaching import state


@dataclass(frozen=True)
class Problem:
    """A problem for homework or an exam.

    Parameters
    ----------
    title, text : str
        What is asked, in Markdown. Its numbers are given, not computed.
    solution : tuple of str
        In Markdown, one part after the other. Each number that the reader has to find is made by `state`.
    after : int
        The lesson that it follows.
    points : int
        In the exam, one for each minute.
    """

    title: str
    text: str
    solution: tuple[str, ...]
    after: int
    points: int = 10

    @property
    def solution_text(self) -> str:
        """The solution as one text. A part that begins with a number in bold begins a paragraph."""
        return "".join(("\n\n" if part.startswith("**") else " ") + part for part in self.solution)


def belief(prior: float, factor: float) -> float:
    """The probability after the odds have changed by a factor, in percent."""
    odds = prior / (1 - prior) * factor
    return 100 * odds / (1 + odds)


def signal(epsilon: float) -> float:
    """P(yes | yes) − P(yes | no) of randomized response with two categories."""
    matrix = ad.SRR(2, epsilon).transition_matrix()
    return float(matrix[0, 0] - matrix[0, 1])


def half_width(share: float, epsilon: float, n: float) -> float:
    """Half the 95 % interval of a share of “yes”, in percentage points, from n answers of randomized response."""
    both = ad.asymptotic_variance(ad.SRR(2, epsilon), [share, 1 - share])  # of “yes” and of “no”, which are equal
    return 100 * 1.96 * math.sqrt(both / 2 / n)


def people(share: float, epsilon: float, points: float) -> float:
    """How many answers give a 95 % interval of ± `points` percentage points."""
    return (half_width(share, epsilon, 1) / points) ** 2


def most_likely(counts: list[int], epsilon: float) -> np.ndarray:
    """The shares with the greatest likelihood under randomized response: the EM algorithm."""
    matrix = ad.SRR(len(counts), epsilon).transition_matrix()
    theta = np.full(len(counts), 1 / len(counts))
    for _ in range(5000):
        joint = matrix * theta
        theta = np.array(counts) @ (joint / joint.sum(axis=1, keepdims=True)) / sum(counts)
    return theta


def classic_r_hat(chains: list[list[int]]) -> float:
    """R-hat = √(((n − 1)/n · W + B)/W), with W the mean variance within chains and B the variance of their means."""
    values = np.array(chains)
    within, between = values.var(axis=1, ddof=1).mean(), values.mean(axis=1).var(ddof=1)
    n = values.shape[1]
    return math.sqrt(((n - 1) / n * within + between) / within)


def covered(ratio: float) -> float:
    """How often a 95 % interval holds the truth, in percent, if its normal posterior has `ratio` times the right sd."""
    return 100 * math.erf(1.96 * ratio / math.sqrt(2))


def width_of_sgld(n: float, m: float, step: float, v: float) -> float:
    """The sd of SGLD's draws over that of the posterior, for small steps (lesson 5)."""
    return math.sqrt(1 + step * n**2 * v / (4 * m))


TABLE = np.array([[0.5, 0.2, 0.3], [0.3, 0.6, 0.3], [0.2, 0.2, 0.4]])
DIE = ad.ForcedResponse("1/6", "1/6")
SPECIES = [0.4, 0.3, 0.2, 0.1]
NEGATIVE = [160, 85, 55]
CHAINS = [[4, 6, 5, 7, 3], [5, 4, 6, 5, 5], [9, 8, 10, 9, 9], [4, 5, 5, 6, 5]]
RANKS = [92, 55, 41, 38, 30, 29, 35, 44, 52, 84]
MENDED = np.array([[0.69, 0.29], [0.29, 0.61], [0.02, 0.1]])
DAILY = ad.Memoized(ad.SRR(2, 1.0), ad.SRR(2, 1.0), n_waves=10)
PAIRS = ad.SubsetSelection(4, math.log(3), 2)


def matrix_estimate(counts: list[int], epsilon: float) -> np.ndarray:
    """The shares that solve G·θ = the shares of the answers; they may be negative."""
    return np.linalg.solve(ad.SRR(len(counts), epsilon).transition_matrix(), np.array(counts) / sum(counts))


def negative_posterior() -> np.ndarray:
    """Posterior means under a flat prior for the counts of the problem on negative shares."""
    answers = np.repeat(np.arange(3), NEGATIVE)
    return grid_posterior(ad.Responses.from_arrays(ad.SRR(3, 1.0), answers), cells=300).mean()


def ratio_of_sets() -> float:
    """How many times more likely A, B and A, C and A, D are if everybody has A than if all are equally common."""
    rows = PAIRS.transition_matrix()[[0 in pair for pair in PAIRS.outputs().tolist()]]
    return float(np.prod(rows[:, 0] / rows.mean(axis=1)))


def log_likelihood(theta: list[float], counts: list[int], epsilon: float) -> float:
    """ln P(answers | θ) of randomized response."""
    return float(np.array(counts) @ np.log(ad.SRR(len(theta), epsilon).transition_matrix() @ theta))


def pair_loss() -> float:
    """The loss of two answers of the exam's device, which draws again if the second answer would be the first."""
    keep = 0.75
    rows = []
    for first in (0, 1):
        for second in (0, 1):
            row = []
            for x in (0, 1):
                p = [keep if y == x else 1 - keep for y in (0, 1)]
                repeated = p[first] * p[first]
                row.append(p[first] * (repeated if second == first else 1 - repeated))
            rows.append(row)
    return ad.privacy_loss(np.array(rows))


HOMEWORK = (
    Problem(
        "Find e<sup>ε</sup> in a table",
        """
A device has three categories and three answers. Columns are truths, rows are answers:

| | A | B | C |
|---|---|---|---|
| answer 1 | 0.5 | 0.2 | 0.3 |
| answer 2 | 0.3 | 0.6 | 0.3 |
| answer 3 | 0.2 | 0.2 | 0.4 |

1. Which answer reveals most, and what is the privacy loss?
2. You believe that a person has A with probability 20 % and B with 80 %. You hear answer 1. What do you believe now?
3. You believe that a person has A with probability 20 % and C with 80 %. You hear answer 1. Why do your odds change
   less than the loss allows?
""",
        (
            state(
                "**1.** Divide the largest number of each row by the smallest: {}, {} and {}. Answer 1 reveals most.",
                *zip(("2.5", "2", "2"), TABLE.max(axis=1) / TABLE.min(axis=1), strict=True),
            ),
            state("The loss is ln 2.5 ≈ {}.", ("0.92", ad.privacy_loss(TABLE))),
            "**2.** The odds of A against B were 1 : 4. Answer 1 multiplies them by 0.5/0.2 = 2.5.",
            state("The belief in A rises to {} %.", ("38", belief(0.2, TABLE[0, 0] / TABLE[0, 1]))),
            "**3.** The loss is about the worst pair of truths, here A and B.",
            state(
                "For A and C, answer 1 changes the odds by a factor of only {}.", ("1.67", TABLE[0, 0] / TABLE[0, 2])
            ),
        ),
        after=1,
    ),
    Problem(
        "A die in place of coins",
        """
“Roll a die. For 1 to 4, answer truthfully. For 5 say *yes*, for 6 say *no*.” 120 people follow these rules, and 48 say
*yes*.

1. What is ε?
2. Estimate the share of people whose truth is *yes*, with its standard error.
3. In another class of 120, only 15 say *yes*. What does your estimate say, and what is wrong with it?
""",
        (
            "**1.** P(yes | yes) = 4/6 + 1/6 = 5/6, and P(yes | no) = 1/6. The ratio is 5.",
            state("ε = ln 5 ≈ {}.", ("1.61", DIE.epsilon)),
            "**2.** P(yes) = 1/6 + (4/6)·θ. Set it equal to 48/120 = 0.4, and solve for θ.",
            state("The estimate is {} %.", ("35", 100 * (0.4 - 1 / 6) / (4 / 6))),
            "Its standard error is √(0.4 · 0.6/120)/(4/6),",
            state("which is {} percentage points.", ("6.7", 100 * math.sqrt(0.4 * 0.6 / 120) / (4 / 6))),
            "**3.** 15/120 = 0.125 is less than 1/6.",
            state("The estimate is {} %: a negative share.", ("−6.25", 100 * (0.125 - 1 / 6) / (4 / 6))),
            "It ignores that θ cannot be below 0. A posterior does not: it puts its mass on small shares, and "
            "says how small.",
        ),
        after=2,
    ),
    Problem(
        "An answer is a set",
        """
A mechanism is *extremal* if every answer z has only two probabilities: P(z | x) = e<sup>ε</sup> · w(z) for the truths x
in a set A(z), and P(z | x) = w(z) for all others.

1. Show that P(z) = w(z) · (1 + (e<sup>ε</sup> − 1) · θ(A(z))), where θ(A) is the share of people with a category in A.
2. Why does w(z) not matter for the posterior of θ?
3. Subset selection with four categories, sets of two and ε = ln 3. How likely is it that the answer contains the truth?
   What is w?
4. Three people answer {A, B}, {A, C} and {A, D}. How many times more likely are these answers if everybody has A than
   if all categories are equally common?
""",
        (
            "**1.** P(z) = Σ P(z | x) θ(x) = w(z) · (e<sup>ε</sup> · θ(A) + 1 − θ(A)), which is the formula.",
            "**2.** It is a factor of the likelihood that does not contain θ. Factors without θ cancel when the "
            "posterior is "
            "normalized. So an answer *is* its set.",
            "**3.** p = d·e<sup>ε</sup>/(d·e<sup>ε</sup> + K − d) = 6/8.",
            state(
                "The answer contains the truth with probability {}.",
                ("0.75", PAIRS.transition_matrix()[[0 in pair for pair in PAIRS.outputs().tolist()], 0].sum()),
            ),
            state(
                "Three of the six sets contain a given truth, so each of these has probability {}, and the others have",
                ("0.25", PAIRS.transition_matrix().max()),
            ),
            state("w = {}.", ("0.083", PAIRS.transition_matrix().min())),
            "**4.** If everybody has A, each answer has probability w · (1 + 2 · 1). If all are equally common, "
            "it is w · (1 + 2 · ½).",
            state("The ratio is (3/2)³ ≈ {}.", ("3.4", ratio_of_sets())),
        ),
        after=4,
    ),
    Problem(
        "How many people do you need?",
        """
You ask a yes/no question through randomized response with ε = 1, and expect about 30 % *yes*. You want a 95 % interval
of ± 2 percentage points.

1. How many people do you need without privacy?
2. How many with ε = 1?
3. How many with ε = 0.5? Is the rule “half the ε costs four times the people” right here?
4. You have 5,000 people. How wide is your interval at ε = 1?
""",
        (
            "**1.** n = 1.96² · 0.3 · 0.7/0.02².",
            state("You need {} people.", ("2,017", 1.96**2 * 0.3 * 0.7 / 0.02**2)),
            "**2.** An answer is *yes* with probability h = q + (p − q) · 0.3, where p = e/(e + 1) and q = 1 − "
            "p. The variance of the "
            "estimate is h(1 − h)/((p − q)² n).",
            state("You need {} people.", ("10,859", people(0.3, 1, 2))),
            state("**3.** {} people;", ("39,642", people(0.3, 0.5, 2))),
            state("that is {} times as many.", ("3.7", people(0.3, 0.5, 2) / people(0.3, 1, 2))),
            "The rule is about right, and becomes exact as ε → 0.",
            state("**4.** ± {} percentage points.", ("2.9", half_width(0.3, 1, 5000))),
        ),
        after=2,
    ),
    Problem(
        "One budget, five questions",
        """
10,000 people agree to spend ε = 2 in all. You have five yes/no questions, each with about 50 % *yes*.

1. *Split*: everybody answers all five, each with ε = 0.4. How wide is the 95 % interval of one question?
2. *Sample*: everybody answers one question, drawn at random, with ε = 2. How wide is it now?
3. The drawn question is public. Why is that no loss of privacy?
4. Name one thing that you can learn by splitting and not by sampling.
""",
        (
            state("**1.** ± {} percentage points.", ("5.0", half_width(0.5, 0.4, 10_000))),
            state(
                "**2.** 2,000 people answer each question: ± {} percentage points.", ("2.9", half_width(0.5, 2, 2000))
            ),
            state(
                "So splitting needs {} times the people of sampling for the same interval.",
                ("3.0", people(0.5, 0.4, 1) / people(0.5, 2, 1) / 5),
            ),
            "**3.** The draw does not depend on the person's truth. Only what depends on the truth costs ε.",
            "**4.** How answers to two questions go together: that needs two answers of the same person.",
        ),
        after=3,
    ),
    Problem(
        "The device that may refuse",
        """
A yes/no device also sends “no answer” at times. Columns are truths, rows are what the collector receives:

| | yes | no |
|---|---|---|
| “yes” | 0.7 | 0.3 |
| “no” | 0.3 | 0.6 |
| “no answer” | 0 | 0.1 |

1. Its maker says: “The loss is ln(0.7/0.3).” What does the maker forget, and what is the loss?
2. The maker changes the table: 0.69, 0.29 and 0.02 for *yes*, and 0.29, 0.61 and 0.10 for *no*. What is the loss now?
3. Suggest a device that refuses in 10 % of cases and has the loss that the maker claimed.
""",
        (
            "**1.** Refusing is an answer, too. “No answer” never comes from a person with *yes*: the loss is infinite.",
            state("(The maker's number is {}.)", ("0.85", math.log(0.7 / 0.3))),
            "**2.** The largest ratio is now that of “no answer”, 0.10/0.02 = 5.",
            state("The loss is {}.", ("1.61", ad.privacy_loss(MENDED))),
            "**3.** Refuse with probability 0.1 *before* looking at the truth; otherwise say the truth with "
            "probability 0.7.",
            state("Its loss is {}.", ("0.85", ad.privacy_loss(np.array([[0.63, 0.27], [0.27, 0.63], [0.1, 0.1]])))),
        ),
        after=3,
    ),
    Problem(
        "The same question every day",
        """
A phone asks a yes/no question every day and randomizes the answer afresh with ε = 0.5. The truth does not change.

1. In ten days you receive 8 *yes* and 2 *no*. You believed 50 % before. What do you believe now?
2. What is the bound on the change of odds after ten days?
3. Now the phone randomizes *once* with ε = 1 and keeps the result. Every day it randomizes the kept result again, with
   ε = 1. What is the loss of one day?
4. What can you believe at most, after any number of days?
""",
        (
            "**1.** Each *yes* multiplies the odds by e<sup>0.5</sup>, each *no* divides them by it: e<sup>0.5 · "
            "(8 − 2)</sup> = "
            "e³ in all.",
            state("The belief is {} %.", ("95", belief(0.5, math.exp(3)))),
            "**2.** Budgets add up: 10 · 0.5 = 5.",
            state("The odds change by a factor of at most e⁵ ≈ {}.", ("148", math.exp(5))),
            state(
                "**3.** Multiply the two tables: p = {}² + {}² and 1 − p.",
                *zip(("0.731", "0.269"), ad.SRR(2, 1.0).transition_matrix()[0], strict=True),
            ),
            state("The loss of one day is ln(p/(1 − p)) ≈ {}.", ("0.43", DAILY.wave_epsilon)),
            "**4.** Even someone who knows the kept result learns no more than one answer with ε = 1 reveals.",
            state("The belief is at most {} %.", ("73", belief(0.5, math.exp(1)))),
        ),
        after=3,
    ),
    Problem(
        "The best guess",
        """
Four categories have the shares 40, 30, 20 and 10 %, and everybody knows that. A person answers through randomized
response with ε = 1.

1. You guess the person's category without an answer. How often are you right?
2. You see the answer and guess as well as possible. How often are you right? (For each answer, find the truth that is
   likeliest.)
3. After which answer do you *not* guess what you heard?
4. With ε = 3, how often are you right? Compare with the most that any mechanism with this ε allows, the largest of
   e<sup>ε</sup> · (θ₁ + … + θⱼ)/(e<sup>ε</sup> + j − 1) over j.
""",
        (
            state("**1.** Guess the most common one: right in {} % of cases.", ("40", 100 * SPECIES[0])),
            state(
                "**2.** An answer is true with probability e/(e + 3) = {}, and each false one has {}. Take the "
                "largest "
                "θ(x) · P(y | x) for each y, and add: {} + {} + {} + {}.",
                ("0.475", ad.SRR(4, 1.0).transition_matrix()[0, 0]),
                ("0.175", ad.SRR(4, 1.0).transition_matrix()[0, 1]),
                *zip(
                    ("0.190", "0.143", "0.095", "0.070"),
                    (ad.SRR(4, 1.0).transition_matrix() * SPECIES).max(axis=1),
                    strict=True,
                ),
            ),
            state("You are right in {} % of cases.", ("50", 100 * ad.SRR(4, 1.0).best_guess(SPECIES))),
            "**3.** After the rarest category: 0.1 · 0.475 is less than 0.4 · 0.175, so you still guess the most "
            "common one.",
            state("**4.** In {} %;", ("87.0", 100 * ad.SRR(4, 3.0).best_guess(SPECIES))),
            state("the bound is {} %.", ("87.0", 100 * guess_bound(3.0, SPECIES))),
            "Randomized response reaches it here.",
        ),
        after=3,
    ),
    Problem(
        "Two diagnostics by hand",
        """
Four chains have five draws each:

| chain | | | | | |
|---|---|---|---|---|---|
| 1 | 4 | 6 | 5 | 7 | 3 |
| 2 | 5 | 4 | 6 | 5 | 5 |
| 3 | 9 | 8 | 10 | 9 | 9 |
| 4 | 4 | 5 | 5 | 6 | 5 |

1. Compute R-hat = √(((n − 1)/n · W + B)/W) and say what it tells you. Which chain would you look at?
2. Leave that chain out. What is R-hat now? May you publish the other three?
3. A program simulates 500 data sets and counts the rank of the truth among the draws, in ten bins: 92, 55, 41, 38, 30,
   29, 35, 44, 52, 84. If all were right, each bin would have about 50. Compute Σ(count − 50)²/50 and compare it with
   16.9, which chance exceeds in 5 % of cases.
4. Are the posteriors too wide or too narrow?
""",
        (
            state(
                "**1.** W = {}, the mean of the variances within the chains;",
                ("1.0", np.var(CHAINS, axis=1, ddof=1).mean()),
            ),
            state("B = {}, the variance of the four means.", ("4.0", np.mean(CHAINS, axis=1).var(ddof=1))),
            state("R-hat ≈ {}: the chains do not agree. Chain 3 is elsewhere.", ("2.19", classic_r_hat(CHAINS))),
            state("**2.** R-hat = {}.", ("0.89", classic_r_hat([CHAINS[0], CHAINS[1], CHAINS[3]]))),
            "No: dropping the chain that disagrees hides the problem. Chain 3 may be the one that found a second "
            "mode. Run longer, from other starts.",
            state(
                "**3.** The sum is {}, far above 16.9: the ranks are not uniform.",
                ("85.5", sum((c - 50) ** 2 / 50 for c in RANKS)),
            ),
            "**4.** Too narrow: the truth falls at both ends of the posterior too often.",
        ),
        after=6,
    ),
    Problem(
        "When the shares come out negative",
        """
300 people answer through randomized response with three categories and ε = 1. The answers are 160, 85 and 55.

1. Solve G·θ = (160, 85, 55)/300 for θ. What is wrong?
2. Write ten lines of Python that find the θ with the greatest likelihood, by the EM algorithm: repeat
   θ(x) ← mean over the answers y of θ(x) · P(y | x)/Σ θ(x′) · P(y | x′). What is θ?
3. Compute the posterior mean under a flat prior, on a grid over the triangle. Why is its third share larger than that
   of part 2?
""",
        (
            "**1.** θ(x) = (share of answers − q)/(p − q), with p = e/(e + 2) and q = 1/(e + 2).",
            state("The third share is {} %: negative.", ("−7.9", 100 * matrix_estimate(NEGATIVE, 1.0)[2])),
            state("**2.** The first share is {} %,", ("83", 100 * most_likely(NEGATIVE, 1.0)[0])),
            state("the second {} %,", ("17", 100 * most_likely(NEGATIVE, 1.0)[1])),
            state("and the third {} %.", ("0", 100 * most_likely(NEGATIVE, 1.0)[2])),
            state("**3.** The third mean is {} %.", ("3", 100 * negative_posterior()[2])),
            "The greatest likelihood is at the edge of the triangle. The posterior mean averages over all θ "
            "inside, and a share of a "
            "few percent fits the answers nearly as well as 0.",
        ),
        after=2,
    ),
)

EXAM = (
    Problem(
        "True or false?",
        """
Say *true* or *false*, with a reason of one sentence.

1. With a smaller ε, one answer reveals less.
2. Randomized response with ε = 1 is true in at most 73 % of cases, whatever the number of categories (two or more).
3. What a collector computes from the answers can increase the privacy loss.
4. An answer that a person with *no* never gives makes the loss infinite.
""",
        (
            "**1.** True: ε bounds the factor by which the odds change.",
            "**2.** True: with K categories it is true in e/(e + K − 1) of cases.",
            state(
                "For K = 2 that is {} %, and for larger K less.", ("73", 100 * ad.SRR(2, 1.0).transition_matrix()[0, 0])
            ),
            "**3.** False: nothing that is computed from the answers alone depends on the truth in any other way.",
            "**4.** True, if a person with *yes* can give it: the ratio has the denominator zero.",
        ),
        after=1,
        points=8,
    ),
    Problem(
        "An unfair coin",
        """
A person answers truthfully with probability 0.6. Otherwise a fair coin says *yes* or *no*.

1. Write down the table of P(answer | truth).
2. What is ε?
3. You believed that the truth is *yes* with probability 5 %, and hear *yes*. What do you believe now?
""",
        (
            "**1.** P(yes | yes) = 0.6 + 0.2 = 0.8, P(yes | no) = 0.2; the other row has the same numbers, exchanged.",
            state("**2.** ε = ln 4 ≈ {}.", ("1.39", ad.privacy_loss(np.array([[0.8, 0.2], [0.2, 0.8]])))),
            "**3.** The odds were 1 : 19. They become 4 : 19.",
            state("The belief is {} %.", ("17", belief(0.05, 4))),
        ),
        after=1,
        points=8,
    ),
    Problem(
        "Ten categories",
        """
Randomized response with ten categories.

1. How often is an answer true with ε = 2?
2. Which ε makes an answer true in half of the cases?
3. 40 % of the answers are “bus” with ε = 2. Estimate the share of people who take the bus.
""",
        (
            state("**1.** In e²/(e² + 9) ≈ {} % of cases.", ("45", 100 * ad.SRR(10, 2.0).transition_matrix()[0, 0])),
            state("**2.** e<sup>ε</sup> = 9, so ε = ln 9 ≈ {}.", ("2.2", math.log(9))),
            state(
                "**3.** (0.4 − q)/(p − q) with p = {} and q = 1/(e² + 9) = {}.",
                *zip(("0.451", "0.061"), ad.SRR(10, 2.0).transition_matrix()[0, :2], strict=True),
            ),
            state(
                "The share is {} %.",
                (
                    "87",
                    100
                    * (0.4 - ad.SRR(10, 2.0).transition_matrix()[0, 1])
                    / (ad.SRR(10, 2.0).transition_matrix()[0, 0] - ad.SRR(10, 2.0).transition_matrix()[0, 1]),
                ),
            ),
        ),
        after=2,
        points=9,
    ),
    Problem(
        "Two populations",
        """
Three categories, randomized response with e<sup>ε</sup> = 3. Of 10 people, 5 answer A, 3 answer B and 2 answer C.

1. Write P(answer A) as base + own · θ(A).
2. Compare θ = (0.8, 0.2, 0) with θ′ = (⅓, ⅓, ⅓). Which one makes the answers more likely, and by which factor?
""",
        (
            "**1.** P(A) = 1/5 + (2/5) · θ(A).",
            state(
                "**2.** Under θ the answers have probabilities {}, {} and {}, under θ′ each has ⅓.",
                *zip(
                    ("0.52", "0.28", "0.20"), ad.SRR(3, math.log(3)).transition_matrix() @ [0.8, 0.2, 0.0], strict=True
                ),
            ),
            state(
                "The factor is 0.52⁵ · 0.28³ · 0.20² · 3¹⁰ ≈ {}: the answers hardly tell the two apart.",
                (
                    "1.97",
                    math.exp(
                        log_likelihood([0.8, 0.2, 0.0], [5, 3, 2], math.log(3))
                        - log_likelihood([1 / 3] * 3, [5, 3, 2], math.log(3))
                    ),
                ),
            ),
        ),
        after=2,
        points=9,
    ),
    Problem(
        "Unary encoding",
        """
A person with category x sends K bits. Bit x is 1 with probability ½. Each other bit is 1 with probability q =
1/(e<sup>ε</sup> + 1). All bits are independent.

1. Show that any message z has only two probabilities, and that their ratio is e<sup>ε</sup>. To which set of categories
   does z point?
2. With e<sup>ε</sup> = 3, somebody sends the bits 1, 0, 1 for A, B, C. How many times more likely is that from a person
   with A than from one with B?
3. All three categories are equally likely beforehand. What is the probability that this person has B?
""",
        (
            "**1.** Let z have m ones. If bit x is 1: ½ · q<sup>m−1</sup> · (1 − q)<sup>K−m</sup>. If bit x is "
            "0: ½ · q<sup>m</sup> · (1 − "
            "q)<sup>K−m−1</sup>. The ratio is "
            "(1 − q)/q = e<sup>ε</sup>. So z points to the categories whose bits are 1.",
            state("**2.** {} times.", ("3", (1 - 1 / 4) / (1 / 4))),
            state("**3.** 1/(3 + 1 + 3) ≈ {} %.", ("14", 100 / 7)),
        ),
        after=4,
        points=10,
    ),
    Problem(
        "The price of privacy",
        """
Two categories, about half of the people in each. An answer with ε carries the share s = (e<sup>ε</sup> −
1)/(e<sup>ε</sup> + 1) of the signal.

1. At ε = 1, 5,000 people give an interval that is narrow enough. How many do you need at ε = 0.5?
2. How many would you need without privacy?
3. You can pay for 20,000 answers. Find the smallest ε for which they suffice.
""",
        (
            state(
                "**1.** 5,000 · ({}/{})² ≈ {} people.",
                ("0.4621", signal(1)),
                ("0.2449", signal(0.5)),
                ("17,800", 5000 * (signal(1) / signal(0.5)) ** 2),
            ),
            state("**2.** 5,000 · 0.4621² ≈ {} people.", ("1,068", 5000 * signal(1) ** 2)),
            "**3.** s may be half of 0.4621. From s = (e<sup>ε</sup> − 1)/(e<sup>ε</sup> + 1) follows "
            "e<sup>ε</sup> = (1 + s)/(1 − s).",
            state("ε ≈ {}.", ("0.47", math.log((1 + signal(1) / 2) / (1 - signal(1) / 2)))),
        ),
        after=2,
        points=10,
    ),
    Problem(
        "A budget",
        """
A person answers the same yes/no question in three waves with ε = 0.5 each, freshly randomized, and one more question
with ε = 1.

1. What is the loss of everything together? By which factor can anybody's odds change at most?
2. Suppose that all three waves say *yes*. By which factor have the odds of *yes* changed?
3. The person wants to lose at most 1 in all for the waves. Name two ways, with the ε of each wave.
""",
        (
            state("**1.** Budgets add up: {}.", ("2.5", 3 * 0.5 + 1)),
            state("The odds change by a factor of at most e<sup>2.5</sup> ≈ {}.", ("12.2", math.exp(2.5))),
            state("**2.** e<sup>1.5</sup> ≈ {}.", ("4.5", math.exp(1.5))),
            "**3.** Three fresh answers with ε = ⅓ each; or one permanent answer with ε = 1 that each wave "
            "randomizes again, with any ε for the second step.",
        ),
        after=3,
        points=8,
    ),
    Problem(
        "An improvement that leaks",
        """
Randomized response with two categories: an answer is true with probability ¾, freshly drawn every week. A programmer
finds it odd that many people give the same answer twice. So if the second answer would repeat the first, the device now
draws it once more.

1. What is the promised loss of two answers?
2. A person's truth is *yes*. What is the probability of *yes* twice? What is it for a person with *no*?
3. What is the true loss of the two answers?
4. Does an audit of single answers find the fault? Explain.
""",
        (
            state("**1.** 2 · ln 3 ≈ {}.", ("2.2", 2 * math.log(3))),
            state("**2.** ¾ · (¾ · ¾) = 27/64 ≈ {}", ("0.422", 27 / 64)),
            state("and ¼ · (¼ · ¼) = 1/64 ≈ {}.", ("0.016", 1 / 64)),
            state("**3.** The ratio is 27: ln 27 ≈ {}.", ("3.3", pair_loss())),
            "No other pair has a larger ratio.",
            "**4.** Not of the first answer, which is as it was. What must be audited is the table of "
            "*everything* that the collector receives from a "
            "person: here, of pairs.",
        ),
        after=3,
        points=10,
    ),
    Problem(
        "Read the diagnostics",
        """
Three samplers drew from the same posterior. “sd” is the standard deviation of the draws over that of a long run of
NUTS.

| sampler | R-hat | effective draws | sd |
|---|---|---|---|
| P | 1.00 | 3,900 | 1.9 |
| Q | 1.31 | 14 | 0.7 |
| R | 1.00 | 160 | 1.0 |

1. Which one do you use, and what do you do about its weakness?
2. What is wrong with P? Which of the first two columns finds it?
3. The posterior is normal. How often does the 95 % interval of a sampler with sd 0.5 contain the truth? And one with sd
   1.9?
4. Draw the histogram of ranks that you expect for a sampler with sd 0.5.
""",
        (
            "**1.** R: its chains agree and its sd is right. It mixes slowly, so let it run longer.",
            "**2.** Its draws are too wide. R-hat and effective draws do not find it: all chains agree on the "
            "wrong distribution.",
            state("**3.** With sd 0.5 in {} % of cases,", ("67", covered(0.5))),
            state("with 1.9 in {} %: such an interval is nearly twice as wide as it need be.", ("99.98", covered(1.9))),
            "**4.** It is shaped like a U: too many truths beyond the ends of a posterior that is too narrow.",
        ),
        after=6,
        points=9,
    ),
    Problem(
        "Noise that nobody planned",
        """
SGLD uses batches of m out of n answers and steps γ. Langevin needs noise of variance γ. The batch adds (γ/2)² · (n²/m)
· v, where v is the variance of one answer's gradient. For small steps the variance of the draws grows in proportion to
the noise.

1. n = 10,000, m = 100, γ = 0.5/n and v = 0.2. How many times as wide (in standard deviations) as the posterior are the
   draws?
2. Which m makes them at most 5 % too wide?
3. Instead, you divide γ by 10 and keep m = 100. How wide are they? What do you pay?
""",
        (
            state(
                "**1.** √(1 + γ n² v/(4m)) = √(1 + 2.5) ≈ {} times.",
                ("1.87", width_of_sgld(10_000, 100, 0.5 / 10_000, 0.2)),
            ),
            "**2.** γ n² v/(4m) ≤ 1.05² − 1 = 0.1025, so m ≥ 250/0.1025,",
            state(
                "that is {} answers: a quarter of all.", ("2,440", math.ceil(0.5 * 10_000 * 0.2 / (4 * (1.05**2 - 1))))
            ),
            state("**3.** √(1 + 0.25) ≈ {} times.", ("1.12", width_of_sgld(10_000, 100, 0.05 / 10_000, 0.2))),
            "Each step moves less: you need about ten times as many for as many effective draws.",
        ),
        after=5,
        points=9,
    ),
)
