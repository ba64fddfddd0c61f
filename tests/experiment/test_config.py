"""Every shipped option composes, resolves and passes the pre-flight."""

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.identity import run_identity
from apm_lab.experiment.preflight import require_sound

OPTIONS = sorted(
    f"{'+' if group == 'scale' else ''}{group}={name}"
    for file in config_folder().glob("*/**/*.yaml")
    for group, _, name in [file.relative_to(config_folder()).with_suffix("").as_posix().partition("/")]
)

# What an option has no default for.
NEEDED = {
    "openai": ("model=m", "base_url=http://localhost:8000/v1"),
    "batch": ("model=m", "folder=batch"),
}


AUDITS = ("reward_model", "distance", "steering", "prompt_format")
AUDITED = ("dataset=bbq", "dataset=bbq_all", "dataset=stereoset", "dataset=opinionqa", "dataset=prism")


def composed(*overrides):
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        return OmegaConf.to_container(compose("config", list(overrides)), resolve=True)


def test_options_are_found():
    assert len(OPTIONS) > 20


@pytest.mark.parametrize("option", OPTIONS)
def test_option_passes_the_preflight(option):
    group, _, name = option.partition("=")
    where = "judge.model.model" if group == "judge" else group
    audit = group in AUDITS or option in AUDITED or name.startswith("perspectives/")
    study = ["study=perspectives"] if audit else []
    require_sound(composed(*study, option, *(f"++{where}.{value}" for value in NEEDED.get(name, ()))))


@pytest.mark.parametrize(
    "file", sorted(config_folder().glob("*/**/*.yaml")), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_a_yaml_is_values_and_at_most_a_screen(file):
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 16


@pytest.mark.parametrize("size", ["smoke", "laptop", "paper"])
def test_a_size_is_that_of_the_study_wherever_it_stands(size):
    benchmark, audit = {"smoke": 60, "laptop": 1000, "paper": 4000}[size], {"smoke": 20, "laptop": 300}.get(size)
    for given in ([f"+scale={size}"], ["study=personalization", f"+scale={size}"]):
        assert composed(*given)["users"]["train"] == benchmark
    for given in ([f"+scale={size}", "study=perspectives"], ["study=perspectives", f"+scale={size}"]):
        found = composed(*given)
        assert found["study"]["most_questions"] == audit
        assert found.get("users") is None
        require_sound(found)


def test_a_size_wins_over_a_preset_and_a_value_that_was_typed_over_both():
    small = composed("+scale=smoke", "experiment=apm/table1")
    assert small["users"]["train"] == 60 and small["users"]["active"] == 1
    assert composed("users.train=7", "experiment=apm/table1", "+scale=smoke")["users"]["train"] == 7
    assert composed("++study.most_questions=7", "study=perspectives", "+scale=smoke")["study"]["most_questions"] == 7


def test_a_size_of_ones_own_needs_no_part_for_each_study(tmp_path):
    file = tmp_path / "scale" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("# @package _global_\nusers: {train: 17}\n")
    assert composed(f"hydra.searchpath=[{tmp_path}]", "+scale=mine")["users"]["train"] == 17


def endpoints(node):
    if isinstance(node, dict):
        if node.get("_target_", "").endswith(".OpenAiModel"):
            yield node
        for each in node.values():
            yield from endpoints(each)


@pytest.mark.parametrize("option", [option for option in OPTIONS if "=openai/" in option])
def test_a_servers_own_sampling_defaults_change_no_preset(option):
    # What vLLM reads from a model's generation_config.json where a request says nothing, beside temperature and top_p.
    off = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    (model,) = endpoints(composed(option))
    assert {name: value for name, value in model["extra"].items() if name in off} == off


@pytest.mark.parametrize("override", ["logger=csv", "++outputs=elsewhere", "++store.path=x.sqlite", "++debug=true"])
def test_what_changes_no_figure_changes_no_identity(override):
    assert run_identity(composed(override), "data") == run_identity(composed(), "data")


@pytest.mark.parametrize(
    "override", ["++seed=1", "++users.train=999", "method.label=regression", "router=ngrams", "trainer.threads=2"]
)
def test_what_can_change_a_figure_changes_the_identity(override):
    assert run_identity(composed(override), "data") != run_identity(composed(), "data")


@pytest.mark.parametrize(
    ("override", "same"),
    [
        ("++reward_model.model.batch_size=7", True),
        ("++dataset.path=elsewhere", True),
        ("++reward_model.temperature=2.0", False),
        ("distance=euclidean", False),
        ("steering=bio", False),
        ("++reward_model.template=raw", False),
    ],
)
def test_what_changes_an_audits_figures_changes_its_identity(override, same):
    audit = "study=perspectives"
    found = run_identity(composed(audit), "data"), run_identity(composed(audit, override), "data")
    assert (found[0] == found[1]) is same


def test_data_are_told_apart_by_content_not_by_path():
    one, other = composed("++dataset.path=a.jsonl"), composed("++dataset.path=b.jsonl")
    assert run_identity(one, "same") == run_identity(other, "same")
    assert run_identity(one, "same") != run_identity(one, "other")


def test_the_baseline_routers_values_are_part_of_the_identity():
    plain = run_identity(composed(), "data", {"_target_": "x", "penalty": 1.0})
    assert plain != run_identity(composed(), "data", {"_target_": "x", "penalty": 0.1})
    assert plain != run_identity(composed(), "data", None)


def test_a_local_pretrained_model_counts_by_its_files(tmp_path):
    (tmp_path / "weights").write_bytes(b"one")
    config = composed(f"++router.pretrained={tmp_path}")
    before = run_identity(config, "data")
    (tmp_path / "weights").write_bytes(b"two")
    assert run_identity(config, "data") != before


def test_a_checkpoint_to_start_from_counts_by_its_files_wherever_it_lies(tmp_path):
    found = []
    for place, content in (("here", b"one"), ("there", b"one"), ("elsewhere", b"two")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "weights").write_bytes(content)
        config = composed("model=smollm2_135m", "method=soft_prompt", f"++method.start={tmp_path / place}")
        found.append(run_identity(config, "data"))
    assert found[0] == found[1] != found[2]


def test_a_local_language_model_counts_by_its_files_wherever_it_lies(tmp_path):
    found = []
    for place, content in (("here", b"one"), ("there", b"one"), ("elsewhere", b"two")):
        folder = tmp_path / place / "mine"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(content)
        found.append(run_identity(composed("model=smollm2_135m", f"++model.path_or_id={folder}"), "data"))
    assert found[0] == found[1] != found[2]


def test_a_language_model_that_is_not_on_this_machine_still_has_an_identity(tmp_path, monkeypatch):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))
    assert run_identity(composed("model=smollm2_135m"), "data") != run_identity(composed(), "data")
