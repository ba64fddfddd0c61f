"""How the simulated language model is made: a small Llama, trained from nothing on the responder's answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from apm_lab.language.simulated.lm_corpus import Lesson, lessons, lm_tokenizer

__all__ = ["CONTEXT", "LESSONS", "make_simulated_lm"]

LESSONS = 8000
CONTEXT = 4096
_SHAPE = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.06,
}
_EPOCHS, _BATCH, _RATE, _LONGEST = 6, 16, 5e-3, 320
_SEED = 0


def make_simulated_lm(folder: Path, count: int = LESSONS, say: Callable[[str], None] | None = None) -> None:
    """Train the model on `count` lessons and write it to `folder` in transformers' form, with its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = lm_tokenizer()
    taught = _encoded(tokenizer, lessons(count, _SEED))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
        config = LlamaConfig(
            vocab_size=len(tokenizer), max_position_embeddings=CONTEXT, tie_word_embeddings=True, **ids, **_SHAPE
        )
        model = LlamaForCausalLM(config)
        _train(model, taught, say)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _encoded(tokenizer: Any, taught: Sequence[Lesson]) -> list[tuple[list[int], list[int]]]:  # noqa: ANN401
    """Return prompt and answer tokens, the answer with its end; a prompt keeps its last tokens where it is long."""
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": turn.role, "content": turn.content} for turn in one.messages],
            tokenize=False,
            add_generation_prompt=True,
        )
        for one in taught
    ]
    read = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    written = tokenizer([one.answer for one in taught], add_special_tokens=False)["input_ids"]
    end = [tokenizer.eos_token_id]
    return [
        (prompt[-(_LONGEST - len(answer) - 1) :], answer + end) for prompt, answer in zip(read, written, strict=True)
    ]


def _train(model: Any, taught: Sequence[tuple[list[int], list[int]]], say: Callable[[str], None] | None) -> None:  # noqa: ANN401
    import torch
    from torch.nn import functional as F

    random, steps = Random(_SEED), _EPOCHS * -(-len(taught) // _BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps + 1, pct_start=0.05)
    model.train()
    for epoch in range(_EPOCHS):
        order = sorted(range(len(taught)), key=lambda place: (sum(map(len, taught[place])), random.random()))
        batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        random.shuffle(batches)
        total = 0.0
        for rows in batches:
            ids, mask, places, targets = _batch([taught[row] for row in rows])
            hidden = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            loss = F.cross_entropy(model.lm_head(hidden.flatten(0, 1)[places]), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.item()
        if say is not None:
            say(f"epoch {epoch + 1} of {_EPOCHS}: loss {total / len(batches):.3f}")


def _batch(rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Any, Any, Any, Any]:
    """Return ids and mask (B, T), the flat places of the states that foretell an answer's token, and those tokens."""
    import torch

    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    places: list[int] = []
    targets: list[int] = []
    for row, (prompt, answer) in enumerate(rows):
        length = len(prompt) + len(answer)
        ids[row, :length] = torch.tensor(prompt + answer)
        mask[row, :length] = 1
        start = row * width + len(prompt) - 1
        places += range(start, start + len(answer))
        targets += answer
    return ids, mask, torch.tensor(places), torch.tensor(targets)
