"""What all transports make of upstreams that break, stall or talk nonsense."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import anyio
import pytest

from gateway.errors import UpstreamBroke, UpstreamError, UpstreamTimeout, UpstreamUnreachable

from .conftest import Connected
from .fake import CHUNKED, LAST, Peer, Story, answering, chunk, fake_upstream, head, once, sized
from .reading import BODY, ask, read, read_until, until

STREAM = CHUNKED + chunk(b"data: one\n\n") + chunk(b"data: two\n\n") + LAST

CUT = {
    "in the head": CHUNKED[:20],
    "before the body": CHUNKED,
    "in a chunk": CHUNKED + b"b\r\ndata:",
    "between chunks": CHUNKED + chunk(b"data"),
    "before the last line": STREAM[:-2],
    "in a sized body": head("content-length: 10") + b"half",
    "before anything": b"",
}


@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("sent", CUT.values(), ids=CUT.keys())
async def test_an_answer_cut_short_is_broken(
    connected: Connected, sent: bytes, reset: bool
) -> None:
    async with fake_upstream(once(sent, reset=reset)) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await ask(upstream)
        assert upstream.busy == 0


async def test_a_reset_after_any_byte_never_looks_like_an_end(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM[: peer.number - 1])
        peer.reset()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        for _ in range(len(STREAM)):
            with pytest.raises(UpstreamBroke):
                await ask(upstream)
        assert fake.accepted == len(STREAM)
        assert upstream.busy == 0


async def test_what_came_before_the_break_is_read_first(connected: Connected) -> None:
    async with fake_upstream(once(CHUNKED + chunk(b"data: one\n\n"))) as fake:
        async with connected(fake) as upstream:
            turn = await upstream.open(BODY, ())
            assert await read_until(turn, b"one\n\n") == b"data: one\n\n"
            with pytest.raises(UpstreamBroke):
                await anext(turn)
            with pytest.raises(StopAsyncIteration):
                await anext(turn)


NONSENSE = {
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "bytes": bytes(range(256)),
    "no version": b"HTTP/x.y 200 OK\r\n\r\n",
    "upgrade": head("upgrade: h2c", "connection: upgrade", status="101 Switching"),
    "two lengths": head("content-length: 1", "content-length: 2") + b"ab",
    "length and chunks": head("content-length: 4", "transfer-encoding: chunked") + b"zz\r\n",
    "bad chunk length": CHUNKED + b"zz\r\n",
    "bad length": head("content-length: many"),
    "endless header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000,
    "status out of range": sized(b"", status="799 What"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_is_broken(connected: Connected, answer: bytes) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)
        await peer.gone()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await ask(upstream)
        assert upstream.busy == 0


async def test_one_who_speaks_first_is_not_an_upstream(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.send(b"220 mail.example ready\r\n\r\n")
        await peer.gone()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await upstream.open(BODY, ())
        assert upstream.busy == 0


LONG = {
    "complete head": head(*[f"x-{n}: {'y' * 100}" for n in range(900)], "content-length: 0"),
    "chunk extension": CHUNKED + b"1;" + b"x" * 100_000,
    "trailers": CHUNKED + chunk(b"a") + b"0\r\n" + b"x: y\r\n" * 100_000,
}


@pytest.mark.parametrize("answer", LONG.values(), ids=LONG.keys())
async def test_bytes_that_are_no_body_have_a_limit(fast: Connected, answer: bytes) -> None:
    async with fake_upstream(answering(answer)) as fake, fast(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await ask(upstream)
        assert upstream.busy == 0


def silent(*pieces: bytes) -> Story:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        await peer.gone()

    return story


BEFORE_THE_FIRST_BYTE = {"no head": b"", "half a head": CHUNKED[:20], "no body": CHUNKED}


@pytest.mark.parametrize("sent", BEFORE_THE_FIRST_BYTE.values(), ids=BEFORE_THE_FIRST_BYTE.keys())
async def test_silence_before_the_first_byte(connected: Connected, sent: bytes) -> None:
    async with fake_upstream(silent(sent)) as fake:
        async with connected(fake, first_byte=0.1, idle=60) as upstream:
            with pytest.raises(UpstreamTimeout):
                await ask(upstream)
            assert upstream.busy == 0
            await until(lambda: fake.open == 0)


async def test_silence_after_the_first_byte(connected: Connected) -> None:
    async with fake_upstream(silent(CHUNKED, chunk(b"one"))) as fake:
        async with connected(fake, first_byte=60, idle=0.1) as upstream:
            turn = await upstream.open(BODY, ())
            assert await anext(turn) == b"one"
            with pytest.raises(UpstreamTimeout):
                await anext(turn)
            assert upstream.busy == 0
            await until(lambda: fake.open == 0)


async def test_every_byte_starts_the_idle_time_anew(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for _ in range(12):
            await peer.send(chunk(b"x"))
            await anyio.sleep(0.05)
        await peer.send(LAST)

    # All of it takes longer than the idle time, and no pause comes near it on a busy machine.
    async with fake_upstream(story) as fake, connected(fake, idle=0.5) as upstream:
        assert await ask(upstream) == b"x" * 12


async def test_a_request_nobody_reads_times_out(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await anyio.sleep_forever()

    async with fake_upstream(story) as fake, connected(fake, first_byte=0.2) as upstream:
        with pytest.raises(UpstreamTimeout):
            await upstream.open(bytes(20_000_000), ())
        assert upstream.busy == 0


async def test_a_long_request_may_be_answered_before_it_is_read(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.asked()
        await peer.send(sized(b"too long", status="413 No"))
        await peer.gone()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await upstream.open(bytes(20_000_000), ())
        assert caught.value.status == 413
        assert upstream.busy == 0


async def test_a_long_request_may_be_sent_while_its_answer_begins(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.asked()
        await peer.send(CHUNKED, chunk(b"early "))
        request = await peer.request()
        await peer.send(chunk(b"%d" % len(request.body)), LAST)

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(bytes(9_000_000), ())
        assert await read(turn) == b"early 9000000"


@pytest.fixture
def nobody() -> Iterator[str]:
    """A URL where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


@pytest.fixture
def deaf() -> Iterator[str]:
    """A URL where connections are never accepted: the kernel's queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address):
            yield f"http://127.0.0.1:{address[1]}/v1"


async def test_nobody_there(connected: Connected, nobody: str) -> None:
    async with connected(nobody) as upstream:
        with pytest.raises(UpstreamUnreachable, match="refused"):
            await upstream.open(BODY, ())
        assert upstream.busy == 0


async def test_nobody_accepts(connected: Connected, deaf: str) -> None:
    async with connected(deaf, connect=0.2) as upstream:
        with pytest.raises(UpstreamUnreachable):
            await upstream.open(BODY, ())
        assert upstream.busy == 0


async def test_no_error_names_the_address_or_the_key(connected: Connected, nobody: str) -> None:
    async with fake_upstream(once(b"")) as fake:
        for target in (nobody, fake):
            async with connected(target) as upstream:
                with pytest.raises(UpstreamError) as caught:
                    await upstream.open(BODY, ())
            text = repr(caught.value) + caught.value.message
            assert "127.0.0.1" not in text
            assert "canary" not in text
            assert caught.value.message.count(".") == 1


async def test_after_a_failure_the_next_request_is_answered(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        if peer.number > 3:
            await peer.send(STREAM)
            await peer.gone()

    async with fake_upstream(story) as fake, connected(fake, max_connections=1) as upstream:
        for _ in range(3):
            with pytest.raises(UpstreamBroke):
                await upstream.open(BODY, ())
        assert await read(await upstream.open(BODY, ())) == b"data: one\n\ndata: two\n\n"
