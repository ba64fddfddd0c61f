"""Direct preference optimisation: the loss, the implicit reward, and the log-probabilities that both are made of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["dpo_loss", "implicit_reward", "sums_by_sequence", "token_log_probs"]

_CHUNK = 512  # positions whose logits exist at once


def implicit_reward(policy: Tensor, reference: Tensor, beta: float) -> Tensor:
    """Return beta (log pi(y|x) - log pi_ref(y|x)) of sequence log-probabilities (B,) (Rafailov et al. 2023, Eq. 5).

    It leaves out the term that depends on the prompt alone.
    """
    return beta * (policy - reference)


def dpo_loss(
    chosen: Tensor, rejected: Tensor, reference: tuple[Tensor, Tensor], beta: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each pair (B,), and the implicit rewards (B,) of its chosen and its rejected answer.

    `chosen` and `rejected` (B,) are the policy's log-probabilities of the whole answers, `reference` the reference
    model's of the same two. The loss is -log sigmoid(margin), the margin being the difference of the rewards (Eq. 7
    there): ln 2 where they are equal.
    """
    rewards = implicit_reward(chosen, reference[0], beta), implicit_reward(rejected, reference[1], beta)
    return -F.logsigmoid(rewards[0] - rewards[1]), *rewards


def sums_by_sequence(values: Tensor, sequence: Tensor, count: int) -> Tensor:
    """Return the sums (count,) of token values (n,) over the sequence (n,) that each belongs to, in float32."""
    return torch.zeros(count, dtype=torch.float32, device=values.device).index_add(0, sequence, values.float())


def token_log_probs(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Return log softmax(hidden head^T)[targets] (n,) in float32, from states (n, H), a frozen head (V, H), ids (n,).

    The logits (n, V) never exist as a whole, and the head's gradient is not computed. The gradient by a state,
    `head[target] - sum_v p_v head_v`, needs nothing that comes later, so it is made while a chunk's logits are at hand:
    no second softmax, and what is kept for the backward pass is (n, H).
    """
    found: Tensor = _TokenLogProbs.apply(hidden, head, targets)
    return found


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:  # noqa: ANN401
        found = hidden.new_empty(len(hidden), dtype=torch.float32)
        slope = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        for start in range(0, len(hidden), _CHUNK):
            part = slice(start, start + _CHUNK)
            # A slice that is not contiguous makes the product 4 to 8 times slower on a processor.
            logits = (hidden[part].contiguous() @ head.T).float()
            known = targets[part, None]
            total = logits.logsumexp(dim=1, keepdim=True)
            found[part] = (logits.gather(1, known) - total)[:, 0]
            if slope is not None:
                shares = logits.sub_(total).exp_().to(head.dtype)
                slope[part] = head[targets[part]] - shares @ head
        if slope is not None:
            ctx.save_for_backward(slope)
        return found

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return slope * upstream[0][:, None].to(slope.dtype), None, None
