"""Group commit: changes wait in a queue, and all that wait are written together.

`BatchWorker` is a thread that takes all waiting jobs, performs them as one batch, and answers each.
A caller may be cancelled: its job is done all the same, and `settle` gets the outcome on the event
loop, whether or not anybody waits for it.

`FileCommitter` performs a batch of file changes. Each file is synced by itself, several at a time,
since a journal writes them together; then each directory is synced once for all. Nothing is
acknowledged before that. A crash before the sync of the directory leaves each file old or new,
never half, and no caller was told that it is new. A failed sync is reported as a failure, though
the new file may be there: the next read finds it by its signature.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.to_thread import run_sync

from gateway.stores import disk
from gateway.stores.disk import TEMPORARY, ProcessLock, Signature, other_owner
from gateway.stores.document_cache import CachedDocument
from gateway.stores.documents import Conflict, InUse, StoreUnavailable

J = TypeVar("J")
R = TypeVar("R")

LARGEST_BATCH = 128
LONGEST_QUEUE = 50_000
CLOSING_SECONDS = 10.0
WRITERS = 8


@dataclass(slots=True)
class _Ticket(Generic[J, R]):
    job: J
    future: asyncio.Future[R]
    settle: Callable[[R | Exception], None]


class BatchWorker(Generic[J, R]):
    """Performs jobs in batches, in order; `perform` returns an outcome for each."""

    def __init__(self, name: str, perform: Callable[[list[J]], list[R | Exception]]) -> None:
        self._perform = perform
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Ticket[J, R] | None] = SimpleQueue()
        self._waiting = 0
        self._closed = False
        # The thread starts with the first job.
        self._begun = False
        self._thread = Thread(target=self._serve, name=name, daemon=True)

    def submit(self, job: J, settle: Callable[[R | Exception], None]) -> asyncio.Future[R]:
        """Queue a job; its outcome goes to `settle` first, then to the future."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        if self._waiting >= LONGEST_QUEUE:
            raise StoreUnavailable("Too many changes wait to be written; try again.")
        self._waiting += 1
        future: asyncio.Future[R] = self._loop.create_future()
        self._queue.put(_Ticket(job, future, settle))
        if not self._begun:
            self._begun = True
            self._thread.start()
        return future

    async def aclose(self) -> None:
        """Do what was submitted, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        if not self._begun:
            return
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await run_sync(self._thread.join, abandon_on_cancel=True)

    def _serve(self) -> None:
        going = True
        while going:
            batch = self._batch()
            going = batch[-1] is not None
            tickets = [ticket for ticket in batch if ticket is not None]
            outcomes = self._outcomes([ticket.job for ticket in tickets])
            # If the event loop is closed, nobody waits any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer, tickets, outcomes)

    def _batch(self) -> list[_Ticket[J, R] | None]:
        batch = [self._queue.get()]
        with suppress(Empty):
            while batch[-1] is not None and len(batch) < LARGEST_BATCH:
                batch.append(self._queue.get_nowait())
        return batch

    def _outcomes(self, jobs: list[J]) -> list[R | Exception]:
        try:
            return self._perform(jobs) if jobs else []
        except Exception as error:  # noqa: BLE001 - the outer loop: those who wait must hear of it
            return [error] * len(jobs)

    def _answer(self, tickets: list[_Ticket[J, R]], outcomes: list[R | Exception]) -> None:
        self._waiting -= len(tickets)
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            # Each by itself: a failing `settle` must not block the others.
            self._loop.call_soon(_settle, ticket, outcome)


def _settle(ticket: _Ticket[J, R], outcome: R | Exception) -> None:
    try:
        ticket.settle(outcome)
    finally:
        _resolve(ticket.future, outcome)


def _resolve(future: asyncio.Future[R], outcome: R | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a file change: the new file's signature, or the new name of a file."""

    changed: bool
    signature: Signature | None = None
    name: str = ""


class FileChange(Protocol):
    """One change of one file. No two jobs of a batch are about the same file."""

    @property
    def path(self) -> str:
        """The file it is about."""

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Do the change except the sync of the directory; raise `Conflict` or an `OSError`."""


@dataclass(frozen=True, slots=True)
class Put:
    """Replace a file that has the expected revision."""

    path: str
    expected: int
    known: CachedDocument | None
    document: bytes

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Replace the file."""
        _expect(self.path, self.expected, self.known)
        directory = os.path.dirname(self.path)  # noqa: PTH120 - a hot path of plain text
        try:
            signature = disk.replace(self.path, self.document, temporary(directory))
        except FileNotFoundError:
            # Somebody removed the directory of this kind. The directory above is not made again:
            # if it is a mount point, state would be stored in the wrong place.
            disk.make_directory(Path(directory))
            signature = disk.replace(self.path, self.document, temporary(directory))
        return Done(changed=True, signature=signature)


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file that has the expected revision; None: any revision."""

    path: str
    expected: int | None
    known: CachedDocument | None

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Remove the file."""
        if self.expected is not None:
            _expect(self.path, self.expected, self.known)
        try:
            Path(self.path).unlink()
        except FileNotFoundError:
            return Done(changed=False)
        return Done(changed=True)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rename a file that still has the revision that could not be read."""

    path: str
    expected: int
    at_ms: int

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Rename the file, so that it is not a document any more."""
        loaded = disk.load(self.path)
        if loaded is None or loaded.stored.revision != self.expected:
            return Done(changed=False)
        return Done(changed=True, name=disk.put_aside(self.path, self.at_ms))


def _expect(path: str, revision: int, known: CachedDocument | None) -> None:
    if _revision(path, known) != revision:
        raise Conflict("The document was changed by somebody else.")


def _revision(path: str, known: CachedDocument | None) -> int:
    if known is not None and disk.peek(path) == known.signature:
        return known.stored.revision
    loaded = disk.load(path)
    return loaded.stored.revision if loaded else 0


class FileCommitter:
    """Performs batches of file changes in a locked directory."""

    def __init__(self, lock: ProcessLock, token: str) -> None:
        self._lock = lock
        self._token = token
        self._numbers = count(1)
        self._pool = ThreadPoolExecutor(WRITERS, thread_name_prefix="holdgate-files")

    def perform(self, batch: list[FileChange]) -> list[Done | Exception]:
        """Do all changes, make them durable, and return the outcome of each."""
        try:
            self._lock.hold()
        except OSError as error:
            return [disk.unavailable(error) for _ in batch]
        except InUse:
            return [other_owner() for _ in batch]
        if len(batch) == 1:
            return self._durable(batch, [self._attempt(batch[0])])
        return self._durable(batch, list(self._pool.map(self._attempt, batch)))

    def close(self) -> None:
        """End the threads, without waiting."""
        self._pool.shutdown(wait=False)

    def _attempt(self, job: FileChange) -> Done | Exception:
        try:
            return job.do(self._temporary)
        except OSError as error:
            return disk.unavailable(error)
        except StoreUnavailable as error:
            return error

    def _temporary(self, directory: str) -> str:
        return f"{directory}/{TEMPORARY}{self._token}-{next(self._numbers)}"

    def _durable(
        self, batch: list[FileChange], outcomes: list[Done | Exception]
    ) -> list[Done | Exception]:
        directories = [os.path.dirname(job.path) for job in batch]  # noqa: PTH120
        pairs = zip(directories, outcomes, strict=True)
        failed: dict[str, OSError] = {}
        for directory in {name for name, outcome in pairs if _is_change(outcome)}:
            try:
                disk.sync_directory(directory)
            except OSError as error:
                failed[directory] = error
        if not failed:
            return outcomes
        pairs = zip(directories, outcomes, strict=True)
        return [
            disk.unavailable(failed[name]) if name in failed and _is_change(outcome) else outcome
            for name, outcome in pairs
        ]


def _is_change(outcome: Done | Exception) -> bool:
    return isinstance(outcome, Done) and outcome.changed
