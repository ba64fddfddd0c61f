"""A router as a probe of opinions: how sure it is of a style when it reads a question with an answer."""

from __future__ import annotations

from collections.abc import Sequence

from apm_lab.language.reward_model import RewardCall
from apm_lab.training.callbacks.alignment import AlignmentCallback, OpinionProbe
from apm_lab.training.history_tokenizer import HistoryTokenizer
from apm_lab.training.predict import predict_scores
from apm_lab.training.router_module import RouterModule

__all__ = ["RouterRewards", "router_alignment"]

_BATCH = 64


def router_alignment(
    probe: OpinionProbe | None, module: RouterModule, tokenizer: HistoryTokenizer, max_tokens: int
) -> AlignmentCallback | None:
    """Return the callback that logs the router's alignment while it trains, None without a probe."""
    return None if probe is None else AlignmentCallback(probe, RouterRewards(module, tokenizer, max_tokens))


class RouterRewards:
    """Rewards an answer by the largest score that the router gives any style after reading prompt and answer.

    A router rates styles, not texts: this says what its reading of people has to do with what they say, and how that
    moves while it trains; it is no opinion that anything is trained on.
    """

    def __init__(self, module: RouterModule, tokenizer: HistoryTokenizer, max_tokens: int) -> None:
        self._module, self._tokenizer, self._max_tokens = module, tokenizer, max_tokens

    def __call__(self, calls: Sequence[RewardCall]) -> list[list[float]]:
        """Return a reward per answer of each call."""
        texts = [(call.prompt + answer,) for call in calls for answer in call.answers]
        tokens, _ = self._tokenizer.encode(texts, self._max_tokens)
        device = next(self._module.parameters()).device
        scores = predict_scores(self._module, tokens, pad_id=self._tokenizer.pad_id, batch_size=_BATCH, device=device)
        rest = iter(scores.max(axis=1).tolist())
        return [[next(rest) for _ in call.answers] for call in calls]
