"""Whoever leaves, at whatever moment, leaves nothing behind."""

from __future__ import annotations

import asyncio
from random import Random

import anyio
import pytest

from gateway.errors import UpstreamError
from gateway.wire.http_client.fast import ConnectionSlots
from gateway.wire.http_client.upstream import Upstream

from .conftest import Connected
from .fake import CHUNKED, LAST, Peer, Story, chunk, fake_upstream
from .reading import BODY, ask, until

SIZE = 8
VISITS = 300
BODIES = (BODY, bytes(600_000))


def dawdling(rng: Random) -> Story:
    """Answer with pauses of random length, and now and then break off."""

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await anyio.sleep(rng.random() * 0.003)
            await peer.send(CHUNKED)
            for _ in range(rng.randrange(4)):
                await peer.send(chunk(b"data: x\n\n"))
                await anyio.sleep(rng.random() * 0.002)
            if rng.random() < 0.05:
                peer.reset()
                return
            await peer.send(LAST)

    return story


async def visit(upstream: Upstream, rng: Random) -> None:
    """Open a turn, read some of it, and give it back in one of the two ways."""
    reads = rng.randrange(6)
    body = rng.choice(BODIES)
    try:
        turn = await upstream.open(body, ())
    except UpstreamError:
        return
    try:
        async for _ in turn:
            reads -= 1
            if reads < 0:
                break
    except UpstreamError:
        pass
    finally:
        await (turn.release() if reads < 0 else turn.aclose())


async def works(upstream: Upstream) -> None:
    """Show that no slot is lost: as many as ever are answered at the same time."""
    await until(lambda: upstream.busy == 0)
    turns = [await upstream.open(BODY, ()) for _ in range(SIZE)]
    assert upstream.busy == SIZE
    for turn in turns:
        await turn.aclose()
    assert upstream.busy == 0


@pytest.mark.parametrize("seed", range(2))
async def test_cancelled_by_a_scope_at_random(connected: Connected, seed: int) -> None:
    rng = Random(seed)

    async def hasty() -> None:
        await anyio.sleep(rng.random() * 0.2)
        with anyio.move_on_after(rng.expovariate(200)):
            await visit(upstream, rng)

    async with fake_upstream(dawdling(rng)) as fake:
        async with connected(fake, max_connections=SIZE) as upstream:
            async with anyio.create_task_group() as tasks:
                for _ in range(VISITS):
                    tasks.start_soon(hasty)
            await works(upstream)
        await until(lambda: fake.open == 0)


@pytest.mark.parametrize("seed", range(2))
async def test_cancelled_natively_at_random(fast: Connected, seed: int) -> None:
    rng = Random(seed)

    async def hasty() -> None:
        task = asyncio.create_task(visit(upstream, rng))
        await anyio.sleep(rng.expovariate(200))
        task.cancel()
        await anyio.sleep(rng.choice([0, 0.001]))
        task.cancel()
        await asyncio.wait([task])

    async with fake_upstream(dawdling(rng)) as fake:
        async with fast(fake, max_connections=SIZE) as upstream:
            async with anyio.create_task_group() as tasks:
                for _ in range(VISITS):
                    tasks.start_soon(hasty)
            await works(upstream)
        await until(lambda: fake.open == 0)


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_after_any_number_of_steps(fast: Connected, steps: int) -> None:
    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED, chunk(b"x"), LAST)

    async with fake_upstream(story) as fake, fast(fake, max_connections=1) as upstream:
        for _ in range(5):
            task = asyncio.create_task(ask(upstream))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.result() == b"x"
            assert upstream.busy == 0
        assert await ask(upstream) == b"x"


async def test_a_slot_that_comes_as_its_waiter_leaves_goes_to_the_next() -> None:
    slots = ConnectionSlots(1)
    assert slots.grab()
    leaving = asyncio.create_task(slots.wait(1))
    staying = asyncio.create_task(slots.wait(1))
    await anyio.wait_all_tasks_blocked()
    slots.free()
    leaving.cancel()
    await asyncio.wait([leaving, staying])
    assert leaving.cancelled()
    assert staying.exception() is None
    assert slots.busy == 1
    slots.free()
    assert slots.busy == 0


async def test_who_gives_up_waiting_is_forgotten() -> None:
    slots = ConnectionSlots(1)
    assert slots.grab()
    with anyio.move_on_after(0.01):
        await slots.wait(1)
    assert repr(slots) == "<ConnectionSlots 1 of 1 busy, 0 waiting>"
