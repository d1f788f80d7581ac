"""Who is next to change something, and who wants to know that it changed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

import anyio

Unsubscribe = Callable[[], None]


class KeyLocks:
    """Lets those of this process who change the same thing go one after another, in order."""

    def __init__(self) -> None:
        # Whose turn it is waits for nobody, mostly; the line is made for the first who does.
        self._lines: dict[Hashable, deque[anyio.Event] | None] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def try_acquire(self, thing: Hashable) -> bool:
        """Take one's turn if nobody else has it now."""
        if thing in self._lines:
            return False
        self._lines[thing] = None
        return True

    async def acquire(self, thing: Hashable) -> None:
        """Wait for one's turn; whoever has had it gives it back."""
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
            # Whoever leaves the line gives back a turn that was already theirs.
            if called.is_set():
                self.release(thing)
            else:
                line.remove(called)
            raise

    def release(self, thing: Hashable) -> None:
        """Let the next one have the turn."""
        line = self._lines[thing]
        if line:
            line.popleft().set()
        else:
            del self._lines[thing]


class Watch:
    """One who wants to know that a thing changed; called, that is over.

    There may be thousands, each for as long as an answer is held: it takes a fifth of a closure.
    """

    __slots__ = ("_thing", "_watchers", "callback")

    def __init__(self, watchers: Watchers, thing: Hashable, callback: Callable[[], None]) -> None:
        self._watchers = watchers
        self._thing = thing
        self.callback = callback

    def __call__(self) -> None:
        """Watch no longer."""
        self._watchers.end(self._thing, self)


class Watchers:
    """Calls back those who want to know that something changed."""

    def __init__(self) -> None:
        # Nearly all things are watched by one: a tuple takes a third of a dictionary.
        self._watches: dict[Hashable, tuple[Watch, ...]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self, thing: Hashable, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; return what takes it back."""
        watch = Watch(self, thing, callback)
        self._watches[thing] = (*self._watches.get(thing, ()), watch)
        return watch

    def end(self, thing: Hashable, watch: Watch) -> None:
        """Take a callback back."""
        watches = self._watches.get(thing, ())
        left = () if watches == (watch,) else tuple(one for one in watches if one is not watch)
        if left:
            self._watches[thing] = left
        else:
            self._watches.pop(thing, None)

    def notify(self, thing: Hashable, by: Callable[[], None] | None = None) -> None:
        """Have all callbacks of a thing called soon; one that fails hurts only itself.

        Whoever changed it, and watches it, knows already and is not called if that is said.
        """
        watches = self._watches.get(thing)
        # A single watch is that of whoever says so; of thousands at once none is looked at twice.
        if watches and (by is None or len(watches) > 1):
            loop = asyncio.get_running_loop()
            for watch in watches:
                if watch.callback != by:
                    loop.call_soon(watch.callback)
