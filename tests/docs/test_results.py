"""The figures of the pages are those of the files that the validation programs wrote."""

import re
import sys

import pytest

from adobest_pp.intervals import covering_intervals
from adobest_pp.plots.frontier import is_on_frontier
from tests.docs.blocks import DOCS, ROOT

sys.path.append(str(DOCS / "_ext"))
import results


def test_errors_of_mechanisms_are_those_of_the_file():
    errors = results.mechanism_errors()
    settings = errors.groupby(["prior", "K", "epsilon"]).size()
    assert set(errors["rho"]) == {0.01, 0.1, 1.0}
    assert (settings == 3 * errors["mechanism"].nunique()).all()
    assert {"SRR", "subset selection", "RRRR, honest"} <= set(errors["mechanism"])
    one = errors.query("prior == 'flat' and K == 10 and epsilon == 0.5 and rho == 1")
    written = (ROOT / "validation/RESULTS.md").read_text(encoding="utf-8").split("flat prior, K = 10, ε = 0.5\n")[1]
    row = next(line for line in written.splitlines() if line.startswith("SRR"))
    assert f"{float(one[one['mechanism'] == 'SRR']['tv'].iloc[0]):.3f} [" in row


def test_ratios_of_the_best_question_are_read():
    ratios = results.best_question()
    assert {"SRR", "subset selection", "design", "RRRR, honest"} <= set(ratios.index)
    assert (ratios.loc["subset selection"] == "1").all()
    assert all(re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", cell) for cell in ratios.loc["design"])


def test_verdicts_of_samplers_are_read():
    verdicts = results.sampler_verdicts()
    assert {"NUTS", "Gibbs"} <= set(verdicts["sampler"])
    assert (verdicts[verdicts["sampler"] == "NUTS"]["verdict"] == "reference").all()


def test_the_frontier_is_read():
    points = results.frontier()
    written = "\n".join(results.section("frontier")).split("subset selection, K = 20")[0]
    assert points["distance"].notnull().all()
    for cost in ("cpu_seconds", "gradients"):
        starred = {line.split("  ")[0] for line in written.splitlines() if "*" in columns_of(line, cost)}
        on = is_on_frontier(points[cost].values, points["distance"].values)
        assert starred == set(points["sampler"].values[on.any(axis=1)].tolist())


def columns_of(line, cost):
    """Return the cell of a line of the table of the frontier, or nothing of another line."""
    cells = results.columns(line)
    return cells[{"cpu_seconds": 5, "gradients": 6}[cost]] if len(cells) == 7 else ""


def test_coverage_is_read():
    held = results.calibration()
    assert held["95%"].astype(float).between(0, 1).all()
    assert held["sampler"].str.contains("last 1000").any()


def test_the_repaired_sampler_is_read():
    cured = results.repaired_sgld()
    assert len(cured) == 36
    assert cured["ESS/s over NUTS's"].str.endswith("×").all()


def test_ratios_of_adaptive_methods_are_read():
    ratios = results.adapting_ratios()
    assert list(ratios.columns) == [0.01, 0.1, 1.0]
    assert (ratios > 0).all(axis=None)
    assert {"the six utilities", "semi-adaptive, α = 0.9"} <= set(ratios.index.get_level_values("method"))


def test_a_section_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match="must have a section 'nowhere'"):
        results.section("nowhere")


def readme(start):
    """Return the row of README's table of results that begins with these words."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith(f"| {start}"))


def figures(program, statement):
    """Return the figures of the finding that begins so, by name."""
    line = next(line for line in results.section(program) if line.startswith(f"PASS  {statement}"))
    return {name: float(value) for name, value in re.findall(r"([a-z][a-z0-9 ]*?) (-?[\d.e+-]+)[,)]", line)}


def test_the_figures_of_readme_on_the_papers_sampler():
    """One row for each of the three questions: the estimate, mixing, and the stationary law."""
    estimate = figures("paper_sampler", "the paper's estimate is not the posterior mean")
    assert f"TV {estimate['least']:.3f} to {estimate['greatest']:.2f} apart" in readme("the paper's SGLD estimate")
    mixing = figures("paper_sampler", "the last 1000 updates of independent chains have not mixed")
    assert f"R-hat {mixing['least']:.2f} to {mixing['greatest']:.1f}" in readme("its chains do not mix")
    right = figures("paper_sampler", "ε ≤ 1: a chain that is long enough cannot be told from NUTS")
    wide = figures("paper_sampler", "ε = 5: some sd is more than a tenth too wide")
    row = readme("the law that they tend to")
    assert f"not told from NUTS in {right['settings']:.0f} of {right['settings']:.0f} settings at ε ≤ 1" in row
    assert f"sds up to {wide['least']:.2f} to {wide['greatest']:.2f} times the posterior's at ε = 5" in row


def test_the_figures_of_readme_on_the_repaired_sampler():
    cured = results.repaired_sgld()
    good = cured["verdict"].str.startswith("indistinguishable").sum()
    times = cured["ESS/s over NUTS's"].str.rstrip("×").astype(float)
    row = readme("SGLD repaired")
    assert f"in {good} of {len(cured)} settings, with {times.min():g} to {times.max():g} times" in row


def test_the_figures_of_readme_on_mechanisms():
    errors = results.mechanism_errors()
    wide = errors[errors["rho"] >= 0.1].pivot_table(
        index=["prior", "K", "epsilon", "rho"], columns="mechanism", values="tv"
    )
    best = wide.idxmin(axis=1)
    first, semi = (best == "subset selection").sum(), best.str.startswith("semi-adaptive").sum()
    row = readme("for ρ ≥ 0.1")
    assert any("ρ = 0.1 and 1: it is ahead of RRRR by any utility" in line for line in results.section("mechanisms"))
    assert f"in {first} of {len(wide)} settings" in row
    assert f"semi-adaptive RRRR in {semi}" in row


def test_the_figures_of_readme_on_the_best_question():
    text = "\n".join(results.section("best_question"))
    settings = int(re.search(r"hold together in all (\d+) settings", text)[1])
    told = figures("best_question", "design is not shown to be behind subset selection in any")
    over_all = float(re.search(r"over all settings it is ahead \(ratio ([\d.]+)", text)[1])
    uneven = float(re.search(r"one category \(ρ = 0.01: ([\d.]+)\)", text)[1])
    semi = re.findall(r"ahead of the design in (\d+) and behind it in \d+ of (\d+) settings with the (\w+) prior", text)
    row = readme("the best question")
    assert told["shown behind"] == 0
    assert f"{over_all:.2f} times its error over all settings, not shown behind in any of {settings}" in row
    assert f"{uneven:.2f} times where nearly everybody holds one category" in row
    for ahead, of, prior in semi:
        assert f"ahead of it in {ahead} of {of} settings with the {prior} prior" in row
    assert {prior for *_, prior in semi} == {"flat", "learned"}


def test_the_figures_of_readme_on_privacy():
    privacy = "\n".join(results.section("privacy"))
    assert "PASS  the six utility-driven methods of the authors' program break ε in all 12 settings" in privacy
    assert "PASS  its SRR and its five semi-adaptive methods keep ε in all 12" in privacy
    published = privacy.split("The authors' program (soneraydin/AdOBEst_LDP, commit 9080c23)")[1].splitlines()
    losses = [float(line.split()[3]) for line in published if re.match(r"\d+ +5 ", line)]
    assert f"up to {max(losses):.1f} where ε = 5" in readme("RRRR keeps")


def test_the_figures_of_readme_on_adapting():
    ratios = results.adapting_ratios().loc[(slice(None), ["0.5", "1"]), :]
    row = readme("at equal, true ε")
    for method, told in (
        ("the six utilities", "six utilities"),
        ("semi-adaptive, α = 0.9", "semi-adaptive with α = 0.9"),
    ):
        ends = ratios.loc[method].agg(["min", "max"])
        low, high = (f"{ends[rho]['min']:.2f} to {ends[rho]['max']:.2f}" for rho in (0.01, 0.1))
        assert f"{told} {low} (ρ = 0.01) and {high} (ρ = 0.1)" in row


def page(name):
    """Return the words of a page, without its line breaks."""
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_the_figures_of_the_page_on_plans():
    text = "\n".join(results.section("plans"))
    collections, off = re.search(r"\(collections (\d+), worst ([\d.]+)\)", text).groups()
    rows = [line.split() for line in text.split("with a sixteenth of the people")[1].splitlines()]
    ratios = [(float(row[-2]), float(row[-1])) for row in rows if len(row) == 6 and row[0].isdigit()]
    near, far = zip(*ratios, strict=True)
    kinds = len(re.findall(r"^[a-z-]+, K = ", text, re.MULTILINE))
    told = page("howto/plan.md")
    assert kinds == 5
    assert f"{collections} collections of five kinds had mean half-widths within {percent(float(off))} %" in told
    worst = float(re.search(r"of simulated collections \(worst ([\d.]+)\)", text)[1])
    assert worst == pytest.approx(max(abs(ratio - 1) for ratio in near), abs=0.006)
    assert f"in {len(ratios)} settings the formula was within {percent(worst)} %" in told
    far_off = sorted(round(100 * abs(ratio - 1)) for ratio in far)
    assert f"off by {far_off[0]} to {far_off[-1]} % with a sixteenth of the people" in told


def percent(share):
    """Return the least whole number of percent that a share stays below."""
    return int(100 * share) + 1


def test_the_figures_of_the_page_on_the_best_question():
    text = "\n".join(results.section("best_question"))
    runs, settings = re.search(r"(\d+) runs, with intervals that hold together in all (\d+) settings", text).groups()
    told = page("explanation/best_question.md")
    sizes = sorted(set(re.findall(r"^(\d+) +[\d.]+ +[\d.]+ \[", text, re.MULTILINE)))
    listed = " and ".join([", ".join(sizes[:-1]), sizes[-1]])
    assert f"For K = {listed} ({runs} runs of each setting, {settings} settings in all)" in told
    assert figures("best_question", "design is not shown to be behind")["shown behind"] == 0
    assert "it is not shown to be behind subset selection in any, and is ahead over all of them" in told


def test_the_page_of_intervals_says_what_was_found():
    lines = results.section("fixed_truths")
    exact = {
        name: line.split()[1:] for line in lines for name in ("least", "mean", "largest") if line.startswith(f"{name} ")
    }
    told = next(line for line in lines if line.startswith("PASS  as shown, exact"))
    mean = float(re.search(r"mean ([\d.]+)", told)[1])
    low, high = min(map(float, exact["least"])), max(map(float, exact["largest"]))
    page = (DOCS / "explanation/intervals.md").read_text(encoding="utf-8")
    for text in (page, covering_intervals.__doc__):
        plain = " ".join(text.split())
        assert f"coverage is {100 * low:.1f} to {100 * high:.1f} %" in plain
        assert f"{100 * mean:.1f} % on average" in plain
        assert "3,900" in plain
    two = next(line for line in lines if line.startswith("PASS  two categories"))
    learned, flat = (float(re.search(rf"{prior} ([\d.]+)", two)[1]) for prior in ("learned", "flat"))
    assert f"holds it in {100 * learned:.0f} % of\ncollections" in page
    assert f"Under the flat prior it is {100 * flat:.0f} %" in page


def test_candidates_of_intervals_are_read():
    table = results.interval_candidates()
    assert {"as shown", "learned, shortest", "flat, shortest"} <= set(table.index)
    assert table.loc["as shown", "width"] == 1
    assert table.loc["as shown", "below"] == 0
    assert table.loc["learned, shortest", "below"] > 0
