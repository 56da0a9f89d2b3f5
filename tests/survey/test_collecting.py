"""Answers of a survey: who is asked what, what is kept and what is not, and what is refused before anybody is asked."""

import json
from collections import Counter

import numpy as np
import pytest

from adobest_pp.answers.store import read_content
from adobest_pp.survey import collect_wave, read_answers, read_survey
from adobest_pp.survey import collecting as module
from adobest_pp.survey.collecting import file_of, read_people
from adobest_pp.survey.results import estimate_survey
from validation.simulated_survey import LABELS, ODD, rows_of, simulate, survey_text, write_people

N = 120


@pytest.fixture
def survey(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(survey_text(N, epsilon=3.0), encoding="utf-8")
    return path


def file_of_people(folder, name="people.csv", n=N, seed=1, first_id=0, odd=True, blank=0.06):
    rng = np.random.default_rng(seed)
    rows = rows_of(simulate(n, rng, blank), rng, first_id, odd)
    write_people(folder / name, rows)
    return folder / name, rows


def change(path, row, **values):
    """Write another value in a row of a file of people."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    header, cells = lines[0].split(";"), lines[row].split(";")
    for name, value in values.items():
        cells[header.index(name)] = value
    lines[row] = ";".join(cells)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")


def answers_by_person(path, wave):
    found = Counter()
    for name in LABELS:
        answers = read_answers(path, wave, name)
        found.update(answers.public.answered["person"])
    return found


def test_one_question_is_drawn_for_everybody_and_only_public_columns_are_kept(survey, tmp_path):
    path, people = file_of_people(tmp_path)
    found = collect_wave(survey, path, "2026", progressbar=False)
    assert sum(each.asked for each in found.values()) == N
    blanks = sum(each.asked - each.answered for each in found.values())
    assert 0 < blanks < N / 4
    assert set(answers_by_person(survey, "2026").values()) == {1}
    by_row = dict(enumerate(people, start=1))
    for name in LABELS:
        answers = read_answers(survey, "2026", name)
        assert answers.responses.mechanism.epsilon == 3.0
        assert set(answers.public.answered) == {"person", "row", "region", "age", "born", "weight"}
        columns = answers.public.answered
        for place, row in enumerate(columns["row"]):
            assert columns["region"][place] == by_row[row]["region"]
            assert float(columns["weight"][place]) == float(by_row[row]["weight"].replace(",", "."))
        for row in answers.public.silent["row"]:
            assert by_row[row][name].strip() in ("", "n/a")
        stored = json.dumps(read_content(file_of(survey, "2026", name)).events)
        assert "person-" not in stored
        assert not any(label in stored for label in LABELS[name] if len(label) > 4)


def test_a_wave_goes_on_where_it_stopped_and_asks_nobody_twice(survey, tmp_path, monkeypatch):
    path, _ = file_of_people(tmp_path)
    whole = module.ask_in_turn
    asked = 0

    def stops(collection, people, advance, draw):
        nonlocal asked
        whole(collection, people[:10], advance, draw)
        asked += len(people[:10])
        if asked >= 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "ask_in_turn", stops)
    with pytest.raises(KeyboardInterrupt):
        collect_wave(survey, path, "2026", progressbar=False)
    first = {name: read_answers(survey, "2026", name) for name in list(LABELS)[:2]}
    monkeypatch.setattr(module, "ask_in_turn", whole)
    found = collect_wave(survey, path, "2026", progressbar=False)
    assert sum(each.asked for each in found.values()) == N
    assert set(answers_by_person(survey, "2026").values()) == {1}
    for name, before in first.items():
        after = read_answers(survey, "2026", name)
        n = len(before.responses)
        np.testing.assert_array_equal(after.responses.answers[:n], before.responses.answers)
    # A third call asks nobody; people who are added, and who answer late, are asked.
    assert collect_wave(survey, path, "2026", progressbar=False) == found
    row = next(i for i, silent in _silent_rows(survey) if silent)
    name = next(name for name in LABELS if row in read_answers(survey, "2026", name).public.silent["row"])
    change(path, row, **{name: LABELS[name][0]})
    later = collect_wave(survey, path, "2026", progressbar=False)
    assert later[name].answered == found[name].answered + 1
    assert later[name].asked == found[name].asked


def _silent_rows(survey):
    rows = {row for name in LABELS for row in read_answers(survey, "2026", name).public.silent.get("row", ())}
    return [(row, True) for row in sorted(rows)]


@pytest.mark.parametrize(("spend", "each"), [("split", 4), ("pair", 2), ("one", 1)])
def test_every_way_gives_everybody_as_many_questions_and_spends_the_budget(tmp_path, spend, each):
    path = tmp_path / "survey.toml"
    path.write_text(survey_text(60, epsilon=3.0, spend=spend, waves=["1"]), encoding="utf-8")
    people, _ = file_of_people(tmp_path, n=60, blank=0.0)
    collect_wave(path, people, progressbar=False)
    assert set(answers_by_person(path, "1").values()) == {each}
    spent = Counter()
    for name in LABELS:
        answers = read_answers(path, "1", name)
        for person in answers.public.answered["person"]:
            spent[person] += answers.responses.mechanism.epsilon
    assert max(spent.values()) == pytest.approx(3.0)
    assert len(spent) == 60


def test_the_same_people_answer_in_every_wave_within_their_budget(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(survey_text(40, epsilon=3.0, spend="one", same=True), encoding="utf-8")
    people, _ = file_of_people(tmp_path, n=40, blank=0.0)
    for wave in ("2026", "2027", "2028"):
        collect_wave(path, people, wave, progressbar=False)
    names = [set(answers_by_person(path, wave)) for wave in ("2026", "2027", "2028")]
    assert names[0] == names[1] == names[2]
    # A wave that the survey did not have would spend more.
    path.write_text(path.read_text(encoding="utf-8").replace('"2028"', '"2028", "2029"'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"budget.epsilon must allow what everybody spends, 3 in all, .* 3.75"):
        collect_wave(path, people, "2029", progressbar=False)


def _refused(survey, people, wave, reason):
    with pytest.raises((ValueError, OSError), match=reason) as info:
        collect_wave(survey, people, wave, progressbar=False)
    message = str(info.value)
    assert "\n" not in message
    assert not any(label in message for labels in LABELS.values() for label in labels if len(label) > 4)
    return message


def test_bad_files_are_refused_in_one_sentence_before_anybody_is_asked(survey, tmp_path):
    cases = [
        ({"weight": "-1"}, "column 'weight' must hold a positive weight of everybody, got -1 in row 3"),
        ({"weight": ""}, "column 'weight' must hold a positive weight of everybody, got none in row 3"),
        ({"weight": "heavy"}, "column 'weight' must hold numbers such as 0.8 or 0,8, got 'heavy' in row 3"),
        ({"id": "person-0"}, "column 'id' must hold different ids, got the same in rows 1 and 3"),
        ({"id": ""}, "column 'id' must hold an id of everybody, got none in row 3"),
        ({"age": "child"}, r"margins.age must have a share of everybody's age, got none of \['child'\]"),
        ({"cannabis": "quetzal"}, "question 'cannabis': categories must include every value, but not that of person 3"),
    ]
    for values, reason in cases:
        path, _ = file_of_people(tmp_path)
        change(path, 3, **values)
        assert "quetzal" not in _refused(survey, path, "2026", reason)
    path, _ = file_of_people(tmp_path)
    _refused(survey, path, "2030", "wave must be one of 2026, 2027, 2028, got '2030'")
    _refused(survey, path, None, "wave must be one of")
    assert not (tmp_path / "survey-answers").exists()


def test_one_wave_is_collected_at_a_time(survey, tmp_path, monkeypatch):
    """Two at once would each see the budget before the other, and each draw permanent answers of the same people."""
    path, _ = file_of_people(tmp_path)
    whole = module.ask_in_turn

    def begins_another(*given):
        with pytest.raises(ValueError, match="no other program collects now"):
            collect_wave(survey, path, "2027", progressbar=False)
        return whole(*given)

    monkeypatch.setattr(module, "ask_in_turn", begins_another)
    collect_wave(survey, path, "2026", progressbar=False)
    assert not file_of(survey, "2027", "cannabis").parent.exists()
    assert not list(tmp_path.glob("*-lock"))


def test_other_people_under_the_same_ids_and_people_who_answered_before_are_refused(survey, tmp_path):
    path, _ = file_of_people(tmp_path)
    collect_wave(survey, path, "2026", progressbar=False)
    before = {name: len(read_answers(survey, "2026", name).responses) for name in LABELS}
    other, _ = file_of_people(tmp_path, "other.csv", seed=2)
    lines = other.read_text(encoding="utf-8-sig").splitlines()
    shifted = [lines[0]] + [f"{line.split(';')[0]};1901;{line.split(';', 2)[2]}" for line in lines[1:]]
    other.write_text("\n".join(shifted), encoding="utf-8")
    _refused(survey, other, "2027", "people must be the same under the same id, got another 'born' .* other people")
    _refused(survey, path, "2027", "budget.epsilon must allow what everybody spends, 3 in all, .* would have spent 6")
    new, _ = file_of_people(tmp_path, "new.csv", seed=3, first_id=N)
    collect_wave(survey, new, "2027", progressbar=False)
    assert {name: len(read_answers(survey, "2026", name).responses) for name in LABELS} == before


def test_a_survey_that_was_changed_and_a_lost_key_are_refused(survey, tmp_path):
    path, _ = file_of_people(tmp_path)
    collect_wave(survey, path, "2026", progressbar=False)
    text = survey.read_text(encoding="utf-8")
    survey.write_text(text.replace("epsilon = 3.0", "epsilon = 4.0"), encoding="utf-8")
    _refused(survey, path, "2026", "the survey must ask 'cannabis' in wave '2026' as it began")
    survey.write_text(text, encoding="utf-8")
    key = tmp_path / "survey.key"
    assert key.stat().st_mode & 0o077 == 0
    kept = key.read_bytes()
    key.write_text("no key")
    _refused(survey, path, "2026", "the key of the survey, .* is damaged")
    key.unlink()
    _refused(survey, path, "2026", "the key of the survey, .* must exist")
    key.write_bytes(kept)
    collect_wave(survey, path, "2026", progressbar=False)


def test_without_ids_a_file_whose_rows_moved_is_refused(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(survey_text(30, waves=["1"]).replace('id = "id"\n', ""), encoding="utf-8")
    people, _ = file_of_people(tmp_path, n=30)
    collect_wave(path, people, progressbar=False)
    lines = people.read_text(encoding="utf-8-sig").splitlines()
    people.write_text("\n".join([lines[0], *reversed(lines[1:])]), encoding="utf-8")
    _refused(path, people, None, "people must be those of the wave '1' so far")


def test_open_questions_are_kept_as_they_are_and_cost_nothing(tmp_path):
    path = tmp_path / "survey.toml"
    text = survey_text(50, epsilon=2.0, waves=["1"], spend="split").replace(
        'name = "debt"\n', 'name = "debt"\nsensitive = false\n'
    )
    path.write_text(text, encoding="utf-8")
    people, simulated = file_of_people(tmp_path, n=50, odd=False)
    collect_wave(path, people, progressbar=False)
    answers = read_answers(path, "1", "debt")
    truth = [row["debt"].strip() for row in simulated]
    given = [LABELS["debt"][code] for code in answers.responses.answers]
    assert given == [label for label in truth if label not in ("", "n/a")]
    assert read_answers(path, "1", "cannabis").responses.mechanism.epsilon == pytest.approx(2 / 3)


def test_people_are_read_as_they_are_written(survey, tmp_path):
    path, simulated = file_of_people(tmp_path)
    found = read_people(read_survey(survey), path)
    assert "person" not in repr(found).replace("people", "")
    for name, labels in LABELS.items():
        for code, row in zip(found.codes[name].tolist(), simulated, strict=True):
            spellings = {spelling(labels[code]) for spelling in ODD} if code >= 0 else {"", "n/a", " "}
            assert row[name] in spellings


def memoized_survey(folder, n=40, epsilon=4.0, wave_epsilon=2.0, spend="one"):
    path = folder / "survey.toml"
    text = survey_text(n, epsilon=epsilon, spend=spend, same=True)
    path.write_text(text.replace("[people]", f"wave_epsilon = {wave_epsilon}\n\n[people]"), encoding="utf-8")
    return path


def test_memoized_waves_keep_permanent_answers_and_spend_them_once(tmp_path):
    path = memoized_survey(tmp_path)
    people, _ = file_of_people(tmp_path, n=40, blank=0.0)
    for wave in ("2026", "2027", "2028"):
        collect_wave(path, people, wave, progressbar=False)
    permanent = module._secret(path).permanent
    for name in LABELS:
        waves = [read_answers(path, wave, name) for wave in ("2026", "2027", "2028")]
        for each in waves:  # the same people answer the same question in every wave
            assert set(each.public.answered["person"]) == set(permanent[name]["answers"])
            assert each.responses.mechanism.epsilon == 4.0
            assert each.responses.mechanism.wave_epsilon == pytest.approx(2.0)
        assert {len(row) for row in permanent[name]["answers"].values()} == {len(LABELS[name])}
    assert sum(len(part["answers"]) for part in permanent.values()) == 40
    assert "person-" not in (tmp_path / "survey.key").read_text()
    # A fourth wave costs nothing more.
    path.write_text(path.read_text(encoding="utf-8").replace('"2028"', '"2028", "2029"'), encoding="utf-8")
    collect_wave(path, people, "2029", progressbar=False)
    assert module._secret(path).permanent == permanent


@pytest.mark.long
def test_memoized_answers_are_randomized_from_the_permanent_answer(tmp_path):
    # With a wave that tells nearly all of the permanent answer, three waves agree with it and not with x.
    path = memoized_survey(tmp_path, epsilon=1.0, wave_epsilon=0.999999, spend="split")
    path.write_text(path.read_text(encoding="utf-8").replace('spend = "split"', 'spend = "one"'), encoding="utf-8")
    people, rows = file_of_people(tmp_path, n=40, blank=0.0, odd=False)
    for wave in ("2026", "2027"):
        collect_wave(path, people, wave, progressbar=False)
    permanent, lies = module._secret(path).permanent, 0
    for name in LABELS:
        first, second = (read_answers(path, wave, name) for wave in ("2026", "2027"))
        for answers in (first, second):
            columns = answers.public.answered
            for person, row, answer in zip(
                columns["person"], columns["row"], answers.responses.answers[:, 0].tolist(), strict=True
            ):
                x = LABELS[name].index(rows[row - 1][name])
                assert answer == permanent[name]["answers"][person][x]
                lies += answer != x
    assert lies > 10


def test_memoized_waves_are_refused_if_permanent_answers_are_lost_or_do_not_fit(tmp_path):
    path = memoized_survey(tmp_path)
    people, _ = file_of_people(tmp_path, n=40, blank=0.0)
    collect_wave(path, people, "2026", progressbar=False)
    key, text = tmp_path / "survey.key", path.read_text(encoding="utf-8")
    kept = key.read_bytes()
    module._write_secret(key, module._Secret(module._secret(path).key, {}), overwrite=True)
    _refused(path, people, "2027", "must have the permanent answers of everybody who has answered")
    key.write_bytes(kept)
    path.write_text(text.replace("epsilon = 4.0", "epsilon = 5.0", 1), encoding="utf-8")
    _refused(path, people, "2027", "the survey must ask 'cannabis' in every wave as it began")
    path.write_text(text, encoding="utf-8")
    assert collect_wave(path, people, "2027", progressbar=False)


@pytest.mark.long
def test_changes_of_memoized_waves_use_that_people_are_the_same(tmp_path):
    path = memoized_survey(tmp_path, n=400, epsilon=6.0, wave_epsilon=5.0)
    people, _ = file_of_people(tmp_path, n=400, blank=0.0)
    for wave in ("2026", "2027"):
        collect_wave(path, people, wave, progressbar=False)
    result = estimate_survey(path)
    shares = result.estimates[result.estimates["column"] == ""].set_index(["wave", "question", "category"])
    for row in result.changes.to_dict("records"):
        assert row["people_in_both"] > 60
        assert row["lower"] <= 0 <= row["upper"] or row["upper"] - row["lower"] < 0.5
        ends = [shares.loc[(wave, row["question"], row["category"])] for wave in (row["before"], row["after"])]
        apart = np.hypot(*(float(each["upper"] - each["lower"]) for each in ends))
        assert row["upper"] - row["lower"] < 0.9 * apart
