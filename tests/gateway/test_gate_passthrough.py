"""Bytes in, the same bytes out, whatever the network does to them on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from tests.gateway.wire import DONE, chat, data, event, text, whole
from tests.run import in_process, recorded
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, head, sized

TEXT = recorded("chat_text.sse")
TOOLS = recorded("chat_tools_crlf.sse")
SHORT = (
    event({"content": "日🌊"}).replace(b"\\u65e5\\ud83c\\udf0a", "日🌊".encode())
    + event({}, "stop", unknown={"z": 1, "a": [1.50, 1e3]}).replace(b"\n\n", b"\r\n\r\n")
    + DONE
)
UNTIL_CLOSED = head("content-type: text/event-stream", "connection: close")


def in_pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Cut a stream at these places."""
    return [stream[a:b] for a, b in pairwise(sorted({0, *cuts, len(stream)}))]


def one_after_the_other(splits: Iterator[list[bytes]]) -> Story:
    """Answer each request with the next split: chunked, or raw up to the connection's end."""

    async def story(peer: Peer) -> None:
        await peer.request()
        pieces = next(splits)
        if len(pieces) % 2:
            await peer.send(CHUNKED, *[chunk(piece) for piece in pieces], LAST)
        else:
            await peer.send(UNTIL_CLOSED, *pieces)

    return story


@pytest.mark.parametrize("stream", [TEXT, TOOLS], ids=["text", "tools-crlf"])
async def test_a_recorded_stream_passes_however_it_is_split(stream: bytes) -> None:
    random = Random(7)
    ends = range(1, len(stream))
    splits = [in_pieces(stream, random.sample(ends, random.randrange(1, 40))) for _ in range(60)]
    async with in_process(one_after_the_other(iter(splits))) as gate:
        for _ in splits:
            answer = await gate.ask()
            assert answer.ending == "whole"
            assert answer.body == stream


async def test_a_short_stream_passes_split_at_every_byte() -> None:
    splits = [in_pieces(SHORT, [at]) for at in range(len(SHORT))]
    async with in_process(one_after_the_other(iter(splits))) as gate:
        for _ in splits:
            assert (await gate.ask()).body == SHORT


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
async def test_and_byte_by_byte(transport: str) -> None:
    splits = [[bytes([byte]) for byte in stream] for stream in (TEXT, TOOLS)]
    async with in_process(
        one_after_the_other(iter(splits)), upstream={"transport": transport}
    ) as gate:
        assert (await gate.ask()).body == TEXT
        assert (await gate.ask()).body == TOOLS


async def test_the_split_really_reaches_the_gateway() -> None:
    """Each frame is a packet, and each packet one write of the gateway's."""
    frames = [text(str(number)) for number in range(20)]
    async with in_process(one_after_the_other(iter([[*frames, event({}, "stop"), DONE]]))) as gate:
        assert (await gate.ask()).chunks[:20] == frames


async def test_calls_that_come_with_the_finish_keep_their_numbers() -> None:
    calls = [event({"tool_calls": [{"index": n, "id": f"c{n}"}]}) for n in range(3)]
    last = calls[2] + event({}, "tool_calls") + DONE
    async with in_process(one_after_the_other(iter([[*calls[:2], last]]))) as gate:
        assert (await gate.ask()).body == b"".join(calls[:2]) + last


async def test_a_whole_answer_passes_byte_for_byte() -> None:
    body = b' {"id":"x", "choices": [{"message":{"content":"\xe6\x97\xa5"}}],\n "new": 1.50}\n'
    async with in_process(answering(sized(body, "content-type: application/json"))) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == body


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_reaches_the_upstream_unchanged(stream: bool) -> None:
    asked = (
        b'{ "stream":%s,"temperature": 0.50, "model": "m",\n"messages":[], "new": {"b":1,"a":2} }'
    )
    asked %= json.dumps(stream).encode()
    async with in_process(answering(sized(whole()))) as gate:
        await gate.ask(asked)
        assert gate.requests[0].body == asked


async def test_of_a_request_for_another_name_only_the_model_changes() -> None:
    asked = chat("日 \\ 🌊", model="fast", temperature=0.5, seed=2**70, new={"b": 1, "a": None})
    routes = {"models": [{"name": "fast", "routes": ["a/real-model"]}]}
    async with in_process(answering(sized(whole())), tables=routes) as gate:
        await gate.ask(asked)
        sent = gate.requests[0].body
    assert json.loads(sent) == {**json.loads(asked), "model": "real-model"}
    assert list(json.loads(sent)) == list(json.loads(asked))
    assert b'"seed":1180591620717411303424' in sent.replace(b" ", b"")


async def test_a_stream_may_be_asked_for_by_the_accept_header_alone() -> None:
    async with in_process(answering(CHUNKED, chunk(TEXT), LAST)) as gate:
        answer = await gate.ask(chat(stream=None), "accept: text/event-stream")
        assert json.loads(gate.requests[0].body)["stream"] is True
    assert answer.body == TEXT
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"


async def test_the_body_wins_over_the_accept_header() -> None:
    async with in_process(answering(sized(whole(), "content-type: application/json"))) as gate:
        answer = await gate.ask(chat(stream=False), "accept: text/event-stream")
        assert json.loads(gate.requests[0].body)["stream"] is False
    assert answer.body == whole()


async def test_events_the_gateway_does_not_know_keep_their_place() -> None:
    strange = b"event: progress\nid: 7\nretry: 10\ndata: {}\n\n: comment\n\ndata: not json\n\n"
    stream = text("one") + strange + data({"new": True}) + text("two") + event({}, "stop") + DONE
    async with in_process(answering(CHUNKED, chunk(stream), LAST)) as gate:
        assert (await gate.ask()).body == stream
