"""A device reads a question, or refuses it."""

import json
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import adobest_pp as ad
from tests.refusals import refuses


def published(**settings):
    family = {"mechanism": "SetFamily", "n_categories": 3, "epsilon": 1.0} | settings
    return json.dumps({"number": 1, "question": family, "categories": ["x", "y", "z"]})


SINGLES = {"sets": [[0], [1], [2]], "weights": [1, 1, 1]}
REFUSED = {
    "a family that is not private": (
        published(sets=[[0], [1], [2]], weights=[3, 1, 1]),
        r"weights .* 0\.6 .* category 0 .* categories 2 and 0 would be 1\.41312",
    ),
    "a larger budget": (published(**SINGLES, epsilon=1.5), "question must have an epsilon of at most 1, got 1.5"),
    "a category in no set": (published(sets=[[0], [1]], weights=[1, 1]), "categories must be"),
    "another mechanism": (published(mechanism="Channel"), "question must .* 'Channel'"),
    "a module to import": (published(mechanism="os:path"), "question must .* 'os:path'"),
    "weights that are missing": (published(sets=[[0], [1], [2]]), "must include 'weights'"),
    "a set twice": (published(sets=[[0], [0], [1], [2]], weights=[1] * 4), "sets must be"),
    "no JSON": ("{", "text must be a JSON object with number, question, categories"),
    "no object": ("[1]", "text must be a JSON object"),
    "no text": (None, "text must be a JSON object"),
    "a key twice": (published(**SINGLES).replace('"sets"', '"epsilon": 0.5, "sets"'), "keys .* must be distinct"),
    "a number twice": (published(**SINGLES)[:-1] + ', "number": 2}', "keys .* must be distinct"),
    "no number": (published(**SINGLES, epsilon=math.nan), "a number must be finite, got NaN"),
    "a weight of many digits": (published(sets=[[0], [1], [2]], weights=[10**40] * 3), "at most 40 digits"),
    "a weight of too many bits": (published(sets=[[0], [1], [2]], weights=[3**81, 1, 1]), "weights must be below 2"),
    "a long text": (published(**SINGLES) + " " * 10**6, "text must .* 1,000,000 bytes"),
    "long in bytes": (published(**SINGLES) + "\u00e9" * 600_000, "text must .* 1,000,000 bytes"),
    "deep brackets": ("[" * 10**6, "text must be a JSON object"),
    "many categories": (
        published(mechanism="SubsetSelection", n_categories=10**6, size=5 * 10**5),
        "categories must be 1000000 .* got 3",
    ),
    "many sets": (
        published(sets=[[0]] * 170_000, weights=[]),
        r"question must have at most 100,000 sets of 3 categories \(300,000 in all\), got 170,000",
    ),
    "a label of marks": (
        published(**SINGLES).replace('"x"', json.dumps("x" + "\u0345\u0316" * 200)),
        "got one with more than 30 marks on a character",
    ),
    "a long label": (published(**SINGLES).replace('"x"', f'"{"x" * 501}"'), "of at most 500 characters each, got one"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_a_device_refuses(text, message):
    with pytest.raises(ValueError, match=message):
        ad.read_question(text, epsilon=1.0)


def test_what_devices_would_refuse_is_not_published():
    labels = tuple(map(str, range(20_001)))
    for mechanism, message in (
        (ad.SubsetSelection(20_001, 1.0), "categories must be .* 20,000 labels, got 20,001"),
        (ad.SetFamily([[x] for x in range(710)], [1] * 710, 1.0), "question must have at most 422 sets"),
    ):
        question = ad.mechanisms.PublishedQuestion(0, mechanism, labels[: mechanism.n_categories])
        with pytest.raises(ValueError, match=message):
            question.to_json()
    long = tuple(f"{x}{'n' * 400}" for x in range(3000))
    with refuses("question"):
        ad.mechanisms.PublishedQuestion(0, ad.SubsetSelection(3000, 1.0), long).to_json()


def test_the_loss_that_is_told_is_the_true_one():
    """From the definition: the matrix that the refused family would have, and its largest ratio."""
    with pytest.raises(ValueError, match="above ε = 1") as refusal:
        ad.SetFamily([[0, 1], [1, 2], [2, 0], [0]], [4, 2, 3, 1], epsilon=1.0)
    masks = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=bool)
    matrix = np.array([4, 2, 3, 1])[:, None] * np.where(masks, np.e, 1.0)
    loss = ad.privacy_loss(matrix / matrix.sum(axis=0))
    assert f"would be {loss:.6g}, above" in str(refusal.value)
    assert loss > 1


def test_a_device_that_privatizes_loads_numpy_at_most():
    program = f"""
        import sys
        from adobest_pp import read_question
        question = read_question({published(**SINGLES)!r}, epsilon=1.0)
        assert question.mechanism.privatize(1) in (0, 1, 2)
        print([name for name in ("numba", "pymc", "scipy", "xarray") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize(
    ("mechanism", "subset"),
    [
        (ad.SRR(3, 1.0), None),
        (ad.SubsetSelection(3, 1.0), None),
        (ad.HadamardResponse(3, 1.0), None),
        (ad.ProjectiveGeometryResponse(3, 1.0), None),
        (ad.CountMeanSketch(3, 1.0), None),
        (ad.SetFamily([[0], [1], [2]], [0.1, 0.1, 0.1], 1.0), None),
        (ad.RRRR(3, 1.0), (0, 2)),
        (ad.RRRR(3, 1.0), ()),
        (ad.RRRR.from_budgets(3, 0.5, 0.2), (1,)),
    ],
    ids=repr,
)
def test_a_question_is_read_as_it_was_written(mechanism, subset):
    question = ad.mechanisms.PublishedQuestion(4, mechanism, ("x", "y", "z"), subset)
    text = question.to_json()
    assert ad.read_question(text, mechanism.epsilon) == question
    content = json.loads(text)
    assert all(type(odds) is int and odds >= 2**64 for odds in content["odds"])
    other = json.dumps(content | {"odds": [content["odds"][0] + 1, *content["odds"][1:]]})
    with refuses("odds"):
        ad.read_question(other, mechanism.epsilon)
    wrong = json.dumps(content | {"subset": [0, 1, 2]})
    with pytest.raises(ValueError, match="subset must"):
        ad.read_question(wrong, mechanism.epsilon)


def test_a_mechanism_that_devices_do_not_know_is_not_published():
    question = ad.mechanisms.PublishedQuestion(0, ad.UnaryEncoding(3, 1.0), ("x", "y", "z"))
    with refuses("question"):
        question.to_json()
