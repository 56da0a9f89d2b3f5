"""What is left of a planted advantage is found, and errors are matched with the authors' in their few runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from adobest_pp.studies.equal_privacy import EXACT, PROVED, PUBLISHED, equal_privacy_section, pooled, sources
from adobest_pp.studies.grids import Setting
from adobest_pp.studies.reference import ReferenceRow, match, match_text, read_reference
from tests.studies.synthetic import UTILITIES, study

REFERENCE = Path(__file__).parents[2] / "validation" / "paper" / "reference_tv.csv"


def utilities_at(amount):
    return lambda cell: amount if cell["method"] in UTILITIES else 0.0


def three(published=-0.4, proved=-0.2, exact=-0.1):
    """Studies of the same θ* whose utilities have these log errors relative to SRR's."""
    main = study(utilities_at(proved))
    program = study(utilities_at(published), methods=UTILITIES, budgets="published")
    equal = study(utilities_at(exact), kappa=(0.8,))
    return main, program, equal.assign(exact_tv=equal.tv)


def section(*studies, reference=None):
    return "\n\n".join(equal_privacy_section(*studies, reference))


def test_pooled_ratios_are_the_planted_ones():
    """Over 9 settings with noise 0.1 in SRR's errors, the median of 30 runs has a standard error of 0.01: four."""
    found = {source.name: source for source in sources(*three())}
    for name, planted in ((PUBLISHED, -0.4), (PROVED, -0.2), (EXACT, -0.1)):
        interval = pooled(found[name], set(found[name].ratios))
        assert abs(interval.middle - planted) < 0.04
        assert interval.lower < interval.middle < interval.upper


def test_pooling_averages_within_a_run_and_leaves_out_runs_with_a_part_missing():
    setting = Setting(10, 1.0, 0.8, 0.1)
    runs = np.arange(8.0)
    source = sources(*three())[0].__class__("any", {(setting, "mse"): runs, (setting, "tv1"): 2 + runs})
    keys = set(source.ratios)
    assert pooled(source, keys).middle == np.median(runs + 1)
    source.ratios[setting, "tv1"][7] = np.nan
    assert pooled(source, keys).n == 7
    assert pooled(source, set()).n == 0


def test_the_answer_says_how_much_is_left():
    text = section(*three(published=-0.4, proved=-0.2, exact=-0.1))
    assert "as published, label ε**: the utilities' error is 3" in text  # 1 − e^−0.4 = 33 %
    assert "as proved, SGLD**: the utilities' error is 1" in text
    assert (
        text.count("of the published advantage (in logarithms) is left") == 6
    )  # all settings and the hard ones; SGLD alone, then both
    assert "#### With the exact posterior mean beside it" in text
    assert "adapting helps in 9 and harms in 0 of 9 (ε, ρ)" in text


def test_the_answer_says_that_nothing_is_left_or_that_it_harms():
    # By chance, runs without a difference would show one in 5 % of the seeds.
    text = section(*three(published=-0.4, proved=0.0, exact=0.2))
    assert "Nothing is left of the published advantage (as proved, exact posterior mean)" in text
    assert "as proved, exact posterior mean**: the utilities' error is 2" in text  # e^0.2 − 1 = 22 %
    assert "No advantage is shown to be left (as proved, SGLD)" in text
    assert "as proved, SGLD**: the utilities' error is not shown to differ from SRR's" in text
    assert "The published budgets show no advantage" in section(*three(published=0.2))


def test_srr_at_the_true_loss_is_interpolated_between_its_epsilons():
    """SRR's error is ε^−1 here and the published one that of SRR at 1.6 ε: against the true loss, nothing is gained."""

    def error(cell):
        return -np.log(cell["epsilon"] * (1.6 if cell["method"] in UTILITIES else 1.0))

    main = study(error, noise=0.01)
    program = study(error, methods=UTILITIES, budgets="published", noise=0.01)
    found = {source.name: source for source in sources(main, program, None)}
    at_true = found["as published, SRR at the true ε"]
    assert {setting.epsilon for setting, _ in at_true.ratios} == {0.5, 1.0}  # 1.6 · 5 is beyond SRR's ε
    assert abs(pooled(at_true, set(at_true.ratios)).middle) < 0.02
    label = found[PUBLISHED]
    assert pooled(label, set(label.ratios)).middle == pytest.approx(-np.log(1.6), abs=0.02)


def test_the_hard_settings_and_each_utility_are_told_apart():
    """Only `mse` gains, and only where neither ε nor ρ is the largest; 0.1 of noise, as above."""

    def error(cell):
        return -0.6 if cell["method"] == "mse" and cell["epsilon"] < 5 and cell["rho"] < 1 else 0.0

    main = study(error)
    text = section(main, None, main.assign(exact_tv=main.tv))
    ratios = [float(found) for found in re.findall(r"SGLD\*\*: .*?ratio ([\d.]+)", text)]
    assert ratios == pytest.approx([np.exp(-0.6 * 4 / 9 / 6), np.exp(-0.6 / 6)], abs=0.04)
    rows = [line.split(" | ") for line in text.split("By utility, over all settings:")[1].split("\n")[4:]]
    by_utility = {row[0].strip("| "): float(row[1].split()[0]) for row in rows}
    assert by_utility["U5 MSE"] == pytest.approx(np.exp(-0.6 * 4 / 9), abs=0.04)
    assert by_utility["U3 TV1"] == pytest.approx(1.0, abs=0.04)


def test_studies_of_other_seeds_are_not_paired():
    main, program, equal = three()
    text = section(main, program.assign_attrs(study='{"seed": 9}'), equal.assign_attrs(study='{"seed": 9}'))
    assert "different seeds" in text
    assert "another seed" in text
    assert "**as published" not in text
    assert "**as proved, exact" not in text
    assert "**as proved, SGLD" in text


def test_true_losses_are_told():
    text = section(*three())
    assert "| 0.5 | 0.8 | 0.8 | 100 % |" in text
    assert section(three()[0], None, None) == ""


def test_the_shipped_reference_is_read():
    rows = read_reference(REFERENCE)
    assert len(rows) == 30
    first = rows[0]
    assert (first.setting, first.method, first.runs) == (Setting(10, 0.5, 0.8, 0.01), "nonadaptive", 10)
    assert (first.median, first.true_loss) == (0.2275, 0.5)


def test_a_reference_without_its_columns_is_refused(tmp_path):
    path = tmp_path / "reference.csv"
    path.write_text("K,epsilon\n10,1\n")
    with pytest.raises(ValueError, match=r"reference must have the columns K, .*, got none for kappa, rho"):
        read_reference(path)


def rows_of(dataset, rng, shift=0.0):
    """Ten runs a row, drawn from our own cells, as the authors' table would have them."""
    rows = []
    for i in np.flatnonzero(np.isin(dataset.method.values, UTILITIES)):
        values = rng.choice(dataset.tv.values[i], 10)
        setting = Setting(10, *(float(dataset[name].values[i]) for name in ("epsilon", "kappa", "rho")))
        median = float(np.median(values)) * np.exp(shift)
        rows.append(ReferenceRow(setting, str(dataset.method.values[i]), 10, median, 0.8))
    return rows


def test_intervals_hold_one_as_often_as_they_say_if_both_programs_are_the_same():
    """108 rows at 95 %: below 88 of them or on average off by 0.2 have a false alarm below 1e-4."""
    published = study(methods=UTILITIES, budgets="published", runs=50)
    matches = match(rows_of(published, np.random.default_rng(0)), published, study(runs=2))
    assert len(matches) == 108
    assert sum(one.agrees for one in matches) >= 88
    text, table = match_text(matches, 110)
    assert "108 of the 110 rows" in text
    assert "no fewer than chance allows" in text
    assert table.count("\n") == 109


def test_another_program_is_told_apart():
    published = study(methods=UTILITIES, budgets="published", runs=50)
    matches = match(rows_of(published, np.random.default_rng(0), shift=0.5), published, study(runs=2))
    assert sum(one.agrees for one in matches) < 95
    text, _ = match_text(matches, 108)
    assert "fewer than chance allows (p = " in text
    # Medians of ten runs that spread by 0.5: the average over 108 rows has a standard error of 0.02.
    average = float(text.split("our median is ")[1].split()[0])
    assert abs(np.log(average) + 0.5) < 0.08


def test_srr_is_matched_from_the_study_as_proved_and_semi_adaptive_from_none():
    main, program, _ = three()
    setting = Setting(10, 0.5, 0.8, 0.01)
    rows = [ReferenceRow(setting, name, 10, 0.3, 0.5) for name in ("nonadaptive", "semi_adaptive_0.95", "mse")]
    assert [one.row.method for one in match(rows, program, main)] == ["nonadaptive", "mse"]
    assert [one.true_epsilon for one in match(rows, program, main)] == [0.5, 0.8]
    assert match_text([], 3) == ["None of the settings of the authors' table were run."]
