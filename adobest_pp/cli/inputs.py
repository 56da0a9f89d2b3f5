"""What options of several commands hold: lists of labels, and randomized answers."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from adobest_pp._text import brief, listed

__all__ = ["labels_in", "make_known", "naming_responses"]


def labels_in(text: str | None, option: str = "--categories") -> list[str] | None:
    """Return the labels that an option names, or None without it, or raise ValueError.

    Parameters
    ----------
    text : str or None
        Labels separated by commas; or ``@`` and the name of a text file with one label a line, in which a comma is a
        character like any other.
    option : str
        As errors name it.

    Examples
    --------
    >>> from adobest_pp.cli.inputs import labels_in
    >>> labels_in("yes, no")
    ['yes', 'no']
    """
    if text is None or not text.startswith("@"):
        return listed(text, option)
    path = text[1:]
    try:
        with open(path, encoding="utf-8-sig") as handle:
            lines = [line.strip() for line in handle.read().splitlines()]
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not a text file in UTF-8"
        raise ValueError(
            f"{option} must be labels, or @ and a file with one a line, got {brief(text)}: {reason}"
        ) from None
    if not lines or not all(lines):
        line = lines.index("") + 1 if lines else 1
        raise ValueError(f"{option} must name a file with a label in every line, got none in line {line} of {path!r}")
    return lines


def make_known(mechanism: str | None) -> None:
    """Import and register the class that was typed as ``module:Class``, also from the current folder.

    For the rest of the command its name is known, also in the files that are read.
    """
    from adobest_pp.mechanisms import find_mechanism

    if mechanism is None or ":" not in mechanism:
        return
    if "" not in sys.path:
        sys.path.insert(0, "")
    find_mechanism(mechanism)


@contextmanager
def naming_responses(path: str, hint: str) -> Iterator[None]:
    """Name the option in errors, and say how to go on where its files are damaged or (`hint`) tell no mechanism."""
    from adobest_pp.data.gather import DamagedAnswers, UntoldMechanism

    try:
        yield
    except DamagedAnswers as problem:
        first, reason = next(iter(problem.damaged.items()))
        others = f" and {len(problem.damaged) - 1} more" if len(problem.damaged) > 1 else ""
        raise ValueError(
            f"--responses must name whole files, got {first!r} ({reason}){others}: move what is damaged elsewhere to "
            f"go on with the {len(problem.gathered):,} answers of the other {len(problem.gathered.files):,}"
        ) from None
    except UntoldMechanism:
        raise ValueError(f"--responses {path!r} does not tell the mechanism of its answers: {hint}") from None
    except (ValueError, OSError) as problem:
        text = str(problem)
        if not text.startswith("paths must "):
            raise
        told = text.removeprefix("paths must ").replace("pass allow_copies=True", "give --allow-copies")
        raise ValueError(f"--responses must {told}") from None
