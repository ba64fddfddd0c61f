"""The survey PRISM: what people of many countries thought of the replies they were shown (RMP Sec. 4; SPEC 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.hub import local_folder
from apm_lab.data.sources.prism_files import (
    EMPTY,
    Interaction,
    Reply,
    english_prompts,
    read_interactions,
    read_people,
)
from apm_lab.data.survey import Survey
from apm_lab.errors import DataError, require_known
from apm_lab.records import ChoiceQuestion, Group

__all__ = ["FEATURES", "Prism"]

FEATURES = (
    "age",
    "education",
    "employment_status",
    "english_proficiency",
    "gender",
    "marital_status",
    "ethnicity.simplified",
    "religion.categorised",
    "location.special_region",
)
"""RMP's nine features by PRISM's column: 60 groups in the official files, which RMP's Table 5 counts."""
_DOWNLOAD = (
    "PRISM's survey.jsonl and utterances.jsonl or conversations.jsonl (repository HannahKirk/prism-alignment, data), "
    "or a hub id (HannahRoseKirk/prism-alignment)"
)
_UNSAID = "Prefer not to say"


@dataclass(frozen=True, slots=True)
class Prism:
    """PRISM at `path`: the folder with its files or the one above, or a hub id. A question is one rated interaction.

    `unit`: every interaction (27,172 of them), or the opening one of each conversation alone. `opinion`: the person's
    distribution over the replies, proportional to the `scores`, or all on the reply `chosen`. `features`: columns of
    the survey whose values are the groups; `prefer_not_to_say` makes that answer a group too. `language`: all, or the
    interactions whose prompt is flagged as English (98%; needs `metadata.jsonl`).
    """

    path: str | None = None
    unit: Literal["interaction", "opening"] = "interaction"
    opinion: Literal["scores", "chosen"] = "scores"
    features: Sequence[str] = FEATURES
    prefer_not_to_say: bool = False
    language: Literal["all", "english"] = "all"

    def read(self) -> Survey:
        """Return the survey, in which one person answered each question: `answered` is 0 or 1, and there are no halves.

        A question's text is the person's message, after earlier turns with the replies that were followed, as lines
        "User: ..." and "Assistant: ...". Choices are the replies in their order, without empty ones. The array of
        shares is as good as dense: 60 groups, 27,172 questions and 4 choices take 52 MB. ConfigError for an unknown
        feature, DataError naming file, line and fault.
        """
        wanted = ["*survey.jsonl", "*utterances.jsonl", *(["*metadata.jsonl"] if self.language == "english" else [])]
        folder = local_folder(self.path, _DOWNLOAD, wanted)
        people, interactions = read_people(folder), read_interactions(folder)
        left_out: Counter[str] = Counter()
        kept = list(self._questions(folder, people, interactions, left_out))
        if not kept:
            raise DataError(f"{folder}: no interaction can be asked; left out are {dict(left_out)}")
        width = max(len(question.choices) for question, _, _ in kept)
        opinions = np.zeros((len(kept), width))
        for row, (_, _, shares) in zip(opinions, kept, strict=True):
            row[: len(shares)] = shares
        raters = {name: place for place, name in enumerate(dict.fromkeys(person for _, person, _ in kept))}
        rater = np.array([raters[person] for _, person, _ in kept])
        groups, members = self._groups(people, list(raters), left_out)
        rated = members[:, rater]
        return Survey(
            name=f"PRISM ({self.unit}, {self.opinion})",
            questions=tuple(question for question, _, _ in kept),
            real=np.array([[place < len(question.choices) for place in range(width)] for question, _, _ in kept]),
            positions=None,
            groups=groups,
            shares=rated[..., None] * opinions,
            answered=rated.astype(np.int64),
            refused=np.zeros(rated.shape),
            overall=opinions,
            overall_answered=np.ones(len(kept), dtype=np.int64),
            people=members.sum(axis=1),
            left_out={reason: count for reason, count in left_out.items() if count},
        )

    def _questions(
        self,
        folder: Path,
        people: Mapping[str, Any],
        interactions: Sequence[Interaction],
        left_out: Counter[str],
    ) -> Iterator[tuple[ChoiceQuestion, str, list[float]]]:
        """Yield each question with its person and that person's distribution over the choices."""
        english = english_prompts(folder) if self.language == "english" else None
        conversation, lines = "", list[str]()
        for each in interactions:
            if each.conversation != conversation:
                conversation, lines = each.conversation, []
            text = "\n".join([*lines, f"User: {each.prompt}"]) if lines else each.prompt
            lines = [*lines, f"User: {each.prompt}", f"Assistant: {each.followed}"]
            if each.turn and self.unit == "opening":
                continue
            replies = [reply for reply in each.replies if reply.text]
            left_out[f"reply stored as {EMPTY}"] += len(each.replies) - len(replies)
            if each.person not in people:
                left_out["interaction of a person without a survey row"] += 1
            elif english is not None and each.id not in english:
                left_out["interaction whose prompt is not flagged as English"] += 1
            elif len(replies) < 2:
                left_out["interaction with fewer than two replies"] += 1
            elif shares := self._opinion(replies, left_out):
                yield ChoiceQuestion(each.id, text, tuple(reply.text for reply in replies)), each.person, shares

    def _opinion(self, replies: Sequence[Reply], left_out: Counter[str]) -> list[float]:
        """Return the person's distribution over the replies, empty where there is none, which is counted."""
        if self.opinion == "chosen":
            weights = [float(reply.chosen) for reply in replies]
            left_out["interaction with several chosen replies (kept, split evenly)"] += sum(weights) > 1
        else:
            if any(reply.score is None for reply in replies):
                left_out["interaction with a reply without a score"] += 1
                return []
            weights = [float(reply.score or 0.0) for reply in replies]
            left_out["score of 0, below the scale (kept)"] += weights.count(0.0) if any(weights) else 0
        if not any(weights):
            what = "chosen reply" if self.opinion == "chosen" else "score above 0"
            left_out[f"interaction without a {what}"] += 1
            return []
        return [weight / sum(weights) for weight in weights]

    def _groups(
        self, people: Mapping[str, Mapping[str, Any]], raters: Sequence[str], left_out: Counter[str]
    ) -> tuple[tuple[Group, ...], NDArray[np.bool_]]:
        """Return the groups of those who rated something, by feature, and who belongs to them (G, raters)."""
        columns = {column for row in people.values() for column in row}
        require_known("dataset.features: PRISM's survey has no column", self.features, columns)
        ungrouped = set() if self.prefer_not_to_say else {_UNSAID}
        groups, members = [], []
        for feature in self.features:
            said = [_text(people[name].get(feature)) for name in raters]
            left_out[f"person without an answer, {feature}"] += said.count("")
            left_out[f"person who prefers not to say, {feature}"] += sum(value in ungrouped for value in said)
            known = {_text(row.get(feature)) for row in people.values()} - ungrouped - {""}
            for value in sorted(known):
                if value in said:
                    groups.append(Group((feature,), (value,)))
                    members.append([each == value for each in said])
                else:
                    left_out[f"{feature} {value}: a group that rated nothing"] += 1
        return tuple(groups), np.array(members, dtype=bool).reshape(len(groups), len(raters))


def _text(value: object) -> str:
    """Return a survey answer as a text, empty for none: some columns hold truth values or numbers."""
    return "" if value is None else str(value).strip()
