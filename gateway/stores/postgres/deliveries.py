"""Items that wait for sessions, and events of sessions, on PostgreSQL.

A turn reserves items by a token before it carries them. A reservation counts while the instance
that made it lives; whoever meets one of a buried instance takes the items over. That an item was
delivered is noted whoever holds it: the client has seen it.
"""

from __future__ import annotations

from functools import partial

from gateway.stores.delivery_rows import (
    DeliveredItem,
    ItemReservation,
    OutboxItem,
    SessionEvent,
    TellDelivered,
    WaitingItems,
)
from gateway.stores.documents import SessionKey
from gateway.stores.postgres import news
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.news import ITEM_COLUMNS, NewsWriter, add_item, read_item
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import PRUNED_AT_ONCE, is_free, write_prune

HEARD_MS = 7 * 24 * 60 * 60 * 1000
"""How long a session is listened to after somebody was last seen listening."""

HELD = f"CASE WHEN token IS NOT NULL AND NOT {is_free('holder')} THEN token ELSE '' END AS token"
PENDING = f"""SELECT {ITEM_COLUMNS}, {HELD} FROM @items
    WHERE owner = $1 AND session = $2 AND delivered_ms IS NULL ORDER BY seq"""
WAITING = "SELECT DISTINCT owner, session FROM @items WHERE delivered_ms IS NULL"
COUNT_WAITING = """SELECT owner, session, count(*), max(at_ms) FROM @items
    WHERE delivered_ms IS NULL AND ($1::text IS NULL OR owner = $1) GROUP BY owner, session"""
DELIVERED = f"""SELECT {ITEM_COLUMNS}, delivered_ms FROM @items
    WHERE owner = $1 AND session = $2 AND delivered_ms IS NOT NULL
    ORDER BY delivered_ms DESC, seq DESC LIMIT $3"""
# Locked in the order of their numbers, so that two who want the same do not wait for each other.
RESERVE = f"""UPDATE @items i SET holder = $4, token = $5 FROM (
        SELECT seq FROM @items WHERE owner = $1 AND session = $2 AND id = ANY ($3)
            AND delivered_ms IS NULL
            AND (token IS NULL OR token = $5 OR token = ANY ($6) OR {is_free("holder")})
        ORDER BY seq FOR UPDATE) free
    WHERE i.owner = $1 AND i.session = $2 AND i.seq = free.seq
        AND (i.token IS NULL OR i.token = $5 OR i.token = ANY ($6) OR {is_free("i.holder")})
    RETURNING i.id"""
RELEASE = """UPDATE @items SET holder = NULL, token = NULL
    WHERE owner = $1 AND session = $2 AND token = $3 AND delivered_ms IS NULL"""
DELIVER = """UPDATE @items i SET delivered_ms = $4, holder = NULL, token = NULL FROM (
        SELECT seq FROM @items WHERE owner = $1 AND session = $2 AND id = ANY ($3)
            AND delivered_ms IS NULL ORDER BY seq FOR UPDATE) waiting
    WHERE i.owner = $1 AND i.session = $2 AND i.seq = waiting.seq AND i.delivered_ms IS NULL
    RETURNING i.id"""
EVENTS = """SELECT owner, session, kind, key, at_ms, data, seq FROM @events
    WHERE owner = $1 AND session = $2 AND seq > $3 ORDER BY seq LIMIT $4"""
LAST = "SELECT events FROM @heads WHERE owner = $1 AND session = $2"
# The head first, as everywhere.
FORGET = tuple(
    f"DELETE FROM @{table} WHERE owner = $1 AND session = $2"
    for table in ("heads", "items", "events", "posts")
)
PRUNE_EVENTS = write_prune("events", "at_ms < $1")
PRUNE_ITEMS = write_prune("items", "delivered_ms < $1")
PRUNE_INTERESTS = "UPDATE @heads SET heard_until = NULL WHERE heard_until < $1"
NOTE_INTEREST = """INSERT INTO @heads AS h (owner, session, heard_until) VALUES ($1, $2, $3)
    ON CONFLICT (owner, session) DO UPDATE
    SET heard_until = greatest(h.heard_until, excluded.heard_until)"""
INTERESTS = """SELECT owner, session FROM @heads WHERE heard_until IS NOT NULL
    ORDER BY owner, session"""


class PostgresDeliveries:
    """The `DeliveryRows` of a PostgreSQL."""

    is_shared = True

    def __init__(self, services: SharedServices, news: NewsWriter) -> None:
        self._services = services
        self._database = services.database
        self._news = news

    async def add(self, item: OutboxItem) -> OutboxItem:
        """Append an item to its session's queue, unless it is or was there."""
        return await self._database.change(partial(add_item, item))

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        """Return undelivered items, in order, reserved or not."""
        return [read_item(row) for row in await self._database.ask(PENDING, owner, session)]

    async def waiting(self) -> list[SessionKey]:
        """Return the sessions that have undelivered items."""
        return [(row["owner"], row["session"]) for row in await self._database.ask(WAITING)]

    async def count_waiting(self, owner: str | None) -> list[WaitingItems]:
        """Count undelivered items by session: an owner's, or everybody's."""
        return [WaitingItems(*row) for row in await self._database.ask(COUNT_WAITING, owner)]

    async def list_delivered(self, owner: str, session: str, limit: int) -> list[DeliveredItem]:
        """Return items that were delivered and are not pruned yet, the last delivered first."""
        found: list[DeliveredItem] = []
        for row in await self._database.ask(DELIVERED, owner, session, limit):
            fields = dict(row)
            delivered_ms = fields.pop("delivered_ms")
            found.append(DeliveredItem(read_item(fields), delivered_ms))
        return found

    async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
        """Reserve items for a turn; return the ids of those that nobody else holds."""
        whose = (wanted.owner, wanted.session, list(wanted.ids))
        how = (self._services.instance.id, wanted.token, list(wanted.replaced))
        got = {row["id"] for row in await self._database.ask(RESERVE, *whose, *how)}
        return tuple(item_id for item_id in wanted.ids if item_id in got)

    async def release(self, owner: str, session: str, token: str) -> None:
        """Release what is still reserved under a token."""
        await self._database.run(RELEASE, owner, session, token)

    async def deliver(
        self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        """Mark items as delivered; return the ids of those that were not yet."""
        values = (owner, session, list(ids), self._services.now_ms())
        wanted = tuple(dict.fromkeys(ids))

        async def work(connection: Connection) -> tuple[str, ...]:
            if tell is not None:
                await connection.ask(news.LOCK_HEAD, owner, session)
            done = {row["id"] for row in await connection.ask(DELIVER, *values)}
            delivered = tuple(item_id for item_id in wanted if item_id in done)
            if tell is not None:
                await self._news.write((), [tell(item_id) for item_id in delivered], connection)
            return delivered

        if tell is None:
            return await self._database.use(work)
        return await self._database.change(work)

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and the interest in it."""

        async def work(connection: Connection) -> None:
            for statement in FORGET:
                await connection.run(statement, owner, session)

        await self._database.change(work)

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there.

        If the log is too long, its oldest events are deleted.
        """
        return await self._database.use(partial(self._news.add_event, event))

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events after a number, in order."""
        rows = await self._database.ask(EVENTS, owner, session, after, limit)
        return [SessionEvent(*row) for row in rows]

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the session's newest event; 0 if there was none."""
        rows = await self._database.ask(LAST, owner, session)
        return rows[0]["events"] if rows else 0

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; return how many."""
        pruned = 0
        for statement in (PRUNE_EVENTS, PRUNE_ITEMS):
            done = PRUNED_AT_ONCE
            while done == PRUNED_AT_ONCE:
                done = await self._database.run(statement, before_ms, PRUNED_AT_ONCE)
                pruned += done
        return pruned + await self._database.run(PRUNE_INTERESTS, before_ms + HEARD_MS)

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Store that somebody listens to this session."""
        await self._database.run(NOTE_INTEREST, owner, session, at_ms + HEARD_MS)

    async def interests(self) -> list[SessionKey]:
        """Return the sessions that somebody listens to, or did lately."""
        return [(row["owner"], row["session"]) for row in await self._database.ask(INTERESTS)]
