"""An embedded store as it is copied: documents in files, and rows in a database beside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

from gateway.stores.copying import DOCUMENTS, CopiedTable, Row
from gateway.stores.disk import SUFFIX, is_document, name_of
from gateway.stores.documents import (
    Conflict,
    DocumentKey,
    Listed,
    SealedDocument,
    Shape,
    StoreUnavailable,
    sight,
)
from gateway.stores.files import Files
from gateway.stores.sqlite.copying import SqliteCopy

# Files are synchronised some at a time.
AT_ONCE = 32


class FilesCopy:
    """The files of a session directory and its rows."""

    def __init__(self, files: Files, root: Path, shapes: Iterable[Shape[Any]], rows: SqliteCopy):
        self.inexact = rows.inexact
        self._files = files
        self._root = root
        self._shapes = {shape.kind: shape for shape in shapes}
        self._rows = rows
        self._keys: list[Row] | None = None

    async def check_alone(self) -> None:
        """Do nothing: the directory is locked."""

    async def read(self, table: CopiedTable, after: Row | None) -> list[Row]:
        """Return the next page of rows after a key."""
        if table is not DOCUMENTS:
            return await self._rows.read(table, after)
        if self._keys is None:
            self._keys = await self._list_keys()
        start = 0 if after is None else bisect_right(self._keys, after)
        return [await self._read(key) for key in self._keys[start : start + table.page]]

    async def write(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        """Add the rows that are not there yet."""
        if table is not DOCUMENTS:
            await self._rows.write(table, rows)
            return
        self._keys = None
        limiter = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for row in rows:
                tasks.start_soon(self._write, limiter, row)

    async def finish(self) -> None:
        """Write what follows from all rows."""
        await self._rows.finish()

    async def aclose(self) -> None:
        """Unlock the directory."""
        await self._rows.aclose()
        await self._files.aclose()

    async def _list_keys(self) -> list[Row]:
        """Return the keys of all documents, in order; raise if a file is not one of them."""
        found = [key for kind in self._shapes for key in await self._list_kind(kind)]
        await run_sync(self._refuse_others, found)
        return sorted((key.owner, key.session, key.kind) for key in found)

    async def _list_kind(self, kind: str) -> list[DocumentKey]:
        keys: list[DocumentKey] = []
        for owner in await self._files.list_owners(kind):
            last: Listed | None = None
            while page := await self._files.listing(kind, owner, last, DOCUMENTS.page):
                keys += [DocumentKey(kind, owner, listed.session) for listed in page]
                last = page[-1]
        return keys

    def _refuse_others(self, keys: Sequence[DocumentKey]) -> None:
        """Raise if there is a file that a gateway would leave as it is, such as a newer one."""
        known = {(key.kind, name_of(key.owner, key.session) + SUFFIX) for key in keys}
        for kind in self._shapes:
            for path in (self._root / kind).iterdir():
                if is_document(path.name) and (kind, path.name) not in known:
                    raise StoreUnavailable(
                        f'The file "{path}" can not be read by this Holdgate; move it away, or '
                        "install the Holdgate that wrote it."
                    )

    async def _read(self, key: Row) -> Row:
        owner, session, kind = map(str, key)
        name = DocumentKey(kind, owner, session)
        stored = await self._files.read(name)
        if stored is None:
            raise StoreUnavailable("A file was removed while the store was copied.")
        sighting = sight(stored, self._shapes[kind])
        return (*key, sighting.updated_ms, sighting.due_ms, stored.document)

    async def _write(self, limiter: anyio.CapacityLimiter, row: Row) -> None:
        owner, session, kind, updated_ms, due_ms, document = row
        assert isinstance(document, bytes)
        assert isinstance(updated_ms, int)
        assert due_ms is None or isinstance(due_ms, int)
        key = DocumentKey(str(kind), str(owner), str(session))
        async with limiter:
            try:
                await self._files.write(key, SealedDocument(document, updated_ms, due_ms), 0)
            except Conflict:
                # It is there already; the comparison in the end says whether it is the same.
                return
