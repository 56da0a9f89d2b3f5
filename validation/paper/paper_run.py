"""One run of the paper's study: Algorithm 1 by SGLD, as proved or as the authors' program has it."""

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_epsilon, check_integer, check_kappa, check_n_categories, check_rho
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.samplers.sgld.settings import ConstantSteps
from adobest_pp.simulate import simulate_adaptive
from adobest_pp.studies import Measure, Run, declares
from adobest_pp.studies.frequency_run import MEASURES as SHARED
from adobest_pp.studies.frequency_run import Collected
from validation.paper.methods import SEMI, UTILITIES, alpha_of
from validation.paper.published import published_mechanism

__all__ = ["MEASURES", "paper_run", "seed_of", "truth_of"]

MEASURES = {name: SHARED[name] for name in ("tv", "exact_tv", "mean_size", "true_epsilon")} | {
    "honest": Measure("average probability that an answer is the truth")
}
BUDGETS = ("theorem1", "published")
# Rows of evidence up to which NUTS drew the exact posteriors of the recorded runs.
MANY_ROWS = 2500


def seed_of(run: Run, **settings: Any) -> np.random.SeedSequence:
    """Return a seed of the study's seed, some settings and the number of the run, as the recorded runs have it."""
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16).digest()
    return np.random.SeedSequence((run.seed, int.from_bytes(digest), run.number))


def truth_of(run: Run, K: int, rho: float) -> NDArray[np.float64]:
    """Return θ* ~ Dirichlet(ρ), of shape (K,): the same for all methods of a run, so they compare in pairs."""
    rng = np.random.default_rng(seed_of(run, n_categories=K, rho=float(rho)))
    return draw_dirichlet(rng, np.full(K, float(rho)))


def _check(
    K: int,
    epsilon: float,
    rho: float,
    method: str,
    kappa: float | None = None,
    budgets: str = "theorem1",
    people_per_category: int = 500,
) -> None:
    check_n_categories(K)
    check_epsilon(epsilon)
    check_rho(rho)
    check_integer(people_per_category, "people_per_category", 1)
    alpha = alpha_of(method)
    if budgets not in BUDGETS:
        raise ValueError(f"budgets must be one of {', '.join(map(repr, BUDGETS))}, got {budgets!r}")
    if method in UTILITIES and kappa is None:
        raise ValueError(f"kappa must be given for the six utilities, got None with {method!r}")
    if kappa is not None and (method == "nonadaptive" or (alpha is not None and budgets == "published")):
        raise ValueError(
            "kappa must be left out for 'nonadaptive', and for semi-adaptive methods with the published budgets, "
            f"got {kappa} with {method!r}"
        )
    if kappa is not None:
        check_kappa(kappa)


@declares(MEASURES, _check)
def paper_run(
    run: Run,
    *,
    K: int,
    epsilon: float,
    rho: float,
    method: str,
    kappa: float | None = None,
    budgets: str = "theorem1",
    people_per_category: int = 500,
) -> dict[str, float]:
    """Make one run.

    Parameters
    ----------
    run : Run
        Which run it is.
    K : int
        Number of categories.
    epsilon : float
        The privacy budget (with ``budgets="published"`` the claimed one).
    rho : float
        The truth is drawn from Dirichlet(ρ).
    method : str
        ``"nonadaptive"`` (SRR), ``"semi_adaptive_0.95"`` (with any α) or one of the six utilities.
    kappa : float, optional
        Share of the budget inside the subset, ε₁ = κε. Without one, semi-adaptive methods have ε₁ = ε and ε₂ = 0, as in
        the authors' program (AdOBEst_LDP.m, lines 32 to 34); ``"nonadaptive"`` has none.
    budgets : {"theorem1", "published"}
        ε₂ by Theorem 1, or as the authors' program has it: then with the program's constant step for every method, and
        without the empty subset. The program's ε₂ is not ε-LDP for the utilities; SRR and semi-adaptive keep ε.
    people_per_category : int
        T divided by K.
    """
    n_people, published, alpha = people_per_category * K, budgets == "published", alpha_of(method)
    seed = seed_of(
        run,
        n_categories=K,
        epsilon=float(epsilon),
        kappa=None if kappa is None else float(kappa),
        rho=float(rho),
        mechanism="rrrr",
        method=method,
        sampler="sgld",
        budgets=budgets,
        people_per_category=people_per_category,
    )
    # Of semi-adaptive ε₁ = ε, for which Theorem 1 gives ε₂ = 0. Of SRR any κ: with the empty subset all are the same.
    share = kappa if kappa is not None else 0.9 if alpha is None else 1.0
    make = published_mechanism if published and method in UTILITIES else RRRR
    theta = truth_of(run, K, rho)
    found = simulate_adaptive(
        theta,
        AdaptiveSubset(
            make(K, epsilon, share),
            SEMI.removesuffix("_") if alpha is not None else method,
            alpha=alpha,
            schedule=ConstantSteps(0.5 / n_people) if published else None,
            smallest_size=1 if published and method != "nonadaptive" else 0,
        ),
        n_people=n_people,
        path_length=1,
        random_seed=seed,
    )
    # Apart from the seeds that `simulate_adaptive` makes for its people and its chain.
    fit_seed = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2))
    collected = Collected(theta, found.responses, found.sizes, found.chain_mean, 1.0, fit_seed, MANY_ROWS)
    return {
        name: _honest(found.responses, theta) if name == "honest" else collected.measure(name) for name in run.measures
    }


def _honest(responses: Responses, theta: NDArray[np.float64]) -> float:
    """Average P(Y_t = X_t) = Σ θ_x G[x, x] over the subsets S_t that were published."""
    mechanism, subsets = check_rrrr(responses.mechanism), responses.subsets
    inner, inner_own, outer, outer_own, _ = mechanism.coefficients
    sizes = subsets.sum(axis=1)
    own = np.where(subsets, (inner + inner_own)[sizes, None], (outer + outer_own)[sizes, None])
    return float((own @ theta)[responses.subset_index].mean())
