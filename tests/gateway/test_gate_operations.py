"""What an operator sees: models, status, log lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.version import __version__
from tests.gateway.wire import (
    DONE,
    chat,
    get,
    hanging,
    streaming,
    turn,
)
from tests.run import in_process
from tests.wire.fake import CHUNKED, chunk

ALICE = ("x-api-key: key-of-alice",)
ONE = streaming(turn("one"))
JSON = "content-type: application/json"
KEYS = {
    "keys": [
        {"owner": "alice", "key": "key-of-alice"},
        {"owner": "root", "key": "key-of-root", "admin": True},
    ]
}


async def test_models_are_listed_as_messages_clients_want_them() -> None:
    names = {"models": [{"name": "m", "routes": ["a/x"]}, {"name": "n", "routes": ["a/y"]}]}
    async with in_process(None, tables=names) as gate:
        listed = (await gate.fetch(get("/v1/models", "anthropic-version: 2023-06-01"))).json
        one = (await gate.fetch(get("/v1/models/n", "anthropic-version: 2023-06-01"))).json
    assert [model["id"] for model in listed["data"]] == ["m", "n"]
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("m", "n", False)
    assert one == listed["data"][1]
    any_name = {"id": "a", "base_url": "http://127.0.0.1:9/v1", "models": ["*"]}
    anything = {"upstreams": [any_name], "models": []}
    async with in_process(tables=anything) as gate:
        none = (await gate.fetch(get("/v1/models", "anthropic-version: 2023-06-01"))).json
    assert none == {"data": [], "has_more": False, "first_id": None, "last_id": None}
    assert one["type"] == "model"
    assert one["created_at"].endswith("Z")


@pytest.mark.parametrize(
    "asked, status, kind",
    [
        (get("/v1/models", "anthropic-version: 1"), 401, "authentication_error"),
        (get("/v1/models/o", *ALICE, "anthropic-version: 1"), 404, "not_found_error"),
        (get("/v1/messages/batches", "anthropic-version: 1"), 404, "not_found_error"),
        (
            get("/v1/messages/count_tokens", "anthropic-version: 1"),
            405,
            "invalid_request_error",
        ),
        (
            get("/v1/models", "anthropic-version: 1", "origin: https://x.test"),
            403,
            "permission_error",
        ),
    ],
)
async def test_errors_are_told_as_messages_clients_want_them(
    asked: bytes, status: int, kind: str
) -> None:
    async with in_process(None, tables=KEYS) as gate:
        answer = await gate.fetch(asked)
    assert (answer.status, answer.json["type"]) == (status, "error")
    assert answer.json["error"]["type"] == kind


async def test_models_are_listed() -> None:
    names = {"models": [{"name": "m", "routes": ["a/x"]}, {"name": "n/n", "routes": ["a/y"]}]}
    async with in_process(ONE, tables=names) as gate:
        listed = (await gate.fetch(get("/v1/models"))).json
        one = (await gate.fetch(get("/v1/models/n/n"))).json
        none = await gate.fetch(get("/v1/models/o"))
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["m", "n/n"]
    assert one in listed["data"]
    assert one["object"] == "model"
    assert none.status == 404
    assert none.error["code"] == "model_not_found"


async def test_the_status_tells_what_is_going_on() -> None:
    async with in_process(hanging(CHUNKED, chunk(turn("one")[:200])), None) as gate:
        client = await gate.start()
        await client.saw(b"assistant")
        status: dict[str, Any] = (await gate.fetch(get("/api/status"))).json
    assert status["version"] == __version__
    assert status["draining"] is False
    assert status["store"] == "memory"
    assert "instances" not in status
    assert status["models"] == ["m"]
    assert status["exchanges"] == {"live": 1, "by_state": {"relaying": 1}}
    assert [(u["id"], u["health"], u["connections_busy"]) for u in status["upstreams"]] == [
        ("a", "ok", 1),
        ("b", "ok", 0),
    ]


async def test_one_log_line_an_exchange() -> None:
    async with in_process(ONE, None) as gate:
        for _ in range(3):
            await gate.ask()
        await gate.ask(chat(model="nobody's"))
        await gate.fetch(get("/healthz"))
        await gate.quiet()
        lines = gate.exchanges
        events = [json.loads(line)["event"] for line in gate.log.splitlines()]
    assert events == ["exchange"] * 3 + ["refused"]
    assert {(line["state"], line["status"], line["upstream"]) for line in lines} == {
        ("done", 200, "a")
    }
    assert json.dumps(lines).count('"model": "m"') == 3
    assert DONE not in gate.log.encode()
