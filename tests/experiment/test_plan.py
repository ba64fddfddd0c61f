"""`plan=true` and `budget.*` on the command line."""

import json
import re

import pytest

from apm_lab.experiment.cli import main
from apm_lab.language.bill import Line, bill
from apm_lab.language.foresight import Forecast, Outlook
from apm_lab.report.plan import print_plan
from apm_lab.report.table import terminal

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "users.train=20", "users.test=10", "users.validation=4"]


def run(capsys, *arguments, code=0):
    assert main([*SMALL, *arguments]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return said.err if code else said.out


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_calls_nobody_and_leaves_nothing(here, capsys):
    out = run(capsys, "plan=true")
    assert "plan: 1 run, no model was called" in out
    assert re.search(r"rewriter .* 78 +0 +78 ", out)
    assert re.search(r"generator .*at most 288 +0 +at most 288 ", out)
    assert re.search(r"model .*at most 80 +0 +at most 80 ", out)
    assert "unknown" in out
    assert list(here.iterdir()) == []


def test_after_the_run_there_is_nothing_to_do_and_another_method_is_free(capsys):
    run(capsys)
    assert "0 calls: done already, results in outputs/personalization/" in run(capsys, "plan=true")
    out = run(capsys, "plan=true", "method.label=regression")
    assert "at most" not in out
    assert re.search(r"all +[\d,]+ +[\d,]+ +0 +0 +0 +0.00 +0 s", out)


def test_a_method_that_asks_itself_says_how_much_at_most(capsys):
    out = run(capsys, "plan=true", "method=rag_exemplar")
    assert "method=rag_exemplar: what it asks for itself comes on top, at most: model 20 calls; and ratings" in out


def test_a_multirun_has_one_total_and_done_jobs_are_in_it(here, capsys):
    run(capsys)
    out = run(capsys, "-m", "seed=0,1,2", "method.label=margin", "plan=true")
    assert "plan: 3 runs" in out
    assert out.count("done already") == 1
    assert re.search(r"rewriter .* 156 +0 +156 ", out)
    assert not list(here.rglob("summary.csv"))
    both = run(capsys, "-m", "seed=1", "method.label=margin,regression", "plan=true")
    assert re.search(r"rewriter .* 78 +0 +78 ", both)  # what they share counts once


@pytest.mark.parametrize(
    ("role", "chosen"),
    [("model", ["model=smollm2_135m"]), ("judge", ["judge=smollm2_pmi"]), ("judge", ["judge=gemma3_fewshot"])],
)
def test_a_model_that_is_not_fetched_yet_has_a_plan(here, capsys, monkeypatch, role, chosen):
    monkeypatch.setenv("APM_LAB_MODELS", str(here / "none"))
    out = run(capsys, "plan=true", *chosen)
    name = "gemma3_270m" if "gemma3" in chosen[0] else "smollm2_135m"
    assert re.search(rf"{role} +{name}@not fetched .*~[\d,]+ +~[\d,]+ ", out)
    assert re.search(rf"~ estimated \(.*{role}.*four characters a token", out)
    if "pmi" in chosen[0]:  # the texts that its scale is made of, for each of three principles
        assert re.search(rf"judge +{name}@not fetched +168 +0 +168 ", out)
    assert f"{name} is not on this machine: what the store may hold of it is not counted" in out
    assert list(here.iterdir()) == []
    assert f"{name} is not on this machine" in run(capsys, *chosen, code=2)


def test_a_mistake_is_named_and_the_plan_is_not_printed(capsys):
    assert "users.train=-1: expected at least 0" in run(capsys, "plan=true", "users.train=-1", code=2)
    assert "plan=7: expected bool" in run(capsys, "plan=7", code=2)


def test_a_budget_stops_a_run_and_a_larger_one_goes_on(here, capsys):
    err = run(capsys, "budget.calls=200", code=2)
    assert "stopped before budget.calls=200 would be passed" in err
    assert "200 calls (" in err
    again = run(capsys, "budget.calls=200", code=2)  # what was spent before counts
    assert "200 calls (" in again
    run(capsys, "budget.calls=100000")
    (manifest,) = here.glob("outputs/personalization/*/*/manifest.json")
    told = json.loads(manifest.read_text())
    assert told["budget"]["limits"] == {"usd": None, "tokens": None, "calls": 100000}
    assert told["budget"]["spent"]["calls"] == 200 + sum(calls["misses"] for calls in told["calls"].values())
    for calls in told["calls"].values():
        assert calls["hits"] + calls["misses"] == calls["asked"]
    assert told["calls"]["judge"]["hits"] >= 100
    assert told["calls"]["judge"]["bytes_read"] == 8 * told["calls"]["judge"]["hits"]
    assert told["calls"]["model"]["bytes_written"] > 100 * told["calls"]["model"]["misses"]
    # Neither is part of the run: it is done now.
    assert "skipped: this run is done already" in run(capsys, "budget.tokens=1")


def test_money_without_a_price_is_a_fault_before_anything_is_spent(here, capsys):
    named = [
        "~model.name",
        "~model.compliance",
        "~model.noise",
        "+model.model=big",
        "+model.base_url=http://localhost:9",
    ]
    remote = ["model._target_=apm_lab.language.remote.openai.OpenAiModel", *named, "+model.api_key_env=null"]
    err = run(capsys, *remote, "budget.usd=5", code=2)
    assert "there is no price for big" in err
    assert not list(here.rglob("texts.sqlite-wal"))
    out = run(capsys, *remote, "plan=true")
    assert "no price: add prices.models to the configuration for big" in out
    assert re.search(r"model +big .* no price ", out)
    priced = run(capsys, *remote, "plan=true", "prices.models={big:[1,1000]}")
    assert float(re.search(r"model +big .* ~([\d.]+) ", priced)[1]) > 10


LATER = "{_target_: apm_lab.language.batch.BatchModel, model: served, folder: batch}"


@pytest.mark.parametrize(
    ("role", "limit", "chosen"),
    [
        ("generator", "budget.calls=200", ["generator=batch", "generator.model=served", "generator.folder=batch"]),
        ("judge", "budget.tokens=9", ["judge=openai", f"judge.model.model={LATER}"]),
    ],
)
def test_a_budget_beside_a_batch_file_is_refused(here, capsys, role, limit, chosen):
    err = run(capsys, limit, *chosen, code=2)
    assert f"{limit} can't hold back a batch file ({role})" in err
    assert not list(here.rglob("calls.jsonl"))
    assert "plan: 1 run" in run(capsys, "plan=true", limit, *chosen)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("budget.usd=-1", "budget.usd=-1: expected at least 0"),
        ("budget.calls=1.5", "budget.calls=1.5: expected int or null"),
        ("budget.cals=1", "budget.cals: no such key; did you mean calls?"),
        ("prices.models={a:[1]}", "prices.models.a=[1]: expected USD per million tokens"),
        ("prices.models={a:[1,x]}", "prices.models.a=[1, 'x']: expected USD per million tokens"),
        ("prices.models={a:[1,-2]}", "prices.models.a=[1, -2]: expected USD per million tokens"),
    ],
)
def test_bad_limits_and_prices(capsys, override, said):
    assert said in run(capsys, override, code=2)


class Shelf:
    def __init__(self, **values):
        self.values = {"rows": 0, "seconds": 0.0, "tokens_in": 0, "tokens_out": 0, "counted": 0, **values}

    def measured(self):
        return type("Measured", (), self.values)


class Tokenizing:
    def count_tokens(self, texts):
        return sum(len(text.split()) for text in texts)


def forecast(shelf, model=None, sampling="{}", **values):
    header = ("generate", "big@1", "remote", sampling)
    return Forecast("model", header, model, shelf, asked=100, stored=20, **{"characters": 8000, **values})


def test_tokens_are_measured_where_the_store_can_else_counted_else_estimated():
    measured = Shelf(rows=10, seconds=5.0, tokens_in=1000, tokens_out=300, counted=10)
    prices = {"big": [1.0, 2.0]}
    line = bill(forecast(measured), prices)
    assert (line.missing, line.tokens_in, line.tokens_out, line.basis, line.seconds) == (80, 8000, 2400, "measured", 40)
    assert line.usd == pytest.approx((8000 * 1.0 + 2400 * 2.0) / 1e6)
    line = bill(forecast(Shelf(), Tokenizing(), samples=["one two", "three"]), prices)
    assert (line.tokens_in, line.basis, line.seconds) == (8000 * 3 // 12, "tokenizer", None)
    line = bill(forecast(Shelf(), sampling='{"max_tokens": 60}'), {})
    assert (line.tokens_in, line.tokens_out, line.basis, line.usd) == (2000, 80 * 60, "estimated", None)


def test_an_unknown_price_is_never_zero(capsys):
    lines = [
        Line("model", "big@1", 10, 0, 10, 0, 100, 100, "measured", None, 3.0),
        Line("judge", "small@1", 10, 0, 10, 0, 100, 100, "measured", 1.5, 400.0),
    ]
    print_plan(terminal(), 1, [], lines)
    out = capsys.readouterr().out
    assert "no price" in out
    assert "1.50 + no price" in out
    assert "~" not in out
    assert "7 min" in out


def test_forecasts_of_two_models_in_one_role_are_apart():
    outlook = Outlook()
    one = outlook.of("model", ("generate", "a"), None, Shelf())
    assert outlook.of("model", ("generate", "a"), None, Shelf()) is one
    assert outlook.of("model", ("generate", "b"), None, Shelf()) is not one
