import dataclasses

import numpy as np
import pytest

from apm_lab.records import Message, Response, Style


def test_styles_are_numbered_as_in_the_score_vector():
    # APM Sec. 5.2: follow and avoid of principle 0, then of principle 1, ...
    assert [(Style.of(n).principle, Style.of(n).direction) for n in range(4)] == [(0, 1), (0, -1), (1, 1), (1, -1)]
    assert Style(3, -1).index == 7


@pytest.mark.parametrize("index", range(20))
def test_a_style_and_its_number_say_the_same(index):
    assert Style.of(index).index == index
    assert Style.of(np.int64(index)) == Style.of(index)
    assert type(Style.of(np.int64(index)).principle) is int
    assert Style(Style.of(index).principle, -Style.of(index).direction).index == index ^ 1


def test_records_stay_as_they_are():
    for record, field in ((Style(0, 1), "direction"), (Message("user", "a"), "content"), (Response(), "sample")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, 2)
        assert hash(record) == hash(dataclasses.replace(record))


def test_a_response_is_neutral_unless_it_says_otherwise():
    assert (Response().style, Response().text, Response().sample) == (None, None, 0)
