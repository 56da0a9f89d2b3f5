"""What can be measured of a run."""

__all__ = ["MEASURES"]

MEASURES = {
    "tv": ("total variation distance of the estimate from the truth", "1"),
    "exact_tv": ("total variation distance of the exact posterior mean from the truth", "1"),
    "coverage": ("share of categories whose 95 % interval holds the truth", "1"),
    "width": ("mean width of the 95 % intervals", "1"),
    "mean_size": ("average subset size", "categories"),
    "true_epsilon": ("largest privacy loss of the mechanisms that were used", "1"),
    "honest": ("average probability that an answer is the truth", "1"),
}
