"""Turns of upstreams that speak another dialect than the client: translated as they come."""

from __future__ import annotations

from gateway.dialects.translators import Translator
from gateway.errors import Headers
from gateway.wire.http_client.upstream import Turn


class TranslatedTurn:
    """One upstream answer, read in the client's dialect."""

    __slots__ = ("_first", "_translator", "_turn", "headers")

    def __init__(self, turn: Turn, translator: Translator, first: bytes = b"") -> None:
        self._turn = turn
        # What was read of it before.
        self._first = first
        self._translator: Translator | None = translator
        self.headers: Headers = turn.headers

    def __aiter__(self) -> TranslatedTurn:
        return self

    async def __anext__(self) -> bytes:
        while (translator := self._translator) is not None:
            data, is_over = await self._read(translator)
            if not data and is_over:
                # Only now: what was said is shown before the end of it is judged.
                self._translator = None
                data = translator.close()
            if data:
                return data
        raise StopAsyncIteration

    @property
    def over(self) -> bool:
        """Whether all of it was read."""
        return self._translator is None

    async def _read(self, translator: Translator) -> tuple[bytes, bool]:
        """Say what comes next, and whether that was all."""
        if self._first:
            first, self._first = self._first, b""
            return translator.feed(first), self._turn.over
        if self._turn.over:
            return b"", True
        try:
            data = translator.feed(await self._turn.__anext__())
        except StopAsyncIteration:
            return b"", True
        return data, self._turn.over

    def pause(self) -> None:
        """Read nothing ahead until more is asked for."""
        self._turn.pause()

    async def release(self) -> None:
        """Give the connection back."""
        await self._turn.release()

    async def aclose(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        await self._turn.aclose()
