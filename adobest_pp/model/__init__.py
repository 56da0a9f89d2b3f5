"""Everything that needs PyMC or PyTensor. Names are imported on first use.

- `PrivateResponse`: randomized answers as a PyMC distribution, for models of your own.
- `frequency_model` and `regression_model`: the usual models, ready to sample.
- `marginal_log_likelihood`, `pointwise_log_likelihood` and `pairs_log_likelihood`: the likelihood as PyTensor graphs.
- `rows_and_counts` and `counted_log_likelihood`: the same from counts, which may be `pymc.Data`.
- `multinomial_logit` and `zero_sum`: θ of each person from public covariates, and coefficients for it.
- `transition_matrix` and `transition_rows`: RRRR as PyTensor graphs, symbolic in the budgets.
- `simplex`, a module: the transform of θ to free coordinates, in two nodes that compile fast.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.model.frequency import frequency_model as frequency_model
    from adobest_pp.model.logit import multinomial_logit as multinomial_logit
    from adobest_pp.model.logit import zero_sum as zero_sum
    from adobest_pp.model.private_response import PrivateResponse as PrivateResponse
    from adobest_pp.model.regression import regression_model as regression_model
    from adobest_pp.model.tensors import counted_log_likelihood as counted_log_likelihood
    from adobest_pp.model.tensors import marginal_log_likelihood as marginal_log_likelihood
    from adobest_pp.model.tensors import pairs_log_likelihood as pairs_log_likelihood
    from adobest_pp.model.tensors import pointwise_log_likelihood as pointwise_log_likelihood
    from adobest_pp.model.tensors import rows_and_counts as rows_and_counts
    from adobest_pp.model.tensors import transition_matrix as transition_matrix
    from adobest_pp.model.tensors import transition_rows as transition_rows

_HOMES = {
    "PrivateResponse": "private_response",
    "counted_log_likelihood": "tensors",
    "frequency_model": "frequency",
    "marginal_log_likelihood": "tensors",
    "multinomial_logit": "logit",
    "pairs_log_likelihood": "tensors",
    "pointwise_log_likelihood": "tensors",
    "regression_model": "regression",
    "rows_and_counts": "tensors",
    "transition_matrix": "tensors",
    "transition_rows": "tensors",
    "zero_sum": "logit",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
