from collections import Counter
from random import Random

import pytest
import torch

from apm_lab.language.hf_sampling import Sampling, next_tokens

PLAIN = Sampling(1.0, 1.0, 1.0, 8)
# P = 1/2, 1/4, 1/8, 1/8
LOGITS = torch.tensor([[4.0, 2.0, 1.0, 1.0]]).log()


def shares(logits, sampling, draws=4000, column=None):
    rows = logits.expand(draws, -1)
    found = Counter(next_tokens(rows, sampling, [Random(seed) for seed in range(draws)], None))
    return [found[token] / draws for token in range(logits.shape[1])]


def test_tokens_are_drawn_at_their_probabilities():
    assert shares(LOGITS, PLAIN) == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.03)


def test_temperature_sharpens():
    # squares: 16, 4, 1, 1 of 22
    assert shares(LOGITS, Sampling(0.5, 1.0, 1.0, 8)) == pytest.approx([16 / 22, 4 / 22, 1 / 22, 1 / 22], abs=0.03)
    assert next_tokens(LOGITS, Sampling(0.0, 1.0, 1.0, 8), [Random(0)], None) == [0]


def test_a_nucleus_keeps_the_fewest_tokens_that_reach_it():
    assert shares(LOGITS, Sampling(1.0, 0.7, 1.0, 8)) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=0.03)
    assert shares(LOGITS, Sampling(1.0, 0.5, 1.0, 8)) == [1, 0, 0, 0]


def test_a_nucleus_wider_than_the_first_look_is_whole():
    flat = torch.zeros(1, 2000)
    found = next_tokens(flat.expand(3000, -1), Sampling(1.0, 0.9, 1.0, 8), list(map(Random, range(3000))), None)
    assert 1300 < len(set(found)) <= 1800  # nine tenths of 2000, most of them met in 3000 draws


def test_large_vocabularies_are_drawn_from_evenly():
    found = next_tokens(torch.zeros(4000, 1000), PLAIN, list(map(Random, range(4000))), None)
    assert max(found) < 1000
    assert sum(found) / len(found) == pytest.approx(499.5, abs=15)


def test_a_token_without_probability_is_never_drawn():
    logits = torch.full((2000, 700), -torch.inf)
    logits[:, [3, 300]] = 0.0
    assert set(next_tokens(logits, PLAIN, list(map(Random, range(2000))), None)) == {3, 300}
    top = Random(0)
    top.random = lambda: 1 - 2**-53  # the largest number a stream gives
    assert next_tokens(logits[:1], PLAIN, [top], None) == [300]
    assert next_tokens(logits[:1], Sampling(1.0, 0.99, 1.0, 8), [top], None)[0] in (3, 300)


def test_repetition_is_held_down_as_transformers_does():
    # 2 / 1.5 = 1.33 falls behind 1.4; a negative logit is multiplied
    logits = torch.tensor([[2.0, 1.4, -1.0]])
    greedy = Sampling(0.0, 1.0, 1.5, 8)
    assert next_tokens(logits, greedy, [Random(0)], torch.tensor([[True, False, False]])) == [1]
    assert next_tokens(logits, greedy, [Random(0)], torch.tensor([[False, False, True]])) == [0]
    down = torch.tensor([[-1.0, -1.2]])
    assert next_tokens(down, greedy, [Random(0)], torch.tensor([[True, False]])) == [1]
