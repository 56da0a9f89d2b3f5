"""README and the pages have the figures that the validation programs and benchmarks wrote."""

import shutil

import pytest

from adobest_pp.intervals import covering_intervals
from adobest_pp.plots.comparison import is_on_frontier
from tests.docs.blocks import DOCS, ROOT
from validation import __main__ as suite
from validation import pages, results


def test_readme_has_the_table_that_is_made_from_the_results():
    text = pages.README.read_text(encoding="utf-8")
    assert f"{pages.BEGIN}\n{pages.readme_table()}\n{pages.END}" in text


def test_a_changed_figure_changes_readme_until_it_is_rendered_again(tmp_path, monkeypatch):
    shutil.copytree(results.FOLDER, tmp_path / "results")
    shutil.copy(pages.README, tmp_path / "README.md")
    path = tmp_path / "results" / "paper_sampler.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"greatest": 4.19', '"greatest": 5.19'), encoding="utf-8")
    monkeypatch.setattr(pages, "result", lambda program: results.read(program, tmp_path / "results"))
    written = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert pages.readme_table() not in written
    pages.write_readme(tmp_path / "README.md")
    rendered = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert pages.readme_table() in rendered
    assert rendered == written.replace("R-hat 1.10 to 4.2 in", "R-hat 1.10 to 5.2 in")


def test_a_statement_that_was_not_reproduced_is_not_quoted(tmp_path, monkeypatch):
    shutil.copytree(results.FOLDER, tmp_path / "results")
    path = tmp_path / "results" / "privacy.json"
    path.write_text(path.read_text(encoding="utf-8").replace("true", "false"), encoding="utf-8")
    monkeypatch.setattr(pages, "result", lambda program: results.read(program, tmp_path / "results"))
    with pytest.raises(ValueError, match="'private' of privacy must have passed"):
        pages.readme_table()


def test_the_pages_of_results_are_those_of_the_files():
    assert suite.PAGE.read_text(encoding="utf-8") == suite.report(results.read_all())


def test_errors_of_mechanisms_are_those_of_the_file():
    errors = pages.mechanism_errors()
    settings = errors.groupby(["prior", "K", "epsilon"]).size()
    assert set(errors["rho"]) == {0.01, 0.1, 1.0}
    assert (settings == 3 * errors["mechanism"].nunique()).all()
    assert {"SRR", "subset selection", "RRRR, honest"} <= set(errors["mechanism"])


def test_ratios_of_the_best_question_are_shown():
    ratios = pages.best_question()
    assert {"SRR", "subset selection", "design", "RRRR, honest"} <= set(ratios.index)
    assert (ratios.loc["subset selection"] == "1").all()


def test_verdicts_of_samplers_are_shown():
    verdicts = pages.sampler_verdicts()
    assert {"NUTS", "Gibbs"} <= set(verdicts["sampler"])
    assert (verdicts[verdicts["sampler"] == "NUTS"]["verdict"] == "reference").all()


def test_the_frontier_is_where_the_program_says():
    points = pages.frontier()
    table = pages.result("frontier").tables("points")[0]
    assert points["distance"].notnull().all()
    for cost, column in (("cpu_seconds", "seconds"), ("gradients", "gradients")):
        cells = zip(table.column("sampler"), table.column(column), strict=True)
        marked = {sampler for sampler, (_, mark) in cells if mark == "*"}
        on = is_on_frontier(points[cost].values, points["distance"].values)
        assert marked == set(points["sampler"].values[on.any(axis=1)].tolist())


def test_coverage_is_a_share():
    held = pages.calibration()
    assert held["95%"].between(0, 1).all()
    assert held["sampler"].str.contains("last 1000").any()


def test_the_repaired_sampler_was_run_in_every_setting():
    assert len(pages.repaired_sgld()) == 36


def test_ratios_of_adaptive_methods_are_positive():
    ratios = pages.adapting_ratios()
    assert list(ratios.columns) == [0.01, 0.1, 1.0]
    assert (ratios > 0).all(axis=None)
    assert {"the six utilities", "semi-adaptive, α = 0.9"} <= set(ratios.index.get_level_values("method"))


def test_candidates_of_intervals_are_read():
    table = pages.interval_candidates()
    assert {"as shown", "learned, shortest", "flat, shortest"} <= set(table.index)
    assert table.loc["as shown", "width"] == 1
    assert table.loc["as shown", "below"] == 0
    assert table.loc["learned, shortest", "below"] > 0


def page(name):
    """Return the words of a page, without its line breaks."""
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def percent(share):
    """Return the least whole number of percent that a share stays below."""
    return int(100 * share) + 1


def test_the_figures_of_the_page_on_plans():
    plans, text = pages.result("plans"), page("howto/plan.md")
    achieved, formula = (plans.finding(name).figures for name in ("achieved", "formula"))
    near, far = (
        plans.table("formula").column(name) for name in ("where the formula begins", "with a sixteenth of the people")
    )
    assert len(plans.table("half_widths").rows) == 5
    assert f"In {achieved['collections']:.0f} collections of five kinds" in text
    assert f"half-widths were within {percent(achieved['worst'])} % of their plans" in text
    assert formula["worst"] == pytest.approx(max(abs(ratio - 1) for ratio in near), abs=0.006)
    assert f"In {len(near)} settings, the formula was within {percent(formula['worst'])} %" in text
    off = sorted(round(100 * abs(ratio - 1)) for ratio in far)
    assert f"off by {off[0]} to {off[-1]} % with a sixteenth of the people" in text


def test_the_figures_of_the_page_on_the_best_question():
    program, text = pages.result("best_question"), page("explanation/best_question.md")
    *sizes, last = sorted(set(program.table("design", prior="flat").column("K")))
    runs, settings = (program.figures[name] for name in ("runs", "settings"))
    listed = f"{', '.join(map(str, sizes))} and {last}"
    assert f"For K = {listed} ({runs:.0f} runs of each setting, {settings:.0f} settings in all)" in text
    assert program.finding("never_behind").figures["shown_behind"] == 0
    assert "it is not shown to be behind subset selection in any, and is ahead over all of them" in text
    figures = program.figures
    assert f"is shown ahead of it in {figures['semi_ahead_flat']:.0f} of {figures['semi_settings_flat']:.0f}" in text
    assert f"with {figures['semi_least']:.2f} to {figures['semi_greatest']:.2f} times its error" in text
    assert figures["semi_ahead_learned"] == 0


def test_the_page_of_intervals_says_what_was_found():
    program = pages.result("fixed_truths")
    exact = program.table("exact")
    by_name = {row[0]: [results.value_of(cell) for cell in row[4:]] for row in exact.rows[-3:]}
    low, high = min(by_name["least"]), max(by_name["largest"])
    mean = program.finding("exact").figures["mean"]
    written = (DOCS / "explanation/intervals.md").read_text(encoding="utf-8")
    for text in (written, covering_intervals.__doc__):
        plain = " ".join(text.split())
        assert f"coverage is {100 * low:.1f} to {100 * high:.1f} %" in plain
        assert f"{100 * mean:.1f} % on average" in plain
        assert "3,900" in plain
    found = program.finding("adaptive").figures
    sentence = f"{found['cells']:.0f} shares in 12 settings contained them in {100 * found['least']:.0f} to 100 %"
    assert sentence in " ".join(written.split())
    assert f"in {100 * found['mean']:.0f} % on average" in " ".join(written.split())
    two = program.finding("two").figures
    assert f"contains it in {100 * two['learned']:.0f} % of collections" in " ".join(written.split())
    assert f"Under the flat prior the coverage is {100 * two['flat']:.0f} %" in written


def test_the_page_of_benchmarks_is_that_of_the_files():
    folder = ROOT / "benchmarks" / "results"
    page = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert all(one.markdown() in page for one in results.read_all(folder))
