"""Upstreams that fail, before the first byte and after it, as clients of any dialect read it."""

from __future__ import annotations

import json

import pytest

from tests.gateway.wire import streaming
from tests.wire.fake import answering, sized

from .gate import JSON, MESSAGES, TONGUES, across, both_ways, each_pair, gate, read, telling
from .neutral import Answer, Ask, Tongue

STATUSES = {
    400: "Bad Request",
    429: "Too Many",
    503: "Full",
    529: "Overloaded",
}
# What an error of each status is called in Messages.
TYPES = {
    400: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


@pytest.mark.parametrize("status", STATUSES)
@each_pair
async def test_an_error_status_is_passed_on(client: Tongue, upstream: Tongue, status: int) -> None:
    body = upstream.error("Slow down, please.")
    story = answering(sized(body, JSON, "retry-after: 7", status=f"{status} {STATUSES[status]}"))
    async with gate((upstream, story)) as between:
        for stream in (True, False):
            sent = await between.ask(client, Ask(), stream)
            assert sent.status == status
            assert sent.headers["retry-after"] == "7"
            assert sent.headers["content-type"] == "application/json"
            assert client.read_error(bytes(sent.body)) == "Slow down, please."
            if client is upstream:
                assert sent.body == body


@pytest.mark.parametrize("status", [401, 403])
@each_pair
async def test_a_refused_key_is_told_in_the_clients_dialect(
    client: Tongue, upstream: Tongue, status: int
) -> None:
    story = answering(sized(upstream.error("Who are you?"), JSON, status=f"{status} No"))
    async with gate((upstream, story)) as between:
        for stream in (True, False):
            sent = await between.ask(client, Ask(), stream)
            assert sent.status == 502
            assert "Upstream a refused the gateway's key" in client.read_error(bytes(sent.body))
        await between.running.quiet()
        assert between.running.exchanges[0]["code"] == "upstream_auth"


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("upstream", TONGUES[:2], ids=lambda tongue: tongue.NAME)
async def test_the_status_names_the_error_in_messages(upstream: Tongue, status: int) -> None:
    body = b'{"error":{"message":"No.","type":"upstream_words"}}'
    story = answering(sized(body, JSON, status=f"{status} {STATUSES[status]}"))
    async with gate((upstream, story)) as between:
        sent = await between.ask(MESSAGES, Ask(), True)
    assert sent.json["error"]["type"] == TYPES[status]


@pytest.mark.parametrize("body", [b"", b"<h1>Bad gateway</h1>", b'{"detail":"no"}', b"[]"])
@each_pair
async def test_an_error_that_cannot_be_read_is_still_one(
    client: Tongue, upstream: Tongue, body: bytes
) -> None:
    story = answering(sized(body, "content-type: text/html", status="502 Bad Gateway"))
    async with gate((upstream, story)) as between:
        sent = await between.ask(client, Ask(), True)
    assert sent.status == 502
    if client is not upstream:
        assert client.read_error(bytes(sent.body))


@each_pair
async def test_an_error_in_mid_stream(client: Tongue, upstream: Tongue) -> None:
    story = streaming(*upstream.broken("Half a word", "Out of words."))
    async with gate((upstream, story)) as between:
        sent = await between.ask(client, Ask(), True)
    assert sent.status == 200
    said, why = client.read_broken(bytes(sent.body))
    assert "Half a word".startswith(said)
    assert said
    assert why == "Out of words."


@each_pair
async def test_a_stream_that_stops_short(client: Tongue, upstream: Tongue) -> None:
    frames = upstream.broken("Half a word", "")[:-1]
    async with gate((upstream, streaming(*frames))) as between:
        sent = await between.ask(client, Ask(), True)
    said, why = client.read_broken(bytes(sent.body))
    assert "Half a word".startswith(said)
    assert "upstream" in why


@each_pair
async def test_an_error_before_anything_was_said(client: Tongue, upstream: Tongue) -> None:
    error = upstream.broken("", "Overloaded.")[-1]
    async with gate((upstream, streaming(error))) as between:
        sent = await between.ask(client, Ask(), True)
    if sent.status == 200:
        assert client is upstream
        assert client.read_broken(bytes(sent.body)) == ("", "Overloaded.")
    else:
        assert sent.status >= 500
        assert sent.json["error"]["message"] == "Overloaded."


@pytest.mark.parametrize("body", [b"", b"hello", b"{}", b"[]", b'{"choices":[]}', b'{"content":1}'])
@both_ways
@across
async def test_an_answer_that_is_none(
    client: Tongue, upstream: Tongue, stream: bool, body: bytes
) -> None:
    story = streaming(b"data: " + body + b"\n\n") if stream else answering(sized(body, JSON))
    async with gate((upstream, story)) as between:
        sent = await between.ask(client, Ask(), stream)
    if sent.status == 200:
        assert client.read_broken(bytes(sent.body))[1]
    else:
        assert sent.status == 502
        assert "upstream" in client.read_error(bytes(sent.body))


OTHERS = [(first, second) for first in TONGUES for second in TONGUES if first is not second]
FAILURES = ("a status", "a hang-up", "an error event")


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(
    "first, second", OTHERS, ids=lambda tongue: str(tongue.NAME).rpartition("-")[2]
)
async def test_an_upstream_of_another_dialect_steps_in(
    first: Tongue, second: Tongue, failure: str
) -> None:
    busy = answering(sized(first.error("Busy."), JSON, status="503 Full"))
    stories = {"a status": busy, "a hang-up": streaming()}
    stories["an error event"] = streaming(first.broken("", "Overloaded.")[-1])
    for client in TONGUES:
        for stream in (True, False):
            if failure == "an error event" and not stream:
                continue
            good = telling(second, Answer("Here I am."), stream)
            async with gate((first, stories[failure]), (second, good)) as between:
                sent = await between.ask(client, Ask(), stream)
                assert read(client, sent, stream).text == "Here I am."
                assert sent.headers["x-holdgate-upstream"] == "b"
                told, other = between.running.requests
                assert first.asked(told.body) == second.asked(other.body)
                assert json.loads(other.body).get("stream", False) is stream


@each_pair
async def test_all_fail_and_the_last_is_shown(client: Tongue, upstream: Tongue) -> None:
    stories = [
        (tongue, answering(sized(tongue.error(f"{tongue.NAME} is full."), JSON, status="503 Full")))
        for tongue in (client, upstream)
    ]
    async with gate(*stories) as between:
        sent = await between.ask(client, Ask(), True)
        assert len(between.running.requests) == 2
    assert sent.status == 503
    assert client.read_error(bytes(sent.body)) == f"{upstream.NAME} is full."
