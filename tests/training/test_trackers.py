import json
import logging
import math
import resource
import struct
import subprocess
import sys
import time

import pytest

from apm_lab.errors import ConfigError
from apm_lab.training.credentials import key_configured, without_key, without_secrets
from apm_lab.training.trackers import CsvTracker, Trackers, WandbTracker

KEY = "f" * 40


def blocks(data):
    """Records of a .wandb file: a 7-byte header, then LevelDB log blocks of 32 KiB."""
    offset, partial = 7, b""
    while offset + 7 <= len(data):
        room = 32768 - offset % 32768
        if room < 7:
            offset += room
            continue
        size, kind = struct.unpack("<HB", data[offset + 4 : offset + 7])
        if offset + 7 + size > len(data):  # still being written
            return
        partial += data[offset + 7 : offset + 7 + size]
        offset += 7 + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield partial
            partial = b""


def finished_records(path, kind):
    """All records of a run that is over: W&B's own process may still write when `finish` returns."""
    deadline = time.monotonic() + 20
    while True:
        records = [kind.FromString(block) for block in blocks(path.read_bytes())]
        if any(record.HasField("exit") for record in records):
            return records
        assert time.monotonic() < deadline, "the run's exit is not on disk"
        time.sleep(0.02)


def read_wandb(folder):
    """Return (config, history rows, summary, raw bytes) of the single offline run under `folder`."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    for _ in range(100):  # W&B's own process may still be writing on a busy machine; `exit` is its last record
        records = [Record.FromString(block) for block in blocks(path.read_bytes())]
        if any(record.HasField("exit") for record in records):
            break
        time.sleep(0.1)
    config, history, summary = {}, [], {}
    for record in finished_records(path, Record):
        for update in record.run.config.update if record.HasField("run") else ():
            config[update.key] = json.loads(update.value_json)
        for update in record.config.update if record.HasField("config") else ():  # what came after the start
            config[update.key or "/".join(update.nested_key)] = json.loads(update.value_json)
        if record.HasField("history"):
            history.append(
                {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            )
        for update in record.summary.update if record.HasField("summary") else ():
            summary[update.key or "/".join(update.nested_key)] = json.loads(update.value_json)
    return config, history, summary, path.read_bytes()


@pytest.fixture
def without_account(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_SWEEP_ID", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


def test_csv_is_on_disk_after_every_call_and_goes_on(tmp_path):
    tracker = CsvTracker(tmp_path / "run")
    tracker.log({"val/delta": 0.1 + 0.2, "val/wl": math.inf}, step=3)
    expected = "step,name,value\n3,val/delta,0.30000000000000004\n3,val/wl,inf\n"
    assert (tmp_path / "run/metrics.csv").read_text().replace("\r", "") == expected
    tracker.finish()
    again = CsvTracker(tmp_path / "run")
    again.log({"delta": 1}, step=None)
    again.finish()
    assert (tmp_path / "run/metrics.csv").read_text().replace("\r", "") == expected + ",delta,1.0\n"


def test_csv_tables_and_summary(tmp_path):
    tracker = CsvTracker(tmp_path)
    tracker.table("results/k=1", ["method", "delta"], [["routing", 0.5], ["rag, two", None]])
    assert (tmp_path / "tables/results-k-1.csv").read_text().replace("\r", "") == (
        'method,delta\nrouting,0.5\n"rag, two",\n'
    )
    tracker.summary({"delta": 1.0})
    tracker.summary({"delta": 2.0, "voided": False})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"delta": 2.0, "voided": False}
    assert not list(tmp_path.rglob("*.partial"))


def test_a_failing_tracker_is_dropped_with_one_warning(tmp_path, caplog):
    class Broken:
        calls = 0

        def log(self, metrics, step=None):
            self.calls += 1
            raise OSError("disk full")

        table = summary = finish = log

    broken, csv = Broken(), CsvTracker(tmp_path)
    trackers = Trackers([broken, csv])
    with caplog.at_level(logging.WARNING):
        trackers.log({"a": 1.0}, step=0)
        trackers.log({"a": 2.0}, step=1)
        trackers.summary({"a": 2.0})
        trackers.finish()
    assert [record.getMessage() for record in caplog.records] == ["Broken stopped: OSError: disk full"]
    assert broken.calls == 1
    assert (tmp_path / "metrics.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("call", ["log", "table", "summary"])
def test_a_full_disk_under_the_csv_is_raised_by_name(tmp_path, call):
    limit, trackers = resource.getrlimit(resource.RLIMIT_FSIZE), Trackers([CsvTracker(tmp_path)])
    trackers.log({"a": 1.0}, step=0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limit[1]))
    many = {f"figure{number}": 1.0 for number in range(9)}
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            {
                "log": lambda: trackers.log(many, step=1),
                "table": lambda: trackers.table("arms", list(many), [list(many.values())]),
                "summary": lambda: trackers.summary(many),
            }[call]()
        trackers.finish(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert raised.value.filename.endswith({"log": "metrics.csv", "table": "arms.csv", "summary": "summary.json"}[call])


def test_the_csv_goes_on_after_the_last_whole_line(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,name,value\n0,a,1.0\n1,b,2")
    tracker = CsvTracker(tmp_path)
    tracker.log({"b": 2.5}, step=1)
    tracker.finish()
    assert (tmp_path / "metrics.csv").read_text().split() == ["step,name,value", "0,a,1.0", "1,b,2.5"]


def test_wandb_offline_run_holds_what_was_logged(tmp_path, without_account, capfd):
    tracker = WandbTracker(
        project="apm",
        folder=tmp_path,
        group="sweep",
        tags=["smoke"],
        run_id="run7",
        config={"method": {"label": "margin"}, "model": {"api_key": KEY}},
    )
    assert tracker.notice.startswith("W&B: no API key (WANDB_API_KEY or netrc). Kept offline; send it with: wandb sync")
    assert "\n" not in tracker.notice
    tracker.log({"draw0/val/delta": 0.25}, step=0)
    tracker.log({"draw0/val/delta": 0.5}, step=10)
    tracker.log({"draw1/val/delta": 0.75}, step=0)  # a second training counts its steps anew
    tracker.log({"note": 3.0})
    tracker.table("results", ["method", "delta"], [["routing", 0.5], ["oracle", None]])
    tracker.summary({"delta": 1.5, "voided": False})
    tracker.finish()
    tracker.log({"late": 1.0})  # nothing is kept, nothing is raised

    config, history, summary, raw = read_wandb(tmp_path)
    assert config["method"] == {"label": "margin"}
    assert config["model"] == {"api_key": "***"}
    figures = [{name: value for name, value in row.items() if not name.startswith("_")} for row in history]
    assert figures[:3] == [
        {"draw0/val/delta": 0.25, "step": 0},
        {"draw0/val/delta": 0.5, "step": 10},
        {"draw1/val/delta": 0.75, "step": 0},
    ]
    assert figures[3]["note"] == 3.0
    assert figures[4]["results/nrows"] == 2
    (table,) = tmp_path.glob("wandb/offline-run-*/files/media/table/results*.json")
    assert json.loads(table.read_text())["data"] == [["routing", 0.5], ["oracle", None]]
    assert summary["delta"] == 1.5
    assert summary["voided"] is False
    assert KEY.encode() not in raw
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_wandb_mode_auto_asks_the_environment_not_the_network(monkeypatch, tmp_path, without_account):
    assert not key_configured()
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password " + KEY)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert key_configured()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")  # that key is another server's
    assert not key_configured()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert key_configured()
    # WANDB_MODE stands above a configured key.
    monkeypatch.setenv("WANDB_MODE", "disabled")
    tracker = WandbTracker(project="apm", folder=tmp_path / "run")
    assert tracker.notice == "W&B: disabled"
    tracker.log({"a": 1.0}, step=0)
    tracker.finish()
    assert not (tmp_path / "run").exists()


def test_wandb_that_can_not_go_online_goes_offline(tmp_path, without_account, capfd, caplog):
    tracker = WandbTracker(project="apm", folder=tmp_path, mode="online", run_id="run8", init_timeout=5)
    assert tracker.notice.startswith("W&B: not reachable (UsageError). Kept offline; send it with: wandb sync")
    tracker.log({"a": 1.0}, step=0)
    tracker.finish()
    assert read_wandb(tmp_path)[1][0]["a"] == 1.0
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_wandb_that_fails_later_warns_once_without_the_key(monkeypatch, tmp_path, caplog, without_account):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    tracker = WandbTracker(project="apm", folder=tmp_path, mode="disabled")

    class Broken:
        def log(self, metrics):
            raise RuntimeError(f"401 for key {KEY}")

    tracker._run = Broken()
    with caplog.at_level(logging.WARNING):
        tracker.log({"a": 1.0})
        tracker.log({"a": 1.0})
    assert [record.getMessage() for record in caplog.records] == ["W&B stopped: RuntimeError: 401 for key ***"]


def test_secrets_are_masked_at_any_depth(monkeypatch):
    config = {"judge": {"endpoint": {"api_key": KEY, "url": "http://x"}}, "hosts": [{"password": "p"}], "hf_token": "t"}
    assert without_secrets(config) == {
        "judge": {"endpoint": {"api_key": "***", "url": "http://x"}},
        "hosts": [{"password": "***"}],
        "hf_token": "***",
    }
    # What was never set stays visible as such, and words that only resemble a secret are left alone.
    assert without_secrets({"api_key": None, "max_tokens": 5, "soft_tokens": 1}) == {
        "api_key": None,
        "max_tokens": 5,
        "soft_tokens": 1,
    }
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert without_key(f"key {KEY}!") == "key ***!"


def test_an_unknown_mode_names_the_valid_ones(tmp_path):
    with pytest.raises(ConfigError, match="'ofline'; did you mean offline"):
        WandbTracker(project="apm", folder=tmp_path, mode="ofline")


def test_trackers_import_neither_wandb_nor_lightning():
    code = (
        "import sys, apm_lab.training.trackers; print([n for n in ('wandb', 'lightning', 'torch') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
