"""As proved and as published: what is left of the adaptive methods' advantage at equal, true privacy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from adobest_pp.studies.comparisons import LEVEL, Interval, median_interval
from adobest_pp.studies.grids import Grid, Runs, Setting, paper_part, published_part, study_seed
from adobest_pp.studies.methods import UTILITIES, method_label
from adobest_pp.studies.reference import ReferenceRow, match, match_text, read_reference
from adobest_pp.studies.summary import markdown_table, number, percent

__all__ = ["Source", "equal_privacy_section", "pooled", "sources"]

PUBLISHED = "as published, label ε"
AT_TRUE = "as published, SRR at the true ε"
PROVED = "as proved, SGLD"
EXACT = "as proved, exact posterior mean"


@dataclass(frozen=True)
class Source:
    """Errors of the utilities over those of SRR, run by run.

    Attributes
    ----------
    name : str
        Which comparison it is.
    ratios : dict
        Logarithms of the ratios by setting and utility.
    """

    name: str
    ratios: dict[tuple[Setting, str], Runs]


def equal_privacy_section(
    dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None, reference: Path | None
) -> list[str]:
    """Return the section of the page, in parts; empty where there is nothing to set side by side."""
    if as_published is None and equal_privacy is None:
        return []
    parts = ["## As proved and as published", _introduction(as_published)]
    if as_published is not None and reference is not None:
        rows = read_reference(reference)
        parts += [
            "### Our runs of the published budgets beside the authors' own",
            *_matched(rows, as_published, dataset),
        ]
    parts += ["### What is left of the advantage at equal, true privacy"]
    if as_published is not None and study_seed(as_published) != study_seed(dataset):
        parts.append("The two studies have different seeds, hence different θ*: their runs cannot be paired.")
        as_published = None
    if equal_privacy is not None and study_seed(equal_privacy) != study_seed(dataset):
        parts.append("The study of equal privacy has another seed: it is left out, as its runs cannot be paired.")
        equal_privacy = None
    found = sources(dataset, as_published, equal_privacy)
    broad = [source for source in found if source.name != EXACT]
    if len(broad) < len(found) and _common(broad) != _common(found):
        # The exact estimate takes longer and is of fewer settings: what all have is not all that the others have.
        parts += ["#### With SGLD's estimate", *advantage_text(broad), "#### With the exact posterior mean beside it"]
    return [*parts, *advantage_text(found)]


def sources(dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None) -> list[Source]:
    """Return the comparisons with SRR that the studies allow.

    Parameters
    ----------
    dataset : xarray.Dataset
        The study with the budgets of Theorem 1, and with non-adaptive SRR.
    as_published : xarray.Dataset, optional
        The study with the published budgets, of the same seed; SRR, which has no such budgets, is that of `dataset`
        where it has none of its own.
    equal_privacy : xarray.Dataset, optional
        A study with the budgets of Theorem 1 and the measure ``exact_tv``.
    """
    proved = Grid(paper_part(dataset), "tv", log=True)
    found = []
    if as_published is not None:
        published = Grid(published_part(as_published), "tv", log=True)
        found.append(Source(PUBLISHED, _ratios(published, proved)))
        if "true_epsilon" in as_published:
            losses = Grid(published_part(as_published), "true_epsilon")
            found.append(Source(AT_TRUE, _ratios_at_true_loss(published, losses, proved)))
    found.append(Source(PROVED, _ratios(proved, proved)))
    if equal_privacy is not None and "exact_tv" in equal_privacy:
        exact = Grid(paper_part(equal_privacy), "exact_tv", log=True)
        found.append(Source(EXACT, _ratios(exact, exact)))
    return [source for source in found if source.ratios]


def pooled(source: Source, keys: set[tuple[Setting, str]]) -> Interval:
    """Return the logarithm of the ratio, averaged over settings and utilities within each run; its median over runs."""
    chosen = [source.ratios[key] for key in sorted(keys)]
    n = min((len(runs) for runs in chosen), default=0)
    # A run counts where all of its parts are done: with some missing, it would average something else.
    return median_interval(np.mean([runs[:n] for runs in chosen], axis=0) if chosen else [])


def advantage_text(found: list[Source]) -> list[str]:
    """Return the answer in words, computed from the pooled ratios, and the table behind it."""
    common = _common(found)
    if not common:
        return ["The studies have no setting and utility in common with non-adaptive SRR beside it."]
    ks, kappas = ({number(key[0][place]) for key in common} for place in (0, 2))
    n_utilities = len({method for _, method in common})
    scope = (
        f"Pooled over the {n_utilities} utilities, K = {_listed(ks)} and κ = {_listed(kappas)}, which all columns "
        "have: the error of a utility over that of SRR, averaged (as a logarithm) within each run, then the median "
        f"over the runs with its {percent(LEVEL)} sign-test interval. Below 1, adapting helps. *{AT_TRUE}* compares "
        "with SRR's error at the privacy loss that the published mechanism truly has, interpolated between the study's "
        "ε on logarithmic scales in each run; a dash where that loss is beyond them."
    )
    parts = ["Over all settings:", _answers(found, common)]
    hard = _hard(common)
    if hard and hard != common:
        parts += ["Where neither ε nor ρ is the largest, which is where the paper sees the advantage:"]
        parts += [_answers(found, hard)]
    tables = [_table(found, common, "setting"), _where(found, common), "By utility, over all settings:"]
    return [*parts, scope, *tables, _table([s for s in found if s.name != AT_TRUE], common, "method")]


def _introduction(as_published: xr.Dataset | None) -> str:
    text = (
        "The authors' program sets ε₂ in a way that is not ε-LDP, so what it runs has a larger true ε than its label; "
        "the fair comparison is with the budgets of Theorem 1 at the same ε."
    )
    if as_published is None or "true_epsilon" not in as_published:
        return text
    losses = Grid(published_part(as_published), "true_epsilon")
    rows = []
    for epsilon in losses.levels("epsilon"):
        values = [runs for s in losses.settings if s.epsilon == epsilon for runs in losses.utilities(s).values()]
        known = np.concatenate(values) if values else np.array([np.nan])
        above = np.nanmean(known > epsilon * (1 + 1e-9))
        rows.append([number(epsilon), number(np.nanmin(known)), number(np.nanmax(known)), percent(above)])
    headings = ["label ε", "smallest true ε of a run", "largest", "share of the runs above the label"]
    return text + "\n\n" + markdown_table(headings, rows)


def _matched(rows: list[ReferenceRow], as_published: xr.Dataset, dataset: xr.Dataset) -> list[str]:
    return match_text(match(rows, published_part(as_published), paper_part(dataset)), len(rows))


def _ratios(grid: Grid, baseline: Grid) -> dict[tuple[Setting, str], Runs]:
    result = {}
    for setting in grid.settings:
        srr = grid.methods(setting).get("nonadaptive", baseline.methods(setting).get("nonadaptive"))
        if srr is not None:
            for name, runs in grid.utilities(setting).items():
                n = min(runs.size, srr.size)
                result[setting, name] = runs[:n] - srr[:n]
    return result


def _ratios_at_true_loss(grid: Grid, losses: Grid, baseline: Grid) -> dict[tuple[Setting, str], Runs]:
    """Compare with SRR's error at the loss of each run, interpolated between its ε; NaN where it is beyond them."""
    result = {}
    epsilons = baseline.levels("epsilon")
    for setting in grid.settings:
        ladder = [baseline.methods(setting._replace(epsilon=e)).get("nonadaptive") for e in epsilons]
        known = [(e, runs) for e, runs in zip(epsilons, ladder, strict=True) if runs is not None]
        for name, runs in grid.utilities(setting).items():
            true = losses.methods(setting).get(name)
            if true is not None and len(known) > 1:
                n = min(runs.size, *(srr.size for _, srr in known))
                errors = np.array([srr[:n] for _, srr in known])
                at = [
                    np.interp(np.log(true[i]), np.log([e for e, _ in known]), errors[:, i], left=np.nan, right=np.nan)
                    for i in range(n)
                ]
                result[setting, name] = runs[:n] - np.array(at)
    return {key: runs for key, runs in result.items() if np.isfinite(runs).any()}


def _common(found: list[Source]) -> set[tuple[Setting, str]]:
    kept = [set(source.ratios) for source in found if source.name != AT_TRUE]
    return set.intersection(*kept) if kept else set()


def _hard(keys: set[tuple[Setting, str]]) -> set[tuple[Setting, str]]:
    epsilon, rho = (max(getattr(setting, name) for setting, _ in keys) for name in ("epsilon", "rho"))
    return {key for key in keys if key[0].epsilon < epsilon and key[0].rho < rho}


def _answers(found: list[Source], keys: set[tuple[Setting, str]]) -> str:
    overall = {source.name: pooled(source, keys) for source in found if source.name != AT_TRUE}
    lines = []
    for name, interval in overall.items():
        lines.append(f"- **{name}**: the utilities' error is {_against_srr(interval)}.")
    published = overall.get(PUBLISHED)
    for name in (PROVED, EXACT):
        if published is not None and name in overall:
            lines.append(f"- {_left(name, overall[name], published)}")
    return "\n".join(lines) + _estimators(found, keys)


def _estimators(found: list[Source], common: set[tuple[Setting, str]]) -> str:
    """Say what the estimate does to the ratio: both have the same answers where the studies have the same seed."""
    by_name = {source.name: source.ratios for source in found}
    if PROVED not in by_name or EXACT not in by_name:
        return ""
    change = {}
    for key in common:
        n = min(by_name[EXACT][key].size, by_name[PROVED][key].size)
        change[key] = by_name[EXACT][key][:n] - by_name[PROVED][key][:n]
    found_change = pooled(Source("exact over SGLD", change), common)
    return (
        "\n- With the exact posterior mean, the ratio of the utilities' error to SRR's is "
        f"{_cell(found_change)} times what it is with SGLD's estimate, in the same {found_change.n} runs."
    )


def _against_srr(interval: Interval) -> str:
    change = percent(abs(np.expm1(interval.middle)))
    side = "below" if interval.middle < 0 else "above"
    bounds = f"ratio {np.exp(interval.middle):.3f} [{np.exp(interval.lower):.3f}, {np.exp(interval.upper):.3f}]"
    if interval.too_few:
        return f"{change} {side} SRR's in {interval.n} runs, too few for an interval"
    if interval.lower <= 0 <= interval.upper:
        return f"not shown to differ from SRR's ({bounds}, {interval.n} runs)"
    return f"{change} {side} SRR's ({bounds}, {interval.n} runs)"


def _left(name: str, now: Interval, published: Interval) -> str:
    if published.upper >= 0:
        return f"The published budgets show no advantage of which anything could be left ({name})."
    share = now.middle / published.middle
    if now.lower > 0:
        return f"Nothing is left of the published advantage ({name}): at equal privacy, adapting costs accuracy."
    if now.upper >= 0:
        return f"No advantage is shown to be left ({name}); the estimate is {percent(share)} of the published one."
    return f"{percent(share)} of the published advantage (in logarithms) is left ({name})."


def _groups(keys: set[tuple[Setting, str]]) -> dict[tuple[float, float], set[tuple[Setting, str]]]:
    """Return the keys of each (ε, ρ)."""
    groups: dict[tuple[float, float], set[tuple[Setting, str]]] = {}
    for key in sorted(keys):
        groups.setdefault((key[0].epsilon, key[0].rho), set()).add(key)
    return groups


def _table(found: list[Source], common: set[tuple[Setting, str]], by: str) -> str:
    """Return the pooled ratios of each (ε, ρ) or of each method."""
    if by == "setting":
        headings = ["ε", "ρ"]
        groups = [([number(e), number(rho)], keys) for (e, rho), keys in sorted(_groups(common).items())]
    else:
        headings = ["utility"]
        groups = [([method_label(name)], {key for key in common if key[1] == name}) for name in UTILITIES]
    rows = [
        [*names, *(_cell(pooled(source, keys)) if keys <= set(source.ratios) else "–" for source in found)]
        for names, keys in groups
        if keys
    ]
    return markdown_table([*headings, *(source.name for source in found)], rows)


def _cell(interval: Interval) -> str:
    if not np.isfinite(interval.middle):
        return "–"
    middle = f"{np.exp(interval.middle):.2f}"
    return middle if interval.too_few else f"{middle} [{np.exp(interval.lower):.2f}, {np.exp(interval.upper):.2f}]"


def _where(found: list[Source], common: set[tuple[Setting, str]]) -> str:
    """Say for each comparison in how many of the (ε, ρ) adapting helps, and in how many it harms."""
    lines = []
    for source in found:
        intervals = [pooled(source, keys) for keys in _groups(common).values() if keys <= set(source.ratios)]
        helps, harms = sum(one.upper < 0 for one in intervals), sum(one.lower > 0 for one in intervals)
        lines.append(f"- {source.name}: adapting helps in {helps} and harms in {harms} of {len(intervals)} (ε, ρ).")
    return "\n".join(lines)


def _listed(values: set[str]) -> str:
    return " and ".join(sorted(values, key=float))
