"""Streams of events over HTTP: ended by our drain, and by readers who do not read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.lowlevel
from sse_starlette.sse import EventSourceResponse
from starlette.types import Scope

from gateway.wire.http_server.request_cycle import CYCLE

# A line alone, which ends no event: some readers take an empty line for one, once they saw an id.
HEARTBEAT = b": ping\n"
SHUTDOWN_SECONDS = 1.0
CLEAN_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class FeedTimes:
    """When a subscriber hears a heartbeat, and how long one may take nothing, in seconds."""

    heartbeat: float = 10.0
    slow_reader: float = 30.0


USUAL_TIMES = FeedTimes()


class EventStreamResponse(EventSourceResponse):
    """The library's answer, ended by our drain instead of by its own watch over the process."""

    def __init__(self, frames: AsyncGenerator[bytes], left: anyio.Event, times: FeedTimes) -> None:
        super().__init__(
            frames,
            headers={"cache-control": "no-cache, no-transform"},
            ping=times.heartbeat,
            # Bytes are sent as they are, though the type does not say so.
            ping_message_factory=cast(Any, lambda: HEARTBEAT),
            send_timeout=times.slow_reader,
            cleanup_timeout=CLEAN_UP_SECONDS,
        )
        # Whether the connection lasts is the server's to say.
        del self.headers["connection"]
        self._left = left

    async def _listen_for_exit_signal_with_grace(self) -> None:
        # The original would poll for as long as the process lives, and never hear our signal.
        # The frames end by themselves; this ends those that nobody reads.
        await self._left.wait()
        await anyio.sleep(SHUTDOWN_SECONDS)


async def cut_off(scope: Scope) -> None:
    """Close the connection of somebody who did not read on, so that the answer has no end."""
    cycle = scope.get("extensions", {}).get(CYCLE)
    if cycle is not None and not (cycle.ended or cycle.disconnected):
        cycle.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()
