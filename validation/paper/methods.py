"""The methods of the paper's study: their names in files, and for readers."""

from adobest_pp import design
from adobest_pp._checks import check_alpha

__all__ = ["LABELS", "SEMI", "UTILITIES", "alpha_of", "method_label"]

# In the paper's order.
UTILITIES = tuple(design.UTILITIES)

# Before the mass α that a semi-adaptive method asks of its subset.
SEMI = "semi_adaptive_"

LABELS = {
    "nonadaptive": "non-adaptive SRR",
    "fisher": "U1 Fisher (FIM)",
    "entropy": "U2 entropy",
    "tv1": "U3 TV1",
    "tv2": "U4 TV2",
    "mse": "U5 MSE",
    "honest": "U6 honest, P(Y=X)",
}


def method_label(method: str) -> str:
    """Return a method's name for a reader, such as ``"semi-adaptive α = 0.95"``."""
    if method.startswith(SEMI):
        return f"semi-adaptive α = {method.removeprefix(SEMI)}"
    return LABELS.get(method, method)


def alpha_of(method: str) -> float | None:
    """Return the mass of a semi-adaptive method, None for the others, or raise ValueError for what is no method."""
    if method in LABELS:
        return None
    try:
        alpha = check_alpha(float(method.removeprefix(SEMI))) if method.startswith(SEMI) else None
    except ValueError:
        raise ValueError(f"the mass after 'semi_adaptive_' must be a number from 0 to 1, got {method!r}") from None
    if alpha is None:
        raise ValueError(f"method must be one of {', '.join(LABELS)} or 'semi_adaptive_0.95', got {method!r}")
    shortest = f"{SEMI}{repr(alpha + 0.0).removesuffix('.0')}"  # with −0 as 0
    if method != shortest:
        raise ValueError(f"the mass must be written shortest, {shortest!r}, got {method!r}")
    return alpha
