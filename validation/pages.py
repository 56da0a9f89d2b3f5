"""What README and the documentation quote from the results, and README's table of findings.

Everything is read by name from the JSON files of `validation/results` and `benchmarks/results`.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from validation import results
from validation.results import Result

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BEGIN, END = "<!-- findings: python -m validation --render -->", "<!-- end of findings -->"


@cache
def result(program: str) -> Result:
    """Return what a validation program wrote."""
    return results.read(program)


def frame(program: str, name: str, folder: Path = results.FOLDER) -> pd.DataFrame:
    """Return the values of a table; a cell of several numbers is a tuple."""
    table = results.read(program, folder).table(name)
    return pd.DataFrame([[results.value_of(cell) for cell in row] for row in table.rows], columns=table.headers)


def shown_table(program: str, name: str) -> pd.DataFrame:
    """Return a table as it is shown, with its first column as the index."""
    table = result(program).table(name)
    return pd.DataFrame(table.texts(), columns=table.headers).set_index(table.headers[0])


def mechanism_errors() -> pd.DataFrame:
    """Return the median total variation to the truth, by prior, K, ε, mechanism and ρ (`mechanisms`)."""
    rows = []
    for table in result("mechanisms").tables("errors"):
        setting = {name: table.setting[name] for name in ("prior", "K", "epsilon")}
        for rho in table.setting["rho"]:
            cells = zip(table.column(""), table.column(f"ρ = {rho:g}"), strict=True)
            rows += [setting | {"mechanism": name, "rho": rho, "tv": median} for name, (median, _, _) in cells]
    return pd.DataFrame(rows)


def best_question() -> pd.DataFrame:
    """Return the TV of each mechanism over that of subset selection, with intervals, by prior and ρ."""
    return shown_table("best_question", "ratios").rename_axis(None)


def sampler_verdicts() -> pd.DataFrame:
    """Return the verdicts on samplers against NUTS, by K and ε (`sampler_accuracy`)."""
    table = result("sampler_accuracy").table("verdicts")
    return pd.DataFrame(table.texts(), columns=table.headers)


def leaderboard() -> pd.DataFrame:
    """Return the grade of each sampler on each reference posterior (`leaderboard`); empty without results."""
    try:
        return frame("leaderboard", "grades")
    except LookupError:
        return pd.DataFrame()


RIGHT = "indistinguishable"


def group_winners(grades: pd.DataFrame) -> list[str]:
    """Return a sentence for each group: who is right on the most of its references, and of these the fastest.

    Speed is the geometric mean, over the references of the group, of effective draws per second of the processor.
    """
    lines = []
    for group, rows in grades.groupby("group", sort=False):
        right = rows[rows["verdict"].eq(RIGHT)]
        counts, total = right.groupby("sampler", sort=False).size(), rows["reference"].nunique()
        name = f"**{str(group).replace('_', ' ').capitalize()}**"
        if counts.empty:
            lines.append(f"{name}: no sampler is right on any of {total} in this time.")
            continue
        best = counts[counts.eq(counts.max())].index
        speed = right[right["sampler"].isin(best)].groupby("sampler")["ESS/s"].apply(_geometric_mean)
        ranked = speed.sort_values(ascending=False)
        first = f"{name}: `{ranked.index[0]}` is the fastest of those that are right on {counts.max()} of {total}"
        rates = [f"{_rounded(ranked.iloc[0])} effective draws a second"]
        rates += [f"`{other}` has {_rounded(rate)}" for other, rate in ranked.iloc[1:4].items()]
        alone = " It is the only one." if len(ranked) == 1 else ""
        lines.append(f"{first}, with {'; '.join(rates)}.{alone}")
    return lines


def beyond(grades: pd.DataFrame, name: str = "sgld_cv") -> list[str]:
    """Return what the others cannot do that one sampler does: their faults on the references that it has right."""
    own = grades[grades["sampler"].eq(name) & grades["verdict"].eq(RIGHT)]["reference"]
    lines = []
    for other, rows in grades[~grades["sampler"].eq(name)].groupby("sampler", sort=False):
        missed = rows[rows["reference"].isin(own) & ~rows["verdict"].eq(RIGHT)]
        also = rows[~rows["reference"].isin(own) & rows["verdict"].eq(RIGHT)]
        faults = missed.apply(_fault, axis=1).value_counts(sort=False) if len(missed) else {}
        text = f"`{other}`: right on {len(own) - len(missed)} of the {len(own)}"
        text += "".join(f", {fault} on {count}" for fault, count in faults.items())
        if len(also):
            text += f"; and right where `{name}` is not: {', '.join(f'`{one}`' for one in also['reference'])}"
        lines.append(f"{text}.")
    return lines


def _fault(row: pd.Series) -> str:
    if row["verdict"] != "failed":
        return str(row["verdict"]).replace("_", " ")
    for part, words in (("took longer", "too slow for the budget"), ("prior must be", "takes no learned prior")):
        if part in str(row["why"]):
            return words
    return "takes no regression" if "no regression" in str(row["why"]) else "refused"


def _geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values.astype(float)).mean()))


def _rounded(rate: float) -> str:
    """Return a number to two digits."""
    return f"{float(f'{rate:.2g}'):,.0f}"


def error_against_work() -> xr.Dataset:
    """Return error and work of each run, in the form that `plots.plot_grades` draws (`leaderboard`)."""
    grades, points = frame("leaderboard", "grades"), frame("leaderboard", "points")
    points["run"] = points.groupby(["sampler", "reference"], sort=False).cumcount()
    keys = ["sampler", "reference"]
    runs = {name: f"run_{name}" for name in ("draws", "seconds", "gradients", "error")}
    by_run = points.rename(columns=runs).set_index([*keys, "run"])[list(runs.values())]
    made = xr.Dataset.from_dataframe(by_run.apply(pd.to_numeric, errors="coerce"))
    made["verdict"] = xr.DataArray.from_series(grades.set_index(keys)["verdict"]).reindex_like(made).fillna("failed")
    about = grades.drop_duplicates("reference").set_index("reference").loc[made["reference"].values]
    places = {"group": about["group"].tolist(), "n_categories": about["K"].astype(int).tolist()}
    return made.assign_coords({name: ("reference", values) for name, values in places.items()})


def frontier() -> xr.Dataset:
    """Return error and work of each sampler and length, medians over the settings of the paper (`frontier`)."""
    table = result("frontier").tables("points")[0]
    points = {name: table.column(name) for name in ("sampler", "length", "distance")}
    for name, column in (("cpu_seconds", "seconds"), ("gradients", "gradients")):
        points[name] = [value for value, _ in table.column(column)]  # beside it is the mark of the frontier
    return xr.Dataset.from_dataframe(pd.DataFrame(points).set_index(["sampler", "length"]))


def interval_candidates() -> pd.DataFrame:
    """Return coverage, width and error of each prior and kind of interval, for fixed truths (`fixed_truths`)."""
    return frame("fixed_truths", "candidates").set_index("candidate").astype(float)


def largest_categories() -> pd.DataFrame:
    """Return how often each statement about many categories holds, by their number and the truth (`largest`)."""
    table = frame("largest", "largest")
    held = [name for name in table if name.startswith(("rest, ", "listed, ", "ranks, "))]
    columns = [*held, "groups", "any wrong", "wrong share"]
    return table.groupby(["K", "truth"], sort=False)[columns].mean().astype(float).round(3)


def priors_of_many() -> pd.DataFrame:
    """Return the errors of other priors over the learned one's, and what covers, by shape of the shares (`priors`)."""
    return frame("priors", "priors").set_index(["K", "shares"]).astype(float).round(2)


def found_words() -> pd.DataFrame:
    """Return how many words searches found, missed and should not have found (`words`)."""
    return frame("words", "words").set_index("people").astype(float).round(3)


def word_rules() -> pd.DataFrame:
    """Return how often a prefix at the threshold is dropped in a round, by the rule (`words`)."""
    return frame("words", "rules").set_index("rule").astype(float).round(3)


def calibration() -> pd.DataFrame:
    """Return how often intervals hold the truth, by K, sampler and mechanism (`calibration`)."""
    return frame("calibration", "calibration")


def repaired_sgld() -> pd.DataFrame:
    """Return what became of ``sgld_cv`` in each setting of the paper (`benchmarks/sgld.py`)."""
    return frame("sgld", "against_nuts", ROOT / "benchmarks" / "results")


def adapting_ratios() -> pd.DataFrame:
    """Return the error of adaptive RRRR over SRR's in the same run, geometric means, by method, ε and ρ.

    From the runs that are kept in `validation/best_question`, for K = 10 and 20 under the flat prior.
    """
    parts = []
    for k in (10, 20):
        with xr.open_dataset(ROOT / f"validation/best_question/runs_{k}.nc") as runs:
            flat = runs.isel(cell=(runs["prior"] == "flat").values)
            log_tv = flat["exact_tv"].reset_coords()[["exact_tv", "epsilon", "rho", "mechanism", "utility", "alpha"]]
            parts.append(log_tv.to_dataframe().reset_index().assign(K=k))
    table = pd.concat(parts).assign(log_tv=lambda frame: np.log(frame["exact_tv"]))
    at = ["K", "epsilon", "rho", "run"]
    srr = table[table["mechanism"] == "srr"].set_index(at)["log_tv"]
    rrrr = table[(table["mechanism"] == "rrrr") & table["log_tv"].notna()].set_index(at)
    rrrr = rrrr.assign(ratio=rrrr["log_tv"] - srr.reindex(rrrr.index)).reset_index()
    semi = rrrr["alpha"].map("semi-adaptive, α = {:g}".format)
    rrrr["method"] = semi.where(rrrr["utility"] == "semi_adaptive", "the six utilities")
    rrrr["ε"] = rrrr["epsilon"].map("{:g}".format)
    means = rrrr.groupby(["method", "ε", "rho", "K", "utility"])["ratio"].mean().groupby(["method", "ε", "rho"]).mean()
    return np.exp(means).unstack("rho").sort_index(ascending=[False, True])


# README's table of findings: a statement, its figures, and the command that made them.


def readme_rows() -> list[tuple[str, str, str]]:
    """Return the rows of the table. A row is left out if what it states was not found."""
    rows = [
        *_privacy(),
        *_paper_sampler(),
        *_repaired(),
        *_adapting(),
        *_mechanisms(),
        *_best_question(),
        *_intervals(),
    ]
    return [(statement, figures, f"`{command}`") for statement, figures, command in rows]


def readme_table() -> str:
    """Return the table in Markdown."""
    return results.make_table(("finding", "figures", "command"), readme_rows()).markdown()


def write_readme(path: Path = README) -> None:
    """Put the table between the two marks of README."""
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{readme_table()}\n{END}{after}", encoding="utf-8")


def _figures(program: str, name: str) -> dict[str, float]:
    """Return the figures of a finding, which must have passed: a statement that does not hold has no place here."""
    found = result(program).finding(name)
    if not found.passed:
        raise ValueError(f"finding {name!r} of {program} must have passed to be quoted, got a failure: {found.text}")
    return dict(found.figures)


def _privacy() -> list[tuple[str, str, str]]:
    _figures("privacy", "private"), _figures("privacy", "program"), _figures("privacy", "program_semi_adaptive")
    table = result("privacy").table("authors_program")
    worst = max(loss for loss, epsilon in zip(table.column("loss"), table.column("ε"), strict=True) if epsilon == 5)
    return [
        (
            "RRRR keeps ε in exact arithmetic; in the authors' program, SRR and the five semi-adaptive methods keep "
            "it, the six utility-driven ones do not",
            f"all {len(table.rows)} settings of the paper; a true loss of up to {worst:.1f} where ε = 5 is claimed",
            "python -m validation.privacy",
        )
    ]


def _paper_sampler() -> list[tuple[str, str, str]]:
    program, command = result("paper_sampler"), "python -m validation.paper_sampler"
    estimate, mixing = _figures("paper_sampler", "estimate"), _figures("paper_sampler", "mixing")
    right = _figures("paper_sampler", "stationary_small_epsilon")
    wide = _figures("paper_sampler", "stationary_high_epsilon")
    _figures("paper_sampler", "estimate_as_a_draw")
    updates = max(program.table("stationary").column("updates")) // 1_000_000
    return [
        (
            "the paper's SGLD estimate is not the posterior mean",
            f"TV {estimate['least']:.3f} to {estimate['greatest']:.2f} between the two in "
            f"{len(program.table('estimate').rows)} settings; for ε ≤ 1 and ρ ≥ 0.1 about as much as for a single draw",
            command,
        ),
        (
            "its chains do not mix in the paper's budget",
            f"R-hat {mixing['least']:.2f} to {mixing['greatest']:.1f} in the 1000 updates that it averages "
            "(except for ε = 5, ρ = 0.01)",
            command,
        ),
        (
            "the distribution that its chains converge to shows no fault at ε ≤ 1 and is too wide at ε = 5",
            f"indistinguishable from NUTS in all {right['settings']:.0f} settings at ε ≤ 1 after {updates} million "
            f"updates; at ε = 5 the largest sd is {wide['least']:.2f} to {wide['greatest']:.2f} times the posterior's",
            command,
        ),
    ]


def _repaired() -> list[tuple[str, str, str]]:
    table = repaired_sgld()
    good, times = (table["verdict"] == "indistinguishable").sum(), table["ESS/s over NUTS's"]
    return [
        (
            'SGLD repaired (`"sgld_cv"`) samples the posterior',
            f"indistinguishable from NUTS in {good} of {len(table)} settings, with {times.min():g} to {times.max():g} "
            f"times as many effective draws per second (median {times.median():.0f})",
            "python benchmarks/sgld.py --full",
        )
    ]


def _adapting() -> list[tuple[str, str, str]]:
    ratios = adapting_ratios().loc[(slice(None), ["0.5", "1"]), :]
    parts = []
    for method in ("the six utilities", "semi-adaptive, α = 0.9"):
        ends = ratios.loc[method].agg(["min", "max"])
        ranges = [f"{ends[rho]['min']:.2f} to {ends[rho]['max']:.2f} (ρ = {rho:g})" for rho in (0.01, 0.1, 1.0)]
        parts.append(f"{method.replace(', α', ' with α')}: {ranges[0]}, {ranges[1]} and {ranges[2]}")
    return [
        (
            "at equal, true ε, adapting RRRR pays if θ is uneven and the rule suits it, and hardly pays if θ is even",
            f"error divided by SRR's, at ε ≤ 1: {'; '.join(parts)}",
            "python -m validation.mechanisms",
        )
    ]


def _mechanisms() -> list[tuple[str, str, str]]:
    _figures("mechanisms", "selection_ahead_of_rrrr")
    errors = mechanism_errors()
    settings = errors[errors["rho"] >= 0.1].pivot_table(
        index=["prior", "K", "epsilon", "rho"], columns="mechanism", values="tv"
    )
    best = settings.idxmin(axis=1)
    first, unary = ((best == name).sum() for name in ("subset selection", "unary encoding"))
    semi = best.str.startswith("semi-adaptive").sum()
    return [
        (
            "for ρ ≥ 0.1 and ε ≤ 1, non-adaptive subset selection beats RRRR with any of the six utilities",
            f"it has the smallest error of all mechanisms in {first} of {len(settings)} settings, unary encoding in "
            f"{unary}, semi-adaptive RRRR with some α in {semi}",
            "python -m validation.mechanisms",
        )
    ]


def _best_question() -> list[tuple[str, str, str]]:
    found = result("best_question").figures
    over_all = _figures("best_question", "ahead")["ratio"]
    _figures("best_question", "never_behind")
    flat, learned = (
        f"{found[f'semi_ahead_{prior}']:.0f} of {found[f'semi_settings_{prior}']:.0f}" for prior in ("flat", "learned")
    )
    sizes = sorted(set(result("best_question").table("best").column("K")))
    return [
        (
            "over all settings together, the best question, asked in rounds, beats subset selection "
            f"(K = {', '.join(map(str, sizes[:-1]))} and {sizes[-1]})",
            f"{over_all:.2f} times its error on average, and in none of {found['settings']:.0f} settings a larger one "
            f"beyond noise; {found['uneven']:.2f} times where nearly everybody holds one category; but semi-adaptive "
            f"RRRR with the α that is best in hindsight has a smaller error beyond noise in {flat} settings with the "
            f"flat prior (in {learned} with the learned prior)",
            "python -m validation.best_question",
        )
    ]


def _intervals() -> list[tuple[str, str, str]]:
    exact, adaptive = _figures("fixed_truths", "exact"), _figures("fixed_truths", "adaptive")
    posterior = _figures("fixed_truths", "two")["learned"]
    return [
        (
            "the 95 % intervals that are shown cover whatever the true shares are; posterior intervals only on average "
            "over truths from their prior",
            f"exact coverage {100 * exact['least']:.1f} to {100 * exact['largest']:.1f} % in {exact['cells']:,.0f} "
            f"settings of SRR and subset selection; in simulated adaptive collections {100 * adaptive['least']:.0f} "
            f"% or more, {100 * adaptive['mean']:.0f} % on average; that of the shortest posterior interval under the "
            f"learned prior falls to {100 * posterior:.0f} % (two categories, ε = 0.5, a share of 5 %)",
            "python -m validation.fixed_truths",
        )
    ]
