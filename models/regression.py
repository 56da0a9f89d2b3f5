"""A private answer explained by public covariates: multinomial logit, with the effects that people ask for.

Use it when a sensitive question was asked through a mechanism and something public is known of each person (age,
schooling, income), and the question is how the answer depends on it. Each person has their own θ, the softmax of a
linear function of the covariates, so people with equal answers cannot be merged and the cost grows with n. Covariates
are standardized here: a coefficient is the change of a logit when its covariate rises by one standard deviation.
Coefficients of one covariate sum to zero over the categories, and only differences between categories mean something;
`marginal_effects` gives the effects on shares. Randomization costs precision as if there were fewer people: `anes96.py`
shows how much wider the intervals are than those of honest answers.
"""

from collections.abc import Sequence

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

import adobest_pp as ad
from adobest_pp.model.logit import check_covariates


def standardized(covariates: ArrayLike) -> np.ndarray:
    """Return covariates with mean 0 and standard deviation 1, or raise ValueError for one that is constant."""
    table = check_covariates(covariates)
    spread = table.std(axis=0)
    if not spread.all():
        raise ValueError(f"covariates must vary, got a constant in column {int(np.argmin(spread))}")
    return (table - table.mean(axis=0)) / spread


def build(responses: ad.Responses, covariates: ArrayLike, names: Sequence[str], scale: float = 1.5) -> pm.Model:
    """Return the model: θ of a person is the softmax of (1, z)·coefficient, z the standardized covariates.

    Parameters
    ----------
    responses : Responses
        One answer per person.
    covariates : array of shape (n, P)
        Public numbers, in the order of the responses.
    names : sequence of P str
        What they are called.
    scale : float, default 1.5
        The standard deviation of the normal prior on intercepts and coefficients.
    """
    z = standardized(covariates)
    if z.shape != (len(responses), len(names)):
        raise ValueError(f"covariates must be {len(responses)} rows of {len(names)}, got an array of shape {z.shape}")
    coords = {"category": responses.categories, "term": ["intercept", *names]}
    with pm.Model(coords=coords) as model:
        # Free coordinates of lists that sum to zero: as ZeroSumNormal, but compiled in a fraction of the time.
        free = pm.Normal("free", sigma=scale, shape=(1 + len(names), responses.n_categories - 1))
        coefficient = pm.Deterministic("coefficient", ad.model.zero_sum(free), dims=("term", "category"))
        theta = ad.model.multinomial_logit(z, coefficient)
        ad.PrivateResponse("y", theta, responses, dims="response")
    return model


def marginal_effects(posterior: xr.Dataset, covariates: ArrayLike, most_draws: int = 500) -> xr.DataArray:
    """Return the mean change of each category's share, over the people, by draw, covariate and category.

    For a number it is per standard deviation: the average over people of ∂θ_k/∂z_j = θ_k·(β_jk − Σ_l θ_l β_jl). For a
    column of zeros and ones, such as a region, it is the difference between everybody having it and nobody.
    """
    stacked = posterior.stack(sample=("chain", "draw"))
    picked = np.linspace(0, stacked.sizes["sample"] - 1, min(most_draws, stacked.sizes["sample"])).astype(int)
    coefficient = stacked["coefficient"].transpose("sample", "term", "category").values[picked]
    values, z = np.asarray(covariates, dtype=np.float64), standardized(covariates)
    switches = np.flatnonzero(np.isin(values, (0, 1)).all(axis=0))
    effects = np.empty((len(picked), z.shape[1], coefficient.shape[2]))
    for s, (alpha, *slopes) in enumerate(coefficient):
        beta = np.array(slopes)
        logits = alpha + z @ beta
        theta = _shares(logits)
        effects[s] = theta.mean(axis=0) * beta - beta @ theta.T @ theta / len(z)
        for j in switches:
            on, off = (z[values[:, j] == value, j][0] for value in (1, 0))
            with_, without = (_shares(logits + np.outer(to - z[:, j], beta[j])).mean(axis=0) for to in (on, off))
            effects[s, j] = with_ - without
    labels = {"covariate": posterior["term"].values[1:], "category": posterior["category"].values}
    return xr.DataArray(effects[None], dims=("chain", "draw", "covariate", "category"), coords=labels)


def _shares(logits: np.ndarray) -> np.ndarray:
    theta = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(theta / theta.sum(axis=1, keepdims=True))


def simulate(people: int, mechanism: ad.mechanisms.Mechanism, seed: int) -> tuple[ad.Responses, np.ndarray, np.ndarray]:
    """Simulate people with four covariates; return the responses, the covariates and the true coefficients."""
    rng = np.random.default_rng(seed)
    k = mechanism.n_categories
    z = rng.normal(size=(people, 4)) @ np.array([[1, 0.4, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.3], [0, 0, 0, 1]])
    truth = rng.normal(scale=0.6, size=(5, k))
    truth -= truth.mean(axis=1, keepdims=True)
    logits = truth[0] + standardized(z) @ truth[1:]
    ends = np.cumsum(np.exp(logits), axis=1)
    x = (rng.random(people)[:, None] * ends[:, -1:] >= ends).sum(axis=1)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), z, truth


if __name__ == "__main__":
    responses, covariates, _ = simulate(10_000, ad.UnaryEncoding(5, epsilon=2.0), seed=1)
    with build(responses, covariates, ["age", "schooling", "income", "town"]):
        trace = pm.sample(random_seed=1)
    print(az.summary(trace, var_names=["coefficient"], ci_kind="hdi", ci_prob=0.9))
    effects = marginal_effects(trace["posterior"].to_dataset(), covariates)
    print(effects.mean(("chain", "draw")).to_pandas().round(3))
