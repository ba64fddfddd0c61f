"""A data set's path: a folder as it is, a hub id fetched in part, and one message where there is neither."""

from __future__ import annotations

from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled, RepositoryNotFoundError

from apm_lab.data.hub import local_folder
from apm_lab.errors import DataError


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Return the calls that were made; the hub answers with a folder, or raises what is put into `calls[0]`."""
    calls = [None]

    def answer(name, **asked):
        calls.append((name, asked))
        if calls[0] is not None:
            raise calls[0]
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    return calls


def test_a_folder_or_file_is_taken_as_it_is(hub, tmp_path, monkeypatch):
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert local_folder("owner/name", "X", []).samefile(tmp_path / "owner" / "name")
    (tmp_path / "a.json").touch()
    assert local_folder(str(tmp_path / "a.json"), "X", []) == tmp_path / "a.json"
    assert hub == [None]


@pytest.mark.parametrize(("path", "revision"), [("heegyu/bbq", None), ("heegyu/bbq@abc123", "abc123")])
def test_a_hub_id_is_fetched_and_only_what_is_needed(hub, tmp_path, path, revision):
    assert local_folder(path, "X", ["*.jsonl"]) == tmp_path
    assert hub[1] == ("heegyu/bbq", {"repo_type": "dataset", "revision": revision, "allow_patterns": ["*.jsonl"]})


@pytest.mark.parametrize("path", ["no/such/folder", "nothing", "./a/b", "/a/b", "a/b c"])
def test_what_is_neither_folder_nor_id_is_never_asked_of_the_hub(hub, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="there is no such folder or file; give one with the files of X"):
        local_folder(path, "the files of X", [])
    assert hub == [None]


@pytest.mark.parametrize("path", [None, ""])
def test_no_path_says_what_to_fetch(path):
    with pytest.raises(DataError, match=r"dataset\.path is not set; give dataset\.path=FOLDER with X"):
        local_folder(path, "X", [])


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (LocalEntryNotFoundError("no network"), "the hub can't be reached"),
        (OfflineModeIsEnabled("HF_HUB_OFFLINE"), "the hub can't be reached"),
        (OSError("429 Too Many\nmore"), "the hub said: 429 Too Many;"),
        (ValueError(""), "the hub said: ValueError;"),
        (RuntimeError("cut off"), "the hub said: cut off;"),
    ],
)
def test_what_the_hub_can_not_give_is_one_message(hub, fault, told):
    hub[0] = fault
    with pytest.raises(DataError) as found:
        local_folder("heegyu/bbq", "X", [])
    assert told in str(found.value)
    assert "dataset.path=heegyu/bbq: " in str(found.value)
    assert str(found.value).endswith("give dataset.path=FOLDER with X")
    assert "\n" not in str(found.value)


def test_a_data_set_that_does_not_exist_is_named(hub):
    hub[0] = RepositoryNotFoundError("404", response=Mock(headers={}))
    with pytest.raises(DataError, match="the hub has no such data set"):
        local_folder("heegyu/bqq", "X", [])
