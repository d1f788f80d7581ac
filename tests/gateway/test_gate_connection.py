"""What else comes on a connection: trailers, other protocols, more than was asked for, too many."""

from __future__ import annotations

import socket
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from tests.gateway.client import Client
from tests.gateway.wire import (
    DONE,
    PATH,
    ROUTES,
    Cue,
    ask_of,
    chat,
    get,
    hanging,
    in_turn,
    on_cue,
    request,
    streaming,
    turn,
)
from tests.run import in_process, until, within
from tests.wire.fake import CHUNKED, LAST, chunk

ONE = streaming(turn("one"))
JSON = "content-type: application/json"
KEYS = {"keys": [{"owner": "alice", "key": "of-alice"}, {"owner": "bob", "key": "of-bob"}]}
WEBSOCKET = (
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
)


def coded(*headers: str, body: bytes = chunk(chat()) + LAST) -> bytes:
    """Write a request without a length."""
    return request("POST", PATH, JSON, *headers).replace(b"content-length: 0\r\n", b"") + body


# -- trailers


@pytest.mark.parametrize("piecewise", [False, True])
async def test_a_trailer_does_not_change_whose_request_it_is(piecewise: bool) -> None:
    trailers = b"authorization: Bearer of-bob\r\nx-session-id: of-bob\r\nx-request-id: bobs\r\n"
    body = chunk(chat()) + b"0\r\n" + trailers + b"\r\n"
    asked = coded("authorization: Bearer of-alice", "transfer-encoding: chunked", body=body)
    async with in_process(ONE, tables=KEYS) as gate:
        client = await gate.connect()
        for at in range(0, len(asked), 40 if piecewise else len(asked)):
            await client.send(asked[at : at + (40 if piecewise else len(asked))])
            await anyio.lowlevel.checkpoint()
        answer = await client.answer()
        assert answer.text == "one"
        assert "x-holdgate-session" not in answer.headers
        await gate.quiet()
        assert gate.exchanges[0]["owner"] == "alice"
        assert gate.exchanges[0]["request"] is None


async def test_a_key_in_a_trailer_is_no_key() -> None:
    body = chunk(chat()) + b"0\r\nx-api-key: of-bob\r\n\r\n"
    async with in_process(ONE, tables=KEYS) as gate:
        answer = await gate.fetch(coded("transfer-encoding: chunked", body=body))
        assert answer.status == 401


async def test_trailers_without_end() -> None:
    async with in_process(ONE, limits__header_bytes=2000) as gate:
        client = await gate.send(coded("transfer-encoding: chunked", body=chunk(b"{") + b"0\r\n"))
        with suppress(ConnectionError):
            for number in range(100):
                await client.send(f"x-{number}: {'y' * 90}\r\n".encode())
                await anyio.lowlevel.checkpoint()
        assert (await client.answer()).status == 400
        assert await client.closed()


@pytest.mark.parametrize(
    "headers",
    [
        ("transfer-encoding: gzip, chunked",),
        ("transfer-encoding: gzip", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked, chunked",),
    ],
)
async def test_a_coded_transfer_is_refused(headers: tuple[str, ...]) -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(coded(*headers))
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (400, "bad_request")
        assert await client.closed()
        assert gate.requests == []


# -- other protocols


@pytest.mark.parametrize("path", [*ROUTES, "/v1/responses", "/v1/messages", "/api/chat"])
async def test_a_websocket_is_told_to_use_http(path: str) -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(get(path, *WEBSOCKET))
        answer = await client.answer()
        assert answer.status == 426
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["upgrade"] == "HTTP/1.1"
        assert {"upgrade", "close"} == set(answer.headers["connection"].split(", "))
        assert answer.json["error"]["message"].startswith("WebSocket is not supported")
        assert (answer.json.get("type") == "error") is (path == "/v1/messages")
        assert await client.closed() == "closed"
        assert gate.requests == []
        assert (await gate.ask()).text == "one"


@pytest.mark.parametrize(
    "asked",
    [
        get("/v1/responses", "upgrade: websocket"),
        get("/v1/responses", "upgrade: h2c, WebSocket", "connection: upgrade"),
        get("/v1/responses", *WEBSOCKET) + b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
        request("POST", "/v1/responses", JSON, *WEBSOCKET, body=chat()),
        get("/healthz") + get("/v1/responses", *WEBSOCKET),
    ],
    ids=["bare", "one of two", "with frames", "with a body", "after another"],
)
async def test_a_websocket_in_any_form(asked: bytes) -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(asked)
        if b"healthz" in asked:
            assert (await client.answer()).status == 200
        assert (await client.answer()).status == 426
        assert await client.closed() == "closed"


async def test_a_page_elsewhere_is_not_even_told_that() -> None:
    async with in_process(ONE) as gate:
        answer = await gate.fetch(get("/v1/responses", *WEBSOCKET, "origin: https://evil.example"))
        assert answer.status == 403


async def test_any_other_protocol_is_not_spoken() -> None:
    other = get("/healthz", "connection: upgrade", "upgrade: irc/6.9")
    async with in_process(ONE) as gate:
        client = await gate.send(other)
        assert (await client.answer()).status == 400
        assert await client.closed()
        client = await gate.send(ask_of(chat()) + other)
        assert (await client.answer()).text == "one"
        assert (await client.answer()).status == 400
        assert await client.closed()


# -- ahead of an answer


@pytest.mark.parametrize("size", [200_000, 3_000_000])
async def test_a_large_request_during_an_answer_waits_for_its_end(size: int) -> None:
    cue = Cue()
    stream = turn("one")
    slowly = on_cue(cue, CHUNKED + chunk(stream[:-20]), chunk(stream[-20:]) + LAST)
    async with in_process(in_turn(slowly, streaming(stream))) as gate:
        client = await gate.start()
        await client.saw(b"one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, ask_of(chat("x" * size)))
            # One that is as large and comes later, on a connection of its own, is answered.
            assert (await gate.ask(chat("y" * size))).body == stream
            assert [asked.body for asked in gate.requests[1:]] == [chat("y" * size)]
            assert gate.live == 1
            for _ in range(2):
                # With the second one the upstream closes.
                cue.give()
            assert (await client.answer()).body == stream
        assert (await client.answer()).body == stream
        assert gate.requests[2].body == chat("x" * size)


async def test_who_sends_much_and_leaves_is_missed_at_once() -> None:
    async with in_process(hanging(CHUNKED, chunk(turn("one")[:-20]))) as gate:
        client = await gate.start()
        await client.saw(b"one")
        with anyio.move_on_after(0.3):
            await client.send(bytes(10_000_000))
        assert gate.live == 1
        client.reset()
        async with within(2):
            await until(lambda: gate.live == 0)
        await until(lambda: gate.fakes[0].open == 0)


async def test_the_last_answer_is_read_though_more_was_sent() -> None:
    """The connection closes with requests unread: reset at once, it would take the answer along."""
    cue = Cue()
    stream = turn("one")
    story = on_cue(cue, CHUNKED + chunk(stream[:-20]), chunk(stream[-20:]) + LAST)
    async with in_process(story) as gate:
        client = await gate.start(chat(), "connection: close")
        await client.saw(b"one")
        with anyio.move_on_after(0.3):
            await client.send(bytes(3_000_000))
        cue.give()
        answer = await client.answer()
        assert (answer.ending, bytes(answer.body)) == ("whole", stream)


async def test_nonsense_behind_a_request_is_refused_after_its_answer() -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(ask_of(chat()) + b"\r\nand some more\r\n\r\n")
        assert (await client.answer()).body.endswith(DONE)
        assert (await client.answer()).status == 400
        assert await client.closed()


# -- slowness and numbers


@pytest.mark.parametrize(
    "prefix", [b"", ask_of(chat("x" * 900))[:-900], b"\r\n"], ids=["head", "body", "nothing yet"]
)
async def test_a_request_that_trickles_in_for_ever_is_given_up(prefix: bytes) -> None:
    limits = {"limits__receive_total_ms": 400, "limits__receive_idle_ms": 10_000}
    drop = b"\r\n" if prefix == b"\r\n" else b"x" if not prefix else b" "
    async with in_process(ONE, settings=limits) as gate:
        client = await gate.send(prefix or b"POST /")
        with suppress(ConnectionError):
            while not await was_answered(client):
                await client.send(drop)
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert await client.closed()
        assert gate.requests == []


async def was_answered(client: Client) -> bool:
    """Look, after a moment, whether something came, without reading it."""
    await anyio.sleep(0.02)
    try:
        return bool(client.sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_an_idle_connection_may_be_older_than_a_request() -> None:
    limits = {"limits__receive_total_ms": 200, "limits__receive_idle_ms": 10_000}
    async with in_process(ONE, settings=limits) as gate:
        client = await gate.send(get("/healthz"))
        assert (await client.answer()).status == 200
        # A request that begins now is given up as too old.
        late = await gate.send(b"POST /")
        assert (await late.answer()).status == 408
        await client.send(get("/healthz"))
        assert (await client.answer()).status == 200


async def test_nothing_is_said_twice_to_a_request_that_was_refused_early() -> None:
    """Its body never comes whole; the answer it got stays the only one."""
    asked = request("POST", "/nothing", JSON, "content-length: 500").replace(
        b"content-length: 0\r\n", b""
    )
    async with in_process(ONE, limits__receive_idle_ms=150) as gate:
        client = await gate.send(asked + b"{")
        assert (await client.answer()).status == 404
        assert await client.closed()
        assert client.spare == b""


@pytest.mark.parametrize("key", ["limits__connections", "limits__connections_per_address"])
async def test_too_many_connections_are_told_so(key: str) -> None:
    async with in_process(ONE, settings={key: 2}) as gate:
        first, second = await gate.send(get("/healthz")), await gate.send(get("/healthz"))
        assert (await first.answer()).status == (await second.answer()).status == 200
        third = await gate.send(ask_of(chat()))
        answer = await third.answer()
        assert (answer.status, answer.error["code"]) == (503, "too_many_connections")
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
        assert await third.closed() == "closed"
        first.leave()
        with anyio.fail_after(5):
            while (await gate.ask()).status != 200:
                pass
        await second.send(get("/healthz"))
        assert (await second.answer()).status == 200
