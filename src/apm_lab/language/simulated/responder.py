"""The simulated responder: answers any prompt in English, and follows a style instruction some of the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from math import inf

from apm_lab.errors import ConfigError, require_known
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import constant, load_yaml, package_digest
from apm_lab.language.simulated.style_reading import NAMES, guidance_direction
from apm_lab.maths.preference import MIDPOINT
from apm_lab.maths.seeding import text_stream
from apm_lab.records import Message

__all__ = ["SimulatedResponder"]

_WORD = re.compile(r"(?<![^\W\d_])[a-zA-Z]{4,}(?![^\W\d_])")
# `placement=user` fences the instruction before the prompt (data/pool.py); no prompt begins so by chance.
_FENCED = re.compile(r"(?s)<answer_style>(?P<instruction>.*?)</answer_style>\n\n(?P<prompt>.+)")


class SimulatedResponder:
    """Writes answers as sentences: content, and per principle as many style sentences as the answer's level asks for.

    The level of principle j (APM Table 8's mean and spread over prompts, plus this sample's noise) is
    `base_j(prompt) + noise * eps_j`, cut at 1 and 10; an instruction, when it is complied with, moves its principle by
    the shared shift first. A level's distance from 5.5 becomes that many sentences of the bank: the level is nowhere
    but in the wording.

    Args:
        name: the preset's name, part of the identity.
        compliance: probability that an answer follows its instruction, [0, 1].
        noise: s.d. of one sample's level around the prompt's, in points.

    """

    engine = "simulated"
    sampling = "{}"

    def __init__(self, name: str, compliance: float, noise: float) -> None:
        if not (0 <= compliance <= 1 and 0 <= noise < inf):
            raise ConfigError(f"{name}: compliance={compliance} must lie in [0, 1] and noise={noise} in [0, inf)")
        self._name, self._compliance, self._noise = name, compliance, noise

    @property
    def identity(self) -> str:
        """Name, the two fitted numbers, and the digest of code and constants."""
        digest = package_digest("responder.py", "style_reading.py", "phrases.yaml", "constants.yaml")
        return f"{self._name}@{digest}:compliance={self._compliance}:noise={self._noise}"

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Raise ConfigError for principles that it has no sentences for; attributes are nothing to it.

        An instruction that names another principle is not understood, and then answered as if there were none.
        """
        require_known("pool.principles: the simulated responder can't follow", principles, NAMES)

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one answer per call; equal calls give equal answers."""
        return [self._answer(call) for call in calls]

    def _answer(self, call: GenerationCall) -> str:
        prompt = _prompt(call.messages)
        instruction = understood_instruction(call.messages)
        random = text_stream(self._name, call.sample, *(_turn(message) for message in call.messages))
        complies = random.random() < self._compliance
        scale, shift, gauss = constant("saturation"), constant("shift")["value"], random.gauss
        sentences = [random.choice(line).format(topic=_topic(prompt)) for line in _content()]
        for principle, base in enumerate(base_levels(prompt)):
            level = base + self._noise * gauss(0.0, 1.0)
            if complies and instruction is not None and instruction[0] == principle:
                level += shift * instruction[1]
            distance = min(scale["high"], max(scale["low"], level)) - MIDPOINT
            count = int(abs(distance) + random.random())
            sentences += random.sample(_bank()[2 * principle + (distance < 0)], count)
        opening = sentences.pop(0)
        random.shuffle(sentences)
        return " ".join([opening, *sentences])


def _turn(message: Message) -> str:
    # The stream's names are parted by U+001F: doubled, one in a text can't pass for the start of another turn.
    return f"{message.role}:{message.content}".replace("\x1f", "\x1f\x1f")


def understood_instruction(messages: Sequence[Message]) -> tuple[int, int] | None:
    """Return (principle, direction) of the style instruction, None where there is none that the responder knows.

    It stands in a system turn, or where there is none in the fence at the beginning of the last user turn. What a
    prompt itself says of a style is no instruction, and neither are words in examples: of these, and of summaries of
    preferences, only what they come to counts (`style_reading.guidance_direction`).
    """
    for instruction in _instructions(messages):
        shown, direction = guidance_direction(instruction)
        if shown:
            return direction
        words = re.sub(r"[\W_]+", " ", instruction.lower())
        for principle, names in enumerate(NAMES.values()):
            if any(name in words for name in names):
                return principle, -1 if "avoid" in words else 1
    return None


def _instructions(messages: Sequence[Message]) -> list[str]:
    fenced = _fenced(messages)
    return [fenced["instruction"]] if fenced else [turn.content for turn in messages if turn.role == "system"]


def _fenced(messages: Sequence[Message]) -> re.Match[str] | None:
    """Return the last user turn's parts where `placement=user` put an instruction before the prompt."""
    if any(message.role == "system" for message in messages):
        return None
    return _FENCED.fullmatch(_last_user_turn(messages))


def _last_user_turn(messages: Sequence[Message]) -> str:
    return next(message.content for message in reversed(messages) if message.role == "user")


def _prompt(messages: Sequence[Message]) -> str:
    """Return the last user turn without the instruction that `placement=user` puts before it.

    So the answer's topic and its usual levels are the same for all styles and for either placement.
    """
    fenced = _fenced(messages)
    return fenced["prompt"] if fenced else _last_user_turn(messages)


@cache
def _last_levels() -> dict[str, tuple[float, ...]]:
    return {}


def base_levels(prompt: str) -> tuple[float, ...]:
    """Return the answer's usual level per principle for this prompt: drawn once per wording, the same for all presets.

    Case and punctuation don't matter. The last few prompts are remembered, since all styles of a prompt follow closely.
    """
    memory = _last_levels()
    levels = memory.get(prompt)
    if levels is None:
        words = " ".join(re.findall(r"\w+", prompt.lower()))
        random = text_stream("base level", blake2b(words.encode(), digest_size=8).hexdigest())
        table = constant("base")
        levels = tuple(random.gauss(table[name]["mean"], table[name]["sd"]) for name in NAMES)
        if len(memory) > 64:
            memory.clear()
        memory[prompt] = levels
    return levels


def _topic(prompt: str) -> str:
    """Return the prompt's longest word of ASCII letters, or "this": what the answer is about."""
    return max(_WORD.findall(prompt[:400]), key=len, default="this").lower()


@cache
def _bank() -> tuple[tuple[str, ...], ...]:
    phrases = load_yaml("phrases.yaml")
    return tuple(tuple(phrases[name][side]) for name in NAMES for side in ("follow", "avoid"))


@cache
def _content() -> tuple[tuple[str, ...], ...]:
    """Return the choices for the opening and two content sentences."""
    phrases = load_yaml("phrases.yaml")
    half = len(phrases["content"]) // 2
    return tuple(phrases["opening"]), tuple(phrases["content"][:half]), tuple(phrases["content"][half:])
