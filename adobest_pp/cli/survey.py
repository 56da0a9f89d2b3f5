"""``adobest survey``: a whole survey from one file. Heavy imports wait until a command runs."""

import json as json_format
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adobest_pp._wording import CENTRAL, budget_in_words, percent
from adobest_pp.cli.poll import Address, Host, Port
from adobest_pp.cli.study import telling_how_to_resume

if TYPE_CHECKING:
    from adobest_pp.survey.budget import Budgeted
    from adobest_pp.survey.definition import Survey
    from adobest_pp.survey.results import SurveyResult

app = typer.Typer(
    help="Run a survey of several questions, from plan to report.",
    epilog="Example: adobest survey new survey.toml",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

SurveyPath = Annotated[Path, typer.Argument(help="The survey: a TOML file, as `adobest survey new` writes it.")]
Wave = Annotated[str | None, typer.Option(help="The wave; may be left out if there is only one.")]
PEOPLE_HELP = f"A CSV, Parquet, Arrow or Excel file with the true answers of one person per row. {CENTRAL}"
WAYS = {
    "split": "everybody answers every question",
    "one": "one question is drawn for each person",
    "pair": "two questions are drawn for each person",
}


@app.command(epilog="Example: adobest survey new survey.toml")
def new(path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("survey.toml")) -> None:
    """Write an example of a survey, with comments, to start from. An existing file is not overwritten."""
    from adobest_pp._files import write_whole
    from adobest_pp.survey.definition import EXAMPLE

    write_whole(path, EXAMPLE.encode(), overwrite=False)
    typer.echo(f"Wrote {path}. Edit it, then run: adobest survey check {path}")


@app.command(epilog="Example: adobest survey check survey.toml --people people.csv")
def check(
    path: SurveyPath,
    people: Annotated[
        Path | None, typer.Option(help="A file of people to check as well. Nobody is asked, and no value is shown.")
    ] = None,
) -> None:
    """Check a survey, and print what each person spends and what that means."""
    from adobest_pp.cli.tables import print_lines, print_table
    from adobest_pp.survey import read_survey, spending
    from adobest_pp.survey.collecting import read_people

    survey = read_survey(path)
    made = spending(survey)
    rows = [
        [each.name, len(each.labels), f"{made.spending.epsilon:.3g}" if each.sensitive else "open", each.text]
        for each in survey.questions
    ]
    print_table(survey.title, ["question", "answers", "ε", "text"], rows, words=["question", "text"])
    print_lines(*(f"• {line}" for line in _about(survey, made)))
    if people is not None:
        n = len(read_people(survey, people).public)
        print_lines(f"• {people} has {n:,} people, and its columns fit the survey. Nobody was asked.")


def _about(survey: "Survey", made: "Budgeted") -> list[str]:
    """Return sentences on what a survey means for one person, and on what to check."""
    from adobest_pp.survey.budget import epsilon_of_changes

    way, people = made.spending, survey.people
    waves = f", {len(survey.waves)} waves" * (len(survey.waves) > 1)
    lines = [f"Each person spends at most ε = {survey.budget.epsilon:.3g} in all{waves}: {WAYS[way.way]}."]
    if survey.is_memoized:
        once, always = (f"{epsilon_of_changes(survey, way, n):.3g}" for n in (1, len(survey.waves)))
        often = "" if once == always else f", and if they change more often at most ε = {always}"
        lines = [
            f"{WAYS[way.way].capitalize()}, the same in every wave.",
            f"The same people answer in {len(survey.waves)} waves, memoized: ε = {survey.budget.epsilon:.3g} bounds "
            f"what all waves together tell, and ε = {survey.wave_epsilon:.3g} what one wave alone tells.",
            f"ε = {survey.budget.epsilon:.3g} is for people whose answers stay the same. If somebody's answers "
            f"differ in one wave, all waves together tell at most ε = {once}{often}.",
        ]
    elif len(survey.waves) > 1 and people.same:
        lines.append(f"The same people answer in {len(survey.waves)} waves: ε = {survey.wave_epsilon:.3g} in each.")
    elif len(survey.waves) > 1:
        lines.append("Other people answer in each wave: nobody may be in two of them.")
    lines.append(f"{way.way}: {made.reason}")
    lines.append(budget_in_words(survey.budget.epsilon)[0])
    openly = [each.name for each in survey.questions if not each.sensitive]
    if openly:
        lines.append(
            f"Asked openly, kept as they are and outside the budget: {', '.join(openly)}. An open answer that is "
            "associated with a sensitive one reveals it."
        )
    if survey.public:
        lines.append(f"Kept with the answers, so not secret: {', '.join(survey.public)}, and who gave no answer.")
    if people.same and not people.fixed and len(survey.waves) > 1:
        lines.append(
            "Name a column that never changes, such as the year of birth, as people.fixed: it detects other people."
        )
    return lines


@app.command(epilog="Example: adobest survey plan survey.toml")
def plan(
    path: SurveyPath,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and nothing else.")] = False,
) -> None:
    """Compare ways to spend the budget: how wide the 95 % intervals of each question will be."""
    from adobest_pp.cli.tables import print_table
    from adobest_pp.survey import read_survey, spending
    from adobest_pp.survey.budget import as_plan, honest_half_width, people_needed

    survey = read_survey(path)
    made = spending(survey)
    if json:
        typer.echo(json_format.dumps(as_plan(survey, made), ensure_ascii=False, indent=2))
        return
    rows = []
    for name, way in made.ways.items():
        found = made.prospects[name]
        widths = [f"± {100 * min(found[each.name].half_width, 0.5):.1f}" for each in survey.private_questions]
        rows.append([name, way.questions_each, f"{way.epsilon:.3g}", next(iter(found.values())).people, *widths])
    names = [each.name for each in survey.private_questions]
    lines = [f"Take {made.spending.way}. {made.reason}"]
    for each in survey.private_questions:
        shares = ", ".join(f"{label} {share:.0%}" for label, share in zip(each.labels, each.shares, strict=True))
        lines.append(
            f"Planned for {each.name}: {shares}{'' if each.guess else ' (no guess: falling as 1, 1/2, 1/3, …)'}."
        )
    lines.append(
        f"Without any privacy, everybody's honest answers give ± {100 * honest_half_width(survey):.1f} points."
    )
    needed = people_needed(survey, made)
    if needed is not None:
        expected, wanted = survey.people.expected, 100 * (survey.budget.half_width or math.nan)
        lines.append(
            f"± {wanted:g} points take about {needed:,} people, and {expected:,} are expected"
            + (": enough." if needed <= expected else ": ask more people, fewer questions, or with a larger ε.")
        )
    lines.append(
        "Half-widths are for everybody in one wave, in percentage points; for a group of a tenth, √10 times as wide."
    )
    title = f"{survey.people.expected:,} people, ε = {survey.wave_epsilon:.3g} for each in a wave"
    headings = ["way", "answers each", "ε per answer", "people per question", *names]
    print_table(title, headings, rows, [f"• {line}" for line in lines], words=["way"], bold=made.spending.way)


@app.command(epilog="Example: adobest survey collect survey.toml people.csv --wave 2026")
def collect(
    path: SurveyPath,
    people: Annotated[Path, typer.Argument(help=PEOPLE_HELP)],
    wave: Wave = None,
    seed: Annotated[int | None, typer.Option(help="Seed for choosing questions (never for answers).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Randomize the true answers in a file of people to all questions of a wave, one person at a time.

    A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or for
    data that you hold anyway. Otherwise let people answer on their own devices: adobest survey serve.

    The answers are in the folder SURVEY-answers, with their row and the public columns, never with the true answer or
    the id. If the command is stopped or killed, run it again: nobody is asked twice, and nobody spends more than the
    survey's ε.
    """
    from adobest_pp.cli.tables import print_table
    from adobest_pp.survey import collect_wave, read_survey
    from adobest_pp.survey.definition import folder_of

    with telling_how_to_resume(folder_of(path)):
        found = collect_wave(path, people, wave, progressbar=not quiet, random_seed=seed)
    if quiet:
        return
    survey = read_survey(path)
    rows = [
        [name, f"{each.asked:,}", f"{each.answered:,}", f"{each.answered / each.asked:.0%}" if each.asked else "–"]
        for name, each in found.items()
    ]
    lines = [
        f"Randomized answers: {folder_of(path)}. Nobody has spent more than ε = {survey.budget.epsilon:.3g} in all"
        + (", if answers stay the same." if survey.is_memoized else "."),
        f"Keep {path.with_suffix('.key')} until the last wave, and apart from the answers: it links them to ids"
        + (", and has the permanent answers." if survey.is_memoized else "."),
        CENTRAL,
    ]
    title = f"Wave {survey.wave(wave)}: who was asked, and who answered"
    print_table(title, ["question", "asked", "answered", "share"], rows, lines, words=["question"])


@app.command(epilog="Example: adobest survey serve survey.toml --wave 2026 --host 0.0.0.0 --port 8000")
def serve(
    path: SurveyPath, wave: Wave = None, host: Host = "127.0.0.1", port: Port = None, address: Address = None
) -> None:
    """Ask the sensitive questions of a wave on people's own devices, until Ctrl-C; the same command resumes.

    Browsers randomize before they send. People are also asked for the public columns whose labels the survey has
    (people.choices, margins), and for no id: nobody can tell who answered in two waves, and there are no weights.
    """
    from adobest_pp.poll.polls import ALL, ONE, PollQuestion, create_poll
    from adobest_pp.poll.server import serve_poll
    from adobest_pp.survey import read_survey, spending
    from adobest_pp.survey.collecting import poll_of

    survey = read_survey(path)
    name, made = survey.wave(wave), spending(survey).spending
    if not survey.people.on_devices:
        raise ValueError(
            f"people.on_devices must be true to ask people on their own devices: change it in {str(path)!r}"
        )
    if made.way == "pair":
        raise ValueError('budget.spend must be "split" or "one" for people on their own devices, got "pair"')
    poll = poll_of(path, name)
    if not poll.exists():
        n = max(1, round(survey.people.expected * made.share))
        asked = [PollQuestion(q.text, q.labels, made.epsilon, q.mechanism, n) for q in survey.private_questions]
        poll.parent.mkdir(parents=True, exist_ok=True)
        create_poll(
            poll, asked, title=survey.title, each_person=ONE if made.way == "one" else ALL, public=survey.asked_columns
        )
    serve_poll(poll, host, port, address)


Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is in --out.")]


@app.command(epilog="Example: adobest survey estimate survey.toml --out tables")
def estimate(
    path: SurveyPath,
    out: Annotated[Path | None, typer.Option(help="The folder to write tables to: CSV, JSON and Excel.")] = None,
    seed: Seed = 1,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, and nothing else.")] = False,
) -> None:
    """Estimate all questions in all waves that have answers: for everybody, by group, and what changed."""
    from adobest_pp.cli.tables import print_lines, print_table
    from adobest_pp.survey.results import as_json, change_in_words, write_tables

    result = _estimated(path, seed, quiet=json)
    written = [] if out is None else write_tables(result, out, overwrite)
    if json:
        typer.echo(json_format.dumps(as_json(result), ensure_ascii=False, indent=1))
        return
    table = result.estimates[result.estimates["column"] == ""]
    for name in table["question"].unique():
        rows = [
            [row["wave"], row["category"], percent(row["share"]), row["interval"], row["in_words"]]
            for row in table[table["question"] == name].to_dict("records")
        ]
        headings = ["wave", "category", "share", "95 % interval", "in words"]
        mine = result.scales[result.scales["question"] == name].to_dict("records")
        measures = [f"{row['measure']}, {row['wave']}: {row['in_words']}" for row in mine]
        print_table(result.survey.question(name).text, headings, rows, measures, words=["wave", "category", "in words"])
    lines = [
        f"{row['question']}, {row['category']}, {row['before']} to {row['after']}: "
        + change_in_words(row["change"], row["lower"], row["upper"])
        for row in result.changes.to_dict("records")
        if row["lower"] > 0 or row["upper"] < 0
    ]
    print_lines(*lines, *(f"Written: {each}" for each in written))
    if out is None:
        print_lines(
            "By group, changes and who answered: --out folder writes tables, and adobest survey report a report."
        )


@app.command(epilog="Example: adobest survey report survey.toml --out report")
def report(
    path: SurveyPath,
    out: Annotated[Path, typer.Option(help="The folder to write the report to.")] = Path("survey-report"),
    seed: Seed = 1,
    overwrite: Overwrite = False,
) -> None:
    """Write the report: an overview, a report of each wave with figures, tables, and the texts of `survey texts`."""
    import matplotlib as mpl

    from adobest_pp.cli.tables import check_no_report, print_lines
    from adobest_pp.survey.pages import OVERVIEW, write_report

    mpl.use("Agg")
    check_no_report(out, (OVERVIEW,), overwrite)
    written = write_report(_estimated(path, seed, quiet=False), out, overwrite)
    print_lines(f"Report: {written[0]}", f"{len(written)} files in {out}")


@app.command(epilog="Example: adobest survey texts survey.toml --out texts")
def texts(
    path: SurveyPath,
    out: Annotated[Path, typer.Option(help="The folder to write them to.")] = Path("survey-texts"),
    overwrite: Overwrite = False,
) -> None:
    """Write drafts of the consent form and of the page for the data-protection officer, filled from the survey."""
    from adobest_pp.cli.tables import print_lines
    from adobest_pp.survey import read_survey
    from adobest_pp.survey.pages import DRAFT, write_texts

    written = write_texts(read_survey(path), out, overwrite)
    print_lines(*(f"Written: {each}" for each in written), DRAFT)


def _estimated(path: Path, seed: int, *, quiet: bool) -> "SurveyResult":
    from adobest_pp._progress import SlowProgress
    from adobest_pp.survey import read_survey
    from adobest_pp.survey.results import estimate_survey

    survey = read_survey(path)
    with SlowProgress(len(survey.waves) * len(survey.questions), "estimating", not quiet) as progress:
        return estimate_survey(path, seed, lambda done: progress.advance(1, done))
