"""One ledger for reminders and results: which turn carries an item, and what is not written yet.

Items wait for a session in a store: reminders in its document, results of runs in rows. A turn that
carries some of them to a model claims them here. They are committed when the client sees the
answer, and released if the turn fails:

    waiting ──reserve──> claimed ──commit──> owed ──settle──> delivered, in the store too
       ^                    │
       └──────release───────┘

The ledger is in memory, and knows items only by their ids. Which of them are due, how they are read
and written, and what a model reads about them is decided by their keeper. Invariants:

1. An item is held by one claim at most. A conversation may take over what a side call of its
   session holds (`Requester.outranks`); from then on the side call's claim does not hold it.
2. An item is committed once at most: only the claim that holds it can commit it, and an owed item
   is never offered again, because keepers remove the items of `list_owed` from all they read.
3. Nothing is lost. A release only forgets a claim. A process that dies forgets all claims and owed
   deliveries, and in the store their items still wait: delivery is then at least once.
4. An item is owed from the moment the client has seen it. In this process it counts as delivered at
   once, and it stays owed until a write of it has succeeded, however often that failed before.
5. Keepers await nothing between `list_held` and `reserve`, and they lock a session while they read
   it or write deliveries. Otherwise a read that overlaps such a write could return delivered items
   as if they still waited.

If several processes share a store, a keeper first reserves items in the store, by a token, and then
a claim holds them here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.waiting import Unsubscribe, Watchers


class LedgerItem(Protocol):
    """Anything with an id that waits for a session."""

    @property
    def id(self) -> str: ...
    @property
    def deliveries(self) -> int:
        """How often it was delivered."""


I = TypeVar("I", bound=LedgerItem)  # noqa: E741


class Claim(msgspec.Struct, Generic[I], frozen=True, eq=False, gc=False):
    """The items that one turn carries, until it is committed or released."""

    id: str
    key: SessionKey
    items: tuple[I, ...]
    requester: Requester = UNKNOWN
    token: str = ""
    """The reservation in a store that instances share; empty in a store of one process."""


class LedgerCounts(Protocol):
    """How many items were reserved, committed and so on since the process began."""

    reserved: int
    committed: int
    released: int
    acknowledged: int


class LedgerEvents(NamedTuple):
    """The names of the log events for the steps of a claim."""

    reserved: str
    committed: str
    released: str
    owed: str


class ItemKeeper(Protocol[I]):
    """The service that reads and writes the items of a ledger."""

    @property
    def counts(self) -> LedgerCounts: ...
    @property
    def events(self) -> LedgerEvents: ...
    @property
    def note(self) -> Callable[..., None]: ...

    def describe_claim(self, claim: Claim[I], items: tuple[I, ...]) -> Mapping[str, object]:
        """Return the log fields of a claim and its items; never their text."""

    async def write_delivered(self, key: SessionKey) -> None:
        """Write the owed deliveries of a session, and settle them; raise if the store is down."""


class Ledger(Generic[I]):
    """The claims of all sessions, and the deliveries that are not written yet."""

    def __init__(self, keeper: ItemKeeper[I]) -> None:
        self._keeper = keeper
        self._held: dict[SessionKey, dict[str, Claim[I]]] = {}
        self._owed: dict[SessionKey, dict[str, int]] = {}
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return f"<Ledger {len(self._held)} sessions reserved, {len(self._owed)} owed>"

    def list_held(self, key: SessionKey, requester: Requester = UNKNOWN) -> Container[str]:
        """Return the ids of a session's items that other turns hold against this requester."""
        held = self._held.get(key)
        # The fast case: a requester without tools outranks nobody.
        if held is None or not requester.tools:
            return held or ()
        return {item for item, claim in held.items() if not requester.outranks(claim.requester)}

    def reserve(self, claim: Claim[I]) -> None:
        """Hold items for one turn; items that an outranked claim holds are taken over."""
        self._held.setdefault(claim.key, {}).update((item.id, claim) for item in claim.items)
        self._keeper.counts.reserved += len(claim.items)
        self._log(self._keeper.events.reserved, claim, claim.items)

    def list_held_by(self, claim: Claim[I]) -> tuple[I, ...]:
        """Return the items that a claim still holds."""
        held = self._held.get(claim.key, {})
        # By identity: a second claim of an exchange has the same id.
        return tuple(item for item in claim.items if held.get(item.id) is claim)

    async def commit(self, claim: Claim[I], at_ms: int) -> None:
        """Mark the items of a claim as delivered; if that cannot be written yet, it is owed."""
        items, key = self._end_claim(claim), claim.key
        if not items:
            return
        # Before the first await: a cancel must not undo what the client has seen.
        self._owed.setdefault(key, {}).update((item.id, at_ms) for item in items)
        self._keeper.counts.committed += len(items)
        try:
            await self._keeper.write_delivered(key)
        except StoreUnavailable as error:
            # The turn does not fail: the keeper writes owed deliveries when the store is back.
            owner, session = key
            self._keeper.note(
                self._keeper.events.owed, owner=owner, session=session, why=error.message
            )
        counts = ",".join(str(item.deliveries + 1) for item in items)
        self._log(self._keeper.events.committed, claim, items, delivery_counts=counts)
        self.wake(key)

    def release(self, claim: Claim[I]) -> None:
        """Release what a claim holds: nothing if it was committed or released before."""
        if items := self._end_claim(claim):
            self._keeper.counts.released += len(items)
            self._log(self._keeper.events.released, claim, items)
            self.wake(claim.key)

    def acknowledge(self, key: SessionKey, ids: tuple[str, ...]) -> None:
        """Remove items from claims that were delivered in another way, and are written."""
        self._keeper.counts.acknowledged += len(ids)
        self._end_holds(key, ids)

    def list_owed(self, key: SessionKey) -> Mapping[str, int]:
        """Return the owed deliveries of a session: item ids with the time of delivery."""
        return self._owed.get(key, {})

    def debtors(self) -> tuple[SessionKey, ...]:
        """Return the sessions that have owed deliveries."""
        return tuple(self._owed)

    def settle(self, key: SessionKey, ids: Iterable[str]) -> None:
        """Remove deliveries that were written; later deliveries stay owed."""
        owed = self._owed.get(key, {})
        for item_id in ids:
            owed.pop(item_id, None)
        if not owed:
            self._owed.pop(key, None)

    def forget(self, key: SessionKey) -> None:
        """Forget a session that was deleted."""
        self._held.pop(key, None)
        self._owed.pop(key, None)

    def watch(self, key: SessionKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of a session's claims."""
        return self._watchers.watch(key, callback)

    def wake(self, key: SessionKey, by: Callable[[], None] | None = None) -> None:
        """Call the watchers of a session, except the caller's own callback `by`."""
        self._watchers.notify(key, by)

    def _end_claim(self, claim: Claim[I]) -> tuple[I, ...]:
        items = self.list_held_by(claim)
        self._end_holds(claim.key, (item.id for item in items))
        return items

    def _end_holds(self, key: SessionKey, ids: Iterable[str]) -> None:
        held = self._held.get(key, {})
        for item_id in ids:
            held.pop(item_id, None)
        # There may be thousands of sessions: one without claims takes no memory.
        if not held:
            self._held.pop(key, None)

    def _log(self, event: str, claim: Claim[I], items: tuple[I, ...], **more: object) -> None:
        owner, session = claim.key
        fields = self._keeper.describe_claim(claim, items)
        self._keeper.note(event, owner=owner, session=session, **fields, **more)
