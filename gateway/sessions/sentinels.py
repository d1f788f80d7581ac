"""Requests by which agents have a conversation summed up."""

from __future__ import annotations

import msgspec

from gateway.dialects.base import Dialect


class Sentinels:
    """Beginnings of texts by which agents ask for a summary of the conversation."""

    def __init__(self, sentinels: tuple[str, ...]) -> None:
        self._starts = tuple(text.casefold() for text in sentinels)
        # The longest word of each tells nearly as much, and most of them have it in common.
        words = {max(start.split() or [""], key=len) for start in self._starts}
        self._needles = [msgspec.json.encode(word)[1:-1] for word in sorted(words)]
        # Other letters can be written in several ways, so that their bytes tell nothing.
        self._tells = all(start.isascii() for start in self._starts)

    def begin(self, dialect: Dialect, body: bytes) -> bool:
        """Whether one of them begins what the user said last, or what instructs the model."""
        if self._tells:
            lowered = body.lower()
            for needle in self._needles:
                if needle in lowered:
                    break
            else:
                return False
        texts = (*dialect.newest_user(body)[1], *dialect.system_texts(body))
        return any(text.lstrip().casefold().startswith(self._starts) for text in texts)
