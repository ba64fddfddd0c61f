import asyncio

from apm_lab.language.remote.limit import Limit


def rounds(limit, latency, count, start=0.0):
    """Answer `count` full rounds of calls, each `latency(size)` long; return the sizes after each and the end."""
    now, sizes = start, []
    for _ in range(count):
        size = int(limit.size)
        limit.in_flight = size
        started = now
        now += latency(size)
        for _ in range(2 * size + 4):
            limit.succeeded(started + 1e-9, now)
        sizes.append(limit.size)
    return sizes, now


def test_it_doubles_while_latency_holds_up_to_its_ceiling():
    sizes, _ = rounds(Limit(100), lambda _: 0.05, 6)
    assert sizes == sorted(sizes)
    assert sizes[0] == 32
    assert sizes[-1] == 100


def test_it_stops_doubling_where_more_in_flight_bring_no_more():
    sizes, _ = rounds(Limit(1000), lambda size: 0.01 * max(1, size / 32), 4)
    assert sizes[-1] < 300


def test_it_does_not_grow_past_what_makes_answers_fewer():
    sizes, _ = rounds(Limit(1000), lambda size: 0.01 * max(1.0, (size / 32) ** 2), 40)
    assert max(sizes) < 260


def test_it_does_not_grow_while_few_ask():
    limit = Limit(64)
    for n in range(200):
        limit.in_flight = 2
        limit.succeeded(n, n + 0.5)
    assert limit.size == 16


def test_congestion_halves_it_once_for_all_that_were_on_their_way():
    limit = Limit(64)
    for _ in range(16):
        limit.congested(started=1.0, now=2.0)
    assert limit.size == 8
    limit.congested(started=2.5, now=3.0)
    assert limit.size == 4


def test_it_never_closes_altogether_and_recovers_step_by_step():
    limit = Limit(64)
    for n in range(20):
        limit.congested(2.0 * n, 2.0 * n + 1)
    assert limit.size == 1
    sizes, _ = rounds(limit, lambda _: 0.05, 20, start=100.0)
    assert sizes[0] == 5
    assert sizes[-1] == 64


def test_a_role_that_wants_more_raises_the_ceiling_and_one_that_wants_less_does_not_lower_it():
    limit = Limit(8)
    limit.raise_ceiling(32)
    limit.raise_ceiling(4)
    assert limit.ceiling == 32


def test_no_more_than_its_size_are_in_and_all_get_their_turn():
    async def play():
        limit, most, done = Limit(3), 0, 0

        async def one():
            nonlocal most, done
            await limit.enter()
            most = max(most, limit.in_flight)
            await asyncio.sleep(0.001)
            limit.leave()
            done += 1

        await asyncio.gather(*(one() for _ in range(30)))
        return most, done, limit.in_flight

    assert asyncio.run(play()) == (3, 30, 0)


def test_who_leaves_the_queue_takes_nobodys_turn():
    async def play():
        limit = Limit(1)
        await limit.enter()
        first, second = asyncio.create_task(limit.enter()), asyncio.create_task(limit.enter())
        await asyncio.sleep(0)
        limit.leave()  # calls the first
        first.cancel()
        await asyncio.wait_for(second, 5)
        return limit.in_flight

    assert asyncio.run(play()) == 1


def test_nobody_enters_while_the_server_has_asked_for_a_pause():
    async def play():
        limit, loop = Limit(2), asyncio.get_running_loop()
        limit.close_until(loop.time() + 0.05)
        limit.close_until(loop.time() + 0.01)  # the later one counts
        begun = loop.time()
        return await limit.enter() - begun

    assert asyncio.run(play()) > 0.045
