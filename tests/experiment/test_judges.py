"""A language model in the judge's place, from the config to the manifest; the backend is a stub."""

import json
import re
from importlib import import_module

import pytest

from apm_lab.data.store import Store
from apm_lab.experiment.cli import main
from apm_lab.judging.judge import Judge
from apm_lab.judging.pmi_judge import PmiJudge
from apm_lab.language.recall import CallCounts

BACKEND = '''
import json
import math
import re

from apm_lab.language.protocols import Answer, Usage
from apm_lab.language.simulated.judge import SimulatedJudge, Question

class Reads:
    """Answers the rubric's questions by the simulated judge's reading; `deaf`: whichever direction is asked."""

    engine = "hf"

    def __init__(self, identity: str = "reads", deaf: bool = False) -> None:
        self.identity, self.deaf = identity, deaf

    @property
    def sampling(self):
        return '{"temperature": 1.0}'

    def rating(self, text, name, verb):
        key = name.replace(" ", "_")
        direction = 1 if verb == "follow" or self.deaf else -1
        return SimulatedJudge("expected").score(text, [Question(key, direction)], [b"0000"])[0]

    def read(self, messages):
        text, _, asked = messages[-1].content.partition("\\n</text>\\n\\n")
        verb = re.search("follow|avoid", asked)[0]
        names = asked.partition("principles?\\n")[2].split("\\n")
        names = names if "each of" in asked else [asked[:-1].rpartition(": ")[2]]
        return [(name, self.rating(text.removeprefix("<text>\\n"), name, verb)) for name in names]

    def generate(self, calls):
        found = [self.read(call.messages) for call in calls]
        return [
            str(round(each[0][1])) if call.choices else json.dumps({name: round(rating) for name, rating in each})
            for call, each in zip(calls, found)
        ]

class Knows(Reads):
    def __init__(self, identity: str = "knows") -> None:
        super().__init__(identity)

    def log_probabilities(self, calls):
        for place, call in enumerate(calls):
            (_, rating), = self.read(call.messages)
            yield [Answer(place, tuple(-abs(rating - r) * 3 for r in range(1, 11)), Usage(9, 0))]

class Hears(Reads):
    """Finds a text likelier when told to be what the simulated judge reads in it."""

    def __init__(self, identity: str = "hears") -> None:
        super().__init__(identity)

    def log_probabilities(self, calls):
        for place, call in enumerate(calls):
            told, (text,) = call.messages[-1].content.lower().rstrip("."), call.answers
            sign, name = (-1, told.removeprefix("avoid being ")) if "avoid" in told else (1, told.removeprefix("be "))
            yield [Answer(place, (sign * self.rating(text, name, "follow") + len(text) % 7 / 100,), Usage(9, 0))]
'''
OPTION = """
_target_: apm_lab.experiment.settings.JudgeSettings
model:
  _target_: apm_lab.judging.language_judge.LanguageJudge
  model: {_target_: backends.%s}
"""
SMALL = ["+scale=smoke", "logger=csv", "method=routing_oracle", "pool.size=3", "mapping.draws=2", "users.test=6"]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Return a runner of the small study with a judge on one of the backends: exit code, output, manifest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "backends.py").write_text(BACKEND)
    (tmp_path / "options" / "judge").mkdir(parents=True)

    def start(backend, *overrides):
        (tmp_path / "options" / "judge" / "mine.yaml").write_text(OPTION % backend)
        code = main(["--config-dir", "options", "plugins=[backends]", "judge=mine", *SMALL, *overrides])
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err
        folder = re.search(r"^results: (\S+)", shown.out, re.MULTILINE)
        manifest = json.loads((tmp_path / folder[1] / "manifest.json").read_text()) if folder else None
        return code, shown.out + shown.err, manifest

    return start


def asked(manifest):
    """Return what the judge's key says of how it was asked."""
    operation, identity, engine, sampling, *_ = manifest["store"]["key_headers"]["judge"]
    assert (operation, engine) == ("score", "hf")
    return identity, json.loads(sampling)


@pytest.mark.parametrize(
    ("backend", "overrides", "said"),
    [
        ("Reads", (), {"score": "sampled", "mode": "narrow"}),
        ("Reads", ("judge.direction=both", "++judge.model.few_shot=true"), {"score": "sampled", "mode": "narrow"}),
        ("Reads", ("judge.mode=joint",), {"mode": "joint", "together": ["persuasive", "elaborate", "casual"]}),
        ("Knows", ("judge.score=expected",), {"score": "expected", "mode": "narrow"}),
    ],
)
def test_a_run_on_a_language_models_ratings(run, backend, overrides, said):
    code, shown, manifest = run(backend, "++judge.score=sampled", *overrides)
    assert code == 0, shown
    assert {key: asked(manifest)[1][key] for key in said} == said
    health, calls = manifest["judge_health"], manifest["calls"]["judge"]
    assert health["n"] == 3 * 48
    assert health["pearson"] == pytest.approx(-1, abs=0.1)
    assert sorted(health["pearsons"]) == ["casual", "elaborate", "persuasive"]
    assert re.search(r"judge health: mean AUC .*Pearson\(s\+, s-\) -\d\.\d\d, mean \|s\+ \+ s- - 11\| 0\.\d\d", shown)
    assert health["imbalance"] < 0.5
    assert (calls["tokens_in"] == 9 * calls["made"]) if backend == "Knows" else calls["tokens_in"] is None
    assert Store("outputs/store").scores.count() == calls["made"] > 0


def test_a_run_on_the_probabilities_of_texts_measures_its_reference_once(run):
    pmi = ["++judge.score=pmi", "judge.model._target_=apm_lab.judging.pmi_judge.PmiJudge", "judge.allow_unhealthy=true"]
    code, shown, manifest = run("Hears", *pmi)
    assert code == 0, shown
    first = manifest["calls"]["judge"]
    assert first["tokens_in"] == 2 * 9 * first["made"]
    assert Store("outputs/store").scores.count() == first["made"]
    code, shown, manifest = run("Hears", *pmi, "seed=1")
    assert code == 0, shown
    assert Store("outputs/store").scores.count() == first["made"] + manifest["calls"]["judge"]["made"]
    backend, shelf = import_module("backends").Hears(), Store("outputs/store").scores
    kept = Judge(PmiJudge(backend).differences, shelf, CallCounts(), ("casual",)).key_header
    assert shelf.of(kept).measured().rows == 3 * 56


@pytest.mark.parametrize("mode", ["narrow", "joint"])
def test_a_judge_that_does_not_hear_the_direction_stops_the_run_before_anything_is_spent(run, mode):
    code, shown, _ = run("Reads", "++judge.model.model.deaf=true", "++judge.score=sampled", f"++judge.mode={mode}")
    assert code == 2
    assert re.search(
        r"failed its health check: Pearson\(s\+, s-\) is \+\d\.\d\d, above -0\.3\. Nothing was spent", shown
    )
    assert Store("outputs/store").texts.count() == 0


@pytest.mark.parametrize(
    ("backend", "overrides", "message"),
    [
        ("Reads", ["judge.score=expected"], "judge.score=expected: backends.Reads gives no probabilities"),
        ("Knows", ["judge.score=pmi"], "judge.score=pmi"),
        ("Reads", ["judge.score=guess"], "judge.score='guess': expected sampled or expected or pmi"),
        ("Reads", ["judge.mode=wide"], "judge.mode='wide': expected narrow or joint"),
        ("Knows", ["judge.score=expected", "judge.mode=joint"], "judge.mode=joint"),
        (
            "Knows",
            ["judge.score=sampled", "judge.model.score=expected"],
            "judge.model.score=expected and judge.score=sampled contradict",
        ),
        (
            "Reads",
            ["judge.score=sampled", "judge.mode=joint", "judge.model.mode=narrow"],
            "judge.model.mode=narrow and judge.mode=joint",
        ),
    ],
)
def test_what_a_judge_can_not_do_is_refused_before_anything_is_asked(run, backend, overrides, message):
    code, shown, _ = run(backend, *(f"++{override}" for override in overrides))
    assert (code, message in shown) == (2, True), shown
    assert Store("outputs/store").scores.count() == 0


@pytest.mark.parametrize("override", ["judge.mode=joint", "judge.score=pmi"])
def test_a_simulated_judge_has_no_other_way_of_being_asked(tmp_path, monkeypatch, capfd, override):
    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, override]) == 2
    assert override.partition("=")[0] in capfd.readouterr().err


def test_the_same_way_of_asking_may_be_named_twice(run):
    code, shown, manifest = run("Knows", "++judge.score=expected", "++judge.model.score=expected")
    assert code == 0, shown
    assert asked(manifest)[1]["score"] == "expected"
