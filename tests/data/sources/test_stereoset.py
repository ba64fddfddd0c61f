"""StereoSet's official file: labels by name and never by place, and every fault by item."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apm_lab.data.sources.stereoset import ROWS, StereoSet, read_stereoset
from apm_lab.errors import ConfigError, DataError

SHARED = Path(__file__).parents[4] / "shared" / "data" / "stereoset" / "dev.json.gz"


def item(order=("unrelated", "stereotype", "anti-stereotype"), **changes):
    sentences = [{"sentence": f"{label}. ", "id": label, "labels": [], "gold_label": label} for label in order]
    fresh = {"id": "a1", "target": "chess player", "bias_type": "profession", "context": "The player was BLANK."}
    return {**fresh, "sentences": sentences, **changes}


def written(tmp_path, intra=(), inter=(), name="dev.json"):
    content = json.dumps({"version": "1", "data": {"intersentence": list(inter), "intrasentence": list(intra)}})
    (tmp_path / name).write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    return tmp_path / name


def test_labels_are_found_by_name_wherever_they_stand(tmp_path):
    (one,) = read_stereoset(written(tmp_path, [item()]))
    assert (one.unrelated, one.stereotype, one.antistereotype) == (0, 1, 2)
    assert one.sentences == ("unrelated.", "stereotype.", "anti-stereotype.")
    (other,) = read_stereoset(written(tmp_path, [item(("anti-stereotype", "unrelated", "stereotype"))]))
    assert (other.unrelated, other.stereotype, other.antistereotype) == (1, 2, 0)


def test_halves_are_read_apart_packed_or_not_from_a_file_or_its_folder(tmp_path):
    written(tmp_path, [item()], [item(id="b", context="He plays chess.")], "dev.json.gz")
    assert [one.half for one in read_stereoset(tmp_path)] == ["intersentence", "intrasentence"]
    assert [one.id for one in read_stereoset(tmp_path / "dev.json.gz", ["intersentence"])] == ["b"]


def test_a_sentence_may_stand_in_two_items_with_different_labels(tmp_path):
    one, other = item(), item(("stereotype", "unrelated", "anti-stereotype"), id="a2")
    other["sentences"][0]["sentence"] = one["sentences"][0]["sentence"]
    one["sentences"][0]["labels"] = [{"label": "related", "human_id": "x"}]  # an annotator's fourth label
    found = {each.id: each for each in read_stereoset(written(tmp_path, [one, other]))}
    assert found["a1"].sentences[found["a1"].unrelated] == found["a2"].sentences[found["a2"].stereotype]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (7, "expected an object, found int"),
        (item(id=3), "field 'id' is 3, expected a text"),
        (item(bias_type="age"), "bias_type is 'age', expected one of gender"),
        (item(context="Nothing to fill."), "the context has no BLANK to fill"),
        (item(("stereotype", "stereotype", "unrelated")), "gold labels are stereotype, stereotype, unrelated"),
        (item(sentences=[]), "gold labels are none"),
        (item(sentences=None), "expected sentences with a text"),
        (item(sentences=[{"sentence": "a"}]), "expected sentences with a text"),
    ],
)
def test_faults_are_named_by_item(tmp_path, one, told):
    with pytest.raises(DataError) as fault:
        read_stereoset(written(tmp_path, [item(), one]))
    assert told in str(fault.value)
    assert "dev.json, intrasentence item 2" in str(fault.value)


def test_files_that_are_no_stereoset(tmp_path):
    with pytest.raises(DataError, match=r"holds no dev\.json or dev\.json\.gz, and no parquet file of inters"):
        read_stereoset(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_stereoset(tmp_path / "other.json")
    for content, told in (
        (b"{", "is no JSON"),
        (b"[]", "expected an object with data"),
        (b'{"data": {}}', "data.inter"),
    ):
        (tmp_path / "dev.json").write_bytes(content)
        with pytest.raises(DataError, match=told):
            read_stereoset(tmp_path)
    whole = written(tmp_path, [item()], name="dev.json.gz").read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(whole[:-9])
    with pytest.raises(DataError, match="no complete gzip file"):
        read_stereoset(tmp_path / "cut.json.gz")
    with pytest.raises(ConfigError, match="no half 'intersentences'; did you mean intersentence"):
        read_stereoset(tmp_path, ["intersentences"])


def hub_files(folder, items, half="intrasentence"):
    """Write the hub's form: a struct of lists, labels as numbers."""
    numbers = {"anti-stereotype": 0, "stereotype": 1, "unrelated": 2, "related": 3}
    rows = [
        {
            **{key: one[key] for key in ("id", "target", "bias_type", "context")},
            "sentences": {
                "sentence": [each["sentence"] for each in one["sentences"]],
                "id": [each["id"] for each in one["sentences"]],
                "labels": [{"label": [1, 3], "human_id": ["a", "b"]} for _ in one["sentences"]],
                "gold_label": [numbers[each["gold_label"]] for each in one["sentences"]],
            },
        }
        for one in items
    ]
    (folder / half).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / half / "validation-00000-of-00001.parquet")


def test_the_hubs_parquet_says_the_same_as_the_official_file(tmp_path, monkeypatch):
    one, two = item(), item(("anti-stereotype", "unrelated", "stereotype"), id="a2")
    hub_files(tmp_path / "hub", [one, two])
    hub_files(tmp_path / "hub", [item(id="b", context="He plays.")], "intersentence")
    official = read_stereoset(written(tmp_path, [one, two], [item(id="b", context="He plays.")]))
    assert read_stereoset(tmp_path / "hub") == official
    asked = []
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, **kw: asked.append((name, kw["repo_type"], kw["allow_patterns"])) or tmp_path / "hub",
    )
    assert StereoSet("McGill-NLP/stereoset").read() == official
    assert asked == [("McGill-NLP/stereoset", "dataset", ["*.parquet"])]


def test_faults_of_parquet_files_are_named(tmp_path):
    hub_files(tmp_path, [item()])
    file = tmp_path / "intrasentence/validation-00000-of-00001.parquet"
    with pytest.raises(DataError, match=r"no parquet file of intersentence"):
        read_stereoset(tmp_path)
    for label, told in ((3, "row 1: gold_label is 3, expected 0 to 2"), (None, "gold_label is None")):
        rows = pq.read_table(file).to_pylist()
        rows[0]["sentences"]["gold_label"][0] = label
        pq.write_table(pa.Table.from_pylist(rows), file)
        with pytest.raises(DataError, match=told):
            read_stereoset(tmp_path, ["intrasentence"])
    for sentences in (None, {"sentence": ["a"], "gold_label": []}):
        pq.write_table(pa.Table.from_pylist([{**rows[0], "sentences": sentences}]), file)
        with pytest.raises(DataError, match="row 1: expected sentences"):
            read_stereoset(tmp_path, ["intrasentence"])
    pq.write_table(pa.table({"id": ["a"]}), file)
    with pytest.raises(DataError, match=r"parquet(: no column target| can't be read: )"):
        read_stereoset(tmp_path, ["intrasentence"])
    file.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"parquet can't be read: "):
        read_stereoset(tmp_path, ["intrasentence"])


def test_some_items_are_drawn_by_the_seed_in_the_files_order(tmp_path):
    (tmp_path / "data").mkdir()
    written(tmp_path / "data", [item(id=f"{number:02}") for number in range(50)])
    drawn = [one.id for one in StereoSet(str(tmp_path), items=20).read()]
    assert drawn == sorted(set(drawn)) and len(drawn) == 20
    assert drawn == [one.id for one in StereoSet(str(tmp_path), items=20).read()]
    assert drawn != [one.id for one in StereoSet(str(tmp_path), items=20, seed=1).read()]
    assert len(StereoSet(str(tmp_path), items=50).read()) == len(StereoSet(str(tmp_path)).read()) == 50
    assert StereoSet(str(tmp_path), ["intersentence"]).read() == []


def test_no_path_and_no_half_say_what_to_give(tmp_path):
    with pytest.raises(DataError, match=r"dataset.path is not set; .*moinnadeem/StereoSet.*McGill-NLP/stereoset"):
        StereoSet().read()
    with pytest.raises(ConfigError, match=r"dataset.halves is empty; name intersentence or intrasentence, or both"):
        StereoSet(str(tmp_path), []).read()


@pytest.mark.skipif(not SHARED.is_file(), reason="StereoSet's file is not beside this checkout")
def test_the_real_file_is_read_whole():
    items = read_stereoset(SHARED)
    counts = Counter(one.half for one in items)
    assert counts == {"intersentence": 2023, "intrasentence": 2006}  # a hundred of each are held back there
    assert ROWS == {"intersentence": 2023 + 100, "intrasentence": 2006 + 100}
    assert sum(ROWS.values()) == 4_229
    assert len({one.id for one in items}) == len(items)
    assert {one.bias_type for one in items} == {"gender", "profession", "race", "religion"}
    assert len({one.target.lower() for one in items}) > 70
    assert len(StereoSet(str(SHARED), items=100).read()) == 100
