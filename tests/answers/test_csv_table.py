"""CSV files of other programs are read as they were meant, and an error shows no cell."""

import pytest

from adobest_pp.answers.gather.tables import read_csv_table


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"a,b\n1,2\n\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        (b"a\n1\n\n3\n", {"a": ["1", None, "3"]}),
        (b'a,b\r\n"1\n5",2\r\n3,"x""y"\r\n', {"a": ["1\n5", "3"], "b": ["2", 'x"y']}),
        (b'"a;b",c\n1,\n', {"a;b": ["1"], "c": [None]}),
        (b'a;b\n1;"2,3"\n', {"a": ["1"], "b": ["2,3"]}),
        (b"\xef\xbb\xbfa,b\n01,NA\n", {"a": ["01"], "b": ["NA"]}),
        ("a;b\n1;ü\n".encode("utf-16"), {"a": ["1"], "b": ["ü"]}),
        (b"a,b\n", {"a": [], "b": []}),
    ],
)
def test_cells_are_read_as_text(tmp_path, content, columns):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    assert read_csv_table(path).to_pydict() == columns


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,b\nsecret,2,3\n", "the header has 2 cells, row 2 has 3"),
        (b'a,b\n1,"secret\n3,4\n', "a quotation mark is not closed"),
        ("a,b\n1,secret ü\n".encode("latin-1"), "invalid UTF8 data"),
        ("a,b\n1,secret\n".encode("utf-16-le"), "another encoding"),
        (b"", "Empty"),
    ],
)
def test_what_is_wrong_is_named_without_a_cell(tmp_path, content, reason):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as info:
        read_csv_table(path)
    assert "secret" not in str(info.value)
