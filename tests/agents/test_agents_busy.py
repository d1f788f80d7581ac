"""One exchange at a time: who comes too early is told, and nobody else ever is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import anyio
import pytest

from gateway.api.chat import prefers_chinese
from gateway.clock import ManualClock
from tests.agents.talking import (
    begin,
    events,
    heard,
    messages_of,
    noted,
    reason_of,
    roles,
    room,
    said,
    says,
    text_of,
)
from tests.clock.holding import NOW, SECOND, acting, held, listed, remind, schedules
from tests.clock.holding import says as tells
from tests.clock.words import Said, clock, streamed
from tests.gateway.client import Client
from tests.gateway.wire import Cue, event, hanging, on_cue, text, turn
from tests.run import Running, until
from tests.sessions.talk import messages, model, user
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, once

ROLE = event({"role": "assistant", "content": ""})
BEGUN = CHUNKED, chunk(ROLE + text("so far"))
HELD = {"clock__due_window_ms": 0}


# The next message, the instant that the end is read.


async def converse(gate: Running, session: str, times: int) -> list[int]:
    """Send each message on another connection, as soon as the end of the last answer is seen."""
    clients = [await gate.connect(), await gate.connect()]
    statuses: list[int] = []
    for number in range(times):
        client = clients[number % 2]
        await client.send(says(f"{number}", sessionId=session))
        answer = await client.saw(b"event: complete\n" if number % 2 else b'"bookmark"')
        statuses.append(answer.status)
        if number:
            await clients[(number + 1) % 2].answer()
    return statuses


async def test_whoever_reads_the_end_may_go_on_at_once() -> None:
    """A thousand times; what the upstream saw shows that nothing was lost or out of order."""
    found: list[int] = []
    sessions = "abcdefghij"

    async def talk(session: str) -> None:
        found.extend(await converse(gate, session, 100))

    async with room(model("yes"), patience=60) as gate:
        async with anyio.create_task_group() as group:
            for session in sessions:
                group.start_soon(talk, session)
        assert found == [200] * 1000
        spoken = [user(f"{number}") for number in range(100)]
        for session in sessions:
            assert [m for m in await messages_of(gate, session) if m["role"] == "user"] == spoken


async def test_whoever_comes_too_early_is_told_before_anything_begins() -> None:
    async with room(hanging(*BEGUN)) as gate:
        client = await begin(gate, "one")
        answer = await said(gate, "two")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.json == {
            "error": {
                "message": "The previous request is still running; try again shortly.",
                "type": "rate_limit_error",
                "code": "session_busy",
                "busy_reason": "chat",
            }
        }
        assert b"event:" not in answer.body
        assert answer.headers["x-request-id"]
        assert len(gate.requests) == 1
        client.leave()


async def test_a_busy_agent_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an answer that is about to end would be waited for."""
    async with room(hanging(*BEGUN)) as gate:
        locks = gate.gateway.parts.locks
        monkeypatch.setattr(locks, "take", partial(locks.take, grace=3600))
        client = await begin(gate, "one")
        await client.saw(b"so far")
        answer = await said(gate, "two")
        assert (answer.status, answer.error["code"]) == (429, "session_busy")
        client.leave()


LANGUAGES = [
    ("zh", True),
    ("zh-CN,zh;q=0.9,en;q=0.8", True),
    ("en; q=0.5, ZH-Hant; q=0.7", True),
    ("en-US,en;q=0.9,zh;q=0.8", False),
    ("zh;q=0", False),
    ("zhx", False),
    ("zh;q=much,en;q=0.1", False),
    ("", False),
]


@pytest.mark.parametrize("language, chinese", LANGUAGES)
def test_which_language_is_liked_best(language: str, chinese: bool) -> None:
    assert prefers_chinese(language) is chinese


async def test_it_is_told_in_the_language_of_the_client() -> None:
    async with room(hanging(*BEGUN)) as gate:
        client = await begin(gate, "one")
        answer = await said(gate, "two", "accept-language: zh-CN,zh;q=0.9,en;q=0.8")
        assert answer.error["message"] == "上一个请求还在处理中，请稍后再试"
        client.leave()


async def test_sessions_owners_and_agents_apart() -> None:
    """Sessions run side by side; two agents in one session do not."""
    async with room(hanging(*BEGUN)) as gate:
        clients = [await begin(gate, "one", sessionId=name) for name in "abc"]
        await until(lambda: len(gate.requests) == 3)
        assert (await said(gate, "two", sessionId="b")).status == 429
        assert (await said(gate, "two", agent="other", sessionId="b")).status == 429
        clients.append(await begin(gate, "two", agent="other"))
        for client in clients:
            client.leave()


# Free again, whatever happened.

WAYS: dict[str, Callable[[Client], None]] = {"leaves": Client.leave, "resets": Client.reset}
MOMENTS = {"before the first byte": hanging(), "in the middle": hanging(*BEGUN)}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("story", MOMENTS.values(), ids=MOMENTS)
async def test_a_client_that_is_gone_frees_the_session(
    story: Story, how: Callable[[Client], None]
) -> None:
    stories = [story, model("here")]

    async def first_hangs(peer: Peer) -> None:
        await peer.asked()
        await (stories.pop(0) if len(stories) > 1 else stories[0])(peer)

    async with room(first_hangs) as gate:
        client = await begin(gate, "one")
        await until(lambda: len(gate.requests) == 1)
        how(client)
        assert text_of(await said(gate, "two")) == "here"
        await until(lambda: gate.fakes[0].open <= 1)
        released = [line["why"] for line in noted(gate, "lock_released")]
        assert released == ["client_gone", "completed"]
        assert len(noted(gate, "lock_taken")) == 2


async def test_whoever_comes_and_goes_leaves_no_session_busy() -> None:
    """They leave at any moment; who comes next in the session is always answered."""
    chance = Random(7)

    async def story(peer: Peer) -> None:
        while True:
            newest = messages(await peer.request())[-1]
            calls = () if newest["role"] == "tool" else (clock("get"),)
            for piece in streamed(Said("one moment", calls)):
                await anyio.sleep(chance.random() * 0.002)
                await peer.send(piece)

    async def visit(session: str) -> None:
        for _ in range(25):
            client = await gate.send(says("hello", sessionId=session))
            with anyio.move_on_after(chance.random() * 0.02):
                await client.answer()
            chance.choice((Client.leave, Client.reset))(client)
            assert reason_of(await said(gate, "hello", sessionId=session), session) == "completed"

    async with room(story, clock=ManualClock(NOW)) as gate:
        async with anyio.create_task_group() as group:
            for session in "abc":
                group.start_soon(visit, session)
        await gate.quiet()
        assert len(noted(gate, "lock_taken")) == len(noted(gate, "lock_released")) == 150
        for session in "abc":
            assert roles(await messages_of(gate, session))


FAILURES: dict[str, Story] = {
    "refused": once(),
    "dropped": once(*BEGUN),
    "reset": once(*BEGUN, reset=True),
}


@pytest.mark.parametrize("story", FAILURES.values(), ids=FAILURES)
async def test_an_error_frees_the_session_before_it_is_told(story: Story) -> None:
    stories = [story, model("here")]

    async def first_fails(peer: Peer) -> None:
        await peer.asked()
        await (stories.pop(0) if len(stories) > 1 else stories[0])(peer)

    async with room(first_fails) as gate:
        client = await gate.send(says("one"))
        await client.saw(b"event: error\n")
        assert text_of(await said(gate, "two")) == "here"


async def test_a_refused_message_takes_nothing_with_it() -> None:
    async with room(model("here")) as gate:
        assert (await said(gate, "<**!nobody.m**> <**#a**>one")).status == 400
        assert (await said(gate, " ")).status == 400
        assert len(noted(gate, "lock_taken")) == len(noted(gate, "lock_released")) == 1
        assert text_of(await said(gate, "<**clear**>two")) == "here"


async def test_a_client_that_does_not_read_is_given_up() -> None:
    big = chunk(ROLE + text("x" * 4_000_000))
    async with room(
        hanging(CHUNKED, big), limits__slow_reader_ms=100, server__keepalive_ms=20
    ) as gate:
        client = await gate.send(says("one"), receive_buffer=4096)
        await until(lambda: bool(noted(gate, "lock_released")))
        assert noted(gate, "chat_done")[0]["reason"] == "client_gone"
        assert "left without an answer" not in gate.log
        client.leave()


# Held answers.


async def test_a_hold_that_waits_for_something_sooner_says_so() -> None:
    clock = ManualClock(NOW)
    async with room(acting(schedules(30 * SECOND), tells("I will")), clock=clock, **HELD) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        session = (await client.saw(b"event: hold\n")).headers["x-holdgate-session"]
        await remind(gate, 9 * SECOND, "stand up", session)
        answer = await client.saw(b'"until":%d' % (NOW + 9 * SECOND))
        told = [data["until"] for name, data in events(answer) if name == "hold"]
        assert told == [NOW + 30 * SECOND, NOW + 9 * SECOND]


async def test_a_held_answer_does_not_make_the_session_busy() -> None:
    """It is kept, released and completed; then the new message runs."""
    clock = ManualClock(NOW)
    acts = acting(schedules(30 * SECOND), tells("I will"), tells("what else?"))
    async with room(acts, clock=clock, **HELD) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        answer = await client.saw(b"event: hold\n")
        assert dict(events(answer))["hold"]["until"] == NOW + 30 * SECOND
        second = await gate.send(says("something else"))
        assert reason_of(await client.answer()) == "taken_over"
        await held(gate)
        clock.advance(30 * SECOND)
        found = heard(await second.answer())
        assert found[-1][1]["reason"] == "completed"
        assert [name for name, _ in found] == ["text", "hold", "text", "text", "complete"]
        kept = await messages_of(gate)
        assert roles(kept) == [
            *("user", "assistant", "tool", "assistant"),
            *("user", "assistant", "user", "assistant"),
        ]
        assert str(kept[-2]["content"]).startswith("[Clock Reminder]")
        assert not [m for m in kept if "[Time/Date]" in str(m["content"])]
        events_of_lock = [line["event"] for line in noted(gate, "lock_taken", "lock_released")]
        assert events_of_lock == ["lock_taken", "lock_released"] * 2


async def test_a_client_that_leaves_a_held_answer_frees_the_session() -> None:
    clock = ManualClock(NOW)
    acts = acting(schedules(30 * SECOND), tells("I will"))
    async with room(acts, clock=clock, **HELD) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        client.leave()
        second = await begin(gate, "again")
        await held(gate)
        assert len(await listed(gate, "helper")) == 1
        second.leave()
        await gate.quiet()
        kept = await messages_of(gate)
        assert roles(kept) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_many_at_once_one_is_answered() -> None:
    """Whoever comes first is answered, the others are told; nobody waits, nobody is lost."""
    cue = Cue()
    statuses: list[int] = []

    async def ask() -> None:
        client = await gate.send(says("me!"))
        answer = await client.head()
        statuses.append(answer.status)
        if len(statuses) == 20:
            cue.give()
        if answer.status == 200:
            assert text_of(await client.answer()) == "you"

    pieces = CHUNKED + chunk(ROLE), chunk(turn("you").removeprefix(ROLE)) + LAST
    async with room(on_cue(cue, *pieces)) as gate:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
        assert sorted(statuses) == [200] + [429] * 19
        assert len(gate.requests) == 1
