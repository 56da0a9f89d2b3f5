"""Check whether the answers fit the mechanism that they are read under."""

from typing import TYPE_CHECKING

import numpy as np

from adobest_pp.data.draws import responses_of, theta_of
from adobest_pp.data.gathered import Gathered, check_responses
from adobest_pp.data.responses import Responses
from adobest_pp.likelihood.answer_fit import FALSE_ALARM, LEVEL, check_fit

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FALSE_ALARM", "LEVEL", "goodness_of_fit"]


def goodness_of_fit(tree: "xr.DataTree", responses: Responses | Gathered | None = None) -> "xr.Dataset":
    """Check whether the answers fit their mechanism, by a posterior predictive p-value.

    Answers that are read under the wrong ε, the wrong subsets or the wrong mechanism give a posterior that looks as
    certain as any other. This check finds them.

    Parameters
    ----------
    tree : DataTree
        Of `sample`, by an exact sampler: ``posterior/theta`` by chain, draw and category.
    responses : Responses or Gathered
        The answers; by default those in ``observed_data`` of the tree.

    Returns
    -------
    xarray.Dataset
        ``p_value``; ``fits``, whether it is above the attribute ``level``; ``statistic``, the mean over draws of the
        distance of the answer counts from what the draw predicts, in units of their covariance; ``freedom``, the
        degrees of freedom of that distance; and ``spare``, how many of them θ cannot absorb. Without answers to count
        the p-value is NaN and ``fits`` is true.

    Notes
    -----
    **What is counted.** SRR: each category. RRRR: each category inside and outside the published subset, and answers
    inside the subset by its size. Subset selection: answers that hold a category, two categories that are listed side
    by side, or the most probable category and another. For a draw of θ the distance follows χ² given the subsets;
    `p_value` is the mean over draws of its tail probability [1]_.

    **False alarms.** Posterior predictive p-values are conservative: right answers have a p-value of at most α in at
    most 2α of all cases [2]_, and usually in far fewer. The level is 0.005, so at most 1 % of right answers are said
    not to fit (the attribute ``false_alarm``). `validation/goodness_of_fit.py` measures this rate, and which faults are
    found.

    **What cannot be found.** Where ``spare`` is 0, as for SRR and for RRRR under one subset, some θ explains nearly any
    counts, and only counts that no θ explains are found. So answers of a smaller ε than stated are not found in SRR and
    in subset selection: they look like answers of a more even θ. Renamed categories are not found without subsets.

    References
    ----------
    .. [1] A. Gelman, X.-L. Meng and H. Stern (1996), Posterior predictive assessment of model fitness via realized
       discrepancies, Statistica Sinica 6.
    .. [2] X.-L. Meng (1994), Posterior predictive p-values, Annals of Statistics 22(3).

    Examples
    --------
    >>> import adobest_pp as ad
    >>> run = ad.simulate([0.6, 0.3, 0.1], ad.RRRR(3, epsilon=2.0), n_people=2000, random_seed=1)
    >>> tree = ad.sample(run.responses, random_seed=1, progressbar=False)
    >>> bool(ad.diagnostics.goodness_of_fit(tree).fits)
    True
    """
    import xarray as xr

    theta_of(tree)
    told = responses_of(tree) if responses is None else responses
    if told is None:
        raise ValueError("responses must be given for a tree without them in observed_data, got None")
    check_responses(told)
    draws = theta_of(tree, categories=told.categories).values
    found = check_fit(draws.reshape(-1, told.n_categories), told)
    values = found._asdict() | {"fits": not found.p_value <= LEVEL}
    return xr.Dataset(
        {name: ((), np.asarray(value), {"long_name": LONG_NAMES[name]}) for name, value in values.items()},
        attrs={"level": LEVEL, "false_alarm": FALSE_ALARM, "n_responses": len(told)},
    )


LONG_NAMES = {
    "p_value": "posterior predictive p-value of the answer counts",
    "fits": "whether the p-value is above the level",
    "statistic": "mean distance of the counts from their prediction",
    "freedom": "degrees of freedom of the distance",
    "spare": "degrees of freedom that θ cannot absorb",
}
