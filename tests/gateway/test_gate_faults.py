"""What an upstream can do wrong in one turn, and what the client sees of it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.wire import (
    DONE,
    Cue,
    chat,
    event,
    hanging,
    streaming,
    text,
    turn,
    whole,
)
from tests.run import in_process, recorded, until, within
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, head, once, sized

TEXT = recorded("chat_text.sse")
ENDS = TEXT.index(b'"finish_reason":"stop"}]')
TAIL = TEXT.rindex(b"data:", 0, ENDS)
ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE
OVERLOADED = b'{"error": {"message": "Overloaded.", "code": 529}}'


def shown_of(sent: bytes) -> bytes:
    """What a client may see of a stream that broke off: whole events, and none of the tail."""
    events, found, _ = sent[:TAIL].rpartition(b"\n\n")
    return events + found


# -- before the first event


async def test_nobody_there() -> None:
    async with in_process(None) as gate:
        answer = await gate.ask()
    assert answer.status == 502
    assert answer.error["code"] == "upstream_unreachable"
    assert "127.0.0.1" not in answer.error["message"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("story", [hanging(), hanging(b"HTTP/1.1 200 OK\r\n"), hanging(CHUNKED)])
async def test_no_first_byte(story: Story, stream: bool) -> None:
    async with in_process(story, upstream={"first_byte_ms": 100}) as gate:
        async with within(1):
            answer = await gate.ask(chat(stream=stream))
        assert answer.status == 504
        assert answer.error["code"] == "upstream_timeout"
        await until(lambda: gate.fakes[0].open == 0)


@pytest.mark.parametrize(
    "story",
    [
        once(),
        once(b"SSH-2.0-OpenSSH_9\r\n"),
        once(CHUNKED),
        once(CHUNKED, LAST),
        once(CHUNKED, chunk(ROLE[:30]), reset=True),
        once(head("content-length: 10"), b"half"),
        once(head("location: http://127.0.0.1:1/", status="302 Found")),
        once(sized(b"<html>Hello", "content-type: text/html")),
        once(sized(b"<html>Hello")),
        once(sized(b"[]", "content-type: application/json")),
        once(sized(ROLE, "content-type: text/event-stream", "content-encoding: br")),
        once(sized(b"no gzip", "content-type: text/event-stream", "content-encoding: gzip")),
    ],
)
async def test_no_answer_that_could_be_shown(story: Story) -> None:
    async with in_process(story) as gate:
        answer = await gate.ask()
        assert answer.status == 502
        assert answer.error["code"] == "upstream_broke"
        await gate.quiet()


@pytest.mark.parametrize("status", [400, 404, 408, 409, 413, 422, 429, 500, 503, 529])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_of_the_upstreams_own_is_passed_on(status: int, stream: bool) -> None:
    error = json.dumps({"error": {"message": "No.", "type": "its_own", "more": 1}}).encode()
    limits = (
        "retry-after: 17",
        "x-ratelimit-remaining-tokens: 3",
        "content-type: application/json",
    )
    async with in_process(answering(sized(error, *limits, status=f"{status} Hm"))) as gate:
        answer = await gate.ask(chat(stream=stream))
    assert answer.status == status
    assert answer.body == error
    assert answer.headers["retry-after"] == "17"
    assert answer.headers["x-ratelimit-remaining-tokens"] == "3"
    assert answer.headers["x-holdgate-upstream"] == "a"
    assert answer.repeated == []


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refused_key_is_the_operators_problem(status: int, stream: bool) -> None:
    error = json.dumps({"error": {"message": "Who is sk-operator?"}}).encode()
    headers = ("content-type: application/json", "www-authenticate: Bearer")
    async with in_process(answering(sized(error, *headers, status=f"{status} No"))) as gate:
        answer = await gate.ask(chat(stream=stream), "x-request-id: mine")
        await gate.quiet()
        log = [json.loads(line) for line in gate.log.splitlines()]
    assert answer.status == 502
    assert answer.error["code"] == "upstream_auth"
    assert f"Upstream a refused the gateway's key ({status})" in answer.error["message"]
    assert b"sk-operator" not in answer.body
    (blamed,) = [line for line in log if line["event"] == "upstream_auth"]
    assert (blamed["request"], blamed["upstream"]) == ("mine", "a")
    assert "operator" in blamed["says"]
    assert gate.exchanges[0]["code"] == "upstream_auth"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_of_the_client_is_the_clients_problem(status: int) -> None:
    error = json.dumps({"error": {"message": "Who are you?", "more": 1}}).encode()
    headers = ("content-type: application/json", "retry-after: 7")
    story = answering(sized(error, *headers, status=f"{status} No"))
    async with in_process(story, upstream={"auth": "client"}) as gate:
        answer = await gate.ask(chat(), "authorization: Bearer mine")
        await gate.quiet()
        assert '"upstream_auth"' not in gate.log
    assert answer.status == status
    assert answer.body == error
    assert answer.headers["retry-after"] == "7"


async def test_an_error_that_is_a_page_is_said_in_our_words() -> None:
    page = sized(b"<html>nginx at 10.0.0.7", "content-type: text/html", status="502 Bad Gateway")
    async with in_process(answering(page)) as gate:
        answer = await gate.ask()
    assert answer.status == 502
    assert answer.error["message"] == "The upstream answered 502."


@pytest.mark.parametrize(
    "story",
    [
        answering(sized(OVERLOADED, "content-type: application/json")),
        streaming(b"data: " + OVERLOADED + b"\n\n"),
        streaming(b": hello\n\ndata: " + OVERLOADED + b"\n\n" + DONE),
    ],
)
async def test_an_error_under_a_200_keeps_its_status(story: Story) -> None:
    async with in_process(story) as gate:
        answer = await gate.ask()
    assert answer.status == 529
    assert answer.body == OVERLOADED


async def test_an_error_under_a_200_that_is_whole() -> None:
    body = b'{"error": {"message": "Something broke."}}'
    async with in_process(answering(sized(body, "content-type: application/json"))) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.status == 502
    assert answer.body == body


async def test_too_many_at_once() -> None:
    upstream = {"max_connections": 1, "connect_ms": 60}
    async with in_process(hanging(CHUNKED, chunk(ROLE)), upstream=upstream) as gate:
        first = await gate.start()
        await first.saw(ROLE)
        answer = await gate.ask()
    assert answer.status == 503
    assert answer.error["code"] == "upstream_busy"


# -- after the first event


def breaking_off(sizes: list[int], cue: Cue, way: Callable[[Peer], None]) -> Story:
    """Send the recorded stream up to each of these sizes, one a request; break off on cue."""
    left = iter(sizes)

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(TEXT[: next(left)]))
        await cue.wait()
        way(peer)

    return story


@pytest.mark.parametrize("way", [Peer.reset, Peer.close], ids=["reset", "closed"])
async def test_broken_off_after_every_so_many_bytes(way: Callable[[Peer], None]) -> None:
    done = len(TEXT)
    sizes = [*range(1, done, 41), TAIL - 1, TAIL, done - 17, done - 15, done - 1]
    cue = Cue()
    async with in_process(breaking_off(sizes, cue, way)) as gate:
        for size in sizes:
            client = await gate.start()
            shown = shown_of(TEXT[:size])
            if shown:
                await client.saw(shown)
            cue.give()
            answer = await client.answer()
            if shown:
                assert answer.failed == "upstream_broke"
                assert answer.body.startswith(shown + b'data: {"error"')
            else:
                assert answer.status == 502
            await gate.quiet()


@pytest.mark.parametrize(
    "size, is_whole",
    [(TAIL - 1, False), (TAIL, False), (ENDS, False), (TEXT.index(DONE), True), (len(TEXT), True)],
)
async def test_without_framing_the_finish_tells_a_whole_answer(size: int, is_whole: bool) -> None:
    """A body that ends with its connection looks the same whole or broken off."""
    until_closed = head("content-type: text/event-stream", "connection: close")
    async with in_process(once(until_closed, TEXT[:size])) as gate:
        answer = await gate.ask()
    if is_whole:
        assert answer.body == TEXT[:size]
    else:
        assert answer.failed == "upstream_broke"
        assert answer.body.startswith(shown_of(TEXT[:size]) + b'data: {"error"')


async def test_silence_in_the_middle() -> None:
    async with in_process(hanging(CHUNKED, chunk(ROLE)), upstream={"idle_ms": 100}) as gate:
        async with within(5):
            answer = await gate.ask()
        assert answer.body.startswith(ROLE)
        assert answer.failed == "upstream_timeout"
        await until(lambda: gate.fakes[0].open == 0)


async def test_silence_in_the_middle_of_a_whole_answer() -> None:
    story = hanging(head("content-length: 500"), b'{"choices": [')
    async with in_process(story, upstream={"idle_ms": 100}) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.status == 504


@pytest.mark.parametrize("finish", [b"", event({"content": "half a s"})])
async def test_an_end_before_the_finish(finish: bytes) -> None:
    async with in_process(streaming(ROLE, text("one"), finish or b"\n")) as gate:
        answer = await gate.ask()
    assert answer.failed == "upstream_broke"
    assert answer.text.startswith("one")


async def test_an_error_in_the_middle_is_passed_on_once() -> None:
    stream = ROLE + text("one") + b"data: " + OVERLOADED + b"\n\n"
    async with in_process(streaming(ROLE, text("one"), stream[len(ROLE + text("one")) :])) as gate:
        answer = await gate.ask()
    assert answer.body == stream
    assert answer.ending == "whole"


async def test_an_event_larger_than_allowed() -> None:
    """Larger than what one read can bring, too: what is there at once need not be kept."""
    stream = (ROLE, text("x" * 600_000), END)
    async with in_process(streaming(*stream), limits__event_bytes=5_000) as gate:
        answer = await gate.ask()
        assert answer.body.startswith(ROLE + b'data: {"error"')
        assert answer.failed == "upstream_broke"
        await gate.quiet()


async def test_a_whole_answer_larger_than_allowed() -> None:
    body = whole("x" * 10_000)
    story = answering(sized(body, "content-type: application/json"))
    async with in_process(story, limits__body_bytes=5_000) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.status == 502
    assert "longer than 5000 bytes" in answer.error["message"]


# -- strange, but to be passed on


def crlf(stream: bytes) -> bytes:
    return stream.replace(b"\n", b"\r\n")


def cr(stream: bytes) -> bytes:
    return stream.replace(b"\n", b"\r")


SEPARATOR = "line\u2028and\u2029paragraph\u0085".encode()
STRANGE = {
    "CRLF": crlf(turn("one")),
    "CR": cr(turn("one")),
    "mixed": crlf(ROLE) + text("one") + cr(event({}, "stop")) + DONE,
    "comments": b": a\n\n: b\n" + ROLE + b": c\n\n" + text("one") + b":\n" + END,
    "U+2028": ROLE + text("X").replace(b"X", SEPARATOR) + END,
    "invalid UTF-8": ROLE + text("X").replace(b"X", b"\xff\xc3") + END,
    "a lone surrogate": ROLE + text("X").replace(b"X", rb"\ud800") + END,
    "NUL": ROLE + text("X").replace(b"X", b"\0") + END,
    "no [DONE]": ROLE + text("one") + event({}, "stop"),
    "unknown finish reason": ROLE + event({}, "tired") + DONE,
    "only [DONE]": DONE,
    "finish on the first event": event({"role": "assistant"}, "stop") + DONE,
    "two finishes": ROLE + event({}, "stop") + event({}, "length") + DONE,
    "several data lines": ROLE + b'data: {"choices":\ndata: []}\n\n' + END,
    "no space": (ROLE + text("one") + END).replace(b"data: ", b"data:"),
    "empty events": ROLE + b"\n\n\n" + text("one") + b"event: ping\n\n" + END,
}
UNCHANGED = set(STRANGE) - {"empty events"}


@pytest.mark.parametrize("name", sorted(UNCHANGED))
@pytest.mark.parametrize("step", [1, 7, 10**9])
async def test_strange_streams_pass_byte_for_byte(name: str, step: int) -> None:
    stream = STRANGE[name]
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    async with in_process(streaming(*pieces)) as gate:
        answer = await gate.ask()
    assert answer.ending == "whole"
    assert answer.body == stream


async def test_empty_lines_between_events_may_be_lost() -> None:
    async with in_process(streaming(STRANGE["empty events"])) as gate:
        answer = await gate.ask()
    assert answer.body.replace(b"\n", b"") == STRANGE["empty events"].replace(b"\n", b"")


async def test_a_byte_order_mark_is_taken_off() -> None:
    async with in_process(streaming(b"\xef\xbb\xbf" + turn("one"))) as gate:
        assert (await gate.ask()).body == turn("one")


@pytest.mark.parametrize(
    "more", [DONE, text("more"), b"HTTP/1.1 200 OK\r\n\r\n", b"\x00" * 100_000]
)
async def test_what_comes_after_the_end_is_dropped(more: bytes) -> None:
    async with in_process(streaming(turn("one"), more)) as gate:
        for _ in range(3):
            assert (await gate.ask()).body == turn("one")
        await gate.quiet()


async def test_the_end_does_not_wait_for_the_connection() -> None:
    async with in_process(hanging(CHUNKED, chunk(turn("one")))) as gate:
        async with within(0.5):
            assert (await gate.ask()).body == turn("one")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_compressed_though_nobody_asked(coding: str) -> None:
    squeeze = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    pieces = [
        squeeze.compress(piece) + squeeze.flush(zlib.Z_SYNC_FLUSH)
        for piece in (ROLE, text("one"), END)
    ]
    start = CHUNKED[:-2] + f"content-encoding: {coding}\r\n\r\n".encode()
    async with in_process(hanging(start, *map(chunk, pieces))) as gate:
        answer = await gate.ask()
        assert answer.body == ROLE + text("one") + END
        assert "content-encoding" not in answer.headers
        assert gate.requests[0].headers[b"accept-encoding"] == b"identity"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_bomb_does_not_go_off(stream: bool) -> None:
    bomb = gzip.compress(b"data: " + bytes(50_000_000))
    kind = "text/event-stream" if stream else "application/json"
    story = answering(sized(bomb, f"content-type: {kind}", "content-encoding: gzip"))
    async with in_process(story, limits__event_bytes=100_000, limits__body_bytes=100_000) as gate:
        before = resident()
        answer = await gate.ask(chat(stream=stream))
        assert resident() - before < 20_000_000
    assert answer.status == 502
    assert answer.error["code"] == "upstream_broke"


def resident() -> int:
    """How much memory this process has now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_an_endless_stream_goes_on_until_the_client_leaves() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        batch = b"".join([text("on and on")] * 300)
        while True:
            await peer.send(chunk(batch))

    async with in_process(endless, limits__event_bytes=100_000) as gate:
        client = await gate.start()
        await client.saw(text("on and on"))
        before = resident()
        await client.discard(30_000_000)
        assert resident() - before < 20_000_000
        client.leave()
        await until(lambda: gate.fakes[0].open == 0)
        await gate.quiet()


async def test_the_connection_is_used_again_after_a_good_end_only() -> None:
    async with in_process(streaming(turn("one"))) as gate:
        for _ in range(4):
            await gate.ask()
            await gate.quiet()
        assert gate.fakes[0].connections == [1, 1, 1, 1]


async def test_one_bad_client_request_does_not_cost_the_upstream_its_name() -> None:
    """A 400 is the request's fault: the next request goes to the same upstream first."""
    bad = sized(b'{"error":{"message":"no"}}', status="400 Bad Request")
    async with in_process(answering(bad), answering(bad)) as gate:
        for _ in range(2):
            assert (await gate.ask()).headers["x-holdgate-upstream"] == "a"
        assert len(gate.fakes[1].requests) == 0
