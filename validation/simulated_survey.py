"""A survey of simulated people: four questions, waves, weights, twelve regions, blanks and odd labels.

The shares differ by region and age. Older people are asked more often than others, which weights repair. Blanks do not
depend on the answer. `survey_text` is its file, `simulate` draws people, and `truth_of` has the shares of the
population by group.
"""

import csv
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WAVES = ("2026", "2027", "2028")
REGIONS = tuple(f"Region {letter}" for letter in "ABCDEFGHIJKL")
# The shares of ages in the population, and how likely they are asked, relative to each other.
AGES = {"18-39": 0.40, "40-64": 0.38, "65+": 0.22}
ASKED = {"18-39": 0.7, "40-64": 1.0, "65+": 1.5}
CELLS = tuple((region, age) for region in REGIONS for age in AGES)
MASS = np.array([AGES[age] / len(REGIONS) for _, age in CELLS])
LABELS = {
    "cannabis": ["never", "once or twice", "monthly", "weekly"],
    "drink_drive": ["no", "yes"],
    "income_hidden": ["no", "some", "a lot"],
    "debt": ["none", "below 1,000", "more", "much more"],
}
SHARES = {
    "cannabis": [0.62, 0.2, 0.13, 0.05],
    "drink_drive": [0.8, 0.2],
    "income_hidden": [0.6, 0.28, 0.12],
    "debt": [0.45, 0.3, 0.15, 0.1],
}
# Ways to write a category that a survey has to read; and no answer.
ODD: tuple[Callable[[str], str], ...] = (
    str,
    str,
    str,
    str.upper,
    lambda label: f" {label.capitalize()}  ",
    lambda label: label.replace(" ", "  "),
)
BLANK = ("", "n/a", " ")
COLUMNS = ("id", "born", "region", "age", "weight", *LABELS)

SURVEY = """\
title = "Simulated habits"
organization = "Test Institute"
contact = "test@example.org"
purpose = "To test."
waves = [{waves}]

[budget]
epsilon = {epsilon}
spend = "{spend}"

[people]
expected = {people}
same = {same}
id = "id"
fixed = ["born"]
groups = ["region", "age"]
weight = "weight"
ignore_case = true
missing = ["n/a"]

[margins.age]
"18-39" = 0.40
"40-64" = 0.38
"65+" = 0.22
"""


def survey_text(
    people: int, epsilon: float = 3.0, spend: str = "auto", waves: Sequence[str] = WAVES, same: bool = False
) -> str:
    """Return the file of the survey."""
    questions = "".join(
        f'\n[[questions]]\nname = "{name}"\ntext = "About {name}?"\nlabels = {labels!r}\n'.replace("'", '"')
        for name, labels in LABELS.items()
    )
    quoted = ", ".join(f'"{wave}"' for wave in waves)
    return SURVEY.format(epsilon=epsilon, people=people, spend=spend, waves=quoted, same=str(same).lower()) + questions


def shares_of(question: str, cell: tuple[str, str], shift: float = 0.0) -> Floats:
    """Return the shares of a question in a cell of the population; `shift` moves everybody to later categories."""
    base = np.array(SHARES[question])
    place = np.arange(base.size)
    region, age = REGIONS.index(cell[0]), list(AGES).index(cell[1])
    found = base * np.exp(0.5 * np.sin(1 + region + 2 * place) + (0.3 * age + shift) * (place - 1))
    return np.asarray(found / found.sum())


def truth_of(question: str, shift: float = 0.0) -> dict[tuple[str, str], Floats]:
    """Return the shares of the population by column and group; the column is empty for everybody."""
    by_cell = np.array([shares_of(question, cell, shift) for cell in CELLS])
    groups = {("", "everybody"): list(range(len(CELLS)))}
    groups |= {("region", each): [i for i, cell in enumerate(CELLS) if cell[0] == each] for each in REGIONS}
    groups |= {("age", each): [i for i, cell in enumerate(CELLS) if cell[1] == each] for each in AGES}
    return {key: MASS[members] @ by_cell[members] / MASS[members].sum() for key, members in groups.items()}


class People(NamedTuple):
    """Simulated people: their cells, their weights, and by question their categories, −1 for no answer."""

    cells: NDArray[np.int64]
    weights: Floats
    codes: dict[str, NDArray[np.int64]]


def simulate(n: int, rng: np.random.Generator, blank: float = 0.06, shift: float = 0.0) -> People:
    """Draw n people from the population."""
    sampled = MASS * np.array([ASKED[age] for _, age in CELLS])
    sampled /= sampled.sum()
    cells = rng.choice(len(CELLS), size=n, p=sampled)
    codes = {}
    for question in LABELS:
        ends = np.cumsum([shares_of(question, cell, shift) for cell in CELLS], axis=1)[cells]
        drawn = np.minimum((rng.random(n)[:, None] > ends).sum(axis=1), ends.shape[1] - 1)
        codes[question] = np.where(rng.random(n) < blank, -1, drawn)
    return People(cells, (MASS / sampled)[cells], codes)


def rows_of(people: People, rng: np.random.Generator, first_id: int = 0, odd: bool = True) -> list[dict[str, str]]:
    """Return people as rows of a file, with odd spellings, words for no answer and decimal commas."""
    rows = []
    for i, place in enumerate(people.cells.tolist()):
        region, age = CELLS[place]
        row = {"id": f"person-{first_id + i}", "born": str(1940 + (first_id + i) % 60), "region": region, "age": age}
        row["weight"] = f"{people.weights[i]:.6f}".replace(".", ",")
        for question, labels in LABELS.items():
            code = int(people.codes[question][i])
            spelling = ODD[rng.integers(len(ODD))] if odd else str
            row[question] = BLANK[rng.integers(len(BLANK))] if code < 0 else spelling(labels[code])
        rows.append(row)
    return rows


def write_people(path: str | os.PathLike[str], rows: list[dict[str, str]]) -> None:
    """Write a file as Excel writes it in much of Europe: semicolons, a byte order mark, decimal commas."""
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
