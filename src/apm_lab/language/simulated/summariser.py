"""The simulated summariser: says how a user writes, or what sets the answers apart that a user likes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from apm_lab.data.pool import style_instruction
from apm_lab.errors import require_known
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import package_digest
from apm_lab.language.simulated.style_reading import NAMES, contrast, example_pairs

__all__ = ["SimulatedSummariser"]

_TOKEN = re.compile(r"\w+")
_PROMPT = re.compile(r"<prompt>(.*?)</prompt>", re.DOTALL)


class SimulatedSummariser:
    """Answers a chat with liked and disliked answers by their contrast, any other by how its prompts are worded.

    It reads answers as the simulated responder does (`style_reading`), and prompts by their function words alone.
    """

    engine = "simulated"
    sampling = "{}"

    @property
    def identity(self) -> str:
        """Name and digest of code and constants."""
        return f"simulated_summariser@{package_digest('summariser.py', 'style_reading.py', 'phrases.yaml')}"

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Raise ConfigError for principles that it can't tell apart; attributes are nothing to it."""
        require_known("pool.principles: the simulated summariser can't read", principles, NAMES)

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one summary per call; equal chats have equal ones, whatever the sample."""
        return [_summary(call.messages[-1].content) for call in calls]


def _summary(text: str) -> str:
    pairs = example_pairs(text)
    return _preference(pairs) if pairs else _wording(_PROMPT.findall(text))


def _preference(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the one strongest contrast in words that the responder understands."""
    found = contrast(pairs)
    if found is None:
        return "The answers that the user likes differ from the others in no clear way."
    principle, direction = found
    advice = style_instruction(list(NAMES)[principle], direction).rstrip(".")
    verb, _, rest = advice.partition(" ")
    return f"The user likes answers that {'are' if verb == 'Be' else verb.lower()} {rest}."


def _wording(prompts: Sequence[str]) -> str:
    """Return the runs of two or more function words in the prompts: how things are said, without what is said."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    runs = []
    for prompt in prompts:
        for inside, words in groupby(_TOKEN.findall(prompt.lower()), ENGLISH_STOP_WORDS.__contains__):
            run = list(words)
            if inside and len(run) > 1:
                runs.append(" ".join(run))
    return f"The user writes: {', '.join(runs)}." if runs else "The user writes in bare words."
