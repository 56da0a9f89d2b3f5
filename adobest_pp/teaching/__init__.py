"""The course: what lessons are made of (`asking`, `showing`), where they are (`lessons`), and how they are opened.

The lessons themselves are marimo notebooks in `lessons/`. Only `showing`, `serving` and `pages` need marimo.
"""

from adobest_pp.teaching.asking import Exercise, Prediction, Statement, state

__all__ = ["Exercise", "Prediction", "Statement", "state"]
