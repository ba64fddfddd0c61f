"""A model trained by DPO as a reward model: how much more probable it finds an answer than before (Rafailov, 2023)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.hf_place import place_of
from apm_lab.language.history_embedding import history_embeddings
from apm_lab.language.policy_sums import answer_sums, policy_splits
from apm_lab.language.protocols import Answer, Embedder
from apm_lab.language.reward_calls import Gathering, in_parts
from apm_lab.language.reward_model import RewardCall

if TYPE_CHECKING:
    from torch import Tensor

    from apm_lab.language.soft_prompt import SoftPromptPolicy
    from apm_lab.language.soft_prompt_checkpoint import PolicyDescription

__all__ = ["DpoImplicit"]

_TOGETHER = 256  # calls that are read by the one and then by the other


class DpoImplicit:
    """beta (log pi(y|x) - log ref(y|x)) of a `soft_prompt` checkpoint, sums over the answer's tokens in nats.

    The reference is the base model without trained parts. With a `history` the policy is led by the soft prompt that
    the projector makes of that user's prompts, as in training; without, by the adapter alone, which answers for all
    training users together. A checkpoint without an adapter needs a history. As in training, a chat's answer ends with
    the token that ends a turn; a raw text has no end.

    Args:
        checkpoint: a folder with soft_prompt.safetensors, such as `checkpoints/draw-0000/soft_prompt` of a run.
        base: the model it was trained on: a folder, an offline model or a hub id.
        template: `raw` or `chat`, as `lm_loglik` has them.
        beta: None is the one it was trained with.
        history: prompts of one user.
        encoder: the one it was trained with; needed with a history.
        revision: of a hub id.
        dtype: `auto` computes in bfloat16 where the processor or GPU is made for it, else in float32.
        device: as torch names it; `auto` takes a GPU where there is one.
        batch_size: texts side by side; no figure depends on it but by rounding.
        name: what tables call it.

    """

    engine = "hf"

    def __init__(
        self,
        checkpoint: str | None,
        base: str | None,
        template: str,
        beta: float | None = None,
        history: Sequence[str] = (),
        encoder: Embedder | None = None,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str = "auto",
        batch_size: int = 32,
        name: str | None = None,
    ) -> None:
        if not checkpoint or not base:
            raise ConfigError(
                "dpo_implicit needs reward_model.model.checkpoint (a folder with soft_prompt.safetensors, such as "
                "checkpoints/draw-0000/soft_prompt of a run) and reward_model.model.base (the model it was trained on)"
            )
        self._place = place_of(base, revision, dtype, device, batch_size)
        self._folder = Path(checkpoint).expanduser()
        self.name = name or f"dpo_implicit:{self._folder.name}"
        if template not in ("raw", "chat"):
            raise ConfigError(f"{self.name}: reward_model.template={template!r:.60}, expected raw or chat")
        if beta is not None and not (beta > 0 and isfinite(beta)):
            raise ConfigError(f"{self.name}: beta={beta} must be above 0")
        if history and encoder is None:
            raise ConfigError(f"{self.name}: a history needs the encoder that the checkpoint was trained with")
        self._template, self._beta, self._batch_size = template, beta, batch_size
        self._history, self._encoder = tuple(history), encoder
        self._policy: SoftPromptPolicy | None = None

    def ready(self) -> None:
        """Return nothing where checkpoint and base are there and belong together; else an error says what is not."""
        self._place.ready()
        self._told()

    @property
    def identity(self) -> str:
        """The base model's identity and the digest of the checkpoint's weights."""
        return f"{self._place.identity}+soft_prompt@{self._told().digest}"

    @property
    def sampling(self) -> str:
        """Canonical JSON of what changes the rewards beside the model: beta, template, history, type computed in."""
        told = self._told()
        history = "\x1e".join(f"{len(prompt)}\x1f{prompt}" for prompt in self._history).encode("utf-8", "surrogatepass")
        values = {
            "beta": told.beta if self._beta is None else self._beta,
            "dtype": self._place.dtype,
            "history": blake2b(history, digest_size=16).hexdigest() if self._history else None,
            "kind": "dpo_implicit",
            "template": self._template,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def rewards(self, calls: Sequence[RewardCall]) -> Iterator[list[Answer[tuple[float, ...]]]]:
        """Yield the implicit reward of each answer, in any order of calls; an answer without a token has none.

        Raises ConfigError where a text is longer than the context, or checkpoint, base and encoder do not belong
        together; DataError where the checkpoint is damaged.
        """
        from apm_lab.language.hf_choices import Asked

        if not calls:
            return
        policy, beta = self._loaded(), self._beta if self._beta is not None else self._told().beta
        table = self._soft_table(policy)
        for offset, part in in_parts(calls, _TOGETHER):
            soft = policy.settings.soft_tokens if self._history else 0
            splits = policy_splits(policy, part, self._template, self.name, soft)
            gathering = Gathering(part, offset, [2 * sum(len(x) + len(y) for x, y in each) for each in splits])
            places = [(call, answer) for call, each in enumerate(splits) for answer in range(len(each))]
            counted = [(call, answer) for call, answer in places if splits[call][answer][1]]
            asked = [Asked(splits[call][answer][0], [splits[call][answer][1]]) for call, answer in counted]
            before = answer_sums(policy, asked, None, self._batch_size)
            led = asked if table is None else [one._replace(prompt=policy.with_soft(one.prompt, 0)) for one in asked]
            with policy.active():
                after = answer_sums(policy, led, table, self._batch_size)
            found = [(*place, beta * (now - then)) for place, now, then in zip(counted, after, before, strict=True)]
            found += [(call, answer, nan) for call, answer in places if not splits[call][answer][1]]
            yield gathering.add(found)

    def _soft_table(self, policy: SoftPromptPolicy) -> Tensor | None:
        """Return the vectors that lead the policy, None without a history."""
        if not self._history or self._encoder is None:
            return None
        import torch

        told = self._told()
        pooling: Literal["mean", "concat"] = "concat" if told.pooling == "concat" else "mean"
        vectors = history_embeddings(self._encoder, [self._history], pooling)
        if vectors.shape[1] != policy.settings.width:
            raise ConfigError(
                f"{self._folder} was trained on vectors of {policy.settings.width} numbers, and the encoder gives "
                f"{vectors.shape[1]}"
            )
        with torch.inference_mode():
            return policy.soft_table(torch.from_numpy(vectors).to(policy.network.device))

    def _told(self) -> PolicyDescription:
        """Return the checkpoint's description where base and encoder are those it was trained with."""
        from apm_lab.language.soft_prompt_checkpoint import read_policy

        _, told = read_policy(self._folder)
        given = [("base model", "base", told.base, self._place.identity)]
        if self._encoder is not None:
            given.append(("encoder", "encoder", told.encoder, self._encoder.identity))
        for what, key, trained, asked in given:
            if trained != asked:
                raise ConfigError(
                    f"{self._folder} was trained with the {what} {trained}, and reward_model.model.{key} is {asked}"
                )
        if not self._history and not told.settings.get("lora_rank"):
            raise ConfigError(f"{self._folder} has no adapter: without a history it is the base model itself; give one")
        return told

    def _loaded(self) -> SoftPromptPolicy:
        """Return the policy with the checkpoint's weights, loaded at the first call into a network of its own."""
        if self._policy is not None:
            return self._policy
        from apm_lab.language.hf_engine import fresh_engine
        from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
        from apm_lab.language.soft_prompt_checkpoint import read_policy
        from apm_lab.language.weight_files import require_fitting

        told, (tensors, _) = self._told(), read_policy(self._folder)
        try:
            settings = PolicySettings(**{**told.settings, "targets": tuple(told.settings.get("targets", ()))})
        except TypeError as fault:
            raise DataError(f"{self._folder}: soft_prompt.json has other settings than expected: {fault}") from fault
        place = self._place
        engine = fresh_engine(place.folder_or_id, place.revision, place.dtype, place.device)
        policy = SoftPromptPolicy(engine, settings, seed=0)
        require_fitting(self._folder, tensors, policy.trained())
        policy.fill(tensors)
        self._policy = policy
        return policy
