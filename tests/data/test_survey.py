"""A survey that a plug-in gives is checked before anything is asked."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from apm_lab.data.survey import require_sound
from apm_lab.errors import DataError
from apm_lab.records import ChoiceQuestion, Group

sys.path.insert(0, str(Path(__file__).parent.parent / "studies"))
from surveys import survey

SOUND = survey(
    [[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], sizes=[2, 3], answered=[[5, 5], [5, 0]]
)
SOUND = replace(SOUND, overall=SOUND.shares[0])


def with_share(value, place=(0, 0, 0)):
    shares = SOUND.shares.copy()
    shares[place] = value
    return {"shares": shares}


def test_a_sound_survey_passes_and_what_nobody_answered_may_be_anything():
    require_sound(SOUND, "mine")
    require_sound(replace(SOUND, positions=None), "mine")
    require_sound(replace(SOUND, **with_share(np.nan, (1, 1, 0))), "mine")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (with_share(0.7), "mine, T g0: shares of question q0 are [0.7, 0.5, 0.0], expected none below 0, a sum of 1"),
        (with_share(np.nan), "mine, T g0: shares of question q0 are [nan"),
        (with_share(np.inf), "mine, T g0: shares of question q0 are [inf"),
        (with_share([-0.5, 1.5, 0.0], (0, 0)), "expected none below 0"),
        (with_share([0.5, 0.5, 0.5], (0, 0)), "0 beyond its choices"),
        ({"overall": SOUND.overall * 3}, "mine: shares of question q0 are [1.5"),
        ({"shares": SOUND.shares[:, :1]}, "mine: shares is (2, 1, 3), expected (2, 2, 3) for 2 questions and 2 groups"),
        ({"people": np.array([1])}, "mine: people is (1,), expected (2,)"),
        ({"real": ~SOUND.real}, "`real` of question q0 does not say its 2 choices"),
        ({"groups": (Group(("T",), ("g0",)),) * 2}, "is there twice; give every group a name of its own"),
        ({"questions": (ChoiceQuestion("q0", "?", ("a", "b")), ChoiceQuestion("q0", "?", ("a", "b", "c")))}, "'q0' is"),
    ],
)
def test_a_fault_is_named(changes, told):
    with pytest.raises(DataError) as fault:
        require_sound(replace(SOUND, **changes), "mine")
    assert told in str(fault.value)
