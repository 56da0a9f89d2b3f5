"""Two ways to draw from the posterior of a program: in a few seconds without compiling it, and in full by NUTS."""

import numpy as np
import pymc as pm
import xarray as xr
from pymc.blocking import DictToArrayBijection, RaveledVars
from scipy import optimize

RUN = {"draws": 400, "tune": 500, "chains": 2, "progressbar": False, "random_seed": 1}


def by_nuts(model, known=None, **settings):
    """Draws of NUTS, of which nearly none may diverge; nothing is known."""
    with model:
        trace = pm.sample(**RUN, **settings)
    assert trace["sample_stats"]["diverging"].mean() < 0.05
    return trace["posterior"].to_dataset()


def by_hand(model, known=None, **_):
    """Draws of a plain Hamiltonian Monte Carlo in the coordinates of NUTS, scaled by the curvature at the mode.

    Exact as NUTS is, on the same density and gradient, but interpreted: what takes long with NUTS is to compile them. A
    scale that bends the posterior, which one metric does not follow, must be given its true value in `known`. The
    draws are then worth some 200 independent ones: with twelve free shares, squared distances come out a twentieth too
    large, and a false alarm at 1e-4 is one at 2e-4.
    """
    if known:
        model = pm.do(model, known)
    function = model.logp_dlogp_function(ravel_inputs=True, mode="FAST_COMPILE")
    function.set_extra_values({})
    start = DictToArrayBijection.map(model.initial_point())
    mode = optimize.minimize(lambda x: tuple(-part for part in function(x)), start.data, jac=True, method="BFGS").x
    step = 1e-4
    slopes = [(function(mode + step * e)[1] - function(mode - step * e)[1]) / (2 * step) for e in np.eye(mode.size)]
    factor = np.linalg.cholesky(np.linalg.inv(-(np.array(slopes) + np.transpose(slopes)) / 2))
    points = np.array([hamiltonian(function, mode, factor, np.random.default_rng(seed)) for seed in (1, 2)])
    shown = model.unobserved_value_vars
    evaluate = model.compile_fn(shown, inputs=model.value_vars, mode="FAST_COMPILE")
    draws = [
        evaluate(DictToArrayBijection.rmap(RaveledVars(point, start.point_map_info)))
        for point in np.concatenate(points)
    ]
    variables = {}
    for variable, values in zip(shown, zip(*draws, strict=True), strict=True):
        dims = model.named_vars_to_dims.get(variable.name)
        if dims is not None or values[0].ndim == 0:
            stacked = np.reshape(values, (*points.shape[:2], *values[0].shape))
            variables[variable.name] = (("chain", "draw", *(dims or ())), stacked)
    return xr.Dataset(variables, {name: list(labels) for name, labels in model.coords.items() if labels is not None})


def hamiltonian(function, center, factor, rng, draws=200, tune=80):
    """One chain: trajectories of about a quarter of a turn, with Metropolis' rule and a step found in tuning."""
    at, kept, accepted, longest = rng.standard_normal(center.size), np.empty((draws, center.size)), 0, 0.3

    def density(z):
        value, slope = function(center + factor @ z)
        return float(value), factor.T @ slope

    value, slope = density(at)
    for i in range(-tune, draws):
        step, momentum = longest * rng.uniform(0.7, 1), rng.standard_normal(center.size)
        there, energy, by_there = at, value - momentum @ momentum / 2, slope
        for _ in range(min(12, round(1.3 / step))):
            momentum = momentum + step / 2 * by_there
            there = there + step * momentum
            ahead, by_there = density(there)
            momentum = momentum + step / 2 * by_there
        moves = np.log(rng.random()) < ahead - momentum @ momentum / 2 - energy
        if moves:
            at, value, slope = there, ahead, by_there
        if i < 0:
            longest *= 1.03 if moves else 0.88
        else:
            accepted += moves
            kept[i] = center + factor @ at
    assert accepted > 0.5 * draws, "the chain hardly moves"
    return kept
