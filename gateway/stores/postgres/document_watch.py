"""Who waits for changes of documents, by this instance or by others.

A change here calls the watchers at once, one elsewhere by a hint. Hints may be lost; so when the
listener was cut off, and every `poll_ms`, the revisions of all watched documents are compared with
those that were seen last. A document that differs counts as changed, as if a hint had come.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol, cast

import anyio

from gateway.stores.documents import DocumentKey, Stored, StoreUnavailable
from gateway.stores.hints import REMINDERS, STATE, SessionHints, digest_session
from gateway.stores.postgres.database import Database
from gateway.stores.waiting import Unsubscribe, Watchers, join_both

LETTERS = {"clock": REMINDERS, "session": STATE}
COMPARED_AT_ONCE = 5_000
REVISIONS = """SELECT d.kind, d.owner, d.session, d.revision
    FROM unnest($1::text[], $2::text[], $3::text[]) w(kind, owner, session)
    CROSS JOIN LATERAL (SELECT * FROM @documents d WHERE d.owner = w.owner
        AND d.session = w.session AND d.kind = w.kind OFFSET 0) d"""


class Recall(Protocol):
    """Knows what documents were when they were seen last."""

    def get(self, key: DocumentKey) -> Stored | None:
        """Return what a document was, if that is known."""


class DocumentWatch:
    """Calls who watches a document after each change."""

    def __init__(self, database: Database, hints: SessionHints, memory: Recall) -> None:
        self._database = database
        self._hints = hints
        self._memory = memory
        self._watchers = Watchers()
        self._is_due = anyio.Event()
        self._root: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<DocumentWatch of {len(self._watchers)} documents>"

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of this key."""
        here = self._watchers.watch(key, callback)
        letter = LETTERS.get(key.kind)
        if letter is None:
            return here
        return join_both(here, self._hints.watch_hints(letter, key[1:], callback))

    def notify(self, key: DocumentKey) -> None:
        """Call those who watch a document that this instance changed."""
        self._watchers.notify(key)

    def start(self, poll_ms: Callable[[], int]) -> None:
        """Compare revisions from now on, so often."""
        # Not a child of the caller, whose scopes may end before the store does.
        self._root = asyncio.get_running_loop().create_task(self._compare_forever(poll_ms))

    async def aclose(self) -> None:
        """Compare no more."""
        if self._root is not None:
            self._root.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._root])

    def compare_soon(self) -> None:
        """Compare at once: hints may have been lost."""
        self._is_due.set()

    async def compare(self) -> None:
        """Compare the revisions of all watched documents; tell of those that differ."""
        watched = cast(list[DocumentKey], self._watchers.list_things())
        for keys in _cut(watched, COMPARED_AT_ONCE):
            kinds, owners, sessions = zip(*keys, strict=True)
            rows = await self._database.ask(REVISIONS, list(kinds), list(owners), list(sessions))
            found = {DocumentKey(*row[:3]): row["revision"] for row in rows}
            for key in keys:
                seen = self._memory.get(key)
                if found.get(key, 0) != (seen.revision if seen is not None else 0):
                    self._tell(key)

    def _tell(self, key: DocumentKey) -> None:
        if (letter := LETTERS.get(key.kind)) is not None:
            # What is remembered of the session counts no more.
            self._hints.hear(letter, digest_session(key[1:]))
        else:
            self.notify(key)

    async def _compare_forever(self, poll_ms: Callable[[], int]) -> NoReturn:
        while True:
            # With jitter, so that instances do not ask at the same moment.
            with anyio.move_on_after(poll_ms() / 1000 * random.uniform(0.75, 1.0)):
                await self._is_due.wait()
            self._is_due = anyio.Event()
            with suppress(StoreUnavailable):
                await self.compare()


def _cut(keys: Sequence[DocumentKey], size: int) -> Iterator[Sequence[DocumentKey]]:
    for begin in range(0, len(keys), size):
        yield keys[begin : begin + size]
