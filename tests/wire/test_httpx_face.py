"""Our transport under httpx's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from gateway.wire.http_client.fast import FastTransport

from .fake import CHUNKED, Peer, answering, chunk, fake_upstream, head, once, sized
from .reading import until


async def test_get_and_post() -> None:
    async with fake_upstream(answering(sized(b'{"a": 1}', "X-Kind: json"))) as fake:
        async with httpx.AsyncClient(transport=FastTransport()) as client:
            assert (await client.get(fake.url)).json() == {"a": 1}
            response = await client.post(fake.url, json={"b": 2})
    assert (response.status_code, response.headers["x-kind"]) == (200, "json")
    assert [request.line[:4] for request in fake.requests] == [b"GET ", b"POST"]
    assert [request.body for request in fake.requests] == [b"", b'{"b":2}']
    assert fake.connections == [1, 1]


async def test_a_streamed_answer_is_read_as_it_comes() -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"data: one\n\n"))
        await peer.gone()

    async with fake_upstream(story) as fake:
        async with httpx.AsyncClient(transport=FastTransport()) as client:
            async with client.stream("GET", fake.url) as response:
                assert await anext(response.aiter_lines()) == "data: one"
            await until(lambda: fake.open == 0)


async def test_a_streamed_request_is_sent_with_its_length() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with fake_upstream(answering(sized(b"ok"))) as fake:
        async with httpx.AsyncClient(transport=FastTransport()) as client:
            await client.put(fake.url, content=pieces())
    headers = {name.lower(): value for name, value in fake.requests[0].headers.items()}
    assert fake.requests[0].body == b"one two"
    assert headers[b"content-length"] == b"7"
    assert b"transfer-encoding" not in headers


async def test_head_has_no_body_whatever_its_length_says() -> None:
    async with fake_upstream(once(head("content-length: 1000"))) as fake:
        async with httpx.AsyncClient(transport=FastTransport()) as client:
            response = await client.head(fake.url)
    assert response.headers["content-length"] == "1000"
    assert response.content == b""


async def test_two_origins_have_two_pools() -> None:
    async with fake_upstream(answering(sized(b"1"))) as one:
        async with fake_upstream(answering(sized(b"2"))) as two:
            async with httpx.AsyncClient(transport=FastTransport(max_connections=1)) as client:
                async with client.stream("GET", one.url), client.stream("GET", two.url):
                    pass
            assert (one.accepted, two.accepted) == (1, 1)


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def test_the_errors_are_those_of_httpx() -> None:
    async with fake_upstream(silent) as mute, fake_upstream(once(b"nonsense\r\n")) as mad:
        async with httpx.AsyncClient(transport=FastTransport(), timeout=0.1) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(mute.url)
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(mad.url)
            with pytest.raises(httpx.UnsupportedProtocol):
                await client.get("ftp://127.0.0.1/")
    async with httpx.AsyncClient(transport=FastTransport(), timeout=None) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(mute.url)


async def test_the_pool_timeout_is_the_one_of_httpx() -> None:
    limit = httpx.Timeout(5, pool=0.05)
    async with fake_upstream(silent) as mute:
        async with httpx.AsyncClient(
            transport=FastTransport(max_connections=1), timeout=limit
        ) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.get, mute.url)
                await until(lambda: len(mute.requests) == 1)
                with pytest.raises(httpx.PoolTimeout):
                    await client.get(mute.url)
                tasks.cancel_scope.cancel()


async def test_a_body_cut_short_is_an_error_of_httpx() -> None:
    async with fake_upstream(once(CHUNKED + chunk(b"half"))) as fake:
        async with httpx.AsyncClient(transport=FastTransport()) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(fake.url)
