"""As proved and as published: the adaptive methods' advantage by label, and at equal, true privacy."""

from pathlib import Path

import numpy as np
import xarray as xr

from adobest_pp.studies.summary import LEVEL, markdown_table, number, percent
from validation.paper.advantages import (
    AT_TRUE,
    EXACT,
    PROVED,
    Key,
    Source,
    by_epsilon_and_rho,
    common_keys,
    interpolation_factors,
    pooled,
    same_runs,
    semi_adaptive_sources,
    sources,
    trimmed,
)
from validation.paper.comparisons import Grid, has_own_srr, paired, paper_part, published_part
from validation.paper.methods import UTILITIES, method_label
from validation.paper.reference import match, match_text, read_reference
from validation.sign_test import Interval, median_interval

__all__ = ["advantage_text", "equal_privacy_section", "short_answer"]


def equal_privacy_section(
    dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None, reference: Path | None
) -> list[str]:
    """Return the section of the page, in parts; empty where there is nothing to set side by side."""
    if as_published is None and equal_privacy is None:
        return []
    parts = ["## As proved and as published", _introduction(as_published)]
    if as_published is not None and reference is not None:
        parts += ["### Our runs of the published budgets beside the authors' program"]
        parts += _matched(reference, as_published, dataset)
    parts += ["### The advantage as published, and at equal, true privacy"]
    for name, study in (("the published budgets", as_published), ("equal privacy", equal_privacy)):
        if study is not None and not paired(study, dataset):
            parts.append(
                f"The study of {name} is left out: it has another seed, hence other θ*, or another number of people, "
                "so its runs cannot be paired."
            )
    blocks = _blocks(sources(dataset, as_published, equal_privacy))
    for heading, block in zip(
        ("With SGLD's estimate", "With the exact posterior mean beside it"), blocks, strict=False
    ):
        parts += [*([f"#### {heading}"] if len(blocks) > 1 else []), *advantage_text(block)]
    if any(source.name == AT_TRUE for source in blocks[0]) and as_published is not None:
        parts.append(_interpolation_text(interpolation_factors(as_published, dataset)))
    return parts + semi_adaptive_section(semi_adaptive_sources(dataset, as_published, equal_privacy))


def semi_adaptive_section(found: list[Source]) -> list[str]:
    """Return the errors of the semi-adaptive methods over SRR's, a table for each source; empty without any."""
    if not found:
        return []
    parts = [
        "### Semi-adaptive against SRR",
        "The semi-adaptive methods have ε₁ = ε and ε₂ = 0, as in the authors' program (AdOBEst_LDP.m, lines 32 to 34), "
        "and keep ε. Their error over that of SRR, averaged (as a logarithm) over K within each run, then the median "
        f"over the runs with its {percent(LEVEL)} sign-test interval. Below 1, adapting helps.",
    ]
    for source in found:
        names = sorted({method for _, method in source.ratios})
        rows = [
            [number(e), number(rho), *(_cell(pooled(source, {k for k in keys if k[1] == name})) for name in names)]
            for (e, rho), keys in by_epsilon_and_rho(set(source.ratios)).items()
        ]
        headings = ["ε", "ρ", *(method_label(name).removeprefix("semi-adaptive ") for name in names)]
        sizes = sorted({setting.K for setting, _ in source.ratios})
        lead = f"**{source.name}** (K = {' and '.join(map(str, sizes))}): {_alphas_told(source)}."
        parts += [lead, markdown_table(headings, rows)]
    return parts


def _alphas_told(source: Source) -> str:
    """Return in how many (ε, ρ) each α is ahead of SRR, and behind."""
    parts = []
    for name in sorted({method for _, method in source.ratios}):
        helps, harms, n = _helped(source, {key for key in source.ratios if key[1] == name})
        label = method_label(name).removeprefix("semi-adaptive ")
        parts.append(f"{label} ahead in {len(helps)} and behind in {len(harms)} of {n} (ε, ρ)")
    return "; ".join(parts)


def short_answer(dataset: xr.Dataset, as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None) -> list[str]:
    """Return the advantage at equal privacy in a few sentences, from all runs of each study; empty without any."""
    found = {source.name: source for source in sources(dataset, as_published, equal_privacy)}
    sentences, wheres = [], []
    for name, lead in (
        (PROVED, "At equal, true privacy and with SGLD's estimate"),
        (EXACT, "With the exact posterior mean of the same answers, whose subsets SGLD chose"),
    ):
        if name in found:
            keys = set(found[name].ratios)
            text = f"- {lead}, the utilities' error is on average {_against_srr(pooled(found[name], keys))}"
            if name == EXACT and keys <= set(found.get(PROVED, found[EXACT]).ratios):
                runs = same_runs([found[PROVED], found[EXACT]], keys)
                text += f", and with SGLD's estimate there {_against_srr(median_interval(runs[PROVED]))}"
            sentences.append(f"{text}. Settings: {_scope(keys)}.")
            wheres.append(f"with {'the exact mean' if name == EXACT else 'SGLD'}, {_places(found[name], keys)}")
    if not sentences:
        return []
    where = (
        f"- Six utilities, at equal, true privacy, by (ε, ρ): {'; '.join(wheres)}. In the others, no difference is "
        f"shown. Each interval has a level of {percent(LEVEL)} by itself."
    )
    semi = [
        f"- Semi-adaptive, with ε₁ = ε as in the authors' program ({source.name}): {_alphas_told(source)}."
        for source in semi_adaptive_sources(dataset, None, equal_privacy)
    ]
    return ["## In short: the adaptive methods against SRR", "\n".join([where, *sentences, *semi])]


def advantage_text(block: list[Source]) -> list[str]:
    """Return the answer in words, computed from the pooled ratios, and the table behind it."""
    common = common_keys(block)
    if not common:
        return ["The studies have no setting and utility in common with non-adaptive SRR beside it."]
    n_utilities = len({method for _, method in common})
    n_runs = max(runs.size for source in block for runs in source.ratios.values())
    scope = (
        f"Pooled over the {n_utilities} utilities, {_scope(common)}, in the first {n_runs} runs, as many as every "
        "study here has: the error of a utility over that of SRR, averaged (as a logarithm) within each run that has "
        f"all of its parts, then the median over the runs with its {percent(LEVEL)} sign-test interval. Below 1, "
        "adapting helps."
    )
    if any(source.name == AT_TRUE for source in block):
        scope += (
            f" *{AT_TRUE}* compares with SRR's error at the privacy loss that the published mechanism truly has, "
            "interpolated between the study's ε on logarithmic scales in each run; a dash where that loss is beyond "
            "them."
        )
    parts = ["Over all settings that every study here has:", _answers(block, common)]
    hard = _hard(common)
    if hard and hard != common:
        parts += ["Where neither ε nor ρ is the largest, which is where the paper sees most of the advantage:"]
        parts += [_answers(block, hard)]
    tables = [_table(block, common, "setting"), _where(block, common), "By utility, over all settings:"]
    return [*parts, scope, *tables, _table([s for s in block if s.name != AT_TRUE], common, "method")]


def _blocks(found: list[Source]) -> list[list[Source]]:
    """Return the comparisons to set side by side, each of the same runs; without the exact estimate first."""
    broad = [source for source in found if source.name != EXACT]
    # The exact estimate takes longer and is of fewer settings: what all have is not all that the others have.
    apart = 0 < len(broad) < len(found) and common_keys(broad) != common_keys(found)
    return [trimmed(block) for block in ([broad, found] if apart else [found])]


def _introduction(as_published: xr.Dataset | None) -> str:
    text = (
        "For the six utilities the authors' program (soneraydin/AdOBEst_LDP, commit 9080c23) sets ε₂ in a way that is "
        "not ε-LDP (AdOBEst_LDP.m, lines 37 to 41), so what they run has a larger true ε than its label. Its SRR and "
        "its semi-adaptive methods keep ε. Where the utilities are compared with these, the fair comparison is with "
        "the budgets of Theorem 1 at the same ε."
    )
    if as_published is None:
        return text
    srr = (
        "its SRR is run with that step too"
        if has_own_srr(as_published)
        else "the SRR that it is compared with is that of the study as proved, with another step"
    )
    text += (
        " *As published* differs in more than budgets: it has the program's constant step of SGLD and no empty subset; "
        f"{srr}. `python -m validation.causes` changes one of the three at a time."
    )
    if "true_epsilon" not in as_published:
        return text
    losses = Grid(published_part(as_published), "true_epsilon")
    rows = []
    for epsilon in losses.levels("epsilon"):
        values = [runs for s in losses.settings if s.epsilon == epsilon for runs in losses.utilities(s).values()]
        known = np.concatenate([runs[np.isfinite(runs)] for runs in values]) if values else np.array([np.nan])
        above = np.mean(known > epsilon * (1 + 1e-9))
        rows.append([number(epsilon), number(known.min()), number(known.max()), percent(above)])
    headings = ["label ε", "smallest true ε of a run", "largest", "share of the runs above the label"]
    return text + "\n\n" + markdown_table(headings, rows)


def _matched(reference: Path, as_published: xr.Dataset, dataset: xr.Dataset) -> list[str]:
    rows = read_reference(reference)
    parts = match_text(match(rows, published_part(as_published), paper_part(dataset)), len(rows))
    if has_own_srr(as_published):
        return parts
    note = "Our SRR in it is that of the study as proved, whose step is not the constant one of the program."
    return [parts[0], note, *parts[1:]]


def _interpolation_text(factors: dict[float, tuple[float, float]]) -> str:
    parts = []
    for epsilon, bounds in factors.items():
        low, high = (f"{bound:.2f}" for bound in bounds)
        parts.append(f"{low if low == high else f'{low} to {high}'} times it at label ε = {number(epsilon)}")
    return (
        f"*{AT_TRUE}* is coarse where the study's ε are far apart. By the standard error of SRR's frequencies for an "
        "even θ, which is proportional to (e^ε + K − 1)/(e^ε − 1), interpolating SRR's error gives "
        f"{' and '.join(parts)}. Above 1 it overstates SRR's error, which favors the published budgets; below 1 it "
        "understates it."
    )


def _hard(keys: set[Key]) -> set[Key]:
    epsilon, rho = (max(getattr(setting, name) for setting, _ in keys) for name in ("epsilon", "rho"))
    return {key for key in keys if key[0].epsilon < epsilon and key[0].rho < rho}


def _answers(block: list[Source], keys: set[Key]) -> str:
    runs = same_runs(block, keys)
    lines = [
        f"- **{source.name}**: the utilities' error is {_against_srr(pooled(source, keys))}."
        for source in block
        if source.name in runs
    ]
    if PROVED in runs and EXACT in runs:
        # Both have the same answers, as the studies have the same seed: only the estimate differs.
        change = median_interval(runs[EXACT] - runs[PROVED])
        lines.append(
            "- With the exact posterior mean, the ratio of the utilities' error to SRR's is "
            f"{_cell(change)} times what it is with SGLD's estimate (median within runs, {change.n} runs)."
        )
    return "\n".join(lines)


def _against_srr(interval: Interval) -> str:
    if interval.n == 0:
        return "not known: no run has all of its parts"
    change = percent(abs(np.expm1(interval.middle)))
    side = "below" if interval.middle < 0 else "above"
    bounds = f"ratio {np.exp(interval.middle):.3f} [{np.exp(interval.lower):.3f}, {np.exp(interval.upper):.3f}]"
    if interval.too_few:
        return f"{change} {side} SRR's in {interval.n} runs, too few for an interval"
    if interval.lower <= 0 <= interval.upper:
        return f"not shown to differ from SRR's ({bounds}, {interval.n} runs)"
    return f"{change} {side} SRR's ({bounds}, {interval.n} runs)"


def _table(block: list[Source], common: set[Key], by: str) -> str:
    """Return the pooled ratios of each (ε, ρ) or of each method."""
    if by == "setting":
        headings = ["ε", "ρ"]
        groups = [([number(e), number(rho)], keys) for (e, rho), keys in by_epsilon_and_rho(common).items()]
    else:
        headings = ["utility"]
        groups = [([method_label(name)], {key for key in common if key[1] == name}) for name in UTILITIES]
    rows = [
        [*names, *(_cell(pooled(source, keys)) if keys <= set(source.ratios) else "–" for source in block)]
        for names, keys in groups
        if keys
    ]
    return markdown_table([*headings, *(source.name for source in block)], rows)


def _cell(interval: Interval) -> str:
    if not np.isfinite(interval.middle):
        return "–"
    middle = f"{np.exp(interval.middle):.2f}"
    return middle if interval.too_few else f"{middle} [{np.exp(interval.lower):.2f}, {np.exp(interval.upper):.2f}]"


def _helped(source: Source, common: set[Key]) -> tuple[dict[str, Interval], dict[str, Interval], int]:
    """Return the (ε, ρ) in which adapting helps, those in which it harms, and how many there are in all."""
    groups = {at: keys for at, keys in by_epsilon_and_rho(common).items() if keys <= set(source.ratios)}
    found = {f"({number(e)}, {number(rho)})": pooled(source, keys) for (e, rho), keys in groups.items()}
    helps = {at: interval for at, interval in found.items() if interval.upper < 0}
    return helps, {at: interval for at, interval in found.items() if interval.lower > 0}, len(found)


def _where(block: list[Source], common: set[Key]) -> str:
    lines = []
    for source in block:
        helps, harms, n = _helped(source, common)
        lines.append(f"- {source.name}: adapting helps in {len(helps)} and harms in {len(harms)} of {n} (ε, ρ).")
    return "\n".join(lines)


def _places(source: Source, common: set[Key]) -> str:
    helps, harms, n = _helped(source, common)
    return f"adapting helps in {_told(helps, f' of {n}')} and harms in {_told(harms)}"


def _told(places: dict[str, Interval], total: str = "") -> str:
    if not places:
        return f"none{total}"
    ratios = np.exp([interval.middle for interval in places.values()])
    return f"{len(places)}{total} ({', '.join(places)}; ratios of {ratios.min():.2f} to {ratios.max():.2f})"


def _scope(keys: set[Key]) -> str:
    levels = [sorted({key[0][place] for key in keys}) for place in range(4)]
    parts = zip(("K", "ε", "κ", "ρ"), levels, strict=True)
    return ", ".join(f"{symbol} = {' and '.join(map(number, values))}" for symbol, values in parts)
