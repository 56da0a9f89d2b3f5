"""``adobest plan`` and ``adobest mechanisms``: parse, call the library, print. Heavy imports wait until they run."""

import json as json_format
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adobest_pp._dirichlet import ESTIMATE_PRIOR

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.design import Plan

# The budgets of the figure of efficiencies.
EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
# How many shares a plan prints.
MOST_SHARES = 12
CATEGORIES_HELP = "The number of categories, or their labels separated by commas."
THETA_HELP = "The shares to plan for, separated by commas."
PILOT_HELP = (
    "A pilot to plan for: randomized answers, in a file written by collect, or in Parquet or Arrow files of "
    "Responses.to_parquet (a folder of them, or a pattern in quotes)."
)
PRIOR_HELP = "Prior of the estimate: the concentration of a Dirichlet distribution, or 'learned' from the answers."
COPIES_HELP = "Count files of --responses with identical content, too: they are answers of different people."
ASSOCIATION_HELP = (
    "In place of shares: find how many people it takes to detect an association of two private questions that is as "
    "strong as this Cramér's V, from 0 to 1. Both have --categories, and half of --epsilon each."
)
OUT_HELP = "Where to write the figure: a new .png, .svg or .pdf file."


def plan(
    people: Annotated[int | None, typer.Option(help="How many will answer.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of one answer.")] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Half the width of the 95 % intervals, as a share: 0.02 is two points.")
    ] = None,
    categories: Annotated[str | None, typer.Option(help=CATEGORIES_HELP)] = None,
    theta: Annotated[str | None, typer.Option(help=THETA_HELP)] = None,
    shape: Annotated[
        str | None, typer.Option(help="An example to plan for: even, uneven or sparse (default: uneven).")
    ] = None,
    responses: Annotated[str | None, typer.Option(help=PILOT_HELP)] = None,
    allow_copies: Annotated[bool, typer.Option("--allow-copies", help=COPIES_HELP)] = False,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="A mechanism to choose from, or your module:Class; may be repeated (default: all)."),
    ] = None,
    association: Annotated[float | None, typer.Option(help=ASSOCIATION_HELP)] = None,
    prior: Annotated[str, typer.Option(help=PRIOR_HELP)] = ESTIMATE_PRIOR,
    simulate: Annotated[bool, typer.Option(help="Simulate where too few people answer for the formula.")] = True,
    seed: Annotated[int | None, typer.Option(help="Seed of the simulation.")] = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and nothing else.")] = False,
) -> None:
    """Plan a collection: give two of --people, --epsilon and --half-width to get the third for every mechanism."""
    from adobest_pp.cli.tables import check_figure, draw, make_known, read_prior
    from adobest_pp.design.plan import plan as make_plan

    for name in mechanism or ():
        make_known(name)
    if association is not None:
        others = {"people": people, "half-width": half_width, "theta": theta, "shape": shape, "responses": responses}
        given = [f"--{option}" for option, value in others.items() if value is not None]
        _plan_association(association, epsilon, _categories(categories), given, as_json=json)
        return
    target = check_figure(out)
    shares = _theta(theta, shape, responses, allow_copies, progressbar=not json)
    labels = _categories(categories)
    if labels is None and isinstance(shares, str):
        raise ValueError("--categories must be given: their number or labels, or --theta or --responses in its place")
    law, chosen = read_prior(prior), mechanism or None
    made = make_plan(shares, people, epsilon, half_width, labels, chosen, law, simulate, seed, progressbar=not json)
    if target is not None:
        draw("plot_plan", made, target)
    if json:
        typer.echo(json_format.dumps(_as_json(made), ensure_ascii=False, indent=2))
    else:
        _print_plan(made)


def _plan_association(strength: float, epsilon: float | None, categories: Any, given: list[str], as_json: bool) -> None:
    """Print how many people it takes to detect an association, for each mechanism that both questions may have."""
    import numpy as np

    from adobest_pp._checks import check_epsilon
    from adobest_pp.cli.tables import print_table
    from adobest_pp.estimates import people_for_association
    from adobest_pp.mechanisms import build_mechanism

    if given:
        raise ValueError(f"{given[0]} must be left out with --association, which finds the number of people")
    if epsilon is None or categories is None:
        raise ValueError("--epsilon and --categories must be given with --association")
    budget = check_epsilon(epsilon, "--epsilon")
    k = categories if isinstance(categories, int) else len(categories)
    if not 0 < strength <= 1:
        raise ValueError(f"--association must be a Cramér's V above 0 and at most 1, got {strength:g}")
    table = (1 - strength) * np.full((k, k), 1 / k**2) + strength * np.eye(k) / k
    found = {}
    for name in ("subset-selection", "srr", "unary-encoding"):
        mechanism = build_mechanism(name, n_categories=k, epsilon=budget / 2)
        found[name] = people_for_association(mechanism, mechanism, table)
    best = min(found, key=found.__getitem__)
    if as_json:
        typer.echo(json_format.dumps({"association": strength, "epsilon": budget, "people": found}, indent=2))
        return
    rows = [[name, f"{people:,}", f"{budget / 2:.3g}"] for name, people in found.items()]
    sentences = [
        f"• Take {best}: {found[best]:,} people who answer both questions.",
        "• Then the 95 % interval of Cramér's V excludes zero in 80 of 100 surveys, if the association is that strong "
        "and all answers are equally frequent.",
        f"• The two answers of a person together cost ε = {budget:g}.",
    ]
    title = f"People to detect a Cramér's V of {strength:g} between two questions of {k} categories"
    print_table(title, ["mechanism", "people", "ε of each answer"], rows, sentences, words=["mechanism"], bold=best)


def mechanisms(
    categories: Annotated[int, typer.Option(help="Number of categories.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one answer.")],
    theta: Annotated[str | None, typer.Option(help="The shares, separated by commas (default: all equal).")] = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, and nothing else.")] = False,
) -> None:
    """Compare all mechanisms: privacy loss (audited exactly), bits per answer, efficiency, and when to use each."""
    from adobest_pp._progress import SlowProgress
    from adobest_pp.cli.tables import check_figure, draw, read_shares
    from adobest_pp.design.overview import efficiency_table, mechanism_table

    target = check_figure(out)
    shares = None if theta is None else read_shares(theta)
    with SlowProgress(1 if target is None else 2, "comparing the mechanisms", not json) as progress:
        table = mechanism_table(categories, epsilon, shares)
        progress.advance(1)
        if target is not None:
            draw("plot_efficiency", efficiency_table(categories, EPSILONS, shares), target)
            progress.advance(1)
    if json:
        rows = _records(table, ("privacy_loss", "holds", "bits", "efficiency", "variance", "best_guess", "when"))
        about = {name: table.attrs[name] for name in ("epsilon", "theta", "proved")}
        typer.echo(json_format.dumps(about | {"mechanisms": rows}, ensure_ascii=False, indent=2))
    else:
        _print_mechanisms(table)


def _records(table: "xr.Dataset", names: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of a table by mechanism as plain values for JSON; unknown numbers are None."""
    rows = [table.sel(mechanism=name) for name in table["mechanism"].values.tolist()]
    return [{name: _plain(row[name].item()) for name in ("mechanism", *names)} for row in rows]


def _theta(theta: str | None, shape: str | None, responses: str | None, allow_copies: bool, progressbar: bool) -> Any:
    """Return what to plan for: shares, a pilot or the name of an example."""
    if sum(option is not None for option in (theta, shape, responses)) > 1:
        raise ValueError("--theta, --shape and --responses must not be given together: choose one of them")
    from adobest_pp.answers.gather.gather import read_answers
    from adobest_pp.cli.tables import naming_responses, read_shares

    if theta is not None:
        return read_shares(theta)
    if responses is None:
        return "uneven" if shape is None else shape
    with naming_responses(responses, "write it with Responses.to_parquet, or give its shares with --theta"):
        return read_answers(responses, progressbar=progressbar, allow_copies=allow_copies)


def _categories(text: str | None) -> Any:
    from adobest_pp._text import listed

    if text is not None and text.strip().isdecimal() and len(text) < 20:
        return int(text)
    return listed(text)


def _budget_of(made: "Plan") -> float | None:
    """Return the ε of the recommended plan, if there is one."""
    return float(made.table["epsilon"].sel(mechanism=made.recommended)) if made.recommended else None


def _guess_in_words(made: "Plan") -> str:
    """Return a sentence on how well one answer of the recommended plan lets anybody guess a person's category."""
    from adobest_pp._wording import guess_in_words
    from adobest_pp.mechanisms import guess_bound

    row = made.table.sel(mechanism=made.recommended)
    most = guess_bound(row["epsilon"].item(), made.theta.values)
    return guess_in_words(row["best_guess"].item(), float(made.theta.max()), most)


def _as_json(made: "Plan") -> dict[str, Any]:
    from adobest_pp._wording import budget_in_words

    budget = _budget_of(made)
    names = ("epsilon", "people", "half_width", "worst_half_width", "best_guess", "bits", "error", "method")
    return {
        "found": made.found,
        "plans": _records(made.table, names),
        "recommended": made.recommended or None,
        "reason": made.reason,
        "non_private": made.non_private,
        "theta": dict(zip(made.theta["category"].values.tolist(), made.theta.values.tolist(), strict=True)),
        "privacy": [] if budget is None else [*budget_in_words(budget), _guess_in_words(made)],
        "seed": made.table.attrs["random_seed"],
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_plan(made: "Plan") -> None:
    from adobest_pp._wording import budget_in_words
    from adobest_pp.cli.tables import print_table

    rows = []
    for name in made.table["mechanism"].values.tolist():
        row = made.table.sel(mechanism=name)
        cells = [name, _shown(row["people"].item(), ",.0f"), _shown(row["epsilon"].item(), ".3g")]
        cells += [_shown(row[each].item(), ".2%") for each in ("half_width", "worst_half_width")]
        error = row["error"].item()
        rows.append([*cells, f"± {error:.0%}" if error > 0 else "–", row["method"].item()])
    limit = f"{made.non_private:,.0f} people" if made.found == "people" else f"a half-width of {made.non_private:.2%}"
    lines = [f"Take {made.reason}" if made.recommended else made.reason, _assumed_in_words(made)]
    lines.append(f"Without any privacy it would be {limit}: the sampling error of honest answers.")
    if (made.table["error"] > 0).any():
        found = made.found.replace("_", "-").replace("epsilon", "ε")
        lines.append(f"“error”: the standard error of the {found} in the simulation; it depends on the seed.")
    if (made.table["method"] == "rough").any():
        lines.append("“rough”: too few people for the formula, which was used anyway; widths may be far off.")
    budget = _budget_of(made)
    lines += [] if budget is None else [*budget_in_words(budget), _guess_in_words(made)]
    title = f"95 % intervals of {made.theta.size} shares: {made.found.replace('_', '-')} for each mechanism"
    headings = ["mechanism", "people", "ε", "half-width", "widest", "error", "by"]
    bullets = [f"• {line}" for line in lines]
    print_table(title, headings, rows, bullets, words=["mechanism", "by"], bold=made.recommended)


def _assumed_in_words(made: "Plan") -> str:
    """Return the shares and the prior that the plan is for."""
    from adobest_pp._wording import prior_in_words

    shares = made.theta.to_series().sort_values(ascending=False, kind="stable")
    shown = [f"{label}: {share:.1%}" for label, share in shares.iloc[:MOST_SHARES].items()]
    rest = shares.iloc[MOST_SHARES:]
    shown += [f"{len(rest)} others: {rest.sum():.1%} together"] if len(rest) else []
    prior = made.table.attrs["prior"]
    law = prior_in_words(prior if isinstance(prior, str) else prior[0])
    return f"Planned for these shares ({', '.join(shown)}) and an estimate under {law}."


def _shown(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _print_mechanisms(table: "xr.Dataset") -> None:
    from adobest_pp.cli.tables import print_table

    rows = []
    for name in table["mechanism"].values.tolist():
        row = table.sel(mechanism=name)
        loss = f"{row['privacy_loss'].item():.6f}" + ("" if row["holds"].item() else " BROKEN")
        figures = [loss, f"{row['bits'].item():.1f}", _shown(row["efficiency"].item(), ".0%")]
        figures.append(f"{row['best_guess'].item():.1%}")
        rows.append([name, *figures, row["when"].item()])
    least = "that any ε-LDP mechanism can have" if table.attrs["proved"] else "of these (no bound is proved here)"
    print_table(
        f"{len(table.attrs['theta'])} categories, ε = {table.attrs['epsilon']:g}",
        ["mechanism", "loss", "bits", "efficiency", "guess", "use it for"],
        rows,
        [
            f"• loss: the worst over all answers, in exact arithmetic. Efficiency: the least variance {least}, over "
            "that of the mechanism.",
            "• guess: the probability that somebody who sees one answer and knows the shares guesses the person's "
            f"category right; without an answer it is {max(table.attrs['theta']):.1%}.",
        ],
        words=["mechanism", "use it for"],
    )
