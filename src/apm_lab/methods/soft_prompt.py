"""Prompt optimisation: the history becomes a soft prompt, trained with an adapter by DPO (APM Sec. 4, Eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.history_embedding import history_embeddings
from apm_lab.language.protocols import Embedder
from apm_lab.language.trainable import Trainable
from apm_lab.maths.seeding import derived_seed
from apm_lab.methods.preference_pairs import preference_pairs
from apm_lab.methods.views import StyledTexts, TestView, TrainView, ValidationView
from apm_lab.records import Message, Response

if TYPE_CHECKING:  # with torch and Lightning behind them
    from torch import Tensor

    from apm_lab.language.encoded_pairs import EncodedPairs
    from apm_lab.language.pair_batch import EncodedPair
    from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
    from apm_lab.language.soft_prompt_checkpoint import PolicyDescription
    from apm_lab.training.callbacks.alignment import OpinionProbe
    from apm_lab.training.trainer_settings import TrainerSettings

__all__ = ["SoftPrompt"]


class SoftPrompt:
    """Answers with the model itself, led by `soft_tokens` vectors that a projector makes of the history's embedding.

    Projector and LoRA adapter are trained together, anew for each draw, on each training prompt's best and worst
    candidate; the reference is the model without either. Defaults are those of APM Table 5.

    Args:
        base: the model under evaluation, in which the parts are trained and which answers.
        encoder: phi, frozen.
        trainer: device, threads, precision and strategy.
        soft_tokens: 0 trains the adapter alone.
        projector: `mlp` (Table 5) or `linear` (Eq. 5).
        pooling: how prompt embeddings become a history's: `mean` or `concat`.
        lora_rank, lora_alpha, lora_dropout, lora_targets: the adapter; rank 0 leaves it out.
        beta: scale of the implicit reward.
        learning_rate, weight_decay, warmup_fraction: of AdamW; the rate falls in a line to 0.
        batch_size, accumulate, epochs: pairs at once, batches an optimiser step, and passes over all pairs.
        max_tokens: longest conversation that is learnt from; null is the model's context.
        gradient_checkpointing: compute activations twice instead of keeping them.
        engine: `lightning`, or `trl` for TRL's DPOTrainer (with `soft_tokens=0`).
        start: a folder with a checkpoint to train on from; it is then part of the reference.
        probe: survey questions, alignment with which is logged while it trains (`callbacks.alignment`).

    """

    def __init__(
        self,
        base: Trainable,
        encoder: Embedder,
        trainer: TrainerSettings,
        *,
        soft_tokens: int = 1,
        projector: Literal["linear", "mlp"] = "mlp",
        pooling: Literal["mean", "concat"] = "mean",
        lora_rank: int = 16,
        lora_alpha: int = 32,
        lora_dropout: float = 0.05,
        lora_targets: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj"),
        beta: float = 0.1,
        learning_rate: float = 5e-5,
        weight_decay: float = 0.0,
        warmup_fraction: float = 0.0,
        batch_size: int = 1,
        accumulate: int = 8,
        epochs: int = 1,
        max_tokens: int | None = None,
        gradient_checkpointing: bool = False,
        engine: Literal["lightning", "trl"] = "lightning",
        start: str | None = None,
        probe: OpinionProbe | None = None,
    ) -> None:
        self._base, self._encoder, self._trainer, self._pooling = base, encoder, trainer, pooling
        self._max_tokens, self._start, self._engine, self._probe = max_tokens, start, engine, probe
        self._parts: dict[str, Any] = {
            "soft_tokens": soft_tokens,
            "projector": projector,
            "lora_rank": lora_rank,
            "lora_alpha": lora_alpha,
            "lora_dropout": lora_dropout,
            "targets": tuple(lora_targets),
        }
        self._training: dict[str, Any] = {
            "beta": beta,
            "learning_rate": learning_rate,
            "weight_decay": weight_decay,
            "warmup_fraction": warmup_fraction,
            "batch_size": batch_size,
            "accumulate": accumulate,
            "epochs": epochs,
            "gradient_checkpointing": gradient_checkpointing,
            "engine": engine,
        }
        self._require_sound()
        self._start_digest()  # what is wrong with it is said before anything is generated or judged
        self._settings: PolicySettings | None = None
        self._trained: dict[str, Tensor] | None = None
        self._counts = {"dropped": 0, "truncated": 0}

    def fit(self, view: TrainView) -> None:
        """Train projector and adapter on the pairs of all training users; unusable pairs are dropped and counted."""
        from apm_lab.training.pair_datamodule import Pairs
        from apm_lab.training.soft_prompt_trainer import DpoSettings, train_policy

        encoded, held_out = self._encoded(view, view.candidates), None
        self._counts = {"dropped": encoded.dropped, "truncated": encoded.truncated}
        if not encoded.pairs:
            raise DataError(
                "no training user has a pair to learn from: all best and worst ratings or answers are equal, or no "
                "prompt leaves room for an answer"
            )
        if view.validation is not None and view.validation.candidates is not None:
            pairs = self._encoded(view.validation, view.validation.candidates).pairs
            held_out = Pairs(pairs, self._embedded(view.validation.histories)) if pairs else None
        embeddings = self._embedded(view.histories)
        self._settings = self._policy_settings(embeddings.shape[1])
        with self._attached(derived_seed(view.seed, "policy") % 2**32) as policy:
            self._begin(policy)
            train_policy(
                policy,
                Pairs(encoded.pairs, embeddings),
                DpoSettings(**self._training),
                self._trainer,
                seed=derived_seed(view.seed, "training") % 2**32,
                held_out=held_out,
                folder=self._unfinished(encoded.pairs, embeddings, view.seed),
                log=view.log,
                probe=self._probe,
            )
            self._trained = {name: value.detach().cpu().clone() for name, value in policy.trained().items()}

    def respond(self, view: TestView) -> Sequence[Response]:
        """Return the trained model's own answer to every test user's query."""
        import torch

        if self._settings is None or self._trained is None:
            raise RuntimeError("this soft prompt has not been fitted")
        embeddings = self._embedded(view.histories)
        engine, soft_tokens = self._base.opened(), self._settings.soft_tokens
        chats = [(Message("user", query),) for query in view.queries]
        prompts = engine.encoder.prompts(chats, self._base.most_tokens + soft_tokens)
        seeds = [derived_seed(view.seed, "answer", user).to_bytes(16, "little") for user in range(len(chats))]
        with torch.inference_mode(), self._attached(0) as policy, policy.active():
            policy.fill(self._trained)
            placed = [policy.with_soft(prompt, user) for user, prompt in enumerate(prompts)]
            table = policy.soft_table(torch.from_numpy(embeddings).to(engine.network.device))
            with engine.network.prefixed(table):
                texts = self._base.answers_to(placed, seeds)
        return [Response(text=text) for text in texts]

    def save(self, folder: Path) -> None:
        """Write what the last fit trained, with the base model's digest, into `folder`."""
        from apm_lab.language.soft_prompt_checkpoint import write_policy

        if self._settings is not None and self._trained is not None:
            write_policy(folder, self._trained, self._described(self._settings))

    def most_calls(self, train: int, test: int, draws: int) -> Mapping[str, int]:
        """Return how many answers the trained model writes itself; none of them is kept in the store."""
        return {"model": test * draws}

    @property
    def counts(self) -> Mapping[str, int]:
        """`dropped` pairs, and pairs with an answer that was `truncated`."""
        return self._counts

    def _embedded(self, histories: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        return history_embeddings(self._encoder, histories, self._pooling)

    def _encoded(self, view: TrainView | ValidationView, candidates: StyledTexts) -> EncodedPairs:
        """Return the users' pairs as tokens; those without a best and a worst candidate are among the dropped ones."""
        from apm_lab.language.encoded_pairs import PairTexts, encoded_pairs

        pairs, unusable = preference_pairs(view.ratings, view.known)
        wanted = [(pair.user, pair.turn, style, 0) for pair in pairs for style in (pair.chosen, pair.rejected)]
        texts = candidates.generate(wanted)
        read = [
            PairTexts(view.histories[pair.user][pair.turn], texts[2 * place], texts[2 * place + 1], pair.user)
            for place, pair in enumerate(pairs)
        ]
        found = encoded_pairs(self._base.opened(), read, self._max_tokens, int(self._parts["soft_tokens"]))
        return replace(found, dropped=found.dropped + unusable)

    def _policy_settings(self, width: int) -> PolicySettings:
        from apm_lab.language.soft_prompt import PolicySettings

        return PolicySettings(width=width, **self._parts)

    def _described(self, settings: PolicySettings) -> PolicyDescription:
        from apm_lab.language.soft_prompt_checkpoint import PolicyDescription

        return PolicyDescription(
            base=self._base.identity,
            encoder=self._encoder.identity,
            pooling=self._pooling,
            settings=asdict(settings),
            beta=float(self._training["beta"]),
        )

    def _start_digest(self) -> str | None:
        """Return the digest of the checkpoint to start from, None without; raises where it is none for this method."""
        if self._start is None:
            return None
        from apm_lab.language.soft_prompt_checkpoint import read_policy, require_alike

        folder = Path(self._start).expanduser()
        told = read_policy(folder)[1]
        require_alike(folder, told, self._described(self._policy_settings(0)))
        return told.digest

    def _begin(self, policy: SoftPromptPolicy) -> None:
        if self._start is not None:
            from apm_lab.language.soft_prompt_checkpoint import fitting

            policy.fill(fitting(Path(self._start).expanduser(), policy.trained(), self._described(policy.settings)))

    def _unfinished(self, pairs: Sequence[EncodedPair], embeddings: NDArray[np.float32], seed: int) -> Path | None:
        """Return where the state of an interrupted training lies: a folder of what it is trained on and how."""
        if self._trainer.checkpoint_folder is None:
            return None
        how = replace(self._trainer, checkpoint_folder=None, progress_bar=False)
        begun = self._start_digest()
        told = (self._base.identity, self._encoder.identity, self._parts, self._training, how, begun, seed, pairs)
        digest = blake2b(repr(told).encode() + embeddings.tobytes(), digest_size=16).hexdigest()
        return Path(self._trainer.checkpoint_folder) / digest

    @contextmanager
    def _attached(self, seed: int) -> Iterator[SoftPromptPolicy]:
        """Put fresh parts into the base model for the block; it is itself again behind it, whoever uses it next."""
        from apm_lab.language.soft_prompt import SoftPromptPolicy

        assert self._settings is not None
        policy = SoftPromptPolicy(self._base.opened(), self._settings, seed)
        try:
            yield policy
        finally:
            policy.detach()

    def _require_sound(self) -> None:
        values = {**self._parts, **self._training}
        least = {"soft_tokens": 0, "lora_rank": 0, "batch_size": 1, "accumulate": 1, "epochs": 1}
        for name, smallest in least.items():
            if values[name] < smallest:
                raise ConfigError(f"method.{name} is {values[name]}, expected at least {smallest}")
        if self._max_tokens is not None and self._max_tokens < 1:
            raise ConfigError(f"method.max_tokens is {self._max_tokens}, expected at least 1, or null for the context")
        if values["lora_rank"] and not values["targets"]:
            raise ConfigError("method.lora_targets is empty: name layers, or set method.lora_rank=0")
        for name, sound in (
            ("lora_dropout", 0 <= values["lora_dropout"] < 1),
            ("warmup_fraction", 0 <= values["warmup_fraction"] < 1),
            ("beta", 0 < values["beta"] < math.inf),
            ("learning_rate", 0 < values["learning_rate"] < math.inf),
            ("weight_decay", 0 <= values["weight_decay"] < math.inf),
            ("lora_alpha", 0 < values["lora_alpha"] < math.inf),
        ):
            if not sound:
                raise ConfigError(f"method.{name} is {values[name]}, which is out of range")
        if not (values["soft_tokens"] or values["lora_rank"]):
            raise ConfigError("method.soft_tokens and method.lora_rank are both 0: there is nothing to train")
        if self._engine == "trl" and values["soft_tokens"]:
            raise ConfigError("method.engine=trl trains an adapter alone: set method.soft_tokens=0")
