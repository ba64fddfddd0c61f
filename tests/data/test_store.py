import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from apm_lab.data.store import Store
from apm_lab.errors import StoreError


def key(number):
    return number.to_bytes(16, "big")


def test_what_is_put_is_got_and_the_first_value_stays(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.texts.put([(key(1), "one"), (key(2), "two")])
    store.texts.put([(key(1), "other"), (key(3), "three")])
    assert store.texts.get([key(1), key(3), key(9)]) == {key(1): "one", key(3): "three"}
    store.scores.put([(key(1), 7.0)])
    assert store.scores.get([key(1)]) == {key(1): 7.0}
    assert (store.texts.count(), store.scores.count()) == (3, 1)


def test_more_keys_than_a_query_takes(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.scores.put((key(n), n % 10 + 1.0) for n in range(3000))
    assert store.scores.get([key(n) for n in range(3000)]) == {key(n): n % 10 + 1.0 for n in range(3000)}


def test_all_rows_of_a_put_or_none(tmp_path):
    store = Store(tmp_path / "s.sqlite")

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
    path = tmp_path / "s.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(path, offset)) for offset in (0, 1000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert Store(path).scores.count() == 3000


def test_a_killed_writer_leaves_a_store_that_reads(tmp_path):
    path = tmp_path / "s.sqlite"
    code = (
        "import sys\nfrom apm_lab.data.store import Store\nshelf = Store(sys.argv[1]).texts\n"
        "for n in range(10**6):\n    shelf.put([((2 * n + i).to_bytes(16, 'big'), 'text ' * 100) for i in (0, 1)])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    for _ in range(200):
        time.sleep(0.05)
        if path.exists() and Store(path).texts.count() > 20:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    count = Store(path).texts.count()
    assert count > 20
    assert count % 2 == 0  # whole puts only
    Store(path).texts.put([(b"x" * 16, "after")])


def test_a_full_disk_is_one_message_and_the_store_reads_on(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).texts.put([(key(1), "before")])
    code = (
        "import resource, signal, sys\nfrom apm_lab.data.store import Store\nfrom apm_lab.errors import StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "shelf = Store(sys.argv[1]).texts\n"
        "try:\n    for n in range(2, 10**5):\n        shelf.put([(n.to_bytes(16, 'big'), 'text ' * 200)])\n"
        "except StoreError as fault:\n    print(fault)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout.startswith(f"store {path}: ")
    assert "free space on the disk" in done.stdout
    assert done.stderr == ""
    assert Store(path).texts.get([key(1)]) == {key(1): "before"}


def test_a_shelf_survives_pickling(tmp_path):
    shelf = Store(tmp_path / "s.sqlite").texts
    shelf.put([(key(1), "one")])
    assert pickle.loads(pickle.dumps(shelf)).get([key(1)]) == {key(1): "one"}


@pytest.mark.parametrize("content", [b"", b"not a database at all " * 50])
def test_only_an_empty_file_may_become_a_store(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    if content:
        with pytest.raises(StoreError, match=r"s\.sqlite"):
            Store(path)
    else:
        assert Store(path).texts.count() == 0


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file" / "s.sqlite")
