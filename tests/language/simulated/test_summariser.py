import pytest

from apm_lab.data.pool import PRINCIPLES, guided_messages, slug
from apm_lab.errors import ConfigError
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import load_yaml
from apm_lab.language.simulated.responder import understood_instruction
from apm_lab.language.simulated.summariser import SimulatedSummariser
from apm_lab.methods.context import example_text, preference_text, prompt_text
from apm_lab.records import Message, Style

BANK = load_yaml("phrases.yaml")


def summary(text, sample=0):
    call = GenerationCall((Message("system", "Describe it."), Message("user", text)), sample)
    return SimulatedSummariser().generate([call])[0]


@pytest.mark.parametrize("index", range(20))
def test_the_responder_understands_what_the_summariser_says_of_pairs(index):
    style = Style.of(index)
    sides = [BANK[slug(PRINCIPLES[style.principle])][side][0] for side in ("follow", "avoid")]
    liked, disliked = sides if style.direction > 0 else sides[::-1]
    said = summary(example_text("Why?", liked, disliked))
    assert said.startswith("The user likes answers that ")
    assert PRINCIPLES[style.principle].split()[-1] in said
    messages = guided_messages("system", "Why?", preference_text(said))
    assert understood_instruction(messages) == (style.principle, style.direction)


def test_what_it_says_in_full():
    casual, uncertain = BANK["casual"], BANK["acknowledges_uncertainty"]
    said = [summary(example_text("Why?", side["follow"][0], side["avoid"][0])) for side in (casual, uncertain)] + [
        summary(example_text("Why?", side["avoid"][0], side["follow"][0])) for side in (casual, uncertain)
    ]
    assert said == [
        "The user likes answers that are casual.",
        "The user likes answers that acknowledge uncertainty.",
        "The user likes answers that avoid being casual.",
        "The user likes answers that avoid acknowledging uncertainty.",
    ]


def test_pairs_that_do_not_differ_say_so_and_mean_nothing():
    said = summary(example_text("Why?", "The same.", "The same."))
    assert said == "The answers that the user likes differ from the others in no clear way."
    assert understood_instruction(guided_messages("user", "Why?", preference_text(said))) is None


def test_a_way_of_writing_is_its_function_words_and_no_topic():
    prompts = [prompt_text("Could you please describe volcanoes to me?"), prompt_text("Volcanoes: WHAT IS the use?")]
    said = summary("\n\n".join(prompts))
    assert said == "The user writes: could you please describe, to me, what is the."
    assert summary("\n\n".join(prompts), 5) == said
    assert summary(prompt_text("Volcanoes erupt.")) == "The user writes in bare words."


def test_a_principle_that_it_does_not_know_is_named_beforehand():
    with pytest.raises(ConfigError, match="simulated summariser can't read 'rhymes'"):
        SimulatedSummariser().require([], ["casual", "rhymes"])
