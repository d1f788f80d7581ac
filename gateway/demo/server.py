"""The demo upstream as a server: start it, look at what it received, close it.

It is an ASGI application on the gateway's own HTTP server. A script may close or reset the
connection at any byte, and tests count connections, so both live on a connection of its own kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing, suppress
from itertools import count
from typing import cast

import anyio
import anyio.lowlevel
import uvicorn
from starlette.requests import ClientDisconnect, Request
from uvicorn.server import ServerState

from gateway.demo import chat, messages, responses
from gateway.demo.dialect import AnswerStamp, DialectModule, Fail, UnreadableRequest
from gateway.demo.journal import EventKind, Headers, ReceivedRequest, RequestJournal
from gateway.demo.orders import Break
from gateway.demo.output import (
    Outputs,
    ResponseHead,
    join_bytes,
    refuse,
    send_document,
    write_answer,
)
from gateway.demo.replies import choose_orders
from gateway.wire.http_server.connection import ServerConnection
from gateway.wire.http_server.limits import ConnectionLimits
from gateway.wire.http_server.request_cycle import CYCLE, Scope
from gateway.wire.http_server.response import Receive, Send
from gateway.wire.http_server.server import server_config
from gateway.wire.http_server.slow_readers import count_unread, reset

MOST_BODY = 64 * 1024 * 1024
TOO_LONG = Fail(413, f"The body is longer than {MOST_BODY} bytes.")
# Clients are not hurried: how they treat an upstream is what is tested.
DAY = 86_400.0
FLUSH_POLL = 0.001

DIALECTS: dict[str, DialectModule] = {d.path: d for d in (chat, responses, messages)}

MODEL_CARD = b'{"id":"demo","object":"model","created":1767225600,"owned_by":"holdgate"}'
MODEL_LIST = b'{"object":"list","data":[' + MODEL_CARD + b"]}"
DOCUMENTS = {"/v1/models": MODEL_LIST, "/v1/models/demo": MODEL_CARD}


class DemoServer:
    """A scripted model behind a real HTTP server; itself the application that is served."""

    def __init__(self, journal: RequestJournal | None = None) -> None:
        self.journal = journal or RequestJournal()
        self.url = ""
        self._config = server_config(self, DemoConnection, grace=1, lifespan="off")
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._connection_numbers = count(1)
        self._request_numbers = count(1)

    @property
    def requests(self) -> deque[ReceivedRequest]:
        """The requests received last, oldest first."""
        return self.journal.requests

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._state.connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, host, port, backlog=2048)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
        return bound

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._state.connections):
            cast(DemoConnection, connection).cut()
        await self._server.wait_closed()
        self._server = None

    def _connect(self) -> DemoConnection:
        number = next(self._connection_numbers)
        return DemoConnection(number, self.journal, self._config, self._state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, for as long as its client stays."""
        with anyio.CancelScope() as staying, suppress(ClientDisconnect):
            scope["extensions"][CYCLE].tell_when_gone(staying.cancel)
            await self._answer(Request(scope, receive), send)

    async def _answer(self, request: Request, send: Send) -> None:
        connection: DemoConnection = request.state.connection
        body = await receive_body(request)
        if body is None:
            close = (("connection", "close"),)
            await send_outputs(refuse(TOO_LONG, chat), close, connection, send)
            return
        target = b"?".join(filter(None, (request.scope["raw_path"], request.scope["query_string"])))
        connection.received = received = ReceivedRequest(
            number=next(self._request_numbers),
            connection=connection.number,
            method=request.method,
            target=target.decode("latin-1"),
            headers=tuple(request.headers.items()),
            body=body,
        )
        connection.note(EventKind.REQUEST)
        stamp = AnswerStamp(received.number, received.created)
        outputs = respond(received.method, received.path, body, stamp)
        ident = (("x-request-id", f"req_demo{received.number:08d}"),)
        broke = await send_outputs(outputs, ident, connection, send)
        if broke is not None:
            await connection.break_off(broke)
        connection.note(EventKind.FINISHED)
        connection.received = None


class DemoConnection(ServerConnection):
    """A connection whose events are noted, and that an answer may break off at any byte."""

    limits = ConnectionLimits(
        header_bytes=256 * 1024, receive_idle=DAY, receive_total=0, slow_reader=DAY
    )
    header_bytes = limits.header_bytes
    nap = keep_alive = DAY

    def __init__(
        self, number: int, journal: RequestJournal, config: uvicorn.Config, state: ServerState
    ) -> None:
        super().__init__(config, state, {"connection": self})
        self.number = number
        self.received: ReceivedRequest | None = None
        """The request that is answered now."""
        self._journal = journal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Meet the client."""
        super().connection_made(transport)
        self.note(EventKind.OPENED)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the client left, and whether it should have stayed."""
        if not self._closed and (self.received or self._is_receiving()):
            self.note(EventKind.CLOSED_BY_CLIENT)
        self.received = None
        self.note(EventKind.CLOSED)
        super().connection_lost(exc)

    def note(self, kind: EventKind) -> None:
        """Note something that happened here."""
        self._journal.note(kind, self.number, self.received)

    def cut(self) -> None:
        """End the connection, whatever it is doing."""
        self._closed = True
        self._transport.abort()

    async def break_off(self, how: Break) -> None:
        """Leave the answer as it is; the caller is cancelled when the connection is gone."""
        self.note(EventKind.BROKE)
        # A head that nothing followed is written in the next round of the loop.
        await anyio.lowlevel.checkpoint()
        if how.how == "close":
            self._closed = True
            self._transport.close()
        elif how.how == "reset":
            await self._reset()
        await anyio.sleep_forever()

    async def _reset(self) -> None:
        # A reset throws away what the client's host does not have yet, so wait until it has all.
        while not self.is_closing() and count_unread(self._transport):  # noqa: ASYNC110
            await anyio.sleep(FLUSH_POLL)
        if not self.is_closing():
            self._closed = True
            reset(self._transport)


async def receive_body(request: Request) -> bytes | None:
    """Read the whole body; None if it is too long."""
    if int(request.headers.get("content-length", 0)) > MOST_BODY:
        return None
    body = bytearray()
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > MOST_BODY:
                return None
    return bytes(body)


def respond(method: str, path: str, body: bytes, stamp: AnswerStamp) -> Outputs:
    """Answer one request: read it, decide what to say, and write that."""
    if path in DOCUMENTS and method in ("GET", "HEAD"):
        return send_document(200, DOCUMENTS[path])
    dialect = DIALECTS.get(path)
    if dialect is None:
        return refuse(Fail(404, f"Invalid URL ({method} {path})."), chat)
    if method != "POST":
        return refuse(Fail(405, f"Use POST on {path}."), dialect)
    try:
        request = dialect.read(body)
        orders = choose_orders(request.dialogue)
    except UnreadableRequest as refused:
        return refuse(refused.fail, dialect)
    return write_answer(orders, dialect, request, stamp)


async def send_outputs(
    outputs: Outputs, headers: Headers, connection: DemoConnection, send: Send
) -> Break | None:
    """Send each output in its time; return what breaks the answer off, if anything does."""
    due = 0.0
    for output in join_bytes(outputs):
        if isinstance(output, Break):
            return output
        if isinstance(output, ResponseHead):
            lines = [(n.encode(), v.encode()) for n, v in (*output.headers, *headers)]
            await send({"type": "http.response.start", "status": output.status, "headers": lines})
        elif isinstance(output, bytes):
            if connection.blocked:
                # Time lost to a client that does not read is not made up for.
                due = 0.0
            await send({"type": "http.response.body", "body": output, "more_body": True})
        elif output:
            # Counted from when the last wait should have ended, so that a slow moment is caught up.
            due = (due or anyio.current_time()) + output
            await anyio.sleep_until(due)
        else:
            await anyio.lowlevel.checkpoint()
    await send({"type": "http.response.body"})
    return None
