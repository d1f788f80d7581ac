"""What clients of the Anthropic API send and look for beside the body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.wire import get, request
from tests.wire.fake import answering, sized

from .gate import CHAT, JSON, MESSAGES, both_ways, each_tongue, gate, telling
from .neutral import Answer, Ask, Tongue

FINE = Answer("Fine.")
VERSION = "anthropic-version: 2023-06-01"
COUNT = "/v1/messages/count_tokens"


@both_ways
@each_tongue
async def test_every_answer_has_its_id_and_messages_under_their_own_name(
    tongue: Tongue, stream: bool
) -> None:
    async with gate((tongue, telling(tongue, FINE, stream))) as between:
        sent = await between.send(tongue, tongue.ask(Ask(), stream), "x-request-id: mine")
        wrong = await between.send(tongue, b"{", "x-request-id: wrong")
    assert (sent.status, sent.headers["x-request-id"]) == (200, "mine")
    assert (wrong.status, wrong.headers["x-request-id"]) == (400, "wrong")
    named = ("mine", "wrong") if tongue is MESSAGES else (None, None)
    assert (sent.headers.get("request-id"), wrong.headers.get("request-id")) == named


@pytest.mark.parametrize(
    "asked",
    [
        request("POST", COUNT, JSON, body=MESSAGES.ask(Ask(), False)),
        request("POST", COUNT, JSON, body=b"{"),
        get("/v1/models", VERSION),
        get("/v1/models/m", VERSION),
        get("/v1/models/nobody", VERSION),
        request("POST", MESSAGES.PATH, JSON, "host: evil.example", body=b"{}"),
        get(MESSAGES.PATH),
    ],
)
async def test_so_have_all_others_of_that_api(asked: bytes) -> None:
    async with gate((CHAT, telling(CHAT, FINE, False))) as between:
        sent = await between.running.fetch(asked)
    assert sent.headers["request-id"] == sent.headers["x-request-id"]


async def test_a_listed_origin_may_read_it() -> None:
    origin = "https://app.example"
    settings: dict[str, Any] = {"server__cors_origins": [origin]}
    async with gate((MESSAGES, telling(MESSAGES, FINE, False)), **settings) as between:
        asked = request("OPTIONS", MESSAGES.PATH, f"origin: {origin}")
        sent = await between.running.fetch(asked)
        plain = await between.running.fetch(request("OPTIONS", MESSAGES.PATH))
    assert "request-id" in sent.headers["access-control-expose-headers"].split(", ")
    assert "POST" in sent.headers["access-control-allow-methods"]
    assert plain.headers["allow"] == "POST"


@pytest.mark.parametrize("transport", ["fast", "httpx"])
@pytest.mark.parametrize(
    "asked, told",
    [("?beta=true", "?beta=true"), ("?x=1&beta=true&key=k", "?beta=true"), ("?x=1", ""), ("", "")],
)
async def test_of_the_url_only_the_beta_mark_goes_up(asked: str, told: str, transport: str) -> None:
    story = answering(sized(MESSAGES.whole(FINE), JSON))
    async with gate((MESSAGES, story), upstream={"transport": transport}) as between:
        body = MESSAGES.ask(Ask(), False)
        sent = await between.running.fetch(request("POST", MESSAGES.PATH + asked, JSON, body=body))
        (upstream,) = between.running.requests
    assert sent.status == 200
    assert upstream.line.decode() == f"POST {MESSAGES.PATH}{told} HTTP/1.1"


async def test_an_upstream_of_another_dialect_is_told_nothing_of_it() -> None:
    async with gate((CHAT, telling(CHAT, FINE, False))) as between:
        body, path = MESSAGES.ask(Ask(), False), f"{MESSAGES.PATH}?beta=true"
        await between.running.fetch(request("POST", path, JSON, "anthropic-beta: x", body=body))
        (upstream,) = between.running.requests
    assert upstream.line.decode() == f"POST {CHAT.PATH} HTTP/1.1"
    assert b"anthropic-beta" not in upstream.headers


async def test_headers_of_features_go_up_and_no_others() -> None:
    features = {"anthropic-beta": "a,b", "anthropic-version": "2024-01-01", "anthropic-new": "x"}
    others = {
        "anthropic-session-id": "s",
        "anthropic-organization-id": "canary",
        "cookie": "canary",
    }
    async with gate((MESSAGES, telling(MESSAGES, FINE, False))) as between:
        headers = [f"{name}: {value}" for name, value in {**features, **others}.items()]
        sent = await between.send(MESSAGES, MESSAGES.ask(Ask(), False), *headers)
        (upstream,) = between.running.requests
    assert sent.headers["x-holdgate-session"] == "s"
    found = {name.decode(): value.decode() for name, value in upstream.headers.items()}
    assert {name: found.get(name) for name in features} == features
    assert not others.keys() & found.keys()


# Without a model.


def nameless(tongue: Tongue, **more: object) -> bytes:
    body = {**json.loads(tongue.ask(Ask(), False)), **more}
    del body["model"]
    return json.dumps(body).encode()


@each_tongue
async def test_the_only_model_is_asked_where_none_is_named(tongue: Tongue) -> None:
    async with gate((tongue, telling(tongue, FINE, False))) as between:
        sent = await between.send(tongue, nameless(tongue))
        told = json.loads(between.told)
    assert sent.status == 200
    assert told["model"] == "real-m"


async def test_tokens_are_counted_for_it_too() -> None:
    async with gate((MESSAGES, answering(sized(b'{"input_tokens":7}', JSON)))) as between:
        body = request("POST", COUNT, JSON, body=nameless(MESSAGES))
        sent = await between.running.fetch(body)
        told = json.loads(between.told)
    assert (sent.status, told["model"]) == (200, "real-m")


@each_tongue
async def test_where_there_are_several_the_field_is_named(tongue: Tongue) -> None:
    two = [{"name": name, "routes": [f"a/{name}"]} for name in ("one", "two")]
    async with gate((tongue, telling(tongue, FINE, False)), models=two) as between:
        sent = await between.send(tongue, nameless(tongue))
        assert between.running.requests == []
    assert sent.status == 400
    assert "`model` is missing" in sent.json["error"]["message"]
    if tongue is not MESSAGES:
        assert sent.json["error"]["param"] == "model"
