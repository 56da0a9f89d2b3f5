"""Lists of labels, in the command or in a file."""

import pytest

from adobest_pp import Responses
from adobest_pp.cli.main import main
from adobest_pp.cli.tables import labels_in


def test_labels_come_from_the_command_or_from_a_file(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("\ufeffyes, always\n no \r\nnever\n", encoding="utf-8")
    assert labels_in(f"@{path}") == ["yes, always", "no", "never"]
    assert labels_in("yes,no") == ["yes", "no"]
    assert labels_in(None) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"a\n\nb\n", "got none in line 2"), (b"", "got none in line 1"), (b"\xff\xfe", "not a text file in UTF-8")],
)
def test_a_file_without_labels_is_refused(tmp_path, content, reason):
    path = tmp_path / "labels.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"--categories must .*{reason}"):
        labels_in(f"@{path}")
    with pytest.raises(ValueError, match=r"--categories must be labels, or @ and a file .*No such file"):
        labels_in(f"@{tmp_path / 'none'}")


def test_a_comma_in_a_label_is_no_problem_for_collect(tmp_path):
    (tmp_path / "labels.txt").write_text("yes, always\nno\nnever\n")
    (tmp_path / "people.csv").write_text('vote\n"yes, always"\nno\nno\n')
    out = tmp_path / "responses.db"
    arguments = ["--column", "vote", "--epsilon", "1", "--categories", f"@{tmp_path / 'labels.txt'}", "--quiet"]
    with pytest.raises(SystemExit) as info:
        main(["collect", str(tmp_path / "people.csv"), *arguments, "--out", str(out)])
    assert not info.value.code
    assert Responses.read(out).categories == ("yes, always", "no", "never")
