"""Listens to an answer that no client waits for: what was said, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gateway.dialects.canonical import Failed
from gateway.dialects.events import Json, read_object
from gateway.dialects.translate.errors import read_body, read_failure
from gateway.errors import Headers
from gateway.exchange.additions import Addition, AnsweredTurn
from gateway.exchange.model import TurnEnd
from gateway.jobs.run_services import Ended
from gateway.wire.sse import data_of, split

# As which events streams of the three dialects end that failed.
FAILURES = ("error", "response.failed")
NOBODY = "The model called a tool that only a client could run, and no client is there."
CUT_SHORT = "The model did not come to an end after what its tools returned."


class CollectingClient:
    """The client and the witness of one exchange: it never leaves, and shows nobody anything."""

    # To the driver the answer has always begun: what fails is said in the stream.
    started = True
    scope: anyio.CancelScope | None = None
    # What it is shown is taken before more is read.
    blocked = False
    last = 0.0
    blocked_since: float | None = None

    def __init__(self) -> None:
        self.give_up: Callable[[], None] = _nothing
        self._texts: list[str] = []
        self._failure: Failed | None = None
        self._strange = False
        self._open = True

    def __repr__(self) -> str:
        return f"<CollectingClient {len(self._texts)} turns, {'open' if self._open else 'whole'}>"

    # What the driver shows.

    def rest(self) -> None:
        """Have nothing to let go of."""

    def send_heartbeat_now(self) -> bool:
        """Need no heartbeat."""
        return True

    async def send_heartbeat(self) -> None:
        """Need no heartbeat."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Never leave."""
        return _nothing

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Prepare nothing."""

    async def frames(self, frames: bytes) -> None:
        """Hear the turns when they have ended, not as they come."""

    async def drain(self) -> None:
        """Never have to be waited for."""

    async def end(self, frames: bytes) -> None:
        """Hear the last frames, which tell of a failure if there is one."""
        for frame in split(frames):
            data = data_of(frame)
            event = read_object(data) if data is not None else None
            if event is not None and _fails(event):
                self._failure = read_failure(event)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Hear a refusal."""
        self._failure = read_body(body, status)

    # What the driver tells.

    def told(self, additions: tuple[Addition, ...]) -> None:
        """Hear what the model has to answer next."""
        if any(not isinstance(addition, AnsweredTurn) for addition in additions):
            self._open = True

    def answered(self, text: str, end: TurnEnd) -> None:
        """Hear what a turn said, and whether it leaves something open."""
        if text.strip():
            self._texts.append(text)
        self._strange = end.client_calls
        self._open = bool(end.server_calls)

    def ended(self) -> Ended:
        """Say how it all ended."""
        text = "\n\n".join(self._texts)
        if self._failure is not None:
            return Ended("error", text, self._failure.message)
        if self._strange:
            return Ended("error", text, NOBODY)
        return Ended("error", text, CUT_SHORT) if self._open else Ended("ok", text)


def _fails(event: Json) -> bool:
    return event.get("type") in FAILURES or (bool(event.get("error")) and "choices" not in event)


def _nothing() -> None:
    return None
