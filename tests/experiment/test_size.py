"""What can't fit into the machine is refused before it is begun, with figures."""

import re

import pytest

from apm_lab.experiment import size
from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv"]
GIB = 2**30
CONFIG = {
    "users": {"train": 1000, "test": 500, "validation": 100, "turns": 2},
    "mapping": {"draws": 4},
    "router": {},
    "trainer": {"threads": 1},
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_bytes_by_hand():
    parts = size.least_memory(CONFIG, N=6, M=6)
    # 2 prompts x (12 styles x 2 sides x 6 principles x 5 bytes + 100 of text)
    assert parts["users.train=1000 users.turns=2"] == 1000 * 2 * (12 * 2 * 6 * 5 + 100)
    assert parts["users.test=500 users.turns=2"] == 500 * (14 * 2 * 6 * 5 + 300)
    assert parts["mapping.draws=4"] == 4 * (6 * (6 + 1600) * 8 + 500 * 34)
    router = {"layers": 2, "hidden_size": 8, "intermediate_size": 4, "pretrained": None}
    parts = size.least_memory({**CONFIG, "router": router}, N=6, M=6)
    # attention 4 x 8 x 8, feed-forward 3 x 8 x 4, twice, in four copies of four bytes
    assert parts["router.layers=2 router.hidden_size=8 router.intermediate_size=4"] == 2 * (256 + 96) * 16


def test_the_paper_fits_into_a_laptop(monkeypatch):
    monkeypatch.setattr(size, "machine_memory", lambda: 2 * GIB)
    users = {"train": 4000, "test": 1000, "validation": 100, "turns": 4}
    assert list(size.oversized({**CONFIG, "users": users, "mapping": {"draws": 10}}, 10, 10)) == []


def test_where_the_system_does_not_say_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(size, "machine_memory", lambda: None)
    assert list(size.oversized({**CONFIG, "mapping": {"draws": 10**18}}, 6, 6)) == []


def test_this_machine_has_memory():
    assert size.machine_memory() is None or size.machine_memory() > 2**28


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 bytes"), (1023, "1,023 bytes"), (3 * GIB, "3 GiB"), (2**75, "32,768 EiB")]
)
def test_a_size_as_a_user_reads_it(number, shown):
    assert size._readable(number) == shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["users.train=1000000000"],
            r"users\.train=1000000000 users\.turns=2: the run needs at least \S+ GiB of memory",
        ),
        (["users.validation=1000000000000"], r"users\.validation=1000000000000 .*TiB"),
        (["users.test=10000000000"], r"users\.test=10000000000 .*TiB"),
        (["users.turns=1000000000"], r"users\.train=60 users\.turns=1000000000: .*TiB"),
        (["mapping.draws=1000000000000"], r"mapping\.draws=1000000000000: .*PiB"),
        (["mapping=gaussian", f"mapping.draws={2**63 - 1}"], r"mapping\.draws=9223372036854775807: .*EiB"),
        (["router=modernbert_small", "router.layers=1000000000"], r"router\.layers=1000000000 .*PiB"),
        (["router=modernbert_small", "router.hidden_size=8000000000"], r"router\.hidden_size=8000000000 .*EiB"),
        (["users.train=1e30"], r"users\.train=1e\+30: expected int"),
        ([f"users.train={10**30}"], r"users\.train=1000000000000000000000000000000: expected at most 92233720368547"),
        ([f"judge.retries={-(10**30)}"], r"judge\.retries=-1000000000000000000000000000000: expected at most"),
        (["router=modernbert_small", f"router.vocab_size={2**64}"], r"router\.vocab_size=\d+: expected at most"),
        (["trainer.threads=100000000000"], r"trainer\.threads=100000000000: expected at most 4096"),
        (["trainer.devices=100000000000"], r"trainer\.devices=100000000000: expected at most 4096"),
        (["seed=" + "9" * 5000], r"4300 digits"),
    ],
)
def test_too_large_is_one_message(arguments, message, capfd):
    assert main([*SMALL, *arguments]) == 2
    shown = capfd.readouterr().err
    assert shown.startswith("error: ")
    assert re.search(message, shown), shown


@pytest.mark.parametrize("fault", [MemoryError("Unable to allocate 9 TiB"), RuntimeError("can't allocate memory: 9")])
def test_memory_that_runs_out_is_one_message(fault, monkeypatch, capfd):
    def full(*_):
        raise fault

    monkeypatch.setattr("apm_lab.experiment.run.execute", full)
    assert main(SMALL) == 2
    assert re.match(r"error: the run needs more memory than there is \(.*allocate.*9", capfd.readouterr().err)


@pytest.mark.parametrize("seed", [-1, 10**30, -(2**63)])
def test_a_seed_may_be_any_number(seed, capfd):
    assert main([*SMALL, "pool.size=2", "mapping.draws=1", f"seed={seed}"]) == 0
    assert "results: " in capfd.readouterr().out
