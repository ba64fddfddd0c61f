import json
import logging
import random
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from apm_lab.errors import ConfigError, DataError
from apm_lab.methods.style_router import StyleRouter, ValidationSet
from apm_lab.training.encoder_router import EncoderRouter
from apm_lab.training.router_settings import fit_identity
from apm_lab.training.targets import single_prompts
from apm_lab.training.trainer_settings import TrainerSettings

FILLER = ["please", "tell", "me", "about", "the", "history", "of", "a", "place", "with", "many", "old", "houses"]
CUES = ("quite frankly", "if possible")
SMALL = {
    "layers": 1,
    "hidden_size": 32,
    "heads": 2,
    "intermediate_size": 32,
    "max_tokens": 64,
    "learning_rate": 1e-2,
    "min_frequency": 2,
    "split_prompts": False,
    "batch_size": 8,
    "epochs": 3,
}


def users(count, seed, longest=6):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    histories = [
        tuple(f"{' '.join(rng.choice(FILLER, rng.integers(1, longest)))} {CUES[label]}" for _ in range(2))
        for label in labels
    ]
    return histories, labels


def fitted(seed=0, trainer=None, **settings):
    histories, labels = users(48, seed=0)
    router = EncoderRouter(**{**SMALL, **settings}, trainer=trainer or TrainerSettings(threads=1))
    router.fit(histories, labels, objective="classification", styles=2, validation=None, seed=seed)
    return router


@pytest.fixture(scope="module")
def router():
    return fitted()


def test_learns_two_word_classes_and_gives_probabilities(router):
    as_protocol: StyleRouter = router
    held_out, expected = users(40, seed=1)
    scores = as_protocol.predict(held_out)
    assert scores.shape == (40, 2)
    assert scores.dtype == np.float64
    assert scores.sum(axis=1) == pytest.approx(1.0)
    assert (scores.argmax(axis=1) == expected).mean() > 0.95


def test_padding_and_neighbours_have_no_say(router):
    held_out, _ = users(20, seed=2, longest=12)
    together = router.predict(held_out)
    alone = np.concatenate([router.predict([history]) for history in held_out])
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(router.predict(held_out[::-1])[::-1] - together).max() < 1e-5


def test_regression_learns_ratings():
    histories, labels = users(64, seed=0)
    ratings = np.where(labels[:, None] == np.arange(2), [8.0, 9.0], [3.0, 4.0])
    router = EncoderRouter(**{**SMALL, "epochs": 5}, trainer=TrainerSettings(threads=1))
    router.fit(histories, ratings, objective="regression", styles=2, validation=None, seed=0)
    held_out, expected = users(20, seed=1)
    predicted = router.predict(held_out)
    right = np.where(expected[:, None] == np.arange(2), [8.0, 9.0], [3.0, 4.0])
    assert np.abs(predicted - right).mean() < 1.0


def test_same_seed_same_bits_another_seed_other_ones(router):
    held_out, _ = users(10, seed=1)
    assert (fitted().predict(held_out) == router.predict(held_out)).all()
    assert (fitted(seed=1).predict(held_out) != router.predict(held_out)).any()


def test_dropout_is_seeded_too():
    held_out, _ = users(10, seed=1)
    noisy = {"dropout": 0.1, "embedding_dropout": 0.1, "token_dropout": 0.2}
    torch.manual_seed(1)
    first = fitted(**noisy).predict(held_out)
    torch.manual_seed(2)
    assert (fitted(**noisy).predict(held_out) == first).all()


def test_a_fit_leaves_nothing_behind(tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.chdir(tmp_path)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    threads, filters = torch.get_num_threads(), list(warnings.filters)
    levels = [logging.getLogger(name).level for name in ("lightning.pytorch", "transformers")]
    with caplog.at_level(logging.INFO):
        fitted(trainer=TrainerSettings(threads=threads + 1)).predict(users(3, 1)[0])
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert after == before
    assert torch.get_num_threads() == threads
    assert list(warnings.filters) == filters
    assert [logging.getLogger(name).level for name in ("lightning.pytorch", "transformers")] == levels
    assert not torch.are_deterministic_algorithms_enabled()
    assert list(tmp_path.iterdir()) == []
    captured = capfd.readouterr()
    assert captured.out + captured.err + caplog.text == ""


def test_validation_figures_reach_the_log():
    histories, labels = users(48, seed=0)
    held_out, expected = users(10, seed=1)
    ratings = np.where(expected[:, None] == np.arange(2), 9.0, 4.0)
    asked = []

    def respond(indices, styles):
        asked.append((indices.tolist(), styles.tolist()))
        known = indices != 0
        return np.where(styles == expected[indices], 1.5, -2.0), known

    logged = []
    router = EncoderRouter(**SMALL, trainer=TrainerSettings(threads=1))
    validation = ValidationSet(held_out, expected, ratings, respond)
    router.fit(
        histories, labels, objective="classification", styles=2, validation=validation, seed=0, log=logged.append
    )
    assert [entry["step"] for entry in logged if "train/loss" in entry] == [5, 11, 17]
    last = [entry for entry in logged if "val/delta" in entry][-1]
    chosen = router.predict(held_out).argmax(axis=1)
    assert asked[-1] == (list(range(10)), chosen.tolist())
    right = chosen == expected
    assert last["val/accuracy"] == pytest.approx(right.mean())
    # The chosen style is rated 9 or 4, the mean of the user's own candidates is 6.5.
    assert last["val/delta"] == pytest.approx(np.where(right, 2.5, -2.5).mean())
    assert last["val/judged_delta"] == pytest.approx(np.where(right, 1.5, -2.0)[1:].mean())
    assert last["val/wl"] == (np.inf if right.all() else right.sum() / (~right).sum())


def test_validation_does_not_change_the_router(router):
    histories, labels = users(48, seed=0)
    held_out, expected = users(10, seed=1)
    watched = EncoderRouter(**SMALL, trainer=TrainerSettings(threads=1))
    validation = ValidationSet(held_out, expected, np.zeros((10, 2)))
    watched.fit(histories, labels, objective="classification", styles=2, validation=validation, seed=0)
    assert (watched.predict(held_out) == router.predict(held_out)).all()


def test_save_and_load_round_trip(router, tmp_path):
    held_out, _ = users(10, seed=1)
    router.save(tmp_path / "router", label="margin")
    assert sorted(path.name for path in (tmp_path / "router").iterdir()) == [
        *("router.json", "router.safetensors", "tokenizer.json")
    ]
    again = EncoderRouter(**SMALL, trainer=TrainerSettings(threads=1))
    again.load(tmp_path / "router", label="margin")
    assert (again.predict(held_out) == router.predict(held_out)).all()
    # What only steers training may differ.
    EncoderRouter(**{**SMALL, "epochs": 9}).load(tmp_path / "router")
    with pytest.raises(ConfigError, match="learned 'margin' labels, expected 'two_sided'"):
        again.load(tmp_path / "router", label="two_sided")
    with pytest.raises(ConfigError, match=r"saved with hidden_size=32 \(here 64\)"):
        EncoderRouter(**{**SMALL, "hidden_size": 64}).load(tmp_path / "router")


@pytest.fixture
def saved(router, tmp_path):
    router.save(tmp_path)
    return tmp_path


def rewrite(folder, change):
    """Change the weights and vouch for them, as a careless edit would."""
    from apm_lab.language.weight_files import digest_of

    tensors = change(load_file(folder / "router.safetensors"))
    save_file(tensors, folder / "router.safetensors")
    description = json.loads((folder / "router.json").read_text())
    content = (folder / "router.safetensors").read_bytes()
    description["digests"]["router.safetensors"] = digest_of(content)
    (folder / "router.json").write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "head.bias"}, DataError, r"missing weights \['head.bias'\]"),
        (lambda t: {**t, "more": torch.zeros(1)}, DataError, r"extra weights \['more'\]"),
        (
            lambda t: {**t, "head.bias": torch.zeros(3)},
            ConfigError,
            r"head.bias has shape \(3,\), expected \(2,\)",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(saved, change, error, message):
    rewrite(saved, change)
    with pytest.raises(error, match=message):
        EncoderRouter(**SMALL).load(saved)


def test_damaged_or_missing_files_are_refused(saved, tmp_path):
    weights = saved / "router.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"router\.safetensors is not the file that router.json describes"):
        EncoderRouter(**SMALL).load(saved)
    weights.unlink()
    with pytest.raises(DataError, match=r"router\.safetensors can't be read"):
        EncoderRouter(**SMALL).load(saved)
    description = json.loads((saved / "router.json").read_text())
    del description["styles"]
    (saved / "router.json").write_text(json.dumps({**description, "colour": 1}))
    with pytest.raises(DataError, match=r"missing \['styles'\], extra \['colour'\]"):
        EncoderRouter(**SMALL).load(saved)
    (saved / "router.json").write_text("{")
    with pytest.raises(DataError, match=r"router\.json is not json"):
        EncoderRouter(**SMALL).load(saved)
    with pytest.raises(DataError, match="nowhere"):
        EncoderRouter(**SMALL).load(tmp_path / "nowhere")


def test_an_interrupted_fit_goes_on_bit_for_bit(tmp_path):
    histories, labels = users(48, seed=0)
    settings = {**SMALL, "token_dropout": 0.2}
    straight = fitted(token_dropout=0.2)
    trainer = TrainerSettings(threads=1, checkpoint_folder=str(tmp_path))

    def stop_after_two_epochs(figures):
        if figures["step"] > 8:
            raise KeyboardInterrupt

    resumed = EncoderRouter(**settings, trainer=trainer)
    steps = []
    kwargs = {"objective": "classification", "styles": 2, "validation": None, "seed": 0}
    with pytest.raises(KeyboardInterrupt):
        resumed.fit(histories, labels, **kwargs, log=stop_after_two_epochs)
    assert len(list(tmp_path.glob("*/last.ckpt"))) == 1
    resumed.fit(histories, labels, **kwargs, log=lambda figures: steps.append(figures["step"]))
    assert steps[0] > 5
    held_out, _ = users(10, seed=1)
    assert (resumed.predict(held_out) == straight.predict(held_out)).all()
    assert list(tmp_path.iterdir()) == []


def test_a_trainer_state_that_was_cut_off_is_not_read(tmp_path):
    histories, labels = users(48, seed=0)
    trainer = TrainerSettings(threads=1, checkpoint_folder=str(tmp_path))
    router = EncoderRouter(**SMALL, trainer=trainer)
    identity = fit_identity(router._settings, trainer, histories, labels.astype(np.int64), "classification", 2, 0)
    (tmp_path / identity).mkdir()
    (tmp_path / identity / "last.ckpt").write_bytes(b"PK\x03\x04 half")
    router.fit(histories, labels, objective="classification", styles=2, validation=None, seed=0)
    held_out, _ = users(10, seed=1)
    assert (router.predict(held_out) == fitted().predict(held_out)).all()


def test_long_histories_are_cut_counted_and_warned_about_once(caplog):
    router = fitted()
    long = [("old " * 100, "houses " * 100), ("old", "houses")]
    with caplog.at_level(logging.WARNING):
        router.predict(long)
        router.predict(long)
    assert router.truncated == 2
    assert len(caplog.records) == 1
    assert "1 of 2 histories are longer than 64 tokens" in caplog.records[0].getMessage()


@pytest.fixture
def pretrained(tmp_path):
    """A tiny BERT with its tokenizer, as a folder of transformers'."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *FILLER, *" ".join(CUES).split()]
    backend = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(tmp_path / "bert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(
            BertConfig(
                vocab_size=len(words),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=24,
            )
        ).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_any_pretrained_encoder_can_be_fine_tuned(pretrained, tmp_path, capfd):
    settings = {**SMALL, "pretrained": str(pretrained), "epochs": 5}
    router = fitted(**settings)
    held_out, expected = users(40, seed=1)
    assert (router.predict(held_out).argmax(axis=1) == expected).mean() > 0.95
    # Its context is shorter than max_tokens: longer histories are cut instead of failing.
    assert router.predict([("old " * 60, "houses")]).shape == (1, 2)
    assert router.truncated == 1
    router.save(tmp_path / "router")
    shutil.rmtree(pretrained)  # the checkpoint needs no base
    again = EncoderRouter(**settings, trainer=TrainerSettings(threads=1))
    again.load(tmp_path / "router")
    assert (again.predict(held_out) == router.predict(held_out)).all()
    base = json.loads((tmp_path / "router/router.json").read_text())["base"]
    assert base["pretrained"] == str(pretrained)
    assert len(base["digest"]) == 32
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Loading" not in captured.err


def test_a_missing_model_or_tokenizer_is_named(pretrained, tmp_path):
    with pytest.raises(ConfigError, match=r"router\.pretrained=.*nothing-here"):
        fitted(pretrained=str(tmp_path / "nothing-here"))
    for path in pretrained.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(DataError, match="bert has no tokenizer"):
        fitted(pretrained=str(pretrained))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "cls"}, "router.pooling is 'cls', expected one of mean"),
        ({"tokenizer": "words"}, "did you mean word"),
        ({"hidden_size": 30, "heads": 4}, "router.hidden_size is 30, expected a multiple of 2 x heads = 8"),
        ({"epochs": 0}, "router.epochs is 0, expected at least 1"),
        ({"token_dropout": 1.0}, "router.token_dropout is 1.0"),
        ({"learning_rate": 0.0}, "router.learning_rate is 0.0"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        EncoderRouter(**settings)


def test_trainer_settings_out_of_range_are_named():
    with pytest.raises(ConfigError, match=r"trainer\.threads is 0"):
        TrainerSettings(threads=0)
    with pytest.raises(ConfigError, match=r"trainer\.max_epochs is 0"):
        TrainerSettings(max_epochs=0)
    assert TrainerSettings(devices=2).resolved_strategy == "ddp_spawn"
    assert TrainerSettings(devices=2, strategy="fsdp").resolved_strategy == "fsdp"
    assert TrainerSettings().resolved_strategy == "auto"


def test_building_a_router_imports_nothing_heavy():
    code = (
        "import sys; from apm_lab.training.encoder_router import EncoderRouter; EncoderRouter();"
        "from apm_lab.methods.ngrams import NgramRouter; NgramRouter();"
        "print([n for n in ('torch', 'lightning', 'transformers', 'sklearn') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_from_scratch_every_prompt_is_an_example_of_its_own():
    histories = [("quite frankly", "old houses", "many"), (), ("if possible",)]
    parts, rows = single_prompts(histories)
    assert parts == [("quite frankly",), ("old houses",), ("many",), (), ("if possible",)]
    assert rows.tolist() == [0, 0, 0, 1, 2]
    # 48 users with 2 prompts in batches of 8: 12 steps an epoch; as whole histories 6.
    users_, labels = users(48, seed=0)
    for split, last in ((None, 11), (True, 11), (False, 5)):
        steps = []
        router = EncoderRouter(**{**SMALL, "split_prompts": split, "epochs": 1}, trainer=TrainerSettings(threads=1))
        router.fit(
            users_,
            labels,
            objective="classification",
            styles=2,
            seed=0,
            log=lambda figures, steps=steps: steps.append(figures["step"]),
        )
        assert steps == [last]


def test_a_pretrained_encoder_sees_whole_histories(pretrained):
    steps = []
    histories, labels = users(48, seed=0)
    settings = {**SMALL, "split_prompts": None, "epochs": 1, "pretrained": str(pretrained)}
    router = EncoderRouter(**settings, trainer=TrainerSettings(threads=1))
    router.fit(
        histories,
        labels,
        objective="classification",
        styles=2,
        seed=0,
        log=lambda figures: steps.append(figures["step"]),
    )
    assert steps == [5]


def respond_in_another_process(indices, styles):
    return np.where(styles == 0, 1.0, -1.0), np.ones(len(indices), dtype=bool)


@pytest.mark.slow
def test_two_processes_train_together(capfd):
    histories, labels = users(50, seed=0)
    held_out, expected = users(11, seed=1)
    ratings = np.where(expected[:, None] == np.arange(2), 9.0, 4.0)
    validation = ValidationSet(held_out, expected, ratings, respond_in_another_process)
    router = EncoderRouter(**{**SMALL, "epochs": 6}, trainer=TrainerSettings(threads=1, devices=2))
    logged = []
    router.fit(
        histories, labels, objective="classification", styles=2, validation=validation, seed=0, log=logged.append
    )
    chosen = router.predict(held_out).argmax(axis=1)
    right = chosen == expected
    assert right.mean() > 0.8
    # Each figure once, and over both processes' users.
    figures = [entry for entry in logged if "val/delta" in entry]
    assert len(figures) == 6
    assert figures[-1]["val/accuracy"] == pytest.approx(right.mean())
    assert figures[-1]["val/delta"] == pytest.approx(np.where(right, 2.5, -2.5).mean())
    assert figures[-1]["val/judged_delta"] == pytest.approx(np.where(chosen == 0, 1.0, -1.0).mean())
    # The new processes say that they start; nothing warns.
    assert "arning" not in capfd.readouterr().err
