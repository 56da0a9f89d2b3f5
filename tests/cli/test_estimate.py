"""`adobest estimate`: from a file to a table, with public columns beside the answers."""

import json

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.answers.gather.gather import read_with_columns
from adobest_pp.cli.main import main

LABELS = ["never", "often", "daily"]
REGION = ["north"] * 300 + ["south"] * 200
MECHANISMS = [
    ad.SRR(3, epsilon=1.0),
    ad.SubsetSelection(3, epsilon=1.0),
    ad.UnaryEncoding(3, epsilon=1.0),
    ad.LocalHashing(3, epsilon=1.0),
    ad.RRRR(3, epsilon=1.0),
]


def answers(mechanism):
    rng = np.random.default_rng(1)
    x = rng.choice(3, size=500, p=[0.6, 0.3, 0.1])
    subset = [0] if mechanism.publishes_subset else None
    given = mechanism.privatize(x, subset=subset, rng=rng)
    return ad.Responses.from_arrays(mechanism, given, subset, categories=LABELS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "answers.parquet"
    weights = np.linspace(0.5, 2, 500).tolist()
    answers(ad.SubsetSelection(3, epsilon=1.0)).to_parquet(path, public={"region": REGION, "weight": weights})
    return path


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_answers_of_a_table_keep_their_order_and_their_columns(mechanism, tmp_path):
    given, path = answers(mechanism), tmp_path / "answers.parquet"
    given.to_parquet(path, public={"region": REGION})
    found, public = read_with_columns(path, ["region"])
    assert public == {"region": REGION}
    np.testing.assert_array_equal(found.answers, given.answers)
    np.testing.assert_array_equal(found.subsets, given.subsets)
    assert found.categories == given.categories
    assert found.mechanism == given.mechanism


def test_rows_without_an_answer_take_their_columns_with_them(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("region;answer\nnorth;never\nsouth;\nwest;daily\n", encoding="utf-8-sig")
    found, public = read_with_columns(path, ["region"], ad.SRR(3, epsilon=1.0), LABELS)
    assert found.answers.tolist() == [0, 2]
    assert public == {"region": ["north", "west"]}


def test_it_prints_the_estimate_of_the_library(file, tmp_path, capsys):
    margins = tmp_path / "margins.csv"
    margins.write_text("group,share\nnorth,0.5\nsouth,0.5\n")
    options = ["--group", "region", "--weights", "weight", "--margins", margins, "--question", "How often?"]
    assert _run("estimate", file, *options, "--json", "--out", tmp_path / "handout") == 0
    content = json.loads(capsys.readouterr().out)
    responses, public = read_with_columns(file, ["region", "weight"])
    expected = ad.estimate(
        responses,
        groups={"region": public["region"]},
        weights=public["weight"],
        margins={"region": {"north": 0.5, "south": 0.5}},
    )
    assert [row["share"] for row in content["estimate"]] == expected["share"].values.ravel().tolist()
    assert {"report.html", "estimate.csv", "estimate.json"} <= {path.name for path in (tmp_path / "handout").iterdir()}
    assert content["estimate"][0]["question"] == "How often?"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"group;share\n\xff;1\n", "it is not a CSV file in UTF-8"),
        (b"group,share\n" + b"x" * 200_000 + b",1\n", "it is not a CSV file in UTF-8"),
        (b"group,share\n", "got no rows in"),
        (b"region,share\nnorth,1\n", "got ['region', 'share'] in"),
    ],
)
def test_margins_that_cannot_be_read_are_named(file, content, words, tmp_path, capsys):
    (tmp_path / "margins.csv").write_bytes(content)
    assert _run("estimate", file, "--group", "region", "--margins", tmp_path / "margins.csv") == 2
    printed = capsys.readouterr().err
    assert printed.startswith("adobest: --margins must name a CSV file with the columns group, share, and column if ")
    assert words in printed


def test_an_error_names_the_argument_of_this_command(tmp_path, capsys):
    assert _run("estimate", tmp_path / "missing.parquet") == 2
    assert capsys.readouterr().err.startswith("adobest: FILE must match at least one file, got ")
    (tmp_path / "plain.csv").write_text("answer\n0\n1\n")
    assert _run("estimate", tmp_path / "plain.csv") == 2
    assert "FILE " in (said := capsys.readouterr().err)
    assert "does not name the mechanism of its answers" in said


def _run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code


def test_it_prints_tables_for_people(file, capsys):
    assert _run("estimate", file, "--group", "region") == 0
    printed = capsys.readouterr().out
    for words in ("500 people", "never", "of 100 people", "region: north", "borrows", "due to privacy"):
        assert words in printed


def test_a_collection_has_its_public_columns(tmp_path, capsys):
    path = tmp_path / "answers.db"
    with ad.Collection.create(
        path, policy=ad.SameQuestion(ad.SRR(2, epsilon=1.0)), categories=["no", "yes"]
    ) as collection:
        question = collection.next_question()
        for i in range(40):
            collection.record(i % 2, question, public={"region": "a" if i < 20 else "b"})
    assert _run("estimate", path, "--group", "region", "--json") == 0
    assert {row["group"] for row in json.loads(capsys.readouterr().out)["estimate"]} == {
        "everybody",
        "region: a",
        "region: b",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--group", "age"], "'age' must be in the file"),
        (["--group", "region", "--group", "region"], "--group must"),
        (["--weights", "region"], "--weights must"),
        (["--margins", "nowhere.csv"], "--margins must come with --group"),
        (["--group", "region", "--margins", "nowhere.csv"], "--margins must name"),
        (["--mechanism", "srr"], "must be given together"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(file, arguments, words, capsys):
    assert _run("estimate", file, *arguments) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == 1
