"""Verbs, the help page, and what Hydra is handed."""

import subprocess
import sys

import pytest

from apm_lab import __version__
from apm_lab.experiment.arguments import forced
from apm_lab.experiment.cli import main
from apm_lab.experiment.config_folder import config_folder


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["seed=1", "-m"], ["--multirun", "++seed=1"]),
        (["+scale=smoke", "method=routing"], ["+scale=smoke", "method=routing"]),
        (["method.label=margin"], ["++method.label=margin"]),
        (["~logger", "hydra.job.name=x"], ["~logger", "hydra.job.name=x"]),
        (["--cfg", "job", "seed=1"], ["--cfg=job", "++seed=1"]),
        (["seed=1", "-c=job", "--resolve"], ["--cfg=job", "--resolve", "++seed=1"]),
        (["-i", "seed=1"], ["--info=all", "++seed=1"]),
        (["seed=1", "--info", "defaults", "users.test=3"], ["--info=defaults", "++seed=1", "++users.test=3"]),
        (["seed=1", "--info=plugins"], ["--info=plugins", "++seed=1"]),
        (["-sc", "install=bash"], ["--shell-completion", "install=bash"]),
        (["--config-dir=mine", "seed=1"], ["--config-dir=mine", "++seed=1"]),
    ],
)
def test_overrides_are_forced_and_groups_are_not(arguments, expected, empty_folder):
    (empty_folder / "mine").mkdir()
    assert forced(arguments) == expected


def test_a_group_of_ones_own_is_a_group(empty_folder):
    (empty_folder / "mine" / "flavour").mkdir(parents=True)
    assert forced(["--config-dir", "mine", "flavour=sweet"]) == ["--config-dir=mine", "flavour=sweet"]


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_verbs_and_groups(flag, capsys):
    assert main(["seed=abc", flag]) == 0
    text = capsys.readouterr().out
    for word in ("list [GROUP]", "report FOLDER", "pairs export FILE", "routing_oracle", "modernbert_small"):
        assert word in text


def test_info_is_hydras():
    """In a process of its own, because Hydra then leaves a log handler behind."""
    command = [sys.executable, "-m", "apm_lab", "seed=1", "--info", "defaults", "users.test=3"]
    assert "Defaults List" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_an_unknown_package_is_hydras_message(capsys):
    assert main(["--cfg", "job", "--package", "nope"]) == 2
    assert capsys.readouterr().err == "package 'nope' not found in config\n"


def test_version_is_ours(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"apm_lab {__version__}\n"


@pytest.mark.parametrize("name", ["router", "routers"])
def test_list_shows_what_each_option_of_a_group_is(name, capsys):
    assert main(["list", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["modernbert_base", "modernbert_small", "ngrams"]
    assert lines[0].startswith("  modernbert_base   The paper's router, APM Table 5.")  # its file's first comment
    assert main(["list", "mappings"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line == "  gaussian            Every entry is drawn from N(0, 1), independently (APM Fig. 5)."  # its class's


def test_list_without_a_group_has_a_line_for_each(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  mapping      gaussian, signed_permutation" in lines


@pytest.mark.parametrize("group", sorted(folder.name for folder in config_folder().iterdir() if folder.is_dir()))
def test_list_says_something_of_every_option(group, capsys):
    names = {group, f"{group}s", group[:-1] + "ies" if group.endswith("y") else group}
    shown = set()
    for name in names:
        assert main(["list", name]) == 0
        shown.add(capsys.readouterr().out)
    (lines,) = ({tuple(each.split(None, 1)) for each in page.splitlines()} for page in shown)
    assert all(len(line) == 2 for line in lines)
    options = {
        file.relative_to(config_folder() / group).with_suffix("").as_posix()
        for file in (config_folder() / group).rglob("*.yaml")
    }
    assert {name for name, _ in lines} == options


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [(False, {}, False), (True, {}, True), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_list_is_coloured_on_a_terminal_alone(terminal, environment, coloured, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert main(["list", "mapping"]) == 0
    out = capsys.readouterr().out
    assert ("\x1b[" in out) is coloured
    assert "gaussian" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "routr"], "no config group 'routr'; did you mean router"),
        (["store"], "no store at outputs/store"),
        (["report"], "report needs a run's folder"),
        (["report", "nowhere"], "nowhere holds no finished run"),
        (["reprt"], "did you mean report"),
        (["--cgf", "job"], "did you mean --cfg"),
        (["report", "one", "two"], "one holds no finished run"),
        (["list", "router", "users"], "list takes one argument, found 2: router users"),
        (["~logger"], "logger: expected one of the group's options"),
        (["--config-dir"], "--config-dir needs a value"),
        (["seed=1", "--config-dir="], "--config-dir needs a value"),
        (["-cd", "--cfg", "job"], "-cd needs a value"),
        (["--config-dir", "nowhere"], "--config-dir nowhere: there is no such folder"),
        (["--config-dir=taken"], "--config-dir taken: there is no such folder"),
        (["--cfg"], "--cfg needs a value; one of: all, hydra, job"),
        (["--cfg", "jb"], "--cfg jb: no such value; did you mean job?"),
        (["--info", "default"], "'default' is no override"),
        (["--info=default"], "--info default: no such value; did you mean defaults"),
        (["--cfg", "job", "-m"], "--cfg and --multirun don't go together"),
        (["--multirun=3"], "--multirun takes no value"),
        (["--experimental-rerun", "x.pickle"], "no such flag --experimental-rerun"),
        (["--config-name", "nope"], "nope"),
        (["--cfg", "job", "--config-path", "nowhere"], "nowhere"),
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
    (manifest.parent / "parts" / "draw-0000.npz").write_bytes(b"PK half")
    assert main(["report", str(manifest.parent)]) == 2
    assert "1 of 1 mapping draws can't be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("seed=]", "error: 'seed=]' can't be read: extraneous input ']'; a value with special characters goes into"),
        ("a b=3", "error: 'a b=3' can't be read: unexpected character; "),
        ("users.train=[1,2", "error: 'users.train=[1,2' can't be read: no viable alternative at input '[1,2'; "),
        ("method={a", "error: 'method={a' can't be read: "),
    ],
)
def test_an_override_that_is_no_grammar_is_named(argument, message, capsys):
    assert main([argument, "--cfg", "job"]) == 2
    assert capsys.readouterr().err.startswith(message)
