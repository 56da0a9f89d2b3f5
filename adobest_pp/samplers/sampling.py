"""One call from responses to labelled draws."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adobest_pp import __version__
from adobest_pp._checks import check_count, check_flag, check_integer, check_prior, check_total, is_learned
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._progress import raising_interrupts
from adobest_pp._text import brief
from adobest_pp._types import Floats
from adobest_pp.answers.draws import responses_of, theta_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.likelihood.core import SIMPLEX_TOLERANCE, row_probabilities
from adobest_pp.likelihood.without_prior import check_fit, misfit_in_words
from adobest_pp.samplers.checks import DIVERGED, NOT_CONVERGED, logger, warn_of_problems, without_warnings_of
from adobest_pp.samplers.choice import packed_sets
from adobest_pp.samplers.gibbs import gibbs_chain, run_chains
from adobest_pp.samplers.registry import DIFFUSIONS, GRADIENTS, LANGEVIN, SAMPLERS, Drawn, Sampler, resolve
from adobest_pp.samplers.sgld.settings import schedule_from_settings

if TYPE_CHECKING:
    import xarray as xr


# The attribute of a tree that holds the gradient evaluations of its run, which `diagnostics.grade` counts as work.
WORK = "gradient_evaluations"
DIMS = ("chain", "draw", "category")


@raising_interrupts()
def sample(
    responses: Responses | Gathered,
    sampler: str | Sampler | Callable[..., Any] = "nuts",
    prior: ArrayLike | Literal["learned"] = 1.0,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: "int | np.random.Generator | None" = None,
    progressbar: bool = True,
    log_likelihood: bool = False,
    **options: Any,
) -> "xr.DataTree":
    """Draw category frequencies θ from their posterior given randomized answers.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected, or what `gather` has counted. Answers that hardly ever repeat are kept in a store by
        `gather`. Only ``"sgld_cv"`` reads batches from it; the other samplers read all of them into memory.
    sampler : {"nuts", "gibbs", "sgld", "sgld_cv", "blocks"}, another registered name, a function or a PyMC step class
        ``"nuts"`` is the reference: exact and fast to mix. ``"gibbs"`` is exact, and slow to mix for small ε.
        ``"sgld"`` is the paper's reflected stochastic-gradient Langevin dynamics, which is only as exact as its steps
        are small. ``"sgld_cv"`` samples the posterior: it has stochastic gradients with control variates, and makes
        every choice for you (`adobest_pp.samplers.sgld_cv.sampler`). It is the fastest, above all for many answers
        that all differ. ``"blocks"`` is exact, and made for thousands of categories, where it is the fastest by far
        (`adobest_pp.samplers.blocks`). ``"svrg"``, ``"skew_reflected"``, ``"sghmc"``, ``"sgnht"``, ``"barker"`` and
        ``"amagold"`` are ``"sgld"`` with the piece of that name, and take its other options. A function of your own
        takes (responses, prior, draws, tune, chains, seed) in this order, and returns θ of shape (chain, draw, K) or a
        tree with ``posterior/theta``. A step class moves the variables of `frequency_model(responses, prior)`. Their
        draws are recorded under the name of the function or class.
    prior : float, array of shape (K,), dict by category or "learned", default 1.0
        Concentration ρ of the Dirichlet prior. K of them with labels are put in the order of the categories. With
        ``"learned"``, for ``"nuts"``, ``"sgld_cv"`` and ``"blocks"``, it is one number a for all categories, learned
        from the answers with ln a ~ N(−2, 2²). Collections, reports and commands use it for their estimates, as it is
        more accurate if most categories may be empty. The default here is the paper's, which every sampler takes. For
        intervals see `intervals.summary`: they cover a share under either prior.
    draws, tune, chains : int
        Draws to keep in each chain, tuning draws to discard before them (at least 1 for ``"nuts"``, 20 for
        ``"blocks"``, and 100 for ``"sgld_cv"``, whose pilots they are), and the number of chains.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same draws. By default one is chosen and recorded; a Generator draws one.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.
    log_likelihood : bool, default False
        Whether to keep the log-likelihood of each response under each draw, in ``log_likelihood/y``: what `arviz.loo`
        and `arviz.compare` need. It takes eight bytes for each response and draw.
    **options
        For ``"nuts"``: `target_accept` (0.95 by default) and `cores`, how many chains run at once. For ``"sgld"``:
        `gradient`, `diffusion`, `batch_size`, `step_size`, `schedule` and `updates_per_draw` (here 20 by default) as in
        `SGLD`. For a function or step class of your own: its options.

    Returns
    -------
    xarray.DataTree
        ``posterior/theta`` by chain, draw and category (and ``posterior/concentration`` by chain and draw where it is
        learned); ``sample_stats``; the answers in ``observed_data/y``, and all that was collected in ``responses``, as
        from `Responses.to_xarray`. The attributes hold the prior (``prior_concentration``), the run time
        (``sampling_time``, in seconds), ``fit_p_value`` of `diagnostics.goodness_of_fit`, and every setting:
        ``sample(responses, **adobest_pp.recorded_arguments(tree.attrs))`` repeats the run.

    Notes
    -----
    A warning is logged if chains have not converged (rank-normalized split R-hat above 1.05, or fewer than 25
    effective draws per chain), if draws do not move at all, if NUTS diverged, and, for concentrations below 0.1, if a
    category is empty, or has the majority, much more or less often than quadrature says. The last is common for a
    prior of 0.05 and below: its posterior has modes with and without a category, and no sampler here often moves
    between them. The first is common for ``"sgld"`` with the paper's steps: its chains start from draws of the prior,
    and need some hundred thousand updates for K = 20 and ε = 1. Raise `updates_per_draw`, or the step if you can
    accept its bias. Under a concentration below 1, ``"sgld"`` also warns if it is often reflected at zero: however
    short its steps, they cannot hold the mass that the prior has there, and small shares come out too large. Use
    ``diffusion="cox_ingersoll_ross"`` there. With ``diffusion="log_ratio"`` it warns if steps are so long that the
    draws of small shares are too wide.

    A warning is also logged if the answers do not fit the mechanism, with a false-alarm rate of at most 1 %.

    Ctrl-C raises KeyboardInterrupt, and a chain that does not finish raises RuntimeError: incomplete draws are never
    returned. RuntimeError with its name is raised for a sampler of your own that raises, or whose draws are too few,
    not finite, off the simplex or of other categories.

    See Also
    --------
    frequency_model : The PyMC model that this samples.
    extend : More draws of a run.
    samplers.register_sampler : Give a sampler of your own a name.
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
    entry = resolve(sampler)
    concentration = _check_prior(prior, responses, entry)
    sizes = {
        "draws": check_count(draws, "draws"),
        "tune": check_count(tune, f"tune of {entry.name!r}" if entry.least_tune else "tune", entry.least_tune),
        "chains": check_count(chains, "chains"),
    }
    check_total({"draws": sizes["draws"] + sizes["tune"], "chains": sizes["chains"], "K": responses.n_categories})
    if isinstance(random_seed, np.random.Generator):
        random_seed = int(random_seed.integers(2**63))
    seed = fresh_seed() if random_seed is None else check_integer(random_seed, "random_seed", 0, 2**63 - 1)
    check_flag(progressbar, "progressbar")
    if "covariates" in options:
        raise ValueError("covariates must be left out, as sample(...) is for shares; see regression_model")
    if entry.options is not None and not {*options} <= entry.options:
        known = sorted(entry.options - {"progressbar", "covariates"})
        allowed = f"among {', '.join(known)}" if known else "left out"
        raise ValueError(f"options must be {allowed} for {entry.name!r}, got {', '.join(options)}")
    for piece, own in LANGEVIN.get(entry.name, {}).items():
        if options.get(piece, own) != own:
            raise ValueError(f"{piece} must be left out for {entry.name!r}, got {brief(options[piece])}: use 'sgld'")
        if piece == "gradient" and options.get("batch_size", 0) is None:
            raise ValueError(f"batch_size must be a number for {entry.name!r}, got None: use 'sgld' for all answers")
    if check_flag(log_likelihood, "log_likelihood"):
        if not isinstance(responses, Responses):
            raise ValueError(
                "log_likelihood must be False for gathered answers, which are not kept one by one, got True"
            )
        check_total({"draws": sizes["draws"], "chains": sizes["chains"], "responses": len(responses)})

    began = time.perf_counter()
    shown = {"progressbar": progressbar} if entry.shows_progress else {}
    tree = _draw(entry, responses, concentration, sizes, seed, options | shown)
    elapsed = time.perf_counter() - began
    details: dict[str, Any] = {str(name): value for name, value in tree.attrs.items()}
    if options and "sampler_settings" not in details:
        details["sampler_settings"] = _written(options)
    if isinstance(concentration, str):
        details["learned_prior"] = "Dirichlet(a, …, a), ln a ~ N({:g}, {:g}²)".format(*LOG_CONCENTRATION)
    is_packed = isinstance(responses, Gathered) and packed_sets(responses) is not None
    warn_of_problems(tree, None if is_packed else responses.evidence(), entry.name, concentration)
    details["fit_p_value"] = p_value = check_fit(responses).p_value
    if misfit := misfit_in_words(p_value):
        logger.warning("%s", misfit)
    if log_likelihood and isinstance(responses, Responses):
        add_log_likelihood(tree, responses)
    settings = {"sampler": entry.name, "prior_concentration": concentration, **sizes, "random_seed": seed}
    # The settings replace what a sampler records under the same names, so no draws pass for those of another sampler.
    return _labelled(tree, responses, details | settings | {"sampling_time": elapsed})


def recorded_arguments(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the arguments of `sample` that repeat a run, except for the responses.

    Parameters
    ----------
    attributes : mapping
        ``attrs`` of the tree that `sample` returned, or of its file. A schedule that is a function of your own is not
        recorded, and raises ValueError.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> tree = ad.sample(responses, "sgld", draws=50, batch_size=None)
    >>> again = ad.sample(responses, **ad.recorded_arguments(tree.attrs))
    >>> bool((again.posterior.theta == tree.posterior.theta).all())
    True
    """
    names = ("sampler", "prior_concentration", "draws", "tune", "chains", "random_seed")
    missing = [name for name in names if not isinstance(attributes, Mapping) or name not in attributes]
    if missing:
        raise ValueError(f"attributes must be those of a tree from `sample`, got none named {', '.join(missing)}")
    found = {name.removesuffix("_concentration"): attributes[name] for name in names}
    if not SAMPLERS.is_known(found["sampler"]):
        raise ValueError(f"sampler must be registered for the run to be repeated, got {brief(found['sampler'])}")
    known = SAMPLERS.find(found["sampler"]).options
    is_langevin = known is not None and "schedule" in known
    if "sampler_settings" not in attributes and not is_langevin:
        return found
    written: Any = attributes.get("sampler_settings")
    try:
        options = json.loads(written)
    except (TypeError, ValueError, RecursionError):
        options = None
    if not isinstance(options, dict) or (is_langevin and "schedule" not in options):
        raise ValueError(f"sampler_settings must be as `sample` wrote it, got {brief(written)}")
    # The attributes may come from a file, and no module that a file names is imported.
    for registry in (DIFFUSIONS, GRADIENTS):
        if registry.kind in options and not registry.is_known(options[registry.kind]):
            raise ValueError(f"{registry.kind} must be registered for the run to be repeated, got {brief(written)}")
    if "schedule" in options:
        options["schedule"] = schedule_from_settings(options["schedule"])
    return found | {name: value for name, value in options.items() if known is None or name in known}


def _check_prior(prior: Any, responses: Responses | Gathered, sampler: Sampler) -> Floats | str:
    """Return the concentrations, or "learned", or raise ValueError."""
    if not isinstance(prior, str):
        return check_prior(prior, responses.n_categories, responses.categories)
    allowed = f"a positive number, or {responses.n_categories} of them"
    if not sampler.learned:
        raise ValueError(f"prior must be {allowed}, for {sampler.name!r}, got {brief(prior)}")
    if not is_learned(prior):
        raise ValueError(f"prior must be {allowed}, or 'learned', got {brief(prior)}")
    return prior


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, to be recorded with the run."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def _written(options: dict[str, Any]) -> str:
    """Return options as JSON for `recorded_arguments`, or as a short text if they cannot be written as JSON."""
    try:
        return json.dumps(options)
    except (TypeError, ValueError):
        return brief(options)


# The draws, and checks of what a sampler from elsewhere returns.


def _draw(
    sampler: Sampler,
    responses: Responses | Gathered,
    prior: Floats | str,
    sizes: dict[str, int],
    seed: int,
    options: dict[str, Any],
) -> "xr.DataTree":
    """Return a labelled tree of draws by any sampler; its attributes are what the sampler records."""
    arguments = (responses, prior, *sizes.values(), seed)
    try:
        found = sampler.draw(*arguments, **options)
    except Exception as problem:
        if sampler.is_ours:
            raise
        raise RuntimeError(
            f"sampler {sampler.name!r} raised {type(problem).__name__}: {brief(str(problem))}"
        ) from problem
    tree: xr.DataTree
    if hasattr(found, "children"):
        tree = found
    else:
        drawn = found if isinstance(found, Drawn) else Drawn({"theta": _array(found, sampler.name)})
        try:
            tree = _tree(drawn.variables, drawn.stats, responses)
            tree.attrs = dict(drawn.attributes)
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise RuntimeError(
                f"sampler {sampler.name!r} must return theta by chain, draw and {responses.n_categories} categories, "
                f"and anything else by chain and draw: {problem}"
            ) from None
    if sampler.is_ours:
        return tree
    made = _checked(tree, responses, sizes, sampler.name)
    made.attrs = {name: value for name, value in tree.attrs.items() if isinstance(found, Drawn) or name == WORK}
    return made


def _array(found: Any, name: str) -> Floats:
    """Return draws as an array with three axes, or raise RuntimeError."""
    try:
        values = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 3:
        got = f"an array of shape {values.shape}" if isinstance(found, np.ndarray) else brief(found)
        raise RuntimeError(f"sampler {name!r} must return an array (chain, draw, category) or a tree, got {got}")
    return values


def _checked(tree: Any, responses: Responses | Gathered, sizes: dict[str, int], name: str) -> "xr.DataTree":
    """Return the tree of a sampler that is not ours, with θ in our order of categories, or raise RuntimeError."""
    import xarray as xr

    rule = f"sampler {name!r} must return"
    if "posterior" not in tree.children or "theta" not in tree["posterior"].data_vars:
        raise RuntimeError(f"{rule} a tree with posterior/theta, got one without it")
    posterior = tree["posterior"].to_dataset()
    theta = posterior["theta"]
    if {*map(str, theta.dims)} != {*DIMS}:
        raise RuntimeError(f"{rule} theta with the dims {', '.join(DIMS)}, got {', '.join(map(str, theta.dims))}")
    theta = theta.transpose(*DIMS)
    expected = (sizes["chains"], sizes["draws"], responses.n_categories)
    if theta.shape != expected:
        raise RuntimeError(f"{rule} draws of shape {expected}, by chain, draw and category, got {theta.shape}")
    if "category" in theta.coords:
        labels = [str(label) for label in theta["category"].values]
        if sorted(labels) != sorted(responses.categories):
            raise RuntimeError(f"{rule} the categories {brief([*responses.categories])}, got {brief(labels)}")
        theta = theta.isel(category=[labels.index(label) for label in responses.categories])
    values = np.asarray(theta.values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise RuntimeError(f"{rule} finite draws, got {int((~np.isfinite(values)).sum())} that are not")
    if values.min() < -SIMPLEX_TOLERANCE or np.abs(values.sum(axis=2) - 1).max() > SIMPLEX_TOLERANCE:
        raise RuntimeError(
            f"{rule} shares that are not negative and sum to 1, got a least share of {values.min():.3g} "
            f"and sums from {values.sum(axis=2).min():.6g} to {values.sum(axis=2).max():.6g}"
        )
    others = {str(name): each for name, each in posterior.data_vars.items() if {*each.dims} == {*DIMS[:2]}}
    variables = {"theta": values} | {name: each.transpose(*DIMS[:2]).values for name, each in others.items()}
    made = _tree(variables, {}, responses)
    if "sample_stats" in tree.children:
        made["sample_stats"] = xr.DataTree(tree["sample_stats"].to_dataset())
    return made


def _tree(
    variables: Mapping[str, Floats], stats: Mapping[str, NDArray[Any]], responses: Responses | Gathered
) -> "xr.DataTree":
    """Return a labelled tree of arrays by chain and draw (and, for θ, category)."""
    import xarray as xr

    chains, draws, _ = variables["theta"].shape
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    posterior = {name: (DIMS[: values.ndim], values) for name, values in variables.items()}
    statistics = {name: (DIMS[:2], values) for name, values in stats.items()}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, coords | {"category": list(responses.categories)}),
            "sample_stats": xr.Dataset(statistics, coords),
        }
    )


def _labelled(tree: "xr.DataTree", responses: Responses | Gathered, settings: dict[str, Any]) -> "xr.DataTree":
    """Add the responses, and the settings in the attributes."""
    import xarray as xr

    collected = responses.to_xarray()
    tree["responses"] = xr.DataTree(collected)
    if isinstance(responses, Responses):
        answers = collected["answer"].astype(np.int64).rename("y").drop_vars("category_code", errors="ignore")
        tree["observed_data"] = xr.DataTree(answers.to_dataset())
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


# More draws of a run that has ended.


@raising_interrupts()
def extend(tree: "xr.DataTree", draws: int, progressbar: bool = True) -> "xr.DataTree":
    """Return a run of `sample` with more draws in each chain. The tree itself is left as it is.

    Parameters
    ----------
    tree : xarray.DataTree
        What `sample` returned, or its file when read. It holds the responses and the settings.
    draws : int
        Draws to add to each chain.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    xarray.DataTree
        The old draws, followed by the new ones. ``attrs["extended_by"]`` lists the draws of each call: `sample` with
        the recorded arguments, and then `extend` with each of these, give the same draws again.

    Notes
    -----
    Each sampler continues in the way that keeps its draws valid.

    - ``"gibbs"`` continues from the last draw of each chain. θ is all of its state, so there is nothing to discard.
    - ``"nuts"``, ``"sgld_cv"``, ``"blocks"`` and samplers of your own: the step and the metric are not in the draws, so
      each chain tunes again, for as many draws as before and with a new seed. The tuning draws are discarded.
    - ``"sgld"`` and the samplers that differ from it in one piece: the draws depend on where a chain started and on
      how many updates it made, so the run is repeated with the same seed and more draws. The old draws come out the
      same, except for at most the last 200.

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
        raise ValueError("tree must hold the group responses, as a tree from `sample` does, got one without it")
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
        parts: dict[str, dict[str, Any]]
        evidence, prior = responses.evidence(), check_prior(arguments["prior"], responses.n_categories)
        last = iter(theta.values[:, -1])
        new_theta, stats = run_chains(
            lambda rng: gibbs_chain(evidence, prior, more, rng, next(last)), more, 0, len(theta), seed, progressbar
        )
        parts = {"posterior": {"theta": new_theta}, "sample_stats": stats}
    else:
        with without_warnings_of(NOT_CONVERGED, DIVERGED):
            new = sample(responses, **arguments | {"draws": more, "random_seed": seed}, progressbar=progressbar)
        parts = {
            group: {str(name): variable.values for name, variable in new[group].to_dataset().data_vars.items()}
            for group in ("posterior", "sample_stats")
        }
    return _joined(tree, parts, responses, [*before, more])


def _joined(
    tree: "xr.DataTree",
    parts: Mapping[str, Mapping[str, NDArray[Any]]],
    responses: Responses | Gathered,
    extended_by: list[int],
) -> "xr.DataTree":
    """Return the tree with the new draws after the old ones, checked again."""
    import xarray as xr

    joined = tree.copy()
    for group, variables in parts.items():
        old = tree[group].to_dataset().transpose("chain", "draw", ...)
        kept = old[[name for name in old.data_vars if name in variables and "draw" in old[name].dims]]
        if not kept.data_vars:  # a sampler without stats, whose draws have numbers all the same
            numbers = np.arange(old.sizes["draw"] + extended_by[-1])
            joined[group] = xr.DataTree(old.drop_vars([*old.data_vars]).reindex(draw=numbers))
            continue
        new = xr.Dataset({name: (kept[name].dims, variables[str(name)]) for name in kept.data_vars})
        both = xr.concat([kept.drop_vars("draw"), new], "draw", coords="minimal", compat="override", join="override")
        joined[group] = xr.DataTree(both.assign_coords(draw=np.arange(both.sizes["draw"])).assign_attrs(old.attrs))
    joined.attrs = {**tree.attrs, "extended_by": extended_by}
    warn_of_problems(joined, responses.evidence(), tree.attrs["sampler"], tree.attrs["prior_concentration"])
    if "log_likelihood" in tree and isinstance(responses, Responses):
        add_log_likelihood(joined, responses)
    return joined
