from pathlib import Path

import numpy as np
import pytest

from apm_lab.errors import ConfigError
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.hf_encoder import HfEncoder
from apm_lab.language.offline_models import COMMAND, models_folder
from apm_lab.language.protocols import Embedder, Ready

TEXTS = [
    "Why should I learn to swim?",
    "why should I learn to swim, then?",
    "The answer is that it keeps you fit and it is fun. " * 6,
    "2",
    "",
]


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """The folder of a tiny BERT with random weights."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    words = sorted(set(" ".join(TEXTS).lower().replace("?", " ?").replace(",", " ,").replace(".", " .").split()))
    ids = {name: place for place, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    core = Tokenizer(models.WordLevel(ids, "[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=core, **named).save_pretrained(folder)
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=len(ids), initializer_range=0.3, **shape)).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_text_has_its_vector_whatever_stands_beside_it(bert, pooling):
    import torch
    from transformers import AutoModel, AutoTokenizer

    encoder = HfEncoder(bert, pooling, device="cpu", batch_size=2)
    assert isinstance(encoder, Embedder)
    assert isinstance(encoder, Ready)
    encoder.ready()
    found = encoder.embed(TEXTS)
    assert found.dtype == np.float32
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    for text, vector in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert vector == pytest.approx((states.mean(0) if pooling == "mean" else states[0]).numpy(), abs=1e-5)
    assert encoder.embed([]).shape == (0, 24)


def test_a_long_text_counts_by_its_beginning(bert):
    short = HfEncoder(bert, "mean", max_tokens=8, device="cpu")
    assert short.embed([TEXTS[2]]) == pytest.approx(short.embed([TEXTS[2] + "casual"]))
    assert short.identity != HfEncoder(bert, "mean", device="cpu").identity
    assert short.identity != HfEncoder(bert, "cls", max_tokens=8, device="cpu").identity


def test_a_model_without_its_files_is_named(bert, monkeypatch, tmp_path):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))
    with pytest.raises(ConfigError, match="make offline-models"):
        HfEncoder("minilm", "mean").ready()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        HfEncoder(str(tmp_path / "empty"), "mean").ready()


def test_hashed_words_are_near_where_wording_is_shared():
    encoder = HashedEncoder()
    assert isinstance(encoder, Embedder)
    found = encoder.embed(TEXTS)
    assert found.shape == (5, 1024)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 1, 1, 0])
    near = found @ found.T
    assert near[0, 1] > 0.8  # all of six words and five pairs, of seven and six
    assert abs(near[0, 2]) < 0.3
    assert (HashedEncoder().embed(TEXTS[::-1]) == found[::-1]).all()
    assert encoder.embed([]).shape == (0, 1024)
    with pytest.raises(ConfigError, match=r"encoder\.dimensions=0"):
        HashedEncoder(0)


def test_minilm_is_what_sentence_transformers_makes_of_it():
    folder = models_folder() / "minilm"
    if not folder.is_dir():
        pytest.skip(f"minilm is not on this machine: {COMMAND}")
    encoder = HfEncoder("minilm", "mean", max_tokens=256, device="cpu")
    found = encoder.embed([*TEXTS, "swim " * 400])
    near = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert near[0] @ near[1] > 0.9
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    peer = library.SentenceTransformer(str(Path(folder)), device="cpu").encode([*TEXTS, "swim " * 400])
    assert near == pytest.approx(peer, abs=1e-5)
