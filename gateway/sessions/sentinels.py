"""Requests that are known by how their text begins: summaries and titles that agents ask for."""

from __future__ import annotations

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import Mark


class Sentinels:
    """Beginnings of texts that tell what a request is for.

    An agent asks for a summary of its conversation (compaction), or, without tools, for a title or
    the like (side call). Both are looked for in one pass over the body.
    """

    def __init__(self, compaction: tuple[str, ...], side_call: tuple[str, ...] = ()) -> None:
        self._compaction = tuple(text.casefold() for text in compaction)
        self._side_call = tuple(text.casefold() for text in side_call)
        starts = self._compaction + self._side_call
        # The longest word of each tells nearly as much, and most of them have it in common.
        words = {max(start.split() or [""], key=len) for start in starts}
        self._needles = [msgspec.json.encode(word)[1:-1] for word in sorted(words)]
        # Other letters can be written in several ways, so that their bytes tell nothing.
        self._tells = all(start.isascii() for start in starts)

    def find_mark(self, dialect: Dialect, body: bytes) -> Mark | None:
        """Return what begins what the user said last, or what instructs the model."""
        if self._tells:
            lowered = body.lower()
            for needle in self._needles:
                if needle in lowered:
                    break
            else:
                return None
        texts = (*dialect.newest_user(body)[1], *dialect.system_texts(body))
        begun = [text.lstrip().casefold() for text in texts]
        if any(text.startswith(self._compaction) for text in begun):
            return Mark.COMPACTION
        if any(text.startswith(self._side_call) for text in begun):
            return Mark.SIDE_CALL
        return None
