"""The ASGI answer of a model endpoint: a late start line, whole frames, heartbeats between them.

On our own server it goes the direct way of `RequestCycle` where that is open, and by ASGI's `send`
where it is not, or on any other server. The client cannot tell which: the bytes are the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from gateway.errors import Headers
from gateway.wire.http_server.request_cycle import RequestCycle

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Called at the end of every exchange: a builtin does nothing without a frame of Python.
_NOTHING: Callable[[], object] = tuple


class ClientResponse:
    """What the client sees of one exchange.

    The start line waits until there is something to show, so that status and fail-over stay clean.
    Each call sends whole frames in one message: a heartbeat can never fall inside one.
    """

    __slots__ = (
        "_beat_blocked",
        "_blocked_since",
        "_direct",
        "_fixed",
        "_heartbeat",
        "_receive",
        "_send",
        "_stream_headers",
        "blocked",
        "ended",
        "give_up",
        "last",
        "started",
    )

    def __init__(
        self,
        receive: Receive,
        send: Send,
        headers: Headers = (),
        direct: RequestCycle | None = None,
    ) -> None:
        self._receive = receive
        self._direct = direct
        self._send = send
        self._fixed = headers
        self._heartbeat: Callable[[], bytes] | None = None
        self._stream_headers: Headers | None = None
        self.give_up: Callable[[], None] = _ignore
        self.blocked = False
        """Whether the client must be waited for before more is brought for it."""
        self._beat_blocked = False
        self._blocked_since: float | None = None
        self.last = time.monotonic()
        self.started = False
        self.ended = False

    @property
    def blocked_since(self) -> float | None:
        """Since when the client has taken nothing, if it must be waited for."""
        if self._blocked_since is None or self._direct is None:
            return self._blocked_since
        # Our own server sees whether somebody slow reads on.
        return max(self._blocked_since, self._direct.stalled_since or 0.0)

    @property
    def scope(self) -> anyio.CancelScope | None:
        """What cancels whoever answers, if there is such a thing already."""
        return None if self._direct is None else self._direct.cancel_scope

    def also(self, headers: Headers) -> None:
        """Put more headers on the answer, whatever it will be."""
        self._fixed += headers

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching.

        Our own server tells; of any other it has to be asked. For that a bare task is enough, and
        costs a fifth of a task group: all it does is wait, and it does not outlive the exchange.
        """
        if self._direct is not None:
            self._direct.tell_when_gone(left)
            return _NOTHING
        watcher = asyncio.get_running_loop().create_task(self._listen_for_disconnect())
        watcher.add_done_callback(lambda done: None if done.cancelled() else left())
        return watcher.cancel

    async def _listen_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Prepare the start line of a stream; from now on a heartbeat may send it."""
        self._stream_headers = headers + self._fixed
        self._heartbeat = heartbeat
        self.last = time.monotonic()

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""
        if self.started:
            self._fixed = ()
        if self._direct is not None:
            self._direct.rest()

    async def frames(self, frames: bytes) -> None:
        """Show whole frames at once."""
        if not self.started:
            await self._begin(frames)
        if frames and self._direct is not None and self._direct.write_frames(frames):
            # Our own server takes frames at once, unless the client does not read.
            self.last = time.monotonic()
            self._blocked_since = None
            self._beat_blocked = False
            self.blocked = self._direct.blocked
        elif frames:
            self._beat_blocked = False
            self._blocked_since = self.last = time.monotonic()
            await self._send({"type": "http.response.body", "body": frames, "more_body": True})
            self._blocked_since = None

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if self._direct is not None:
            self._blocked_since = self.last
            await self._direct.drain()
            self._blocked_since = None
        self.blocked = False

    async def end(self, frames: bytes) -> None:
        """Show the last frames and end the stream."""
        if not self.started:
            await self._begin(frames)
        await self._finish(frames)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Show an answer of one piece."""
        length = (b"content-length", b"%d" % len(body))
        self.started = True
        headers = (*headers, *self._fixed, length)
        if self._direct is not None and self._direct.write_whole(status, headers, body):
            self.ended = True
            return
        await self._send(_start(status, headers))
        await self._finish(body)

    def send_heartbeat_now(self) -> bool:
        """Send a heartbeat if nothing has to be waited for; tell whether that is done with."""
        # The fast twin of `send_heartbeat`: no coroutine, no message, and no cancel scope around a
        # batch of them. With thousands of held answers it is most of what they cost.
        if self._heartbeat is None or self.ended:
            return True
        if self._direct is None or not self.started or self._blocked_since is not None:
            return False
        beat = self._heartbeat()
        if beat and not self._direct.write_frames(beat):
            return False
        if beat:
            self.last = time.monotonic()
        return True

    async def send_heartbeat(self) -> None:
        """Send a heartbeat, if the stream is one that can take it now."""
        if self._heartbeat is None or self.ended:
            return
        if self._blocked_since is not None and not self._beat_blocked:
            return
        beat = self._heartbeat()
        if beat:
            self._beat_blocked = True
            self._blocked_since = self._blocked_since or time.monotonic()
            if not self.started:
                await self._begin(beat)
            await self._send({"type": "http.response.body", "body": beat, "more_body": True})
            self.last = time.monotonic()
            self._blocked_since = None
            self._beat_blocked = False

    async def _begin(self, frames: bytes) -> None:
        """Send the start line, or have it sent with these frames."""
        headers, direct = self._stream_headers, self._direct
        assert headers is not None
        self.started = True
        # Alone, the start line is sent by the loop's next turn, unless frames come before.
        if not (frames and direct is not None and direct.start_stream(headers)):
            try:
                await self._send(_start(200, headers))
            except BaseException:
                # A heartbeat that could not be sent must not count as the start line.
                self.started = False
                raise
        self._stream_headers = None

    async def _finish(self, body: bytes) -> None:
        self.ended = True
        self._blocked_since = time.monotonic()
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
        self._blocked_since = None


def _ignore() -> None:
    return None


def _start(status: int, headers: Headers) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}
