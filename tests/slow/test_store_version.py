"""A store that another version of apm_lab wrote is named and left as it is."""

import contextlib
import hashlib
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launches import complete, launch

from apm_lab.data.store import VERSION

pytestmark = pytest.mark.slow

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv"]


def digests(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and "sqlite" in file.name]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def refused(folder, arguments, other, file, store):
    """The command names the file, both versions and what to do, and changes nothing."""
    before = digests(store)
    ended = launch(folder, arguments).end()
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"error: store {file} was written by store version ")
    assert f"store version {other}, this apm_lab reads version {VERSION}; " in line
    assert "use the apm_lab that wrote it, or name another folder with store.path=" in line
    assert digests(store) == before


@pytest.mark.parametrize("other", ["0", "3", "2026-11"])
@pytest.mark.parametrize("machine", ["here", "there"])
def test_a_store_of_another_version_is_refused_by_name(tmp_path, other, machine):
    """This machine's file or another one's."""
    complete(tmp_path, [*SMALL, "method=routing_oracle", f"store.machine={machine}"])
    store = tmp_path / "outputs" / "store"
    file = store / machine / "texts.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE meta SET value=? WHERE name='version'", (other,))
    assert sorted(digests(store)) == [f"{machine}/scores.sqlite", f"{machine}/texts.sqlite"]
    named = f"outputs/store/{machine}/texts.sqlite"
    refused(tmp_path, ["store", "list"], other, named, store)
    if machine == "here":
        refused(tmp_path, [*SMALL, "store.machine=here"], other, named, store)
    complete(tmp_path, [*SMALL, "store.path=outputs/another"])


def test_the_single_file_of_version_1_is_refused_by_name(tmp_path):
    file = tmp_path / "outputs" / "store.sqlite"
    file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute("INSERT INTO meta VALUES ('version', '1')")
        connection.execute("CREATE TABLE texts (key BLOB PRIMARY KEY, text TEXT NOT NULL)")
    refused(tmp_path, [*SMALL, "store.path=outputs/store.sqlite"], "1", "outputs/store.sqlite", file.parent)
    complete(tmp_path, SMALL)  # the default store is another one
