"""How a question is put to a reward model (RMP App. B.3), and the formats among which its rewards are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import factorial
from typing import Literal

from apm_lab.errors import ConfigError
from apm_lab.language.reward_model import RewardCall
from apm_lab.maths.seeding import stream
from apm_lab.records import ChoiceQuestion

__all__ = ["FormatSettings", "alterations", "asked"]

STYLES: tuple[Literal["list", "ordinal", "alphabetical"], ...] = ("list", "ordinal", "alphabetical")
_MOST_ORDERS = 5  # permutations beside the level order


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSettings:
    r"""`f"{question}\n{choice}\n{answer}"`, in the paper's own form by default (RMP Fig. 12).

    `display`: `qca` shows the choices, `qa` does not. `choices`: how they are counted. `order`: 0 is the data's own,
    1..5 a permutation of the shown choices. `verbose_*`: whether "Question: " and so on stand before each part.
    """

    display: Literal["qa", "qca"] = "qca"
    choices: Literal["list", "ordinal", "alphabetical"] = "ordinal"
    order: int = 0
    verbose_question: bool = True
    verbose_choice: bool = True
    verbose_answer: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.order <= _MOST_ORDERS:
            raise ConfigError(f"prompt_format.order={self.order}: expected 0 (the data's own order) to {_MOST_ORDERS}")

    @property
    def name(self) -> str:
        """What tables call it: `qca-ordinal-0-QCA`, capitals for the parts that are verbose."""
        marks = zip("qca", (self.verbose_question, self.verbose_choice, self.verbose_answer), strict=True)
        verbose = "".join(letter.upper() if loud else letter for letter, loud in marks)
        return "-".join([self.display, self.choices, str(self.order), verbose])


def asked(question: ChoiceQuestion, form: FormatSettings, steering: str = "") -> RewardCall:
    """Return the call about a question; the answer line is a choice's bare label, whatever stands before it.

    `steering` comes first; it ends so that the question can follow.
    """
    parts = [f"{'Question: ' * form.verbose_question}{question.text}"]
    if form.display == "qca":
        shown = [question.choices[place] for place in shown_order(question, form.order)]
        listed = ", ".join(_counted(shown, form.choices))
        parts.append(f"{'Choice: ' * form.verbose_choice}[{listed}]")
    parts.append("Answer: " * form.verbose_answer)
    return RewardCall(steering + "\n".join(parts), question.choices)


def shown_order(question: ChoiceQuestion, order: int) -> list[int]:
    """Return the places of the choices in the order in which they are shown: 0 the data's own, else a permutation.

    A question's permutations are drawn by its id and differ from one another as long as there are enough.
    """
    count = len(question.choices)
    places = list(range(count))
    seen = [places]
    rng = stream(0, "choice orders", question.id)
    while len(seen) <= min(order, factorial(min(count, 4)) - 1):
        drawn = rng.permutation(count).tolist()
        if drawn not in seen:
            seen.append(drawn)
    return seen[min(order, len(seen) - 1)]


def alterations(question: ChoiceQuestion) -> Iterator[FormatSettings]:
    """Yield all formats of RMP App. B.3.1 that differ for this question: display, choice style, order, verbosity.

    148 where it has four choices or more: without the choices shown there is no style, order or verbosity of theirs.
    """
    flags = (True, False)
    for loud_question, loud_answer in product(flags, flags):
        plain = FormatSettings(verbose_question=loud_question, verbose_answer=loud_answer)
        yield replace(plain, display="qa", verbose_choice=False)
        orders = range(min(_MOST_ORDERS, factorial(min(len(question.choices), 4)) - 1) + 1)
        for style, order, loud in product(STYLES, orders, flags):
            yield replace(plain, choices=style, order=order, verbose_choice=loud)


def _counted(choices: Sequence[str], style: str) -> list[str]:
    if style == "list":
        return list(choices)
    if style == "ordinal":
        return [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
    return [f"{_letter(place)}. {choice}" for place, choice in enumerate(choices)]


def _letter(place: int) -> str:
    """Return A..Z, AA.. as the number of a choice."""
    before, last = divmod(place, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)
