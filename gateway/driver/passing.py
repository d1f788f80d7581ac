"""Turns of upstreams that speak another dialect than the client: translated as they come."""

from __future__ import annotations

from gateway.dialects.base import Passage
from gateway.errors import Headers
from gateway.upstream.base import Turn


class TranslatedTurn:
    """One upstream answer, read in the client's dialect."""

    __slots__ = ("_passage", "_turn", "headers")

    def __init__(self, turn: Turn, passage: Passage) -> None:
        self._turn = turn
        self._passage: Passage | None = passage
        self.headers: Headers = turn.headers

    def __aiter__(self) -> TranslatedTurn:
        return self

    async def __anext__(self) -> bytes:
        while self._passage is not None:
            try:
                said = self._passage.feed(await self._turn.__anext__())
            except StopAsyncIteration:
                passage, self._passage = self._passage, None
                said = passage.close()
            if said:
                return said
        raise StopAsyncIteration

    async def release(self) -> None:
        """Give the connection back."""
        await self._turn.release()

    async def aclose(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        await self._turn.aclose()
