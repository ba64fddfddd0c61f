"""PairRM's network: DeBERTa, and a head on the states of three marks (model card of llm-blender/PairRM-hf)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from apm_lab.errors import ConfigError
from apm_lab.language.hf_chats import ChatEncoder
from apm_lab.language.hf_weights import quiet_loading
from apm_lab.language.reward_weights import fetched, fitted_body, read_config, read_tensors
from apm_lab.language.weight_files import require_fitting

__all__ = ["MARKS", "PairScores", "load_pair_scores"]

MARKS = ("<|source|>", "<|candidate1|>", "<|candidate2|>")
_COLUMNS = 1024  # a row's share of the memory


@dataclass(frozen=True, slots=True)
class PairScores:
    """A body, a head of two layers, and the ids of the marks before source and candidates."""

    body: Any
    first: tuple[torch.Tensor, torch.Tensor]  # (H, 2H) and (H,)
    second: tuple[torch.Tensor, torch.Tensor]  # (tasks, H) and (tasks,)
    tokenizer: Any
    plain: ChatEncoder
    marks: tuple[int, ...]
    pad: int
    device: str

    def encoded(
        self, source: str, candidates: Sequence[str], longest: int, whole: int
    ) -> Iterator[tuple[int, int, list[int]]]:
        """Yield (first, second, tokens) for each ordered pair of candidates; what is too long loses its end."""
        if len(candidates) < 2:
            return
        (head,) = self._cut([f"{MARKS[0]}{self._unmarked(source)}"], longest)
        room = (whole - len(head)) // 2
        texts = [self._unmarked(candidate) for candidate in candidates]
        tails = [self._cut([f"{mark}{text}" for text in texts], room) for mark in MARKS[1:]]
        for one in range(len(candidates)):
            for other in range(len(candidates)):
                if one != other:
                    yield one, other, [*head, *tails[0][one], *tails[1][other]]

    def logits(self, rows: Sequence[Sequence[int]], batch_size: int) -> Iterator[tuple[list[int], list[float]]]:
        """Yield (places, logits that the first candidate is better) in batches of about the same length."""
        batch: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: -len(rows[place])):
            batch.append(place)
            if len(batch) == batch_size or len(batch) * len(rows[batch[0]]) >= batch_size * _COLUMNS:
                yield batch, self._read([rows[place] for place in batch])
                batch = []
        if batch:
            yield batch, self._read([rows[place] for place in batch])

    @torch.inference_mode()
    def _read(self, rows: Sequence[Sequence[int]]) -> list[float]:
        width = len(rows[0])
        ids = torch.tensor([[*row, *[self.pad] * (width - len(row))] for row in rows], device=self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        mask = (torch.arange(width, device=self.device)[None] < lengths[:, None]).long()
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        # Each mark stands once in a row: no text can write one.
        source, one, other = (states[ids == mark] for mark in self.marks)
        found = [self._head(torch.cat([source, candidate], dim=1)) for candidate in (one, other)]
        logits: list[float] = (found[0] - found[1]).mean(1).float().tolist()
        return logits

    def _head(self, states: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(states, *self.first)), *self.second)

    def _cut(self, texts: list[str], longest: int) -> list[list[int]]:
        rows: list[list[int]] = self.tokenizer(texts, truncation=True, max_length=longest, verbose=False)["input_ids"]
        return rows

    def _unmarked(self, text: str) -> str:
        """Return a text that names no special token and no mark."""
        for mark in MARKS:
            text = text.replace(mark, f"{mark[0]} {mark[1:]}")
        return self.plain.plain(text)


def load_pair_scores(place: str, revision: str | None, dtype: str, device: str) -> PairScores:
    """Return the network of a folder or hub id in the form of PairRM-hf.

    Raises ConfigError where files or marks are missing, DataError naming weights that do not fit.
    """
    from transformers import AutoTokenizer

    folder = fetched(place, revision)
    with quiet_loading():
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
        except Exception as fault:  # each library has its own for the same thing
            raise ConfigError(f"{folder}: its tokenizer can't be loaded: {fault}") from fault
    config, tensors = read_config(str(folder), None), read_tensors(folder, ("pooler.",))
    vocabulary = tokenizer.get_vocab()
    for mark in MARKS:
        if mark not in vocabulary:
            raise ConfigError(f"{folder} is no PairRM: its tokenizer has no {mark}")
    marks = tuple(vocabulary[mark] for mark in MARKS)
    names = ("head_layer.1.weight", "head_layer.1.bias", "head_layer.4.weight", "head_layer.4.bias")
    head = {name: tensors.pop(name) for name in list(tensors) if name.startswith("head_layer.")}
    body = fitted_body(folder, "deberta-v2", "pretrained_model.", config, tensors, dtype).to(device)
    hidden, tasks = body.config.hidden_size, int(config.get("n_tasks", 1))
    shapes = ((hidden, 2 * hidden), (hidden,), (tasks, hidden), (tasks,))
    require_fitting(
        folder, head, {name: torch.empty(shape, device="meta") for name, shape in zip(names, shapes, strict=True)}
    )
    one, two, three, four = (head[name].to(device, getattr(torch, dtype)) for name in names)
    plain = ChatEncoder(tokenizer, None, place)
    pad = tokenizer.pad_token_id or 0
    return PairScores(body, (one, two), (three, four), tokenizer, plain, marks, pad, device)
