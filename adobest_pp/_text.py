"""Text that comes from outside, made fit to be shown."""

import unicodedata

__all__ = ["listed", "prior_in_words", "visible"]


def visible(text: object) -> str:
    """Return a text on one line, without characters that would steer a terminal or break a file of XML."""
    line = " ".join(str(text).split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in line)


def listed(text: str | None) -> list[str] | None:
    """Return the labels of a list separated by commas, as the command line takes them."""
    return None if text is None else [label.strip() for label in text.split(",")]


def prior_in_words(prior: float | str) -> str:
    """Return a prior as a sentence has it: the concentration of a Dirichlet distribution, or one that is learned."""
    if isinstance(prior, str):
        return "a prior that learns how uneven the shares are"
    return f"the prior Dirichlet({prior:g})"
