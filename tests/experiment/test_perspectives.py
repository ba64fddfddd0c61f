"""Audits of reward models through the command line: files, tables, runs that continue, several models, mistakes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from apm_lab.experiment.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from toy_audit import TOY_AUDIT, write_toys


@pytest.fixture(autouse=True)
def toys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_toys(tmp_path)
    return tmp_path


def run(capfd, *overrides, code=0, flags=()):
    assert main([*TOY_AUDIT, *overrides, *flags]) == code
    shown = capfd.readouterr()
    assert "Traceback" not in shown.out + shown.err
    return shown.out if code == 0 else shown.err


def folder(out):
    return Path(re.search(r"^results: (\S+)", out, re.MULTILINE)[1])


def rows(place, name):
    return pq.read_table(place / f"{name}.parquet").to_pylist()


def test_an_audit_of_opinions_leaves_its_tables_in_parquet_and_csv(capfd):
    out = run(capfd, "steering=all", "steering.traits=[SEX,AGE]", "study.format_questions=2")
    place = folder(out)
    assert "left out for too few respondents: 65+ (5)" in out
    assert "left out, 3: a reason" in out
    aligned = rows(place, "alignment")
    assert {row["distance"] for row in aligned} == {
        *("jensen_shannon", "wasserstein", "euclidean", "correlation", "total_variation")
    }
    own = [row for row in aligned if row["distance"] == "wasserstein" and row["trait"] != "all"]
    assert sorted(row["rank"] for row in own) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert all(row["low"] <= row["alignment"] <= row["high"] for row in own)
    rewards = rows(place, "rewards")
    questions = {row["question"] for row in rewards}
    assert len(questions) == 12
    prompts = {(row["form"], row["trait"], row["group"]) for row in rewards}
    assert len(prompts) == 1 + 3 * 6  # no prompt, and three forms for two sexes and four ages
    assert {row["form"] for row in rows(place, "steering")} == {"bio", "portray", "qa"}
    assert [row["formats"] for row in rows(place, "formats")] == [148, 148]
    manifest = json.loads((place / "manifest.json").read_text())
    assert manifest["figures"]["test/alignment"] == pytest.approx(aligned[1]["alignment"], abs=1)
    assert manifest["rewards"]["missing"] == 0
    csv = (place / "tables" / "alignment.csv").read_text().splitlines()
    assert len(csv) == 1 + len(aligned)
    none = [row["value"] for row in aligned if "value" in row]
    assert none == [] and "nan" not in (place / "tables" / "steering.csv").read_text().lower()


def test_the_same_command_skips_and_report_prints_the_tables_again(capfd):
    first = run(capfd)
    assert "skipped: this run is done already" in run(capfd)
    assert main(["report", str(folder(first))]) == 0
    again = capfd.readouterr().out
    tables = [line for line in first.splitlines() if not line.startswith("results:")]
    assert [line for line in again.splitlines() if not line.startswith("results:")] == tables


def test_what_was_rated_is_not_rated_again(capfd):
    run(capfd)
    place = folder(run(capfd, "reward_model.temperature=2", "distance=euclidean"))
    calls = json.loads((place / "manifest.json").read_text())["calls"]["reward_model"]
    assert calls["made"] == 0
    steered = folder(run(capfd, "steering=bio", "steering.traits=[SEX]"))
    calls = json.loads((steered / "manifest.json").read_text())["calls"]["reward_model"]
    unsteered = len([row for row in rows(steered, "rewards") if row["form"] == "none"])
    assert calls["made"] == 2 * unsteered


def test_a_plan_counts_rewards_and_computes_none(capfd):
    out = run(capfd, "plan=true", "steering=bio", "steering.traits=[SEX]")
    assert "plan: 1 run, no model was called" in out
    place = folder(run(capfd))
    rewards = len(rows(place, "rewards"))
    line = next(line for line in out.splitlines() if line.strip().startswith("reward_model"))
    assert line.split()[2:5] == [str(3 * rewards), "0", str(3 * rewards)]
    out = run(capfd, "plan=true", "steering=bio", "steering.traits=[SEX]")
    line = next(line for line in out.splitlines() if line.strip().startswith("reward_model"))
    assert line.split()[2:5] == [str(3 * rewards), str(rewards), str(2 * rewards)]
    assert "0 calls: done already" in run(capfd, "plan=true")


def test_a_plan_of_a_model_that_is_not_here_says_so(capfd, monkeypatch, toys):
    monkeypatch.setenv("APM_LAB_MODELS", str(toys / "none"))
    assert "smollm2_135m@not fetched" in run(capfd, "plan=true", "reward_model=smollm2_loglik")
    assert "make offline-models" in run(capfd, "reward_model=smollm2_loglik", code=2)


@pytest.mark.parametrize("verb", [["leaks"], ["pairs", "export", "x.jsonl"]])
def test_verbs_about_methods_refuse_an_audit(verb, capfd):
    assert main([*verb, *TOY_AUDIT]) == 2
    assert "is about study=personalization" in capfd.readouterr().err


@pytest.mark.parametrize("dataset", ["toy_bbq", "toy_stereoset"])
def test_audits_of_stereotypes(dataset, capfd):
    out = run(capfd, f"dataset={dataset}")
    place = folder(out)
    if dataset == "toy_bbq":
        confusion = rows(place, "confusion")
        assert [row["gold"] for row in confusion] == 2 * ["stereotyped", "unknown", "unstereotyped"]
        assert sum(row["stereotyped"] + row["unknown"] + row["unstereotyped"] for row in confusion[:3]) == 79
        assert {row["group"] for row in rows(place, "correct")} == {"old", "young"}
        assert "1 that name no one stereotyped group" in out
    else:
        shares = rows(place, "shares")
        assert shares[0]["items"] == 60
        assert sum(row["items"] for row in shares if row["term"]) == 60


def test_stereoset_is_steered_with_both_tests(capfd):
    place = folder(run(capfd, "dataset=toy_stereoset", "steering=qa", "steering.traits=[SEX]"))
    tests = rows(place, "steering_tests")
    assert {row["group"] for row in tests} == {"", "Male", "Female"}
    assert all(row["paired_n"] is not None for row in tests)


def test_a_model_that_gives_no_number_for_one_text_is_told_and_counted(capfd):
    out = run(capfd, "reward_model.model={_target_:toys.ToyRewards,missing:'about 3'}")
    place = folder(out)
    assert "rewards are missing: the model gave no finite number" in out
    assert "questions without an opinion, some reward missing: 1" in out
    missing = [row for row in rows(place, "rewards") if row["reward"] is None]
    assert {row["question"] for row in missing} == {"Q3_W1"}
    assert {row["questions"] for row in rows(place, "alignment")} == {11}
    for name in ("alignment", "references", "temperature"):
        assert "nan" not in (place / "tables" / f"{name}.csv").read_text().lower()


def test_several_models_are_held_against_each_other(capfd, toys):
    (toys / "options" / "reward_model" / "steeper.yaml").write_text(
        (toys / "options" / "reward_model" / "toy.yaml").read_text().replace("ToyRewards}", "ToyRewards, slope: 3.0}")
    )
    grid = ["dataset=toy_survey,toy_bbq", "reward_model=toy,steeper"]
    out = run(capfd, *grid, "steering.forms=[bio]", "dataset=toy_survey", flags=["-m"])
    assert "2 reward models on toy_survey: toy, steeper" in out
    (across,) = Path("outputs/multirun").rglob("across")
    agreement = rows(across, "agreement_alignment")
    assert agreement[0]["trait"] == "all" and agreement[0]["models"] == 2
    models = {(row["model"], row["other"]): row for row in rows(across, "models")}
    assert models["toy", "toy"]["alignment"] == pytest.approx(1.0)
    assert models["toy", "steeper"]["alignment"] == models["steeper", "toy"]["alignment"] < 0.999
    pooled = rows(across, "steering_tests_all")
    assert [row["n"] + row["zeros"] for row in pooled] == [24]  # two models, twelve questions
    folders = sorted(map(str, {folder.parent for folder in Path("outputs/perspectives").rglob("manifest.json")}))
    assert main(["report", *folders]) == 0
    assert "Do the models rank the groups alike? (alignment)" in capfd.readouterr().out
    assert main(["report", folders[0], folders[0]]) == 2
    assert "are both of" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("dataset", "told"),
    [("toy_survey", "5 of 12 questions"), ("toy_bbq", "5 of 80 items"), ("toy_stereoset", "5 of 60 items")],
)
def test_a_part_of_the_data_is_audited_and_says_so(dataset, told, capfd):
    given = [f"dataset={dataset}", "study.most_questions=5"]
    planned = run(capfd, "plan=true", *given)
    out = run(capfd, *given)
    assert f"toy on {dataset}, {told}" in out
    place = folder(out)
    rewards = rows(place, "rewards")
    assert len({row["question"] for row in rewards}) == 5
    line = next(line for line in planned.splitlines() if line.strip().startswith("reward_model"))
    assert line.split()[2] == str(len(rewards))
    assert json.loads((place / "manifest.json").read_text())["data"]["questions"] == 5
    if dataset == "toy_survey":
        assert "left out, 7: question left out by study.most_questions" in out
    whole = folder(run(capfd, f"dataset={dataset}"))
    made = json.loads((whole / "manifest.json").read_text())["calls"]["reward_model"]["made"]
    assert made == len(rows(whole, "rewards")) - len(rewards)  # what the part rated is not rated again


def test_questions_whose_format_is_varied_are_in_every_part(capfd):
    for number in (2, 7):
        place = folder(run(capfd, "study.most_questions=3", f"study.format_ids=[Q{number}_W1]"))
        assert [row["question"] for row in rows(place, "formats")] == [f"Q{number}_W1"]


def test_a_run_that_another_command_made_is_compared_all_the_same(capfd, toys):
    (toys / "options" / "reward_model" / "steeper.yaml").write_text(
        (toys / "options" / "reward_model" / "toy.yaml").read_text().replace("ToyRewards}", "ToyRewards, slope: 3.0}")
    )
    run(capfd, "seed=0", "distance=default")  # words that change nothing
    out = run(capfd, "reward_model=toy,steeper", flags=["-m"])
    assert "skipped: this run is done already" in out
    assert "2 reward models on toy_survey: toy, steeper" in out
    out = run(capfd, "reward_model=toy,steeper", "study.min_respondents=10,20", flags=["-m"])
    assert out.count("2 reward models on toy_survey: toy, steeper") == 2  # which are not mixed


def test_audits_on_different_data_are_not_compared(capfd):
    places = [str(folder(run(capfd, f"dataset.questions={count}"))) for count in (5, 6)]
    assert main(["report", *places]) == 2
    assert "are audits on different data" in capfd.readouterr().err


def test_audits_that_were_asked_differently_are_not_compared(capfd, toys):
    option = toys / "options" / "reward_model"
    (option / "other.yaml").write_text((option / "toy.yaml").read_text().replace("template: raw", "template: chat"))
    one = folder(run(capfd))
    other = folder(run(capfd, "reward_model=other", "prompt_format.display=qa"))
    assert main(["report", str(one), str(other)]) == 2
    assert "were not asked the same: they differ in prompt_format" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["steering.forms=[boi]"], "there is no form 'boi'; did you mean bio"),
        (["steering.forms=[bio]", "steering.traits=[AGES]"], "did you mean AGE?"),
        (["steering.forms=[bio]", "steering.traits=[SEX,RACE]"], "toy survey has no groups of RACE; one of: AGE, SEX"),
        (["steering=bio", "steering.traits=[]"], "steering.traits is empty"),
        (["reward_model.temperature=0"], "reward_model.temperature=0: expected a number above 0"),
        (["study.min_respondents=-1"], "study.min_respondents=-1: expected at least 0"),
        (["study.most_questions=0"], "study.most_questions=0: expected at least 1, or null for all"),
        (["study.most_questions=half"], "study.most_questions='half': expected int or null"),
        (["study.min_respondents=9999"], "no group has 9999 respondents"),
        (["distance.name=wassersten"], "distance.name='wassersten': expected"),
        (["prompt_format.display=qac"], "prompt_format.display='qac': expected qa or qca"),
        (["prompt_format.order=7"], "prompt_format.order=7: expected 0"),
        (["study.format_ids=[Q3_W2]"], "the data set has no question 'Q3_W2'; did you mean Q3_W1"),
        (["method=routing"], "method: study=perspectives has no such group; it has reward_model, distance"),
        (["dataset=small"], "study=perspectives audits a Survey"),
        (["dataset=toy_bbq", "steering=bio"], "BBQ is audited unsteered"),
        (["dataset=toy_bbq", "steering=bio", "plan=true"], "BBQ is audited unsteered"),
        (["dataset=stereoset"], "dataset.path"),
        (["dataset=opinionqa"], "dataset.path"),
        (["dataset=prism", "++dataset.path=nowhere"], "nowhere"),
        (["reward_model.model.template=chat"], "contradict"),
        (["++budget.calls=5"], "budget: study=perspectives"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message(overrides, message, capfd):
    err = run(capfd, *overrides, code=2)
    assert err.startswith("error: ")
    assert message in err


def test_the_benchmark_refuses_the_audits_groups(capfd):
    assert main(["reward_model=smollm2_loglik", "logger=csv"]) == 2
    assert "reward_model: study=personalization has no such group" in capfd.readouterr().err


def launched(toys, *overrides, **streams):
    """Start an audit in a process of its own, whose toys are slow."""
    path = os.pathsep.join([str(toys), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "apm_lab", *TOY_AUDIT, "steering=all", "steering.traits=[SEX,AGE]", *overrides]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, text=True, **streams)


@pytest.mark.slow
def test_a_killed_audit_continues_and_ends_equal(toys):
    plain = (toys / "toys.py").read_text()
    (toys / "toys.py").write_text(plain.replace("for place, call in enumerate(calls):", SLOW))
    process = launched(toys, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((toys / "outputs" / "store").rglob("scores.sqlite*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    out, _ = launched(toys, stdout=subprocess.PIPE).communicate()
    assert "continuing the run that was interrupted" in out
    broken = folder(out)
    calls = json.loads((broken / "manifest.json").read_text())["calls"]["reward_model"]
    assert 0 < calls["made"] < calls["asked"]
    out, _ = launched(toys, "++outputs=other", "++store.path=fresh", stdout=subprocess.PIPE).communicate()
    for name in ("alignment", "steering", "steering_forms"):
        assert pq.read_table(broken / f"{name}.parquet").equals(pq.read_table(folder(out) / f"{name}.parquet"))


SLOW = "for place, call in enumerate(calls):\n            __import__('time').sleep(0.01)"


@pytest.mark.parametrize(
    "extra",
    [["router.epochs=2"], pytest.param(["model=tiny", "method=soft_prompt_small"], marks=pytest.mark.slow)],
)
def test_what_is_trained_is_held_against_a_surveys_opinions_beside_its_other_figures(extra, capfd, toys, tiny):
    if "model=tiny" in extra:
        option = f"_target_: apm_lab.language.hf.HfModel\npath_or_id: {tiny}\nmax_tokens: 8\n"
        (toys / "options" / "model").mkdir()
        (toys / "options" / "model" / "tiny.yaml").write_text(option)
    small = ["+scale=smoke", "users.train=12", "users.test=6", "users.validation=6", "pool.size=2", "mapping.draws=1"]
    (toys / "options" / "callbacks").mkdir()
    (toys / "options" / "callbacks" / "toy_alignment.yaml").write_text(
        "_target_: apm_lab.experiment.settings.CallbackSettings\nalignment: {_target_: toys.ToySurvey}\n"
    )
    given = ["--config-dir=options", "plugins=[toys]", *small, "logger=csv", "callbacks=toy_alignment", *extra]
    assert main(given) == 0
    place = folder(capfd.readouterr().out)
    names = {line.split(",")[1] for line in (place / "metrics.csv").read_text().splitlines()[1:]}
    kinds = {"/".join(name.split("/")[-2:]) for name in names}
    assert {"val/alignment", "val/alignment_uniform"} <= kinds
    if "model=tiny" not in extra:
        assert "val/wl" in kinds
        return
    assert "val/put_right" in kinds
    (checkpoint,) = {file.parent for file in place.rglob("soft_prompt.safetensors")}
    trained = [f"reward_model.model.checkpoint={checkpoint}", f"reward_model.model.base={tiny}"]
    out = run(capfd, "reward_model=dpo_implicit", *trained)
    assert "dpo_implicit on toy_survey" in out
    rewards = [row["reward"] for row in rows(folder(out), "rewards")]
    assert max(map(abs, rewards)) > 0  # the adapter has learnt something
