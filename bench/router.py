"""Training speed of our router loop against the Hugging Face Trainer, side by side in one run.

    python bench/router.py [--quick] [--prompts prompts.jsonl.gz]    # needs accelerate, which the Trainer asks for

Simulated histories of simulated users around the packaged prompts or those of a file, one prompt an example as
`router=modernbert_small` trains on them; what padding costs depends on how lengths spread, so a row says it. The same
encoder, first weights, examples, batch size, steps, AdamW (fused, as is the Trainer's default) and schedule for each
engine; they take turns, once a seed. `ratio`: our samples per second over the Trainer's default, the worst row (wanted:
at least 2); `grouped`: the same over its length-grouped sampling (wanted: at least 1); `cpu`: the default's processor
time over ours, which other work on the machine moves less; `loss`: our mean loss on the training examples after
training over the default's, means of 3 seeds, the row furthest from 1 (wanted: within 2%).
"""

import argparse
import copy
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PrinterCallback, Trainer, TrainingArguments

from apm_lab.data.pool import Pool
from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.data.users import make_users
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.rewriter import SimulatedRewriter
from apm_lab.training.encoder_base import EncoderBase, SmallModernBert
from apm_lab.training.history_datamodule import HistoryDataModule, Split, pad
from apm_lab.training.isolation import isolated
from apm_lab.training.modernbert_pass import computes_no_padding
from apm_lab.training.router_module import RouterModule, linear_warmup_decay, mean_pool
from apm_lab.training.router_trainer import train_router
from apm_lab.training.targets import single_prompts
from apm_lab.training.trainer_settings import TrainerSettings

SIZE = 6
BATCH, RATE, DECAY, WARMUP = 16, 2e-3, 0.01, 0.1
OURS, DEFAULT, GROUPED = "apm_lab", "Trainer", "Trainer, length-grouped"


@dataclass(frozen=True)
class Row:
    """One line of the table: the encoder's shape and the number of torch threads."""

    layers: int
    hidden: int
    intermediate: int
    threads: int

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.layers} x {self.hidden}, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Task:
    """Tokenised examples and their labels, with the encoder and head that every engine starts from."""

    base: EncoderBase
    head: nn.Linear
    tokens: list[list[int]]
    labels: np.ndarray
    epochs: int
    seed: int

    @property
    def steps(self) -> int:
        """Optimiser steps of a whole fit."""
        return -(-len(self.tokens) // BATCH) * self.epochs


def histories(users: int, seed: int, prompts: str | None = None) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Return two rewritten prompts for each user, and the users' hidden class of 2N."""
    pool = Pool.chosen(SIZE, None, None, "system")
    pools = split_prompts(read_prompts(prompts), 2, 0)
    people = make_users("train", users, attributes=SIZE, active=1, turns=2, balance=True, pools=pools, seed=seed)
    rewriter, texts = SimulatedRewriter(), []
    for number, attributes, neutral in zip(people.numbers, people.attributes, people.neutral, strict=True):
        calls = [GenerationCall(pool.rewriting_messages(attributes.tolist(), text), number) for text in neutral]
        texts.append(tuple(rewriter.generate(calls)))
    active = np.abs(people.attributes).argmax(axis=1)
    signs = people.attributes[np.arange(users), active]
    return texts, (2 * active + (signs < 0)).astype(np.int64)


def make_task(row: Row, users: int, epochs: int, seed: int, prompts: str | None = None) -> Task:
    """Return the examples and first weights of one seed."""
    texts, labels = histories(users, seed, prompts)
    shape = SmallModernBert(
        layers=row.layers,
        hidden_size=row.hidden,
        heads=4,
        intermediate_size=row.intermediate,
        local_attention=128,
        global_every=3,
        dropout=0.0,
        embedding_dropout=0.1,
        initializer_range=0.02,
        tokenizer="word",
        vocab_size=8000,
        min_frequency=3,
    )
    with isolated(seed=seed, threads=1):
        base = shape.build(texts, 512)
        head = nn.Linear(row.hidden, 2 * SIZE)
        nn.init.normal_(head.weight, std=0.1)
        nn.init.zeros_(head.bias)
    examples, rows = single_prompts(texts)
    tokens, _ = base.tokenizer.encode(examples, 512)
    return Task(base, head, tokens, labels[rows], epochs, seed)


class Peer(nn.Module):
    """Encoder, mean pooling and head as the Trainer wants them: the loss comes with the outputs."""

    def __init__(self, encoder: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, input_ids, attention_mask, labels):
        """Return the mean cross-entropy and the logits."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.head(mean_pool(hidden, attention_mask))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Examples(torch.utils.data.Dataset):
    """Samples as the Trainer's length-grouped sampling reads them."""

    def __init__(self, tokens, labels) -> None:
        self._tokens, self._labels = tokens, labels

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index):
        return {"input_ids": self._tokens[index], "labels": int(self._labels[index])}


def train_ours(task: Task, threads: int) -> tuple[nn.Module, nn.Linear, float, float]:
    """Return the trained encoder and head, and the seconds of set-up and of `train_router`."""
    start = time.perf_counter()
    with isolated(seed=task.seed, threads=threads):
        module = RouterModule(
            copy.deepcopy(task.base.encoder),
            hidden_size=task.head.in_features,
            styles=2 * SIZE,
            objective="classification",
            learning_rate=RATE,
            weight_decay=DECAY,
            warmup_fraction=WARMUP,
        )
        module.head.load_state_dict(task.head.state_dict())
        data = HistoryDataModule(
            Split(task.tokens, task.labels),
            batch_size=BATCH,
            pad_id=task.base.tokenizer.pad_id,
            seed=task.seed,
            padding_is_free=computes_no_padding(task.base.encoder, 512, "cpu"),
        )
        ready = time.perf_counter()
        train_router(
            module,
            data,
            settings=TrainerSettings(threads=threads),
            epochs=task.epochs,
            accumulate=1,
            seed=task.seed,
            identity="bench",
            log=lambda figures: None,
        )
        done = time.perf_counter()
    return module.encoder, module.head, ready - start, done - ready


def train_peer(task: Task, threads: int, sampling: str) -> tuple[nn.Module, nn.Linear, float, float]:
    """Return the trained encoder and head, and the seconds of set-up and of `Trainer.train`."""
    pad_id = task.base.tokenizer.pad_id

    def collate(samples):
        width = max(len(sample["input_ids"]) for sample in samples)
        rows = [sample["input_ids"] + [pad_id] * (width - len(sample["input_ids"])) for sample in samples]
        mask = [[1] * len(s["input_ids"]) + [0] * (width - len(s["input_ids"])) for s in samples]
        labels = [sample["labels"] for sample in samples]
        return {
            "input_ids": torch.tensor(rows),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(labels),
        }

    start = time.perf_counter()
    with isolated(seed=task.seed, threads=threads), tempfile.TemporaryDirectory() as folder:
        model = Peer(copy.deepcopy(task.base.encoder), copy.deepcopy(task.head)).train()
        groups = [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: linear_warmup_decay(step, task.steps, WARMUP)
        )
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=task.epochs,
            max_grad_norm=0.0,
            train_sampling_strategy=sampling,
            use_cpu=True,
            seed=task.seed,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            data_collator=collate,
            train_dataset=Examples(task.tokens, task.labels),
            optimizers=(optimizer, schedule),
        )
        ready = time.perf_counter()
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        done = time.perf_counter()
    if trainer.state.global_step != task.steps:
        raise SystemExit(f"the Trainer took {trainer.state.global_step} steps, ours takes {task.steps}")
    return model.encoder, model.head, ready - start, done - ready


ENGINES: dict[str, Callable[[Task, int], tuple[nn.Module, nn.Linear, float, float]]] = {
    OURS: train_ours,
    DEFAULT: lambda task, threads: train_peer(task, threads, "random"),
    GROUPED: lambda task, threads: train_peer(task, threads, "group_by_length"),
}


@torch.inference_mode()
def final_loss(task: Task, encoder: nn.Module, head: nn.Linear) -> float:
    """Return the mean loss over all training examples, read by the same code for every engine."""
    model, total = Peer(encoder, head).eval(), 0.0
    for start in range(0, len(task.tokens), 64):
        rows = range(start, min(start + 64, len(task.tokens)))
        batch = pad(
            [(row, task.tokens[row], torch.tensor(task.labels[row])) for row in rows], task.base.tokenizer.pad_id
        )
        total += len(rows) * model(batch["input_ids"], batch["attention_mask"], batch["targets"])["loss"].item()
    return total / len(task.tokens)


def real_share(lengths: np.ndarray, seed: int) -> float:
    """Return the share of tokens that are no padding where batches are drawn at random."""
    order = np.random.default_rng(seed).permutation(lengths)[: len(lengths) // BATCH * BATCH].reshape(-1, BATCH)
    return float(order.sum() / (order.max(axis=1) * BATCH).sum())


def measure(
    row: Row, users: int, epochs: int, seeds: Sequence[int], prompts: str | None
) -> dict[str, dict[str, float]]:
    """Return per engine the median samples per second, CPU and set-up times, and the mean final loss over seeds."""
    taken: dict[str, dict[str, list[float]]] = {
        name: {"speed": [], "cpu": [], "setup": [], "loss": []} for name in ENGINES
    }
    for seed in seeds:
        task = make_task(row, users, epochs, seed, prompts)
        if seed == seeds[0]:
            lengths = np.array([len(tokens) for tokens in task.tokens])
            print(
                f"{row.name}: {len(lengths)} examples, mean {lengths.mean():.1f} and at most {lengths.max()} tokens, "
                f"{real_share(lengths, seed):.0%} of a random batch no padding, "
                f"vocabulary {task.base.tokenizer.size}, {task.steps} steps",
                flush=True,
            )
            short = Task(task.base, task.head, task.tokens[: 8 * BATCH], task.labels[: 8 * BATCH], 1, seed)
            for engine in ENGINES.values():  # imports, allocator and kernels: the same warm-up for each
                engine(short, row.threads)
        for name, engine in ENGINES.items():
            used = time.process_time()
            encoder, head, setup, seconds = engine(task, row.threads)
            taken[name]["cpu"].append((time.process_time() - used) / task.steps * 1000)
            taken[name]["speed"].append(len(task.tokens) * epochs / seconds)
            taken[name]["setup"].append(setup)
            taken[name]["loss"].append(final_loss(task, encoder, head))
    middle = {"loss": statistics.mean}
    return {
        name: {figure: middle.get(figure, statistics.median)(numbers) for figure, numbers in values.items()}
        for name, values in taken.items()
    }


def main() -> None:
    """Print a table and the line of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--prompts", help="JSON lines with a field `text`; the packaged prompts if not given")
    arguments = parser.parse_args()
    quick = arguments.quick
    warnings.filterwarnings("ignore")
    rows = [Row(1, 128, 64, 1)]
    if not quick:
        rows += [Row(2, 128, 64, 1), Row(1, 128, 64, 2), Row(2, 256, 128, 1), Row(2, 256, 128, 2)]
    users, epochs = (200, 2) if quick else (1000, 4)
    ratios: dict[str, list[float]] = {"ratio": [], "grouped": [], "cpu": [], "loss": []}
    for row in rows:
        found = measure(row, users, epochs, [0, 1, 2], arguments.prompts)
        for name, figures in found.items():
            print(
                f"  {name:24s} {figures['speed']:7.0f} samples/s  {figures['cpu']:5.1f} CPU ms a step  "
                f"set-up {figures['setup'] * 1000:4.0f} ms  "
                f"final loss {figures['loss']:.4f}",
                flush=True,
            )
        ratios["ratio"].append(found[OURS]["speed"] / found[DEFAULT]["speed"])
        ratios["grouped"].append(found[OURS]["speed"] / found[GROUPED]["speed"])
        ratios["cpu"].append(found[DEFAULT]["cpu"] / found[OURS]["cpu"])
        ratios["loss"].append(found[OURS]["loss"] / found[DEFAULT]["loss"])
        print("  " + "  ".join(f"{name} {values[-1]:.3f}" for name, values in ratios.items()), flush=True)
    worst = max(ratios["loss"], key=lambda value: abs(value - 1))
    low = {name: min(values) for name, values in ratios.items()}
    print(f"ratio={low['ratio']:.2f} grouped={low['grouped']:.2f} cpu={low['cpu']:.2f} loss={worst:.3f}")


if __name__ == "__main__":
    main()
