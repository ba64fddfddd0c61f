import pytest

from apm_lab.data.store import Store
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.methods.views import StyledTexts
from apm_lab.records import Message, Style


class Echo:
    engine, sampling, identity = "simulated", "{}", "echo@1"

    def __init__(self):
        self.calls = []

    def generate(self, calls):
        self.calls += calls
        return [f"{len(call.messages)} {call.sample}" for call in calls]


class Counts(Echo):
    here = True

    def count_tokens(self, texts):
        return sum(len(text.split()) for text in texts) if self.here else None


def handle(folder, model, placement):
    stored = StoredTexts(model, Store(folder / "store").texts, CallCounts())
    return StyledTexts(stored, (11, 22), (("a", "b"), ("c", "d")), ("casual",), placement)


@pytest.mark.parametrize(
    ("placement", "chat"),
    [
        ("system", (Message("system", "Like\n\nthis."), Message("user", "d"))),
        ("user", (Message("user", "<answer_style>Like\n\nthis.</answer_style>\n\nd"),)),
    ],
)
def test_guidance_stands_where_a_style_instruction_does(tmp_path, placement, chat):
    model = Echo()
    texts = handle(tmp_path, model, placement)
    assert texts.generate_guided([(1, 1, "Like\n\nthis.")]) == [f"{len(chat)} 22"]
    assert [(call.messages, call.sample) for call in model.calls] == [(chat, 22)]
    # the same words as a style's instruction are the same call
    styled = texts.generate([(0, 0, Style(0, 1), 0)])
    assert texts.generate_guided([(0, 0, "Be casual.")]) == styled
    assert len(model.calls) == 2


def test_tokens_are_the_models_or_a_quarter_of_the_characters(tmp_path):
    assert handle(tmp_path, Echo(), "system").count_tokens("123456789") == 3
    model = Counts()
    assert handle(tmp_path, model, "system").count_tokens("one two three four") == 4
    model.here = False
    assert handle(tmp_path, model, "system").count_tokens("one two three four") == 5


def test_prompts_and_numbers_can_be_read(tmp_path):
    texts = handle(tmp_path, Echo(), "system")
    assert (texts.prompt(1, 0), texts.numbers) == ("c", (11, 22))
