"""SIGHUP: somebody wants the configuration to be read again, or a terminal was closed.

By default the signal ends the process, so it is handled from the first moment to the last: one that
comes before the gateway can act is acted on later, and one that comes after that is ignored.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def _nothing() -> None:
    return None


class HangupSignal:
    """Takes SIGHUP for a process that must not end by it; where it is ignored, it stays so."""

    def __init__(self, has_terminal: bool) -> None:
        self.has_terminal = has_terminal
        """Whether the signal means that the terminal was closed."""
        self._act: Callable[[], object] = _nothing
        self._came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Act on the signal, or remember that it came."""
        self._came = True
        self._act()

    @contextmanager
    def acting(self, act: Callable[[], object]) -> Iterator[None]:
        """Act so on the signal, also on one that came before."""
        self._act = act
        if self._came:
            act()
        try:
            yield
        finally:
            self._act = _nothing

    def ignore(self) -> None:
        """Ignore the signal to the end of the process, which takes handlers away before it ends."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def take_hangup_signal() -> HangupSignal:
    """Return who takes SIGHUP in this process from now on."""
    handler = signal.getsignal(signal.SIGHUP)
    if isinstance(handler, HangupSignal):
        return handler
    taken = HangupSignal(os.isatty(0))
    if handler is not signal.SIG_IGN:
        # Under nohup it stays ignored.
        signal.signal(signal.SIGHUP, taken)
    return taken
