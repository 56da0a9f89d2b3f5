"""Any number of answers: files of every kind add up to the evidence of all answers, to the last bit."""

import errno
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import adobest_pp as ad
from adobest_pp.answers import DamagedAnswers, Gathered
from adobest_pp.answers.gather import pieces
from adobest_pp.answers.gather.gather import read_with_columns
from adobest_pp.answers.gather.tables import table_of
from adobest_pp.answers.gather.tallies import counted
from adobest_pp.likelihood.without_prior import check_fit
from tests.answers.test_merge import MECHANISMS, part, pieces_of
from tests.refusals import refuses
from tests.strategies import simulated

NAMES = ("yes, always", "no", "never")
LARGE = [ad.UnaryEncoding(30, 1.0), ad.SubsetSelection(40, 1.0), ad.LocalHashing(33, 1.0)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of few rows, so that even small files have several."""
    monkeypatch.setattr("adobest_pp.answers.gather.pieces._ROWS", 40)
    monkeypatch.setattr("adobest_pp.answers.gather.gathered._SETS_AT_ONCE", 16)


def write(responses, path):
    """Write a Parquet file of small groups of rows."""
    pq.write_table(table_of(responses), path, row_group_size=16, write_page_checksum=True)


def three(n=60, seed=1):
    """Responses of n people with labels."""
    found = simulated(ad.SRR(3, 1.0), n, seed)
    return ad.Responses.from_arrays(found.mechanism, found.answers, categories=NAMES)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *LARGE], ids=repr)
def test_files_add_up_to_the_last_bit_whatever_the_pieces(tmp_path, mechanism):
    whole = simulated(mechanism, 300, 1)
    kept = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for i, each in enumerate(pieces_of(whole, seed)):
            write(each, folder / f"{i}.parquet")
        gathered = ad.gather(folder, progressbar=False)
        assert gathered.evidence() == whole.evidence()
        assert (len(gathered), gathered.mechanism, gathered.n_empty) == (300, mechanism, 0)
        assert sum(each.answers for each in gathered.files.values()) == 300
        assert (gathered.store is not None) == (mechanism in LARGE)
        kept.append(gathered)
    if mechanism in LARGE:
        np.testing.assert_array_equal(kept[0].store.packed, kept[1].store.packed)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *LARGE], ids=repr)
def test_a_file_of_responses_comes_back(tmp_path, mechanism):
    whole = simulated(mechanism, 50, 3)
    whole.to_parquet(tmp_path / "a.parquet")
    assert ad.gather(tmp_path / "a.parquet", mechanism).evidence() == whole.evidence()
    with refuses("path", FileExistsError):
        whole.to_parquet(tmp_path / "a.parquet")


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *LARGE], ids=repr)
def test_counted_answers_are_checked_as_those_one_by_one(tmp_path, mechanism):
    whole = simulated(mechanism, 300, 1)
    whole.to_parquet(tmp_path / "a.parquet")
    expected, found = (check_fit(each) for each in (whole, ad.gather(tmp_path)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_answers_of_several_mechanisms_come_back(tmp_path):
    whole = ad.concat([simulated(mechanism, 30, i) for i, mechanism in enumerate(MECHANISMS)])
    write(whole, tmp_path / "a.parquet")
    assert ad.gather(tmp_path).evidence() == whole.evidence()


def forms_of(responses):
    """Return the same answers in every form that a column may have."""
    labels = [responses.categories[y] for y in responses.answers]
    return {
        "codes": pa.array(responses.answers),
        "small": pa.array(responses.answers.astype(np.uint8)),
        "floats": pa.array(responses.answers.astype(float)),
        "text": pa.array(labels),
        "large": pa.array(labels, type=pa.large_string()),
        "dictionary": pa.array(labels).dictionary_encode(),
        "numbered": pa.array(responses.answers).dictionary_encode(),
    }


@pytest.mark.parametrize("form", forms_of(three(3)))
def test_answers_are_codes_or_labels(tmp_path, form):
    responses = three()
    table = pa.table({"other": np.zeros(60), "said": forms_of(responses)[form]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=16)
    pa.feather.write_feather(table, tmp_path / "b.feather", chunksize=7)
    with pa.ipc.new_stream(tmp_path / "c.arrow", table.schema) as stream:
        stream.write_table(table, max_chunksize=9)
    gathered = ad.gather(tmp_path, responses.mechanism, column="said", categories=NAMES)
    evidence = responses.evidence()
    assert gathered.evidence() == evidence._replace(count=3 * evidence.count)
    assert gathered.categories == NAMES


def test_csv_files_have_codes_or_labels(tmp_path):
    responses = three()
    for name, form in (("codes", "codes"), ("labels", "text")):
        pa.csv.write_csv(pa.table({"answer": forms_of(responses)[form]}), tmp_path / f"{name}.csv")
    assert ad.gather(tmp_path / "codes.csv", responses.mechanism).evidence() == responses.evidence()
    gathered = ad.gather(tmp_path / "labels.csv", responses.mechanism, categories=NAMES)
    assert gathered.evidence() == responses.evidence()
    # Where labels are known, text is a label, even if it looks like a code.
    with pytest.raises(ValueError, match=r"column 'answer' must hold labels .* in '.*codes.csv'"):
        ad.gather(tmp_path, responses.mechanism, categories=NAMES)


def sets_in_forms(masks, names):
    """Return masks as a column of each form."""
    members = [np.flatnonzero(mask).tolist() for mask in masks]
    return {
        "packed": pa.array([np.packbits(mask).tobytes() for mask in masks], type=pa.binary(-(-masks.shape[1] // 8))),
        "bytes": pa.array([np.packbits(mask).tobytes() for mask in masks]),
        "text": pa.array(["".join("01"[int(bit)] for bit in mask) for mask in masks]),
        "members": pa.array(members, type=pa.list_(pa.int16())),
        "labels": pa.array([[names[i] for i in each] for each in members], type=pa.large_list(pa.string())),
    }


@pytest.mark.parametrize("form", sets_in_forms(np.eye(2, dtype=bool), "ab"))
@pytest.mark.parametrize("mechanism", [ad.RRRR(10, 1.0), ad.UnaryEncoding(10, 1.0), ad.SubsetSelection(10, 1.0, 3)])
def test_sets_are_bits_or_lists(tmp_path, form, mechanism):
    responses = simulated(mechanism, 40, 2)
    names = [f"c{i}" for i in range(10)]
    if mechanism.publishes_subset:
        forms = sets_in_forms(responses.subsets[responses.subset_index], names)
        table = {"answer": responses.answers, "subset": forms[form]}
    else:
        table = {"answer": sets_in_forms(mechanism.support(responses.answers), names)[form]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=16)
    assert ad.gather(tmp_path, mechanism, categories=names).evidence() == responses.evidence()
    if form == "text":
        pa.csv.write_csv(pa.table(table), tmp_path / "a.csv")
        assert ad.gather(tmp_path / "a.csv", mechanism).evidence() == responses.evidence()


def test_empty_values_are_counted_and_told(tmp_path, caplog):
    values = {
        "null.parquet": pa.array([0, None, 2]),
        "nan.parquet": pa.array([0.0, np.nan, 2.0]),
        "text.parquet": pa.array(["no", " ", None]),
        "dictionary.parquet": pa.array(["no", None, "never", ""]).dictionary_encode(),
    }
    for name, column in values.items():
        pq.write_table(pa.table({"answer": column}), tmp_path / name)
    (tmp_path / "lines.csv").write_text('answer\nno\n\nnever\n""\n')
    with caplog.at_level(logging.WARNING, "adobest_pp"):
        gathered = ad.gather(tmp_path, ad.SRR(3, 1.0), categories=NAMES)
    assert {os.path.basename(path): tuple(each) for path, each in gathered.files.items()} == {
        "dictionary.parquet": (2, 2),
        "lines.csv": (2, 2),
        "nan.parquet": (2, 1),
        "null.parquet": (2, 1),
        "text.parquet": (1, 2),
    }
    assert gathered.n_empty == 8
    assert len(gathered) == 9
    assert "8 of 17 rows have no answer and are left out: 2 in " in caplog.text
    assert "8 rows without an answer" in repr(gathered)


def test_empty_values_of_all_pieces_of_a_file_are_counted(tmp_path):
    table = pa.table({"answer": pa.array([0, None, 2] * 40)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=16)
    gathered = ad.gather(tmp_path, ad.SRR(3, 1.0))
    assert (len(gathered), gathered.n_empty) == (80, 40)


def test_a_row_without_a_subset_has_no_answer(tmp_path):
    table = {"answer": pa.array([0, 1, None]), "subset": pa.array([b"\x80", None, b"\x80"])}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    gathered = ad.gather(tmp_path, ad.RRRR(3, 1.0))
    assert (len(gathered), gathered.n_empty) == (1, 2)


def damage(path, group=5):
    """Flip the bits of the last byte of a group of rows."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(content)


def damaged_files(folder):
    """Write three files, damage two, one of them in its data alone, and return the answers of the whole one."""
    good, other = three(100, 1), three(100, 2)
    write(good, folder / "a.parquet")
    for name in ("b.parquet", "c.parquet"):
        write(other, folder / name)
    content = bytearray((folder / "b.parquet").read_bytes())
    (folder / "b.parquet").write_bytes(content[: len(content) // 2])
    damage(folder / "c.parquet")
    return good


def test_damaged_files_are_named_and_the_others_kept(tmp_path):
    good = damaged_files(tmp_path)
    with pytest.raises(
        DamagedAnswers, match=r"paths must name whole files, got '.*b.parquet' \(.*\) and 1 more"
    ) as info:
        ad.gather(tmp_path, ad.SRR(3, 1.0))
    assert [os.path.basename(path) for path in info.value.damaged] == ["b.parquet", "c.parquet"]
    assert "CRC" in info.value.damaged[str(tmp_path / "c.parquet")]
    assert info.value.gathered.evidence() == good.evidence()
    assert [os.path.basename(path) for path in info.value.gathered.files] == ["a.parquet"]


def test_a_damaged_file_leaves_nothing_in_the_store(tmp_path):
    mechanism = ad.UnaryEncoding(30, 1.0)
    good, other = (simulated(mechanism, 100, seed) for seed in (1, 2))
    write(good, tmp_path / "a.parquet")
    write(other, tmp_path / "b.parquet")
    damage(tmp_path / "b.parquet")
    with pytest.raises(DamagedAnswers) as info:
        ad.gather(tmp_path, store=tmp_path / "kept")
    assert info.value.gathered.evidence() == good.evidence()
    assert sorted(os.listdir(tmp_path / "kept")) == ["gathered.json", "sets.npy"]


def flipped(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_file_of_ours_is_known_by_its_checksum(tmp_path):
    path = tmp_path / "a.parquet"
    three(100).to_parquet(path)
    whole = path.read_bytes()
    for text, message in (
        (b"never", "its metadata has another SHA-256 than it states"),
        (b"adobest_pp.sha256", "its SHA-256 is not readable"),
        (b"adobest_pp.checksum", "its metadata has another SHA-256 than it states"),
        (b"PAR1", "its data has another SHA-256 than it states"),
    ):
        path.write_bytes(whole)
        flipped(path, whole.index(text))
        with pytest.raises(DamagedAnswers) as info:
            ad.gather(path, ad.SRR(3, 1.0))
        assert info.value.damaged == {str(path): message}
        assert len(info.value.gathered) == 0
        refused(tmp_path, rf"paths must name whole files, got '.*a.parquet' \({message}\)", path)


def test_a_table_that_another_program_wrote_again_has_no_checksum_and_is_read(tmp_path):
    whole = three(100)
    whole.to_parquet(tmp_path / "a.parquet")
    pq.write_table(pq.read_table(tmp_path / "a.parquet"), tmp_path / "b.parquet")
    assert ad.gather(tmp_path / "b.parquet").evidence() == whole.evidence()


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a", "b"],
        ["a", "b", "\x1b[31m"],
        ["a"],
        [1, 2, 3],
        ["a", "b", ["c"]],
        "abc",
        {"a": 1},
        None,
        ["a", "b", ""],
    ],
)
def test_labels_in_metadata_are_checked_as_everywhere(tmp_path, labels):
    table = table_of(three(20))
    written = json.loads(table.schema.metadata[b"adobest_pp"]) | {"categories": labels}
    pq.write_table(table.replace_schema_metadata({b"adobest_pp": json.dumps(written).encode()}), tmp_path / "a.parquet")
    refused(
        tmp_path,
        r"the metadata 'adobest_pp' must be as Responses.to_parquet writes it, got .* in '.*a.parquet'",
        tmp_path,
    )


@pytest.mark.parametrize("labels", [["a", "a", "b"], ["a", "b", "\x1b[31m"], ["a"], [1, 2, 3]])
def test_labels_of_a_dataset_are_checked_as_everywhere(tmp_path, labels):
    three().to_parquet(tmp_path / "a.parquet")
    dataset = ad.gather(tmp_path).to_xarray()
    notes = json.loads(dataset.attrs["notes"]) | {"categories": labels}
    with refuses("dataset"):
        Gathered.from_xarray(dataset.assign_attrs(notes=json.dumps(notes)))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda ds: ds.drop_attrs(), "got one without 'notes'"),
        (lambda ds: ds.assign_attrs(notes="{"), "dataset must be one of Gathered.to_xarray"),
        (lambda ds: ds.drop_vars("count"), "'count' must be there"),
        (lambda ds: ds.assign(count=-ds["count"]), "whole numbers of at least 1"),
        (lambda ds: ds.assign(key=ds["key"] * 1.0), "must be bytes"),
        (lambda ds: ds.assign(count=ds["count"] + 1), "must add up to 63"),
    ],
)
def test_a_dataset_that_is_not_ours_is_refused(tmp_path, edit, message):
    three().to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        Gathered.from_xarray(edit(ad.gather(tmp_path).to_xarray()))


def test_a_store_that_was_changed_is_refused(tmp_path):
    simulated(ad.UnaryEncoding(30, 1.0), 100, 1).to_parquet(tmp_path / "a.parquet")
    ad.gather(tmp_path, store=tmp_path / "kept")
    for name in ("sets.npy", "gathered.json"):
        path = tmp_path / "kept" / name
        whole = path.read_bytes()
        for content in (
            whole[:-1],
            whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
            b"{}",
            whole.replace(b"'" if name == "sets.npy" else b'"', b"?", 1),
        ):
            path.write_bytes(content)
            with pytest.raises(
                ValueError, match=r"store must be a folder that `gather` made, got .*, which is damaged"
            ):
                Gathered.open(tmp_path / "kept")
        path.write_bytes(whole)
    assert len(Gathered.open(tmp_path / "kept")) == 100


def test_a_store_is_kept_where_it_was_asked_for_and_removed_elsewhere(tmp_path):
    whole = simulated(ad.UnaryEncoding(30, 1.0), 100, 1)
    whole.to_parquet(tmp_path / "a.parquet")
    gathered = ad.gather(tmp_path / "a.parquet", store=tmp_path / "kept")
    opened = Gathered.open(tmp_path / "kept")
    assert opened.evidence() == whole.evidence()
    assert opened.files == gathered.files
    with refuses("store", FileExistsError):
        ad.gather(tmp_path / "a.parquet", store=tmp_path / "kept")
    with refuses("store"):
        Gathered.open(tmp_path)
    temporary = ad.gather(tmp_path / "a.parquet")
    folder = temporary.store.folder
    assert folder.is_dir()
    del temporary
    assert not folder.exists()


def test_a_dataset_comes_back(tmp_path):
    whole = three()
    whole.to_parquet(tmp_path / "a.parquet")
    gathered = ad.gather(tmp_path)
    again = Gathered.from_xarray(gathered.to_xarray())
    assert again.evidence() == whole.evidence()
    assert (again.categories, again.files) == (NAMES, gathered.files)


def refused(tmp_path, match, *args, error=ValueError, **kwargs):
    with pytest.raises(error, match=match) as info:
        ad.gather(*args, **kwargs)
    assert "\n" not in str(info.value)


def test_what_does_not_belong_together_is_refused(tmp_path):
    responses = three()
    write(responses, tmp_path / "a.parquet")
    write(simulated(ad.SRR(3, 2.0), 20, 1), tmp_path / "b.parquet")
    refused(tmp_path, r"one mechanism, SRR\(.*1.0\), got SRR\(.*2.0\) in '.*b.parquet'", tmp_path)
    refused(tmp_path, r"one mechanism, RRRR\(.*\), got SRR", tmp_path / "a.parquet", ad.RRRR(3, 1.0))
    write(ad.Responses.from_arrays(responses.mechanism, [0], categories=NAMES[::-1]), tmp_path / "b.parquet")
    refused(tmp_path, r"the categories \['yes, always'.* in this order, got \['never'.*b.parquet'", tmp_path)
    refused(tmp_path, r"with the categories \['x', 'y', 'z'\]", tmp_path / "a.parquet", categories=["x", "y", "z"])


def test_mixed_up_columns_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"answer": [0, 1], "x": ["a", "b"], "y": [2, 3], "z": [0.5, 1], "day": [None, None]}), path)
    srr = ad.SRR(3, 1.0)
    refused(tmp_path, r"mechanism must be given for files that do not name it", path)
    refused(
        tmp_path, r"column must be there once, got 'w', which .* has 0 times: it has \['answer'", path, srr, column="w"
    )
    refused(tmp_path, r"column 'x' must hold labels .* \(it is not shown\)", path, srr, column="x")
    refused(
        tmp_path, r"column 'y' must hold codes from 0 to 2 .* another number .* in '.*a.parquet'", path, srr, column="y"
    )
    refused(tmp_path, r"column 'z' must hold codes .* got a number that is not whole", path, srr, column="z")
    refused(tmp_path, r"got 'subset' \('subset' has the published subset\), which", path, ad.RRRR(3, 1.0))
    refused(
        tmp_path, r"column 'answer' must hold sets: 1 bytes .* got values of type int64", path, ad.UnaryEncoding(3, 1)
    )
    refused(tmp_path, r"column must be there once, got 'seed'", path, ad.LocalHashing(3, 1.0))
    refused(tmp_path, r"column must be the names of 2 columns for Local", path, ad.LocalHashing(3, 1.0), column="y")
    refused(tmp_path, r"column must hold text if categories are numbers", path, srr, categories=["1", "2", "3"])
    # A column without any value holds no answers, and the error says so.
    assert ad.gather(path, srr, column="day").n_empty == 2


@pytest.mark.parametrize(
    ("mechanism", "column", "match"),
    [
        (ad.UnaryEncoding(3, 1.0), [b"\xe1"], "bits beyond those of the 3 categories"),
        (ad.UnaryEncoding(3, 1.0), [b"\xe0\x00"], "got a value of another length"),
        (ad.UnaryEncoding(3, 1.0), ["102"], "got other text"),
        (ad.UnaryEncoding(3, 1.0), [[1, 1]], "got one twice in a list"),
        (ad.UnaryEncoding(3, 1.0), [[1, None]], "got an empty value in one"),
        (ad.SubsetSelection(3, 1.0, 1), [b"\xc0"], "answers must be sets of 1 categories each, got one of 2"),
    ],
)
def test_what_is_no_set_is_refused(tmp_path, mechanism, column, match):
    pq.write_table(pa.table({"answer": column}), tmp_path / "a.parquet")
    refused(tmp_path, match, tmp_path, mechanism)


def test_what_names_no_files_is_refused(tmp_path):
    srr = ad.SRR(3, 1.0)
    refused(
        tmp_path, "folder with files that end in .parquet, .*, which has none", tmp_path, srr, error=FileNotFoundError
    )
    pattern = str(tmp_path / "*.parquet")
    refused(tmp_path, "paths must match at least one file, got '.*', which", pattern, srr, error=FileNotFoundError)
    refused(tmp_path, "paths must be a path, a pattern or a list of them", [], srr)
    (tmp_path / "a.txt").write_text("x")
    refused(tmp_path, "files that end in .parquet, .*, got '.*a.txt'", tmp_path / "a.txt", srr)
    write(three(), tmp_path / "a.parquet")
    refused(tmp_path, "each file once, got '.*' and '.*', which are one file", [pattern, tmp_path / "a.parquet"], srr)
    refused(tmp_path, "scheduler must be an address", pattern, srr, scheduler="here")
    (tmp_path / "none.parquet").write_bytes(b"")
    refused(tmp_path, r"paths must name whole files, got '.*none.parquet'", tmp_path, srr, error=DamagedAnswers)
    assert part(three(), slice(0)).evidence() == ad.Responses(srr).evidence()


@pytest.mark.parametrize("values", [["secret"], [4711], [47.11], ["4711"]], ids=["text", "number", "float", "digits"])
@pytest.mark.parametrize("mechanism", [ad.SRR(3, 1.0), ad.UnaryEncoding(3, 1.0), ad.RRRR(3, 1.0)], ids=repr)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_column_that_was_named_by_mistake_is_not_shown(tmp_path, mechanism, values, form):
    table = pa.table({"answer": [0], "subset": ["000"], "phone": values})
    path = tmp_path / f"a.{form}"
    pq.write_table(table, path) if form == "parquet" else pa.csv.write_csv(table, path)
    with pytest.raises(ValueError, match="column 'phone' must hold") as caught:
        ad.gather(path, mechanism, column="phone")
    assert not any(part in str(caught.value).replace(str(path), "") for part in ("secret", "4711", "47.11"))


# ---------------------------------------------------------------- nobody is counted twice
def test_links_to_a_file_are_that_file(tmp_path):
    """However a file is named a second time: a hard link, a symbolic link, its folder twice or under a linked name."""
    srr, path = ad.SRR(3, 1.0), tmp_path / "in" / "a.parquet"
    path.parent.mkdir()
    write(three(3), path)
    os.link(path, tmp_path / "hard.parquet")
    (tmp_path / "soft.parquet").symlink_to(path)
    (tmp_path / "folder").symlink_to(path.parent, target_is_directory=True)
    for other in ("hard.parquet", "soft.parquet", "folder", "in", "in/*.parquet"):
        for allow_copies in (False, True):
            match = r"paths must name each file once, got '.*a.parquet' and '.*', which are one file"
            refused(tmp_path, match, [path, str(tmp_path / other)], srr, allow_copies=allow_copies)


@pytest.mark.parametrize("mechanism", [ad.SRR(3, 1.0), ad.RRRR(4, 1.0), ad.UnaryEncoding(30, 1.0)], ids=repr)
def test_copies_of_a_file_are_refused(tmp_path, mechanism):
    responses = simulated(mechanism, 100, 1)
    for name in ("a", "b"):
        write(responses, tmp_path / f"{name}.parquet")
    write(simulated(mechanism, 100, 2), tmp_path / "c.parquet")
    match = (
        r"paths must hold answers of different people, got '.*a.parquet' and '.*b.parquet', which hold the same 100 "
        r"answers in the same order: leave one out, or pass allow_copies=True if they are different people's"
    )
    refused(tmp_path, match, tmp_path, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    assert len(ad.gather(tmp_path, allow_copies=True)) == 300
    assert len(ad.gather([tmp_path / "a.parquet", tmp_path / "c.parquet"])) == 200


def test_pieces_of_a_copy_count_together(tmp_path, monkeypatch):
    """No piece of 16 answers proves a copy; all seven do."""
    monkeypatch.setattr("adobest_pp.answers.gather.pieces._ROWS", 1)
    for name in ("a", "b"):
        write(simulated(ad.SRR(2, 1.0), 100, 1), tmp_path / f"{name}.parquet")
    refused(tmp_path, "paths must hold answers of different people", tmp_path)


def test_few_answers_may_be_equal_by_chance(tmp_path, caplog):
    """One answer a file is equal in many files; 25 equal ones are worth a warning, and all of one kind no more."""
    for i in range(30):
        (tmp_path / f"{i}.csv").write_text(f"answer\n{i % 3}\n")
    with caplog.at_level(logging.WARNING, "adobest_pp"):
        assert len(ad.gather(tmp_path, ad.SRR(3, 1.0))) == 30
        assert not caplog.text
        for name in ("x", "y"):
            (tmp_path / f"{name}.csv").write_text("answer\n" + "0\n" * 25)
        assert len(ad.gather(tmp_path, ad.SRR(3, 1.0))) == 80
    assert caplog.text.count("Check that you have not counted people twice: ") == 1
    assert "y.csv', which hold the same 25 answers in the same order" in caplog.text


def test_files_that_only_begin_alike_are_no_copies(tmp_path, monkeypatch):
    monkeypatch.setattr("adobest_pp.answers.concat._START", 16)
    for name, last in (("a", 0), ("b", 1), ("c", 2)):
        (tmp_path / f"{name}.csv").write_text("answer\n" + "0\n1\n2\n" * 50 + f"{last}\n")
    assert len(ad.gather(tmp_path, ad.SRR(3, 1.0))) == 453


# ---------------------------------------------------------------- kills, full disks and damage
UNARY = ad.UnaryEncoding(30, 1.0)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


DYING = """
import sys
import adobest_pp as ad
from adobest_pp.answers.gather.gathered import StoreWriter

def die(*_):
    raise SystemExit

StoreWriter.finish, StoreWriter.discard = die, lambda self: None  # as a kill would: nothing is cleaned up
for options in {}, {"store": sys.argv[2]}:
    try:
        ad.gather(sys.argv[1], **options)
    except SystemExit:
        pass
"""


def test_what_a_killed_process_leaves_does_not_block_the_next(tmp_path, temporary):
    whole = simulated(UNARY, 100, 1)
    whole.to_parquet(tmp_path / "a.parquet")
    arguments = [str(tmp_path / "a.parquet"), str(tmp_path / "store")]
    subprocess.run([sys.executable, "-c", DYING, *arguments], check=True, env=os.environ | {"TMPDIR": str(temporary)})
    (left,) = os.listdir(temporary)
    assert os.listdir(temporary / left)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".store.")]
    assert not (tmp_path / "store").exists()
    gathered = ad.gather(tmp_path / "a.parquet")
    assert os.listdir(temporary) == [gathered.store.folder.name] != [left]
    del gathered
    assert not os.listdir(temporary)
    assert ad.gather(*arguments[:1], store=arguments[1]).evidence() == whole.evidence()
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "store", "temporary"]


@pytest.mark.parametrize("store", [None, "store"])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, temporary, store):
    """A real limit of the operating system, on the pieces and on the file that they are joined in."""
    simulated(UNARY, 400, 1).to_parquet(tmp_path / "a.parquet")
    options = {} if store is None else {"store": tmp_path / store}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (100, 1000, 1700):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(
                OSError, match=r"the answers could not be kept in '.*, and nothing of them is left"
            ) as info:
                ad.gather(tmp_path / "a.parquet", progressbar=False, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert info.value.errno == errno.EFBIG
        assert "\n" not in str(info.value)
        assert sorted(os.listdir(tmp_path)) == ["a.parquet", "temporary"]
        assert not os.listdir(temporary)


def test_a_damaged_store_is_refused(tmp_path):
    """Every kind of damage to either file: 200 flips, cuts and zeroed blocks."""
    simulated(UNARY, 100, 1).to_parquet(tmp_path / "a.parquet")
    ad.gather(tmp_path / "a.parquet", store=tmp_path / "store")
    rng = np.random.default_rng(1)
    for name in ("sets.npy", "gathered.json"):
        path = tmp_path / "store" / name
        good = path.read_bytes()
        for place in rng.integers(0, len(good), 100):
            bad = bytearray(good)
            bad[place] ^= 1 << rng.integers(8)
            for content in (bytes(bad), good[:place], good[:place] + bytes(len(good) - place)):
                path.write_bytes(content)
                with refuses("store"):
                    Gathered.open(tmp_path / "store")
        path.write_bytes(good)
    assert len(Gathered.open(tmp_path / "store")) == 100


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_a_csv_file_in_another_encoding_is_told(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("answer\n0\n1\n2\n", encoding=encoding)
    match = r"got '.*a.csv' \(its text is not in UTF-8: save it as UTF-8\)"
    refused(tmp_path, match, path, ad.SRR(3, 1.0), error=DamagedAnswers)


def test_a_damaged_file_that_is_read_with_public_columns_is_named(tmp_path):
    rows = pa.table({"answer": np.arange(3000) % 3, "region": ["north", "south", "east"] * 1000})
    pq.write_table(rows, tmp_path / "a.parquet")
    pa.feather.write_feather(rows, tmp_path / "a.arrow")
    pa.csv.write_csv(rows, tmp_path / "a.csv")
    for path in sorted(tmp_path.iterdir()):
        found, public = read_with_columns(path, ["region", "answer", "region"], ad.SRR(3, 1.0))
        assert len(found) == len(public["region"]) == len(public["answer"]) == 3000
        content = bytearray(path.read_bytes())
        content[100:300] = b"\xff" * 200
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"whole file, got '.*{path.name}' \(") as damaged:
            read_with_columns(path, ["region"], ad.SRR(3, 1.0))
        assert type(damaged.value) is ValueError


def test_a_public_column_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("answer,region,region\n0,north,south\n")
    with pytest.raises(ValueError, match=r"'region' must be in the file .* once"):
        read_with_columns(tmp_path / "a.csv", ["region"], ad.SRR(3, 1.0))


def bombs():
    """Tables of a few kilobytes that unpack to more than answers of so many people can take."""
    zeros = pa.array(np.zeros(1_000_000, dtype=np.int32))
    return {
        "a list of zeros": pa.ListArray.from_arrays(pa.array([0, len(zeros)], pa.int32()), zeros),
        "a long text": pa.array(["0" * 2_000_000]),
    }


@pytest.mark.parametrize("bomb", bombs().values(), ids=bombs())
def test_a_few_bytes_do_not_unpack_to_much_more_than_answers(tmp_path, bomb):
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"answer": bomb}), path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 20_000
    with pytest.raises(DamagedAnswers, match="its values take more memory than answers do"):
        ad.gather(path, ad.SubsetSelection(6, epsilon=1.0), progressbar=False)


def test_rows_without_data_are_counted_a_few_at_a_time(tmp_path, monkeypatch):
    """A batch of nulls has no bytes, whatever the number of its rows."""
    seen = []

    def counting(batch, question):
        seen.append(batch.num_rows)
        return counted(batch, question)

    monkeypatch.setattr(pieces, "ROWS_OF_A_GROUP", 1000)
    monkeypatch.setattr(pieces, "counted", counting)
    with pa.ipc.new_file(str(tmp_path / "nulls.arrow"), pa.schema({"answer": pa.null()})) as writer:
        writer.write_batch(pa.record_batch({"answer": pa.nulls(2500)}))
    assert ad.gather(tmp_path / "nulls.arrow", ad.SRR(3, epsilon=1.0), progressbar=False).n_empty == 2500
    assert seen == [1000, 1000, 500]


def test_what_does_not_fit_into_memory_is_told_in_a_sentence(tmp_path, monkeypatch):
    write(three(), tmp_path / "a.parquet")
    monkeypatch.setattr(pieces, "counted", Mock(side_effect=MemoryError))
    with pytest.raises(DamagedAnswers, match="than there is"):
        ad.gather(tmp_path / "a.parquet", progressbar=False)


def test_views_of_text_are_text(tmp_path):
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), pa.schema({"answer": pa.string_view()})) as writer:
        writer.write_batch(pa.record_batch({"answer": pa.array(["b", None, "", "a", "b"], pa.string_view())}))
    found = ad.gather(tmp_path / "a.arrow", ad.SRR(3, epsilon=1.0), categories=["a", "b", "c"], progressbar=False)
    assert (len(found), found.n_empty) == (3, 2)
