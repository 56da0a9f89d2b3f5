"""``adobest study``: parse, call the library, print. Heavy imports wait until a command runs."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adobest_pp._progress import raising_interrupts
from adobest_pp._text import visible

if TYPE_CHECKING:
    from adobest_pp.studies.summary import StudyStatus

app = typer.Typer(
    help="Run grids of experiments on this machine or on a Dask cluster.",
    epilog="Example: adobest study run studies/quick.toml --store quick.db",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)

_ERRORS_SHOWN = 5
StorePath = Annotated[Path, typer.Argument(help="The store that `adobest study run` wrote.", metavar="STORE")]


@contextmanager
def telling_how_to_resume(out: Path) -> Iterator[None]:
    """On Ctrl-C and SIGTERM, keep on disk what is done, and say how to continue."""
    try:
        with raising_interrupts(signal.SIGINT, signal.SIGTERM):
            yield
    except KeyboardInterrupt:
        typer.echo(f"adobest: stopped; run the same command again to continue {str(out)!r}", err=True)
        raise typer.Exit(130) from None


@app.callback()
def _check_extra() -> None:
    if find_spec("distributed") is None:
        raise ValueError("distributed must be installed for studies: pip install 'adobest-pp[studies]'")


@app.command(epilog="Example: adobest study run studies/quick.toml --store quick.db")
def run(
    study: Annotated[Path, typer.Argument(help="The study, a TOML file.", metavar="STUDY")],
    store: Annotated[Path, typer.Option(help="The file that keeps the results; made if it does not exist.")],
    workers: Annotated[int | None, typer.Option(help="Processes to start; one per core by default.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Use the workers of your own Dask scheduler instead: tls://host:port or tcp://host:port."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Also make the failed runs again.")] = False,
    accept_changed_sources: Annotated[
        bool,
        typer.Option(
            "--accept-changed-sources",
            help="Continue even if files that make a run have changed; the store records it.",
        ),
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Make damaged runs again, and keep the others.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Make all runs of a study that its store does not have yet; exit with 1 if any failed.

    You can stop or kill it at any moment: only the runs in progress are lost, and rerunning the command makes exactly
    the missing ones. If you raise `runs` in the file, it makes the new ones. Failed runs are made again only with
    --retry-failed. The function that makes a run, `run = "module:function"`, may be in the current folder, so a study
    file is code: run only those that you trust.
    """
    from adobest_pp.studies.engine import run_study
    from adobest_pp.studies.grid import read_study

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # not "", which workers would take for their own current folder
    options = {"retry_failed": retry_failed, "accept_changed_sources": accept_changed_sources, "repair": repair}
    with telling_how_to_resume(store):
        status = run_study(
            read_study(study), store, scheduler=scheduler, workers=workers, progressbar=not quiet, **options
        )
    if not quiet:
        _print_status(status)
    raise typer.Exit(1 if status.failed else 0)


@app.command(epilog="Example: adobest study status quick.db")
def status(store: StorePath) -> None:
    """Show how many runs are done, failed and missing, and the time left.

    Exit with 1 if any run failed or is damaged.
    """
    from adobest_pp.studies.summary import study_status

    found = study_status(store)
    _print_status(found)
    raise typer.Exit(1 if found.failed or found.damaged else 0)


@app.command(epilog="Example: adobest study plot quick.db --out figures")
def plot(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="The folder for figures, tables and page; made if it does not exist.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier page in --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Draw the figures of a study, and write its tables and a page of both."""
    from adobest_pp.cli.tables import check_no_report
    from adobest_pp.studies.page import PAGE, TABLE, write_page
    from adobest_pp.studies.summary import open_study

    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder, got {str(out)!r}")
    check_no_report(out, (PAGE, TABLE), overwrite)
    written = write_page(open_study(store), out, overwrite=overwrite, progressbar=not quiet)
    if not quiet:
        for path in written:
            typer.echo(str(path))


@app.command(epilog="Example: adobest study export quick.db --out results.csv")
def export(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="A netCDF file (.nc), or a CSV file (.csv) with one run per row.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write the results with their settings to one file: netCDF with labels, or CSV with one row per run."""
    from adobest_pp.studies.summary import export_study

    export_study(store, out, overwrite)


def _print_status(status: "StudyStatus") -> None:
    share = 100 * status.done / status.total
    typer.echo(
        f"{visible(status.name)}: {status.done} of {status.total} runs done ({share:.1f} %), "
        f"{status.failed} failed, {status.missing} missing"
    )
    if status.running and status.missing:
        known = status.rate > 0
        left = f"{status.rate:.1f} runs/s, {_duration(status.seconds_left)} left" if known else "no rate yet"
        typer.echo(f"running: {left}")
    elif status.missing:
        typer.echo("not running: rerun `adobest study run` to resume")
    if status.damaged:
        typer.echo(f"{status.damaged} damaged: `adobest study run` with --repair makes them again")
    for text, count in status.errors[:_ERRORS_SHOWN]:
        typer.echo(f"{count} failed with {visible(text)}")
    if len(status.errors) > _ERRORS_SHOWN:
        typer.echo(f"and {len(status.errors) - _ERRORS_SHOWN} other errors: see `error` in the store")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
