"""`python -m apm_lab pairs export ...`: three forms, read back by what reads them."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apm_lab.data.store import Store
from apm_lab.experiment.cli import main
from apm_lab.experiment.pairs import FORMATS, PairExport, read_request

SMALL = ["+scale=smoke", "router=ngrams", "pool.size=2", "users.train=20"]
OURS = {"user", "draw", "turn", "chosen_style", "rejected_style", "chosen_rating", "rejected_rating", "rating_margin"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a store that holds the training users' texts, and the pairs of each form."""
    path = tmp_path_factory.mktemp("pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for form in FORMATS:
            assert main(["pairs", "export", f"{form}.jsonl", f"format={form}", *SMALL]) == 0
    return path


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def lines(path):
    content = Path(path).read_bytes()
    content = gzip.decompress(content) if str(path).endswith(".gz") else content
    return [json.loads(line) for line in content.splitlines()]


def test_each_form_is_the_one_its_reader_takes_without_settings():
    trl, axolotl, llama_factory = (lines(f"{form}.jsonl") for form in ("trl", "axolotl", "llama_factory"))
    for a, b, c in zip(trl, axolotl, llama_factory, strict=True):
        assert {name: a[name] for name in OURS} == {name: b[name] for name in OURS} == {name: c[name] for name in OURS}
        assert set(a) == OURS | {"prompt", "chosen", "rejected"}
        assert set(b) == OURS | {"messages", "chosen", "rejected"}
        assert set(c) == OURS | {"conversations", "chosen", "rejected"}
        assert a["prompt"] == b["messages"] == [{"role": "user", "content": c["conversations"][0]["value"]}]
        assert [message["from"] for message in c["conversations"]] == ["human"]
        for side in ("chosen", "rejected"):
            (message,) = a[side]
            assert message["role"] == "assistant"
            assert b[side] == message
            assert c[side] == {"from": "gpt", "value": message["content"]}


def test_a_line_says_whose_it_is_and_how_it_was_rated():
    for line in lines("trl.jsonl"):
        assert line["chosen_rating"] - line["rejected_rating"] == line["rating_margin"] > 0
        assert line["chosen_style"] != line["rejected_style"]
        assert (line["draw"], line["turn"] in (0, 1), len(line["user"])) == (0, True, 16)
        assert "margin" not in line  # a reward trainer would put it into its loss


def test_every_draw_in_one_compressed_file(capsys):
    assert main(["pairs", "export", "deep/all.jsonl.gz", "draw=all", *SMALL]) == 0
    said = capsys.readouterr().out
    found = lines("deep/all.jsonl.gz")
    assert [line["draw"] for line in found] == sorted(line["draw"] for line in found)
    assert {line["draw"] for line in found} == {0, 1}
    assert [line for line in found if line["draw"] == 0] == lines("trl.jsonl")
    assert f"deep/all.jsonl.gz: {len(found)} pairs of draws 0 to 1, format=trl; left out: " in said
    assert main(["pairs", "export", "one.jsonl", "draw=1", *SMALL]) == 0
    assert lines("one.jsonl") == [line for line in found if line["draw"] == 1]


def test_an_earlier_file_is_replaced(capsys):
    Path("again.jsonl").write_text("old")
    assert main(["pairs", "export", "again.jsonl", *SMALL]) == 0
    assert Path("again.jsonl").read_bytes() == Path("trl.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pairs: expected pairs export FILE.jsonl"),
        (["imprt"], "pairs imprt: expected pairs export FILE.jsonl"),
        (["export"], "needs a file that ends in .jsonl or .jsonl.gz"),
        (["export", "draw=1"], "needs a file that ends in .jsonl or .jsonl.gz"),
        (["export", "pairs.csv"], "needs a file that ends in .jsonl or .jsonl.gz"),
        (["export", "x.jsonl", "format=axolot"], "format=axolot: no such format; did you mean axolotl?"),
        (["export", "x.jsonl.gz", "format=llama_factory"], "reads no .gz"),
        (["export", "x.jsonl", "draw=first"], "draw=first: expected the number of a mapping draw, or all"),
        (["export", "x.jsonl", "draw=-1"], "draw=-1: expected the number of a mapping draw, or all"),
        (["export", "x.jsonl", "draw=2", *SMALL], "draw=2: mapping.draws=2, so the draws are 0 to 1"),
        (["export", "x.jsonl", "seed=1,2", "-m"], "leave out -m"),
        (["export", "x.jsonl", "users.trian=3"], "users.trian"),
        (["export", "x.jsonl", "users.train=0", *SMALL[:3]], "there are no training users"),
        (["export", "x.jsonl", "plan=true", *SMALL], "pairs export has no plan"),
        (["export", "trl.jsonl/x.jsonl", *SMALL], "x.jsonl can't be written: "),
        (["export", "folder.jsonl", *SMALL], "folder.jsonl can't be written: it is a folder"),
        (["export", "x.jsonl", "budget.calls=1", "seed=9", *SMALL], "budget"),
    ],
)
def test_a_mistake_is_one_message_and_no_file(words, message, capsys):
    Path("folder.jsonl").mkdir(exist_ok=True)
    before = sorted(Path().rglob("*.jsonl*"))
    assert main(["pairs", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert sorted(Path().rglob("*.jsonl*")) == before


def test_a_full_disk_is_one_message_and_the_earlier_file_stays():
    Path("kept.jsonl").write_text("kept")
    script = f"ulimit -f 64; exec {sys.executable} -m apm_lab pairs export kept.jsonl {' '.join(SMALL)}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("error: ") == 1
    assert "kept.jsonl can't be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert Path("kept.jsonl").read_text() == "kept"
    assert not list(Path().glob(".kept*"))


def test_the_last_of_a_key_counts_and_the_rest_are_overrides():
    wanted, rest = read_request(["export", "a.jsonl", "draw=1", "--config-dir", "mine", "draw=2", "seed=3"])
    assert wanted == PairExport(Path("a.jsonl"), "trl", 2)
    assert rest == ["--config-dir", "mine", "seed=3"]


def test_after_a_run_nothing_is_generated_or_judged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, "logger=csv"]) == 0
    store = Store("outputs/store", reading=True)
    before = store.texts.count(), store.scores.count()
    assert main(["pairs", "export", "pairs.jsonl", "draw=all", *SMALL]) == 0
    assert (store.texts.count(), store.scores.count()) == before
    assert lines("pairs.jsonl")
