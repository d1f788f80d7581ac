"""Locks by key within one process, and watchers of changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

import anyio

Unsubscribe = Callable[[], None]


class KeyLocks:
    """Locks by key for the tasks of this process; waiters get a lock in order."""

    def __init__(self) -> None:
        # Mostly nobody waits: the queue is made for the first waiter.
        self._lines: dict[Hashable, deque[anyio.Event] | None] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def try_acquire(self, thing: Hashable) -> bool:
        """Take the lock without waiting; return whether it was free."""
        if thing in self._lines:
            return False
        self._lines[thing] = None
        return True

    async def acquire(self, thing: Hashable) -> None:
        """Wait for the lock; the caller must release it."""
        if self.try_acquire(thing):
            return
        line = self._lines[thing]
        if line is None:
            line = self._lines[thing] = deque()
        called = anyio.Event()
        line.append(called)
        try:
            await called.wait()
        except BaseException:
            # A cancelled waiter releases a lock that it already got.
            if called.is_set():
                self.release(thing)
            else:
                line.remove(called)
            raise

    def release(self, thing: Hashable) -> None:
        """Release the lock to the next waiter."""
        line = self._lines[thing]
        if line:
            line.popleft().set()
        else:
            del self._lines[thing]


class Watch:
    """One watch of a thing; calling it ends the watch.

    There may be thousands, one for each held answer: it takes a fifth of the memory of a closure.
    """

    __slots__ = ("_thing", "_watchers", "callback")

    def __init__(self, watchers: Watchers, thing: Hashable, callback: Callable[[], None]) -> None:
        self._watchers = watchers
        self._thing = thing
        self.callback = callback

    def __call__(self) -> None:
        """End the watch."""
        self._watchers.end(self._thing, self)


class Watchers:
    """Callbacks for changes, by the thing that changes."""

    def __init__(self) -> None:
        # Nearly all things have one watch: a tuple takes a third of the memory of a dictionary.
        self._watches: dict[Hashable, tuple[Watch, ...]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def list_things(self) -> list[Hashable]:
        """Return all that is watched."""
        return list(self._watches)

    def watch(self, thing: Hashable, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; return a function that removes it."""
        watch = Watch(self, thing, callback)
        self._watches[thing] = (*self._watches.get(thing, ()), watch)
        return watch

    def end(self, thing: Hashable, watch: Watch) -> None:
        """Remove a callback."""
        watches = self._watches.get(thing, ())
        left = () if watches == (watch,) else tuple(item for item in watches if item is not watch)
        if left:
            self._watches[thing] = left
        else:
            self._watches.pop(thing, None)

    def notify(self, thing: Hashable, by: Callable[[], None] | None = None) -> None:
        """Call all callbacks of a thing soon, except `by`; a failing one does not affect others.

        `by` is the callback of the caller, who knows of the change already.
        """
        watches = self._watches.get(thing)
        # With `by`, a single watch is the caller's own: the fast case of thousands at once.
        if watches and (by is None or len(watches) > 1):
            loop = asyncio.get_running_loop()
            for watch in watches:
                if watch.callback != by:
                    loop.call_soon(watch.callback)

    def notify_all(self) -> None:
        """Call all callbacks of all things soon."""
        for thing in tuple(self._watches):
            self.notify(thing)


def join_both(first: Unsubscribe, second: Unsubscribe) -> Unsubscribe:
    """Make one callback of two."""

    def both() -> None:
        first()
        second()

    return both
