"""What waits for sessions that are not asking: results of runs, given to one turn at a time.

An item is pending, then reserved by the turn that carries it, then delivered. A reservation lives
in memory and is gone with the process. What was delivered is owed to the store from that instant
on: it counts as delivered here, and is written as soon as that is possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import anyio

from gateway.exchange.model import UNKNOWN, Requester
from gateway.outbox.text import told
from gateway.outbox.wakeup import Wakeup
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.rows import DeliveryRows, OutboxItem
from gateway.stores.waiting import Turns, Unsubscribe, Watchers

Note = Callable[..., None]

# What one request brings is bounded; the rest comes with the ones after it.
MOST_CARRIED = 20
MOST_CARRIED_CHARACTERS = 256 * 1024
# Of results that nobody fetches the newest are kept, all of them in the records of their jobs.
MOST_WAITING = 100
TRIMMED_AFTER = 20
# A change waits for the disk, and for its turn among others; a store that takes longer is down.
PATIENCE_SECONDS = 30.0
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """The claim of one turn on what waits for its session."""

    id: str
    owner: str
    session: str
    items: tuple[OutboxItem, ...]
    requester: Requester = UNKNOWN

    @property
    def text(self) -> str:
        """What the model reads of it."""
        return told(self.items)


@dataclass(slots=True)
class DeliveryCounts:
    """How many results went which way since the process began."""

    added: int = 0
    reserved: int = 0
    committed: int = 0
    released: int = 0
    acknowledged: int = 0
    dropped: int = 0


class Deliveries:
    """Gives what waits for a session to the turns that ask for it, each item to one at a time."""

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
        self._patience = patience
        self._retry_after = retry_after
        # A session is in here while something may wait for it; its number changes with each item.
        self._waiting: dict[SessionKey, int] = {}
        self._numbers = itertools.count(1)
        self._reserved: dict[SessionKey, dict[str, Parcel]] = {}
        self._owed: dict[SessionKey, set[str]] = {}
        self._grown: dict[SessionKey, int] = {}
        self._turns = Turns()
        self._watchers = Watchers()
        self._chores = Wakeup()
        self._unread = False
        """Whether it is not known yet what waited at the start."""

    def __repr__(self) -> str:
        return f"<Deliveries for {len(self._waiting)} sessions, {len(self._owed)} owed>"

    async def load(self) -> None:
        """Learn which sessions something waits for; if the store is down, when it is back."""
        try:
            await self._load()
        except StoreUnavailable as error:
            self.note("deliveries_not_read", why=error.message)
            self._unread = True
            self._chores.rouse()

    async def _load(self) -> None:
        for key in await self.rows.waiting():
            self._waiting[key] = next(self._numbers)
            self._watchers.changed(key)
        self._unread = False

    def added(self, item: OutboxItem) -> None:
        """Take note of an item that was put into the store."""
        key = (item.owner, item.session)
        self.counts.added += 1
        self._waiting[key] = next(self._numbers)
        self._grown[key] = self._grown.get(key, 0) + 1
        if self._grown[key] >= TRIMMED_AFTER:
            self._chores.rouse()
        self._watchers.changed(key)

    def look_again(self, owner: str, session: str) -> None:
        """Take it that something may have been put into a session's queue."""
        self._waiting[owner, session] = next(self._numbers)
        self._watchers.changed((owner, session))

    def idle(self, owner: str, session: str) -> bool:
        """Tell at no cost whether nothing waits."""
        return (owner, session) not in self._waiting

    def waiting_sessions(self, owner: str) -> list[str]:
        """Return the sessions of an owner for which something may wait."""
        return [session for of, session in self._waiting if of == owner]

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called when something comes to wait, or does so no longer."""
        return self._watchers.watch((owner, session), callback)

    async def pending(self, owner: str, session: str) -> tuple[OutboxItem, ...]:
        """Return what is not delivered, reserved or not; raises if the store is down."""
        key = (owner, session)
        if key not in self._waiting:
            return ()
        await self._turns.take(key)
        try:
            return await self._read(key)
        finally:
            self._turns.give(key)

    async def reserve(
        self, owner: str, session: str, chain: str, requester: Requester = UNKNOWN
    ) -> Parcel | None:
        """Claim what waits for a turn of this chain; without a working store nothing does.

        What a side call of the session has claimed and not delivered yet is taken over.
        """
        key = (owner, session)
        if key not in self._waiting:
            return None
        await self._turns.take(key)
        try:
            return self._claim(key, chain, requester, await self._read(key))
        except StoreUnavailable as error:
            self._log("deliveries_not_read", key, why=error.message)
            return None
        finally:
            self._turns.give(key)

    async def commit(self, parcel: Parcel) -> None:
        """Note that it is delivered; if that cannot be written yet, it is owed."""
        key, ids = (parcel.owner, parcel.session), self._let_go(parcel)
        if not ids:
            return
        self._owed.setdefault(key, set()).update(ids)
        self.counts.committed += len(ids)
        try:
            await self._settle(key)
        except StoreUnavailable as error:
            self._log("deliveries_owed", key, why=error.message)
            self._chores.rouse()
        self._log("deliveries_committed", key, parcel=parcel.id, items=",".join(ids))
        self._watchers.changed(key)

    def release(self, parcel: Parcel) -> None:
        """Give back what was claimed, unless it was committed or given back before."""
        ids = self._let_go(parcel)
        if ids:
            key = (parcel.owner, parcel.session)
            self.counts.released += len(ids)
            self._log("deliveries_released", key, parcel=parcel.id, items=",".join(ids))
            self._watchers.changed(key)

    async def acknowledge(self, owner: str, session: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Take it that somebody has got these by another way, durably; return those who waited.

        A turn that carries one of them now has nothing to deliver or to give back any more.
        """
        key = (owner, session)
        if key not in self._waiting:
            return ()
        owed = self._owed.get(key, set())
        found = await self._deliver(key, tuple(one for one in ids if one not in owed))
        if found:
            self._forget_claims(key, found)
            self.counts.acknowledged += len(found)
            self._log("deliveries_acknowledged", key, items=",".join(found))
            self._watchers.changed(key)
        return found

    async def forget(self, owner: str, session: str) -> None:
        """Forget a session, and all that waits for it or happened in it."""
        key = (owner, session)
        await self.rows.forget(owner, session)
        for kept in (self._waiting, self._reserved, self._owed, self._grown):
            kept.pop(key, None)
        self._watchers.changed(key)

    async def run(self) -> NoReturn:
        """Write what is owed, and keep the queues short, for ever."""
        while True:
            self._chores.look()
            try:
                await self._tidy()
            except StoreUnavailable as error:
                self.note("deliveries_not_kept", why=error.message)
                await anyio.sleep(self._retry_after)
            else:
                await self._chores.wait()

    # Within a session's turn.

    async def _read(self, key: SessionKey) -> tuple[OutboxItem, ...]:
        """Read what is not delivered, in turn with those who write that.

        A read that overlaps a commit could come back after it, and give items that nothing holds
        any more as if they were still there.
        """
        number = self._waiting.get(key)
        items = await self.rows.pending(*key)
        if not items and self._waiting.get(key) == number:
            self._waiting.pop(key, None)
        owed = self._owed.get(key, ())
        return tuple(item for item in items if item.id not in owed)

    def _claim(
        self, key: SessionKey, chain: str, requester: Requester, items: tuple[OutboxItem, ...]
    ) -> Parcel | None:
        held = self._reserved.get(key, {})
        taken = {one for one, by in held.items() if not requester.outranks(by.requester)}
        chosen = _carried(tuple(item for item in items if item.id not in taken))
        if not chosen:
            return None
        parcel = Parcel(f"{chain}:delivery", *key, chosen, requester)
        self._reserved.setdefault(key, {}).update({item.id: parcel for item in chosen})
        self.counts.reserved += len(chosen)
        ids = ",".join(item.id for item in chosen)
        self._log("deliveries_reserved", key, parcel=parcel.id, items=ids)
        return parcel

    # Claims.

    def _let_go(self, parcel: Parcel) -> tuple[str, ...]:
        """End a claim, and return what it still held."""
        key = (parcel.owner, parcel.session)
        held = self._reserved.get(key, {})
        ids = tuple(item.id for item in parcel.items if held.get(item.id) is parcel)
        self._forget_claims(key, ids)
        return ids

    def _forget_claims(self, key: SessionKey, ids: tuple[str, ...]) -> None:
        held = self._reserved.get(key, {})
        for one in ids:
            held.pop(one, None)
        if not held:
            self._reserved.pop(key, None)

    # Writing.

    async def _deliver(self, key: SessionKey, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Write that items are delivered; whoever leaves is held until it is, but not for ever."""
        with anyio.move_on_after(self._patience, shield=True):
            await self._turns.take(key)
            try:
                return await self.rows.deliver(*key, ids)
            finally:
                self._turns.give(key)
        raise StoreUnavailable("The store of deliveries does not answer; try again later.")

    async def _settle(self, key: SessionKey) -> None:
        ids = tuple(self._owed.get(key, ()))
        await self._deliver(key, ids)
        left = self._owed.get(key, set()).difference(ids)
        if left:
            self._owed[key] = left
        else:
            self._owed.pop(key, None)

    async def _tidy(self) -> None:
        if self._unread:
            await self._load()
        for key in tuple(self._owed):
            await self._settle(key)
        grown = [key for key, count in self._grown.items() if count >= TRIMMED_AFTER]
        for key in grown:
            del self._grown[key]
            await self._trim(key)

    async def _trim(self, key: SessionKey) -> None:
        """Let go of the oldest where too many wait, but not of what a turn carries."""
        items = await self.pending(*key)
        taken = self._reserved.get(key, {})
        surplus = [item.id for item in items[: max(0, len(items) - MOST_WAITING)]]
        dropped = await self._deliver(key, tuple(one for one in surplus if one not in taken))
        if dropped:
            self.counts.dropped += len(dropped)
            self._log("deliveries_dropped", key, count=len(dropped), items=",".join(dropped))

    def _log(self, event: str, key: SessionKey, **more: object) -> None:
        self.note(event, owner=key[0], session=key[1], **more)


def _carried(items: tuple[OutboxItem, ...]) -> tuple[OutboxItem, ...]:
    """Return the first of them that one request may bring; one in any case."""
    chosen: list[OutboxItem] = []
    left = MOST_CARRIED_CHARACTERS
    for item in items[:MOST_CARRIED]:
        left -= len(item.text)
        if chosen and left < 0:
            break
        chosen.append(item)
    return tuple(chosen)
