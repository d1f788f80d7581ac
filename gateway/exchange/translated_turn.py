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
            data, self._first = self._first, b""
            if not data and not self.turn.over:
                data = await anext(self.turn, b"")
            shown = translator.feed(data) if data else b""
            if not shown and (not data or self.turn.over):
                # Only now: what was said is shown before the end of it is judged.
                self._translator = None
                shown = translator.close()
            if shown:
                return shown
        raise StopAsyncIteration

    @property
    def over(self) -> bool:
        """Whether all of it was read."""
        return self._translator is None
