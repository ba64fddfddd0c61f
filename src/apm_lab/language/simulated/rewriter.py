"""The simulated rewriter: puts a user's attributes into the wording around a neutral prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from apm_lab.data.pool import slug
from apm_lab.errors import require_known
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.constants import package_digest
from apm_lab.language.simulated.wordings import ATTRIBUTES, catalogue, rates
from apm_lab.maths.seeding import text_stream

__all__ = ["SimulatedRewriter"]

# The instruction (data/pool.py) lists traits in brackets: "[verbose]" is shown, "[not anxious]" its opposite.
_TRAIT = re.compile(r"\[(not )?([^\]]+)\]")


class SimulatedRewriter:
    """Rewrites a prompt: the neutral text stays as it is, and the user's usual wordings stand before and after it.

    Which wordings occur is drawn independently at the rates of `wordings.py` (APM Table 9).
    """

    engine = "simulated"
    sampling = "{}"

    @property
    def identity(self) -> str:
        """Name and digest of code and constants."""
        return f"simulated_rewriter@{package_digest('rewriter.py', 'wordings.py', 'wordings.yaml', 'constants.yaml')}"

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Raise ConfigError for attributes that it has no wordings for; principles are nothing to it."""
        require_known("pool.attributes: the simulated rewriter can't render", attributes, ATTRIBUTES)

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one rewritten prompt per call; equal calls give equal texts."""
        return [self._rewrite(call) for call in calls]

    def _rewrite(self, call: GenerationCall) -> str:
        instruction, neutral = call.messages[0].content, call.messages[-1].content
        random = text_stream("simulated_rewriter", call.sample, instruction, neutral)
        draw = random.random
        used = [
            wording for wording, rate in zip(catalogue(), _rates(understood(instruction)), strict=True) if draw() < rate
        ]
        random.shuffle(used)
        before = [random.choice(wording.clauses) for wording in used if wording.before]
        after = [random.choice(wording.clauses) for wording in used if not wording.before]
        return " ".join([*before, neutral, *after])


def understood(instruction: str) -> tuple[tuple[int, int], ...]:
    """Return the (attribute index, sign) pairs that the instruction names."""
    pairs = []
    for negated, name in _TRAIT.findall(instruction):
        key = slug(name)
        require_known("the simulated rewriter can't render", [key], ATTRIBUTES)
        pairs.append((ATTRIBUTES.index(key), -1 if negated else 1))
    return tuple(pairs)


@cache
def _rates(attributes: tuple[tuple[int, int], ...]) -> list[float]:
    return rates(attributes)
