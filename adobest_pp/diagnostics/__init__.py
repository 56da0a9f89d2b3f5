"""Is the sampling right? Functions return labelled Datasets; `explain`, `grade` and `calibration` run samplers."""

from adobest_pp._wording import explanation_in_words, verdict_in_words
from adobest_pp.diagnostics import references
from adobest_pp.diagnostics.calibration import calibration, model_calibration
from adobest_pp.diagnostics.comparison import Fault, Verdict, compare
from adobest_pp.diagnostics.contraction import best_subset_frequency, checkpoints, contraction
from adobest_pp.diagnostics.explain import Cause, explain
from adobest_pp.diagnostics.fit import goodness_of_fit
from adobest_pp.diagnostics.grading import grade

__all__ = [
    "Cause",
    "Fault",
    "Verdict",
    "best_subset_frequency",
    "calibration",
    "checkpoints",
    "compare",
    "contraction",
    "explain",
    "explanation_in_words",
    "goodness_of_fit",
    "grade",
    "model_calibration",
    "references",
    "verdict_in_words",
]
