"""Which sampler draws from a posterior: the one place that decides.

NUTS is the reference. It visits every distinct answer at each step, so its time grows with their number. SGLD with
control variates (``"sgld_cv"``) samples the same posterior from batches, but not under every prior, and it warns if its
draws are biased. Each limit below is where another sampler becomes the better choice for one purpose.
"""

import zlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_prior
from adobest_pp._types import Floats
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.gather.tallies import Tally, evidence_of
from adobest_pp.answers.responses import Responses
from adobest_pp.samplers.checks import BIASED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sgld_cv.control_variates import PackedSets
from adobest_pp.samplers.sgld_cv.sampler import LEAST_PRIOR, sgld_cv_draws

if TYPE_CHECKING:
    import xarray as xr

# Beyond this many distinct answers, sgld_cv makes a single estimate. It is then quicker (0.2 to 0.5 s instead of 1.4 to
# 4 s, K = 20, 10,000 answers of subset selection under the learned prior), and two chains of 800 draws are closer to
# long runs: 0.0002 to 0.007 in TV, where a chain of 500 of NUTS is 0.0003 to 0.010 off.
MANY_ROWS = 2500
# The same for the thousands of posteriors of a study, where tenths of a second matter. In eight settings with K = 20
# (adaptive RRRR by four utilities, and designs; 82 to 2,600 rows) two chains of 800 draws of sgld_cv took 0.03 to 0.4 s
# and were 0.0007 to 0.011 off in TV, except for one that mixes slowly (0.031). A chain of 500 draws of NUTS took 0.14
# to 0.7 s and was farther off in all of them but one.
MANY_ROWS_IN_STUDY = 60
# Beyond this many categories, moves of blocks make a single estimate, if the prior is the same for all categories. For
# the same number of effective draws of the 100 largest shares, they are the fastest of the three samplers at K = 1,000
# and 10,000, and NUTS takes minutes for 10,000 (`python benchmarks/many.py posterior sgld_cv nuts`,
# benchmarks/RESULTS.md).
MANY_CATEGORIES = 300
# Draws in each of four chains for the estimate that people see, in every command.
ESTIMATE_DRAWS = 1000
# From this many sets in a store on, sgld_cv reads them packed. Fewer are faster when laid out.
MANY_SETS = 200_000
# Beyond this many distinct answers times categories, the grading of samplers leaves out those that visit all answers at
# each step (NUTS and Gibbs). They take minutes at this size, and their time is proportional to it.
MOST_VISITED = 2_000_000
# Beyond this many answers, it leaves out SGLD, which draws people by their numbers: these would fill the memory.
MOST_NUMBERED = 20_000_000


def has_many_rows(responses: Responses | Gathered, limit: int | None = None) -> bool:
    """Tell whether there are more distinct answers than `limit`, by default `MANY_ROWS`: NUTS is then slow."""
    most = MANY_ROWS if limit is None else limit
    if len(responses) <= most:
        return False
    return _is_stored(responses) or responses.evidence().n_rows > most


def moves_in_blocks(responses: Responses | Gathered, prior: Any) -> bool:
    """Tell whether there are so many categories, and such a prior, that moves of blocks are the best choice."""
    if responses.n_categories <= MANY_CATEGORIES or _is_stored(responses):
        return False
    concentrations = _concentrations(prior, responses)
    return isinstance(concentrations, str) or bool(np.ptp(concentrations) == 0)


def packed_sets(responses: Responses | Gathered) -> PackedSets | None:
    """Return the sets of a large store as sgld_cv reads them, or None if evidence is as good."""
    if not isinstance(responses, Gathered) or responses.store is None or len(responses.store) < MANY_SETS:
        return None
    packed = np.asarray(responses.store.packed)
    # All answers of such a mechanism are 1 + inside·θ(set), with the same number.
    first = evidence_of(Tally(packed[:1], np.ones(1, dtype=np.int64)), responses.mechanism)
    return PackedSets(packed, float(first.inside[0]), responses.n_categories)


def left_out(responses: Responses | Gathered, prior: float | str) -> dict[str, str]:
    """Return the samplers that cannot be graded on these answers under this prior, each with the reason.

    Returns
    -------
    dict of str to {"categories", "different", "reference", "number", "prior"}
        Too many categories, too many different answers, no reference to compare with, too many answers, or a prior
        below what control variates take.
    """
    if moves_in_blocks(responses, prior):
        return {"nuts": "categories", "gibbs": "categories", "sgld": "reference", "sgld_cv": "reference"}
    if has_many_rows(responses) and len(responses) * responses.n_categories > MOST_VISITED:
        return {"nuts": "different", "gibbs": "different", "sgld": "reference"}
    found = {"sgld": "number"} if len(responses) > MOST_NUMBERED else {}
    below = not isinstance(prior, str) and prior < LEAST_PRIOR
    return found | ({"sgld_cv": "prior"} if below else {})


def quick_sample(
    responses: Responses | Gathered,
    prior: ArrayLike | Literal["learned"],
    draws: int,
    random_seed: int,
    progressbar: bool = False,
) -> "xr.DataTree":
    """Return the draws of `sample` by the quickest correct sampler; the attribute ``sampler`` names it.

    With many categories that is moves of blocks. Otherwise it is NUTS, unless answers hardly ever repeat. Then it is
    SGLD with control variates, unless this does not take the prior, fails, warns that its draws are biased, or has not
    converged. Answers in a store do not fit into memory for NUTS: then there is no second choice, and warnings are
    logged. The parameters are as in `sample`.
    """
    from adobest_pp.samplers.sampling import sample

    options: dict[str, Any] = {"draws": draws, "random_seed": random_seed, "progressbar": progressbar}
    if moves_in_blocks(responses, prior):
        return sample(responses, "blocks", prior, **options)
    many = has_many_rows(responses)
    if many and _is_stored(responses):
        return sample(responses, "sgld_cv", prior, **options)
    if many and _takes(_concentrations(prior, responses)):
        try:
            with without_warnings_of(BIASED, NOT_CONVERGED) as problems:
                tree = sample(responses, "sgld_cv", prior, **options)
            if not problems:
                return tree
        except RuntimeError:
            pass  # its chains were not finite
    return sample(responses, "nuts", prior, **options)


def seed_of_answers(responses: Responses | Gathered) -> int:
    """Return a seed that depends on the answers alone, so that every command gives the same estimate for them."""
    if _is_stored(responses):
        return len(responses)
    evidence = responses.evidence()
    parts = (evidence.count, evidence.category, evidence.set_index, evidence.members, evidence.inside, evidence.own)
    return zlib.crc32(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))


def quick_draws(responses: Responses, prior: Floats | str, draws: int, tune: int, chains: int, seed: int) -> Floats:
    """Return draws of θ from all chains, of shape (chains·draws, K), for one of many posteriors.

    SGLD with control variates makes them, as the fastest sampler; or NUTS, if that does not take the prior, fails, or
    warns that its draws are biased.
    """
    k = responses.n_categories
    if _takes(prior):
        try:
            with without_warnings_of(BIASED) as problems:
                variables, _, _ = sgld_cv_draws(responses.evidence(), prior, draws, tune, chains, seed)
            if not problems:
                return variables["theta"].reshape(-1, k)
        except RuntimeError:
            pass  # its chains were not finite
    from adobest_pp.samplers.nuts import sample_nuts

    sizes = {"draws": draws, "tune": tune, "chains": chains, "cores": 1}
    tree = sample_nuts(responses, prior=prior, random_seed=seed, progressbar=False, **sizes)
    return np.asarray(tree["posterior"]["theta"].values, dtype=np.float64).reshape(-1, k)


def _is_stored(responses: Responses | Gathered) -> bool:
    """Tell whether answers are in a store, not in memory."""
    return isinstance(responses, Gathered) and responses.store is not None


def _concentrations(prior: Any, responses: Responses | Gathered) -> Floats | str:
    """Return the concentrations of a prior, or its name, or raise ValueError if it is not valid."""
    return prior if isinstance(prior, str) else check_prior(prior, responses.n_categories, responses.categories)


def _takes(prior: Floats | str) -> bool:
    """Tell whether SGLD with control variates takes a prior."""
    return isinstance(prior, str) or bool(prior.min() >= LEAST_PRIOR)
