import pytest

from apm_lab.data.store import Store
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.records import Message


class Echo:
    engine = "simulated"
    sampling = "{}"

    def __init__(self, identity="echo@1"):
        self.identity, self.calls = identity, []

    def generate(self, calls):
        self.calls += calls
        return [f"{call.messages[-1].content}/{call.sample}" for call in calls]


def call(text, sample=0):
    return GenerationCall((Message("user", text),), sample)


@pytest.fixture
def stored(tmp_path):
    model, counts = Echo(), CallCounts()
    return StoredTexts(model, Store(tmp_path / "s.sqlite").texts, counts), model, counts


def test_a_call_is_made_once(stored):
    texts, model, counts = stored
    assert texts.generate([call("a"), call("b"), call("a"), call("a", 1)]) == ["a/0", "b/0", "a/0", "a/1"]
    assert texts.generate([call("b")]) == ["b/0"]
    assert len(model.calls) == 3
    assert (counts.asked, counts.made) == (5, 3)


def test_the_first_writers_text_counts(stored):
    texts, model, _ = stored

    def late(calls):
        texts._shelf.put([(texts.key(one), "the other job's") for one in calls])
        return ["mine"] * len(calls)

    model.generate = late
    assert texts.generate([call("a")]) == ["the other job's"]


def test_the_key_depends_on_what_spec_names_and_on_nothing_else(tmp_path):
    shelf = Store(tmp_path / "s.sqlite").texts

    def key(model=None, messages=(("user", "a"),), sample=0):
        chat = tuple(Message(*pair) for pair in messages)
        return StoredTexts(model or Echo(), shelf, CallCounts()).key(GenerationCall(chat, sample))

    assert key() == key()
    other_engine, other_sampling = Echo(), Echo()
    other_engine.engine, other_sampling.sampling = "hf", '{"t": 1}'
    different = [
        key(),
        key(Echo("echo@2")),
        key(other_engine),
        key(other_sampling),
        key(sample=1),
        key(messages=(("system", "a"),)),
        key(messages=(("user", "b"),)),
        key(messages=(("user", "a"), ("user", ""))),
        key(messages=(("user", "a\x1fb"),)),
    ]
    assert len(set(different)) == len(different)
