"""Items that wait for sessions, in a database: each function is a part of one transaction."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from gateway.stores.rows import Item

ADD = """INSERT INTO items (id, owner, session, at_ms, text, job_id, run_id, name)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, session, id) DO NOTHING"""
FIND = """SELECT id, owner, session, at_ms, text, job_id, run_id, name, seq FROM items
    WHERE owner = ? AND session = ? AND id = ?"""
PENDING = """SELECT id, owner, session, at_ms, text, job_id, run_id, name, seq FROM items
    WHERE owner = ? AND session = ? AND delivered_ms IS NULL ORDER BY seq"""
WAITING = "SELECT DISTINCT owner, session FROM items WHERE delivered_ms IS NULL"
DELIVER = """UPDATE items SET delivered_ms = ?
    WHERE owner = ? AND session = ? AND id = ? AND delivered_ms IS NULL"""


def add(item: Item, connection: sqlite3.Connection) -> Item:
    """Put an item at the end of its session's queue, unless it is or was there."""
    whose = (item.id, item.owner, item.session)
    origin = (item.job_id, item.run_id, item.name)
    done = connection.execute(ADD, (*whose, item.at_ms, item.text, *origin))
    if done.rowcount > 0 and done.lastrowid:
        return replace(item, seq=done.lastrowid)
    return Item(*connection.execute(FIND, (item.owner, item.session, item.id)).fetchone())


def pending(owner: str, session: str, connection: sqlite3.Connection) -> list[Item]:
    """Return what is not delivered, in order."""
    return [Item(*row) for row in connection.execute(PENDING, (owner, session))]


def waiting(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return the sessions that have something undelivered."""
    return connection.execute(WAITING).fetchall()


def deliver(
    whose: tuple[str, str], ids: tuple[str, ...], at_ms: int, connection: sqlite3.Connection
) -> tuple[str, ...]:
    """Mark items delivered; return the ids of those that were not yet."""
    return tuple(
        item_id
        for item_id in ids
        if connection.execute(DELIVER, (at_ms, *whose, item_id)).rowcount > 0
    )
