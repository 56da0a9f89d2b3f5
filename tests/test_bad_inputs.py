"""Bad arguments and bad command lines have two outcomes: a right result, or one sentence.

The tables are those of ``python -m validation.faults``, which goes through all of them; here hypothesis draws from
them, and makes values of its own.
"""

import inspect
import traceback

import numpy as np
import pymc  # noqa: F401  (it raises the recursion limit, which hypothesis does not want to happen in a test)
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import adobest_pp as ad
from adobest_pp import diagnostics, likelihood, plots
from adobest_pp.report import grade_samplers, write_report
from adobest_pp.report.answer_sources import poll_of_responses, simulated_poll
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


# ---------------------------------------------------------------- no error from within
class Unreadable:
    """An object of another library that NumPy and `repr` cannot read."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __repr__(self):
        raise RuntimeError("no text")


RESPONSES = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1, 2])
EVIDENCE = RESPONSES.evidence()
THETA, INDEX = [0.5, 0.3, 0.2], [0, 1, 2]
OTHERS = {
    "zero_sum": (ad.model.zero_sum, {"free": [[1.0, 0.0]]}),
    "multinomial_logit": (
        ad.model.multinomial_logit,
        {"covariates": [[0.0]], "coefficients": [[0.0, 0.0], [1.0, 0.0]]},
    ),
    "transition_matrix": (
        ad.model.transition_matrix,
        {"subset_mask": [True, False], "epsilon1": 1.0, "epsilon2": 1.0},
    ),
    "transition_rows": (
        ad.model.transition_rows,
        {"answers": [0], "subset_mask": [True, False], "epsilon1": 1.0, "epsilon2": 1.0},
    ),
    "marginal_log_likelihood": (ad.model.marginal_log_likelihood, {"theta": THETA, "evidence": EVIDENCE}),
    "pointwise_log_likelihood": (
        ad.model.pointwise_log_likelihood,
        {"theta": THETA, "evidence": EVIDENCE, "index": INDEX},
    ),
    "pairs_log_likelihood": (
        ad.model.pairs_log_likelihood,
        {"theta": [THETA], "evidence": EVIDENCE, "index": INDEX, "group": [0, 0, 0]},
    ),
    "GridPosterior.interval": (likelihood.grid_posterior(RESPONSES, 1.0, 10).interval, {"probability": 0.9}),
    "GridPosterior.level": (likelihood.grid_posterior(RESPONSES, 1.0, 10).level, {"probability": 0.9}),
    "write_report": (write_report, {"findings": None, "folder": "no/such/folder"}),
    "grade_samplers": (grade_samplers, {"poll": None}),
    "poll_of_responses": (poll_of_responses, {"path": "none.nc", "question": "Why?"}),
    "simulated_poll": (simulated_poll, {"n_people": 3, "question": "Why?"}),
    "Responses.to_netcdf": (RESPONSES.to_netcdf, {"path": "no/such/folder/x.nc", "overwrite": False}),
    "Responses.to_parquet": (RESPONSES.to_parquet, {"path": "no/such/folder/x.parquet", "overwrite": False}),
    "Collection.copy": (
        ad.Collection.create(policy=ad.SameQuestion(ad.SRR(3, 1.0))).copy,
        {"path": "no/such/folder/x.db"},
    ),
    "sample": (ad.sample, {"responses": RESPONSES, "sampler": "best", "progressbar": False}),
    "gather": (ad.gather, {"paths": "none", "allow_copies": False, "progressbar": False}),
    "concat": (ad.concat, {"responses": [RESPONSES], "allow_copies": False}),
    "collect_csv": (
        ad.collect.collect_csv,
        {"path": "none.csv", "column": "vote", "epsilon": 1.0, "ask_again": False, "out": "no/such/folder/x.nc"},
    ),
}


def raw_error(call, arguments):
    """Return an error that is no sentence of ours, if the call raises one."""
    try:
        call(**arguments)
    except (ValueError, OSError) as problem:
        is_ours = "adobest_pp" in traceback.extract_tb(problem.__traceback__)[-1].filename
        return None if is_ours and str(problem).isprintable() else problem
    except Exception as problem:
        return problem
    return None


@pytest.mark.parametrize(
    ("name", "step"),
    [*((name, 5) for name in OTHERS), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in OTHERS)],
)
def test_no_function_raises_an_error_from_within(name, step, tmp_path, monkeypatch):
    """Whatever is given for one argument: the call returns, or one sentence of ours tells what is wrong."""
    monkeypatch.chdir(tmp_path)
    call, good = OTHERS[name]
    hostile = [*(bad_inputs.hostile(place) for place in range(0, bad_inputs.n_hostile(), step)), Unreadable(), None]
    for argument in good:
        found = [raw_error(call, good | {argument: value}) for value in hostile]
        assert not any(found), (argument, [each for each in found if each])


def test_arrays_that_cannot_be_read_are_refused():
    for call in (
        lambda: likelihood.log_likelihood(Unreadable(), EVIDENCE),
        lambda: ad.sample(RESPONSES, prior=Unreadable()),
        lambda: ad.privacy_loss(Unreadable()),
        lambda: ad.Responses.from_arrays(ad.RRRR(3, 1.0), [0], Unreadable()),
        lambda: plots.plot_channel(ad.SRR(3, 1.0), ax=Unreadable()),
    ):
        with pytest.raises(ValueError, match=r"must be .*, got"):
            call()


def test_a_figure_is_drawn_on_axes_only():
    draws = xr.DataArray(
        np.full((1, 4, 3), 1 / 3), coords={"category": ["a", "b", "c"]}, dims=("chain", "draw", "category")
    )
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": draws})})
    for ax in (True, "x", np.zeros(3), object()):
        with pytest.raises(ValueError, match="axes must be"):
            plots.plot_estimates({"one": tree}, ax=ax)
