"""Requests on the wire: framing, limits, compression, slowness, more than one at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from zstandard import ZstdCompressor

from tests.gateway.wire import (
    PATH,
    ROUTES,
    Cue,
    ask_of,
    chat,
    hanging,
    on_cue,
    request,
    streaming,
    to,
    turn,
)
from tests.run import in_process, within
from tests.wire.fake import CHUNKED, LAST, chunk

GZIP = ("too large", "a bomb", "cut short", "not at all")
ONE = streaming(turn("one"))
JSON = "content-type: application/json"
KEYS = {
    "keys": [
        {"owner": "alice", "key": "key-of-alice"},
        {"owner": "root", "key": "key-of-root", "admin": True},
    ]
}


@pytest.mark.parametrize(
    "coding, packed", [("gzip", gzip.compress), ("zstd", ZstdCompressor().compress)]
)
async def test_a_compressed_body_is_unpacked(coding: str, packed: Callable[[bytes], bytes]) -> None:
    async with in_process(ONE) as gate:
        answer = await gate.ask(packed(chat("zipped")), f"content-encoding: {coding}")
        assert answer.text == "one"
        assert gate.requests[0].body == chat("zipped")
        assert b"content-encoding" not in gate.requests[0].headers


@pytest.mark.parametrize(
    "body, coding, status",
    [
        (gzip.compress(chat("x" * 2000)), "gzip", 413),
        (gzip.compress(bytes(50_000_000), 9)[:900], "gzip", 413),
        (gzip.compress(chat())[:-9], "gzip", 400),
        (b"no gzip", "gzip", 400),
        (ZstdCompressor().compress(chat("x" * 2000)), "zstd", 413),
        (ZstdCompressor(19).compress(bytes(50_000_000))[:900], "zstd", 413),
        (ZstdCompressor().compress(chat())[:-9], "zstd", 400),
        (b"no zstd", "zstd", 400),
        (chat(), "br", 415),
        (chat(), "gzip, gzip", 415),
    ],
    ids=[*GZIP, *(f"zstd {name}" for name in GZIP), "brotli", "twice"],
)
async def test_compressed_bodies_we_do_not_read(body: bytes, coding: str, status: int) -> None:
    async with in_process(ONE, limits__body_bytes=1000) as gate:
        answer = await gate.ask(body, f"content-encoding: {coding}")
        assert answer.status == status
        assert gate.requests == []


def chunked(body: bytes) -> bytes:
    """Write a request whose body comes in chunks."""
    start = request("POST", PATH, JSON, "transfer-encoding: chunked")
    pieces = [chunk(body[at : at + 10_000]) for at in range(0, len(body), 10_000)]
    return start.replace(b"content-length: 0\r\n", b"") + b"".join(pieces) + LAST


async def test_a_body_in_chunks() -> None:
    body = chat("x" * 100_000)
    async with in_process(ONE) as gate:
        assert (await gate.fetch(chunked(body))).text == "one"
        assert gate.requests[0].body == body


@pytest.mark.parametrize("size", [1001, 200_000])
async def test_a_body_larger_than_allowed(size: int) -> None:
    body = chat()[:-1] + b" " * (size - len(chat())) + b"}"
    async with in_process(ONE, limits__body_bytes=1000) as gate:
        for asked in (ask_of(body), chunked(body)):
            client = await gate.send(asked)
            answer = await client.answer()
            assert answer.status == 413
            assert answer.error["code"] == "body_too_large"
            await client.closed()
        assert (await gate.ask(body[: 1000 - 1] + b"}")).status == 200
        assert len(gate.requests) == 1


@pytest.mark.parametrize("asked", [ask_of(bytes(12_000_000)), chunked(bytes(12_000_000))])
async def test_who_sends_all_before_reading_can_still_read_why(asked: bytes) -> None:
    """More than sockets take at once: closed too early, the connection would be reset instead."""
    async with in_process(ONE, limits__body_bytes=1000) as gate:
        client = await gate.send(asked)
        assert (await client.answer()).status == 413
        assert await client.closed() == "closed"


async def test_a_body_too_large_is_refused_before_it_is_sent() -> None:
    asked = request("POST", PATH, JSON, "expect: 100-continue", "content-length: 5000", body=b"")
    async with in_process(ONE, limits__body_bytes=1000) as gate:
        client = await gate.send(asked.replace(b"content-length: 0\r\n", b""))
        assert (await client.answer()).status == 413


async def test_a_client_that_waits_to_be_told_to_send() -> None:
    head, _, body = ask_of(chat(), "expect: 100-continue").partition(b"\r\n\r\n")
    async with in_process(ONE) as gate:
        client = await gate.send(head + b"\r\n\r\n")
        assert (await client.head()).status == 100
        await client.send(body)
        client.forget()
        assert (await client.answer()).text == "one"


@pytest.mark.parametrize(
    "lines",
    [("x-big: " + "x" * 3000,), tuple(f"x-{n}: {'y' * 90}" for n in range(30))],
    ids=["one", "many"],
)
@pytest.mark.parametrize("path", ROUTES)
async def test_headers_larger_than_allowed(path: str, lines: tuple[str, ...]) -> None:
    async with in_process(ONE, limits__header_bytes=2000) as gate:
        answer = await gate.fetch(to(path, *lines))
        assert answer.status == 400
        assert gate.requests == []


async def test_headers_without_end() -> None:
    async with in_process(ONE, limits__header_bytes=2000) as gate:
        client = await gate.send(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        with suppress(ConnectionError):
            for number in range(100):
                await client.send(f"x-{number}: {'y' * 90}\r\n".encode())
                await anyio.lowlevel.checkpoint()
        assert (await client.answer()).status == 400
        assert await client.closed()


@pytest.mark.parametrize(
    "asked",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : 127.0.0.1\r\n\r\n",
        request("POST", PATH, JSON, "transfer-encoding: chunked", body=chat()),
        request("POST", PATH, JSON, "content-length: 3", body=chat()),
        request("POST", PATH, JSON, "transfer-encoding: xchunked").replace(
            b"content-length: 0\r\n", b""
        ),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["not HTTP", "space", "both lengths", "two lengths", "unknown coding", "TLS"],
)
async def test_ambiguous_framing_is_refused(asked: bytes) -> None:
    async with in_process(ONE) as gate:
        client = await gate.send(asked)
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (400, "bad_request")
        assert await client.closed()
        assert gate.requests == []


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST ", ask_of(chat())[:60], ask_of(chat())[:-5]],
    ids=["nothing", "half a line", "half the headers", "half the body"],
)
async def test_a_request_that_stops_coming_is_given_up(sent: bytes) -> None:
    async with in_process(ONE, limits__receive_idle_ms=150) as gate:
        async with within(2):
            client = await gate.send(sent)
            answer = await client.answer()
            assert await client.closed() == "closed"
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"
        assert gate.requests == []


async def test_slow_but_steady_is_fine() -> None:
    asked = ask_of(chat())
    async with in_process(ONE, limits__receive_idle_ms=200) as gate:
        client = await gate.connect()
        for at in range(0, len(asked), 40):
            await client.send(asked[at : at + 40])
            await anyio.sleep(0.06)
        assert (await client.answer()).text == "one"


async def test_an_answer_may_take_longer_than_a_request() -> None:
    async with in_process(
        hanging(CHUNKED, chunk(turn("one")[:-20])), limits__receive_idle_ms=80
    ) as gate:
        client = await gate.start()
        await client.saw(b"one")
        # A request that begins now and stops coming is given up by the same limit.
        late = await gate.send(b"POST /")
        assert (await late.answer()).status == 408
        assert gate.live == 1


async def test_requests_on_one_connection_are_answered_in_order() -> None:
    asked = [ask_of(chat(f"number {n}"), f"x-request-id: n{n}") for n in range(4)]
    async with in_process(ONE) as gate:
        client = await gate.send(asked[0] + asked[1][:50])
        await client.send(asked[1][50:] + asked[2] + asked[3])
        for number in range(4):
            answer = await client.answer()
            assert answer.text == "one"
            assert answer.headers["x-request-id"] == f"n{number}"
        await client.send(asked[0])
        assert (await client.answer()).text == "one"


async def test_what_follows_a_request_does_not_get_into_its_answer() -> None:
    """A body longer than it says: what is left over is judged when the answer is whole."""
    cue = Cue()
    stream = turn("one")
    story = on_cue(cue, CHUNKED + chunk(stream[:-20]), chunk(stream[-20:]) + LAST)
    async with in_process(story) as gate:
        client = await gate.start()
        await client.saw(b"one")
        await client.send(b"\r\nand some more\r\n\r\n")
        cue.give()
        assert (await client.answer()).body == stream
        assert (await client.answer()).status == 400
        assert await client.closed()
