"""PRISM as a survey: one person a question, opinions from scores or choices, and everything that is left out, by name.

All rows here are made up, in the official format.
"""

from __future__ import annotations

import gzip
import json

import huggingface_hub
import numpy as np
import pytest

from apm_lab.data.sources.prism import FEATURES, Prism
from apm_lab.data.survey import SurveySource
from apm_lab.errors import ConfigError, DataError


def person(name, **changes):
    row = {
        "user_id": name,
        "age": "18-24 years old",
        "gender": "Female",
        "education": "Vocational",
        "employment_status": "Student",
        "english_proficiency": "Fluent",
        "marital_status": "Married",
        "ethnicity": {"self_described": "x", "categorised": "White", "simplified": "White"},
        "religion": {"self_described": "y", "categorised": "Agnostic", "simplified": "No Affiliation"},
        "location": {"special_region": "Europe", "reside_region": "Europe"},
        "included_in_US_REP": False,
    }
    return {**row, **changes}


def utterances(*replies, user="user0", conversation="c0", turn=0, interaction="int0", prompt="Hello?"):
    """Return the rows of one interaction; a reply is text, score and whether it was chosen."""
    return [
        {
            "utterance_id": f"ut{conversation}{turn}{place}",
            "interaction_id": interaction,
            "conversation_id": conversation,
            "user_id": user,
            "turn": turn,
            "within_turn_id": place,
            "user_prompt": prompt,
            "model_response": text,
            "model_name": "m",
            "score": score,
            "if_chosen": chosen,
        }
        for place, (text, score, chosen) in enumerate(replies)
    ]


def conversations(rows):
    """Return the same turns in the other official form."""
    found = {}
    for row in rows:
        said = {"turn": row["turn"], "role": "user", "content": row["user_prompt"]}
        kept = found.setdefault(row["conversation_id"], {"conversation_id": row["conversation_id"]})
        kept["user_id"] = row["user_id"]
        history = kept.setdefault("conversation_history", [])
        if said not in history:
            history.append(said)
        reply = {"turn": row["turn"], "role": "model", "content": row["model_response"], "score": row["score"]}
        history.append({**reply, "if_chosen": row["if_chosen"], "within_turn_id": row["within_turn_id"]})
    return list(found.values())


def lines(file, rows, packed=False):
    with (gzip.open if packed else open)(f"{file}{'.gz' if packed else ''}", "wt", encoding="utf-8") as handle:
        handle.writelines((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)


TALK = [
    *utterances(("Hi", 90, True), ("Yo", 30, False), ("Hm", 60, False)),
    *utterances(("Fine.", 1, False), ("Good!", 3, True), turn=1, interaction="int1", prompt="How are you?"),
    *utterances(("A", 50, True), ("B", 50, False), user="user1", conversation="c1", interaction="int2", prompt="Two?"),
]
PEOPLE = [person("user0"), person("user1", gender="Male", age="65+ years old")]


def written(folder, rows=TALK, people=PEOPLE, form="utterances"):
    folder.mkdir(parents=True, exist_ok=True)
    lines(folder / "survey.jsonl", people)
    lines(folder / f"{form}.jsonl", rows)
    return str(folder)


def place(found, value):
    return [group.value for group in found.groups].index(value)


def test_scores_are_a_distribution_and_later_turns_hold_the_talk_so_far(tmp_path):
    found = Prism(written(tmp_path)).read()
    assert [one.id for one in found.questions] == ["int0", "int1", "int2"]
    assert found.questions[0].text == "Hello?"
    assert found.questions[1].text == "User: Hello?\nAssistant: Hi\nUser: How are you?"
    assert found.questions[2].text == "Two?"  # another conversation begins anew
    assert found.questions[0].choices == ("Hi", "Yo", "Hm")
    assert found.overall == pytest.approx(np.array([[0.5, 1 / 6, 1 / 3], [0.25, 0.75, 0], [0.5, 0.5, 0]]))
    assert found.real.tolist() == [[True] * 3, [True, True, False], [True, True, False]]
    assert found.positions is None and found.halves is None
    assert isinstance(Prism(), SurveySource)


def test_a_group_has_opinions_on_what_its_people_rated_alone(tmp_path):
    found = Prism(written(tmp_path), features=["gender", "religion.categorised"]).read()
    assert [(group.trait, group.value) for group in found.groups] == [
        ("gender", "Female"),
        ("gender", "Male"),
        ("religion.categorised", "Agnostic"),
    ]
    assert found.answered.tolist() == [[1, 1, 0], [0, 0, 1], [1, 1, 1]]
    assert found.people.tolist() == [1, 1, 2]
    assert (found.shares[0, 2] == 0).all() and (found.shares[1, :2] == 0).all()
    assert np.array_equal(found.shares[2], found.overall)
    assert found.shares[0, 1].tolist() == [0.25, 0.75, 0]
    assert found.overall_answered.tolist() == [1, 1, 1]


def test_the_chosen_reply_takes_all_and_two_share(tmp_path):
    rows = [*TALK, *utterances(("A", 5, True), ("B", 5, True), ("C", 1, False), conversation="c2", interaction="int9")]
    found = Prism(written(tmp_path, rows), opinion="chosen").read()
    assert found.overall.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]]
    assert found.left_out == {"interaction with several chosen replies (kept, split evenly)": 1}
    assert "several chosen" not in str(Prism(str(tmp_path)).read().left_out)


def test_the_opening_turn_alone(tmp_path):
    found = Prism(written(tmp_path), unit="opening").read()
    assert [one.id for one in found.questions] == ["int0", "int2"]


def test_conversations_say_the_same_with_ids_of_their_own(tmp_path):
    one = Prism(written(tmp_path / "u")).read()
    other = Prism(written(tmp_path / "c", conversations(TALK), form="conversations")).read()
    assert [each.id for each in other.questions] == ["c0/0", "c0/1", "c1/0"]
    assert [(each.text, each.choices) for each in other.questions] == [(e.text, e.choices) for e in one.questions]
    assert np.array_equal(one.shares, other.shares)


def test_replies_stand_by_their_number_whatever_the_files_order(tmp_path):
    found = Prism(written(tmp_path, TALK[::-1])).read()
    assert [one.id for one in found.questions] == ["int2", "int0", "int1"]
    assert found.questions[1].choices == ("Hi", "Yo", "Hm")
    assert found.questions[2].text.startswith("User: Hello?\nAssistant: Hi\n")


def test_the_talk_goes_on_from_the_better_of_two_chosen_replies_or_the_best_of_none(tmp_path):
    for replies, told in (
        ([("A", 5, True), ("B", 9, True), ("C", 99, False)], "B"),
        ([("A", 5, True), ("B", 5, True)], "A"),
        ([("A", None, False), ("B", 5, False)], "B"),
        ([("A", 5, False), ("EMPTY STRING", 9, True)], ""),
    ):
        later = utterances(("x", 1, True), ("y", 2, False), turn=1, interaction="int1", prompt="And?")
        found = Prism(written(tmp_path, [*utterances(*replies), *later])).read()
        assert found.questions[-1].text == f"User: Hello?\nAssistant: {told}\nUser: And?"


def test_what_can_not_be_asked_is_left_out_and_counted(tmp_path):
    cases = [
        [("A", 5, True), ("EMPTY STRING", 9, False), ("C", 15, False)],
        [("A", 5, True), ("EMPTY STRING", 9, False)],
        [("A", 5, True)],
        [("A", 0, True), ("B", 0, False)],
        [("A", 0, False), ("B", 7, True)],
        [("A", None, False), ("B", 7, True)],
    ]
    rows = [
        row
        for number, replies in enumerate(cases)
        for row in utterances(*replies, conversation=f"c{number}", interaction=f"int{number}")
    ]
    rows += utterances(("A", 5, True), ("B", 5, False), user="user9", conversation="c9", interaction="int9")
    found = Prism(written(tmp_path, rows), features=["gender"]).read()
    assert [one.id for one in found.questions] == ["int0", "int4"]
    assert found.questions[0].choices == ("A", "C")
    assert found.overall.tolist() == [[0.25, 0.75], [0, 1]]
    assert found.left_out == {
        "reply stored as EMPTY STRING": 2,
        "interaction with fewer than two replies": 2,
        "interaction without a score above 0": 1,
        "score of 0, below the scale (kept)": 1,
        "interaction with a reply without a score": 1,
        "interaction of a person without a survey row": 1,
        "gender Male: a group that rated nothing": 1,
    }
    none = [*utterances(("A", 5, False), ("B", 6, False)), *TALK[3:]]
    counted = Prism(written(tmp_path, none), opinion="chosen").read().left_out
    assert counted["interaction without a chosen reply"] == 1


def test_people_who_say_nothing_form_no_group_unless_asked_for(tmp_path):
    people = [person("user0", gender="Prefer not to say", religion=None), person("user1", gender=None)]
    folder = written(tmp_path, people=people)
    with pytest.raises(ConfigError, match=r"no column 'religon.categorised'; did you mean religion.categorised"):
        Prism(folder, features=["religon.categorised"]).read()
    found = Prism(folder, features=["gender", "religion.categorised"]).read()
    assert [group.value for group in found.groups] == ["Agnostic"]
    assert found.left_out == {
        "person without an answer, gender": 1,
        "person who prefers not to say, gender": 1,
        "person without an answer, religion.categorised": 1,
    }
    assert len(found.questions) == 3  # they are still asked
    found = Prism(folder, features=["gender"], prefer_not_to_say=True).read()
    assert [group.value for group in found.groups] == ["Prefer not to say"]
    assert found.left_out == {"person without an answer, gender": 1}


def test_the_papers_nine_features_are_the_default(tmp_path):
    found = Prism(written(tmp_path)).read()
    assert tuple(dict.fromkeys(group.trait for group in found.groups)) == FEATURES
    assert len(FEATURES) == 9


def test_english_prompts_are_those_flagged(tmp_path):
    folder = written(tmp_path)
    flags = [("user_prompt", "int0", True), ("user_prompt", "int1", False), ("model_response", "int2", True)]
    (tmp_path / "metadata").mkdir()
    rows = [{"column_id": column, "interaction_id": name, "en_flag": flag} for column, name, flag in flags]
    lines(tmp_path / "metadata/metadata.jsonl", rows)
    found = Prism(folder, language="english").read()
    assert [one.id for one in found.questions] == ["int0"]
    assert found.left_out["interaction whose prompt is not flagged as English"] == 2


def test_files_are_found_in_data_packed_and_with_strange_line_ends(tmp_path):
    (tmp_path / "data").mkdir()
    lines(tmp_path / "data/survey.jsonl", PEOPLE, packed=True)
    odd = utterances(("One\u2028two", 4, True), ("b\u0085c", 4, False))
    lines(tmp_path / "data/utterances.jsonl", odd, packed=True)
    assert Prism(str(tmp_path)).read().questions[0].choices == ("One\u2028two", "b\u0085c")


def test_a_hub_id_is_fetched_without_the_files_that_are_not_read(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **kw: asked.append((name, kw["allow_patterns"])) or tmp_path
    )
    written(tmp_path)
    assert len(Prism("HannahRoseKirk/prism-alignment").read().questions) == 3
    assert asked == [("HannahRoseKirk/prism-alignment", ["*survey.jsonl", "*utterances.jsonl"])]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"score": 101}, "score is 101, expected a number from 1 to 100, or null"),
        ({"score": True}, "score is True"),
        ({"score": "9"}, "score is '9'"),
        ({"if_chosen": 1}, "field 'if_chosen' is 1, expected bool"),
        ({"turn": True}, "field 'turn' is True, expected int"),
        ({"user_id": None}, "field 'user_id' is None, expected str"),
        ({"within_turn_id": 0}, "within_turn_id 0 is there twice in this turn"),
        ({"interaction_id": "int7"}, "turn 0 of c0 had another id or person"),
    ],
)
def test_faults_are_named_by_line(tmp_path, change, told):
    rows = [TALK[0], {**TALK[1], **change}]
    with pytest.raises(DataError) as fault:
        Prism(written(tmp_path, rows)).read()
    assert told in str(fault.value)
    assert "utterances.jsonl, line 2: " in str(fault.value)


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ("Hi", "line 1: field 'conversation_history' is 'Hi', expected list"),
        ([{"role": "bot"}], "conversation_history 1: expected an object with role user or model"),
        ([{"role": "model", "turn": 0}], "history 1: a reply in turn 0, in which the user has said nothing"),
    ],
)
def test_faults_of_a_conversation_are_named(tmp_path, history, told):
    row = {"conversation_id": "c0", "user_id": "user0", "conversation_history": history}
    with pytest.raises(DataError) as fault:
        Prism(written(tmp_path, [row], form="conversations")).read()
    assert told in str(fault.value)


def test_files_that_are_not_there_or_hold_nothing(tmp_path):
    with pytest.raises(DataError, match=r"dataset.path is not set; .*PRISM's survey.jsonl .*HannahRoseKirk"):
        Prism().read()
    with pytest.raises(DataError, match=r"no survey.jsonl here, in data, or packed"):
        Prism(str(tmp_path)).read()
    lines(tmp_path / "survey.jsonl", PEOPLE)
    with pytest.raises(DataError, match=r"no utterances.jsonl or conversations.jsonl here"):
        Prism(str(tmp_path)).read()
    with pytest.raises(DataError, match=r"no metadata.jsonl or metadata/metadata.jsonl here"):
        Prism(written(tmp_path), language="english").read()
    with pytest.raises(DataError, match=r"no interaction can be asked; .*fewer than two replies': 1"):
        Prism(written(tmp_path, TALK[:1])).read()
    with pytest.raises(DataError, match=r"survey.jsonl, line 3: user_id 'user0' has a row already"):
        Prism(written(tmp_path, people=[*PEOPLE, PEOPLE[0]])).read()
    with pytest.raises(DataError, match=r"survey.jsonl, line 1: not a JSON object"):
        Prism(written(tmp_path, people=["{"])).read()
