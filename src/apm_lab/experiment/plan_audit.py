"""What an audit of a reward model would compute, with no weights loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apm_lab.data.store import Store
from apm_lab.errors import UnfetchedError
from apm_lab.experiment.build_perspectives import build_perspectives, reward_model_of
from apm_lab.language.bill import Line
from apm_lab.language.recall import CallCounts
from apm_lab.language.stored_rewards import Rewards, StoredRewards
from apm_lab.studies.perspectives import Audited

__all__ = ["audit_line"]

_CHARACTERS = 4  # a token has


def audit_line(config: Mapping[str, Any], data: Audited) -> Line:
    """Return the bill's line of an audit: rewards that it needs, those in the store, and what the rest takes.

    Tokens are those of each question once and each answer, at four characters a token.
    """
    settings, model = reward_model_of(config, planning=True)
    calls = build_perspectives(config, data, settings, _unasked, _silent).calls()
    shelf = Store(**config["store"], reading=True).scores
    stored = StoredRewards(model, shelf, CallCounts())
    seconds: float | None = None
    try:
        keys = {key for each in stored.keys(calls) for key in each}
        left = stored.missing(calls)
        measured = shelf.of(stored.key_header).measured()
        name, asked = model.identity, len(keys)
    except UnfetchedError as fault:  # what the store may hold of it can't be looked up
        left, name = list(dict.fromkeys(calls)), f"{fault.name}@not fetched"
        asked, measured = sum(len(call.answers) for call in left), None
    missing = sum(len(call.answers) for call in left)
    if measured is not None and measured.rows:
        seconds = measured.seconds / measured.rows * missing
    characters = sum(len(call.prompt) + sum(map(len, call.answers)) for call in left)
    return Line(
        role="reward_model",
        model=name,
        asked=asked,
        stored=asked - missing,
        missing=missing,
        open=0,
        tokens_in=characters // _CHARACTERS,
        tokens_out=0,
        basis="estimated",
        usd=0.0,  # it runs in this process
        seconds=0.0 if not missing else seconds,
    )


def _unasked(_calls: object, _stage: str) -> list[Rewards]:
    raise AssertionError("a plan asks nothing")


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""
