"""A file of options that can't be read is named, with the line."""

import re

import pytest

from apm_lab.experiment.cli import main

BROKEN = {
    "tab": (b"_target_: a.b\n\tx: 1\n", r"tab\.yaml, line 2: .*a tab; indent with spaces"),
    "quote": (b'x: 1\n_target_: "a.b\nfoo: 1\n', r"quote\.yaml, line 2: .*quoted scalar.*end of stream"),
    "list": (b"\n- a\n- b\n", r"list\.yaml, line 2: expected keys and values, found a sequence"),
    "word": (b"hello\n", r"word\.yaml, line 1: expected keys and values, found a scalar"),
    "number": (b"# five\n5\n", r"number\.yaml, line 2: expected keys and values, found a scalar"),
    "latin": (b"a: 1\n_target_: caf\xe9\n", r"latin\.yaml, line 2: not UTF-8 text \(byte 0xe9\)"),
    "utf16": ("a: 1".encode("utf-16"), r"utf16\.yaml, line 1: not UTF-8 text \(byte 0xff\)"),
    "nothing": (b"", r"nothing\.yaml is empty; expected keys and values"),
    "comment": (b"# later\n", r"comment\.yaml is empty"),
    "twice": (b"a: 1\na: 2\n", r"twice\.yaml, line 2: .*duplicate key a"),
    "two": (b"a: 1\n---\nb: 2\n", r"two\.yaml, line 2: expected a single document"),
    "half": (b"_target_: ${nope\n", r"half\.yaml: .*'\$\{nope'"),
    "tag": (b"a: !!python/object/apply:os.getcwd []\n", r"tag\.yaml, line 1: could not determine a constructor"),
    "nul": (b"a: 1\nb: \x00\n", r"nul\.yaml, line 2: special characters are not allowed \(U\+0000\)"),
    "circle": (b"a: &a [*a]\n", r"circle\.yaml: maximum recursion"),
    "defaults": (b"defaults: 3\n", r"can't be composed: Invalid defaults list in 'method/defaults'"),
}


@pytest.fixture(autouse=True)
def options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "options" / "method").mkdir(parents=True)
    return tmp_path / "options" / "method"


def said(arguments, capfd):
    assert main(["--config-dir", "options", *arguments]) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("error: ") == 1
    assert "Traceback" not in shown.err + shown.out
    return shown.err


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("more", [["--cfg", "job"], []])
def test_a_broken_file_is_named(name, more, options, capfd):
    content, message = BROKEN[name]
    (options / f"{name}.yaml").write_bytes(content)
    assert re.search(message, said([f"method={name}", *more], capfd))


@pytest.mark.parametrize("content", [b"\xe9: 1\n", b'a: "\n', b"5\n"])
def test_a_broken_file_that_another_one_asks_for_is_named(content, options, capfd):
    (options / "outer.yaml").write_text("defaults: [inner]\n")
    (options / "inner.yaml").write_bytes(content)
    assert "inner.yaml, line 1: " in said(["method=outer", "--cfg", "job"], capfd)


def test_a_broken_file_in_a_grid_is_named_before_any_job(options, capfd):
    (options / "bad.yaml").write_text("- 1\n")
    assert "bad.yaml, line 1: " in said(["method=routing_oracle, bad", "-m"], capfd)


def test_a_broken_file_that_nobody_asks_for_harms_nothing(options):
    (options / "bad.yaml").write_text("\t")
    assert main(["--config-dir", "options", "--cfg", "job"]) == 0


def test_an_option_whose_class_is_another_groups_is_named(options, capfd):
    (options.parent / "users").mkdir()
    text = "_target_: apm_lab.experiment.settings.CallbackSettings\njudging: false\n"
    (options.parent / "users" / "odd.yaml").write_text(text)
    message = (
        r"users\._target_=\S+\.CallbackSettings: has no train, test, .*expected a class with the keys of UserSettings"
    )
    assert re.search(message, said(["users=odd", "logger=csv"], capfd))
