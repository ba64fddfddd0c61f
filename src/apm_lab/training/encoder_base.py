"""The encoder a router starts from: a pretrained one, or a small ModernBERT built from config alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, ModernBertConfig, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from apm_lab.errors import ConfigError, DataError
from apm_lab.training.history_tokenizer import HistoryTokenizer, TokenizerKind

__all__ = ["EncoderBase", "SmallModernBert", "pretrained_base", "saved_encoder", "weights_digest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallModernBert:
    """The shape of an encoder trained from scratch, and of its tokenizer."""

    layers: int
    hidden_size: int
    heads: int
    intermediate_size: int
    local_attention: int
    global_every: int
    dropout: float
    embedding_dropout: float
    initializer_range: float
    tokenizer: TokenizerKind
    vocab_size: int
    min_frequency: int

    def build(self, histories: Sequence[tuple[str, ...]], max_tokens: int) -> EncoderBase:
        """Return a freshly initialised encoder (torch's generator) and a tokenizer trained on `histories`."""
        tokenizer = HistoryTokenizer.train(histories, self.tokenizer, self.vocab_size, self.min_frequency)
        config = self.config(tokenizer, max_tokens)
        return EncoderBase(_fresh(config), tokenizer, config, max_tokens, "")

    def config(self, tokenizer: HistoryTokenizer, max_tokens: int) -> ModernBertConfig:
        """Return the ModernBERT config; layer 0 and every `global_every`-th attend to all tokens (0: none does)."""
        kinds = [
            "full_attention" if self.global_every and layer % self.global_every == 0 else "sliding_attention"
            for layer in range(self.layers)
        ]
        return ModernBertConfig(
            vocab_size=tokenizer.size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            layer_types=kinds,
            local_attention=self.local_attention,
            max_position_embeddings=max_tokens,
            initializer_range=self.initializer_range,
            embedding_dropout=self.embedding_dropout,
            mlp_dropout=self.dropout,
            attention_dropout=self.dropout,
            pad_token_id=tokenizer.pad_id,
            bos_token_id=tokenizer.start[0],
            cls_token_id=tokenizer.start[0],
            eos_token_id=tokenizer.end[0],
            sep_token_id=tokenizer.end[0],
        )


@dataclass(frozen=True, slots=True)
class EncoderBase:
    """An encoder before training: `digest` names a pretrained one's weights and is empty for a fresh one."""

    encoder: nn.Module
    tokenizer: HistoryTokenizer
    config: PreTrainedConfig
    max_tokens: int
    digest: str


def _fresh(config: PreTrainedConfig) -> nn.Module:
    """Return a freshly initialised encoder of this config, in fp32 and with sdpa attention where it has it."""
    try:
        encoder: nn.Module = AutoModel.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    except ValueError:  # an architecture without sdpa says so here
        encoder = AutoModel.from_config(config, attn_implementation="eager", dtype=torch.float32)
    return encoder


def saved_encoder(saved: Mapping[str, Any]) -> tuple[nn.Module, int]:
    """Return an encoder of a checkpoint's config, its weights yet to be filled in, and its hidden size.

    Raises DataError when the config names no architecture of transformers'.
    """
    values = {name: value for name, value in saved.items() if name != "auto_map"}
    try:
        config = AutoConfig.for_model(values.pop("model_type"), **values)
        return _fresh(config), int(config.hidden_size)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the checkpoint's encoder config can't be built: {error}") from error


def pretrained_base(name: str, revision: str | None, max_tokens: int) -> EncoderBase:
    """Return the encoder and tokenizer of a hub id or folder; safetensors only, no remote code.

    `max_tokens` is lowered to the model's context. Raises ConfigError when there is no such model here and DataError
    when it has no usable tokenizer.
    """
    where = {"revision": revision, "trust_remote_code": False}
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(name, **where)
        encoder = _load(name, where)
    except Exception as error:  # transformers, safetensors and the hub's library have kinds of their own
        raise ConfigError(f"router.pretrained={name}: {_reason(error)}") from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
    try:
        loaded: Any = AutoTokenizer.from_pretrained(name, use_fast=True, **where)
    except Exception as error:
        raise DataError(f"router.pretrained={name} has no tokenizer: {_reason(error)}") from error
    if len(loaded.get_vocab()) <= len(loaded.all_special_ids):  # what transformers makes up when there is no file
        raise DataError(f"router.pretrained={name} has no tokenizer: only special tokens are known")
    limits = [getattr(config, "max_position_embeddings", None), getattr(loaded, "model_max_length", None)]
    fitting = min([max_tokens, *(int(limit) for limit in limits if limit)])
    return EncoderBase(encoder, HistoryTokenizer.of_pretrained(loaded), config, fitting, weights_digest(encoder))


def _reason(error: Exception) -> str:
    if "ignore_mismatched_sizes" in str(error):  # the advice of transformers is no option here
        return "its weights are of another shape than its config.json says"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _load(name: str, where: dict[str, Any]) -> nn.Module:
    kinds = {"dtype": torch.float32, "use_safetensors": True, **where}
    try:
        encoder: nn.Module = AutoModel.from_pretrained(name, attn_implementation="sdpa", **kinds)
    except ValueError as error:
        if "sdpa" not in str(error).lower() and "scaled_dot_product" not in str(error):
            raise
        encoder = AutoModel.from_pretrained(name, attn_implementation="eager", **kinds)
    return encoder


def weights_digest(module: nn.Module) -> str:
    """Return a digest of all names, shapes and values of a module's state."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
