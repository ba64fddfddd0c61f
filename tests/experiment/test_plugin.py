"""A plug-in that fails is one message which says what failed, where, and while doing what."""

import re

import pytest

from apm_lab.errors import ConfigError
from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "mapping.draws=1", "~method.label"]
CLASS = """
class Toy:
    def fit(self, view):
        {fit}
    def respond(self, view):
        return []
"""
AT_IMPORT = {
    "raises": ("raise ValueError('no\\nluck')", r"raised ValueError: no luck \(.*raises\.py, line 1\)"),
    "leaves": ("import sys\nsys.exit(0)", r"raised SystemExit: 0 \(.*leaves\.py, line 2\)"),
    "broken_below": ("import written_badly", r"raised SyntaxError: .*\(.*written_badly\.py, line 2\)"),
    "recursive": ("def f():\n    f()\nf()", r"raised RecursionError: .*recursive\.py, line 2\)"),
    "half_there": ("from os import nothing", r"raised ImportError: cannot import name 'nothing' from 'os'"),
    "silent": ("raise Exception", r"raised Exception \(.*silent\.py, line 1\)"),
}


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "written_badly.py").write_text("x = 1\nx = = 2\n")
    return tmp_path


def said(name, capfd):
    assert main([*SMALL, f"plugins=[{name}]", f"method._target_={name}.Toy"]) == 2
    shown = capfd.readouterr()
    assert shown.err.count("error: ") == 1
    assert "Traceback" not in shown.err + shown.out
    return shown.err


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_module_that_fails_at_import(name, path, capfd):
    code, message = AT_IMPORT[name]
    (path / f"{name}.py").write_text(code + CLASS.format(fit="pass"))
    text = said(name, capfd)
    assert f"_target_ {name}.Toy: importing module {name} raised" in text
    assert re.search(message, text)
    assert "debug=true" in text


def test_a_module_that_is_no_python(path, capfd):
    (path / "no_python.py").write_text("class Toy:\n    def\n")
    assert re.search(r"no_python\.Toy: .*no_python\.py, line 2: invalid syntax", said("no_python", capfd))


def test_a_module_that_needs_another_package(path, capfd):
    (path / "needy.py").write_text("import not_there_at_all" + CLASS.format(fit="pass"))
    assert "needy.Toy needs a package that is not installed: No module named 'not_there_at_all'" in said("needy", capfd)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("refuser", "raise ValueError('not like this')", r"making it raised ValueError: not like this .*line 8\)"),
        ("leaver", "raise SystemExit", r"making it raised SystemExit \(.*line 8\)"),
        ("typist", "len(3)", r"making it raised TypeError: object of type 'int' has no len\(\)"),
    ],
)
def test_a_class_that_fails_when_it_is_made(name, code, message, path, capfd):
    (path / f"{name}.py").write_text(CLASS.format(fit="pass").rstrip() + f"\n    def __init__(self):\n        {code}\n")
    text = said(name, capfd)
    assert f"_target_ {name}.Toy: " in text
    assert re.search(message, text)


def test_a_class_that_leaves_in_the_middle(path, capfd):
    (path / "quitter.py").write_text(CLASS.format(fit="raise SystemExit(0)"))
    assert re.search(r"left half-way: .*raised SystemExit: 0 \(.*quitter\.py, line 4\)", said("quitter", capfd))


def test_debug_shows_where(path):
    (path / "shown.py").write_text("raise ValueError" + CLASS.format(fit="pass"))
    with pytest.raises(ConfigError) as caught:
        main([*SMALL, "plugins=[shown]", "method._target_=shown.Toy", "debug=true"])
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("rewriter", r"rewriter: kinds\.Empty is no TextModel: it has no .*generate"),
        ("model", r"model: kinds\.Empty is no TextModel: it has no .*generate"),
        ("judge.model", r"judge\.model: kinds\.Empty is no ScoreModel: it has no"),
        ("mapping.kind", r"mapping\.kind: kinds\.Empty is no MappingKind: it has no sample"),
        ("router", r"router: kinds\.Empty is no StyleRouter: it has no fit, predict"),
        ("method", r"method\._target_=kinds\.Empty is no method"),
    ],
)
def test_a_class_of_another_kind_is_named(place, message, path, capfd):
    (path / "kinds.py").write_text("class Empty:\n    pass\n")
    if "." in place:
        chosen = [f"{place}._target_=kinds.Empty", *(["~judge.model.score"] if place == "judge.model" else [])]
    else:
        (path / "options" / place).mkdir(parents=True)
        (path / "options" / place / "empty.yaml").write_text("_target_: kinds.Empty\n")
        chosen = [f"{place}=empty", "--config-dir", "options"]
    others = [word for word in SMALL if word.partition("=")[0] != place and not word.startswith("~")]
    assert main([*others, *chosen, "plugins=[kinds]"]) == 2
    assert re.search(message, capfd.readouterr().err)
