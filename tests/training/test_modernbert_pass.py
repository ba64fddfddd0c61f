import pytest
import torch
from transformers import ModernBertConfig, ModernBertModel

from apm_lab.training.modernbert_pass import attention_groups, computes_no_padding, pooled_states, takes_short_way
from apm_lab.training.router_module import mean_pool

KINDS = ["full_attention", "sliding_attention", "sliding_attention"]


def modernbert(**settings):
    values = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 3, **settings}
    special = dict.fromkeys(("pad", "bos", "cls", "eos", "sep"), 0)
    config = ModernBertConfig(
        **values,
        num_attention_heads=4,
        layer_types=KINDS[: values["num_hidden_layers"]],
        local_attention=8,
        max_position_embeddings=64,
        initializer_range=0.3,
        **{f"{name}_token_id": at for name, at in special.items()},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ModernBertModel(config)


def batch(lengths):
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 50, (len(lengths), max(lengths)), generator=random)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    return ids * mask, mask


def both(model, ids, mask):
    """Pooled states and all gradients, transformers' way and ours."""
    found = []
    weights = torch.randn(len(ids), 32, generator=torch.Generator().manual_seed(2))
    for way in (lambda: mean_pool(model(input_ids=ids, attention_mask=mask).last_hidden_state, mask), None):
        states = pooled_states(model, ids, mask) if way is None else way()
        model.zero_grad()
        (states * weights).sum().backward()
        found.append((states.detach(), [parameter.grad.clone() for parameter in model.parameters()]))
    return found


# Wider than the window of 4 to each side, narrower, and without padding: four kinds of masks.
# Up to four texts make a group; more make several.
@pytest.mark.parametrize("lengths", [[20, 3, 17, 9], [4, 2], [4, 4], [20, 20], [9, 1, 30, 2, 2, 30, 17, 9, 4], [5] * 6])
@pytest.mark.parametrize("training", [False, True])
def test_states_and_gradients_are_those_of_transformers(lengths, training):
    model = modernbert(embedding_dropout=0.0).train(training)
    ids, mask = batch(lengths)
    assert takes_short_way(model, ids)
    (expected, theirs), (found, ours) = both(model, ids, mask)
    assert torch.allclose(found, expected, atol=1e-5)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-4 * max(1.0, other.abs().max().item()))


def test_hidden_tokens_in_the_middle_of_a_text_count_as_they_do_in_transformers():
    model = modernbert().eval()
    ids, mask = batch([20, 12, 7])
    mask[0, [3, 4, 11]] = 0
    mask[1, -1] = 0
    (expected, theirs), (found, ours) = both(model, ids, mask)
    assert torch.allclose(found, expected, atol=1e-5)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-4 * max(1.0, other.abs().max().item()))


def test_dropout_keeps_the_mean_and_hits_its_share():
    model = modernbert(embedding_dropout=0.25, num_hidden_layers=1)
    dropped = []
    model.layers[0].attn.Wqkv.register_forward_pre_hook(lambda _, inputs: dropped.append(inputs[0]))
    ids, mask = batch([60] * 32)
    torch.manual_seed(0)
    with torch.inference_mode():
        pooled_states(model.train(), ids, mask)
        pooled_states(model.eval(), ids, mask)
    hit, whole = dropped
    assert (hit == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert torch.allclose(hit[hit != 0], whole[hit != 0] / 0.75)


def test_a_text_whose_tokens_are_all_hidden_gives_no_nan():
    model = modernbert().train()
    ids, mask = batch([6, 5])
    mask[1] = 0
    states = pooled_states(model, ids, mask)
    states.sum().backward()
    assert states.isfinite().all()
    assert (states[1] == 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_short_way_is_left_where_it_would_not_hold():
    ids, _ = batch([5, 5])
    assert not takes_short_way(torch.nn.Embedding(5, 5), ids)
    assert not takes_short_way(modernbert(), ids.repeat(1, 103))
    assert not takes_short_way(modernbert().double(), ids)
    assert not takes_short_way(modernbert(attention_dropout=0.1).train(), ids)
    assert takes_short_way(modernbert(attention_dropout=0.1).eval(), ids)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not takes_short_way(modernbert(), ids)


def test_padding_costs_something_on_a_gpu_and_for_longer_texts():
    assert computes_no_padding(modernbert(), 512, "cpu")
    assert not computes_no_padding(modernbert(), 513, "cpu")
    assert not computes_no_padding(modernbert(), 512, "gpu")


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([7], [1]),
        ([10, 10, 11, 12], [4]),  # one group: 4000 + 4 * 144
        ([10, 10, 10, 500], [3, 1]),  # 2 * 4000 + 3 * 100 + 500^2, not 4000 + 4 * 500^2
        ([100, 110, 200, 203, 500], [2, 2, 1]),
        ([300, 303, 340], [2, 1]),  # 303^2 - 300^2 < 4000 < 340^2 - 303^2
    ],
)
def test_texts_share_an_attention_matrix_where_that_costs_least(lengths, sizes):
    def cost(parts):
        ends = [sum(parts[: place + 1]) for place in range(len(parts))]
        return sum(4000 + size * lengths[end - 1] ** 2 for size, end in zip(parts, ends, strict=True))

    found = attention_groups(lengths)
    assert cost(found) <= cost(sizes)
    assert found == sizes
