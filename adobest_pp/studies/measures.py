"""What a cell of a study is told by, and what can be measured of its runs."""

__all__ = ["CELL", "MEASURES"]

# In the order in which tables show it.
CELL = {
    "K": "number of categories",
    "epsilon": "privacy budget ε",
    "kappa": "share of the budget inside the subset κ",
    "rho": "the truth is from Dirichlet(ρ)",
    "mechanism": "mechanism",
    "method": "method",
    "prior": "prior of exact inference",
    "sampler": "sampler",
    "budgets": "rule for ε₂",
}

MEASURES = {
    "tv": ("total variation distance of the estimate from the truth", "1"),
    "exact_tv": ("total variation distance of the exact posterior mean from the truth", "1"),
    "coverage": ("share of categories whose central 95 % interval holds the truth", "1"),
    "width": ("mean width of the central 95 % intervals", "1"),
    "mean_size": ("average subset size", "categories"),
    "true_epsilon": ("largest privacy loss of the mechanisms that were used", "1"),
    "honest": ("average probability that an answer is the truth", "1"),
}
