"""Answers that the client knows by another id than the upstream: which one that is.

The client sees the id of an answer's first turn; the upstream goes on from its last.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import NoReturn

import anyio
import msgspec

from gateway.stores.documents import (
    DocumentKey,
    Documents,
    Shape,
    StoreUnavailable,
    fetch,
    iterate_due,
    update,
)

KIND = "answer"
LONGEST_ID = 4096
KEPT_MS = 30 * 24 * 60 * 60 * 1000
Note = Callable[..., None]


class Known(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The id by which the upstream goes on from an answer, and until when it is kept."""

    upstream_id: str
    until_ms: int


SHAPE = Shape(
    KIND,
    1,
    Known("", 0),
    msgspec.to_builtins,
    partial(msgspec.convert, type=Known),
    lambda known: known.until_ms or None,
)


class AnswerIds:
    """Remembers which upstream answer stands behind the one a client saw."""

    def __init__(self, store: Documents, note: Note) -> None:
        self.store = store
        self._note = note

    async def remember(self, owner: str, seen: str, upstream_id: str) -> None:
        """Keep what an answer is called upstream; without a working store it cannot be."""
        known = Known(upstream_id, self.store.now_ms() + KEPT_MS)
        try:
            await update(self.store, DocumentKey(KIND, owner, seen), lambda _: known, SHAPE)
        except StoreUnavailable as error:
            self._note("answer_not_stored", owner=owner, why=error.message)

    async def upstream_id(self, owner: str, seen: str) -> str:
        """Return what an answer is called upstream: the same, if nothing else is known."""
        key = DocumentKey(KIND, owner, seen)
        # To look for a name takes time by its length, and a client may send one of megabytes.
        if len(seen) > LONGEST_ID:
            return seen
        entries = self.store.entries
        if entries is not None and not await entries.look_also([(owner, seen)]):
            return seen
        if self.store.absent(key):
            return seen
        try:
            return (await fetch(self.store, key, SHAPE)).upstream_id or seen
        except StoreUnavailable as error:
            self._note("answer_not_read", owner=owner, why=error.message)
            return seen

    async def run(self, tick_ms: int) -> NoReturn:
        """Forget what is too old, now and every tick; of those that share a store one does it."""
        while True:
            try:
                if await self.store.chores.take("answers", tick_ms):
                    await self.sweep()
            except StoreUnavailable as error:
                self._note("answers_not_swept", why=error.message)
            await anyio.sleep(tick_ms / 1000)

    async def sweep(self) -> None:
        """Forget what is too old."""
        async with aclosing(iterate_due(self.store, KIND, self.store.now_ms())) as found:
            async for keys in found:
                for key in keys:
                    await self.store.delete(key)
