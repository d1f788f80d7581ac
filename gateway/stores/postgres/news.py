"""What sessions are told: items for their queues, events, and the posts of events to webhooks.

All of it is written in the transaction of what it tells. The number of an item or an event comes
from the session's row in `heads`, which stays locked until that transaction ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.jobs.run_rules import write_missed_notice
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.statements import NUMBER_NOW

# The limit for one session, so that a busy one does not fill the disk while events are kept.
MOST_EVENTS = 1000

ITEM_COLUMNS = "id, owner, session, at_ms, text, job_id, run_id, name, status, missed, seq"


def write_next(column: str) -> str:
    """Write the next number of a session that has a row already."""
    return f"CASE WHEN h.{column} = 0 THEN {NUMBER_NOW} ELSE h.{column} + 1 END"


ADD_ITEM = f"""WITH head AS (
        INSERT INTO @heads AS h (owner, session, items)
        SELECT $2, $3, {NUMBER_NOW} WHERE NOT EXISTS
            (SELECT 1 FROM @items WHERE owner = $2 AND session = $3 AND id = $1)
        ON CONFLICT (owner, session) DO UPDATE SET items = {write_next("items")}
        RETURNING items)
    INSERT INTO @items ({ITEM_COLUMNS})
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, head.items FROM head
    ON CONFLICT (owner, session, id) DO NOTHING RETURNING seq"""
FIND_ITEM = f"SELECT {ITEM_COLUMNS} FROM @items WHERE owner = $1 AND session = $2 AND id = $3"
LOCK_HEAD = "SELECT 1 FROM @heads WHERE owner = $1 AND session = $2 FOR UPDATE"
# One notice of missed runs of a job is enough.
TAKE_MISSED = """WITH gone AS (DELETE FROM @items
        WHERE owner = $1 AND session = $2 AND job_id = $3 AND status = 'missed'
            AND delivered_ms IS NULL AND id <> $4 RETURNING missed)
    SELECT coalesce(sum(missed), 0)::bigint AS missed FROM gone"""
ADD_EVENT = f"""WITH head AS (
        INSERT INTO @heads AS h (owner, session, events)
        SELECT $1, $2, {NUMBER_NOW} WHERE NOT EXISTS (SELECT 1 FROM @events
            WHERE owner = $1 AND session = $2 AND kind = $3 AND key = $4)
        ON CONFLICT (owner, session) DO UPDATE SET events = {write_next("events")}
        RETURNING events),
    added AS (
        INSERT INTO @events (owner, session, kind, key, at_ms, data, seq)
        SELECT $1, $2, $3, $4, $5, $6, head.events FROM head
        ON CONFLICT (owner, session, kind, key) DO NOTHING RETURNING seq),
    posted AS (
        INSERT INTO @posts (hook, owner, session, seq, at_ms)
        SELECT hook, $1, $2, added.seq, $5 FROM added, unnest($7::text[]) hook),
    trimmed AS (
        DELETE FROM @events WHERE owner = $1 AND session = $2
            AND seq <= (SELECT seq FROM added) - $8)
    SELECT seq FROM added"""


class NewsWriter:
    """Writes items and events inside a transaction, and events for the webhooks of their owners."""

    def __init__(self) -> None:
        self.hooks: Mapping[str, Sequence[str]] = {}
        """The names of each owner's webhooks."""

    async def write(
        self, items: Sequence[OutboxItem], events: Sequence[SessionEvent], connection: Connection
    ) -> None:
        """Write items and events of any sessions, in the order of their sessions."""
        for item in sorted(items, key=lambda item: (item.owner, item.session)):
            await add_item(item, connection)
        for event in sorted(events, key=lambda event: (event.owner, event.session)):
            await self.add_event(event, connection)

    async def add_event(self, event: SessionEvent, connection: Connection) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there."""
        values = (event.owner, event.session, event.kind, event.key, event.at_ms, event.data)
        hooks = list(self.hooks.get(event.owner, ()))
        row = await connection.ask_one(ADD_EVENT, *values, hooks, MOST_EVENTS)
        return None if row is None else replace(event, seq=row["seq"])


async def add_item(item: OutboxItem, connection: Connection) -> OutboxItem:
    """Append an item to its session's queue, unless it is or was there."""
    if item.status == "missed":
        item = await _with_earlier(item, connection)
    whose = (item.id, item.owner, item.session, item.at_ms, item.text.encode())
    origin = (item.job_id, item.run_id, item.name.encode(), item.status, item.missed)
    row = await connection.ask_one(ADD_ITEM, *whose, *origin)
    if row is not None:
        return replace(item, seq=row["seq"])
    found = await connection.ask_one(FIND_ITEM, item.owner, item.session, item.id)
    assert found is not None
    return read_item(found)


async def _with_earlier(item: OutboxItem, connection: Connection) -> OutboxItem:
    """Merge the item with waiting notices of runs that the same job missed."""
    await connection.ask(LOCK_HEAD, item.owner, item.session)
    row = await connection.ask_one(TAKE_MISSED, item.owner, item.session, item.job_id, item.id)
    assert row is not None
    if not row["missed"]:
        return item
    count = item.missed + row["missed"]
    return replace(item, missed=count, text=write_missed_notice(count, item.at_ms))


def read_item(row: Mapping[str, Any]) -> OutboxItem:
    """Read an item from its row."""
    fields = dict(row)
    text, name = fields.pop("text").decode(), fields.pop("name").decode()
    return OutboxItem(text=text, name=name, **fields)
