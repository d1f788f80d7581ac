"""How many tokens a request has: as an upstream of Messages counts them, or about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.words import NOW
from tests.gateway.client import Answer as Sent
from tests.gateway.wire import get, request
from tests.wire.fake import answering, sized

from .gate import CHAT, JSON, MESSAGES, Gate, gate, telling
from .neutral import MODEL, Answer

PATH = "/v1/messages/count_tokens"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def count(between: Gate, body: bytes, *headers: str) -> Sent:
    asked = request("POST", f"{PATH}?beta=true", JSON, *headers, body=body)
    return await between.running.fetch(asked)


@pytest.mark.parametrize("version", [(), ("anthropic-version: 2024-01-01",)])
async def test_who_can_count_is_asked(version: tuple[str, ...]) -> None:
    story = answering(sized(b'{"input_tokens":7}', JSON))
    async with gate((MESSAGES, story)) as between:
        sent = await count(between, json.dumps(BODY).encode(), "anthropic-beta: x", *version)
        (asked,) = between.running.requests
    assert (sent.status, sent.json) == (200, {"input_tokens": 7})
    assert asked.line == b"POST /v1/messages/count_tokens?beta=true HTTP/1.1"
    assert json.loads(asked.body) == {**BODY, "model": MODEL}
    assert asked.headers[b"anthropic-beta"] == b"x"
    told = b"2024-01-01" if version else b"2023-06-01"
    assert asked.headers[b"anthropic-version"] == told


async def counted(between: Gate, *headers: str, **more: object) -> dict[str, Any]:
    """Count a request, and return what the upstream was given to count."""
    await count(between, json.dumps({**BODY, **more}).encode(), *headers)
    found: dict[str, Any] = json.loads(between.told)
    return found


async def test_what_would_be_sent_is_counted_with_the_clock_and_the_time() -> None:
    """A session's reminder that is due is neither claimed nor counted."""
    story = answering(sized(b'{"input_tokens":7}', JSON))
    reminder = json.dumps({"dueAt": "2026-02-02T21:22:40Z", "task": "tea"}).encode()
    path = "/api/sessions/s/reminders"
    async with gate((MESSAGES, story), clock=ManualClock(NOW)) as between:
        await between.running.fetch(request("POST", path, JSON, body=reminder))
        told = await counted(between, "x-session-id: s", tools=[{"name": "look"}])
        listed = await between.running.fetch(get(path))
    assert [tool["name"] for tool in told["tools"]] == ["look", "clock"]
    (turn,) = told["messages"]
    assert [block["text"][:13] for block in turn["content"]] == ["hello", "[Time/Date]: "]
    assert [item["deliveryCount"] for item in listed.json["items"]] == [0]


async def test_nothing_is_counted_that_would_not_be_sent() -> None:
    story = answering(sized(b'{"input_tokens":7}', JSON))
    directive = '<**stopMessage:"go on",2**>hello'
    async with gate((MESSAGES, story), clock=ManualClock(NOW)) as between:
        bare = await counted(between, "x-holdgate-clock: off")
        said = [{"role": "user", "content": directive}]
        told = await counted(between, "x-session-id: s", messages=said)
        session = await between.running.fetch(get("/api/sessions/s"))
    assert bare == {**BODY, "model": MODEL}
    assert told["messages"][0]["content"][0]["text"] == "hello"
    # The directive did not act: it does when the request itself comes.
    assert session.status == 404


async def test_an_estimate_counts_what_would_be_sent_too() -> None:
    story = telling(CHAT, Answer("Yes."), False)
    async with gate((CHAT, story), clock=ManualClock(NOW)) as between:
        sent = await count(between, json.dumps(BODY).encode())
        bare = await count(between, json.dumps(BODY).encode(), "x-holdgate-clock: off")
    assert sent.json["input_tokens"] > bare.json["input_tokens"] + 100


async def test_who_cannot_is_not() -> None:
    async with gate((CHAT, telling(CHAT, Answer("Yes."), False))) as between:
        sent = await count(between, json.dumps(BODY).encode())
        assert between.running.requests == []
    assert sent.status == 200
    assert 0 < sent.json["input_tokens"] < 100


@pytest.mark.parametrize(
    "body, status, kind",
    [
        (b"{", 400, "invalid_request_error"),
        (b'{"model":"m"}', 400, "invalid_request_error"),
        (b'{"model":"nobody","messages":[]}', 404, "not_found_error"),
    ],
)
async def test_errors_are_those_of_messages(body: bytes, status: int, kind: str) -> None:
    async with gate((MESSAGES, answering())) as between:
        sent = await count(between, body)
    assert (sent.status, sent.json["type"]) == (status, "error")
    assert sent.json["error"]["type"] == kind


async def test_what_the_upstream_refuses_is_passed_on() -> None:
    refused = MESSAGES.error("Too long.")
    async with gate((MESSAGES, answering(sized(refused, JSON, status="413 Large")))) as between:
        sent = await count(between, json.dumps(BODY).encode())
    assert (sent.status, bytes(sent.body)) == (413, refused)
