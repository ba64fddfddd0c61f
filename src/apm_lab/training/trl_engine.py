"""TRL's DPOTrainer on the same policy and pairs: the reference that our own training is held against."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from apm_lab.errors import ConfigError, MissingPackageError
from apm_lab.language.pair_batch import EncodedPair
from apm_lab.language.soft_prompt import SoftPromptPolicy

if TYPE_CHECKING:
    from apm_lab.training.soft_prompt_trainer import DpoSettings

__all__ = ["train_with_trl"]

_NAMES = {
    "train/loss": "loss",
    "train/reward_chosen": "rewards/chosen",
    "train/reward_rejected": "rewards/rejected",
    "train/put_right": "rewards/accuracies",
    "step": "step",
}


def train_with_trl(
    policy: SoftPromptPolicy,
    pairs: Sequence[EncodedPair],
    settings: DpoSettings,
    *,
    epochs: int,
    seed: int,
    log: Callable[[dict[str, float]], None],
) -> None:
    """Train the policy's adapter in place by TRL; `log` takes figures of every optimiser step, named as our own.

    The pairs are handed over as tokens, with their reference log-probabilities, so that nothing is encoded or scored
    twice. ConfigError for a policy with soft tokens, which TRL does not know.
    """
    if policy.projector is not None or policy.adapted is None:
        raise ConfigError(
            "method.engine=trl trains an adapter alone: set method.soft_tokens=0 and method.lora_rank above 0, not "
            f"{policy.settings.soft_tokens} and {policy.settings.lora_rank}"
        )
    if importlib.util.find_spec("trl") is None:
        raise MissingPackageError('method.engine=trl needs trl: pip install "apm-lab[trl]"')
    tokenizer = policy.tokenizer
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about one another
        trainer = _trainer(policy, pairs, tokenizer, _arguments(policy, settings, epochs, seed, scratch))
        try:
            trainer.train()
        finally:
            _tidy(policy)
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    for entry in logged:
        log({ours: float(entry[theirs]) for ours, theirs in _NAMES.items()})


def _arguments(policy: SoftPromptPolicy, settings: DpoSettings, epochs: int, seed: int, scratch: str) -> Any:  # noqa: ANN401
    from trl import DPOConfig

    return DPOConfig(
        output_dir=scratch,
        beta=settings.beta,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup_fraction,
        max_grad_norm=0.0,  # no clipping
        lr_scheduler_type="linear",
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        num_train_epochs=epochs,
        gradient_checkpointing=settings.gradient_checkpointing,
        precompute_ref_log_probs=True,
        max_length=None,
        disable_dropout=False,
        use_cpu=policy.network.device == "cpu",
        bf16=False,  # the base model's own type, as in our own training
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=seed,
        data_seed=seed,
    )


def _trainer(policy: SoftPromptPolicy, pairs: Sequence[EncodedPair], tokenizer: Any, arguments: Any) -> Any:  # noqa: ANN401
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import DPOTrainer

    class Tokenised(DPOTrainer):
        """Takes the pairs as the tokens and log-probabilities that they are."""

        def _prepare_dataset(self, dataset: Any, *_: object) -> Any:  # noqa: ANN401
            return dataset

        def _precompute_ref_logps(self, dataset: Any, *_: object) -> Any:  # noqa: ANN401
            return dataset

    rows = {
        "prompt_ids": [list(pair.prompt) for pair in pairs],
        "chosen_ids": [list(pair.chosen) for pair in pairs],
        "rejected_ids": [list(pair.rejected) for pair in pairs],
        "ref_chosen_logps": [pair.reference[0] for pair in pairs],
        "ref_rejected_logps": [pair.reference[1] for pair in pairs],
    }
    trainer = Tokenised(
        model=policy.adapted, args=arguments, train_dataset=Dataset.from_dict(rows), processing_class=tokenizer
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _tidy(policy: SoftPromptPolicy) -> None:
    """Take out of the network what TRL has put into it: its copy of the adapter, and its own forward."""
    assert policy.adapted is not None
    if "ref" in policy.adapted.peft_config:
        policy.adapted.delete_adapter("ref")
    model = policy.network.model
    vars(model).pop("forward", None)
