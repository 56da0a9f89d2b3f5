"""Text that comes from outside, made fit to be shown."""

import unicodedata

__all__ = ["brief", "listed", "visible"]

LONGEST = 80


def visible(text: object) -> str:
    """Return a text on one line, without characters that control a terminal or break an XML file."""
    line = " ".join(str(text).split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in line)


def brief(value: object) -> str:
    """Return the repr of a value on one line and cut short, for the end of an error."""
    try:
        text = visible(repr(value)[: 10 * LONGEST])
    except Exception:  # an integer of thousands of digits, or an object whose repr fails
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def listed(text: str | None, option: str = "--categories") -> list[str] | None:
    """Return the labels of a list separated by commas, as the command line takes them, or raise ValueError."""
    if text is None:
        return None
    labels = [label.strip() for label in text.split(",")]
    if not all(labels):
        raise ValueError(f"{option} must be labels separated by single commas, got an empty one in {brief(text)}")
    return labels
