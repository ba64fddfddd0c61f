"""Code that Hydra itself would import is held to the same rule as every other `_target_`."""

import pytest

from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "users.test=0"]
CODE = """
from pathlib import Path
from hydra.experimental.callback import Callback
Path("imported").touch()
class Mine(Callback):
    def on_run_start(self, config, **_):
        Path("called").touch()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["-m"]])
def test_a_callback_that_no_plug_in_names_is_not_imported(folder, more, capsys):
    (folder / "stranger.py").write_text(CODE)
    assert main([*SMALL, "+hydra.callbacks.x._target_=stranger.Mine", *more]) == 2
    assert "_target_ stranger.Mine is refused: package 'stranger'" in capsys.readouterr().err
    assert not (folder / "imported").exists()


def test_a_callback_of_a_preset_is_held_to_it_too(folder, capsys):
    (folder / "stranger_too.py").write_text(CODE)
    (folder / "options" / "scale").mkdir(parents=True)
    text = "# @package _global_\nhydra: {callbacks: {x: {_target_: stranger_too.Mine}}}\n"
    (folder / "options" / "scale" / "mine.yaml").write_text(text)
    assert main(["--config-dir", "options", "+scale=mine", "logger=csv"]) == 2
    assert "_target_ stranger_too.Mine is refused" in capsys.readouterr().err
    assert not (folder / "imported").exists()


def test_a_plug_ins_callback_is_called(folder):
    (folder / "acquaintance.py").write_text(CODE)
    assert main([*SMALL, "plugins=[acquaintance]", "+hydra.callbacks.x._target_=acquaintance.Mine"]) == 2
    assert (folder / "called").exists()


def test_a_part_of_python_is_no_plug_in_here_either(capsys):
    assert main([*SMALL, "plugins=[antigravity]", "+hydra.callbacks.x._target_=antigravity.geohash"]) == 2
    assert "_target_ antigravity.geohash is refused" in capsys.readouterr().err


def test_what_is_no_callback_is_named(capsys):
    assert main([*SMALL, "+hydra.callbacks.x={a: 1}"]) == 2
    assert "hydra.callbacks: {'a': 1} is no callback" in capsys.readouterr().err
