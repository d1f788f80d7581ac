"""Answers that are not of the content type they say, or not of the form that was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects import DIALECTS
from tests.wire.fake import LAST, Story, answering, chunk, head

from .gate import both_ways, each_pair, gate, read
from .neutral import Answer, Ask, Call, Tongue, Turn

SAID = Answer("Here I am.")
CALLED = Answer(calls=(Call("call_1", "look", '{"at":1}'),), stop="tools")
TYPES = {
    "text": ["content-type: text/plain; charset=utf-8"],
    "bytes": ["content-type: application/octet-stream"],
    "none": [],
    "JSON": ["content-type: application/json"],
    "SSE": ["content-type: text/event-stream"],
}


def telling(upstream: Tongue, answer: Answer, stream: bool, kind: str, step: int) -> Story:
    """Answer under a content type, as a stream or as one body, so many bytes at a time."""
    sent = b"".join(upstream.stream(answer)) if stream else upstream.whole(answer)
    pieces = [sent[at : at + step] for at in range(0, len(sent), step)]
    start = head(*TYPES[kind], "transfer-encoding: chunked")
    return answering(start, *map(chunk, pieces), LAST)


@pytest.mark.parametrize("kind", TYPES)
@both_ways
@each_pair
async def test_an_answer_is_taken_for_what_it_is(
    client: Tongue, upstream: Tongue, stream: bool, kind: str
) -> None:
    for step in (3, 10**6):
        async with gate((upstream, telling(upstream, SAID, stream, kind, step))) as between:
            sent = await between.ask(client, Ask(), stream)
        assert read(client, sent, stream).text == "Here I am."


@pytest.mark.parametrize("kind", TYPES)
@both_ways
@each_pair
async def test_an_answer_in_the_other_form_is_turned_into_what_was_asked_for(
    client: Tongue, upstream: Tongue, stream: bool, kind: str
) -> None:
    for answer in (SAID, CALLED):
        story = telling(upstream, answer, not stream, kind, 10**6)
        async with gate((upstream, story)) as between:
            sent = await between.ask(client, Ask(tools=("look",)), stream)
        got = read(client, sent, stream)
        assert (got.text, got.calls, got.stop) == (answer.text, answer.calls, answer.stop)
        assert got.tokens == answer.tokens


@both_ways
@each_pair
async def test_a_large_request_is_not_read_on_the_loop_for_an_answer_in_the_other_form(
    client: Tongue, upstream: Tongue, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, sizes = type(DIALECTS[client.NAME]), [0]
    read_request = kind.read

    def read_here(self: Any, body: bytes, *rest: Any) -> Any:
        sizes.append(len(body))
        return read_request(self, body, *rest)

    monkeypatch.setattr(kind, "read", read_here)
    story = telling(upstream, SAID, not stream, "none", 10**6)
    async with gate((upstream, story)) as between:
        sent = await between.ask(client, Ask(turns=(Turn("user", "x" * 200_000),)), stream)
    assert read(client, sent, stream).text == "Here I am."
    assert max(sizes) < 200_000
