"""An asynchronous client for JSON over HTTP whose answers are handed out by a plain generator as they arrive."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from apm_lab.errors import ApmLabError, EndpointError
from apm_lab.language.remote.fault import MalformedError, PassingError, may_pass, model_names, refusal, said
from apm_lab.language.remote.host import Host, this_host
from apm_lab.language.remote.limit import Limit
from apm_lab.language.remote.patience import Patience, asked_wait

__all__ = ["Body", "Client", "Exchange"]

Call = TypeVar("Call")
Value = TypeVar("Value")
Body = Callable[[int], Mapping[str, Any]]
"""A request's body, given how many of its answers were malformed so far."""
_CONNECT_S = 30.0
_GATHER_S = 0.01  # answers that come within this time are handed out together


class _StoppedError(Exception):
    """Another call of the same stream has failed for good."""


class Client:
    """Sends calls to one model at one endpoint.

    Args:
        base_url: without a slash at the end.
        model: for messages only.
        key_env: the environment variable of the key, for messages; `key` gives its value when the first call is made.
        key: returns the key or None.
        concurrency: calls in flight at most; the endpoint's shared limit may be lower.
        timeout_s: for one attempt from the first byte sent to the last one read.
        patience: attempts and waits.

    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None,
        key: Callable[[], str | None],
        concurrency: int,
        timeout_s: float,
        patience: Patience,
    ) -> None:
        self.base_url, self.model, self.key_env, self.key = base_url, model, key_env, key
        self.concurrency, self.timeout_s, self.patience = concurrency, timeout_s, patience

    def stream(
        self, calls: Sequence[Call], work: Callable[[Exchange, Call], Awaitable[Value]]
    ) -> Iterator[list[tuple[int, Value]]]:
        """Yield (place, value) of the calls as they are answered, those that came since the last yield together.

        At most `concurrency` calls are in flight and as many more answered and not yet taken, however many there are.

        Raises:
            ApmLabError: of the first call that failed for good, after all answers that came have been yielded.

        """
        host = this_host()
        flow: _Flow[Call, Value] = _Flow(self, host, calls, work)
        future = asyncio.run_coroutine_threadsafe(flow.run(), host.loop)
        try:
            while (group := flow.groups.get()) is not None:
                yield group
                host.loop.call_soon_threadsafe(flow.taken, len(group))
            future.result()
        finally:
            future.cancel()
            flow.ended.wait(10)


class _Flow(Generic[Call, Value]):
    """One stream: its workers, and the answers on their way to the thread that takes them."""

    def __init__(
        self, client: Client, host: Host, calls: Sequence[Call], work: Callable[[Exchange, Call], Awaitable[Value]]
    ) -> None:
        self._client, self._host, self._work = client, host, work
        self._calls, self._count = iter(enumerate(calls)), len(calls)
        self.groups: SimpleQueue[list[tuple[int, Value]] | None] = SimpleQueue()
        self.ended = threading.Event()
        self._room = asyncio.Semaphore(2 * client.concurrency)
        self._come: list[tuple[int, Value]] = []

    async def run(self) -> None:
        """Work through all calls; raises what the first of them to fail for good has raised."""
        client = self._client
        try:
            async with _session(client) as session:
                exchange = Exchange(client, session, self._host.limit(_endpoint(client.base_url), client.concurrency))
                workers = [
                    asyncio.create_task(self._answer_calls(exchange))
                    for _ in range(min(client.concurrency, self._count))
                ]
                try:
                    await _all_or_first_fault(workers, exchange, client.patience.grace_s)
                finally:
                    for worker in workers:
                        worker.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)
        finally:
            self._hand_out()
            self.groups.put(None)
            self.ended.set()

    def taken(self, count: int) -> None:
        """Make room for as many calls as answers were taken."""
        for _ in range(count):
            self._room.release()

    async def _answer_calls(self, exchange: Exchange) -> None:
        while not exchange.stopping.is_set():
            await self._room.acquire()
            place, call = next(self._calls, (-1, None))
            if call is None:
                self._room.release()  # for the next worker to find the same
                return
            value = await self._work(exchange, call)
            if not self._come:
                self._host.loop.call_later(_GATHER_S, self._hand_out)
            self._come.append((place, value))

    def _hand_out(self) -> None:
        if self._come:
            self.groups.put(self._come)
            self._come = []


class Exchange:
    """What a call may use: a POST that is tried until it brings a sound answer or a fault that stays."""

    def __init__(self, client: Client, session: aiohttp.ClientSession, limit: Limit) -> None:
        self._client, self._session, self._limit = client, session, limit
        self._key = client.key()
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._urls: dict[str, URL] = {}
        self.stopping = asyncio.Event()

    async def post(self, path: str, body: Body, read: Callable[[Mapping[str, Any]], Value]) -> Value:
        """Return what `read` makes of the JSON answer; it raises MalformedError where the answer is not sound.

        Raises:
            ApmLabError: the endpoint refuses the call, or it failed too often.

        """
        faults = malformed = 0
        loop, patience = asyncio.get_running_loop(), self._client.patience
        while True:
            started = await self._limit.enter()
            try:
                if self.stopping.is_set():
                    raise _StoppedError
                value = read(await self._attempt(path, body(malformed)))
            except PassingError as fault:
                faults, malformed = faults + 1, malformed + isinstance(fault, MalformedError)
                last = fault
                self._note(fault, started, loop.time())
            else:
                self._limit.succeeded(started, loop.time())
                return value
            finally:
                self._limit.leave()
            allowed = patience.attempts if self._limit.heard else patience.unheard
            if faults >= allowed or malformed >= patience.malformed:
                raise self._given_up(last, faults)
            await self._pause(max(patience.delay(faults), last.wait_s or 0.0))

    async def _attempt(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        sent = json.dumps(body).encode()
        url = self._urls.get(path) or self._urls.setdefault(path, URL(f"{self._client.base_url}{path}"))
        try:
            async with self._session.post(url, data=sent, headers=self._headers) as response:
                status, headers = response.status, response.headers
                answer = await response.read()
        except aiohttp.ClientPayloadError:
            raise MalformedError("the answer broke off half-way") from None
        except TimeoutError:
            raise PassingError(f"no answer within {self._client.timeout_s:g} s (timeout_s)", 408) from None
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLError) as fault:
            raise EndpointError(f"{self._client.base_url}: its certificate is not accepted: {fault}") from None
        except (aiohttp.ClientError, OSError) as fault:
            raise PassingError(f"{' '.join(str(fault).split()) or type(fault).__name__}") from None
        if status >= 300:
            await self._refused(status, headers, answer, len(sent))
        try:
            found = json.loads(answer)
        except ValueError:
            raise MalformedError(f"the answer is no JSON: {said(answer, self._key)[:80]!r}", status) from None
        if not isinstance(found, dict):
            raise MalformedError(f"the answer is no JSON object: {said(answer, self._key)[:80]!r}", status)
        if found.get("error"):
            raise MalformedError(f"an error in place of an answer: {said(answer, self._key)}", status)
        return found

    async def _refused(self, status: int, headers: Mapping[str, str], answer: bytes, length: int) -> None:
        message, client = said(answer, self._key), self._client
        if may_pass(status):
            wait = asked_wait(headers)
            if wait is not None and wait > client.patience.longest_ask_s:
                raise EndpointError(
                    f"{client.base_url}: HTTP {status}: {message or 'no message'}; it asks to wait {wait:.0f} s: give "
                    "the same command again then, it continues"
                )
            raise PassingError(f"HTTP {status}: {message or 'no message'}", status, wait)
        offered = await self._offered() if status == 404 else None
        raise refusal(client.base_url, client.model, status, message, client.key_env, offered, length)

    async def _offered(self) -> list[str] | None:
        """Return the models that the endpoint names, None where it can't be asked."""
        try:
            async with self._session.get(f"{self._client.base_url}/models", headers=self._headers) as response:
                return model_names(json.loads(await response.read())) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):
            return None

    def _note(self, fault: PassingError, started: float, now: float) -> None:
        if fault.status is not None and not isinstance(fault, MalformedError):
            self._limit.heard |= fault.status != 408
        if fault.congested or fault.status == 408:
            self._limit.congested(started, now)
        if fault.wait_s:
            self._limit.close_until(now + fault.wait_s)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return
        raise _StoppedError

    def _given_up(self, fault: PassingError, faults: int) -> ApmLabError:
        client = self._client
        advice = "see that it runs and can be reached (base_url)"
        if isinstance(fault, MalformedError):
            advice = "the server or something before it does not speak as an OpenAI-compatible endpoint does"
        elif fault.congested:
            advice = "it is given too much: wait, or take a smaller concurrency"
        elif fault.status == 408:
            advice = "it is stuck or slow: look at its log, or take a longer timeout_s or a smaller concurrency"
        elif fault.status is not None:
            advice = "look at the server's log"
        return EndpointError(
            f"{client.base_url}: model {client.model}: {faults} attempts at one call failed, the last with: {fault}; "
            f"{advice}. What was answered is stored: the same command continues"
        )


def _session(client: Client) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=client.timeout_s, sock_connect=min(client.timeout_s, _CONNECT_S)),
        headers={"Content-Type": "application/json", "User-Agent": "apm_lab"},
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=_proxy(URL(client.base_url)),
    )


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for this address; looked up once, not with every request."""
    host = url.host or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    return getproxies().get(url.scheme)


async def _all_or_first_fault(workers: list[asyncio.Task[None]], exchange: Exchange, grace_s: float) -> None:
    """Wait for all workers; when one fails the others send nothing more, but may bring what they have asked for."""
    if not workers:
        return
    done, pending = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    if pending:
        exchange.stopping.set()
        late, _ = await asyncio.wait(pending, timeout=grace_s)
        done |= late
    faults = [fault for worker in done if (fault := worker.exception()) and not isinstance(fault, _StoppedError)]
    if faults:
        raise faults[0]


def _endpoint(base_url: str) -> str:
    url = URL(base_url)
    return f"{url.scheme}://{url.host}:{url.port}"
