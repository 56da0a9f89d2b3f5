"""What a device runs: randomized mechanisms, exact sampling and exact audit. NumPy is all they need."""

from collections.abc import Mapping
from typing import Any

from adobest_pp._text import brief
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.privacy import Audit, AuditRow, audit, privacy_loss
from adobest_pp.mechanisms.rrrr import RRRR, Coefficients
from adobest_pp.mechanisms.srr import SRR
from adobest_pp.mechanisms.subset_selection import SubsetSelection

__all__ = [
    "RRRR",
    "SRR",
    "Audit",
    "AuditRow",
    "Coefficients",
    "Mechanism",
    "SubsetSelection",
    "audit",
    "mechanism_from_settings",
    "privacy_loss",
]


def mechanism_from_settings(settings: Mapping[str, Any]) -> SRR | RRRR | SubsetSelection:
    """Build the mechanism whose `settings` these are (more keys than needed do no harm)."""
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings must be a mapping with the key 'mechanism', got {brief(settings)}")
    name = settings.get("mechanism")
    try:
        match name:
            case "SRR":
                return SRR(settings["n_categories"], settings["epsilon"])
            case "RRRR" if "epsilon1" in settings:
                return RRRR.from_budgets(settings["n_categories"], settings["epsilon1"], settings["epsilon2"])
            case "RRRR":
                return RRRR(settings["n_categories"], settings["epsilon"], settings["kappa"])
            case "SubsetSelection":
                return SubsetSelection(settings["n_categories"], settings["epsilon"], settings["size"])
    except KeyError as missing:
        raise ValueError(f"settings of {name} must include {missing}, got {brief(list(settings))}") from None
    raise ValueError(f"mechanism must be 'SRR', 'RRRR' or 'SubsetSelection', got {brief(name)}")
