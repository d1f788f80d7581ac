"""Clients that send only their newest message: what is a new wish, and what a retry."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.sessions.directives.memory import RETRY_MS
from tests.gateway.wire import request
from tests.run import Running, in_process
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    assistant,
    document,
    kept,
    look,
    model,
    newest,
    reply,
    stop_message,
    system,
    talk,
    text_of,
    told,
    user,
)
from tests.wire.fake import CHUNKED, Peer, Story, chunk

NOW = 1_770_000_000_000
LATER = RETRY_MS
A, B = "<**!a**> hi", "<**!b**> hi"


def gate_at(
    clock: ManualClock, *stories: Story | None, **settings: Any
) -> AbstractAsyncContextManager[Running]:
    return in_process(*stories, clock=clock, clock__enabled=False, **settings)


async def in_force(gate: Running) -> list[str]:
    found: list[str] = (await look(gate)).json["directives"]
    return found


async def test_the_last_wish_counts() -> None:
    """`!a`, `!b`, `!a` ends at `a`, however quickly they follow each other."""
    async with gate_at(ManualClock(NOW), model(), model()) as gate:
        for said in (A, B, A):
            assert told(await gate.ask(talk(said), SESSION)) == "set"
        assert await in_force(gate) == ["<**!a**>"]


async def test_the_same_wish_later_acts_again() -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, model()) as gate:
        for _ in range(3):
            assert told(await gate.ask(talk(system("s"), GO_ON + "hi"), SESSION)) == "set"
            assert (await stop_message(gate))["used"] == 3
            clock.advance(LATER)
        assert len(gate.requests) == 12


async def test_the_same_message_within_two_seconds_is_a_retry() -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, model()) as gate:
        assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "set"
        clock.advance(LATER - 1)
        assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "unchanged"
        assert len(gate.requests) == 5


async def test_after_a_long_answer_the_same_message_is_a_new_wish_at_once() -> None:
    """The two seconds are counted from when the message was sent, not from its answer."""
    clock = ManualClock(NOW)

    async def long(peer: Peer) -> None:
        await peer.request()
        clock.advance(LATER)
        await peer.send(*reply("x", finish="length", stream=True))

    async with gate_at(clock, long) as gate:
        for _ in range(2):
            assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "set"


async def broken(peer: Peer) -> None:
    """Begin an answer, and break off."""
    await peer.request()
    await peer.send(CHUNKED, chunk(b'data: {"id":"x","choices":[]}\n\n'))
    peer.close()


async def test_what_did_not_end_normally_is_sent_again_as_a_retry() -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, broken) as gate:
        answer = await gate.ask(talk(GO_ON + "hi"), SESSION)
        assert told(answer) == "set"
        assert answer.failed
        for _ in range(2):
            clock.advance(60 * LATER)
            assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "unchanged"


async def test_a_retry_that_ended_normally_makes_the_next_one_a_new_wish() -> None:
    clock = ManualClock(NOW)
    stories = chain([broken], repeat(model()))

    async def story(peer: Peer) -> None:
        await next(stories)(peer)

    async with gate_at(clock, story) as gate:
        for effect in ("set", "unchanged", "set"):
            assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == effect
            clock.advance(LATER)


async def leaving(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED, chunk(b'data: {"id":"x","choices":[{"delta":{"content":"a"}}]}\n\n'))
    await peer.gone()


async def test_who_left_too_early_retries() -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, leaving) as gate:
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        await client.saw(b"content")
        client.leave()
        await gate.quiet()
        clock.advance(LATER)
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        assert told(await client.saw(b"content")) == "unchanged"


SAYS_SO = {
    "the SDK counts its tries": ("x-stainless-retry-count: 0", "x-stainless-retry-count: 1"),
    "the same request id": ("x-request-id: r-1", "x-request-id: r-1"),
    "the same idempotency key": ("idempotency-key: k", "Idempotency-Key: k"),
}
OTHERS = {
    "a first try": ("x-stainless-retry-count: 0", "x-stainless-retry-count: 0"),
    "no count": ("x-stainless-retry-count: -", "x-stainless-retry-count: x"),
    "another request id": ("x-request-id: r-1", "x-request-id: r-2"),
    "another idempotency key": ("idempotency-key: k", "idempotency-key: l"),
}


@pytest.mark.parametrize("name", [*SAYS_SO, *OTHERS])
async def test_the_client_may_say_that_it_is_a_retry(name: str) -> None:
    """Also when another wish came in between."""
    first, second = {**SAYS_SO, **OTHERS}[name]
    clock = ManualClock(NOW)
    async with gate_at(clock, model(), model()) as gate:
        assert told(await gate.ask(talk(A), SESSION, first)) == "set"
        clock.advance(LATER)
        assert told(await gate.ask(talk(B), SESSION)) == "set"
        clock.advance(LATER)
        answer = await gate.ask(talk(A), SESSION, second)
        assert told(answer) == ("unchanged" if name in SAYS_SO else "set")
        assert await in_force(gate) == ["<**!b**>" if name in SAYS_SO else "<**!a**>"]


async def test_with_the_history_sent_along_only_a_new_message_acts() -> None:
    clock = ManualClock(NOW)
    history: tuple[Any, ...] = (A, assistant("answer 1"), B)
    async with gate_at(clock, model(), model()) as gate:
        for said, effect in (((A,), "set"), (history, "set"), (history, "unchanged")):
            assert told(await gate.ask(talk(*said), SESSION)) == effect
            clock.advance(LATER)
        again = (*history, assistant("answer 2"), A)
        for effect in ("set", "unchanged"):
            assert told(await gate.ask(talk(*again), SESSION)) == effect
            clock.advance(LATER)
        assert await in_force(gate) == ["<**!a**>"]


async def test_another_text_around_the_same_directive_is_another_message() -> None:
    clock = ManualClock(NOW)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    loop = ({"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "done"})  # fmt: skip
    async with gate_at(clock, model()) as gate:
        assert told(await gate.ask(talk(GO_ON + "one", *loop), SESSION)) == "set"
        assert told(await gate.ask(talk(GO_ON + "one", *loop, *loop), SESSION)) == "unchanged"
        assert told(await gate.ask(talk(GO_ON + "two", *loop), SESSION)) == "set"
        parts = [{"type": "text", "text": GO_ON}, {"type": "text", "text": "two"}]
        assert told(await gate.ask(talk(user(parts), *loop), SESSION)) == "set"


async def test_a_route_for_one_request_acts_each_time() -> None:
    async with gate_at(ManualClock(NOW), model(), model()) as gate:
        for _ in range(3):
            assert told(await gate.ask(talk("<**b.other**>hi"), SESSION)) == "set"
        assert [len(fake.requests) for fake in gate.fakes] == [0, 3]


DIALECTS = {
    "/v1/responses": {"model": "m", "input": GO_ON, "previous_response_id": "resp_1"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [user(GO_ON)], "system": "s"},
}


@pytest.mark.parametrize("path", DIALECTS)
async def test_in_every_dialect(path: str) -> None:
    clock = ManualClock(NOW)
    asked = request("POST", path, JSON, SESSION, body=json.dumps(DIALECTS[path]).encode())
    dialect = "openai-responses" if "responses" in path else "anthropic-messages"
    async with gate_at(clock, None, upstream={"dialect": dialect}) as gate:
        assert told(await gate.fetch(asked)) == "set"
        assert told(await gate.fetch(asked)) == "unchanged"


async def test_how_it_ended_is_known_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, model(("x", "length")), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        await gate.quiet()
    (sent,) = document(tmp_path)["directiveMessages"]
    assert (sent["sentAtMs"], sent["ended"]) == (NOW, True)
    assert GO_ON not in json.dumps(sent)
    clock.advance(LATER)
    async with gate_at(clock, model(("x", "length")), **kept(tmp_path)) as gate:
        assert told(await gate.ask(talk(GO_ON), SESSION)) == "set"


async def test_a_session_stored_by_an_older_version_is_read(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with gate_at(clock, model(("x", "length")), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        await gate.quiet()
    path = tmp_path / "session" / "s.json"
    stored = json.loads(path.read_bytes())
    del stored["directiveMessages"]
    path.write_text(json.dumps({**stored, "directives": {"0123456789abcdef": NOW}}))
    async with gate_at(clock, model("one"), **kept(tmp_path)) as gate:
        assert (await stop_message(gate))["armed"] is True
        assert told(await gate.ask(talk(A), SESSION)) == "set"
        assert (await in_force(gate)) == ["<**!a**>"]
        assert newest(gate.requests[0]) == " hi"
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "one"
