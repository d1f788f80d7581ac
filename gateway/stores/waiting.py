"""Who is next to change something, and who wants to know that it changed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

import anyio

Unsubscribe = Callable[[], None]


class Turns:
    """Lets those of this process who change the same thing go one after another, in order."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[anyio.Event]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    async def take(self, thing: Hashable) -> None:
        """Wait for one's turn; whoever has had it gives it back."""
        line = self._lines.get(thing)
        if line is None:
            self._lines[thing] = deque()
            return
        called = anyio.Event()
        line.append(called)
        try:
            await called.wait()
        except BaseException:
            # Whoever leaves the line gives back a turn that was already theirs.
            if called.is_set():
                self.give(thing)
            else:
                line.remove(called)
            raise

    def give(self, thing: Hashable) -> None:
        """Let the next one have the turn."""
        line = self._lines[thing]
        if line:
            line.popleft().set()
        else:
            del self._lines[thing]


class Watchers:
    """Calls back those who want to know that something changed."""

    def __init__(self) -> None:
        self._callbacks: dict[Hashable, dict[object, Callable[[], None]]] = {}

    def watch(self, thing: Hashable, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; return what takes it back."""
        ticket = object()
        self._callbacks.setdefault(thing, {})[ticket] = callback

        def unsubscribe() -> None:
            callbacks = self._callbacks.get(thing, {})
            callbacks.pop(ticket, None)
            if not callbacks:
                self._callbacks.pop(thing, None)

        return unsubscribe

    def changed(self, thing: Hashable) -> None:
        """Have all callbacks of a thing called soon; one that fails hurts only itself."""
        callbacks = self._callbacks.get(thing)
        if callbacks:
            loop = asyncio.get_running_loop()
            for callback in callbacks.values():
                loop.call_soon(callback)
