"""Items that wait for sessions, in a database: each function is a part of one transaction."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from gateway.jobs.notices import missed_notice
from gateway.stores.documents import SessionKey
from gateway.stores.rows import OutboxItem

COLUMNS = "id, owner, session, at_ms, text, job_id, run_id, name, status, missed"
ADD = f"""INSERT INTO items ({COLUMNS})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, session, id) DO NOTHING"""
FIND = f"SELECT {COLUMNS}, seq FROM items WHERE owner = ? AND session = ? AND id = ?"
PENDING = f"""SELECT {COLUMNS}, seq FROM items
    WHERE owner = ? AND session = ? AND delivered_ms IS NULL ORDER BY seq"""
MISSED = """SELECT coalesce(sum(missed), 0) FROM items
    WHERE owner = ? AND session = ? AND job_id = ? AND status = 'missed' AND delivered_ms IS NULL"""
DROP_MISSED = """DELETE FROM items
    WHERE owner = ? AND session = ? AND job_id = ? AND status = 'missed' AND delivered_ms IS NULL"""
WAITING = "SELECT DISTINCT owner, session FROM items WHERE delivered_ms IS NULL"
DELIVER = """UPDATE items SET delivered_ms = ?
    WHERE owner = ? AND session = ? AND id = ? AND delivered_ms IS NULL"""


def add(item: OutboxItem, connection: sqlite3.Connection) -> OutboxItem:
    """Put an item at the end of its session's queue, unless it is or was there."""
    if item.status == "missed":
        item = _with_earlier(item, connection)
    whose = (item.id, item.owner, item.session)
    origin = (item.job_id, item.run_id, item.name)
    kind = (item.status, item.missed)
    done = connection.execute(ADD, (*whose, item.at_ms, item.text, *origin, *kind))
    if done.rowcount > 0 and done.lastrowid:
        return replace(item, seq=done.lastrowid)
    return OutboxItem(*connection.execute(FIND, (item.owner, item.session, item.id)).fetchone())


def _with_earlier(item: OutboxItem, connection: sqlite3.Connection) -> OutboxItem:
    """Count in what the queue says already of times that the same job missed: one item says all."""
    place = (item.owner, item.session, item.job_id)
    (earlier,) = connection.execute(MISSED, place).fetchone()
    if not earlier:
        return item
    connection.execute(DROP_MISSED, place)
    count = item.missed + earlier
    return replace(item, missed=count, text=missed_notice(count, item.at_ms))


def pending(owner: str, session: str, connection: sqlite3.Connection) -> list[OutboxItem]:
    """Return what is not delivered, in order."""
    return [OutboxItem(*row) for row in connection.execute(PENDING, (owner, session))]


def waiting(connection: sqlite3.Connection) -> list[SessionKey]:
    """Return the sessions that have something undelivered."""
    return connection.execute(WAITING).fetchall()


def deliver(
    session_key: SessionKey, ids: tuple[str, ...], at_ms: int, connection: sqlite3.Connection
) -> tuple[str, ...]:
    """Mark items delivered; return the ids of those that were not yet."""
    return tuple(
        item_id
        for item_id in ids
        if connection.execute(DELIVER, (at_ms, *session_key, item_id)).rowcount > 0
    )
