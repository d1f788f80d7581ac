"""An error told inside of a stream is one of its route, however its frames arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import NO_HOLD, carried, remind
from tests.gateway.wire import (
    DONE,
    Cue,
    data,
    event,
    hanging,
    on_cue,
    request,
    streaming,
    text,
    turn,
)
from tests.run import in_process, until
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk

from .gate import CHAT, JSON, MESSAGES, RESPONSES, TONGUES, gate, read, telling
from .neutral import Answer, Ask, Tongue

Json = dict[str, Any]
NOW = 1_770_067_358_229
# Far more than any arrival here takes: it is the content or the error that is waited for.
PATIENT = {"settle_ms": 20_000}


def named(kind: str, **members: Any) -> bytes:
    """Write an event under its name."""
    return f"event: {kind}\n".encode() + data({"type": kind, **members})


def response(status: str = "in_progress", **more: Any) -> Json:
    return {"id": "resp_bad", "object": "response", "status": status, "output": [], **more}


ROLE = event({"role": "assistant", "content": "", "refusal": None}, ident="bad")
STARTED = named("message_start", message={"id": "msg_bad", "type": "message", "content": []})
PING = named("ping")
CREATED = named("response.created", sequence_number=0, response=response())
IN_PROGRESS = named("response.in_progress", sequence_number=1, response=response())
QUOTA = {
    "type": "insufficient_quota",
    "code": "insufficient_quota",
    "message": "No quota.",
    "param": None,
}


def coded(code: int) -> Json:
    """Write an error as many upstreams of Chat Completions tell it."""
    return {"error": {"message": "No.", "type": None, "param": None, "code": code}}


def failed(number: int, **error: Any) -> bytes:
    """Write the end of a response that failed."""
    told = response("failed", error=error)
    return named("response.failed", sequence_number=number, response=told)


def said(kind: str) -> bytes:
    """Write an error as Messages tells it."""
    return named("error", error={"type": kind, "message": "No."})


# What comes instead of an answer, and the status it means.
STARTS: dict[str, tuple[Tongue, int, list[bytes]]] = {
    "chat: too many": (CHAT, 429, [ROLE, data(coded(429))]),
    "chat: no quota": (CHAT, 429, [ROLE, data({"error": QUOTA})]),
    "chat: a comment and an empty delta first": (
        CHAT,
        503,
        [b": PROCESSING\n\n", ROLE, event({"content": ""}), data(coded(503))],
    ),
    "chat: an error beside a choice": (
        CHAT,
        502,
        [ROLE, event({"content": ""}, "error", "bad", **coded(502))],
    ),
    "chat: a wrong key": (CHAT, 502, [ROLE, data(coded(401))]),
    "messages: overloaded": (MESSAGES, 529, [STARTED, PING, said("overloaded_error")]),
    "messages: an empty block first": (
        MESSAGES,
        500,
        [
            STARTED,
            named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            PING,
            said("api_error"),
        ],
    ),
    "messages: a bad request": (MESSAGES, 400, [STARTED, PING, said("invalid_request_error")]),
    "responses: no quota": (
        RESPONSES,
        429,
        [CREATED, IN_PROGRESS, named("error", error=QUOTA), failed(3, **QUOTA)],
    ),
    "responses: an empty item first": (
        RESPONSES,
        500,
        [
            CREATED,
            IN_PROGRESS,
            named(
                "response.output_item.added",
                sequence_number=2,
                output_index=0,
                item={"id": "msg_bad", "type": "message", "content": [], "role": "assistant"},
            ),
            failed(3, code="server_error", message="No."),
        ],
    ),
    "responses: failed at once": (
        RESPONSES,
        429,
        [CREATED, failed(1, code="rate_limit_exceeded", message="No.")],
    ),
    "responses: a bad prompt": (
        RESPONSES,
        400,
        [CREATED, IN_PROGRESS, failed(2, code="invalid_prompt", message="No.")],
    ),
}
STAYS = {"chat: a wrong key", "messages: a bad request", "responses: a bad prompt"}
starts = pytest.mark.parametrize("name", STARTS)
clients = pytest.mark.parametrize("client", TONGUES, ids=lambda tongue: str(tongue.NAME))


def in_one_write(frames: list[bytes]) -> Story:
    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED + b"".join(map(chunk, frames)) + LAST)

    return story


def a_write_a_frame(frames: list[bytes], pause: float = 0) -> Story:
    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED)
            for frame in frames:
                await peer.send(chunk(frame))
                await anyio.sleep(pause)
            await peer.send(LAST)

    return story


def asking(client: Tongue) -> bytes:
    """Write a request for a stream."""
    return request("POST", client.PATH, JSON, body=client.ask(Ask(), True))


def arrivals(frames: list[bytes]) -> dict[str, Story]:
    return {
        "one write": in_one_write(frames),
        "a write a frame": a_write_a_frame(frames),
        "20 ms apart": a_write_a_frame(frames, 0.02),
    }


async def outcome(client: Tongue, *upstreams: tuple[Tongue, Story]) -> tuple[int, str, list[int]]:
    """Ask once; return the status, what was told, and how often each route was asked."""
    async with gate(*upstreams, upstream=PATIENT) as between:
        sent = await between.ask(client, Ask(), True)
        if sent.status == 200:
            told = read(client, sent, True).text
        else:
            told = sent.json["error"]["message"]
        return sent.status, told, [len(fake.requests) for fake in between.running.fakes]


@clients
@starts
async def test_a_second_route_answers_however_the_error_arrives(name: str, client: Tongue) -> None:
    upstream, status, frames = STARTS[name]
    for arrival, story in arrivals(frames).items():
        good = telling(CHAT, Answer("Here I am."), True)
        found = await outcome(client, (upstream, story), (CHAT, good))
        if name in STAYS:
            assert (found[0], found[2]) == (status, [1, 0]), arrival
        else:
            assert found == (200, "Here I am.", [1, 1]), arrival


@clients
@starts
async def test_two_routes_that_fail_show_the_same_status_however_it_arrives(
    name: str, client: Tongue
) -> None:
    upstream, status, frames = STARTS[name]
    asked = [1, 0] if name in STAYS else [1, 1]
    found = [
        await outcome(client, (upstream, story), (upstream, story))
        for story in arrivals(frames).values()
    ]
    assert {(one[0], tuple(one[2])) for one in found} == {(status, tuple(asked))}
    assert len({one[1] for one in found}) == 1


# With one route, and while nobody knows yet.


@pytest.mark.parametrize("tongue, frame", [(CHAT, ROLE), (MESSAGES, STARTED), (RESPONSES, CREATED)])
async def test_with_no_other_route_a_first_frame_is_shown_at_once(
    tongue: Tongue, frame: bytes
) -> None:
    """However long it might wait: there is nobody else to ask."""
    async with gate((tongue, hanging(CHUNKED, chunk(frame))), upstream=PATIENT) as between:
        client = await between.running.send(asking(tongue))
        await client.saw(frame)


@pytest.mark.parametrize("transport", ["fast", "httpx"])
@pytest.mark.parametrize("settle_ms", [0, 1, 50])
async def test_a_first_frame_waits_no_longer_than_that(settle_ms: int, transport: str) -> None:
    """And what follows it is all there: the read that was waited for goes on."""
    cue = Cue()
    rest = text("one", "bad") + event({}, "stop", "bad") + DONE
    slow = on_cue(cue, CHUNKED + chunk(ROLE), chunk(rest) + LAST)
    keys = {"settle_ms": settle_ms, "transport": transport}
    async with in_process(slow, hanging(), upstream=keys) as gate:
        client = await gate.start()
        await client.saw(ROLE)
        cue.give()
        assert (await client.answer()).body == ROLE + rest
        assert gate.fakes[1].requests == []
        await gate.quiet()


@pytest.mark.parametrize("way", [Peer.reset, Peer.close], ids=["reset", "closed"])
async def test_a_route_that_breaks_before_it_said_anything_is_replaced(
    way: Callable[[Peer], None],
) -> None:
    async def breaks(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        await anyio.sleep(0.02)
        way(peer)

    async with in_process(breaks, streaming(turn("from b", "b")), upstream=PATIENT) as gate:
        answer = await gate.ask()
    assert answer.body == turn("from b", "b")
    assert answer.headers["x-holdgate-upstream"] == "b"


async def test_heartbeats_in_between_tell_nothing_of_a_route_that_fails() -> None:
    cue = Cue()
    error = data(coded(503))
    first = on_cue(cue, CHUNKED + chunk(ROLE), chunk(error) + LAST)
    second = on_cue(cue, CHUNKED + chunk(text("from b", "b")), chunk(event({}, "stop", "b") + DONE))
    async with in_process(first, second, upstream=PATIENT, server__keepalive_ms=20) as gate:
        client = await gate.start()
        await client.saw(b": wait\n: wait\n: wait\n")
        cue.give()
        shown = await client.saw(b'"delta":{}')
        assert b"bad" not in shown.body
        assert {chunk["id"] for chunk in shown.events} == {"b"}


async def test_whoever_leaves_in_between_is_gone() -> None:
    stories = hanging(CHUNKED, chunk(ROLE)), hanging()
    async with in_process(*stories, upstream=PATIENT, server__keepalive_ms=20) as gate:
        client = await gate.start()
        await client.saw(b": wait\n")
        client.leave()
        await until(lambda: gate.fakes[0].open == 0)
        await gate.quiet()
        assert gate.fakes[1].requests == []


async def test_the_next_route_carries_the_reminder_of_one_that_only_began() -> None:
    first = a_write_a_frame([ROLE, data(coded(503))], 0.02)
    second = streaming(turn("from b", "b"))
    async with in_process(first, second, upstream=PATIENT, clock=ManualClock(NOW)) as gate:
        await remind(gate, "tea", NOW)
        for _ in range(2):
            assert (await gate.ask(None, "x-session-id: s", NO_HOLD)).text == "from b"
        assert [carried(asked) for asked in gate.requests] == [["tea"], ["tea"], []]
