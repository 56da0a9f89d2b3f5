"""The rules of a file of people, and that no value of a person is shown where it breaks one."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from adobest_pp.collect import collect_csv
from adobest_pp.collect.people_table import NO_VALUE, as_categories, as_numbers, read_texts
from tests.contracts.commands import refusal
from tests.refusals import refuses

SECRETS = ["quetzal", "axolotl", "okapi"]


def read_column(path, column, categories):
    return as_categories(read_texts(path, [column])[column], column, categories)


@pytest.fixture
def people(tmp_path):
    values = np.random.default_rng(0).choice(SECRETS, size=60, p=[0.6, 0.3, 0.1])
    path = tmp_path / "people.csv"
    path.write_text("id,vote\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    return path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("vote,vote\nquetzal,okapi\n", "column must be named once in .* 2 times"),
        ("vote, vote\nquetzal,okapi\n", "column must be named once in .* 2 times"),
        ("quetzal,okapi\nokapi,quetzal\n", "column must be named once in .* 0 times"),
        ("id,vote\n1,quetzal\n2,okapi,3\n", "path must name a CSV .* the header has 2 cells, row 3 has 3"),
        ("id,vote\n1,quetzal\n2\n", "path must name a CSV .* the header has 2 cells, row 3 has 1"),
        ('id,vote\n1,"quetzal\n2,okapi\n', "path must name a CSV .* a quotation mark is not closed"),
        ("vote\nokapi\nquet\0zal\n", "without control characters, got another for person 2"),
        ('vote\nokapi\n"quet\nzal"\n', "without control characters, got another for person 2"),
        ("vote\nokapi\n\u200b\n", "got another for person 2"),
        ("vote\nquetzal\nque\u200btzal\nokapi\n", "person 2 that only looks like"),
        ("vote\nred quetzal\nred\u00a0quetzal\n", "person 2 that only looks like"),
        ("", "path must name a CSV"),
    ],
)
def test_a_file_that_breaks_the_rules_is_refused_by_the_number_of_the_person(tmp_path, content, reason):
    path = tmp_path / "people.csv"
    path.write_text(content, encoding="utf-8", newline="")
    with pytest.raises(ValueError, match=reason) as caught:
        collect_csv(path, "vote", 1.0)
    message = str(caught.value).replace(str(path), "")
    assert not any(part in message for part in ("quet", "zal", "okapi"))
    assert message.isprintable()


def test_white_space_at_the_ends_and_the_composition_of_characters_do_not_count(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id, vote \n1, caf\u00e9\n2,cafe\u0301 \n3,tea\n", encoding="utf-8")
    x, labels = read_column(path, "vote", None)
    assert labels == ["caf\u00e9", "tea"]
    assert x.tolist() == [0, 0, 1]
    assert read_column(path, "vote", ["tea", "cafe\u0301"])[0].tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="not that of person 3"):
        read_column(path, "vote", ["mate", "caf\u00e9"])


def test_an_empty_value_keeps_its_place(tmp_path):
    path = tmp_path / "people.csv"
    for content in ("vote\nokapi\n\n  \nquetzal\n", 'id,vote\n1,okapi\n2,\n3,""\n4,quetzal\n'):
        path.write_text(content)
        x, labels = read_column(path, "vote", None)
        assert labels == ["okapi", "quetzal"]
        assert x.tolist() == [0, NO_VALUE, NO_VALUE, 1]


@pytest.mark.parametrize(
    "categories", ["quetzal,okapi,axolotl,", ",quetzal,okapi,axolotl", "quetzal,,okapi,axolotl", ""]
)
def test_an_empty_category_is_refused(categories):
    options = ("--column", "vote", "--epsilon", "1", "--out", "r.nc", "--categories", categories)
    assert "--categories must be labels separated by single commas" in refusal(("collect", "people.csv", *options))


@pytest.mark.parametrize("categories", [["quetzal", "okapi", "axolotl", "okapi "], ["a", "a"], "ab", 3, []])
def test_categories_that_cannot_be_told_apart_are_refused(people, categories):
    with refuses("categories"):
        collect_csv(people, "vote", 1.0, categories=categories)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_tables_of_people_are_read_by_column(tmp_path, people, ending):
    expected, labels = read_column(people, "vote", None)
    values = pa.array([labels[i] for i in expected])
    table = pa.table(
        {"vote": values.dictionary_encode(), "code": expected, "share": expected / 2, "void": pa.nulls(60)}
    )
    path = tmp_path / f"people.{ending}"
    (pq.write_table if ending == "parquet" else feather.write_feather)(table, path)
    found, same = read_column(path, "vote", None)
    np.testing.assert_array_equal(found, expected)
    assert same == labels
    np.testing.assert_array_equal(read_column(path, "code", ["0", "1", "2"])[0], expected)
    assert read_column(path, "void", ["0", "1"])[0].tolist() == [NO_VALUE] * 60
    for column, reason in (
        ("share", "column must hold text, integers or booleans, got values of type double"),
        ("void", "categories must be at least two, got 0"),
        ("none", "column must be named once in .* got 'none', which it has 0 times"),
    ):
        with pytest.raises(ValueError, match=reason) as info:
            read_column(path, column, None)
        assert not any(secret in str(info.value) for secret in SECRETS)
    with pytest.raises(ValueError, match="but not that of person") as info:
        read_column(path, "vote", SECRETS[:2])
    assert not any(secret in str(info.value) for secret in SECRETS)
    path.write_bytes(path.read_bytes()[:100])
    with refuses("path"):
        read_column(path, "vote", None)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_a_file_in_another_encoding_is_told(tmp_path, encoding):
    path = tmp_path / "people.csv"
    path.write_text("vote\nquetzal\nüokapi\n", encoding=encoding)
    with refuses("path") as info:
        read_column(path, "vote", None)
    assert "okapi" not in str(info.value)


@pytest.mark.parametrize(
    "content",
    [
        "id,vote\n1,NA\n\n2,ü\n".encode("utf-8-sig"),
        "id;vote\r\n1;NA\r\n2;ü\r\n".encode(),
        'id,vote\n"1,\n2",NA\n3,"ü"\n'.encode(),
        "vote\nNA\nü\n".encode("utf-16"),
    ],
    ids=["byte order mark", "semicolons", "quotes", "utf-16"],
)
def test_csv_files_of_other_programs_are_read_as_they_were_meant(tmp_path, content):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    x, labels = read_column(path, "vote", ["NA", "ü"])
    assert (x.tolist(), labels) == ([0, 1], ["NA", "ü"])


@pytest.mark.parametrize(
    "content",
    [
        "How often, in a year?;weight;Land\n never ;0,8;Köln\ndaily;1;\n".encode("utf-8-sig"),
        "How often, in a year?\tweight\tLand\nnever\t0,8\tKöln\ndaily\t1\t\n".encode("utf-16"),
        '"How often, in a year?",weight,Land\r\nnever,"0,8",Köln\r\ndaily,1.0,\r\n'.encode(),
    ],
    ids=["Excel, semicolons", "Excel, tabs", "commas"],
)
def test_several_columns_are_read_whatever_separates_them(tmp_path, content):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    found = read_texts(path, ["How often, in a year?"], ["weight", "Land"])
    assert found["How often, in a year?"] == ["never", "daily"]
    assert as_numbers(found["weight"], "weight").tolist() == [0.8, 1.0]
    assert found["Land"] == ["Köln", ""]


def test_a_workbook_is_read_by_its_first_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [
        ("vote", "code", "weight", "born", "yes"),
        (" okapi ", 1, 0.75, date(1990, 5, 1), True),
        (None, 2.0, 1, None, False),
        (None,) * 5,
        ("quetzal", 3, None, None, None),
    ]
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(("vote",))
    path = tmp_path / "people.xlsx"
    book.save(path)
    found = read_texts(path, ["vote", "code", "yes"], ["weight", "born"])
    assert found["vote"] == ["okapi", "", "quetzal"]
    assert found["code"] == ["1", "2", "3"]
    assert found["yes"] == ["TRUE", "FALSE", ""]
    assert found["born"] == ["1990-05-01", "", ""]
    np.testing.assert_array_equal(as_numbers(found["weight"], "weight"), [0.75, 1.0, np.nan])
    with pytest.raises(
        ValueError, match="column must hold text, integers or booleans, got values of type float"
    ) as info:
        read_texts(path, ["weight"])
    assert "0.75" not in str(info.value)
    path.write_bytes(path.read_bytes()[:300])
    with refuses("path"):
        read_texts(path, ["vote"])


def test_odd_spellings_are_listed_once_without_counts_and_other_values_are_not_shown():
    texts = ["never", "NEVER", "NEVER", "Never ever", "daily", "n/a", "nev er", "okapi", "quetzal"]
    with refuses("categories") as info:
        as_categories(texts, "use", ["never", "daily", "never ever"])
    shown = str(info.value)
    assert "('NEVER' for 'never', 'Never ever' for 'never ever', 'nev er' for 'never'; " in shown
    assert "--ignore-case" in shown
    assert "some may mean no answer ('n/a')" in shown
    assert "--missing 'n/a'" in shown
    assert "not that of person 8 (it is not shown), nor 1 other values" in shown
    assert "okapi" not in shown
    # Numbers of people who wrote them would tell how many are in a category: other counts give the same text.
    with refuses("categories") as other:
        as_categories(texts + ["NEVER"] * 50, "use", ["never", "daily", "never ever"])
    assert str(other.value) == shown


def test_capitals_and_words_for_no_answer_are_read_as_asked():
    texts = ["never", "NEVER", " n/a".strip(), "Daily", "", "－"]
    codes, labels = as_categories(texts, "use", ["never", "daily"], ignore_case=True, missing=["n/a", "－"])
    assert labels == ["never", "daily"]
    assert codes.tolist() == [0, 0, NO_VALUE, 1, NO_VALUE, NO_VALUE]
    alike = refuses("ignore_case")
    with alike, pytest.warns(UserWarning, match="easily mistaken"):
        as_categories(texts, "use", ["never", "Never"], ignore_case=True)
    with refuses("ignore_case"):
        as_categories(texts, "use", None, ignore_case=True)
    with refuses("missing"):
        as_categories(texts, "use", ["never", "daily"], missing="n/a")
    with refuses("missing"):  # everybody with this answer would be left out unnoticed
        as_categories(["never", "daily"], "use", ["never", "daily"], missing=[" never "])


def test_without_categories_odd_spellings_are_no_categories_of_their_own():
    with pytest.raises(ValueError, match=r"more than capitals or spaces, got one for person 3 .*--ignore-case") as info:
        as_categories(["okapi", "quetzal", "Okapi"], "vote", None)
    assert "kapi" not in str(info.value)
    with refuses("categories"):
        as_categories(["okapi", "quetzal", "n/a"], "vote", None)
    assert as_categories(["okapi", "quetzal", "n/a"], "vote", None, missing=["n/a"])[0].tolist() == [0, 1, NO_VALUE]


def test_a_comma_in_a_label_points_to_the_file_of_labels(tmp_path):
    with pytest.raises(ValueError, match=r"--categories @file"):
        as_categories(["yes, always", "no"], "vote", ["yes", "always", "no"])


@pytest.mark.parametrize("text", ["1.234,5", "1,234.5", "abc", "nan", "inf", "1e", "0x1"])
def test_numbers_that_could_be_read_in_two_ways_are_refused(text):
    with pytest.raises(ValueError, match=r"column 'weight' must hold numbers such as 0.8 or 0,8, got .* in row 2"):
        as_numbers(["1", text], "weight")


def test_columns_must_be_different_and_the_column_of_collect_is_given_once(people):
    with refuses("columns"):
        read_texts(people, ["vote"], ["vote"])
    options = ("--column", "vote", "--column", "id", "--epsilon", "1", "--out", "r.db")
    assert "--column must be given once, got 2: budgets" in refusal(("collect", str(people), *options))
