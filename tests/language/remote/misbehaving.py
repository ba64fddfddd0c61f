"""An OpenAI-compatible endpoint on the loopback that misbehaves on purpose, the same way each time, for tests."""

import asyncio
import json
import random
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime

from aiohttp import web

STALL_S = 30.0


class Endpoint:
    """Answers every chat with `answer(body)`, or misbehaves.

    `faults`: kinds to draw from, each with its probability, per (chat, attempt) and `seed`; from the fourth attempt at
    a chat on it behaves. `room`: calls it bears at once, above that it says 429. `latency_s`: of each answer.
    """

    def __init__(self, answer=None, faults=None, seed=0, room=None, latency_s=0.0, models=("served",), key=None):
        self.answer = answer or (lambda body: completion(f"answer to {body['messages'][-1]['content']}"))
        self.faults, self.seed, self.room, self.latency_s = faults or {}, seed, room, latency_s
        self.models, self.key = models, key
        self.asked, self.answered, self.bodies = Counter(), Counter(), []
        self.most_at_once = self.at_once = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_get("/v1/models", self._list)
        app.router.add_post("/v1/{kind:.*}", self._take)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        self._loop.run_until_complete(site.start())
        self.port = runner.addresses[0][1]
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _list(self, _request):
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def _take(self, request):
        body = await request.json()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._respond(request, body)
        finally:
            self.at_once -= 1

    async def _respond(self, request, body):
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return refused(401, f"wrong key: {request.headers.get('Authorization')}")
        if body["model"] not in self.models:
            return refused(404, f"The model `{body['model']}` does not exist.")
        if self.room is not None and self.at_once > self.room:
            return refused(429, "too many requests")
        chat = named(body)
        self.asked[chat] += 1
        self.bodies.append(body)
        kind = self._fault(chat, self.asked[chat])
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if kind:
            return await getattr(self, f"_{kind}")(request, body)
        found = self.answer(body)
        if isinstance(found, web.Response):
            return found
        sent = await whole(request, json.dumps(found).encode())
        self.answered[chat] += 1
        return sent

    def _fault(self, chat, attempt):
        drawn = random.Random(f"{self.seed}/{chat}/{attempt}").random()
        for kind, share in self.faults.items() if attempt <= 3 else ():
            if drawn < share:
                return kind
            drawn -= share
        return None

    async def _storm(self, request, _body):
        """Say 429 and how long to wait, as seconds."""
        return refused(429, f"slow down {request.headers.get('Authorization')}", {"Retry-After": "0.02"})

    async def _dated_storm(self, _request, _body):
        """Say 429 and until when to wait, as a date."""
        return refused(429, "slow down", {"Retry-After": format_datetime(datetime.now(UTC), usegmt=True)})

    async def _fails(self, request, _body):
        return refused(500, f"it broke: {dict(request.headers)}")

    async def _busy(self, _request, _body):
        return refused(503, "loading model")

    async def _conflict(self, _request, _body):
        return refused(409, "again")

    async def _stall(self, _request, _body):
        await asyncio.sleep(STALL_S)
        return refused(500, "late")

    async def _half(self, request, body):
        """Break off in the middle of the answer."""
        sent = json.dumps(self.answer(body)).encode()
        response = web.StreamResponse(headers={"Content-Length": str(len(sent))})
        await response.prepare(request)
        await response.write(sent[: len(sent) // 2])
        request.transport.abort()
        return response

    async def _cut_json(self, request, body):
        """Send half of the JSON as if it were the whole."""
        sent = json.dumps(self.answer(body)).encode()
        return await whole(request, sent[: len(sent) // 2])

    async def _nonsense(self, request, _body):
        return await whole(request, b"<html>gateway</html>")

    async def _listed(self, request, _body):
        return await whole(request, b"[1, 2]")

    async def _excuse(self, request, _body):
        return await whole(request, b'{"error": {"message": "provider failed", "code": 502}}')

    async def _empty(self, request, _body):
        return await whole(request, b'{"choices": []}')

    async def _null(self, request, _body):
        return await whole(request, json.dumps(completion(None, finish_reason="error")).encode())

    async def _drop(self, request, _body):
        request.transport.abort()
        return web.Response()

    async def _twice(self, request, body):
        """Send the answer, with one that nobody asked for right behind it, and leave the connection open a while."""
        parts = [json.dumps(each).encode() for each in (self.answer(body), completion("invented"))]
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        request.transport.write(b"".join(head.format(len(part)).encode() + part for part in parts))
        self.answered[named(body)] += 1
        await asyncio.sleep(0.2)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _late(self, request, body):
        """Send the answer, and a while later one that nobody asked for, on the same connection."""
        response, stray = await whole(request, json.dumps(self.answer(body)).encode()), completion("invented")
        sent, transport = json.dumps(stray).encode(), request.transport
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        self._loop.call_later(0.02, lambda: transport.is_closing() or transport.write(head.encode() + sent))
        return response

    async def _nan(self, request, body):
        """Make every log-probability of the answer impossible."""
        text = json.dumps(self.answer(body))
        wrong = random.Random(f"{self.seed}/{text}").choice(["NaN", "null", "0.7", '"-1"'])
        found = json.loads(text, parse_float=lambda _: float("nan"))
        return await whole(request, json.dumps(found).replace("NaN", wrong).encode())


def named(body):
    """Return what a request is about: not its seed, which changes when an answer was malformed."""
    return json.dumps(body.get("messages", body.get("input", body.get("prompt"))))


async def whole(request, sent):
    """Send an answer and return it when it is on its way."""
    response = web.Response(body=sent, content_type="application/json")
    await response.prepare(request)
    await response.write_eof()
    return response


def refused(status, message, headers=None):
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


def completion(text, finish_reason="stop", **message):
    """Return a chat completion."""
    return {
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    }


def wait_until(true, seconds=60):
    """Return when `true()` is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
