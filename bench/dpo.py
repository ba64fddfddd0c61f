"""One DPO step of a LoRA adapter, ours against TRL's DPOTrainer: the same model, adapter, pairs, batch and precision.

Reference log-probabilities are computed beforehand on both sides, nothing is checkpointed, no dropout. Each side runs
in a process of its own, which says its seconds per step and its peak memory above the loaded model; sides take turns,
and the medians count. Needs SmolLM2 (`make offline-models`), or a model folder: `--model`.

    python bench/dpo.py [--quick] [--model smollm2_135m] [--dtype auto] [--pairs 2] [--tokens 256]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apm_lab.language.pair_batch import EncodedPair


def peak_mb() -> float:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now_mb() -> float:
    """Return the memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 2**20


def made_pairs(count: int, tokens: int, vocabulary: int) -> list[EncodedPair]:
    """Return one batch; given again and again, it makes steps the same on both sides, whatever order they draw."""
    from apm_lab.language.pair_batch import EncodedPair

    rng, half = np.random.default_rng(0), tokens // 2
    rows = rng.integers(5, vocabulary, size=(count, 3, half)).tolist()
    return [EncodedPair(*map(tuple, row), 0) for row in rows]


def side(name: str, arguments: argparse.Namespace) -> None:
    """Train a few steps and print what they took as a line of json."""
    import torch

    from apm_lab.language.hf_engine import load_engine
    from apm_lab.language.hf_weights import auto_dtype
    from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
    from apm_lab.training import soft_prompt_trainer
    from apm_lab.training.pair_datamodule import Pairs
    from apm_lab.training.soft_prompt_trainer import DpoSettings, train_policy
    from apm_lab.training.trainer_settings import TrainerSettings

    if name == "trl":
        import trl.trainer.dpo_trainer  # noqa: F401 (imports are no memory of a step)
    engine = load_engine(arguments.model, None, auto_dtype(arguments.dtype, "cpu"), "cpu")
    pairs = made_pairs(arguments.pairs, arguments.tokens, engine.network.vocabulary)
    policy = SoftPromptPolicy(
        engine, PolicySettings(width=4, soft_tokens=arguments.soft, lora_rank=16, lora_dropout=0.0), seed=0
    )
    settings = DpoSettings(
        batch_size=arguments.pairs,
        accumulate=1,
        epochs=arguments.steps,
        learning_rate=1e-4,
        engine=name,
        gradient_checkpointing=False,
    )
    known = soft_prompt_trainer.with_reference
    before: list[float] = []

    def reference(*given: object, **named: object) -> object:
        found = known(*given, **named)  # type: ignore[arg-type]
        before.append(now_mb())
        return found

    soft_prompt_trainer.with_reference = reference  # type: ignore[assignment]
    steps: list[float] = []
    ends: list[float] = []
    optimizer_step = torch.optim.AdamW.step

    def timed_step(*given: object, **named: object) -> object:
        found = optimizer_step(*given, **named)  # type: ignore[arg-type]
        ends.append(time.perf_counter())
        return found

    torch.optim.AdamW.step = timed_step  # type: ignore[method-assign]
    train_policy(
        policy,
        Pairs(pairs, np.zeros((1, 4), np.float32)),
        settings,
        TrainerSettings(threads=arguments.threads),
        seed=0,
        log=lambda figures: steps.append(figures["train/loss"]),
    )
    seconds = float(np.median(np.diff(ends)[1:]))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb() - before[0], "losses": steps}))


def run(name: str, arguments: argparse.Namespace, soft: int = 0) -> dict[str, object]:
    """Return what one side says, from a process of its own."""
    values = {key: getattr(arguments, key) for key in ("model", "dtype", "pairs", "tokens", "steps", "threads")}
    given = [part for key, value in values.items() for part in (f"--{key}", str(value))]
    command = [sys.executable, __file__, "--side", name, "--soft", str(soft), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a line per side and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", default="smollm2_135m")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--soft", type=int, default=0)
    parser.add_argument("--side")
    arguments = parser.parse_args()
    if arguments.side:
        side(arguments.side, arguments)
        return
    from apm_lab.language.hf_weights import auto_dtype

    if arguments.quick:
        arguments.steps, arguments.repeats, arguments.pairs = 4, 1, 1
    dtype = auto_dtype(arguments.dtype, "cpu")
    print(
        f"{arguments.model} {dtype}, LoRA 16 on q, k, v, o; {arguments.pairs} pairs of {arguments.tokens} tokens a "
        f"step, half of them prompt; {arguments.threads} threads"
    )
    found: dict[str, list[dict[str, object]]] = {"trl": [], "lightning": [], "lightning, 1 soft token": []}
    for _ in range(arguments.repeats):
        for name, told in found.items():
            told.append(run(name.partition(",")[0], arguments, soft=int("soft" in name)))
    medians: dict[str, tuple[float, float]] = {}
    for name, told in found.items():
        medians[name] = (
            statistics.median(float(one["seconds"]) for one in told),  # type: ignore[arg-type]
            statistics.median(float(one["peak_mb"]) for one in told),  # type: ignore[arg-type]
        )
        losses = " ".join(f"{loss:.4f}" for loss in told[0]["losses"][:4])  # type: ignore[index]
        print(f"{name:26} {medians[name][0]:7.2f} s a step {medians[name][1]:7.0f} MB above the model; losses {losses}")
    ours, theirs = found["lightning"][0]["losses"], found["trl"][0]["losses"]
    apart = max(abs(mine - other) for mine, other in zip(ours, theirs, strict=True))  # type: ignore[call-overload]
    ratio = medians["trl"][0] / medians["lightning"][0]
    print(f"ratio={ratio:.2f} memory={medians['lightning'][1] / medians['trl'][1]:.2f} loss_difference={apart:.4f}")


if __name__ == "__main__":
    main()
