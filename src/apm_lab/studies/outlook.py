"""A study's calls ahead of time: the study itself is built, with models that need not answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apm_lab.judging.health import measure_health
from apm_lab.judging.judge import Judge, streamed_scores
from apm_lab.language.foresight import Foreseen, Outlook
from apm_lab.language.recall import CallCounts, StoredTexts, streamed
from apm_lab.studies.personalization import Personalization
from apm_lab.studies.world import Progress

__all__ = ["look_ahead"]


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
    measure_health(foreseen.judge)
    foreseen.build(progress)


def _foreseen_texts(
    texts: StoredTexts, role: str, outlook: Outlook, counts: Mapping[str, CallCounts] | None
) -> StoredTexts:
    double = Foreseen(outlook, role, texts.model, texts.shelf, streamed, None if counts is None else counts[role])
    return StoredTexts(double, double, CallCounts())


def _foreseen_judge(judge: Judge, outlook: Outlook, counts: Mapping[str, CallCounts] | None) -> Judge:
    live = None if counts is None else counts["judge"]
    double = Foreseen(outlook, "judge", judge.model, judge.shelf, streamed_scores, live)
    # One that is asked and gives no verdict is asked again by the run itself.
    return Judge(double, double, CallCounts(), judge.principles, judge.direction, retries=0)
