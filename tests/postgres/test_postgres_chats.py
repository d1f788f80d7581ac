"""Chats with agents at two gateways: one exchange of a session at a time, over both."""

from __future__ import annotations

import anyio

from tests.agents.talking import (
    AGENTS,
    begin,
    heard,
    messages_of,
    noted,
    roles,
    said,
    says,
    text_of,
)
from tests.clock.holding import SECOND, acting, held, schedules
from tests.clock.holding import says as tells
from tests.gateway.wire import event, hanging, text
from tests.run import until
from tests.sessions.talk import model
from tests.wire.fake import CHUNKED, Peer, chunk

from .pairs import pair

TABLES = {"agents": AGENTS}
BEGUN = CHUNKED, chunk(event({"role": "assistant", "content": ""}) + text("so far"))


async def test_a_session_that_is_busy_at_one_is_busy_at_the_other() -> None:
    async with pair(hanging(*BEGUN), tables=TABLES) as (one, two):
        client = await begin(one, "hello")
        answer = await said(two, "hello")
        assert (answer.status, answer.error["code"]) == (429, "session_busy")
        assert len(two.requests) == 0
        client.leave()


async def test_whoever_reads_the_end_at_one_may_go_on_at_the_other() -> None:
    async with pair(model("yes"), tables=TABLES) as gates:
        clients = [await gate.connect() for gate in gates]
        for number in range(40):
            client = clients[number % 2]
            await client.send(says(f"{number}"))
            answer = await client.saw(b"event: complete\n")
            assert answer.status == 200
            await client.answer()
        kept = await messages_of(gates[0])
        assert roles(kept) == ["user", "assistant"] * 40
        assert kept == await messages_of(gates[1])


async def test_a_message_to_one_ends_the_hold_at_the_other() -> None:
    acts = acting(schedules(60 * SECOND), tells("I will"), tells("what else?"))
    async with pair(acts, tables=TABLES) as (one, two):
        client = await begin(one, "remind me")
        await held(one)
        second = await begin(two, "something else")
        found = heard(await client.answer())
        assert found[-1][1]["reason"] == "taken_over"
        await held(two)
        second.leave()
        await until(lambda: bool(noted(two, "lock_released")))
        kept = await messages_of(one)
        assert roles(kept) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_a_hold_that_woke_up_is_not_ended_by_others() -> None:
    """The turn that it woke up for makes the session busy again."""
    acts = acting(schedules(300), tells("I will"), lambda asked, ident: BEGUN)
    async with pair(acts, tables=TABLES) as (one, two):
        client = await begin(one, "remind me")
        await until(lambda: len(one.requests) == 3)
        assert (await said(two, "hello")).status == 429
        client.leave()


async def test_a_client_that_leaves_one_is_served_by_the_other() -> None:
    stories = [hanging(*BEGUN)]

    async def first_hangs(peer: Peer) -> None:
        await peer.asked()
        await (stories.pop() if stories else model("here"))(peer)

    async with pair(first_hangs, tables=TABLES) as (one, two):
        client = await begin(one, "hello")
        await client.saw(b"so far")
        client.leave()
        answer = await said(two, "hello")
        while answer.status == 429:
            # It was not heard yet that the client left.
            answer = await said(two, "hello")
        assert text_of(answer) == "here"
        assert [line["why"] for line in noted(one, "lock_released")] == ["client_gone"]


async def test_many_at_both_one_is_answered() -> None:
    statuses: list[int] = []
    async with pair(hanging(*BEGUN), tables=TABLES) as gates:

        async def ask(number: int) -> None:
            client = await gates[number % 2].send(says("me!"))
            statuses.append((await client.head()).status)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(ask, number)
        assert sorted(statuses) == [200] + [429] * 19
        assert sum(len(gate.requests) for gate in gates) == 1
