import pytest
import torch

from apm_lab.errors import ConfigError
from apm_lab.language.hf_network import Network
from apm_lab.language.hf_rows import Rows
from apm_lab.language.hf_weights import load_language_model


@pytest.fixture
def network(tiny):
    return Network(load_language_model(tiny, None, "float32", "cpu").model, "cpu")


def alone(network, tokens):
    return Rows(network, 1).extend([tokens])[0, -1]


def test_a_row_is_the_same_whatever_happens_to_others(network):
    one, other, third = [5, 9, 7, 30, 8], [40, 41], [60, 61, 62, 63, 64, 65, 66, 67]
    rows = Rows(network, 2)
    rows.extend([one, other], right=True)
    fresh = Rows(network, 1)
    fresh.extend([third], right=True)  # longer than what is there: columns are put before the others
    rows = rows.picked([1, 0, 0], room=4)
    rows.put([2], fresh)
    ids = torch.tensor([[11], [12], [13]])
    hidden = rows.append(ids, torch.ones_like(ids, dtype=torch.bool))[:, -1]
    for row, tokens in enumerate(([*other, 11], [*one, 12], [*third, 13])):
        assert torch.allclose(hidden[row], alone(network, tokens), atol=1e-4)
    assert rows.seen.tolist() == [3, 6, 9]


def test_columns_that_no_row_uses_are_given_up(network):
    rows = Rows(network, 2)
    rows.extend([[5] * 20, [6, 7]], right=True)
    short = rows.picked([1])
    assert (rows.length, short.length) == (20, 2)
    ids = torch.tensor([[8]])
    hidden = short.append(ids, torch.ones_like(ids, dtype=torch.bool))[0, -1]
    assert torch.allclose(hidden, alone(network, [6, 7, 8]), atol=1e-4)


def test_segments_of_different_lengths_leave_gaps_that_nobody_sees(network):
    rows = Rows(network, 2)
    rows.extend([[5, 6, 7, 8], [9]])
    hidden = rows.extend([[10], [11, 12]])
    assert torch.allclose(hidden[0, 0], alone(network, [5, 6, 7, 8, 10]), atol=1e-4)
    assert torch.allclose(hidden[1, 1], alone(network, [9, 11, 12]), atol=1e-4)


def test_a_head_that_does_more_is_refused(tiny):
    model = load_language_model(tiny, None, "float32", "cpu").model
    plain = model.forward
    model.forward = lambda *given, **named: _doubled(plain(*given, **named))
    with pytest.raises(ConfigError, match="LlamaForCausalLM makes its logits in a way that is not known here"):
        Network(model, "cpu")


def _doubled(out):
    out.logits = out.logits * 2
    return out


def test_known_scalings_of_logits_are_applied(tiny, windowed):
    model = load_language_model(windowed, None, "float32", "cpu").model
    assert Network(model, "cpu").logits(torch.full((1, 48), 50.0)).abs().max() <= 20.0  # the soft cap
    assert not Network(load_language_model(tiny, None, "float32", "cpu").model, "cpu").window
