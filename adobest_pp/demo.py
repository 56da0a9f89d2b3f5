"""A simulated poll: people answer through RRRR, and the collector estimates the shares."""

import numpy as np
from rich.console import Console
from rich.table import Table

from adobest_pp._checks import check_integer
from adobest_pp.likelihood import maximum_likelihood
from adobest_pp.mechanisms import RRRR
from adobest_pp.responses import Responses

PARTIES = ("North", "South", "East", "West", "Center", "Other")
SHARES = np.array([0.34, 0.27, 0.18, 0.11, 0.07, 0.03])
ROUND = 1000


def simulate_poll(people: int, epsilon: float, seed: int) -> Responses:
    """Simulate a poll in rounds; each round publishes the three categories that lead so far."""
    rng = np.random.default_rng(seed)
    mechanism = RRRR(len(PARTIES), epsilon)
    responses = Responses(mechanism, PARTIES)
    subset = np.zeros(len(PARTIES), dtype=bool)
    for start in range(0, people, ROUND):
        x = rng.choice(len(PARTIES), size=min(ROUND, people - start), p=SHARES)
        responses.append(mechanism.privatize(x, subset, rng=rng), subset)
        leaders = np.argsort(-maximum_likelihood(responses.evidence()))[:3]
        subset = np.isin(np.arange(len(PARTIES)), leaders)
    return responses


def run(people: int, epsilon: float, seed: int) -> None:
    """Simulate the poll and print the estimate beside the truth."""
    responses = simulate_poll(check_integer(people, "people", 1), epsilon, check_integer(seed, "seed", 0))
    estimate = maximum_likelihood(responses.evidence())
    table = Table(title=f"{people} people, each answer {epsilon:g}-locally-differentially private")
    for heading, side in (("category", "left"), ("true share", "right"), ("estimate", "right"), ("", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for label, share, value in zip(PARTIES, SHARES, estimate, strict=True):
        table.add_row(label, f"{share:.3f}", f"{value:.3f}", "█" * round(60 * value))
    console = Console()
    console.print(table)
    distance = 0.5 * np.abs(estimate - SHARES).sum()
    console.print(f"Total variation distance between estimate and truth: {distance:.3f}", highlight=False)
