"""Rows of deliveries in plain lists, which can be told to fail, or to answer late."""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from gateway.stores.delivery_rows import (
    DeliveredItem,
    ItemReservation,
    OutboxItem,
    SessionEvent,
    TellDelivered,
    WaitingItems,
)
from gateway.stores.documents import StoreUnavailable

Where = tuple[str, str]


class Ledger:
    """What a store of rows does for deliveries, as simply as can be.

    If it is shared, it knows reservations, too.
    """

    def __init__(self, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self.reserved: dict[str, str] = {}
        self.items: list[OutboxItem] = []
        self.delivered: list[str] = []
        self.log: list[SessionEvent] = []
        self.wanted: dict[Where, int] = {}
        self.positions: dict[str, int] = {}
        self.fails = self.fails_to_move = False
        # Each read of items from now on waits at the next of these, if there is one.
        self.gates: deque[anyio.Event] = deque()
        self.reads = 0

    async def _reach(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.fails:
            raise StoreUnavailable("The disk is gone.")

    async def add(self, item: OutboxItem) -> OutboxItem:
        await self._reach()
        kept = replace(item, seq=len(self.items) + 1)
        self.items.append(kept)
        return kept

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        await self._reach()
        self.reads += 1
        there = [item for item in self.items if (item.owner, item.session) == (owner, session)]
        found = [
            replace(item, token=self.reserved.get(item.id, ""))
            for item in there
            if item.id not in self.delivered
        ]
        if self.gates:
            await self.gates.popleft().wait()
        return found

    async def waiting(self) -> list[Where]:
        await self._reach()
        undelivered = (item for item in self.items if item.id not in self.delivered)
        return list({(item.owner, item.session) for item in undelivered})

    async def count_waiting(self, owner: str | None) -> list[WaitingItems]:
        found = [await self.pending(*where) for where in await self.waiting()]
        return [
            WaitingItems(items[0].owner, items[0].session, len(items), items[-1].at_ms)
            for items in found
            if owner in (None, items[0].owner)
        ]

    async def list_delivered(self, owner: str, session: str, limit: int) -> list[DeliveredItem]:
        await self._reach()
        here = [item for item in self.items if (item.owner, item.session) == (owner, session)]
        return [DeliveredItem(item, 0) for item in here if item.id in self.delivered][:limit]

    async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
        await self._reach()
        free = ("", *wanted.replaced)
        got = tuple(one for one in wanted.ids if self.reserved.get(one, "") in free)
        self.reserved.update(dict.fromkeys(got, wanted.token))
        return got

    async def release(self, owner: str, session: str, token: str) -> None:
        await self._reach()
        self.reserved = {one: held for one, held in self.reserved.items() if held != token}

    async def deliver(
        self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
    ) -> tuple[str, ...]:
        await self._reach()
        there = [item.id for item in self.items if (item.owner, item.session) == (owner, session)]
        found = tuple(one for one in ids if one in there and one not in self.delivered)
        self.delivered.extend(found)
        for item_id in found:
            if tell is not None:
                await self.note(tell(item_id))
        return found

    async def forget(self, owner: str, session: str) -> None:
        await self._reach()
        where = (owner, session)
        self.items = [item for item in self.items if (item.owner, item.session) != where]
        self.log = [event for event in self.log if (event.owner, event.session) != where]

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        await self._reach()
        name = (event.owner, event.session, event.kind, event.key)
        if name in ((one.owner, one.session, one.kind, one.key) for one in self.log):
            return None
        kept = replace(event, seq=len(self.log) + 1)
        self.log.append(kept)
        return kept

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        found = await self.events_since(owner, after, len(self.log))
        return [event for event in found if event.session == session][:limit]

    async def last_event(self, owner: str, session: str) -> int:
        await self._reach()
        return self.log[-1].seq if self.log else 0

    async def prune(self, before_ms: int) -> int:
        await self._reach()
        self.wanted = {where: at for where, at in self.wanted.items() if at >= before_ms}
        self.log = [event for event in self.log if event.at_ms >= before_ms]
        return 0

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        await self._reach()
        self.wanted[owner, session] = at_ms

    async def interests(self) -> list[Where]:
        await self._reach()
        return list(self.wanted)

    async def position(self, name: str) -> int:
        await self._reach()
        return self.positions.get(name, 0)

    async def move(self, name: str, seq: int) -> None:
        await self._reach()
        if self.fails_to_move:
            raise StoreUnavailable("The disk is full.")
        self.positions[name] = seq

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        await self._reach()
        found = [event for event in self.log if event.owner == owner and event.seq > after]
        # As with a database, what was found may be old when it arrives.
        for _ in range(4):
            await anyio.lowlevel.checkpoint()
        return found[:limit]
