"""Looks at sessions: two connections of their own, and one statement for all who wait.

Requests wait for it, so nobody waits longer than he is told: then he gets None, and goes on without
his session. A connection on which the statement takes longer is given up. After three such failures
nobody waits any more, until a probe finds the database answering.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from asyncpg import Record

from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.documents import StoreUnavailable
from gateway.stores.entries import READ_KINDS, FoundDocument, FoundSession
from gateway.stores.hints import SessionKey
from gateway.stores.postgres.breaker import (
    FIRST_PROBE_SECONDS,
    PROBE_SECONDS,
    Breaker,
    add_jitter,
)
from gateway.stores.postgres.connection import (
    Connection,
    ConnectionLost,
    Connector,
    Refused,
    TransactionFailed,
)

Note = Callable[..., None]

LANES = 2
# What is gathered into one statement.
MOST_AT_ONCE = 256
MOST_WAITING = 20_000
ATTEMPTS = 3

DOCUMENT, ITEM, JOB, TRAIT = "d", "i", "j", "t"
_KINDS = ", ".join(f"'{kind}'" for kind in READ_KINDS)
# Each session is found by the indexes: as plain joins, whole tables were read.
_WANTED = "unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(owner, session, n)"
_OF = "WHERE x.owner = w.owner AND x.session = w.session"
LOOK = f"""
    SELECT w.n, '{DOCUMENT}' AS tag, d.kind AS name, d.revision AS number, d.body,
        NULL::bytea AS title, NULL::text[] AS more
    FROM {_WANTED} CROSS JOIN LATERAL (
        SELECT kind, revision, CASE WHEN kind IN ({_KINDS}) THEN document END AS body
        FROM @documents x {_OF} OFFSET 0) d
    UNION ALL
    SELECT w.n, '{ITEM}', i.id, i.seq, i.text, i.name,
        ARRAY[i.at_ms::text, i.job_id, i.run_id, i.status, i.missed::text, i.token]
    FROM {_WANTED} CROSS JOIN LATERAL (
        SELECT id, seq, text, name, at_ms, job_id, run_id, status, missed,
            CASE WHEN token IS NOT NULL AND EXISTS (SELECT 1 FROM @instances o
                WHERE o.id = x.holder AND NOT o.buried) THEN token ELSE '' END AS token
        FROM @items x {_OF} AND delivered_ms IS NULL ORDER BY seq OFFSET 0) i
    UNION ALL
    SELECT w.n, '{JOB}', NULL, j.next_ms, NULL, NULL, NULL
    FROM {_WANTED} CROSS JOIN LATERAL (
        SELECT count(*) AS jobs,
            min(CASE WHEN run_id IS NULL THEN next_run_ms ELSE 0 END) AS next_ms
        FROM @jobs x {_OF} AND agent = '' OFFSET 0) j
    WHERE j.jobs > 0
    UNION ALL
    SELECT w.n, '{TRAIT}', t.tools, NULL, NULL, NULL, NULL
    FROM {_WANTED} CROSS JOIN LATERAL (
        SELECT tools FROM @traits x {_OF} OFFSET 0) t"""
NOTE_TOOLS = """INSERT INTO @traits AS t (owner, session, tools, at_ms)
    SELECT DISTINCT ON (owner, session) owner, session, tools,
        (extract(epoch FROM clock_timestamp()) * 1000)::int8
    FROM unnest($1::text[], $2::text[], $3::text[]) AS n(owner, session, tools)
    ORDER BY owner, session
    ON CONFLICT (owner, session) DO UPDATE SET tools = excluded.tools, at_ms = excluded.at_ms"""

Found = list[FoundSession]


@dataclass(slots=True, eq=False)
class _Question:
    keys: Sequence[SessionKey]
    future: asyncio.Future[Found | None]


class EntryLanes:
    """Looks at sessions for all requests; `start` comes first, `aclose` last."""

    def __init__(self, connector: Connector, entry_ms: int, note: Note) -> None:
        self.breaker = Breaker(self._tell)
        self._connector = connector
        self._limit = entry_ms / 1000
        self._note = note
        self._waiting: deque[_Question] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tools: dict[SessionKey, str] = {}
        self._root: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None

    def __repr__(self) -> str:
        state = "away" if self.breaker.is_open else "there"
        return f"<EntryLanes {state}, {len(self._waiting)} waiting>"

    async def start(self) -> None:
        """Connect."""
        started = anyio.Event()
        # Not a child of the caller, whose scopes may end before the store does.
        self._root = asyncio.get_running_loop().create_task(self._serve(started))
        await started.wait()

    async def aclose(self) -> None:
        """Close the connections; who waits gets no answer."""
        if self._group is not None:
            self._group.cancel_scope.cancel()
        if self._root is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._root])

    async def find(self, keys: Sequence[SessionKey]) -> list[FoundSession] | None:
        """Return what there is of each session; None if there was no answer in time."""
        full = len(self._waiting) >= MOST_WAITING
        if self.breaker.is_open or full or self._root is None or self._root.done():
            return None
        loop = asyncio.get_running_loop()
        question = _Question(keys, loop.create_future())
        # One timer of the loop takes less than a cancel scope, and this is on every request.
        timer = loop.call_later(self._limit, _give_up, question.future)
        self._waiting.append(question)
        self._wake_lane()
        try:
            return await question.future
        finally:
            timer.cancel()

    def note_tools(self, key: SessionKey, tools: str) -> None:
        """Store soon with which system text a session sent tools."""
        if len(self._tools) < MOST_WAITING:
            self._tools[key] = tools
            self._wake_lane()

    def _wake_lane(self) -> None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return

    async def _serve(self, started: anyio.Event) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                for _ in range(LANES):
                    group.start_soon(self._run_lane)
                group.start_soon(self._probe)
                started.set()
        finally:
            for question in self._waiting:
                _give_up(question.future)

    async def _run_lane(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                if batch := self._take_batch():
                    connection = await self._answer(batch, connection)
                elif self._tools and not self.breaker.is_open:
                    connection = await self._store_tools(connection)
                else:
                    idle = asyncio.get_running_loop().create_future()
                    self._idle.append(idle)
                    await idle
        finally:
            if connection is not None:
                connection.terminate()

    def _take_batch(self) -> list[_Question]:
        batch: list[_Question] = []
        while self._waiting and len(batch) < MOST_AT_ONCE:
            question = self._waiting.popleft()
            if not question.future.done():
                batch.append(question)
        return batch

    async def _answer(
        self, batch: list[_Question], connection: Connection | None
    ) -> Connection | None:
        """Answer all questions of a batch; return the connection if it can be used further."""
        for _ in range(ATTEMPTS):
            try:
                connection = await self._connect(connection)
                with connection.limit_time(self._limit):
                    await _look(connection, batch)
            except (ConnectionLost, TransactionFailed, Refused, StoreUnavailable) as error:
                if connection is not None:
                    connection.terminate()
                connection = None
                self.breaker.fail(str(error))
                batch = [one for one in batch if not one.future.done()]
                # An idle connection that was lost meanwhile is no reason to go without state.
                if not batch or self.breaker.is_open:
                    break
            else:
                self.breaker.succeed()
                return connection
        for question in batch:
            _give_up(question.future)
        return connection

    async def _connect(self, connection: Connection | None) -> Connection:
        if connection is not None and not connection.is_closed:
            return connection
        return await self._connector.connect(max(self._limit, PROBE_SECONDS))

    async def _store_tools(self, connection: Connection | None) -> Connection | None:
        noted, self._tools = self._tools, {}
        owners = [owner for owner, _ in noted]
        sessions = [session for _, session in noted]
        try:
            connection = await self._connect(connection)
            with connection.limit_time(PROBE_SECONDS):
                await connection.run(NOTE_TOOLS, owners, sessions, list(noted.values()))
        except (ConnectionLost, TransactionFailed, Refused, StoreUnavailable) as error:
            # It is learned again with the next request that has tools.
            if connection is not None:
                connection.terminate()
            self.breaker.fail(str(error))
            return None
        return connection

    # While the database is away.

    async def _probe(self) -> None:
        while True:
            await self.breaker.opened.wait()
            while self._waiting:
                _give_up(self._waiting.popleft().future)
            delay = FIRST_PROBE_SECONDS
            while self.breaker.is_open:
                await anyio.sleep(add_jitter(delay))
                delay = min(2 * delay, PROBE_SECONDS)
                await self._try()

    async def _try(self) -> None:
        try:
            connection = await self._connector.connect(PROBE_SECONDS)
        except (ConnectionLost, StoreUnavailable) as error:
            self.breaker.reason = str(error)
            return
        try:
            # As quickly as a request needs it.
            with connection.limit_time(self._limit):
                await connection.ask("SELECT 1")
            self.breaker.succeed()
        except (ConnectionLost, TransactionFailed, Refused) as error:
            self.breaker.reason = str(error)
        finally:
            connection.terminate()

    def _tell(self, reason: str) -> None:
        if reason:
            self._note("sessions_away", why=reason)
        else:
            self._note("sessions_back")


async def _look(connection: Connection, batch: list[_Question]) -> None:
    keys = [key for question in batch for key in question.keys]
    rows = await connection.ask(
        LOOK, [owner for owner, _ in keys], [session for _, session in keys]
    )
    found = [FoundSession() for _ in keys]
    for row in rows:
        place = row["n"] - 1
        _READERS[row["tag"]](found[place], keys[place], row)
    begin = 0
    for question in batch:
        end = begin + len(question.keys)
        if not question.future.done():
            question.future.set_result(found[begin:end])
        begin = end


def _read_document(found: FoundSession, key: SessionKey, row: Record) -> None:
    found.documents[row["name"]] = FoundDocument(row["number"], row["body"])


def _read_item(found: FoundSession, key: SessionKey, row: Record) -> None:
    at_ms, job_id, run_id, status, missed, token = row["more"]
    item = OutboxItem(
        id=row["name"],
        owner=key[0],
        session=key[1],
        at_ms=int(at_ms),
        text=row["body"].decode(),
        job_id=job_id,
        run_id=run_id,
        name=row["title"].decode(),
        status=status,
        missed=int(missed),
        seq=row["number"],
        token=token,
    )
    found.items.append(item)


def _read_jobs(found: FoundSession, key: SessionKey, row: Record) -> None:
    found.has_jobs, found.next_run_ms = True, row["number"]


def _read_trait(found: FoundSession, key: SessionKey, row: Record) -> None:
    found.tools = row["name"]


_READERS: dict[str, Callable[[FoundSession, SessionKey, Record], None]] = {
    DOCUMENT: _read_document,
    ITEM: _read_item,
    JOB: _read_jobs,
    TRAIT: _read_trait,
}


def _give_up(future: asyncio.Future[Found | None]) -> None:
    if not future.done():
        future.set_result(None)
