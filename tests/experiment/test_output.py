"""Who reads the output may leave, or the disk it goes to may be full: nobody sees a traceback."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apm_lab.experiment.cli import main
from apm_lab.experiment.output import Output, patient_output

FULL = Path("/dev/full")
SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "mapping.draws=1"]


class Failing(io.StringIO):
    """Takes one line and fails then."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def write(self, text):
        if self.getvalue():
            raise self.fault
        return super().write(text)


def launch(arguments, **streams):
    command = [sys.executable, "-m", "apm_lab", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


def test_what_is_written_after_a_fault_goes_nowhere():
    stream = Failing(OSError(errno.ENOSPC, "No space left on device"))
    output = Output(stream)
    assert [output.write(text) for text in ("one", "two", "three")] == [3, 3, 5]
    output.flush()
    assert stream.getvalue() == "one"
    assert output.lost is stream.fault
    assert output.encoding == stream.encoding


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EPIPE])
def test_a_full_disk_is_told_and_a_reader_who_left_is_not(number, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout", Failing(OSError(number, "Out of order")))
    told = "" if number == errno.EPIPE else "error: standard output can't be written: Out of order\n"
    assert main(["list", "router"]) == (2 if told else 0)
    assert capsys.readouterr().err == told


def test_a_closed_output_is_no_fault(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert main(["list"]) == 0
    assert sys.stdout is None


def test_what_the_terminal_cannot_write_is_written_as_escapes(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with patient_output():
        print("Δ \udcff")
    assert raw.getvalue() == b"\\u0394 \\udcff\n"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["--cfg", "job"], ["--info"], ["report", "done"]])
def test_a_full_device(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "report":
        assert main(SMALL) == 0
        next(Path("outputs", "personalization").glob("*/*")).rename("done")
    with FULL.open("w") as full:
        process = launch(arguments, stdout=full)
        _, told = process.communicate()
    assert told == "error: standard output can't be written: No space left on device\n"
    assert process.returncode == 2


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["--cfg", "job"], ["--info"], SMALL])
def test_a_reader_who_has_left(arguments, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    process = launch(arguments, stdout=writing, cwd=tmp_path)
    os.close(writing)
    _, told = process.communicate()
    assert (told, process.returncode) == ("", 0)
    if arguments is SMALL:
        assert len(list(tmp_path.rglob("manifest.json"))) == 1
