from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from apm_lab.language.remote.patience import Patience, asked_wait


def test_waits_double_and_are_drawn_at_random_up_to_the_longest():
    patience = Patience(first_s=1.0, most_s=10.0)
    for faults, full in ((1, 1.0), (2, 2.0), (3, 4.0), (5, 10.0), (50, 10.0)):
        drawn = [patience.delay(faults) for _ in range(50)]
        assert full / 2 <= min(drawn) < max(drawn) <= full


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0.25 "}, 0.25),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "9", "retry-after-ms": "1500"}, 1.5),
    ],
)
def test_what_a_server_asks_to_wait(headers, wait):
    assert asked_wait(headers) == wait


def test_a_date_is_a_wait_from_now():
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 55 < asked_wait({"Retry-After": then}) <= 60
