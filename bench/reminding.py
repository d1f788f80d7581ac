"""The upstream of the holds: a model that sets a reminder when asked to, and counts follow-ups.

What it is asked tells what it answers: a wish is a call of the clock, its result a promise, a due
reminder an announcement after a while of thinking, and everything else a greeting. How many
announcements were under way at once is what `/counts` is for.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from typing import cast

import httptools
import msgspec
import uvloop

WISH = re.compile(rb"Remind me at ([0-9T:.-]+Z)")
DUE = b"[Clock Reminder]: "
RESULT = b'"role":"tool"'
# A fast model's. At no time at all the follow-ups would be all that the gateway does.
THINKING_S = 0.2

PROMISE, ANNOUNCEMENT, GREETING = "I will remind you.", "It is time.", "Good day to you."

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
Delta = dict[str, object]


class Counts(msgspec.Struct):
    """What the model was asked: wishes, announcements, and how many of these at once."""

    wishes: int = 0
    follow_ups: int = 0
    under_way: int = 0
    most_at_once: int = 0

    def begin(self) -> None:
        """Count an announcement that begins."""
        self.follow_ups += 1
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)

    def end(self) -> None:
        """Count it as over."""
        self.under_way -= 1


def frame(delta: Delta, finish: str | None = None) -> bytes:
    """Write one chunk of an answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000}
    whole = {**envelope, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(whole) + b"\n\n"


def stream(deltas: Sequence[Delta], finish: str) -> bytes:
    """Write a whole answer, each event a chunk of its own."""
    events = [frame({"role": "assistant", "content": ""}), *map(frame, deltas)]
    events += [frame({}, finish), b"data: [DONE]\n\n"]
    return HEAD + b"".join([b"%x\r\n%b\r\n" % (len(e), e) for e in events]) + b"0\r\n\r\n"


def spoken(text: str) -> bytes:
    """Write an answer that says something, word by word."""
    return stream([{"content": word + " "} for word in text.split()], "stop")


def scheduling(due_at: str) -> bytes:
    """Write an answer that calls the clock."""
    item = {"dueAt": due_at, "task": "drink tea", "tool": "", "arguments": "{}"}
    arguments = {"action": "schedule", "items": [item], "taskId": ""}
    function = {"name": "clock", "arguments": msgspec.json.encode(arguments).decode()}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return stream([{"tool_calls": [call]}], "tool_calls")


PROMISES, ANNOUNCES, GREETS = map(spoken, (PROMISE, ANNOUNCEMENT, GREETING))


class Model(asyncio.Protocol):
    """One kept-alive connection on which request after request is answered."""

    def __init__(self, counts: Counts, thinking_s: float) -> None:
        self._counts = counts
        self._thinking_s = thinking_s
        self._url = b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        """Take the target (called by the parser)."""
        self._url = url

    def on_body(self, body: bytes) -> None:
        """Take a piece of the request (called by the parser)."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer (called by the parser)."""
        body = b"".join(self._body)
        self._body.clear()
        if self._url == b"/counts":
            counts = msgspec.json.encode(self._counts)
            self._transport.write(JSON_HEAD % len(counts) + counts)
        elif DUE in body:
            self._counts.begin()
            asyncio.get_running_loop().call_later(self._thinking_s, self._announce)
        elif RESULT in body:
            self._transport.write(PROMISES)
        elif wish := WISH.search(body):
            self._counts.wishes += 1
            self._transport.write(scheduling(wish[1].decode()))
        else:
            self._transport.write(GREETS)

    def _announce(self) -> None:
        self._counts.end()
        self._transport.write(ANNOUNCES)


async def serve(port: int, thinking_s: float) -> None:
    """Listen on loopback, say where, and answer until the process is ended."""
    counts = Counts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Model(counts, thinking_s), "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


def main(words: Sequence[str] | None = None) -> None:
    """Serve on the port that the words name."""
    parser = argparse.ArgumentParser(prog="python -m bench.reminding", description=serve.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--thinking-s", type=float, default=THINKING_S)
    options = parser.parse_args(words)
    uvloop.run(serve(options.port, options.thinking_s))


if __name__ == "__main__":
    main()
