"""Turns of upstreams that speak another dialect than the client: translated as they come."""

from __future__ import annotations

from gateway.dialects.translators import Translator
from gateway.wire.http_client.upstream import Turn, WrappedTurn


class TranslatedTurn(WrappedTurn):
    """One upstream answer, read in the client's dialect."""

    __slots__ = ("_first", "_translator")

    def __init__(self, turn: Turn, translator: Translator, first: bytes = b"") -> None:
        super().__init__(turn)
        # What was read of it before.
        self._first = first
        self._translator: Translator | None = translator

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
            return translator.feed(first), self.turn.over
        if self.turn.over:
            return b"", True
        try:
            data = translator.feed(await self.turn.__anext__())
        except StopAsyncIteration:
            return b"", True
        return data, self.turn.over
