"""Figures of the validation programs, read from the files that the programs wrote: pages type none by hand."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

ROOT = Path(__file__).resolve().parents[2]
TITLE = re.compile(r"^(?P<prior>flat|learned) prior, K = (?P<K>\d+), ε = (?P<epsilon>[\d.]+)$")


def section(program: str, page: str = "validation/RESULTS.md") -> list[str]:
    """Return the lines that a program printed, as the page of results has them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(program)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{page} must have a section {program!r}")
    return found[1].splitlines()


def columns(line: str) -> list[str]:
    """Return the cells of a line of a printed table, which two spaces or more separate."""
    return re.split(r"\s{2,}", line.strip())


def mechanism_errors() -> pd.DataFrame:
    """Return the median total variation to the truth, by prior, K, ε, mechanism and ρ (`mechanisms`)."""
    rows, setting, widths = [], None, []
    for line in section("mechanisms"):
        if "hold the truth" in line:  # the tables of coverage follow
            break
        if title := TITLE.match(line):
            setting = {"prior": title["prior"], "K": int(title["K"]), "epsilon": float(title["epsilon"])}
        elif setting and "ρ =" in line:
            widths = [float(cell.split("=")[1]) for cell in columns(line) if cell.startswith("ρ")]
        elif setting and "[" in line:
            name, *cells = columns(line)
            medians = [float(cell.split()[0]) for cell in cells if cell[0].isdigit()]
            rows += [setting | {"mechanism": name, "rho": r, "tv": tv} for r, tv in zip(widths, medians, strict=True)]
    return pd.DataFrame(rows)


def best_question() -> pd.DataFrame:
    """Return the TV of each mechanism over that of subset selection, with intervals, by prior and ρ."""
    lines = section("best_question")
    start = next(i for i, line in enumerate(lines) if line.startswith("TV over that of subset selection"))
    header, rows = columns(lines[start + 2]), {}
    for line in lines[start + 3 :]:
        if not line.strip():
            break
        name, *cells = columns(line)
        rows[name] = dict(zip(header, cells, strict=True))
    return pd.DataFrame(rows).T


def sampler_verdicts() -> pd.DataFrame:
    """Return the verdicts on samplers against NUTS, by K and ε (`sampler_accuracy`)."""
    lines = section("sampler_accuracy")
    start = next(i for i, line in enumerate(lines) if line.startswith("Against NUTS"))
    header = columns(lines[start + 2])
    rows = []
    for line in lines[start + 3 :]:
        if not line.strip():
            break
        rows.append(dict(zip(header, columns(line), strict=True)))
    return pd.DataFrame(rows)


def frontier() -> xr.Dataset:
    """Return error and work of each sampler and length, medians over the settings of the paper (`frontier`)."""
    lines = section("frontier")
    start = next(i for i, line in enumerate(lines) if line.startswith("the paper's settings"))
    header, rows = columns(lines[start + 2]), []
    for line in lines[start + 3 :]:
        if not line.strip():
            break
        rows.append(dict(zip(header, columns(line), strict=True)))
    table = pd.DataFrame(rows).rename(columns={"seconds": "cpu_seconds"})
    numbers = ["length", "distance", "cpu_seconds", "gradients"]
    table[numbers] = table[numbers].apply(lambda column: column.str.rstrip("*").astype(float))
    return table.set_index(["sampler", "length"])[numbers[1:]].to_xarray()


def interval_candidates() -> pd.DataFrame:
    """Return coverage, width and error of each prior and kind of interval, for fixed truths (`fixed_truths`)."""
    lines = section("fixed_truths")
    start = next(i for i, line in enumerate(lines) if line.startswith("candidate"))
    header, rows = columns(lines[start]), []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        rows.append(dict(zip(header, columns(line), strict=True)))
    table = pd.DataFrame(rows).set_index("candidate")
    return table.astype(float)


def calibration() -> pd.DataFrame:
    """Return how often intervals hold the truth, by K, sampler and mechanism (`calibration`)."""
    lines = [line for line in section("calibration") if line.strip()]
    start = next(i for i, line in enumerate(lines) if "p of ranks" in line)
    rows = []
    for line in lines[start + 1 :]:
        if line.startswith(("PASS", "FAIL")):
            break
        rows.append(dict(zip(columns(lines[start]), columns(line), strict=True)))
    return pd.DataFrame(rows)


def repaired_sgld() -> pd.DataFrame:
    """Return what became of ``sgld_cv`` in each setting of the paper (`benchmarks/RESULTS.md`)."""
    table = [line for line in section("SGLD with control variates", "benchmarks/RESULTS.md") if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    header = cells[0]
    rows = [dict(zip(header, row, strict=True)) for row in cells[2:] if len(row) == len(header) and "verdict" in header]
    return pd.DataFrame([row for row in rows if row["verdict"] and not set(row["verdict"]) <= {"-"}])


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


def printed_table(program: str, begins: str) -> pd.DataFrame:
    """Return the table that a program printed below the line that begins so, as text."""
    lines = section(program)
    start = next(i for i, line in enumerate(lines) if line.startswith(begins))
    first = start + 2
    last = next((i for i in range(first, len(lines)) if not lines[i].strip()), len(lines))
    header, *rows = map(columns, lines[first:last])
    return pd.DataFrame(rows, columns=header).set_index(header[0])
