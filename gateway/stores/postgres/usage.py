"""What owners used, on PostgreSQL: one row for each owner, hour, model and upstream.

A batch of counts is added in one transaction, together with its number. So a batch that is sent
again, because nobody knows whether it was stored, is recognised and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import PRUNED_AT_ONCE, write_prune
from gateway.usage.model import Group, UsageBatch, UsageCounts, UsageQuery, UsageTable

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
    **{name: f"{name} = u.{name} + excluded.{name}" for name in COUNT_COLUMNS},
    "cost_micros": "cost_micros = coalesce(u.cost_micros + excluded.cost_micros,"
    " u.cost_micros, excluded.cost_micros)",
}
TYPES = ("text", "bigint", "text", "text", *("bigint" for _ in COUNT_COLUMNS))
ARRAYS = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(TYPES, 1))
# In the order of the keys, so that two who add to the same rows do not wait for each other.
ADD = f"""INSERT INTO @usage AS u ({", ".join((*KEY_COLUMNS, *COUNT_COLUMNS))})
    SELECT * FROM unnest({ARRAYS})
    ON CONFLICT ({", ".join(KEY_COLUMNS)}) DO UPDATE SET {", ".join(ADDED.values())}"""
NOTE_BATCH = """INSERT INTO @usage_writers AS w (writer, batch, at_ms) VALUES ($1, $2, $3)
    ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, at_ms = excluded.at_ms
    WHERE excluded.batch > w.batch RETURNING 1"""
LAST_BATCH = "SELECT batch FROM @usage_writers WHERE writer = $1"
PRUNE = write_prune("usage", "hour_ms < $1")
PRUNE_WRITERS = "DELETE FROM @usage_writers WHERE at_ms < $1"


class PostgresUsage:
    """The `UsageRows` of a PostgreSQL."""

    def __init__(self, services: SharedServices) -> None:
        self._services = services
        self._database = services.database

    async def add(self, batch: UsageBatch) -> bool:
        """Add the counts of a batch to the stored ones; return False if that was done before."""
        return await self._database.change(partial(_add, batch, self._services.now_ms()))

    async def last_batch(self, writer: str) -> int:
        """Return the number of the last batch of a writer; 0 if there is none."""
        rows = await self._database.ask(LAST_BATCH, writer)
        return rows[0]["batch"] if rows else 0

    async def sum_up(self, query: UsageQuery) -> UsageTable:
        """Return the stored counts that are asked for, added up by groups."""
        statement = write_sum(query.group_by)
        values = (query.owner, query.from_ms, query.until_ms, query.most + 1)
        size = len(KEY_COLUMNS)
        rows = await self._database.ask(statement, *values)
        return {tuple(row)[:size]: UsageCounts(*tuple(row)[size:]) for row in rows}

    async def prune(self, before_ms: int) -> int:
        """Delete rows of hours that began before a time, and writers silent since then."""
        await self._database.run(PRUNE_WRITERS, before_ms)
        pruned, done = 0, PRUNED_AT_ONCE
        while done == PRUNED_AT_ONCE:
            done = await self._database.run(PRUNE, before_ms, PRUNED_AT_ONCE)
            pruned += done
        return pruned


async def _add(batch: UsageBatch, at_ms: int, connection: Connection) -> bool:
    if await connection.ask_one(NOTE_BATCH, batch.writer, batch.number, at_ms) is None:
        return False
    rows = [(*key, *_values(counts)) for key, counts in sorted(batch.rows.items())]
    if rows:
        await connection.run(ADD, *(list(column) for column in zip(*rows, strict=True)))
    return True


def _values(counts: UsageCounts) -> tuple[int | None, ...]:
    return tuple(getattr(counts, name) for name in COUNT_COLUMNS)


def write_sum(group_by: tuple[Group, ...]) -> str:
    """Write the statement that adds up counts by these groups, of one owner or of all."""
    empty = {"hour": "0::bigint"}
    shown = [
        column if name in group_by else empty.get(name, "''") for name, column in COLUMNS.items()
    ]
    sums = [f"sum({name})::bigint" for name in COUNT_COLUMNS]
    groups = [COLUMNS[name] for name in COLUMNS if name in group_by]
    return (
        f"SELECT {', '.join((*shown, *sums))} FROM @usage"
        " WHERE ($1::text IS NULL OR owner = $1) AND hour_ms >= $2 AND hour_ms < $3"
        f" GROUP BY {', '.join(groups) or '()'}"
        " HAVING count(*) > 0 LIMIT $4"
    )
