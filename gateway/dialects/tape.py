"""The tape: what a turn sent, kept until the verdict, within a bound."""

from __future__ import annotations


class Tape:
    """Recorded bytes of one turn; past its limit it forgets everything and says so."""

    __slots__ = ("_limit", "_size", "batches", "whole")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self.batches: list[bytes] = []
        self.whole = True

    def record(self, batch: bytes) -> None:
        """Keep what was sent."""
        self._size += len(batch)
        if self._size <= self._limit:
            self.batches.append(batch)
        elif self.whole:
            self.whole = False
            self.batches.clear()

    def contains(self, needle: bytes) -> bool:
        """Whether a recorded piece holds this; a filter, to be judged by parsing."""
        return any(needle in batch for batch in self.batches)
