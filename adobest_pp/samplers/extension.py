"""More draws of a run that has ended."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count
from adobest_pp._progress import raising_interrupts
from adobest_pp.answers.draws import responses_of, theta_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.samplers.checks import DIVERGED, NOT_CONVERGED, warn_of_problems, without_warnings_of
from adobest_pp.samplers.gibbs import gibbs_draws
from adobest_pp.samplers.sampling import add_log_likelihood, recorded_arguments, sample

if TYPE_CHECKING:
    import xarray as xr


@raising_interrupts()
def extend(tree: "xr.DataTree", draws: int, progressbar: bool = True) -> "xr.DataTree":
    """Return a run of `sample` with more draws in each chain. The tree itself is left as it is.

    Parameters
    ----------
    tree : xarray.DataTree
        As `sample` returned it, or as read from its file. It has the responses and the settings.
    draws : int
        Draws to add to each chain.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    xarray.DataTree
        With the old draws and the new ones behind them. ``attrs["extended_by"]`` lists the draws of each call:
        `sample` with the recorded arguments, and then `extend` with each of these, give the same draws again.

    Notes
    -----
    Each sampler goes on in the way that leaves its draws what they were.

    - ``"gibbs"``: from the last draw of each chain. θ is all of its state, so there is nothing to discard.
    - ``"nuts"`` and ``"sgld_cv"``, and a sampler of your own: the step and the metric are not in the draws, so each
      chain tunes again, as many draws as before and with a seed of its own. Tuning draws are discarded: what is added
      is of the posterior.
    - ``"sgld"`` and other names for its pieces: the draws depend on where a chain started and how many updates it
      made, so the run is made again, of the same seed, with more draws. The old draws come out as they were, but for
      the last 200 at most.

    See Also
    --------
    sample : The first run.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> tree = ad.sample(responses, "gibbs", draws=200, random_seed=1)
    >>> longer = ad.extend(tree, 300)
    >>> longer.posterior.sizes["draw"], longer.attrs["extended_by"]
    (500, [300])
    """
    theta = theta_of(tree)
    responses = responses_of(tree)
    if responses is None:
        raise ValueError("tree must hold the group responses, as of `sample`, got one without them")
    arguments = recorded_arguments({str(name): value for name, value in tree.attrs.items()})
    more = check_count(draws, "draws")
    if "schedule" in arguments:  # "sgld", and what is made of its pieces
        arguments |= {"draws": arguments["draws"] + more, "log_likelihood": "log_likelihood" in tree}
        return sample(responses, progressbar=progressbar, **arguments)
    before = [int(count) for count in np.atleast_1d(tree.attrs.get("extended_by", []))]
    if theta.sizes["draw"] != arguments["draws"] + sum(before):
        raise ValueError(f"tree must have all of its draws, got {theta.sizes['draw']} in each chain")
    seed = int(np.random.SeedSequence([arguments["random_seed"], theta.sizes["draw"]]).generate_state(1)[0])
    if arguments["sampler"] == "gibbs":
        added = _more_gibbs(theta.values[:, -1], responses.evidence(), arguments["prior"], more, seed)
        parts = {"posterior": {"theta": added[0]}, "sample_stats": {"gibbs_distance": added[1]}}
    else:
        with without_warnings_of(NOT_CONVERGED, DIVERGED):
            new = sample(responses, **arguments | {"draws": more, "random_seed": seed}, progressbar=progressbar)
        parts = {
            group: {str(name): variable.values for name, variable in new[group].to_dataset().data_vars.items()}
            for group in ("posterior", "sample_stats")
        }
    return _joined(tree, parts, responses, [*before, more])


def _more_gibbs(
    start: NDArray[np.float64], evidence: Evidence, prior: Any, n_draws: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return more sweeps of each chain from its last θ, and the distances between successive θ."""
    chains, k = start.shape
    draws = np.empty((chains, n_draws, k))
    concentration = np.full(k, np.asarray(prior, dtype=np.float64))
    for chain, rng in enumerate(np.random.default_rng(seed).spawn(chains)):
        gibbs_draws(rng, start[chain].copy(), concentration, evidence, draws[chain])
    steps = np.diff(np.concatenate([start[:, None], draws], axis=1), axis=1)
    return draws, 0.5 * np.abs(steps).sum(axis=2)


def _joined(
    tree: "xr.DataTree",
    parts: dict[str, dict[str, NDArray[Any]]],
    responses: Responses | Gathered,
    extended_by: list[int],
) -> "xr.DataTree":
    """Return the tree with the new draws behind the old ones, and its checks made again."""
    import xarray as xr

    joined = tree.copy()
    for group, variables in parts.items():
        old = tree[group].to_dataset().transpose("chain", "draw", ...)
        kept = old[[name for name in old.data_vars if name in variables and "draw" in old[name].dims]]
        if not kept.data_vars:  # a sampler without stats
            continue
        new = xr.Dataset({name: (kept[name].dims, variables[str(name)]) for name in kept.data_vars})
        both = xr.concat([kept.drop_vars("draw"), new], "draw", coords="minimal", compat="override", join="override")
        joined[group] = xr.DataTree(both.assign_coords(draw=np.arange(both.sizes["draw"])).assign_attrs(old.attrs))
    joined.attrs = {**tree.attrs, "extended_by": extended_by}
    warn_of_problems(joined, responses.evidence(), tree.attrs["sampler"], tree.attrs["prior_concentration"])
    if "log_likelihood" in tree and isinstance(responses, Responses):
        add_log_likelihood(joined, responses)
    return joined
