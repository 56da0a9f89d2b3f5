"""A planted advantage is found, and errors are matched with the authors' in their few runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.paper.synthetic import UTILITIES, as_srr, study
from tests.refusals import refuses
from validation.paper.advantages import (
    AT_TRUE,
    EXACT,
    PROVED,
    PUBLISHED,
    Source,
    interpolation_factors,
    pooled,
    semi_adaptive_sources,
    sources,
)
from validation.paper.comparisons import Setting
from validation.paper.equal_privacy import equal_privacy_section, short_answer
from validation.paper.reference import ReferenceRow, match, match_text, read_reference

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
    source = Source("any", {(setting, "mse"): runs, (setting, "tv1"): 2 + runs})
    keys = set(source.ratios)
    assert pooled(source, keys).middle == np.median(runs + 1)
    source.ratios[setting, "tv1"][7] = np.nan
    assert pooled(source, keys).n == 7
    assert pooled(source, set()).n == 0


def test_the_answer_is_the_advantage_of_each_study():
    text = section(*three(published=-0.4, proved=-0.2, exact=-0.1))
    assert "as published, label ε**: the utilities' error is 3" in text  # 1 − e^−0.4 = 33 %
    assert "as proved, SGLD**: the utilities' error is 1" in text
    assert "#### With the exact posterior mean beside it" in text
    assert "adapting helps in 9 and harms in 0 of 9 (ε, ρ)" in text


def test_the_answer_says_that_no_difference_is_shown_or_that_adapting_harms():
    # By chance, runs without a difference would show one in 5 % of the seeds.
    text = section(*three(published=-0.4, proved=0.0, exact=0.2))
    assert "as proved, exact posterior mean**: the utilities' error is 2" in text  # e^0.2 − 1 = 22 %
    assert "as proved, SGLD**: the utilities' error is not shown to differ from SRR's" in text


def test_the_exact_mean_is_told_relative_to_sgld_and_not_the_other_way_round():
    """From −0.4 to −0.1: the ratio is e^0.3 = 1.35 times what it was, with a standard error of 0.02."""
    text = section(*three(proved=-0.4, exact=-0.1))
    factors = re.findall(r"the ratio of the utilities' error to SRR's is ([\d.]+) \[", text)
    assert len(factors) == 2
    assert [float(factor) for factor in factors] == pytest.approx([np.exp(0.3)] * 2, abs=0.1)


def test_where_nothing_is_planted_adapting_neither_helps_nor_harms():
    """Nine places at 95 %: four or more by chance have a probability of 1e-3, for each of the sources."""
    text = section(*three(published=0.0, proved=0.0, exact=0.0))
    counts = re.findall(r"adapting helps in (\d) and harms in (\d) of 9", text)
    assert len(counts) >= 4
    assert all(int(helps) + int(harms) < 4 for helps, harms in counts)


def test_an_advantage_is_never_told_as_a_share_of_another():
    """Shares of averages hide cells of either sign: by cell, from −156 to +217 % in the paper's study."""
    studies = three(published=-0.4, proved=-0.2, exact=-0.1)
    for text in (section(*studies), *short_answer(*studies)):
        assert "is left" not in text
        assert "of the published advantage" not in text


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
    """Only `mse` gains, and only where neither ε nor ρ is the largest; a fifth of the noise above."""

    def error(cell):
        return -0.6 if cell["method"] == "mse" and cell["epsilon"] < 5 and cell["rho"] < 1 else 0.0

    main = study(error, noise=0.02)
    text = section(main, None, main.assign(exact_tv=main.tv))
    ratios = [float(found) for found in re.findall(r"SGLD\*\*: .*?ratio ([\d.]+)", text)]
    assert ratios == pytest.approx([np.exp(-0.6 * 4 / 9 / 6), np.exp(-0.6 / 6)], abs=0.01)
    table = text.split("By utility, over all settings:")[1].split("### Semi-adaptive")[0].strip()
    rows = [line.split(" | ") for line in table.split("\n")[2:]]
    by_utility = {row[0].strip("| "): float(row[1].split()[0]) for row in rows}
    assert by_utility["U5 MSE"] == pytest.approx(np.exp(-0.6 * 4 / 9), abs=0.01)
    assert by_utility["U3 TV1"] == pytest.approx(1.0, abs=0.01)


def test_semi_adaptive_methods_are_compared_with_srr_by_alpha():
    """α = 0.6 gains at ρ = 0.01, α = 0.2 loses at ρ = 1: shown once for each K, ε and ρ, whatever κ is."""

    def error(cell):
        gains, loses = cell["method"] == "semi_adaptive_0.6", cell["method"] == "semi_adaptive_0.2"
        return -0.6 if gains and cell["rho"] == 0.01 else 0.4 if loses and cell["rho"] == 1 else 0.0

    main = study(error, noise=0.02)
    found = {source.name: source for source in semi_adaptive_sources(main, None, main.assign(exact_tv=main.tv))}
    assert {*found} == {PROVED, EXACT}
    assert len(found[PROVED].ratios) == 3 * 9
    gain = {key for key in found[PROVED].ratios if key[1] == "semi_adaptive_0.6" and key[0].rho == 0.01}
    assert pooled(found[PROVED], gain).middle == pytest.approx(-0.6, abs=0.02)
    text = section(main, None, main.assign(exact_tv=main.tv)).split("### Semi-adaptive against SRR")[1]
    # Of 24 places without an effect four or more are reported by chance in 1 of 300 studies; the seed is fixed.
    for shown, times in ((text, 2), ("".join(short_answer(main, None, None)), 1)):
        counts = {a: re.findall(rf"α = {a} ahead in (\d) and behind in (\d) of 9", shown) for a in (0.2, 0.6)}
        assert [len(found) for found in counts.values()] == [times, times]
        assert all(int(ahead) < 3 <= int(behind) < 6 for ahead, behind in counts[0.2])
        assert all(3 <= int(ahead) < 6 > int(behind) for ahead, behind in counts[0.6])


def test_studies_of_other_seeds_are_not_paired():
    main, program, equal = three()
    text = section(main, program.assign_attrs(study='{"seed": 9}'), equal.assign_attrs(study='{"seed": 9}'))
    assert "The study of the published budgets is left out: it has another seed" in text
    assert "The study of equal privacy is left out: it has another seed" in text
    assert "**as published" not in text
    assert "**as proved, exact" not in text
    assert "**as proved, SGLD" in text


def test_true_losses_are_told():
    text = section(*three())
    assert "| 0.5 | 0.8 | 0.8 | 100 % |" in text
    assert section(three()[0], None, None) == ""


def test_true_losses_are_told_from_the_least_to_the_greatest_with_the_share_above_the_label():
    main, program, _ = three()
    place = np.flatnonzero(program.epsilon.values == 1.0)[0]
    program["true_epsilon"].values[place, :3] = [1.0, 1.2, 1.9]
    above = 1 - 1 / (np.count_nonzero(program.epsilon.values == 1.0) * program.sizes["run"])
    assert f"| 1 | 1 | 1.9 | {100 * above:.0f} % |" in section(main, program, None)
    half = program.copy(deep=True)
    half["true_epsilon"].values[:, ::2] = half.epsilon.values[:, None]
    assert "| 1 | 1 | 1.6 | 50 % |" in section(main, half, None)


def test_the_shipped_reference_is_read():
    rows = read_reference(REFERENCE)
    assert len(rows) == 30
    first = rows[0]
    assert (first.setting, first.method, first.runs) == (Setting(10, 0.5, 0.8, 0.01), "nonadaptive", 10)
    assert (first.median, first.true_loss) == (0.2275, 0.5)


def test_a_reference_without_its_columns_is_refused(tmp_path):
    path = tmp_path / "reference.csv"
    path.write_text("K,epsilon\n10,1\n")
    with refuses("reference"):
        read_reference(path)


def rows_of(dataset, rng, shift=0.0):
    """Ten runs a row, drawn from our own cells, as the reference would have them."""
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
    assert "108 of its 110 rows" in text
    assert "no fewer than chance allows" in text
    assert table.count("\n") == 109


def test_the_interval_of_a_match_leans_against_the_chance_of_their_few_runs():
    """With a long upper tail, the median of their ten runs may be far above its own truth: the ratio reaches up."""
    published = study(methods=("mse",), budgets="published", runs=50, kappa=(0.8,), epsilon=(0.5,), rho=(0.01,))
    published["tv"].values[:] = np.exp(np.exp(2 * np.random.default_rng(0).normal(size=50)))
    row = ReferenceRow(Setting(10, 0.5, 0.8, 0.01), "mse", 10, float(np.median(published.tv.values)), 0.8)
    (one,) = match([row], published, study(runs=2))
    assert one.ratio.middle == pytest.approx(0, abs=1e-3)
    assert one.ratio.upper > 1.5 * -one.ratio.lower > 0


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
    assert match_text([], 3) == ["None of the settings of the reference were run."]


def test_runs_are_paired_with_the_first_ones_of_a_longer_study():
    main = study(runs=50)
    found = {source.name: source for source in sources(main, as_srr(main, 0.7), None)}
    for runs in found[PUBLISHED].ratios.values():
        np.testing.assert_allclose(runs, np.full(20, np.log(0.7)), rtol=0, atol=1e-12)


def test_published_budgets_are_compared_with_their_own_srr_where_there_is_one():
    """SRR as proved is e^0.5 times worse; own SRR is what counts, at the label ε and, interpolated, at the true one."""
    main = study(lambda cell: 0.5 if cell["method"] == "nonadaptive" else 0.0, runs=50, noise=0.01)
    own = study(utilities_at(-0.2), methods=("nonadaptive", *UTILITIES), budgets="published", runs=20, noise=0.01)
    found = {source.name: source for source in sources(main, own, None)}
    for name in (PUBLISHED, AT_TRUE):
        assert pooled(found[name], set(found[name].ratios)).middle == pytest.approx(-0.2, abs=0.02)
    text = section(main, own, None, reference=REFERENCE)
    assert "its SRR is run with that step too" in text
    assert "Our SRR in it is that of the study as proved" not in text
    program = own.isel(cell=np.flatnonzero(own.method.values != "nonadaptive"))
    text = section(main, program, None, reference=REFERENCE)
    assert "compared with is that of the study as proved, with another step" in text
    assert "Our SRR in it is that of the study as proved" in text


def test_srr_of_the_reference_is_matched_with_its_own_where_there_is_one():
    main = study(lambda cell: 0.5)
    own = study(methods=("nonadaptive", *UTILITIES), budgets="published")
    setting = Setting(10, 0.5, 0.8, 0.01)
    (one,) = match([ReferenceRow(setting, "nonadaptive", 10, 0.3, 0.5)], own, main)
    chosen = (own.method.values == "nonadaptive") & (own.epsilon.values == 0.5) & (own.rho.values == 0.01)
    assert one.median == np.median(own.tv.values[chosen][0])


def test_all_sources_are_of_the_same_runs():
    """Runs from the eleventh on have no advantage as proved: the sentence is about the first ten, which have one."""
    main = study(utilities_at(-0.2), runs=40, noise=0.01)
    chosen = np.isin(main.method.values, UTILITIES)
    main["tv"].values[np.ix_(chosen, np.arange(40) >= 10)] *= np.exp(0.2)
    program = as_srr(main, np.exp(-0.4), n=10)
    text = section(main, program, None)
    ratios = [float(found) for found in re.findall(r"SGLD\*\*: .*?ratio ([\d.]+)", text)]
    assert ratios == pytest.approx([np.exp(-0.2)] * 2, abs=0.01)
    assert text.count("10 runs)") == 4


def test_few_runs_and_none_are_said_to_be_so():
    main = study(utilities_at(-0.2), runs=4)
    text = section(main, as_srr(main, 0.7, n=4), None)
    assert "30 % below SRR's in 4 runs, too few for an interval" in text
    main = study(utilities_at(-0.2), runs=8)
    chosen = main.method.values == "mse"
    main["tv"].values[chosen] = np.where(np.arange(8) < 4, np.nan, main.tv.values[chosen])
    main["tv"].values[main.method.values == "tv1", 4:] = np.nan
    text = section(main, as_srr(main, 0.7, n=8), None)
    assert "the utilities' error is not known: no run has all of its parts" in text
    assert "nan" not in text


def test_the_interpolation_is_said_to_be_coarse_and_which_way_it_errs():
    main, program, _ = three()
    low, high = interpolation_factors(program, main)[1.0]

    def error(epsilon):
        return (np.exp(epsilon) + 9) / (np.exp(epsilon) - 1)  # of SRR, K = 10

    weight = np.log(1.6) / np.log(5)  # the true ε is 1.6 times the label
    expected = error(1.0) ** (1 - weight) * error(5.0) ** weight / error(1.6)
    assert low == pytest.approx(expected) == pytest.approx(high)
    assert f"{expected:.2f} times it at label ε = 1. Above 1 it overstates SRR's error" in section(main, program, None)
    assert "coarse" not in section(main, None, main.assign(exact_tv=main.tv))


def test_the_short_answer_has_the_figures_of_the_section():
    def error(cell):
        return (-0.3 if cell["rho"] < 1 else 0.3) if cell["method"] in UTILITIES else 0.0

    main = study(error)
    program = study(utilities_at(-0.4), methods=UTILITIES, budgets="published")
    equal = study(error, kappa=(0.8,), seed=4)
    studies = (main, program, equal.assign(exact_tv=equal.tv))
    heading, text = short_answer(*studies)
    assert heading.startswith("## In short")
    whole = section(*studies)
    for figures in re.findall(r"ratio [\d.]+ \[[\d., ]+\], \d+ runs", text):
        assert figures in whole
    assert text.count("ratio ") == 3
    assert "Settings: K = 10, ε = 0.5 and 1 and 5, κ = 0.8 and 0.9, ρ = 0.01 and 0.1 and 1." in text
    helps = re.findall(r"adapting helps in 6 of 9 \(.*?; ratios of 0\.[67]\d to 0\.[78]\d\)", text)  # e^−0.3 = 0.74
    assert len(helps) == 2
    assert text.count("harms in 3 ((0.5, 1), (1, 1), (5, 1); ratios of 1.") == 2


def test_the_short_answer_does_not_wait_for_the_study_as_published():
    """All 30 runs as proved count, though only the first 20 can be set beside those as published."""
    main = study(utilities_at(-0.2), noise=0.02)
    text = short_answer(main, as_srr(main, np.exp(-0.4)), None)[1]
    assert re.search(
        r"SGLD's estimate, the utilities' error is on average 1\d % below SRR's \(ratio [^)]*, 30 runs\)", text
    )


def test_the_short_answer_is_empty_without_runs():
    assert short_answer(study(methods=("nonadaptive",)), None, None) == []
