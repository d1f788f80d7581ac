"""What all transports make of good answers and of error answers."""

from __future__ import annotations

import gzip
import zlib

import pytest

from gateway import __version__
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.wire.http_client.connect import connect
from gateway.wire.http_client.responses import ERROR_BYTES, PIECE
from gateway.wire.http_client.upstream import Endpoint

from .conftest import Connected
from .fake import CHUNKED, LAST, Peer, answering, chunk, fake_upstream, head, once, sized
from .reading import BODY, ask, read, read_until

EVENTS = b"data: one\n\ndata: two\n\n"

GOOD = {
    "content-length": [sized(EVENTS)],
    "chunked": [CHUNKED, chunk(b"data: one\n\n"), chunk(b"data: two\n\n") + LAST],
    "chunk extensions and trailers": [
        CHUNKED + b"16;why=not\r\n" + EVENTS + b"\r\n0\r\nx-end: 1\r\n\r\n"
    ],
    "until close": [head("content-type: text/event-stream") + EVENTS],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\n", EVENTS],
    "connection: close": [sized(EVENTS, "connection: close")],
    "informational first": [head(status="103 Early Hints") + sized(EVENTS)],
    "one byte at a time": [bytes([byte]) for byte in CHUNKED + chunk(EVENTS) + LAST],
    "one byte at a time, sized": [bytes([byte]) for byte in sized(EVENTS)],
    "gzip": [sized(gzip.compress(EVENTS), "content-encoding: gzip")],
    "gzip, two members": [
        sized(gzip.compress(EVENTS[:11]) + gzip.compress(EVENTS[11:]), "content-encoding: x-gzip")
    ],
    "deflate": [sized(zlib.compress(EVENTS), "content-encoding: deflate")],
    "raw deflate": [sized(zlib.compress(EVENTS, wbits=-15), "content-encoding: deflate")],
    "identity": [sized(EVENTS, "content-encoding: identity")],
    "reason phrase missing": [b"HTTP/1.1 200\r\ncontent-length: 22\r\n\r\n" + EVENTS],
}


@pytest.mark.parametrize("pieces", GOOD.values(), ids=GOOD.keys())
async def test_a_good_answer_is_read_whole(connected: Connected, pieces: list[bytes]) -> None:
    async with fake_upstream(once(*pieces)) as fake, connected(fake) as upstream:
        assert await ask(upstream) == EVENTS
        assert upstream.busy == 0


async def test_nothing_in_the_body_is_an_answer_too(connected: Connected) -> None:
    async with fake_upstream(once(head(status="204 No Content"))) as fake:
        async with connected(fake) as upstream:
            assert await ask(upstream) == b""


async def test_the_request_is_framed_by_us_and_named_by_the_operator(connected: Connected) -> None:
    given = (
        (b"anthropic-version", b"2023-06-01"),
        (b"authorization", b"Bearer of the client"),
        (b"content-length", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"host", b"elsewhere"),
    )
    async with fake_upstream(answering(sized(b"ok"))) as fake, connected(fake) as upstream:
        await ask(upstream, given)
        (request,) = fake.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert request.line == b"POST /v1/chat?key=canary HTTP/1.1"
    assert request.body == BODY
    assert headers == {
        b"host": b"127.0.0.1:%d" % fake.port,
        b"authorization": b"Bearer canary",
        b"content-type": b"application/json",
        b"accept-encoding": b"identity",
        b"user-agent": b"holdgate/" + __version__.encode(),
        b"anthropic-version": b"2023-06-01",
        b"content-length": b"14",
    }


async def test_headers_come_in_lower_case_and_in_order(connected: Connected) -> None:
    answer = sized(b"ok", "X-One: 1", "Retry-After: 3", "x-one: 2")
    async with fake_upstream(answering(answer)) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        assert turn.headers == (
            (b"x-one", b"1"),
            (b"retry-after", b"3"),
            (b"x-one", b"2"),
            (b"content-length", b"2"),
        )
        assert await read(turn) == b"ok"


async def test_bytes_are_handed_on_as_they_come(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"first"))
        await peer.request()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        assert await anext(turn) == b"first"
        await turn.aclose()
        assert upstream.busy == 0


async def test_a_long_request_is_sent_whole(connected: Connected) -> None:
    body = bytes(range(256)) * 20_000
    async with fake_upstream(answering(sized(b"ok"))) as fake, connected(fake) as upstream:
        assert await read(await upstream.open(body, ())) == b"ok"
        assert fake.requests[0].body == body


async def test_a_long_answer_is_read_whole(connected: Connected) -> None:
    body = bytes(range(256)) * 20_000
    async with fake_upstream(answering(sized(body))) as fake, connected(fake) as upstream:
        assert await ask(upstream) == body
        assert await ask(upstream) == body
        assert fake.accepted == 1


@pytest.mark.parametrize("status", [400, 401, 404, 408, 429, 500, 503])
async def test_an_error_answer_is_raised_with_its_body(connected: Connected, status: int) -> None:
    answer = sized(b'{"error": 1}', "retry-after: 7", status=f"{status} No")
    async with fake_upstream(answering(answer)) as fake, connected(fake) as upstream:
        for _ in range(2):
            with pytest.raises(UpstreamAnswered) as caught:
                await upstream.open(BODY, ())
            assert caught.value.status == status
            assert caught.value.body == b'{"error": 1}'
            assert (b"retry-after", b"7") in caught.value.headers
            assert upstream.busy == 0
        assert fake.connections == [1, 1]


async def test_of_a_long_error_only_the_beginning_is_read(connected: Connected) -> None:
    answer = sized(b"e" * 3_000_000, status="500 No")
    async with fake_upstream(once(answer)) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamAnswered) as caught:
            await upstream.open(BODY, ())
        assert caught.value.body == b"e" * ERROR_BYTES
        assert upstream.busy == 0


ODD_ERRORS = {
    "cut off": (head("content-length: 100", status="500 No") + b"half", b"half"),
    "gzip": (
        sized(gzip.compress(b"why"), "content-encoding: gzip", status="500 No"),
        b"why",
    ),
    "unknown encoding": (sized(b"??", "content-encoding: br", status="500 No"), b""),
}


@pytest.mark.parametrize("answer, body", ODD_ERRORS.values(), ids=ODD_ERRORS.keys())
async def test_an_odd_error_is_still_that_error(
    connected: Connected, answer: bytes, body: bytes
) -> None:
    async with fake_upstream(once(answer)) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamAnswered) as caught:
            await upstream.open(BODY, ())
        assert (caught.value.status, caught.value.body) == (500, body)
        assert upstream.busy == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(connected: Connected, status: int) -> None:
    async with fake_upstream(answering(b"")) as elsewhere:
        answer = sized(b"", f"location: {elsewhere.url}", status=f"{status} Moved")
        async with fake_upstream(answering(answer)) as fake, connected(fake) as upstream:
            with pytest.raises(UpstreamBroke, match="not followed"):
                await upstream.open(BODY, ())
            assert upstream.busy == 0
        assert elsewhere.accepted == 0


UNDECODABLE = {
    "unknown": sized(b"??", "content-encoding: br"),
    "twice": sized(gzip.compress(gzip.compress(b"x")), "content-encoding: gzip, gzip"),
    "garbage": sized(b"not gzip", "content-encoding: gzip"),
    "cut off": sized(gzip.compress(EVENTS)[:-9], "content-encoding: gzip"),
}


@pytest.mark.parametrize("answer", UNDECODABLE.values(), ids=UNDECODABLE.keys())
async def test_what_cannot_be_decoded_is_broken(connected: Connected, answer: bytes) -> None:
    async with fake_upstream(once(answer)) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await ask(upstream)
        assert upstream.busy == 0


async def test_a_bomb_comes_in_bounded_pieces(connected: Connected) -> None:
    bomb = gzip.compress(bytes(30_000_000))
    async with fake_upstream(answering(sized(bomb, "content-encoding: gzip"))) as fake:
        async with connected(fake) as upstream:
            lengths = [len(piece) async for piece in await upstream.open(BODY, ())]
    assert sum(lengths) == 30_000_000
    assert max(lengths) <= PIECE


async def test_a_turn_can_be_closed_in_the_middle_of_a_bomb(connected: Connected) -> None:
    bomb = sized(gzip.compress(bytes(30_000_000)), "content-encoding: gzip")
    async with fake_upstream(answering(bomb)) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, b"\0")
        await turn.aclose()
        assert upstream.busy == 0


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint("x", "ftp://127.0.0.1/"),
        Endpoint("x", "/v1"),
        Endpoint("x", "http://127.0.0.1/", transport="carrier pigeon"),
        Endpoint("x", "http://127.0.0.1/", headers=((b"a", b"b\r\nc: d"),)),
    ],
)
def test_an_endpoint_that_makes_no_sense_is_refused_at_once(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError):
        connect(endpoint)


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb: c", b"a\rb"])
async def test_no_header_can_smuggle_another(connected: Connected, value: bytes) -> None:
    async with fake_upstream(answering(sized(b"ok"))) as fake, connected(fake) as upstream:
        with pytest.raises(ValueError, match="line break"):
            await upstream.open(BODY, ((b"x-a", value),))
        assert upstream.busy == 0
        assert await ask(upstream) == b"ok"
