"""What the collector holds: building, appending, files, and what is refused."""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given

from adobest_pp import RRRR, SRR, HadamardResponse, LocalHashing, Responses, SubsetSelection, UnaryEncoding
from tests.refusals import refuses
from tests.strategies import data_sets, simulated

MECHANISMS = [
    SRR(5, 1.0),
    RRRR(5, 1.0, 0.8),
    RRRR.from_budgets(5, 0.8, [1, 1, 0.5, 0.5, 0]),
    SubsetSelection(5, 1.0, 2),
]
LABELS = ["red", "green", "blue", "grün", "<b>"]


def assert_same(first, second):
    assert first.mechanism == second.mechanism
    assert first.categories == second.categories
    assert np.array_equal(first.answers, second.answers)
    assert np.array_equal(
        first.subsets[first.subset_index] if len(first.subsets) else first.subsets,
        second.subsets[second.subset_index] if len(second.subsets) else second.subsets,
    )
    assert first.evidence() == second.evidence()


def labelled(mechanism, n=30):
    plain = simulated(mechanism, n, 7)
    tables = {"subsets": plain.subsets, "subset_index": plain.subset_index} if mechanism.publishes_subset else {}
    return Responses.from_arrays(mechanism, plain.answers, categories=LABELS, **tables)


@given(data_sets())
def test_arrays_round_trip(responses):
    tables = {}
    if responses.mechanism.publishes_subset:
        tables = {"subsets": responses.subsets, "subset_index": responses.subset_index}
    assert_same(responses, Responses.from_arrays(responses.mechanism, responses.answers, **tables))
    assert_same(responses, Responses.from_xarray(responses.to_xarray()))


@pytest.mark.parametrize("mechanism", [SRR(3, 1.0), SubsetSelection(3, 1.0), LocalHashing(3, 1.0)], ids=repr)
def test_who_changes_the_answers_changes_a_copy(mechanism):
    responses = simulated(mechanism, 20, 1)
    before = responses.answers
    responses.answers[:] = 0
    np.testing.assert_array_equal(responses.answers, before)
    assert before.any()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("n", [0, 30])
def test_files_round_trip(mechanism, n, tmp_path):
    responses = labelled(mechanism, n)
    responses.to_netcdf(tmp_path / "responses.nc")
    assert_same(responses, Responses.from_netcdf(tmp_path / "responses.nc"))
    assert [path.name for path in tmp_path.iterdir()] == ["responses.nc"]


def test_a_file_is_readable_without_us(tmp_path):
    responses = labelled(RRRR(5, 1.0, 0.8))
    responses.to_netcdf(str(tmp_path / "responses.nc"))
    with xr.open_dataset(tmp_path / "responses.nc") as dataset:
        assert dataset.attrs["schema"] == "adobest_pp.responses"
        assert (dataset.attrs["mechanism"], dataset.attrs["epsilon"], dataset.attrs["kappa"]) == ("RRRR", 1.0, 0.8)
        assert dataset["category"].values.tolist() == LABELS
        assert dataset["answer"].dims == ("response",)
        assert dataset["subset_mask"].dims == ("subset", "category")
        assert np.array_equal(dataset["subset_index"], responses.subset_index)
        assert json.loads(dataset.attrs["mechanism_settings"])["n_categories"] == 5


def test_one_subset_for_all_answers():
    mechanism = RRRR(4, 1.0)
    for subset in ([1, 2], np.array([False, True, True, False])):
        responses = Responses.from_arrays(mechanism, [0, 1, 2], subset)
        assert responses.subsets.tolist() == [[False, True, True, False]]
        assert responses.subset_index.tolist() == [0, 0, 0]


@pytest.mark.parametrize("mechanism", [SRR(5, 1.0), SubsetSelection(5, 1.0, 2)])
def test_without_rrrr_there_are_no_published_subsets(mechanism):
    responses = simulated(mechanism, 30, 7)
    assert responses.subsets.shape == (0, 5)
    assert responses.subset_index.shape == (0,)


def test_append_grows_one_by_one_like_all_at_once():
    mechanism = RRRR(4, 1.0)
    rng = np.random.default_rng(0)
    answers, masks = rng.integers(4, size=200), rng.random((200, 4)) < 0.4
    masks[:, 3] = False
    one_by_one = Responses(mechanism)
    for answer, mask in zip(answers, masks, strict=True):
        one_by_one.append(answer, mask)
    assert_same(one_by_one, Responses.from_arrays(mechanism, answers, masks))
    assert len(one_by_one) == 200
    assert len(one_by_one.subsets) == len(np.unique(masks, axis=0))


def test_what_is_handed_out_is_a_copy():
    responses = labelled(RRRR(5, 1.0))
    before = responses.evidence()
    responses.answers[:] = 0
    responses.subsets[:] = False
    responses.subset_index[:] = 0
    dataset = responses.to_xarray()
    dataset["answer"][:] = 0
    dataset["subset_mask"][:] = False
    assert responses.evidence() == before


def test_repr_is_short_and_plain():
    assert repr(labelled(SRR(5, 1.0))) == "<Responses: 30 answers, SRR(n_categories=5, epsilon=1.0)>"
    assert "distinct subsets" in repr(labelled(RRRR(5, 1.0)))


def test_many_categories_and_sets_that_differ_only_far_out(tmp_path):
    mechanism = RRRR(300, 1.0)
    responses = Responses(mechanism)
    for last in (299, 298, 70, 299):
        responses.append([250, 3], [0, last])
    assert responses.evidence().n_sets == 3
    assert responses.subsets.sum(axis=1).tolist() == [2, 2, 2]
    responses.to_netcdf(tmp_path / "responses.nc")
    assert_same(responses, Responses.from_netcdf(tmp_path / "responses.nc"))


def test_subsets_are_kept_in_order_of_first_use_and_only_if_used():
    masks = np.array([[False, True, False], [True, False, False], [False, False, True]])
    responses = Responses.from_arrays(RRRR(3, 1.0), [0, 1, 0], masks, [2, 0, 2])
    assert responses.subsets.tolist() == masks[[2, 0]].tolist()
    assert responses.subset_index.tolist() == [0, 1, 0]
    responses.append([], [1, 2])  # nobody answered under this one
    assert len(responses.subsets) == 2


@pytest.mark.parametrize("column", ["_answers", "_set_index", "_sets"])
def test_an_append_that_is_interrupted_changes_nothing(column, monkeypatch):
    responses = labelled(RRRR(5, 1.0))
    before = responses.to_xarray()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(getattr(responses, column), "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            responses.append([0, 1], [0, 1, 2, 3])
    xr.testing.assert_identical(responses.to_xarray()[["answer", "subset_index"]], before[["answer", "subset_index"]])
    responses.append([0, 1], [0, 1, 2, 3])
    again = labelled(RRRR(5, 1.0))
    again.append([0, 1], [0, 1, 2, 3])
    assert responses.evidence() == again.evidence()


# ---------------------------------------------------------------- labels as answers
GIVEN = ["blue", "red", "grün", "red"]
AS_LABELS = {
    "list": GIVEN,
    "tuple": tuple(GIVEN),
    "array": np.array(GIVEN),
    "objects": np.array(GIVEN, dtype=object),
    "StringDType": np.array(GIVEN, dtype=np.dtypes.StringDType()),
    "Series": pd.Series(GIVEN, index=[9, 8, 7, 6]),
    "Categorical": pd.Categorical(GIVEN),  # its own codes are in the order of the alphabet
    "Series of categories": pd.Series(GIVEN, dtype="category"),
    "DataArray": xr.DataArray(GIVEN, dims="response"),
    "decomposed, with blanks": ["blue ", "red", "gru\u0308n", "red"],
}


@pytest.mark.parametrize("mechanism", [SRR(5, 1.0), RRRR(5, 1.0)], ids=repr)
@pytest.mark.parametrize("form", AS_LABELS)
def test_labels_are_the_answers_that_they_name(mechanism, form):
    published = [0] if mechanism.publishes_subset else None
    found = Responses.from_arrays(mechanism, AS_LABELS[form], published, categories=LABELS)
    assert found.answers.tolist() == [2, 0, 3, 0]
    found.append(AS_LABELS[form], published)
    found.append("green", published)
    assert found.answers.tolist() == [2, 0, 3, 0, 2, 0, 3, 0, 1]
    tables = {"subsets": np.eye(5, dtype=bool), "subset_index": [4, 3, 2, 1]} if mechanism.publishes_subset else {}
    assert Responses.from_arrays(mechanism, AS_LABELS[form], categories=LABELS, **tables).answers.tolist() == [
        2,
        0,
        3,
        0,
    ]


def test_sets_of_labels_have_any_order():
    rows = [["blue", "red"], ["green", "<b>"]]
    for table in (rows, np.array(rows), pd.DataFrame(rows)):
        found = Responses.from_arrays(SubsetSelection(5, 1.0, 2), table, categories=LABELS)
        assert found.answers.tolist() == [[0, 2], [1, 4]]
    found.append(["grün", "green"])
    assert found.answers[-1].tolist() == [1, 3]
    for bad in (["red", "red"], ["red"], [["red", "blue"], ["red"]], "red"):
        with refuses("answers"):
            found.append(bad)
    assert len(found) == 3


@pytest.mark.parametrize(
    "answers",
    [
        *(["red", "secret"], "secret", ["red", None], ["red", 1], [b"red"], ["Red"], [""]),
        *(pd.Categorical(["red", None]), np.ma.masked_array(["red"], mask=[False])),
    ],
    ids=repr,
)
def test_text_that_is_no_label_is_refused_and_changes_nothing(answers):
    responses = labelled(SRR(5, 1.0))
    with refuses("answers") as refusal:
        responses.append(answers)
    assert "secret" not in str(refusal.value)
    assert_same(responses, labelled(SRR(5, 1.0)))


def test_other_answers_are_not_labels():
    for mechanism in (UnaryEncoding(2, 1.0), HadamardResponse(2, 1.0)):
        with refuses("answers"):
            Responses.from_arrays(mechanism, ["no", "yes"], categories=["no", "yes"])


def test_integers_are_codes_and_a_column_of_numbers_that_may_be_labels_is_refused():
    mechanism, stars = SRR(3, 1.0), [1, 2, 3]
    assert Responses.from_arrays(mechanism, [1, 2, 0], categories=stars).answers.tolist() == [1, 2, 0]
    assert Responses.from_arrays(mechanism, ["1", "3"], categories=stars).answers.tolist() == [0, 2]
    for column in (pd.Series([1, 2]), pd.Categorical([1, 2]), pd.Series([1, 2], dtype="category")):
        with refuses("answers"):
            Responses.from_arrays(mechanism, column, categories=stars)
        assert Responses.from_arrays(mechanism, column.astype(str), categories=stars).answers.tolist() == [0, 1]
        for unambiguous in (["a", "b", "c"], [0, 1, 2], None):
            assert Responses.from_arrays(mechanism, column, categories=unambiguous).answers.tolist() == [1, 2]


# ---------------------------------------------------------------- bad input
BAD_ANSWERS = [5, -1, [0, 9], 1.0, [0.5], [np.nan], "a", [[0, 1]], [None], [True], [[0], [1, 2]]]


@pytest.mark.parametrize("answers", BAD_ANSWERS)
def test_a_failed_append_changes_nothing(answers):
    for mechanism, arguments in ((SRR(5, 1.0), {}), (RRRR(5, 1.0), {"subset": [4]})):
        responses = labelled(mechanism)
        before = responses.to_xarray()
        with refuses("answers"):
            responses.append(answers, **arguments)
        xr.testing.assert_identical(responses.to_xarray(), before)
        assert_same(responses, labelled(mechanism))


@pytest.mark.parametrize("answers", [[0, 5], [1, 0], [0, 0], [0, 1, 2], 0, [[0, 1], [2, 1]], [0.0, 1.0], [[[0, 1]]]])
def test_a_failed_append_of_sets_changes_nothing(answers):
    responses = labelled(SubsetSelection(5, 1.0, 2))
    before = responses.to_xarray()
    with refuses("answers"):
        responses.append(answers)
    xr.testing.assert_identical(responses.to_xarray(), before)


@pytest.mark.parametrize("subset", [[7], range(5), None, [0, 0], "x"])
def test_a_failed_append_under_a_bad_subset_changes_nothing(subset):
    responses = labelled(RRRR(5, 1.0))
    before = responses.to_xarray()
    with refuses("subset"):
        responses.append([0, 1], subset)
    xr.testing.assert_identical(responses.to_xarray(), before)


def test_subsets_belong_to_rrrr_alone():
    with refuses("subset"):
        Responses(SRR(3, 1.0)).append(0, subset=[1])
    with refuses("subsets"):
        Responses.from_arrays(SRR(3, 1.0), [0], subsets=np.zeros((1, 3), dtype=bool))


@pytest.mark.parametrize(
    ("subsets", "index", "name"),
    [
        (np.zeros((1, 3)), [0, 0], "subsets"),
        (np.zeros((1, 4), dtype=bool), [0, 0], "subsets"),
        (np.ones((1, 3), dtype=bool), [0, 0], "subsets"),
        (None, [0, 0], "subsets"),
        (np.zeros((1, 3), dtype=bool), [0, 1], "subset_index"),
        (np.zeros((1, 3), dtype=bool), [0, -1], "subset_index"),
        (np.zeros((1, 3), dtype=bool), [0.0, 0.0], "subset_index"),
        (np.zeros((1, 3), dtype=bool), [0], "subset_index"),
        (np.zeros((3, 3), dtype=bool), None, "subset_index"),
    ],
)
def test_bad_tables_of_subsets(subsets, index, name):
    with pytest.raises(ValueError, match=f"{name} must "):
        Responses.from_arrays(RRRR(3, 1.0), [0, 1], subsets, index)


@pytest.mark.parametrize(
    "categories", [["a", "b"], ["a", "b", "b"], "abc", [], {"a", "b", "c"}, 3, ["a\0", "b", "c"], ["\ud800", "b", "c"]]
)
def test_bad_labels(categories):
    with refuses("categories"):
        Responses(SRR(3, 1.0), categories)


def test_bad_mechanism():
    with refuses("mechanism"):
        Responses("SRR")


# ---------------------------------------------------------------- bad files
@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "responses.nc"
    labelled(RRRR(5, 1.0)).to_netcdf(path)
    return path


@pytest.mark.parametrize("kept", [0, 10, 0.3, 0.7, 0.95])
def test_a_truncated_file_is_refused(stored, kept):
    content = stored.read_bytes()
    stored.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(ValueError, match="damaged or not a netCDF file"):
        Responses.from_netcdf(stored)


def change(path, edit):
    with xr.open_dataset(path) as opened:
        dataset = opened.load()
    edit(dataset).to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda ds: ds.assign_attrs(schema_version=99), "schema version must be 2, got 99: upgrade"),
        (lambda ds: ds.assign_attrs(schema="somebody.else"), "'schema' must be"),
        (lambda ds: ds.drop_attrs(), "'schema' must be"),
        (
            lambda ds: ds.assign_attrs(mechanism_settings="{not json"),
            "'mechanism_settings' must be settings of a mechanism",
        ),
        (
            lambda ds: ds.assign_attrs(mechanism_settings="[" * 100_000),
            "'mechanism_settings' must be settings of a mechanism",
        ),
        (lambda ds: ds.assign_attrs(mechanism_settings="[]"), "path must name a response file"),
        (lambda ds: ds.assign_attrs(schema_version="newest"), "path must name a response file"),
        (lambda ds: ds.assign_attrs(schema_version=[1, 2]), "schema version must be a whole number"),
        (lambda ds: ds.assign_attrs(schema_version=0), "schema version must be a whole number"),
        (lambda ds: ds.assign_attrs(mechanism_settings=3), "path must name a response file"),
        (lambda ds: ds.assign(subset_mask=ds["subset_mask"] * 0.5), "subset_mask"),
        (lambda ds: ds.drop_vars("category"), "the coordinate 'category'"),
        (lambda ds: ds.drop_vars("answer"), "answer"),
        (lambda ds: ds.drop_vars("subset_mask"), "subset_mask"),
        (lambda ds: ds.assign(answer=ds["answer"] + 5), "answers must be"),
        (lambda ds: ds.assign(subset_index=ds["subset_index"] + 99), "every subset that was published"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(stored, edit, reason):
    change(stored, edit)
    with pytest.raises(ValueError, match=reason):
        Responses.from_netcdf(stored)


def test_a_file_of_something_else_is_refused(tmp_path):
    text = tmp_path / "notes.nc"
    text.write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match="damaged or not a netCDF file"):
        Responses.from_netcdf(text)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Responses.from_netcdf(tmp_path / "nothing.nc")


def test_a_write_that_fails_leaves_the_old_file(stored, monkeypatch):
    before = stored.read_bytes()

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="could not be written, and nothing was changed: No space left on device"):
        labelled(SRR(5, 1.0)).to_netcdf(stored, overwrite=True)
    assert stored.read_bytes() == before
    assert [path.name for path in stored.parent.iterdir()] == ["responses.nc"]


def test_nothing_is_overwritten_unasked(stored):
    before = stored.read_bytes()
    with refuses("path", FileExistsError):
        labelled(SRR(5, 1.0)).to_netcdf(stored)
    assert stored.read_bytes() == before
    labelled(SRR(5, 1.0)).to_netcdf(stored, overwrite=True)
    assert_same(Responses.from_netcdf(stored), labelled(SRR(5, 1.0)))


def test_a_killed_write_leaves_a_whole_file(tmp_path):
    """Kill a process that rewrites a file over and over, at several moments; the file is whole each time."""
    path = tmp_path / "responses.nc"
    program = textwrap.dedent(f"""
        import numpy as np
        from adobest_pp import SRR, Responses
        sizes = [Responses.from_arrays(SRR(5, 1.0), np.zeros(n, dtype=int)) for n in (1000, 200_000)]
        while True:
            for responses in sizes:
                responses.to_netcdf({str(path)!r}, overwrite=True)
                print("written", flush=True)
    """)
    for delay in (0.0, 0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
        assert len(Responses.from_netcdf(path)) in (1000, 200_000)


def test_a_file_with_a_damaged_root_is_refused_by_one_sentence_and_nothing_else(tmp_path):
    """Byte 96 is in the root group of the HDF5 file; what Python cannot raise is a warning here, and so an error."""
    path = tmp_path / "responses.nc"
    Responses.from_arrays(SRR(3, 1.0), [0, 1, 2]).to_netcdf(path)
    content = bytearray(path.read_bytes())
    content[96] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged or not a netCDF file"):
        Responses.from_netcdf(path)
    gc.collect()
