"""A router that trains an encoder on histories (APM Sec. 5.2), a pretrained one or a small ModernBERT from scratch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError
from apm_lab.maths.seeding import derived_seed
from apm_lab.training.history_tokenizer import HistoryTokenizer
from apm_lab.training.router_settings import SHAPING, check_settings, differing, fit_identity
from apm_lab.training.targets import Objective, checked_targets, single_prompts
from apm_lab.training.trainer_settings import TrainerSettings
from apm_lab.training.validation_set import ValidationSet

if TYPE_CHECKING:  # the rest of this floor imports torch and Lightning: seconds that only a fit needs
    from torch import nn

    from apm_lab.training.callbacks.alignment import OpinionProbe
    from apm_lab.training.encoder_base import EncoderBase
    from apm_lab.training.history_datamodule import HistoryDataModule
    from apm_lab.training.router_module import RouterModule

__all__ = ["EncoderRouter"]

_LOGGER = logging.getLogger(__name__)
_PREDICT_BATCH = 64
_SCRATCH_HEAD_INIT = 0.1


@dataclass(slots=True)
class _Trained:
    """What a fit or a load leaves."""

    module: RouterModule
    tokenizer: HistoryTokenizer
    encoder: dict[str, Any]
    base_digest: str
    objective: Objective
    styles: int
    max_tokens: int


class EncoderRouter:
    """A `StyleRouter`: an encoder, mean pooling, a linear head. Nothing heavy is imported before `fit` or `load`.

    `pretrained`: hub id or folder of a transformers encoder; None: a ModernBERT of the shape below from scratch, with
    a tokenizer trained on the training histories. `global_every`: layer 0 and every n-th attend to all tokens, the
    others to a window of `local_attention` (0: all layers are local). Histories longer than `max_tokens` lose the ends
    of their longest prompts; `truncated` counts them since the last fit began and one log line says so.
    `split_prompts` trains on each prompt as a history of its own, with the user's target, and still predicts from
    whole histories; None: only from scratch, where the number of examples is what's short. `head_init`: s.d. of the
    head's first weights; None: 0.1 from scratch, else 1 / sqrt(hidden size). `batch_size` times `accumulate` examples
    make an optimiser step of one process. The defaults are the best found from scratch; fine-tuning as in APM Table 5
    sets `pretrained`, learning_rate 2e-5, batch_size 4, accumulate 4 and epochs 3. `probe`: survey questions, alignment
    with which is logged after every epoch (`callbacks.alignment`).
    """

    def __init__(
        self,
        *,
        pretrained: str | None = None,
        revision: str | None = None,
        layers: int = 1,
        hidden_size: int = 128,
        heads: int = 4,
        intermediate_size: int = 64,
        local_attention: int = 128,
        global_every: int = 3,
        dropout: float = 0.0,
        embedding_dropout: float = 0.1,
        initializer_range: float = 0.02,
        tokenizer: Literal["word", "bpe"] = "word",
        vocab_size: int = 8000,
        min_frequency: int = 3,
        max_tokens: int = 512,
        pooling: Literal["mean"] = "mean",
        learning_rate: float = 2e-3,
        weight_decay: float = 0.01,
        warmup_fraction: float = 0.1,
        label_smoothing: float = 0.0,
        token_dropout: float = 0.0,
        head_init: float | None = None,
        split_prompts: bool | None = None,
        batch_size: int = 16,
        accumulate: int = 1,
        epochs: int = 4,
        trainer: TrainerSettings = TrainerSettings(),  # noqa: B008 (frozen)
        probe: OpinionProbe | None = None,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in {"self", "trainer", "probe"}}
        check_settings(self._settings)
        self._trainer, self._probe = trainer, probe
        self._trained: _Trained | None = None
        self._warned = False
        self.truncated = 0

    def fit(
        self,
        histories: Sequence[tuple[str, ...]],
        targets: NDArray[np.generic],
        *,
        objective: Objective,
        styles: int,
        validation: ValidationSet | None = None,
        seed: int,
        log: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        """Train anew; see `StyleRouter.fit`. `log` gets `train/loss` and, with validation, the `val/` figures.

        Generators, torch threads and flags are as before when it returns.
        """
        from apm_lab.training.isolation import isolated
        from apm_lab.training.router_rewards import router_alignment
        from apm_lab.training.router_trainer import train_router

        self.truncated = 0
        checked = checked_targets(targets, len(histories), objective, styles)
        if validation is not None:
            checked_targets(validation.targets, len(validation.histories), objective, styles)
        threads, cuda = self._trainer.threads, self._trainer.accelerator != "cpu"
        with isolated(seed=derived_seed(seed, "weights"), threads=threads, cuda=cuda):
            base = self._base(histories)
            module = self._module(base.encoder, base.config.hidden_size, objective, styles, checked)
            train_router(
                module,
                self._data(base, histories, checked, validation, objective, seed),
                settings=self._trainer,
                epochs=self._trainer.max_epochs or self._settings["epochs"],
                accumulate=self._settings["accumulate"],
                seed=seed,
                identity=fit_identity(self._settings, self._trainer, histories, checked, objective, styles, seed),
                validation=validation,
                log=log,
                alignment=router_alignment(self._probe, module, base.tokenizer, base.max_tokens),
            )
        module.eval()
        config, digest = base.config.to_dict(), base.digest
        self._trained = _Trained(module, base.tokenizer, config, digest, objective, styles, base.max_tokens)

    def predict(self, histories: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Return scores (U, S): softmax probabilities, or predicted ratings after regression."""
        from apm_lab.training.isolation import isolated
        from apm_lab.training.predict import inference_device, predict_scores

        trained = self._require_trained()
        tokens = self._encode(trained.tokenizer, histories, trained.max_tokens)
        with isolated(seed=0, threads=self._trainer.threads):
            scores: NDArray[np.float64] = predict_scores(
                trained.module,
                tokens,
                pad_id=trained.tokenizer.pad_id,
                batch_size=_PREDICT_BATCH,
                device=inference_device(self._trainer.accelerator),
            )
        return scores

    def save(self, folder: str | Path, *, label: str | None = None) -> None:
        """Write the trained router: weights (safetensors), tokenizer and description (json).

        `label` is the strategy that made the training labels; `load` can ask for it.
        """
        from apm_lab.training.router_checkpoint import write_checkpoint

        trained = self._require_trained()
        base = {name: self._settings[name] for name in ("pretrained", "revision")}
        description = {
            "objective": trained.objective,
            "styles": trained.styles,
            "label": label,
            "base": {**base, "digest": trained.base_digest},
            "settings": {name: self._settings[name] for name in SHAPING},
            "encoder": trained.encoder,
            "frame": trained.tokenizer.frame(),
            "max_tokens": trained.max_tokens,
        }
        write_checkpoint(Path(folder), trained.module, trained.tokenizer.to_json(), description)

    def load(self, folder: str | Path, *, label: str | None = None) -> None:
        """Read a router that `save` wrote, in place of a fit.

        Raises ConfigError when it was made with other settings, another label strategy (None: any will do) or has
        weights of another shape, and DataError when a file is missing or damaged, or weights are missing or extra.
        """
        from apm_lab.training.encoder_base import saved_encoder
        from apm_lab.training.isolation import isolated
        from apm_lab.training.router_checkpoint import fill, read_description, read_weights

        folder = Path(folder)
        found = read_description(folder)
        if others := differing(found.settings, self._settings):
            raise ConfigError(f"{folder}: this router was saved with {', '.join(others)}")
        if label is not None and label != found.label:
            raise ConfigError(f"{folder}: this router learned {found.label!r} labels, expected {label!r}")
        tensors, text = read_weights(folder, found)
        tokenizer = HistoryTokenizer.of_frame(text, found.frame)
        with isolated(seed=0, threads=self._trainer.threads):
            encoder, hidden_size = saved_encoder(found.encoder)
            module = self._module(encoder, hidden_size, found.objective, found.styles)
        fill(module, tensors, folder)
        module.eval()
        self._trained = _Trained(
            module, tokenizer, found.encoder, found.base["digest"], found.objective, found.styles, found.max_tokens
        )

    def _base(self, histories: Sequence[tuple[str, ...]]) -> EncoderBase:
        from apm_lab.training.encoder_base import SmallModernBert, pretrained_base

        pretrained, max_tokens = self._settings["pretrained"], self._settings["max_tokens"]
        if pretrained is not None:
            return pretrained_base(pretrained, self._settings["revision"], max_tokens)
        shape = {name: self._settings[name] for name in SmallModernBert.__dataclass_fields__}
        return SmallModernBert(**shape).build(histories, max_tokens)

    def _module(
        self,
        encoder: nn.Module,
        hidden_size: int,
        objective: Objective,
        styles: int,
        targets: NDArray[np.int64] | NDArray[np.float64] | None = None,
    ) -> RouterModule:
        from apm_lab.training.router_module import RouterModule, standardisation

        mean, sd = standardisation(targets) if objective == "regression" and targets is not None else (None, None)
        names = ("learning_rate", "weight_decay", "warmup_fraction", "label_smoothing", "token_dropout")
        head_init = self._settings["head_init"]
        if head_init is None:
            head_init = _SCRATCH_HEAD_INIT if self._settings["pretrained"] is None else hidden_size**-0.5
        return RouterModule(
            encoder,
            hidden_size=hidden_size,
            styles=styles,
            objective=objective,
            target_mean=mean,
            target_sd=sd,
            head_init=head_init,
            **{name: self._settings[name] for name in names},
        )

    def _data(
        self,
        base: EncoderBase,
        histories: Sequence[tuple[str, ...]],
        targets: NDArray[np.int64] | NDArray[np.float64],
        validation: ValidationSet | None,
        objective: Objective,
        seed: int,
    ) -> HistoryDataModule:
        from apm_lab.training.history_datamodule import HistoryDataModule, Split
        from apm_lab.training.modernbert_pass import computes_no_padding

        split = self._settings["split_prompts"]
        if split or (split is None and self._settings["pretrained"] is None):
            histories, rows = single_prompts(histories)
            targets = targets[rows]
        held_out = None
        if validation is not None:
            tokens = self._encode(base.tokenizer, validation.histories, base.max_tokens)
            held_out = Split(tokens, np.asarray(validation.targets))
        return HistoryDataModule(
            Split(self._encode(base.tokenizer, histories, base.max_tokens), targets),
            held_out,
            batch_size=self._settings["batch_size"],
            pad_id=base.tokenizer.pad_id,
            seed=seed,
            objective=objective,
            padding_is_free=computes_no_padding(base.encoder, base.max_tokens, self._trainer.accelerator),
        )

    def _encode(
        self, tokenizer: HistoryTokenizer, histories: Sequence[tuple[str, ...]], max_tokens: int
    ) -> list[list[int]]:
        rows, cut = tokenizer.encode(histories, max_tokens)
        self.truncated += cut
        if cut and not self._warned:
            self._warned = True
            _LOGGER.warning(
                "%d of %d histories are longer than %d tokens; the ends of their longest prompts are cut "
                "(router.max_tokens)",
                cut,
                len(rows),
                max_tokens,
            )
        return rows

    def _require_trained(self) -> _Trained:
        if self._trained is None:
            raise RuntimeError("this router has neither been fitted nor loaded")
        return self._trained
