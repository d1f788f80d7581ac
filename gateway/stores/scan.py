"""Reads all files when a store opens: finds due and broken documents, removes temporary files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from gateway.stores.disk import SUFFIX, TEMPORARY, Loaded, is_document, load, name_of
from gateway.stores.documents import Corrupt, Newer, Shape, Sighting, sight

SLICE = 64
REST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is not a valid document, and why."""

    path: str
    revision: int
    reason: str


Finding = Sighting | Broken


class Scan:
    """Reads every file once, in a thread, and passes findings to the event loop in slices."""

    def __init__(self, root: Path, shapes: Mapping[str, Shape[Any]], token: str) -> None:
        self._root = root
        self._shapes = shapes
        self._ours = f"{TEMPORARY}{token}-"
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self, found: Callable[[list[Finding]], None], ended: Callable[[], None]) -> None:
        """Start; `found` and `ended` are called on this event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            # If the event loop is closed, nobody needs the findings.
            with suppress(RuntimeError):
                for findings in self.slices():
                    loop.call_soon_threadsafe(found, findings)
                loop.call_soon_threadsafe(ended)

        self._thread = Thread(target=run, name="holdgate-scan", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop early, and wait for the end of the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def slices(self) -> Iterator[list[Finding]]:
        """Yield findings, some at a time."""
        findings: list[Finding] = []
        for kind, shape in self._shapes.items():
            for name in self._names(kind):
                if self._stopped.is_set():
                    return
                finding = self._finding(f"{self._root}/{kind}/{name}", name, shape)
                if finding is not None:
                    findings.append(finding)
                if len(findings) >= SLICE:
                    yield findings
                    findings = []
                    # A pause, since requests come first.
                    self._stopped.wait(REST_SECONDS)
        yield findings

    def _names(self, kind: str) -> Iterator[str]:
        with suppress(OSError), os.scandir(self._root / kind) as entries:
            for entry in entries:
                if is_document(entry.name):
                    yield entry.name
                elif entry.name.startswith(TEMPORARY) and not entry.name.startswith(self._ours):
                    with suppress(OSError):
                        Path(entry.path).unlink()

    def _finding(self, path: str, name: str, shape: Shape[Any]) -> Finding | None:
        try:
            loaded = load(path)
        except OSError:
            return None
        if loaded is None:
            return None
        try:
            return _check(loaded, name, shape)
        except Corrupt as error:
            return Broken(path, loaded.stored.revision, error.message)
        except Newer:
            # The file stays; a request for this session gets the error.
            return None


def _check(loaded: Loaded, name: str, shape: Shape[Any]) -> Sighting:
    if loaded.problem:
        raise Corrupt(loaded.problem)
    sighting = sight(loaded.stored, shape)
    if name_of(sighting.key.owner, sighting.key.session) + SUFFIX != name:
        raise Corrupt("It belongs to another owner or session.")
    return sighting
