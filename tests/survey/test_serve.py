"""A survey on people's own devices: the poll of a wave, and the estimate of its answers."""

import numpy as np
import pytest

from adobest_pp import Collection
from adobest_pp.poll import server
from adobest_pp.survey import EXAMPLE, read_answers
from adobest_pp.survey.collecting import poll_of
from adobest_pp.survey.results import estimate_survey
from tests.cli.test_main import run_here


@pytest.fixture
def survey(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(server, "serve_poll", lambda poll, *rest: served.append(poll))
    path = tmp_path / "survey.toml"
    path.write_text(EXAMPLE.replace("on_devices = false", "on_devices = true"), encoding="utf-8")
    return path, served


def test_a_wave_is_served_as_a_poll_and_estimated_by_the_columns_that_people_choose(survey, capsys):
    path, served = survey
    for _ in range(2):  # the second time it resumes
        done = run_here(capsys, "survey", "serve", path, "--wave", "2026")
        assert done.returncode == 0, done.stderr
    assert served == [poll_of(path, "2026")] * 2
    rng = np.random.default_rng(1)
    with Collection.open(poll_of(path, "2026").with_name("poll-2.db")) as collection:
        assert collection.mechanism.epsilon == 2.0  # one question is drawn for each person
        question = collection.next_question()
        for x in rng.choice(2, size=300, p=[0.7, 0.3]):
            age = "65+" if rng.random() < 0.5 else "18-39"
            collection.record(question.privatize(int(x)), question, public={"age": age})
    answers = read_answers(path, "2026", "drink_drive")
    assert len(answers.responses) == 300
    assert read_answers(path, "2026", "sport") is None  # asked openly, so not here
    result = estimate_survey(path)
    assert list(result.datasets) == [("2026", "drink_drive")]
    assert set(result.estimates["group"]) == {"everybody", "18-39", "65+"}  # the labels of margins.age
    yes = result.estimates[result.estimates["column"] == ""].set_index("category").loc["yes"]
    assert yes["lower"] < 0.3 < yes["upper"]
    assert result.response.to_dict("records")[0] == (
        {"wave": "2026", "question": "drink_drive", "column": "", "group": "everybody", "asked": 300, "answered": 300}
    )


def test_files_and_devices_are_not_mixed_up(survey, tmp_path, capsys):
    path, served = survey
    (tmp_path / "people.csv").write_text("id\n1\n")
    done = run_here(capsys, "survey", "collect", path, tmp_path / "people.csv", "--wave", "2026")
    assert "people.on_devices must be false to randomize a file of people" in done.stderr
    path.write_text(path.read_text(encoding="utf-8").replace('"auto"', '"pair"'), encoding="utf-8")
    done = run_here(capsys, "survey", "serve", path, "--wave", "2026")
    assert 'budget.spend must be "split" or "one" for people on their own devices' in done.stderr
    path.write_text(EXAMPLE, encoding="utf-8")
    done = run_here(capsys, "survey", "serve", path, "--wave", "2026")
    assert "people.on_devices must be true" in done.stderr
    assert served == []
