"""Frequencies of many categories, most of which may be empty: a Dirichlet prior whose concentration is learned.

Use it when the list of categories is longer than what people hold, such as words, pages or products. A flat prior then
spreads the noise of the answers over all of the empty categories; here the data decide how uneven θ is, and empty
categories shrink together. If you know that most categories are not empty, use `marginal.py`: it needs no such prior.
"""

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: θ ~ Dirichlet(a, …, a) with ln a normal. ``frequency_model(responses, "learned")`` is the same.

    θ is φ/Σφ with φ ~ Gamma(a), and φ is written as a Gamma(a+1) variable times U^(1/a), U uniform, which is the same
    [1]_. NUTS then need not follow the orders of magnitude of an empty category, which grow as 1/a.

    References
    ----------
    .. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
       Mathematical Software 26(3).
    """
    with pm.Model(coords={"category": responses.categories}) as model:
        concentration = pm.LogNormal("concentration", mu=-2, sigma=2)
        boosted = pm.Gamma("boosted", concentration + 1, 1, dims="category")
        gap = pm.Exponential("gap", 1, dims="category")
        log_phi = pm.math.log(boosted) - gap / concentration
        theta = pm.Deterministic("theta", pm.math.softmax(log_phi), dims="category")
        ad.PrivateResponse("y", theta, responses, dims="response")
    return model


def simulate(people: int, seed: int) -> ad.Responses:
    """Simulate people who hold four of thirty products."""
    rng = np.random.default_rng(seed)
    shares = np.zeros(30)
    shares[[2, 11, 17, 23]] = [0.4, 0.3, 0.2, 0.1]
    mechanism = ad.SRR(30, epsilon=2.0)
    x = rng.choice(30, size=people, p=shares)
    products = [f"product {i:02}" for i in range(30)]
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=products)


if __name__ == "__main__":
    with build(simulate(people=10_000, seed=1)):
        trace = pm.sample(random_seed=1, target_accept=0.95)
    print(az.summary(trace, var_names=["concentration", "theta"], ci_kind="hdi", ci_prob=0.9))
