"""A store of documents in memory, for tests: it does everything except to survive a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from gateway.stores.chores import Chores, LoneChores
from gateway.stores.document_cache import DocumentIndex
from gateway.stores.documents import (
    Conflict,
    DocumentKey,
    Listed,
    OnQuarantine,
    SealedDocument,
    Sighting,
    Stored,
)
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import SessionHints
from gateway.stores.instance import Instance, LoneInstance
from gateway.stores.waiting import KeyLocks, Unsubscribe, Watchers


class Memory:
    """A store of documents that ends with its process."""

    def __init__(self, now_ms: Callable[[], int], on_quarantine: OnQuarantine) -> None:
        self.now_ms = now_ms
        self.key_locks = KeyLocks()
        self.hints = SessionHints()
        self.instance: Instance = LoneInstance(now_ms)
        self.chores: Chores = LoneChores()
        self.announcements = None
        self.entries: SessionEntries | None = None
        self._on_quarantine = on_quarantine
        self._documents: dict[DocumentKey, Stored] = {}
        self._index = DocumentIndex()
        self._watchers = Watchers()
        self._revisions = count(1)

    def __repr__(self) -> str:
        return f"<Memory {len(self._documents)} documents>"

    def absent(self, key: DocumentKey) -> bool:
        """Return whether there is no document."""
        return key not in self._documents

    def recall(self, key: DocumentKey) -> Stored | None:
        """Return None: reading is as quick."""
        return None

    async def read(self, key: DocumentKey) -> Stored | None:
        """Return the document, or None if there is none."""
        return self._documents.get(key)

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        """Replace the document of this revision; return the new one."""
        self._expect(key, revision)
        kept = self._documents[key] = Stored(draft.document, next(self._revisions))
        self._index.put(Sighting(key, draft.updated_ms, draft.due_ms))
        self._watchers.notify(key)
        return kept.revision

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        """Remove the document."""
        if revision is not None:
            self._expect(key, revision)
        if self._documents.pop(key, None) is not None:
            self._index.drop(key)
            self._watchers.notify(key)

    async def set_aside(self, key: DocumentKey, revision: int, reason: str) -> None:
        """Drop a corrupt document."""
        stored = self._documents.get(key)
        if stored is not None and stored.revision == revision:
            await self.delete(key)
            self._on_quarantine("/".join(key), reason)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys that have something due before a time."""
        return self._index.due(kind, before_ms, limit)

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        return self._index.listing(kind, owner, after, limit)

    async def find_updated(self, kind: str, owner: str, sessions: Sequence[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written."""
        return self._index.find_updated(kind, owner, sessions)

    async def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""
        return self._index.list_owners(kind)

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of this key."""
        return self._watchers.watch(key, callback)

    async def check(self) -> None:
        """Do nothing: memory always works."""

    async def aclose(self) -> None:
        """Forget everything."""
        self._documents.clear()
        self._index = DocumentIndex()

    def _expect(self, key: DocumentKey, revision: int) -> None:
        stored = self._documents.get(key)
        if (stored.revision if stored else 0) != revision:
            raise Conflict("The document was changed by somebody else.")
