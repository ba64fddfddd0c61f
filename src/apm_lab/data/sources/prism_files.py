"""PRISM's files: who took part, and every turn of their conversations with the replies they rated.

Official files: repository HannahKirk/prism-alignment (`data/`) or hub HannahRoseKirk/prism-alignment; human texts CC BY
4.0, model replies CC BY-NC 4.0 (Kirk et al. 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apm_lab.data.json_lines import json_object, raw_lines
from apm_lab.errors import DataError

__all__ = ["EMPTY", "Interaction", "Reply", "english_prompts", "read_interactions", "read_people"]

EMPTY = "EMPTY STRING"
_MOST = 100


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply as it was shown, empty where it was; `score` 0..100 (None: none was given); `chosen` to go on."""

    text: str
    score: float | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class Interaction:
    """One message of a person and the replies to it in the order of `within_turn_id`.

    `id` is the interaction's own, or conversation and turn where the file has none.
    """

    id: str
    person: str
    conversation: str
    turn: int
    prompt: str
    replies: tuple[Reply, ...]

    @property
    def followed(self) -> str:
        """The reply that the conversation goes on from: of several chosen, or of none, the first with the top score."""
        among = [reply for reply in self.replies if reply.chosen] or self.replies
        return max(among, key=lambda reply: -1.0 if reply.score is None else reply.score).text


def read_people(folder: Path) -> dict[str, dict[str, Any]]:
    """Return `survey.jsonl` by `user_id`, nested values as `religion.simplified`; DataError names file and line."""
    people: dict[str, dict[str, Any]] = {}
    for row, where in _rows(_file(folder, "survey")):
        name = _field(row, "user_id", str, where)
        if name in people:
            raise DataError(f"{where}: user_id {name!r} has a row already")
        people[name] = dict(_flat(row))
    return people


def _flat(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def read_interactions(folder: Path) -> list[Interaction]:
    """Return the interactions of `utterances.jsonl`, else of `conversations.jsonl`; conversations in the file's order.

    DataError names file, line and fault.
    """
    return _turns(_rows(_file(folder, "utterances", "conversations")))


def _turns(rows: Iterator[tuple[dict[str, Any], str]]) -> list[Interaction]:
    turns: dict[tuple[str, int], dict[str, Any]] = {}
    for row, where in rows:
        for each in _said(row, where):
            told = turns.setdefault((each["conversation"], each["turn"]), {**each, "replies": {}})
            if told["id"] != each["id"] or told["person"] != each["person"]:
                raise DataError(f"{where}: turn {each['turn']} of {each['conversation']} had another id or person")
            if each["place"] in told["replies"]:
                raise DataError(f"{where}: within_turn_id {each['place']} is there twice in this turn")
            told["replies"][each["place"]] = each["reply"]
    order = {conversation: place for place, conversation in enumerate(dict.fromkeys(key[0] for key in turns))}
    return [
        Interaction(
            id=told["id"],
            person=told["person"],
            conversation=conversation,
            turn=turn,
            prompt=told["prompt"],
            replies=tuple(told["replies"][place] for place in sorted(told["replies"])),
        )
        for (conversation, turn), told in sorted(turns.items(), key=lambda item: (order[item[0][0]], item[0][1]))
    ]


def _said(row: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield what a row says of each reply: one of `utterances`, all of a conversation's of `conversations`."""
    conversation, person = _field(row, "conversation_id", str, where), _field(row, "user_id", str, where)
    if "conversation_history" not in row:
        yield {
            "conversation": conversation,
            "person": person,
            "turn": _field(row, "turn", int, where),
            "id": _field(row, "interaction_id", str, where),
            "prompt": _field(row, "user_prompt", str, where),
            "place": _field(row, "within_turn_id", int, where),
            "reply": _reply(row, "model_response", where),
        }
        return
    prompts = {}
    for number, each in enumerate(_field(row, "conversation_history", list, where), 1):
        here = f"{where}, conversation_history {number}"
        if not isinstance(each, dict) or each.get("role") not in ("user", "model"):
            raise DataError(f"{here}: expected an object with role user or model")
        turn = _field(each, "turn", int, here)
        if each["role"] == "user":
            prompts[turn] = _field(each, "content", str, here)
        elif turn not in prompts:
            raise DataError(f"{here}: a reply in turn {turn}, in which the user has said nothing")
        else:
            yield {
                "conversation": conversation,
                "person": person,
                "turn": turn,
                "id": f"{conversation}/{turn}",
                "prompt": prompts[turn],
                "place": _field(each, "within_turn_id", int, here),
                "reply": _reply(each, "content", here),
            }


def _reply(row: Mapping[str, Any], field: str, where: str) -> Reply:
    text, score = _field(row, field, str, where), row.get("score")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= _MOST):
        raise DataError(f"{where}: score is {score!r:.40}, expected a number from 1 to {_MOST}, or null")
    return Reply("" if text == EMPTY else text, score, _field(row, "if_chosen", bool, where))


def english_prompts(folder: Path) -> set[str]:
    """Return the ids of interactions whose prompt `metadata.jsonl` flags as English; DataError names a line."""
    flagged = set()
    for row, where in _rows(_file(folder, "metadata", "metadata/metadata")):
        if _field(row, "column_id", str, where) == "user_prompt" and row.get("en_flag") is True:
            flagged.add(_field(row, "interaction_id", str, where))
    return flagged


def _file(folder: Path, *names: str) -> Path:
    """Return the first of these files, which lie in the folder or in its `data`."""
    for name in names:
        for base in (folder, folder / "data"):
            for file in (base / f"{name}.jsonl", base / f"{name}.jsonl.gz"):
                if file.is_file():
                    return file
    raise DataError(f"{folder}: no {' or '.join(f'{name}.jsonl' for name in names)} here, in data, or packed as .gz")


def _rows(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for number, line in enumerate(raw_lines(file), 1):
        if line.strip():
            yield json_object(line, f"{file}, line {number}"), f"{file}, line {number}"


def _field(row: Mapping[str, Any], name: str, kind: type, where: str) -> Any:  # noqa: ANN401
    value = row.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DataError(f"{where}: field {name!r} is {value!r:.40}, expected {kind.__name__}")
    return value
