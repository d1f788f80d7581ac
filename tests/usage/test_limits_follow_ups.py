"""Limits of what follows the first turn: tools, holds, stop messages, in all dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.clock.holding import NOW, SECOND, Act, acting, held, told_ms
from tests.gateway.client import Answer
from tests.gateway.wire import get, hanging, request
from tests.jobs.words import key
from tests.pairs import chat as tongue_of_upstream
from tests.pairs.gate import each_tongue
from tests.pairs.neutral import Answer as Said
from tests.pairs.neutral import Ask, Call, Tongue, Turn
from tests.run import Running, until
from tests.sessions.talk import JSON, SESSION
from tests.usage.words import ask, limited, start
from tests.wire.fake import CHUNKED, LAST, chunk, sized

DUE = {"settings": {"clock__due_window_ms": 0, "clock__time_tag": "always"}}
IN_MS = 20 * SECOND
STOP_MESSAGE = '<**stopMessage:"Go on.",2**> '


def says(text: str) -> Act:
    """Say something, as the strictest reader wants it."""
    return lambda asked, ident: write(asked, Said(text))


def reminds(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
    """Set a reminder."""
    item = {"dueAt": iso(told_ms(asked) + IN_MS), "task": "tea", "tool": "", "arguments": "{}"}
    arguments = {"action": "schedule", "items": [item], "taskId": ""}
    return write(asked, Said(calls=(Call("call_1", "clock", json.dumps(arguments)),), stop="tools"))


def write(asked: dict[str, Any], said: Said) -> tuple[bytes, ...]:
    if asked.get("stream"):
        return (CHUNKED, *map(chunk, tongue_of_upstream.stream(said)), LAST)
    return (sized(tongue_of_upstream.whole(said), JSON),)


REMIND: tuple[Act, ...] = (reminds, says("I will."), says("Drink tea."))
KINDS: dict[str, tuple[str, tuple[Act, ...], int]] = {
    "stop": (STOP_MESSAGE, (says("One."), says("Two."), says("Three.")), 2),
    "tool": ("", REMIND, 1),
    "hold": ("", REMIND, 2),
}
"""What is asked, what the model does, and how many turns the limit lets it do."""


ENDS = {
    "openai-chat": b"data: [DONE]",
    "openai-responses": b"event: response.completed",
    "anthropic-messages": b"event: message_stop",
}


def asked_by(owner: str, tongue: Tongue, words: str, stream: bool = True) -> bytes:
    """Write a request of somebody's, in a session of their own."""
    body = tongue.ask(Ask((Turn("user", f"{words}hello"),)), stream)
    return request("POST", tongue.PATH, JSON, key(owner), f"x-session-id: {owner}", body=body)


async def converse(gate: Running, clock: ManualClock, owner: str, asked: bytes) -> Answer:
    """Ask; if the answer is held, let the reminder become due; read all of it."""
    before = len(gate.requests)
    client = await gate.send(asked)
    await until(lambda: len(gate.requests) > before and (not gate.live or "holding" in gate.states))
    if gate.live:
        clock.advance(IN_MS)
    return await client.answer()


@pytest.mark.parametrize("kind", KINDS)
@each_tongue
async def test_a_refused_follow_up_ends_the_answer_normally(tongue: Tongue, kind: str) -> None:
    clock = ManualClock(NOW)
    words, acts, most = KINDS[kind]
    async with limited(acting(*acts), clock=clock, options=DUE, rpm=most) as gate:
        answer = await converse(gate, clock, "ann", asked_by("ann", tongue, words))
        assert (answer.status, answer.ending) == (200, "whole")
        assert bytes(answer.body).count(ENDS[tongue.NAME]) == 1
        assert b"error" not in bytes(answer.body).replace(b'"error":null', b"")
        assert len(gate.requests) == most
        await gate.quiet()
        (line,) = gate.exchanges
        assert (line["state"], line["status"]) == ("done", 200)
        assert (line["code"], line["turns"]) == ("rate_limit_exceeded", most + 1)
        # Others have all of theirs meanwhile, as often as they like.
        for _ in range(3):
            before = len(gate.requests)
            asked = asked_by("bob", tongue, words).replace(b"id: bob", b"id: bob-%d" % before)
            other = await converse(gate, clock, "bob", asked)
            assert other.status == 200
            assert len(gate.requests) == before + 3
            assert not any("ratelimit" in name for name in other.headers)
        await gate.quiet()
        assert [one["code"] for one in gate.exchanges[1:]] == [None] * 3


@each_tongue
async def test_a_refused_stop_message_is_not_used_up(tongue: Tongue) -> None:
    words, acts, _ = KINDS["stop"]
    async with limited(acting(*acts), rpm=2) as gate:
        assert (await gate.fetch(asked_by("ann", tongue, words))).status == 200
        assert len(gate.requests) == 2
        shown = await gate.fetch(get("/api/sessions/ann", key("ann")))
        stop: dict[str, Any] = shown.json["stopMessage"]
        assert (stop["used"], stop["armed"]) == (1, True)


async def test_a_reminder_of_a_refused_turn_is_not_lost() -> None:
    clock = ManualClock(NOW)
    async with limited(acting(*REMIND), clock=clock, options=DUE, rpm=2) as gate:
        client = await start(gate, "ann", SESSION)
        await held(gate)
        clock.advance(IN_MS)
        assert (await client.answer()).status == 200
        await gate.quiet()
        listed = await gate.fetch(get("/api/sessions/s/reminders", key("ann")))
        assert [item["deliveryCount"] for item in listed.json["items"]] == [0]
        clock.advance(60 * SECOND)
        again = await ask(gate, "ann", SESSION, "x-holdgate-hold: off")
        assert again.status == 200
        assert b"[Clock Reminder]" in gate.requests[2].body


async def test_held_answers_do_not_count_as_concurrent() -> None:
    clock = ManualClock(NOW)
    models = [{"name": "m", "routes": ["a/m"]}, {"name": "slow", "routes": ["b/slow"]}]
    stories = (acting(*REMIND), hanging())
    async with limited(
        *stories, clock=clock, tables={"models": models}, options=DUE, concurrent=1
    ) as gate:
        holding = await start(gate, "ann", SESSION)
        await held(gate)
        # Its place is free for another answer, and only for one.
        running = await start(gate, "ann", model="slow")
        await until(lambda: len(gate.fakes[1].requests) == 1)
        refused = await ask(gate, "ann", model="slow")
        assert (refused.status, json.loads(bytes(refused.body))["error"]["code"]) == (
            429,
            "rate_limit_exceeded",
        )
        # An answer that was held goes on all the same.
        clock.advance(IN_MS)
        answer = await holding.answer()
        assert (answer.status, answer.ending) == (200, "whole")
        assert "Drink tea." in answer.text
        assert len(gate.fakes[0].requests) == 3
        running.leave()
