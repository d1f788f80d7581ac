"""The same over TLS, with a certificate made for the occasion."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import anyio
import pytest

from gateway.errors import UpstreamBroke, UpstreamUnreachable
from gateway.wire.http_client.reach import find_obstacle
from gateway.wire.tls import default_context

from .conftest import Connected
from .fake import CHUNKED, LAST, chunk, fake_upstream, sized
from .reading import BODY, ask, read, read_until, until
from .test_cancel import SIZE, visit, works

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key and a certificate for 127.0.0.1, in one file."""
    assert shutil.which("openssl"), "This test needs the openssl command; install openssl."
    made = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        " -subj /CN=fake -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=made, check=True, capture_output=True)
    both = made / "both.pem"
    both.write_bytes((made / "key.pem").read_bytes() + (made / "cert.pem").read_bytes())
    return both


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    """A client's context that trusts the certificate."""
    return ssl.create_default_context(cafile=str(certificate))


@asynccontextmanager
async def tls_upstream(certificate: Path, handler: Handler) -> AsyncIterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with its own body."""
    while True:
        writer.write(sized(await read_request(reader)))
        await writer.drain()


@pytest.mark.parametrize("length", [10, 3_000_000])
async def test_what_is_sent_comes_back(
    connected: Connected, certificate: Path, trusting: ssl.SSLContext, length: int
) -> None:
    body = bytes(range(256)) * (length // 256 + 1)
    async with tls_upstream(certificate, echo) as url:
        async with connected(url, ssl_context=trusting) as upstream:
            for _ in range(3):
                assert await read(await upstream.open(body, ())) == body
            assert upstream.busy == 0


async def test_a_certificate_nobody_vouches_for(connected: Connected, certificate: Path) -> None:
    async with tls_upstream(certificate, echo) as url, connected(url) as upstream:
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await upstream.open(BODY, ())
        assert upstream.busy == 0


async def test_one_who_does_not_speak_tls(connected: Connected, trusting: ssl.SSLContext) -> None:
    async with fake_upstream(lambda peer: peer.send(b"hello\r\n" * 3)) as fake:
        url = fake.url.replace("http:", "https:")
        async with connected(url, ssl_context=trusting) as upstream:
            with pytest.raises(UpstreamUnreachable):
                await upstream.open(BODY, ())
            assert upstream.busy == 0


async def test_a_handshake_that_never_ends(connected: Connected, trusting: ssl.SSLContext) -> None:
    async with fake_upstream(lambda peer: peer.gone()) as fake:
        url = fake.url.replace("http:", "https:")
        async with connected(url, ssl_context=trusting, connect=0.2) as upstream:
            with pytest.raises(UpstreamUnreachable):
                await upstream.open(BODY, ())
            assert upstream.busy == 0
            await until(lambda: fake.open == 0)


async def test_closing_in_the_middle_is_seen_by_the_peer(
    connected: Connected, certificate: Path, trusting: ssl.SSLContext
) -> None:
    gone = anyio.Event()

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(b"data"))
        with suppress(ConnectionError):
            await reader.read()
        gone.set()

    async with tls_upstream(certificate, story) as url:
        async with connected(url, ssl_context=trusting) as upstream:
            turn = await upstream.open(BODY, ())
            await read_until(turn, b"data")
            await turn.aclose()
            with anyio.fail_after(0.25):
                await gone.wait()


async def test_a_peer_that_took_the_request_and_left_is_not_asked_again(
    fast: Connected, certificate: Path, trusting: ssl.SSLContext
) -> None:
    asked = []

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (sized(b"ok"), b""):
            asked.append(await read_request(reader))
            writer.write(answer)

    async with tls_upstream(certificate, story) as url:
        async with fast(url, ssl_context=trusting) as upstream:
            assert await ask(upstream) == b"ok"
            with pytest.raises(UpstreamBroke):
                await upstream.open(BODY, ())
            assert len(asked) == 2


async def test_a_turn_nobody_reads_stops_the_sender(
    fast: Connected, certificate: Path, trusting: ssl.SSLContext
) -> None:
    total = 32 * 1024 * 1024
    sent = 0

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n".encode())
        while sent < total:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async with tls_upstream(certificate, story) as url:
        async with fast(url, ssl_context=trusting) as upstream:
            turn = await upstream.open(BODY, ())
            before = -1
            while before != sent:
                before = sent
                await anyio.sleep(0.1)
            assert sent < total / 2
            assert len(await read(turn)) == total


async def test_cancelled_at_random(
    fast: Connected, certificate: Path, trusting: ssl.SSLContext
) -> None:
    rng = Random(7)

    async def story(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(CHUNKED + chunk(b"data"))
            await anyio.sleep(rng.random() * 0.003)
            writer.write(LAST)

    async def hasty() -> None:
        await anyio.sleep(rng.random() * 0.5)
        with anyio.move_on_after(rng.expovariate(100)):
            await visit(upstream, rng)

    async with tls_upstream(certificate, story) as url:
        async with fast(url, ssl_context=trusting, max_connections=SIZE) as upstream:
            async with anyio.create_task_group() as tasks:
                for _ in range(200):
                    tasks.start_soon(hasty)
            await works(upstream)


def test_certificates_are_loaded_once() -> None:
    assert default_context() is default_context()


async def test_a_handshake_shows_that_an_upstream_can_be_reached(
    certificate: Path, trusting: ssl.SSLContext
) -> None:
    async with tls_upstream(certificate, echo) as url:
        assert await anyio.to_thread.run_sync(find_obstacle, url, 10, trusting) == ""
        why = await anyio.to_thread.run_sync(find_obstacle, url, 10)
        assert why == "The upstream's certificate is not trusted."
        plain = url.replace("https:", "http:")
        assert await anyio.to_thread.run_sync(find_obstacle, plain, 10) == ""
