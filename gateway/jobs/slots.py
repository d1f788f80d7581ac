"""How many runs may go on at the same time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio


class Slots:
    """So many places, in turn; `freed` is called whenever one was used and is free again."""

    def __init__(self, most: int, freed: Callable[[], None]) -> None:
        self._free = anyio.Semaphore(most)
        self._freed = freed
        self.most = most

    def __repr__(self) -> str:
        return f"<Slots {self.taken} of {self.most} taken>"

    @property
    def taken(self) -> int:
        """How many are taken."""
        return self.most - self._free.value

    def take_now(self) -> bool:
        """Take one if there is one."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            return False
        return True

    async def take(self) -> None:
        """Take one as soon as there is one."""
        await self._free.acquire()

    def give(self) -> None:
        """Leave one to whoever waits."""
        self._free.release()
        self._freed()

    def give_back(self) -> None:
        """Leave one that was not used."""
        self._free.release()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Have one for a while."""
        await self.take()
        try:
            yield
        finally:
            self.give()
