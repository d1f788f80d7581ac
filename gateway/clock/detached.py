"""Blocking calls that may never return, in threads that nobody waits for.

Looking up a name can hang for as long as it likes and cannot be interrupted. So each call has a
thread of its own that does not keep the process from ending, and one that was given up goes on
alone: only one of each name at a time, so they cannot pile up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

import anyio

T = TypeVar("T")


class NotStarted(Exception):
    """The call cannot be made now."""


class Detached:
    """Makes blocking calls for one event loop."""

    def __init__(self) -> None:
        self._going: set[str] = set()

    async def call(self, name: str, work: Callable[[], T], limit_s: float) -> T:
        """Return or raise what `work` does; at the limit leave it alone and raise TimeoutError."""
        if name in self._going:
            raise NotStarted("the previous attempt has not ended yet")
        future: Future[T] = Future()
        # It cannot be cancelled from now on: whoever gives up leaves the call alone.
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 - the end of a thread: whoever waits hears of it
                self._going.discard(name)
                future.set_exception(error)
            else:
                self._going.discard(name)
                future.set_result(outcome)

        self._start(name, run)
        with anyio.fail_after(limit_s):
            return await asyncio.wrap_future(future)

    def _start(self, name: str, run: Callable[[], None]) -> None:
        self._going.add(name)
        try:
            Thread(target=run, name=f"holdgate-clock-{name}", daemon=True).start()
        except RuntimeError as error:
            self._going.discard(name)
            raise NotStarted("the host cannot start another thread") from error
