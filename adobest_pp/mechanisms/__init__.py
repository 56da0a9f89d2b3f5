"""What a device runs: randomized mechanisms, exact sampling and exact audit. NumPy is all they need."""

from adobest_pp.mechanisms.allowance import Allowance, Overspent
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
from adobest_pp.mechanisms.classical import Crosswise, ForcedResponse, Kuk, UnrelatedQuestion, Warner
from adobest_pp.mechanisms.count_mean_sketch import CountMeanSketch
from adobest_pp.mechanisms.guessing import guess_bound
from adobest_pp.mechanisms.hadamard_response import HadamardResponse
from adobest_pp.mechanisms.local_hashing import LocalHashing
from adobest_pp.mechanisms.memoized import Memoized
from adobest_pp.mechanisms.mixed import Mixed
from adobest_pp.mechanisms.privacy import Audit, AuditRow, audit, privacy_loss
from adobest_pp.mechanisms.projective_geometry_response import ProjectiveGeometryResponse
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
from adobest_pp.mechanisms.ticks import Ticks
from adobest_pp.mechanisms.unary_encoding import UnaryEncoding

__all__ = [
    "RRRR",
    "SRR",
    "Allowance",
    "Audit",
    "AuditCase",
    "AuditRow",
    "Channel",
    "Coefficients",
    "CountMeanSketch",
    "Counts",
    "Crosswise",
    "Drawing",
    "ExtremalMechanism",
    "FiniteMechanism",
    "ForcedResponse",
    "HadamardResponse",
    "Kuk",
    "LocalHashing",
    "Mechanism",
    "Memoized",
    "Mixed",
    "Overspent",
    "ProjectiveGeometryResponse",
    "Published",
    "PublishedQuestion",
    "SetFamily",
    "SubsetSelection",
    "Ticks",
    "UnaryEncoding",
    "UnrelatedQuestion",
    "Warner",
    "audit",
    "build_mechanism",
    "check_rrrr",
    "find_mechanism",
    "guess_bound",
    "mechanism_from_settings",
    "mechanism_names",
    "mechanism_parameters",
    "privacy_loss",
    "read_question",
    "register",
]
