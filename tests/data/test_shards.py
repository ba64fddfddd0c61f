"""Several machines on one folder, and files that are damaged."""

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from apm_lab.data.store import Store


def key(number):
    return number.to_bytes(16, "big")


KEYS = [key(number) for number in range(1000)]


def filled(folder, machine="here", notice=None):
    """Return a store with 990 texts and 5 scores, all of it in its files and nothing in a log beside them."""
    with contextlib.closing(Store(folder, machine=machine)) as store:
        store.texts.put((key(n), f"text {n} " * 30) for n in range(10, 1000))
        store.scores.put((key(n), 5.0) for n in range(5))
    return Store(folder, machine=machine, notice=notice)


def test_two_machines_read_each_other_and_the_first_writer_counts(tmp_path):
    one, two = Store(tmp_path, machine="one"), Store(tmp_path, machine="two")
    one.texts.put([(key(1), "of one"), (key(2), "also of one")])
    two.texts.put([(key(1), "of two"), (key(3), "also of two")])
    for store in (one, two, Store(tmp_path, machine="three"), Store(tmp_path, reading=True)):
        expected = {key(1): "of one", key(2): "also of one", key(3): "also of two"}
        assert store.texts.get([key(1), key(2), key(3), key(4)]) == expected
        assert store.texts.holding([key(3), key(4)]) == {key(3)}
        assert store.texts.count() == 3
    with contextlib.closing(sqlite3.connect(tmp_path / "two" / "texts.sqlite")) as connection:
        assert connection.execute("SELECT value FROM rows").fetchall() == [("also of two",)]


def test_a_machine_that_comes_later_is_seen(tmp_path):
    one = Store(tmp_path, machine="one")
    assert one.scores.get([key(1)]) == {}
    Store(tmp_path, machine="two").scores.put([(key(1), 4.5)])
    assert one.scores.get([key(1)]) == {key(1): 4.5}


@pytest.mark.parametrize(("shared", "mode"), [(True, "delete"), (False, "wal")])
def test_the_journal_is_one_that_a_shared_folder_allows(tmp_path, shared, mode):
    store = Store(tmp_path, shared=shared, machine="one")
    store.texts.put([(key(1), "a")])
    with contextlib.closing(sqlite3.connect(tmp_path / "one" / "texts.sqlite")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
    store.close()
    other = Store(tmp_path, shared=not shared, machine="one")  # the setting counts for a file that is there, too
    with contextlib.closing(sqlite3.connect(tmp_path / "one" / "texts.sqlite")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() != (mode,)
    assert other.texts.get([key(1)]) == {key(1): "a"}


def test_a_reading_store_makes_nothing(tmp_path):
    assert Store(tmp_path / "none", reading=True).texts.get([key(1)]) == {}
    assert not (tmp_path / "none").exists()


def test_a_store_that_may_not_be_written_is_read_all_the_same():
    # A folder of its own, not pytest's: root would write anywhere, so the child becomes nobody first.
    code = (
        "import os, sys\nfrom apm_lab.data.store import Store\nif os.geteuid() == 0:\n    os.setuid(65534)\n"
        "print(Store(sys.argv[1], reading=True).texts.count())\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder) / "store").close()
        places = [Path(folder) / "store" / "here", Path(folder) / "store", Path(folder)]
        for place in places:
            place.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", code, f"{folder}/store"], capture_output=True, text=True)
        for place in places:
            place.chmod(0o755)
    assert (done.stdout, done.stderr) == ("990\n", "")


def test_vectors_come_back_as_they_were(tmp_path):
    vectors = Store(tmp_path, machine="one").vectors
    vectors.put([(key(1), np.array([0.5, -1, 3e-38], dtype=np.float32)), (key(2), np.zeros(0, np.float32))])
    found = vectors.get([key(1), key(2), key(3)])
    assert {name: (value.dtype, value.tolist()) for name, value in found.items()} == {
        key(1): (np.float32, np.array([0.5, -1, 3e-38], np.float32).tolist()),
        key(2): (np.float32, []),
    }


def a_page(content):
    content[20 * 4096 : 21 * 4096] = bytes(4096)


def a_letter(content):
    content[content.index(b"text 500 text 500")] ^= 1


def the_end(content):
    del content[len(content) // 2 :]


def everything(content):
    content[:] = b"no database " * 1000


@pytest.mark.parametrize(("damage", "lost"), [(a_page, 30), (a_letter, 1), (the_end, 990), (everything, 990)])
def test_a_damaged_file_is_named_once_set_aside_and_what_reads_is_kept(tmp_path, damage, lost):
    said = []
    store = filled(tmp_path, notice=said.append)
    store.close()
    file = tmp_path / "here" / "texts.sqlite"
    content = bytearray(file.read_bytes())
    damage(content)
    file.write_bytes(content)
    found = store.texts.get(KEYS)
    assert 990 - lost <= len(found) <= 990
    assert all(text == f"text {int.from_bytes(name, 'big')} " * 30 for name, text in found.items())
    assert store.texts.get(KEYS) == found
    (line,) = said
    assert line.startswith(f"store {file} is damaged (")
    (aside,) = tmp_path.glob("here/texts.sqlite.damaged-*[0-9]")
    assert f"set aside as {aside.name}; {len(found)} of its rows could be read" in line
    assert aside.read_bytes()[:100] == bytes(content[:100])
    missing = [name for name in KEYS[10:] if name not in found]
    store.texts.put((name, "again") for name in missing)
    assert store.texts.count() == 990
    assert store.scores.count() == 5
    assert len(Store(tmp_path, machine="there").texts.get(KEYS)) == 990


def test_another_machines_damaged_file_is_left_out_and_left_where_it_is(tmp_path):
    filled(tmp_path, "one").close()
    file = tmp_path / "one" / "texts.sqlite"
    content = bytearray(file.read_bytes())
    a_letter(content)
    file.write_bytes(content)
    said = []
    two = Store(tmp_path, machine="two", notice=said.append)
    assert two.texts.get(KEYS) == two.texts.get(KEYS) == {}
    (line,) = said
    assert line.startswith(f"store {file} is damaged (the value of {key(500).hex()} fails its checksum)")
    assert two.scores.get(KEYS[:5]) == dict.fromkeys(KEYS[:5], 5.0)
    assert file.read_bytes() == content
    Store(tmp_path, machine="one", notice=said.append).texts.get(KEYS)
    assert len(two.texts.get(KEYS)) == 989


def test_a_process_that_has_the_damaged_file_open_goes_on_with_the_new_one(tmp_path):
    said = []
    store, other = filled(tmp_path, notice=said.append), Store(tmp_path, machine="here", notice=said.append)
    store.close()
    other.close()
    file = tmp_path / "here" / "texts.sqlite"
    content = bytearray(file.read_bytes())
    a_letter(content)
    file.write_bytes(content)
    assert len(other.texts.get(KEYS[:500])) == 490  # open, and none the wiser
    assert len(store.texts.get(KEYS)) == 989
    other.texts.put([(key(500), "again")])
    assert store.texts.get([key(500)]) == {key(500): "again"}
    other.close()
    store.texts.put([(key(1), "more")])
    assert len(Store(tmp_path, machine="here").texts.get(KEYS)) == 991
    assert len(said) == 1


WRITER = """
import sys
from apm_lab.data.store import Store
shelf = Store(sys.argv[1], machine=sys.argv[2], shared=sys.argv[3] == "shared").texts
for n in range(10**6):
    shelf.put([((int(sys.argv[4]) * 10**7 + 2 * n + i).to_bytes(16, 'big'), 'text ' * 100) for i in (0, 1)])
    print(n, flush=True)
"""


@pytest.mark.parametrize("shared", ["shared", "local"])
def test_killed_writers_leave_what_they_had_written(tmp_path, shared):
    """Four processes, two on each of two machines, killed at different moments: every put that was done is there."""
    rng = random.Random(0)
    writers = []
    for number in range(4):
        command = [sys.executable, "-c", WRITER, str(tmp_path), f"machine{number % 2}", shared, str(number)]
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for writer in writers:
        assert writer.stdout.readline() == "0\n"
    for writer in rng.sample(writers, 4):
        time.sleep(rng.uniform(0.02, 0.2))
        os.kill(writer.pid, signal.SIGKILL)
    said = []
    store = Store(tmp_path, machine="machine0", shared=shared == "shared", notice=said.append)
    beside = Store(tmp_path, machine="machine1", shared=shared == "shared", notice=said.append)
    beside.texts.count()  # rolls back what was half-written there
    for number, writer in enumerate(writers):
        done = [int(line) for line in writer.stdout.read().splitlines()]
        writer.stdout.close()
        writer.wait()
        keys = [key(number * 10**7 + n) for n in range(2 * max(done, default=0) + 2)]
        assert len(store.texts.get(keys)) == len(keys)
    assert store.texts.count() % 2 == 0  # whole puts only
    assert said == []


def write_while_it_is_set_aside(path, offset, start):
    start.wait()
    shelf = Store(path, machine="here", notice=lambda _: None).texts
    for number in range(200):
        shelf.put([(key(offset + number), "again")])
        assert shelf.get([key(offset + number)])
    shelf.close()


def test_writers_lose_nothing_while_a_file_is_set_aside(tmp_path):
    """Three processes write and read the same damaged file: one of them sets it aside, the others follow."""
    filled(tmp_path).close()
    file = tmp_path / "here" / "texts.sqlite"
    content = bytearray(file.read_bytes())
    a_page(content)
    file.write_bytes(content)
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    offsets = (10_000, 20_000, 30_000)
    workers = [
        context.Process(target=write_while_it_is_set_aside, args=(tmp_path, offset, start)) for offset in offsets
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    store = Store(tmp_path, machine="here", notice=lambda _: None)
    store.texts.get(KEYS)
    for offset in offsets:
        assert len(store.texts.get([key(offset + number) for number in range(200)])) == 200
    assert len(list(tmp_path.glob("here/texts.sqlite.damaged-*[0-9]"))) == 1
