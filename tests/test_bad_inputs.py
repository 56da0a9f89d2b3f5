"""Bad arguments and bad command lines have two outcomes: a right result, or one sentence.

The tables are those of ``python -m validation.faults``, which goes through all of them; here hypothesis draws from
them, and makes values of its own.
"""

import inspect

import numpy as np
import pymc  # noqa: F401  (it raises the recursion limit, which hypothesis does not want to happen in a test)
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import adobest_pp as ad
from adobest_pp import diagnostics, likelihood, plots
from validation import bad_commands, bad_inputs, public_functions

ENTRIES = public_functions.entries()
PLACES = [(entry, argument) for entry in ENTRIES for argument in entry.kinds]
OPTIONS, FILES, MATRICES = bad_commands.options(), bad_commands.people_files(), bad_commands.matrices()
# Functions whose every call is slow, or draws: a few values each do here.
SLOW = ("plots.", "frequency_model", "step_size_study", "calibration", "compare", "contraction")

numbers = st.one_of(
    st.integers(-3, 5), st.integers(), st.floats(allow_subnormal=True), st.booleans(), st.none(), st.complex_numbers()
)
scalars = st.one_of(numbers, st.text(max_size=5), st.binary(max_size=3), st.fractions(), st.decimals())
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
dtypes = st.one_of(
    arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.boolean_dtypes(), arrays.complex_number_dtypes()
)
several = arrays.arrays(dtypes, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
masked = several.map(lambda array: np.ma.masked_array(array, np.ones(array.shape, dtype=bool)))
values = st.one_of(nested, several, masked, st.frozensets(st.integers(-1, 4), max_size=4))


@pytest.mark.parametrize("group", range(4))
@given(st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_hostile_value_is_refused_or_means_the_plain_one(group, data):
    entry, argument = data.draw(st.sampled_from(PLACES[group::4]))
    place = data.draw(st.integers(0, bad_inputs.n_hostile() - 1))
    outcome, said = bad_inputs.attempt(bad_inputs.Case(entry, argument, place))
    assert outcome != "wrong", f"{entry.name}({argument}={bad_inputs.hostile(place)!r}): {said}"


@given(st.sampled_from([pair for pair in PLACES if not pair[0].name.startswith(SLOW)]), values)
@settings(max_examples=250, suppress_health_check=list(HealthCheck))
def test_any_value_is_refused_or_means_the_plain_one(pair, value):
    entry, argument = pair
    outcome, said = bad_inputs.judge(entry, argument, value, value)
    assert outcome != "wrong", f"{entry.name}({argument}={value!r}): {said}"


def test_every_public_function_is_tried():
    """Left out are graphs of PyTensor, step methods and distributions of PyMC, which have tests of their own."""
    tried = {entry.name.split(",")[0] for entry in ENTRIES}
    left_out = {"Audit", "DataAugmentationGibbs", "Evidence", "OnlineRun", "PrivateResponse", "SGLD", "SGLDCV"}
    named = {name for name in ad._HOMES if name not in left_out and not inspect.ismodule(getattr(ad, name))}
    named |= {f"likelihood.{name}" for name in likelihood.__all__ if inspect.isfunction(getattr(likelihood, name))}
    named |= {name for name in diagnostics.__all__ if inspect.isfunction(getattr(diagnostics, name))}
    named |= {f"plots.{name}" for name in plots.__all__}
    assert named <= tried, named - tried


@given(st.sampled_from([command for command in OPTIONS if command.code == 2]))
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
def test_a_bad_option_is_one_sentence(command):
    outcome, said = bad_commands.attempt(command)
    assert outcome == "refused", f"{command}: {said}"


@given(st.sampled_from(MATRICES))
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_an_audit_of_a_written_matrix_says_what_interval_arithmetic_says(command):
    outcome, said = bad_commands.attempt(command)
    assert outcome != "wrong", f"{command}: {said}"


@pytest.mark.parametrize("place", range(0, len(FILES), 4))
def test_a_bad_file_of_people_is_one_sentence_without_their_values(place):
    outcome, said = bad_commands.attempt(FILES[place])
    assert outcome == "refused", f"{FILES[place].files}: {said}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("audit --mechanism srr --categories 4 --epsilon 1 --size 2", "--size must be left out for srr"),
        ("audit --mechanism srr --categories 4 --epsilon 1 --kappa 7", "--kappa must be left out for srr"),
        ("audit --mechanism rrrr --categories 4 --epsilon 1 --size 2", "--size must be left out for rrrr"),
        ("audit --matrix m.csv --epsilon 1 --kappa 0.5", "--matrix must be given alone"),
        ("audit --mechanism srr --categories 4 --epsilon 1 --rounding 1e-6", "--rounding must come with --matrix"),
        (
            "collect people.csv --column vote --epsilon 1 --out r.nc --mechanism rrrr --utility bogus",
            "utility must be one of",
        ),
        (
            "collect people.csv --column vote --epsilon 1 --out r.nc --utility honest",
            "utility must be left out for subset-selection, which has size, random_seed only",
        ),
        ("compare --people 5 --kappa 0.5", "kappa must be left out for subset-selection"),
        ("compare --people 5 --mechanism bogus", "mechanism must be one of srr, rrrr, subset-selection"),
        ("compare --people 5 --utility bogus", "utility must be one of"),
    ],
)
def test_an_option_that_does_not_apply_is_refused_by_its_name(arguments, sentence):
    outcome, said = bad_commands.attempt(bad_commands.Command(tuple(arguments.split())))
    assert outcome == "refused"
    assert sentence in said


def test_a_harness_that_could_not_fail_would_be_none():
    """Planted: a raw error, a silent acceptance, a sentence that does not name the argument, and another result."""

    def entry(call):
        return bad_inputs.Entry("planted", call, dict, {"x": bad_inputs.integer(0, 5)}, {})

    def raw(x):
        raise KeyError(x)

    def nameless(x):
        raise ValueError("no")

    assert bad_inputs.judge(entry(raw), "x", "a", "a")[0] == "wrong"
    assert bad_inputs.judge(entry(nameless), "x", "a", "a")[0] == "wrong"
    assert bad_inputs.judge(entry(lambda x: 1), "x", "a", "a")[0] == "wrong"
    assert bad_inputs.judge(entry(lambda x: str(type(x))), "x", np.int64(3), np.int64(3))[0] == "wrong"
    assert bad_inputs.judge(entry(lambda x: x + 1), "x", np.int64(3), np.int64(3))[0] == "right"
