import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.language.protocols import Answer, GenerationCall, Usage
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
    assert (counts.asked, counts.made) == (4, 3)
    assert texts.generate([call("b")]) == ["b/0"]
    assert texts.generate([call("c"), call("b")]) == ["c/0", "b/0"]
    assert [(one.messages[0].content, one.sample) for one in model.calls] == [("a", 0), ("b", 0), ("a", 1), ("c", 0)]
    assert (counts.asked, counts.made) == (7, 4)


def test_nothing_asked_is_nothing_made(stored):
    texts, model, counts = stored
    assert texts.generate([]) == []
    assert (model.calls, counts.asked, counts.made) == ([], 0, 0)


def test_another_run_on_the_same_store_makes_no_call(stored, tmp_path):
    texts, _, _ = stored
    texts.generate([call("a"), call("b")])
    model, counts = Echo(), CallCounts()
    again = StoredTexts(model, Store(tmp_path / "s.sqlite").texts, counts)
    assert again.generate([call("b"), call("a")]) == ["b/0", "a/0"]
    assert (model.calls, counts.asked, counts.made) == ([], 2, 0)


def test_the_first_writers_text_counts(stored):
    texts, model, counts = stored

    def late(calls):
        texts.shelf.put([(texts.key(one), "the other job's") for one in calls[:1]])
        return ["mine"] * len(calls)

    model.generate = late
    assert texts.generate([call("a"), call("b")]) == ["the other job's", "mine"]
    assert counts.made == 2  # it was paid for all the same
    assert texts.generate([call("a")]) == ["the other job's"]


def test_a_model_that_fails_leaves_nothing_behind(stored):
    texts, model, _ = stored
    model.generate = lambda calls: ["one answer too few"] * (len(calls) - 1)
    with pytest.raises(DataError, match="answers to 2 calls"):
        texts.generate([call("a"), call("b")])
    assert texts.shelf.count() == 0


def test_an_answer_that_is_no_unicode_text_is_named_and_not_kept(stored):
    texts, _, _ = stored
    with pytest.raises(DataError, match=r"echo@1 answered with half of a surrogate pair \('\\ud800'\)"):
        texts.generate([call("a"), call("b \ud800")])
    assert texts.shelf.count() == 0


@pytest.mark.parametrize("blank", ["", " \n"])
def test_an_answer_without_text_is_what_the_model_said_and_is_counted(stored, blank):
    texts, model, counts = stored
    model.generate = lambda calls: [blank if one.messages[-1].content == "b" else "fine" for one in calls]
    for _ in range(2):
        assert texts.generate([call("a"), call("b"), call("c")]) == ["fine", blank, "fine"]
    assert (counts.made, counts.blank) == (3, 1)


def test_a_model_most_of_whose_answers_hold_no_text_is_named_with_what_to_set(stored):
    texts, model, counts = stored
    model.generate = lambda calls: ["" if one.sample % 3 else "fine" for one in calls]
    assert len(texts.generate([call("a", sample) for sample in range(19)])) == 19  # too few to tell
    with pytest.raises(DataError, match=r"echo@1 gave no text in 13 of 20 answers.*max_tokens.*thinking.*answer_after"):
        texts.generate([call("a", 19)])
    assert counts.made == 20  # it was paid for too
    assert texts.shelf.count() == 19


def test_the_key_depends_on_what_spec_names_and_on_nothing_else(tmp_path):
    shelf = Store(tmp_path / "s.sqlite").texts

    def key(model=None, messages=(("user", "a"),), sample=0):
        chat = tuple(Message(*pair) for pair in messages)
        return StoredTexts(model or Echo(), shelf, CallCounts()).key(GenerationCall(chat, sample))

    class Elsewhere(Echo):
        """Another class with an address and a role of its own."""

        address, role, name = "http://elsewhere:8000", "generator", "another"

    elsewhere = StoredTexts(Elsewhere(), Store(tmp_path / "other.sqlite").texts, CallCounts(asked=5, made=3))
    assert key() == key() == elsewhere.key(call("a"))
    assert len(key()) == 16
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
        key(messages=(("user", ""), ("user", "a"))),
        key(messages=(("user", "a\x1fb"),)),
        key(messages=(("user", "a\ud800"),)),
        key(messages=(("user", "A"),)),
    ]
    assert len(set(different)) == len(different)


def test_no_content_passes_for_another_turn(stored):
    texts, _, _ = stored
    one = GenerationCall((Message("user", "a\x1euser\x1fb"),), 0)
    two = GenerationCall((Message("user", "a"), Message("user", "b")), 0)
    assert texts.key(one) != texts.key(two)


MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["system", "user"]), st.text("a1\x1e\x1fuser", max_size=12)), max_size=3
)
CALLS = st.builds(lambda messages, sample: GenerationCall(tuple(messages), sample), MESSAGES, st.integers(0, 12))


@given(one=CALLS, other=CALLS)
def test_different_calls_have_different_keys(tmp_path_factory, one, other):
    texts = StoredTexts(Echo(), Store(tmp_path_factory.getbasetemp() / "keys.sqlite").texts, CallCounts())
    assert (texts.key(one) == texts.key(other)) == (one == other)


class Streamed(Echo):
    """Answers in reverse, two at a time, and breaks off after `until` groups."""

    def __init__(self, until=99, leave_out=0):
        super().__init__()
        self.until, self.leave_out = until, leave_out

    def stream(self, calls):
        self.calls += calls
        answers = [
            Answer(place, f"{one.messages[-1].content}/{one.sample}", Usage(10, 2)) for place, one in enumerate(calls)
        ]
        answers = answers[self.leave_out :][::-1]
        for group, start in enumerate(range(0, len(answers), 2)):
            if group == self.until:
                raise DataError("the line broke")
            yield answers[start : start + 2]


def test_answers_that_come_in_any_order_reach_their_calls_and_their_tokens_are_counted(tmp_path):
    counts = CallCounts()
    texts = StoredTexts(Streamed(), Store(tmp_path / "s.sqlite").texts, counts)
    assert texts.generate([call("a"), call("b"), call("c"), call("a")]) == ["a/0", "b/0", "c/0", "a/0"]
    assert (counts.asked, counts.made, counts.tokens_in, counts.tokens_out) == (4, 3, 30, 6)


def test_what_came_before_the_line_broke_is_not_asked_again(tmp_path):
    shelf, wanted = Store(tmp_path / "s.sqlite").texts, [call(name) for name in "abcde"]
    with pytest.raises(DataError, match="the line broke"):
        StoredTexts(Streamed(until=2), shelf, CallCounts()).generate(wanted)
    model = Streamed()
    assert StoredTexts(model, shelf, CallCounts()).generate(wanted) == ["a/0", "b/0", "c/0", "d/0", "e/0"]
    assert [one.messages[0].content for one in model.calls] == ["a"]


def test_a_call_left_unanswered_is_a_fault_and_the_others_are_kept(tmp_path):
    shelf = Store(tmp_path / "s.sqlite").texts
    with pytest.raises(DataError, match="echo@1 gave 2 answers to 3 calls"):
        StoredTexts(Streamed(leave_out=1), shelf, CallCounts()).generate([call(name) for name in "abc"])
    assert shelf.count() == 2
