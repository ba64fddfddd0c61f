import random

import pytest
import torch

from apm_lab.language.hf_body import Body
from apm_lab.language.hf_prefixes import Text, _families, shared_states
from apm_lab.language.hf_rows import Rows
from apm_lab.language.hf_weights import load_language_model


def body_of(folder):
    model = load_language_model(folder, None, "float32", "cpu").model
    return Body(model.base_model, model.config, "cpu")


@pytest.fixture
def body(tiny):
    return body_of(tiny)


def questions(count=4, answers=5, shared=60, common=0):
    """Texts of `count` questions that begin alike, each with answers of its own; the last state is wanted."""
    draw = random.Random(1)
    everywhere = [draw.randrange(3, 300) for _ in range(common)]
    texts = []
    for _ in range(count):
        prompt = everywhere + [draw.randrange(3, 300) for _ in range(shared)]
        for _ in range(answers):
            tokens = (*prompt, *(draw.randrange(3, 300) for _ in range(draw.randrange(1, 9))))
            texts.append(Text(tokens, len(tokens) - 1))
    draw.shuffle(texts)
    return texts


@pytest.mark.parametrize("place", ["tiny", "windowed", "recurrent"])
@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("common", [0, 20])
def test_states_are_those_of_each_text_alone(place, batch_size, common, request):
    body = body_of(request.getfixturevalue(place))
    texts = questions(common=common)
    texts += [texts[0], Text(texts[1].tokens, 0), Text((5,), 0)]  # one twice, one whose states are all wanted
    seen = []
    for places, offsets, hidden in shared_states(body, texts, batch_size):
        for row, (number, offset) in enumerate(zip(places, offsets, strict=True)):
            tokens, start = texts[number]
            assert offset <= start
            whole = Rows(body, 1).extend([tokens])[0]
            found = hidden[row, start - offset : len(tokens) - offset]
            assert torch.allclose(found, whole[start:], atol=2e-4)
            seen.append(number)
    assert sorted(seen) == list(range(len(texts)))


def test_each_question_is_read_once_though_all_begin_alike(body, monkeypatch):
    """The first 20 tokens are everyone's, and a family must not be made of those that share little more."""
    read, real = [], Body.hidden

    def counted(self, ids, *given):
        read.append(ids.numel())
        return real(self, ids, *given)

    monkeypatch.setattr(Body, "hidden", counted)
    texts = questions(count=6, answers=5, shared=100, common=20)
    nearly = [Text((*texts[0].tokens[:40], *range(3, 60)), 96)]  # shares the common part and some of one question
    list(shared_states(body, texts + nearly, 64))
    assert sum(read) <= 20 + 6 * 100 + 30 * 8 + 80


def test_families_are_those_that_save_most():
    # Texts 0..2 share 50 tokens, 3 and 4 share 60; the two groups share 20: apart they save 2 * 50 + 60.
    found = _families([50, 50, 20, 60], 0)
    assert (found.families, found.loose, found.saved) == ([[0, 1, 2], [3, 4]], [], 160)
    # Twenty texts that share 30 and of which two share 40: all together they save 19 * 30, more than 40.
    assert _families([30] * 18 + [40], 0).families == [list(range(20))]
    # The rest of a fork is a family too; what shares less than 16 tokens beyond the common ones is none.
    found = _families([90, 40, 40, 5], 0)
    assert (found.families, found.loose, found.saved) == ([[0, 1, 2, 3]], [4], 120)
    found = _families([200, 40, 40, 5], 0)
    assert (found.families, found.loose, found.saved) == ([[0, 1], [2, 3]], [4], 240)
    assert _families([30, 30], 20).families == []
    assert _families([], 0).loose == [0]


def test_no_texts_no_states(body):
    assert list(shared_states(body, [], 8)) == []
