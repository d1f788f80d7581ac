"""The direct ways of a request's cycle: each does what the general way does, or declines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import HoldgateError
from gateway.wire.http_server.request_body import ClientLeft, receive_body
from gateway.wire.http_server.request_cycle import RequestCycle
from gateway.wire.http_server.response import ClientResponse

LIMIT = 20
Headers = tuple[tuple[bytes, bytes], ...]


class Wire:
    """A connection that remembers what was written to it, and what it was told."""

    always = b"date: today\r\n"
    stalled_since = None
    refusal: HoldgateError | None = None

    def __init__(self) -> None:
        self.blocked = False
        self.written = b""
        self.told: list[str] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def write_pieces(self, pieces: Sequence[bytes]) -> None:
        self.written += b"".join(pieces)

    def read_on(self) -> None:
        return None

    async def drain(self) -> None:
        self.blocked = False

    def close(self) -> None:
        self.told.append("close")

    def on_response_complete(self) -> None:
        self.told.append("complete")

    def rest(self) -> None:
        return None


class ModelRequest:
    """A request on a connection of its own; `blocked` when the client does not read."""

    def __init__(
        self, version: str = "1.1", blocked: bool = False, lasts: bool = True, expects: bool = False
    ) -> None:
        self.wire = Wire()
        self.wire.blocked = blocked
        scope = {"method": "POST", "http_version": version}
        self.cycle = RequestCycle(self.wire, scope, asyncio.get_running_loop(), lasts, expects)

    def answer(self, direct: bool) -> ClientResponse:
        cycle = self.cycle
        return ClientResponse(cycle.receive, cycle.send, (), cycle if direct else None)

    async def outcome(self) -> tuple[Any, ...]:
        """Return all that can be seen from outside, when the loop has done its callbacks."""
        await asyncio.sleep(0)
        cycle = self.cycle
        return self.wire.written, self.wire.told, cycle.started, cycle.ended, cycle.keep_alive


async def attempt(reading: Awaitable[bytes]) -> bytes | str:
    try:
        return await reading
    except (HoldgateError, ClientLeft) as error:
        return f"{type(error).__name__}: {error}"


TYPES = st.sampled_from(
    [b"application/json", b"application/json; charset=utf-8", b"text/plain", b"x/y+json", b""]
)
PIECES = st.lists(st.binary(min_size=1, max_size=12), max_size=3)


@given(TYPES, PIECES, st.booleans(), st.booleans(), st.booleans())
def test_a_body_is_the_same_whichever_way_it_is_taken(
    kind: bytes, pieces: list[bytes], declared: bool, expects: bool, left: bool
) -> None:
    headers = {b"content-type": kind}
    if declared:
        headers[b"content-length"] = b"%d" % sum(map(len, pieces))

    async def take(directly: bool) -> tuple[bytes | str, bytes, bool]:
        asked = ModelRequest(expects=expects)
        for piece in pieces:
            asked.cycle.add_body(piece)
        asked.cycle.end_body()
        if left:
            asked.cycle.lose()
        body: bytes | str | None = None
        if directly:
            body = asked.cycle.take_json_body(headers, LIMIT)
        if body is None:
            body = await attempt(receive_body(headers, asked.cycle.receive, LIMIT))
        return body, asked.wire.written, asked.cycle._has_body()

    assert asyncio.run(take(True)) == asyncio.run(take(False))


FRAMES = st.lists(st.binary(min_size=1, max_size=9) | st.just(b"x" * 20_000), max_size=4)
HEADERS = st.sampled_from(
    [(), ((b"content-type", b"text/event-stream"),), ((b"connection", b"close"), (b"x-a", b"b"))]
)
Story = Callable[[ClientResponse, ModelRequest], Awaitable[None]]


def tell_both_ways(story: Story, version: str, blocked: bool, lasts: bool) -> None:
    """Have a story end the same on our own server and on one that knows ASGI alone."""

    async def tell(direct: bool) -> tuple[Any, ...]:
        asked = ModelRequest(version, blocked, lasts)
        answer = asked.answer(direct)
        await story(answer, asked)
        seen = await asked.outcome()
        return *seen, answer.started, answer.ended, answer.blocked_since

    assert asyncio.run(tell(True)) == asyncio.run(tell(False))


@given(HEADERS, FRAMES, st.sampled_from(["1.1", "1.0"]), st.booleans(), st.booleans())
def test_a_stream_is_the_same_bytes_on_both_ways(
    headers: Headers, frames: list[bytes], version: str, blocked: bool, lasts: bool
) -> None:
    async def story(answer: ClientResponse, asked: ModelRequest) -> None:
        answer.ready(headers, lambda: b"")
        for number, frame in enumerate(frames):
            # Now and then the client stops reading.
            asked.wire.blocked = asked.wire.blocked or number == 2
            await answer.frames(frame)
        await answer.end(b"data: [DONE]\n\n")

    tell_both_ways(story, version, blocked, lasts)


@given(HEADERS, st.binary(max_size=30), st.sampled_from([200, 204, 429]), st.booleans())
def test_a_whole_answer_is_the_same_bytes_on_both_ways(
    headers: Headers, body: bytes, status: int, blocked: bool
) -> None:
    async def story(answer: ClientResponse, asked: ModelRequest) -> None:
        await answer.whole(status, headers, body)

    tell_both_ways(story, "1.1", blocked, lasts=True)


@given(
    st.lists(st.sampled_from(["frame", "beat", "no beat", "blocked", "read", "end"]), max_size=8)
)
def test_a_heartbeat_is_the_same_on_both_ways(steps: list[str]) -> None:
    async def tell(at_once: bool) -> tuple[Any, ...]:
        asked = ModelRequest()
        answer = asked.answer(direct=True)
        beat = b""
        answer.ready((), lambda: beat)
        for step in steps:
            if step in ("blocked", "read"):
                asked.wire.blocked = step == "blocked"
            elif step == "frame" and not answer.ended:
                await answer.frames(b"data: 1\n\n")
            elif step == "end" and not answer.ended:
                await answer.end(b"")
            elif "beat" in step:
                beat = b"" if step == "no beat" else b": wait\n\n"
                if not (at_once and answer.send_heartbeat_now()):
                    await answer.send_heartbeat()
        return *await asked.outcome(), answer.started, answer.ended, answer.blocked_since

    assert asyncio.run(tell(True)) == asyncio.run(tell(False))


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("before", [True, False])
async def test_a_client_that_leaves_is_told_of_on_both_ways(direct: bool, before: bool) -> None:
    asked, left = ModelRequest(), asyncio.Event()
    asked.cycle.add_body(b"{}")
    asked.cycle.end_body()
    if before:
        asked.cycle.lose()
    unwatch = asked.answer(direct).watch(left.set)
    if not before:
        await asyncio.sleep(0)
        assert not left.is_set()
        asked.cycle.lose()
    await asyncio.wait_for(left.wait(), 5)
    unwatch()


async def test_what_the_direct_way_declines_it_leaves_as_it_was() -> None:
    asked = ModelRequest(blocked=True)
    assert not asked.cycle.start_stream(())
    assert not asked.cycle.write_whole(200, (), b"")
    assert not asked.cycle.write_frames(b"x")
    asked.cycle.add_body(b"{}")
    assert asked.cycle.take_json_body({b"content-type": b"application/json"}, LIMIT) is None
    assert (asked.wire.written, asked.cycle.started, asked.cycle.unread) == (b"", False, 2)


async def test_the_head_of_a_stream_waits_for_its_first_frame() -> None:
    asked = ModelRequest()
    answer = asked.answer(direct=True)
    answer.ready((), lambda: b"")
    await answer.frames(b"x")
    assert asked.wire.written.endswith(b"\r\n\r\n1\r\nx\r\n")
    with pytest.raises(RuntimeError, match="does not belong here"):
        await asked.cycle.send({"type": "http.response.start", "status": 200})
