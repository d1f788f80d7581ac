"""The tables of a PostgreSQL as they are copied from it or into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from secrets import randbits
from typing import Any

from asyncpg import Record

from gateway.stores.copying import (
    CONVERSATIONS,
    DOCUMENTS,
    EVENTS,
    INTERESTS,
    ITEMS,
    JOBS,
    POSTS,
    RUNS,
    SNAPSHOTS,
    CopiedTable,
    Row,
    Value,
)
from gateway.stores.documents import StoreUnavailable
from gateway.stores.postgres.announcements import KIND as REMINDERS
from gateway.stores.postgres.connection import Connection, Connector
from gateway.stores.postgres.conversations import join_messages
from gateway.stores.postgres.database import Database, Deadlines
from gateway.stores.postgres.deliveries import HEARD_MS
from gateway.stores.postgres.documents import REVISION_BITS
from gateway.stores.postgres.migrations import migrate
from gateway.stores.urls import tell_nobody

# Where a table is read from, if not from the table of its name.
SOURCES = {
    JOBS.name: "(SELECT *, run_id AS running_id FROM @jobs) AS t",
    CONVERSATIONS.name: "(SELECT * FROM @talks WHERE is_newest) AS t",
    INTERESTS.name: f"""(SELECT owner, session, heard_until - {HEARD_MS} AS at_ms FROM @heads
        WHERE heard_until IS NOT NULL) AS t""",
    POSTS.name: """(SELECT p.hook, e.* FROM @posts p JOIN @events e
        ON e.owner = p.owner AND e.session = p.session AND e.seq = p.seq) AS t""",
}
EXCHANGES = """SELECT messages FROM @talks WHERE owner = $1 AND session = $2 AND agent = $3
    ORDER BY number"""
# What users or models wrote is bytes here, since text refuses some characters.
BYTES = {
    JOBS.name: ("dedupe_key",),
    SNAPSHOTS.name: ("model", "answer"),
    ITEMS.name: ("text", "name"),
}
FLAGS = {RUNS.name: ("manual",)}
ADD_POST = """INSERT INTO @posts (hook, owner, session, seq, at_ms)
    SELECT $1, owner, session, seq, at_ms FROM @events
    WHERE owner = $2 AND session = $3 AND kind = $4 AND key = $5 ON CONFLICT DO NOTHING"""
HEAR = """INSERT INTO @heads (owner, session, heard_until) VALUES ($1, $2, $3)
    ON CONFLICT (owner, session) DO UPDATE SET heard_until = excluded.heard_until"""
# A copy may take longer than requests may wait.
PATIENCE = "SET LOCAL statement_timeout = 0"
DEADLINES = Deadlines(attempt_s=600, change_s=1200)
CONNECTIONS = 2
FINISH = (
    """UPDATE @jobs j SET rows = r.newest FROM
        (SELECT owner, job_id, max(number) AS newest FROM @runs GROUP BY owner, job_id) r
        WHERE r.owner = j.owner AND r.job_id = j.job_id AND j.rows < r.newest""",
    """INSERT INTO @owners (owner, jobs) SELECT owner, count(*) FROM @jobs GROUP BY owner
        ON CONFLICT (owner) DO UPDATE SET jobs = excluded.jobs""",
    *(
        f"""INSERT INTO @heads AS h (owner, session, {table})
        SELECT owner, session, max(seq) FROM @{table} GROUP BY owner, session
        ON CONFLICT (owner, session) DO UPDATE
        SET {table} = greatest(h.{table}, excluded.{table})"""
        for table in (EVENTS.name, ITEMS.name)
    ),
    # Where somebody listens, reminders are announced when they are due.
    f"""UPDATE @documents d SET ready_ms = d.due_ms FROM @heads h
        WHERE h.owner = d.owner AND h.session = d.session AND h.heard_until IS NOT NULL
            AND d.kind = '{REMINDERS}' AND d.ready_ms IS NULL""",
)
Inserts = tuple[str, list[tuple[Any, ...]]]
"""A statement, and its values for each row."""
LIVING = "SELECT count(*) AS living FROM @instances WHERE NOT buried AND until > clock_timestamp()"


class PostgresCopy:
    """The tables of a schema."""

    inexact: frozenset[str] = frozenset()

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check_alone(self) -> None:
        """Raise `StoreUnavailable` if a gateway uses the database."""
        (row,) = await self._database.ask(LIVING)
        if row["living"]:
            raise StoreUnavailable(
                f"{row['living']} gateways use the database; stop them. If one was killed, wait "
                "until its lease (store.lease_ms) has ended."
            )

    async def read(self, table: CopiedTable, after: Row | None) -> list[Row]:
        """Return the next page of rows after a key."""
        if table is CONVERSATIONS:
            return await self._read_conversations(after)
        rows = await self._database.ask(*_write_query(table, table.columns, after))
        return [_read(table, row) for row in rows]

    async def write(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        """Add the rows that are not there yet."""
        write = WRITERS.get(table.name, _write_as_it_is)
        statement, values = write(table, rows)

        async def work(connection: Connection) -> None:
            await connection.run_many(statement, values)

        await self._database.change(work)

    async def finish(self) -> None:
        """Write the last numbers of sessions and jobs, and how many jobs each owner has."""

        async def work(connection: Connection) -> None:
            await connection.run(PATIENCE)
            for statement in FINISH:
                await connection.run(statement)

        await self._database.change(work)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._database.aclose()

    async def _read_conversations(self, after: Row | None) -> list[Row]:
        columns = (*CONVERSATIONS.key, "updated_ms")
        found: list[Row] = []
        for row in await self._database.ask(*_write_query(CONVERSATIONS, columns, after)):
            exchanges = await self._database.ask(EXCHANGES, *tuple(row)[:3])
            found.append((*row, join_messages([one["messages"] for one in exchanges])))
        return found


async def open_postgres_copy(url: str, schema: str) -> PostgresCopy:
    """Open the database, and bring its schema up to date."""
    connector = Connector(url, schema)

    def ignore(event: str, **fields: object) -> None:
        tell_nobody(event, "")

    await migrate(connector, schema, ignore)
    database = Database(connector, CONNECTIONS, ignore, DEADLINES)
    await database.start()
    return PostgresCopy(database)


def _write_query(
    table: CopiedTable, columns: Sequence[str], after: Row | None
) -> tuple[str, *tuple[Value, ...]]:
    key = ", ".join(table.key)
    where, values = "", after or ()
    if after is not None:
        where = f" WHERE ({key}) > ({_list_places(after)})"
    source = SOURCES.get(table.name, f"@{table.name}")
    return (
        f"SELECT {', '.join(columns)} FROM {source}{where} ORDER BY {key} LIMIT {table.page}",
        *values,
    )


def _list_places(values: Sequence[object]) -> str:
    return ", ".join(f"${place}" for place in range(1, len(values) + 1))


def _read(table: CopiedTable, row: Record) -> Row:
    named = dict(row)
    for column in BYTES.get(table.name, ()):
        named[column] = named[column].decode()
    for column in FLAGS.get(table.name, ()):
        named[column] = int(named[column])
    return tuple(named.values())


def _write_as_it_is(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    return _write_inserts(table.name, [_store(table, row) for row in rows])


def _write_inserts(table: str, rows: Sequence[dict[str, Any]]) -> Inserts:
    columns = list(rows[0])
    statement = (
        f"INSERT INTO @{table} ({', '.join(columns)}) VALUES ({_list_places(columns)}) "
        "ON CONFLICT DO NOTHING"
    )
    return statement, [tuple(row.values()) for row in rows]


def _store(table: CopiedTable, row: Row) -> dict[str, Any]:
    """Return the columns of a row as they are stored here."""
    named: dict[str, Any] = dict(zip(table.columns, row, strict=True))
    for column in BYTES.get(table.name, ()):
        named[column] = str(named[column]).encode()
    for column in FLAGS.get(table.name, ()):
        named[column] = bool(named[column])
    return named


def _write_documents(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    named = [_store(table, row) for row in rows]
    revised = [{**row, "revision": randbits(REVISION_BITS) or 1} for row in named]
    return _write_inserts(table.name, revised)


def _write_jobs(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    named = [_store(table, row) for row in rows]
    return _write_inserts(table.name, [{"run_id": row.pop("running_id"), **row} for row in named])


def _write_runs(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    # Nobody that lives holds a run.
    return _write_inserts(table.name, [{**_store(table, row), "holder": ""} for row in rows])


def _write_conversations(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    added = {"number": 1, "is_newest": True, "token": ""}
    return _write_inserts("talks", [{**_store(table, row), **added} for row in rows])


def _write_interests(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    named = [_store(table, row) for row in rows]
    return HEAR, [(row["owner"], row["session"], row["at_ms"] + HEARD_MS) for row in named]


def _write_posts(table: CopiedTable, rows: Sequence[Row]) -> Inserts:
    chosen = ("hook", "owner", "session", "kind", "key")
    named = [_store(table, row) for row in rows]
    return ADD_POST, [tuple(row[column] for column in chosen) for row in named]


WRITERS: dict[str, Callable[[CopiedTable, Sequence[Row]], Inserts]] = {
    DOCUMENTS.name: _write_documents,
    JOBS.name: _write_jobs,
    RUNS.name: _write_runs,
    CONVERSATIONS.name: _write_conversations,
    INTERESTS.name: _write_interests,
    POSTS.name: _write_posts,
}
