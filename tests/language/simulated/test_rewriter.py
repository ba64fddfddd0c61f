import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.data.pool import Pool
from apm_lab.data.prompts import read_prompts
from apm_lab.errors import ConfigError
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated import rewriter
from apm_lab.language.simulated.rewriter import SimulatedRewriter, understood
from apm_lab.maths.seeding import derived_seed

PROMPTS = [prompt.text for prompt in read_prompts()]
POOL = Pool.chosen(10, None, None, "system")


def rewritten(attributes, prompt, sample=1, pool=POOL):
    return SimulatedRewriter().generate([GenerationCall(pool.rewriting_messages(attributes, prompt), sample)])[0]


def one(attribute, sign=1):
    return [sign if place == attribute else 0 for place in range(10)]


@pytest.mark.parametrize("prompt", [*PROMPTS[:40], "[not anxious] {braces} %s \u2028 \u00e9\n\nsecond paragraph"])
def test_the_neutral_prompt_stays_as_it_is(prompt):
    for attribute in range(10):
        assert prompt in rewritten(one(attribute), prompt)


def test_wording_shows_at_its_rate():
    # "could you" of the anxious: 1.13 / ln 4.4 = .763 a prompt; 2000 prompts, 4 s.e. = .038
    neutral = "Name three trees."
    shown = sum("could you" in rewritten(one(6), neutral, sample).lower() for sample in range(2000)) / 2000
    assert abs(shown - 0.763) < 0.038


def test_equal_calls_give_equal_texts_and_other_samples_others():
    texts = {rewritten(one(1), PROMPTS[0], sample) for sample in range(20)}
    assert len(texts) > 10
    assert rewritten(one(1), PROMPTS[0], 3) == rewritten(one(1), PROMPTS[0], 3)


def test_what_is_added_is_plain_printable_english():
    for attribute in range(10):
        for sign in (1, -1):
            text = rewritten(one(attribute, sign), "Name three trees.")
            assert text.isascii()
            assert text.isprintable()
            assert not re.search(r"[0-9a-f]{8}", text)


def test_the_instruction_is_read_with_its_signs():
    attributes = [0, 1, 0, 0, -1, 0, 0, 0, 1, 0]
    instruction = POOL.rewriting_messages(attributes, "Why?")[0].content
    assert understood(instruction) == ((1, 1), (4, -1), (8, 1))


def test_an_unknown_attribute_is_named():
    pool = Pool(("verbos",), ("casual",))
    with pytest.raises(ConfigError, match=r"verbos.*did you mean verbose"):
        rewritten([1], "Why?", pool=pool)


CALLS = st.tuples(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=10, max_size=10),
    st.text("a]\x1f\ud800", max_size=6),
    st.integers(0, 9),
)


@given(call=CALLS, other=CALLS)
def test_different_calls_are_rewritten_from_different_streams(call, other):
    """Though a stream's names are parted by U+001F and a prompt may hold it: the instruction before it never does."""
    seeds = []
    with pytest.MonkeyPatch.context() as patch:
        drawn = rewriter.text_stream
        patch.setattr(rewriter, "text_stream", lambda *names: seeds.append(derived_seed(*names)) or drawn(*names))
        assert call[1] in rewritten(*call)
        rewritten(*other)
    assert (seeds[0] == seeds[1]) == (call == other)
