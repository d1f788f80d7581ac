"""A limit for what is kept of one answer while it is translated."""

from __future__ import annotations

from gateway.errors import UpstreamBroke


class ByteBudget:
    """How much of one answer may be kept in memory, by all who have to keep some of it."""

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def spend(self, size: int) -> None:
        """Take room for something that is kept."""
        self._left -= size
        if self._left < 0:
            raise UpstreamBroke(
                f"More than {self._size} bytes of the upstream's answer would have to be kept."
            )
