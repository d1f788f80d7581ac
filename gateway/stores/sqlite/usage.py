"""What owners used, in a database: one row for each owner, hour, model and upstream.

A batch of counts is added in one transaction, together with its number. So a batch that is sent
again, because nobody knows whether it was stored, is recognised and changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial

from gateway.stores.sqlite.engine import Engine
from gateway.timestamps import HOUR_MS
from gateway.usage.model import (
    NO_USAGE,
    Group,
    RowKey,
    UsageBatch,
    UsageCounts,
    UsageQuery,
    UsageTable,
)

# In the order of a `RowKey`.
COLUMNS: Mapping[Group, str] = {
    "owner": "owner",
    "hour": "hour_ms",
    "model": "model",
    "upstream": "upstream",
}
KEY_COLUMNS = tuple(COLUMNS.values())
# In the order of `UsageCounts`.
COUNT_COLUMNS = UsageCounts.__struct_fields__
# A cost that is unknown does not make the sum unknown.
ADDED = {
    **{name: f"{name} = {name} + excluded.{name}" for name in COUNT_COLUMNS},
    "cost_micros": "cost_micros = coalesce(cost_micros + excluded.cost_micros,"
    " cost_micros, excluded.cost_micros)",
}
ADD = f"""INSERT INTO usage ({", ".join((*KEY_COLUMNS, *COUNT_COLUMNS))})
    VALUES ({", ".join("?" * (len(KEY_COLUMNS) + len(COUNT_COLUMNS)))})
    ON CONFLICT ({", ".join(KEY_COLUMNS)}) DO UPDATE SET {", ".join(ADDED.values())}"""
NOTE_BATCH = """INSERT INTO usage_writers (writer, batch, at_ms) VALUES (?, ?, ?)
    ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, at_ms = excluded.at_ms
    WHERE excluded.batch > batch"""
LAST_BATCH = "SELECT batch FROM usage_writers WHERE writer = ?"
# Some at a time, so that others do not wait for a long change or look.
PRUNED_AT_ONCE = 1000
SUMMED_AT_ONCE = 7 * 24 * HOUR_MS
PRUNE = """DELETE FROM usage WHERE rowid IN (
    SELECT rowid FROM usage WHERE hour_ms < ? LIMIT ?)"""
PRUNE_WRITERS = "DELETE FROM usage_writers WHERE at_ms < ?"
FIRST_HOUR = "SELECT min(hour_ms) FROM usage WHERE hour_ms >= ?"
LAST_HOUR = "SELECT max(hour_ms) FROM usage WHERE hour_ms < ?"


class SqliteUsage:
    """The `UsageRows` of a database."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._now_ms = now_ms

    async def add(self, batch: UsageBatch) -> bool:
        """Add the counts of a batch to the stored ones; return False if that was done before."""
        return await self._engine.change(partial(_add, batch, self._now_ms()))

    async def last_batch(self, writer: str) -> int:
        """Return the number of the last batch of a writer; 0 if there is none."""
        return await self._engine.ask(partial(_last_batch, writer))

    async def sum_up(self, query: UsageQuery) -> UsageTable:
        """Return the stored counts that are asked for, added up by groups."""
        first, last = await self._engine.ask(partial(_find_hours, query))
        total: dict[RowKey, UsageCounts] = {}
        for from_ms in range(first, last + 1, SUMMED_AT_ONCE):
            until_ms = min(from_ms + SUMMED_AT_ONCE, last + 1)
            more = await self._engine.ask(partial(_sum_up, query, from_ms, until_ms))
            for key, counts in more.items():
                total[key] = total.get(key, NO_USAGE) + counts
            if len(total) > query.most:
                break
        return total

    async def prune(self, before_ms: int) -> int:
        """Delete rows of hours that began before a time, and writers silent since then."""
        pruned, done = 0, PRUNED_AT_ONCE
        while done == PRUNED_AT_ONCE:
            done = await self._engine.mend(partial(_prune, before_ms))
            pruned += done
        return pruned


def _add(batch: UsageBatch, at_ms: int, connection: sqlite3.Connection) -> bool:
    noted = connection.execute(NOTE_BATCH, (batch.writer, batch.number, at_ms))
    if noted.rowcount <= 0:
        return False
    connection.executemany(ADD, ((*key, *_values(counts)) for key, counts in batch.rows.items()))
    return True


def _values(counts: UsageCounts) -> tuple[int | None, ...]:
    return tuple(getattr(counts, name) for name in COUNT_COLUMNS)


def _last_batch(writer: str, connection: sqlite3.Connection) -> int:
    row = connection.execute(LAST_BATCH, (writer,)).fetchone()
    return int(row[0]) if row else 0


def _find_hours(query: UsageQuery, connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the first and the last hour that may have rows; an empty range if none has."""
    (first,) = connection.execute(FIRST_HOUR, (query.from_ms,)).fetchone()
    (last,) = connection.execute(LAST_HOUR, (query.until_ms,)).fetchone()
    return (first, last) if first is not None and last is not None else (0, -1)


def write_sum(group_by: tuple[Group, ...], of_owner: bool) -> str:
    """Write the statement that adds up counts by these groups, of one owner or of all."""
    empty = {"hour": "0"}
    shown = [
        column if name in group_by else empty.get(name, "''") for name, column in COLUMNS.items()
    ]
    sums = [f"sum({name})" for name in COUNT_COLUMNS]
    owner = "owner = ? AND " if of_owner else ""
    return (
        f"SELECT {', '.join((*shown, *sums))} FROM usage"
        f" WHERE {owner}hour_ms >= ? AND hour_ms < ? GROUP BY 1, 2, 3, 4 LIMIT ?"
    )


def _sum_up(
    query: UsageQuery, from_ms: int, until_ms: int, connection: sqlite3.Connection
) -> UsageTable:
    owner = () if query.owner is None else (query.owner,)
    statement = write_sum(query.group_by, bool(owner))
    found = connection.execute(statement, (*owner, from_ms, until_ms, query.most + 1))
    size = len(KEY_COLUMNS)
    return {row[:size]: UsageCounts(*row[size:]) for row in found}


def _prune(before_ms: int, connection: sqlite3.Connection) -> int:
    connection.execute(PRUNE_WRITERS, (before_ms,))
    return connection.execute(PRUNE, (before_ms, PRUNED_AT_ONCE)).rowcount
