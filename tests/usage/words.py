"""Owners with limits, and a clock that can be moved: the words of the tests here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from gateway.clock.protocol import Clock
from gateway.clock.system import Host, SystemClock
from tests.gateway.client import Answer
from tests.gateway.wire import ask_of, chat
from tests.jobs.words import house, key, keys
from tests.run import Running
from tests.wire.fake import Story


class MovableClock(SystemClock):
    """The host's clock, moved ahead as a test wants it."""

    def __init__(self) -> None:
        self._ahead = 0.0
        super().__init__(
            Host(lambda: time.time() + self._ahead, lambda: time.monotonic() + self._ahead)
        )

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self._ahead += seconds


def limited(
    *stories: Story,
    clock: Clock | None = None,
    tables: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **limits: Any,
) -> AbstractAsyncContextManager[Running]:
    """Run a gateway for ann, who has these limits, for bob, who has none, and for an admin.

    `options` are more of `in_process`.
    """
    owners = keys("ann", "bob", "root", admin="root")
    owners[0] |= limits
    named = {"keys": owners, **(tables or {})}
    return house(*stories, clock=clock or MovableClock(), tables=named, **(options or {}))


async def ask(gate: Running, owner: str = "ann", *headers: str, **more: Any) -> Answer:
    """Ask for an answer as somebody."""
    return await gate.ask(chat(**more), key(owner), *headers)


async def start(gate: Running, owner: str = "ann", *headers: str, **more: Any) -> Any:
    """Begin to ask as somebody, and do not wait for the answer."""
    return await gate.send(ask_of(chat(**more), key(owner), *headers))
