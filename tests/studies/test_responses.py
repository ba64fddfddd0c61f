"""A response that can't be scored is refused by name, before it passes for another column."""

import pytest

from apm_lab.data.pool import Pool
from apm_lab.errors import DataError
from apm_lab.records import Response, Style
from apm_lab.studies.responses import checked_responses

POOL = Pool(("verbose",), ("persuasive", "elaborate", "casual"))


def test_sound_responses_come_back():
    given = [Response(style=Style(2, -1)), Response(), Response(sample=1), Response(text="Yes."), Response(text="")]
    assert checked_responses(given, "mine", 5, POOL) is given


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            Response(style=Style(3, 1)),
            r"Style\(principle=3, direction=1\); expected Style\(principle 0\.\.2, direction",
        ),
        (Response(style=Style(7, 1)), "this pool has 3 principles"),
        (Response(style=Style(-1, 1)), "principle=-1"),
        (Response(style=Style(0, 0)), "direction=0"),
        (Response(style=Style(0, 5)), "direction=5"),
        (Response(style=4), "4; expected Style"),
        (Response(style=Style(0, 1), text="x"), "a style and a text"),
        (Response(text=3), "text is 3, expected a string"),
        (Response(sample=2), "sample=2, expected 0"),
    ],
)
def test_what_can_not_be_scored_is_refused(response, message):
    with pytest.raises(DataError, match=f"method mine: the response for test user 1: .*{message}"):
        checked_responses([Response(), response], "mine", 2, POOL)
