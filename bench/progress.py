"""A bar on a terminal while the bench runs; plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30


class Progress:
    """Says how far the run is and how long it may still take."""

    def __init__(self, steps: int, stream: TextIO = sys.stderr) -> None:
        self._steps = steps
        self._stream = stream
        self._done = 0
        self._began = time.monotonic()

    def start(self, what: str) -> None:
        """Show the step that begins now."""
        line = bar(self._done, self._steps, self._left_s())
        if self._stream.isatty():
            print(f"\r\x1b[K{line}  {what}", end="", file=self._stream, flush=True)
        else:
            print(f"{self._done + 1}/{self._steps} {what}", file=self._stream, flush=True)
        self._done += 1

    def close(self) -> None:
        """Leave the terminal's line empty."""
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _left_s(self) -> float | None:
        if not self._done:
            return None
        return (time.monotonic() - self._began) / self._done * (self._steps - self._done)


def bar(done: int, steps: int, left_s: float | None) -> str:
    """Draw the bar: what is done, out of how many steps, and the time left."""
    filled = WIDTH * done // max(steps, 1)
    left = "" if left_s is None else f", {left_s:.0f} s left"
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{steps}{left}"
