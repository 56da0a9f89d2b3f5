"""The command line: parse, call the library, print. Heavy imports wait until a command runs."""

import io
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from adobest_pp._dirichlet import ESTIMATE_PRIOR
from adobest_pp._text import visible
from adobest_pp._wording import CENTRAL
from adobest_pp.cli.planning import COPIES_HELP, OUT_HELP, PRIOR_HELP, mechanisms, plan
from adobest_pp.cli.poll import app as poll_app
from adobest_pp.cli.poll import teach_class
from adobest_pp.cli.study import app as study_app
from adobest_pp.cli.study import telling_how_to_resume
from adobest_pp.cli.survey import app as survey_app

# Local variables in a traceback could show a private category, so they are never printed.
app = typer.Typer(
    help="Bayesian frequency estimation under local differential privacy.",
    epilog="Example: adobest compare --people 10000 --epsilon 1 --seed 7 --out poll",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(study_app, name="study")
app.add_typer(poll_app, name="poll")
app.add_typer(survey_app, name="survey")
app.command("class", epilog="Example: adobest class --host 0.0.0.0")(teach_class)
app.command(epilog="Example: adobest plan --epsilon 1 --half-width 0.02 --categories 4")(plan)
app.command(epilog="Example: adobest mechanisms --categories 10 --epsilon 1 --out efficiency.png")(mechanisms)


MECHANISM_HELP = (
    "The mechanism: subset-selection (the default), srr, unary-encoding, local-hashing, hadamard-response, "
    "projective-geometry-response, count-mean-sketch, rrrr (the paper's), design (rounds of the best question), "
    "or your own module:Class."
)
RESPONSES_HELP = (
    "Randomized answers: a file written by collect; or Parquet, Arrow or CSV files, a folder of them, or a pattern in "
    "quotes. If the files do not name the mechanism, give --mechanism, --epsilon and --categories; if the mechanism is "
    "your own, give --mechanism module:Class."
)
KEEP_HELP = (
    "A public column to keep with the answers, such as region or age; may be repeated. The row number is "
    "kept, too, and both also for people who gave no answer."
)
IGNORE_CASE_HELP = "Read values that differ from a category only in capitals or spaces as that category."
MISSING_HELP = "A value that means no answer, such as n/a; may be repeated. An empty value always means no answer."
OVERWRITE_HELP = "Replace the report that is in --out."
DATA_HELP = f"A CSV, Parquet or Arrow file with everybody's true answers, to randomize. {CENTRAL}"
CATEGORIES_HELP = "The possible values, separated by commas; or @file, with one per line."
KAPPA_HELP = "rrrr: fraction of the budget spent inside the subset (default: 0.9; 1 with semi_adaptive)."
UTILITY_HELP = "rrrr: the utility that chooses subsets (default: honest)."
ALPHA_HELP = "rrrr: mass of the subset (semi_adaptive)."
ABOVE_HELP = (
    "A share, such as 0.01: list the categories that are surely above it (wrong in at most 5 % of collections)."
)
GROUPS_HELP = "A CSV file with the columns category and group: sum the shares of each group."
AGAIN_HELP = (
    "Ask people again who were already asked for this column: their budgets add up. Also continue if the ledger beside "
    "their file cannot be written."
)


@app.callback()
def _root() -> None:
    """Make typer expect the name of a command."""


@app.command(epilog="Example: adobest audit --mechanism rrrr --categories 20 --epsilon 1 --kappa 0.9")
def audit(
    epsilon: Annotated[float, typer.Option(help="The promised privacy budget.")],
    mechanism: Annotated[
        str | None, typer.Option(help="The mechanism to audit: srr, rrrr, subset-selection, … or your module:Class.")
    ] = None,
    categories: Annotated[int | None, typer.Option(help="Number of categories.")] = None,
    kappa: Annotated[
        float | None, typer.Option(help="Fraction of the budget spent inside the subset (rrrr; default: 0.9).")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Categories in an answer (subset-selection).")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Any setting, as name=value; may be repeated: --mechanism warner --setting p=3/4."),
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Audit your own G[y, x] instead: a CSV or .npy file, x along the columns.")
    ] = None,
    rounding: Annotated[
        float | None, typer.Option(help="Rounding error of the entries of --matrix, such as 1e-6 for six digits.")
    ] = None,
) -> None:
    """Check the privacy promise of a mechanism in exact arithmetic; exit with 1 unless it is shown to hold."""
    from adobest_pp.cli.tables import print_audit
    from adobest_pp.mechanisms import audit as run_audit

    if matrix is not None and any(option is not None for option in (mechanism, categories, size, kappa, setting)):
        raise ValueError(
            "--matrix must be given alone: it takes the place of --mechanism, --categories, --size, --kappa and "
            "--setting"
        )
    if matrix is not None:
        result = run_audit(_read_matrix(matrix), epsilon, rounding)
    else:
        if rounding is not None:
            raise ValueError("--rounding must come with --matrix: a mechanism is audited by its exact weights")
        settings = _read_settings(setting or ())
        for name, value in (("kappa", kappa), ("size", size)):
            if value is not None and name in settings:
                raise ValueError(f"--{name} must be left out with --setting {name}={settings[name]}: give one of them")
            settings |= {} if value is None else {name: value}
        result = run_audit(_build_mechanism(mechanism, categories, epsilon, **settings), epsilon)
    print_audit(result)
    raise typer.Exit(0 if result.holds else 1)


@app.command(epilog="Example: adobest compare --people 10000 --epsilon 1 --seed 7 --out poll")
def compare(
    out: Annotated[Path, typer.Option(help="The folder to write the report to.")] = Path("adobest-report"),
    people: Annotated[int | None, typer.Option(help="Simulated people, without a file (default: 10000).")] = None,
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of --data with the private values; of --responses, with the answers.")
    ] = None,
    categories: Annotated[str | None, typer.Option(help=CATEGORIES_HELP)] = None,
    responses: Annotated[str | None, typer.Option(help=RESPONSES_HELP)] = None,
    allow_copies: Annotated[bool, typer.Option("--allow-copies", help=COPIES_HELP)] = False,
    ask_again: Annotated[bool, typer.Option("--ask-again", help=AGAIN_HELP)] = False,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of one answer (default: 1).")] = None,
    mechanism: Annotated[str | None, typer.Option(help=MECHANISM_HELP)] = None,
    kappa: Annotated[float | None, typer.Option(help=KAPPA_HELP)] = None,
    utility: Annotated[str | None, typer.Option(help=UTILITY_HELP)] = None,
    alpha: Annotated[float | None, typer.Option(help=ALPHA_HELP)] = None,
    question: Annotated[str | None, typer.Option(help="The question, as the report shows it.")] = None,
    above: Annotated[float | None, typer.Option(help=ABOVE_HELP)] = None,
    groups: Annotated[Path | None, typer.Option(help=GROUPS_HELP)] = None,
    prior: Annotated[str, typer.Option(help=PRIOR_HELP)] = ESTIMATE_PRIOR,
    draws: Annotated[int, typer.Option(help="Draws kept of each of four chains.")] = 2000,
    seed: Annotated[int | None, typer.Option(help="Seed of the job, never of the answers of real people.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, and nothing else.")] = False,
) -> None:
    """Estimate shares from answers or a simulated poll, grade NUTS, Gibbs and two kinds of SGLD, and write a report."""
    from adobest_pp.cli.compare import Request, run
    from adobest_pp.cli.tables import read_groups, read_prior

    collection = {"epsilon": epsilon, "mechanism": mechanism, "kappa": kappa, "utility": utility, "alpha": alpha}
    request = Request(people, data, column, categories, responses, question, collection, allow_copies, ask_again)
    asked = {"threshold": above, "groups": None if groups is None else read_groups(groups)}
    run(request, out, read_prior(prior), draws, seed, asked, overwrite=overwrite, quiet=quiet, as_json=json)


@app.command(epilog="Example: adobest estimate answers.parquet --group region --weights weight --out handout")
def estimate(
    file: Annotated[str, typer.Argument(help=RESPONSES_HELP, metavar="FILE")],
    group: Annotated[
        list[str] | None, typer.Option(help="A public column of the file, such as region; may be repeated.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="The column of the file with the weights of the people.")] = None,
    margins: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file of the shares of groups in the population (columns: group, share; and column, if several "
            "--group), to which answers are weighted."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for report.html, estimate.csv, .json, .xlsx and figures.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier estimate in --out.")] = False,
    question: Annotated[str | None, typer.Option(help="The question, as the report shows it.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="What the devices ran, if the file does not say.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Its privacy budget.")] = None,
    categories: Annotated[str | None, typer.Option(help=CATEGORIES_HELP)] = None,
    column: Annotated[str | None, typer.Option(help="The column with the answers (default: answer).")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same estimate.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the estimate as JSON, and nothing else.")] = False,
) -> None:
    """Estimate shares from randomized answers, for everybody and by group: a table, and a report to pass on.

    An interval contains the true share in 95 of 100 surveys, whatever that share is. With --group, shares of groups are
    partially pooled. Nothing is overwritten without --overwrite.
    """
    from adobest_pp.cli.estimate import run

    described = {"mechanism": mechanism, "epsilon": epsilon, "categories": categories, "column": column}
    run(file, group or [], weights, margins, question, out, described, seed, overwrite=overwrite, as_json=json)


@app.command(epilog="Example: adobest grade my_module:my_sampler nuts --group easy --budget 10s --out grades.png")
def grade(
    samplers: Annotated[
        list[str],
        typer.Argument(
            help="A sampler by name, such as nuts, sgld_cv or sghmc, or your module:function.", metavar="SAMPLER..."
        ),
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="A group of references, such as easy; may be repeated (default: all).")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="A reference posterior, in place of a group; may be repeated.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="Limit of a run on one reference: seconds (30s) or gradient evaluations (20000g).")
    ] = "30s",
    seed: Annotated[int, typer.Option(help="Seed of the first run on each reference.")] = 1,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the grades as JSON, and nothing else.")] = False,
) -> None:
    """Grade samplers on the reference posteriors; exit with 1 if one of them raised an error, hung or crashed.

    Your own sampler is a function (responses, prior, draws, tune, chains, seed) that returns draws of the shares: an
    array of shape (chains, draws, categories), or a PyMC tree. It runs in a process of its own.
    """
    from adobest_pp.cli.compare import grade as run_grade

    raise typer.Exit(run_grade(samplers, group, reference, budget, seed, out, as_json=json))


@app.command(epilog="Example: adobest utilities --theta 0.5,0.3,0.1,0.1 --epsilon 1 --kappa 0.8")
def utilities(
    theta: Annotated[str, typer.Option(help="Category probabilities, separated by commas.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one answer.")],
    kappa: Annotated[float, typer.Option(help="Fraction of the budget spent inside the subset.")] = 0.9,
) -> None:
    """Print the six utilities of RRRR for every subset size, and the size that each chooses."""
    from adobest_pp.cli.tables import print_utilities, read_shares
    from adobest_pp.mechanisms import RRRR

    probabilities = read_shares(theta)
    print_utilities(probabilities, RRRR(len(probabilities), epsilon, kappa))


@app.command(epilog="Example: adobest collect people.csv --column vote --epsilon 1 --keep region --out responses.db")
def collect(
    people: Annotated[
        Path, typer.Argument(help="A CSV, Parquet, Arrow or Excel file with the true answers of one person per row.")
    ],
    column: Annotated[list[str], typer.Option(help="The column with the private values.", metavar="TEXT")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one answer.")],
    out: Annotated[Path, typer.Option(help="The file to keep the randomized answers in (SQLite).")],
    mechanism: Annotated[str | None, typer.Option(help=MECHANISM_HELP)] = None,
    kappa: Annotated[float | None, typer.Option(help=KAPPA_HELP)] = None,
    utility: Annotated[str | None, typer.Option(help=UTILITY_HELP)] = None,
    alpha: Annotated[float | None, typer.Option(help=ALPHA_HELP)] = None,
    adapt_every: Annotated[
        int | None, typer.Option(help="rrrr: how many people to ask before choosing the next subset (default: 1).")
    ] = None,
    categories: Annotated[
        str | None, typer.Option(help=f"{CATEGORIES_HELP} By default, all values in the column.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help=KEEP_HELP)] = None,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", help=IGNORE_CASE_HELP)] = False,
    missing: Annotated[list[str] | None, typer.Option(help=MISSING_HELP)] = None,
    prior: Annotated[str, typer.Option(help=PRIOR_HELP)] = ESTIMATE_PRIOR,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampler (never of the answers).")] = None,
    ask_again: Annotated[bool, typer.Option("--ask-again", help=AGAIN_HELP)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Randomize the true answers in a file, one person at a time. Rows with an empty value are skipped.

    A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or for
    data that you hold anyway. Otherwise randomize on people's own devices, and read what they send with compare.

    Each answer is written to --out as soon as it is given. If the command is stopped or killed, run it again: it
    continues where it stopped, and asks nobody twice. It also asks people who were added at the end of the file.

    A ledger beside the file of people, FILE.adobest-ledger, records the budgets that they have spent. Another --out for
    the same column needs --ask-again: everybody answers again, and the budgets add up.
    """
    from adobest_pp.cli.tables import labels_in, make_known, print_collection, read_prior
    from adobest_pp.collect import collect_csv
    from adobest_pp.collect.people_file import Ledger
    from adobest_pp.collect.policies import DEFAULT_MECHANISM, choice_in_words, mechanism_name

    if len(column) > 1:
        raise ValueError(
            f"--column must be given once, got {len(column)}: budgets of several questions to the same people add up, "
            "so describe them in a survey (adobest survey new)"
        )
    make_known(mechanism)
    labels, shown_under = labels_in(categories), read_prior(prior)
    name = mechanism_name(DEFAULT_MECHANISM if mechanism is None else mechanism)
    given = {"kappa": kappa, "utility": utility, "alpha": alpha, "adapt_every": adapt_every}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    options |= {"keep": keep or [], "ignore_case": ignore_case, "missing": missing or []}
    with telling_how_to_resume(out):
        collection = collect_csv(people, column[0], epsilon, name, labels, not quiet, out, ask_again, seed, **options)
    if not quiet:
        chosen = choice_in_words(name, is_default=mechanism is None)
        print_collection(collection, out, [chosen, Ledger(people).in_words()], shown_under, listed=labels is not None)


@app.command(epilog="Example: adobest teach 3")
def teach(
    lesson: Annotated[int, typer.Argument(help="The lesson to open; without one, the table of contents.")] = 0,
    port: Annotated[int | None, typer.Option(help="The port on this machine (default: a free one).")] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser, or only print the address.")] = True,
    trust_exercises: Annotated[
        bool,
        typer.Option(
            "--trust-exercises",
            help="Run the code of exercises even if this system cannot keep it from your files and the network "
            "(macOS, Windows): enter only code that you trust.",
        ),
    ] = False,
    lecturer: Annotated[
        bool, typer.Option("--lecturer", help="The lecturer's edition: notes with minutes, solutions, slides.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            help="For a class: the address to listen on, such as 0.0.0.0. Everybody gets the students' edition."
        ),
    ] = "127.0.0.1",
    exercises: Annotated[
        bool,
        typer.Option(
            "--exercises", help="For a class: run the students' code (Linux only). Otherwise they answer questions."
        ),
    ] = False,
    poll: Annotated[
        str | None, typer.Option(help="For a class: the address that `adobest class` printed, shown as lesson 0.")
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(help="Write the pages to this folder instead of serving them.", metavar="FOLDER")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(help="Grade students' files, STUDENT/EXERCISE.py or EXERCISE_STUDENT.py.", metavar="FOLDER"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where --check writes its table.")] = Path("grades.csv"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier table of --check, or earlier --pages.")
    ] = False,
) -> None:
    """Open the course in the browser: lessons with sliders, questions and exercises. Ctrl-C ends it.

    Only people with the printed address, which contains a secret, get in. With --host, give it to a class in your
    network.

    On Linux the code of an exercise can only compute. Other systems do not run it.
    """
    if check is not None:
        from adobest_pp.teaching.grading import grade_folder

        graded = grade_folder(check, out, overwrite, progressbar=True)
        right = sum(row.right for row in graded)
        typer.echo(f"{right} of {len(graded)} are right, of {len({row.student for row in graded})} students: see {out}")
        return
    if pages is not None:
        from adobest_pp.teaching.pages import export

        written = export(pages, lecturer, overwrite)
        typer.echo(f"Wrote {len(written)} pages: open {written[0]}")
        return
    from adobest_pp.teaching.serving import teach as serve

    serve(lesson, browser, port, trust_exercises, lecturer, host, exercises, poll)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default that of the process. Bad input ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without Greek letters
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell_warning
            app(None if arguments is None else list(arguments))
    except (ValueError, OSError) as problem:
        typer.echo(f"adobest: {visible(problem)}", err=True)
        sys.exit(2)


def _tell_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on one line, without the line of code that it came from."""
    typer.echo(f"adobest: {visible(message)}", err=True)


def _build_mechanism(name: str | None, categories: int | None, epsilon: float, **settings: Any) -> Any:
    from adobest_pp.cli.tables import make_known
    from adobest_pp.mechanisms import build_mechanism, mechanism_parameters

    if name is None:
        raise ValueError("--mechanism and --categories must be given together, or --matrix alone")
    make_known(name)
    known = mechanism_parameters(name)
    # The classical designs have two categories, and an ε that follows from their settings.
    own = {each: value for each, value in {"n_categories": categories, "epsilon": epsilon}.items() if each in known}
    if "n_categories" in known and categories is None:
        raise ValueError("--mechanism and --categories must be given together, or --matrix alone")
    for setting in settings:
        if setting not in known:
            option = f"--{setting}" if setting in ("kappa", "size") else f"--setting {setting}"
            raise ValueError(f"{option} must be left out for {name}, which has only {', '.join(known)}")
    return build_mechanism(name, **(own | settings))


def _read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Return settings given as name=value; a value of digits alone is an integer, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or name in found:
            raise ValueError(f"--setting must be name=value, each name once, got {pair!r}")
        found[name] = int(value) if value.isdecimal() and len(value) < 20 else value
    return found


def _read_matrix(path: Path) -> Any:
    import numpy as np

    if not path.is_file():
        raise FileNotFoundError(f"--matrix must name a file, got {str(path)!r}, which is not a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns of an empty file
            if path.suffix.lower() == ".npy":
                with path.open("rb") as file:  # NumPy leaves a damaged archive open
                    return np.load(file, allow_pickle=False)
            return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except Exception:  # a damaged file may raise anything
        raise ValueError(
            f"--matrix must name a .npy file or a CSV file of numbers without a header, got {str(path)!r}"
        ) from None
