import math

import pytest
import torch
from torch import multiprocessing

from apm_lab.training.metrics import Delta, WinLoss, WinRate

DIFFERENCES = torch.tensor([2.0, -1.0, 1e-10, 0.5, -1e-10, 3.0, -4.0])


def filled(kind, differences, known=None):
    metric = kind()
    metric.update(differences, known)
    return metric.compute().item()


def test_hand_worked_numbers():
    assert filled(Delta, DIFFERENCES) == pytest.approx(0.5 / 7)
    assert filled(WinLoss, DIFFERENCES) == 3 / 2
    assert filled(WinRate, DIFFERENCES) == (3 + 1) / 7


def test_missing_differences_are_left_out_and_never_zero():
    known = torch.tensor([True, True, False, False, True, False, False])
    assert filled(Delta, DIFFERENCES, known) == pytest.approx(1 / 3)
    assert filled(WinLoss, DIFFERENCES, known) == 1.0
    assert filled(WinRate, DIFFERENCES, known) == 0.5
    # What stands in a missing place has no say, not even NaN.
    hidden = torch.tensor([1.0, math.nan])
    assert filled(Delta, hidden, torch.tensor([True, False])) == 1.0


@pytest.mark.parametrize(
    ("differences", "ratio", "rate"),
    [([1.0, 2.0, 0.0], math.inf, 2.5 / 3), ([-1.0], 0.0, 0.0), ([0.0, 0.0], math.nan, 0.5), ([], math.nan, math.nan)],
)
def test_no_losses_is_inf_and_no_decided_users_nan(differences, ratio, rate):
    values = torch.tensor(differences)
    assert filled(WinLoss, values) == pytest.approx(ratio, nan_ok=True)
    assert filled(WinRate, values) == pytest.approx(rate, nan_ok=True)


def test_ties_reach_to_a_billionth():
    assert filled(WinLoss, torch.tensor([1.0001e-9, 0.9999e-9, -1.0], dtype=torch.float64)) == 1.0
    assert filled(WinRate, torch.tensor([1.0001e-9, 0.9999e-9, -1.0], dtype=torch.float64)) == 0.5


def test_batches_add_up_and_reset_forgets():
    for kind in (Delta, WinLoss, WinRate):
        metric = kind()
        for part in DIFFERENCES.split(2):
            metric.update(part)
        assert metric.compute().item() == filled(kind, DIFFERENCES)
        metric.reset()
        metric.update(torch.tensor([1.0, -1.0]))
        assert metric.compute().item() == {Delta: 0.0, WinLoss: 1.0, WinRate: 0.5}[kind]


def test_a_wrong_mask_and_a_known_nan_are_refused():
    with pytest.raises(ValueError, match=r"\(2,\), the differences \(7,\)"):
        Delta().update(DIFFERENCES, torch.tensor([True, False]))
    with pytest.raises(ValueError, match="NaN"):
        WinRate().update(torch.tensor([math.nan]))


def one_process(rank, store, results):
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    # An unequal split: a mean of process means, or of process ratios, would differ.
    part = DIFFERENCES[:2] if rank == 0 else DIFFERENCES[2:]
    figures = [filled(kind, part) for kind in (Delta, WinRate, WinLoss)]
    torch.save(torch.tensor(figures, dtype=torch.float64), f"{results}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    multiprocessing.spawn(one_process, args=(tmp_path / "store", tmp_path), nprocs=2)
    expected = [filled(kind, DIFFERENCES) for kind in (Delta, WinRate, WinLoss)]
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt", weights_only=True).tolist() == expected
