"""Log-probabilities of answers by a policy that is led by a soft prompt, an adapter, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apm_lab.language.reward_calls import require_fitting_text
from apm_lab.language.reward_model import RewardCall

if TYPE_CHECKING:
    from torch import Tensor

    from apm_lab.language.hf_choices import Asked
    from apm_lab.language.soft_prompt import SoftPromptPolicy

__all__ = ["answer_sums", "policy_splits"]

Split = tuple[list[int], list[int]]


def policy_splits(
    policy: SoftPromptPolicy, calls: Sequence[RewardCall], template: str, name: str, soft_tokens: int = 0
) -> list[list[Split]]:
    """Return per call and answer the tokens before and of the answer, with the token that ends a turn in a chat.

    ConfigError where a text and `soft_tokens` are longer than the context; `name` is that of the model in it.
    """
    from apm_lab.language.encoded_pairs import end_token
    from apm_lab.language.lm_loglik import token_splits

    splits = token_splits(policy.base, calls, template, name)
    if template == "chat":
        end = end_token(policy.base)
        splits = [[(before, [*behind, end]) for before, behind in each] for each in splits]
    for call, each in zip(calls, splits, strict=True):
        for before, behind in each:
            require_fitting_text(name, call.prompt, len(before) + len(behind) + soft_tokens, policy.network.context)
    return splits


def answer_sums(policy: SoftPromptPolicy, asked: Sequence[Asked], table: Tensor | None, batch_size: int) -> list[float]:
    """Return the log-probability in nats of each question's one answer, in order; `table` holds soft tokens."""
    from apm_lab.language.hf_choices import answer_log_probabilities

    found = [0.0] * len(asked)
    with policy.network.prefixed(table):
        for group in answer_log_probabilities(policy.network, asked, batch_size):
            for place, (value,) in group:
                found[place] = value
    return found
