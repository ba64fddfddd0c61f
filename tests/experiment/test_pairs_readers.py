"""Exported pairs in the libraries that read them."""

import json
import sys
from pathlib import Path

import pytest

datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")
# Names that TRL still uses and transformers has given others.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

from apm_lab.experiment.cli import main  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from test_pairs import FORMATS, OURS, SMALL  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for form in FORMATS:
            assert main(["pairs", "export", f"{form}.jsonl", f"format={form}", *SMALL]) == 0
        assert main(["pairs", "export", "all.jsonl.gz", "draw=all", *SMALL]) == 0
    return path


def loaded(folder, name):
    cache = str(folder / "cache")
    return datasets.load_dataset("json", data_files=str(folder / name), split="train", cache_dir=cache)


@pytest.mark.parametrize("form", FORMATS)
def test_every_line_loads_as_it_was_written(folder, form):
    found = loaded(folder, f"{form}.jsonl")
    assert list(found) == [json.loads(line) for line in (folder / f"{form}.jsonl").read_text().splitlines()]
    assert set(found.column_names) > OURS


def test_a_compressed_file_loads(folder):
    assert set(loaded(folder, "all.jsonl.gz")["draw"]) == {0, 1}


def test_trl_prepares_the_pairs_and_takes_a_step(folder, tiny, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    pairs = loaded(folder, "trl.jsonl")
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    assert is_conversational(pairs[0])
    shown = maybe_apply_chat_template(pairs[0], tokenizer)
    assert shown["prompt"].endswith(pairs[0]["prompt"][0]["content"] + "<|end|>\n<|start|>assistant\n")
    assert shown["chosen"].startswith(pairs[0]["chosen"][0]["content"])
    settings = trl.DPOConfig(
        output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=2, report_to=[], bf16=False, use_cpu=True
    )
    trainer = trl.DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny),
        ref_model=AutoModelForCausalLM.from_pretrained(tiny),
        args=settings,
        train_dataset=pairs,
        processing_class=tokenizer,
    )
    prepared = trainer.train_dataset
    assert len(prepared) == len(pairs)
    for row, pair in zip(prepared, pairs, strict=True):
        for side in ("chosen", "rejected"):
            assert pair[side][0]["content"] in tokenizer.decode(row[f"{side}_ids"])
        assert pair["prompt"][0]["content"] in tokenizer.decode(row["prompt_ids"])
    assert trainer.train().global_step == 1
