"""``adobest poll``: parse, call the library, print. Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

from adobest_pp._text import listed

app = typer.Typer(
    help="Ask real people: their browsers randomize, a server on this machine collects.",
    epilog='Example: adobest poll new "Have you cheated?" --categories "never,once,more" --out poll.db',
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)

PollPath = Annotated[Path, typer.Argument(help="The file that `adobest poll new` wrote.", metavar="POLL")]
Host = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets everybody in your network answer.")]
Port = Annotated[int | None, typer.Option(help="The port (default: a free one).")]
Address = Annotated[
    str | None, typer.Option(help="Where people reach it, if through a tunnel or proxy: https://poll.example.org/.")
]


@app.callback()
def _root() -> None:
    """Make typer expect the name of a command."""


@app.command(epilog='Example: adobest poll new "Have you cheated?" --categories "never,once,more" --out poll.db')
def new(
    questions: Annotated[list[str], typer.Argument(help="The questions, as people read them.", metavar="QUESTION…")],
    categories: Annotated[
        list[str],
        typer.Option(help="The possible answers, separated by commas: once for all questions, or once for each."),
    ],
    out: Annotated[Path, typer.Option(help="The file to keep the randomized answers in (SQLite).")],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Privacy budget of one answer (default: 1); for all, or for each question."),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="subset-selection (the default), srr, hadamard-response, projective-geometry-response, "
            "count-mean-sketch, rrrr or design; for all, or for each."
        ),
    ] = None,
    people: Annotated[int, typer.Option(help="How many people you expect.")] = 200,
    one_each: Annotated[
        bool, typer.Option("--one-each", help="Draw one question for each person; otherwise budgets add up.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="The heading (default: the first question).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for choosing questions (never for answers).")] = None,
) -> None:
    """Write a new poll: a file of randomized answers for each question, and one for the server beside the first."""
    from adobest_pp.collect.policies import DEFAULT_MECHANISM
    from adobest_pp.poll.polls import ALL, ONE, PollQuestion, create_poll

    n = len(questions)
    budgets, names = epsilon or [1.0], mechanism or [DEFAULT_MECHANISM]
    for option, given in (("--categories", categories), ("--epsilon", budgets), ("--mechanism", names)):
        if len(given) not in (1, n):
            raise ValueError(f"{option} must be given once, or once for each of the {n} questions, got {len(given)}")
    asked = [
        PollQuestion(
            text,
            listed(categories[i % len(categories)]) or [],
            budgets[i % len(budgets)],
            names[i % len(names)],
            people,
        )
        for i, text in enumerate(questions)
    ]
    create_poll(out, asked, title=title, each_person=ONE if one_each else ALL, random_seed=seed)
    spent = max(each.epsilon for each in asked) if one_each else sum(each.epsilon for each in asked)
    typer.echo(f"Wrote {out}. A person spends at most ε = {spent:g}. Next: adobest poll serve {out}")


@app.command(epilog="Example: adobest poll serve poll.db --host 0.0.0.0 --port 8000")
def serve(poll: PollPath, host: Host = "127.0.0.1", port: Port = None, address: Address = None) -> None:
    """Serve a poll until Ctrl-C: a page for people, and one for the projector, with a key that is printed once.

    People choose an answer in their browser, which randomizes it before it is sent. What they chose never reaches this
    machine. An acknowledged answer is on disk; start the command again to continue.

    Everybody who can reach the server can answer, and could answer twice from two browsers. The network sees who took
    part. Whoever runs the server could serve another page: docs/howto/poll.md says what this does not protect against.
    """
    from adobest_pp.poll.server import serve_poll

    serve_poll(poll, host, port, address)


def teach_class(
    out: Annotated[Path, typer.Option(help="The file of the class: resumed if it exists, otherwise written.")] = Path(
        "class.db"
    ),
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget of each of the three questions (default: 2).")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    address: Address = None,
) -> None:
    """Run a lesson of 40 minutes around a poll of your class: phones randomize, the projector shows the steps.

    Three questions are prepared. The first is harmless: a show of hands checks its intervals. The projector's page goes
    through eight steps and tells you what to say. docs/howto/class.md has the plan, minute by minute.

    Ctrl-C ends it. The same command resumes with the answers so far; another --out starts a new class.
    """
    from adobest_pp.poll.polls import prepare_class
    from adobest_pp.poll.server import serve_poll

    done = "Wrote" if prepare_class(out, epsilon) else "Resume"
    typer.echo(f"{done} {out}: three questions, and a plan of eight steps on the projector's page.")
    serve_poll(out, host, port, address)
