"""What a data set gives before it is audited."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from surveys import survey

from apm_lab.errors import DataError
from apm_lab.studies.perspectives import audited


def test_an_empty_data_set_and_an_unsound_survey_are_refused():
    with pytest.raises(DataError, match=r"mine: the data set is empty; read\(\) gave no item"):
        audited([], "mine")
    sound = survey([[[0.5, 0.5]]])
    assert audited(sound, "mine") is sound
    with pytest.raises(DataError, match="mine, T g0: shares of question q0"):
        audited(replace(sound, shares=2 * sound.shares), "mine")
