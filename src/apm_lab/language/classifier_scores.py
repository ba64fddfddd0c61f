"""A transformers sequence classifier taken as it is: its own pass on batches that are padded at the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from apm_lab.errors import ConfigError
from apm_lab.language.hf_body import Body
from apm_lab.language.reward_heads import DecoderScores, Head

__all__ = ["ClassifierScores", "decoder_scores", "is_causal", "label_of"]

_COLUMNS = 1024  # a row's share of the memory


@dataclass(frozen=True, slots=True)
class ClassifierScores:
    """Scores of token sequences by the whole model; `alone` reads one at a time, where padding would have a say."""

    model: Any
    label: int
    pad: int
    device: str
    alone: bool = False

    def scores(
        self, rows: Sequence[Sequence[int]], batch_size: int, kinds: Sequence[Sequence[int]] | None = None
    ) -> Iterator[tuple[list[int], list[float]]]:
        """Yield (places, scores) in batches of about the same length; `kinds` are the tokens' segments in a pair."""
        batch: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: -len(rows[place])):
            batch.append(place)
            size = 1 if self.alone else batch_size
            if len(batch) == size or len(batch) * len(rows[batch[0]]) >= batch_size * _COLUMNS:
                yield batch, self._read(rows, kinds, batch)
                batch = []
        if batch:
            yield batch, self._read(rows, kinds, batch)

    def _read(
        self, rows: Sequence[Sequence[int]], kinds: Sequence[Sequence[int]] | None, places: Sequence[int]
    ) -> list[float]:
        width = len(rows[places[0]])
        given = {
            "input_ids": self._padded([rows[place] for place in places], width, self.pad),
            "attention_mask": self._padded([[1] * len(rows[place]) for place in places], width, 0),
        }
        if kinds is not None:
            given["token_type_ids"] = self._padded([kinds[place] for place in places], width, 0)
        with torch.inference_mode():
            logits: torch.Tensor = self.model(**given).logits
        scores: list[float] = logits[:, self.label].float().tolist()
        return scores

    def _padded(self, rows: Sequence[Sequence[int]], width: int, value: int) -> torch.Tensor:
        return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], device=self.device)


def label_of(name: str, labels: int, asked: int | None) -> int:
    """Return which logit is the reward; ConfigError where there are several and none is asked for."""
    if asked is None and labels != 1:
        raise ConfigError(
            f"{name} gives {labels} numbers, and a reward is one: set reward_model.model.label to 0..{labels - 1}"
        )
    if asked is not None and not 0 <= asked < labels:
        raise ConfigError(f"{name}: label={asked}, and the model gives {labels}: expected 0..{labels - 1}")
    return asked or 0


def is_causal(model: Any, device: str) -> bool:  # noqa: ANN401
    """Return whether a token's state depends on what stands before it alone, found out on made-up tokens."""
    if getattr(model.config, "is_encoder_decoder", False):
        return False
    count = model.config.get_text_config().vocab_size
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 9]], device=device) % count
    with torch.inference_mode():
        states = model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.float()
    return bool(torch.allclose(states[0, :3], states[1, :3], rtol=1e-3, atol=1e-3 * float(states.abs().max())))


def decoder_scores(model: Any, label: int, device: str) -> DecoderScores | None:  # noqa: ANN401
    """Return the same scores from the model's body and head apart, None where its head is none that is known here.

    transformers reads the score at the last token that is not the padding token, so an end-of-text token that is also
    used for padding does not count.
    """
    layer = getattr(model, "score", None)
    if not isinstance(layer, torch.nn.Linear):
        return None
    bias = float(layer.bias[label]) if layer.bias is not None else 0.0
    stop = model.config.get_text_config().pad_token_id
    made = DecoderScores(Body(model.base_model, model.config, device), Head(layer.weight[label].float(), bias), stop)
    count = model.config.get_text_config().vocab_size
    row = [token % count for token in (5, 6, 7, 8, 9)]
    with torch.inference_mode():
        told = float(model(input_ids=torch.tensor([row], device=device)).logits[0, label])
    ((_, (ours,)),) = made.scores([row], 1)
    return made if abs(told - ours) <= 0.02 * max(1.0, abs(told)) else None
