"""Frequencies of categories when it is not certain which ε the devices used.

Use it when the budget is known only roughly: devices of two versions, or a vendor that states a range. A wrong ε does
more than widen an interval: it moves the estimate, away from even shares if the assumed ε is too small. Answers of SRR
cannot show this, because another θ explains them equally well. So what is known about ε goes into a prior, and the
intervals of θ include the uncertainty. `adobest_pp.diagnostics.goodness_of_fit` finds a wrong ε if the answers can show
it.
"""

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad
from adobest_pp._checks import check_positive
from adobest_pp._text import brief


def build(responses: ad.Responses, spread: float) -> pm.Model:
    """Return the model: ln ε is normal around that of the responses, θ is flat, and answers are counted.

    Parameters
    ----------
    responses : Responses
        Of `SRR`, with the ε that is thought most likely.
    spread : float
        The standard deviation of ln ε: 0.1 is a doubt of about a tenth.
    """
    mechanism = responses.mechanism
    if not isinstance(mechanism, ad.SRR):
        raise ValueError(f"responses must be of SRR, got {brief(mechanism)}")
    doubt = check_positive(spread, "spread")
    k = responses.n_categories
    counts = np.bincount(responses.answers, minlength=k)
    with pm.Model(coords={"category": responses.categories}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(k), dims="category")
        epsilon = pm.LogNormal("epsilon", mu=np.log(mechanism.epsilon), sigma=doubt)
        # SRR is RRRR under the empty subset; its matrix is a graph of ε.
        channel = ad.model.transition_matrix(np.zeros(k, dtype=bool), epsilon, epsilon)
        pm.Multinomial("y", n=len(responses), p=(channel * theta).sum(axis=-1), observed=counts, dims="category")
    return model


def simulate(people: int, true_epsilon: float, assumed_epsilon: float, seed: int) -> tuple[ad.Responses, np.ndarray]:
    """Simulate devices that use another ε than is assumed."""
    rng = np.random.default_rng(seed)
    theta = np.array([0.55, 0.3, 0.1, 0.05])
    answers = ad.SRR(4, true_epsilon).privatize(rng.choice(4, size=people, p=theta), rng=rng)
    return ad.Responses.from_arrays(ad.SRR(4, assumed_epsilon), answers), theta


if __name__ == "__main__":
    with build(simulate(20_000, true_epsilon=1.0, assumed_epsilon=1.2, seed=1)[0], spread=0.2):
        trace = pm.sample(random_seed=1, target_accept=0.95)
    print(az.summary(trace, var_names=["theta", "epsilon"], ci_kind="hdi", ci_prob=0.9))
