import numpy as np
import pytest
import torch

from apm_lab.errors import ConfigError
from apm_lab.training.history_datamodule import HistoryDataModule, LengthBucketSampler, Split, pad

LENGTHS = [int(length) for length in np.random.default_rng(0).integers(5, 200, 101)]


def epoch_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_history_comes_exactly_once_over_all_processes(world):
    for epoch in range(3):
        shards = [epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1, rank=r, world=world), epoch) for r in range(world)]
        assert sorted(index for shard in shards for batch in shard for index in batch) == list(range(101))
        # As many batches for each process: none waits for a gradient that never comes.
        assert len({len(shard) for shard in shards}) == 1
        sizes = {len(batch) for shard in shards for batch in shard}
        assert max(sizes) <= 8
        assert max(sizes) - min(sizes) <= 1


def test_batch_count_is_the_smallest_that_fits():
    assert len(LengthBucketSampler(LENGTHS, 8, seed=1)) == 13
    assert len(LengthBucketSampler(LENGTHS, 8, seed=1, world=2)) == 7
    assert len(LengthBucketSampler([3, 3], 8, seed=1)) == 1
    assert list(LengthBucketSampler([], 8, seed=1)) == []


def test_order_and_membership_change_with_epoch_and_seed_only():
    first = epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1), 0)
    np.random.seed(5)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1), 0) == first
    assert torch.equal(torch.get_rng_state(), state)
    second = epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1), 1)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    assert epoch_of(LengthBucketSampler(LENGTHS, 8, seed=2), 0) != first


def test_batches_hold_similar_lengths():
    def padding(batches):
        tokens = sum(max(LENGTHS[i] for i in batch) * len(batch) for batch in batches)
        return 1 - sum(LENGTHS) / tokens

    random_order = np.random.default_rng(0).permutation(101)
    assert padding(np.array_split(random_order, 13)) > 0.4
    assert padding(epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1), 0)) < 0.2
    assert 0.2 < padding(epoch_of(LengthBucketSampler(LENGTHS, 8, seed=1, batches_per_bucket=2), 0)) < 0.35
    assert padding(LengthBucketSampler(LENGTHS, 8, seed=1, shuffle=False)) < 0.1


def test_impossible_shards_are_refused():
    with pytest.raises(ConfigError, match="1 histories can't be shared by 2 processes"):
        LengthBucketSampler([4], 8, seed=1, world=2)
    with pytest.raises(ConfigError, match="batch_size is 0"):
        LengthBucketSampler([4], 0, seed=1)


def test_padding_goes_to_the_longest_of_the_batch():
    batch = pad([(7, [5, 6], torch.tensor(1)), (3, [8, 9, 4], torch.tensor(0))], pad_id=2)
    assert batch["input_ids"].tolist() == [[5, 6, 2], [8, 9, 4]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["index"].tolist() == [7, 3]
    assert batch["targets"].tolist() == [1, 0]


def test_loaders_carry_each_target_with_its_history():
    tokens = [[label] * (label + 1) for label in range(10)]
    module = HistoryDataModule(
        Split(tokens, np.arange(10)), Split(tokens[:3], np.arange(3)), batch_size=4, pad_id=0, seed=3
    )
    for loader, users in ((module.train_dataloader(), 10), (module.val_dataloader(), 3)):
        seen = []
        for batch in loader:
            assert batch["targets"].dtype == torch.long
            assert batch["input_ids"][:, 0].tolist() == batch["targets"].tolist() == batch["index"].tolist()
            assert batch["attention_mask"].sum(1).tolist() == (batch["targets"] + 1).tolist()
            seen += batch["index"].tolist()
        assert sorted(seen) == list(range(users))


def test_ratings_become_float32_rows():
    ratings = np.arange(8.0).reshape(4, 2)
    module = HistoryDataModule(Split([[1]] * 4, ratings), batch_size=4, pad_id=0, seed=3, objective="regression")
    (batch,) = module.train_dataloader()
    assert batch["targets"].dtype == torch.float32
    assert batch["targets"].tolist() == ratings[batch["index"]].tolist()
    assert module.val_dataloader() == []


def test_a_split_needs_one_target_a_history():
    with pytest.raises(ValueError, match="2 token lists, 3 targets"):
        Split([[1], [2]], np.zeros(3))
