"""Hints between instances, as messages of PostgreSQL: what is gathered, and how it is written.

A message is the sender, then hints of a letter and a digest each, all of fixed length. It is sent
by the connection that listens (listener.py), never in a transaction that writes: such commits would
wait for each other in the whole server.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import anyio

from gateway.stores.bus import Heard, Lost
from gateway.stores.postgres.instances import make_instance_id

LONGEST_MESSAGE = 7_900
SENDER = 12
HINT = 13
HINTS_A_MESSAGE = (LONGEST_MESSAGE - SENDER) // HINT
# While the database is away, more than this is not kept: the others poll.
MOST_WAITING = 20_000


class PostgresBus:
    """Gathers hints for the other instances, and hands theirs on."""

    is_shared = True

    def __init__(self) -> None:
        self._sender = make_instance_id()
        # As keys, so that a hint that waits already is not sent twice.
        self._waiting: dict[str, None] = {}
        self._has_waiting = anyio.Event()
        self.is_deaf = False
        """Whether what other instances tell does not arrive now; the listener says so."""
        self._heard: list[Heard] = []
        self._lost: list[Lost] = []
        self.on_own: Callable[[], None] = lambda: None
        """Called when a message of its own arrives: it is not deaf."""

    def __repr__(self) -> str:
        return f"<PostgresBus {len(self._waiting)} waiting>"

    def tell(self, letter: str, digest: str) -> None:
        """Tell the other instances soon."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting[letter + digest] = None
            self._has_waiting.set()

    def on_heard(self, callback: Heard) -> None:
        """Call this with the letter and digest of each hint of another instance."""
        self._heard.append(callback)

    def on_lost(self, callback: Lost) -> None:
        """Call this when hints may have been missed."""
        self._lost.append(callback)

    # For the connection that listens.

    @property
    def has_waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._waiting)

    async def wait(self) -> None:
        """Wait until there is something to send, or the wait is to end."""
        if not self._waiting:
            await self._has_waiting.wait()
        self._has_waiting = anyio.Event()

    def end_wait(self) -> None:
        """Let `wait` return."""
        self._has_waiting.set()

    def take_echo(self) -> str:
        """Return a message without hints, to be heard by the sender."""
        return self._sender

    def take_message(self) -> str:
        """Return the next message, and forget its hints."""
        hints = list(islice(self._waiting, HINTS_A_MESSAGE))
        for hint in hints:
            del self._waiting[hint]
        return self._sender + "".join(hints)

    def hear(self, message: str) -> None:
        """Read a message and hand its hints on."""
        if message[:SENDER] == self._sender:
            self.on_own()
            return
        for begin in range(SENDER, len(message) - HINT + 1, HINT):
            for callback in self._heard:
                callback(message[begin], message[begin + 1 : begin + HINT])

    def lose(self) -> None:
        """Say that hints may have been missed."""
        for callback in self._lost:
            callback()
