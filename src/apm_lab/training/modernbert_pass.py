"""ModernBERT's hidden states for batches of short texts on a CPU: what transformers computes, sooner.

At the size of a history much of transformers' pass is no matrix product: masks for kinds of layers that are not there,
rotary embeddings in a dozen passes over memory, an attention kernel made for long sequences, coin throws one by one.
This pass reads the same modules and weights and leaves that out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import ModernBertModel

__all__ = ["hidden_states", "takes_short_way"]

_LONGEST = 96
"""Tokens up to which the whole matrix of attention weights costs less than the tiled kernel that never holds it."""

_UNSEEN = torch.finfo(torch.float32).min / 2
"""Added to the scores of keys that don't count: finite, so that a text without a token gives no NaN."""


def takes_short_way(encoder: nn.Module, ids: Tensor) -> bool:
    """Say whether `hidden_states` may stand in for `encoder`: short texts, a plain fp32 ModernBERT, a CPU."""
    if type(encoder) is not ModernBertModel or ids.device.type != "cpu" or ids.shape[1] > _LONGEST:
        return False
    weight, config = encoder.embeddings.tok_embeddings.weight, encoder.config
    plain = all(kind == "default" for kind in encoder.rotary_emb.rope_type.values())
    return (
        plain
        and weight.device == ids.device
        and weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not (encoder.training and (config.attention_dropout > 0 or encoder.gradient_checkpointing))
    )


def hidden_states(encoder: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the last hidden states (B, T, H) for `ids` and `mask` (B, T), 1 where a token counts.

    They are those of `encoder(input_ids=ids, attention_mask=mask)` but for rounding and, while training, for where
    dropout strikes; those of tokens that don't count are arbitrary. `takes_short_way` says when this applies.
    """
    model: Any = encoder
    length, embeddings = ids.shape[1], model.embeddings
    hidden = _dropout(embeddings.norm(embeddings.tok_embeddings(ids)), embeddings.drop)
    kinds = set(model.config.layer_types)
    angles = {kind: _angles(getattr(model.rotary_emb, f"{kind}_inv_freq"), length, model.config) for kind in kinds}
    biases = {
        kind: _bias(mask, model.config.sliding_window if kind == "sliding_attention" else length) for kind in kinds
    }
    for layer in model.layers:
        kind, attention, mlp = layer.attention_type, layer.attn, layer.mlp
        projected = attention.Wqkv(layer.attn_norm(hidden)).unflatten(-1, (3, -1, attention.head_dim))
        hidden = hidden + attention.Wo(_Attention.apply(projected, *angles[kind], biases[kind]))
        value, gate = mlp.Wi(layer.mlp_norm(hidden)).chunk(2, dim=-1)
        hidden = hidden + mlp.Wo(_dropout(mlp.act(value) * gate, mlp.drop))
    states: Tensor = model.final_norm(hidden)
    return states


def _angles(frequencies: Tensor, length: int, config: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401 (transformers' own)
    """Return cosines and sines (2, 1, 1, T, D/2) that turn queries and keys; the queries' carry the scores' scale."""
    turns = torch.arange(length, dtype=torch.float32).unsqueeze(-1) * frequencies
    scale = torch.tensor([(config.hidden_size // config.num_attention_heads) ** -0.5, 1.0]).view(2, 1, 1, 1, 1)
    return turns.cos() * scale, turns.sin() * scale


def _bias(mask: Tensor, window: int) -> Tensor | None:
    """Return what is added to scores, (B, 1, 1 or T, T), or None where every token sees every other."""
    seen = mask.bool()[:, None, None, :]
    if mask.shape[1] > window + 1:
        places = torch.arange(mask.shape[1])
        seen = seen & ((places[:, None] - places).abs() <= window)
    if bool(seen.all()):
        return None
    return torch.zeros(seen.shape).masked_fill_(~seen, _UNSEEN)


def _dropout(values: Tensor, module: nn.Module) -> Tensor:
    """Return `values` after the dropout `module`; uniform numbers come twice as fast as coin throws."""
    share = module.p if isinstance(module, nn.Dropout) and module.training else 0.0
    if share == 0.0:
        return values
    return values * torch.rand_like(values).ge_(share).mul_(1 / (1 - share))


def _turn(source: Tensor, cos: Tensor, sin: Tensor, target: Tensor, direction: int) -> None:
    """Write `source` (2, B, heads, T, D), each pair of its halves turned, into `target`; -1 turns back."""
    first, second = source.chunk(2, dim=-1)
    head, tail = target.chunk(2, dim=-1)
    torch.mul(first, cos, out=head).addcmul_(second, sin, value=-direction)
    torch.mul(second, cos, out=tail).addcmul_(first, sin, value=direction)


class _Attention(torch.autograd.Function):
    """Mixed values (B, T, H) of projections (B, T, 3, heads, D): queries, keys and values in one piece.

    Written out with its gradient, since autograd's own would visit memory in strides and copy what it need not.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, cos: Tensor, sin: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        batch, length, _, heads, depth = projected.shape
        source = projected.permute(2, 0, 3, 1, 4)
        turned = projected.new_empty(source.shape)
        _turn(source[:2], cos, sin, turned[:2], 1)
        turned[2].copy_(source[2])
        query, key, value = turned.view(3, batch * heads, length, depth)
        if bias is None:
            scores = torch.bmm(query, key.transpose(1, 2))
        else:
            each = bias.expand(-1, heads, -1, -1).reshape(batch * heads, -1, length)
            scores = torch.baddbmm(each, query, key.transpose(1, 2))
        weights = scores.softmax(dim=-1)
        ctx.save_for_backward(turned, weights, cos, sin)
        mixed = torch.bmm(weights, value).view(batch, heads, length, depth)
        return mixed.transpose(1, 2).reshape(batch, length, heads * depth)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        turned, weights, cos, sin = ctx.saved_tensors
        _, batch, heads, length, depth = turned.shape
        query, key, value = turned.view(3, batch * heads, length, depth)
        mixed = gradients[0].view(batch, length, heads, depth).transpose(1, 2).reshape(value.shape)
        gathered = torch.empty_like(turned)
        to_query, to_key, to_value = gathered.view(3, batch * heads, length, depth)
        torch.bmm(weights.transpose(1, 2), mixed, out=to_value)
        to_weights = torch.bmm(mixed, value.transpose(1, 2))
        to_scores = torch.ops.aten._softmax_backward_data(to_weights, weights, -1, weights.dtype)
        torch.bmm(to_scores, key, out=to_query)
        torch.bmm(to_scores.transpose(1, 2), query, out=to_key)
        result = turned.new_empty(batch, length, 3, heads, depth)
        target = result.permute(2, 0, 3, 1, 4)
        _turn(gathered[:2], cos, sin, target[:2], -1)
        target[2].copy_(gathered[2])
        return result, None, None, None
