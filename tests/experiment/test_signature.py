"""Signatures are read from source, never by importing it."""

import ast

import pytest

from apm_lab.errors import ConfigError
from apm_lab.experiment.signature import read_signature, require_allowed

SOURCE = """
raise RuntimeError("imported")
from dataclasses import dataclass
class Plain:
    def __init__(self, size: int, *, rate: float = 0.5, name) -> None: ...
@dataclass(frozen=True)
class Fields:
    size: int
    rate: float = 0.5
class Open:
    def __init__(self, **anything) -> None: ...
class Child(Plain): ...
@dataclass
class More(Fields):
    depth: int
class Empty: ...
def build(size: int = 3): ...
"""


@pytest.fixture(autouse=True)
def on_the_path(tmp_path, monkeypatch):
    read_signature.cache_clear()
    (tmp_path / "raises.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    read_signature.cache_clear()


def read(name):
    found = read_signature(f"raises.{name}", ("raises",))
    return found and {
        key: (each.annotation and ast.unparse(each.annotation), each.required) for key, each in found.items()
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Plain", {"size": ("int", True), "rate": ("float", False), "name": (None, True)}),
        ("Fields", {"size": ("int", True), "rate": ("float", False)}),
        ("Open", None),
        ("Child", None),
        ("More", None),
        ("Empty", {}),
        ("build", {"size": ("int", False)}),
    ],
)
def test_a_module_that_cannot_be_imported_is_still_read(name, expected):
    assert read(name) == expected


@pytest.mark.parametrize(
    ("target", "plugins", "message"),
    [
        ("raises.Plain", (), r"package 'raises' is neither apm_lab nor a plug-in; allow it with plugins=\[raises\]"),
        ("absent.Plain", ("absent",), r"package 'absent' is not installed here"),
        ("apm_lab.methods.routng.Routing", (), r"package 'apm_lab' has no module 'apm_lab.methods.routng'"),
        ("raises.Plane", ("raises",), r"no class or function 'Plane'; did you mean Plain"),
    ],
)
def test_refused_absent_and_misspelt_are_told_apart(target, plugins, message):
    with pytest.raises(ConfigError, match=message):
        read_signature(target, plugins)


def test_a_name_that_a_package_hands_on_is_read_where_it_stands(on_the_path):
    inner = on_the_path / "kit" / "parts"
    inner.mkdir(parents=True)
    (on_the_path / "kit" / "__init__.py").write_text("from .parts import Thing as Toy\nfrom os import getcwd\n")
    (inner / "__init__.py").write_text("from ..base import Thing\n")
    (on_the_path / "kit" / "base.py").write_text("class Thing:\n    def __init__(self, size: int) -> None: ...\n")
    assert list(read_signature("kit.Toy", ("kit",))) == ["size"]
    with pytest.raises(ConfigError, match=r"os\.getcwd is refused"):
        read_signature("kit.getcwd", ("kit",))


def test_a_plug_in_that_is_no_python_is_named_by_file_and_line(on_the_path):
    (on_the_path / "broken.py").write_text("x = 1\ndef f(:\n")
    with pytest.raises(ConfigError, match=r"broken\.py, line 2: invalid syntax"):
        read_signature("broken.f", ("broken",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x = 1\nx = '\xe9'\n", r"odd\.py, line 2: .*utf-8"),
        (b"x = 1\x00\n", r"odd\.py: source code string cannot contain null bytes"),
        (b"f(" * 5000, r"odd\.py"),
    ],
)
def test_a_plug_in_of_odd_bytes_is_named(on_the_path, content, message):
    (on_the_path / "odd.py").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_signature("odd.f", ("odd",))


def test_modules_that_hand_a_name_round_in_a_circle(on_the_path):
    (on_the_path / "one.py").write_text("from two import Toy\n")
    (on_the_path / "two.py").write_text("from one import Toy\n")
    with pytest.raises(ConfigError, match="go in a circle"):
        read_signature("one.Toy", ("one", "two"))


@pytest.mark.parametrize("target", ["", ".", "word", "a..b", ".a", "a.", "a b.c", "a/../b.c", "a.b\x00.c"])
def test_what_is_no_dotted_name(target):
    with pytest.raises(ConfigError, match="is no dotted name"):
        read_signature(target, ("a", "word"))


@pytest.mark.parametrize(
    "target",
    [
        "apm_lab.experiment.plugin.made",
        "apm_lab.experiment.run.Outcome",
        "apm_lab.data.prompts.read_prompts",
        "torch.load",
        "transformers.pipeline",
        "hydra.utils.get_class",
        "hydra.utils.Anything",
    ],
)
def test_of_libraries_only_classes_that_a_config_is_made_of_may_be_named(target):
    with pytest.raises(ConfigError, match=f"_target_ {target} is refused: of "):
        require_allowed(target, ("hydra",))


@pytest.mark.parametrize(
    "target",
    [
        "apm_lab.experiment.settings.PoolSettings",
        "apm_lab.experiment.sweep.SweepSummary",
        "torch.optim.AdamW",
        "hydra.experimental.callbacks.LogJobReturnCallback",
        "mine.make_method",
    ],
)
def test_classes_of_libraries_and_anything_of_a_plug_in_may_be_named(target):
    require_allowed(target, ("hydra", "mine"))
