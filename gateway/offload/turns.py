"""Places for large work, given to owners in turn: nobody gets all of them while others wait."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

import anyio


class FairQueue:
    """A fixed number of places; who waits gets one in the order of owners, not of requests.

    One owner has all places but one at the most, so that the next owner never waits for all of
    an owner's work. With a single place there is nothing to keep back.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._most = max(1, places - 1)
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[anyio.Event]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<FairQueue {self._free} free, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    async def acquire(self, owner: str) -> None:
        """Wait for a place; who is cancelled leaves the queue."""
        granted = anyio.Event()
        self._waiting.setdefault(owner, deque()).append(granted)
        self._grant()
        try:
            await granted.wait()
        except BaseException:
            if granted.is_set():
                self.release(owner)
            else:
                self._leave(owner, granted)
            raise

    def release(self, owner: str) -> None:
        """Give a place back."""
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._grant()

    def _grant(self) -> None:
        while self._free and (owner := self._next()) is not None:
            self._free -= 1
            self._running[owner] += 1
            waiting = self._waiting[owner]
            waiting.popleft().set()
            if waiting:
                # The others come first now.
                self._waiting.move_to_end(owner)
            else:
                del self._waiting[owner]

    def _next(self) -> str | None:
        return next((o for o in self._waiting if self._running[o] < self._most), None)

    def _leave(self, owner: str, granted: anyio.Event) -> None:
        waiting = self._waiting[owner]
        waiting.remove(granted)
        if not waiting:
            del self._waiting[owner]
