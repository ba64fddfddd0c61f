import math

import pytest
import torch

from apm_lab.language import hf_engine
from apm_lab.language.hf import HfModel
from apm_lab.language.hf_choices import without_longer
from apm_lab.language.hf_network import Network
from apm_lab.language.protocols import ChoiceCall
from apm_lab.records import Message

RATINGS = tuple(str(rating) for rating in range(1, 11))
TEXTS = [
    "It keeps you fit and it is fun.",
    "The answer is that the text follow this principle, why should I learn it? " * 2,
    "It keeps you fit and it is not fun at all to learn to swim, says the answer.",
]
QUESTIONS = [f"How strongly does the text follow this principle: {name}?" for name in ("casual", "fun", "2", "fit")]


def judged():
    """The questions about each text: the text comes first."""
    rule = Message("system", "Rate the text from 1 to 10. Be casual.")
    return [
        ChoiceCall((rule, Message("user", f"{text}\n{question}")), RATINGS) for text in TEXTS for question in QUESTIONS
    ]


def likelihoods():
    """Each text under two instructions."""
    return [
        ChoiceCall((Message("user", instruction),), (text,))
        for text in TEXTS
        for instruction in ("Be casual.", "Avoid being casual.")
    ]


def mixed():
    return [
        ChoiceCall((Message("user", "It is fun."),), ("fit and fun", "fit and casual", "fit", "2 3 4", "2 3 5")),
        ChoiceCall((Message("user", "It is fun."),), ("fit",)),
        *judged()[:1],
        *likelihoods()[:1],
    ]


def by_hand(place, call):
    """Return log-probabilities from one plain pass of the whole model per answer."""
    engine = hf_engine.load_engine(place, None, "float32", "cpu")
    network = hf_engine.load_language_model(place, None, "float32", "cpu").model
    (prompt,) = engine.encoder.prompts([call.messages], 0)
    values = []
    for answer in engine.encoder.answers(call.answers):
        with torch.inference_mode():
            logs = network(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
        values.append(sum(float(logs[len(prompt) - 1 + step, token]) for step, token in enumerate(answer)))
    return values


@pytest.mark.parametrize("place", ["tiny", "windowed", "recurrent"])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
@pytest.mark.parametrize("asked", [judged, likelihoods, mixed])
def test_they_are_those_of_a_plain_pass(place, batch_size, asked, request):
    folder = request.getfixturevalue(place)
    model = HfModel(folder, dtype="float32", device="cpu", batch_size=batch_size)
    calls = asked()
    found = {answer.place: answer.value for group in model.log_probabilities(calls) for answer in group}
    assert sorted(found) == list(range(len(calls)))
    for number, call in enumerate(calls):
        assert found[number] == pytest.approx(by_hand(folder, call), abs=2e-3)


def test_a_rating_of_two_digits_is_two_tokens(tiny):
    engine = hf_engine.load_engine(tiny, None, "float32", "cpu")
    assert [len(tokens) for tokens in engine.encoder.answers(("1", "9", "10"))] == [1, 1, 2]


def test_what_questions_share_is_read_once(tiny, monkeypatch):
    """The tokens that the model reads for ten questions about each text, against the tokens they have."""
    read, real = [], Network.hidden

    def counted(self, ids, *given):
        read.append(ids.numel())
        return real(self, ids, *given)

    engine = hf_engine.load_engine(tiny, None, "float32", "cpu")
    monkeypatch.setattr(Network, "hidden", counted)
    calls = [
        ChoiceCall((Message("user", f"{text * 3}\nfit {word}?"),), RATINGS)
        for text in TEXTS
        for word in ["Rate", "the", "text", "from", "it", "fun", "Why", "Be", "casual"]
    ]
    list(HfModel(tiny, dtype="float32", device="cpu").log_probabilities(calls))
    whole = sum(map(len, engine.encoder.prompts([call.messages for call in calls], 0)))
    assert sum(read) < whole / 3


def test_logits_are_made_for_the_wanted_positions_only(tiny, monkeypatch):
    rows, real = [], Network.logits
    monkeypatch.setattr(Network, "logits", lambda self, hidden: rows.append(len(hidden)) or real(self, hidden))
    list(HfModel(tiny, dtype="float32", device="cpu").log_probabilities(judged()))
    assert sum(rows) == 2 * len(judged())  # where the answer begins, and behind "1" for the "0" of "10"


def test_a_choice_without_the_longer_ones_by_hand():
    # P(1) = .6 holds P(10) = .2 and P(100) = .05 of it: .4 is left for "1", .15 for "10".
    tokens = [[1], [1, 0], [1, 0, 0], [2]]
    left = without_longer([math.log(p) for p in (0.6, 0.2, 0.05, 0.3)], tokens)
    assert [math.exp(value) for value in left] == pytest.approx([0.4, 0.15, 0.05, 0.3])
