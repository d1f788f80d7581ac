"""A large request means what a small one means, and nobody works for a client that left."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.gateway.wire import ask_of
from tests.pairs.gate import Gate, each_pair, gate, telling
from tests.pairs.neutral import Answer, Tongue
from tests.run import in_process, until

from .shapes import CHAT, DIALECTS, MB, MESSAGES, RESPONSES, SHAPES, body_of, said, user, write

pytestmark = pytest.mark.anyio
TIME = re.compile(rb"\[Time/Date\][^\"]*")
SCHEMA = {"type": "object", "properties": {}}


def conversation(dialect: str, pad: bytes) -> bytes:
    """Write a request with old text, a directive, and a tool that is called as ours is."""
    items = [
        user(dialect, b'"<**clear**> %b"' % pad),
        said(dialect, "yes"),
        user(dialect, b'"<**stopMessage:clear**> hi"'),
    ]
    tool: dict[str, Any] = {"name": "clock", "description": "d", "parameters": SCHEMA}
    tool = (
        {"type": "function", "function": tool} if dialect == CHAT else {"type": "function"} | tool
    )
    if dialect == MESSAGES:
        tool = {"name": "clock", "description": "d", "input_schema": SCHEMA}
    name = b"input" if dialect == RESPONSES else b"messages"
    form = b'{"model":"m","max_tokens":9,"tools":[%b],"metadata":{"user_id":"u"},"%b":[%b]}'
    if dialect == RESPONSES:
        form = form.replace(b'"max_tokens":9,', b"")
    return form % (write(tool), name, b",".join(items))


async def told(gateway: Gate, client: Tongue, pad: bytes) -> tuple[int, bytes, str]:
    answer = await gateway.send(client, conversation(client.NAME, pad), f"x-session-id: {len(pad)}")
    seen = TIME.sub(b"now", gateway.told.replace(pad, b"pad"))
    return answer.status, seen, answer.headers["x-holdgate-directive"]


@each_pair
async def test_a_large_request_means_what_a_small_one_means(
    client: Tongue, upstream: Tongue
) -> None:
    async with gate((upstream, telling(upstream, Answer(text="hello"), False))) as gateway:
        small = await told(gateway, client, b"p" * 100)
        large = await told(gateway, client, b"p" * 200_000)
    assert small[0] == 200
    assert b"<**" not in small[1]
    assert large == small


async def test_nobody_works_for_a_client_that_left() -> None:
    async with in_process(None) as gateway:
        offload = gateway.gateway.exchanges.services.offload
        client = await gateway.send(ask_of(body_of(SHAPES["nested lists"], CHAT, "m", 8 * MB)))
        await until(lambda: offload._bytes.total() > 0, patience=30)
        client.leave()
        await until(lambda: offload._bytes.total() == 0, patience=30)
        assert offload._resting == []
        assert gateway.requests == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_is_wrong_with_a_large_request_is_said_as_ever(dialect: str) -> None:
    body = body_of(SHAPES["one text"], dialect, "m", MB // 4)[:-1] + b',"stream":"maybe"}'
    path = {CHAT: "chat/completions", RESPONSES: "responses", MESSAGES: "messages"}[dialect]
    async with in_process(None) as gateway:
        request = ask_of(body).replace(b"chat/completions", path.encode(), 1)
        answer = await gateway.fetch(request)
    assert answer.status == 400
    assert "`stream`" in answer.error["message"]
