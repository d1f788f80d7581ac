"""The queue of results of runs that wait for a session; each item goes to one turn at a time.

Items are rows in the store. The runner of jobs writes them, and then calls `announce`. Most
sessions have none, and their requests must not pay for a read: `_waiting` has every session for
which something may wait, and all others are skipped without a read. A session is removed from it
when a read found nothing, unless an item was announced during that read, which changes its number.

The ledger (gateway/outbox/ledger) knows which turn carries an item, and which deliveries are owed.
The queue locks a session while it reads or writes, keeps the queues short, and writes in the
background what could not be written at once. In a store that instances share, a turn first reserves
its items there, by a token which says what kind of request it is; so a conversation may take over
what a side call holds at another instance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import NoReturn

import anyio

from gateway.outbox.ledger import Claim, Ledger, LedgerEvents
from gateway.outbox.wakeup import Wakeup
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.delivery_rows import (
    DeliveryRows,
    ItemReservation,
    OutboxItem,
    TellDelivered,
)
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import ITEMS
from gateway.stores.waiting import KeyLocks, Unsubscribe, join_both

Note = Callable[..., None]

# The limits of one request; the rest comes with the next requests.
MOST_CARRIED = 20
MOST_CARRIED_CHARACTERS = 256 * 1024
# Of results that nobody fetches, only the newest wait; the runs of their jobs still have all.
MOST_WAITING = 100
TRIMMED_AFTER = 20
# A change waits for the disk and for earlier changes; a store that takes longer is down.
PATIENCE_SECONDS = 30.0
RETRY_SECONDS = 5.0
# The ledger needs a time, but the rows get their own when they are written.
STORE_TIME = 0
EVENTS = LedgerEvents(
    reserved="deliveries_reserved",
    committed="deliveries_committed",
    released="deliveries_released",
    owed="deliveries_owed",
)


@dataclass(slots=True)
class DeliveryCounts:
    """How many results were added, delivered and so on since the process began."""

    added: int = 0
    reserved: int = 0
    committed: int = 0
    released: int = 0
    acknowledged: int = 0
    dropped: int = 0


class OutboxQueue:
    """Gives the waiting items of a session to its turns, each item to one turn at a time."""

    def __init__(
        self,
        rows: DeliveryRows,
        note: Note,
        patience: float = PATIENCE_SECONDS,
        retry_after: float = RETRY_SECONDS,
    ) -> None:
        self.rows = rows
        self.note = note
        self.counts = DeliveryCounts()
        self.events = EVENTS
        self._patience = patience
        self._retry_after = retry_after
        # The sessions for which something may wait; the number changes with each new item.
        self._waiting: dict[SessionKey, int] = {}
        self._numbers = itertools.count(1)
        self._ledger = Ledger(self)
        self._grown: dict[SessionKey, int] = {}
        self._locks = KeyLocks()
        self._chores = Wakeup()
        self._freed: list[tuple[SessionKey, str]] = []
        """The reservations to be released in the store."""
        self._unread = False
        """Whether the items that waited at the start are not loaded yet."""
        self.entries: SessionEntries | None = None
        """What requests found waiting, in a store that instances share."""

    def __repr__(self) -> str:
        return f"<OutboxQueue for {len(self._waiting)} sessions, {self._ledger!r}>"

    async def load(self) -> None:
        """Load the sessions for which something waits; if the store is down, do it later."""
        try:
            await self._load()
        except StoreUnavailable as error:
            self.note("deliveries_not_read", why=error.message)
            self._unread = True
            self._chores.rouse()

    async def _load(self) -> None:
        for key in await self.rows.waiting():
            self._waiting[key] = next(self._numbers)
            self._ledger.wake(key)
        self._unread = False

    def announce(self, item: OutboxItem) -> None:
        """Note an item that was added to the store."""
        key = (item.owner, item.session)
        self.counts.added += 1
        self._waiting[key] = next(self._numbers)
        self._grown[key] = self._grown.get(key, 0) + 1
        if self._grown[key] >= TRIMMED_AFTER:
            self._chores.rouse()
        self._tell(key)
        self._ledger.wake(key)

    def look_again(self, owner: str, session: str) -> None:
        """Note that something may have been added to a session's queue."""
        self._waiting[owner, session] = next(self._numbers)
        self._ledger.wake((owner, session))

    def _tell(self, key: SessionKey) -> None:
        """Tell all instances that what waits for a session has changed."""
        if self.entries is not None:
            self.entries.hints.tell(ITEMS, key)

    def idle(self, owner: str, session: str) -> bool:
        """Return without I/O whether nothing waits; where instances share it, True is certain."""
        if self.entries is not None:
            return self.entries.has_no_items((owner, session))
        return (owner, session) not in self._waiting

    def waiting_sessions(self, owner: str) -> list[str]:
        """Return the sessions of an owner for which something may wait."""
        return [session for session_owner, session in self._waiting if session_owner == owner]

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback when an item is added or no longer waits."""
        here = self._ledger.watch((owner, session), callback)
        if self.entries is None:
            return here
        return join_both(here, self.entries.hints.watch(ITEMS, (owner, session), callback))

    def list_held(self, owner: str, session: str) -> Container[str]:
        """Return the ids of a session's items that turns carry now."""
        return self._ledger.list_held((owner, session))

    async def pending(self, owner: str, session: str) -> tuple[OutboxItem, ...]:
        """Return undelivered items, reserved or not; raise if the store is down."""
        key = (owner, session)
        if self.idle(owner, session):
            return ()
        # Locked, so that it does not overlap a write of deliveries (see the ledger).
        await self._locks.acquire(key)
        try:
            number = self._waiting.get(key)
            items = await self._read(key)
            if not items and self._waiting.get(key) == number:
                self._waiting.pop(key, None)
        finally:
            self._locks.release(key)
        owed = self._ledger.list_owed(key)
        return tuple(item for item in items if item.id not in owed)

    async def _read(self, key: SessionKey) -> list[OutboxItem]:
        found = None if self.entries is None else self.entries.find_taken(key)
        return await self.rows.pending(*key) if found is None else found.items

    async def reserve(
        self, owner: str, session: str, exchange_id: str, requester: Requester = UNKNOWN
    ) -> Claim[OutboxItem] | None:
        """Claim what waits for a turn of this exchange; None if nothing does, or the store is down.

        A claim of a side call of the session that is not delivered yet is taken over.
        """
        key = (owner, session)
        try:
            items = await self.pending(owner, session)
        except StoreUnavailable as error:
            self._log("deliveries_not_read", key, why=error.message)
            return None
        held = self._ledger.list_held(key, requester)
        free = (item for item in items if item.id not in held)
        chosen = choose_items(tuple(item for item in free if not _is_kept_from(item, requester)))
        token = ""
        if chosen and self.rows.is_shared:
            token = write_token(requester)
            chosen = await self._reserve_stored(key, chosen, token)
        if not chosen:
            return None
        claim = Claim(f"{exchange_id}:delivery", key, chosen, requester, token)
        self._ledger.reserve(claim)
        return claim

    async def _reserve_stored(
        self, key: SessionKey, items: tuple[OutboxItem, ...], token: str
    ) -> tuple[OutboxItem, ...]:
        """Reserve items in the store; return those that no other turn got first."""
        replaced = tuple({item.token for item in items if item.token})
        ids = tuple(item.id for item in items)
        got: tuple[str, ...] | None = None
        try:
            got = await self.rows.reserve(ItemReservation(*key, ids, token, replaced))
        except StoreUnavailable as error:
            self._log("deliveries_not_read", key, why=error.message)
            return ()
        finally:
            if got is None:
                # It failed or was cancelled: nobody knows whether they were reserved.
                self._free(key, token)
        return tuple(item for item in items if item.id in got)

    async def is_held(self, claim: Claim[OutboxItem]) -> bool:
        """Return by a read whether a claim still holds its items in the store."""
        reserved = {one.id for one in await self.pending(*claim.key) if one.token == claim.token}
        return all(one.id in reserved for one in self._ledger.list_held_by(claim))

    def _free(self, key: SessionKey, token: str) -> None:
        """Release a reservation in the store, soon."""
        self._freed.append((key, token))
        self._chores.rouse()

    async def commit(self, claim: Claim[OutboxItem]) -> None:
        """Mark the claimed items as delivered; if that cannot be written yet, it is owed."""
        await self._ledger.commit(claim, STORE_TIME)
        if self._ledger.list_owed(claim.key):
            self._chores.rouse()

    def release(self, claim: Claim[OutboxItem]) -> None:
        """Release a claim, unless it was committed or released before."""
        self._ledger.release(claim)
        if claim.token:
            self._free(claim.key, claim.token)

    async def acknowledge(
        self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        """Mark items as delivered in another way, durably; return those that were waiting.

        `tell` makes the events that tell of them.
        A turn that carries one of them now no longer delivers or releases it.
        """
        key = (owner, session)
        if self.idle(owner, session):
            return ()
        owed = self._ledger.list_owed(key)
        found = await self._deliver(key, tuple(one for one in ids if one not in owed), tell)
        if found:
            self._ledger.acknowledge(key, found)
            self._log("deliveries_acknowledged", key, items=",".join(found))
            self._ledger.wake(key)
        return found

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items and events."""
        key = (owner, session)
        await self.rows.forget(owner, session)
        self._tell(key)
        self._waiting.pop(key, None)
        self._grown.pop(key, None)
        self._ledger.forget(key)
        self._ledger.wake(key)

    async def run(self) -> NoReturn:
        """Write owed deliveries and keep the queues short, forever."""
        while True:
            self._chores.look()
            try:
                await self._tidy()
            except StoreUnavailable as error:
                self.note("deliveries_not_kept", why=error.message)
                await anyio.sleep(self._retry_after)
            else:
                await self._chores.wait()

    async def _deliver(
        self, key: SessionKey, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        """Write that items are delivered; a cancel waits for that, up to the time limit."""
        with anyio.move_on_after(self._patience, shield=True):
            await self._locks.acquire(key)
            try:
                return await self.rows.deliver(*key, ids, tell)
            finally:
                self._locks.release(key)
                self._tell(key)
        raise StoreUnavailable("The store of deliveries does not answer; try again later.")

    async def write_delivered(self, key: SessionKey) -> None:
        """Write the owed deliveries of a session; raise if the store is down."""
        ids = tuple(self._ledger.list_owed(key))
        await self._deliver(key, ids)
        self._ledger.settle(key, ids)

    def describe_claim(
        self, claim: Claim[OutboxItem], items: tuple[OutboxItem, ...]
    ) -> Mapping[str, object]:
        """Return the log fields of a claim."""
        return {
            "reservation": claim.id,
            "count": len(items),
            "items": ",".join(item.id for item in items),
        }

    async def _tidy(self) -> None:
        if self._unread:
            await self._load()
        for key in self._ledger.debtors():
            await self.write_delivered(key)
        while self._freed:
            key, token = self._freed[0]
            await self.rows.release(*key, token)
            self._freed.remove((key, token))
            self._ledger.wake(key)
        grown = [key for key, count in self._grown.items() if count >= TRIMMED_AFTER]
        for key in grown:
            del self._grown[key]
            await self._trim(key)

    async def _trim(self, key: SessionKey) -> None:
        """Drop the oldest items if too many wait, except those that a turn carries."""
        items = await self.pending(*key)
        held = self._ledger.list_held(key)
        surplus = [item.id for item in items[: max(0, len(items) - MOST_WAITING)] if not item.token]
        dropped = await self._deliver(key, tuple(one for one in surplus if one not in held))
        if dropped:
            self.counts.dropped += len(dropped)
            self._log("deliveries_dropped", key, count=len(dropped), items=",".join(dropped))

    def _log(self, event: str, key: SessionKey, **more: object) -> None:
        self.note(event, owner=key[0], session=key[1], **more)


def write_token(requester: Requester) -> str:
    """Make the token of a reservation; it says who may take the items over."""
    return f"{token_hex(8)}:{'tools' if requester.tools else ''}:{requester.system}"


def read_token(token: str) -> Requester:
    """Return the request that made a reservation."""
    _, tools, system = token.split(":", 2)
    return Requester(bool(tools), system)


def _is_kept_from(item: OutboxItem, requester: Requester) -> bool:
    """Whether a turn at any instance holds an item against a requester."""
    return bool(item.token) and not requester.outranks(read_token(item.token))


def choose_items(items: tuple[OutboxItem, ...]) -> tuple[OutboxItem, ...]:
    """Return the first items that fit into one request; at least one."""
    chosen: list[OutboxItem] = []
    left = MOST_CARRIED_CHARACTERS
    for item in items[:MOST_CARRIED]:
        left -= len(item.text)
        if chosen and left < 0:
            break
        chosen.append(item)
    return tuple(chosen)
