"""Ids with U+0000 or half a surrogate pair are no ids, wherever they are named: 400, never a 500."""

from __future__ import annotations

import json

import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import due
from tests.clock.words import NOW
from tests.gateway.wire import get, request
from tests.run import in_process
from tests.sessions.talk import JSON, model

NUL, HALF = "a\\u0000b", "a\\ud800b"
REMINDER = json.dumps(due("drink tea", NOW)).encode()


def asking(metadata: str, path: str = "/v1/chat/completions", said: str = '"messages":[]') -> bytes:
    body = f'{{"model":"m","max_tokens":9,{said},{metadata}}}'.encode()
    return request("POST", path, JSON, body=body)


def user_id(bad: str) -> str:
    inner = json.dumps(f'{{"session_id":"{bad}"}}')
    return f'"metadata":{{"user_id":{inner}}}'


REQUESTS: dict[str, bytes] = {
    f"{where}, {name}": made
    for name, bad in {"NUL": NUL, "half a pair": HALF}.items()
    for where, made in {
        "metadata": asking(f'"metadata":{{"session_id":"{bad}"}}'),
        "Claude Code's user_id": asking(user_id(bad), "/v1/messages"),
        "client_metadata": asking(
            f'"client_metadata":{{"session_id":"{bad}"}}', "/v1/responses", '"input":"hi"'
        ),
        "conversation": asking(f'"conversation":{{"id":"{bad}"}}', "/v1/responses", '"input":"hi"'),
        "an agent's session": request(
            "POST",
            "/api/chat",
            JSON,
            body=f'{{"message":"hi","agentId":"a","sessionId":"{bad}"}}'.encode(),
        ),
        "a job's session": request(
            "POST",
            "/api/cron/add",
            JSON,
            body=f'{{"session_id":"{bad}","message":"hi","schedule_text":"hourly"}}'.encode(),
        ),
    }.items()
}
PATHS: dict[str, bytes] = {
    "a session": get("/api/sessions/a%00b"),
    "forgetting": request("DELETE", "/api/sessions/a%00b"),
    "reminders": get("/api/sessions/a%00b/reminders"),
    "setting one": request("POST", "/api/sessions/a%00b/reminders", JSON, body=REMINDER),
    "an inbox": get("/api/sessions/a%00b/inbox"),
    "events": get("/api/sessions/a%00b/events"),
}
AGENTS = [{"id": "a", "model": "m"}]


@pytest.mark.parametrize("name", [*REQUESTS, *PATHS])
async def test_an_id_that_cannot_be_one_is_refused(name: str) -> None:
    asked = REQUESTS.get(name) or PATHS[name]
    async with in_process(model(), clock=ManualClock(NOW), tables={"agents": AGENTS}) as gate:
        answer = await gate.fetch(asked)
        assert answer.status == 400, bytes(answer.body)
        assert gate.requests == []
