"""What the clock adds to the request of any client, as an upstream of any dialect reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.words import NOW
from tests.gateway.wire import request

from .gate import (
    CHAT,
    JSON,
    MESSAGES,
    RESPONSES,
    Gate,
    across,
    each_pair,
    gate,
    telling,
    telling_all,
)
from .neutral import Answer, Ask, Call, Tongue

TAG = "[Time/Date]: "
REMINDER = "[Clock Reminder]: "
FINE = Answer("Fine.")
GET = Answer(calls=(Call("call_1", "clock", '{"action":"get","items":[],"taskId":""}'),))
SESSION = "x-session-id: s"


def users_texts(upstream: Tongue, body: bytes) -> list[list[str]]:
    """Return what each message of the user says, part by part."""
    sent = json.loads(body)
    items: list[dict[str, Any]] = sent["input" if upstream is RESPONSES else "messages"]
    contents = [item["content"] for item in items if item.get("role") == "user"]
    return [_texts(content) for content in contents]


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part.get("text", "") for part in content]


def beginnings(texts: list[str]) -> list[str]:
    """Return what is told, of our own words only how they begin."""
    return [next((one for one in (TAG, REMINDER) if text.startswith(one)), text) for text in texts]


async def remind(between: Gate) -> None:
    """Set a reminder that is due."""
    due = json.dumps({"dueAt": "2026-02-02T21:22:40Z", "task": "tea"}).encode()
    asked = request("POST", "/api/sessions/s/reminders", JSON, body=due)
    assert (await between.running.fetch(asked)).status == 201


@each_pair
async def test_a_reminder_and_the_time_are_messages_of_their_own(
    client: Tongue, upstream: Tongue
) -> None:
    """An upstream that makes one text of a message's parts must not join them to the user's."""
    story = telling(upstream, FINE, False)
    async with gate((upstream, story), clock=ManualClock(NOW)) as between:
        await remind(between)
        await between.send(client, client.ask(Ask(), False), SESSION)
        told = [beginnings(texts) for texts in users_texts(upstream, between.told)]
    if upstream is MESSAGES:
        assert told == [["Hello!", REMINDER, TAG]]
    else:
        assert told == [["Hello!"], [REMINDER], [TAG]]


@across
async def test_they_stay_so_in_a_follow_up(client: Tongue, upstream: Tongue) -> None:
    story = telling_all(upstream, [GET, FINE], False)
    async with gate((upstream, story), clock=ManualClock(NOW)) as between:
        sent = await between.send(client, client.ask(Ask(), False), SESSION)
        assert b"Fine." in sent.body
        assert len(between.running.requests) == 2
        told = [beginnings(texts) for texts in users_texts(upstream, between.told)]
    assert [text for texts in told for text in texts if text] == ["Hello!", TAG]
    if upstream is not MESSAGES:
        assert told == [["Hello!"], [TAG]]


@pytest.mark.parametrize(
    "client", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"]
)
async def test_the_clock_is_never_strict_towards_messages(client: Tongue) -> None:
    story = telling(MESSAGES, FINE, False)
    async with gate((MESSAGES, story), clock=ManualClock(NOW)) as between:
        await between.ask(client, Ask(), False)
        (tool,) = json.loads(between.told)["tools"]
        assert await between.lost() == []
    assert tool["name"] == "clock"
    assert "strict" not in tool
