"""What the tests of the simulation share."""

from adobest_pp import AdaptiveSubset, simulate_adaptive


def simulated(theta, mechanism, utility="honest", **options):
    """Simulate an adaptive collection; the options are those of the policy and of the simulation."""
    names = AdaptiveSubset.__dataclass_fields__
    policy = AdaptiveSubset(mechanism, utility, **{name: options[name] for name in options if name in names})
    return simulate_adaptive(theta, policy, **{name: options[name] for name in options if name not in names})
