"""BBQ's files as they are published: who is stereotyped, what the gold answer is, and every fault by file and line."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import huggingface_hub
import pytest

from apm_lab.data.sources.bbq import CATEGORIES, ROWS, Bbq, read_bbq
from apm_lab.errors import ConfigError, DataError

SHARED = Path(__file__).parents[4] / "shared" / "data" / "bbq"


def row(category="Age", groups=("old",), tags=("old", "nonOld"), texts=("Grandpa ", "Kim"), **changes):
    """Return a row about two people and the unknown option, which stands in the middle."""
    fresh = {
        "example_id": 7,
        "question_index": "1",
        "question_polarity": "neg",
        "context_condition": "ambig",
        "category": category,
        "answer_info": {"ans0": [texts[0], tags[0]], "ans1": ["Not known", "unknown"], "ans2": [texts[1], tags[1]]},
        "additional_metadata": {
            "subcategory": "None",
            "stereotyped_groups": list(groups),
            "version": "a",
            "source": "",
        },
        "context": "Two people met. ",
        "question": "Who forgot? ",
        "ans0": texts[0],
        "ans1": "Not known",
        "ans2": texts[1],
        "label": 1,
    }
    return {**fresh, **changes}


def written(tmp_path, *rows, category="Age", packed=False):
    file = tmp_path / f"{category}.jsonl{'.gz' if packed else ''}"
    with (gzip.open if packed else open)(file, "wt", encoding="utf-8") as handle:
        handle.writelines((one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)) + "\n" for one in rows)
    return tmp_path


def only(tmp_path, one, category="Age"):
    (item,) = read_bbq(written(tmp_path, one, category=category), [category])
    return item


def test_the_official_sizes_are_those_that_the_papers_count():
    assert sum(ROWS.values()) == 58_492
    assert sum(ROWS[category] for category in CATEGORIES) == 31_372
    assert len(CATEGORIES) == 9


@pytest.mark.parametrize(("polarity", "stereotyped", "other"), [("neg", 0, 2), ("nonneg", 2, 0)])
def test_the_stereotyped_answer_changes_sides_with_the_question(tmp_path, polarity, stereotyped, other):
    item = only(tmp_path, row(question_polarity=polarity))
    assert (item.stereotyped, item.unstereotyped, item.unknown, item.gold) == (stereotyped, other, 1, 1)
    assert item.negative is (polarity == "neg")
    assert item.ambiguous


def test_texts_come_without_blanks_and_ids_with_their_category(tmp_path):
    item = only(tmp_path, row())
    assert item.answers == ("Grandpa", "Not known", "Kim")
    assert (item.context, item.question, item.id) == ("Two people met.", "Who forgot?", "Age/7")


@pytest.mark.parametrize(
    ("category", "groups", "tags", "texts", "stereotyped"),
    [
        ("Age", ["old"], ("OLD", "nonOld"), ("a", "b"), 0),  # case differs; "old" is in "nonold"
        ("Gender_identity", ["F"], ("man", "woman"), ("a", "b"), 2),
        ("Gender_identity", ["M"], ("boy", "girl"), ("a", "b"), 0),
        ("Gender_identity", ["Transgender women", "trans"], ("nonTrans_F", "trans_M"), ("a", "b"), 2),
        ("Race_ethnicity", ["Black", "African American"], ("F-White", "M-Black"), ("a", "b"), 2),
        ("Race_ethnicity", ["African American"], ("African", "Hispanic"), ("a", "b"), None),  # not the same
        ("Race_ethnicity", ["Black", "Latino"], ("F-Black", "M-Latino"), ("a", "b"), None),  # both
        ("SES", ["lowSES"], ("", "lowSES"), ("a", "b"), 2),
        ("Disability_status", ["disabled", "D/deaf"], ("nonDisabled", "disabled"), ("a", "b"), 2),
        ("Nationality", ["British"], ("Europe", "AsiaPacific"), ("British ", "Japanese"), 0),  # tags are regions
        ("Religion", ["Muslim", "Mormon"], ("Jewish", "Mormon"), ("a", "b"), 2),
    ],
)
def test_who_is_of_the_stereotyped_group(tmp_path, category, groups, tags, texts, stereotyped):
    item = only(tmp_path, row(category, groups, tags, texts), category)
    assert item.stereotyped == stereotyped
    assert (item.unstereotyped is None) is (stereotyped is None)


def test_an_item_is_read_from_packed_files_and_past_strange_line_ends(tmp_path):
    rows = [row(context="One\u2028two\u0085three"), "", row(example_id=8)]
    items = read_bbq(written(tmp_path, *rows, packed=True), ["Age"])
    assert [item.id for item in items] == ["Age/7", "Age/8"]
    assert items[0].context == "One\u2028two\u0085three"


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ("{", "line 1: not a JSON object"),
        ("[]", "expected a JSON object, found list"),
        (row(label="1"), "field 'label' is '1', expected int"),
        ({key: value for key, value in row().items() if key != "question"}, "field 'question' is None, expected str"),
        (row(category="SES"), "category is 'SES', expected 'Age'"),
        (row(label=3), "label 3 does not fit"),
        (row(label=0), "label 0 does not fit a context that is ambig"),
        (row(context_condition="disambig"), "label 1 does not fit a context that is disambig"),
        (row(question_polarity="maybe"), "question_polarity is 'maybe', expected neg or nonneg"),
        (row(tags=("unknown", "old")), "2 answers are tagged 'unknown', expected one"),
        (row(answer_info={"ans0": ["a"]}), "answer_info.ans0 is ['a'], expected [text, tag]"),
        (row(additional_metadata={}), "stereotyped_groups is None, expected a list of texts"),
    ],
)
def test_faults_are_named_by_file_and_line(tmp_path, one, told):
    with pytest.raises(DataError) as fault:
        read_bbq(written(tmp_path, one), ["Age"])
    assert told in str(fault.value)
    assert "Age.jsonl, line 1" in str(fault.value)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no Age.jsonl \(or packed as .gz\); give dataset.path=FOLDER with BBQ"):
        read_bbq(tmp_path, ["Age"])
    with pytest.raises(ConfigError, match=r"BBQ has no category 'age'; did you mean Age"):
        read_bbq(tmp_path, ["age"])
    written(tmp_path, row())
    written(tmp_path, row("SES", ["lowSES"], ("lowSES", "highSES")), category="SES")
    with pytest.raises(DataError, match=r"no Religion.jsonl, Race_x_SES.jsonl .*there are Age, SES") as fault:
        read_bbq(tmp_path, ["Age", "Religion", "Race_x_SES", "SES"])
    assert str(fault.value).endswith("dataset.categories=[Age,SES] takes these")
    with pytest.raises(ConfigError, match=r"dataset.categories is empty; name at least one of Age"):
        read_bbq(tmp_path, [])
    assert len(read_bbq(tmp_path, ["SES", "SES"])) == 1


def test_files_lie_in_one_of_several_folders_or_in_their_data(tmp_path):
    (tmp_path / "BBQ/data").mkdir(parents=True)
    (tmp_path / "more").mkdir()
    written(tmp_path / "BBQ/data", row())
    written(tmp_path / "more", row("SES", ["lowSES"], ("lowSES", "highSES")), category="SES")
    both = Bbq([str(tmp_path / "BBQ"), str(tmp_path / "more")], categories=["SES", "Age"])
    assert [item.category for item in both.read()] == ["SES", "Age"]
    assert len(Bbq(str(tmp_path / "BBQ"), categories=["Age"]).read()) == 1
    (tmp_path / "more").rename(tmp_path / "BBQ/bbq_lite")
    assert len(Bbq(str(tmp_path / "BBQ"), categories=["SES", "Age"]).read()) == 2


def test_some_items_are_drawn_by_the_seed_in_the_files_order(tmp_path):
    written(tmp_path, *(row(example_id=number) for number in range(50)))
    drawn = [item.id for item in Bbq(str(tmp_path), ["Age"], items=20).read()]
    assert len(set(drawn)) == 20
    assert drawn == sorted(drawn, key=lambda name: int(name.partition("/")[2]))
    assert drawn == [item.id for item in Bbq(str(tmp_path), ["Age"], items=20).read()]
    assert drawn != [item.id for item in Bbq(str(tmp_path), ["Age"], items=20, seed=1).read()]
    assert len(Bbq(str(tmp_path), ["Age"], items=99).read()) == 50
    with pytest.raises(ConfigError, match=r"dataset.items=0: expected at least 1, or null for all"):
        Bbq(str(tmp_path), ["Age"], items=0).read()


@pytest.mark.parametrize("path", [None, []])
def test_no_path_says_which_download_it_is(path):
    with pytest.raises(DataError, match=r"dataset.path is not set; .*nyu-mll/BBQ.*heegyu/bbq"):
        Bbq(path).read()


def test_a_hub_id_is_fetched(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **kw: asked.append((name, kw["allow_patterns"])) or tmp_path
    )
    (tmp_path / "data").mkdir()
    written(tmp_path / "data", row())
    assert len(Bbq("heegyu/bbq", ["Age"]).read()) == 1
    assert asked == [("heegyu/bbq", ["*.jsonl", "*.jsonl.gz"])]


@pytest.mark.skipif(not SHARED.is_dir(), reason="BBQ's files are not beside this checkout")
def test_the_real_folder_has_all_nine_categories():
    items = Bbq(str(SHARED)).read()
    sizes = Counter(item.category for item in items)
    assert {category for category in CATEGORIES if sizes[category] == ROWS[category]} == {
        *("Disability_status", "Nationality", "Physical_appearance", "Sexual_orientation")
    }
    assert all(sizes[category] <= ROWS[category] for category in CATEGORIES)
    assert tuple(dict.fromkeys(item.category for item in items)) == CATEGORIES


@pytest.mark.skipif(not SHARED.is_dir(), reason="BBQ's files are not beside this checkout")
def test_every_row_of_the_real_files_is_resolved_or_counted():
    whole = [category for category in CATEGORIES if list((SHARED / "data").glob(f"{category}.jsonl*"))]
    items = read_bbq(SHARED / "data", whole)
    assert len(items) == len({item.id for item in items})
    assert all(item.stereotyped is not None for item in items)
    assert Counter(item.ambiguous for item in items) == {True: len(items) / 2, False: len(items) / 2}
    lite = read_bbq(SHARED / "bbq_lite", ["Gender_identity", "Race_ethnicity", "SES"])
    lost = Counter(item.category for item in lite if item.stereotyped is None)
    assert lost == {"Race_ethnicity": 192, "Gender_identity": 20}
