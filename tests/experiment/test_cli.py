"""Verbs, the help page, and what Hydra is handed."""

import pytest

from apm_lab.experiment.cli import forced, main


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["seed=1", "-m"], ["-m", "++seed=1"]),
        (["+scale=smoke", "method=routing"], ["+scale=smoke", "method=routing"]),
        (["method.label=margin"], ["++method.label=margin"]),
        (["~logger", "hydra.job.name=x"], ["~logger", "hydra.job.name=x"]),
        (["--cfg", "job", "seed=1"], ["--cfg", "job", "++seed=1"]),
        (["--config-dir=mine", "seed=1"], ["--config-dir=mine", "++seed=1"]),
    ],
)
def test_overrides_are_forced_and_groups_are_not(arguments, expected, empty_folder):
    (empty_folder / "mine").mkdir()
    assert forced(arguments) == expected


def test_a_group_of_ones_own_is_a_group(empty_folder):
    (empty_folder / "mine" / "flavour").mkdir(parents=True)
    assert forced(["--config-dir", "mine", "flavour=sweet"]) == ["--config-dir", "mine", "flavour=sweet"]


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_verbs_and_groups(flag, capsys):
    assert main(["seed=abc", flag]) == 0
    text = capsys.readouterr().out
    for word in ("list [GROUP]", "report FOLDER", "routing_oracle", "modernbert_small"):
        assert word in text


def test_list_shows_one_group(capsys):
    assert main(["list", "router"]) == 0
    assert capsys.readouterr().out.split() == ["router", "modernbert_base,", "modernbert_small,", "ngrams"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "routr"], "no config group 'routr'; did you mean router"),
        (["store"], "no store at outputs/store.sqlite"),
        (["report"], "report needs a run's folder"),
        (["report", "nowhere"], "nowhere holds no finished run"),
        (["reprt"], "did you mean report"),
        (["--cgf", "job"], "did you mean --cfg"),
        (["+scale=smoke", "logger=csv", "outputs=taken"], "taken"),
        (["+scale=smoke", "logger=csv", "plugins=[absent]"], "plugins: package 'absent' is not installed here"),
    ],
)
def test_a_mistake_is_one_message(arguments, message, capsys, empty_folder):
    (empty_folder / "taken").write_text("a file, no folder")
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown


def test_report_and_store_of_a_run(capsys, empty_folder):
    assert main(["+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "mapping.draws=1"]) == 0
    (manifest,) = (empty_folder / "outputs" / "personalization").rglob("manifest.json")
    capsys.readouterr()
    assert main(["report", str(manifest.parent)]) == 0
    assert "routing_oracle" in capsys.readouterr().out
    assert main(["store"]) == 0
    assert " texts, " in capsys.readouterr().out
    (manifest.parent / "results.parquet").write_bytes(b"PAR1 half")
    assert main(["report", str(manifest.parent)]) == 2
    assert "can't be read" in capsys.readouterr().err
