import os

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the program does, before torch is loaded

# the same examples on every machine, however slow; they need no database on disk
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
WORDS = (
    "Rate the text from 1 to 10. Why should I learn to swim? The answer is that it keeps you fit and it is fun. "
    "Be casual. Avoid being casual. How strongly does the text follow this principle: persuasive? 2 3 4 5 6 7 8 9\n"
)


def tokenizer(template=TEMPLATE):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|pad|>", "<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([WORDS], trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<|pad|>", eos_token="<|end|>")
    wrapped.chat_template = template
    return wrapped


def save(folder, config, kind, template=TEMPLATE, ends=12):
    """Write a model with random weights; every `ends`-th token ends an answer, so that lengths differ."""
    import torch

    words = tokenizer(template)
    config.vocab_size = len(words)
    torch.manual_seed(0)
    model = kind(config)
    if model.can_generate():
        model.generation_config.eos_token_id = [words.eos_token_id, *range(5, len(words), ends)]
        model.generation_config.pad_token_id = words.pad_token_id
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def llama(**changes):
    from transformers import LlamaConfig

    shape = {
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.4,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    return LlamaConfig(**{**shape, **changes})


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The folder of a tiny Llama with random weights and a chat template."""
    from transformers import LlamaForCausalLM

    return save(tmp_path_factory.mktemp("tiny"), llama(), LlamaForCausalLM)


@pytest.fixture(scope="session")
def windowed(tmp_path_factory):
    """The folder of a tiny Gemma 3: layers that look back 24 tokens only, and no chat template."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=24,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        max_position_embeddings=512,
        initializer_range=0.4,
        final_logit_softcapping=20.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    return save(tmp_path_factory.mktemp("windowed"), config, Gemma3ForCausalLM, template=None)


@pytest.fixture(scope="session")
def recurrent(tmp_path_factory):
    """The folder of a tiny LFM2, whose convolution layers keep a state and no columns."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    config = Lfm2Config(
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
        max_position_embeddings=512,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    return save(tmp_path_factory.mktemp("recurrent"), config, Lfm2ForCausalLM)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """The folder of a tiny Llama with random weights that gives a text one number."""
    from transformers import LlamaForSequenceClassification

    return save(tmp_path_factory.mktemp("classifier"), llama(num_labels=1), LlamaForSequenceClassification)
