"""Figures reach the other side in order, and the log leads nowhere."""

import pytest

from apm_lab.training.queued_log import queued


def test_everything_arrives_in_order_before_the_end():
    seen = []
    with queued(lambda name, figures: seen.append((name, figures))) as (log, _):
        for number in range(100):
            log("draw", {"step": number})
    assert seen == [("draw", {"step": number}) for number in range(100)]


def test_what_was_logged_arrives_also_when_a_method_fails():
    seen = []
    with pytest.raises(RuntimeError), queued(lambda name, figures: seen.append(name)) as (log, _):
        log("last", {})
        raise RuntimeError
    assert seen == ["last"]


def test_what_the_other_side_raises_is_raised_at_the_end_and_ends_the_passing_on():
    seen = []

    def send(name, figures):
        seen.append(name)
        raise OSError("full")

    with pytest.raises(OSError, match="full"), queued(send) as (log, _):
        log("first", {})
        log("second", {})
    assert seen == ["first"]
    with pytest.raises(RuntimeError, match="of the method"), queued(send) as (log, _):
        log("first", {})
        raise RuntimeError("of the method")


def test_settling_waits_for_what_was_logged_and_raises_what_stood_in_its_way():
    seen = []

    def send(name, figures):
        seen.append(name)
        if name == "bad":
            raise OSError("full")

    with pytest.raises(OSError, match="full"), queued(send) as (log, settle):
        log("good", {})
        settle()
        assert seen == ["good"]
        log("bad", {})
        settle()
        seen.append("never reached")
    assert seen == ["good", "bad"]
