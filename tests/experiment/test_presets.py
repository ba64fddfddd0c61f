"""Every preset of a figure or table composes, and each job of its grid passes the pre-flight: no data, no weights."""

import itertools
import json
import re
from functools import cache

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from apm_lab.experiment import plan
from apm_lab.experiment.cli import main
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.preflight import require_sound

FOLDER = config_folder() / "experiment"
PRESETS = sorted(file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.yaml"))
APM = ("table1", "table2a", "table2b", "table3", "fig4", "fig5")
RMP_FIGURES = (1, 2, 3, 4, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20)
RMP_TABLES = (1, 12, 13, 14, 15, 16, 17)
OF_THE_PAPERS = [
    *(f"apm/{name}" for name in APM),
    *(f"rmp/fig{number}" for number in RMP_FIGURES),
    *(f"rmp/table{number}" for number in RMP_TABLES),
    "rmp/format",
]
SMOKE = ["+scale=smoke", "router=ngrams", "logger=csv", "users.train=12", "users.test=6", "users.validation=0"]
_sound = set()  # what has been seen to pass


@cache
def composed(*overrides):
    """Return the configuration, the preset's own grid, and Hydra's mode."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", list(overrides), return_hydra_config=True)
    params = dict(config.hydra.sweeper.params or {})
    plain = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    return OmegaConf.to_container(plain, resolve=True), params, str(config.hydra.mode)


def require_sound_jobs(preset, params):
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        for job in grid(params):
            config = compose("config", [f"experiment={preset}", *job])
            require_sound(OmegaConf.to_container(config, resolve=True))


def grid(params):
    """Return the overrides of each job."""
    choices = [[f"{key}={value}" for value in str(values).split(",")] for key, values in params.items()]
    return [list(job) for job in itertools.product(*choices)]


def test_each_figure_and_table_has_its_preset():
    assert set(OF_THE_PAPERS) <= set(PRESETS)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_each_job_of_a_preset_passes_the_preflight(preset):
    config, params, mode = composed(f"experiment={preset}")
    assert mode == ("RunMode.MULTIRUN" if params else "None")
    told = json.dumps([config, params], sort_keys=True)
    if told not in _sound:  # several figures are read off the same runs
        require_sound_jobs(preset, params)
        _sound.add(told)


@pytest.mark.parametrize("preset", OF_THE_PAPERS)
def test_a_preset_is_of_the_papers_size_and_says_where_its_figure_lies(preset):
    config, _, _ = composed(f"experiment={preset}")
    if preset.startswith("apm/"):
        assert config["users"]["train"] == 4000 and config["users"]["test"] == 1000
        assert config["mapping"]["draws"] == 10 and config["pool"]["size"] == 10
    else:
        assert config["study"]["most_questions"] is None
    comment = (FOLDER / f"{preset}.yaml").read_text().splitlines()[1]
    number = re.sub(r"^(fig|table)", "", preset.partition("/")[2])
    assert comment.startswith("# APM" if preset.startswith("apm/") else "# RMP")
    assert re.sub(r"[()]", "", comment).split()[3].rstrip(",") == number or preset == "rmp/format"
    assert re.search(r"summary\.csv|across/\S+\.(png|parquet)|tables/\w+\.csv", comment), comment


@pytest.mark.parametrize("preset", ["rmp/table1", "rmp/table15"])
def test_steering_on_stereoset_has_the_five_models_of_the_papers_tables(preset):
    (models,) = composed(f"experiment={preset}")[1].values()
    assert models.split(",") == ["beaver_7b", "deberta_v3_large", "pairrm", "pythia_1b", "pythia_7b"]


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        (["method=routing"], 4),
        (["method=routing", "-m"], 4),
        (["users.train=12,20", "method=routing"], 2),
        (["users.train=12"], 4),
        (["users.train=12", "method=routing", "seed=1,2,3"], 3),
        (["--run"], 1),
        (["hydra.mode=RUN"], 1),
    ],
)
def test_what_is_typed_wins_over_a_presets_own_grid(given, runs, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "plan_job", lambda job: planned.append(job.overrides))
    monkeypatch.setattr(plan, "conclude", lambda: True)
    planned = []
    assert main(["experiment=apm/table2a", "router=ngrams", "logger=csv", "plan=true", *given]) == 0
    capfd.readouterr()
    assert len(planned) == len(set(map(tuple, planned))) == runs


def test_a_verb_about_one_method_takes_a_preset_that_is_a_grid(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["leaks", "experiment=apm/table1", *SMOKE, "pool.size=2"]) == 0
    assert "method=routing: no leak" in capfd.readouterr().out


def test_a_table_over_a_presets_own_grid_has_a_row_per_job(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["experiment=apm/table2b", "method=rag_exemplar,routing_oracle", "users.turns=1,2", "pool.size=2"]
    assert main([*given, *SMOKE, "mapping.draws=1"]) == 0
    (summary,) = tmp_path.glob("outputs/multirun/*/*/summary.csv")
    overrides = [line.split(",")[1] for line in summary.read_text().splitlines()[1:]]
    assert len(overrides) == 4
    assert all("users.turns=" in each and "method=" in each and "++" not in each for each in overrides)
