"""ModernBERT's pooled states for batches of texts on a CPU: what transformers computes, sooner and without padding.

At the size of a history much of transformers' pass is no matrix product: masks for kinds of layers that are not there,
rotary embeddings in a dozen passes over memory, an attention kernel made for long sequences, coin throws one by one,
and padding. This pass reads the same modules and weights. The tokens of all texts stand in one row, and only attention
looks at texts, those of like length at once; so batches may be drawn at random and still cost what they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ModernBertModel

__all__ = ["attention_groups", "computes_no_padding", "pooled_states", "takes_short_way"]

_LONGEST = 512
"""Tokens up to which the matrix of attention weights of a few texts is held; the tiled kernel never holds it."""

_FIXED = 4000
"""What a group of texts costs beside its attention matrices, in entries of these (measured at 1 x 128 and 2 x 256)."""

_UNSEEN = torch.finfo(torch.float32).min / 2
"""Added to the scores of keys that don't count: finite, so that a text without a token gives no NaN."""


def takes_short_way(encoder: nn.Module, ids: Tensor) -> bool:
    """Say whether `pooled_states` may stand in for `encoder`: short texts, a plain fp32 ModernBERT, a CPU."""
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


def computes_no_padding(encoder: nn.Module, max_tokens: int, accelerator: str) -> bool:
    """Say whether training on texts of up to `max_tokens` goes the short way, where padding costs nothing."""
    return accelerator == "cpu" and takes_short_way(encoder, torch.empty(1, max_tokens, dtype=torch.long))


def pooled_states(encoder: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, H) of the last hidden states of `ids` (B, T) over tokens where `mask` (B, T) is 1.

    It is that of `encoder(input_ids=ids, attention_mask=mask)` but for rounding and, while training, for where dropout
    strikes; zeros for a text of which no token counts. `takes_short_way` says when this applies.
    """
    model: Any = encoder
    groups, places = _groups(mask)
    embeddings, longest = model.embeddings, max(group.length for group in groups)
    hidden = _dropout(embeddings.norm(embeddings.tok_embeddings(ids.flatten()[places])), embeddings.drop)
    kinds = set(model.config.layer_types)
    angles = {kind: _angles(getattr(model.rotary_emb, f"{kind}_inv_freq"), longest, model.config) for kind in kinds}
    windows = {kind: model.config.sliding_window if kind == "sliding_attention" else longest for kind in kinds}
    biases = {kind: [_bias(group.seen, windows[kind]) for group in groups] for kind in kinds}
    for layer in model.layers:
        kind, attention, mlp = layer.attention_type, layer.attn, layer.mlp
        projected = attention.Wqkv(layer.attn_norm(hidden)).unflatten(-1, (3, -1, attention.head_dim))
        hidden = hidden + attention.Wo(_Attention.apply(projected, *angles[kind], groups, biases[kind]))
        value, gate = mlp.Wi(layer.mlp_norm(hidden)).chunk(2, dim=-1)
        hidden = hidden + mlp.Wo(_dropout(mlp.act(value) * gate, mlp.drop))
    counted = mask.flatten()[places].unsqueeze(-1).to(hidden.dtype)
    total = hidden.new_zeros(len(ids), hidden.shape[1])
    total = total.index_add(0, places // ids.shape[1], model.final_norm(hidden) * counted)
    return total / mask.sum(dim=1, keepdim=True).clamp_min(1).to(hidden.dtype)


@dataclass(frozen=True, slots=True)
class _Group:
    """A few texts side by side: `seen` (B, T) says which tokens count as keys.

    Its tokens stand at `start`..`end` of the row of all tokens; `flat` are their places in (B T,), None where that is
    all of them.
    """

    seen: Tensor
    start: int
    end: int
    flat: Tensor | None

    @property
    def length(self) -> int:
        """T, the longest text's."""
        return int(self.seen.shape[1])

    def padded(self, row: Tensor) -> Tensor:
        """Return this group's part of `row` (N, ...) as (B, T, ...), zeros after each text."""
        part, shape = row[self.start : self.end], (*self.seen.shape, *row.shape[1:])
        if self.flat is None:
            return part.reshape(shape)
        flat = row.new_zeros(self.seen.numel(), row[0].numel())
        return flat.index_copy_(0, self.flat, part.reshape(len(part), -1)).view(shape)

    def fill(self, row: Tensor, values: Tensor) -> None:
        """Write `values` (B, T, ...) without their padding into this group's part of `row` (N, ...)."""
        flat = values.reshape(self.seen.numel(), -1)
        part = flat if self.flat is None else flat.index_select(0, self.flat)
        row[self.start : self.end] = part.view(-1, *row.shape[1:])


def _groups(mask: Tensor) -> tuple[list[_Group], Tensor]:
    """Return the groups of a batch, texts of like length together, and where in (B T,) each token of the row is from.

    What lies behind a text's last token that counts is left out.
    """
    width = mask.shape[1]
    lengths = (mask * torch.arange(1, width + 1)).amax(dim=1).clamp_min(1)
    groups, places, start = [], [], 0
    order = lengths.argsort(stable=True)
    for rows in order.split(attention_groups(lengths[order].tolist())):
        longest = int(lengths[rows[-1]])
        inside = torch.arange(longest) < lengths[rows].unsqueeze(-1)
        places.append((rows.unsqueeze(-1) * width + torch.arange(longest))[inside])
        end = start + len(places[-1])
        flat = None if end - start == inside.numel() else inside.flatten().nonzero().squeeze(-1)
        groups.append(_Group(mask[rows, :longest].bool(), start, end, flat))
        start = end
    return groups, torch.cat(places)


def attention_groups(lengths: Sequence[int]) -> list[int]:
    """Return how many texts of rising `lengths` (B,) go into each group so that their attention costs least.

    A group of n texts up to T tokens costs `_FIXED` + n T^2.
    """
    least, starts = [0.0], [0]
    for end, longest in enumerate(lengths, start=1):
        costs = [least[start] + _FIXED + (end - start) * longest**2 for start in range(end)]
        least.append(min(costs))
        starts.append(costs.index(least[-1]))
    sizes, end = [], len(lengths)
    while end:
        sizes.append(end - starts[end])
        end = starts[end]
    return sizes[::-1]


def _angles(frequencies: Tensor, length: int, config: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401 (transformers' own)
    """Return cosines and sines (2, 1, 1, T, D/2) that turn queries and keys; the queries' carry the scores' scale."""
    turns = torch.arange(length, dtype=torch.float32).unsqueeze(-1) * frequencies
    scale = torch.tensor([(config.hidden_size // config.num_attention_heads) ** -0.5, 1.0]).view(2, 1, 1, 1, 1)
    return turns.cos() * scale, turns.sin() * scale


def _bias(counts: Tensor, window: int) -> Tensor | None:
    """Return what is added to scores, (B, 1, 1 or T, T), or None where every token sees every other."""
    seen = counts[:, None, None, :]
    if counts.shape[1] > window + 1:
        places = torch.arange(counts.shape[1])
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
    length = source.shape[-2]
    cos, sin = cos[..., :length, :], sin[..., :length, :]
    first, second = source.chunk(2, dim=-1)
    head, tail = target.chunk(2, dim=-1)
    torch.mul(first, cos, out=head).addcmul_(second, sin, value=-direction)
    torch.mul(second, cos, out=tail).addcmul_(first, sin, value=direction)


class _Attention(torch.autograd.Function):
    """Mixed values (N, H) of projections (N, 3, heads, D) of all tokens: queries, keys and values in one piece.

    Written out with its gradient, since autograd's own would visit memory in strides and copy what it need not.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        projected: Tensor,
        cos: Tensor,
        sin: Tensor,
        groups: Sequence[_Group],
        biases: Sequence[Tensor | None],
    ) -> Tensor:
        mixed, kept = projected.new_empty(len(projected), projected[0, 0].numel()), []
        for group, bias in zip(groups, biases, strict=True):
            source = group.padded(projected).permute(2, 0, 3, 1, 4)
            _, batch, heads, length, depth = source.shape
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
            group.fill(mixed, torch.bmm(weights, value).view(batch, heads, length, depth).transpose(1, 2))
            kept += [turned, weights]
        ctx.groups = groups
        ctx.save_for_backward(cos, sin, *kept)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        cos, sin, *kept = ctx.saved_tensors
        _, _, heads, _, depth = kept[0].shape
        result = gradients[0].new_empty(len(gradients[0]), 3, heads, depth)
        for group, turned, weights in zip(ctx.groups, kept[::2], kept[1::2], strict=True):
            _, batch, _, length, _ = turned.shape
            query, key, value = turned.view(3, batch * heads, length, depth)
            incoming = group.padded(gradients[0]).view(batch, length, heads, depth)
            mixed = incoming.transpose(1, 2).reshape(value.shape)
            gathered = torch.empty_like(turned)
            to_query, to_key, to_value = gathered.view(3, batch * heads, length, depth)
            torch.bmm(weights.transpose(1, 2), mixed, out=to_value)
            to_weights = torch.bmm(mixed, value.transpose(1, 2))
            to_scores = torch.ops.aten._softmax_backward_data(to_weights, weights, -1, weights.dtype)
            torch.bmm(to_scores, key, out=to_query)
            torch.bmm(to_scores.transpose(1, 2), query, out=to_key)
            back = turned.new_empty(batch, length, 3, heads, depth)
            target = back.permute(2, 0, 3, 1, 4)
            _turn(gathered[:2], cos, sin, target[:2], -1)
            target[2].copy_(gathered[2])
            group.fill(result, back)
        return result, None, None, None, None
