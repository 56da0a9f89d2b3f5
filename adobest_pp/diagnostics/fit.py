"""Check whether the answers fit the mechanism that they are read under."""

from typing import TYPE_CHECKING

import numpy as np

from adobest_pp.answers.draws import responses_of, shares_of, theta_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.likelihood.without_prior import FALSE_ALARM, LEVEL, check_fit

if TYPE_CHECKING:
    import xarray as xr


def goodness_of_fit(
    tree: "xr.DataTree", responses: Responses | Gathered | None = None, *, var_name: str | None = None
) -> "xr.Dataset":
    """Check whether the answers fit their mechanism.

    Answers that are read with the wrong ε, subsets or mechanism give a posterior that looks as certain as any other.
    This check finds answers that no θ explains.

    Parameters
    ----------
    tree : DataTree
        From `sample`, or from `pymc.sample` for a model with `PrivateResponse`. Its draws must be shares of the same
        categories, but are not used: the check is of the answers alone, whatever the prior and the sampler.
    responses : Responses or Gathered
        The answers; by default those in the group ``responses`` of the tree, which a tree of `pymc.sample` lacks.
    var_name : str, optional
        The variable with the shares; by default ``theta``, or else the only one that sums to one along a dimension. It
        may have further dimensions, such as region. The check is then of all answers together. It assumes that
        published subsets do not depend on the region.

    Returns
    -------
    xarray.Dataset
        ``p_value``; ``fits``, whether it is above the attribute ``level``; ``statistic``, the least distance of the
        answer counts from what any θ predicts, in units of their covariance; ``freedom``, the degrees of freedom of
        that distance; and ``spare``, how many of them θ cannot absorb. Without answers to count the p-value is NaN and
        ``fits`` is true.

    Notes
    -----
    **What is counted.** SRR, unary encoding and local hashing: each category (of more than 500 categories, 500 evenly
    spaced ones). RRRR: each category inside and outside the published subset, and answers inside the subset by its
    size. Hadamard response: each answer, up to 1,024 of them. Projective geometry response and count-mean sketch: each
    answer; of more than 1,024, those orthogonal to a category or to a point without a category, and those of some of
    the hashes. Subset selection: answers that contain a category, and answers that contain both of two categories:
    neighbors in the list, or the most probable category and another. Counts with an expectation below 10 under even
    shares are left out: SRR needs ten answers for each category to be checked.

    **Two tests.** At the true θ the squared distance of the counts follows χ². Its least value over vectors of sum 1,
    of whatever signs, follows χ² with ``spare`` degrees of freedom. What restricting θ to probabilities adds is at most
    χ² with the other ``freedom − spare``. The p-value is twice the smaller of the two, or the only one there is.

    **False alarms.** At the level of 0.01, at most 1 % of correct answers are said not to fit (the attribute
    ``false_alarm``), for any true θ and prior. The second test alone is conservative: if ``spare`` is 0, hardly any
    correct answers are. `validation/goodness_of_fit.py` measures this rate for K = 2 to 500, and shows which
    faults are found.

    **What can be found.** If ``spare`` is above 0, a fault that moves the counts in a direction in which no θ moves
    them. Unary encoding has one such direction, the number of ones in an answer: some thousand answers reveal an ε that
    is wrong by 10 %. RRRR has such directions if several subsets were published: wrong subsets and renamed answers are
    found. Under subset selection, sets that are not drawn uniformly are found.

    **What cannot be found.** Answers with a smaller ε than stated look like answers of a more even θ, and those with a
    slightly larger ε like answers of a less even θ. Under SRR and subset selection they are not found, unless the
    larger ε leaves rare categories with fewer answers than any θ does. Renamed categories are not found without
    subsets.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=2.0))
    >>> run = ad.simulate_adaptive([0.6, 0.3, 0.1], policy, n_people=2000, random_seed=1)
    >>> tree = ad.sample(run.responses, random_seed=1, progressbar=False)
    >>> bool(ad.diagnostics.goodness_of_fit(tree).fits)
    True
    """
    import xarray as xr

    if not isinstance(tree, xr.DataTree):
        theta_of(tree)  # raises ValueError
    given = responses_of(tree) if responses is None else responses
    if given is None:
        shares_of(tree, var_name=var_name)
        raise ValueError("responses must be given for a tree without answers: pass those of the model, got None")
    check_responses(given)
    shares_of(tree, var_name=var_name, categories=given.categories)
    found = check_fit(given)
    values = found._asdict() | {"fits": not found.p_value <= LEVEL}
    return xr.Dataset(
        {name: ((), np.asarray(value), {"long_name": LONG_NAMES[name]}) for name, value in values.items()},
        attrs={"level": LEVEL, "false_alarm": FALSE_ALARM, "n_responses": len(given)},
    )


LONG_NAMES = {
    "p_value": "p-value of the answer counts",
    "fits": "whether the p-value is above the level",
    "statistic": "least squared distance of the counts from what a θ predicts",
    "freedom": "degrees of freedom of the distance",
    "spare": "degrees of freedom that θ cannot absorb",
}
