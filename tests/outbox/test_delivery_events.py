"""Subscriptions to a session's events, on real sockets: replay, heartbeats, leaving, limits."""

from __future__ import annotations

import json
import logging
import random
import re

import anyio
import httpx
import pytest
from httpx_sse import aconnect_sse
from sse_starlette.sse import _get_shutdown_state

from gateway.api.event_stream import FeedTimes
from tests.gateway.client import Client
from tests.gateway.wire import get
from tests.outbox.house import MINUTE, OWNER, SESSION, SOON, House, Open, open_house
from tests.outbox.ledger import Ledger
from tests.run import until, within

EVENTS = "/api/sessions/s/events"
ANN, BOB = "authorization: Bearer ann's key", "authorization: Bearer bob's key"
KEYS = {"ann's key": "ann", "bob's key": "bob"}
_FRAME = re.compile(rb"id: (\d+)\nevent: ([a-z.]+)\ndata: ([^\n]*)\n\n")
FAST = FeedTimes(heartbeat=0.01)


def frames(body: bytes | bytearray) -> list[tuple[int, str]]:
    """Read the number and the key of each whole event in what came so far."""
    found = _FRAME.findall(bytes(body).replace(b": ping\n", b""))
    return [(int(number), json.loads(data)["data"]["run_id"]) for number, _, data in found]


async def test_an_event_comes_at_once_and_says_what_happened() -> None:
    async with open_house() as gate:
        await gate.house.happen("before")
        client = await gate.subscribe()
        async with within(SOON):
            await gate.house.happen("r1")
            answer = await client.saw(b"\n\n")
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["x-holdgate-event-id"] == "1"
        assert "connection" not in answer.headers
        assert not answer.repeated
        assert bytes(answer.body) == (
            b"id: 2\nevent: run.finished\n"
            b'data: {"id":2,"event":"run.finished","sessionId":"s",'
            b'"at":"2026-02-02T21:22:38.229Z","data":{"run_id":"r1"}}\n\n'
        )


@pytest.mark.parametrize(
    "query, headers",
    [
        ("?after=1", ()),
        ("", ("last-event-id: 1",)),
        # The address of a subscription stays the same, so what the header says is newer.
        ("?after=0", ("last-event-id: 1",)),
    ],
)
async def test_whoever_says_what_they_got_gets_the_rest(
    query: str, headers: tuple[str, ...]
) -> None:
    async with open_house() as gate:
        for key in "abc":
            await gate.house.happen(key)
        await gate.house.happen("elsewhere", session="another")
        client = await gate.subscribe(query, *headers)
        await gate.house.happen("d")
        answer = await client.saw(b'"d"}}\n\n')
        assert frames(answer.body) == [(2, "b"), (3, "c"), (5, "d")]


async def test_however_often_it_breaks_nothing_is_missed_and_nothing_comes_twice() -> None:
    keys, chance = [f"r{number}" for number in range(300)], random.Random(7)
    async with open_house(times=FAST) as gate:
        first = await gate.subscribe()
        last = int((await first.saw(b"")).headers["x-holdgate-event-id"])
        first.reset()
        seen: list[str] = []

        async def publish() -> None:
            for key in keys:
                await gate.house.happen(key)
                await anyio.sleep(chance.random() * 0.002)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            while len(seen) < len(keys):
                client = await gate.subscribe("", f"last-event-id: {last}")
                with anyio.move_on_after(chance.random() * 0.05):
                    await client.saw(b'"r299"}}\n\n')
                got = frames((await client.saw(b"")).body)
                seen += [key for _, key in got]
                last = got[-1][0] if got else last
                client.reset()
        assert seen == keys


async def test_heartbeats_stand_between_events_only() -> None:
    async with open_house(times=FAST) as gate:
        client = await gate.subscribe()
        for number in range(50):
            await gate.house.happen(str(number))
            await client.saw(f'"{number}"}}}}\n\n'.encode())
        await client.saw(b"\n\n: ping\n: ping\n")
        rest = _FRAME.sub(b"", bytes((await client.saw(b"")).body))
        assert rest.replace(b": ping\n", b"") == b""


async def test_a_client_library_sees_events_and_no_empty_ones() -> None:
    async with open_house(times=FAST) as gate:
        got: list[tuple[str, str, str]] = []
        url = f"http://127.0.0.1:{gate.port}{EVENTS}"
        beside = await gate.subscribe()
        async with httpx.AsyncClient(trust_env=False) as client:
            async with aconnect_sse(client, "GET", url) as source:
                await gate.house.happen("one")
                async for event in source.aiter_sse():
                    got.append((event.id, event.event, event.json()["data"]["run_id"]))
                    if len(got) == 2:
                        break
                    # Some heartbeats come after an event with an id.
                    await beside.saw(b'"one"}}\n\n: ping\n: ping\n: ping\n')
                    await gate.house.happen("two")
        assert got == [("1", "run.finished", "one"), ("2", "run.finished", "two")]


async def test_a_reminder_that_is_due_is_told_to_whoever_subscribes() -> None:
    async with open_house() as gate:
        await gate.house.remind("drink tea")
        client = await gate.subscribe()
        await client.saw(b'"text":"drink tea"')
        await gate.house.remind("eat cake", MINUTE)
        await until(lambda: len(gate.house.timers) == 1)
        async with within(SOON):
            gate.house.clock.advance(MINUTE)
            answer = await client.saw(b'"text":"eat cake"')
        assert bytes(answer.body).count(b"event: reminder.due\n") == 2


async def test_a_receipt_is_told_to_other_subscribers() -> None:
    async with open_house() as gate:
        item = await gate.house.result("done")
        client = await gate.subscribe()
        await gate.ack({"ids": [item.id]})
        answer = await client.saw(b"\n\n")
        data = json.loads(bytes(answer.body).partition(b"data: ")[2])
        assert (data["event"], data["data"]) == ("delivery.acked", {"id": item.id, "kind": "run"})


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_a_subscriber_that_leaves_costs_nothing(how: str) -> None:
    async with open_house() as gate:
        client = await gate.subscribe()
        assert len(gate.house.feed.subscribers) == 1
        getattr(client, how)()
        await until(lambda: len(gate.house.feed.subscribers) == 0, SOON)
        assert not gate.house.feed.open
        # What happens without it is there when it comes back.
        await gate.house.happen("r1")
        back = await gate.subscribe("?after=0")
        await back.saw(b'"r1"')


async def test_an_owner_has_so_many_subscriptions() -> None:
    async with open_house(KEYS) as gate:
        clients = [await gate.subscribe("", ANN) for _ in range(20)]
        refused = await gate.fetch(get(EVENTS, ANN))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert refused.error["message"].startswith("You already have 20 subscriptions")
        await gate.subscribe("", BOB)
        clients[0].leave()
        await until(lambda: len(gate.house.feed.subscribers) == 20)
        await gate.subscribe("", ANN)


async def test_owners_hear_only_of_their_own() -> None:
    async with open_house(KEYS) as gate:
        anns, bobs = await gate.subscribe("", ANN), await gate.subscribe("", BOB)
        await gate.house.happen("hers", owner="ann")
        await gate.house.happen("his", owner="bob")
        assert frames((await anns.saw(b"\n\n")).body) == [(1, "hers")]
        assert frames((await bobs.saw(b"\n\n")).body) == [(2, "his")]


@pytest.mark.parametrize("said", ["x", "-1", "1.5", "1 2", "9" * 30])
async def test_a_place_that_is_none_is_refused(said: str) -> None:
    async with open_house() as gate:
        answer = await gate.fetch(get(EVENTS, f"last-event-id: {said}"))
        assert (answer.status, answer.error["param"]) == (400, "after")


async def test_when_the_gateway_leaves_streams_end_whole_and_none_begins() -> None:
    async with open_house() as gate:
        client = await gate.subscribe()
        await gate.house.happen("r1")
        await client.saw(b'"r1"')
        gate.house.feed.drain()
        async with within(SOON):
            answer = await client.answer()
        assert answer.ending == "whole"
        refused = await gate.fetch(get(EVENTS))
        assert (refused.status, refused.error["code"]) == (503, "draining")


async def unread(gate: Open) -> Client:
    """Subscribe, read nothing, and have more happen than the connection can take."""
    client = await gate.subscribe(receive_buffer=4096)
    for number in range(100):
        await happen_much(gate.house, number)
    return client


async def happen_much(house: House, number: int) -> None:
    words = {"run_id": str(number), "summary": "x" * 200_000}
    assert await house.feed.publish(OWNER, SESSION, "run.finished", str(number), words)


async def test_a_subscriber_that_does_not_read_is_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_house(times=FeedTimes(heartbeat=10, slow_reader=0.1)) as gate:
        with caplog.at_level(logging.WARNING):
            client = await unread(gate)
            await until(lambda: len(gate.house.feed.subscribers) == 0)
            client.reset()
        assert caplog.records == []


async def test_a_subscriber_that_does_not_read_does_not_keep_the_gateway(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_house() as gate:
        with caplog.at_level(logging.WARNING):
            client = await unread(gate)
            async with within(2):
                gate.house.feed.drain()
                await until(lambda: len(gate.house.feed.subscribers) == 0)
            client.reset()
        assert caplog.records == []


async def test_a_store_that_goes_down_ends_the_stream_and_the_client_comes_back() -> None:
    rows = Ledger()
    async with open_house(rows=rows) as gate:
        client = await gate.subscribe()
        await gate.house.happen("r1")
        await client.saw(b'"r1"')
        rows.fails = True
        gate.house.feed.rows = Ledger()
        await gate.house.happen("lost")
        assert (await client.answer()).ending == "whole"
        assert gate.house.notes.of("events_not_read")


async def test_many_listen_to_one_session() -> None:
    async with open_house() as gate:
        clients = [await gate.subscribe() for _ in range(20)]
        await gate.house.happen("r1")
        async with within(1):
            for client in clients:
                await client.saw(b'"r1"')


async def test_on_another_server_it_is_the_same() -> None:
    async with open_house(times=FAST, is_ours=False) as gate:
        client = await gate.subscribe()
        await gate.house.happen("r1")
        await client.saw(b'"r1"')
        client.reset()
        await until(lambda: len(gate.house.feed.subscribers) == 0)
        poll = await gate.start(get("/api/sessions/s/inbox?wait_ms=60000"))
        await until(lambda: len(gate.house.inbox.subscribers) == 1)
        poll.reset()
        await until(lambda: len(gate.house.inbox.subscribers) == 0)
        last = await gate.subscribe()
        gate.house.feed.drain()
        assert (await last.answer()).ending == "whole"


async def test_the_library_does_not_watch_over_the_process() -> None:
    async with open_house() as gate:
        await gate.subscribe()
        assert not _get_shutdown_state().watcher_started
