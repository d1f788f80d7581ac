"""Documents as files: one JSON file for each session, which people can read and edit.

The file is the truth. A cached document counts only while the file's signature is the one it was
read or written with. So every read checks the file's signature, and a cached read costs only that.
For keys without a file, that is remembered until their directory changes.

A change goes to the one thread of `group_commit`; while it is under way its path is in `_busy`, and
reads and changes of that document wait: nobody sees what is not durable. Cache, index and watchers
are updated on the event loop when a change is durable, even if its caller was cancelled. A crash
before that leaves the old file or the new one, and no caller was told that it succeeded.

At the start a thread reads all files (`scan`). Queries for due documents and lists wait for its
end; reads do not. Keys that were used meanwhile are in `_touched`, and the scan, which may have
read them earlier, does not overwrite them. One process owns the directory by `ProcessLock`, which
is checked again before each batch.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

from gateway.stores.chores import Chores, LoneChores
from gateway.stores.disk import (
    DIRECTORY_LOCK,
    SUFFIX,
    ProcessLock,
    WriteProbe,
    load,
    make_directory,
    name_of,
    peek,
    revision_of,
    unavailable,
)
from gateway.stores.document_cache import CachedDocument, DocumentCache, DocumentIndex
from gateway.stores.documents import (
    Corrupt,
    DocumentKey,
    Listed,
    Newer,
    OnQuarantine,
    SealedDocument,
    Shape,
    Sighting,
    Stored,
    StoreUnavailable,
    sight,
)
from gateway.stores.entries import SessionEntries
from gateway.stores.group_commit import (
    CLOSING_SECONDS,
    BatchWorker,
    Done,
    FileChange,
    FileCommitter,
    Put,
    Remove,
    SetAside,
)
from gateway.stores.hints import SessionHints
from gateway.stores.instance import Instance, LoneInstance
from gateway.stores.scan import Broken, Finding, Scan
from gateway.stores.waiting import KeyLocks, Unsubscribe, Watchers

READERS = 4
LOOKS = 4
# How often a directory is checked for files that people put there.
LOOK_SECONDS = 0.1
MOST_ABSENT = 100_000
GONE = -1

Settle = Callable[[Done | Exception], None]


@dataclass(frozen=True, slots=True)
class OwnedDirectory:
    """A locked directory, and the token that marks temporary files of this process."""

    root: Path
    lock: ProcessLock
    token: str


def occupy(root: Path, kinds: Iterable[str]) -> OwnedDirectory:
    """Make missing directories and lock the root, or raise `InUse`."""
    lock = ProcessLock(root / DIRECTORY_LOCK, f'The session directory "{root}"')
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        make_directory(root)
        lock.hold()
        for kind in kinds:
            make_directory(root / kind)
    except OSError as error:
        lock.release()
        reason = error.strerror or "an error"
        raise StoreUnavailable(
            f'The session directory "{root}" cannot be used: {reason}.'
        ) from error
    return OwnedDirectory(root, lock, secrets.token_hex(4))


class AbsentKeys:
    """Keys without a file since their directory last changed.

    A file that people put there changes its directory, which is checked regularly.
    """

    __slots__ = ("_keys", "_look_at", "_root", "_seen", "_steady")

    def __init__(self, root: Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._steady = steady
        # By kind: a directory that changes all the time must not clear the others.
        self._keys: dict[str, set[DocumentKey]] = {}
        self._seen: dict[str, int] = {}
        self._look_at: dict[str, float] = {}
        """When to look at a directory again."""

    def __contains__(self, key: DocumentKey) -> bool:
        return self.has(key)

    def has(self, key: DocumentKey) -> bool:
        """Whether a key surely has no file."""
        # A method: for each request, `in` would take half as long again.
        now, kind = self._steady(), key.kind
        if now >= self._look_at.get(kind, now):
            self._look(kind, now)
        return key in self._keys[kind]

    def add(self, key: DocumentKey) -> None:
        """Remember that a key has no file, if its directory exists."""
        self._look(key.kind, self._steady())
        if self._seen[key.kind] == GONE:
            return
        keys = self._keys[key.kind]
        if len(keys) >= MOST_ABSENT:
            keys.clear()
        keys.add(key)

    def drop(self, key: DocumentKey) -> None:
        """Forget a key: it may have a file now."""
        self._keys.get(key.kind, set()).discard(key)

    def _look(self, kind: str, now: float) -> None:
        self._look_at[kind] = now + LOOK_SECONDS
        try:
            changed = (self._root / kind).stat().st_mtime_ns
        except OSError:
            changed = GONE
        if self._seen.get(kind) != changed:
            self._seen[kind] = changed
            self._keys[kind] = set()


async def open_files(
    root: Path,
    shapes: Iterable[Shape[Any]],
    now_ms: Callable[[], int],
    on_quarantine: OnQuarantine,
) -> Files:
    """Open the files below a directory; the scan of all files goes on in the background."""
    known = {shape.kind: shape for shape in shapes}
    directory = await run_sync(occupy, root, tuple(known))
    return Files(directory, known, now_ms, on_quarantine)


class Files:
    """A store of documents in the files below one directory; one process owns it."""

    def __init__(
        self,
        directory: OwnedDirectory,
        shapes: dict[str, Shape[Any]],
        now_ms: Callable[[], int],
        on_quarantine: OnQuarantine,
    ) -> None:
        self.now_ms = now_ms
        self.key_locks = KeyLocks()
        self.hints = SessionHints()
        self.instance: Instance = LoneInstance(now_ms)
        self.chores: Chores = LoneChores()
        self.announcements = None
        self.entries: SessionEntries | None = None
        self.lock = directory.lock
        self._directory = directory
        self._root = str(directory.root)
        self._shapes = shapes
        self._on_quarantine = on_quarantine
        self._cache = DocumentCache()
        self._absent = AbsentKeys(directory.root)
        self._index = DocumentIndex()
        self._watchers = Watchers()
        self._busy: dict[str, anyio.Event] = {}
        self._readers = anyio.CapacityLimiter(READERS)
        self._commits = FileCommitter(directory.lock, directory.token)
        self._probe = WriteProbe(directory.root)
        self._worker: BatchWorker[FileChange, Done] = BatchWorker(
            "holdgate-commit", self._commits.perform
        )
        self._scanned = anyio.Event()
        # Keys that were used since the scan began: what is known about them is newer than the scan.
        self._touched: set[DocumentKey] = set()
        self._scan = Scan(directory.root, shapes, directory.token)
        self._scan.start(self._take_findings, self._end_scan)

    def __repr__(self) -> str:
        return f"<Files {self._root} {len(self._cache)} cached, {len(self._busy)} being written>"

    def recall(self, key: DocumentKey) -> Stored | None:
        """Return None: reading is as quick."""
        return None

    async def read(self, key: DocumentKey) -> Stored | None:
        """Return the document, or None if there is none."""
        path = self._path(key)
        stored = None
        for _ in range(LOOKS):
            if path in self._busy:
                await self._wait_until_written(path)
            seen = peek(path)
            if seen is None:
                self._forget(key)
                if self._scanned.is_set():
                    self._absent.add(key)
                return None
            entry = self._cache.get(key)
            if entry is not None and entry.signature == seen:
                return entry.stored
            # Then check again: it may have changed while it was read.
            stored = await self._load(key, path)
        # On a file system whose signatures never stay the same, the last read counts.
        return stored

    def absent(self, key: DocumentKey) -> bool:
        """Return without I/O whether there is surely no file, as for most sessions."""
        return self._absent.has(key)

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        """Replace the file of this revision; return the new one."""
        path = self._path(key)
        self._absent.drop(key)
        await self._wait_until_written(path)
        stored = Stored(draft.document, revision_of(draft.document))
        change = Put(path, revision, self._cache.get(key), draft.document)
        sighting = Sighting(key, draft.updated_ms, draft.due_ms)
        await self._submit(change, partial(self._note_write, sighting, stored))
        return stored.revision

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        """Remove the file."""
        path = self._path(key)
        await self._wait_until_written(path)
        change = Remove(path, revision, self._cache.get(key))
        await self._submit(change, partial(self._note_removal, key))

    async def set_aside(self, key: DocumentKey, revision: int, reason: str) -> None:
        """Rename a file that cannot be read, if it still has this revision."""
        path = self._path(key)
        await self._wait_until_written(path)
        await self._quarantine(Broken(path, revision, reason), key)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys that have something due before a time, after the scan of all files."""
        await self._scanned.wait()
        return self._index.due(kind, before_ms, limit)

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, after the scan of all files."""
        await self._scanned.wait()
        return self._index.listing(kind, owner, after, limit)

    async def find_updated(self, kind: str, owner: str, sessions: Sequence[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written."""
        await self._scanned.wait()
        return self._index.find_updated(kind, owner, sessions)

    async def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""
        await self._scanned.wait()
        return self._index.list_owners(kind)

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each committed change of this key."""
        return self._watchers.watch(key, callback)

    async def check(self) -> None:
        """Check that the session directory exists and is writable."""
        if peek(self._root) is None:
            raise StoreUnavailable("The session directory is gone.")
        await self._probe.check()

    async def aclose(self) -> None:
        """Write what was submitted, end the threads, and unlock the directory."""
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await run_sync(self._scan.stop, abandon_on_cancel=True)
        await self._worker.aclose()
        self._commits.close()
        self._directory.lock.release()

    def _path(self, key: DocumentKey) -> str:
        return f"{self._root}/{key.kind}/{name_of(key.owner, key.session)}{SUFFIX}"

    async def _wait_until_written(self, path: str) -> None:
        while (busy := self._busy.get(path)) is not None:
            await busy.wait()

    def _submit(self, change: FileChange, settle: Settle) -> asyncio.Future[Done]:
        busy = anyio.Event()

        def end_write(outcome: Done | Exception) -> None:
            del self._busy[change.path]
            busy.set()
            settle(outcome)

        future = self._worker.submit(change, end_write)
        self._busy[change.path] = busy
        return future

    def _note_write(self, sighting: Sighting, stored: Stored, outcome: Done | Exception) -> None:
        key = sighting.key
        if isinstance(outcome, Done) and outcome.signature is not None:
            self._cache.put(key, CachedDocument(outcome.signature, stored))
            self._note(sighting)
            self._watchers.notify(key)

    def _note_removal(self, key: DocumentKey, outcome: Done | Exception) -> None:
        if isinstance(outcome, Done):
            self._forget(key)
            if outcome.changed:
                self._watchers.notify(key)

    def _quarantine(self, broken: Broken, key: DocumentKey | None) -> asyncio.Future[Done]:
        change = SetAside(broken.path, broken.revision, self.now_ms())
        return self._submit(change, partial(self._note_quarantine, broken, key))

    def _note_quarantine(
        self, broken: Broken, key: DocumentKey | None, outcome: Done | Exception
    ) -> None:
        if not isinstance(outcome, Done) or not outcome.changed:
            return
        if key is not None:
            self._forget(key)
            self._watchers.notify(key)
        self._on_quarantine(f"{Path(broken.path).parent.name}/{outcome.name}", broken.reason)

    async def _load(self, key: DocumentKey, path: str) -> Stored | None:
        try:
            loaded = await run_sync(load, path, limiter=self._readers)
        except OSError as error:
            raise unavailable(error) from error
        if loaded is None:
            return None
        if loaded.problem:
            await self.set_aside(key, loaded.stored.revision, loaded.problem)
            return None
        self._learn(key, CachedDocument(loaded.signature, loaded.stored))
        return loaded.stored

    def _learn(self, key: DocumentKey, entry: CachedDocument) -> None:
        before = self._cache.get(key)
        self._cache.put(key, entry)
        shape = self._shapes.get(key.kind)
        # A corrupt document is handled by its reader.
        with suppress(Corrupt, Newer):
            if shape is not None and (sighting := sight(entry.stored, shape)).key == key:
                self._note(sighting)
        if before is not None and before.stored.revision != entry.stored.revision:
            # Somebody changed the file by hand.
            self._watchers.notify(key)

    def _note(self, sighting: Sighting) -> None:
        self._absent.drop(sighting.key)
        self._touch(sighting.key)
        self._index.put(sighting)

    def _forget(self, key: DocumentKey) -> None:
        self._touch(key)
        self._cache.drop(key)
        if key in self._index:
            self._index.drop(key)

    def _touch(self, key: DocumentKey) -> None:
        if not self._scanned.is_set():
            self._touched.add(key)

    def _take_findings(self, findings: list[Finding]) -> None:
        for finding in findings:
            if not isinstance(finding, Broken):
                if finding.key not in self._touched:
                    self._index.put(finding)
            # A file that is being written is checked by its writer.
            elif finding.path not in self._busy:
                with suppress(StoreUnavailable):
                    self._quarantine(finding, None).add_done_callback(_ignore_outcome)

    def _end_scan(self) -> None:
        self._scanned.set()
        self._touched.clear()


def _ignore_outcome(future: asyncio.Future[Done]) -> None:
    # Nobody waits for the outcome; the next reader of that session gets the error.
    if not future.cancelled():
        future.exception()
