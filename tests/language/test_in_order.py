import pytest

from apm_lab.language.in_order import in_order
from apm_lab.language.protocols import Answer


def test_values_stand_where_their_calls_do():
    assert in_order([[Answer(2, "c"), Answer(0, "a")], [], [Answer(1, "b")]]) == ["a", "b", "c"]
    assert in_order([]) == []


def test_a_call_without_an_answer_is_no_empty_one():
    with pytest.raises(KeyError):
        in_order([[Answer(0, "a"), Answer(2, "c")]])
