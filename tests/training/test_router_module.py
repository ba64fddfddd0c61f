import numpy as np
import pytest
import torch
from torch import nn

from apm_lab.training.router_module import RouterModule, linear_warmup_decay, mean_pool, standardisation


class Encoder(nn.Module):
    """One weight; the hidden state of a token is its id and the id's square."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, input_ids, attention_mask):
        states = torch.stack([input_ids, input_ids**2], dim=-1) * self.scale
        return type("Output", (), {"last_hidden_state": states})


def router(objective="classification", **settings):
    values = {"learning_rate": 0.1, "weight_decay": 0.5, "warmup_fraction": 0.2, "styles": 2, **settings}
    module = RouterModule(Encoder(), hidden_size=2, objective=objective, **values)
    with torch.no_grad():
        module.head.weight.copy_(torch.eye(2))
        module.head.bias.copy_(torch.tensor([0.0, -1.0]))
    return module


BATCH = {
    "index": torch.tensor([0, 1]),
    "input_ids": torch.tensor([[1, 3, 9], [2, 2, 2]]),
    "attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
    "targets": torch.tensor([1, 0]),
}


def test_mean_pool_leaves_padding_out():
    hidden = torch.tensor([[[1.0, 10.0], [3.0, 20.0], [100.0, 100.0]], [[5.0, 5.0], [7.0, 7.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert mean_pool(hidden, mask).tolist() == [[2.0, 15.0], [0.0, 0.0]]
    # Attention over nothing but padding may give NaN there: it has no say either.
    hidden[0, 2] = torch.nan
    assert mean_pool(hidden, mask)[0].tolist() == [2.0, 15.0]


def test_scores_of_a_classifier_by_hand():
    module = router().eval()
    # Means of (id, id^2): (2, 5) and (2, 4); the bias takes 1 off the second.
    assert module(BATCH).tolist() == [[2.0, 4.0], [2.0, 3.0]]
    assert module.scores(BATCH)[1].tolist() == pytest.approx([1 / (1 + np.e), np.e / (1 + np.e)])
    loss = module.loss(module(BATCH), BATCH["targets"])
    assert loss.item() == pytest.approx((np.log(1 + np.exp(-2)) + np.log(1 + np.e)) / 2)


def test_regression_is_on_the_ratings_scale():
    ratings = np.array([[4.0, 6.0], [8.0, 6.0]])
    mean, sd = standardisation(ratings)
    assert mean.tolist() == [6.0, 6.0]
    # Deviations -2, 0, 2, 0 about the styles' own means: one s.d. for all.
    assert sd.item() == pytest.approx(np.sqrt(2))
    module = router("regression", target_mean=mean, target_sd=sd).eval()
    assert module.scores(BATCH)[0].tolist() == pytest.approx([6 + 2 * np.sqrt(2), 6 + 4 * np.sqrt(2)])
    outputs = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    # The loss is the plain MSE over the variance.
    assert module.loss(outputs, torch.tensor(ratings)).item() == pytest.approx(2.0 / 2.0)


def test_equal_ratings_are_not_divided_by_zero():
    mean, sd = standardisation(np.full((3, 2), 5.0))
    assert (mean.tolist(), sd.item()) == ([5.0, 5.0], 1.0)


def test_the_chosen_style_has_the_highest_rating_not_the_highest_standardised_one():
    mean = torch.tensor([9.0, 1.0])
    module = router("regression", target_mean=mean).eval()
    module.log = lambda *args, **kwargs: None
    targets = torch.zeros(2, 2)
    chosen = module.validation_step({**BATCH, "targets": targets}, 0)["chosen"]
    assert module(BATCH).argmax(dim=1).tolist() == [1, 1]
    assert chosen.tolist() == [0, 0]


def test_schedule_rises_in_a_line_and_falls_to_zero():
    shares = [linear_warmup_decay(step, 10, 0.2) for step in range(11)]
    assert shares[:4] == pytest.approx([1 / 3, 2 / 3, 1.0, 7 / 8])
    assert shares[9] == pytest.approx(1 / 8)
    assert shares[10] == 0.0
    assert linear_warmup_decay(0, 10, 0.0) == 1.0


def test_decay_spares_biases_and_norms():
    module = router()
    module.trainer = type("Trainer", (), {"estimated_stepping_batches": 10, "precision": "32-true"})()
    found = module.configure_optimizers()
    decayed, spared = found["optimizer"].param_groups
    assert [p.shape for p in decayed["params"]] == [(2, 2)]
    assert decayed["weight_decay"] == 0.5
    assert sorted(p.ndim for p in spared["params"]) == [0, 1]
    assert spared["weight_decay"] == 0.0
    assert found["lr_scheduler"]["interval"] == "step"
    assert found["optimizer"].param_groups[0]["lr"] == pytest.approx(0.1 / 3)


def test_token_dropout_hides_tokens_in_training_only():
    module = router(token_dropout=0.5)
    ids = torch.arange(1, 65).repeat(8, 1)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    torch.manual_seed(0)
    assert module.train()(batch)[:, 0].unique().numel() > 1
    assert module.eval()(batch)[:, 0].tolist() == [32.5] * 8
