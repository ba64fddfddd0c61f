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
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("store*")}


@pytest.mark.parametrize("other", ["0", "2", "2026-11"])
def test_a_store_of_another_version_is_refused_by_name(tmp_path, other):
    complete(tmp_path, [*SMALL, "method=routing_oracle"])
    outputs = tmp_path / "outputs"
    with contextlib.closing(sqlite3.connect(outputs / "store.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value=? WHERE name='version'", (other,))
    before = digests(outputs)
    assert list(before) == ["store.sqlite"]
    for arguments in (SMALL, ["store"]):
        ended = launch(tmp_path, arguments).end()
        assert ended.code == 2
        (line,) = ended.err.splitlines()
        assert line.startswith("error: store outputs/store.sqlite was written by store version ")
        assert f"store version {other}, this apm_lab reads version {VERSION}; " in line
        assert "use the apm_lab that wrote it, or name another file with store.path=" in line
        assert digests(outputs) == before
    complete(tmp_path, [*SMALL, "store.path=outputs/another.sqlite"])
    assert digests(outputs) == before
