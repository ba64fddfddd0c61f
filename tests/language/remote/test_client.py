"""What the client does below any model: connections, threads, faults of its own."""

import asyncio
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from apm_lab.errors import ConfigError, EndpointError
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


def behind(monkeypatch, proxy):
    """Return how a model behind this proxy is reached."""
    for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", proxy)
    return Access("https://far.invalid/v1", "served", None, lambda: None, 1, 10.0, Patience(unheard=2, first_s=0.01))


async def posted(exchange, call):
    return await exchange.post("/chat/completions", lambda _: body(call), text)


class RefusingProxy(BaseHTTPRequestHandler):
    """Lets nobody through."""

    def do_CONNECT(self):
        self.send_error(407, "who are you")

    def log_message(self, *_):
        pass


def test_a_proxys_password_stays_out_of_the_message_about_its_refusal(monkeypatch):
    with HTTPServer(("127.0.0.1", 0), RefusingProxy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        reached = behind(monkeypatch, f"http://mary:hunter2@127.0.0.1:{server.server_port}")
        with pytest.raises(EndpointError, match="the proxy answers HTTP 407: who are you") as fault:
            list(answered(reached, ["a"], posted))
        server.shutdown()
        thread.join(10)
    assert "mary" not in str(fault.value) and "hunter2" not in str(fault.value)
    assert fault.value.__cause__ is None


@pytest.mark.parametrize(
    "proxy", ["http://mary:hunter2@host:port", "http://mary:hunter2@", "socks5://mary:hunter2@h:1"]
)
def test_a_proxy_that_is_none_is_told_without_its_password(monkeypatch, proxy):
    with pytest.raises(ConfigError, match="the environment's https_proxy: expected an address like") as fault:
        list(answered(behind(monkeypatch, proxy), ["a"], posted))
    assert "hunter2" not in str(fault.value)


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
