"""Where upstreams are asked, and with which key: path, parameters and headers of every request."""

from __future__ import annotations

import pytest

from tests.gateway.wire import request

from .gate import JSON, MESSAGES, TONGUES, each_pair, gate, read, telling
from .neutral import MODEL, Answer, Ask, Tongue

KEY = "canary-upstream-key"
AT = {
    "path": "/deployments/{model}/ask",
    "query": {"api-version": "2024-10-21", "tier": "a b&c"},
    "headers_env": {"X-Home": "HOME"},
}
LINE = f"POST /v1/deployments/{MODEL}/ask?api-version=2024-10-21&tier=a+b%26c HTTP/1.1".encode()
# How each kind of authentication is written; none of the other headers may be there.
SENT = {
    "bearer": {b"authorization": f"Bearer {KEY}".encode()},
    "x-api-key": {b"x-api-key": KEY.encode()},
    "api-key": {b"api-key": KEY.encode()},
}
CREDENTIALS = {b"authorization", b"x-api-key", b"api-key"}


def credentials(headers: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in headers.items() if name in CREDENTIALS}


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
@each_pair
async def test_path_parameters_and_headers(
    client: Tongue, upstream: Tongue, transport: str
) -> None:
    keys = {**AT, "transport": transport, "auth": "api-key", "api_key": KEY}
    story = telling(upstream, Answer("Hello."), stream=True)
    async with gate((upstream, story), upstream=keys) as between:
        for _ in range(2):
            sent = await between.ask(client, Ask(), True)
            assert read(client, sent, True).text == "Hello."
        asked = between.running.requests
    assert [one.line for one in asked] == [LINE, LINE]
    assert asked[0].headers[b"x-home"] == b"/nowhere"
    assert credentials(asked[0].headers) == SENT["api-key"]


@pytest.mark.parametrize("auth", SENT)
@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.NAME)
async def test_the_key_is_sent_as_configured(tongue: Tongue, auth: str) -> None:
    keys = {"auth": auth, "api_key": KEY}
    story = telling(tongue, Answer("Hello."), stream=True)
    async with gate((tongue, story), upstream=keys) as between:
        await between.ask(tongue, Ask(), True)
        (asked,) = between.running.requests
    assert credentials(asked.headers) == SENT[auth]


@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.NAME)
async def test_none_sends_no_key(tongue: Tongue) -> None:
    story = telling(tongue, Answer("Hello."), stream=True)
    async with gate((tongue, story), upstream={"auth": "none"}) as between:
        await between.ask(tongue, Ask(), True)
        (asked,) = between.running.requests
    assert credentials(asked.headers) == {}


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
@pytest.mark.parametrize(
    "model, path",
    [("a b", "a%20b"), ("../x", "..%2Fx"), ("x?y#z", "x%3Fy%23z"), ("é{m}", "%C3%A9%7Bm%7D")],
)
async def test_a_model_of_the_clients_choice_stays_inside_the_path(
    model: str, path: str, transport: str
) -> None:
    keys = {"path": "/m/{model}/ask", "transport": transport}
    (tongue,) = TONGUES[:1]
    story = telling(tongue, Answer("Hello."), stream=True)
    async with gate((tongue, story), upstream=keys, models=[]) as between:
        sent = await between.ask(tongue, Ask(model=f"a/{model}"), True)
        assert sent.status == 200, bytes(sent.body)
        assert between.running.requests[0].line == f"POST /v1/m/{path}/ask HTTP/1.1".encode()
        sent = await between.ask(tongue, Ask(model="a/.."), True)
        assert sent.status == 400
        assert sent.error["param"] == "model"
        assert len(between.running.requests) == 1


async def test_parameters_of_the_client_follow_those_of_the_operator() -> None:
    story = telling(MESSAGES, Answer("Hello."), stream=True)
    async with gate((MESSAGES, story), upstream=AT) as between:
        body = MESSAGES.ask(Ask(), True)
        path = f"{MESSAGES.PATH}?beta=true&key=mine"
        await between.running.fetch(request("POST", path, JSON, body=body))
        counted = f"{MESSAGES.PATH}/count_tokens?beta=true"
        await between.running.fetch(request("POST", counted, JSON, body=body))
        lines = [asked.line for asked in between.running.requests]
    assert lines[0] == LINE.replace(b" HTTP", b"&beta=true HTTP")
    assert lines[1] == LINE.replace(b"/ask?", b"/ask/count_tokens?").replace(
        b" HTTP", b"&beta=true HTTP"
    )
