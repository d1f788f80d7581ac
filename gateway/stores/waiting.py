"""Who is next to change something, and who wants to know that it changed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

import anyio

Unsubscribe = Callable[[], None]


class Turns:
    """Lets those of this process who change the same thing go one after another, in order."""

    def __init__(self) -> None:
        # Whose turn it is waits for nobody, mostly; the line is made for the first who does.
        self._lines: dict[Hashable, deque[anyio.Event] | None] = {}

    def __len__(self) -> int:
        return len(self._lines)

    async def take(self, thing: Hashable) -> None:
        """Wait for one's turn; whoever has had it gives it back."""
        if thing not in self._lines:
            self._lines[thing] = None
            return
        line = self._lines[thing]
        if line is None:
            line = self._lines[thing] = deque()
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


Watch = tuple[Callable[[], None]]


class Watchers:
    """Calls back those who want to know that something changed."""

    def __init__(self) -> None:
        # Nearly all things are watched by one: a pair of tuples takes a third of a dictionary.
        self._watches: dict[Hashable, tuple[Watch, ...]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self, thing: Hashable, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; return what takes it back."""
        watch = (callback,)
        self._watches[thing] = (*self._watches.get(thing, ()), watch)
        return partial(self._end, thing, watch)

    def _end(self, thing: Hashable, watch: Watch) -> None:
        left = tuple(one for one in self._watches.get(thing, ()) if one is not watch)
        if left:
            self._watches[thing] = left
        else:
            self._watches.pop(thing, None)

    def changed(self, thing: Hashable) -> None:
        """Have all callbacks of a thing called soon; one that fails hurts only itself."""
        watches = self._watches.get(thing)
        if watches:
            loop = asyncio.get_running_loop()
            for (callback,) in watches:
                loop.call_soon(callback)
