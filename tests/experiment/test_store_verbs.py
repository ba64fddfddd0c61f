"""`python -m apm_lab store ...` on a store of two machines."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from apm_lab.data.store import Store
from apm_lab.experiment.cli import main


class Used:
    tokens_in, tokens_out = 10, 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, there = (Store("outputs/store", machine=name) for name in ("here", "there"))
    here.texts.of(["generate", "big@1", "remote", '{"t": 1}']).put([(b"a" * 16, "one", Used()), (b"b" * 16, "zwei ü")])
    there.texts.of(["generate", "big@1", "remote", '{"t": 1}']).put([(b"c" * 16, "three", Used())])
    here.scores.of(["score", "judge@2", "hf", "{}", "2", "The rubric. " * 30]).put([(b"d" * 16, 7.5)])
    here.close()
    there.close()
    return tmp_path


def verb(capsys, *words):
    code = main(["store", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("words", [[], ["list"], ["outputs/store"], ["list", "store.path=outputs/store"]])
def test_list_has_a_line_per_source_over_all_machines(folder, capsys, words):
    code, out, _ = verb(capsys, *words)
    assert code == 0
    head, _, texts, scores = out.splitlines()
    assert head.startswith("outputs/store: 3 texts, 1 scores, ")
    assert head.endswith("of here, there")
    assert texts.split() == ["3", "0.0", "20", "6", "generate", "big@1", "remote", '{"t":', "1}"]
    assert scores.split() == ["1", "0.0", "-", "-", "score", "judge@2", "hf", "{}", "2"]


def test_list_of_some_sources(folder, capsys):
    assert "judge@2" not in verb(capsys, "list", "model=BIG")[1]


def test_verify_names_what_is_damaged(folder, capsys):
    code, out, _ = verb(capsys, "verify")
    assert code == 0
    assert out.count(" sound") == 4
    file = folder / "outputs/store/there/texts.sqlite"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"three", b"throw"))
    code, out, err = verb(capsys, "verify")
    assert code == 2
    assert "outputs/store/there/texts.sqlite: 1 rows, DAMAGED" in out
    assert f"outputs/store/there/texts.sqlite: the value of {(b'c' * 16).hex()} fails its checksum" in err
    assert "1 damaged" in err
    assert file.read_bytes() == content.replace(b"three", b"throw")  # its own machine sets it aside
    code, _, err = verb(capsys, "export", "all.jsonl")
    assert code == 2
    assert "there/texts.sqlite is damaged" in err
    assert not list(folder.glob("*all.jsonl*"))


@pytest.mark.parametrize("name", ["all.jsonl", "deep/all.jsonl.gz", "all.parquet"])
def test_export_writes_every_row_with_its_header(folder, capsys, name):
    code, out, _ = verb(capsys, "export", name)
    assert (code, out) == (0, f"{name}: 4 rows of 3 sources\n")
    if name.endswith("parquet"):
        rows = pq.read_table(folder / name).to_pylist()
    else:
        content = (folder / name).read_bytes()
        lines = gzip.decompress(content) if name.endswith("gz") else content
        rows = [json.loads(line) for line in lines.splitlines()]
    by_key = {row["key"]: row for row in rows}
    assert by_key[(b"b" * 16).hex()] == {
        "key": (b"b" * 16).hex(),
        "operation": "generate",
        "model": "big@1",
        "engine": "remote",
        "sampling": '{"t": 1}',
        "header": ["generate", "big@1", "remote", '{"t": 1}'],
        "text": "zwei ü",
        "score": None,
        "tokens_in": None,
        "tokens_out": None,
    }
    assert (by_key[(b"a" * 16).hex()]["text"], by_key[(b"a" * 16).hex()]["tokens_in"]) == ("one", 10)
    assert (by_key[(b"d" * 16).hex()]["text"], by_key[(b"d" * 16).hex()]["score"]) == (None, 7.5)


def test_prune_says_what_would_go_and_takes_only_its_own(folder, capsys):
    code, out, _ = verb(capsys, "prune", "model=big", "store.machine=here")
    assert code == 0
    assert "would delete outputs/store/here/texts.sqlite: 2 rows" in out
    assert "left to its own machine: outputs/store/there/texts.sqlite: 1 rows" in out
    assert "--yes" in out
    assert Store("outputs/store", reading=True).texts.count() == 3
    code, out, _ = verb(capsys, "prune", "model=big", "store.machine=here", "--yes")
    assert code == 0
    assert "deleted 2 outputs/store/here/texts.sqlite" in out
    store = Store("outputs/store", machine="here")
    assert store.texts.get([b"a" * 16, b"b" * 16, b"c" * 16]) == {b"c" * 16: "three"}
    assert store.scores.count() == 1
    store.texts.of(["generate", "big@1", "remote", '{"t": 1}']).put([(b"a" * 16, "anew")])
    assert store.texts.get([b"a" * 16]) == {b"a" * 16: "anew"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prune"], "store prune needs what to delete"),
        (["prune", "model="], "store prune needs what to delete"),
        (["prune", "modle=x"], "store: modle: no such key; did you mean model?"),
        (["export"], "store export needs a file that ends in .jsonl"),
        (["export", "all.csv"], "store export needs a file that ends in .jsonl"),
        (["lsit"], "there is no store at lsit; did you mean list?"),
        (["list", "store.path=nowhere"], "there is no store at nowhere"),
        (["verify", "outputs/store", "more"], "store verify: what is 'more'?"),
    ],
)
def test_words_that_make_no_sense(folder, capsys, words, said):
    code, _, err = verb(capsys, *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
