import errno
import json
import os
import shutil
import socket
import time

import pytest

from apm_lab.errors import DataError
from apm_lab.experiment.claim import claim_run


def ask(folder):
    return claim_run(folder / ".claims", "abc", folder / "study" / "run")


def written(folder, **change):
    path = folder / ".claims" / "abc"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return path


def test_the_first_has_it_and_the_second_waits(tmp_path):
    assert ask(tmp_path).state == "ours"
    second = ask(tmp_path)
    assert (second.state, second.owner) == ("busy", f"process {os.getpid()} on {socket.gethostname()}")


def test_a_finished_run_is_done_until_its_folder_is_gone(tmp_path):
    claim = ask(tmp_path)
    (claim.folder / "manifest.json").write_text("{}")
    claim.finish()
    assert ask(tmp_path).state == "done"
    (claim.folder / "manifest.json").unlink()
    again = ask(tmp_path)
    assert (again.state, again.resumed, again.folder) == ("ours", True, claim.folder)


def test_a_dead_owner_is_taken_over(tmp_path):
    folder = ask(tmp_path).folder
    written(tmp_path, pid=2**22 + 1)
    claim = ask(tmp_path)
    assert (claim.state, claim.resumed, claim.folder) == ("ours", True, folder)


def test_a_reused_process_number_is_no_owner(tmp_path):
    ask(tmp_path)
    written(tmp_path, start="1")
    assert ask(tmp_path).state == "ours"


def test_another_host_is_believed_while_its_heart_beats(tmp_path):
    ask(tmp_path)
    path = written(tmp_path, host="elsewhere")
    assert ask(tmp_path).state == "busy"
    os.utime(path, (time.time() - 1000, time.time() - 1000))
    assert ask(tmp_path).state == "ours"


def test_a_damaged_claim_is_nobodys(tmp_path):
    ask(tmp_path)
    (tmp_path / ".claims" / "abc").write_text("{")
    assert ask(tmp_path).state == "ours"


def test_a_deleted_folder_is_computed_again_in_a_new_one(tmp_path):
    claim = ask(tmp_path)
    (claim.folder / "manifest.json").write_text("{}")
    claim.finish()
    shutil.rmtree(claim.folder)
    again = ask(tmp_path)
    assert (again.state, again.resumed) == ("ours", False)
    assert again.folder.is_dir()


def test_who_was_taken_over_frees_nothing(tmp_path):
    claim = ask(tmp_path)
    with claim.held():
        path = written(tmp_path, host="elsewhere")  # another host thought this process dead
    assert json.loads(path.read_text())["state"] == "running"
    assert ask(tmp_path).state == "busy"


def test_a_heartbeat_outlives_one_missed_beat(tmp_path, monkeypatch):
    monkeypatch.setattr("apm_lab.experiment.claim._BEAT_S", 0.01)
    claim = ask(tmp_path)
    path = tmp_path / ".claims" / "abc"
    with claim.held():
        path.rename(path.with_suffix(".away"))
        time.sleep(0.1)
        path.with_suffix(".away").rename(path)
        os.utime(path, (1, 1))
        time.sleep(0.1)
        assert path.stat().st_mtime > 1


def test_a_claim_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file can't be written"):
        ask(tmp_path / "file")


def test_a_claim_that_finds_no_space_leaves_no_draft(tmp_path, monkeypatch):
    def full(path, text):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    claim = ask(tmp_path)
    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(DataError, match="No space left"):
        claim.finish()
    assert {file.name for file in (tmp_path / ".claims").iterdir()} == {"abc", "abc.lock"}


def test_a_full_disk_hides_no_earlier_fault(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    claim = ask(tmp_path)
    monkeypatch.setattr("apm_lab.experiment.claim._replace", full)
    with pytest.raises(DataError, match=r"run can't be written: No space left on device"):
        claim.finish()
    with pytest.raises(RuntimeError, match="earlier"), claim.held():
        raise RuntimeError("earlier")


def test_leaving_without_finishing_frees_the_claim(tmp_path):
    claim = ask(tmp_path)
    with claim.held():
        assert ask(tmp_path).state == "busy"
    assert ask(tmp_path).state == "ours"
