"""The weights of a reward model with a class of its own: read by name, and fitting or refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.hf_body import Body
from apm_lab.language.hf_weights import quiet_loading, require_model
from apm_lab.language.reward_architectures import RewardArchitecture
from apm_lab.language.reward_heads import DecoderScores, Head
from apm_lab.language.weight_files import require_fitting

__all__ = ["fetched", "fitted_body", "load_scores", "read_config", "read_tensors"]

# Tables that older versions kept beside the weights: they follow from the configuration.
_TABLES = re.compile(r"\.(rotary_emb\.inv_freq|attention\.masked_bias|attention\.bias|embeddings\.position_ids)$")
_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")


def fetched(place: str, revision: str | None, tokenizer: bool = True) -> Path:
    """Return the folder of a model, that of a hub id fetched where it is not in the cache yet."""
    folder = Path(place)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(place, revision=revision, allow_patterns=list(_FILES)))
        except Exception as fault:  # each cause has a class of its own
            raise ConfigError(f"{place} can't be fetched from the hub: {fault}") from fault
    require_model(str(folder), tokenizer=tokenizer)
    return folder


def read_config(place: str, revision: str | None) -> dict[str, Any]:
    """Return what stands in a model's config.json, that of a hub id fetched where it is not in the cache yet."""
    path = Path(place) / "config.json"
    if not Path(place).is_dir():
        from huggingface_hub import hf_hub_download

        try:
            path = Path(hf_hub_download(place, "config.json", revision=revision))
        except Exception as fault:  # each cause has a class of its own
            raise ConfigError(f"{place} can't be fetched from the hub: {fault}") from fault
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{path} can't be read: {fault}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is no object")
    return found


def load_scores(
    folder: Path, known: RewardArchitecture, dtype: str, device: str, unknown: int | None, label: int
) -> DecoderScores:
    """Return the model in `folder`; `unknown` is its tokenizer's unknown token.

    Raises DataError naming weights that are missing or too many, ConfigError for those of another shape.
    """
    config = read_config(str(folder), None)
    tensors = read_tensors(folder, known.spare)
    head = {name: tensors.pop(name) for name in list(tensors) if name.startswith(f"{known.head}.")}
    normaliser = {name: tensors.pop(name) for name in list(tensors) if name.startswith("normalizer.")}
    module = fitted_body(folder, known.body, known.prefix, config, tensors, dtype)
    body = Body(module.to(device), module.config, device)
    pooling = config.get(known.pooling) or "last" if known.pooling else "last"
    if pooling not in ("last", "mean"):
        raise ConfigError(f"{folder / 'config.json'}: {known.pooling}={pooling}, expected last or mean")
    made = _head(folder, known, config, head, module.config.hidden_size, label)
    if known.normalises and config.get("do_normalize"):
        made = _normalised(made, config, normaliser, label, folder)
    made = Head(made.weight.to(device).float(), made.bias, made.mean, made.deviation)
    first = known.end == "before_unknown"
    return DecoderScores(body, made, unknown if first else None, first, pooling == "mean")


def read_tensors(folder: Path, spare: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Return a folder's weights by name, from one file or several, without tables and what begins with a `spare`."""
    index = folder / "model.safetensors.index.json"
    names = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.is_file() else None
    files = [folder / name for name in names] if names else sorted(folder.glob("*.safetensors"))
    found: dict[str, torch.Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as handle:
            for name in handle.keys():  # noqa: SIM118 (it is no mapping)
                if not _TABLES.search(name) and not name.startswith(spare):
                    found[name] = handle.get_tensor(name)
    return found


def fitted_body(
    folder: Path,
    kind: str,
    prefix: str,
    config: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    dtype: str,
) -> Any:  # noqa: ANN401
    """Return transformers' own model of type `kind` in eval mode, with weights whose names begin with `prefix`.

    Each of `tensors` must be one of them.
    """
    from transformers import CONFIG_MAPPING, AutoModel

    # Which class the file names is the authors' own; the body is transformers'.
    told = {key: value for key, value in config.items() if key not in ("architectures", "model_type", "auto_map")}
    shape = CONFIG_MAPPING[kind].from_dict(told)
    with torch.device("meta"), quiet_loading():
        empty = AutoModel.from_config(shape)
    require_fitting(
        folder,
        tensors,
        {f"{prefix}{name}": value for name, value in empty.state_dict().items()},
    )
    own = {name.removeprefix(prefix): value for name, value in tensors.items()}
    with quiet_loading():
        model = type(empty).from_pretrained(None, config=shape, state_dict=own, dtype=getattr(torch, dtype))
    return model.eval().requires_grad_(False)


def _head(
    folder: Path,
    known: RewardArchitecture,
    config: Mapping[str, Any],
    found: Mapping[str, torch.Tensor],
    hidden: int,
    label: int,
) -> Head:
    """Return the head of logit `label`."""
    weight, bias = f"{known.head}.weight", f"{known.head}.bias"
    count = int(config.get("score_dim", 1)) if known.normalises else 1
    own = {weight: torch.empty(count, hidden, device="meta")}
    if known.has_bias(config):
        own[bias] = torch.empty(count, device="meta")
    require_fitting(folder, found, own)
    return Head(found[weight][label], float(found[bias][label]) if bias in own else 0.0)


def _normalised(
    head: Head, config: Mapping[str, Any], found: Mapping[str, torch.Tensor], label: int, folder: Path
) -> Head:
    """Return the head that gives scores less the mean and over the deviation that they had in training.

    A reward is shifted and scaled, a cost scaled only, a critic's score left as it is.
    """
    kind = config.get("score_type", "reward")
    if kind not in ("reward", "cost", "critic"):
        raise ConfigError(f"{folder / 'config.json'}: score_type={kind}, expected reward, cost or critic")
    if kind == "critic":
        return head
    values = []
    for name in ("mean", "var"):
        told = found[f"normalizer.{name}"].tolist() if f"normalizer.{name}" in found else config.get(name)
        if not isinstance(told, list) or len(told) <= label:
            raise DataError(f"{folder}: do_normalize, and neither normalizer.{name} nor {name} in config.json")
        values.append(float(told[label]))
    mean, variance = values
    return Head(head.weight, head.bias, mean if kind == "reward" else 0.0, sqrt(variance))
