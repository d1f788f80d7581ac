"""Limits of requests that are no exchange of a conversation: passed through, and token counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.client import Answer
from tests.gateway.wire import request
from tests.jobs.words import key
from tests.run import Running
from tests.sessions.talk import JSON
from tests.usage.words import limited
from tests.wire.fake import answering, sized

EMBEDDINGS, COMPLETIONS, COMPACT = "/v1/embeddings", "/v1/completions", "/v1/responses/compact"
COUNT = "/v1/messages/count_tokens"
RESPONSES, MESSAGES = {"dialect": "openai-responses"}, {"dialect": "anthropic-messages"}
EIGHT = answering(sized(b'{"data": [], "usage": {"prompt_tokens": 8}}', JSON))
COUNTED = answering(sized(b'{"input_tokens":7}', JSON))
TWO_MODELS = {
    "models": [{"name": "m", "routes": ["a/m"]}, {"name": "dear", "routes": ["a/dear"]}],
    "agents": [],
}


async def post(gate: Running, path: str, owner: str = "ann", model: str = "m") -> Answer:
    """Send a request of somebody's to a path."""
    body = json.dumps({"model": model, "input": "x", "messages": []}).encode()
    return await gate.fetch(request("POST", path, JSON, key(owner), body=body))


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"rpm": 1}, "rate_limit_exceeded"),
        ({"tpm": 8}, "rate_limit_exceeded"),
        ({"budget": "8 tokens/day"}, "budget_exceeded"),
    ],
    ids=["rpm", "tpm", "budget"],
)
@pytest.mark.parametrize("path", [EMBEDDINGS, COMPLETIONS, COMPACT])
async def test_what_is_passed_through_is_limited(
    path: str, limits: dict[str, Any], code: str
) -> None:
    async with limited(EIGHT, options={"upstream": RESPONSES}, **limits) as gate:
        assert (await post(gate, path)).status == 200
        await gate.quiet()
        refused = await post(gate, path)
        assert (refused.status, refused.json["error"]["code"]) == (429, code)
        assert len(gate.requests) == 1
        for _ in range(3):
            assert (await post(gate, path, "bob")).status == 200


@pytest.mark.parametrize("path", [EMBEDDINGS, COMPLETIONS, COMPACT, COUNT])
async def test_models_of_an_owner_bound_every_path(path: str) -> None:
    upstream = MESSAGES if path == COUNT else RESPONSES
    options = {"upstream": upstream}
    async with limited(EIGHT, tables=TWO_MODELS, options=options, models=["m"]) as gate:
        refused = await post(gate, path, model="dear")
        assert refused.status == 404
        assert gate.requests == []
        assert (await post(gate, path)).status == 200
        assert (await post(gate, path, "bob", "dear")).status == 200


async def test_a_token_count_that_asks_an_upstream_is_limited() -> None:
    async with limited(COUNTED, options={"upstream": MESSAGES}, rpm=2) as gate:
        for left in ("1", "0"):
            counted = await post(gate, COUNT)
            assert (counted.status, counted.json) == (200, {"input_tokens": 7})
            assert counted.headers["anthropic-ratelimit-requests-remaining"] == left
        for path in (COUNT, "/v1/messages"):
            refused = await post(gate, path)
            assert (refused.status, refused.json["error"]["type"]) == (429, "rate_limit_error")
            assert refused.headers["anthropic-ratelimit-requests-remaining"] == "0"
            assert int(refused.headers["retry-after"]) > 0
        assert len(gate.requests) == 2
        assert (await post(gate, COUNT, "bob")).status == 200


async def test_a_token_count_gives_its_place_back() -> None:
    async with limited(COUNTED, options={"upstream": MESSAGES}, concurrent=1) as gate:
        for _ in range(3):
            assert (await post(gate, COUNT)).status == 200


async def test_an_estimate_is_not_limited() -> None:
    async with limited(EIGHT, rpm=1) as gate:
        for _ in range(3):
            assert (await post(gate, COUNT)).status == 200
        assert gate.requests == []
