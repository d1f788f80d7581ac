"""The upstream of the bench: answers of the demo model, made once and then replayed.

The demo model reads each conversation anew, which takes longer than most gateways take to pass it
on. A gateway that mostly waits looks dear, because it is woken for every request alone. So the
answer to a script is kept as it was first given, and the upstream is never what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

from bench.player import Player
from gateway.demo.dialect import AnswerStamp
from gateway.demo.output import Output
from gateway.demo.server import respond

SCRIPT = re.compile(rb"demo: (?:\w+=\d+ ?)+")
STREAM = re.compile(rb'"stream": ?true')
USAGE = re.compile(rb'"include_usage": ?true')
STAMP = AnswerStamp(number=1, created=1_700_000_000)

TapeKey = tuple[str, bytes | None, bool, bool]


@dataclass(slots=True)
class Tapes:
    """Answers given so far, by what decides them: path, script, streamed or not, usage or not."""

    known: dict[TapeKey, tuple[Output, ...]] = field(default_factory=dict)

    def answer(self, path: str, body: bytes) -> tuple[Output, ...]:
        """Return the demo model's answer to this conversation, in the dialect of the path."""
        script = SCRIPT.search(body)
        wish = (path, script and script[0], bool(STREAM.search(body)), bool(USAGE.search(body)))
        if wish not in self.known:
            self.known[wish] = tuple(respond("POST", path, body, STAMP))
        return self.known[wish]


class Replay(asyncio.Protocol):
    """One kept-alive connection on which request after request is answered from tape."""

    def __init__(self, tapes: Tapes) -> None:
        self._tapes = tapes
        self._path = b""
        self._body: list[bytes] = []
        self._player: Player | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._player:
            self._player.stop()

    def pause_writing(self) -> None:
        if self._player:
            self._player.block()

    def resume_writing(self) -> None:
        if self._player:
            self._player.unblock()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_message_begin(self) -> None:
        """Forget what was asked before (called by the parser)."""
        self._path = b""

    def on_url(self, url: bytes) -> None:
        """Take a piece of the path (called by the parser)."""
        self._path += url

    def on_body(self, body: bytes) -> None:
        """Take a piece of the request (called by the parser)."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Start the answer (called by the parser)."""
        outputs = self._tapes.answer(self._path.decode(), b"".join(self._body))
        self._body.clear()
        self._player = Player(self._transport, iter(outputs), self._ended)
        self._player.play()

    def _ended(self) -> None:
        self._player = None


async def serve(port: int) -> None:
    """Listen on loopback, say where, and answer until the process is ended."""
    tapes = Tapes()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Replay(tapes), "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


def main(words: Sequence[str] | None = None) -> None:
    """Serve on the port that the words name."""
    parser = argparse.ArgumentParser(prog="python -m bench.upstream", description=serve.__doc__)
    parser.add_argument("--port", type=int, default=0)
    uvloop.run(serve(parser.parse_args(words).port))


if __name__ == "__main__":
    main()
