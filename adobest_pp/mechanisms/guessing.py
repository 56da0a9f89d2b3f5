"""How likely the best guess of x is right, given one answer: Σ_z max_x θ_x·P(z|x), the Bayes vulnerability [1]_.

Most mechanisms have too many answers to sum over. If an answer z has probability w_z, and e^ε·w_z for the categories of
its support set A, only the most frequent member of A matters. If θ is in descending order and that member has place r,
the answer contributes w_z·max(e^ε·θ_r, θ_1).

References
----------
.. [1] G. Smith (2009), On the foundations of quantitative information flow, FoSSaCS.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_probabilities, check_real
from adobest_pp._types import Floats, Integers, Masks


def guess_bound(epsilon: float, theta: ArrayLike) -> float:
    """Return an upper bound on how likely the best guess of a person's category is right, for any ε-LDP mechanism.

    It holds for one answer of any mechanism, and for all answers of a person together if ε is the sum of their budgets.
    Randomized response among the j most frequent categories attains it.

    Parameters
    ----------
    epsilon : float
        Privacy budget, at least 0.
    theta : array of shape (K,)
        The shares of the categories, which the guesser may know.

    Returns
    -------
    float
        The largest e^ε·(θ_1 + … + θ_j)/(e^ε + j − 1) over j, with θ in descending order. Without any answer it is θ_1.

    See Also
    --------
    Mechanism.best_guess : The probability for one mechanism.

    Notes
    -----
    A guess is a function of the answers, so it is itself an ε-LDP mechanism, with Q(y|x) the probability to guess y.
    With q_y = min_x Q(y|x), it guesses x right with probability Q(x|x) ≤ min(e^ε·q_x, 1 − Σ_{y≠x} q_y). The
    largest Σ_x θ_x·Q(x|x) under these bounds is a linear program, whose vertices are equal q for j categories.

    Examples
    --------
    >>> from adobest_pp.mechanisms import guess_bound
    >>> round(guess_bound(1.0, [0.25, 0.25, 0.25, 0.25]), 4)
    0.4754
    """
    budget = check_real(epsilon, "epsilon", "a finite number of at least 0", lambda x: 0 <= x < math.inf)
    shares = np.sort(check_probabilities(theta))[::-1]
    others = np.arange(shares.size)
    return float(np.max(np.cumsum(shares) / (1 + others * math.exp(-budget))) / shares.sum())


def guess_from_matrix(matrix: Floats, theta: Floats) -> float:
    """Return Σ_y max_x θ_x·G[y, x]."""
    return float((matrix * theta).max(axis=1).sum())


def guess_from_members(
    theta: Floats, odds: float, weight: float, n_outputs: int, is_member: Callable[[int, Integers], Masks]
) -> float:
    """Return `guess_from_sets` for n answers of equal weights, whose sum is `weight`.

    Go through the categories by falling share, and keep the answers whose sets contain none of them so far.
    ``is_member(x, answers)`` says which of the sets contain x.
    """
    order, left = np.argsort(-theta, kind="stable"), np.arange(n_outputs)
    first = np.zeros(theta.size)
    for place, x in enumerate(order.tolist()):
        held = is_member(x, left)
        first[place] = np.count_nonzero(held)
        left = left[~held]
        if not left.size:
            break
    return guess_from_sets(theta[order], odds, first / n_outputs, weight)


def guess_from_sets(theta: Floats, odds: float, first: Floats, weight: float) -> float:
    """Return the probability of a right guess from the support set of an answer, with θ in descending order.

    For each place in this order, `first` has the share of the answers, by their weights w_z, whose most frequent
    category is there. The rest, if the sum is below 1, are answers with an empty set. `weight` is the sum of all w_z.
    """
    empty = max(0.0, 1.0 - float(first.sum()))
    return weight * float(first @ np.maximum(odds * theta, theta[0]) + empty * theta[0])
