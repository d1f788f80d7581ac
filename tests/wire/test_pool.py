"""How connections are kept, shared and given back."""

from __future__ import annotations

import asyncio
import gzip

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.errors import (
    UpstreamAnswered,
    UpstreamBroke,
    UpstreamBusy,
    UpstreamError,
    UpstreamUnreachable,
)
from gateway.wire.http_client.connection import DRAIN_BYTES, HIGH_WATER
from gateway.wire.http_client.fast import Pool, UpstreamOrigin
from gateway.wire.http_client.headers import RequestHead
from gateway.wire.http_client.upstream import Endpoint, Timeouts, Upstream

from .conftest import Connected
from .fake import CHUNKED, LAST, Peer, Story, answering, chunk, fake_upstream, head, once, sized
from .reading import BODY, ask, read, read_until, until

DONE = b"data: [DONE]\n\n"


async def test_a_connection_is_used_again(connected: Connected) -> None:
    async with fake_upstream(answering(CHUNKED + chunk(DONE) + LAST)) as fake:
        async with connected(fake) as upstream:
            for _ in range(3):
                assert await ask(upstream) == DONE
            assert fake.connections == [1, 1, 1]


async def test_other_urls_of_an_upstream_share_its_connections(connected: Connected) -> None:
    async with fake_upstream(answering(sized(b"ok"))) as fake:
        async with connected(fake, max_connections=1, connect=0.1) as upstream:
            other = upstream.copy_with_url(f"http://127.0.0.1:{fake.port}/v1/other")
            assert await ask(upstream) == b"ok"
            assert await ask(other) == b"ok"
            turn = await other.open(BODY, ())
            assert upstream.busy == other.busy == 1
            with pytest.raises(UpstreamBusy):
                await upstream.open(BODY, ())
            await turn.aclose()
    assert fake.connections == [1, 1, 1]
    assert [one.line.split()[1] for one in fake.requests[1:]] == [b"/v1/other"] * 2
    assert fake.requests[1].headers == fake.requests[0].headers


async def test_the_connection_used_last_is_used_next(fast: Connected) -> None:
    async with fake_upstream(answering(sized(b"ok"))) as fake, fast(fake) as upstream:
        first = await upstream.open(BODY, ())
        second = await upstream.open(BODY, ())
        await read(first)
        await read(second)
        await ask(upstream)
        await ask(upstream)
        assert fake.connections == [1, 2, 2, 2]


FINAL = {
    "connection: close": sized(b"ok", "connection: close"),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("answer", FINAL.values(), ids=FINAL.keys())
async def test_what_the_peer_will_close_is_not_kept(connected: Connected, answer: bytes) -> None:
    async with fake_upstream(answering(answer)) as fake, connected(fake) as upstream:
        assert await ask(upstream) == b"ok"
        assert await ask(upstream) == b"ok"
        assert fake.connections == [1, 2]


SURPLUS = {
    "data after the end": sized(b"ok") + b"more",
    "an answer too many": sized(b"ok") + sized(b"surprise"),
}


@pytest.mark.parametrize("answer", SURPLUS.values(), ids=SURPLUS.keys())
async def test_surplus_bytes_never_reach_the_next_request(fast: Connected, answer: bytes) -> None:
    async with fake_upstream(answering(answer)) as fake, fast(fake) as upstream:
        assert await ask(upstream) == b"ok"
        assert await ask(upstream) == b"ok"
        assert fake.connections == [1, 2]


async def test_data_on_a_resting_connection_ends_it(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(sized(b"ok"))
        if peer.number == 1:
            await told.wait()
            await peer.send(sized(b"surprise"))
            said.set()
        await peer.gone()

    told, said = anyio.Event(), anyio.Event()
    async with fake_upstream(story) as fake, connected(fake) as upstream:
        assert await ask(upstream) == b"ok"
        told.set()
        await said.wait()
        assert await ask(upstream) == b"ok"
        assert fake.connections == [1, 2]


async def test_a_resting_connection_the_peer_closed_is_not_used(connected: Connected) -> None:
    async with fake_upstream(once(sized(b"ok"))) as fake, connected(fake) as upstream:
        for _ in range(3):
            assert await ask(upstream) == b"ok"
            await until(lambda: fake.open == 0)
        assert fake.connections == [1, 2, 3]


def ending_late(terminator: bytes) -> tuple[Story, anyio.Event]:
    """Answer whole frames, and the end of the message only when told."""
    told = anyio.Event()

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED, chunk(DONE))
            await told.wait()
            await peer.send(terminator)

    return story, told


async def test_a_released_connection_is_used_again_when_its_end_comes(fast: Connected) -> None:
    story, told = ending_late(LAST)
    async with fake_upstream(story) as fake, fast(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        await turn.release()
        assert upstream.busy == 1
        told.set()
        await until(lambda: upstream.busy == 0)
        assert await ask(upstream) == DONE
        assert fake.connections == [1, 1]


async def test_a_release_waits_a_moment_for_the_end(connected: Connected) -> None:
    story, told = ending_late(LAST)
    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn.release)
            await anyio.wait_all_tasks_blocked()
            told.set()
        await until(lambda: upstream.busy == 0)
        assert await ask(upstream) == DONE
        assert fake.connections == [1, 1]


async def test_a_released_connection_whose_end_never_comes_is_closed(connected: Connected) -> None:
    story, _ = ending_late(LAST)
    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        await turn.release()
        await until(lambda: upstream.busy == 0)


@pytest.mark.parametrize(
    "terminator",
    [chunk(bytes(2 * DRAIN_BYTES)) + LAST, b"nonsense\r\n", LAST + b"more"],
    ids=["long", "nonsense", "more"],
)
async def test_a_released_connection_is_not_used_after_anything_else(
    fast: Connected, terminator: bytes
) -> None:
    story, told = ending_late(terminator)
    async with fake_upstream(story) as fake, fast(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        told.set()
        await turn.release()
        await until(lambda: upstream.busy == 0)
        with anyio.move_on_after(1):
            await read_until(await upstream.open(BODY, ()), DONE)
        assert fake.connections == [1, 2]


async def test_a_released_turn_that_goes_on_and_on_is_closed(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(DONE))
        while True:
            await peer.send(chunk(bytes(DRAIN_BYTES // 2)))

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        await turn.release()
        await until(lambda: upstream.busy == 0)
        await until(lambda: fake.open == 0)


async def test_a_decoded_turn_can_be_released(connected: Connected) -> None:
    answer = sized(gzip.compress(DONE), "content-encoding: gzip")
    async with fake_upstream(answering(answer)) as fake, connected(fake) as upstream:
        for _ in range(2):
            turn = await upstream.open(BODY, ())
            assert await read_until(turn, DONE) == DONE
            await turn.release()
        assert fake.connections == [1, 1]


async def test_releasing_a_turn_that_was_read_changes_nothing(connected: Connected) -> None:
    async with fake_upstream(answering(sized(b"ok"))) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read(turn)
        for _ in range(2):
            await turn.release()
            await turn.aclose()
        assert upstream.busy == 0
        await ask(upstream)
        assert fake.connections == [1, 1]


async def test_an_answer_that_ends_with_the_connection_is_not_awaited(fast: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(head() + DONE)
        await peer.gone()

    async with fake_upstream(story) as fake, fast(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        await turn.release()
        assert upstream.busy == 0


async def test_closing_in_the_middle_is_seen_by_the_peer_at_once(connected: Connected) -> None:
    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"data"))
        await peer.gone()
        gone.append(anyio.current_time())

    gone: list[float] = []
    async with fake_upstream(story) as fake, connected(fake) as upstream:
        turn = await upstream.open(BODY, ())
        await anext(turn)
        closed = anyio.current_time()
        await turn.aclose()
        assert upstream.busy == 0
        await until(lambda: bool(gone))
        assert gone[0] - closed < 0.25


async def test_no_more_connections_than_allowed_and_first_come_first_served(
    connected: Connected,
) -> None:
    served: list[int] = []

    async def one(number: int) -> None:
        turn = await upstream.open(b"%d" % number, ())
        served.append(number)
        await checkpoint()
        await read(turn)

    async with fake_upstream(answering(sized(b"ok"))) as fake:
        async with connected(fake, max_connections=1) as upstream:
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(one, number)
            assert fake.accepted == 1
            assert served == list(range(20))


async def test_who_waits_too_long_is_told_that_all_are_busy(connected: Connected) -> None:
    story, _ = ending_late(LAST)
    async with fake_upstream(story) as fake:
        async with connected(fake, max_connections=2, connect=0.2) as upstream:
            turns = [await upstream.open(BODY, ()) for _ in range(2)]
            with pytest.raises(UpstreamBusy):
                await upstream.open(BODY, ())
            await turns[0].aclose()
            turns[0] = await upstream.open(BODY, ())
            for turn in turns:
                await turn.aclose()


async def test_a_turn_nobody_reads_stops_the_sender(connected: Connected) -> None:
    total = 64 * 1024 * 1024
    peers: list[Peer] = []

    async def story(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        await peer.send(head(f"content-length: {total}"))
        for _ in range(total // 65536):
            await peer.send(bytes(65536))

    async def stalled() -> int:
        sent = -1
        while sent != peers[0].sent:
            sent = peers[0].sent
            await anyio.sleep(0.1)
        return sent

    async with fake_upstream(story) as fake, connected(fake, idle=0.3) as upstream:
        turn = await upstream.open(BODY, ())
        assert await stalled() < total / 4
        await anyio.sleep(0.4)
        read = 0
        async for piece in turn:
            assert len(piece) <= 2 * HIGH_WATER
            read += len(piece)
        assert read == total


async def test_a_connection_does_not_rest_for_ever() -> None:
    request = RequestHead(Endpoint("fake", "http://127.0.0.1/")).encode((), 0)
    limits = Timeouts(connect=5, first_byte=5, idle=5)
    async with fake_upstream(answering(sized(b"ok"))) as fake:
        pool = Pool(UpstreamOrigin("127.0.0.1", fake.port), size=1, keep_alive=0.05)
        connection = await pool.exchange(request, b"", limits)
        pool.settle(connection)
        assert repr(connection) == "<ClientConnection resting>"
        await until(lambda: fake.open == 0)
        assert repr(pool) == "<Pool 0 open, 0 resting, <ConnectionSlots 0 of 1 busy, 0 waiting>>"


async def test_a_retired_upstream_closes_what_rests_at_once(connected: Connected) -> None:
    async with fake_upstream(answering(CHUNKED + chunk(DONE) + LAST)) as fake:
        async with connected(fake) as upstream:
            await ask(upstream)
            await until(lambda: fake.open == 1)
            await upstream.retire()
            await until(lambda: fake.open == 0)
            assert upstream.busy == 0


async def test_a_retired_upstream_lets_answers_end(connected: Connected) -> None:
    go_on = anyio.Event()

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(b"one"))
        await go_on.wait()
        await peer.send(chunk(b"two"), LAST)
        await peer.gone()

    async with fake_upstream(story) as fake, connected(fake) as upstream:
        first, second = [await upstream.open(BODY, ()) for _ in range(2)]
        assert await anext(first) == b"one"
        await upstream.retire()
        assert fake.open == 2
        go_on.set()
        assert await read(first) == b"two"
        assert await read(second) == b"onetwo"
        await until(lambda: fake.open == 0)
        assert upstream.busy == 0


async def test_a_retired_upstream_can_be_asked_but_keeps_no_connection(
    connected: Connected,
) -> None:
    """A held exchange goes on with the upstream it began with."""
    async with fake_upstream(answering(sized(b"ok"))) as fake, connected(fake) as upstream:
        await upstream.retire()
        for count in (1, 2):
            assert await ask(upstream) == b"ok"
            await until(lambda: fake.open == 0)
            assert fake.accepted == count


async def test_closing_the_upstream_closes_everything(fast: Connected) -> None:
    errors: list[UpstreamError] = []

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(DONE))
        await peer.gone()

    async def wait_in_vain(upstream: Upstream) -> None:
        try:
            await upstream.open(BODY, ())
        except UpstreamError as error:
            errors.append(error)

    async with fake_upstream(story) as fake, fast(fake, max_connections=1) as upstream:
        turn = await upstream.open(BODY, ())
        await read_until(turn, DONE)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_in_vain, upstream)
            await anyio.wait_all_tasks_blocked()
            await upstream.aclose()
        assert [type(error) for error in errors] == [UpstreamUnreachable]
        with pytest.raises(UpstreamBroke):
            await anext(turn)
        with pytest.raises(UpstreamUnreachable):
            await upstream.open(BODY, ())
        assert upstream.busy == 0
        await until(lambda: fake.open == 0)


async def test_closing_the_upstream_ends_a_dial(fast: Connected) -> None:
    async with fake_upstream(answering(sized(b"ok"))) as fake, fast(fake) as upstream:
        dialling = asyncio.create_task(upstream.open(BODY, ()))
        await checkpoint()
        await upstream.aclose()
        with pytest.raises(UpstreamError):
            await dialling
        assert upstream.busy == 0
        assert fake.requests == []


async def test_a_long_request_refused_early_leaves_no_half_sent_connection(
    fast: Connected,
) -> None:
    async def story(peer: Peer) -> None:
        await peer.asked()
        await peer.send(sized(b"no", status="413 No"))
        await peer.gone()

    async with fake_upstream(story) as fake, fast(fake) as upstream:
        for _ in range(2):
            with pytest.raises(UpstreamAnswered):
                await upstream.open(bytes(20_000_000), ())
        assert fake.accepted == 2
