"""Reward models with a class of their own: what differs between them, as data.

Sources: the model cards and the classes that the authors publish (safe-rlhf's score model, Open-Assistant's GPT-NeoX
reward model, the cards of UltraRM-13b and Starling-RM-7B-alpha).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apm_lab.errors import ConfigError, did_you_mean

__all__ = ["ARCHITECTURES", "RewardArchitecture", "architecture_named", "architecture_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardArchitecture:
    """How a checkpoint is read and where its score stands.

    `body` is transformers' own model type, whose weights the file has under `prefix`; `head` the linear layer that
    makes the score. `bias`: whether it has one, or the key of config.json that says so (no key: none). `end`: the
    score is that of the text's last token, or of the one before the first unknown token, which this model pads with.
    `pooling`: the key of config.json that may say `mean` in place of `last`. `normalises`: config.json may ask for
    the score less its running mean, over its running deviation. `spare`: beginnings of names of weights that are in
    the file and not used.
    """

    body: Literal["llama", "gpt_neox"]
    prefix: str
    head: str
    bias: bool | str = False
    end: Literal["last", "before_unknown"] = "last"
    pooling: str | None = None
    normalises: bool = False
    spare: tuple[str, ...] = ("lm_head.",)
    classes: tuple[str, ...]

    def has_bias(self, config: Mapping[str, Any]) -> bool:
        """Return whether the head has a bias, given config.json."""
        return bool(config.get(self.bias, False)) if isinstance(self.bias, str) else self.bias


ARCHITECTURES = {
    "beaver": RewardArchitecture(
        body="llama",
        prefix="model.",
        head="score_head",
        bias="bias",
        normalises=True,
        classes=("LlamaForScore", "LlamaModelForScore"),
    ),
    "ultrarm": RewardArchitecture(body="llama", prefix="model.", head="regression_head", classes=("LlamaRewardModel",)),
    "starling": RewardArchitecture(
        body="llama",
        prefix="transformer.",
        head="v_head",
        end="before_unknown",
        spare=("lm_head.", "model."),  # the whole language model once more
        classes=("LLMForSequenceRegression", "GPTRewardModel"),
    ),
    "oasst": RewardArchitecture(
        body="gpt_neox",
        prefix="gpt_neox.",
        head="out_proj",
        bias=True,
        pooling="pooling",
        spare=("embed_out.",),
        classes=("GPTNeoXRewardModel",),
    ),
}


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """Return the architecture that config.json names, None where it is none of these."""
    named = config.get("architectures") or ()
    for name, known in ARCHITECTURES.items():
        if any(one in known.classes for one in named):
            return name
    return "oasst" if config.get("model_type") == "gpt_neox_reward_model" else None


def architecture_named(name: str) -> RewardArchitecture:
    """Return the architecture of this name; ConfigError names the nearest."""
    if name not in ARCHITECTURES:
        raise ConfigError(
            f"architecture={name}{did_you_mean(name, ARCHITECTURES)}; expected one of {', '.join(ARCHITECTURES)}, or "
            "none for a transformers sequence classifier"
        )
    return ARCHITECTURES[name]
