"""Counts whole SSE frames in bytes that arrive in any pieces."""

from __future__ import annotations

from bench.dialects import CHAT

END = b"\n\n"


class FrameCounter:
    """Counts frame ends without parsing, and remembers how the stream ended."""

    __slots__ = ("_ends_with", "_half_ended", "_last", "_tail", "frames")

    def __init__(self, last: bytes = CHAT.last) -> None:
        self.frames = 0
        self._last = END + last
        self._tail = END
        self._half_ended = False
        self._ends_with = -1

    def feed(self, data: bytes) -> None:
        """Count the frames that end in these bytes."""
        window = self._tail + data
        self._tail = window[-len(self._last) :]
        if self._half_ended:
            data = b"\n" + data
        self.frames += data.count(END)
        self._half_ended = (len(data) - len(data.rstrip(b"\n"))) % 2 == 1
        if (at := window.rfind(self._last)) >= 0:
            self._ends_with = self.frames - window.count(END, at + len(END)) + 1

    @property
    def done(self) -> bool:
        """Whether the last frame so far is the one that ends a complete stream."""
        return self.frames == self._ends_with and self._tail.endswith(END)
