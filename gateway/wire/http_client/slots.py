"""How many may ask one upstream at once, and in which order the others wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import httpx


class ConnectionSlots:
    """A number of places; who finds none waits in line, each for a limited time."""

    __slots__ = ("_closed", "_queue", "_size", "busy")

    def __init__(self, size: int) -> None:
        self.busy = 0
        self._size = size
        self._closed = False
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<ConnectionSlots {self.busy} of {self._size} busy, {len(self._queue)} waiting>"

    def grab(self) -> bool:
        """Take a place if there is one at once."""
        if self.busy >= self._size or self._closed:
            return False
        self.busy += 1
        return True

    async def wait(self, patience: float) -> None:
        """Take the next place in turn, or raise `PoolTimeout` after so many seconds."""
        if self._closed:
            raise _make_closed_error()
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._queue[place] = None
        alarm = loop.call_later(patience, _give_up, place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled() and place.exception() is None:
                # It came in the very moment its waiter was cancelled.
                self.free()
            raise
        finally:
            alarm.cancel()
            self._queue.pop(place, None)

    def free(self) -> None:
        """Leave a place: it goes straight to the first who waits, nobody can slip in between."""
        while self._queue:
            place, _ = self._queue.popitem(last=False)
            if not place.done():
                place.set_result(None)
                return
        self.busy -= 1

    def close(self) -> None:
        """Send away who waits or comes later."""
        self._closed = True
        while self._queue:
            place, _ = self._queue.popitem(last=False)
            if not place.done():
                place.set_exception(_make_closed_error())


def _give_up(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_exception(httpx.PoolTimeout("No connection became free in time."))


def _make_closed_error() -> httpx.ConnectError:
    return httpx.ConnectError("The upstream was closed.")
