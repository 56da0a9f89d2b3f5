"""What a collection asks next: the three policies. Each is a small frozen object that says how, and nothing more."""

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from adobest_pp.adaptive.settings import LoopSettings
from adobest_pp.design.utilities import Utility
from adobest_pp.mechanisms import RRRR
from adobest_pp.samplers.sgld.settings import Schedule

__all__ = ["AdaptiveSubset"]


@dataclass(frozen=True, eq=False)
class AdaptiveSubset:
    """Ask by RRRR under a subset of likely categories, chosen from the answers so far: Algorithm 1 of the paper [1]_.

    Parameters
    ----------
    mechanism : RRRR
        What the devices run.
    utility : str or Utility, default "honest"
        How the subset is chosen: ``"fisher"``, ``"entropy"``, ``"tv1"``, ``"tv2"``, ``"mse"``, ``"honest"``, one of
        your own, ``"semi_adaptive"`` (with `alpha`) or ``"nonadaptive"``. Your own runs in Python, once a choice.
    alpha : float, optional
        The mass that ``"semi_adaptive"`` asks of the subset. The authors of the paper ran it with all of ε inside the
        subset: ``RRRR(K, epsilon, kappa=1.0)``.
    prior : float or array of shape (K,)
        ρ of the Dirichlet prior under which subsets are chosen. Estimates have their own prior.
    updates, batch_size : int
        M updates of the sampler for each choice of a subset (sweeps of Gibbs, gradients of the exact one), and the
        responses m in a batch of SGLD (8 at most with control variates).
    step_size, schedule
        Step sizes of SGLD, as of `SGLD`; the paper's 0.5/t by default.
    adapt_every : int, default 1
        How many answers to take between two choices.
    sampler : {"sgld", "gibbs", "exact", "sgld_cv"}
        What draws Θ_t, warm-started from Θ_{t-1}: the paper's SGLD; the paper's Gibbs sampler, whose sweeps are on
        counts here; Hamiltonian Monte Carlo; or SGLD with control variates, which chooses its steps and takes at most
        about twice the time of the paper's. ``"gibbs"`` and ``"exact"`` leave the true posterior invariant. None of
        them gives independent draws.
    smallest_size : int
        The smallest candidate for ``|S|``; the authors' program leaves 0 out.

    See Also
    --------
    Collection : Asks real people.
    simulate_adaptive : Asks simulated people.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=1.0), "honest")
    >>> ad.simulate_adaptive([0.6, 0.3, 0.1], policy, n_people=1000, random_seed=1).chain_mean.shape
    (3,)
    """

    mechanism: RRRR
    utility: str | Utility = "honest"
    alpha: float | None = None
    prior: ArrayLike = 1.0
    updates: int = 20
    batch_size: int = 50
    step_size: float | None = None
    schedule: Schedule | None = None
    adapt_every: int = 1
    sampler: str = "sgld"
    smallest_size: int = 0

    def checked(self, categories: Sequence[str] | None = None) -> LoopSettings:
        """Return the settings of the loop, or raise ValueError; a prior with labels is put in order of `categories`."""
        return LoopSettings.of(
            self.mechanism,
            self.utility,
            alpha=self.alpha,
            prior=self.prior,
            updates=self.updates,
            batch_size=self.batch_size,
            step_size=self.step_size,
            schedule=self.schedule,
            adapt_every=self.adapt_every,
            sampler=self.sampler,
            smallest_size=self.smallest_size,
            categories=categories,
        )
