"""One call at an endpoint: tried until it brings a sound answer or a fault that stays."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from apm_lab.errors import ApmLabError, ConfigError, EndpointError
from apm_lab.language.remote.connector import CautiousConnector
from apm_lab.language.remote.fault import MalformedError, PassingError, may_pass, model_names, refusal, said
from apm_lab.language.remote.limit import Limit
from apm_lab.language.remote.patience import Patience, asked_wait

__all__ = ["Access", "Body", "Exchange", "StoppedError", "session"]

Value = TypeVar("Value")
Body = Callable[[int], Mapping[str, Any]]
"""A request's body, given how many of its answers were malformed so far."""
_CONNECT_S = 30.0


class StoppedError(Exception):
    """Another call of the same stream has failed for good."""


@dataclass(frozen=True, slots=True)
class Access:
    """How one model at one endpoint is reached.

    `base_url`: without a slash at the end; `key`: gives the key or None, asked when the first call is made; `key_env`:
    its environment variable, for messages; `timeout_s`: for one attempt, from the first byte sent to the last read.
    """

    base_url: str
    model: str
    key_env: str | None
    key: Callable[[], str | None]
    concurrency: int
    timeout_s: float
    patience: Patience


class Exchange:
    """What a call may use: a POST that is tried until it brings a sound answer or a fault that stays."""

    def __init__(self, access: Access, session: aiohttp.ClientSession, limit: Limit) -> None:
        self._access, self._session, self._limit = access, session, limit
        self._key = access.key()
        self._headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._urls: dict[str, URL] = {}
        self.base_url = access.base_url
        self.stopping = asyncio.Event()

    async def post(self, path: str, body: Body, read: Callable[[Mapping[str, Any]], Value]) -> Value:
        """Return what `read` makes of the JSON answer; it raises MalformedError where the answer is not sound.

        Raises:
            ApmLabError: the endpoint refuses the call, or it failed too often.

        """
        faults = malformed = 0
        loop, patience = asyncio.get_running_loop(), self._access.patience
        while True:
            started = await self._limit.enter()
            try:
                if self.stopping.is_set():
                    raise StoppedError
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
        url = self._urls.get(path) or self._urls.setdefault(path, URL(f"{self._access.base_url}{path}"))
        try:
            async with self._session.post(url, data=sent, headers=self._headers, allow_redirects=False) as response:
                status, headers = response.status, response.headers
                answer = await response.read()
        except aiohttp.ClientPayloadError:
            raise MalformedError("the answer broke off half-way") from None
        except TimeoutError:
            raise PassingError(f"no answer within {self._access.timeout_s:g} s (timeout_s)", 408) from None
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLError) as fault:
            raise EndpointError(f"{self._access.base_url}: its certificate is not accepted: {fault}") from None
        except (aiohttp.ClientError, OSError) as fault:
            raise PassingError(_story(fault)) from None
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
        message, access = said(answer, self._key), self._access
        if may_pass(status):
            wait = asked_wait(headers)
            if wait is not None and wait > access.patience.longest_ask_s:
                raise EndpointError(
                    f"{access.base_url}: HTTP {status}: {message or 'no message'}; it asks to wait {wait:.0f} s: give "
                    "the same command again then, it continues"
                )
            raise PassingError(f"HTTP {status}: {message or 'no message'}", status, wait)
        if status < 400:  # followed, a POST may become a GET, and the key go to another host
            raise ConfigError(
                f"{access.base_url}: HTTP {status}: it sends calls on to {headers.get('Location', 'nowhere')}; give "
                "the address that answers as base_url"
            )
        offered = await self._offered() if status == 404 else None
        raise refusal(access.base_url, access.model, status, message, access.key_env, offered, length)

    async def _offered(self) -> list[str] | None:
        """Return the models that the endpoint names, None where it can't be asked."""
        try:
            async with self._session.get(f"{self._access.base_url}/models", headers=self._headers) as response:
                return model_names(json.loads(await response.read())) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):
            return None

    def _note(self, fault: PassingError, started: float, now: float) -> None:
        self._limit.heard |= isinstance(fault, MalformedError) or fault.status not in (None, 408)
        if fault.congested or fault.status == 408:
            self._limit.congested(started, now)
        if fault.wait_s:
            self._limit.close_until(now + fault.wait_s)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return
        raise StoppedError

    def _given_up(self, fault: PassingError, faults: int) -> ApmLabError:
        access = self._access
        advice = "see that it runs and can be reached (base_url)"
        if isinstance(fault, MalformedError):
            advice = "see what it sends, and whether logprobs_via fits it"
        elif fault.congested:
            advice = "it is given too much: wait, or take a smaller concurrency"
        elif fault.status == 408:
            advice = "it is stuck or slow: look at its log, or take a longer timeout_s or a smaller concurrency"
        elif fault.status is not None:
            advice = "look at the server's log"
        return EndpointError(
            f"{access.base_url}: model {access.model}: {faults} attempts at one call failed, the last with: {fault}; "
            f"{advice}. What was answered is stored: the same command continues"
        )


def _story(fault: Exception) -> str:
    """Return what went wrong on the way, on one line.

    Of an HTTP fault it is status and message alone: the rest may hold a proxy's address, with its password.
    """
    if isinstance(fault, aiohttp.ClientResponseError):
        proxy = "the proxy answers " if isinstance(fault, aiohttp.ClientHttpProxyError) else ""
        return f"{proxy}HTTP {fault.status}: {' '.join(fault.message.split()) or 'no message'}"
    return " ".join(str(fault).replace(" ssl:default", "").split()) or type(fault).__name__


def session(access: Access) -> aiohttp.ClientSession:
    """Return a session for one stream; its connections end with it."""
    return aiohttp.ClientSession(
        connector=CautiousConnector(),
        timeout=aiohttp.ClientTimeout(total=access.timeout_s, sock_connect=min(access.timeout_s, _CONNECT_S)),
        headers={"Content-Type": "application/json", "User-Agent": "apm_lab"},
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=_proxy(URL(access.base_url)),
    )


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for this address; looked up once, not with every request."""
    host = url.host or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    proxy = getproxies().get(url.scheme)
    try:
        sound = proxy is None or (URL(proxy).scheme in ("http", "https") and URL(proxy).host)
    except ValueError:
        sound = False
    if not sound:  # not shown: it may hold a password
        raise ConfigError(f"the environment's {url.scheme}_proxy: expected an address like http://host:port")
    return proxy
