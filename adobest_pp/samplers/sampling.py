"""One call from responses to labelled draws."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adobest_pp import __version__
from adobest_pp._checks import check_count, check_flag, check_integer, check_prior, check_total, is_learned
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp.answers.gather.gathered import Gathered, check_responses
from adobest_pp.answers.responses import Responses
from adobest_pp.likelihood.answer_fit import check_fit, misfit_in_words
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.samplers.checks import logger, warn_of_long_steps, warn_of_problems
from adobest_pp.samplers.choice import packed_sets
from adobest_pp.samplers.gibbs import Block, gibbs_chain
from adobest_pp.samplers.sgld.loop import Langevin, sgld_chain
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.samplers.sgld_cv.control_variates import PackedSets
from adobest_pp.samplers.sgld_cv.sampler import LEAST_TUNE, sgld_cv_draws

if TYPE_CHECKING:
    import xarray as xr

SAMPLERS = ("nuts", "gibbs", "sgld", "sgld_cv")
RECORDED_OPTIONS = ("batch_size", "schedule", "updates_per_draw", "diffusion", "gradient")
SGLD_OPTIONS = (*RECORDED_OPTIONS, "step_size")

# The paper makes this many updates for each person that answers.
UPDATES_PER_DRAW = 20


@raising_interrupts()
def sample(
    responses: Responses | Gathered,
    sampler: str = "nuts",
    prior: ArrayLike | Literal["learned"] = 1.0,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    progressbar: bool = True,
    log_likelihood: bool = False,
    **options: Any,
) -> "xr.DataTree":
    """Draw category frequencies θ from their posterior given randomized answers.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected, or what `gather` has counted. Of answers that hardly ever repeat, which `gather` keeps in a
        store, only ``"sgld_cv"`` reads batches; the other samplers read all of them into memory.
    sampler : {"nuts", "gibbs", "sgld", "sgld_cv"}
        ``"nuts"`` is the reference: exact and fast to mix. ``"gibbs"`` is exact, and slow to mix for small ε.
        ``"sgld"`` is the paper's reflected stochastic-gradient Langevin dynamics: only as exact as its steps are
        small. ``"sgld_cv"`` samples the posterior: stochastic gradients with control variates, and every choice made
        for you (`adobest_pp.samplers.sgld_cv.sampler`); the fastest, above all where answers are many and all
        different.
    prior : float or array of shape (K,) or "learned", default 1.0
        Concentration ρ of the Dirichlet prior; K of them with labels are put in the order of the categories. With
        ``"learned"``, for ``"nuts"`` and ``"sgld_cv"``, it is one number a for all categories, learned from the answers
        with ln a ~ N(−2, 2²). Estimates that are shown elsewhere (collections, reports, commands) use it, as it is
        more accurate where most categories may be empty; here the default is the paper's, which every sampler takes.
        For intervals see `intervals.summary`: they hold a share under either.
    draws, tune, chains : int
        Draws kept of each chain, draws discarded before them (at least one for ``"nuts"``, and 100 for
        ``"sgld_cv"``, whose pilots they are), and chains.
    random_seed : int, optional
        The same seed gives the same draws. One is chosen and recorded if none is given.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.
    log_likelihood : bool, default False
        Whether to keep the log-likelihood of each response under each draw, in ``log_likelihood/y``: what `arviz.loo`
        and `arviz.compare` need. It takes eight bytes for each response and draw.
    **options
        For ``"sgld"`` alone: `gradient`, `diffusion`, `batch_size`, `step_size`, `schedule` and `updates_per_draw`
        (here 20 by default) as of `SGLD`.

    Returns
    -------
    xarray.DataTree
        ``posterior/theta`` by chain, draw and category (and ``posterior/concentration`` by chain and draw where it is
        learned); ``sample_stats``; the responses in ``observed_data``. The attributes hold the run time
        (``sampling_time``, in seconds), ``fit_p_value`` of `diagnostics.goodness_of_fit`, and every setting:
        ``sample(responses, **adobest_pp.recorded_arguments(tree.attrs))`` repeats the run.

    Notes
    -----
    A warning is logged if chains have not come together (rank-normalized split R-hat above 1.05, or fewer than 25
    effective draws a chain), if draws do not move at all, if NUTS diverged, and, for concentrations below 0.1, if a
    category is empty, or has the majority, much more or less often than quadrature says. A prior of 0.05 and below
    often gives the last: its posterior has modes, with and without a category, that no sampler here moves between
    often. ``"sgld"`` with the paper's steps often gives the first: its chains start from draws of the prior, and need
    some hundred thousand updates for K = 20 and ε = 1. Raise `updates_per_draw`, or the step if you can accept its
    bias. Under a concentration below 1, ``"sgld"`` also warns if it is often reflected at zero: its steps cannot hold
    the mass that the prior has there, however short they are, and small shares come out too large.
    ``diffusion="cox_ingersoll_ross"`` is right there. With ``diffusion="log_ratio"`` it warns if steps are so long that
    the draws of small shares are too wide.

    A warning is logged as well if the answers do not fit the mechanism, with a false-alarm rate of at most 1 %.

    Ctrl-C raises KeyboardInterrupt, and a chain that does not finish raises RuntimeError: no incomplete draws are
    returned.

    See Also
    --------
    frequency_model : The PyMC model that this samples.
    extend : More draws of a run.
    SGLD, DataAugmentationGibbs : The same samplers for models of your own.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> tree = ad.sample(responses, "gibbs", draws=500, random_seed=1)
    >>> dict(tree.posterior.theta.sizes)
    {'chain': 4, 'draw': 500, 'category': 2}
    """
    check_responses(responses)
    if not isinstance(sampler, str) or sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got {brief(sampler)}")
    concentration = _check_prior(prior, responses, sampler)
    sizes = {
        "draws": check_count(draws, "draws"),
        "tune": _check_tune(tune, sampler),
        "chains": check_count(chains, "chains"),
    }
    check_total({"draws": sizes["draws"] + sizes["tune"], "chains": sizes["chains"], "K": responses.n_categories})
    seed = fresh_seed() if random_seed is None else check_integer(random_seed, "random_seed", 0, 2**63 - 1)
    check_flag(progressbar, "progressbar")
    settings = _settings(sampler, options)
    if check_flag(log_likelihood, "log_likelihood"):
        if not isinstance(responses, Responses):
            raise ValueError(
                "log_likelihood must be False for gathered answers, which are not kept one by one, got True"
            )
        check_total({"draws": sizes["draws"], "chains": sizes["chains"], "responses": len(responses)})

    began = time.perf_counter()
    packed = packed_sets(responses) if isinstance(responses, Gathered) else None
    if sampler == "nuts":
        from adobest_pp.samplers.nuts import describe_nuts, sample_nuts

        tree = sample_nuts(responses, prior=concentration, random_seed=seed, progressbar=progressbar, **sizes)
        details = describe_nuts()
    elif sampler == "sgld_cv":
        tree, choices = _sample_cv(responses, packed, concentration, seed, progressbar, **sizes)
        details = {"sampler_choices": json.dumps(choices)}
    else:
        assert not isinstance(concentration, str)
        tree = _sample_compiled(responses, concentration, seed, progressbar, settings, **sizes)
        details = {"sampler_settings": json.dumps(settings.describe())} if settings else {}
    elapsed = time.perf_counter() - began
    if isinstance(concentration, str):
        details["learned_prior"] = "Dirichlet(a, …, a), ln a ~ N({:g}, {:g}²)".format(*LOG_CONCENTRATION)
    known = None if packed else responses.evidence()
    warn_of_problems(tree, known, sampler, concentration, settings.updates_per_draw if settings else 1)
    details["fit_p_value"] = _check_answer_fit(responses)
    if log_likelihood and isinstance(responses, Responses):
        add_log_likelihood(tree, responses)
    return _labelled(
        tree,
        responses,
        {
            "sampler": sampler,
            "prior": concentration,
            **sizes,
            "random_seed": seed,
            **details,
            "sampling_time": elapsed,
        },
    )


def recorded_arguments(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `sample`, but for the responses, that repeat a run.

    Parameters
    ----------
    attributes : mapping
        ``attrs`` of what `sample` returned, or of its file. They cannot hold a schedule that is a function of your own:
        that raises ValueError.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> tree = ad.sample(responses, "sgld", draws=50, batch_size=None)
    >>> again = ad.sample(responses, **ad.recorded_arguments(tree.attrs))
    >>> bool((again.posterior.theta == tree.posterior.theta).all())
    True
    """
    names = ("sampler", "prior", "draws", "tune", "chains", "random_seed")
    missing = [name for name in names if not isinstance(attributes, Mapping) or name not in attributes]
    if missing:
        raise ValueError(f"attributes must be those of what `sample` returned, but {', '.join(missing)} are not there")
    found = {name: attributes[name] for name in names}
    if "sampler_settings" not in attributes and found["sampler"] != "sgld":
        return found
    written: Any = attributes.get("sampler_settings")
    try:
        options = json.loads(written)
    except (TypeError, ValueError, RecursionError):
        options = None
    if not isinstance(options, dict) or "schedule" not in options:
        raise ValueError(f"sampler_settings must be as `sample` wrote it, got {brief(written)}")
    known = {name: options[name] for name in RECORDED_OPTIONS if name in options}
    return found | LangevinSettings.options(known)


def _check_prior(prior: Any, responses: Responses | Gathered, sampler: str) -> NDArray[np.float64] | str:
    """Return the concentrations, or "learned", or raise ValueError."""
    if not isinstance(prior, str):
        return check_prior(prior, responses.n_categories, responses.categories)
    allowed = f"a positive number, or {responses.n_categories} of them"
    if sampler not in ("nuts", "sgld_cv"):
        raise ValueError(f"prior must be {allowed}, for {sampler!r}, got {brief(prior)}")
    if not is_learned(prior):
        raise ValueError(f"prior must be {allowed}, or 'learned', got {brief(prior)}")
    return prior


def _check_tune(tune: Any, sampler: str) -> int:
    """Return the number of draws to discard, or raise ValueError; NUTS needs some to find its step size."""
    least = {"nuts": 1, "sgld_cv": LEAST_TUNE}.get(sampler, 0)
    return check_count(tune, f"tune of {sampler!r}" if least else "tune", least)


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, to be recorded with what it gives."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def _settings(sampler: str, options: dict[str, Any]) -> LangevinSettings | None:
    if sampler != "sgld":
        if options:
            raise ValueError(f"options must be left out for {sampler!r}, got {', '.join(options)}")
        return None
    for name in options:
        if name not in SGLD_OPTIONS:
            raise ValueError(f"options must be among {', '.join(SGLD_OPTIONS)} for 'sgld', got {name!r}")
    return LangevinSettings.of(**{"updates_per_draw": UPDATES_PER_DRAW} | options)


def _sample_compiled(
    responses: Responses | Gathered,
    prior: NDArray[np.float64],
    seed: int,
    progressbar: bool,
    settings: LangevinSettings | None,
    *,
    draws: int,
    tune: int,
    chains: int,
) -> "xr.DataTree":
    """Run the chains one after the other and stack them."""
    if isinstance(responses, Responses):
        evidence, row_of = responses.evidence_and_index()
    else:
        evidence, row_of = responses.evidence(), None
    langevin = None if settings is None else Langevin(evidence, row_of, prior, settings)

    def chain(rng: np.random.Generator) -> Iterator[Block]:
        if langevin is None:
            return gibbs_chain(evidence, prior, tune + draws, rng)
        return sgld_chain(langevin, tune + draws, rng)

    thetas, stats = [], []
    with SlowProgress(chains * (tune + draws), "Sampling", progressbar) as progress:
        for rng in np.random.default_rng(seed).spawn(chains):
            theta, stat = _collect(chain(rng), tune, progress.advance)
            thetas.append(theta)
            stats.append(stat)
    statistics = {name: np.stack([stat[name] for stat in stats]) for name in stats[0]}
    if langevin is not None:
        warn_of_long_steps(langevin.log_share_variance * float(statistics["sgld_step_size"].max(initial=0.0)), prior)
    return _tree({"theta": np.stack(thetas)}, statistics, responses)


def _sample_cv(
    responses: Responses | Gathered,
    packed: PackedSets | None,
    prior: NDArray[np.float64] | str,
    seed: int,
    progressbar: bool,
    **sizes: int,
) -> tuple["xr.DataTree", dict[str, Any]]:
    """Run SGLD with control variates; return the draws with their labels, and what was chosen."""
    with SlowProgress(sizes["chains"] * (sizes["tune"] + sizes["draws"]), "Sampling", progressbar) as progress:
        evidence = packed or responses.evidence()
        variables, stats, choices = sgld_cv_draws(evidence, prior, seed=seed, advance=progress.advance, **sizes)
    return _tree(variables, stats, responses), choices


def _tree(
    variables: Mapping[str, NDArray[np.float64]], stats: Mapping[str, NDArray[Any]], responses: Responses | Gathered
) -> "xr.DataTree":
    """Return arrays by chain and draw (and, for θ, category) with their labels."""
    import xarray as xr

    dims = ("chain", "draw", "category")
    chains, draws, _ = variables["theta"].shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    posterior = {name: (dims[: values.ndim], values) for name, values in variables.items()}
    statistics = {name: (dims[:2], values) for name, values in stats.items()}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, coords | {"category": list(responses.categories)}),
            "sample_stats": xr.Dataset(statistics, coords),
        }
    )


def _collect(blocks: Iterator[Block], tune: int, advance: Callable[[int], None]) -> Block:
    thetas, stats = [], []
    for theta, stat in blocks:
        thetas.append(theta)
        stats.append(stat)
        advance(len(theta))
    kept = {name: np.concatenate([stat[name] for stat in stats])[tune:] for name in stats[0]}
    return np.concatenate(thetas)[tune:], kept


def _check_answer_fit(responses: Responses | Gathered) -> float:
    """Return the p-value of the answers, and log a warning if they do not fit."""
    p_value = check_fit(responses).p_value
    if warning := misfit_in_words(p_value):
        logger.warning("%s", warning)
    return p_value


def _labelled(tree: "xr.DataTree", responses: Responses | Gathered, settings: dict[str, Any]) -> "xr.DataTree":
    """Add the responses, and the settings in the attributes."""
    import xarray as xr

    tree["observed_data"] = xr.DataTree(responses.to_xarray())
    tree.attrs = {
        **settings,
        "mechanism_settings": json.dumps(responses.mechanism.settings()),
        "n_responses": len(responses),
        "adobest_pp_version": __version__,
        "pymc_version": version("pymc"),
        "numpy_version": np.__version__,
        "created_at": datetime.now(UTC).isoformat(),
    }
    tree["posterior"].attrs |= {name: settings[name] for name in ("sampler", "sampling_time")}
    return tree


# The log-likelihood of each response under each draw, for model comparison.


def add_log_likelihood(tree: "xr.DataTree", responses: Responses) -> None:
    """Add the group ``log_likelihood`` with ``y`` by chain, draw and response, as `arviz.loo` reads it."""
    import xarray as xr

    theta = np.asarray(tree["posterior"]["theta"].transpose("chain", "draw", "category").values, dtype=np.float64)
    evidence, row_of = responses.evidence_and_index()
    terms = np.empty((*theta.shape[:2], len(responses)))
    _row_logs(theta.reshape(-1, theta.shape[2]), evidence, row_of, terms.reshape(-1, len(responses)))
    coords = {name: tree["posterior"][name].values for name in ("chain", "draw")}
    tree["log_likelihood"] = xr.DataTree(xr.Dataset({"y": (("chain", "draw", "response"), terms)}, coords))


@njit(cache=True)
def _row_logs(thetas, evidence, row_of, out):  # type: ignore[no-untyped-def]
    for s in range(len(thetas)):
        h = row_probabilities(thetas[s], evidence)
        for u in range(h.size):
            h[u] = np.log(h[u]) + evidence.log_scale[u] if h[u] > 0.0 else -np.inf
        for i in range(row_of.size):
            out[s, i] = h[row_of[i]]
