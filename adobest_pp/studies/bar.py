"""The progress of a study: runs done and failed, runs a second and the time left, on standard error."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from adobest_pp.studies.outcomes import Outcome

__all__ = ["StudyBar"]

_SPEED_SECONDS = 120.0


class StudyBar:
    """A live bar.

    Parameters
    ----------
    total, done : int
        Runs in all, and those that need not be made any more.
    name : str
        What is being run.
    enabled : bool
        Whether to show anything at all.
    """

    def __init__(self, total: int, done: int, name: str, enabled: bool = True) -> None:
        self._failed = 0
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _RunsPerSecond(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[failed]}", markup=False),
            console=Console(stderr=True),
            speed_estimate_period=_SPEED_SECONDS,
            disable=not enabled,
        )
        self._task = self._progress.add_task(name, total=total, completed=done, failed="")

    def __enter__(self) -> "StudyBar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, outcomes: Sequence[Outcome]) -> None:
        """Note that these runs are over."""
        self._failed += sum(bool(outcome.error) for outcome in outcomes)
        self._progress.update(self._task, advance=len(outcomes), failed=f"{self._failed} failed" * bool(self._failed))


class _RunsPerSecond(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} runs/s")
