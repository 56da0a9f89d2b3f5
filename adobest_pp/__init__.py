"""Bayesian frequency estimation under local differential privacy.

Names are imported on first use: a device that privatizes one answer loads nothing but NumPy.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.answers.concat import concat as concat
    from adobest_pp.answers.gather.gather import gather as gather
    from adobest_pp.answers.responses import Responses as Responses
    from adobest_pp.collect import AdaptiveSubset as AdaptiveSubset
    from adobest_pp.collect import Collection as Collection
    from adobest_pp.collect import Rounds as Rounds
    from adobest_pp.collect import SameQuestion as SameQuestion
    from adobest_pp.collect import WordSearch as WordSearch
    from adobest_pp.design import Utility as Utility
    from adobest_pp.design import asymptotic_variance as asymptotic_variance
    from adobest_pp.design import optimal_mechanism as optimal_mechanism
    from adobest_pp.design import select_subset as select_subset
    from adobest_pp.design import semi_adaptive_subset as semi_adaptive_subset
    from adobest_pp.design import utility as utility
    from adobest_pp.design.optimal import efficiency as efficiency
    from adobest_pp.design.plan import plan as plan
    from adobest_pp.estimates.estimate import estimate as estimate
    from adobest_pp.evidence import Evidence as Evidence
    from adobest_pp.mechanisms import RRRR as RRRR
    from adobest_pp.mechanisms import SRR as SRR
    from adobest_pp.mechanisms import Allowance as Allowance
    from adobest_pp.mechanisms import Channel as Channel
    from adobest_pp.mechanisms import CountMeanSketch as CountMeanSketch
    from adobest_pp.mechanisms import Crosswise as Crosswise
    from adobest_pp.mechanisms import ForcedResponse as ForcedResponse
    from adobest_pp.mechanisms import HadamardResponse as HadamardResponse
    from adobest_pp.mechanisms import Kuk as Kuk
    from adobest_pp.mechanisms import LocalHashing as LocalHashing
    from adobest_pp.mechanisms import Memoized as Memoized
    from adobest_pp.mechanisms import ProjectiveGeometryResponse as ProjectiveGeometryResponse
    from adobest_pp.mechanisms import SetFamily as SetFamily
    from adobest_pp.mechanisms import SubsetSelection as SubsetSelection
    from adobest_pp.mechanisms import Ticks as Ticks
    from adobest_pp.mechanisms import UnaryEncoding as UnaryEncoding
    from adobest_pp.mechanisms import UnrelatedQuestion as UnrelatedQuestion
    from adobest_pp.mechanisms import Warner as Warner
    from adobest_pp.mechanisms import audit as audit
    from adobest_pp.mechanisms import privacy_loss as privacy_loss
    from adobest_pp.mechanisms import read_question as read_question
    from adobest_pp.model.frequency import frequency_model as frequency_model
    from adobest_pp.model.private_response import PrivateResponse as PrivateResponse
    from adobest_pp.samplers.sampling import extend as extend
    from adobest_pp.samplers.sampling import recorded_arguments as recorded_arguments
    from adobest_pp.samplers.sampling import sample as sample
    from adobest_pp.samplers.sgld.settings import ConstantSteps as ConstantSteps
    from adobest_pp.samplers.sgld.settings import DecayingSteps as DecayingSteps
    from adobest_pp.samplers.sgld.settings import PaperSteps as PaperSteps
    from adobest_pp.samplers.sgld.step import SGLD as SGLD
    from adobest_pp.samplers.steps import SGLDCV as SGLDCV
    from adobest_pp.samplers.steps import DataAugmentationGibbs as DataAugmentationGibbs
    from adobest_pp.simulate import simulate_adaptive as simulate_adaptive
    from adobest_pp.simulate import simulate_rounds as simulate_rounds
    from adobest_pp.simulate import simulate_words as simulate_words

__version__ = "0.1.0"

# The names of each module.
_NAMES = {
    "answers.concat": "concat",
    "answers.gather.gather": "gather",
    "answers.responses": "Responses",
    "collect": "AdaptiveSubset Collection Rounds SameQuestion WordSearch",
    "design": "Utility asymptotic_variance optimal_mechanism select_subset semi_adaptive_subset utility",
    "design.optimal": "efficiency",
    "design.plan": "plan",
    "diagnostics": "references",
    "estimates.estimate": "estimate",
    "evidence": "Evidence",
    "mechanisms": (
        "Allowance Channel CountMeanSketch Crosswise ForcedResponse HadamardResponse Kuk LocalHashing Memoized "
        "ProjectiveGeometryResponse RRRR SRR SetFamily SubsetSelection Ticks UnaryEncoding UnrelatedQuestion "
        "Warner audit privacy_loss read_question"
    ),
    "model.frequency": "frequency_model",
    "model.private_response": "PrivateResponse",
    "samplers.sampling": "extend recorded_arguments sample",
    "samplers.sgld.settings": "ConstantSteps DecayingSteps PaperSteps",
    "samplers.sgld.step": "SGLD",
    "samplers.steps": "DataAugmentationGibbs SGLDCV",
    "simulate": "simulate_adaptive simulate_rounds simulate_words",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = (
    "answers",
    "collect",
    "datasets",
    "design",
    "device",
    "diagnostics",
    "estimates",
    "intervals",
    "likelihood",
    "mechanisms",
    "model",
    "plots",
    "samplers",
    "simulate",
    "studies",
)

__all__ = [*_HOMES, *_MODULES, "__version__"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _MODULES)
