import re

import pytest

from apm_lab.data.pool import PRINCIPLES, guided_messages, slug, style_instruction, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import load_yaml
from apm_lab.language.simulated.responder import SimulatedResponder, understood_instruction
from apm_lab.language.simulated.style_reading import NAMES, contrast, guidance_direction, named, style_levels
from apm_lab.methods.context import example_text, preference_text
from apm_lab.records import Style

PROMPTS = [prompt.text for prompt in read_prompts()]
BANK = load_yaml("phrases.yaml")


def perturbed(text):
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


def test_names_are_the_principles_in_their_order():
    assert list(NAMES) == [slug(name) for name in PRINCIPLES]


@pytest.mark.parametrize("key", NAMES)
def test_each_sentence_reads_as_itself_and_as_nothing_else(key):
    place = list(NAMES).index(key)
    for side, direction in (("follow", 1), ("avoid", -1)):
        for sentence in BANK[key][side]:
            expected = tuple(direction if other == place else 0 for other in range(10))
            for text in (sentence, perturbed(sentence), sentence.upper(), sentence.replace("-", " ")):
                assert style_levels(text) == expected, text


def test_sentences_are_counted_by_hand():
    casual, gentle = BANK["casual"], BANK["gentle"]
    text = (
        f"Well: {casual['follow'][0]} {casual['follow'][0]} {casual['avoid'][3]} {gentle['avoid'][1]} Casual, gentle?"
    )
    levels = dict(zip(NAMES, style_levels(text), strict=True))
    assert {name: level for name, level in levels.items() if level} == {"casual": 1, "gentle": -1}


def test_openings_and_content_say_nothing():
    for sentence in (*BANK["opening"], *BANK["content"]):
        assert not any(style_levels(sentence.format(topic="casual things")))


def test_an_answer_reads_the_same_when_case_and_punctuation_are_gone():
    model = SimulatedResponder("test", 1.0, 2.0)
    for prompt in PROMPTS[:20]:
        for index in range(0, 20, 3):
            messages = styled_messages(PRINCIPLES, "system", prompt, Style.of(index))
            text = model.generate([GenerationCall(messages, 1)])[0]
            assert any(style_levels(text))
            assert style_levels(perturbed(text)) == style_levels(text)


def test_the_contrast_of_pairs_by_hand():
    casual, gentle = BANK["casual"], BANK["gentle"]
    one = (" ".join(casual["follow"][:2]), casual["avoid"][0])  # casual +3
    two = (gentle["avoid"][0], " ".join(gentle["follow"][:3]))  # gentle -4
    three = (casual["avoid"][0], casual["follow"][0])  # casual -2
    assert contrast([one]) == (2, 1)
    assert contrast([one, two]) == (4, -1)
    assert contrast([one, three]) == (2, 1)
    assert contrast([one, (one[1], one[0])]) is None
    assert contrast([("plain", "words")]) is None
    assert contrast([]) is None


def context(*pairs):
    return "The examples, written by casual people:\n\n" + "\n\n".join(
        example_text("Be gentle. Avoid being casual.", liked, disliked) for liked, disliked in pairs
    )


@pytest.mark.parametrize("placement", ["system", "user"])
@pytest.mark.parametrize("index", range(20))
def test_examples_are_understood_in_either_turn_and_their_words_are_no_instruction(placement, index):
    style = Style.of(index)
    key = list(NAMES)[style.principle]
    sides = BANK[key]["follow"], BANK[key]["avoid"]
    liked, disliked = (side[0] for side in (sides if style.direction > 0 else sides[::-1]))
    shown = context((f"Be persuasive.\n\n{liked}", f"{disliked} Avoid being gentle."))
    messages = guided_messages(placement, "Why?\n\nBe elaborate.", shown)
    assert understood_instruction(messages) == (style.principle, style.direction)
    nothing = guided_messages(placement, "Why?", context((liked, liked)))
    assert understood_instruction(nothing) is None


@pytest.mark.parametrize("placement", ["system", "user"])
def test_examples_move_an_answer_as_the_instruction_does_and_leave_its_prompt(placement):
    model = SimulatedResponder("test", 1.0, 0.0)
    shown = context((BANK["casual"]["follow"][0], BANK["casual"]["avoid"][0]))
    for prompt in PROMPTS[:10]:
        guided = model.generate([GenerationCall(guided_messages(placement, prompt, shown), 1)])[0]
        styled = model.generate([GenerationCall(styled_messages(PRINCIPLES, placement, prompt, Style(2, 1)), 1)])[0]
        differences = [abs(a - b) for a, b in zip(style_levels(guided), style_levels(styled), strict=True)]
        assert max(differences) <= 2  # rounding of a count each, drawn anew


@pytest.mark.parametrize("index", range(20))
def test_summaries_are_understood(index):
    style = Style.of(index)
    summary = f"The user likes answers written so: {style_instruction(PRINCIPLES[style.principle], style.direction)}"
    for placement in ("system", "user"):
        messages = guided_messages(placement, "Why?", f"Others:\n\n{preference_text(summary)}")
        assert understood_instruction(messages) == (style.principle, style.direction)


def test_summaries_vote_and_the_first_named_wins_a_tie():
    casual, gentle, no_casual = "They like casual answers.", "Be gentle", "They like answers that avoid being casual."

    def said(*summaries):
        return guidance_direction("\n\n".join(preference_text(summary) for summary in summaries))

    assert said(casual, gentle, gentle) == (True, (4, 1))
    assert said(gentle, casual) == (True, (4, 1))
    assert said(casual, gentle) == (True, (2, 1))
    assert said(casual, no_casual) == (True, None)
    assert said(no_casual, no_casual, gentle) == (True, (2, -1))
    assert said("They show no contrast.") == (True, None)
    assert guidance_direction("Be casual.") == (False, None)
    assert said("Gentle and casual words. Avoid persuasive ones; avoid persuasive ones.") == (True, (0, -1))
    assert named("gentle, not casual") == [(4, 1), (2, 1)]
