"""Finished audits read back: several of one kind told apart, settings that don't fit, and damaged folders."""

import json
import re
import shutil
import sys
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


def run(capfd, *overrides):
    assert main([*TOY_AUDIT, *overrides]) == 0
    return Path(re.search(r"^results: (\S+)", capfd.readouterr().out, re.MULTILINE)[1])


def told(capfd, *folders):
    assert main(["report", *map(str, folders)]) == 2
    return capfd.readouterr().err


def altered(folder, place, change):
    """Copy an audit with its manifest changed."""
    shutil.copytree(folder, place)
    manifest = json.loads((place / "manifest.json").read_text())
    change(manifest)
    (place / "manifest.json").write_text(json.dumps(manifest))
    return place


@pytest.mark.parametrize("option", ["classifier", "lm_loglik"])
def test_models_of_one_option_are_told_apart_by_their_names(option, capfd, toys):
    one = run(capfd)
    places = [
        altered(
            one,
            toys / name,
            lambda manifest, name=name: (
                manifest.update(reward_model=option),
                manifest["store"]["key_headers"].update(reward_model=["reward", f"{name}@12"]),
            ),
        )
        for name in ("mine", "yours")
    ]
    assert main(["report", *map(str, places)]) == 0
    assert f"2 reward models on toy_survey: {option} (mine), {option} (yours)" in capfd.readouterr().out
    assert f"are both of {option} (mine)" in told(capfd, places[0], places[0])


def test_soft_prompts_on_one_base_model_are_told_apart(capfd, toys):
    one = run(capfd)

    def trained(digest):
        return altered(
            one,
            toys / digest,
            lambda manifest: (
                manifest.update(reward_model="dpo_implicit"),
                manifest["store"]["key_headers"].update(reward_model=["reward", f"base@12+soft_prompt@{digest}"]),
            ),
        )

    assert main(["report", str(trained("aaaaaaaa")), str(trained("bbbbbbbb"))]) == 0
    assert "dpo_implicit (base, aaaaaa), dpo_implicit (base, bbbbbb)" in capfd.readouterr().out


def test_alignments_by_different_distances_are_not_put_side_by_side(capfd):
    one = run(capfd)
    other = run(capfd, "distance=euclidean", "reward_model.model={_target_:toys.ToyRewards,slope:2.0}")
    assert "were not asked the same: they differ in distance" in told(capfd, one, other)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("title"),
        lambda manifest: manifest.pop("rewards"),
        lambda manifest: manifest.update(frames=3),
        lambda manifest: manifest["frames"]["alignment"].update(chosen=[999]),
        lambda manifest: manifest["frames"]["alignment"].update(shown={"x": "{nope}"}),
        lambda manifest: manifest["frames"]["alignment"].update(shown={"x": "{alignment"}),
    ],
    ids=["no title", "no rewards", "no tables", "a row too many", "an unknown column", "no format"],
)
def test_a_damaged_manifest_is_one_message(change, capfd, toys):
    place = altered(run(capfd), toys / "damaged", change)
    assert f"error: {place}: written by another apm_lab, or damaged" in told(capfd, place)


def test_tables_that_are_gone_or_lack_a_column_are_one_message(capfd, toys):
    one, other = run(capfd), toys / "other"
    altered(one, other, lambda manifest: manifest.update(reward_model="other"))
    for name, column in (("alignment", "rank"), ("alignment", "trait"), ("opinions", "share")):
        whole = pq.read_table(other / f"{name}.parquet")
        pq.write_table(whole.drop([column]), other / f"{name}.parquet")
        if column != "rank":  # which is each table's own: several models are ranked anew
            assert "written by another apm_lab, or damaged" in told(capfd, one, other)
        pq.write_table(whole, other / f"{name}.parquet")
    (other / "alignment.parquet").unlink()
    assert "written by another apm_lab, or damaged" in told(capfd, other)


def test_tables_say_what_their_figures_are(capfd, toys):
    one, other = run(capfd), toys / "other"
    altered(one, other, lambda manifest: manifest.update(reward_model="other"))
    assert main(["report", str(one)]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "how far alignment and the groups' ranks move" in shown  # and not that ranks hold: they may not
    assert main(["report", str(one), str(other)]) == 0
    assert "alignment by group and, in brackets, its rank within the model" in " ".join(capfd.readouterr().out.split())
    assert main(["--help"]) == 0
    assert "study=perspectives" in capfd.readouterr().out
