"""What the simulated language model learns from: chats, with or without a style instruction, and answers to them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from apm_lab.data.pool import PRINCIPLES, style_instruction, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import constant, load_yaml
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.records import Message, Style

__all__ = ["CHAT_TEMPLATE", "Lesson", "lessons", "lm_tokenizer"]

CHAT_TEMPLATE = (
    "{% for turn in messages %}<|{{ turn['role'] }}|>{{ turn['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
_END, _PAD = "<|end|>", "<|pad|>"
_WORD_PIECES = 2000
_FEW_WORDS = 8


@dataclass(frozen=True, slots=True)
class Lesson:
    """A chat and the answer to it."""

    messages: tuple[Message, ...]
    answer: str


def lessons(count: int, seed: int) -> list[Lesson]:
    """Return `count` lessons: packaged prompts, one in five without an instruction, the others over all styles.

    Three prompts in four are cut to their first words, so that the instruction, which is what there is to learn, is not
    lost in them. It stands in the system turn half of the time, else in the user turn. The writer is the simulated
    generator.
    """
    random, table = Random(seed), constant("generator")
    writer = SimulatedResponder("simulated_lm", table["compliance"], table["noise"])
    prompts = [prompt.text for prompt in read_prompts(None)]
    calls = []
    for number in range(count):
        style = None if number % 5 == 0 else Style.of(random.randrange(2 * len(PRINCIPLES)))
        placement = "system" if random.random() < 0.5 else "user"
        prompt = random.choice(prompts)
        if random.random() < 0.75:
            prompt = " ".join(prompt.split()[:_FEW_WORDS])
        calls.append(GenerationCall(styled_messages(PRINCIPLES, placement, prompt, style), sample=number))
    answers = writer.generate(calls)
    return [Lesson(call.messages, answer) for call, answer in zip(calls, answers, strict=True)]


def lm_tokenizer() -> Any:  # noqa: ANN401 (transformers' own)
    """Return the tokenizer: a token for every stock phrase and instruction, byte pairs of the prompts for the rest.

    An answer of 25 sentences is then about 35 tokens, which is what lets the model be trained and asked on a laptop.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_WORD_PIECES,
        special_tokens=[_PAD, _END, *_ROLES],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator((prompt.text for prompt in read_prompts(None)), trainer)
    core.add_tokens([AddedToken(phrase, normalized=False) for phrase in _stock_phrases()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=_PAD, eos_token=_END, additional_special_tokens=list(_ROLES)
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _stock_phrases() -> list[str]:
    """Return the style sentences, with the space before them, what stands around the topic in the others, and the
    style instructions.
    """
    phrases = load_yaml("phrases.yaml")
    sides = [side for sides in phrases.values() if isinstance(sides, dict) for side in sides.values()]
    found = [f" {sentence}" for side in sides for sentence in side]
    for name, before in (("opening", ""), ("content", " ")):
        for line in phrases[name]:
            head, _, tail = line.partition("{topic}")
            found += [f"{before}{head}" if head else "", tail]
    found += [style_instruction(principle, direction) for principle in PRINCIPLES for direction in (1, -1)]
    return list(dict.fromkeys(piece for piece in found if len(piece) > 2))
