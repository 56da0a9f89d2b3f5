"""One call from responses to labelled draws."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp import __version__
from adobest_pp._checks import check_integer, check_prior
from adobest_pp.responses import Responses
from adobest_pp.samplers.chains import Block, gibbs_chain, sgld_chain
from adobest_pp.samplers.progress import SlowProgress
from adobest_pp.samplers.settings import LangevinSettings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["sample"]

SAMPLERS = ("nuts", "gibbs", "sgld")


def sample(
    responses: Responses,
    sampler: str = "nuts",
    prior: ArrayLike = 1.0,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    random_seed: int | None = None,
    progressbar: bool = True,
    **options: Any,
) -> "xr.DataTree":
    """Draw category frequencies θ from their posterior given randomized answers.

    Parameters
    ----------
    responses : Responses
        What was collected.
    sampler : {"nuts", "gibbs", "sgld"}
        ``"nuts"`` is the reference: exact and fast to mix. ``"gibbs"`` is exact, and slow to mix for small ε.
        ``"sgld"`` is the paper's reflected stochastic-gradient Langevin dynamics: only as exact as its steps are
        small.
    prior : float or array of shape (K,), default 1.0
        Concentration ρ of the Dirichlet prior.
    draws, tune, chains : int
        Draws kept of each chain, draws discarded before them, and chains.
    random_seed : int, optional
        The same seed gives the same draws. One is chosen and recorded if none is given.
    progressbar : bool, default True
        Whether to show progress once it takes longer than two seconds.
    **options
        For ``"sgld"`` alone: `batch_size`, `step_size`, `schedule`, `updates_per_draw` and `diffusion` as of
        `ReflectedSGLD`.

    Returns
    -------
    xarray.DataTree
        ``posterior/theta`` by chain, draw and category; ``sample_stats``; the responses in ``observed_data``; and in
        the attributes the run time (``sampling_time``, in seconds) and every setting needed to repeat the run.

    See Also
    --------
    frequency_model : The PyMC model that this samples.
    ReflectedSGLD, DataAugmentationGibbs : The same samplers for models of one's own.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> tree = ad.sample(responses, "gibbs", draws=500, random_seed=1)
    >>> dict(tree.posterior.theta.sizes)
    {'chain': 4, 'draw': 500, 'category': 2}
    """
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got {sampler!r}")
    concentration = check_prior(prior, responses.n_categories)
    sizes = {
        "draws": check_integer(draws, "draws", 1),
        "tune": check_integer(tune, "tune", 0),
        "chains": check_integer(chains, "chains", 1),
    }
    seed = _fresh_seed() if random_seed is None else check_integer(random_seed, "random_seed", 0, 2**63 - 1)
    settings = _settings(sampler, options)

    began = time.perf_counter()
    if sampler == "nuts":
        from adobest_pp.samplers.nuts import sample_nuts

        tree = sample_nuts(responses, prior=concentration, random_seed=seed, progressbar=progressbar, **sizes)
    else:
        tree = _sample_compiled(responses, concentration, seed, progressbar, settings, **sizes)
    elapsed = time.perf_counter() - began
    return _labelled(
        tree,
        responses,
        {
            "sampler": sampler,
            "prior": concentration,
            **sizes,
            "random_seed": seed,
            **(settings.describe() if settings else {}),
            "sampling_time": elapsed,
        },
    )


def _fresh_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])


def _settings(sampler: str, options: dict[str, Any]) -> LangevinSettings | None:
    allowed = ("batch_size", "step_size", "schedule", "updates_per_draw", "diffusion") if sampler == "sgld" else ()
    for name in options:
        if name not in allowed:
            raise ValueError(f"options of {sampler!r} must be among {allowed or 'none'}, got {name!r}")
    return LangevinSettings.of(**options) if sampler == "sgld" else None


def _sample_compiled(
    responses: Responses,
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
    import arviz_base as az

    evidence, row_of = responses.evidence(), responses.evidence_index()

    def chain(rng: np.random.Generator) -> Iterator[Block]:
        if settings is None:
            return gibbs_chain(evidence, prior, tune + draws, rng)
        return sgld_chain(evidence, row_of, prior, tune + draws, rng, settings)

    thetas, stats = [], []
    with SlowProgress(chains * (tune + draws), "Sampling", progressbar) as progress:
        for rng in np.random.default_rng(seed).spawn(chains):
            theta, stat = _collect(chain(rng), tune, progress.advance)
            thetas.append(theta)
            stats.append(stat)
    return az.from_dict(
        {
            "posterior": {"theta": np.stack(thetas)},
            "sample_stats": {name: np.stack([stat[name] for stat in stats]) for name in stats[0]},
        },
        coords={"category": list(responses.categories)},
        dims={"theta": ["category"]},
    )


def _collect(blocks: Iterator[Block], tune: int, advance: Callable[[int], None]) -> Block:
    thetas, stats = [], []
    for theta, stat in blocks:
        thetas.append(theta)
        stats.append(stat)
        advance(len(theta))
    kept = {name: np.concatenate([stat[name] for stat in stats])[tune:] for name in stats[0]}
    return np.concatenate(thetas)[tune:], kept


def _labelled(tree: "xr.DataTree", responses: Responses, settings: dict[str, Any]) -> "xr.DataTree":
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
