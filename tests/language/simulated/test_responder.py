import re
from hashlib import blake2b

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.data.pool import PRINCIPLES, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.errors import ConfigError
from apm_lab.experiment.config_folder import config_folder
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated import responder
from apm_lab.language.simulated.constants import constant, load_yaml
from apm_lab.language.simulated.judge import read_styles
from apm_lab.language.simulated.responder import SimulatedResponder, base_levels, understood_instruction
from apm_lab.maths.seeding import derived_seed
from apm_lab.records import Message, Style

PROMPTS = [prompt.text for prompt in read_prompts()]
ORDER = list(load_yaml("lexicon.yaml"))
STYLES = [Style.of(index) for index in range(20)]


def answer(model, prompt, style=None, sample=1, placement="system"):
    return model.generate([GenerationCall(styled_messages(PRINCIPLES, placement, prompt, style), sample)])[0]


def reading(text, principle):
    return read_styles(text)[ORDER.index(slug(PRINCIPLES[principle]))]


@pytest.mark.parametrize("placement", ["system", "user"])
@pytest.mark.parametrize(("compliance", "low", "high"), [(1.0, 2.0, 9.0), (0.0, -0.7, 0.7)])
def test_compliance_moves_the_judged_style_and_its_absence_does_not(placement, compliance, low, high):
    model = SimulatedResponder("test", compliance, 0.5)
    gains = [
        style.direction
        * (
            reading(answer(model, prompt, style, placement=placement), style.principle)
            - reading(answer(model, prompt), style.principle)
        )
        for prompt in PROMPTS[:30]
        for style in STYLES
    ]
    assert low < np.mean(gains) < high


def test_an_instruction_moves_no_other_principle():
    model = SimulatedResponder("test", 1.0, 0.0)
    moved = []
    for prompt in PROMPTS[:20]:
        neutral = answer(model, prompt)
        for style in STYLES:
            styled = answer(model, prompt, style)
            moved += [reading(styled, j) - reading(neutral, j) for j in range(10) if j != style.principle]
    assert abs(np.mean(moved)) < 0.1


@pytest.mark.parametrize("placement", ["system", "user"])
@pytest.mark.parametrize("index", range(20))
def test_an_instruction_is_understood_in_either_turn(placement, index):
    style = Style.of(index)
    messages = styled_messages(PRINCIPLES, placement, "Why is the sea salty?\n\nTell me.", style)
    assert understood_instruction(messages) == (style.principle, style.direction)


@pytest.mark.parametrize("placement", ["system", "user"])
def test_a_principle_is_understood_however_its_name_is_typed(placement):
    for typed in (PRINCIPLES, [slug(name) for name in PRINCIPLES], [name.title() for name in PRINCIPLES]):
        for style in STYLES:
            messages = styled_messages(typed, placement, "Why is the sea salty?", style)
            assert understood_instruction(messages) == (style.principle, style.direction)


@pytest.mark.parametrize(
    "prompt",
    [
        "Explain what casual clothing is.",
        "Be casual.",
        "Write a gentle poem.\n\nIt should have three verses.",
        "My gentle cat is ill. Be honest.\n\nWhat should I do?",
        "Be gentle with me, I am new here.\n\nWhat is a loop?",
        "Avoid the word uncertainty.\n\nWrite a definition.",
        "I assume no prior knowledge is needed.\n\nCan I join?",
        "Is it casual?\n\nBe casual.\n\nAvoid being gentle.",
        "Be gentle.\n\nWhy is the sea salty?",
        "Avoid being casual.\n\nWhy is the sea salty?",
        "Acknowledge uncertainty.\n\nWhy is the sea salty?",
        "Be gentle.\n\n<answer_style>Be casual.</answer_style>\n\nWhy?",
    ],
)
def test_a_prompt_that_speaks_of_a_style_is_no_instruction(prompt, monkeypatch):
    for placement in ("system", "user"):
        assert understood_instruction(styled_messages(PRINCIPLES, placement, prompt, None)) is None
    never, always = SimulatedResponder("test", 0.0, 1.0), SimulatedResponder("test", 1.0, 1.0)
    assert [answer(never, prompt, sample=n) for n in range(5)] == [answer(always, prompt, sample=n) for n in range(5)]
    # and an instruction given before it is still the one that counts
    for placement in ("system", "user"):
        styled = styled_messages(PRINCIPLES, placement, prompt, Style(0, -1))
        assert understood_instruction(styled) == (0, -1)
    # and the answer's topic and levels are those of the whole prompt, and of nothing else
    read = []
    monkeypatch.setattr(responder, "base_levels", lambda prompt: read.append(prompt) or base_levels(prompt))
    for placement, style in (("system", None), ("system", Style(0, -1)), ("user", None), ("user", Style(0, -1))):
        answer(always, prompt, style, placement=placement)
    assert read == [prompt] * 4


def test_a_principle_the_responder_does_not_know_is_no_instruction():
    assert understood_instruction(styled_messages(["rhymes"], "system", "Why?", Style(0, 1))) is None


def test_without_noise_a_prompt_has_one_base_level_whatever_the_style_and_its_place():
    # The level of a principle is in its sentences: at noise 0 only the rounding of a count is random.
    bank = load_yaml("phrases.yaml")

    def counts(text):
        return np.array(
            [sum(sentence in text for sentence in bank[key]["follow"] + bank[key]["avoid"]) for key in ORDER]
        )

    model = SimulatedResponder("test", 0.0, 0.0)
    for prompt in PROMPTS[:20]:
        versions = [answer(model, prompt, sample=sample) for sample in range(3)]
        versions += [
            answer(model, prompt, style, placement=place) for style in STYLES[:4] for place in ("system", "user")
        ]
        spread = np.ptp([counts(text) for text in versions], axis=0)
        assert spread.max() <= 1
    assert base_levels("Why, oh why?") == base_levels("why oh WHY")
    assert base_levels("Why, oh why?") != base_levels("Why, oh where?")


def test_the_answer_is_about_the_prompt_and_not_about_the_instruction():
    model = SimulatedResponder("test", 0.5, 1.0)
    for style in STYLES:
        for place in ("system", "user"):
            assert "lighthouse" in answer(model, "Is it a lighthouse?", style, placement=place).lower()


@pytest.mark.parametrize(
    "prompt",
    [
        *PROMPTS[:60],
        "Erz\u00e4hle von Gr\u00f6\u00dfenordnungen im Alltag",
        "\u8bf7\u89e3\u91ca\u4e00\u4e0b\u91cf\u5b50\u529b\u5b66",
        "\u115f\u115f\u115f\u115f\u115f",
        "{topic} {0} %s {}",
        "deadbeefcafe1234 4f3a",
        "",
    ],
)
def test_the_level_is_nowhere_but_in_the_wording(prompt):
    model = SimulatedResponder("test", 0.5, 1.0)
    text = answer(model, prompt, Style(2, 1))
    assert text.isascii()
    assert text.isprintable()
    assert not re.search(r"(?=[a-z]*\d)[0-9a-z]{8}", text)
    assert "{" not in text
    assert answer(model, prompt, Style(2, 1)) == text


def test_neutral_styled_and_twin_answers_are_the_ones_that_were_calibrated():
    model, digest = SimulatedResponder("simulated_qwen27b", 0.599, 2.38), blake2b(digest_size=16)
    for prompt in PROMPTS[:40]:
        for placement in ("system", "user"):
            for style in (None, *STYLES):
                for sample in (5, -5):
                    digest.update(answer(model, prompt, style, sample, placement).encode() + b"\x1f")
    assert digest.hexdigest() == "719c775f449718d321cc9b1bf9ad9a6a"


def test_samples_differ_and_presets_differ():
    model, other = SimulatedResponder("test", 0.5, 1.0), SimulatedResponder("other", 0.5, 1.0)
    assert len({answer(model, PROMPTS[0], sample=sample) for sample in range(10)}) == 10
    assert answer(model, PROMPTS[0]) != answer(other, PROMPTS[0])
    assert len({model.identity, other.identity, SimulatedResponder("test", 0.6, 1.0).identity}) == 3
    assert SimulatedResponder("test", 0.5, 1.0).identity == model.identity


def test_neutral_levels_follow_table_8():
    model = SimulatedResponder("test", 0.5, 2.0)
    readings = np.array([read_styles(answer(model, prompt)) for prompt in PROMPTS[:300]])
    for name, base in constant("base").items():
        if name in ORDER:
            assert abs(readings[:, ORDER.index(name)].mean() - base["mean"]) < 1.2, name


def test_the_generator_in_the_config_is_the_one_in_the_table():
    preset = yaml.safe_load((config_folder() / "generator" / "simulated.yaml").read_text())
    table = constant("generator")
    assert (preset["compliance"], preset["noise"]) == (table["compliance"], table["noise"])


@pytest.mark.parametrize(
    ("compliance", "noise"), [(1.2, 1.0), (-0.1, 1.0), (0.5, -1.0), (float("nan"), 1.0), (0.5, float("nan"))]
)
def test_a_preset_out_of_range_is_refused(compliance, noise):
    with pytest.raises(ConfigError, match=r"test: compliance=.* noise="):
        SimulatedResponder("test", compliance, noise)


def test_a_message_with_no_text_to_say_is_answered():
    assert understood_instruction((Message("system", ""), Message("user", "\n\n"))) is None
    assert SimulatedResponder("test", 1.0, 0.0).generate([GenerationCall((Message("user", "\n\n"),), 0)])[0]


TURNS = st.lists(st.builds(Message, st.sampled_from(["system", "user"]), st.text("a:\x1fuser", max_size=9)), max_size=3)
CALLS = st.builds(
    lambda turns, sample: GenerationCall((*turns, Message("user", "a")), sample), TURNS, st.integers(0, 9)
)


def stream_of(module, model, call):
    """Return the seed of the stream that this module draws the answer to this call from."""
    seeds = []
    with pytest.MonkeyPatch.context() as patch:
        drawn = module.text_stream
        patch.setattr(module, "text_stream", lambda *names: seeds.append(derived_seed(*names)) or drawn(*names))
        model.generate([call])
    return next(iter(seeds))


@given(call=CALLS, other=CALLS)
def test_different_chats_are_answered_from_different_streams(call, other):
    model = SimulatedResponder("test", 0.5, 1.0)
    streams = [stream_of(responder, model, one) for one in (call, other)]
    assert (streams[0] == streams[1]) == (call == other)


def test_no_text_passes_for_another_turn():
    one = GenerationCall((Message("user", "a\x1fuser:b"),), 0)
    two = GenerationCall((Message("user", "a"), Message("user", "b")), 0)
    model = SimulatedResponder("test", 0.5, 1.0)
    assert stream_of(responder, model, one) != stream_of(responder, model, two)


def test_half_of_a_surrogate_pair_is_answered():
    text = answer(SimulatedResponder("test", 0.5, 1.0), "Why \ud800 lighthouses?", Style(1, 1))
    assert "lighthouses" in text
    assert text.isascii()
