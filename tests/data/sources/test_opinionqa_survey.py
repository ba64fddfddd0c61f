"""OpinionQA as a survey: who answered what, weighted or counted, and everything that is left out, by name."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from apm_lab.data.sources.opinionqa_survey import OpinionQa
from apm_lab.data.steering import steering_traits
from apm_lab.data.survey import SurveySource
from apm_lab.errors import ConfigError, DataError

SHARED = Path(__file__).parents[4] / "shared/data/opinionqa"
LABELS = ["Better, by far", "Worse", "About the same", "Not sure", "Refused"]
METADATA = {"SEX": ["Male", "Female"], "POLPARTY": ["Republican", "Democrat", "Other"]}


def question(key, text="Better or worse?", labels=LABELS, ordinals=(1.0, 2.0, 1.5)):
    return {"key": key, "question": text, "references": repr(labels), "option_ordinal": repr(list(ordinals))}


def table(file, rows):
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def survey(folder, questions, respondents=None, counts=None, metadata=METADATA):
    """Write a survey's folder in the official form and return it."""
    folder.mkdir(parents=True)
    table(folder / "info.csv", questions)
    if metadata:
        table(folder / "metadata.csv", [{"key": key, "options": repr(each)} for key, each in metadata.items()])
    if respondents:
        table(folder / "responses.csv", respondents)
    for trait, content in (counts or {}).items():
        (folder / f"{trait}_data.json").write_text(json.dumps(content))
    return folder


def person(answer, sex="Male", party="Democrat", weight=1.0, wave=26, **more):
    return {f"A_W{wave}": answer, "SEX": sex, "POLPARTY": party, f"WEIGHT_W{wave}": weight, **more}


FIVE = [
    person("Better, by far", weight=3.0),
    person("About the same", weight=1.0),
    person("Not sure", weight=2.0),
    person("Worse", "Female", "Republican", 0.5),
    person("", "Female", "Refused", 4.0),
]


def read(folder, **settings):
    return OpinionQa(path=str(folder), **settings).read()


def shares(found, value, question=0):
    place = [group.value for group in found.groups].index(value)
    return found.shares[place, question].tolist()


def test_answers_are_weighed_and_refusals_and_empty_cells_are_none(tmp_path):
    found = read(survey(tmp_path / "American_Trends_Panel_W26", [question("A_W26")], FIVE))
    assert [(group.trait, group.value) for group in found.groups] == [
        ("SEX", "Male"),
        ("SEX", "Female"),
        ("POLPARTY", "Republican"),
        ("POLPARTY", "Democrat"),
    ]
    assert shares(found, "Male") == [0.75, 0, 0.25]  # 3 and 1 of 4; "Not sure" is a refusal
    assert shares(found, "Female") == [0, 1, 0]  # the other one was not asked
    assert found.answered[:, 0].tolist() == [2, 1, 1, 2]
    assert found.refused[:, 0].tolist() == [1, 0, 0, 1]
    assert found.people.tolist() == [3, 2, 1, 3]
    assert found.overall[0].tolist() == pytest.approx([3 / 4.5, 0.5 / 4.5, 1 / 4.5])
    assert found.overall_answered.tolist() == [3]
    assert found.positions.tolist() == [[1.0, 2.0, 1.5]]  # the survey's own, in its order
    assert found.questions[0].choices == ("Better, by far", "Worse", "About the same")
    assert found.left_out == {
        "answer that is a refusal": 1,
        "POLPARTY Refused: people of no group of the survey's": 1,
        "POLPARTY Other: a group nobody belongs to": 1,
        **{f"trait that nobody has a value of, {trait}": 1 for trait in set(steering_traits()) - {"SEX", "POLPARTY"}},
    }
    assert found.name == "OpinionQA (weighted respondents of 1 survey)"


def test_waves_lie_side_by_side_each_with_its_own_people_and_weights(tmp_path):
    root = tmp_path / "human_resp"
    survey(root / "American_Trends_Panel_W26", [question("A_W26")], FIVE)
    two = [question("A_W101"), question("B_W101", "Yes or no?", ["Yes", "No", "Refused"], (1.0, 2.0))]
    others = [person("Worse", wave=101, B_W101="Yes"), person("Worse", "Female", wave=101, B_W101="No")]
    survey(root / "American_Trends_Panel_W101", two, others)
    for place in (root, tmp_path):
        found = read(place)
        assert [one.id for one in found.questions] == ["A_W26", "A_W101", "B_W101"]
        assert found.real.tolist() == [[True] * 3, [True] * 3, [True, True, False]]
        assert found.people.tolist() == [3, 2, 1, 3]  # of the larger wave: the same people may be in both
        assert found.answered[:2].tolist() == [[2, 1, 1], [1, 1, 1]]
        assert shares(found, "Male", 2) == [1, 0, 0]
        assert found.overall[1].tolist() == [0, 1, 0]


def test_questions_of_several_waves_in_one_file_have_their_own_weights(tmp_path):
    people = [
        {**person("Worse", weight=1.0), "A_W27": "Worse", "WEIGHT_W27": 3.0},
        {**person("About the same", weight=3.0), "A_W27": "About the same", "WEIGHT_W27": ""},
    ]
    found = read(survey(tmp_path / "x", [question("A_W26"), question("A_W27")], people))
    assert shares(found, "Male") == [0, 0.25, 0.75]
    assert shares(found, "Male", 1) == [0, 1, 0]
    assert found.left_out["respondent without a weight"] == 1


def test_without_weights_everyone_counts_alike_and_it_is_said(tmp_path):
    people = [{key: value for key, value in row.items() if not key.startswith("WEIGHT")} for row in FIVE]
    found = read(survey(tmp_path / "x", [question("A_W26")], people))
    assert shares(found, "Male") == [0.5, 0, 0.5]
    assert found.left_out["respondent of a survey without weights, all of which count alike"] == 5


def test_a_group_whose_answers_weigh_nothing_has_none(tmp_path):
    people = [person("Worse", weight=0.0), person("Worse", "Female")]
    found = read(survey(tmp_path / "x", [question("A_W26")], people), traits=["SEX"])
    assert found.answered.tolist() == [[0], [1]]
    assert found.left_out == {"group's answers to a question that weigh nothing": 1}


def test_intersections_are_groups_of_people_with_both_values(tmp_path):
    folder = survey(tmp_path / "x", [question("A_W26")], FIVE)
    found = read(folder, traits=["SEX"], intersections=[["POLPARTY", "SEX"]])
    assert [(group.trait, group.value) for group in found.groups] == [
        ("SEX", "Male"),
        ("SEX", "Female"),
        ("POLPARTY x SEX", "Republican x Female"),
        ("POLPARTY x SEX", "Democrat x Male"),
    ]
    assert found.people.tolist() == [3, 2, 1, 3]
    twice = read(folder, traits=["SEX", "SEX"], intersections=[["POLPARTY", "SEX"]] * 2)
    assert twice.groups == found.groups
    assert found.left_out["POLPARTY x SEX Republican x Male: a group nobody belongs to"] == 1
    assert [group.trait for group in read(folder, traits=[], intersections=[["POLPARTY", "SEX"]]).groups] == (
        ["POLPARTY x SEX"] * 2
    )


def test_halves_split_the_respondents_and_have_what_their_people_answered(tmp_path):
    people = [person("Worse" if each % 2 else "About the same", weight=1 + each % 2) for each in range(40)]
    found = read(survey(tmp_path / "x", [question("A_W26")], [*people, FIVE[3]]), traits=["SEX"])
    (one, has_one), (other, has_other) = found.halves(np.random.default_rng(3))
    assert one.shape == found.shares.shape
    assert (has_one[0, 0], has_other[0, 0]) == (True, True)
    assert has_one[1, 0] != has_other[1, 0]  # the only woman is in one of them
    assert one[0, 0].sum() == other[0, 0].sum() == pytest.approx(1.0)
    assert not np.allclose(one[0], other[0])
    again = found.halves(np.random.default_rng(3))
    assert np.array_equal(again[0][0], one)


def counted(**groups):
    return {"question_text": "Better or worse?", "MC_options": ["Better", " by far"], **groups}


COUNTS = {
    "SEX": {"A_W26": counted(Male={"Better, by far": 3.0, "Refused": 1.0}, Female={"Worse": 1.0})},
    "RACE": {
        "A_W26": counted(
            White={"Better, by far": 4.0, "Not sure": 2.0}, Refused={"Worse": 2.0}, **{"Mixed Race": {"Worse": 1.0}}
        )
    },
}
TRAITS = {"SEX": ["Male", "Female"], "RACE": ["White", "Black"]}


def test_counts_give_groups_and_everyone_from_the_trait_with_most_answers(tmp_path):
    found = read(survey(tmp_path / "x", [question("A_W26")], counts=COUNTS, metadata=TRAITS))
    assert [group.value for group in found.groups] == ["Male", "Female", "White"]
    assert shares(found, "Male") == [1, 0, 0]
    assert found.answered[:, 0].tolist() == [3, 1, 4]
    assert found.refused[:, 0].tolist() == [1, 0, 2]
    assert found.people.tolist() == [4, 1, 6]
    assert found.overall[0].tolist() == pytest.approx([4 / 7, 3 / 7, 0])  # Refused and Mixed Race are people too
    assert found.overall_answered.tolist() == [7]
    assert found.name == "OpinionQA (answers counted by group, everyone from RACE)"
    assert found.left_out == {
        "RACE Black: a group nobody belongs to": 1,
        "RACE Mixed Race: people of no group of the survey's": 1,
        "RACE Refused: people of no group of the survey's": 2,
        "answer that is a refusal": 2,
    }
    assert isinstance(OpinionQa(path="x"), SurveySource)


def test_halves_of_counts_add_up_to_them(tmp_path):
    content = {"SEX": {"A_W26": counted(Male={"Worse": 60.0, "About the same": 41.0}, Female={"Worse": 1.0})}}
    found = read(survey(tmp_path / "x", [question("A_W26")], counts=content))
    seen = []
    for seed in range(200):
        (one, has_one), (other, has_other) = found.halves(np.random.default_rng(seed))
        assert (one[0, 0] * 50 + other[0, 0] * 51).tolist() == pytest.approx([0, 60, 41])
        assert (has_one[1, 0], has_other[1, 0]) == (False, True)  # one person can't be halved
        seen.append(one[0, 0, 1] * 50)
    # Hypergeometric: mean 50 * 60 / 101 = 29.703, s.d. sqrt(29.703 * 41/101 * 51/100) = 2.480.
    assert np.mean(seen) == pytest.approx(29.703, abs=4 * 2.480 / 200**0.5)
    assert np.std(seen) == pytest.approx(2.480, rel=0.2)


def test_what_can_not_be_asked_is_left_out_and_counted_and_the_nominal_stays(tmp_path):
    questions = [
        question("A_W26"),
        question("N_W26", labels=["Red", "Blue", "Refused"], ordinals=(1, 1)),
        question("ONE_W26", labels=["Only", "Refused"], ordinals=(1,)),
        question("IDIMPORT_W43", "Being X?"),
        question("IDIMPORT_W43", "Being Y?"),
        question("GONE_W26"),
        question("MUTE_W26"),
    ]
    people = [person("Worse", N_W26="Red", ONE_W26="Only", IDIMPORT_W43="Worse", MUTE_W26="", GUESS="x")]
    people.append(person("Wrose", N_W26="nan", ONE_W26="", IDIMPORT_W43="", MUTE_W26="", GUESS="y"))
    found = read(survey(tmp_path / "x", questions, people))
    assert [one.id for one in found.questions] == ["A_W26", "N_W26"]
    assert found.positions.tolist() == [[1, 2, 1.5], [1, 1, 0]]
    expected = {
        "question under a key that is asked 2 times, IDIMPORT_W43": 2,
        "question with one choice": 1,
        "question nobody answered": 2,
        "nominal question (kept): no order; distance.positions=dataset gives it no ordinal distance": 1,
        "answer that is none of its question's labels": 1,
    }
    assert expected.items() <= found.left_out.items()


def test_a_label_that_reads_like_nothing_is_an_answer_where_it_is_a_choice(tmp_path):
    asked = question("A_W26", labels=["None", "nan", "Some", "Refused"], ordinals=(1, 2, 3))
    found = read(survey(tmp_path / "x", [asked], [person("None"), person("nan"), person("")]))
    assert shares(found, "Male") == [0.5, 0.5, 0]


def test_questions_are_chosen_by_key_or_as_the_contentious_set(tmp_path):
    both = [question("A_W26"), question("B_W26", labels=["Yes", "No", "Refused"], ordinals=(1, 2))]
    root = tmp_path / "human_resp"
    wave = survey(root / "American_Trends_Panel_W26", both, [person("Worse", B_W26="Yes")])
    assert [one.id for one in read(wave, questions=["B_W26"]).questions] == ["B_W26"]
    with pytest.raises(DataError, match=r"dataset.subset=contentious: none of .*disagreement_500"):
        read(wave, subset="contentious")
    survey(root / "Pew_American_Trends_Panel_disagreement_500", both[1:], counts={"SEX": {}})
    for place in (wave, root):
        assert [one.id for one in read(place, subset="contentious").questions] == ["B_W26"]
    assert len(read(root).questions) == 2


def test_the_contentious_set_is_found_among_the_models_inputs_too(tmp_path):
    wave = survey(tmp_path / "human_resp/W26", [question("A_W26"), question("B_W26")], [person("Worse", B_W26="Worse")])
    (tmp_path / "model_input").mkdir()
    file = tmp_path / "model_input/Pew_American_Trends_Panel_disagreement_500.csv"
    file.write_text("\tkey\tquestion\toptions\n0\tA_W26\tBetter?\t['x']\n")
    assert [one.id for one in read(wave, subset="contentious").questions] == ["A_W26"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"traits": ["SEXE"]}, "dataset.traits: OpinionQA has no trait 'SEXE'; did you mean SEX"),
        ({"intersections": [["SEX", "PARTY"]]}, "dataset.intersections: OpinionQA has no trait 'PARTY'"),
        ({"intersections": [["SEX"]]}, "dataset.intersections: ['SEX']: expected two or more different traits"),
        ({"intersections": [["SEX", "SEX"]]}, "expected two or more different traits"),
        ({"questions": ["A_W62"]}, "dataset.questions: OpinionQA has no question 'A_W62'; did you mean A_W26"),
        ({"traits": []}, "dataset.traits is empty"),
    ],
)
def test_settings_that_name_nothing(tmp_path, settings, told):
    folder = survey(tmp_path / "x", [question("A_W26")], FIVE)
    with pytest.raises(ConfigError) as fault:
        read(folder, **settings)
    assert told in str(fault.value)


def test_counts_know_single_traits_that_have_a_file(tmp_path):
    folder = survey(tmp_path / "x", [question("A_W26")], counts=COUNTS, metadata=TRAITS)
    with pytest.raises(ConfigError, match=r"intersections need people's own answers \(responses.csv\)"):
        read(folder, intersections=[["SEX", "RACE"]])
    with pytest.raises(DataError, match=r"no AGE_data.json\(.gz\); of traits there are RACE, SEX"):
        read(folder, traits=["AGE"])
    halved = {"SEX": {"A_W26": counted(Male={"Worse": 1.5})}}
    with pytest.raises(DataError, match="counts are no whole numbers of people"):
        read(survey(tmp_path / "y", [question("A_W26")], counts=halved))


def test_without_metadata_groups_are_those_of_the_paper(tmp_path):
    found = read(survey(tmp_path / "x", [question("A_W26")], FIVE, metadata=None))
    assert [group.value for group in found.groups] == ["Male", "Female", "Republican", "Democrat"]
    assert found.left_out["trait that nobody has a value of, AGE"] == 1
    with pytest.raises(DataError, match=r"responses.csv: nobody has a value of AGE; is there a column AGE\?"):
        read(tmp_path / "x", traits=["AGE"])
    with pytest.raises(DataError, match="nobody has a value of RACE"):
        read(tmp_path / "x", intersections=[["SEX", "RACE"]])


def test_people_who_do_not_say_a_trait_are_counted(tmp_path):
    found = read(survey(tmp_path / "x", [question("A_W26")], [*FIVE, person("Worse", "nan")]), traits=["SEX"])
    assert found.left_out["SEX not said: people of no group of the survey's"] == 1
    assert (found.people.tolist(), found.overall_answered.tolist()) == ([3, 2], [4])


def test_packed_responses_and_labels_with_line_ends_are_read(tmp_path):
    asked = question("A_W26", labels=["Yes,\nit is", "No", "Refused"], ordinals=(1, 2))
    folder = survey(tmp_path / "x", [asked], [person("Yes,\nit is"), person("No", "Female")])
    plain = folder / "responses.csv"
    (folder / "responses.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    found = read(folder)
    assert shares(found, "Male") == [1, 0]


def test_files_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(DataError, match=r"dataset.path is not set; give dataset.path=FOLDER with OpinionQA"):
        OpinionQa().read()
    with pytest.raises(DataError, match=r"no info.csv here, in a folder of it, or in those of human_resp"):
        read(tmp_path)
    folder = survey(tmp_path / "x", [question("A_W26")])
    with pytest.raises(DataError, match=r"neither responses.csv nor <TRAIT>_data.json"):
        read(folder)
    table(folder / "responses.csv", [person("Worse", weight=-1)])
    with pytest.raises(DataError, match=r"responses.csv: a survey weight is -1.0, expected none below 0"):
        read(folder)
    table(folder / "responses.csv", [person("Worse", weight="heavy")])
    with pytest.raises(DataError, match=r"responses.csv can't be read: "):
        read(folder)
    (folder / "responses.csv").write_text("")
    with pytest.raises(DataError, match=r"responses.csv can't be read: "):
        read(folder)
    table(folder / "responses.csv", [person("1.0")])
    with pytest.raises(DataError, match=r"nobody answered any question; .*none of its question's labels: 1"):
        read(folder)
    (folder / "metadata.csv").write_text("key,options\nSEX,oops(\n")
    with pytest.raises(DataError, match=r"metadata.csv: expected a key and a list of texts"):
        read(folder)


def test_a_folder_of_several_counts_is_ambiguous_and_waves_without_answers_are_counted(tmp_path):
    for name in ("one", "two"):
        survey(tmp_path / "human_resp" / name, [question("A_W26")], counts=COUNTS)
    with pytest.raises(DataError, match=r"holds the counts of several surveys \(one, two\); give one of them"):
        read(tmp_path)
    survey(tmp_path / "other/W26", [question("A_W26")], FIVE)
    survey(tmp_path / "other/W27", [question("A_W27")])
    assert read(tmp_path / "other").left_out["survey without answers"] == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="OpinionQA's files are not beside this checkout")
def test_the_real_counts_are_a_survey():
    found = read(SHARED, subset="contentious")
    assert found.shares.shape == (11, 437, 9)  # 442 rows less the five of IDIMPORT_W43; one wave is held back there
    assert found.left_out["question under a key that is asked 5 times, IDIMPORT_W43"] == 5
    assert (
        found.left_out["nominal question (kept): no order; distance.positions=dataset gives it no ordinal distance"]
        == 8
    )
    assert found.left_out["RACE Mixed Race: people of no group of the survey's"] == 276
    assert found.name.endswith("everyone from RACE)")
    has = found.answered > 0
    assert np.allclose(found.shares.sum(axis=-1)[has], 1)
    assert np.allclose(found.overall.sum(axis=-1), 1)
    assert (found.shares[~np.broadcast_to(found.real, found.shares.shape)] == 0).all()
    women, men = found.overall_answered, found.answered[:2].sum(axis=0)
    assert (np.abs(women - men) <= 71).all()  # totals differ by trait, by so much at most
