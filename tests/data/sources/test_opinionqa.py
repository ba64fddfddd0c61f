"""OpinionQA's files: substantive answers and their ordinals, answers by group, and every fault by name."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from apm_lab.data.sources.opinionqa import group_counts, read_questions
from apm_lab.errors import DataError

SHARED = Path(__file__).parents[4] / "shared/data/opinionqa/human_resp/Pew_American_Trends_Panel_disagreement_500"
COLUMNS = ("key", "option_mapping", "question", "references", "option_ordinal")


def row(key="A_W26", question="Better or worse?", references=None, ordinals="[1.0, 2.0, 1.5]"):
    labels = references or "['Better, by far', 'Worse', 'About the same', 'Not sure', 'Refused']"
    return {
        "key": key,
        "option_mapping": "{1.0: nan}",
        "question": question,
        "references": labels,
        "option_ordinal": ordinals,
    }


def written(tmp_path, *rows, columns=COLUMNS):
    with (tmp_path / "info.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.DictWriter(handle, ("", *columns), extrasaction="ignore")
        table.writeheader()
        table.writerows({"": number, **one} for number, one in enumerate(rows))
    return tmp_path / "info.csv"


def counts(tmp_path, content, packed=False):
    file = tmp_path / f"SEX_data.json{'.gz' if packed else ''}"
    raw = json.dumps(content).encode()
    file.write_bytes(gzip.compress(raw) if packed else raw)
    return file


def test_answers_beyond_the_ordinals_are_refusals_and_ordinals_keep_their_order(tmp_path):
    (one,) = read_questions(written(tmp_path, row()))
    assert one.choices == ("Better, by far", "Worse", "About the same")
    assert one.ordinals == (1.0, 2.0, 1.5)
    assert one.refusals == ("Not sure", "Refused")


def test_a_key_that_is_asked_several_times_gives_questions_of_their_own(tmp_path):
    rows = row("B_W43", "About X?"), row(), row("B_W43", "About Y?")
    assert [one.id for one in read_questions(written(tmp_path, *rows))] == ["B_W43#1", "A_W26", "B_W43#2"]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (row(ordinals="[1.0, nan]"), "option_ordinal is '[1.0, nan]', expected a list of float"),
        (row(ordinals="__import__('os')"), "expected a list of float"),
        (row(ordinals="['a']"), "expected a list of float"),
        (row(ordinals="[]"), "0 ordinals for 5 answers"),
        (row(references="['a']"), "3 ordinals for 1 answers"),
        (row(references="['a', 'a', 'b', 'c']"), "answers, which must differ"),
        (row(references="(1, 2)"), "references is '(1, 2)', expected a list of str"),
        (row(question=" "), "key or question is empty"),
    ],
)
def test_faults_are_named_by_row(tmp_path, one, told):
    with pytest.raises(DataError) as fault:
        read_questions(written(tmp_path, row(), one))
    assert told in str(fault.value)
    assert "info.csv, row 2" in str(fault.value)


def test_a_file_that_is_not_there_or_of_another_kind(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_questions(tmp_path / "info.csv")
    with pytest.raises(DataError, match="no column option_ordinal, references"):
        read_questions(written(tmp_path, row(), columns=("key", "question")))


@pytest.mark.parametrize("packed", [False, True])
def test_groups_are_counted_by_the_questions_own_labels(tmp_path, packed):
    questions = read_questions(written(tmp_path, row(), row("B_W43", "About X?"), row("B_W43", "About Y?")))
    content = {
        "A_W26": {
            "question_text": "Better or worse?",
            "MC_options": ["Better", " by far", "Worse"],  # split at a comma, as the release is
            "Male": {"Better, by far": 3.0, "Refused": 1.0},
            "Female": {"Worse": 2.0, "About the same": 5.0, "Not sure": 4.0},
        },
        "B_W43": {"question_text": "About Y?", "Male": {"Worse": 7.0}},
    }
    found = group_counts(counts(tmp_path, content, packed), questions)
    assert (found.trait, found.groups) == ("SEX", ("Female", "Male"))
    assert found.counts[:, 0].tolist() == [[0, 2, 5], [3, 0, 0]]
    assert found.counts[1, 2].tolist() == [0, 7, 0]
    assert found.refused.tolist() == [[4, 0, 0], [1, 0, 0]]
    assert found.asked.tolist() == [True, False, True]
    assert found.answered.tolist() == [[7, 0, 0], [3, 0, 7]]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"Bettr": 1.0}, "'Bettr' is no answer to this question"),
        ({"Worse": -1.0}, "'Worse' counts -1.0, expected a number of people"),
        ({"Worse": "many"}, "counts 'many'"),
        ({"Worse": True}, "counts True"),
    ],
)
def test_counts_that_can_not_be_are_named(tmp_path, answers, told):
    questions = read_questions(written(tmp_path, row()))
    content = {"A_W26": {"question_text": "Better or worse?", "Male": answers}}
    with pytest.raises(DataError) as fault:
        group_counts(counts(tmp_path, content), questions)
    assert told in str(fault.value)
    assert "SEX_data.json, A_W26, Male" in str(fault.value)


def test_files_of_counts_that_are_none(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        group_counts(tmp_path / "AGE_data.json", [])
    with pytest.raises(DataError, match="expected an object of objects"):
        group_counts(counts(tmp_path, {"A": 1}), [])
    with pytest.raises(DataError, match=r"A: Male is \[1\], expected an object of counts"):
        group_counts(counts(tmp_path, {"A": {"question_text": "Q?", "MC_options": ["x"], "Male": [1]}}), [])
    with pytest.raises(DataError, match="A: question_text is None, expected a text"):
        group_counts(counts(tmp_path, {"A": {"question_text": None}}), [])
    whole = counts(tmp_path, {}, packed=True).read_bytes()
    (tmp_path / "AGE_data.json.gz").write_bytes(whole[:-3])
    with pytest.raises(DataError, match="no complete gzip file"):
        group_counts(tmp_path / "AGE_data.json.gz", [])


@pytest.mark.skipif(not SHARED.is_dir(), reason="OpinionQA's files are not beside this checkout")
def test_the_real_files_are_read_whole():
    questions = read_questions(SHARED / "info.csv")
    assert (len(questions), len({one.key for one in questions})) == (442, 438)
    assert sum(len(set(one.ordinals)) == 1 for one in questions) == 8  # nominal ones
    assert sum(list(one.ordinals) != sorted(one.ordinals) for one in questions) > 90
    found = group_counts(SHARED / "SEX_data.json.gz", questions)
    assert found.groups == ("Female", "Male")
    assert found.asked.sum() == 438
    unheard = [questions[place].id for place in np.flatnonzero(found.asked & (found.answered == 0).any(axis=0))]
    assert unheard == ["FEM2_W29", "SEENFEM_W29"]  # asked of women alone
