"""A study's calls ahead of time: the study itself is built, with models that need not answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from apm_lab.errors import PendingCalls
from apm_lab.judging.health import measure_health, require_health
from apm_lab.judging.judge import Judge, streamed_scores
from apm_lab.language.foresight import Foreseen, Outlook
from apm_lab.language.protocols import Deferring
from apm_lab.language.recall import CallCounts, StoredTexts, streamed
from apm_lab.studies.personalization import Personalization
from apm_lab.studies.world import Progress

__all__ = ["collect", "deferring", "look_ahead"]


def look_ahead(
    study: Personalization, outlook: Outlook, progress: Progress, counts: Mapping[str, CallCounts] | None = None
) -> None:
    """Count in `outlook` every call that the study's texts and scores come down to: the judge's health, then the world.

    Without `counts` no model is called. With them models are called for what is known word by word, answers are stored,
    and only what they leave open is counted. What a method asks for itself, when it responds, is not foreseen.
    """
    foreseen = replace(
        study,
        rewriter=_foreseen_texts(study.rewriter, "rewriter", outlook, counts),
        generator=_foreseen_texts(study.generator, "generator", outlook, counts),
        model=_foreseen_texts(study.model, "model", outlook, counts),
        judge=_foreseen_judge(study.judge, outlook, counts),
    )
    health = measure_health(foreseen.judge)
    if counts is not None and not health.n_missing:  # nothing more is spent on an unhealthy judge
        require_health(health, study.allow_unhealthy)
    foreseen.build(progress)


def collect(study: Personalization, counts: Mapping[str, CallCounts], progress: Progress) -> None:
    """Let backends that answer later send out all calls of the stage that the study has reached, each in one piece.

    Everybody else is asked as far as these calls' answers are there. Returns nothing where no call is left waiting;
    PendingCalls says where they wait.
    """
    roles = (study.rewriter, study.generator, study.model, study.judge)
    backends = {id(backend): backend for role in roles for backend in deferring(role.model)}.values()
    if not backends:
        return
    for backend in backends:
        backend.collecting = True
    try:
        look_ahead(study, Outlook(), progress, counts)
    finally:
        for backend in backends:
            backend.collecting = False
    waiting = []
    for backend in backends:
        try:
            backend.export()
        except PendingCalls as pending:
            waiting.append(str(pending))
    if waiting:
        raise PendingCalls("\n".join(waiting))


def deferring(model: object, depth: int = 3) -> Iterator[Deferring]:
    """Yield the backends that answer later among a model and those that it asks itself (a judge its language model)."""
    parts = getattr(model, "__dict__", {})
    if "collecting" in parts and isinstance(model, Deferring):
        yield model
    elif depth:
        for inner in parts.values():
            if hasattr(inner, "identity"):
                yield from deferring(inner, depth - 1)


def _foreseen_texts(
    texts: StoredTexts, role: str, outlook: Outlook, counts: Mapping[str, CallCounts] | None
) -> StoredTexts:
    double = Foreseen(outlook, role, texts.model, texts.shelf, streamed, None if counts is None else counts[role])
    return StoredTexts(double, double, CallCounts())


def _foreseen_judge(judge: Judge, outlook: Outlook, counts: Mapping[str, CallCounts] | None) -> Judge:
    live = None if counts is None else counts["judge"]
    double = Foreseen(outlook, "judge", judge.model, judge.shelf, streamed_scores, live)
    # One that is asked and gives no verdict is asked again by the run itself.
    reference = None if judge.reference is None else _foreseen_judge(judge.reference, outlook, counts)
    return Judge(double, double, CallCounts(), judge.principles, judge.direction, retries=0, reference=reference)
