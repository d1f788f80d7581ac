"""What a client may send and what it gets for it, on every route."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.wire import (
    PATH,
    ROUTES,
    ask_of,
    chat,
    get,
    request,
    streaming,
    to,
    turn,
)
from tests.run import in_process

ONE = streaming(turn("one"))
JSON = "content-type: application/json"
KEYS = {
    "keys": [
        {"owner": "alice", "key": "key-of-alice"},
        {"owner": "root", "key": "key-of-root", "admin": True},
    ]
}


# -- who asks


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("authorization: Bearer wrong",),
        ("authorization: Bearer ",),
        ("authorization: Basic key-of-alice",),
        ("authorization: key-of-alice",),
        ("x-api-key: key-of-alicf",),
        ("x-api-key: ",),
    ],
)
@pytest.mark.parametrize("path", [PATH, "/v1/models", "/v1/models/m", "/api/status", "/metrics"])
async def test_no_or_a_wrong_key(headers: tuple[str, ...], path: str) -> None:
    async with in_process(ONE, tables=KEYS) as gate:
        asked = ask_of(chat(), *headers) if path == PATH else get(path, *headers)
        answer = await gate.fetch(asked)
        assert answer.status == 401
        assert answer.error["code"] == "invalid_api_key"
        assert gate.requests == []


@pytest.mark.parametrize(
    "header", ["authorization: Bearer {}", "authorization: bearer {}", "x-api-key: {}"]
)
async def test_the_owner_comes_from_the_key(header: str) -> None:
    async with in_process(ONE, tables=KEYS) as gate:
        answer = await gate.ask(chat(), header.format("key-of-alice"))
        assert answer.text == "one"
        await gate.quiet()
        assert gate.exchanges[0]["owner"] == "alice"
        assert "key-of-alice" not in gate.log


async def test_metrics_are_an_admins() -> None:
    async with in_process(ONE, tables=KEYS) as gate:
        assert (await gate.fetch(get("/metrics", "x-api-key: key-of-alice"))).status == 403
        assert (await gate.fetch(get("/metrics", "x-api-key: key-of-root"))).status == 200


async def test_signs_of_life_need_no_key() -> None:
    async with in_process(ONE, tables=KEYS) as gate:
        for path in ("/", "/healthz", "/readyz"):
            assert (await gate.fetch(get(path))).status == 200


# -- from where


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"]
)
async def test_a_foreign_origin_is_refused_on_every_route(path: str, origin: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(to(path, f"origin: {origin}"))
        assert answer.status == 403
        assert answer.error["code"] == "forbidden"
        assert "access-control-allow-origin" not in answer.headers
        assert gate.requests == []


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost.evil"]
)
async def test_an_unknown_host_is_refused_on_every_route(path: str, host: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(to(path, f"host: {host}", host=None))
        assert answer.status == 403
        assert gate.requests == []


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "host", ["[::1]evil", "[::1", "[::1]:80:80", "localhost:80evil", "localhost/x", "a@localhost"]
)
async def test_a_host_with_more_than_a_name_is_refused(path: str, host: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(to(path, host=host))
        assert (answer.status, answer.error["code"]) == (400, "bad_request")
        assert gate.requests == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9", "localhost", "LOCALHOST:1", "[::1]:80", "a.localhost", "127.9.9.9"]
)
async def test_names_of_this_machine_are_accepted(host: str) -> None:
    async with in_process(ONE) as gate:
        assert (await gate.fetch(to(PATH, host=host))).status == 200


async def test_with_keys_any_host_is_and_a_list_narrows_it() -> None:
    key = "x-api-key: key-of-alice"
    async with in_process(ONE, tables=KEYS) as gate:
        assert (await gate.fetch(to(PATH, key, host="any.example"))).status == 200
    async with in_process(ONE, tables=KEYS, server__hosts=["gate.example"]) as gate:
        assert (await gate.fetch(to(PATH, key, host="any.example"))).status == 403
        assert (await gate.fetch(to(PATH, key, host="Gate.example:443"))).status == 200


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("hosts", [(), ("host: 127.0.0.1", "host: 127.0.0.1")])
async def test_one_host_header_exactly(path: str, hosts: tuple[str, ...]) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(to(path, *hosts, host=None))
        assert answer.status == 400
        assert gate.requests == []


@pytest.mark.parametrize("path", ROUTES)
async def test_a_listed_origin_may_read_every_answer(path: str) -> None:
    origin = "https://app.example"
    async with in_process(ONE, server__cors_origins=[origin]) as gate:
        answer = await gate.fetch(to(path, f"origin: {origin}"))
        assert answer.headers["access-control-allow-origin"] == origin
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        # SDKs in a browser wait as these say.
        assert {"x-request-id", "retry-after", "x-ratelimit-reset-requests"} <= set(exposed)
        assert answer.headers["vary"] == "origin"
        assert answer.repeated == []


async def test_a_preflight_of_a_listed_origin() -> None:
    origin = "https://app.example"
    asks = (
        "access-control-request-method: POST",
        "access-control-request-headers: authorization,x-a",
    )
    async with in_process(ONE, server__cors_origins=[origin], tables=KEYS) as gate:
        client = await gate.send(request("OPTIONS", PATH, f"origin: {origin}", *asks))
        answer = await client.answer(bodyless=True)
        foreign = await gate.fetch(request("OPTIONS", PATH, "origin: https://evil.example", *asks))
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == origin
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization,x-a"
    assert foreign.status == 403


# -- what is asked


async def test_methods_and_paths() -> None:
    async with in_process(ONE) as gate:
        for asked, status in (
            (get("/"), 200),
            (get("/healthz"), 200),
            (get("/readyz"), 200),
            (get("http://127.0.0.1/healthz"), 200),
            (get("/healthz?x=1"), 200),
            (get("/nothing"), 404),
            (get("/v1/models/"), 404),
            (get(PATH), 405),
            (request("PUT", PATH, JSON, body=b"{}"), 405),
            (request("DELETE", "/healthz"), 405),
            (request("POST", "/v1/models", JSON, body=b"{}"), 405),
        ):
            answer = await gate.fetch(asked)
            assert answer.status == status, asked
            if status >= 400:
                assert set(answer.error) == {"message", "type", "param", "code"}
            assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    "path, status", [("/", 200), ("/healthz", 200), ("/nothing", 404), (PATH, 405)]
)
async def test_head_has_no_body(path: str, status: int) -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(request("HEAD", path))
        answer = await client.answer(bodyless=True)
        assert answer.status == status
        assert int(answer.headers["content-length"]) > 0
        assert not answer.body


async def test_an_absolute_uri_is_a_path() -> None:
    asked = ask_of(chat()).replace(PATH.encode(), b"http://127.0.0.1" + PATH.encode(), 1)
    async with in_process(ONE) as gate:
        assert (await gate.fetch(asked)).text == "one"


async def test_options_without_origin() -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(request("OPTIONS", PATH))
        answer = await client.answer(bodyless=True)
    assert answer.status == 204
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize("given", ["abc", "A-Z.0_9", "x" * 128])
async def test_a_sane_request_id_is_taken(given: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.ask(chat(), f"x-request-id: {given}")
        await gate.quiet()
        assert answer.headers["x-request-id"] == given
        assert gate.requests[0].headers[b"x-request-id"] == given.encode()
        assert gate.exchanges[0]["request"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a:b", "a\tb", "ä", '"'])
async def test_any_other_is_replaced(given: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.ask(chat(), f"x-request-id: {given}")
        made = answer.headers["x-request-id"]
        assert made.startswith("req_")
        assert gate.requests[0].headers[b"x-request-id"] == made.encode()


BAD: list[tuple[bytes, str | None]] = [
    (b"", None),
    (b"hello", None),
    (b"[]", None),
    (b"null", None),
    (b'{"model": "m"', None),
    (b'{"model": "m", "messages": []} x', None),
    (b'{"model": "m", "messages": [], "n": NaN}', None),
    (b'{"model": "m", "messages": [], "x": "\xff"}', None),
    (b'\xff\xfe{"model": "m"}', None),
    (b'{"model": "m", "messages": ' + b"[" * 200 + b"]" * 200 + b"}", None),
    (b'{"model": "m", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    (b"[" * 1_000_000, None),
    (b'{"messages": []}', "model"),
    (b'{"model": null, "messages": []}', "model"),
    (b'{"model": "", "messages": []}', "model"),
    (b'{"model": 5, "messages": []}', "model"),
    (b'{"model": "m"}', "messages"),
    (b'{"model": "m", "messages": "hi"}', "messages"),
    (b'{"model": "m", "messages": {}}', "messages"),
    (b'{"model": "m", "messages": [], "stream": "yes"}', "stream"),
    (b'{"model": "m", "messages": [], "stream": 1}', "stream"),
    (b'{"model": "m", "messages": [], "n": 0}', "n"),
    (b'{"model": "m", "messages": [], "n": "2"}', "n"),
    (b'{"model": "m", "messages": [], "stream_options": 1}', "stream_options"),
]


@pytest.mark.parametrize("body, field", BAD, ids=[body[:40].decode("latin-1") for body, _ in BAD])
async def test_a_body_that_cannot_be_read_names_the_field(body: bytes, field: str | None) -> None:
    models = [{"name": name, "routes": [f"a/{name}"]} for name in ("m", "n")]
    async with in_process(ONE, tables={"models": models}) as gate:
        answer = await gate.ask(body)
        assert answer.status == 400
        assert answer.error["param"] == field
        assert answer.error["type"] == "invalid_request_error"
        assert gate.requests == []


async def test_an_unknown_model_names_the_nearest() -> None:
    async with in_process(
        ONE, upstream={"models": ["gpt-5-mini", "gpt-5"]}, tables={"models": []}
    ) as gate:
        answer = await gate.ask(chat(model="gpt-5-mino"))
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert answer.error["param"] == "model"
    assert "'gpt-5-mini'" in answer.error["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
async def test_a_body_needs_a_json_content_type(kind: str) -> None:
    """Any web page can post a form to a port of its reader's machine."""
    async with in_process(ONE) as gate:
        answer = await gate.fetch(request("POST", PATH, f"content-type: {kind}", body=chat()))
        assert answer.status == 415
        assert gate.requests == []


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"]
)
async def test_json_by_any_of_its_names(kind: str) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(request("POST", PATH, f"content-type: {kind}", body=chat()))
        assert answer.text == "one"


async def test_a_wrong_method_is_told_the_right_ones() -> None:
    async with in_process(None) as gate:
        for path, allowed in ((PATH, "POST"), ("/healthz", "GET")):
            answer = await gate.fetch(request("DELETE", path))
            assert answer.status == 405
            assert allowed in answer.headers["allow"]


async def test_an_offer_of_http2_is_ignored_and_the_body_read() -> None:
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    async with in_process(ONE) as gate:
        answer = await gate.ask(chat(), *offer)
        assert answer.status == 200


async def test_it_is_degraded_when_its_store_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "sessions"
    settings = {"store__url": "", "server__session_dir": str(place)}
    async with in_process(ONE, settings=settings) as gate:
        assert (await gate.fetch(get("/readyz"))).status == 200
        place.rename(tmp_path / "elsewhere")
        answer = await gate.fetch(get("/readyz"))
        assert (answer.status, answer.json["status"]) == (200, "degraded")
        assert answer.json["reason"] == "The session directory is gone."
        assert (await gate.ask(chat())).status == 200
