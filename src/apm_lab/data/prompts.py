"""Source prompts: read from JSON lines (or a source of one's own), filtered by licence, split into disjoint pools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import as_file, files
from pathlib import Path
from typing import Protocol

from apm_lab.data.json_lines import json_object, raw_lines
from apm_lab.errors import DataError
from apm_lab.maths.seeding import stream
from apm_lab.records import Prompt

__all__ = ["PromptFile", "PromptPools", "PromptSource", "prompts_digest", "read_prompts", "split_prompts"]

_OPTIONAL = ("source", "license")
_SHARES = {"train": 0.5, "test_history": 0.3, "test_query": 0.2}


@dataclass(frozen=True, slots=True)
class PromptPools:
    """Three disjoint pools of prompts: for training histories, test histories and test queries."""

    train: tuple[Prompt, ...]
    test_history: tuple[Prompt, ...]
    test_query: tuple[Prompt, ...]


class PromptSource(Protocol):
    """Where source prompts come from: what an option of the config group `dataset` is."""

    def read(self) -> Sequence[Prompt]:
        """Return the prompts, always the same ones in the same order; DataError naming what can't be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """The prompts of a JSON-lines file at `path` (null: the small set of this package); see `read_prompts`."""

    path: str | None = None
    noncommercial: bool = False

    def read(self) -> list[Prompt]:
        """Return the file's prompts; DataError naming the file and the line."""
        return read_prompts(self.path, self.noncommercial)


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """Return the digest of the prompts' texts in their order: what a run's identity holds of its data."""
    digest = blake2b(digest_size=16)
    for prompt in prompts:
        text = prompt.text.encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def read_prompts(path: Path | str | None = None, noncommercial: bool = False) -> list[Prompt]:
    """Return the prompts of a `.jsonl` or `.jsonl.gz` file (None: the small set of this package).

    A row is an object with `text`; `source` and `license` are optional. Rows under a non-commercial
    licence are left out unless `noncommercial`. Equal texts are kept once. A UTF-8 byte order mark at the start of the
    file is no part of it.

    Raises:
        DataError: naming the file and the line.

    """
    if path is None:
        with as_file(files("apm_lab.data").joinpath("prompts.jsonl")) as packaged:
            return read_prompts(packaged, noncommercial)
    file = Path(path)
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(raw_lines(file), 1):
        if line.strip():
            prompt = _parse(line, f"{file}, line {number}")
            if noncommercial or not _is_noncommercial(prompt.licence):
                prompts.setdefault(prompt.text, prompt)
    if not prompts:
        hint = "" if noncommercial else " (dataset.noncommercial=true takes rows under non-commercial licences too)"
        raise DataError(f"{file} holds no usable prompt{hint}")
    return list(prompts.values())


def split_prompts(prompts: Sequence[Prompt], turns: int, seed: int) -> PromptPools:
    """Return disjoint pools in shares 50 : 30 : 20, in an order drawn from `seed`.

    Raises:
        DataError: a pool is shorter than one user needs (`turns` history prompts, one query).

    """
    order = stream(seed, "prompt pools").permutation(len(prompts))
    first = round(len(order) * _SHARES["train"])
    second = first + round(len(order) * _SHARES["test_history"])
    train, history, query = order[:first], order[first:second], order[second:]
    if min(len(train), len(history)) < turns or len(query) < 1:
        raise DataError(
            f"{len(prompts)} prompts make pools of {len(train)}, {len(history)} and {len(query)}: too few for "
            f"users.turns={turns} different history prompts and a query per user; dataset.path=... takes a longer file"
        )
    return PromptPools(*(tuple(prompts[i] for i in part) for part in (train, history, query)))


def _parse(line: bytes, where: str) -> Prompt:
    row = json_object(line, where)
    text = row.get("text")
    if not isinstance(text, str) or not text.strip():
        found = "no field 'text'" if "text" not in row else f"field 'text' is {str(text)[:40]!r}"
        raise DataError(f"{where}: {found}; expected a non-empty string")
    fields = {"text": text} | {name: str(row[name]) for name in _OPTIONAL if row.get(name) is not None}
    for name, value in fields.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DataError(f"{where}: field '{name}' holds half of a surrogate pair; expected valid Unicode") from None
    return Prompt(text, fields.get("source", ""), fields.get("license", ""))


def _is_noncommercial(licence: str) -> bool:
    """Return whether the licence says so: CC-BY-NC-4.0, "CC BY-NC 4.0", cc_by_nc, "Attribution-NonCommercial", ..."""
    words = re.findall("[A-Z]+", licence.upper())
    return "NC" in words or "NONCOMMERCIAL" in "".join(words)
