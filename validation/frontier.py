"""Which sampler to use when: error against work, of every sensible combination of gradient, diffusion and step.

Over the grid of studies/frontier.toml: the paper's 36 settings (adaptive RRRR, 500 K people), whose answers collapse
to some hundred rows, and four in which they do not (subset selection and unary encoding, K = 20 and 100, up to 10⁶
people). The error is that of `diagnostics.explain`: the root mean square over categories of the difference of means
and of the ratio of standard deviations less one, in standard deviations of the reference, Monte-Carlo error included.
The reference is NUTS, and where that is out of reach (K = 100) a longer run of ``sgld_cv``, which can then only show
that other samplers are worse. Work is seconds of CPU of one core, all chains and tuning together, and gradients of
rows of evidence. Gradients of control variates are lower bounds, and the work of a quarter of the draws is taken in
proportion. Every point of the frontier is a median over settings. Exits with 1 if a finding stated below is not
reproduced.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from adobest_pp.plots import plot_frontier
from adobest_pp.plots._common import save_figure
from adobest_pp.plots.comparison import is_on_frontier
from adobest_pp.studies import Study, cells_of, open_study, read_study, run_once, run_study
from validation.common import Finding, Options, finding, main, shown, table
from validation.frontier_run import DRAWS, EXACT, TUNE

STUDY = Path(__file__).parents[1] / "studies" / "frontier.toml"
FIGURES = Path(__file__).parent / "frontier"
COSTS = ("cpu_seconds", "gradients")
QUICK_SAMPLERS = ("nuts", "sgld_cv", "log_ratio minibatch 1", "log_ratio control_variates 1")
# What is called close to the reference, in its standard deviations. Monte-Carlo error alone is about 0.05.
CLOSE = 0.15

MEANING = """
Which sampler to use when. Under a Dirichlet prior, use sgld_cv: in the paper's settings it is as close to the
reference as a second run of NUTS, in {cv:.2f} s of CPU where NUTS takes {nuts:.2f} s. Use NUTS as the reference,
for models of your own, and for concentrations below 0.01. Gibbs has the cheapest draws, but at ε ≤ 1 its chains
have not mixed (median distance over all ε {gibbs:.2f} sd). There, minibatches alone are on no frontier. Where
evidence collapses ({rows:.0f} rows in the median), they buy nothing: a gradient of all rows costs less than twice
as much as one of 50 answers, and with the noise of a batch the best of them is {batch:.2f} sd away. Where nearly
every answer is distinct, a gradient of all rows costs n/m times that of a batch, so batches are worth having, but
only with control variates: without them the noise grows with n, and steps short enough to hide it take too many
updates to mix. At K = 100 the reference is itself a run of sgld_cv, because NUTS is out of reach: distances to it
show which of the others are wrong, not that sgld_cv is right; minibatches are on the frontier of seconds there only
where they are more than one sd away. With 10⁶ answers the study has sgld_cv alone. Gradients of control variates
are lower bounds: the search for the mode and later anchors are not counted."""


def study_of(quick: bool, seed: int) -> Study:
    """Return the study to run: the file's, or a few cells of it."""
    study = replace(read_study(STUDY), seed=seed)
    if not quick:
        return study
    few = {"n_categories": (10,), "epsilon": (5.0,), "rho": (1.0,), "kappa": (0.9,)}
    return replace(study, grid=({**study.grid[0], **few, "sampler": QUICK_SAMPLERS},))


def make_runs(study: Study, quick: bool) -> xr.Dataset:
    """Return the measures by cell, with its settings as coordinates; quick ones are made in this process."""
    if quick:
        cells = cells_of(study)
        found = [run_once(study, cell, 0) for cell in cells]
        values = {name: ("cell", [one[name] for one in found]) for name in study.measures}
        axes = {name: ("cell", [cell.get(name, np.nan) for cell in cells]) for name in study.grid[0]}
        return xr.Dataset(values, axes)
    with tempfile.TemporaryDirectory() as folder:
        status = run_study(study, Path(folder) / "frontier.db", workers=1)
        if status.done < status.total:
            raise RuntimeError(f"{status.failed} of {status.total} runs failed: {status.errors}")
        return open_study(Path(folder) / "frontier.db").isel(run=0).load()


def groups(runs: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the runs of the paper's settings, and those of each larger one."""
    found = {"the paper's settings": runs.isel(cell=runs["mechanism"].values == "rrrr")}
    others = runs.isel(cell=runs["mechanism"].values != "rrrr")
    for mechanism, k, n in (
        dict.fromkeys(
            zip(*(others[name].values.tolist() for name in ("mechanism", "n_categories", "people")), strict=True)
        )
        if "people" in runs.coords
        else ()
    ):
        here = (others["mechanism"] == mechanism) & (others["n_categories"] == k) & (others["people"] == n)
        title = f"{mechanism.replace('_', ' ')}, K = {k:g}, n = {n:,.0f}"
        found[title] = others.isel(cell=here.values)
    return found


def points_of(runs: xr.Dataset) -> xr.Dataset:
    """Return medians over settings by sampler and share of the draws, in how many it is close, and the frontier."""
    measures = ["distance", "r_hat", "cpu_seconds", "gradients", "rows"]
    known = runs[[*measures, "distance_of_a_quarter"]].reset_coords(drop=True)
    whole = known.assign_coords(sampler=runs["sampler"]).groupby("sampler").median()
    whole["close"] = (runs["distance"] < CLOSE).groupby("sampler").mean()
    quarter = whole.assign(distance=whole["distance_of_a_quarter"])
    for cost in COSTS:
        quarter[cost] = whole[cost] * (TUNE + DRAWS / 4) / (TUNE + DRAWS)
    quarter["close"] = (runs["distance_of_a_quarter"] < CLOSE).groupby("sampler").mean()
    points = xr.concat([quarter, whole], xr.Variable("length", [0.25, 1.0]))[[*measures, "close"]]
    points = points.sel(sampler=list(dict.fromkeys(runs["sampler"].values.tolist()))).transpose("sampler", "length")
    for cost in COSTS:
        on = is_on_frontier(points[cost].values, points["distance"].values)
        points[f"frontier_{cost}"] = (("sampler", "length"), on)
    return points


def print_points(title: str, points: xr.Dataset) -> None:
    """Print a row for each sampler and length; * marks the frontier."""
    print(f"\n{title}: medians over settings, of a quarter and of all draws; * is on the frontier\n")
    rows = []
    for sampler in points["sampler"].values.tolist():
        for length in points["length"].values.tolist():
            one = points.sel(sampler=sampler, length=length)
            if np.isfinite(one["distance"]):
                marks = ["*" if one[f"frontier_{cost}"] else "" for cost in COSTS]
                work = [shown("{:.3g}{}", one["cpu_seconds"], marks[0]), shown("{:.2g}{}", one["gradients"], marks[1])]
                close = shown("{:.0%}", one["close"])
                rows.append([sampler, shown("{:g}", length), float(one["distance"]), close, float(one["r_hat"]), *work])
    headers = ["sampler", "length", "distance", f"below {CLOSE:g}", "R-hat", "seconds", "gradients"]
    table(headers, rows, name="points", setting={"of": title})


def pairs_of(points: xr.Dataset, first: str, second: str) -> dict[str, tuple[xr.Dataset, xr.Dataset]]:
    """Return samplers at full length that differ in the gradient alone, by the name of the first."""
    last, names = points.sel(length=1.0), points["sampler"].values.tolist()
    found = {name: name.replace(f" {first} ", f" {second} ") for name in names if f" {first} " in name}
    return {name: (last.sel(sampler=name), last.sel(sampler=other)) for name, other in found.items() if other in names}


def sound(points: xr.Dataset) -> list[Finding]:
    """Return what is found in the paper's settings. None of it depends on how fast the machine is."""
    last = points.sel(length=1.0)
    error, close = last["distance"], last["close"]
    repaired = [
        float(b["distance"] / a["distance"]) for a, b in pairs_of(points, "minibatch", "control_variates").values()
    ]
    return [
        finding(
            "sgld_cv",
            f"sgld_cv is within {CLOSE:g} sd of NUTS in all but 3 % of the paper's settings",
            close.sel(sampler="sgld_cv") >= 0.97,
            share=close.sel(sampler="sgld_cv"),
            median=error.sel(sampler="sgld_cv"),
        ),
        finding(
            "nuts",
            f"a second run of NUTS is within {CLOSE:g} sd of the first everywhere",
            close.sel(sampler="nuts") == 1,
            median=error.sel(sampler="nuts"),
        ),
        finding(
            "control_variates",
            "with control variates, a batch of the same size has a smaller median distance",
            max(repaired) < 1,
            largest_ratio=max(repaired),
        ),
    ]


def stated(points: dict[str, xr.Dataset]) -> list[Finding]:
    """Return what a full run finds besides."""
    paper, *others = points.values()
    pairs = pairs_of(paper, "full", "minibatch")
    noise = [float(b["distance"] / a["distance"]) for a, b in pairs.values()]
    cost = [float(a["cpu_seconds"] / b["cpu_seconds"]) for a, b in pairs.values()]
    large = [some.sel(length=1.0) for some in others if {"nuts", "sgld_cv"} <= set(some["sampler"].values.tolist())]
    gain = [
        float(some["cpu_seconds"].sel(sampler="nuts") / some["cpu_seconds"].sel(sampler="sgld_cv")) for some in large
    ]
    right = [float(some["distance"].sel(sampler="sgld_cv")) for some in large]
    batches = ["minibatch" in name for name in paper["sampler"].values.tolist()]
    on = sum(paper[f"frontier_{cost}"].isel(sampler=batches).sum() for cost in COSTS)
    return [
        finding(
            "no_minibatch",
            "no minibatch without control variates is on a frontier of the paper's settings",
            on == 0,
            points=on,
        ),
        finding(
            "collapsed_cost",
            "where evidence collapses, the gradient of all answers costs less than three times that of a batch of 50",
            max(cost) < 3,
            largest_ratio=max(cost),
        ),
        finding(
            "collapsed_noise",
            "and its median distance is smaller, for every diffusion: a batch buys nothing",
            min(noise) > 1,
            least_ratio=min(noise),
        ),
        finding(
            "distinct",
            f"where answers are distinct (K = 20), sgld_cv is within {CLOSE:g} sd of NUTS in a fifth of its time",
            large and max(right) < CLOSE and min(gain) >= 5,
            **({"least_gain": min(gain), "largest_distance": max(right)} if large else {}),
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    runs = make_runs(study_of(options.quick, options.seed), options.quick)
    return judge(runs, options.quick)


def judge(runs: xr.Dataset, quick: bool) -> list[Finding]:
    """Print the tables, save the figure of a full run, and return the findings."""
    points = {title: points_of(some) for title, some in groups(runs).items()}
    for title, some in points.items():
        print_points(title, some)
    if not quick:
        FIGURES.mkdir(exist_ok=True)
        first = next(iter(points.values()))
        save_figure(plot_frontier(first)[0].figure, FIGURES, "frontier", 100)
    print("\nWhich sampler to use when needs the runs of the full mode." if quick else meaning(points))
    return sound(next(iter(points.values()))) + ([] if quick else stated(points))


def meaning(points: dict[str, xr.Dataset]) -> str:
    """Return which sampler to use when."""
    last = next(iter(points.values())).sel(length=1.0)
    seconds, error = ({name: float(last[m].sel(sampler=name)) for name in EXACT} for m in ("cpu_seconds", "distance"))
    return MEANING.format(
        cv=seconds["sgld_cv"],
        nuts=seconds["nuts"],
        gibbs=error["gibbs"],
        rows=float(last["rows"].sel(sampler="nuts")),
        batch=min(
            (float(last["distance"].sel(sampler=name)) for name in last["sampler"].values if " minibatch " in name),
            default=np.nan,
        ),
    )


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
