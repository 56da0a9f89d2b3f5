"""The methods of a study: their names in files, and for readers."""

__all__ = ["KAPPA_FREE", "METHOD_LABELS", "SEMI", "UTILITIES", "method_label"]

# The six utilities, in the paper's order.
UTILITIES = ("fisher", "entropy", "tv1", "tv2", "mse", "honest")

# Before the mass α that a semi-adaptive method asks of its subset.
SEMI = "semi_adaptive_"

# What does not depend on κ is run once, and shown with every κ.
KAPPA_FREE = ("nonadaptive", "fixed")

METHOD_LABELS = {
    "nonadaptive": "non-adaptive SRR",
    "fixed": "fixed",
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
    return METHOD_LABELS.get(method, method)
