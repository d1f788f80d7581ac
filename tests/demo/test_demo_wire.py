"""Every key of a `demo:` line, seen on a raw socket."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Awaitable, Callable

import anyio
import pytest

from gateway.demo.journal import EventKind
from gateway.demo.orders import KEYS
from gateway.demo.server import DemoServer

from .peer import Answer, Peer, asking, connected, request

Story = Callable[[Peer, DemoServer], Awaitable[None]]
STORIES: dict[str, Story] = {}


def story(*keys: str) -> Callable[[Story], Story]:
    """Say which keys a story shows."""

    def tell(told: Story) -> Story:
        STORIES.update(dict.fromkeys(keys, told))
        return told

    return tell


@pytest.mark.parametrize("key", KEYS)
async def test_key(key: str, server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await STORIES[key](peer, server)


def test_every_key_has_a_story() -> None:
    assert set(STORIES) == set(KEYS)


def finish_of(answer: Answer) -> str:
    """The finish reason of an answer."""
    reasons = [c["finish_reason"] for e in answer.events for c in e["choices"]]
    (reason,) = (reason for reason in reasons if reason)
    assert isinstance(reason, str)
    return reason


@story("say")
async def says_the_text(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask('demo: say="One, two.\\n\\u2028 Drei ☃" delay_ms=0')
    assert "".join(answer.tokens) == "One, two.\n\u2028 Drei ☃"
    assert answer.ending == "whole"


@story("tokens")
async def says_so_many_tokens(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask('demo: say="a b" tokens=5 delay_ms=0')
    assert answer.tokens == ["a", " b", "a", " b", "a"]


@story("size")
async def says_long_tokens(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask("demo: tokens=3 size=70000 delay_ms=0")
    assert [len(token) for token in answer.tokens] == [70000] * 3


@story("delay_ms")
async def takes_its_time(peer: Peer, _: DemoServer) -> None:
    burst = await peer.ask("demo: tokens=20 delay_ms=0")
    assert len(burst.chunks) == 1
    start = time.monotonic()
    paced = await peer.ask("demo: tokens=5 delay_ms=20")
    assert time.monotonic() - start > 0.08
    assert len(paced.tokens) == 5


@story("endless")
async def never_stops(peer: Peer, server: DemoServer) -> None:
    await peer.send(request(asking("demo: tokens=1 delay_ms=0 endless")))
    for _ in range(100):
        await peer.stream.receive(65536)
    await peer.stream.aclose()
    await left(server)


@story("first_ms")
async def keeps_the_headers_back(peer: Peer, _: DemoServer) -> None:
    await peer.send(request(asking("demo: tokens=1 first_ms=60 delay_ms=0")))
    with anyio.move_on_after(0.03) as early:
        await peer.stream.receive()
    assert early.cancelled_caught
    assert (await peer.answer()).ending == "whole"


@story("quiet_ms")
async def falls_silent(peer: Peer, _: DemoServer) -> None:
    await peer.send(request(asking("demo: tokens=4 delay_ms=0 quiet_ms=80@2")))
    start = time.monotonic()
    answer = await peer.answer()
    assert time.monotonic() - start >= 0.06
    assert [chunk.count(b'"content"') for chunk in answer.chunks] == [1 + 2, 2]


@story("tool", "args")
async def calls_tools(peer: Peer, _: DemoServer) -> None:
    line = 'demo: tool=one args={"city": "Paris"} tool=two delay_ms=0'
    answer = await peer.ask(line)
    deltas = [c["delta"] for e in answer.events for c in e["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    names = [call["function"]["name"] for call in calls if "id" in call]
    arguments = {
        index: [call["function"]["arguments"] for call in calls if call["index"] == index]
        for index in (0, 1)
    }
    assert names == ["one", "two"]
    assert {at: "".join(pieces) for at, pieces in arguments.items()} == {
        0: '{"city": "Paris"}',
        1: "{}",
    }
    assert len(arguments[0]) > 2
    assert finish_of(answer) == "tool_calls"


@story("finish")
async def ends_as_told(peer: Peer, _: DemoServer) -> None:
    assert finish_of(await peer.ask("demo: tokens=1 finish=content_filter")) == "content_filter"
    assert finish_of(await peer.ask("demo: tokens=1 finish=tired")) == "tired"


@story("usage", "no_usage")
async def counts_as_told(peer: Peer, _: DemoServer) -> None:
    forced = await peer.ask("demo: tokens=2 delay_ms=0 usage")
    assert forced.events[-1]["usage"]["completion_tokens"] == 2
    options = {"include_usage": True}
    kept = await peer.ask("demo: tokens=2 delay_ms=0 no_usage", stream_options=options)
    assert not any("usage" in event for event in kept.events)


@story("status", "code", "message", "retry_after")
async def fails_with_a_status(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask('demo: status=429 retry_after=7 code=slow_down message="Not now."')
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.json == {
        "error": {"message": "Not now.", "type": "requests", "param": None, "code": "slow_down"}
    }
    odd = await peer.ask("demo: status=200")
    assert (odd.status, list(odd.json)) == (200, ["error"])


@story("error_after")
async def fails_in_the_middle(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask("demo: tokens=9 delay_ms=0 error_after=3 status=503")
    assert answer.status == 200
    assert answer.events[-1]["error"]["code"] == "overloaded"
    assert answer.body.count(b'"content"') == 1 + 3
    assert (answer.data[-1] == "[DONE]", answer.ending) == (False, "whole")


@story("drop_after", "reset_after")
async def breaks_off(peer: Peer, server: DemoServer) -> None:
    dropped = await peer.ask("demo: tokens=9 delay_ms=0 drop_after=3")
    assert (len(dropped.tokens), dropped.ending) == (3, "closed")
    async with connected(server.url) as other:
        reset = await other.ask("demo: tokens=9 delay_ms=0 reset_after=3")
    assert (len(reset.tokens), reset.ending) == (3, "reset")
    assert server.journal.counts[EventKind.CLOSED_BY_CLIENT] == 0


@story("reset_at")
async def breaks_off_at_a_byte(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask("demo: tokens=9 delay_ms=0 reset_at=500")
    assert (len(answer.body), answer.ending) == (500, "reset")


@story("hang_after", "hang")
async def hangs(peer: Peer, server: DemoServer) -> None:
    await peer.send(request(asking("demo: tokens=9 delay_ms=0 hang_after=3")))
    await peer.saw(b" come")
    async with connected(server.url) as other:
        await other.send(request(asking("demo: hang")))
        await server.journal.until(lambda: server.journal.counts[EventKind.BROKE] == 2)
        with anyio.move_on_after(0.02) as silent:
            await other.stream.receive()
        assert silent.cancelled_caught
    await left(server)


@story("drop", "reset")
async def breaks_off_at_once(peer: Peer, server: DemoServer) -> None:
    assert (await peer.ask("demo: drop")).ending == "closed"
    async with connected(server.url) as other:
        assert (await other.ask("demo: reset")).ending == "reset"


@story("no_done", "two_done", "after_done")
async def ends_oddly(peer: Peer, _: DemoServer) -> None:
    none = await peer.ask("demo: tokens=1 no_done")
    assert none.data.count("[DONE]") == 0
    two = await peer.ask("demo: tokens=1 two_done")
    assert two.data[-2:] == ["[DONE]", "[DONE]"]
    more = await peer.ask("demo: tokens=1 after_done=2 delay_ms=0")
    assert (more.data[-3], len(more.tokens)) == ("[DONE]", 3)


@story("split")
async def writes_small_pieces(peer: Peer, _: DemoServer) -> None:
    whole = await peer.ask('demo: say="héé ☃" tokens=3 delay_ms=0')
    pieces = await peer.ask('demo: say="héé ☃" tokens=3 delay_ms=0 split=7')
    assert {len(chunk) for chunk in pieces.chunks[:-1]} == {7}
    assert pieces.tokens == whole.tokens


@story("crlf", "cr", "bom")
async def writes_other_lines(peer: Peer, _: DemoServer) -> None:
    crlf = await peer.ask("demo: tokens=1 crlf")
    assert crlf.body.endswith(b"data: [DONE]\r\n\r\n")
    assert crlf.body.count(b"\n") == crlf.body.count(b"\r\n")
    cr = await peer.ask("demo: tokens=1 cr bom")
    assert cr.body.startswith(b"\xef\xbb\xbfdata: {")
    assert (b"\n" in cr.body, cr.body.endswith(b"\r\r")) == (False, True)


@story("gzip")
async def compresses(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask("demo: tokens=3 delay_ms=5 gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).endswith(b"data: [DONE]\n\n")
    first = zlib.decompressobj(wbits=31).decompress(answer.chunks[0])
    assert first.endswith(b"\n\n")
    whole = await peer.ask("demo: tokens=3 gzip", stream=False)
    assert b'"chat.completion"' in gzip.decompress(whole.body)


@story("raw")
async def writes_any_bytes(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask('demo: say="a b" delay_ms=0 raw=": \\u00ff\\n\\n"@1')
    before, after = answer.body.split(b": \xff\n\n")
    assert (b'"a"' in before, b'" b"' in after) == (True, True)


@story("content_type", "header")
async def says_other_headers(peer: Peer, _: DemoServer) -> None:
    answer = await peer.ask('demo: tokens=1 content_type=text/html header="Set-Cookie: a=b"')
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["set-cookie"] == "a=b"


async def left(server: DemoServer) -> None:
    """Wait until the server has noticed that a client left."""
    with anyio.fail_after(5):
        await server.journal.until(lambda: server.journal.counts[EventKind.CLOSED_BY_CLIENT] == 1)
