"""Who is next to change something, and who wants to know that it changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import anyio

Unsubscribe = Callable[[], None]


class Turns:
    """Lets those of this process who change the same thing go one after another, in order."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, anyio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, thing: Hashable) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the block is left."""
        lock = self._locks.get(thing)
        if lock is None:
            lock = self._locks[thing] = anyio.Lock(fast_acquire=True)
        async with lock:
            yield


class Watchers:
    """Calls back those who want to know that something changed."""

    def __init__(self) -> None:
        self._callbacks: dict[Hashable, list[Callable[[], None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._callbacks.values()))

    def watch(self, thing: Hashable, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; return what takes it back."""
        self._callbacks.setdefault(thing, []).append(callback)

        def unsubscribe() -> None:
            callbacks = self._callbacks.get(thing, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._callbacks.pop(thing, None)

        return unsubscribe

    def changed(self, thing: Hashable) -> None:
        """Have all callbacks of a thing called soon; one that fails hurts only itself."""
        if thing in self._callbacks:
            loop = asyncio.get_running_loop()
            for callback in self._callbacks[thing]:
                loop.call_soon(callback)
