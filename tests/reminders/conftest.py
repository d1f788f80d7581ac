"""Reminders on stores of every kind, with a clock that the test moves."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from gateway.clock.manual import ManualClock
from gateway.reminders.model import Reminder, ReminderRequest, Rules
from gateway.reminders.reminder_documents import SHAPE
from gateway.reminders.service import ReminderService
from gateway.stores import (
    DocumentKey,
    Documents,
    Memory,
    SealedDocument,
    Stored,
    StoreUnavailable,
    open_documents,
)

NOW = 1_770_067_358_229
MINUTE = 60_000
OWNER, SESSION = "local", "s"
TEA = ReminderRequest(NOW, "drink tea")
LATER = ReminderRequest(NOW + 10 * MINUTE, "water the plants")
RULES = Rules(most=1000)
LATEST = RULES.retention_ms + 1


def key_of(session: str = SESSION, owner: str = OWNER) -> DocumentKey:
    return DocumentKey("clock", owner, session)


class Desk:
    """Reminders of one process, and all that a test looks at."""

    def __init__(self, store: Documents, clock: ManualClock, patience: float = 30.0) -> None:
        self.store = store
        self.clock = clock
        self.notes: list[tuple[str, dict[str, object]]] = []
        self._news = anyio.Event()
        self.reminders = ReminderService(store, clock, RULES, self._note, patience)

    def _note(self, event: str, **fields: object) -> None:
        self.notes.append((event, fields))
        self._news.set()

    async def saw(self, event: str, times: int) -> None:
        """Return when there are so many notes of one kind."""
        while len(self.noted(event)) < times:
            self._news = anyio.Event()
            await self._news.wait()

    def noted(self, event: str) -> list[dict[str, object]]:
        """Return the particulars of all notes of one kind."""
        return [fields for name, fields in self.notes if name == event]

    async def add(
        self, *wanted: ReminderRequest, session: str = SESSION, chain: str = ""
    ) -> list[str]:
        """Schedule, and return the ids."""
        tasks = await self.reminders.schedule(OWNER, session, wanted, chain)
        return [task.id for task in tasks]

    async def kept(self, session: str = SESSION) -> tuple[Reminder, ...]:
        """Return what the store holds now, whatever this process remembers."""
        stored = await self.store.read(key_of(session))
        if stored is None:
            return ()
        fresh = ReminderService(
            self.store, self.clock, Rules(retention_ms=10**12), lambda *_, **__: None
        )
        return (await fresh.list_reminders(OWNER, session)).items

    def outcomes(self, session: str = SESSION) -> dict[str, list[str]]:
        """Return how tasks ended, by id."""
        found: dict[str, list[str]] = {}
        for end in self.reminders.recent(OWNER, session):
            found.setdefault(end.id, []).append(end.outcome)
        return found


class Place:
    """Where a store is, and how it is opened again."""

    def __init__(self, name: str, directory: Path) -> None:
        self.root = directory / "sessions"
        self.clock = ManualClock(NOW)
        self.quarantined: list[str] = []
        urls = {"memory": "memory:", "files": "", "sqlite": f"sqlite://{directory}/kept.sqlite3"}
        self._url = urls[name]

    def file(self, session: str = SESSION) -> Path:
        """Return the file of a session with a plain name."""
        return self.root / "clock" / f"{session}.json"

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[Desk]:
        """Open the store, and close it in the end."""
        store = await open_documents(
            self._url,
            self.root,
            [SHAPE],
            now_ms=self.clock.now_ms,
            on_quarantine=lambda name, _: self.quarantined.append(name),
        )
        try:
            with anyio.fail_after(30):
                yield Desk(store, self.clock)
        finally:
            await store.aclose()


def opened() -> anyio.Event:
    """Return a gate that is open."""
    gate = anyio.Event()
    gate.set()
    return gate


class Troubled(Memory):
    """A store that can be told to fail, to hang, or to answer late with what it read before."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock.now_ms, lambda _, __: None)
        self.reads_fail = self.writes_fail = False
        self.dues_fail = False
        self.bad: set[DocumentKey] = set()
        # Each read from now on waits at the next of these, if there is one.
        self.read_gates: deque[anyio.Event] = deque()
        self.open_for_writes = opened()
        self.written = 0

    async def read(self, key: DocumentKey) -> Stored | None:
        if self.reads_fail:
            raise StoreUnavailable("The disk is gone.")
        seen = await super().read(key)
        if self.read_gates:
            await self.read_gates.popleft().wait()
        return seen

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        await self._write(key)
        return await super().write(key, draft, revision)

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        await self._write(key)
        await super().delete(key, revision)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        if self.dues_fail:
            raise StoreUnavailable("The disk is gone.")
        return await super().due(kind, before_ms, limit)

    async def _write(self, key: DocumentKey) -> None:
        if self.writes_fail or key in self.bad:
            raise StoreUnavailable("The disk is full.")
        await self.open_for_writes.wait()
        self.written += 1


@pytest.fixture(params=["memory", "files", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a store of each kind."""
    return Place(request.param, tmp_path)


@pytest.fixture(params=["files", "sqlite"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a store of each kind that outlives its process."""
    return Place(request.param, tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Place:
    """A place for files."""
    return Place("files", tmp_path)


@pytest.fixture
async def desk(place: Place) -> AsyncIterator[Desk]:
    """Reminders on an open store of each kind."""
    async with place.desk() as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock(NOW)


@pytest.fixture
def troubled(clock: ManualClock) -> Troubled:
    """A store that can be told to fail."""
    return Troubled(clock)


@pytest.fixture
def shaky(troubled: Troubled, clock: ManualClock) -> Desk:
    """Reminders on a store that can be told to fail."""
    return Desk(troubled, clock)
