"""A connection that died while it rested: asked again only if it took nothing of the request."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

import anyio
import pytest

from gateway.errors import UpstreamBroke

from .conftest import Connected
from .fake import Peer, Story, fake_upstream, sized
from .reading import BODY, ask

LONGER_THAN_ANY_WINDOW = 20_000_000


def second_request(how: Story) -> Story:
    """Answer the first request; deal with the second on the same connection in some way."""

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(sized(b"ok"))
        if peer.number == 1:
            await how(peer)
        await peer.gone()

    return story


async def close_unread(peer: Peer) -> None:
    await peer.asked()
    peer.close()


async def reset_unread(peer: Peer) -> None:
    await peer.asked()
    peer.reset()


async def close_after_reading(peer: Peer) -> None:
    await peer.request()
    peer.close()


async def reset_after_taking(peer: Peer) -> None:
    await peer.request()
    # Have the kernel acknowledge at once, not after the usual 40 ms.
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    peer.reset()


async def reset_in_the_answer(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200")
    peer.reset()


@pytest.mark.parametrize("how", [close_unread, reset_unread])
async def test_a_request_that_was_not_read_is_sent_once_more(fast: Connected, how: Story) -> None:
    async with fake_upstream(second_request(how)) as fake, fast(fake) as upstream:
        assert await ask(upstream) == b"ok"
        turn = await upstream.open(bytes(LONGER_THAN_ANY_WINDOW), ())
        assert await anext(turn) == b"ok"
        await turn.aclose()
        assert [len(request.body) for request in fake.requests] == [
            len(BODY),
            LONGER_THAN_ANY_WINDOW,
        ]
        assert fake.accepted == 2
        assert upstream.busy == 0


@pytest.mark.parametrize("how", [Peer.close, Peer.reset])
async def test_a_request_that_crosses_the_close_is_sent_once_more(
    fast: Connected, how: Callable[[Peer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        await peer.send(sized(b"ok"))
        await anyio.sleep_forever()

    # Without a look at the socket before it is used, the close is found out too late.
    monkeypatch.delattr(select, "poll")
    peers: list[Peer] = []
    async with fake_upstream(story) as fake, fast(fake) as upstream:
        assert await ask(upstream) == b"ok"
        how(peers[0])
        assert await ask(upstream) == b"ok"
        assert fake.connections == [1, 2]
        assert upstream.busy == 0


async def test_where_nobody_can_tell_nothing_is_sent_again(
    fast: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "TCP_INFO")
    async with fake_upstream(second_request(reset_unread)) as fake, fast(fake) as upstream:
        assert await ask(upstream) == b"ok"
        with pytest.raises(UpstreamBroke):
            await upstream.open(bytes(LONGER_THAN_ANY_WINDOW), ())
        assert fake.accepted == 1


@pytest.mark.parametrize("how", [close_after_reading, reset_after_taking, reset_in_the_answer])
async def test_a_request_the_peer_took_is_never_sent_again(
    connected: Connected, how: Story
) -> None:
    async with fake_upstream(second_request(how)) as fake, connected(fake) as upstream:
        assert await ask(upstream) == b"ok"
        with pytest.raises(UpstreamBroke):
            await upstream.open(BODY, ())
        assert fake.connections == [1, 1]
        assert fake.accepted == 1
        assert upstream.busy == 0


async def test_a_new_connection_that_refuses_is_not_asked_again(fast: Connected) -> None:
    async with fake_upstream(reset_unread) as fake, fast(fake) as upstream:
        with pytest.raises(UpstreamBroke):
            await upstream.open(BODY, ())
        assert fake.accepted == 1


async def test_the_second_try_is_the_last(fast: Connected) -> None:
    async def story(peer: Peer) -> None:
        if peer.number == 1:
            await peer.request()
            await peer.send(sized(b"ok"))
        await reset_unread(peer)

    async with fake_upstream(story) as fake, fast(fake) as upstream:
        assert await ask(upstream) == b"ok"
        with pytest.raises(UpstreamBroke):
            await upstream.open(bytes(LONGER_THAN_ANY_WINDOW), ())
        assert fake.accepted == 2
        assert upstream.busy == 0
