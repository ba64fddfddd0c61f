"""The survey questions against which what is trained is held, from `callbacks.alignment`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apm_lab.data.survey import Survey, SurveySource
from apm_lab.errors import DataError
from apm_lab.experiment.making import make
from apm_lab.experiment.plugin import of_kind

if TYPE_CHECKING:
    from apm_lab.training.callbacks.alignment import OpinionProbe

__all__ = ["opinion_probe"]


def opinion_probe(config: Mapping[str, Any]) -> OpinionProbe | None:
    """Return the probe that the config names, None where it names none; in the paper's own form and distance.

    ConfigError or DataError where the survey can't be read, or is none.
    """
    settings = make(config["callbacks"], tuple(config["plugins"]))
    source = getattr(settings, "alignment", None)
    if source is None:
        return None
    from apm_lab.studies.opinions import DistanceSettings
    from apm_lab.studies.question_format import FormatSettings, asked
    from apm_lab.training.callbacks.alignment import OpinionProbe

    survey = of_kind(source, SurveySource, "callbacks.alignment").read()
    if not isinstance(survey, Survey):
        raise DataError(
            f"callbacks.alignment: read() gave {type(survey).__name__}; expected a survey (opinionqa, prism)"
        )
    most = settings.alignment_questions
    return OpinionProbe(
        tuple(asked(question, FormatSettings()) for question in survey.questions[:most]),
        survey.overall[:most],
        survey.real[:most],
        None,
        DistanceSettings().of(survey),
    )
