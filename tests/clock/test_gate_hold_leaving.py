"""Who leaves during a hold: the client, after whom nothing happens, or the gateway itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random

import anyio
import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.clock.holding import (
    HOUR,
    NOW,
    SECOND,
    acting,
    delivered,
    finish_of,
    held,
    held_for,
    listed,
    metrics,
    remind,
    reminded,
    room,
    says,
)
from tests.gateway.client import Client
from tests.gateway.wire import Cue, ask_of, text, turn
from tests.run import SOON, GatewayProcess, Running, until, upstreams_of
from tests.sessions.process import process
from tests.sessions.talk import SESSION, talk, text_of
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, fake_upstream

TIMES = 200
HELD = acting(says("I will."), says("Drink your tea."))
WAYS: tuple[Callable[[Client], None], ...] = (Client.leave, Client.reset, Client.half_close)


class TestLeaving:
    """Nothing further is asked of the upstream, and the reminder stays as it was."""

    async def test_two_hundred_of_two_hundred(self) -> None:
        clock, random = ManualClock(NOW), Random(7)
        async with room(clock, HELD, limits__holds_per_owner=TIMES) as gate:
            sessions = [f"c{number}" for number in range(TIMES)]
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(remind, gate, HOUR // 100, "drink tea", session)
            went: dict[str, float] = {}
            clients = [await self.arrives(gate, session) for session in sessions]
            await held(gate, TIMES)

            async def leaves(session: str, client: Client) -> None:
                await anyio.sleep(random.random() * 2)
                went[session] = time.time()
                random.choice(WAYS)(client)

            async with anyio.create_task_group() as tasks:
                for session, client in zip(sessions, clients, strict=True):
                    tasks.start_soon(leaves, session, client)
            await gate.quiet()
            self.all_ended_soon(gate, went)
            clock.advance(HOUR // 100)
            for session in sessions:
                (task,) = await listed(gate, session)
                assert task["deliveryCount"] == 0
            assert len(gate.requests) == TIMES
            await gate.ask(talk("hi"), "x-session-id: c7")
            assert reminded(gate.requests[-1]) == ["drink tea"]

    async def arrives(self, gate: Running, session: str) -> Client:
        client = await gate.start(
            talk("hi"), f"x-session-id: {session}", f"x-request-id: {session}"
        )
        await client.saw(text("I will."))
        return client

    def all_ended_soon(self, gate: Running, went: dict[str, float]) -> None:
        ended = {
            line["request"]: datetime.fromisoformat(line["time"]).timestamp()
            for line in gate.exchanges
            if line["state"] == "gone"
        }
        assert ended.keys() == went.keys()
        assert max(ended[name] - at for name, at in went.items()) < SOON

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("stream", [True, False])
    async def test_however_it_leaves(self, stream: bool, way: Callable[[Client], None]) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=stream), SESSION)
            await held(gate)
            way(client)
            await until(lambda: not gate.live, SOON)
            clock.advance(SECOND)
            assert await metrics(gate, "holds_ended_total") == {'outcome="client_gone"': 1}
            assert len(gate.requests) == 1
            assert await delivered(gate) == []

    async def test_at_the_very_moment_it_is_due(self) -> None:
        """Each is asked of the upstream or not; delivered is only what somebody may have seen."""
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            sessions = [f"c{number}" for number in range(50)]
            clients = await held_for(gate, *sessions)
            for number, client in enumerate(clients):
                client.leave()
                if number == 25:
                    clock.advance(SECOND)
            await gate.quiet()
            before = len(gate.requests)
            for session in sessions:
                carried = [r for r in gate.requests if reminded(r) == [f"tea of {session}"]]
                assert len(carried) <= 1
                if not await delivered(gate, session):
                    await gate.ask(talk("hi"), f"x-session-id: {session}")
                    assert reminded(gate.requests[-1]) == [f"tea of {session}"]
            assert before < len(gate.requests)

    async def test_while_the_follow_up_is_opened(self) -> None:
        clock = ManualClock(NOW)

        async def silent(peer: Peer) -> None:
            asked = await peer.request()
            if not reminded(asked):
                await peer.send(CHUNKED, chunk(turn("I will.")), LAST)
                await peer.request()
            await peer.gone()

        async with room(clock, silent) as gate:
            (client,) = await held_for(gate, "s")
            clock.advance(SECOND)
            await until(lambda: len(gate.requests) == 2)
            client.leave()
            await until(lambda: not gate.live and not gate.fakes[0].open, SOON)
            assert await delivered(gate) == []
            assert (await metrics(gate, "reminders_total"))['event="released"'] == 1


TIMED = {
    "HOLDGATE_CLOCK__ENABLED": "true",
    "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
    "HOLDGATE_SERVER__KEEPALIVE_MS": "50",
    "ROUTECODEX_CLOCK_NTP": "off",
}


class TestDrain:
    """A gateway that has to go ends what it holds, well-formed and at once."""

    async def test_every_hold_ends_with_its_tail(self) -> None:
        async with room(ManualClock(NOW), HELD) as gate:
            sessions = [f"s{number}" for number in range(20)]
            as_ever = await gate.ask(talk("hi"), "x-session-id: another")
            clients = await held_for(gate, *sessions)
            left = anyio.Event()
            gate.gateway.leave(left.set)
            with anyio.fail_after(SOON):
                answers = [await client.answer() for client in clients]
                await left.wait()
            assert all(answer.body == as_ever.body for answer in answers)
            assert len(gate.requests) == 21
            assert await metrics(gate, "holds_ended_total") == {'outcome="draining"': 20}

    async def test_a_process_that_is_told_to_leave(self, tmp_path: Path) -> None:
        async with fake_upstream(HELD) as upstream:
            tables = upstreams_of(upstream.port)
            settings = {
                f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()
            }
            async with process(tmp_path, {**settings, **TIMED}) as gate:
                clients = [await self.asks(gate, number) for number in range(20)]
                begun = time.monotonic()
                assert await gate.terminate() == 0
                assert time.monotonic() - begun < 5
                for number, client in enumerate(clients):
                    answer = await client.answer()
                    assert text_of(answer) == "I will."
                    assert b'"stop"' in answer.body
                    assert not number % 2 or finish_of(answer) == "stop"
            assert len(upstream.requests) == 20
        files = [json.loads(path.read_bytes()) for path in tmp_path.glob("sessions/clock/s*.json")]
        assert len(files) == 20
        assert not any("deliveredAtMs" in task for file in files for task in file["tasks"])

    async def asks(self, gate: GatewayProcess, number: int) -> Client:
        """Ask for an answer that is held for a minute."""
        due_at = iso(round(time.time() * 1000) + 50 * SECOND)
        directive = f'<**clock:{{"time":"{due_at}","message":"drink tea"}}**>'
        client = await gate.connect()
        body = talk(directive + "hi", stream=bool(number % 2))
        await client.send(ask_of(body, f"x-session-id: s{number}"))
        await client.saw(text("I will.") if number % 2 else b" ")
        return client

    async def test_none_begins_any_more(self) -> None:
        cue = Cue()

        async def slow(peer: Peer) -> None:
            await peer.request()
            await cue.wait()
            await peer.send(CHUNKED, chunk(turn("I will.")), LAST)

        async with room(ManualClock(NOW), slow) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION)
            await until(lambda: len(gate.requests) == 1)
            left = anyio.Event()
            gate.gateway.leave(left.set)
            await until(lambda: gate.gateway.holds.draining)
            cue.give()
            with anyio.fail_after(SOON):
                assert finish_of(await client.answer()) == "stop"
                await left.wait()
