"""The answer on any ASGI server: a small peer instead of sockets."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gateway.errors import Headers
from gateway.wire.http_server.request_cycle import RequestCycle
from gateway.wire.http_server.response import ClientResponse


class Peer:
    """An ASGI server that does not tell when a client leaves, but has to be asked."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.left = asyncio.Event()
        self.asked = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        self.asked.set()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_a_leaving_client_is_noticed_by_asking() -> None:
    peer = Peer()
    gone = asyncio.Event()
    unwatch = ClientResponse(peer.receive, peer.send).watch(gone.set)
    await peer.asked.wait()
    assert not gone.is_set()
    peer.left.set()
    await asyncio.wait_for(gone.wait(), 5)
    unwatch()


async def test_who_stops_watching_hears_nothing() -> None:
    peer = Peer()
    gone, other = asyncio.Event(), asyncio.Event()
    unwatch = ClientResponse(peer.receive, peer.send).watch(gone.set)
    ClientResponse(peer.receive, peer.send).watch(other.set)
    await peer.asked.wait()
    unwatch()
    peer.left.set()
    await asyncio.wait_for(other.wait(), 5)
    assert not gone.is_set()


async def test_the_start_line_waits_for_the_first_frame() -> None:
    peer = Peer()
    answer = ClientResponse(peer.receive, peer.send, ((b"x-request-id", b"r"),))
    answer.also(((b"x-more", b"1"),))
    answer.ready(((b"content-type", b"text/event-stream"),), lambda: b": wait\n")
    assert peer.sent == []
    await answer.frames(b"data: 1\n\n")
    await answer.end(b"data: [DONE]\n\n")
    start, first, last = peer.sent
    assert start["headers"] == [
        (b"content-type", b"text/event-stream"),
        (b"x-request-id", b"r"),
        (b"x-more", b"1"),
    ]
    assert (first["body"], first["more_body"]) == (b"data: 1\n\n", True)
    assert (last["body"], last["more_body"]) == (b"data: [DONE]\n\n", False)


async def test_a_heartbeat_may_bring_the_start_line() -> None:
    peer = Peer()
    answer = ClientResponse(peer.receive, peer.send)
    await answer.send_heartbeat()
    answer.ready((), lambda: b": wait\n")
    await answer.send_heartbeat()
    assert [m["type"] for m in peer.sent] == ["http.response.start", "http.response.body"]
    await answer.end(b"")
    await answer.send_heartbeat()
    assert len(peer.sent) == 3


class Taking(RequestCycle):
    """Our own server: it takes frames at once, or says that the client must be waited for."""

    # Of what the real one has, only what stands here is used.
    blocked = False
    stalled_since: float | None = None

    def __init__(self, *takes: bool) -> None:
        self.takes = list(takes)
        self.written: list[bytes] = []
        self.resting = False
        self.cancel_scope = None

    async def drain(self) -> None:
        self.blocked = False

    def rest(self) -> None:
        self.resting = True

    def tell_when_gone(self, left: Callable[[], None]) -> None:
        raise AssertionError("nobody watches here")

    def start_stream(self, headers: Headers) -> bool:
        return False

    def write_frames(self, frames: bytes) -> bool:
        self.written.append(frames)
        return self.takes.pop(0)

    def write_whole(self, status: int, headers: Headers, body: bytes) -> bool:
        self.written.append(body)
        return self.takes.pop(0)


async def test_frames_that_the_server_takes_at_once_end_a_blocked_heartbeat() -> None:
    peer, direct = Peer(), Taking(False, True)
    answer = ClientResponse(peer.receive, peer.send, direct=direct)
    answer.ready((), lambda: b": wait\n")
    await answer.frames(b"data: 1\n\n")
    assert peer.sent[-1]["body"] == b"data: 1\n\n"
    answer._blocked_since = 1.0
    await answer.frames(b"data: 2\n\n")
    assert answer.blocked_since is None
    assert direct.written == [b"data: 1\n\n", b"data: 2\n\n"]
    assert len(peer.sent) == 2


async def test_who_is_blocked_has_been_so_since_it_last_took_something() -> None:
    """A slow reader that reads on is not one that does not read."""
    peer, direct = Peer(), Taking(True)
    answer = ClientResponse(peer.receive, peer.send, direct=direct)
    answer.ready((), lambda: b": wait\n")
    direct.blocked = True
    await answer.frames(b"data: 1\n\n")
    assert answer.blocked
    async with anyio.create_task_group() as tasks:
        holding = anyio.Event()
        direct.drain = holding.wait  # type: ignore[method-assign]
        tasks.start_soon(answer.drain)
        await anyio.wait_all_tasks_blocked()
        assert answer.blocked_since == answer.last
        direct.stalled_since = answer.last + 5
        assert answer.blocked_since == answer.last + 5
        assert not answer.send_heartbeat_now()
        holding.set()
    assert (answer.blocked, answer.blocked_since) == (False, None)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_whole_answer_goes_the_short_way_if_it_is_open(at_once: bool) -> None:
    peer, direct = Peer(), Taking(at_once)
    answer = ClientResponse(peer.receive, peer.send, direct=direct)
    await answer.whole(200, (), b"{}")
    assert answer.ended
    assert len(peer.sent) == (0 if at_once else 2)


async def test_a_heartbeat_goes_the_short_way_once_the_stream_has_begun() -> None:
    peer, direct = Peer(), Taking(True, True, False)
    answer = ClientResponse(peer.receive, peer.send, direct=direct)
    assert answer.send_heartbeat_now()
    answer.ready((), lambda: b": wait\n")
    assert not answer.send_heartbeat_now()
    await answer.frames(b"data: 1\n\n")
    answer.last = 0.0
    assert answer.send_heartbeat_now()
    assert answer.last > 0
    # It is the client's turn to read, and then that of whoever waits to send.
    assert not answer.send_heartbeat_now()
    answer._blocked_since = 1.0
    assert not answer.send_heartbeat_now()
    assert direct.written == [b"data: 1\n\n", b": wait\n", b": wait\n"]


async def test_where_there_is_no_short_way_or_no_beat_none_is_sent() -> None:
    peer, direct = Peer(), Taking(True)
    plain = ClientResponse(peer.receive, peer.send)
    whole = ClientResponse(peer.receive, peer.send, direct=direct)
    for answer in (plain, whole):
        answer.ready((), lambda: b"")
        await answer.frames(b"x")
        answer.last = 0.0
    assert not plain.send_heartbeat_now()
    assert whole.send_heartbeat_now()
    assert whole.last == 0.0


async def test_a_long_wait_is_passed_on_and_keeps_headers_that_are_still_to_be_sent() -> None:
    peer, direct = Peer(), Taking(False)
    answer = ClientResponse(peer.receive, peer.send, ((b"x-request-id", b"r"),), direct=direct)
    answer.rest()
    assert direct.resting
    await answer.whole(200, (), b"{}")
    assert (b"x-request-id", b"r") in peer.sent[0]["headers"]
    begun = ClientResponse(peer.receive, peer.send, ((b"x-request-id", b"r"),))
    begun.ready((), lambda: b"")
    await begun.frames(b"x")
    begun.rest()
    await begun.end(b"")
