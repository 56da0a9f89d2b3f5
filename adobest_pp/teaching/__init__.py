"""The course: the parts of a lesson, the pages made of them, and the server of `adobest teach`."""

from adobest_pp.teaching.parts import (
    Exercise,
    Grade,
    Menu,
    Notes,
    Number,
    Numeric,
    Picture,
    Prediction,
    Prose,
    Slider,
    Takeaway,
    numbers_in,
    state,
)

__all__ = [
    "Exercise",
    "Grade",
    "Menu",
    "Notes",
    "Number",
    "Numeric",
    "Picture",
    "Prediction",
    "Prose",
    "Slider",
    "Takeaway",
    "numbers_in",
    "state",
]
