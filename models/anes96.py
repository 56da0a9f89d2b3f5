"""Party identification by age, education and income: a regression on private answers, and the one on honest answers.

Use it to see how much precision a regression loses by privacy. The 944 people of the American National Election Study
of 1996, which comes with statsmodels, placed themselves on one of seven steps from strong Democrat to strong
Republican. Here each of them answers by SRR with ε = 2 instead, and `regression.py` is fitted to these answers alone.
The maximum-likelihood coefficients of the honest answers should lie within its 95 % intervals. The data are public, so
nothing is revealed.

``python -m models.anes96 --out docs/figures/anes96.png`` draws the figure of docs/anes96.md.
"""

import argparse
import warnings

import numpy as np
import pymc as pm
import xarray as xr

import adobest_pp as ad
from models import regression

COVARIATES = ["age", "educ", "income"]
NAMES = ["age", "education", "income"]
STEPS = ["strong Dem.", "weak Dem.", "indep. Dem.", "indep.", "indep. Rep.", "weak Rep.", "strong Rep."]
EPSILON = 2.0


def load() -> tuple[np.ndarray, np.ndarray]:
    """Return the step of each person, 0 to 6, and the covariates (n, 3)."""
    import statsmodels.api as sm

    data = sm.datasets.anes96.load_pandas().data
    return data["PID"].to_numpy().astype(int), data[COVARIATES].to_numpy(dtype=float)


def honest(step: np.ndarray, covariates: np.ndarray) -> xr.Dataset:
    """Return maximum likelihood from honest answers: logits relative to the first step, and their standard errors."""
    import statsmodels.api as sm

    table = sm.add_constant(regression.standardized(covariates))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sm.MNLogit(step, table).fit(disp=0)
    dims = ("term", "category")
    found = {"estimate": (dims, np.asarray(fit.params)), "error": (dims, np.asarray(fit.bse))}
    return xr.Dataset(found, {"term": ["intercept", *NAMES], "category": STEPS[1:]})


def private(step: np.ndarray, covariates: np.ndarray, seed: int) -> xr.DataArray:
    """Return draws of the same coefficients from answers that were randomized with this seed."""
    mechanism = ad.SRR(len(STEPS), EPSILON)
    answers = mechanism.privatize(step, rng=np.random.default_rng(seed))
    responses = ad.Responses.from_arrays(mechanism, answers, categories=STEPS)
    with regression.build(responses, covariates, NAMES):
        trace = pm.sample(1000, tune=1000, chains=2, random_seed=seed, progressbar=False)
    coefficient: xr.DataArray = trace["posterior"]["coefficient"]
    return (coefficient - coefficient.isel(category=0, drop=True)).sel(category=STEPS[1:])


def intervals(draws: xr.DataArray) -> xr.Dataset:
    """Return the mean and the 95 % interval, with equal tails, of each coefficient."""
    over = ("chain", "draw")
    lower, upper = (draws.quantile(level, over).drop_vars("quantile") for level in (0.025, 0.975))
    return xr.Dataset({"mean": draws.mean(over), "lower": lower, "upper": upper})


def plot(shown: xr.Dataset, reference: xr.Dataset, path: str) -> None:
    """Draw the intervals of private answers beside estimates of honest ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True, layout="constrained")
    place = np.arange(len(STEPS) - 1)
    for axis, name in zip(axes, NAMES, strict=True):
        one, other = shown.sel(term=name), reference.sel(term=name)
        error = [one["mean"] - one["lower"], one["upper"] - one["mean"]]
        axis.errorbar(one["mean"], place + 0.12, xerr=error, fmt="o", ms=4, label=f"private, ε = {EPSILON:g}: 95 %")
        axis.errorbar(
            other["estimate"],
            place - 0.12,
            xerr=1.96 * other["error"],
            fmt="s",
            ms=4,
            label="honest: maximum likelihood",
        )
        axis.axvline(0, color="0.7", lw=0.8, zorder=0)
        axis.set(title=name, xlabel="logit per standard deviation")
    axes[0].set_yticks(place, STEPS[1:])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle("Party identification, relative to strong Democrats (ANES 1996, n = 944)", fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="a PNG file to draw the figure to")
    parser.add_argument("--seed", type=int, default=1, help="of answers and draws (default 1)")
    options = parser.parse_args()
    step, covariates = load()
    reference = honest(step, covariates)
    shown = intervals(private(step, covariates, options.seed))
    covered = (shown["lower"] <= reference["estimate"]) & (reference["estimate"] <= shown["upper"])
    wider = (shown["upper"] - shown["lower"]) / (2 * 1.96 * reference["error"])
    print(
        f"{int(covered.sum())} of {covered.size} honest coefficients are within the 95 % intervals of private answers"
    )
    print(f"these are {float(wider.min()):.1f} to {float(wider.max()):.1f} times as wide as those of honest answers")
    if options.out:
        plot(shown, reference, options.out)
