"""What a device runs: randomized mechanisms, exact sampling and exact audit. NumPy is all they need."""

from adobest_pp.mechanisms.base import (
    AuditCase,
    Counts,
    Drawing,
    ExtremalMechanism,
    FiniteMechanism,
    Mechanism,
    Published,
)
from adobest_pp.mechanisms.channel import Channel
from adobest_pp.mechanisms.hadamard_response import HadamardResponse
from adobest_pp.mechanisms.local_hashing import LocalHashing
from adobest_pp.mechanisms.mixed import Mixed
from adobest_pp.mechanisms.privacy import Audit, AuditRow, audit, privacy_loss
from adobest_pp.mechanisms.published_question import PublishedQuestion, read_question
from adobest_pp.mechanisms.registry import (
    build_mechanism,
    find_mechanism,
    mechanism_from_settings,
    mechanism_names,
    mechanism_parameters,
    register,
)
from adobest_pp.mechanisms.rrrr import RRRR, Coefficients, check_rrrr
from adobest_pp.mechanisms.set_family import SetFamily
from adobest_pp.mechanisms.srr import SRR
from adobest_pp.mechanisms.subset_selection import SubsetSelection
from adobest_pp.mechanisms.unary_encoding import UnaryEncoding

__all__ = [
    "RRRR",
    "SRR",
    "Audit",
    "AuditCase",
    "AuditRow",
    "Channel",
    "Coefficients",
    "Counts",
    "Drawing",
    "ExtremalMechanism",
    "FiniteMechanism",
    "HadamardResponse",
    "LocalHashing",
    "Mechanism",
    "Mixed",
    "Published",
    "PublishedQuestion",
    "SetFamily",
    "SubsetSelection",
    "UnaryEncoding",
    "audit",
    "build_mechanism",
    "check_rrrr",
    "find_mechanism",
    "mechanism_from_settings",
    "mechanism_names",
    "mechanism_parameters",
    "privacy_loss",
    "read_question",
    "register",
]
