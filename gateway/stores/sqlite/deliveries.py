"""Items that wait for sessions, and events of sessions, in a database.

Items and events are numbered by their table, so the order of numbers is the order of commits: one
thread writes. An item that was delivered keeps its row until it is pruned, so that the same id is
never delivered twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from heapq import nlargest

from msgspec.structs import replace

from gateway.jobs.run_rules import write_missed_notice
from gateway.stores.delivery_rows import (
    DeliveredItem,
    ItemReservation,
    OutboxItem,
    SessionEvent,
    TellDelivered,
    WaitingItems,
)
from gateway.stores.documents import SessionKey
from gateway.stores.sqlite.engine import Engine

ITEM_COLUMNS = "id, owner, session, at_ms, text, job_id, run_id, name, status, missed"
ADD_ITEM = f"""INSERT INTO items ({ITEM_COLUMNS})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, session, id) DO NOTHING"""
FIND_ITEM = f"SELECT {ITEM_COLUMNS}, seq FROM items WHERE owner = ? AND session = ? AND id = ?"
PENDING = f"""SELECT {ITEM_COLUMNS}, seq FROM items
    WHERE owner = ? AND session = ? AND delivered_ms IS NULL ORDER BY seq"""
MISSED = """SELECT coalesce(sum(missed), 0) FROM items
    WHERE owner = ? AND session = ? AND job_id = ? AND status = 'missed' AND delivered_ms IS NULL"""
DROP_MISSED = """DELETE FROM items
    WHERE owner = ? AND session = ? AND job_id = ? AND status = 'missed' AND delivered_ms IS NULL"""
WAITING = "SELECT DISTINCT owner, session FROM items WHERE delivered_ms IS NULL"
COUNT_WAITING = """SELECT owner, session, count(*), max(at_ms) FROM items
    WHERE delivered_ms IS NULL AND (?1 IS NULL OR owner = ?1) GROUP BY owner, session"""
DELIVERED = """SELECT delivered_ms, seq FROM items
    WHERE owner = ? AND session = ? AND delivered_ms IS NOT NULL"""
ITEM = f"SELECT {ITEM_COLUMNS}, seq FROM items WHERE seq = ?"
DELIVER = """UPDATE items SET delivered_ms = ?
    WHERE owner = ? AND session = ? AND id = ? AND delivered_ms IS NULL"""
NOTE = """INSERT INTO events (owner, session, kind, key, at_ms, data) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner, session, kind, key) DO NOTHING"""
OF_SESSION = """SELECT owner, session, kind, key, at_ms, data, seq FROM events
    WHERE owner = ? AND session = ? AND seq > ? ORDER BY seq LIMIT ?"""
OF_OWNER = """SELECT owner, session, kind, key, at_ms, data, seq FROM events
    WHERE owner = ? AND seq > ? ORDER BY seq LIMIT ?"""
# The limit for one session, so that a busy one does not fill the disk while events are kept.
MOST_EVENTS = 1000
SURPLUS = """DELETE FROM events WHERE owner = ?1 AND session = ?2 AND seq <= (
    SELECT seq FROM events WHERE owner = ?1 AND session = ?2
    ORDER BY seq DESC LIMIT 1 OFFSET ?3)"""
LAST = "SELECT coalesce(max(seq), 0) FROM events"
FORGET = tuple(
    f"DELETE FROM {table} WHERE owner = ? AND session = ?"
    for table in ("items", "events", "interests")
)
# Some at a time, so that other changes do not wait for a long deletion.
PRUNED_AT_ONCE = 1000
PRUNE = tuple(
    f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {time} < ? LIMIT ?)"
    for table, time in (("events", "at_ms"), ("items", "delivered_ms"), ("interests", "at_ms"))
)
NOTE_INTEREST = """INSERT INTO interests (owner, session, at_ms) VALUES (?, ?, ?)
    ON CONFLICT (owner, session) DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)"""
INTERESTS = "SELECT owner, session FROM interests ORDER BY owner, session"
POSITION = "SELECT seq FROM positions WHERE name = ?"
MOVE = """INSERT INTO positions (name, seq) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET seq = max(seq, excluded.seq)"""


class SqliteDeliveries:
    """The `DeliveryRows` of a database."""

    is_shared = False

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._now_ms = now_ms

    async def add(self, item: OutboxItem) -> OutboxItem:
        """Append an item to its session's queue, unless it is or was there."""
        return await self._engine.change(partial(add_item, item))

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        """Return undelivered items, in order."""
        return await self._engine.ask(partial(_pending, owner, session))

    async def waiting(self) -> list[SessionKey]:
        """Return the sessions that have undelivered items."""
        return await self._engine.ask(_waiting)

    async def count_waiting(self, owner: str | None) -> list[WaitingItems]:
        """Count undelivered items by session: an owner's, or everybody's."""
        return await self._engine.ask(partial(_count_waiting, owner))

    async def list_delivered(self, owner: str, session: str, limit: int) -> list[DeliveredItem]:
        """Return items that were delivered, the last delivered first."""
        return await self._engine.ask(partial(_list_delivered, owner, session, limit))

    async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
        """Return all of them: the ledger of this process knows who holds which."""
        return wanted.ids

    async def release(self, owner: str, session: str, token: str) -> None:
        """Do nothing: nothing was written."""

    async def deliver(
        self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        """Mark items as delivered; return the ids of those that were not yet."""
        query = partial(_deliver, (owner, session), ids, self._now_ms(), tell)
        return await self._engine.mend(query)

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and the interest in it."""
        await self._engine.mend(partial(_forget, owner, session))

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there.

        If the log is too long, its oldest events are deleted.
        """
        return await self._engine.change(partial(add_event, event))

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events after a number, in order."""
        return await self._engine.ask(partial(_events, OF_SESSION, (owner, session, after, limit)))

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        """Return the events of all sessions of an owner after a number, in order."""
        return await self._engine.ask(partial(_events, OF_OWNER, (owner, after, limit)))

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the newest event of all sessions, 0 if there is none."""
        return await self._engine.ask(partial(_number, LAST, ()))

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; return how many."""
        pruned = 0
        for statement in PRUNE:
            done = PRUNED_AT_ONCE
            while done == PRUNED_AT_ONCE:
                done = await self._engine.mend(partial(_prune, statement, before_ms))
                pruned += done
        return pruned

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Store that somebody listens to this session."""
        await self._engine.change(partial(_do, NOTE_INTEREST, (owner, session, at_ms)))

    async def interests(self) -> list[SessionKey]:
        """Return the sessions that somebody listens to, or did lately."""
        return await self._engine.ask(_interests)

    async def position(self, name: str) -> int:
        """Return the stored position of a reader of events; 0 if there is none."""
        return await self._engine.ask(partial(_number, POSITION, (name,)))

    async def move(self, name: str, seq: int) -> None:
        """Store the position of a reader of events; it never goes back."""
        await self._engine.change(partial(_do, MOVE, (name, seq)))


def add_item(item: OutboxItem, connection: sqlite3.Connection) -> OutboxItem:
    """Append an item to its session's queue, unless it is or was there."""
    if item.status == "missed":
        item = _with_earlier(item, connection)
    whose = (item.id, item.owner, item.session)
    origin = (item.job_id, item.run_id, item.name)
    kind = (item.status, item.missed)
    done = connection.execute(ADD_ITEM, (*whose, item.at_ms, item.text, *origin, *kind))
    if done.rowcount > 0 and done.lastrowid:
        return replace(item, seq=done.lastrowid)
    return OutboxItem(
        *connection.execute(FIND_ITEM, (item.owner, item.session, item.id)).fetchone()
    )


def _with_earlier(item: OutboxItem, connection: sqlite3.Connection) -> OutboxItem:
    """Merge the item with waiting notices of runs that the same job missed: one item is enough."""
    job = (item.owner, item.session, item.job_id)
    (earlier,) = connection.execute(MISSED, job).fetchone()
    if not earlier:
        return item
    connection.execute(DROP_MISSED, job)
    count = item.missed + earlier
    return replace(item, missed=count, text=write_missed_notice(count, item.at_ms))


def _pending(owner: str, session: str, connection: sqlite3.Connection) -> list[OutboxItem]:
    """Return what is not delivered, in order."""
    return [OutboxItem(*row) for row in connection.execute(PENDING, (owner, session))]


def _waiting(connection: sqlite3.Connection) -> list[SessionKey]:
    """Return the sessions that have something undelivered."""
    return connection.execute(WAITING).fetchall()


def _count_waiting(owner: str | None, connection: sqlite3.Connection) -> list[WaitingItems]:
    return [WaitingItems(*row) for row in connection.execute(COUNT_WAITING, (owner,))]


def _list_delivered(
    owner: str, session: str, limit: int, connection: sqlite3.Connection
) -> list[DeliveredItem]:
    # Sorted here, so that the texts of the others are not read.
    newest = nlargest(limit, connection.execute(DELIVERED, (owner, session)))
    return [
        DeliveredItem(OutboxItem(*connection.execute(ITEM, (seq,)).fetchone()), delivered_ms)
        for delivered_ms, seq in newest
    ]


def _deliver(
    session_key: SessionKey,
    ids: tuple[str, ...],
    at_ms: int,
    tell: TellDelivered | None,
    connection: sqlite3.Connection,
) -> tuple[str, ...]:
    """Mark items delivered; return the ids of those that were not yet."""
    delivered = tuple(
        item_id
        for item_id in ids
        if connection.execute(DELIVER, (at_ms, *session_key, item_id)).rowcount > 0
    )
    if tell is not None:
        for item_id in delivered:
            add_event(tell(item_id), connection)
    return delivered


def add_event(event: SessionEvent, connection: sqlite3.Connection) -> SessionEvent | None:
    """Append an event to the log of a session; return None if it is already there."""
    values = (event.owner, event.session, event.kind, event.key, event.at_ms, event.data)
    done = connection.execute(NOTE, values)
    if done.rowcount <= 0:
        return None
    connection.execute(SURPLUS, (event.owner, event.session, MOST_EVENTS))
    return replace(event, seq=done.lastrowid)


def _events(
    statement: str, values: tuple[str | int, ...], connection: sqlite3.Connection
) -> list[SessionEvent]:
    return [SessionEvent(*row) for row in connection.execute(statement, values)]


def _number(statement: str, values: tuple[str, ...], connection: sqlite3.Connection) -> int:
    row = connection.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


def _forget(owner: str, session: str, connection: sqlite3.Connection) -> None:
    for statement in FORGET:
        connection.execute(statement, (owner, session))


def _prune(statement: str, before_ms: int, connection: sqlite3.Connection) -> int:
    return connection.execute(statement, (before_ms, PRUNED_AT_ONCE)).rowcount


def _do(statement: str, values: tuple[str | int, ...], connection: sqlite3.Connection) -> None:
    connection.execute(statement, values)


def _interests(connection: sqlite3.Connection) -> list[SessionKey]:
    return connection.execute(INTERESTS).fetchall()
