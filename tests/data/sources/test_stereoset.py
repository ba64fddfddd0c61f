"""StereoSet's official file: labels by name and never by place, and every fault by item."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from apm_lab.data.sources.stereoset import read_stereoset
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
    with pytest.raises(DataError, match=r"holds no dev\.json"):
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


@pytest.mark.skipif(not SHARED.is_file(), reason="StereoSet's file is not beside this checkout")
def test_the_real_file_is_read_whole():
    items = read_stereoset(SHARED)
    counts = Counter(one.half for one in items)
    assert counts == {"intersentence": 2023, "intrasentence": 2006}
    assert len({one.id for one in items}) == len(items)
    assert {one.bias_type for one in items} == {"gender", "profession", "race", "religion"}
    assert len({one.target.lower() for one in items}) > 70
