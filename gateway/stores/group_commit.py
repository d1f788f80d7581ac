"""Group commit: many files are written at once, and share what makes their names durable.

Each file is synchronised by itself, several at a time, since a journal takes them up together; then
each directory is synchronised once for all. Nothing is acknowledged before that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from gateway.stores import disk
from gateway.stores.cache import CachedDocument
from gateway.stores.disk import Signature
from gateway.stores.documents import Conflict, InUse, StoreUnavailable
from gateway.stores.lock import Lock, lost
from gateway.stores.names import TEMPORARY

WRITERS = 8


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a job: the new file's signature, or the name a file was given."""

    changed: bool
    signature: Signature | None = None
    name: str = ""


class FileChange(Protocol):
    """One change of one file. No two jobs of a batch are about the same file."""

    @property
    def path(self) -> str:
        """The file it is about."""

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Do it, up to the durability of the name; raise `Conflict`, or what the disk says."""


@dataclass(frozen=True, slots=True)
class Put:
    """Replace a file that has the expected revision."""

    path: str
    expected: int
    known: CachedDocument | None
    document: bytes

    def do(self, temporary: Callable[[str], str]) -> Done:
        """Write the new file in the place of the old one."""
        _expect(self.path, self.expected, self.known)
        directory = os.path.dirname(self.path)  # noqa: PTH120 - a hot path of plain text
        try:
            signature = disk.replace(self.path, self.document, temporary(directory))
        except FileNotFoundError:
            # Somebody removed all documents of this kind at once. The directory above is not made
            # again: where it was mounted, state would be kept in the wrong place.
            disk.make_directory(Path(directory))
            signature = disk.replace(self.path, self.document, temporary(directory))
        return Done(changed=True, signature=signature)


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file that has the expected revision, or whatever is there."""

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
        """Give the file a name that is not a document's."""
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


class Commits:
    """Performs batches of jobs in a directory that is ours."""

    def __init__(self, lock: Lock, token: str) -> None:
        self._lock = lock
        self._token = token
        self._numbers = count(1)
        self._pool = ThreadPoolExecutor(WRITERS, thread_name_prefix="holdgate-files")

    def perform(self, batch: list[FileChange]) -> list[Done | Exception]:
        """Do all jobs, make them durable, and say what became of each."""
        try:
            self._lock.hold()
        except OSError as error:
            return [disk.unavailable(error) for _ in batch]
        except InUse:
            return [lost() for _ in batch]
        if len(batch) == 1:
            return self._durable(batch, [self._attempt(batch[0])])
        return self._durable(batch, list(self._pool.map(self._attempt, batch)))

    def close(self) -> None:
        """End the threads that have nothing to do."""
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
        for directory in {name for name, outcome in pairs if _changed(outcome)}:
            try:
                disk.sync_directory(directory)
            except OSError as error:
                failed[directory] = error
        if not failed:
            return outcomes
        pairs = zip(directories, outcomes, strict=True)
        return [
            disk.unavailable(failed[name]) if name in failed and _changed(outcome) else outcome
            for name, outcome in pairs
        ]


def _changed(outcome: Done | Exception) -> bool:
    return isinstance(outcome, Done) and outcome.changed
