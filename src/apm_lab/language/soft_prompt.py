"""A causal language model with a soft prompt made from a user's embedding and a LoRA adapter (APM Sec. 4, Eq. 5)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from apm_lab.errors import ConfigError
from apm_lab.language.hf_engine import Engine
from apm_lab.language.pair_batch import EncodedPair, PairBatch, on_device, pair_batch
from apm_lab.maths.dpo import sums_by_sequence

__all__ = ["PolicySettings", "Projector", "SoftPromptPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What is trained: `soft_tokens` vectors by a `projector` from an embedding of `width`, and LoRA of this rank.

    `lora_rank` 0 leaves the adapter out, `soft_tokens` 0 the soft prompt. `targets` are the adapted linear layers.
    """

    width: int
    soft_tokens: int = 1
    projector: Literal["linear", "mlp"] = "mlp"
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")


class Projector(nn.Module):
    """Maps embeddings (B, E) to n soft tokens (B, n, H): a line (Eq. 5), or two layers with a GELU (Table 5)."""

    def __init__(self, kind: Literal["linear", "mlp"], width: int, tokens: int, hidden: int) -> None:
        super().__init__()
        self.tokens, self.hidden = tokens, hidden
        if kind == "linear":
            self.layers: nn.Module = nn.Linear(width, tokens * hidden)
        else:
            self.layers = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, tokens * hidden))

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return (B, n, H) of (B, E)."""
        out: Tensor = self.layers(embeddings).reshape(len(embeddings), self.tokens, self.hidden)
        return out


class SoftPromptPolicy(nn.Module):
    """The trained parts around an engine's own network: nothing of the base model is copied or changed.

    The adapter's layers are put into the network in place and do nothing outside of `active`; `detach` takes them out
    again. With both parts off the network is the base model, bit for bit. Soft tokens stand behind the first token
    where that is the one that begins a text, else before everything.
    """

    def __init__(self, engine: Engine, settings: PolicySettings, seed: int) -> None:
        super().__init__()
        self.settings, self.base = settings, engine
        self.network = engine.network
        model = engine.network.model
        hidden = model.get_input_embeddings().weight.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.projector = (
                Projector(settings.projector, settings.width, settings.soft_tokens, hidden)
                if settings.soft_tokens
                else None
            )
            self.adapted = _adapted(model, settings) if settings.lora_rank else None
        self.to(engine.network.device)
        self.switch(on=False)
        self.eval()  # peft's layers come in training mode, with dropout

    def trained(self) -> dict[str, Tensor]:
        """Return the trained tensors by name: `projector.*` and the adapter's."""
        found: dict[str, Tensor] = {}
        if self.projector is not None:
            found |= {f"projector.{name}": value for name, value in self.projector.named_parameters()}
        if self.adapted is not None:
            named = self.adapted.named_parameters()
            found |= {f"adapter.{_short(name)}": value for name, value in named if "lora_" in name}
        return found

    def shares_prompts(self) -> bool:
        """Whether both answers may stand behind one prompt: they then count for what each counts alone.

        Found out on a made-up pair: a network with a state of its own beside attention can't be told what not to see.
        """
        count = self.network.vocabulary
        ids = tuple((7 * step + 3) % count for step in range(12))
        one = EncodedPair(ids[:5], ids[5:9], ids[9:], 0)
        nobody = np.zeros((1, self.settings.width), np.float32)
        found = []
        with torch.inference_mode():
            for shared in (True, False):
                batch = pair_batch([one], nobody, lambda prompt, _: list(prompt), shared=shared)
                try:
                    found.append(self.log_probs(on_device(batch, self.network.device)))
                except (ValueError, RuntimeError, TypeError, IndexError):
                    return False
        return bool(torch.allclose(found[0], found[1], rtol=0.01, atol=0.01))

    @property
    def tokenizer(self) -> Any:  # noqa: ANN401
        """The base model's tokenizer."""
        return self.base.tokenizer

    @property
    def begin(self) -> int | None:
        """The token that begins a text, None where the tokenizer has none."""
        token: int | None = self.base.tokenizer.bos_token_id
        return token

    def with_soft(self, tokens: Sequence[int], place: int) -> list[int]:
        """Return a prompt's tokens with ids for the soft tokens of the user at `place` among those embedded."""
        soft = [-1 - (place * self.settings.soft_tokens + token) for token in range(self.settings.soft_tokens)]
        start = 1 if tokens and tokens[0] == self.begin else 0
        return [*tokens[:start], *soft, *tokens[start:]]

    def soft_table(self, embeddings: Tensor) -> Tensor | None:
        """Return the vectors (B n, H) that negative ids stand for; None without a soft prompt."""
        return None if self.projector is None else self.projector(embeddings).flatten(0, 1)

    def log_probs(self, batch: PairBatch) -> Tensor:
        """Return the log-probabilities (2B,) of whole answers, chosen ones first, differentiable by what is trained."""
        soft = self.soft_table(batch["embeddings"])
        # A model that is checkpointed layer by layer needs an input that has a gradient.
        vectors = self.network.embedded(batch["ids"], soft) if soft is not None else self._embedded(batch["ids"])
        states = self.network.states(vectors, batch["mask"], batch["positions"])
        picked = states[batch["rows"], batch["columns"]]
        values = self.network.log_probs(picked, batch["targets"])
        return sums_by_sequence(values, batch["sequences"], 2 * len(batch["embeddings"]))

    def _embedded(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.network.model.get_input_embeddings()(ids)
        return vectors

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the adapter work inside."""
        self.switch(on=True)
        try:
            yield
        finally:
            self.switch(on=False)

    def switch(self, *, on: bool) -> None:
        """Turn the adapter on or off."""
        if self.adapted is not None:
            (self.adapted.enable_adapter_layers if on else self.adapted.disable_adapter_layers)()
            for name, value in self.adapted.named_parameters():
                if "lora_" in name:
                    value.requires_grad_(True)  # peft freezes an adapter that is off

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy tensors named as in `trained` into this policy."""
        with torch.no_grad():
            for name, value in self.trained().items():
                value.copy_(tensors[name])

    def detach(self) -> None:
        """Take the adapter's layers out of the network, which is then the base model's own again."""
        if self.adapted is not None:
            self.adapted.unload()
            vars(self.network.model).pop("peft_config", None)  # peft takes a model that has one for adapted already
            self.adapted = None


def _adapted(model: nn.Module, settings: PolicySettings) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is on its way out
            adapted: nn.Module = get_peft_model(model, config)
    except ValueError as fault:
        linear = sorted(
            {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
        )
        raise ConfigError(
            f"method.lora_targets={list(settings.targets)}: this model has no such layers ({fault}); its linear layers "
            f"are {', '.join(sorted(linear))}"
        ) from fault
    return adapted


def _short(name: str) -> str:
    """Return a parameter's name without what peft puts before it and into it."""
    return name.removeprefix("base_model.model.").replace(".default.", ".")
