"""Our endpoint client against the ideal rate and against the openai client, on a loopback server, in one run.

    python bench/client.py [--quick]

The server, lean and in a process of its own, answers each call after 50 ms and serves 64 at once, so that no client can
get more than 1280 calls a second. `ratio`: our rate over that of the openai client, whose AsyncOpenAI is driven with 64
in flight (wanted: at least 5); `ideal`: ours over 1280 (wanted: at least 0.8); `memory`: peak memory at the end of
100,000 calls over that after the first tenth of them, each taken as it comes, in a process that does nothing else
(wanted: at most 1.1). Without the openai package (`pip install openai`) `ratio` is nan.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import statistics
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, overload

from apm_lab.language.protocols import GenerationCall
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.records import Message

LATENCY_S, ROOM = 0.05, 64
IDEAL = ROOM / LATENCY_S
ANSWER = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 60}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 80, "completion_tokens": 60, "total_tokens": 140},
    }
).encode()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
PROMPT = "Explain to a friend how to keep tomato plants alive through a dry summer. " * 4


class Lean(asyncio.Protocol):
    """Just enough HTTP: whatever is asked is answered with the same reply; `ROOM` requests are served at once."""

    served = 0
    waiting: ClassVar[list["Lean"]] = []

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Serve a request as soon as it is whole and there is room."""
        self.buffer += data
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) >= length:
            self.buffer = rest[length:]
            if Lean.served < ROOM:
                self.begin()
            else:
                Lean.waiting.append(self)

    def begin(self) -> None:
        """Take a place for as long as an answer needs."""
        Lean.served += 1
        asyncio.get_running_loop().call_later(LATENCY_S, self.end)

    def end(self) -> None:
        """Answer, and let the next one in."""
        Lean.served -= 1
        if not self.transport.is_closing():
            self.transport.write(REPLY)
        if Lean.waiting:
            Lean.waiting.pop(0).begin()


def serve(port: "multiprocessing.Queue[int]") -> None:
    """Run the server for ever."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Lean, "127.0.0.1", 0, backlog=512)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Calls(Sequence[GenerationCall]):
    """As many different calls as wanted, none of them kept."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    @overload
    def __getitem__(self, place: int) -> GenerationCall: ...
    @overload
    def __getitem__(self, place: slice) -> "Calls": ...
    def __getitem__(self, place: int | slice) -> "GenerationCall | Calls":
        """Return a call."""
        if isinstance(place, slice) or not 0 <= place < self.count:
            raise IndexError(place)
        return GenerationCall((Message("system", "Be casual."), Message("user", f"{PROMPT} {place}")), place)


def ours(address: str, count: int, marks: Sequence[float] = ()) -> tuple[float, list[float]]:
    """Return our calls a second, and the peak memory in MB when each of these shares of the calls was answered."""
    model = OpenAiModel("m", address, api_key_env=None, concurrency=ROOM)
    begun, done, peaks = time.perf_counter(), 0, []
    ahead = [share * count for share in marks]
    for group in model.stream(Calls(count)):
        done += len(group)
        while ahead and done >= ahead[0]:
            ahead.pop(0)
            peaks.append(peak())
    assert done == count
    return count / (time.perf_counter() - begun), peaks


def peak() -> float:
    """Return the most memory in MB that this process has had. `ru_maxrss` would begin at what its parent had."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def tell_memory(address: str, count: int, told: "multiprocessing.Queue[list[float]]") -> None:
    """Put the peaks after a tenth and at the end of so many calls."""
    told.put(ours(address, count, (0.1, 1.0))[1])


def memory(address: str, count: int) -> list[float]:
    """Return the peak memory in MB after a tenth and at the end of so many calls, in a process of their own."""
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[list[float]] = context.Queue()
    process = context.Process(target=tell_memory, args=(address, count, told))
    process.start()
    process.join()
    assert process.exitcode == 0
    return told.get()


def theirs(address: str, count: int) -> float:
    """Return the calls a second of the openai client with 64 in flight."""
    from openai import AsyncOpenAI

    async def run() -> float:
        gate, calls = asyncio.Semaphore(ROOM), Calls(count)
        async with AsyncOpenAI(base_url=address, api_key="none") as client:

            async def one(place: int) -> str | None:
                async with gate:
                    messages = [{"role": turn.role, "content": turn.content} for turn in calls[place].messages]
                    answer = await client.chat.completions.create(
                        model="m",
                        messages=messages,  # type: ignore[arg-type]
                        temperature=1.0,
                        top_p=1.0,
                        max_tokens=512,
                        seed=place,
                    )
                    return answer.choices[0].message.content

            begun = time.perf_counter()
            await asyncio.gather(*(one(place) for place in range(count)))
            return count / (time.perf_counter() - begun)

    return asyncio.run(run())


def main() -> None:
    """Print a table and the line of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    count, rounds, many = (4000, 2, 10_000) if quick else (12_800, 5, 100_000)
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=serve, args=(port,), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{port.get()}/v1"
    there = find_spec("openai") is not None
    rates: dict[str, list[float]] = {"apm_lab": [], "openai": []}
    ours(address, 500)  # the limit finds its size
    for _ in range(rounds):
        rates["apm_lab"].append(ours(address, count)[0])
        if there:
            rates["openai"].append(theirs(address, max(500, count // 10)))
    first, last = memory(address, many)
    server.terminate()
    for name, each in rates.items():
        if each:
            print(f"{name:8s} {statistics.median(each):7.0f} calls/s  (of {', '.join(f'{rate:.0f}' for rate in each)})")
        else:
            print(f"{name} is not installed: pip install {name}")
    print(f"{many} calls: {first:.0f} MB after a tenth, {last:.0f} MB at the end")
    rate = statistics.median(rates["apm_lab"])
    ratio = rate / statistics.median(rates["openai"]) if there else float("nan")
    print(f"ratio={ratio:.2f} ideal={rate / IDEAL:.2f} memory={last / first:.2f}")


if __name__ == "__main__":
    main()
