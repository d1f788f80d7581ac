"""The demo upstream as an ASGI application: read a request, decide the answer, send it in its time.

It runs on the gateway's own HTTP server, because a script may close or reset the connection.
"""

from __future__ import annotations

from itertools import count

import anyio
import anyio.lowlevel

from gateway.demo import chat, messages, responses
from gateway.demo.connection import DemoConnection
from gateway.demo.dialect import AnswerStamp, DialectModule, Fail, UnreadableRequest
from gateway.demo.journal import EventKind, ReceivedRequest
from gateway.demo.orders import Break
from gateway.demo.output import (
    Headers,
    Outputs,
    ResponseHead,
    answer,
    join_bytes,
    refuse,
    send_document,
)
from gateway.demo.replies import choose_orders
from gateway.wire.http_server.request_cycle import CYCLE, Scope
from gateway.wire.http_server.response import Receive, Send

MOST_BODY = 64 * 1024 * 1024
TOO_LONG = Fail(413, f"The body is longer than {MOST_BODY} bytes.")
CLOSE: Headers = (("connection", "close"),)

DIALECTS: dict[str, DialectModule] = {d.path: d for d in (chat, responses, messages)}

MODEL_CARD = b'{"id":"demo","object":"model","created":1767225600,"owned_by":"holdgate"}'
MODEL_LIST = b'{"object":"list","data":[' + MODEL_CARD + b"]}"
DOCUMENTS = {"/v1/models": MODEL_LIST, "/v1/models/demo": MODEL_CARD}


class DemoApp:
    """Answers each request as its script says."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, for as long as its client stays."""
        with anyio.CancelScope() as staying:
            scope["extensions"][CYCLE].tell_when_gone(staying.cancel)
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: DemoConnection = scope["state"]["connection"]
        headers = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"])
        body = await receive_body(dict(headers), receive)
        if body is None:
            await send_outputs(refuse(TOO_LONG, chat), CLOSE, connection, send)
            return
        target = b"?".join(filter(None, (scope["raw_path"], scope["query_string"])))
        connection.received = received = ReceivedRequest(
            number=next(self._numbers),
            connection=connection.number,
            method=scope["method"],
            target=target.decode("latin-1"),
            headers=headers,
            body=body,
        )
        connection.note(EventKind.REQUEST)
        stamp = AnswerStamp(received.number, int(received.events[0].at))
        outputs = respond(received.method, received.path, body, stamp)
        ident = (("x-request-id", f"req_demo{received.number:08d}"),)
        broke = await send_outputs(outputs, ident, connection, send)
        if broke is not None:
            await connection.break_off(broke)
        connection.note(EventKind.FINISHED)
        connection.received = None


async def receive_body(headers: dict[str, str], receive: Receive) -> bytes | None:
    """Read the whole body; None if it is too long."""
    if int(headers.get("content-length", 0)) > MOST_BODY:
        return None
    body, is_whole = bytearray(), False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Whoever waits for a client that left is cancelled.
            await anyio.sleep_forever()
        body += message["body"]
        if len(body) > MOST_BODY:
            return None
        is_whole = not message["more_body"]
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
    return answer(orders, dialect, request, stamp)


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
