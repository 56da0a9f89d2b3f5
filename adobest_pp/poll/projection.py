"""What the projector shows: estimates of the answers so far, what they would be elsewhere, and one person to guess.

Every function takes responses and returns plain values, ready for JSON. None of them knows who answered what.

The page (``pages/projector.js``) draws events of the server, each the state of the poll as one JSON object: ``title``,
``joined``, ``answered``, ``open``, ``address``, ``qr`` (an SVG), ``hash`` (of the device module), ``total_epsilon`` and
``questions``. A question has ``text``, ``categories``, ``mechanism``, ``epsilon``, ``answers``, ``least``
(`LEAST_ANSWERS`), ``estimate`` (of `estimate`), ``history`` (``n``, ``half_width`` and ``honest_half_width`` of earlier
estimates), and where they apply ``round``, ``rounds``, ``subset`` and ``can_advance``. It calls ``projector/events``,
``guess``, ``elsewhere``, ``next``, ``close`` and ``export`` with the key in the header ``Authorization``. With
``steps``, those of ``class_plan.json``, it goes through a lesson plan: what to say, and which panels to show.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._dirichlet import draw_people
from adobest_pp._wording import intervals_in_words
from adobest_pp.answers.responses import Responses
from adobest_pp.intervals import privacy_share, summary
from adobest_pp.mechanisms import SubsetSelection
from adobest_pp.samplers.choice import quick_sample

# Draws of each of four chains: a fit takes a fraction of a second, and its Monte Carlo error is below a pixel.
DRAWS = 500
# Dots on the triangle.
SHOWN_DRAWS = 400
# An estimate from fewer answers says nothing.
LEAST_ANSWERS = 5


def estimate(responses: Responses, seed: int) -> dict[str, Any] | None:
    """Return shares with 95 % intervals and the half-widths of as many honest answers; None for too few answers.

    ``mean``, ``lower``, ``upper`` and ``words`` are by category, ``half_width`` and ``honest_half_width`` averaged over
    the categories. For three categories there are some posterior draws, too, to show on a triangle.
    """
    if len(responses) < LEAST_ANSWERS:
        return None
    tree = quick_sample(responses, "learned", DRAWS, seed)
    shown, widths = summary(tree), privacy_share(tree)
    found: dict[str, Any] = {name: shown[name].values.tolist() for name in ("mean", "lower", "upper")}
    found |= {
        "n": len(responses),
        "words": intervals_in_words(shown),
        "half_width": float(widths["width"].mean()) / 2,
        "honest_half_width": float(widths["honest_width"].mean()) / 2,
    }
    if responses.n_categories == 3:
        draws = tree["posterior"]["theta"].stack(all=("chain", "draw")).transpose("all", "category").values
        found["draws"] = draws[:: max(1, len(draws) // SHOWN_DRAWS)].round(4).tolist()
    return found


def guess(responses: Responses, shares: NDArray[np.float64], person: int) -> dict[str, Any]:
    """Return what one sent answer reveals about the person behind it: beliefs before and after, and the best guess.

    The beliefs before are the estimated shares, the most that anybody can know about a person who is like everybody
    else. The odds between two categories change by a factor of at most e^ε.
    """
    evidence, index = responses.evidence_and_index()
    likelihood = evidence.matrix()[index[person]]  # under each category, up to a factor
    after = shares * likelihood
    after = after / after.sum()
    best = int(np.argmax(after))
    named = np.flatnonzero(likelihood >= likelihood.max() * (1 - 1e-9))
    return {
        "answer": [responses.categories[i] for i in named],
        "before": shares.tolist(),
        "after": after.tolist(),
        "best": responses.categories[best],
        "right": float(after[best]),
        "largest_factor": float(likelihood.max() / likelihood.min()),
        "allowed_factor": math.exp(float(responses.epsilons[person])),
    }


def elsewhere(responses: Responses, shares: NDArray[np.float64], epsilon: float, seed: int) -> dict[str, Any] | None:
    """Return the estimate of as many **simulated** people, with these shares as the truth, at another ε.

    They answer by subset selection, whatever the real people did. No real answer is used.
    """
    rng = np.random.default_rng(seed)
    mechanism = SubsetSelection(responses.n_categories, epsilon)
    people = draw_people(rng, shares / shares.sum(), len(responses))
    answers = mechanism.privatize(people, rng=rng)
    found = estimate(Responses.from_arrays(mechanism, answers, categories=responses.categories), seed)
    return None if found is None else found | {"epsilon": epsilon, "simulated": True}
