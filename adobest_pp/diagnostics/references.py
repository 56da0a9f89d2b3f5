"""Reference posteriors: named answers with certified draws, so that people can grade samplers of their own.

A reference is made on first use and kept in the user's cache folder. Its answers are simulated from a fixed
seed; its 10,000 draws are thinned until they are nearly independent, and certified: no reference is returned, or kept,
that does not meet the limits below. The idea is that of posteriordb [1]_.

References
----------
.. [1] M. Magnusson, J. Torgander, P.-C. Bürkner, L. Zhang, B. Carpenter and A. Vehtari (2025), posteriordb: testing,
   benchmarking and developing Bayesian inference algorithms, AISTATS.
"""

import hashlib
import json
import logging
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION, draw_dirichlet, draw_people
from adobest_pp._files import cache_path, netcdf_bytes, write_whole
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp.answers.netcdf import read_tree
from adobest_pp.answers.responses import Responses
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.mechanisms import RRRR, SRR, HadamardResponse, LocalHashing, Mechanism, SubsetSelection, UnaryEncoding
from adobest_pp.samplers.checks import CONVERGED

__all__ = ["Reference", "load", "names"]

logger = logging.getLogger("adobest_pp")

CHAINS, DRAWS, TUNE, SEED = 4, 2500, 1000, 1
# One draw of this many is kept; the second number is tried if the first leaves them dependent.
THINNING = (20, 80)
# The largest autocorrelation of neighbouring draws.
MAX_AUTOCORRELATION = 0.05
PACKAGES = ("adobest_pp", "numpy", "numba", "nutpie")


@dataclass(frozen=True)
class Setting:
    """What a reference posterior is of: a truth from Dirichlet(ρ), people, a mechanism, and the prior of θ.

    RRRR collects adaptively, with the utility ``"tv1"`` and the exact sampler. Draws are those of NUTS, or of Gibbs
    sampling under a sparse prior, where a few draws of NUTS in ten thousand diverge.
    """

    mechanism: Mechanism
    rho: float
    n_people: int
    prior: float | str = 1.0
    sampler: str = "nuts"


SETTINGS = {
    "hadamard_response": Setting(HadamardResponse(7, 1.0), 1.0, 4000),
    "local_hashing": Setting(LocalHashing(6, 1.0), 1.0, 3000),
    "rrrr_even": Setting(RRRR(10, 1.0, 0.9), 1.0, 5000),
    "rrrr_uneven": Setting(RRRR(10, 0.5, 0.8), 0.1, 5000),
    "srr": Setting(SRR(10, 1.0), 1.0, 5000),
    "srr_learned": Setting(SRR(20, 1.0), 0.1, 10_000, "learned"),
    "srr_sparse": Setting(SRR(5, 3.0), 0.1, 1000, 0.1, "gibbs"),
    "subset_selection": Setting(SubsetSelection(8, 1.0), 1.0, 4000),
    "subset_selection_learned": Setting(SubsetSelection(8, 1.0), 0.01, 2000, "learned"),
    "unary_encoding": Setting(UnaryEncoding(6, 1.0), 1.0, 3000),
}


class Reference(NamedTuple):
    """The answers, and certified draws of their posterior as `sample` returns them.

    Attributes
    ----------
    responses : Responses
        What a sampler is given.
    draws : xarray.DataTree
        With ``posterior/theta``. The attributes have the prior, the thinning, and what was certified.
    """

    responses: Responses
    draws: xr.DataTree

    def __repr__(self) -> str:
        return f"<Reference: draws of {self.responses!r}>"


def names() -> list[str]:
    """Return the names of the reference posteriors.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> [name for name in ad.references.names() if name.startswith("rrrr")]
    ['rrrr_even', 'rrrr_uneven']
    """
    return list(SETTINGS)


def load(name: str) -> Reference:
    """Return a reference posterior. It is made on first use, in seconds, and kept in the user's cache folder.

    The folder is ``references`` in the user's cache folder (``~/.cache/adobest_pp`` on Linux). A file that is damaged,
    or that was made with other settings or versions, is made anew. Where nothing can be kept, a warning is logged.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Reference
        The responses, and 10,000 draws: R-hat below 1.01, an autocorrelation of neighbouring draws below 0.05, no
        divergences. Raises RuntimeError if draws do not meet these limits.

    See Also
    --------
    adobest_pp.diagnostics.compare : Grades draws of your own against it.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> reference = ad.references.load("srr")
    >>> mine = ad.sample(reference.responses, "nuts", random_seed=3, progressbar=False)
    >>> result = ad.diagnostics.compare({"mine": mine}, reference=reference)
    >>> result.verdict.values.tolist()
    ['indistinguishable', 'reference']
    """
    if not isinstance(name, str) or name not in SETTINGS:
        raise ValueError(f"name must be one of {', '.join(map(repr, SETTINGS))}, got {brief(name)}")
    setting, path = SETTINGS[name], cache_path() / "references" / f"{name}.nc"
    responses = _responses(setting)
    checksum = _checksum(setting, responses)
    draws = _kept(path, checksum)
    if draws is None:
        with SlowProgress(len(THINNING), f"reference posterior {name}") as progress:
            draws = _made(name, setting, responses, progress)
        draws.attrs |= {"checksum": checksum, "draws_checksum": _digest(draws)}
        _keep(path, draws)
    return Reference(responses, draws)


def _responses(setting: Setting) -> Responses:
    """Simulate the answers, the same each time."""
    rng = np.random.default_rng(SEED)
    mechanism, k = setting.mechanism, setting.mechanism.n_categories
    x = draw_people(rng, draw_dirichlet(rng, np.full(k, setting.rho)), setting.n_people)
    if not mechanism.publishes_subset:
        return Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
    from adobest_pp.collect.policies import AdaptiveSubset
    from adobest_pp.simulate import simulate_adaptive

    policy = AdaptiveSubset(cast(RRRR, mechanism), "tv1", sampler="exact", adapt_every=k)
    return simulate_adaptive(None, policy, people=x, final_updates=2, random_seed=SEED).responses


def _made(name: str, setting: Setting, responses: Responses, progress: SlowProgress) -> xr.DataTree:
    """Sample and thin until the draws are certified, or raise RuntimeError."""
    from adobest_pp.samplers.sampling import sample

    problem = ""
    for thinning in THINNING:
        tree = sample(
            responses, setting.sampler, prior=setting.prior, draws=thinning * DRAWS, tune=TUNE, chains=CHAINS,
            random_seed=SEED, progressbar=False,
        )  # fmt: skip
        stats = tree["sample_stats"].to_dataset()
        found: dict[str, Any] = {"divergences": int(stats["diverging"].sum()) if "diverging" in stats else 0}
        tree = _thinned(tree, thinning)
        found |= _certificate(tree["posterior"].to_dataset())
        problem = _problem(found)
        if not problem:
            tree.attrs |= {**found, "thinning": thinning, "reference": name}
            return tree
        progress.advance(1, problem)
    raise RuntimeError(f"the reference posterior {name!r} cannot be certified: {problem}")


def _thinned(tree: xr.DataTree, thinning: int) -> xr.DataTree:
    for group in ("posterior", "sample_stats"):
        some = tree[group].to_dataset().isel(draw=slice(thinning - 1, None, thinning))
        tree[group] = some.assign_coords(draw=np.arange(some.sizes["draw"]))
    return tree


def _certificate(posterior: xr.Dataset) -> dict[str, float]:
    """Return the largest R-hat and autocorrelation of θ, and of a where it is learned."""
    values = [posterior[name].transpose("chain", "draw", ...).values for name in posterior.data_vars]
    chains = np.concatenate([value.reshape(*value.shape[:2], -1) for value in values], axis=2)
    # Written so that NaN, of draws that do not move, is the largest.
    r_hat, correlation = mixing(chains)["r_hat"], np.abs(_autocorrelation(chains))
    return {"r_hat": float(np.max(r_hat)), "autocorrelation": float(np.max(correlation))}


def _autocorrelation(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of neighbouring draws of each variable, of (chain, draw, ·)."""
    centered = chains - chains.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        together = (centered[:, 1:] * centered[:, :-1]).mean(axis=(0, 1))
        return np.asarray(together / (centered**2).mean(axis=(0, 1)))


def _problem(found: dict[str, Any]) -> str:
    """Return which limits are not met, or nothing."""
    parts = []
    if not found["r_hat"] < CONVERGED.max_r_hat:
        parts.append(f"R-hat is {found['r_hat']:.3f} (below {CONVERGED.max_r_hat:g} is needed)")
    if not found["autocorrelation"] < MAX_AUTOCORRELATION:
        parts.append(f"autocorrelation is {found['autocorrelation']:.3f} (below {MAX_AUTOCORRELATION:g} is needed)")
    if found["divergences"]:
        parts.append(f"{found['divergences']} draws diverged (none may)")
    return ", ".join(parts)


def _checksum(setting: Setting, responses: Responses) -> str:
    """Return a digest of what the draws depend on: settings, answers, and the versions that matter."""
    plain = [repr(setting), CHAINS, DRAWS, TUNE, SEED, LOG_CONCENTRATION, *(version(name) for name in PACKAGES)]
    digest = hashlib.sha256(json.dumps(plain).encode())
    for part in responses.evidence():
        digest.update(part.tobytes())
    return digest.hexdigest()


def _digest(draws: xr.DataTree) -> str:
    """Return a digest of the draws themselves, by which damage is found."""
    digest = hashlib.sha256()
    for _, variable in sorted(draws["posterior"].to_dataset().data_vars.items()):
        digest.update(np.ascontiguousarray(variable.values).tobytes())
    return digest.hexdigest()


def _kept(path: Path, checksum: str) -> xr.DataTree | None:
    """Return the draws of a file; None where there is none, or one of other settings, or a damaged one."""
    if not path.is_file():
        return None
    try:
        draws = read_tree(path)
        if draws.attrs["checksum"] == checksum:
            if draws.attrs["draws_checksum"] == _digest(draws):
                return draws
            reason = "is damaged"
        else:
            reason = "is of other settings or versions"
    except (ValueError, KeyError):
        reason = "is damaged"
    logger.warning("The reference posterior in '%s' %s, and is made anew.", path, reason)
    return None


def _keep(path: Path, draws: xr.DataTree) -> None:
    """Write the draws, whole or not at all; log a warning where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, netcdf_bytes(draws), overwrite=True)
    except (OSError, ValueError) as problem:
        logger.warning("The reference posterior is not kept, and will be made again: %s", problem)
