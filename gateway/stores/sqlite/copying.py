"""The rows of an SQLite file as they are copied from it or into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.stores.copying import (
    EVENTS,
    ITEMS,
    JOBS,
    OWED,
    POSTS,
    RUNS,
    CopiedTable,
    Row,
    Value,
)
from gateway.stores.sqlite.engine import Engine

# Where a table is read from, if not from the table of its name.
SOURCES = {
    JOBS.name: """(SELECT *, (SELECT run_id FROM runs
        WHERE runs.job_id = jobs.job_id AND status = 'running') AS running_id FROM jobs)""",
    # What a webhook did not get yet.
    POSTS.name: """(SELECT hooks.name AS hook, events.* FROM hooks
        JOIN positions ON positions.name = hooks.name
        JOIN events ON events.owner = hooks.owner AND events.seq > positions.seq)""",
}
SEQ = "SELECT seq FROM events WHERE owner = ? AND session = ? AND kind = ? AND key = ?"
LAST = "SELECT coalesce(max(seq), 0) FROM events"
MOVE = """INSERT INTO positions (name, seq) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq"""


@dataclass(frozen=True, slots=True)
class NumberedTable:
    """A table whose rows have numbers that no other row of it has."""

    unique: tuple[str, ...]
    """The columns that name a row, whatever its number is."""
    group: tuple[str, ...] = ()
    """Rows that have these in common keep their order."""
    read: Callable[[dict[str, Value]], dict[str, Value]] = dict
    """Returns the columns of this table for those that are copied."""


def _read_job(row: dict[str, Value]) -> dict[str, Value]:
    running_id = row.pop("running_id")
    return {**row, "running": int(running_id is not None)}


def _read_run(row: dict[str, Value]) -> dict[str, Value]:
    # Its lease has ended: whoever held it does not live any more.
    return {**row, "holder": "", "lease_ms": 0}


NUMBERED = {
    JOBS.name: NumberedTable(("job_id",), read=_read_job),
    RUNS.name: NumberedTable(("run_id",), ("job_id",), _read_run),
    OWED.name: NumberedTable(("run_id",)),
    ITEMS.name: NumberedTable(("owner", "session", "id"), ("owner", "session")),
    EVENTS.name: NumberedTable(("owner", "session", "kind", "key"), ("owner", "session")),
}


class SqliteCopy:
    """The tables of a file; `hooks` are the names of the webhooks of each owner."""

    # An event that a webhook got after one that it did not get is posted to it once more.
    inexact = frozenset({POSTS.name})

    def __init__(
        self,
        engine: Engine,
        hooks: Mapping[str, Sequence[str]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._close = close
        self._hooks = [(name, owner) for owner, names in hooks.items() for name in names]
        self._waiting: dict[str, int] = {}
        """The first event that a webhook did not get."""

    async def check_alone(self) -> None:
        """Do nothing: the file is locked."""

    async def read(self, table: CopiedTable, after: Row | None) -> list[Row]:
        """Return the next page of rows after a key."""
        statement, values = self._write_query(table, after)
        if table is POSTS and not self._hooks:
            return []
        return await self._engine.ask(partial(_list, statement, values))

    async def write(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        """Add the rows that are not there yet."""
        await self._engine.change(partial(self._add, table, rows))

    async def finish(self) -> None:
        """Store how far each webhook has got."""
        await self._engine.change(self._move)

    async def aclose(self) -> None:
        """Close the file."""
        await self._close()

    def _write_query(self, table: CopiedTable, after: Row | None) -> tuple[str, Sequence[Value]]:
        values: list[Value] = []
        start = ""
        if table is POSTS:
            start = f"WITH hooks (name, owner) AS (VALUES {_list_places(self._hooks)}) "
            values += [value for hook in self._hooks for value in hook]
        where = ""
        key = ", ".join(table.key)
        if after is not None:
            where = f" WHERE ({key}) > ({_list_places(after)})"
            values += after
        source = SOURCES.get(table.name, table.name)
        columns = ", ".join(table.columns)
        chosen = f"SELECT {columns} FROM {source}{where} ORDER BY {key} LIMIT {table.page}"
        return start + chosen, values

    def _add(self, table: CopiedTable, rows: Sequence[Row], connection: sqlite3.Connection) -> None:
        numbered = NUMBERED.get(table.name)
        for row in rows:
            named = dict(zip(table.columns, row, strict=True))
            if table is POSTS:
                self._wait(named, connection)
            elif numbered is not None:
                _add_numbered(table, numbered, named, connection)
            else:
                _insert(table.name, named, connection)

    def _wait(self, post: dict[str, Value], connection: sqlite3.Connection) -> None:
        key = (post["owner"], post["session"], post["kind"], post["key"])
        row, hook = connection.execute(SEQ, key).fetchone(), str(post["hook"])
        if row is not None:
            self._waiting[hook] = min(row[0], self._waiting.get(hook, row[0]))

    def _move(self, connection: sqlite3.Connection) -> None:
        (last,) = connection.execute(LAST).fetchone()
        for name in {*self._waiting, *(name for name, _ in self._hooks)}:
            connection.execute(MOVE, (name, self._waiting.get(name, last + 1) - 1))


def _list(statement: str, values: Sequence[Value], connection: sqlite3.Connection) -> list[Row]:
    return connection.execute(statement, tuple(values)).fetchall()


def _list_places(values: Sequence[object]) -> str:
    places = ["(?, ?)" if isinstance(value, tuple) else "?" for value in values]
    return ", ".join(places)


def _add_numbered(
    table: CopiedTable,
    numbered: NumberedTable,
    row: dict[str, Value],
    connection: sqlite3.Connection,
) -> None:
    """Add a row with its own number, or the next one that is free and keeps its group's order."""
    name, number = table.name, table.number
    if _find("1", name, {column: row[column] for column in numbered.unique}, connection):
        return
    group = {column: row[column] for column in numbered.group}
    last = _find(f"max({number})", name, group, connection)
    wanted = row[number]
    assert isinstance(wanted, int)
    free = wanted if last is None else max(wanted, last + 1)
    while _find("1", name, {number: free}, connection):
        free += 1
    _insert(name, {**numbered.read(row), number: free}, connection)


def _find(
    what: str, table: str, where: Mapping[str, Value], connection: sqlite3.Connection
) -> int | None:
    conditions = " AND ".join(f"{column} = ?" for column in where) or "1"
    statement = f"SELECT {what} FROM {table} WHERE {conditions} LIMIT 1"
    row = connection.execute(statement, tuple(where.values())).fetchone()
    return None if row is None else row[0]


def _insert(table: str, row: Mapping[str, Value], connection: sqlite3.Connection) -> None:
    columns, places = ", ".join(row), _list_places(list(row.values()))
    statement = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})"
    connection.execute(statement, tuple(row.values()))
