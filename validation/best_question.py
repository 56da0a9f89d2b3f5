"""What the best question gains, and what no question could: designed mechanisms beside all others at equal, true ε.

SRR, subset selection, unary encoding, adaptive RRRR by each of the six utilities (κ = 0.9), semi-adaptive RRRR with the
five α of the paper as the authors' program runs it (ε₁ = ε), and a collection in rounds whose mechanism is designed for
the answers still to come, over the grid of studies/best_question.toml: truths from Dirichlet(ρ), 500 K people, exact
inference under a flat prior and under one whose concentration is learned. All mechanisms of a run have truth and people
in common. They are compared by the mean of the logarithm of the ratio of their TV to the truth, shown as a ratio, with
a t-interval over runs; for the mean of many settings, over truths, whose settings are averaged first. Beside them
stands what a perfect design could gain on subset selection with many answers: the root of the ratio of the least
variance of any ε-LDP mechanism at the truth to that of subset selection (for K = 50, where no bound is proved, of the
best found). Runs are read from validation/best_question; validation/kept_runs.py makes those that are not there. Exits
with 1 if a finding stated below is not reproduced.
"""

import sys
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from adobest_pp import SubsetSelection, asymptotic_variance, optimal_mechanism
from adobest_pp.design import UTILITIES
from adobest_pp.studies import Run, Study, collect, read_study
from validation.common import Finding, Options, Shown, each, finding, keep, main, shown, table
from validation.kept_runs import make_runs
from validation.mechanisms import LABELS as KNOWN
from validation.mechanisms import SEMI, SRR, SUBSET_SELECTION, UNARY, print_scope, quick_runs

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "studies" / "best_question.toml"
DESIGN = "design"
FIRST = (SRR, SUBSET_SELECTION, UNARY)
LABELS = {name: KNOWN[name] for name in FIRST} | {DESIGN: "design"} | KNOWN
LEVEL = 0.95
# Runs of a setting whose truths the bound is computed for.
BOUND_RUNS = 10
SETTINGS = ("K", "epsilon", "rho", "prior")

MEANING = """
What this means for a reader. Where the collection can go in rounds and nothing is known of θ, ask the best question:
over all settings its error is {all:.2f} times that of subset selection
({by_k}). It is not shown to be behind subset selection in any of the {settings} settings;
in {above} of them its mean is above, within the noise. It gains most where nearly everybody holds
one category (ρ = 0.01: {uneven:.2f}) and at ε = 2 ({two:.2f}), more than the bound for many answers allows
({bound:.2f}), because with few answers it matters which directions are still open. It is not the best in every
setting. Settings in which each has the least mean error:
{best}.
Semi-adaptive RRRR with an α that suits the setting can be better. Its best α, chosen with hindsight, is shown to be
{against}.
Where it is shown ahead it has {ratios} times the error of the design. No one α is good everywhere: over these
settings the five have {alphas} times the error of subset selection. Shown ahead of / behind the design, each α by
itself: {each}."""


def meaning(runs: xr.Dataset, bound: xr.DataArray) -> str:
    """Return what to make of it."""
    ratio = log_ratio(runs, DESIGN, SUBSET_SELECTION)
    means = {
        "all": ratio,
        "uneven": ratio.sel(rho=0.01),
        "two": ratio.sel(epsilon=2.0),
        "bound": bound.sel(epsilon=2.0),
    }
    by_k = ", ".join(f"K = {k}: {np.exp(float(ratio.sel(K=k).mean())):.2f}" for k in runs["K"].values.tolist())
    best = ", ".join(f"{name} {n}" for name, n in best_counts(runs).items())
    keep(runs=runs.sizes["run"], settings=n_settings(runs), uneven=np.exp(float(means["uneven"].mean())))
    against, semi = [], Semi.against(runs, DESIGN)
    for prior, (ahead, behind, n) in semi.best().items():
        keep(**{f"semi_ahead_{prior}": ahead, f"semi_behind_{prior}": behind, f"semi_settings_{prior}": n})
        against.append(
            f"ahead of the design in {ahead} and behind it in {behind} of {n} settings with the {prior} prior"
        )
    shown_ahead = semi.ratios_ahead()
    if shown_ahead.size:
        keep(semi_least=shown_ahead.min(), semi_greatest=shown_ahead.max())
    names = [name for name in SEMI if name in runs["mechanism"].values]
    alphas = [np.exp(float(pooled(log_ratio(runs, name, SUBSET_SELECTION)).mean())) for name in names]
    return MEANING.format(
        by_k=by_k,
        settings=n_settings(runs),
        above=int((ratio.mean("run") > 0).sum()),
        best=best,
        against=",\nand ".join(against),
        alphas=f"{min(alphas):.2f} to {max(alphas):.2f}" if alphas else "no",
        ratios=f"{shown_ahead.min():.2f} to {shown_ahead.max():.2f}" if shown_ahead.size else "no",
        each=", ".join(f"{name.removeprefix('semi_adaptive_')} {a} / {b}" for name, (a, b) in semi.each().items()),
        **{name: np.exp(float(values.mean())) for name, values in means.items()},
    )


def best_counts(runs: xr.Dataset) -> dict[str, int]:
    """Return in how many settings each kind of mechanism has the least mean of ln TV, the most frequent first."""
    tv = xr.ufuncs.log(runs["exact_tv"])
    ratios = tv - tv.sel(mechanism=SUBSET_SELECTION)
    means = ratios.mean("run").stack(setting=SETTINGS).transpose("setting", "mechanism")
    names = means["mechanism"].values[np.nanargmin(means.values, axis=1)]
    kinds = dict.fromkeys(SEMI, "semi-adaptive RRRR") | dict.fromkeys(UTILITIES, "RRRR by a utility")
    found = Counter(kinds.get(name, LABELS[name]) for name in names.tolist())
    return dict(found.most_common())


@dataclass(frozen=True, eq=False)
class Semi:
    """Semi-adaptive RRRR against another mechanism, by α and setting.

    The level of the intervals is for all α of all settings, so that it holds for an α that is chosen with hindsight.

    Attributes
    ----------
    mean : xarray.DataArray
        Means of ln of the ratio of the TVs.
    ahead, behind : xarray.DataArray
        Where it is shown to be ahead of the other one, or behind it.
    """

    mean: xr.DataArray
    ahead: xr.DataArray
    behind: xr.DataArray

    @classmethod
    def against(cls, runs: xr.Dataset, other: str) -> "Semi":
        """Compare every α that was run."""
        names = [name for name in SEMI if name in runs["mechanism"].values]
        ratios = xr.concat([log_ratio(runs, name, other) for name in names], xr.Variable("alpha", names))
        mean, low, high = interval(ratios, int(np.prod([ratios.sizes[name] for name in ("alpha", *SETTINGS)])))
        return cls(mean, high < 0, low > 0)

    def best(self) -> dict[str, tuple[int, int, int]]:
        """Return by prior in how many settings the best α is shown ahead, shown behind, and of how many."""
        ahead, behind = (one.isel(alpha=self.mean.argmin("alpha")) for one in (self.ahead, self.behind))
        return {
            prior: (int(ahead.sel(prior=prior).sum()), int(behind.sel(prior=prior).sum()), ahead.sel(prior=prior).size)
            for prior in self.mean["prior"].values.tolist()
        }

    def ratios_ahead(self) -> NDArray[np.float64]:
        """Return the ratios of the best α in the settings where it is shown ahead."""
        best = self.mean.argmin("alpha")
        return np.asarray(np.exp(self.mean.isel(alpha=best).values[self.ahead.isel(alpha=best).values]))

    def each(self) -> dict[str, tuple[int, int]]:
        """Return of each α in how many settings it is shown ahead, and behind."""
        return {
            name: (int(self.ahead.sel(alpha=name).sum()), int(self.behind.sel(alpha=name).sum()))
            for name in self.mean["alpha"].values.tolist()
        }


def study_of(quick: bool, seed: int) -> Study:
    """Return the study to run: the file's, or a few small cells of it."""
    study = replace(read_study(STUDY), seed=seed)
    if not quick:
        return study
    few = {"n_categories": (4,), "epsilon": (2.0,), "rho": (0.1, 1.0), "alpha": (0.9,)}
    grid = tuple({name: few.get(name, values) for name, values in block.items()} for block in study.grid)
    grid = (grid[0], grid[1] | {"utility": ("honest",)}, grid[2])
    return replace(study, runs=3, settings={"people_per_category": 100}, grid=grid)


def log_ratio(runs: xr.Dataset, first: str, second: str) -> xr.DataArray:
    """Return ln of the TV of one mechanism over that of another, by setting and run, for the K that both have."""
    tv = xr.ufuncs.log(runs["exact_tv"])
    ratio: xr.DataArray = tv.sel(mechanism=first, drop=True) - tv.sel(mechanism=second, drop=True)
    return ratio.dropna("K", how="all") if "K" in ratio.dims else ratio


def interval(values: xr.DataArray, n_comparisons: int = 1) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Return means over runs with the ends of t-intervals, simultaneous for this many comparisons (Bonferroni)."""
    n = values.count("run")
    mean, error = values.mean("run"), values.std("run", ddof=1) / np.sqrt(n)
    reach = stats.t.ppf(1 - (1 - LEVEL) / (2 * n_comparisons), n - 1) * error
    return mean, mean - reach, mean + reach


def pooled(values: xr.DataArray) -> xr.DataArray:
    """Return one mean for each truth (K, ρ, run), over the settings that share it."""
    # A truth counts if all of its settings were run: with some missing, it would average something else.
    means = values.mean([name for name in ("epsilon", "prior") if name in values.dims], skipna=False)
    axes = [name for name in ("K", "rho", "run") if name in means.dims]
    return means.stack(pool=axes).reset_index("pool", drop=True).rename(pool="run").dropna("run")


def allowed(study: Study) -> xr.DataArray:
    """Return ln of the ratio of TV that the bound allows to a perfect design over subset selection, by K, ε and ρ."""
    axes = {"K": "n_categories", "epsilon": "epsilon", "rho": "rho"}
    values = {name: [*study.grid[0][setting]] for name, setting in axes.items()}
    cells = [
        (*cell, study.seed, run) for cell in product(*values.values()) for run in range(min(study.runs, BOUND_RUNS))
    ]
    found = np.array(each(_allowed, cells, "Bounds", parallel=len(cells) > 100))
    shape = (*map(len, values.values()), -1)
    return xr.DataArray(found.reshape(shape).mean(axis=-1), dims=tuple(values), coords=values)


def _allowed(cell: tuple[int, float, float, int, int]) -> float:
    k, epsilon, rho, seed, number = cell
    settings = {"n_categories": k, "rho": rho, "epsilon": epsilon, "mechanism": "srr", "people": 1}
    theta = collect(Run(seed, number, settings), **settings).theta
    best = optimal_mechanism(theta, epsilon)
    value = best.value if np.isnan(best.lower_bound) else best.lower_bound
    return float(np.log(min(value / asymptotic_variance(SubsetSelection(k, epsilon), theta), 1.0)) / 2)


def print_design(runs: xr.Dataset, bound: xr.DataArray) -> None:
    """Print the ratio of the design's TV to that of subset selection, setting by setting, and the bound beside it."""
    n = n_settings(runs)
    print("TV of design over that of subset selection in the same run: means of")
    print(f"{runs.sizes['run']} runs, with intervals that hold together in all {n} settings with 95 %;")
    print("and what a perfect design would reach with many answers")
    for prior in runs["prior"].values.tolist():
        print(f"\n{prior} prior\n")
        rows = []
        for k, epsilon in product(runs["K"].values.tolist(), runs["epsilon"].values.tolist()):
            row: list[Any] = [k, shown("{:g}", epsilon)]
            for rho in runs["rho"].values.tolist():
                cell = runs.sel(prior=prior, K=k, epsilon=epsilon, rho=rho)
                row += [_shown(log_ratio(cell, DESIGN, SUBSET_SELECTION), n)]
                row += [shown("{:.3f}", np.exp(float(bound.sel(K=k, epsilon=epsilon, rho=rho))))]
            rows.append(row)
        heads = [head for rho in runs["rho"].values.tolist() for head in (f"ρ = {rho:g}", "bound")]
        table(["K", "ε", *heads], rows, name="design", setting={"prior": prior, "rho": runs["rho"].values.tolist()})


def _scoped(runs: xr.Dataset, name: str) -> str:
    """Return the label of a mechanism, with the K that it was run for where these are not all."""
    known = log_ratio(runs, name, SUBSET_SELECTION)["K"].values.tolist()
    return LABELS[name] + ("" if len(known) == runs.sizes["K"] else f" (K = {', '.join(map(str, known))})")


def _shown(values: xr.DataArray, n_comparisons: int = 1) -> Shown:
    return shown("{:.2f} [{:.2f}, {:.2f}]", *(np.exp(float(part)) for part in interval(values, n_comparisons)))


def print_all(runs: xr.Dataset) -> None:
    """Print the TV of every mechanism over that of subset selection, over all K and ε."""
    print("\nTV over that of subset selection in the same run, all K and ε together\n")
    cases = list(product(runs["prior"].values.tolist(), runs["rho"].values.tolist()))
    rows = []
    for name in mechanisms_of(runs):
        some = [runs.sel(prior=prior, rho=rho) for prior, rho in cases]
        ratios = [_shown(pooled(log_ratio(one, name, SUBSET_SELECTION))) for one in some]
        rows.append([_scoped(runs, name), *(["1"] * len(cases) if name == SUBSET_SELECTION else ratios)])
    table(["", *(f"{prior}, ρ = {rho:g}" for prior, rho in cases)], rows, name="ratios")
    print("\nThe mechanism with the least mean ln TV, and its TV over that of subset selection\n")
    rows = []
    for prior, k, epsilon in product(*(runs[name].values.tolist() for name in ("prior", "K", "epsilon"))):
        row = [prior, k, shown("{:g}", epsilon)]
        for rho in runs["rho"].values.tolist():
            cell = runs.sel(prior=prior, K=k, epsilon=epsilon, rho=rho)
            means = {name: float(log_ratio(cell, name, SUBSET_SELECTION).mean()) for name in mechanisms_of(runs)}
            best = min((name for name in means if np.isfinite(means[name])), key=lambda name: means[name])
            row.append(shown("{} {:.2f}", LABELS[best], np.exp(means[best])))
        rows.append(row)
    table(["prior", "K", "ε", *(f"ρ = {rho:g}" for rho in runs["rho"].values.tolist())], rows, name="best")


def print_coverage(runs: xr.Dataset) -> None:
    """Print the share of 95 % intervals that hold the truth."""
    print("\nShare of the 95 % intervals that hold the truth, as shown to people (with equal tails), all K and ε\n")
    rows = []
    for name in mechanisms_of(runs):
        row: list[Any] = [LABELS[name]]
        for prior, rho in product(runs["prior"].values, runs["rho"].values):
            cell = runs[["coverage_as_shown", "coverage"]].sel(mechanism=name, prior=prior, rho=rho).mean()
            row.append(shown("{:.3f} ({:.3f})", cell["coverage_as_shown"], cell["coverage"]))
        rows.append(row)
    cases = product(runs["prior"].values, runs["rho"].values)
    table(["", *(f"{prior}, ρ = {rho:g}" for prior, rho in cases)], rows, name="coverage")


def mechanisms_of(runs: xr.Dataset) -> list[str]:
    """Return the mechanisms there are, in the order to show them."""
    return [name for name in LABELS if name in runs["mechanism"].values]


def n_settings(runs: xr.Dataset) -> int:
    """Return the number of settings in which two mechanisms are compared."""
    return int(np.prod([runs.sizes[name] for name in SETTINGS]))


def sound(runs: xr.Dataset) -> list[Finding]:
    """Return what is checked of any runs."""
    loss = runs["true_epsilon"]
    return [
        finding(
            "privacy",
            "no run of any mechanism loses more than its ε",
            ((loss <= loss["epsilon"]) | loss.isnull()).all(),
            largest_excess=(loss - loss["epsilon"]).max(),
        ),
    ]


def stated(runs: xr.Dataset, bound: xr.DataArray) -> list[Finding]:
    """Return what is found of the mechanisms."""
    ratio = log_ratio(runs, DESIGN, SUBSET_SELECTION)
    _, low, _ = interval(ratio, n_settings(runs))
    behind = int((low > 0).sum())
    mean, low, high = interval(pooled(ratio))
    sparse = runs.sel(rho=[rho for rho in runs["rho"].values if rho < 1])
    rivals = [SUBSET_SELECTION, *(name for name in UTILITIES if name in runs["mechanism"].values)]
    ends = {name: interval(pooled(log_ratio(sparse, DESIGN, name)), len(rivals)) for name in rivals}
    reached, at_two = float(ratio.sel(epsilon=2.0).mean()), float(bound.sel(epsilon=2.0).mean())
    cover = runs["coverage_as_shown"].mean(["run", *SETTINGS])
    apart = float(cover.sel(mechanism=DESIGN) - cover.sel(mechanism=SUBSET_SELECTION))
    return [
        finding(
            "never_behind",
            f"design is not shown to be behind subset selection in any of the {n_settings(runs)} settings",
            behind == 0,
            shown_behind=behind,
            means_above=(ratio.mean("run") > 0).sum(),
        ),
        finding(
            "ahead",
            "over all settings it is ahead",
            float(high) < 0,
            interval=(np.exp(float(low)), np.exp(float(high))),
            ratio=np.exp(float(mean)),
        ),
        finding(
            "ahead_where_uneven",
            "ρ ≤ 0.1: it is ahead of subset selection and of RRRR by every utility",
            all(float(end) < 0 for _, _, end in ends.values()),
            largest_upper_end=np.exp(max(float(end) for _, _, end in ends.values())),
        ),
        finding(
            "half_of_the_bound",
            "ε = 2: at least half of what the bound allows is reached, as ln TV over all settings",
            reached <= at_two / 2,
            reached=np.exp(reached),
            bound=np.exp(at_two),
        ),
        finding(
            "coverage",
            "as many of its 95 % intervals hold the truth as under subset selection, within 2 points",
            abs(apart) <= 0.02,
            difference=apart,
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    study = study_of(options.quick, options.seed)
    runs = quick_runs(study) if options.quick else make_runs(study)
    bound = allowed(study)
    print_scope(runs, LABELS)
    print_design(runs, bound)
    print_all(runs)
    print_coverage(runs)
    print("\nWhich mechanism is ahead needs the runs of the full mode." if options.quick else meaning(runs, bound))
    return sound(runs) + ([] if options.quick else stated(runs, bound))


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
