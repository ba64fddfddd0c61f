"""A plug-in's source is part of a run's identity."""

import pytest

from apm_lab.experiment.identity import run_identity, source_digest, with_their_imports


@pytest.mark.parametrize("place", ["single.py", "whole/__init__.py", "bare/part.py"])
def test_a_changed_source_changes_the_digest(place, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = place.partition("/")[0].removesuffix(".py")
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("x = 1\n")
    source_digest.cache_clear()
    before = source_digest(package)
    file.write_text("x = 2\n")
    assert source_digest(package) == before  # read once a process
    source_digest.cache_clear()
    assert source_digest(package) != before


def test_modules_that_a_plug_in_imports_belong_to_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "plug_a.py": "import json, numpy as np\nfrom plug_b.deep import sign\nimport apm_lab.records\n",
        "plug_b/deep.py": "def sign():\n    import plug_c\n",
        "plug_c.py": "import plug_a\nfrom missing_everywhere import nothing\n",
        "plug_broken.py": "def (",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert with_their_imports(["plug_a"]) == ["plug_a", "plug_b", "plug_c"]
    assert with_their_imports(["plug_broken"]) == ["plug_broken"]
    assert with_their_imports([]) == []


def config(model=None, **others):
    backend = {"_target_": "a.B", **(model or {})}
    judge = {"_target_": "a.Judge", "model": {"_target_": "a.LanguageJudge", "model": backend}}
    rest = {"callbacks": {}, "trainer": {"threads": 1}, "dataset": {}, "plugins": [], "seed": 0}
    return {**rest, "router": {"batch_size": 4}, "judge": judge, "model": backend, **others}


@pytest.mark.parametrize("key", ["base_url", "api_key_env", "concurrency", "timeout_s", "batch_size", "folder"])
def test_where_a_model_is_and_how_fast_it_is_asked_is_no_part_of_a_run(key):
    """In a role's own node and in the one inside a judge's model."""
    assert run_identity(config({key: "x", "name": "n"}), "d") == run_identity(config({"name": "n"}), "d")
    assert run_identity(config({"name": "m"}), "d") != run_identity(config({"name": "n"}), "d")


@pytest.mark.parametrize("key", ["plan", "budget", "prices", "store", "outputs", "debug", "logger"])
def test_what_a_run_costs_and_where_it_lies_is_no_part_of_it(key):
    assert run_identity(config(**{key: {"a": 1}}), "d") == run_identity(config(), "d")


def test_a_routers_batch_size_is_a_part_of_a_run():
    assert run_identity(config(router={"batch_size": 8}), "d") != run_identity(config(), "d")
