import multiprocessing
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from apm_lab.data.store import VERSION, Store
from apm_lab.errors import StoreError


def key(number):
    return number.to_bytes(16, "big")


def file_of(folder, name="texts", machine="here"):
    return folder / machine / f"{name}.sqlite"


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


def test_what_is_put_is_got_and_the_first_value_stays(tmp_path):
    store = Store(tmp_path / "store")
    store.texts.put([(key(1), "one"), (key(2), "two")])
    store.texts.put([(key(1), "other"), (key(3), "three")])
    assert store.texts.get([key(1), key(3), key(9)]) == {key(1): "one", key(3): "three"}
    store.scores.put([(key(1), 7.0)])
    assert store.scores.get([key(1)]) == {key(1): 7.0}
    assert (store.texts.count(), store.scores.count()) == (3, 1)


def test_a_text_comes_back_as_it_was_and_after_a_new_start(tmp_path):
    texts = {key(1): "", key(2): "nul \0 inside", key(3): "\u2028 \x85 \U0001f600", key(4): "long " * 50_000}
    store = Store(tmp_path / "deep" / "down" / "store")
    store.texts.put(texts.items())
    store.close()
    assert Store(store.path).texts.get(list(texts)) == texts
    assert store.texts.get([key(1), key(1)]) == {key(1): ""}  # a closed shelf opens again


def test_more_keys_than_a_query_takes(tmp_path):
    store = Store(tmp_path / "store")
    store.scores.put((key(n), n % 10 + 1.0) for n in range(3000))
    assert store.scores.get([key(n) for n in range(3000)]) == {key(n): n % 10 + 1.0 for n in range(3000)}
    assert store.scores.get([]) == {}


def test_all_rows_of_a_put_or_none(tmp_path):
    store = Store(tmp_path / "store")

    def rows():
        yield key(1), "one"
        raise KeyError("the model failed")

    with pytest.raises(KeyError):
        store.texts.put(rows())
    assert store.texts.count() == 0


def write_many(path, offset):
    shelf = Store(path).scores
    for start in range(0, 2000, 100):
        shelf.put((key(offset + n), 5.0) for n in range(start, start + 100))


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "store"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(path, offset)) for offset in (0, 1000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert Store(path).scores.count() == 3000


def write_own_values(path, start, value, answers):
    start.wait()
    shelf = Store(path).scores
    for number in range(300):
        shelf.put([(key(number), value)])
    answers.put(shelf.get([key(number) for number in range(300)]))


def test_processes_that_write_the_same_keys_at_once_read_the_same_values(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=write_own_values, args=(tmp_path / "store", start, value, answers))
        for value in (3.0, 8.0)
    ]
    for worker in workers:
        worker.start()
    first, second = answers.get(timeout=60), answers.get(timeout=60)
    for worker in workers:
        worker.join()
    assert first == second
    assert len(first) == 300
    assert set(first.values()) <= {3.0, 8.0}


def test_a_store_that_another_process_is_just_making_is_waited_for(tmp_path):
    path = file_of(tmp_path)
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE half_made (a)")

    def give_up():
        time.sleep(0.2)
        other.execute("ROLLBACK")
        other.close()

    thread = threading.Thread(target=give_up)
    thread.start()
    assert Store(tmp_path, machine="here").texts.count() == 0
    thread.join()


def test_a_forked_child_opens_the_store_for_itself(tmp_path):
    code = (
        "import os, sys\nfrom apm_lab.data.store import Store\nshelf = Store(sys.argv[1]).texts\n"
        "shelf.put([(b'parent', 'p')])\nbefore = shelf.files[0]._open[os.getpid()]\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    shelf.put([(b'child', 'c')])\n"
        "    assert shelf.files[0]._open[os.getpid()] is not before\n    shelf.close()\n    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\nshelf.put([(b'again', 'a')])\nprint(shelf.count())\n"
    )
    done = run(code, tmp_path / "store")
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_killed_writer_leaves_a_store_that_reads(tmp_path):
    path = tmp_path / "store"
    code = (
        "import sys\nfrom apm_lab.data.store import Store\nshelf = Store(sys.argv[1]).texts\n"
        "for n in range(10**6):\n    shelf.put([((2 * n + i).to_bytes(16, 'big'), 'text ' * 100) for i in (0, 1)])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    for _ in range(200):
        time.sleep(0.05)
        if path.is_dir() and Store(path).texts.count() > 20:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    count = Store(path).texts.count()
    assert count > 20
    assert count % 2 == 0  # whole puts only
    Store(path).texts.put([(b"x" * 16, "after")])


def test_a_writer_killed_inside_a_put_leaves_nothing_of_it(tmp_path):
    path = tmp_path / "store"
    Store(path).texts.put([(key(1), "before")])
    code = (
        "import os, signal, sys\nfrom apm_lab.data.store import Store\n"
        "def rows():\n"
        "    for n in range(2, 20_000):\n        yield n.to_bytes(16, 'big'), 'text ' * 100\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Store(sys.argv[1]).texts.put(rows())\n"
    )
    assert run(code, path).returncode == -signal.SIGKILL
    store = Store(path)
    assert store.texts.count() == 1
    store.texts.put([(key(2), "after")])
    assert store.texts.get([key(1), key(2)]) == {key(1): "before", key(2): "after"}


def test_a_full_disk_is_one_message_and_the_store_reads_on(tmp_path):
    path = tmp_path / "store"
    Store(path).texts.put([(key(1), "before")])
    code = (
        "import resource, signal, sys\nfrom apm_lab.data.store import Store\nfrom apm_lab.errors import StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "shelf = Store(sys.argv[1]).texts\n"
        "try:\n    for n in range(2, 10**5):\n        shelf.put([(n.to_bytes(16, 'big'), 'text ' * 200)])\n"
        "except StoreError as fault:\n    print(fault)\n"
        "assert shelf.get([(1).to_bytes(16, 'big')])\n"
    )
    done = run(code, path)
    assert re.match(rf"store {path}/\S+/texts\.sqlite: ", done.stdout)
    assert "free space on the disk" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    store = Store(path)
    assert store.texts.get([key(1)]) == {key(1): "before"}
    store.texts.put([(b"x" * 16, "after")])


def test_a_shelf_survives_pickling(tmp_path):
    shelf = Store(tmp_path / "store").texts
    shelf.put([(key(1), "one")])
    assert pickle.loads(pickle.dumps(shelf)).get([key(1)]) == {key(1): "one"}


def test_an_empty_file_becomes_a_shard(tmp_path):
    path = file_of(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b"")
    assert Store(tmp_path, machine="here").texts.count() == 0


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE notes (a)"], "no apm_lab store"),
        (["CREATE TABLE meta (a, b)"], "no apm_lab store"),
        (["CREATE TABLE meta (name, value)"], "no apm_lab store"),
        (
            ["CREATE TABLE meta (name, value)", "INSERT INTO meta VALUES ('version', '1')"],
            f"written by store version 1, this apm_lab reads version {VERSION}",
        ),
    ],
)
@pytest.mark.parametrize("place", ["store.sqlite", "store.sqlite/here/texts.sqlite", "store.sqlite/there/texts.sqlite"])
def test_another_ones_file_is_refused_by_name_and_left_as_it_was(tmp_path, statements, message, place):
    """The single file of version 1, this machine's file, or another machine's."""
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        Store(tmp_path / "store.sqlite", machine="here").texts.get([key(1)])
    assert str(file) in str(caught.value)
    assert file.read_bytes() == before
    assert list(file.parent.glob("texts.sqlite*")) == ([file] if file.name == "texts.sqlite" else [])


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_a_file_where_the_folder_should_be_is_refused(tmp_path, content):
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(StoreError, match=r"/s is a .*store\.path="):
        Store(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == content


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file" / "store")
    (tmp_path / "store" / "here" / "texts.sqlite").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"store\.path"):
        Store(tmp_path / "store", machine="here")


def test_a_folder_that_may_not_be_written():
    # A folder of its own, not pytest's: root would write anywhere, so the child becomes nobody first.
    code = (
        "import os, sys\nfrom apm_lab.data.store import Store\nfrom apm_lab.errors import StoreError\n"
        "if os.geteuid() == 0:\n    os.setuid(65534)\n"
        "for name in ('new', 'folder/new'):\n"
        "    try:\n        Store(os.path.join(sys.argv[1], name))\n"
        "    except StoreError as fault:\n        print(fault)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        done = run(code, folder)
        Path(folder).chmod(0o755)
        assert list(Path(folder).iterdir()) == []
    lines = done.stdout.splitlines()
    assert [line.startswith(f"store {folder}/") for line in lines] == [True, True]
    assert all("store.path=" in line for line in lines)
    assert done.stderr == ""
