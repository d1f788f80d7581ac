"""Counts whole SSE frames in bytes that arrive in any pieces."""

from __future__ import annotations

END = b"\n\n"
LAST_FRAME = b"data: [DONE]\n\n"


class FrameCounter:
    """Counts frame ends without parsing, and remembers how the stream ended."""

    __slots__ = ("_half_ended", "_tail", "frames")

    def __init__(self) -> None:
        self.frames = 0
        self._tail = b""
        self._half_ended = False

    def feed(self, data: bytes) -> None:
        """Count the frames that end in these bytes."""
        size = len(LAST_FRAME)
        self._tail = data[-size:] if len(data) >= size else (self._tail + data)[-size:]
        if self._half_ended:
            data = b"\n" + data
        self.frames += data.count(END)
        self._half_ended = (len(data) - len(data.rstrip(b"\n"))) % 2 == 1

    @property
    def done(self) -> bool:
        """Whether the last frame so far is the one that ends a complete stream."""
        return self._tail == LAST_FRAME
