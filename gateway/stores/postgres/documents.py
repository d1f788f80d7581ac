"""Documents in PostgreSQL, which many instances change at once.

A revision is drawn by who writes, so a statement can be repeated after the connection broke in the
middle of it: the document then has the new revision already, or still the old one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from secrets import randbits

from gateway.stores.chores import Chores, LoneChores
from gateway.stores.documents import (
    Conflict,
    DocumentKey,
    Documents,
    Listed,
    OnQuarantine,
    SealedDocument,
    Stored,
    StoreUnavailable,
)
from gateway.stores.entries import FoundDocument, SessionEntries
from gateway.stores.hints import SessionHints
from gateway.stores.instance import Instance
from gateway.stores.postgres.announcements import (
    KIND,
    PostgresAnnouncements,
    is_listened_to,
)
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.document_watch import DocumentWatch
from gateway.stores.waiting import KeyLocks, Unsubscribe

READ = """SELECT revision, document FROM @documents
    WHERE owner = $1 AND session = $2 AND kind = $3"""
# When to look whether a reminder is to be announced (announcements.py).
READY = f"""CASE WHEN $3 = '{KIND}' AND ($8 OR {is_listened_to("$1", "$2")}) THEN $5::bigint END"""
INSERT = f"""INSERT INTO @documents AS d
    (owner, session, kind, revision, due_ms, updated_ms, document, ready_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, {READY})
    ON CONFLICT (owner, session, kind) DO UPDATE SET revision = excluded.revision
    WHERE d.revision = excluded.revision"""
UPDATE = f"""UPDATE @documents SET revision = $4, due_ms = $5, updated_ms = $6, document = $7,
        ready_ms = {READY}
    WHERE owner = $1 AND session = $2 AND kind = $3 AND revision IN ($9, $4)"""
# Reservations are only taken over from the dead.
UPDATE_FROM_BURIED = f"""{UPDATE}
    AND NOT EXISTS (SELECT 1 FROM @instances WHERE id = ANY($10) AND NOT buried)"""
DELETE = """DELETE FROM @documents
    WHERE owner = $1 AND session = $2 AND kind = $3 AND revision = $4"""
DELETE_ANY = "DELETE FROM @documents WHERE owner = $1 AND session = $2 AND kind = $3"
SET_ASIDE = """WITH gone AS (
        DELETE FROM @documents
        WHERE owner = $1 AND session = $2 AND kind = $3 AND revision = $4
        RETURNING owner, session, kind, document)
    INSERT INTO @corrupt_documents (owner, session, kind, document, at_ms, reason)
    SELECT owner, session, kind, document, $5, $6 FROM gone"""
DUE = """SELECT owner, session FROM @documents WHERE kind = $1 AND due_ms < $2
    ORDER BY due_ms, owner, session LIMIT $3"""
NEWEST = """SELECT updated_ms, session FROM @documents WHERE kind = $1 AND owner = $2
    ORDER BY updated_ms DESC, session DESC LIMIT $3"""
NEXT = """SELECT updated_ms, session FROM @documents WHERE kind = $1 AND owner = $2
    AND (updated_ms, session) < ($3, $4) ORDER BY updated_ms DESC, session DESC LIMIT $5"""
UPDATED = """SELECT session, updated_ms FROM @documents
    WHERE kind = $1 AND owner = $2 AND session = ANY($3)"""
# From one owner to the next by the index, instead of through all documents.
OWNERS = """WITH RECURSIVE found AS (
        (SELECT owner FROM @documents ORDER BY owner LIMIT 1)
        UNION ALL
        SELECT (SELECT d.owner FROM @documents d WHERE d.owner > found.owner
            ORDER BY d.owner LIMIT 1)
        FROM found WHERE found.owner IS NOT NULL)
    SELECT owner FROM found WHERE owner IS NOT NULL
    AND EXISTS (SELECT 1 FROM @documents d WHERE d.owner = found.owner AND d.kind = $1)"""

MOST_REMEMBERED = 10_000
MOST_REMEMBERED_BYTES = 64 * 1024 * 1024
REVISION_BITS = 62
NONE_YET = Stored(b"", 0)
OTHERS_CHANGED = "The document was changed by somebody else."


class DocumentMemory:
    """The documents that were read or written last; each counts only with its revision."""

    def __init__(self) -> None:
        self._stored: OrderedDict[DocumentKey, Stored] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._stored)

    def get(self, key: DocumentKey) -> Stored | None:
        """Return what a document was when it was seen last."""
        return self._stored.get(key)

    def put(self, key: DocumentKey, revision: int, document: bytes) -> Stored:
        """Remember a document; one of the same revision is decoded already."""
        before = self._stored.get(key)
        if before is not None and before.revision == revision:
            self._stored.move_to_end(key)
            return before
        self.drop(key)
        stored = self._stored[key] = Stored(document, revision)
        self._bytes += len(document)
        while len(self._stored) > MOST_REMEMBERED or self._bytes > MOST_REMEMBERED_BYTES:
            _, oldest = self._stored.popitem(last=False)
            self._bytes -= len(oldest.document)
        return stored

    def drop(self, key: DocumentKey) -> None:
        """Forget a document."""
        stored = self._stored.pop(key, None)
        if stored is not None:
            self._bytes -= len(stored.document)


class PostgresDocuments:
    """A store of documents that many instances share."""

    def __init__(
        self,
        database: Database,
        instance: Instance,
        hints: SessionHints,
        on_quarantine: OnQuarantine,
    ) -> None:
        self.instance = instance
        # The database's time: one host whose clock is wrong must not age what all share.
        self.now_ms = instance.now_ms
        self.key_locks = KeyLocks()
        self.hints = hints
        self.memory = DocumentMemory()
        self.entries: SessionEntries | None = None
        self.chores: Chores = LoneChores()
        """What requests look at; set by who opens the store."""
        self.announcements = PostgresAnnouncements(database)
        self._database = database
        self._on_quarantine = on_quarantine
        self.watches = DocumentWatch(database, hints, self.memory)

    def __repr__(self) -> str:
        return f"<PostgresDocuments in {self._database!r}>"

    def absent(self, key: DocumentKey) -> bool:
        """Return whether the last look of a request found none, and no hint told of one since."""
        entries = self.entries
        return entries is not None and entries.has_no_document(key.kind, key[1:])

    def recall(self, key: DocumentKey) -> Stored | None:
        """Return without I/O what the document was when it was seen last, if that is known."""
        known = self.memory.get(key)
        return NONE_YET if known is None and self.absent(key) else known

    async def read(self, key: DocumentKey) -> Stored | None:
        """Return the document, or None if there is none."""
        if self.entries is not None and (found := self.entries.find_taken(key[1:])) is not None:
            seen = found.documents.get(key.kind)
            if seen is None:
                return None
            if seen.document is not None:
                return self.memory.put(key, seen.revision, seen.document)
        rows = await self._database.ask(READ, *_columns(key))
        if not rows:
            self.memory.drop(key)
            return None
        return self.memory.put(key, *rows[0])

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        """Replace the document of this revision; return the new one."""
        drawn = randbits(REVISION_BITS) or 1
        times = (draft.due_ms, draft.updated_ms)
        has_webhook = key.owner in self.announcements.owners
        values = (*_columns(key), drawn, *times, draft.document, has_webhook)
        statement = UPDATE if revision else INSERT
        known: tuple[object, ...] = (revision,) if revision else ()
        if draft.replaced_holders:
            statement, known = UPDATE_FROM_BURIED, (revision, list(draft.replaced_holders))

        async def work(connection: Connection) -> int:
            return await connection.run(statement, *values, *known)

        written = await self._database.use(work, partial(self._settle, key))
        if not written:
            self._forget(key)
            raise Conflict(OTHERS_CHANGED)
        self.memory.put(key, drawn, draft.document)
        if self.entries is not None:
            self.entries.note_written(key.kind, key[1:], FoundDocument(drawn, draft.document))
        return drawn

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        """Remove the document."""
        attempts = 0

        async def work(connection: Connection) -> int:
            nonlocal attempts
            attempts += 1
            if revision is None:
                return await connection.run(DELETE_ANY, *_columns(key))
            return await connection.run(DELETE, *_columns(key), revision)

        self.memory.drop(key)
        deleted = await self._database.use(work, partial(self._settle, key))
        if deleted or revision is None:
            if self.entries is not None:
                self.entries.note_written(key.kind, key[1:], None)
            return
        self._forget(key)
        if attempts > 1:
            # It is gone: by the first attempt, or by somebody else.
            raise StoreUnavailable("Whether the state was deleted is not known; try again.")
        raise Conflict(OTHERS_CHANGED)

    async def set_aside(self, key: DocumentKey, revision: int, reason: str) -> None:
        """Move a corrupt document to its own table, if it still has this revision."""
        self._forget(key)
        values = (*_columns(key), revision, self.now_ms(), reason)
        if await self._database.run(SET_ASIDE, *values):
            self._settle(key, 1)
            self._on_quarantine("/".join(key), reason)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys that have something due before a time, the earliest first."""
        rows = await self._database.ask(DUE, kind, before_ms, limit)
        return [DocumentKey(kind, *row) for row in rows]

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        if after is None:
            rows = await self._database.ask(NEWEST, kind, owner, limit)
        else:
            rows = await self._database.ask(NEXT, kind, owner, *after, limit)
        return [Listed(*row) for row in rows]

    async def find_updated(self, kind: str, owner: str, sessions: Sequence[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written."""
        rows = await self._database.ask(UPDATED, kind, owner, list(sessions))
        return dict(rows)

    async def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""
        return [row["owner"] for row in await self._database.ask(OWNERS, kind)]

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of this key, here or at another instance."""
        return self.watches.watch(key, callback)

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the database does not answer."""
        await self._database.check()

    async def aclose(self) -> None:
        """Finish what was submitted, and close the connections."""
        await self.watches.aclose()
        await self._database.aclose()

    def _forget(self, key: DocumentKey) -> None:
        """Have the document read anew."""
        self.memory.drop(key)
        if self.entries is not None:
            self.entries.end()

    def _settle(self, key: DocumentKey, changed: int) -> None:
        if changed:
            self.watches.notify(key)


def _columns(key: DocumentKey) -> tuple[str, str, str]:
    """Return a key in the order of the table's."""
    return key.owner, key.session, key.kind


def implements_documents(store: PostgresDocuments) -> Documents:
    """Have mypy check that the store is one of documents."""
    return store
