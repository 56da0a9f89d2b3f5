"""Which sampler to use when: error against work, of every sensible combination of gradient, diffusion and step.

Over the grid of studies/frontier.toml: the paper's 36 settings (adaptive RRRR, 500 K people), whose answers collapse to
some hundred rows, and four in which they do not (subset selection and unary encoding, K = 20 and 100, up to 10⁶
people). The error is that of `diagnostics.explain`: the root mean square over categories of the difference of means and
of the ratio of standard deviations less one, in standard deviations of the reference, Monte-Carlo error included. The
reference is NUTS, and where that is out of reach (K = 100) a longer run of ``sgld_cv``, which can then only show that
other samplers are worse. Work is seconds of CPU of one core, all chains and tuning together, and gradients of rows of
evidence. Every point of the frontier is a median over settings. Exits with 1 if a finding stated below is not
reproduced.
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp import RRRR, Responses, SubsetSelection, UnaryEncoding, sample, simulate
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.data.draws import theta_of
from adobest_pp.plots import plot_frontier
from adobest_pp.plots._saving import save_figure
from adobest_pp.plots.frontier_plot import is_on_frontier
from adobest_pp.samplers.langevin_settings import LangevinSettings
from adobest_pp.samplers.problems import NOT_CONVERGED, without_warnings_of
from adobest_pp.studies import Measure, Run, Study, cells_of, declares, open_study, read_study, run_once, run_study
from validation.common import Finding, Options, finding, main, table

STUDY = Path(__file__).parents[1] / "studies" / "frontier.toml"
FIGURES = Path(__file__).parent / "frontier"
COSTS = ("cpu_seconds", "gradients")
EXACT = ("nuts", "gibbs", "sgld_cv")
QUICK_SAMPLERS = ("nuts", "sgld_cv", "log_ratio minibatch 1", "log_ratio control_variates 1")
MEASURES = {
    "distance": Measure("distance of means and standard deviations to the reference", "sd"),
    "distance_of_a_quarter": Measure("the same of the first quarter of the draws", "sd"),
    "r_hat": Measure("largest R-hat"),
    "cpu_seconds": Measure("seconds of CPU, tuning included", "s"),
    "gradients": Measure("gradients of rows of evidence, tuning included"),
    "rows": Measure("distinct rows of evidence"),
}
# Draws kept and discarded of each of four chains, and updates of SGLD between draws.
DRAWS, TUNE, CHAINS, UPDATES = 250, 125, 4, 20
BATCH = 50
# NUTS takes a gradient of all rows: beyond so many members of sets it is out of reach as a reference.
MOST_MEMBERS = 1_000_000
# What is called close to the reference, in its standard deviations. Monte-Carlo error alone is about 0.05.
CLOSE = 0.15


class Reference(NamedTuple):
    """What the samplers of one setting have in common: answers and draws of the posterior."""

    responses: Responses
    theta: NDArray[np.float64]
    sampler: str


@declares(MEASURES)
def frontier_run(
    run: Run,
    *,
    mechanism: str,
    n_categories: int,
    epsilon: float,
    rho: float,
    sampler: str,
    kappa: float = 0.9,
    people: int = 0,
) -> dict[str, float]:
    """Sample once, and compare with the reference.

    Parameters
    ----------
    run : Run
        Which run it is.
    mechanism : {"rrrr", "subset_selection", "unary_encoding"}
        Answers of RRRR are collected adaptively by the utility ``"honest"``, as in the paper.
    n_categories, epsilon, kappa, people
        Of the mechanism, and how many people answer; 500 K where `people` is 0.
    rho : float
        The truth is drawn from Dirichlet(ρ). All samplers have the flat prior.
    sampler : str
        As in studies/frontier.toml.
    """
    setting = (mechanism, n_categories, epsilon, rho, kappa, people or 500 * n_categories)
    seed = int(run.sequence(setting=list(setting)).generate_state(1)[0])
    known = reference_of(seed, *setting)
    options = options_of(sampler)
    _compile(mechanism, sampler)
    sizes = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS}
    tree, seconds = timed(known.responses, random_seed=seed + 1, **sizes, **options)
    theta, rows = theta_of(tree).values, known.responses.evidence().n_rows
    return {
        "distance": distance(theta, known.theta),
        "distance_of_a_quarter": distance(theta[:, : DRAWS // 4], known.theta),
        "r_hat": float(np.max(array_stats.rhat(theta, chain_axis=0, draw_axis=1))),
        "cpu_seconds": seconds,
        "gradients": gradients_of(tree, rows),
        "rows": float(rows),
    }


def distance(theta: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return how far means and standard deviations are from those of the reference, in its standard deviations."""
    sd = right.std(axis=(0, 1))
    shift = (theta.mean(axis=(0, 1)) - right.mean(axis=(0, 1))) / sd
    return float(np.sqrt(np.mean(shift**2 + (theta.std(axis=(0, 1)) / sd - 1) ** 2)))


@lru_cache(maxsize=1)  # the cells of a study come setting by setting
def reference_of(seed: int, mechanism: str, k: int, epsilon: float, rho: float, kappa: float, people: int) -> Reference:
    """Collect the answers of a setting, and sample the reference."""
    rng = np.random.default_rng(seed)
    theta = draw_dirichlet(rng, np.full(k, float(rho)))
    responses = answers(mechanism, theta, epsilon, kappa, people, rng)
    sampler = "nuts" if responses.evidence().members.size <= MOST_MEMBERS else "sgld_cv"
    # Few draws where a gradient takes milliseconds, more where it takes microseconds.
    draws = 1000 if mechanism == "rrrr" else 500
    tree, _ = timed(responses, sampler=sampler, draws=draws, tune=500, random_seed=seed + 2)
    return Reference(responses, theta_of(tree).values, sampler)


def timed(responses: Responses, **arguments: Any) -> tuple[xr.DataTree, float]:
    """Sample; return the draws and the seconds of CPU, without those of checking the draws afterwards."""
    with without_warnings_of(NOT_CONVERGED):  # R-hat is in the table
        began, cpu = time.perf_counter(), time.process_time()
        tree = sample(responses, progressbar=False, **arguments)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return tree, cpu * min(float(tree.attrs["sampling_time"]) / wall, 1.0)


def options_of(sampler: str) -> dict[str, Any]:
    """Return the arguments of `sample` that a name in the study stands for."""
    if sampler in EXACT:
        return {"sampler": sampler}
    diffusion, gradient, factor = sampler.split(" ")
    gradient, _, size = gradient.partition(":")
    batch = None if gradient == "full" else int(size or BATCH)
    pieces: dict[str, Any] = {"diffusion": diffusion, "gradient": gradient, "batch_size": batch}
    steps: Any = LangevinSettings.of(**pieces).schedule
    name = "step_size" if hasattr(steps, "step_size") else "scale"
    schedule = replace(steps, **{name: float(factor) * getattr(steps, name)})
    return {"sampler": "sgld", "schedule": schedule, "updates_per_draw": UPDATES, **pieces}


@lru_cache
def _compile(mechanism: str, sampler: str) -> None:
    """Make a few draws, so that no time includes compilation."""
    responses = answers(mechanism, np.full(4, 0.25), 1.0, 0.9, 50, np.random.default_rng(1))
    timed(responses, draws=10, tune=100, chains=2, random_seed=1, **options_of(sampler))


def answers(
    mechanism: str, theta: NDArray[np.float64], epsilon: float, kappa: float, people: int, rng: np.random.Generator
) -> Responses:
    """Simulate people and their answers."""
    if mechanism == "rrrr":
        seed = int(rng.integers(2**31))
        return simulate(theta, RRRR(theta.size, epsilon, kappa), "honest", n_people=people, random_seed=seed).responses
    device = {"subset_selection": SubsetSelection, "unary_encoding": UnaryEncoding}[mechanism](theta.size, epsilon)
    return Responses.from_arrays(device, device.privatize(rng.choice(theta.size, size=people, p=theta), rng=rng))


def gradients_of(tree: xr.DataTree, rows: int) -> float:
    """Return how many gradients of rows a run took. For Gibbs, rows whose people were imputed.

    Of NUTS and ``sgld_cv``, draws in tuning are taken to cost as much as those that are kept.
    """
    at = tree.attrs
    draws = at["chains"] * (at["draws"] + at["tune"])
    if at["sampler"] == "nuts":
        return float(tree["sample_stats"]["n_steps"].mean() * draws * rows)
    if at["sampler"] == "gibbs":
        return float(draws * rows)
    chosen = json.loads(at["sampler_choices" if at["sampler"] == "sgld_cv" else "sampler_settings"])
    batch = chosen["batch" if at["sampler"] == "sgld_cv" else "batch_size"] or rows
    return float(draws * chosen["updates_per_draw"] * batch)


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
        status = run_study(study, Path(folder) / "frontier.zarr", workers=1)
        if status.done < status.total:
            raise RuntimeError(f"{status.failed} of {status.total} runs failed: {status.errors}")
        return open_study(Path(folder) / "frontier.zarr").isel(run=0).load()


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
                work = [f"{float(one['cpu_seconds']):.3g}{marks[0]}", f"{float(one['gradients']):.2g}{marks[1]}"]
                close = f"{float(one['close']):.0%}"
                rows.append([sampler, f"{length:g}", float(one["distance"]), close, float(one["r_hat"]), *work])
    table(["sampler", "length", "distance", f"below {CLOSE:g}", "R-hat", "seconds", "gradients"], rows)


def sound(points: xr.Dataset) -> list[Finding]:
    """Return what is checked of any runs of the paper's settings."""
    last = points.isel(length=-1)
    error, seconds = last["distance"], last["cpu_seconds"]
    names = points["sampler"].values.tolist()
    pairs = [
        (name, name.replace("minibatch", "control_variates"))
        for name in names
        if " minibatch " in name and name.replace("minibatch", "control_variates") in names
    ]
    worse = [float(error.sel(sampler=a) - error.sel(sampler=b)) for a, b in pairs]
    return [
        finding(
            "sgld_cv",
            f"sgld_cv is within {CLOSE:g} sd of NUTS in all but 3 % of the paper's settings",
            last["close"].sel(sampler="sgld_cv") >= 0.97,
            share=last["close"].sel(sampler="sgld_cv"),
            median_error=error.sel(sampler="sgld_cv"),
        ),
        finding(
            "nuts",
            f"a second run of NUTS is within {CLOSE:g} sd of the first everywhere",
            last["close"].sel(sampler="nuts") == 1,
            median_error=error.sel(sampler="nuts"),
        ),
        finding(
            "control_variates",
            "long steps: control variates have a smaller median error than batches alone",
            all(one > 0 for (name, _), one in zip(pairs, worse, strict=True) if name.endswith(" 30")),
            least_gain=min(worse),
        ),
        finding(
            "no_minibatch",
            "where evidence collapses, no minibatch is on the frontier of seconds below the error of sgld_cv",
            not any(
                error.sel(sampler=name) <= error.sel(sampler="sgld_cv")
                and seconds.sel(sampler=name) < seconds.sel(sampler="sgld_cv")
                for name in names
                if "minibatch" in name
            ),
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
    return sound(next(iter(points.values())))


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
