"""A store on PostgreSQL: its connections, its instance, documents and rows, opened together."""

from __future__ import annotations

import socket
from collections.abc import Callable

import anyio

from gateway.stores.documents import OnQuarantine, StoreUnavailable
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import SessionHints
from gateway.stores.postgres.breaker import FIRST_PROBE_SECONDS, PROBE_SECONDS, add_jitter
from gateway.stores.postgres.bus import PostgresBus
from gateway.stores.postgres.connection import ConnectionLost, Connector
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.documents import PostgresDocuments
from gateway.stores.postgres.instances import SharedInstance
from gateway.stores.postgres.lanes import EntryLanes
from gateway.stores.postgres.listener import Listener
from gateway.stores.postgres.migrations import migrate
from gateway.stores.postgres.rows import PostgresRows
from gateway.stores.postgres.services import SharedServices
from gateway.stores.shared import REFUSE, SharedSettings
from gateway.version import __version__

Note = Callable[..., None]

# How long a start waits for a database that is not there yet, or is just starting.
START_SECONDS = 30.0
NOT_REACHED = "The database of store.url cannot be reached: {}"
# How often changes of others are looked for, if no notifications arrive through a pooler.
DEAF_POLL_MS = 1000


class PostgresStore:
    """What many instances share, as one of them has it open."""

    def __init__(
        self,
        settings: SharedSettings,
        now_ms: Callable[[], int],
        on_quarantine: OnQuarantine,
        note: Note,
        process: str,
    ) -> None:
        """Begin with nothing open; `process` is what the ids of its exchanges carry."""
        self._settings = settings
        self._note = note
        self._connector = Connector(settings.url, settings.schema)
        # Migrations and the listener do not go through a pooler if there is another way.
        self._direct = _connect_directly(settings)
        self.bus = PostgresBus()
        self.hints = SessionHints(self.bus)
        host, lease_ms = socket.gethostname(), settings.lease_ms
        self.instance = SharedInstance(lease_ms, host, __version__, note, process=process)
        self.database = Database(self._connector, settings.connections, note)
        self.lanes = EntryLanes(self._connector, settings.entry_ms, note)
        self.listener = Listener(
            self._direct, f"{settings.schema}_wake", self.instance, self.bus, note
        )
        self.entries = SessionEntries(self.lanes, self.hints, settings.outage == REFUSE)
        self.documents = PostgresDocuments(self.database, self.instance, self.hints, on_quarantine)
        self.documents.entries = self.entries
        # What was not heard is found by comparing.
        self.bus.on_lost(self.documents.watches.compare_soon)
        services = SharedServices(self.database, self.instance, now_ms, on_quarantine, note)
        self.rows = PostgresRows(services)
        self.documents.chores = self.rows.operators.chores

    def __repr__(self) -> str:
        return f"<PostgresStore of {self.instance!r}>"

    async def open(self) -> None:
        """Bring the schema up to date, and connect; raise `StoreUnavailable` if that fails."""
        await self._wait_for_database()
        await migrate(self._direct, self._settings.schema, self._note)
        try:
            await self.database.start()
            await self.listener.start()
            await self.lanes.start()
            self.documents.watches.start(self._find_poll_ms)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Finish what was submitted, let the lease end, and close all connections."""
        await self.lanes.aclose()
        await self.database.aclose()
        await self.listener.aclose()

    def _find_poll_ms(self) -> int:
        """Return how often to look for changes whose hints were lost."""
        poll_ms = self._settings.poll_ms
        return min(poll_ms, DEAF_POLL_MS) if self.listener.is_deaf else poll_ms

    async def _wait_for_database(self) -> None:
        """Wait for a server that is just starting; other trouble does not pass by waiting."""
        delay, reason = FIRST_PROBE_SECONDS, ""
        with anyio.move_on_after(START_SECONDS):
            while True:
                try:
                    (await self._direct.connect()).terminate()
                    return
                except ConnectionLost as error:
                    if not reason:
                        self._note("store_away", why=str(error))
                    reason = str(error)
                await anyio.sleep(add_jitter(delay))
                delay = min(2 * delay, PROBE_SECONDS)
        raise StoreUnavailable(NOT_REACHED.format(reason))


async def open_postgres(
    settings: SharedSettings,
    now_ms: Callable[[], int],
    on_quarantine: OnQuarantine,
    note: Note,
    process: str,
) -> PostgresStore:
    """Open the store of these settings."""
    store = PostgresStore(settings, now_ms, on_quarantine, note, process)
    await store.open()
    return store


async def migrate_store(settings: SharedSettings, note: Note) -> tuple[int, int]:
    """Bring the schema of a store up to date; return its version before and after."""
    return await migrate(_connect_directly(settings), settings.schema, note)


async def check_store(settings: SharedSettings) -> None:
    """Raise `StoreUnavailable` if the database cannot be reached."""
    for url in filter(None, (settings.url, settings.listen_url)):
        try:
            (await Connector(url, settings.schema).connect()).terminate()
        except ConnectionLost as error:
            raise StoreUnavailable(NOT_REACHED.format(error)) from error


def _connect_directly(settings: SharedSettings) -> Connector:
    """Return what connects without a pooler, if there is such a way."""
    return Connector(settings.listen_url or settings.url, settings.schema)
