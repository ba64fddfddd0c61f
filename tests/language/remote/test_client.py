"""What the client does below any model: connections, threads, faults of its own."""

import asyncio
import sys
from pathlib import Path

import pytest

from apm_lab.language.remote.client import answered
from apm_lab.language.remote.exchange import Access
from apm_lab.language.remote.patience import Patience

sys.path.insert(0, str(Path(__file__).parent))
from misbehaving import Endpoint


def access(endpoint, concurrency=4):
    return Access(endpoint.address, "served", None, lambda: None, concurrency, 10.0, Patience(first_s=0.01))


def body(call):
    return {"model": "served", "messages": [{"role": "user", "content": call}]}


def text(answer):
    return answer["choices"][0]["message"]["content"]


def test_an_answer_that_comes_over_an_idle_connection_is_nobodys():
    async def work(exchange, call):
        found = await exchange.post("/chat/completions", lambda _: body(call), text)
        await asyncio.sleep(0.1)  # the connection lies idle while the stray answer comes
        return found

    with Endpoint(faults={"late": 1.0}) as endpoint:
        groups = list(answered(access(endpoint, 1), ["a", "b", "c"], work))
    assert sorted(pair for group in groups for pair in group) == [(n, f"answer to {c}") for n, c in enumerate("abc")]


def test_a_bug_in_the_work_is_raised_as_it_is():
    async def work(exchange, call):
        raise ZeroDivisionError(call)

    with Endpoint() as endpoint, pytest.raises(ZeroDivisionError):
        list(answered(access(endpoint), ["a", "b"], work))


def test_several_requests_of_one_call_follow_each_other():
    async def work(exchange, call):
        first = await exchange.post("/chat/completions", lambda _: body(call), text)
        return await exchange.post("/chat/completions", lambda _: body(first), text)

    with Endpoint(faults={"fails": 0.3}) as endpoint:
        groups = list(answered(access(endpoint), ["a", "b"], work))
    assert dict(pair for group in groups for pair in group) == {
        0: "answer to answer to a",
        1: "answer to answer to b",
    }
